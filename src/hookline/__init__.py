"""Hookline: an agent runtime in which hooks decide every step, every tool call and every stop.

Names are loaded from their packages when they are first used, so that `import hookline` is fast.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookline import lazy

if TYPE_CHECKING:
    from hookline.agent import Agent, AgentBuilder, RunResult, hook, on
    from hookline.flow import ErrorPolicy
    from hookline.hooks import (
        CallableMatcher,
        CompositeMatcher,
        EventTypeMatcher,
        HookOutcome,
        ToolNameMatcher,
    )
    from hookline.journal import SQLiteJournal
    from hookline.lifecycle import (
        AfterStepHookContext,
        AfterToolHookContext,
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
    from hookline.state import (
        AgentState,
        ContinuationDecision,
        ContinuationEvaluation,
        ContinuationOutcome,
        Decision,
        RunStatus,
        StopReason,
        ToolCall,
        ToolResult,
    )
    from hookline.tools import ToolContext, tool

__version__ = "0.1.0"

__all__ = [
    "AfterStepHookContext",
    "AfterToolHookContext",
    "Agent",
    "AgentBuilder",
    "AgentState",
    "CallableMatcher",
    "CompactHookContext",
    "CompositeMatcher",
    "ContinuationDecision",
    "ContinuationEvaluation",
    "ContinuationOutcome",
    "Decision",
    "ErrorPolicy",
    "EventTypeMatcher",
    "ExecutionHookContext",
    "FailureHookContext",
    "HookOutcome",
    "HookPoint",
    "HookStack",
    "InferenceHookContext",
    "OutputHookContext",
    "PromptHookContext",
    "RunResult",
    "RunStatus",
    "SQLiteJournal",
    "SessionHookContext",
    "StepHookContext",
    "StopHookContext",
    "StopReason",
    "SubagentHookContext",
    "ToolCall",
    "ToolContext",
    "ToolHookContext",
    "ToolNameMatcher",
    "ToolResult",
    "backtest",
    "hook",
    "on",
    "replay",
    "tool",
]

_PACKAGES = {
    "agent": "Agent AgentBuilder RunResult hook on",
    "flow": "ErrorPolicy",
    "hooks": "CallableMatcher CompositeMatcher EventTypeMatcher HookOutcome ToolNameMatcher",
    "journal": "SQLiteJournal",
    "lifecycle": (
        "AfterStepHookContext AfterToolHookContext CompactHookContext ExecutionHookContext "
        "FailureHookContext HookPoint HookStack InferenceHookContext OutputHookContext "
        "PromptHookContext SessionHookContext StepHookContext StopHookContext SubagentHookContext "
        "ToolHookContext"
    ),
    "playback": "backtest replay",
    "state": (
        "AgentState ContinuationDecision ContinuationEvaluation ContinuationOutcome Decision "
        "RunStatus StopReason ToolCall ToolResult"
    ),
    "tools": "ToolContext tool",
}
"""The names of each package."""

_MOVED: dict[str, str] = {
    "Attachment": "state.Attachment",
    "Capability": "agent.Capability",
    "ContinuationCriterionAdapter": "adapters.ContinuationCriterionAdapter",
    "ErrorAction": "flow.ErrorAction",
    "ErrorClass": "flow.ErrorClass",
    "HookError": "errors.HookError",
    "HooklineError": "errors.HooklineError",
    "InferenceRequest": "state.InferenceRequest",
    "InferenceResponse": "state.InferenceResponse",
    "Limits": "flow.RunLimits",
    "Matcher": "hooks.Matcher",
    "MetadataMatcher": "hooks.MetadataMatcher",
    "ModelError": "errors.ModelError",
    "PendingApproval": "state.PendingApproval",
    "Session": "sessions.Session",
    "Sessions": "sessions.Sessions",
    "StateProcessorAdapter": "adapters.StateProcessorAdapter",
    "Step": "state.Step",
    "StepTypeMatcher": "hooks.StepTypeMatcher",
    "Tool": "tools.Tool",
    "ToolArgsMatcher": "hooks.ToolArgsMatcher",
    "ToolError": "errors.ToolError",
    "ToolMiddlewareAdapter": "adapters.ToolMiddlewareAdapter",
    "Usage": "state.Usage",
}
"""Names that can be imported from here until 0.2, with a warning, and where they are now."""

_load = lazy.names_from(__name__, _PACKAGES)


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        return _load(name)
    package, _, new = _MOVED[name].rpartition(".")
    warnings.warn(
        f"hookline.{name} has moved: import {new} from hookline.{package}. Version 0.2 removes it from hookline.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(import_module(f"hookline.{package}"), new)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
