"""Measures workers: `python benchmarks/workers.py [PART ...]`. The server and the workers are started for this.

- queue: many runs are submitted in bulk and driven by one worker.
- throughput: runs of four steps with one call each, with one and two workers, and the CPU time of each run.
- waiting: what a worker uses while many runs wait for answers.
- takeover: how long a run stands still when its worker is killed, and how long a cancellation takes.
- chaos: the test of tests/workers/test_chaos.py with many runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hookline import Agent, AgentBuilder, AgentState, HookOutcome, RunStatus, tool
from hookline.journal import RunTakenUp, post_cancel
from hookline.testing import Scripted, ScriptedDriver, call, say
from hookline.workers import QueueJournal, Worker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
import worker_chaos  # type: ignore[import-not-found]  # it is with the tests
from postgres_server import PostgresServer  # type: ignore[import-not-found]

STEPS = 3
_BEGAN = time.perf_counter()
_TICKS = os.sysconf("SC_CLK_TCK")


# --- a worker -----------------------------------------------------------------------------------------


def make_agents() -> dict[str, Agent]:
    """`bank` calls a tool three times, `quick` answers at once, `asks` waits for a person, the others for ever."""

    @tool
    async def pay(number: int) -> str:
        """Pay."""
        return f"paid {number}"

    @tool(effect="idempotent")
    async def nap() -> str:
        """Sleep."""
        await asyncio.sleep(86_400)
        return "awake"

    def turn(state: AgentState) -> Scripted:
        return call("pay", number=state.step_count) if state.step_count < STEPS else say("done")

    def builder(answer: Scripted | Callable[[AgentState], Scripted]) -> AgentBuilder:
        return AgentBuilder().with_driver(ScriptedDriver([answer] * 100_000)).with_tools(pay)

    asks = builder(turn)
    asks.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy", name="asks")
    naps = AgentBuilder().with_driver(ScriptedDriver([call("nap")])).with_tools(nap)
    thinks = AgentBuilder().with_driver(SlowModel())
    made = {"bank": builder(turn), "quick": builder(say("done")), "asks": asks}
    made |= {"naps": naps, "thinks": thinks}
    return {name: each.build() for name, each in made.items()}


class SlowModel:
    """Never answers."""

    async def infer(self, request: Any, turn: Any) -> Any:
        """Wait."""
        await asyncio.sleep(86_400)


class Workers:
    """A journal with a queue, and processes that work on it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.journal = QueueJournal(server.url(), schema=server.new_schema())
        self.journal.migrate_sync()
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, count: int) -> None:
        """Have so many workers, and wait until each has its lock."""
        schema = self.journal.database.schema
        program = [sys.executable, __file__, "--as-worker", self.server.url(), schema]
        while len(self.processes) < count:
            self.processes.append(subprocess.Popen(program))
        wait(lambda: len(self.journal_locks()) == count)

    def kill_first(self) -> None:
        """Kill the worker that was started first."""
        first = self.processes.pop(0)
        first.kill()
        first.wait()

    def journal_locks(self) -> list[object]:
        """The connections that hold the lock of a worker."""
        return self.server.ask(  # type: ignore[no-any-return]
            "SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
        )

    def count(self, status: RunStatus) -> int:
        """How many runs are so."""
        query = f"SELECT count(*) FROM {self.journal.database.schema}.runs WHERE status = %s"
        return int(self.server.ask(query, status.value)[0][0])

    def is_taken_up(self, run_id: str) -> bool:
        """Whether a second worker drives the run now."""
        records = self.journal.read_sync(run_id)
        return sum(isinstance(each, RunTakenUp) for each in records) > 1

    def cpu_seconds(self) -> float:
        """What the workers have used so far."""
        fields = [Path(f"/proc/{each.pid}/stat").read_text().split() for each in self.processes]
        return sum(int(each[13]) + int(each[14]) for each in fields) / _TICKS

    def megabytes(self) -> float:
        """The largest memory that a worker had."""
        lines = [
            line
            for each in self.processes
            for line in Path(f"/proc/{each.pid}/status").read_text().splitlines()
        ]
        return max(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@contextmanager
def workers() -> Iterator[Workers]:
    """A server whose commits wait for the disk, and what belongs to it."""
    server = PostgresServer(fsync=True)
    made = Workers(server)
    try:
        yield made
    finally:
        for each in made.processes:
            each.kill()
            each.wait()
        made.journal.close_sync()
        server.close()


def report(line: str) -> None:
    """Say how far it is."""
    print(f"{time.perf_counter() - _BEGAN:4.0f} s: {line}", file=sys.stderr, flush=True)


def wait(is_ready: Callable[[], bool]) -> float:
    """Wait, and say how long it took."""
    began = time.perf_counter()
    while not is_ready():
        time.sleep(0.05)
    return time.perf_counter() - began


# --- what is measured ---------------------------------------------------------------------------------


def measure_queue(runs: int) -> None:
    """Many runs with one step each."""
    with workers() as work:
        began, used = time.perf_counter(), time.process_time()
        work.journal.submit_many_sync("quick", ["Say it."] * runs)
        submitted, used = time.perf_counter() - began, time.process_time() - used
        report(f"{runs} runs are submitted")
        work.start(1)
        before = work.megabytes()
        drained = wait(lambda: work.count(RunStatus.COMPLETED) == runs)
        print(
            f"{runs:,} queued runs: {submitted:.1f} s ({used:.1f} s of CPU) to submit in bulk, {drained:.1f} s "
            f"({work.cpu_seconds():.1f} s of CPU) to drain with one worker, "
            f"which had {before:.0f} MB at first and at most {work.megabytes():.0f} MB"
        )


def measure_throughput(runs: int) -> None:
    """With one and with two workers."""
    for count in (1, 2):
        with workers() as work:
            work.start(count)
            used = work.cpu_seconds()
            work.journal.submit_many_sync("bank", ["Pay."] * runs)
            seconds = wait(lambda: work.count(RunStatus.COMPLETED) == runs)
            used = work.cpu_seconds() - used
            print(
                f"{count} worker{'s'[: count > 1]}: {runs / seconds:.0f} runs in a second, "
                f"{used / runs * 1000:.1f} ms of CPU for each"
            )
    print(f"this machine has {os.cpu_count()} cores, which the server shares")


def measure_waiting(runs: int) -> None:
    """Runs that wait for an answer, beside a worker that has nothing to do."""
    with workers() as work:
        work.start(1)
        report("a worker has nothing to do for a minute")
        idle = _cpu_of_a_minute(work)
        report(f"{runs} runs begin to wait")
        work.journal.submit_many_sync("asks", ["Pay."] * runs)
        wait(lambda: work.count(RunStatus.PAUSED) == runs)
        time.sleep(5)
        print(
            f"{runs:,} runs wait: a worker uses {_cpu_of_a_minute(work):.2f} s of CPU in a minute, and "
            f"{idle:.2f} s without them"
        )


def _cpu_of_a_minute(work: Workers) -> float:
    before = work.cpu_seconds()
    time.sleep(60)
    return work.cpu_seconds() - before


def measure_takeover(runs: int) -> None:
    """A worker is killed while a tool or a model of its run waits, and the run is cancelled on the next worker."""
    taken: list[float] = []
    cancelled: list[float] = []
    with workers() as work:
        work.start(1)
        for number in range(runs):
            run_id = work.journal.submit_sync("thinks" if number % 2 else "naps", "Wait.")
            wait(lambda: work.count(RunStatus.RUNNING) == 1)
            time.sleep(0.5)  # it waits for its tool or its model by now
            work.start(2)
            work.kill_first()
            taken.append(wait(partial(work.is_taken_up, run_id)))
            time.sleep(0.5)
            asyncio.run(post_cancel(work.journal, run_id, by="benchmark"))
            cancelled.append(wait(lambda: work.count(RunStatus.RUNNING) == 0))
    for what, seconds in (
        ("a killed worker's run continues", taken),
        ("a run is cancelled", cancelled),
    ):
        print(f"{what} after {min(seconds):.2f} to {max(seconds):.2f} s, {runs} times")


def measure_chaos(runs: int) -> None:
    """Runs of many kinds, while workers are killed, connections cut and the server crashes."""
    server = PostgresServer()
    with (
        QueueJournal(server.url(), schema=server.new_schema()) as journal,
        tempfile.TemporaryDirectory() as place,
    ):
        journal.migrate_sync()
        chaos = worker_chaos.Chaos(server, journal, Path(place))
        began = time.perf_counter()
        try:
            chaos.go(runs, between=(5, 15), report=report)
        finally:
            chaos.close()
        print(f"{runs} runs of many kinds ended after {time.perf_counter() - began:.0f} s")
        for name, number in worker_chaos.summary(chaos).items():
            print(f"{name:>20} {number:7,}")
        faults = list(worker_chaos.faults(chaos))
    server.close()
    if faults:
        sys.exit("\n".join(faults))
    print("no fault was found")


PARTS: dict[str, tuple[Callable[[int], None], int]] = {
    "queue": (measure_queue, 10_000),
    "throughput": (measure_throughput, 1_000),
    "waiting": (measure_waiting, 1_000),
    "takeover": (measure_takeover, 20),
    "chaos": (measure_chaos, 500),
}


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--runs", type=int, help="instead of the number of each part")
    given = parser.parse_args()
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in given.part or PARTS:
        measure, runs = PARTS[name]
        measure(given.runs or runs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-worker"]:
        Worker(
            QueueJournal(sys.argv[2], schema=sys.argv[3]), make_agents(), concurrency=100
        ).run_to_exit()
    main()
