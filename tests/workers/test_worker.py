"""Workers as processes: who drives a run, what becomes of it when they die, and that nothing happens twice."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import working_agents
from postgres_server import wait_until

from hookline import AgentBuilder, RunStatus, replay
from hookline.errors import UsageError
from hookline.journal import (
    ApprovalAnswered,
    PostgresJournal,
    Questions,
    RunFinished,
    post_answer,
    post_cancel,
)
from hookline.state import Decision
from hookline.testing import ScriptedDriver, say
from hookline.workers import QueueJournal, Worker


def finals(work: Any, run_id: str) -> list[RunFinished]:
    """The ends of a run, without its pauses."""
    records = work.journal.read_sync(run_id)
    ends = [each for each in records if isinstance(each, RunFinished)]
    return [each for each in ends if each.status is not RunStatus.PAUSED]


def test_a_killed_worker_is_replaced(work: Any) -> None:
    """SIGKILL in the middle of a call: another worker continues, the call is in doubt and not made again."""
    work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay three times.", run_id="r")
    first = work.wait_for_call("r", 1)
    work.start()
    (victim,) = [each for each in work.workers if each.pid == first]
    victim.kill()
    held.unlink()
    work.wait_for("r", RunStatus.COMPLETED)
    numbers = [number for number, _ in work.calls("r")]
    assert sorted(numbers) == sorted(set(numbers)), "no once tool ran twice"
    assert {pid for _, pid in work.calls("r")} == {each.pid for each in work.workers}
    assert [each.text for each in finals(work, "r")] == ["r is done"]
    wait_until(lambda: work.entries() == [("r:start", "SUCCESS")], "the engine knows")
    assert work.journal.check_sync().ok


def test_a_run_that_waits_holds_nothing_and_an_answer_continues_it(work: Any) -> None:
    """While it waits its entry is finished. Each answer queues it, and any worker takes it."""
    work.start(concurrency=1)
    work.journal.submit_sync("asks", "Pay.", run_id="r")
    for number in range(3):
        work.wait_for("r", RunStatus.PAUSED)
        wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "no slot is held")
        if not number:  # one slot is all there is
            work.journal.submit_sync("bank", "Pay.", run_id="other")
            work.wait_for("other", RunStatus.COMPLETED)
        (question,) = asyncio.run(Questions.read(work.journal, "r")).open
        yes = Decision.allow()
        asyncio.run(post_answer(work.journal, "r", question.id, yes, by="ann"))
        work.wait_for_call("r", number)
    work.wait_for("r", RunStatus.COMPLETED)
    assert [number for number, _ in work.calls("r")] == [0, 1, 2]
    assert len(finals(work, "r")) == 1


def test_a_question_that_expires_wakes_its_run(work: Any) -> None:
    """Nobody answers: each call is denied when its time is over, and the run ends."""
    work.start()
    work.journal.submit_sync("asks soon", "Pay.", run_id="r")
    work.wait_for("r", RunStatus.COMPLETED)
    answers = [
        each.by for each in work.journal.read_sync("r") if isinstance(each, ApprovalAnswered)
    ]
    assert (answers, work.calls("r")) == (["expiry"] * 3, [])
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "nothing is left over")


def test_an_answer_that_queued_nothing_is_found(work: Any) -> None:
    """Somebody who may only write to the inbox has answered: a worker that starts looks for it."""
    worker = work.start()
    work.journal.submit_sync("asks", "Pay.", run_id="r")
    work.wait_for("r", RunStatus.PAUSED)
    worker.kill()
    worker.wait()
    plain = PostgresJournal(work.postgres.url(), schema=work.journal.database.schema)
    with plain:
        (question,) = asyncio.run(Questions.read(plain, "r")).open
        asyncio.run(post_answer(plain, "r", question.id, Decision.allow(), by="ann"))
    work.start()
    work.wait_for_call("r", 0)


def test_a_run_is_cancelled_in_the_middle_of_a_call(work: Any) -> None:
    """And one that waits for its model, and one that no worker has begun."""
    work.journal.submit_sync("bank", "Pay.", run_id="never")
    asyncio.run(post_cancel(work.journal, "never", by="ann"))
    work.hold("r", 1)
    work.hold("m", 100)
    work.start()
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.journal.submit_sync("thinks", "Pay.", run_id="m")
    work.wait_for_call("r", 1)
    work.wait_for_call("m", 100)
    for run_id in ("r", "m"):
        asyncio.run(post_cancel(work.journal, run_id, by="ann"))
        work.wait_for(run_id, RunStatus.CANCELLED)
    work.wait_for("never", RunStatus.CANCELLED)
    assert work.calls("never") == []
    assert [each.reason for each in finals(work, "r")] == ["cancelled by ann (database role boss)"]
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "the engine knows")


def test_a_run_that_kills_its_workers_fails(work: Any) -> None:
    """After some attempts, which the journal counts."""
    work.journal.submit_sync("deadly", "Pay.", run_id="r")
    for _ in range(2):
        assert work.start(max_attempts=2).wait() == 9, work.errors()
    assert work.status("r") is RunStatus.QUEUED
    work.start(max_attempts=2)
    work.wait_for("r", RunStatus.FAILED)
    (end,) = finals(work, "r")
    assert end.stop_reason == "attempts"
    assert "taken up 2 times" in end.reason


def test_a_run_that_kills_its_workers_after_a_pause_fails(work: Any) -> None:
    """Pauses are no attempts, and what comes after one is counted."""
    work.journal.submit_sync("deadly later", "Pay.", run_id="r")
    first = work.start(max_attempts=2)
    work.wait_for("r", RunStatus.PAUSED)
    (question,) = asyncio.run(Questions.read(work.journal, "r")).open
    asyncio.run(post_answer(work.journal, "r", question.id, Decision.allow(), by="ann"))
    assert first.wait() == 9, work.errors()
    assert work.status("r") is RunStatus.PAUSED
    assert work.start(max_attempts=2).wait() == 9, work.errors()
    work.start(max_attempts=2)
    work.wait_for("r", RunStatus.FAILED)
    assert work.calls("r") == []
    assert [each.stop_reason for each in finals(work, "r")] == ["attempts"]


def test_a_run_that_failed_after_too_many_attempts_gets_as_many_again(work: Any) -> None:
    """It continues where it was: queued, or waiting for the answer that it has. Its first end is taken back."""
    work.journal.submit_sync("deadly later", "Pay.", run_id="q")
    first = work.start(max_attempts=1)
    work.wait_for("q", RunStatus.PAUSED)
    (question,) = asyncio.run(Questions.read(work.journal, "q")).open
    asyncio.run(post_answer(work.journal, "q", question.id, Decision.allow(), by="ann"))
    assert first.wait() == 9, work.errors()
    work.journal.submit_sync("deadly", "Pay.", run_id="r")
    work.start(max_attempts=1, agents=["deadly"]).wait()
    healthy = work.start(max_attempts=1, agents={"deadly": "bank", "deadly later": "asks"})
    for run_id, status, steps in (("r", RunStatus.COMPLETED, 4), ("q", RunStatus.PAUSED, 1)):
        work.wait_for(run_id, RunStatus.FAILED)
        result = work.journal.resume_sync(run_id)
        assert (result.status, result.state.step_count) == (status, steps), work.errors()
        assert {pid for _, pid in work.calls(run_id)} == {healthy.pid}
        assert work.status(run_id) is status
        assert work.journal.resume_sync(run_id).status is status
    bank = working_agents.make_agents(work.folder)["bank"]
    assert asyncio.run(replay(work.journal, "r", bank)).identical
    assert work.journal.check_sync().ok


def test_a_stopped_worker_hands_over_after_its_step(work: Any) -> None:
    """SIGTERM: the call in progress ends, nothing is in doubt, and the next worker continues."""
    first = work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    first.terminate()
    second = work.start()
    held.unlink()
    assert first.wait() == 0
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r") == [(0, first.pid), (1, first.pid), (2, second.pid)]
    assert len(finals(work, "r")) == 1


def test_grace_ends_and_a_second_signal_ends_at_once(work: Any) -> None:
    """The call in progress is lost then, as by a process that died."""
    work.hold("r", 0)
    work.hold("s", 0)
    first = work.start(grace=0.1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 0)
    first.terminate()
    assert first.wait() == 0
    second = work.start(grace=600)
    work.journal.submit_sync("bank", "Pay.", run_id="s")
    work.wait_for_call("s", 0)
    second.terminate()
    second.terminate()
    wait_until(lambda: second.poll() is not None or second.terminate() is not None, "it ends")
    assert second.wait() == 1


def test_a_worker_that_loses_its_connections_continues(work: Any) -> None:
    """The call in progress is cancelled and in doubt; the run continues with a new claim."""
    worker = work.start()
    work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    work.postgres.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
        f"%hookline% {worker.pid}",
    )
    work.wait_for("r", RunStatus.COMPLETED)
    assert [number for number, _ in work.calls("r")] == [0, 1, -2, 2]
    assert len(finals(work, "r")) == 1
    assert work.journal.check_sync().ok


def test_without_a_server_nothing_goes_on(work: Any) -> None:
    """The call in progress is cancelled, before the server is back. Then the run continues."""
    work.start()
    work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    work.postgres.stop()
    try:
        work.wait_for_call("r", -2)
    finally:
        work.postgres.start()
    work.wait_for("r", RunStatus.COMPLETED)
    assert [number for number, _ in work.calls("r")] == [0, 1, -2, 2]
    assert len(finals(work, "r")) == 1


def test_an_entry_that_the_engine_took_and_lost_is_queued_again(work: Any) -> None:
    """It belongs to a living worker, and nothing there works on it."""
    work.start()
    work.journal.submit_sync("bank", "Pay.", run_id="first")
    work.wait_for("first", RunStatus.COMPLETED)
    work.journal.submit_sync("bank", "Pay.", run_id="r", delay=100_000)
    table = f"{work.journal.engine_schema}.workflow_status"
    work.postgres.ask(
        f"UPDATE {table} SET status = 'PENDING', executor_id ="
        f" (SELECT executor_id FROM {table} WHERE workflow_uuid = 'first:start')"
        " WHERE workflow_uuid = 'r:start'"
    )
    work.wait_for("r", RunStatus.COMPLETED)
    assert len(finals(work, "r")) == 1


def test_a_stopped_process_keeps_its_runs(work: Any) -> None:
    """SIGSTOP is not death: other workers wait, and after SIGCONT the run ends as if nothing had been."""
    first = work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    first.send_signal(signal.SIGSTOP)
    work.start()
    work.journal.submit_sync("bank", "Pay.", run_id="other")
    work.wait_for("other", RunStatus.COMPLETED)
    held.unlink()
    assert work.status("r") is RunStatus.RUNNING
    first.send_signal(signal.SIGCONT)
    work.wait_for("r", RunStatus.COMPLETED)
    assert {pid for _, pid in work.calls("r")} == {first.pid}


def test_a_worker_without_the_agent_leaves_the_run_to_others(work: Any) -> None:
    """And holds no slot for it."""
    work.start(agents=["asks"], concurrency=1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.journal.submit_sync("asks", "Pay.", run_id="other")
    work.wait_for("other", RunStatus.PAUSED)
    assert work.status("r") is RunStatus.QUEUED
    other = work.start(agents=["bank"])
    work.wait_for("r", RunStatus.COMPLETED)
    assert {pid for _, pid in work.calls("r")} == {other.pid}


def test_a_wrong_clock_concerns_delays_alone(work: Any) -> None:
    """One worker is ten minutes ahead, the other behind. The first asks, the second takes the answer and continues."""
    submit = work.journal.submit_sync
    fast = work.start(clock=600)
    submit("bank", "Pay.", run_id="delayed", delay=300)
    work.wait_for("delayed", RunStatus.COMPLETED)  # as this worker sees it they are over
    held = work.hold("r", 1)
    submit("bank", "Pay.", run_id="r")
    submit("asks for five minutes", "Pay.", run_id="q")
    work.wait_for_call("r", 1)
    work.wait_for("q", RunStatus.PAUSED)
    slow = work.start(clock=-600)
    fast.kill()
    held.unlink()
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r")[-1] == (2, slow.pid)
    submit("bank", "Pay.", run_id="soon", delay=1)
    (question,) = asyncio.run(Questions.read(work.journal, "q")).open
    asyncio.run(post_answer(work.journal, "q", question.id, Decision.allow(), by="ann"))
    work.wait_for_call("q", 0)
    work.wait_for("q", RunStatus.PAUSED)
    assert (
        work.status("soon") is RunStatus.QUEUED
    )  # for ten minutes, while there is only this worker
    work.start()
    work.wait_for("soon", RunStatus.COMPLETED)
    now = work.journal.database.now()
    for run_id in ("delayed", "r", "q", "soon"):
        times = [each.at for each in work.journal.read_sync(run_id)]
        assert all(abs(now - at) < 300 for at in times), "records have the time of the database"


def test_a_worker_that_cannot_work_is_refused(journal: QueueJournal) -> None:
    """With the option, or the agent."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).build()
    for wrong in ({"concurrency": 0}, {"grace": -1.0}, {"max_attempts": 0}):
        (option,) = wrong
        with pytest.raises(UsageError, match=f"{option}="):
            Worker(journal, {"hello": agent}, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'hello' is 1, which is not an agent"):
        Worker(journal, {"hello": 1})  # type: ignore[dict-item]
    own = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).with_journal(journal).build()
    with pytest.raises(UsageError, match="'hello' has a journal of its own"):
        Worker(journal, {"hello": own})


DOCS = Path(__file__).parents[2] / "docs"


def test_a_worker_needs_no_more_than_the_documented_rights(work: Any) -> None:
    """It submits, drives and answers, and may not create anything."""
    pages = [(DOCS / name).read_text() for name in ("postgres.md", "scaling.md")]
    blocks = [block for page in pages for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)]
    lines = [line for block in blocks for line in block.splitlines() if "TO worker;" in line]
    schema = work.journal.database.schema
    work.postgres.ask("CREATE ROLE worker LOGIN")
    try:
        for line in lines:
            renamed = line.replace("hookline_dbos", work.journal.engine_schema)
            work.postgres.ask(re.sub(r"\bhookline\b", schema, renamed))
        url = work.postgres.url(user="worker")
        with QueueJournal(url, schema=schema) as journal:
            journal.submit_sync("asks", "Pay.", run_id="r")
            work.start(url=url)
            work.wait_for("r", RunStatus.PAUSED)
            (question,) = asyncio.run(Questions.read(journal, "r")).open
            asyncio.run(post_answer(journal, "r", question.id, Decision.allow(), by="ann"))
            work.wait_for_call("r", 0)
            answers = [
                each.by for each in journal.read_sync("r") if isinstance(each, ApprovalAnswered)
            ]
            assert answers == ["inbox: ann (database role worker)"]
    finally:
        work.close()
        work.postgres.ask("DROP OWNED BY worker")
        work.postgres.ask("DROP ROLE worker")
