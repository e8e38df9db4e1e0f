"""Where the hooks of a page are asked: in the runs of a subagent, or from when a skill was loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookline.command_hooks.definition import Handler
from hookline.lifecycle import HookPoint
from hookline.state import AgentState

LOADED = "skills.loaded"
"""Where in the metadata of a run it is kept which skills with hooks were loaded."""
ACTIVE = "skills.active"
"""Where it is kept which one is active."""
_AROUND_CHILDREN = (HookPoint.SUBAGENT_START, HookPoint.SUBAGENT_STOP)
_ASKED = "hookline.command_hooks.once"
"""Where it is kept which hooks have had their one time."""


def is_in_scope(handler: Handler, ctx: Any) -> bool:
    """Whether a hook is asked in this run at all."""
    if handler.agent:
        if ctx.point in _AROUND_CHILDREN and ctx.name == handler.agent:
            return True
        return any(_is_child_of_that_name(state, handler.agent) for state in _states(ctx))
    if handler.skill:
        return any(handler.skill in _listed(state, LOADED) for state in _states(ctx))
    return True


def is_over(handler: Handler, ctx: Any) -> bool:
    """Whether a hook has had its one time."""
    return handler.once and any(mark_of(handler) in _listed(each, _ASKED) for each in _states(ctx))


def with_its_time_over(handler: Handler, ctx: Any) -> Any:
    """The context in which a hook has had its one time; the same where hooks cannot keep anything."""
    if "state" not in ctx.point.changes:
        return ctx
    marks = dict.fromkeys([*_listed(ctx.state, _ASKED), mark_of(handler)])
    return ctx.with_metadata(_ASKED, list(marks))


def mark_of(handler: Handler) -> str:
    """What a hook is known by where it is kept that it has had its one time."""
    return f"{handler.event} {handler.matcher}: {handler.name}"


def _is_child_of_that_name(state: AgentState, name: str) -> bool:
    return state.parent_run_id is not None and state.agent_id == name


def _listed(state: AgentState, key: str) -> list[Any]:
    found = state.get(key)
    return found if isinstance(found, list) else []


def _states(ctx: Any) -> Iterator[AgentState]:
    """The state of this run, and of those above it."""
    yield ctx.state
    above = None if ctx.run is None else ctx.run.parent
    while above is not None:
        yield above.state
        above = above.parent
