"""A process leaves its runs to others, after the step that each of them makes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hookline import Agent, AgentBuilder, RunStatus, SQLiteJournal, replay, tool
from hookline.agent.children import fail_idle, take_back_end
from hookline.errors import RunHandedOverError
from hookline.journal import JournalStore, RunFinished, reopen, story_of
from hookline.testing import Scripted, ScriptedDriver, call, say


def build(journal: JournalStore | None, done: list[int], *turns: Scripted) -> Agent:
    """An agent that hands its runs over when it pays."""

    @tool(effect="once")
    async def pay(number: int) -> str:
        """Pay."""
        done.append(number)
        made[0].hand_over()
        await asyncio.sleep(0)
        return f"paid {number}"

    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(pay)
    builder.on_execution_end(lambda ctx: done.append(-1), name="end")
    made = [(builder if journal is None else builder.with_journal(journal)).build()]
    return made[0]


async def test_a_run_is_left_after_its_step(tmp_path: Path) -> None:
    """Its step is whole and on record, nothing says that the run ended, and another agent continues it."""
    journal, done = SQLiteJournal(tmp_path / "runs.db"), list[int]()
    agent = build(journal, done, call("pay", number=1), say("never"))
    with pytest.raises(RunHandedOverError, match="run 'r' is left to another process"):
        await agent.run("Pay.", run_id="r")
    records = await journal.read("r")
    assert records[-1].type == "step"
    assert done == [1]
    (info,) = await journal.runs()
    assert (info.status, info.steps) == (RunStatus.RUNNING, 1)
    result = await build(journal, done, say("paid")).resume("r")
    assert (result.text, len(result.steps), done) == ("paid", 2, [1, -1])
    assert agent.hand_over() == 0


async def test_a_run_without_a_journal_is_not_left() -> None:
    """Nobody could continue it."""
    done: list[int] = []
    result = await build(None, done, call("pay", number=1), say("paid")).run("Pay.")
    assert (result.text, done) == ("paid", [1, -1])


async def test_a_run_that_nobody_drives_fails(tmp_path: Path) -> None:
    """Without hooks, as a cancelled one ends."""
    journal, done = SQLiteJournal(tmp_path / "runs.db"), list[int]()
    with pytest.raises(RunHandedOverError):
        await build(journal, done, call("pay", number=1)).run("Pay.", run_id="r")
    durable = await reopen(journal, "r", ())
    await fail_idle(durable, 5.0, "taken up 5 times")
    await durable.commit()
    await durable.close()
    end = (await journal.read("r"))[-1]
    assert isinstance(end, RunFinished)
    assert (end.status, end.stop_reason, end.reason) == (
        RunStatus.FAILED,
        "attempts",
        "taken up 5 times",
    )
    assert (await build(journal, done, say("never")).resume("r")).status is RunStatus.FAILED
    assert done == [1]


async def test_a_run_that_failed_so_is_opened_again(tmp_path: Path) -> None:
    """As often as somebody wants it: it continues after its last step, as if it had not ended."""
    journal, done = SQLiteJournal(tmp_path / "runs.db"), list[int]()
    with pytest.raises(RunHandedOverError):
        await build(journal, done, call("pay", number=1)).run("Pay.", run_id="r")
    before = await story_of(await journal.read("r"), journal)
    for time in (5.0, 6.0):
        durable = await reopen(journal, "r", ())
        await fail_idle(durable, time, "taken up 5 times")
        assert (await story_of(durable.records, journal)).is_over
        await take_back_end(durable, time)
        await durable.commit()
        await durable.close()
        assert await story_of(await journal.read("r"), journal) == before
        assert [info.status for info in await journal.runs()] == [RunStatus.RUNNING]
    agent = build(journal, done, say("paid"))
    assert ((await agent.resume("r")).text, done) == ("paid", [1, -1])
    assert (await replay(journal, "r", agent)).identical
    assert (await journal.check()).ok
