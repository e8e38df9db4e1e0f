"""Every hook point of an agent, and what hooks are shown there."""

from hookline.lifecycle.contexts import (
    AfterStepHookContext,
    AfterToolHookContext,
    AgentContext,
    CompactHookContext,
    ExecutionHookContext,
    FailureHookContext,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    RunHandle,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.lifecycle.points import HookPoint, point_named
from hookline.lifecycle.stack import HookStack

__all__ = [
    "AfterStepHookContext",
    "AfterToolHookContext",
    "AgentContext",
    "CompactHookContext",
    "ExecutionHookContext",
    "FailureHookContext",
    "HookPoint",
    "HookStack",
    "InferenceHookContext",
    "OutputHookContext",
    "PromptHookContext",
    "RunHandle",
    "SessionHookContext",
    "StepHookContext",
    "StopHookContext",
    "SubagentHookContext",
    "ToolHookContext",
    "point_named",
]
