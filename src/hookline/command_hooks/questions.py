"""Questions that hooks were asked before a run paused: who resumes it has the answer, and nobody is asked again."""

from __future__ import annotations

from typing import Any

_PUT = "hookline.command_hooks.put"
"""Where in the metadata it is kept which calls of a step have been asked about."""


class Questions:
    """Which calls hooks were asked about when somebody else wanted a person's yes."""

    def __init__(self) -> None:
        self._here: set[tuple[str, str]] = set()
        """Those that were put since the run began, or was resumed, by run and mark."""

    def is_put(self, ctx: Any) -> bool:
        """Whether hooks were asked about this very call before the run paused."""
        mark = _mark(ctx)
        return mark in _marks(ctx) and (ctx.state.run_id, mark) not in self._here

    def put(self, ctx: Any) -> Any:
        """All hooks were asked about a call. Those that only look on come after this, and are still told."""
        mark, before = _mark(ctx), _marks(ctx)
        if mark in before:
            return None
        self._here.add((ctx.state.run_id, mark))
        step = f"{ctx.step_index} "
        return ctx.with_metadata(_PUT, [*(each for each in before if each.startswith(step)), mark])

    def forget(self, run_id: str) -> None:
        """A run is over, or waits."""
        self._here = {each for each in self._here if each[0] != run_id}


def _mark(ctx: Any) -> str:
    # It is kept in the state: a fingerprint of the exact call would let somebody guess a secret in it.
    call = ctx.tool_call if ctx.live is None else ctx.live.shown(ctx.tool_call)
    return f"{ctx.step_index} {call.id} {call.fingerprint()}"


def _marks(ctx: Any) -> list[str]:
    found = ctx.state.get(_PUT)
    return found if isinstance(found, list) else []
