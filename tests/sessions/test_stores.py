"""Sessions in the journals that ship: in memory, and in a file that many processes have open."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from session_setup import SessionSetup

from hookline import Decision, RunStatus, SQLiteJournal
from hookline.errors import JournalError, SessionConflictError, SessionError
from hookline.journal import MemoryJournal
from hookline.journal.session import stream_of
from hookline.sessions import Sessions
from hookline.state import ResultStatus
from hookline.testing import call, say


@pytest.fixture(params=["memory", "sqlite"])
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionSetup]:
    """The same with a real journal."""
    journal: Any = MemoryJournal()
    if request.param == "sqlite":
        journal = SQLiteJournal(tmp_path / "journal.db")
    yield SessionSetup(journal)
    journal.close_sync()


async def test_a_session_lives_in_a_real_journal(setup: SessionSetup) -> None:
    """From its creation to its end, and nothing is wrong with the journal at any time."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(call("look", at="door"), say("A door.")), "What is there?")
    await session.run(setup.agent(call("pay", amount=5)), "Buy it.")
    answer = {session.pending[0].id: Decision.allow(remember=True)}
    await (await setup.sessions.get("s")).resume_run(setup.agent(say("Bought.")), answer)
    await (await session.refresh()).rewind(to=1)
    fork = await session.fork(id="f", title="Other")
    await fork.run(setup.agent(call("pay", amount=5)), "Buy it.")
    setup.clock.advance(1)
    await session.run(setup.agent(say("Fine.")), "Never mind.")
    await session.close(setup.agent())
    await session.suspend()
    journal: Any = setup.journal
    assert (await journal.check()).ok
    listed = [
        (info.id, info.title, info.status.value, info.runs) for info in await setup.sessions.list()
    ]
    assert listed == [("s", "What is there?", "suspended", 3), ("f", "Other", "open", 1)]
    assert {each.run_id for each in await journal.runs()} == {"s-1", "s-2", "s-3", "f-1"}
    assert [each.run_id for each in await journal.runs(session_id="f")] == ["f-1"]
    assert [each.session_id for each in await journal.runs(status=RunStatus.PAUSED)] == ["f"]
    assert [message.text for message in session.state.messages][-2:] == ["Never mind.", "Fine."]
    await session.delete()
    assert [each.run_id for each in await journal.runs()] == ["f-1"]
    assert (await journal.check()).ok


async def test_a_session_moves_to_another_journal_as_a_whole(setup: SessionSetup) -> None:
    """With its runs and their children."""
    session = await setup.sessions.create(id="s")
    await session.run(setup.agent(say("a")), "one")
    await session.run(setup.agent(call("pay", amount=5)), "two")
    await (await setup.sessions.create(id="other")).run(setup.agent(say("b")), "else")
    lines = io.BytesIO()
    source: Any = setup.journal
    source.export_lines(stream_of("s"), lines)
    lines.seek(0)
    there = SessionSetup(MemoryJournal())  # type: ignore[arg-type]
    target: Any = there.journal
    assert set(target.import_lines(lines)) == {"session/s", "s-1", "s-2"}
    moved = await there.sessions.get("s")
    assert str(await moved.show()) == str(await session.show())
    await moved.resume_run(there.agent(say("done")), {moved.pending[0].id: True})
    assert (there.paid, (await target.check()).ok) == ([5], True)


async def test_old_sessions_are_pruned_as_a_whole(setup: SessionSetup) -> None:
    """By when they were last used; not while one of their runs waits, and never a part of them."""
    setup.clock.time = 1000.0
    for name in ("old", "waits", "used"):
        await (await setup.sessions.create(id=name)).run(setup.agent(say("a")), "one")
    await (await setup.sessions.get("waits")).run(setup.agent(call("pay", amount=5)), "pay")
    await setup.sessions.create(id="empty")
    journal: Any = setup.journal
    setup.clock.time = time.time()
    await (await setup.sessions.get("used")).run(setup.agent(say("b")), "two")
    assert set(await journal.prune(older_than=3600)) == {"session/old", "old-1", "session/empty"}
    assert {each.id for each in await setup.sessions.list()} == {"waits", "used"}
    used = await setup.sessions.get("used")
    assert [message.text for message in used.state.messages] == ["one", "a", "two", "b"]
    assert set(await journal.prune(keep=1, unfinished=True)) == {
        "session/waits",
        "waits-1",
        "waits-2",
    }


async def test_a_damaged_run_is_reported_and_the_session_stays_as_it_is(tmp_path: Path) -> None:
    """The chain of the run shows it."""
    path = tmp_path / "journal.db"
    async with SQLiteJournal(path) as journal:
        setup = SessionSetup(journal)  # type: ignore[arg-type]
        session = await setup.sessions.create(id="s")
        await session.run(setup.agent(say("yes")), "one")
    edit = sqlite3.connect(path)
    edit.execute("UPDATE batches SET records = replace(records, 'yes', 'no!')")
    edit.commit()
    edit.close()
    async with SQLiteJournal(path) as journal:
        setup = SessionSetup(journal)  # type: ignore[arg-type]
        session = await setup.sessions.get("s")
        with pytest.raises(JournalError, match="the journal is damaged: run 's-1'"):
            await session.run(setup.agent(say("a")), "two")
        assert (await session.refresh()).version == 4


WORKER = """
import asyncio, sys
from hookline import AgentBuilder, SQLiteJournal, tool
from hookline.sessions import Sessions
from hookline.testing import ScriptedDriver, call, say

@tool
def pay(amount: int) -> str:
    '''Pay.'''
    print("paying", flush=True)
    sys.stdin.readline()
    return "paid"

journal = SQLiteJournal(sys.argv[1])
agent = (
    AgentBuilder()
    .with_driver(ScriptedDriver([call("pay", amount=5), say("Done.")]))
    .with_tools(pay)
    .with_journal(journal)
    .build()
)
print(Sessions(journal).get_sync("s").run_sync(agent, "pay").text, flush=True)
"""


def started(path: Path) -> subprocess.Popen[str]:
    """Another process, in the middle of a payment in session `s`."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "paying\n"
    return process


@pytest.mark.parametrize("ends", ["well", "killed"])
async def test_two_processes_cannot_run_one_session(tmp_path: Path, ends: str) -> None:
    """The error names the process that has it; when that one has ended or died, the session continues."""
    path = tmp_path / "journal.db"
    async with SQLiteJournal(path) as journal:
        setup = SessionSetup(journal)  # type: ignore[arg-type]
        session = await setup.sessions.create(id="s", title="t")
        worker = started(path)
        with worker:
            with pytest.raises(SessionConflictError, match=rf"process {worker.pid}\b"):
                await session.run(setup.agent(say("never")), "me too")
            assert (await Sessions(journal).get("s")).runs == ("s-1",)
            if ends == "killed":
                worker.send_signal(signal.SIGKILL)
            else:
                worker.communicate("\n")
        await session.refresh()
        if ends == "killed":
            with pytest.raises(SessionError, match="run 's-1' of session 's' was left unfinished"):
                await session.run(setup.agent(say("never")), "me too")
            agent = setup.builder(say("I do not know.")).with_approver(lambda question: True)
            resumed = await session.resume_run(agent.build())
            (result,) = resumed.steps[0].results
            assert result.status is ResultStatus.IN_DOUBT
        after = await session.run(setup.agent(say("Yes.")), "me too")
        texts = [message.text for message in after.state.messages]
        assert texts[-2:] == ["me too", "Yes."]
        assert (setup.paid, after.run_id) == ([], "s-2")
