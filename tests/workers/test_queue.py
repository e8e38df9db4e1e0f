"""The queue: what is submitted is in the journal and in the queue, or in neither."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from postgres_server import PostgresServer

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.errors import JournalError, UsageError
from hookline.journal import post_answer
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


def test_a_run_is_submitted_once(postgres: PostgresServer, journal: QueueJournal) -> None:
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
    for bad in ("", " ", "a\0b"):
        with pytest.raises(UsageError, match="cannot be the id"):
            journal.submit_sync("sums", "Add.", run_id=bad)


def test_what_cannot_be_queued_is_not_in_the_journal(
    postgres: PostgresServer, journal: QueueJournal
) -> None:
    """And the other way around."""
    journal.submit_sync("sums", "Add.", run_id="first")
    with pytest.raises(UsageError, match="priority=-1"):
        journal.submit_sync("sums", "Add.", run_id="r", priority=-1)
    assert [info.run_id for info in journal.runs_sync()] == ["first"]
    postgres.ask(f"ALTER TABLE {journal.engine_schema}.workflow_status RENAME TO gone")
    with pytest.raises(JournalError, match="its tables are not there"):
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
