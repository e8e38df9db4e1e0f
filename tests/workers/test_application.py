"""An application that has a DBOS of its own drives runs with it."""

from __future__ import annotations

import json
import subprocess
import sys
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


def refusal(work: Any) -> str:
    """Why an application ended."""
    path = work.folder / "refusal"
    return path.read_text() if path.exists() else ""
