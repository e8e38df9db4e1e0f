"""Hookline: an agent runtime in which hooks are the skeleton.

Names are loaded from their rooms when they are first used, so that `import hookline` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookline.agent import (
        Agent,
        AgentBuilder,
        Capability,
        ContinuationCriterionAdapter,
        RunResult,
        StateProcessorAdapter,
        ToolMiddlewareAdapter,
        hook,
        on,
    )
    from hookline.errors import HookError, HooklineError, ModelError, ToolError
    from hookline.flow import ErrorAction, ErrorClass, ErrorPolicy, Limits
    from hookline.hooks import (
        CallableMatcher,
        CompositeMatcher,
        EventTypeMatcher,
        HookOutcome,
        MetadataMatcher,
        StepTypeMatcher,
        ToolArgsMatcher,
        ToolNameMatcher,
    )
    from hookline.journal import SQLiteJournal
    from hookline.lifecycle import (
        CompactHookContext,
        ExecutionHookContext,
        FailureHookContext,
        HookPoint,
        HookStack,
        InferenceHookContext,
        OutputHookContext,
        PromptHookContext,
        SessionHookContext,
        StepHookContext,
        StopHookContext,
        SubagentHookContext,
        ToolHookContext,
    )
    from hookline.playback import backtest, replay
    from hookline.sessions import Session, Sessions
    from hookline.state import (
        AgentState,
        Attachment,
        ContinuationDecision,
        ContinuationEvaluation,
        ContinuationOutcome,
        Decision,
        InferenceRequest,
        InferenceResponse,
        PendingApproval,
        RunStatus,
        Step,
        StopReason,
        ToolCall,
        ToolResult,
        Usage,
    )
    from hookline.tools import Tool, ToolContext, tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentBuilder",
    "AgentState",
    "Attachment",
    "CallableMatcher",
    "Capability",
    "CompactHookContext",
    "CompositeMatcher",
    "ContinuationCriterionAdapter",
    "ContinuationDecision",
    "ContinuationEvaluation",
    "ContinuationOutcome",
    "Decision",
    "ErrorAction",
    "ErrorClass",
    "ErrorPolicy",
    "EventTypeMatcher",
    "ExecutionHookContext",
    "FailureHookContext",
    "HookError",
    "HookOutcome",
    "HookPoint",
    "HookStack",
    "HooklineError",
    "InferenceHookContext",
    "InferenceRequest",
    "InferenceResponse",
    "Limits",
    "MetadataMatcher",
    "ModelError",
    "OutputHookContext",
    "PendingApproval",
    "PromptHookContext",
    "RunResult",
    "RunStatus",
    "SQLiteJournal",
    "Session",
    "SessionHookContext",
    "Sessions",
    "StateProcessorAdapter",
    "Step",
    "StepHookContext",
    "StepTypeMatcher",
    "StopHookContext",
    "StopReason",
    "SubagentHookContext",
    "Tool",
    "ToolArgsMatcher",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolHookContext",
    "ToolMiddlewareAdapter",
    "ToolNameMatcher",
    "ToolResult",
    "Usage",
    "backtest",
    "hook",
    "on",
    "replay",
    "tool",
]

_ROOMS = (
    "errors",
    "state",
    "lifecycle",
    "hooks",
    "flow",
    "journal",
    "tools",
    "agent",
    "sessions",
    "playback",
)
"""The lifecycle before the engine: its HookStack knows the points by name."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for room in _ROOMS:
            module = import_module(f"hookline.{room}")
            if name in getattr(module, "__all__", ()) or (
                room == "errors" and hasattr(module, name)
            ):
                globals()[name] = value = getattr(module, name)
                return value
    raise AttributeError(f"module 'hookline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
