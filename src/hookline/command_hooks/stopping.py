"""How often hooks of other agents may keep a run from stopping: so many times in a row, as they do there."""

from __future__ import annotations

import os
from collections.abc import Container
from itertools import takewhile
from typing import Any

from hookline.command_hooks.definition import Handler
from hookline.hooks import HookOutcome
from hookline.lifecycle import HookPoint
from hookline.state import AgentState, ContinuationOutcome, StopReason

ENDS = ("stop", "subagent_stop")
"""Points where a hook may object to the end."""
_VARIABLE = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
_IN_A_ROW = 8


def cap_of(handler: Handler) -> int | None:
    """How often in a row a hook may object. None: as often as any hook may, or as its own file says."""
    dialect = handler.source.dialect
    if dialect in ("hookline", "cursor"):
        return None
    if dialect != "claude":
        return _IN_A_ROW
    # What settings say goes before what the shell says; zero, and less, is no cap.
    said = handler.env.get(_VARIABLE, os.environ.get(_VARIABLE, "")).strip()
    try:
        cap = int(said)
    except ValueError:
        return _IN_A_ROW
    return cap if cap > 0 else None


def is_used_up(handler: Handler, in_a_row: int) -> bool:
    """Whether a hook has objected as often as it may while no tool was called."""
    cap = cap_of(handler)
    return cap is not None and in_a_row >= cap


def used_up(times: int, wishes: str) -> str:
    """Why a run ends all the same."""
    return f"stop hooks objected {times} times in a row, which is the limit; the last: {wishes}"


def objections_in_a_row(ctx: Any) -> int:
    """How often the run, or the child in question, was kept from stopping since a tool was last called."""
    child = getattr(getattr(ctx, "result", None), "state", None)
    if isinstance(child, AgentState):
        return max(0, _answers_at_the_end(child) - 1)
    state: AgentState = ctx.state
    return min(max(0, _answers_at_the_end(state) - 1), state.counters.objections)


def _answers_at_the_end(state: AgentState) -> int:
    """How many steps, from the last one back, called no tool. The last one is the one that wants to stop."""
    return sum(1 for _ in takewhile(lambda step: step.is_final_response, reversed(state.steps)))


class CapOfOthers:
    """Counts the objections of all hooks but some, which count for themselves: middleware, around all of them.

    It stands in for the agent's own cap where that is lifted, because it would count those too.
    """

    def __init__(self, most: int, apart: Container[str]) -> None:
        self._most = most
        self._apart = apart
        self._made: dict[str, int] = {}
        """By run; of a child those that sent it back to work."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        """Let them say what they have to say, so often and no more."""
        said = await next(ctx)
        is_settled = ctx.continuation is not None and ctx.continuation.is_forbidden
        if is_settled or _goes_on(ctx) or said.decided_by in self._apart:
            return said
        if not said.is_blocked and not _goes_on(said.context):
            return said
        run_id = getattr(ctx, "child_run_id", "") or ctx.state.run_id
        made = self._made.get(run_id, 0)
        if made >= self._most:
            words = f"stop hooks objected {made} times, which is the limit; the last: {said.reason}"
            return HookOutcome.stop(words, stop_reason=StopReason.OBJECTION_LIMIT)
        self._made[run_id] = made + 1
        return said

    def forget(self, run_id: str) -> None:
        """A run is over, and so are its children."""
        self._made = {
            run: made
            for run, made in self._made.items()
            if run != run_id and not run.startswith(f"{run_id}/")
        }


def _goes_on(ctx: Any) -> bool:
    """Whether a run goes on by what was evaluated so far: another way to object, and heard by the hooks' tier."""
    is_own = ctx.point == HookPoint.STOP
    return is_own and ContinuationOutcome.from_evaluations(ctx.evaluations).should_continue
