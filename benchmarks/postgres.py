"""Measures a journal in PostgreSQL: `python benchmarks/postgres.py`.

What a step costs beside one insert with its commit, as psycopg makes it over another connection to the same server. The
server is started for this, and its commits wait for the disk.

A step is all that happens from the start of a call to the start of the call in the next step: the tool, the loop, a
model in this process that answers at once, the records, and the commit without which the next call may not start. The
start and the end of the run are not in it. `over memory` is the same step without what it costs with a journal in
memory: this is what PostgreSQL adds.

Both goals are ratios, and the disk, the server and this process have different parts in them. So each sample has
inserts, steps and steps in memory, one right after the other, and the table shows medians of their ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psycopg

from hookline import Agent, AgentBuilder, tool
from hookline.journal import JournalStore, MemoryJournal, PostgresJournal
from hookline.testing import ScriptedDriver, call, calls, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
from postgres_server import PostgresServer  # type: ignore[import-not-found]  # it is with the tests

STEPS = 50
GOALS = {1: 1.5, 5: 3.0}
"""Times an insert with its commit, for a step with so many calls at once."""


class Sample(NamedTuple):
    """Milliseconds, but for the commits."""

    insert: float
    step: float
    in_memory: float
    cpu: float
    """Of this process, for a step."""
    commits: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="samples of each (default: 25)")
    rounds = parser.parse_args().rounds
    server = PostgresServer(fsync=True)
    try:
        samples = measure(server, rounds)
    finally:
        server.close()
    print(f"a step, beside one insert with its commit, medians of {rounds} rounds of {STEPS}")
    print("  calls  ratio  goal  over memory  insert ms  step ms  CPU ms  in memory ms  commits")
    for number, taken in samples.items():
        ratio = statistics.median(each.step / each.insert for each in taken)
        over = statistics.median((each.step - each.in_memory) / each.insert for each in taken)
        insert, step, in_memory, cpu, commits = map(statistics.median, zip(*taken, strict=True))
        print(
            f"{number:7} {ratio:6.2f} {GOALS[number]:5} {over:12.2f} {insert:10.2f} {step:8.2f} {cpu:7.2f} "
            f"{in_memory:13.2f} {commits:8.2f}"
        )


def measure(server: PostgresServer, rounds: int) -> dict[int, list[Sample]]:
    """The samples, by the number of calls. The first round is not counted."""
    samples: dict[int, list[Sample]] = {number: [] for number in GOALS}
    with (
        psycopg.connect(server.url(), autocommit=True) as connection,
        PostgresJournal(server.url(), schema=server.new_schema()) as journal,
        MemoryJournal() as memory,
    ):
        connection.execute("CREATE TABLE one (id bigserial PRIMARY KEY, body bytea NOT NULL)")
        for _ in range(rounds + 1):
            for number, taken in samples.items():
                before = insert(connection)
                began = commits(connection)
                step, cpu = asyncio.run(run(number, journal))
                made = (commits(connection) - began - 1) / STEPS  # to count makes one too
                bare = (before + insert(connection)) / 2
                in_memory, _ = asyncio.run(run(number, memory))
                taken.append(Sample(bare, step, in_memory, cpu, made))
    return {number: taken[1:] for number, taken in samples.items()}


def insert(connection: psycopg.Connection[tuple[object, ...]]) -> float:
    """Milliseconds of an insert with its commit. The row is about as large as the records of a step."""
    began = time.perf_counter()
    for _ in range(STEPS // 2):
        connection.execute("INSERT INTO one (body) VALUES (%s)", (b"x" * 1500,))
    return (time.perf_counter() - began) / (STEPS // 2) * 1000


def commits(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """How many transactions have written something so far."""
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row is not None
    return int(str(row[0]))


starts: list[tuple[float, float]] = []
"""When calls of the run began, by the clock and in CPU time."""


@tool
async def echo(text: str) -> str:
    """Give the text back."""
    starts.append((time.perf_counter(), time.process_time()))
    return text


def agent_of(number: int, journal: JournalStore) -> Agent:
    """Each step but the last has so many calls."""
    step = calls(*(call("echo", text="hello") for _ in range(number)))
    driver = ScriptedDriver([*[step] * (STEPS + 1), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(echo).with_journal(journal)
    return builder.with_limits(steps=STEPS + 2).build()


async def run(number: int, journal: JournalStore) -> tuple[float, float]:
    """Milliseconds of a step, and of CPU time."""
    agent = agent_of(number, journal)
    starts.clear()
    await agent.run("hello")
    (began, cpu_before), *_, (ended, cpu_after) = starts[::number]
    return (ended - began) / STEPS * 1000, (cpu_after - cpu_before) / STEPS * 1000


if __name__ == "__main__":
    main()
