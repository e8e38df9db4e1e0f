"""Where a builder takes hooks: one method for each point, and those for hooks that say themselves where they go."""

from __future__ import annotations

from typing import Any, Self, Unpack

from hookline.agent.decorators import registrations_of
from hookline.agent.registrar import AroundFn, HookFn, Registrar
from hookline.hooks import (
    HookLike,
    HookOptions,
    Options,
    Point,
    Registration,
    name_of,
    register,
)
from hookline.lifecycle import (
    CompactHookContext,
    ExecutionHookContext,
    FailureHookContext,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
    point_named,
)
from hookline.state import InferenceResponse, ToolResult


class TakesHooks:
    """The part of a builder that takes hooks."""

    __slots__ = ()

    on_session_start = Registrar[HookFn[SessionHookContext]](HookPoint.SESSION_START)
    on_execution_start = Registrar[HookFn[ExecutionHookContext]](HookPoint.EXECUTION_START)
    on_prompt_submit = Registrar[HookFn[PromptHookContext]](HookPoint.PROMPT_SUBMIT)
    on_before_step = Registrar[HookFn[StepHookContext]](HookPoint.BEFORE_STEP)
    on_before_inference = Registrar[HookFn[InferenceHookContext]](HookPoint.BEFORE_INFERENCE)
    around_inference = Registrar[AroundFn[InferenceHookContext, InferenceResponse]](
        HookPoint.AROUND_INFERENCE
    )
    on_after_inference = Registrar[HookFn[InferenceHookContext]](HookPoint.AFTER_INFERENCE)
    on_before_tool_use = Registrar[HookFn[ToolHookContext]](HookPoint.BEFORE_TOOL_USE)
    on_permission_request = Registrar[HookFn[ToolHookContext]](HookPoint.PERMISSION_REQUEST)
    around_tool_use = Registrar[AroundFn[ToolHookContext, ToolResult]](HookPoint.AROUND_TOOL_USE)
    on_after_tool_use = Registrar[HookFn[ToolHookContext]](HookPoint.AFTER_TOOL_USE)
    on_after_step = Registrar[HookFn[StepHookContext]](HookPoint.AFTER_STEP)
    on_should_continue = Registrar[HookFn[StopHookContext]](HookPoint.SHOULD_CONTINUE)
    on_stop = Registrar[HookFn[StopHookContext]](HookPoint.STOP)
    on_output = Registrar[HookFn[OutputHookContext]](HookPoint.OUTPUT)
    on_execution_end = Registrar[HookFn[ExecutionHookContext]](HookPoint.EXECUTION_END)
    on_error = Registrar[HookFn[FailureHookContext]](HookPoint.ERROR)
    on_agent_failed = Registrar[HookFn[FailureHookContext]](HookPoint.AGENT_FAILED)
    on_subagent_start = Registrar[HookFn[SubagentHookContext]](HookPoint.SUBAGENT_START)
    on_subagent_stop = Registrar[HookFn[SubagentHookContext]](HookPoint.SUBAGENT_STOP)
    on_before_compact = Registrar[HookFn[CompactHookContext]](HookPoint.BEFORE_COMPACT)
    on_session_end = Registrar[HookFn[SessionHookContext]](HookPoint.SESSION_END)

    def _add(self, registration: Registration) -> Self:
        """Take a hook that is checked, and give the builder back."""
        raise NotImplementedError

    def add_hook(
        self,
        point: Point[Any] | str,
        hook: HookLike,
        **options: Unpack[HookOptions],
    ) -> Self:
        """Register a hook at any point, by the point or by any of its names (`PreToolUse`)."""
        who = f"hook '{options.get('name') or name_of(hook)}'"
        return self._add(register(point_named(point, who), hook, Options(**options)))

    def with_hooks(self, *hooks: Any) -> Self:
        """Hooks that say where they go: decorated functions, objects with decorated methods, registrations."""
        for each in hooks:
            for registration in registrations_of(each):
                self._add(registration)
        return self
