"""An application that has a DBOS of its own drives runs with it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from postgres_server import wait_until

from hookline import RunStatus

PROGRAM = Path(__file__).parents[1] / "support/dbos_application.py"


def start(work: Any, **options: object) -> subprocess.Popen[bytes]:
    """Start the application."""
    given = [work.postgres.url(), work.journal.database.schema, str(work.folder)]
    with (work.folder / "errors").open("ab") as errors:
        program = [sys.executable, str(PROGRAM), *given, json.dumps(options)]
        work.workers.append(subprocess.Popen(program, stderr=errors))
    return work.workers[-1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["its loop", "another loop"])
def test_an_application_drives_runs_with_its_own_engine(work: Any, elsewhere: bool) -> None:
    """Beside its own workflows. When it dies another worker continues, as with any worker."""
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    application = start(work, launches_elsewhere=elsewhere)
    assert work.wait_for_call("r", 1) == application.pid
    wait_until(lambda: (work.folder / "own").exists(), "its own workflow ran")
    other = start(work, executor_id="two")
    application.kill()
    held.unlink()
    work.wait_for("r", RunStatus.COMPLETED)
    assert work.calls("r")[-1] == (2, other.pid)


def test_an_engine_that_cannot_be_used_is_refused(work: Any) -> None:
    """Its tables are elsewhere, or another process has its name."""
    start(work, engine_schema=f"{work.journal.database.schema}_elsewhere")
    wait_until(lambda: "elsewhere" in refusal(work), "it is refused")
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    start(work)
    work.wait_for("r", RunStatus.COMPLETED)
    start(work)
    wait_until(lambda: "another process has the executor id 'one'" in refusal(work), "refused")
    work.close()
    work.postgres.ask(f"DROP SCHEMA {work.journal.database.schema}_elsewhere CASCADE")


@pytest.mark.parametrize("listens", [None, ["default"]], ids=["to all", "to that of the worker"])
def test_an_engine_that_takes_runs_without_a_limit_is_refused(work: Any, listens: Any) -> None:
    """It would take them before the worker limits it, and those of other workers."""
    start(work, listens=listens)
    wait_until(lambda: "DBOS.listen_queues([...])" in refusal(work), f"refused: {work.errors()}")
    assert work.journal.workers_sync() == []


def test_an_engine_takes_only_what_its_worker_has_places_for(work: Any) -> None:
    """Nothing between its launch and the start of the worker, and nothing of queues that others serve."""
    parked = "default/nobody"
    work.journal.open_queue(parked)
    work.journal.submit_many_sync("bank", {"a": "Pay.", "b": "Pay."})
    work.journal.submit_sync("bank", "Pay.", run_id="n", queue="night")
    asyncio.run(work.journal.enqueue("n", "parked", parked))
    held = [work.hold(run_id, 0) for run_id in "ab"]
    waits = work.folder / "hold-application"
    waits.touch()
    start(work, worker={"concurrency": 1})
    wait_until(lambda: (work.folder / "own").exists(), "its own workflow ran")
    time.sleep(3)  # it looks at new queues every second, and at a parked one every two
    assert taken(work) == []
    waits.unlink()
    wait_until(lambda: len(taken(work)) == 1, "it takes one")
    time.sleep(3)
    assert len(taken(work)) == 1
    assert dict(work.entries())["n:start"] == dict(work.entries())["n:parked"] == "ENQUEUED"
    for path in held:
        path.unlink()
    for run_id in "ab":
        work.wait_for(run_id, RunStatus.COMPLETED)


def test_runs_of_an_application_continue_elsewhere(work: Any) -> None:
    """On a worker whose DBOS has another name; also if it queued them again itself, and then ended."""
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    application = start(work)
    work.wait_for_call("r", 1)
    application.kill()
    application.wait()
    table = f"{work.journal.engine_schema}.workflow_status"
    wait_until(lambda: asyncio.run(work.journal.take_over()), "its run is queued again")
    query = f"SELECT status, application_name, application_version FROM {table} WHERE name = 'hookline_run'"
    assert work.postgres.ask(query) == [("ENQUEUED", None, None)]
    work.journal.submit_sync("bank", "Pay.", run_id="s")
    work.postgres.ask(
        f"UPDATE {table} SET application_name = 'shop', application_version = '1'"
        " WHERE workflow_uuid = 's:start'"
    )
    held.unlink()
    other = work.start()
    for run_id in "rs":
        work.wait_for(run_id, RunStatus.COMPLETED)
        assert work.calls(run_id)[-1] == (2, other.pid)


def test_an_application_of_an_older_version_takes_runs(work: Any) -> None:
    """The version of the application says nothing about that of its agents."""
    start(work, name="shop")
    wait_until(lambda: len(work.journal.workers_sync()) == 1, f"it works: {work.errors()}")
    table = f"{work.journal.engine_schema}.application_versions"
    work.postgres.ask(
        f"INSERT INTO {table} (version_id, version_name, version_timestamp, created_at, application_name)"
        f" SELECT 'later', 'later', version_timestamp + 1000000, created_at, 'shop' FROM {table} LIMIT 1"
    )
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for("r", RunStatus.COMPLETED)


def test_an_application_that_stopped_its_worker_takes_nothing(work: Any) -> None:
    """As long as it stays. Another worker has the runs."""
    application = start(work, stays=1_000)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    work.wait_for("r", RunStatus.COMPLETED)
    application.terminate()
    time.sleep(1)
    work.journal.submit_sync("bank", "Pay.", run_id="s")
    time.sleep(2)  # it looks twice a second
    assert (taken(work), application.poll()) == ([], None)
    other = work.start()
    work.wait_for("s", RunStatus.COMPLETED)
    assert work.calls("s")[-1] == (2, other.pid)


def taken(work: Any) -> list[str]:
    """The entries of runs that a worker has."""
    return [id for id, status in work.entries() if status == "PENDING" and ":" in id]


def refusal(work: Any) -> str:
    """Why an application ended."""
    path = work.folder / "refusal"
    return path.read_text() if path.exists() else ""
