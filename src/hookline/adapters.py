"""Adapters for older code: state processors, continuation criteria and tool middleware as hooks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from hookline._aio import call_with_next, is_async_callable
from hookline.errors import RegistrationError, UsageError
from hookline.hooks.match import NEXT, positional, second_parameter
from hookline.lifecycle import AgentContext, StepHookContext, StopHookContext, ToolHookContext
from hookline.state import (
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ResultStatus,
    ToolCall,
    ToolResult,
)

__all__ = [
    "ContinuationCriteriaAdapter",
    "ContinuationCriterionAdapter",
    "StateProcessorAdapter",
    "ToolMiddlewareAdapter",
]


class _AtItsPoint:
    """An adapter says where it runs, so that `with_hooks(adapter)` needs no point."""

    point: str

    def event(self) -> str:
        """The point where it runs."""
        return self.point


class StateProcessorAdapter(_AtItsPoint):
    """A state processor as a hook: `process(state)` before or after each step, `process(state, next)` around it.

    `next(state)` makes the step and gives the state after it; an async processor awaits it. `position` is for
    `process(state)`. Register it with `with_hooks(adapter)`.
    """

    def __init__(self, processor: Any, position: str = "after") -> None:
        if position not in ("before", "after"):
            raise RegistrationError(f"position={position!r} is neither 'before' nor 'after'.")
        self.process = _method(processor, "process")
        is_wrapper = _has_next(self.process)
        self.point = "around_step" if is_wrapper else f"{position}_step"
        self.name = type(processor).__name__
        self.handle: Callable[..., Any] = self._wrap if is_wrapper else self._change
        """What the agent calls."""

    async def _change(self, ctx: AgentContext) -> AgentState:
        """Run the processor on the state; what it returns is the new state."""
        state = self.process(ctx.state)
        if inspect.isawaitable(state):
            state = await state
        return ctx.state if state is None else state

    async def _wrap(
        self,
        ctx: StepHookContext,
        call_next: Callable[[StepHookContext], Awaitable[StepHookContext]],
    ) -> Any:
        """Run the processor around the step. Where it is sync, it waits for the step in a thread."""
        made = ctx

        async def make_step(state: AgentState) -> AgentState:
            nonlocal made
            made = await call_next(ctx if state is ctx.state else made.with_state(state))
            return made.state

        if is_async_callable(self.process):
            state = await self.process(ctx.state, make_step)
        else:
            state = await call_with_next(self.process, ctx.state, make_step)
        if inspect.isawaitable(state):
            state = await state
        if state is None:
            return made
        return made.with_state(state) if isinstance(state, AgentState) else state


class ContinuationCriterionAdapter(_AtItsPoint):
    """A continuation criterion as a hook at should_continue: `evaluate(state)` or `decide(state)`.

    It may answer with a ContinuationDecision, a ContinuationEvaluation, or a bool (True: continue, False: stop).
    """

    point = "should_continue"

    def __init__(self, criterion: Any) -> None:
        self.name = type(criterion).__name__
        for method in ("evaluate", "decide", "can_continue"):
            if callable(getattr(criterion, method, None)):
                self._ask: Callable[[AgentState], Any] = getattr(criterion, method)
                return
        if not callable(criterion):
            raise RegistrationError(
                f"{criterion!r} is not a criterion.", remedy="It needs evaluate(state)."
            )
        self._ask = criterion
        self.name = getattr(criterion, "__name__", self.name)

    async def __call__(self, ctx: StopHookContext) -> ContinuationEvaluation | None:
        """Ask the criterion."""
        said = self._ask(ctx.state)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, bool):
            said = (
                ContinuationDecision.ALLOW_CONTINUATION if said else ContinuationDecision.ALLOW_STOP
            )
        if isinstance(said, ContinuationDecision):
            said = ContinuationEvaluation(
                source=self.name, decision=said, reason=f"said by {self.name}"
            )
        return said  # type: ignore[no-any-return]


ContinuationCriteriaAdapter = ContinuationCriterionAdapter
"""The same, under the name that it has in older code."""


class ToolMiddlewareAdapter(_AtItsPoint):
    """Onion middleware `process(call, state, next)` as a hook around tools.

    `next(call, state)` runs the rest and gives the execution. Returning None blocks, as it did there. The
    state is for reading: calls run concurrently, so none of them can hand on a changed one.
    """

    point = "around_tool_use"

    def __init__(self, middleware: Any) -> None:
        self.process = _method(middleware, "process")
        self.name = type(middleware).__name__

    async def __call__(
        self, ctx: ToolHookContext, call_next: Callable[[ToolHookContext], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the middleware around the tool."""

        def run_rest(call: ToolCall, state: AgentState | None = None) -> Awaitable[ToolResult]:
            if state is not None and state is not ctx.state and state != ctx.state:
                raise UsageError(
                    f"tool middleware '{self.name}' passed a changed state to next, where the change would be lost.",
                    remedy="Pass the state that it got; a hook at before_tool_use or after_tool_use can change it.",
                )
            return call_next(ctx if call is ctx.tool_call else ctx.with_tool_call(call))

        execution = self.process(ctx.tool_call, ctx.state, run_rest)
        if inspect.isawaitable(execution):
            execution = await execution
        if execution is None:
            reason = f"blocked by {self.name}"
            return ToolResult(status=ResultStatus.BLOCKED, reason=reason, decided_by=self.name)
        return execution  # type: ignore[no-any-return]


def _method(thing: Any, name: str) -> Callable[..., Any]:
    method = getattr(thing, name, None)
    if callable(method) and not isinstance(thing, type):
        return method  # type: ignore[no-any-return]
    if callable(thing) and not isinstance(thing, type):
        return thing  # type: ignore[no-any-return]
    raise RegistrationError(
        f"{thing!r} has no {name}(...) method.", remedy="Pass an instance that has one."
    )


def _has_next(process: Callable[..., Any]) -> bool:
    """Whether it is `process(state, next)`."""
    second = second_parameter(process)
    if second not in NEXT and positional(process)[0] > 1:
        raise RegistrationError(
            f"{process!r} takes more than the state, and its second parameter is named {second!r}.",
            remedy="Write process(state), or process(state, next) to wrap the step.",
        )
    return second in NEXT
