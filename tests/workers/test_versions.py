"""Which worker drives which version of an agent, who is alive, why a run waits, and queues that are full."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from postgres_server import PostgresServer, wait_until

from hookline import AgentBuilder, RunStatus
from hookline.errors import BuildError, NewerRunError, QueueFullError, UsageError
from hookline.journal import RunStarted, RunTakenUp, post_cancel
from hookline.testing import ScriptedDriver, say
from hookline.workers import QueueJournal
from hookline.workers.registry import place_for, place_of_newer


def why(work: Any, run_id: str) -> str:
    """Why a run waits, as `runs` shows it."""
    infos = [each for each in work.journal.runs_sync() if each.run_id == run_id]
    return work.journal.why_waiting_sync(*infos).get(run_id, "")


def versions(work: Any, run_id: str) -> list[str]:
    """The versions that drove a run."""
    records = work.journal.read_sync(run_id)
    return [each.agent_version for each in records if isinstance(each, RunStarted | RunTakenUp)]


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("2", "1")])
def test_a_rolling_upgrade_in_both_directions(work: Any, first: str, second: str) -> None:
    """A run stays with the version that began it, until a worker of another one accepts it."""
    began = work.start(version=first)
    work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    other = work.start(version=second)
    wait_until(lambda: len(work.journal.workers_sync()) == 2, "both are alive")
    for version in (first, second):
        work.journal.submit_sync("bank", "Pay.", run_id=f"of-{version}", version=version)
    work.journal.submit_sync("bank", "Pay.", run_id="of-any")
    for run_id, pids in (
        (f"of-{first}", {began.pid}),
        (f"of-{second}", {other.pid}),
        ("of-any", {began.pid, other.pid}),
    ):
        work.wait_for(run_id, RunStatus.COMPLETED)
        assert {pid for _, pid in work.calls(run_id)} <= pids
    began.kill()
    wait_until(
        lambda: why(work, "r") == f"no live worker accepts version '{first}' of agent 'bank'",
        work.errors(),
    )
    accepts = work.start(version=second, accepts=[first])
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r")[-1] == (2, accepts.pid)
    assert set(versions(work, "r")) == {first, second}
    assert versions(work, "r")[-1] == second
    assert why(work, "r") == ""


def test_a_run_of_a_newer_hookline_waits_for_one(work: Any) -> None:
    """A worker that cannot read it leaves it, and holds no slot for it."""
    newer = work.start(record_version=9)
    work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    work.start(concurrency=1)
    newer.kill()
    wait_until(lambda: any("parked" in id for id, _ in work.entries()), "it is put aside")
    with pytest.raises(NewerRunError, match="record version 9"):
        work.journal.read_sync("r")
    wait_until(lambda: "written by a newer Hookline" in why(work, "r"), "it is in that place alone")
    work.journal.submit_sync("bank", "Pay.", run_id="other")
    work.wait_for("other", RunStatus.COMPLETED)
    again = work.start(record_version=9)
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r")[-1] == (2, again.pid)


def test_who_is_alive_and_why_a_run_waits(work: Any) -> None:
    """A worker is alive as long as its process is."""
    journal: QueueJournal = work.journal
    assert journal.why_no_worker_sync("bank") == "no live worker works on queue 'default'"
    journal.submit_sync("asks", "Pay.", run_id="q")
    assert why(work, "q") == "no live worker works on queue 'default'"
    worker = work.start(agents=["asks"], version="1", accepts=["0"], concurrency=1)
    wait_until(lambda: bool(journal.workers_sync()), "it is alive")
    (info,) = journal.workers_sync()
    assert (info.queues, info.agents) == (("default",), {"asks": ("1", "0")})
    journal.submit_sync("bank", "Pay.", run_id="b")
    journal.submit_sync("asks", "Pay.", run_id="v", version="7")
    journal.submit_sync("asks", "Pay.", run_id="n", queue="night")
    journal.submit_sync("asks", "Pay.", run_id="d", delay=10_000)
    work.wait_for("q", RunStatus.PAUSED)
    wait_until(lambda: why(work, "q") == "it waits for an answer", "it has paused")
    expected = {
        "b": "no live worker has agent 'bank'",
        "v": "no live worker accepts version '7' of agent 'asks'",
        "n": "no live worker works on queue 'night'",
        "d": "it is delayed",
    }
    for run_id, reason in expected.items():
        wait_until(lambda: why(work, run_id) == reason, reason)  # noqa: B023 - it waits here
    assert journal.why_no_worker_sync("asks", version="0") == ""
    worker.kill()
    worker.wait()
    wait_until(lambda: journal.workers_sync() == [], "it is dead")
    work.postgres.ask(
        f"DELETE FROM {journal.engine_schema}.workflow_status WHERE workflow_uuid = 'n:start'"
    )
    assert why(work, "n") == "it is in no queue: hookline resume n"
    agent = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).with_journal(journal).build()
    agent.run_sync("Hello?", run_id="own")
    assert why(work, "own") == ""


def test_versions_that_are_accepted_are_a_list() -> None:
    """One text would be a list of letters. Runs of agents without a version can be accepted, too."""
    with pytest.raises(BuildError, match=r"accepts='1.4' is one text.*\['1.4'\]"):
        AgentBuilder().with_version("2", accepts="1.4")
    builder = AgentBuilder().with_driver(ScriptedDriver([say("hello")]))
    agent = builder.with_version("2", accepts=["1.4", ""]).build()
    assert (agent.definition.version, agent.definition.accepts) == ("2", ("1.4", ""))


def test_places_of_runs_that_wait_are_all_different() -> None:
    """Whatever agents and versions are called."""
    pairs = [("bank", None), ("bank", "1"), ("bank@1", None), ("bank@", "1"), ("bank", "@1")]
    pairs += [("newer than 3", None), ("a/b", None), ("bank%401", None), ("b", ""), ("b@", None)]
    places = [place_for(*each) for each in pairs] + [place_of_newer(3)]
    assert len(set(places)) == len(places)
    assert place_for("bank", "1.4") == "bank@1.4"
    assert not any("/" in each for each in places)


def test_a_queue_has_a_maximum_length(postgres: PostgresServer, journal: QueueJournal) -> None:
    """What is there already may be submitted again. Other queues have their own."""
    journal.set_max_length_sync("default", 2)
    for name in ("a", "b", "b"):
        journal.submit_sync("bank", "Pay.", run_id=name, delay=10_000 if name == "a" else None)
    full = r"queue 'default' is full: 2 runs wait in it, and its maximum length is 2\. Submit"
    with pytest.raises(QueueFullError, match=full):
        journal.submit_sync("bank", "Pay.", run_id="c")
    journal.submit_sync("bank", "Pay.", run_id="a", delay=10_000)
    journal.submit_sync("bank", "Pay.", run_id="other", queue="night")
    assert sorted(each.run_id for each in journal.runs_sync()) == ["a", "b", "other"]
    for _ in range(2):  # the runs that wait are counted, not what the engine has of them
        asyncio.run(post_cancel(journal, "a", by="ann"))
    with pytest.raises(QueueFullError, match=full):
        journal.submit_sync("bank", "Pay.", run_id="c")
    schema = journal.database.schema
    postgres.ask(f"UPDATE {schema}.runs SET status = 'cancelled' WHERE run_id = 'a'")
    journal.submit_many_sync("bank", {"e": "Pay.", "b": "Pay."})
    with pytest.raises(QueueFullError, match=full):
        journal.submit_many_sync("bank", {"b": "Pay.", "c": "Pay."})
    postgres.ask(f"UPDATE {schema}.runs SET status = 'queued' WHERE run_id = 'a'")
    journal.set_max_length_sync("default", 4)
    journal.submit_sync("bank", "Pay.", run_id="c")
    journal.set_max_length_sync("default", None)
    journal.submit_sync("bank", "Pay.", run_id="d")
    asyncio.run(journal.wake_at("c", journal.database.now() + 1000, "default/agent bank"))
    journal.set_max_length_sync("default", 5)
    asyncio.run(journal.enqueue("d", "parked 1", "default/agent bank"))
    with pytest.raises(QueueFullError, match="5 runs wait"):
        journal.submit_sync("bank", "Pay.", run_id="f")
    with pytest.raises(UsageError, match="length=0"):
        journal.set_max_length_sync("default", 0)
    assert journal.check_sync().ok
