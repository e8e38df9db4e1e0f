"""The skeleton: every hook point of an agent's life, and what hooks are shown there."""

from hookline.lifecycle.contexts import (
    AgentContext,
    CompactHookContext,
    ExecutionHookContext,
    FailureHookContext,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    RunHandle,
    SessionHookContext,
    Spent,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.lifecycle.points import HookPoint, HookStack, point_named

__all__ = [
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
    "Spent",
    "StepHookContext",
    "StopHookContext",
    "SubagentHookContext",
    "ToolHookContext",
    "point_named",
]
