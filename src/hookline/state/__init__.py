"""What a run is: frozen data, and no behaviour beyond deriving more of it."""

from hookline.state.agent_state import (
    NO_COUNTERS,
    STATE_VERSION,
    AgentState,
    Counters,
    Ending,
)
from hookline.state.approvals import (
    Answer,
    CallStage,
    Decision,
    PendingApproval,
    PendingCall,
    PendingStep,
    remembered_answer,
    to_remember,
)
from hookline.state.calls import ErrorInfo, ResultStatus, ToolCall, ToolResult, render
from hookline.state.continuation import (
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    RunStatus,
    StopReason,
)
from hookline.state.frozen import (
    EMPTY,
    FrozenDict,
    FrozenList,
    JSONValue,
    checked_text,
    freeze,
    freeze_dict,
    thaw,
    valid_text,
)
from hookline.state.inference import InferenceRequest, InferenceResponse, ToolSpec
from hookline.state.log import EMPTY_LOG, Log
from hookline.state.messages import (
    AssistantMessage,
    Attachment,
    Message,
    Reasoning,
    ToolMessage,
    UserMessage,
    check_transcript,
    tool_message,
)
from hookline.state.step import Step, StepType
from hookline.state.usage import NO_USAGE, Usage

__all__ = [
    "EMPTY",
    "EMPTY_LOG",
    "NO_COUNTERS",
    "NO_USAGE",
    "STATE_VERSION",
    "AgentState",
    "Answer",
    "AssistantMessage",
    "Attachment",
    "CallStage",
    "ContinuationDecision",
    "ContinuationEvaluation",
    "ContinuationOutcome",
    "Counters",
    "Decision",
    "Ending",
    "ErrorInfo",
    "FrozenDict",
    "FrozenList",
    "InferenceRequest",
    "InferenceResponse",
    "JSONValue",
    "Log",
    "Message",
    "PendingApproval",
    "PendingCall",
    "PendingStep",
    "Reasoning",
    "ResultStatus",
    "RunStatus",
    "Step",
    "StepType",
    "StopReason",
    "ToolCall",
    "ToolMessage",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "UserMessage",
    "check_transcript",
    "checked_text",
    "freeze",
    "freeze_dict",
    "remembered_answer",
    "render",
    "thaw",
    "to_remember",
    "tool_message",
    "valid_text",
]
