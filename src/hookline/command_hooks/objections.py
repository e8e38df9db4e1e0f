"""Objections to the end of a run: how often hooks may keep it from stopping."""

from __future__ import annotations

from collections.abc import Container
from itertools import takewhile
from typing import Any

from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import Handler
from hookline.hooks import HookOutcome
from hookline.lifecycle import AgentContext, HookPoint, StopHookContext, SubagentHookContext
from hookline.state import AgentState, ContinuationOutcome, StopReason

ENDS = ("stop", "subagent_stop")
"""Points where a hook may object to the end."""


def is_used_up(handler: Handler, in_a_row: int) -> bool:
    """Whether a hook has objected as often in a row as its dialect allows."""
    cap = dialect_of(handler).objection_cap(handler)
    return cap is not None and in_a_row >= cap


def cap_message(times: int, wishes: str) -> str:
    """Why a run ends all the same."""
    return f"stop hooks objected {times} times in a row, which is the limit; the last: {wishes}"


def is_abandoned(ctx: AgentContext) -> bool:
    """Whether a run is about to stop because a person ended it."""
    outcome = getattr(ctx, "continuation", None)
    return outcome is not None and outcome.stop_reason is StopReason.CANCELLED


def objections_in_a_row(ctx: AgentContext) -> int:
    """How often the run, or the child in question, was kept from stopping since the last call of a tool."""
    child = getattr(getattr(ctx, "result", None), "state", None)
    if isinstance(child, AgentState):
        return max(0, _answers_at_the_end(child) - 1)
    state: AgentState = ctx.state
    return min(max(0, _answers_at_the_end(state) - 1), state.counters.objections)


def _answers_at_the_end(state: AgentState) -> int:
    """How many of the last steps called no tool. The last of them is the one that wants to stop."""
    return sum(1 for _ in takewhile(lambda step: step.is_final_response, reversed(state.steps)))


class ObjectionCap:
    """Middleware that counts the objections of all hooks except some, which have a cap of their own.

    It replaces the agent's own cap, which would count those, too.
    """

    def __init__(self, most: int, apart: Container[str]) -> None:
        self._most = most
        self._apart = apart
        self._made: dict[str, int] = {}
        """By run."""

    async def handle(self, ctx: StopHookContext | SubagentHookContext, next: Any) -> Any:
        """Override an objection above the cap."""
        said = await next(ctx)
        is_settled = ctx.continuation is not None and ctx.continuation.is_forbidden
        if is_settled or _is_continuing(ctx) or said.decided_by in self._apart:
            return said
        if not said.is_blocked and not _is_continuing(said.context):
            return said
        run_id = getattr(ctx, "child_run_id", "") or ctx.state.run_id
        made = self._made.get(run_id, 0)
        if made >= self._most:
            words = f"stop hooks objected {made} times, which is the limit; the last: {said.reason}"
            return HookOutcome.stop(words, stop_reason=StopReason.OBJECTION_LIMIT)
        self._made[run_id] = made + 1
        return said

    def forget(self, run_id: str) -> None:
        """A run is over, with its children."""
        self._made = {
            run: made
            for run, made in self._made.items()
            if run != run_id and not run.startswith(f"{run_id}/")
        }


def _is_continuing(ctx: AgentContext) -> bool:
    """Whether an evaluation already has the run continue, which is another way to object."""
    is_own = ctx.point == HookPoint.STOP
    return is_own and ContinuationOutcome.from_evaluations(ctx.evaluations).should_continue
