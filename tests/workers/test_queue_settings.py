"""What can be set for a queue, schedules, runs in bulk, and what is deleted."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from postgres_server import PostgresServer, wait_until

from hookline import RunStatus
from hookline.errors import UsageError
from hookline.workers import QueueJournal


def count(postgres: PostgresServer, journal: QueueJournal, condition: str) -> int:
    """How many entries are so."""
    query = f"SELECT count(*) FROM {journal.engine_schema}.workflow_status WHERE {condition}"
    return int(postgres.ask(query)[0][0])


def test_runs_are_submitted_in_bulk(postgres: PostgresServer, journal: QueueJournal) -> None:
    """Each once, also when it is repeated; another prompt is refused."""
    prompts = {f"r{number}": f"Pay {number}." for number in range(250)}
    assert journal.submit_many_sync("bank", prompts, priority=7) == [*prompts]
    assert journal.submit_many_sync("bank", {**prompts, "new": "Pay."}, priority=7)[-1] == "new"
    assert {info.run_id for info in journal.runs_sync(limit=1000)} == {*prompts, "new"}
    assert count(postgres, journal, "priority = 7 AND status = 'ENQUEUED'") == 251
    first, second = journal.submit_many_sync("bank", ["Pay.", "Pay."])
    assert first != second
    with pytest.raises(UsageError, match="'r1' is in the journal already, with another prompt"):
        journal.submit_many_sync("bank", {"r1": "Pay me."})
    with pytest.raises(UsageError, match="cannot be the id"):
        journal.submit_many_sync("bank", {"good": "Pay.", "": "Pay."})
    assert journal.submit_many_sync("bank", []) == []
    assert journal.check_sync().ok


def test_all_workers_together_keep_the_limits_of_a_queue(work: Any) -> None:
    """Two at once, whatever each worker could do; then three in a long time."""
    journal = work.journal
    journal.set_concurrency_sync("default", 2)
    ids = [f"r{number}" for number in range(5)]
    held = [work.hold(run_id, 0) for run_id in ids]
    for run_id in ids:
        journal.submit_sync("bank", "Pay.", run_id=run_id)
    for _ in range(2):
        work.start(concurrency=10)
    wait_until(lambda: count_taken(work) == 2, "two are driven")
    journal.set_rate_sync("slow", (3, 100_000))
    journal.submit_many_sync("bank", {f"s{number}": "Pay." for number in range(5)}, queue="slow")
    work.start(queues=["slow"])
    wait_until(lambda: len(over(work, "s")) == 3, "three of the other queue are begun")
    assert count_taken(work) == 2
    journal.set_concurrency_sync("default", 1)
    journal.set_concurrency_sync("default", None)
    work.start(concurrency=10)
    wait_until(lambda: count_taken(work) == 5, "there is no limit now")
    for each in held:
        each.unlink()
    wait_until(lambda: len(over(work, "r")) == 5, "all are over")
    assert len(over(work, "s")) == 3
    for wrong in (0, -1):
        with pytest.raises(UsageError, match="concurrency="):
            journal.set_concurrency_sync("default", wrong)
        with pytest.raises(UsageError, match="rate="):
            journal.set_rate_sync("default", (wrong, 1))


def count_taken(work: Any) -> int:
    """How many entries of the first queue workers have."""
    return count(work.postgres, work.journal, "status = 'PENDING' AND queue_name = 'default'")


def over(work: Any, start: str) -> list[str]:
    """The runs that are over."""
    infos = work.journal.runs_sync(status=RunStatus.COMPLETED)
    return [info.run_id for info in infos if info.run_id.startswith(start)]


def test_schedules_submit_runs(postgres: PostgresServer, journal: QueueJournal) -> None:
    """Of many workers one does it. What was due while there was none is submitted once."""
    every_day = journal.set_schedule_sync(
        "daily", "30 2 * * *", "bank", "Pay\0.", timezone="Europe/Berlin"
    )
    often = journal.set_schedule_sync("often", "* * * * *", "bank", "Pay.", queue="night")
    assert journal.schedules_sync() == [often, every_day]
    assert asyncio.run(journal.submit_due()) == []
    schema = journal.database.schema
    postgres.ask(f"UPDATE {schema}.schedules SET next_at = 1e9 + 20")

    async def by_many() -> list[str]:
        done = await asyncio.gather(*(journal.submit_due() for _ in range(5)))
        return sorted(run_id for each in done for run_id in each)

    assert asyncio.run(by_many()) == ["daily 2001-09-09T01:47Z", "often 2001-09-09T01:47Z"]
    assert {(info.run_id[:5], info.prompt, info.status.value) for info in journal.runs_sync()} == {
        ("daily", "Pay\0.", "queued"),
        ("often", "Pay.", "queued"),
    }
    assert count(postgres, journal, "queue_name = 'night' AND status = 'ENQUEUED'") == 1
    assert asyncio.run(journal.submit_due()) == []
    again = {each.name: each.next_at for each in journal.schedules_sync()}
    assert again["daily"] == every_day.next_at
    journal.set_schedule_sync("daily", "0 0 1 1 *", "bank", "Pay.")
    journal.remove_schedule_sync("often")
    assert [(each.name, each.cron) for each in journal.schedules_sync()] == [("daily", "0 0 1 1 *")]
    with pytest.raises(UsageError, match="no schedule 'often'"):
        journal.remove_schedule_sync("often")
    for cron, zone, words in (
        ("61 * * * *", "UTC", "'61 * * * *' is not a cron line"),
        ("* * * * * *", "UTC", "is not a cron line"),
        ("", "UTC", "is not a cron line"),
        ("* * * * *", "Nowhere/At all", "no time zone"),
        ("* * * * *", "../../etc/passwd", "no time zone"),
    ):
        with pytest.raises(UsageError, match=re.escape(words)):
            journal.set_schedule_sync("wrong", cron, "bank", "Pay.", timezone=zone)
    assert journal.check_sync().ok


def test_deleted_runs_leave_nothing_in_the_queue(work: Any) -> None:
    """By delete and by prune; those that are kept stay in the queue."""
    journal = work.journal
    ids = ["a", "a:b", "a:b:start", "c"]
    for run_id in ids:
        journal.submit_sync("bank", "Pay.", run_id=run_id)
    assert journal.delete_sync("a:b") == ["a:b"]
    assert sorted(work.entries()) == [
        ("a:b:start:start", "ENQUEUED"),
        ("a:start", "ENQUEUED"),
        ("c:start", "ENQUEUED"),
    ]
    work.start()
    for run_id in ("a", "a:b:start", "c"):
        work.wait_for(run_id, RunStatus.COMPLETED)
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "the engine knows")
    journal.submit_sync("nobody", "Pay.", run_id="waits")
    assert sorted(journal.prune_sync(older_than=0)) == ["a", "a:b:start", "c"]
    assert {id.split(":")[0] for id, _ in work.entries()} == {"waits"}
    for table in ("workflow_input", "workflow_output"):
        query = f"SELECT workflow_uuid FROM {journal.engine_schema}.{table}"
        assert {id.split(":")[0] for (id,) in work.postgres.ask(query)} <= {"waits"}


def test_a_worker_looks_after_schedules(work: Any) -> None:
    """While it works."""
    work.start()
    work.journal.set_schedule_sync("often", "* * * * *", "bank", "Pay.")
    work.postgres.ask(f"UPDATE {work.journal.database.schema}.schedules SET next_at = 1e9")
    wait_until(lambda: "often 2001-09-09T01:46Z" in over(work, "often"), "it was submitted")
