"""Measures journals on disk: `python benchmarks/journal.py`.

What a step costs over a journal in memory, how long a large file takes to open, and how long a long list takes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from hookline import AgentBuilder, Sessions, SQLiteJournal, tool
from hookline.journal import InMemory, PromptSubmitted, Record, RunStarted
from hookline.testing import ScriptedDriver, call, say

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
Batches: TypeAlias = list[tuple[list[Record], list[Record]]]
"""For each step what is written before its tool runs, and what comes of it."""

STEPS = 200
GOAL_STEP_MS = 0.1
GOAL_OPEN_S = 1.0
GOAL_LIST_MS = 50.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="samples of each (default: 25)")
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):  # one core: what other programs do moves the numbers less
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as directory:
        measure_steps(Path(directory), rounds)
        measure_files(Path(directory))


# --- a step ----------------------------------------------------------------------------------------


def measure_steps(directory: Path, rounds: int) -> None:
    """CPU of all threads per step: the intent is waited for, the results are not."""
    batches = steps_of_a_run("r", STEPS)
    records = sum(len(intent) + len(result) for intent, result in batches)
    print(
        f"a step of {records / STEPS:.0f} records in two batches, CPU ms over in-memory, {rounds} rounds"
    )
    rows: list[tuple[str, Synchronous, Callable[[Future[None]], Awaitable[None]]]] = [
        ("NORMAL, awaited in an event loop", "NORMAL", asyncio.wrap_future),
        ("NORMAL, waited for in its thread", "NORMAL", blocking),
        ("FULL, awaited in an event loop", "FULL", asyncio.wrap_future),
    ]
    samples: dict[str, list[tuple[float, float]]] = {label: [] for label, *_ in rows}
    for turn in range(rounds):
        baseline = in_memory(batches)
        for label, synchronous, waiting in rows:
            path = directory / f"{turn}-{synchronous}.db"
            with SQLiteJournal(path, synchronous=synchronous) as journal:
                cpu, wall = asyncio.run(on_disk(journal, batches, waiting))
            samples[label].append((cpu - baseline, wall))
            path.unlink()
    for label, taken in samples.items():
        cpu, wall = (statistics.median(column) for column in zip(*taken, strict=True))
        best = min(cpu for cpu, _ in taken)
        goal = f"goal {GOAL_STEP_MS}" if label.startswith("NORMAL") else ""
        print(f"  {label:36} {cpu:.3f} (best {best:.3f}; wall {wall:.3f})  {goal}")


def steps_of_a_run(run_id: str, count: int) -> Batches:
    """The records of one step of a real run, over and over."""

    @tool
    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    driver = ScriptedDriver([call("echo", text="hello"), call("echo", text="hello"), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(echo).build()
    records = asyncio.run(agent.run("hello")).records
    ends = [position for position, record in enumerate(records) if record.type == "step"]
    step = records[ends[0] + 1 : ends[1] + 1]
    intents = [position for position, record in enumerate(step) if record.type == "call"]
    made: Batches = []
    for number in range(count):
        whole: list[Record] = [
            msgspec.structs.replace(record, run_id=run_id, seq=number * len(step) + position)
            for position, record in enumerate(step)
        ]
        made.append((whole[: intents[0] + 1], whole[intents[0] + 1 :]))
    return made


def in_memory(batches: Batches) -> float:
    """Milliseconds of CPU per step."""
    journal = InMemory()
    started = time.process_time()
    for intent, result in batches:
        for record in intent:
            journal.append(record)
        for record in result:
            journal.append(record)
    return (time.process_time() - started) / len(batches) * 1000


async def on_disk(
    journal: SQLiteJournal,
    batches: Batches,
    waiting: Callable[[Future[None]], Awaitable[None]],
) -> tuple[float, float]:
    """Milliseconds of CPU and of time per step."""
    claim = journal.claim("r")
    await waiting(claim.write(batches[0][0]))  # the thread is running from here on
    started, began = time.process_time(), time.perf_counter()
    for intent, result in batches:
        await waiting(claim.write(intent))
        claim.write(result)
    await waiting(claim.write([]))
    taken = time.process_time() - started, time.perf_counter() - began
    return taken[0] / len(batches) * 1000, taken[1] / len(batches) * 1000


async def blocking(future: Future[None]) -> None:
    """Wait without giving way to the event loop."""
    future.result()


# --- a large file ----------------------------------------------------------------------------------


def measure_files(directory: Path) -> None:
    """Opening and listing."""
    path = directory / "large.db"
    run_ids = fill(path, runs=100, records=1000)
    print(f"100,000 records in 100 runs, {path.stat().st_size / 1e6:.0f} MB")
    open_s = best_of(5, lambda: opened(path))
    print(f"  open, and list its runs              {open_s:.3f} s  goal {GOAL_OPEN_S}")
    with SQLiteJournal(path) as journal:
        read_s = best_of(5, lambda: journal.read(run_ids[0]))
        print(f"  read and check a run of 1,000        {read_s * 1000:.1f} ms")
        print(f"  verify every chain                   {best_of(3, journal.verify):.2f} s")
    path = directory / "many.db"
    fill(path, runs=10_000, records=8)
    print(f"10,000 runs, each in a session of its own, {path.stat().st_size / 1e6:.0f} MB")
    with SQLiteJournal(path) as journal:
        list_ms = best_of(9, journal.runs) * 1000
        print(f"  list all                             {list_ms:.1f} ms  goal {GOAL_LIST_MS:.0f}")
        page_ms = best_of(9, lambda: journal.runs(limit=50)) * 1000
        print(f"  list the newest 50                   {page_ms:.2f} ms")
    measure_sessions(path, 10_000)


def measure_sessions(path: Path, count: int) -> None:
    """Listing sessions, in a file with as many runs."""
    with SQLiteJournal(path) as journal:
        sessions = Sessions(journal)
        for number in range(count):
            sessions.create(title=f"What is the weather like in town {number}?")
        print(f"{count:,} sessions beside them, {path.stat().st_size / 1e6:.0f} MB")
        list_ms = best_of(9, sessions.list) * 1000
        print(f"  list all                             {list_ms:.1f} ms  goal {GOAL_LIST_MS:.0f}")
        page_ms = best_of(9, lambda: sessions.list(limit=50)) * 1000
        print(f"  list the 50 used last                {page_ms:.2f} ms")


def fill(path: Path, runs: int, records: int) -> list[str]:
    """Write so many runs of so many records, each in a session of its own."""
    pattern = [each for intent, result in steps_of_a_run("r", 2) for each in (*intent, *result)]
    run_ids = [os.urandom(16).hex() for _ in range(runs)]
    with SQLiteJournal(path) as journal:
        for number, run_id in enumerate(run_ids):
            claim = journal.claim(run_id)
            whole: list[Record] = [
                msgspec.structs.replace(
                    pattern[position % len(pattern)], run_id=run_id, seq=position, at=number + 0.5
                )
                for position in range(records)
            ]
            whole[0] = RunStarted(run_id, 0, number + 0.5, "agent-1", run_id)
            whole[1] = PromptSubmitted(run_id, 1, number + 0.5, "What is the weather like?")
            for start in range(0, records, 4):
                claim.write(whole[start : start + 4])
            claim.give_back()
    return run_ids


def opened(path: Path) -> None:
    """Open a journal, look at its list, and close it."""
    with SQLiteJournal(path) as journal:
        journal.runs()


def best_of(times: int, work: Callable[[], object]) -> float:
    """Seconds, of the fastest."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


if __name__ == "__main__":
    main()
