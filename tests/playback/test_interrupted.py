"""Replay of runs that somebody outside wanted to end: the stop is taken for what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome
from hookline.journal import MemoryJournal
from hookline.playback import replay
from hookline.state import RunStatus, StopReason
from hookline.testing import ScriptedDriver, call, say


def between(ctx: Any) -> Any:
    """Between steps, as an evaluation."""
    return ctx.forbid("interrupted", StopReason.CANCELLED)


def before(ctx: Any) -> HookOutcome | None:
    """Before the second step, as a verdict."""
    if not ctx.state.step_count:
        return None
    return HookOutcome.stop("interrupted", stop_reason=StopReason.CANCELLED)


def agent(journal: MemoryJournal | None, at: str, hook: Callable[[Any], Any] | None) -> Any:
    """An agent with a hook that hears a signal, if somebody sends one."""
    turns = [call("nap"), call("nap"), say("done")]
    builder = AgentBuilder().with_driver(ScriptedDriver(turns))
    if journal is not None:
        builder = builder.with_journal(journal)

    def nap() -> str:
        """Sleep."""
        return "slept"

    def interrupt(ctx: Any) -> Any:
        return hook(ctx) if hook is not None else None

    return getattr(builder.with_tools(nap), f"on_{at}")(interrupt, name="interrupt").build()


@pytest.mark.parametrize(("at", "hook"), [("should_continue", between), ("before_step", before)])
async def test_a_stop_from_outside_is_played_as_it_was(at: str, hook: Any) -> None:
    """Though nobody sends a signal now."""
    journal = MemoryJournal()
    result = await agent(journal, at, hook).run("go", run_id="run")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.CANCELLED)
    replayed = await replay(journal, "run", agent(None, at, None))
    assert replayed.identical, replayed
    assert replayed.result.stop_reason is StopReason.CANCELLED


async def test_a_stop_that_was_not_from_outside_is_judged_anew() -> None:
    """A hook that no longer ends the run makes a difference."""
    journal = MemoryJournal()
    await agent(journal, "before_step", lambda ctx: HookOutcome.stop("no")).run("go", run_id="run")
    assert not (await replay(journal, "run", agent(None, "before_step", None))).identical
