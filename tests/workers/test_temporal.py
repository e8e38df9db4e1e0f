"""Workers on Temporal: the same journal, driven by another engine."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

import pytest
from ports import free_port
from postgres_server import wait_until
from temporalio.client import Client, WorkflowExecutionStatus

from hookline import RunStatus, StopReason
from hookline.cli.main import main
from hookline.errors import UsageError
from hookline.journal import Questions, RunFinished, post_answer, post_cancel
from hookline.state import Decision
from hookline.workers import TemporalJournal, TemporalWorker


def finals(work: Any, run_id: str) -> list[RunFinished]:
    """The ends of a run, without its pauses."""
    records = work.journal.read_sync(run_id)
    ends = [each for each in records if isinstance(each, RunFinished)]
    return [each for each in ends if each.status is not RunStatus.PAUSED]


def ask(work: Any, question: Any) -> Any:
    """Something about Temporal."""

    async def main() -> Any:
        return await question(await Client.connect(work.address))

    return asyncio.run(main())


def workflow_id(work: Any, run_id: str) -> str:
    """Of the workflow that drives a run."""
    return f"{work.journal.task_queue}:{run_id}"


def wait_for_end(work: Any, run_id: str) -> None:
    """Wait until Temporal has nothing to do with a run."""

    async def is_running(client: Client) -> bool:
        found = await client.get_workflow_handle(workflow_id(work, run_id)).describe()
        return found.status is WorkflowExecutionStatus.RUNNING

    wait_until(lambda: not ask(work, is_running), f"the workflow of {run_id} ends")


def test_a_run_is_submitted_once_and_driven(on_temporal: Any) -> None:
    """The same id with the same prompt is the same run. Temporal has the id of the run, and no prompt."""
    work = on_temporal
    assert work.journal.submit_sync("bank", "Pay the secret rent.", run_id="r") == "r"
    assert work.journal.submit_sync("bank", "Pay the secret rent.", run_id="r") == "r"
    for other in ({"prompt": "Pay."}, {"agent": "asks"}):
        given = {"agent": "bank", "prompt": "Pay the secret rent.", **other}
        with pytest.raises(UsageError, match="in the journal already, with another"):
            work.journal.submit_sync(**given, run_id="r")
    (info,) = work.journal.runs_sync()
    assert (info.status, info.agent_id) == (RunStatus.QUEUED, "bank")
    work.start()
    work.wait_for("r", RunStatus.COMPLETED)
    assert [each.text for each in finals(work, "r")] == ["r is done"]
    wait_for_end(work, "r")
    assert work.journal.submit_sync("bank", "Pay the secret rent.", run_id="r") == "r"
    wait_for_end(work, "r")
    assert len(finals(work, "r")) == 1
    held = work.hold("t", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="t")
    work.wait_for_call("t", 1)

    async def terminate(client: Client) -> None:
        await client.get_workflow_handle(workflow_id(work, "t")).terminate()

    ask(work, terminate)  # Temporal alone forgets the run
    held.unlink()
    work.wait_for("t", RunStatus.COMPLETED)
    assert [number for number, _ in work.calls("t")] == [0, 1, 2]

    async def read_history(client: Client) -> str:
        ids = [
            each.run_id
            async for each in client.list_workflows(f"WorkflowId='{workflow_id(work, 'r')}'")
        ]
        handles = [client.get_workflow_handle(workflow_id(work, "r"), run_id=each) for each in ids]
        return "".join([(await each.fetch_history()).to_json() for each in handles])

    history = ask(work, read_history)
    assert '"ActivityTaskCompleted' in history or "ACTIVITY_TASK_COMPLETED" in history
    assert "secret" not in history
    assert "paid" not in history
    assert work.journal.check_sync().ok


def test_a_killed_worker_is_replaced(on_temporal: Any) -> None:
    """SIGKILL in the middle of a call: another worker continues, the call is in doubt and not made again."""
    work = on_temporal
    victim = work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay three times.", run_id="r")
    work.wait_for_call("r", 1)
    other = work.start()
    victim.kill()
    held.unlink()
    work.wait_for("r", RunStatus.COMPLETED)
    numbers = [number for number, _ in work.calls("r")]
    assert sorted(numbers) == sorted(set(numbers)), "no once tool ran twice"
    assert {pid for _, pid in work.calls("r")} == {victim.pid, other.pid}
    assert [each.text for each in finals(work, "r")] == ["r is done"]
    wait_for_end(work, "r")


def test_a_silent_worker_keeps_its_run(on_temporal: Any) -> None:
    """Temporal starts a second driver, which waits: the claim of the journal is still held."""
    work = on_temporal
    first = work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay three times.", run_id="r")
    work.wait_for_call("r", 1)
    first.send_signal(signal.SIGSTOP)
    other = work.start()

    async def attempts(client: Client) -> int:
        handle = client.get_workflow_handle(workflow_id(work, "r"))
        found = (await handle.describe()).raw_description.pending_activities
        return max((each.attempt for each in found), default=0)

    wait_until(lambda: ask(work, attempts) > 1, "a second attempt begins")
    held.unlink()
    first.send_signal(signal.SIGCONT)
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r") == [(number, first.pid) for number in range(3)]
    assert len(finals(work, "r")) == 1
    wait_for_end(work, "r")
    assert other.poll() is None


def test_a_worker_that_stops_hands_over(on_temporal: Any) -> None:
    """After its step, and Temporal knows at once. A worker without the agent leaves the run to others."""
    work = on_temporal
    first = work.start(agents=["bank"])
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay three times.", run_id="r")
    work.wait_for_call("r", 1)
    first.send_signal(signal.SIGTERM)
    work.start(agents=["asks"])
    other = work.start(agents=["bank"])
    held.unlink()
    assert first.wait() == 0, work.errors()
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r") == [(0, first.pid), (1, first.pid), (2, other.pid)]


def test_answers_continue_a_run_that_waits(
    on_temporal: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it waits there is no workflow. Workers find an answer of a command, which does not know Temporal."""
    work = on_temporal
    worker = work.start()
    work.journal.submit_sync("asks", "Pay.", run_id="r")
    for number in range(2):
        work.wait_for("r", RunStatus.PAUSED)
        wait_for_end(work, "r")
        (question,) = asyncio.run(Questions.read(work.journal, "r")).open
        asyncio.run(post_answer(work.journal, "r", question.id, Decision.allow(), by="ann"))
        work.wait_for_call("r", number)
    work.wait_for("r", RunStatus.PAUSED)
    worker.kill()
    (question,) = asyncio.run(Questions.read(work.journal, "r")).open
    database = ["--database", work.postgres.url(), "--schema", work.journal.database.schema]
    assert main(["approve", *database, "r", question.id]) == 0
    assert "and a worker continues it" in capsys.readouterr().out
    work.start()
    work.wait_for("r", RunStatus.COMPLETED)
    assert [number for number, _ in work.calls("r")] == [0, 1, 2]
    assert len(finals(work, "r")) == 1


def test_a_run_that_waits_for_a_model_is_cancelled(on_temporal: Any) -> None:
    """Through the inbox, or by Temporal. A limit of the agent holds too."""
    work = on_temporal
    work.journal.submit_sync("bank", "Pay.", run_id="never")
    asyncio.run(post_cancel(work.journal, "never", by="ann"))
    work.start()
    work.journal.submit_sync("limited", "Sleep.", run_id="limited")
    for run_id in ("ours", "theirs"):
        work.journal.submit_sync("silent", "Wait.", run_id=run_id)
        wait_until((work.folder / f"asked-{run_id}").exists, f"{run_id}: {work.errors()}")
    asyncio.run(post_cancel(work.journal, "ours", by="ann"))

    async def cancel(client: Client) -> None:
        await client.get_workflow_handle(workflow_id(work, "theirs")).cancel()

    ask(work, cancel)
    for run_id, by in (("never", "ann"), ("ours", "ann"), ("theirs", "Temporal")):
        work.wait_for(run_id, RunStatus.CANCELLED)
        (end,) = finals(work, run_id)
        assert end.reason.startswith(f"cancelled by {by}")
        wait_for_end(work, run_id)
    assert work.calls("never") == []
    work.wait_for("limited", RunStatus.STOPPED)
    assert [each.stop_reason for each in finals(work, "limited")] == [StopReason.TIME_LIMIT]


def test_what_temporal_was_not_told_is_found(
    on_temporal: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal is written first: a run that was submitted while Temporal was away is driven later."""
    work = on_temporal
    away = {"target_host": f"127.0.0.1:{free_port()}"}
    schema = work.journal.database.schema
    with TemporalJournal(work.postgres.url(), schema=schema, connect=away) as journal:
        with caplog.at_level(logging.WARNING, "hookline.workers"):
            assert journal.submit_sync("bank", "Pay.", run_id="r") == "r"
        assert "Temporal does not know of run 'r' yet" in caplog.text
        with pytest.raises(UsageError, match=f"cannot be reached at {away['target_host']}"):
            asyncio.run(TemporalWorker(journal, {}).run())
    work.start()
    work.wait_for("r", RunStatus.COMPLETED)


def test_a_worker_that_loses_its_connection_writes_nothing_more(on_temporal: Any) -> None:
    """It cancels the call in progress, and claims its run again. The call is in doubt."""
    work = on_temporal
    work.start()
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay three times.", run_id="r")
    work.wait_for_call("r", 1)
    work.postgres.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'hookline%' AND pid <> pg_backend_pid()"
    )
    work.wait_for_call("r", -2)  # it was cancelled
    work.wait_for("r", RunStatus.COMPLETED)
    held.unlink()
    assert [number for number, _ in work.calls("r")] == [0, 1, -2, 2]
    assert len(finals(work, "r")) == 1


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine needs its own extra, and not the other one."""
    names = ("hookline.workers", "temporalio", "dbos", "sqlalchemy")
    for name in [each for each in sys.modules if each.startswith(names)]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("temporalio", "dbos"):
        monkeypatch.setitem(sys.modules, name, None)
    import hookline.workers

    with pytest.raises(UsageError, match="need the package 'temporalio'"):
        hookline.workers.TemporalWorker  # noqa: B018
    with pytest.raises(UsageError, match="need the package 'dbos'"):
        hookline.workers.Worker  # noqa: B018
