"""Measures a journal in PostgreSQL: `python benchmarks/postgres.py`.

What a step costs beside one insert with its commit, over the same connection to the same server. The server is started
for this, and its commits wait for the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

import psycopg

from hookline import Agent, AgentBuilder, tool
from hookline.journal import PostgresJournal
from hookline.testing import ScriptedDriver, call, calls, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
from postgres_server import PostgresServer  # type: ignore[import-not-found]  # it is with the tests

STEPS = 50
GOALS = {1: 1.5, 5: 3.0}
"""Times an insert with its commit, for a step with so many calls at once."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each (default: 9)")
    rounds = parser.parse_args().rounds
    server = PostgresServer(fsync=True)
    try:
        measure(server, rounds)
    finally:
        server.close()


def measure(server: PostgresServer, rounds: int) -> None:
    """Each sample is an insert and the steps, one right after the other."""
    schema = server.new_schema()
    samples: dict[int, list[tuple[float, float, float]]] = {number: [] for number in GOALS}
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE one (id bigserial PRIMARY KEY, body bytea NOT NULL)")
        for _ in range(rounds):
            for number in GOALS:
                bare = insert(connection)
                with PostgresJournal(server.url(), schema=schema) as journal:
                    began = commits(connection)
                    step = asyncio.run(run(agent_of(number, journal)))
                    made = (commits(connection) - began) / STEPS
                samples[number].append((bare, step, made))
    print(f"a step, beside one insert with its commit, median of {rounds} rounds of {STEPS}")
    for number, taken in samples.items():
        bare, step = (statistics.median(each[place] for each in taken) for place in (0, 1))
        ratio = statistics.median(step / bare for bare, step, _ in taken)
        made = statistics.median(each[2] for each in taken)
        told = f"insert {bare:.2f} ms, step {step:.2f} ms, {made:.1f} commits a step"
        print(
            f"  with {number} call{'s'[: number > 1]:1} {ratio:5.2f} x ({told})  goal {GOALS[number]}"
        )


def insert(connection: psycopg.Connection[tuple[object, ...]]) -> float:
    """Milliseconds of an insert with its commit. The row is about as large as the records of a step."""
    began = time.perf_counter()
    for _ in range(STEPS):
        connection.execute("INSERT INTO one (body) VALUES (%s)", (b"x" * 1500,))
    return (time.perf_counter() - began) / STEPS * 1000


def commits(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """How many transactions have written something so far."""
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row is not None
    return int(str(row[0]))


@tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


def agent_of(number: int, journal: PostgresJournal) -> Agent:
    """Each step but the last has so many calls."""
    step = calls(*(call("echo", text="hello") for _ in range(number)))
    driver = ScriptedDriver([*[step] * STEPS, say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(echo).with_journal(journal)
    return builder.with_limits(steps=STEPS + 1).build()


async def run(agent: Agent) -> float:
    """Milliseconds of a step."""
    began = time.perf_counter()
    await agent.run("hello")
    return (time.perf_counter() - began) / STEPS * 1000


if __name__ == "__main__":
    main()
