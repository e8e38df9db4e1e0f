"""A network that fails without a word: both sides of a connection find out, and runs continue elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import far_machine
import pytest
from far_machine import FarMachine
from postgres_server import PROGRAMS, PostgresServer, wait_until

from hookline import RunStatus
from hookline.errors import RunInUseError
from hookline.journal import PostgresJournal, RunTakenUp
from hookline.workers import QueueJournal

pytestmark = [
    pytest.mark.skipif(bool(far_machine.why_not()), reason=far_machine.why_not()),
    pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed"),
]
HOLDER = """
import asyncio, sys, time
from contextlib import suppress
from hookline.errors import JournalError
from hookline.journal import PostgresJournal

async def write(journal):
    while True:
        with suppress(JournalError):  # RunInUseError is one
            await journal.claim("r")
        await asyncio.sleep(0.1)

async def main():
    journal = PostgresJournal(sys.argv[1], schema=sys.argv[2])
    kept = await journal.claim("r")
    print("claimed", flush=True)
    task = asyncio.create_task(write(journal))
    while kept.failure is None:
        await asyncio.sleep(0.02)
    print(time.monotonic(), flush=True)

asyncio.run(main())
"""


@pytest.fixture
def far() -> Iterator[FarMachine]:
    """A machine with a link that can fail."""
    machine = FarMachine()
    yield machine
    machine.close()


@pytest.fixture
def postgres(far: FarMachine) -> Iterator[PostgresServer]:
    """A server that this machine and the far one reach."""
    made = PostgresServer(network=(far.near, far.network))
    yield made
    made.close()


def test_both_sides_find_a_lost_network(far: FarMachine, postgres: PostgresServer) -> None:
    """The client fails its claims, and the server frees the lock, whatever the server's own settings are."""
    schema = postgres.new_schema()
    program = [*far.command, sys.executable, "-c", HOLDER, postgres.url(host=far.near), schema]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"claimed\n"
            far.link("down")
            cut = time.monotonic()
            with PostgresJournal(postgres.url(), schema=schema) as journal:
                wait_until(lambda: can_claim(journal, "r"), "the server frees the lock")
            freed = time.monotonic() - cut
            noticed = float(holder.stdout.readline()) - cut
        finally:
            holder.kill()
    print(f"lock free after {freed:.1f} s, client knows after {noticed:.1f} s")


def can_claim(journal: PostgresJournal, run_id: str) -> bool:
    """Whether nobody has a run."""
    try:
        asyncio.run(journal.claim(run_id))
    except RunInUseError:
        return False
    return True


def test_the_runs_of_a_lost_machine_continue_elsewhere(far: FarMachine, work: Any) -> None:
    """The lost worker cancels its call and writes nothing. When the network is back it works again."""
    work.start(url=work.postgres.url(host=far.near), within=far.command)
    held = work.hold("r", 1)
    work.journal.submit_sync("bank", "Pay.", run_id="r")
    lost = work.wait_for_call("r", 1)
    near = work.start().pid
    far.link("down")
    cut = time.monotonic()
    wait_until(lambda: count_taken_up(work.journal) == 2, "another worker takes the run")
    print(f"the run continues after {time.monotonic() - cut:.1f} s")
    work.wait_for("r", RunStatus.COMPLETED)
    work.wait_for_call("r", -2)  # cancelled
    assert sorted(work.calls("r")) == sorted([(0, lost), (1, lost), (-2, lost), (2, near)])
    held.unlink()
    work.workers[1].kill()
    far.link("up")
    work.journal.submit_sync("bank", "Pay.", run_id="later")
    work.wait_for("later", RunStatus.COMPLETED)
    assert {pid for _, pid in work.calls("later")} == {lost}
    assert work.journal.check_sync().ok


def count_taken_up(journal: QueueJournal) -> int:
    """How often workers took the run up."""
    return sum(isinstance(each, RunTakenUp) for each in journal.read_sync("r"))
