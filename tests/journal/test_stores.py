"""The stores that ship, as far as they wait: where they are opened, and in which thread they work."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus, SQLiteJournal, tool
from hookline.errors import JournalError, UsageError
from hookline.journal import JournalStore, MemoryJournal, Record
from hookline.journal.sqlite import JournalFile
from hookline.testing import ScriptedDriver, call, say

Story = Callable[..., list[Record]]


def readers() -> list[threading.Thread]:
    """The threads in which journals are read."""
    return [each for each in threading.enumerate() if each.name == "hookline-journal-reader"]


def test_a_journal_is_opened_by_its_first_use(path: Path) -> None:
    """Whatever that is."""
    journal = SQLiteJournal(path)
    assert not path.exists()
    assert journal.runs_sync() == []
    assert path.exists()
    journal.close_sync()


async def test_what_is_wrong_with_a_file_is_said_wherever_it_is_opened(tmp_path: Path) -> None:
    """By `open`, by a run, and again by the next."""
    journal = SQLiteJournal(tmp_path / "nowhere" / "journal.db")
    agent = AgentBuilder().with_driver(ScriptedDriver([say("a")] * 3)).with_journal(journal).build()
    for _ in range(2):
        with pytest.raises(JournalError, match="there is no directory"):
            await journal.open()
        with pytest.raises(JournalError, match="there is no directory"):
            await agent.run("go")
        with pytest.raises(JournalError, match="there is no directory"):
            async for _ in agent.stream("go"):
                pass
    (tmp_path / "nowhere").mkdir()
    assert (await agent.run("go")).text == "a"
    await journal.close()


async def test_the_event_loop_goes_on_while_a_file_is_read(
    sqlite: SQLiteJournal, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And while it is examined, others can read it."""
    claim = await sqlite.claim("r")
    await asyncio.wrap_future(claim.write(story()))
    go_on, read = threading.Event(), JournalFile.check

    def check(journal: JournalFile) -> object:
        assert go_on.wait(60)
        return read(journal)

    monkeypatch.setattr(JournalFile, "check", check)
    checking = asyncio.ensure_future(sqlite.check())
    for _ in range(3):
        assert await sqlite.read("r") == story()
    assert not checking.done()
    go_on.set()
    assert (await checking).ok


async def test_memory_never_waits(story: Story) -> None:
    """A coroutine of it ends at once."""
    journal = MemoryJournal()
    with pytest.raises(StopIteration) as claimed:
        journal.claim("r").send(None)
    claimed.value.value.write(story()).result()
    with pytest.raises(StopIteration) as read:
        journal.read("r").send(None)
    assert read.value.value == story()


def test_a_forgotten_journal_has_no_thread(path: Path) -> None:
    """It ends with the journal."""
    before = set(readers())
    journal = SQLiteJournal(path)
    assert journal.runs_sync() == []
    (reader,) = set(readers()) - before
    del journal
    gc.collect()
    reader.join(20)
    assert not reader.is_alive()


async def test_a_claim_that_is_cancelled_twice_is_given_back(
    sqlite: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the caller is cancelled: when it has ended, the next one can have the run."""
    go_on, claim = threading.Event(), JournalFile.claim

    def slowly(journal: JournalFile, run_id: str) -> object:
        assert go_on.wait(60)
        return claim(journal, run_id)

    await sqlite.open()
    monkeypatch.setattr(JournalFile, "claim", slowly)
    waiting = asyncio.ensure_future(sqlite.claim("r"))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (await sqlite.claim("r")).give_back()


@pytest.mark.parametrize("kind", ["memory", "NORMAL", "FULL"])
async def test_a_run_fails_when_its_journal_is_closed(kind: str, path: Path) -> None:
    """Before its next tool starts, and its result says why."""
    journal: JournalStore = MemoryJournal()
    if kind != "memory":
        journal = SQLiteJournal(path, synchronous=kind)  # type: ignore[arg-type]
    did: list[int] = []

    @tool
    async def close(number: int) -> str:
        """Close the journal."""
        did.append(number)
        await journal.close()
        return "closed"

    turns = [call("close", number=1), call("close", number=2), say("done")]
    agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(close)
    result = await agent.with_journal(journal).build().run("go", run_id="r")
    assert (result.status, did) == (RunStatus.FAILED, [1])
    assert isinstance(result.error, JournalError)
    assert "its journal is closed" in str(result.error)


async def test_memory_is_closed_like_a_file(story: Story) -> None:
    """What is claimed is given back, and nothing can be asked of it any more."""
    journal = MemoryJournal()
    claim = await journal.claim("r")
    await asyncio.wrap_future(claim.write(story()))
    for _ in range(2):
        await journal.close()
    with pytest.raises(JournalError, match="not claimed any more"):
        claim.write([]).result()
    for asked in (journal.read("r"), journal.claim("r"), journal.runs(), journal.check()):
        with pytest.raises(UsageError, match="closed"):
            await asked


@pytest.mark.parametrize("given", ["yes", 1, None])
def test_a_loss_is_accepted_with_true_alone(given: Any, tmp_path: Path) -> None:
    """What is lost is written over then, so a mistake is refused."""
    with pytest.raises(UsageError, match=r"accept_loss cannot be .*Give True or False"):
        SQLiteJournal(tmp_path / "runs.db", accept_loss=given)
