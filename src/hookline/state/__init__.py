"""The values of a run: messages, calls, steps, state. All are frozen; `with_...` methods make changed copies."""

from hookline.state.agent_state import NO_COUNTERS, STATE_VERSION, AgentState, Counters, Ending
from hookline.state.approvals import (
    Answer,
    CallStage,
    Decision,
    PendingApproval,
    PendingCall,
    PendingStep,
)
from hookline.state.attachments import Attachment
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
)
from hookline.state.inference import NO_USAGE, InferenceRequest, InferenceResponse, ToolSpec, Usage
from hookline.state.log import EMPTY_LOG, Log
from hookline.state.messages import (
    AssistantMessage,
    Message,
    ProviderToolUse,
    Reasoning,
    ToolMessage,
    UserMessage,
    check_transcript,
    tool_message,
)
from hookline.state.step import Step, StepType

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
    "ProviderToolUse",
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
    "render",
    "thaw",
    "tool_message",
]
