"""Adapters for older code: state processors, continuation criteria and tool middleware as hooks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from hookline.errors import RegistrationError, UsageError
from hookline.lifecycle import AgentContext, StopHookContext, ToolHookContext
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
    """A state processor as a hook: `process(state)`, or `process(state, next)` in the middleware style.

    `position` says whether it belongs before a step or after one; register it with `with_hooks(adapter)`.
    """

    def __init__(self, processor: Any, position: str = "after") -> None:
        if position not in ("before", "after"):
            raise RegistrationError(f"position={position!r} is neither 'before' nor 'after'.")
        self.process = _method(processor, "process")
        self.point = f"{position}_step"
        self.name = type(processor).__name__
        self._takes_next = _required(self.process) >= 2

    async def __call__(self, ctx: AgentContext) -> AgentState:
        """Run the processor on the state; what it returns is the new state."""
        state = self.process(ctx.state, _same) if self._takes_next else self.process(ctx.state)
        if inspect.isawaitable(state):
            state = await state
        return ctx.state if state is None else state


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
            said = ContinuationEvaluation(self.name, said, f"said by {self.name}")
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
                    f"tool middleware '{self.name}' handed next a changed state, which would be lost around a tool.",
                    remedy="Pass on the state it was given; a hook at before_tool_use or after_tool_use can change it.",
                )
            return call_next(ctx if call is ctx.tool_call else ctx.with_tool_call(call))

        execution = self.process(ctx.tool_call, ctx.state, run_rest)
        if inspect.isawaitable(execution):
            execution = await execution
        if execution is None:
            reason = f"blocked by {self.name}"
            return ToolResult(None, None, ResultStatus.BLOCKED, reason=reason, decided_by=self.name)
        return execution  # type: ignore[no-any-return]


def _same(state: AgentState) -> AgentState:
    return state


def _method(thing: Any, name: str) -> Callable[..., Any]:
    method = getattr(thing, name, None)
    if callable(method) and not isinstance(thing, type):
        return method  # type: ignore[no-any-return]
    if callable(thing) and not isinstance(thing, type):
        return thing  # type: ignore[no-any-return]
    raise RegistrationError(
        f"{thing!r} has no {name}(...) method.", remedy="Pass an instance that has one."
    )


def _required(function: Callable[..., Any]) -> int:
    parameters = inspect.signature(function).parameters.values()
    return sum(
        1 for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    )
