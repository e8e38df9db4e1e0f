"""A run that was submitted to the journal, and that any process begins by its id."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path

import pytest

from hookline import Agent, AgentBuilder, HookOutcome, RunStatus, SQLiteJournal
from hookline.journal import (
    JournalStore,
    Questions,
    RunQueued,
    RunStarted,
    fold,
    post_cancel,
)
from hookline.playback import replay
from hookline.testing import Scripted, ScriptedDriver, call, say


@pytest.fixture
def journal(tmp_path: Path) -> SQLiteJournal:
    """A journal in a file."""
    return SQLiteJournal(tmp_path / "runs.db")


def enqueue(journal: JournalStore, run_id: str = "r", prompt: str = "Add 2 and 3.") -> None:
    """Submit a run."""
    claim = journal.claim_sync(run_id)
    claim.write([RunQueued(run_id, 0, 1.0, agent_id="sums", prompt=prompt)]).result()
    claim.give_back().result()


def build(journal: JournalStore, *turns: Scripted, asks: bool = False) -> Agent:
    """An agent that adds numbers."""

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)
    if asks:
        builder.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    return builder.with_journal(journal).build()


def kinds(journal: JournalStore) -> list[str]:
    """What is on record of the run."""
    return [record.type for record in journal.read_sync("r")]


def test_a_queued_run_is_in_the_list_and_begins_by_its_id(journal: SQLiteJournal) -> None:
    """`resume` starts it with its prompt. That it was taken up is on record before anything else."""
    enqueue(journal)
    (info,) = journal.runs_sync(status=RunStatus.QUEUED)
    assert (info.run_id, info.agent_id, info.session_id) == ("r", "sums", "r")
    assert info.prompt == "Add 2 and 3."
    agent = build(journal, call("add", a=2, b=3), say("5"))
    result = agent.resume_sync("r")
    assert (result.text, result.run_id, len(result.steps)) == ("5", "r", 2)
    assert kinds(journal)[:4] == ["run_queued", "taken_up", "run_started", "prompt"]
    started = journal.read_sync("r")[2]
    assert isinstance(started, RunStarted)
    assert not started.resumed
    (info,) = journal.runs_sync()
    assert info.status is RunStatus.COMPLETED
    assert agent.resume_sync("r").text == "5"
    assert journal.check_sync().ok
    lines = io.BytesIO()
    journal.export_lines("r", lines)
    journal.delete_sync("r")
    assert journal.import_lines(lines.getvalue().splitlines(keepends=True)) == ["r"]


def test_a_queued_run_is_replayed(journal: SQLiteJournal) -> None:
    """Like every other one: that it waited is no part of what happened in it."""
    enqueue(journal)
    build(journal, call("add", a=2, b=3), say("5")).resume_sync("r")
    played = asyncio.run(replay(journal, "r", build(journal, say("other"))))
    assert played.identical, played


def test_who_dies_before_the_start_has_taken_it_up(journal: SQLiteJournal) -> None:
    """Each attempt is a record, and the run can still begin."""
    code = (
        "import os, sys\n"
        "from hookline import AgentBuilder, SQLiteJournal\n"
        "from hookline.testing import ScriptedDriver, say\n"
        "builder = AgentBuilder().with_driver(ScriptedDriver([say('never')]))\n"
        "builder.on_execution_start(lambda ctx: os._exit(9), name='dies')\n"
        "builder.with_journal(SQLiteJournal(sys.argv[1])).build().resume_sync('r')\n"
    )
    enqueue(journal)
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, journal.given]).returncode == 9
    assert kinds(journal) == ["run_queued", "taken_up", "taken_up"]
    (info,) = journal.runs_sync()
    assert info.status is RunStatus.QUEUED
    assert build(journal, say("5")).resume_sync("r").text == "5"
    assert kinds(journal)[:5] == ["run_queued", *["taken_up"] * 3, "run_started"]
    assert journal.check_sync().ok


def test_a_queued_run_is_cancelled(journal: SQLiteJournal) -> None:
    """Before a process begins it, and then it never does."""
    enqueue(journal)
    asyncio.run(post_cancel(journal, "r", by="ann"))
    result = build(journal, say("never")).resume_sync("r")
    assert (result.status, result.state.ending.reason) == (
        RunStatus.CANCELLED,
        "cancelled by ann",
    )
    assert kinds(journal) == ["run_queued", "status", "result"]
    assert journal.prune_sync(older_than=0) == ["r"]


def test_a_queued_run_is_not_pruned(journal: SQLiteJournal) -> None:
    """It waits, like a paused one."""
    enqueue(journal)
    assert journal.prune_sync(older_than=0) == []
    assert asyncio.run(Questions.read(journal, "r")).open == ()
    assert fold(journal.read_sync("r")).queued is not None


def test_a_queued_run_pauses_and_continues(journal: SQLiteJournal) -> None:
    """Its pause is that of any run."""
    enqueue(journal)
    paused = build(journal, call("add", a=2, b=3), asks=True).resume_sync("r")
    assert paused.status is RunStatus.PAUSED
    result = build(journal, say("5"), asks=True).resume_sync("r", {paused.pending[0].id: True})
    assert result.text == "5"
    assert kinds(journal).count("run_started") == 2
    assert kinds(journal).count("taken_up") == 2
    played = asyncio.run(replay(journal, "r", build(journal, say("other"), asks=True)))
    assert played.identical, played
    assert journal.check_sync().ok
