"""A journal with a queue, and workers that are processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import temporal_agents
import working_agents
from postgres_server import PostgresServer, wait_until
from temporal_server import TemporalServer

from hookline import RunStatus
from hookline.workers import QueueJournal, TemporalJournal

WITH_CLOCK = """
import os, runpy, sys, time
sys.path[0] = os.path.dirname({program!r})
now = time.time
time.time = lambda: now() + {clock}
sys.argv[0] = {program!r}
runpy.run_path({program!r}, run_name="__main__")
"""


@pytest.fixture
def journal(postgres: PostgresServer) -> Iterator[QueueJournal]:
    """A journal with a queue, in schemas of its own."""
    schema = postgres.new_schema()
    made = QueueJournal(postgres.url(), schema=schema)
    made.migrate_sync()
    yield made
    made.close_sync()
    postgres.ask(f"DROP SCHEMA {schema} CASCADE")
    postgres.ask(f"DROP SCHEMA {made.engine_schema} CASCADE")


class Workplace:
    """Workers, and what their tools have done."""

    program = working_agents.__file__

    def __init__(self, postgres: PostgresServer, journal: Any, folder: Path) -> None:
        self.postgres, self.journal, self.folder = postgres, journal, folder
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(
        self, *, url: str = "", within: tuple[str, ...] = (), clock: int = 0, **options: object
    ) -> subprocess.Popen[bytes]:
        """Start a worker. `within` goes before its command; its clock is wrong by so many seconds."""
        arguments = [url or self.postgres.url(), self.journal.database.schema, str(self.folder)]
        code = WITH_CLOCK.format(clock=clock, program=self.program)
        program = [*within, sys.executable, "-c", code, *arguments, json.dumps(options)]
        with (self.folder / "errors").open("ab") as errors:
            worker = subprocess.Popen(program, stderr=errors)
        self.workers.append(worker)
        return worker

    def calls(self, run_id: str) -> list[tuple[int, int]]:
        """The calls of a run, as number and process."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        words = [line.split() for line in lines]
        return [(int(number), int(pid)) for name, number, pid in words if name == run_id]

    def hold(self, run_id: str, number: int) -> Path:
        """Make a call wait until the file is gone."""
        path = self.folder / f"hold-{run_id}-{number}"
        path.touch()
        return path

    def wait_for_call(self, run_id: str, number: int) -> int:
        """Wait until a call has begun. Gives the process of the last one."""
        wait_until(
            lambda: number in [each for each, _ in self.calls(run_id)],
            f"call {number} of {run_id}: {self.errors()}",
        )
        return self.calls(run_id)[-1][1]

    def status(self, run_id: str) -> RunStatus:
        """How a run is, in the list."""
        return next(each.status for each in self.journal.runs_sync() if each.run_id == run_id)

    def wait_for(self, run_id: str, status: RunStatus) -> None:
        """Wait until a run is so."""
        wait_until(
            lambda: self.status(run_id) is status,
            f"{run_id} becomes {status}: {self.errors()}",
        )

    def errors(self) -> str:
        """What the workers have said."""
        path = self.folder / "errors"
        return path.read_text() if path.exists() else ""

    def entries(self) -> list[tuple[str, str]]:
        """The entries of the engine, with their status."""
        query = (
            f"SELECT workflow_uuid, status FROM {self.journal.engine_schema}.workflow_status"
            " ORDER BY created_at"
        )
        return [tuple(row) for row in self.postgres.ask(query)]

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
            worker.wait()


@pytest.fixture
def work(
    postgres: PostgresServer, journal: QueueJournal, tmp_path: Path
) -> Iterator[Callable[[], Workplace]]:
    """Workers of a journal."""
    place = Workplace(postgres, journal, tmp_path)
    yield place  # type: ignore[misc]
    place.close()


class TemporalWorkplace(Workplace):
    """Workers on Temporal."""

    program = temporal_agents.__file__
    address: str

    def start(self, *, url: str = "", **options: object) -> subprocess.Popen[bytes]:
        """Start a worker."""
        given = {"temporal": self.address, "heartbeat": self.journal.heartbeat, **options}
        return super().start(url=url, **given)


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalServer]:
    """Temporal's development server. Tests have task queues of their own."""
    server = TemporalServer()
    yield server
    server.close()


@pytest.fixture
def on_temporal(
    postgres: PostgresServer, temporal: TemporalServer, tmp_path: Path
) -> Iterator[TemporalWorkplace]:
    """Workers on Temporal, with a journal in a schema of its own."""
    schema = postgres.new_schema()
    connect = {"target_host": temporal.address}
    journal = TemporalJournal(
        postgres.url(), schema=schema, connect=connect, task_queue=schema, heartbeat=1.5
    )
    place = TemporalWorkplace(postgres, journal, tmp_path)
    place.address = temporal.address
    yield place
    place.close()
    journal.close_sync()
    postgres.ask(f"DROP SCHEMA {schema} CASCADE")
