"""What can be set for a queue, schedules, runs in bulk, and what is deleted."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest
from postgres_server import PostgresServer, wait_until

from hookline import AgentBuilder, RunStatus
from hookline.errors import UsageError
from hookline.testing import ScriptedDriver, say
from hookline.workers import QueueJournal, Worker


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


def test_a_full_worker_takes_nothing(work: Any) -> None:
    """Its places are those of all its queues. What it leaves, another worker has; until then it counts as waiting."""
    journal = work.journal
    work.start(queues=["a", "b"], concurrency=1)
    held = work.hold("long", 0)
    journal.submit_sync("bank", "Pay.", run_id="long", queue="a")
    work.wait_for_call("long", 0)
    for name in ("s", "t"):
        journal.submit_sync("bank", "Pay.", run_id=name, queue="b")
    time.sleep(2)  # it looks twice a second
    assert dict(work.entries())["s:start"] == "ENQUEUED"
    assert [(each.queue, each.length) for each in journal.measure_queues()] == [("b", 2)]
    waits = journal.why_waiting_sync(*journal.runs_sync())
    assert waits.keys() == {"s", "t"}
    assert waits["s"] == "others are before it in queue 'b', or its workers are full"
    other = work.start(queues=["b"])
    for name in ("s", "t"):
        work.wait_for(name, RunStatus.COMPLETED)
        assert {pid for _, pid in work.calls(name)} == {other.pid}
    held.unlink()
    work.wait_for("long", RunStatus.COMPLETED)


async def test_answers_that_come_while_a_run_is_driven_take_no_places(work: Any) -> None:
    """Each has an entry, which waits until the run is at rest. Others are driven meanwhile."""
    work.start(concurrency=2)
    held = work.hold("long", 0)
    await work.journal.submit("bank", "Pay.", run_id="long")
    await asyncio.to_thread(work.wait_for_call, "long", 0)
    for number in range(3):
        await work.journal.enqueue("long", f"answer-{number}", "default")
        entry = f"long:answer-{number}"
        await asyncio.to_thread(
            wait_until, lambda entry=entry: dict(work.entries())[entry] == "PENDING", "it is taken"
        )
    await work.journal.submit("bank", "Pay.", run_id="other")
    await asyncio.to_thread(work.wait_for, "other", RunStatus.COMPLETED)
    held.unlink()
    await asyncio.to_thread(work.wait_for, "long", RunStatus.COMPLETED)


async def test_answers_to_a_run_of_another_worker_take_no_places(work: Any) -> None:
    """Their bodies wait for the run, and the worker that has them drives others meanwhile."""
    driver = work.start(concurrency=1)
    held = work.hold("long", 0)
    await work.journal.submit("bank", "Pay.", run_id="long")
    await asyncio.to_thread(work.wait_for_call, "long", 0)
    idle = work.start(concurrency=1)
    await work.journal.enqueue("long", "answer", "default")
    taken = lambda: dict(work.entries())["long:answer"] == "PENDING"  # noqa: E731
    await asyncio.to_thread(wait_until, taken, "it is taken")
    for run_id in ("other", "another"):
        await work.journal.submit("bank", "Pay.", run_id=run_id)
    for run_id in ("other", "another"):
        await asyncio.to_thread(work.wait_for, run_id, RunStatus.COMPLETED)
        assert {pid for _, pid in work.calls(run_id)} == {idle.pid}
    held.unlink()
    await asyncio.to_thread(work.wait_for, "long", RunStatus.COMPLETED)
    assert {pid for _, pid in work.calls("long")} == {driver.pid}


@pytest.mark.parametrize("limit", ["concurrency", "rate"])
def test_a_run_waits_for_the_limit_of_its_queue(work: Any, limit: str) -> None:
    """The reason names it."""
    if limit == "rate":
        work.journal.set_rate_sync("default", (1, 100_000))
    else:
        work.journal.set_concurrency_sync("default", 1)
    held = work.hold("first", 0)
    work.start()
    work.journal.submit_sync("bank", "Pay.", run_id="first")
    work.wait_for_call("first", 0)
    work.journal.submit_sync("bank", "Pay.", run_id="second")
    words = "1 at once" if limit == "concurrency" else "1 in 100000 seconds"
    assert work.journal.why_waiting_sync(*work.journal.runs_sync()) == {
        "second": "others are before it in queue 'default', its workers are full, or the queue is at its limit "
        f"({words})"
    }
    held.unlink()
    work.wait_for("first", RunStatus.COMPLETED)


def test_a_migration_removes_what_earlier_versions_set_for_workers(work: Any) -> None:
    """It limits workers no more, and is not in the way of a limit. That of an application stays."""
    journal, table = work.journal, f"{work.journal.engine_schema}.queues"
    ids = [f"r{number}" for number in range(2)]
    journal.submit_many_sync("bank", dict.fromkeys(ids, "Pay."))
    for name in ("default/bank", "of the application"):
        journal.open_queue(name)
    work.postgres.ask(f"UPDATE {table} SET worker_concurrency = 1")
    journal.migrate_sync()
    kept = work.postgres.ask(f"SELECT name FROM {table} WHERE worker_concurrency = 1")
    assert kept == [("of the application",)]
    work.postgres.ask(f"UPDATE {table} SET worker_concurrency = 5 WHERE name = 'default'")
    journal.migrate_sync()
    journal.set_concurrency_sync("default", 2)
    held = [work.hold(run_id, 0) for run_id in ids]
    work.start()
    wait_until(lambda: count_taken(work) == 2, "both are driven")
    for path in held:
        path.unlink()
    for run_id in ids:
        work.wait_for(run_id, RunStatus.COMPLETED)


def test_places_are_those_of_all_queues_together(work: Any) -> None:
    """Also when runs wait in several queues as the worker starts. All are driven, and never more at once."""
    names = [f"r{number}" for number in range(6)]
    for number, name in enumerate(names):
        work.journal.submit_sync("bank", "Pay.", run_id=name, queue="ab"[number % 2])
    held = [work.hold(name, 0) for name in names]
    work.start(queues=["a", "b"], concurrency=2)
    taken = "status = 'PENDING'"
    wait_until(lambda: count(work.postgres, work.journal, taken) >= 2, "it has taken some")
    time.sleep(1.5)
    assert count(work.postgres, work.journal, taken) == 2
    for path in held:
        path.unlink()
    for name in names:
        work.wait_for(name, RunStatus.COMPLETED)


def test_a_run_that_others_could_not_drive_finds_a_place(
    journal: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue is looked at less often. While another one has many runs, a place is left to it after some time."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    hello = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).build()
    worker = Worker(journal, {"hello": hello}, concurrency=1)
    assert [worker._count_free(name) for name in ("default", "default/hello")] == [1, 1]
    worker._entries.append("r:start")
    now = 31.0
    assert worker._count_free("default/hello") == 0
    worker._entries.clear()
    assert worker._count_free("default") == 0
    assert worker._count_free("default/hello") == 1
    assert worker._count_free("default") == 1


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
    with pytest.raises(UsageError, match=r"no schedule 'often'\. There are: daily\."):
        journal.remove_schedule_sync("often")
    journal.remove_schedule_sync("daily")
    with pytest.raises(UsageError, match=r"no schedule 'daily'\. There are no schedules\."):
        journal.remove_schedule_sync("daily")
    for cron, zone, words in (
        ("61 * * * *", "UTC", "'61 * * * *' is not a cron line"),
        ("* * * * * *", "UTC", "is not a cron line"),
        ("", "UTC", "is not a cron line"),
        ("0 0 30 2 *", "UTC", "never happens"),
        ("R R * * *", "UTC", "is not a cron line"),
        ("R(0-9) 2 * * *", "UTC", "is not a cron line"),
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
