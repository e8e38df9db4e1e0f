"""The queue: what is submitted is in the journal and in the queue, or in neither."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy
from msgspec.structs import replace
from postgres_server import PostgresServer

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.errors import JournalError, UsageError
from hookline.journal import PostgresJournal, post_answer, post_cancel
from hookline.state import Decision
from hookline.testing import ScriptedDriver, call, say
from hookline.workers import QueueJournal


def entries(postgres: PostgresServer, journal: QueueJournal) -> list[tuple[str, ...]]:
    """What is in the queue."""
    query = (
        "SELECT s.workflow_uuid, s.status, s.queue_name, s.serialization, i.inputs"
        f" FROM {journal.engine_schema}.workflow_status s"
        f" JOIN {journal.engine_schema}.workflow_input i USING (workflow_uuid) ORDER BY s.created_at"
    )
    return [tuple(row) for row in postgres.ask(query)]


def set_status(postgres: PostgresServer, journal: QueueJournal, status: str) -> None:
    """Let all entries that wait be so."""
    table = f"{journal.engine_schema}.workflow_status"
    postgres.ask(f"UPDATE {table} SET status = %s WHERE status = 'ENQUEUED'", status)


def test_a_run_is_submitted_once(
    postgres: PostgresServer, journal: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same id with the same prompt is the same run. The engine has the id of the run, as JSON, and no prompt."""
    assert journal.submit_sync("sums", "Add 2 and 3.", run_id="r") == "r"
    assert journal.submit_sync("sums", "Add 2 and 3.", run_id="r") == "r"
    for other in ({"prompt": "Add."}, {"agent": "other"}, {"queue": "night"}):
        given = {"agent": "sums", "prompt": "Add 2 and 3.", **other}
        with pytest.raises(UsageError, match="in the journal already, with another"):
            journal.submit_sync(**given, run_id="r")  # type: ignore[arg-type]
    (info,) = journal.runs_sync()
    assert (info.status, info.agent_id, info.prompt) == (RunStatus.QUEUED, "sums", "Add 2 and 3.")
    ((id, status, queue, form, content),) = entries(postgres, journal)
    assert (id, status, queue, form) == ("r:start", "ENQUEUED", "default", "portable_json")
    assert json.loads(content) == {"positionalArgs": ["r"], "namedArgs": {}}
    assert journal.check_sync().ok
    journal.submit_sync("sums", "Later.", run_id="later", delay=60, priority=3)
    assert entries(postgres, journal)[1][:2] == ("later:start", "DELAYED")
    monkeypatch.setattr("hookline.workers.queue.LARGEST_RECORD", 1_000)
    with pytest.raises(UsageError, match=r"prompt of run 'large' has 2,\d+ bytes"):
        journal.submit_sync("sums", "x" * 2_000, run_id="large")
    for bad in ("", " ", "a\0b", "\udc80", "a/b", "_dbos_x"):
        with pytest.raises(UsageError, match="cannot be the name of a queue"):
            journal.submit_sync("sums", "Add.", queue=bad)
        if bad not in ("a/b", "_dbos_x"):
            with pytest.raises(UsageError, match="cannot be the name of an agent"):
                journal.submit_sync(bad, "Add.")
    for bad in ("", " ", "a\0b"):
        with pytest.raises(UsageError, match="cannot be the id"):
            journal.submit_sync("sums", "Add.", run_id=bad)
    for bad in ("r/0/call_1_1/1", "session/s"):
        with pytest.raises(UsageError, match="ids with a slash are those of child runs and sess"):
            journal.submit_sync("sums", "Add.", run_id=bad)
        with pytest.raises(UsageError, match="ids with a slash"):
            journal.set_schedule_sync(bad, "* * * * *", "sums", "Add.")


def test_what_cannot_be_queued_is_not_in_the_journal(
    postgres: PostgresServer, journal: QueueJournal
) -> None:
    """And the other way around."""
    journal.submit_sync("sums", "Add.", run_id="first")
    with pytest.raises(UsageError, match="priority=-1"):
        journal.submit_sync("sums", "Add.", run_id="r", priority=-1)
    assert [info.run_id for info in journal.runs_sync()] == ["first"]
    postgres.ask(f"ALTER TABLE {journal.engine_schema}.workflow_status RENAME TO gone")
    with pytest.raises(JournalError, match="its tables are not in schema"):
        journal.submit_sync("sums", "Add.", run_id="r")
    assert [info.run_id for info in journal.runs_sync()] == ["first"]
    postgres.ask(f"ALTER TABLE {journal.engine_schema}.gone RENAME TO workflow_status")
    assert journal.check_sync().ok


async def test_an_answer_queues_the_run_again(
    postgres: PostgresServer, journal: QueueJournal
) -> None:
    """The answer and the entry are one transaction. A run that was not submitted is not queued."""

    def pay() -> str:
        """Pay."""
        return "paid"

    builder = AgentBuilder().with_driver(ScriptedDriver([call("pay")])).with_tools(pay)
    builder.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    agent = builder.with_journal(journal).build()
    await journal.submit("bank", "Pay.", run_id="r")
    paused = await agent.resume("r")
    set_status(postgres, journal, "SUCCESS")
    message = await post_answer(journal, "r", paused.pending[0].id, Decision.allow(), by="ann")
    assert message is not None
    queued = [id for id, *_ in entries(postgres, journal)]
    assert queued == ["r:start", f"r:{message.id}"]
    assert await journal.inbox("r") == [replace(message, role="boss")]
    other = AgentBuilder().with_driver(ScriptedDriver([call("pay"), say("done")]))
    other.with_tools(pay).on_before_tool_use(
        lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks"
    )
    alone = await other.with_journal(journal).build().run("Pay.", run_id="alone")
    await post_answer(journal, "alone", alone.pending[0].id, Decision.allow(), by="ann")
    assert len(entries(postgres, journal)) == 2


async def test_a_run_waits_in_a_queue_once(postgres: PostgresServer, journal: QueueJournal) -> None:
    """Who takes its entry sees all answers. So those that come again queue nothing, until the entry is taken."""
    for run_id in ("r", "r:b"):  # the second is another run
        await journal.submit("bank", "Pay.", run_id=run_id)
    set_status(postgres, journal, "SUCCESS")
    await post_cancel(journal, "r:b", by="ann")
    for more in range(1, 4):
        for _ in range(3):
            await post_cancel(journal, "r", by="ann")
        await journal.enqueue("r", "other", "default")
        assert len(entries(postgres, journal)) == 3 + more
        set_status(postgres, journal, "PENDING")
    await journal.submit("bank", "Pay.", run_id="late", priority=3)
    await post_cancel(journal, "late", by="ann")  # it does not wait as long as the run
    assert len([id for id, *_ in entries(postgres, journal) if id.startswith("late:")]) == 2


async def test_nobody_takes_an_entry_before_the_answer_is_there(
    postgres: PostgresServer, journal: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its worker would find nothing to do, and nobody would look at the answer."""
    await journal.submit("bank", "Pay.", run_id="r")
    table = f"{journal.engine_schema}.workflow_status"
    free = []
    add_entry = QueueJournal._add_entry

    def added(self: QueueJournal, *given: Any) -> None:
        """Before the end of the transaction, look as the engine does when it takes entries."""
        add_entry(self, *given)
        query = (
            f"SELECT workflow_uuid FROM {table} WHERE status = 'ENQUEUED' FOR UPDATE SKIP LOCKED"
        )
        free.extend(postgres.ask(query))

    monkeypatch.setattr(QueueJournal, "_add_entry", added)
    await post_cancel(journal, "r", by="ann")
    assert free == []
    assert [id for id, *_ in entries(postgres, journal)] == ["r:start"]


def test_a_run_whose_entry_has_ended_is_queued_again(
    postgres: PostgresServer, journal: QueueJournal
) -> None:
    """Any number of times, once at a time. One that was not submitted is nobody's concern."""
    journal.submit_sync("sums", "Add.", run_id="r")
    journal.submit_sync("sums", "Add.", run_id="r:start")  # not an entry of the other
    own = AgentBuilder().with_driver(ScriptedDriver([say("5")])).with_journal(journal).build()
    own.run_sync("Add.", run_id="own")
    postgres.ask(
        f"UPDATE {journal.database.schema}.runs SET status = 'running' WHERE run_id = 'own'"
    )
    assert list(asyncio.run(journal.find_lost())) == ["own"]
    for number in range(3):
        table = f"{journal.engine_schema}.workflow_status"
        postgres.ask(
            f"UPDATE {table} SET status = 'ERROR' WHERE workflow_uuid NOT LIKE 'r:start:%%'"
        )
        assert sorted(asyncio.run(journal.find_lost())) == ["own", "r"]
        for run_id, is_ours in (("r", True), ("r", True), ("own", False)):
            assert asyncio.run(journal.queue_again(run_id)) is is_ours
        found = [each for each in entries(postgres, journal) if each[1] == "ENQUEUED"]
        assert [json.loads(each[4])["positionalArgs"] for each in found].count(["r"]) == 1
        assert len(entries(postgres, journal)) == number + 3
    assert journal.why_waiting_sync(*journal.runs_sync())["r"].startswith("no live worker")


def test_an_entry_that_ends_meanwhile_is_not_queued_again(
    postgres: PostgresServer, journal: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was only slow, and wrote that after its entry was found."""
    journal.submit_sync("sums", "Add.", run_id="r")
    set_status(postgres, journal, "PENDING")
    find = journal._entries

    def find_late(*states: Any) -> Any:
        found = find(*states)
        postgres.ask(f"UPDATE {journal.engine_schema}.workflow_status SET status = 'SUCCESS'")
        return found

    monkeypatch.setattr(journal, "_entries", find_late)
    assert [each.id for each in asyncio.run(journal.take_over())] == ["r:start"]
    assert [status for _, status, *_ in entries(postgres, journal)] == ["SUCCESS"]


def test_what_is_no_message_is_refused(journal: QueueJournal) -> None:
    """As in every journal."""
    with pytest.raises(UsageError, match=r"takes an InboxAnswer or an InboxCancel"):
        journal.post_sync(object())  # type: ignore[arg-type]


def test_no_two_journals_share_the_tables_of_the_queue() -> None:
    """PostgreSQL cuts long names off."""
    assert QueueJournal("postgresql://db/x", schema="a" * 58).engine_schema == "a" * 58 + "_dbos"
    with pytest.raises(UsageError, match="is too long"):
        QueueJournal("postgresql://db/x", schema="a" * 59)
    with pytest.raises(UsageError, match="is too long"):
        QueueJournal("postgresql://db/x", engine_schema="\u00e4" * 32)
    named = QueueJournal("postgresql://db/x", schema="a" * 59, engine_schema="b")
    assert named.engine_schema == "b"


def test_the_engine_sees_that_a_connection_is_lost() -> None:
    """It tries again then. An error of ours would be the end of what drives a run."""
    away = QueueJournal("postgresql://boss@127.0.0.1:1/agents")
    with pytest.raises(sqlalchemy.exc.OperationalError):
        away.engine.connect()
    with pytest.raises(JournalError, match="there is no connection to the server"):
        away.submit_sync("sums", "Add.")


def test_a_run_with_the_id_of_a_deleted_one_is_queued(
    postgres: PostgresServer, journal: QueueJournal
) -> None:
    """Whatever the engine still knows of the deleted one."""
    for _ in range(3):
        journal.submit_sync("sums", "Add.", run_id="r")
        ids = [each[0] for each in entries(postgres, journal) if each[1] == "ENQUEUED"]
        assert len(ids) == 1
        table = f"{journal.engine_schema}.workflow_status"
        postgres.ask(f"UPDATE {table} SET status = 'SUCCESS' WHERE workflow_uuid = %s", ids[0])
        with PostgresJournal(postgres.url(), schema=journal.database.schema) as plain:
            plain.delete_sync("r")
