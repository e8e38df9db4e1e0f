"""Workers as processes: who drives a run, what becomes of it when they die, and that nothing happens twice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import working_agents
from postgres_server import wait_until

from hookline import Agent, AgentBuilder, HookOutcome, RunResult, RunStatus, replay
from hookline.cli.main import main
from hookline.errors import JournalError, RunHandedOverError, RunInUseError, UsageError
from hookline.journal import (
    ApprovalAnswered,
    PostgresJournal,
    Questions,
    RunFinished,
    post_answer,
    post_cancel,
)
from hookline.state import Decision
from hookline.testing import ScriptedDriver, call, say
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


def test_a_message_that_cannot_be_read_ends_its_run(work: Any) -> None:
    """Whether it waits or is driven. It holds no place, and the messages for other runs count."""
    work.start()
    work.journal.submit_sync("asks", "Pay.", run_id="waits")
    work.wait_for("waits", RunStatus.PAUSED)
    for run_id in ("driven", "other"):
        work.hold(run_id, 1)
        work.journal.submit_sync("bank", "Pay.", run_id=run_id)
        work.wait_for_call(run_id, 1)
    table = f"{work.journal.database.schema}.inbox"
    for run_id in ("waits", "driven"):
        work.postgres.ask(f"INSERT INTO {table} (run_id, message) VALUES (%s, '{{}}')", run_id)
    asyncio.run(post_cancel(work.journal, "other", by="ann"))
    work.start()  # it looks for messages of runs that are in no queue
    for run_id in ("waits", "driven", "other"):
        work.wait_for(run_id, RunStatus.CANCELLED)
    for run_id in ("waits", "driven"):
        (end,) = finals(work, run_id)
        assert "cancelled by a message that cannot be read (database role boss)" in end.reason
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


async def resume_while_claimed(work: Any, run_id: str) -> RunResult:
    """The result of a run that somebody else has for a moment longer, as a worker that has just ended it."""
    url, schema = work.postgres.url(), work.journal.database.schema
    async with PostgresJournal(url, schema=schema) as other:
        claim = await claim_when_free(other, run_id)
        resuming = asyncio.create_task(work.journal.resume(run_id))
        await asyncio.wait([resuming], timeout=0.5)
        assert not resuming.done()
        await asyncio.wrap_future(claim.give_back())
        return await resuming


async def claim_when_free(journal: PostgresJournal, run_id: str) -> Any:
    """The claim of a run that a worker is about to give back."""
    while True:
        try:
            return await journal.claim(run_id)
        except RunInUseError:
            await asyncio.sleep(0.05)


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
        result = asyncio.run(resume_while_claimed(work, run_id))
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


def cut(work: Any, pid: int) -> None:
    """End the connections of a process."""
    work.postgres.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
        f"%hookline% {pid}",
    )


def test_a_worker_that_loses_its_connections_continues(work: Any) -> None:
    """The call in progress is cancelled and in doubt; the run continues with a new claim."""
    worker = work.start()
    work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    cut(work, worker.pid)
    work.wait_for("r", RunStatus.COMPLETED)
    assert [number for number, _ in work.calls("r")] == [0, 1, -2, 2]
    assert len(finals(work, "r")) == 1
    assert work.journal.check_sync().ok


async def test_a_call_is_cancelled_once_when_the_connection_is_lost(work: Any) -> None:
    """However often the worker looks meanwhile: the tool has time to clean up."""
    done = []

    async def lock() -> str:
        """Lock something."""
        done.append("locked")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.5)
            done.append("unlocked")
        return ""

    script = ScriptedDriver([call("lock"), say("done")])
    agent = AgentBuilder().with_driver(script).with_tools(lock).build()
    worker = Worker(work.journal, {"bank": agent})
    await work.journal.submit("bank", "Go.", run_id="r")
    body = asyncio.create_task(worker._drive("r"))
    while not done:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.02)
    cut(work, os.getpid())
    async with asyncio.timeout(30):
        while done == ["locked"]:
            await worker._look()
            await asyncio.sleep(0.05)
        await body
    assert done == ["locked", "unlocked"]
    await work.journal.close()


async def test_a_worker_gets_its_own_run_again_before_it_knows_that_it_lost_it(work: Any) -> None:
    """Others took it for dead. The call in progress is cancelled all the same, and the run does not fail."""
    worker = Worker(work.journal, working_agents.make_agents(work.folder))
    work.hold("r", 1)
    await work.journal.submit("bank", "Pay.", run_id="r")
    first = asyncio.create_task(worker._drive("r"))
    await asyncio.to_thread(work.wait_for_call, "r", 1)
    cut(work, os.getpid())
    second = asyncio.create_task(worker._drive("r"))
    await asyncio.sleep(1.0)  # it would have the claim by now
    assert [number for number, _ in work.calls("r")] == [0, 1]
    await worker._look()
    await asyncio.wait_for(asyncio.gather(first, second), 30)
    assert [number for number, _ in work.calls("r")] == [0, 1, -2, 2]
    assert (await work.journal.runs())[0].status is RunStatus.COMPLETED
    await work.journal.close()


async def test_a_resume_that_is_refused_keeps_no_claim(work: Any) -> None:
    """The run is still driven here by one that lost its claim."""
    worker = Worker(work.journal, working_agents.make_agents(work.folder))
    work.hold("r", 1)
    await work.journal.submit("bank", "Pay.", run_id="r")
    first = asyncio.create_task(worker.agents["bank"].resume("r"))
    await asyncio.to_thread(work.wait_for_call, "r", 1)
    cut(work, os.getpid())
    with pytest.raises(UsageError, match="is running already"):
        await worker.agents["bank"].resume("r")
    await work.journal.claim("r")
    first.cancel()
    with pytest.raises(RunHandedOverError):
        await first
    await work.journal.close()


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


def test_runs_that_are_in_no_queue_are_found(work: Any) -> None:
    """Their entries have ended or are gone, or nobody queued the answer. A run that cannot be read hides no other."""
    worker = work.start()
    for run_id in ("broken", "answered"):
        work.journal.submit_sync("asks", "Pay.", run_id=run_id)
        work.wait_for(run_id, RunStatus.PAUSED)
    held = work.hold("began", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="began")
    work.wait_for_call("began", 1)
    worker.kill()
    worker.wait()
    held.unlink()
    for run_id in ("ended", "gone"):
        work.journal.submit_sync("bank", "Pay.", run_id=run_id)
    schema, table = work.journal.database.schema, f"{work.journal.engine_schema}.workflow_status"
    work.postgres.ask(f"UPDATE {table} SET status = 'ERROR' WHERE workflow_uuid = 'ended:start'")
    work.postgres.ask(
        f"UPDATE {table} SET status = 'CANCELLED' WHERE workflow_uuid = 'began:start'"
    )
    work.postgres.ask(f"DELETE FROM {table} WHERE workflow_uuid = 'gone:start'")
    work.postgres.ask(f"INSERT INTO {schema}.inbox (run_id, message) VALUES ('broken', '{{}}')")
    work.postgres.ask(f"UPDATE {schema}.runs SET head = '' WHERE run_id = 'broken'")
    with PostgresJournal(work.postgres.url(), schema=schema) as plain:
        (question,) = asyncio.run(Questions.read(plain, "answered")).open
        asyncio.run(post_answer(plain, "answered", question.id, Decision.allow(), by="ann"))
    work.start()
    for run_id in ("ended", "gone", "began"):
        work.wait_for(run_id, RunStatus.COMPLETED)
        assert len(finals(work, run_id)) == 1
    work.wait_for_call("answered", 0)
    assert "run 'broken' cannot be looked at" in work.errors()


@pytest.mark.parametrize("lose", ["DELETE FROM {}", "UPDATE {} SET status = 'CANCELLED'"])
async def test_the_entry_for_an_expiry_is_replaced(work: Any, lose: str) -> None:
    """Each time that it is lost, also if the run has read a message. A run whose question stays is not looked at."""
    journal, table = work.journal, f"{work.journal.engine_schema}.workflow_status"
    worker = Worker(journal, working_agents.make_agents(work.folder))
    for run_id, agent in (("r", "asks for five minutes"), ("other", "asks")):
        await journal.submit(agent, "Pay.", run_id=run_id)
        await worker._drive(run_id)
    (question,) = (await Questions.read(journal, "r")).open
    await post_answer(journal, "r", question.id, Decision.allow(), by="ann")
    await worker._drive("r")
    work.postgres.ask(f"UPDATE {table} SET status = 'SUCCESS' WHERE status <> 'DELAYED'")
    for _ in range(2):
        work.postgres.ask(lose.format(table) + " WHERE status = 'DELAYED'")
        assert (await journal.find_lost()).keys() == {"r"}
        await worker._find_lost()
        (entry,) = await journal._find_entries(("DELAYED",))
        assert (entry.run_id, entry.cause.partition(" ")[0]) == ("r", "expiry")
        await worker._find_lost()
    await journal.close()


def test_a_damaged_run_holds_no_place(work: Any) -> None:
    """It is left as it is. Others are driven, and the reason why each waits is shown."""
    first = work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    first.kill()
    first.wait()
    held.unlink()
    schema = work.journal.database.schema
    work.postgres.ask(f"UPDATE {schema}.runs SET head = '' WHERE run_id = 'r'")
    work.journal.submit_sync("bank", "Pay.", run_id="other")
    reasons = work.journal.why_waiting_sync(*work.journal.runs_sync())
    assert reasons["other"] == "no live worker works on queue 'default'"
    assert reasons["r"].startswith("the journal is damaged: run 'r': its last record")
    work.start(concurrency=1)
    work.wait_for("other", RunStatus.COMPLETED)
    wait_until(lambda: {each for _, each in work.entries()} == {"SUCCESS"}, "it holds no place")
    assert "run 'r' is left as it is: the journal is damaged" in work.errors()


def test_a_run_whose_last_worker_died_waits_for_another(work: Any) -> None:
    """What the dead one had taken is no reason."""
    worker = work.start()
    work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for_call("r", 1)
    worker.kill()
    worker.wait()
    reason = {"r": "no live worker works on queue 'default'"}
    wait_until(
        lambda: work.journal.why_waiting_sync(*work.journal.runs_sync()) == reason,
        "the server knows that it is dead",
    )


async def test_a_run_that_waits_is_not_read_again_and_again(
    journal: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if an answer that it has read long ago is in its inbox. A new one is noticed."""

    def pay() -> str:
        """Pay."""
        return "paid"

    script = ScriptedDriver([call("pay"), call("pay"), say("done")])
    builder = AgentBuilder().with_driver(script).with_tools(pay)
    builder.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    worker = Worker(journal, {"bank": builder.build()})
    await journal.submit("bank", "Pay.", run_id="r")
    await worker._drive("r")
    (question,) = (await Questions.read(journal, "r")).open
    await post_answer(journal, "r", question.id, Decision.allow(), by="ann")
    await worker._drive("r")
    (question,) = (await Questions.read(journal, "r")).open
    reads = []
    read = journal.read

    async def count(run_id: str) -> list[Any]:
        reads.append(run_id)
        return await read(run_id)

    monkeypatch.setattr(journal, "read", count)
    await worker._find_lost()
    assert "r" in reads
    reads.clear()
    await worker._find_lost()
    assert reads == []
    await post_answer(journal, "r", question.id, Decision.allow(), by="ann")
    reads.clear()
    await worker._find_lost()
    assert "r" in reads


@pytest.mark.parametrize("agent", ["nobody", "hello"])
async def test_an_error_of_the_journal_does_not_end_what_drives_a_run(
    journal: QueueJournal, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Not even when the run is given to others, or is to end as failed: it is tried until it is done."""
    monkeypatch.setattr("hookline.workers.base._LONGEST_PAUSE", 0)
    hello = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).build()
    worker = Worker(journal, {"hello": hello}, max_attempts=1)
    action = "_pass_on" if agent == "nobody" else "_end_idle"
    original, attempts = getattr(worker, action), 0

    async def fail(*given: Any) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise (JournalError if attempts == 1 else RunInUseError)("the connection is lost")
        await original(*given)

    async def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(worker, action, fail)
    monkeypatch.setattr(Agent, "resume", break_down)
    await journal.submit(agent, "Pay.", run_id="r")
    await worker._drive("r")
    (info,) = await journal.runs()
    assert (attempts, info.status is RunStatus.FAILED) == (3, agent == "hello")
    queued = [each.queue for each in journal._entries(("ENQUEUED",))]
    assert (f"default/{agent}" in queued) is (agent == "nobody")
    await journal.close()


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


def test_a_stopped_process_that_lost_its_run_logs_no_result(work: Any) -> None:
    """It was about to end the run, which another worker has ended since."""
    first = work.start()
    in_tool = work.hold("r", 2)
    work.journal.submit_sync("thinks", "Pay.", run_id="r")
    work.wait_for_call("r", 2)
    in_model = work.hold("r", 100)
    in_tool.unlink()
    wait_until(lambda: work.calls("r")[-1][0] == 100, "it waits for the answer")
    first.send_signal(signal.SIGSTOP)
    work.postgres.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
        f"hookline % {first.pid}",
    )
    in_model.unlink()
    work.start()
    work.wait_for("r", RunStatus.COMPLETED)
    first.send_signal(signal.SIGCONT)

    def events() -> list[str]:
        lines = (work.folder / "log").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines]

    wait_until(lambda: "handed_over" in events(), f"the first one leaves it: {work.errors()}")
    assert events().count("result") == 1


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


@contextmanager
def documented_roles(work: Any, *roles: str) -> Iterator[None]:
    """Roles with the rights that the pages list for them."""
    pages = [(DOCS / name).read_text() for name in ("postgres.md", "scaling.md")]
    blocks = [block for page in pages for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)]
    for role in roles:
        work.postgres.ask(f"CREATE ROLE {role} LOGIN")
    try:
        for line in "\n".join(blocks).splitlines():
            if line.endswith(tuple(f" TO {role};" for role in roles)):
                renamed = line.replace("hookline_dbos", work.journal.engine_schema)
                work.postgres.ask(re.sub(r"\bhookline\b", work.journal.database.schema, renamed))
        yield
    finally:
        work.close()
        for role in roles:
            work.postgres.ask(f"DROP OWNED BY {role}")
            work.postgres.ask(f"DROP ROLE {role}")


def test_roles_that_submit_and_answer_need_no_more_than_the_documented_rights(
    work: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that may not write to the queue leaves it to the workers, and is told so. It writes no records."""
    schema = work.journal.database.schema
    with documented_roles(work, "submitter", "approver", "reader"):
        with QueueJournal(work.postgres.url(user="submitter"), schema=schema) as journal:
            for run_id in ("r", "s"):
                journal.submit_sync("asks", "Pay.", run_id=run_id, session=f"session-{run_id}")
            journal.submit_sync("asks", "Pay.", run_id="after", session="session-s")
            journal.submit_sync("asks", "Pay.", run_id="delayed", delay=1000)
            journal.submit_sync("asks", "Pay.", run_id="elsewhere", queue="night")
            with pytest.raises(JournalError, match="may not do this"):
                asyncio.run(post_cancel(journal, "r", by="ann"))
            with pytest.raises(JournalError, match="may not do this"):
                journal.delete_sync("r")
        place = ["--database", work.postgres.url(user="reader"), "--schema", schema]
        assert main(["runs", *place]) == 0
        assert (
            "why runs wait is not shown: this role may not see the queue" in capsys.readouterr().err
        )
        work.start()
        for run_id in ("r", "s"):
            work.wait_for(run_id, RunStatus.PAUSED)
        url = work.postgres.url(user="approver")
        with QueueJournal(url, schema=schema) as journal:
            with pytest.raises(JournalError, match="may not do this"):
                journal.submit_sync("asks", "Pay.")
            (question,) = asyncio.run(Questions.read(journal, "r")).open
            asyncio.run(post_answer(journal, "r", question.id, Decision.allow(), by="ann"))
        assert "a worker finds the message within 30 seconds" in caplog.text
        assert main(["cancel", "s", "--database", url, "--schema", schema]) == 0
        assert "run s is cancelled by the next worker that looks at it" in capsys.readouterr().out
        for run_id in ("delayed", "elsewhere"):
            assert main(["cancel", run_id, "--database", url, "--schema", schema]) == 0
        work.start()  # it looks at once
        work.wait_for_call("r", 0)
        for run_id in ("s", "delayed", "elsewhere"):
            work.wait_for(run_id, RunStatus.CANCELLED)
        work.wait_for("after", RunStatus.PAUSED)


def test_a_worker_needs_no_more_than_the_documented_rights(work: Any) -> None:
    """It submits, drives and answers, and may not create anything."""
    schema = work.journal.database.schema
    with documented_roles(work, "worker"):
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
