"""How often hooks of other agents may keep a run from stopping: so many times in a row, as they do there."""

from __future__ import annotations

import os
from itertools import takewhile
from typing import Any

from hookline.command_hooks.definition import Handler
from hookline.state import AgentState

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
