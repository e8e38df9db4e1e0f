"""Runs of a session that are submitted: one after the other, in order, each with the conversation before it."""

from __future__ import annotations

import asyncio
import io
import signal
from typing import Any

import pytest
from postgres_server import wait_until

from hookline import AgentBuilder, RunStatus, SQLiteJournal
from hookline.errors import JournalError, UsageError
from hookline.journal import PostgresJournal, Questions, RunStarted, post_answer, post_cancel
from hookline.journal.record import start_of
from hookline.sessions import Sessions
from hookline.state import Decision
from hookline.testing import ScriptedDriver, say
from hookline.workers import QueueJournal


def prompts(journal: Any, session: str) -> list[str]:
    """What was said by people in a session."""
    messages = Sessions(journal).get_sync(session).state.messages
    return [each.text for each in messages if each.role == "user"]


def earlier(journal: Any, run_id: str) -> str | None:
    """The run that a run continues."""
    started = start_of(journal.read_sync(run_id))
    assert isinstance(started, RunStarted)
    return started.continues.run_id if started.continues is not None else None


def info(journal: Any, run_id: str) -> Any:
    """A run in the list."""
    return next(each for each in journal.runs_sync() if each.run_id == run_id)


def test_runs_of_a_session_keep_their_order(work: Any) -> None:
    """Two workers, and another session in parallel. A killed worker loses no turn, and nobody overtakes it."""
    held = work.hold("a1", 1)
    names = ["a1", "a2", "a3"]
    for name in names:
        work.journal.submit_sync("bank", f"I am {name}.", run_id=name, session="a")
    work.journal.submit_many_sync("bank", {"b1": "First.", "b2": "Second."}, session="b")
    assert work.journal.submit_sync("bank", "I am a2.", run_id="a2", session="a") == "a2"
    for other in ("b", None):
        with pytest.raises(UsageError, match="another prompt, agent, version, queue or session"):
            work.journal.submit_sync("bank", "I am a2.", run_id="a2", session=other)
    for session, run_id in (("a", "a"), ("no id", "x")):
        with pytest.raises(UsageError):
            work.journal.submit_sync("bank", "?", run_id=run_id, session=session)
    assert [info(work.journal, name).session_id for name in names] == ["a"] * 3
    for _ in range(2):
        work.start(concurrency=1)
    first = work.wait_for_call("a1", 1)
    work.wait_for("b2", RunStatus.COMPLETED)  # a2 and a3 hold no slot
    assert [work.status(name) for name in names[1:]] == [RunStatus.QUEUED] * 2
    why = work.journal.why_waiting_sync(info(work.journal, "a2"))
    assert why == {"a2": "run 'a1' of its session is not over"}
    for number in range(3):  # more than one worker may look at once whose turn it is
        asyncio.run(work.journal.enqueue("a2", f"again {number}", "default"))
    work.start()
    next(each for each in work.workers if each.pid == first).kill()
    held.unlink()
    for name in names:
        work.wait_for(name, RunStatus.COMPLETED)
    assert [earlier(work.journal, name) for name in names] == [None, "a1", "a2"]
    assert prompts(work.journal, "a") == [f"I am {name}." for name in names]
    assert prompts(work.journal, "b") == ["First.", "Second."]
    numbers = [number for number, _ in work.calls("a1")]
    assert sorted(numbers) == sorted(set(numbers)), "no once tool ran twice"
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "the engine knows")
    session = Sessions(work.journal).get_sync("a")
    assert (session.runs, session.title) == (tuple(names), "I am a1.")
    assert work.journal.check_sync().ok
    with pytest.raises(JournalError, match="a2"):
        work.journal.delete_sync("a1")
    copy = io.BytesIO()
    work.journal.export_lines("session/a", copy)
    with SQLiteJournal(work.folder / "copy.db") as elsewhere:
        copy.seek(0)
        elsewhere.import_lines(copy)
        assert prompts(elsewhere, "a") == [f"I am {name}." for name in names]
    session.delete_sync()
    assert {each.run_id for each in work.journal.runs_sync()} == {"b1", "b2"}


def test_a_run_waits_for_one_that_waits_for_an_answer(work: Any) -> None:
    """One that is cancelled meanwhile ends at once. The next continues after the last one that began."""
    work.journal.submit_sync("asks", "One.", run_id="r1", session="s")
    work.journal.submit_sync("bank", "Two.", run_id="r2", session="s")
    work.journal.submit_sync("bank", "Three.", run_id="r3", session="s")
    work.start(concurrency=1)
    work.wait_for("r1", RunStatus.PAUSED)
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "no slot is held")
    asyncio.run(post_cancel(work.journal, "r2", by="ann"))
    work.wait_for("r2", RunStatus.CANCELLED)
    assert work.status("r3") is RunStatus.QUEUED
    behind = Sessions(work.journal).create_sync(id="t")
    work.journal.submit_many_sync("asks", {"t1": "Left behind.", "t2": "Next."}, session="t")
    work.wait_for("t1", RunStatus.PAUSED)
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "no slot is held")
    behind.refresh_sync().rewind_sync(to=0)
    (question,) = asyncio.run(Questions.read(work.journal, "t1")).open
    asyncio.run(post_answer(work.journal, "t1", question.id, Decision.allow(), by="ann"))
    asyncio.run(work.journal.enqueue("t2", "by hand", "default"))
    work.wait_for("t2", RunStatus.PAUSED)
    assert (work.status("t1"), work.calls("t1")) == (RunStatus.PAUSED, [])
    assert earlier(work.journal, "t2") is None
    asyncio.run(post_cancel(work.journal, "t1", by="ann"))
    work.wait_for("t1", RunStatus.CANCELLED)
    for _ in range(3):
        work.wait_for("r1", RunStatus.PAUSED)
        (question,) = asyncio.run(Questions.read(work.journal, "r1")).open
        asyncio.run(post_answer(work.journal, "r1", question.id, Decision.allow(), by="ann"))
        wait_until(
            lambda asked=question.id: (
                asked
                not in [each.id for each in asyncio.run(Questions.read(work.journal, "r1")).open]
            ),
            "the answer is taken",
        )
    work.wait_for("r3", RunStatus.COMPLETED)
    assert earlier(work.journal, "r3") == "r1"
    assert prompts(work.journal, "s") == ["One.", "Three."]
    assert work.calls("r2") == []


def test_a_turn_that_nobody_queued_is_found(work: Any) -> None:
    """A run of an application was in between, and the session was suspended. Then a run fails, and others continue."""
    journal: QueueJournal = work.journal
    journal.submit_sync("deadly", "One.", run_id="r1", session="s")
    journal.submit_sync("bank", "Two.", run_id="r2", session="s")
    agent = AgentBuilder().with_driver(ScriptedDriver([say("Hello.")])).with_journal(journal)
    session = Sessions(journal).get_sync("s")
    session.run_sync(agent.build(), "Zero.", run_id="r0")
    session.suspend_sync()
    worker = work.start(max_attempts=1)
    wait_until(
        lambda: work.entries() and {each for _, each in work.entries()} == {"SUCCESS"}, "it waits"
    )
    waiting = journal.why_waiting_sync(info(journal, "r1"))
    assert waiting == {"r1": "its session is suspended"}
    worker.send_signal(signal.SIGKILL)
    session.resume_sync()
    for _ in range(2):  # the first one dies of the run
        work.start(max_attempts=1)
    work.wait_for("r2", RunStatus.COMPLETED)
    assert work.status("r1") is RunStatus.FAILED
    assert earlier(journal, "r2") == "r0"
    assert prompts(journal, "s") == ["Zero.", "Two."]
    assert journal.check_sync().ok
    copy, schema = io.BytesIO(), work.postgres.new_schema()
    journal.export_lines("session/s", copy)
    copy.seek(0)
    with PostgresJournal(work.postgres.url(), schema=schema) as elsewhere:
        elsewhere.migrate_sync()
        elsewhere.import_lines(copy)  # r2 is before r0 in the list
        assert elsewhere.check_sync().ok
        assert prompts(elsewhere, "s") == ["Zero.", "Two."]
    work.postgres.ask(f"DROP SCHEMA {schema} CASCADE")


def test_a_worker_dies_before_it_queues_the_next_run(work: Any) -> None:
    """Whoever takes over finds the run over, and queues the next one."""
    work.journal.submit_many_sync("bank", {"r1": "One.", "r2": "Two."}, session="s")
    worker = work.start(dies_before_wake=True)
    assert worker.wait() == 9
    assert work.status("r1") is RunStatus.COMPLETED
    work.start()
    work.wait_for("r2", RunStatus.COMPLETED)
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "the engine knows")
    assert earlier(work.journal, "r2") == "r1"
    assert prompts(work.journal, "s") == ["One.", "Two."]
    Sessions(work.journal).get_sync("s").fork_sync(id="fork")
    work.journal.submit_sync("bank", "Three.", run_id="r3", session="fork")
    work.wait_for("r3", RunStatus.COMPLETED)
    assert (earlier(work.journal, "r3"), prompts(work.journal, "fork")) == (
        None,
        ["One.", "Two.", "Three."],
    )
    assert work.journal.check_sync().ok


def test_sessions_on_temporal(on_temporal: Any) -> None:
    """The same rules: the second run waits for the first one, on a worker with one place."""
    work = on_temporal
    held = work.hold("r1", 1)
    for name in ("r1", "r2", "r3"):
        work.journal.submit_sync("bank", f"I am {name}.", run_id=name, session="s")
    work.journal.submit_sync("bank", "Pay.", run_id="other")
    for _ in range(2):
        work.start(concurrency=1)
    work.wait_for_call("r1", 1)
    work.wait_for("other", RunStatus.COMPLETED)
    assert work.status("r2") is RunStatus.QUEUED
    held.unlink()
    work.wait_for("r3", RunStatus.COMPLETED)
    assert [earlier(work.journal, name) for name in ("r1", "r2", "r3")] == [None, "r1", "r2"]
    assert prompts(work.journal, "s") == ["I am r1.", "I am r2.", "I am r3."]
