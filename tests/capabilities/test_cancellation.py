"""Cancelling from outside: by hand, at a deadline, on a signal, and for everything below."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus, SQLiteJournal, ToolContext, tool
from hookline.capabilities import Cancellation
from hookline.errors import BuildError, UsageError
from hookline.testing import ScriptedDriver, call, say


def waiting(cancellation: Cancellation, started: asyncio.Event | None = None) -> Any:
    """A builder whose model calls a tool that never ends."""

    @tool
    async def wait() -> str:
        """Wait forever."""
        if started is not None:
            started.set()
        await asyncio.Event().wait()
        return ""

    driver = ScriptedDriver([call("wait"), say("done")])
    return AgentBuilder().with_driver(driver).with_tools(wait).with_capability(cancellation)


async def test_a_call_ends_every_run_of_every_agent() -> None:
    """One switch ends the runs of two agents in the middle of their tools, and says how many there were."""
    switch = Cancellation()
    events = [asyncio.Event(), asyncio.Event()]
    runs = [asyncio.create_task(waiting(switch, event).build().run("go")) for event in events]
    for event in events:
        await event.wait()
    assert switch.cancel("enough") == 2
    results = await asyncio.gather(*runs)
    assert [result.status for result in results] == [RunStatus.CANCELLED] * 2
    assert "enough" in results[0].explain()


async def test_it_may_come_from_another_thread() -> None:
    """A thread that knows nothing of the loop can cancel."""
    switch, started = Cancellation(), asyncio.Event()
    run = asyncio.create_task(waiting(switch, started).build().run("go"))
    await started.wait()
    threading.Thread(target=switch.cancel, args=("from a thread",)).start()
    assert (await run).status is RunStatus.CANCELLED


async def test_once_used_nothing_starts_until_it_is_reset() -> None:
    """A run begun after the call ends before its first step; after a reset it goes."""
    switch = Cancellation()
    driver = ScriptedDriver([say("done")])
    agent = AgentBuilder().with_driver(driver).with_capability(switch).build()
    assert switch.cancel("closed") == 0
    result = await agent.run("go")
    assert (result.status, driver.requests, switch.is_cancelled) == (RunStatus.CANCELLED, [], True)
    switch.reset()
    assert (await agent.run("go")).text == "done"


@pytest.mark.parametrize("way", ["run", "stream", "iterate"])
async def test_a_time_interrupts_what_is_in_progress(way: str) -> None:
    """However the run is driven, it ends in the middle of the tool when its time is over."""
    agent = waiting(Cancellation(seconds=0.05)).build()
    if way == "run":
        result = await agent.run("go")
    else:
        stream = getattr(agent, way)("go")
        async for _ in stream:
            pass
        result = stream.result
    assert result.status is RunStatus.CANCELLED
    assert "its 0.05 s are over" in result.explain()


async def test_a_deadline_holds_over_a_resume(tmp_path: Path) -> None:
    """A run that paused before its deadline and is resumed after it does nothing more."""
    switch = Cancellation(at=datetime.now(UTC) + timedelta(hours=1))
    journal = SQLiteJournal(tmp_path / "runs.db")
    used: list[str] = []

    def build(cancellation: Cancellation) -> Any:
        @tool
        def pay() -> str:
            """Pay."""
            used.append("paid")
            return "paid"

        driver = ScriptedDriver([call("pay"), say("done")])
        builder = AgentBuilder().with_driver(driver).with_tools(pay).with_journal(journal)
        builder.add_hook("before_tool_use", _ask, tier="policy")
        return builder.with_capability(cancellation).build()

    paused = await build(switch).run("go", run_id="r")
    assert paused.status is RunStatus.PAUSED
    late = build(Cancellation(at=datetime.now(UTC) - timedelta(seconds=1)))
    result = await late.resume("r", {paused.pending[0].id: True})
    assert (result.status, used) == (RunStatus.CANCELLED, [])
    assert "has passed" in result.explain()
    await journal.close()


def _ask(ctx: Any) -> Any:
    from hookline import HookOutcome

    return HookOutcome.ask("sure?")


async def test_children_end_with_the_run() -> None:
    """A child that is in the middle of something is cancelled with its parent."""
    switch, started = Cancellation(), asyncio.Event()
    child = waiting(Cancellation(name="unused"), started).build()
    statuses: list[Any] = []

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand on."""
        return (await context.spawn(child, "go")).text

    driver = ScriptedDriver([call("delegate"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(delegate).with_capability(switch)
    builder.on_event(lambda r: statuses.append(r.status) if r.type == "status" else None)
    run = asyncio.create_task(builder.build().run("go"))
    await started.wait()
    switch.cancel()
    assert (await run).status is RunStatus.CANCELLED
    assert statuses == [RunStatus.CANCELLED, RunStatus.CANCELLED]


async def test_a_signal_ends_the_runs_and_its_handler_is_put_back() -> None:
    """The first signal cancels; afterwards the process handles it as before."""
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        started = asyncio.Event()
        agent = waiting(Cancellation(signals=(signal.SIGUSR1,)), started).build()
        run = asyncio.create_task(agent.run("go"))
        await started.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
        result = await run
        assert (result.status, heard) == (RunStatus.CANCELLED, [])
        assert "SIGUSR1" in result.explain()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert heard == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signals_need_the_main_thread() -> None:
    """Elsewhere the run fails with what to do instead, and nothing is left behind."""
    agent = waiting(Cancellation(signals=(signal.SIGUSR1,))).build()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(agent.run_sync("go")))
    thread.start()
    thread.join()
    assert results[0].status is RunStatus.FAILED
    assert isinstance(results[0].error, UsageError)
    assert "main thread" in str(results[0].error)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seconds": 0}, "seconds=0 is not a number above 0"),
        ({"seconds": True}, "seconds=True is not a number above 0"),
        ({"at": datetime(2030, 1, 1)}, "time zone"),
        ({"signals": ("TERM",)}, "signals="),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], words: str) -> None:
    """Every wrong option is named, with what to write instead."""
    with pytest.raises(BuildError, match=words):
        Cancellation(**options)


def test_a_builder_takes_only_what_can_watch() -> None:
    """The builder says what a source of cancellation is."""
    with pytest.raises(BuildError, match="cannot cancel runs"):
        AgentBuilder().with_cancel_source(object())  # type: ignore[arg-type]
