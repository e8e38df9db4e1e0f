"""Measures journals on disk: `python benchmarks/journal.py`.

What a step costs over a journal in memory, how a long session grows, how long a long run takes to replay, how long the
event loop stands still when many runs start at once, and how long a large file takes to open and to list.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from hookline import Agent, AgentBuilder, SQLiteJournal, replay, tool
from hookline.drivers import InferenceRequest, InferenceResponse, Turn
from hookline.journal import PromptSubmitted, Record, RunStarted
from hookline.sessions import Sessions
from hookline.testing import ScriptedDriver, call, say

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
Insert: TypeAlias = Callable[[], object]

STEPS = 200
GOAL_STEP_MS = 0.1
WAIT_S = 0.003
GOAL_WAIT_MS = 0.2
"""A step of a model that waits so long: two commits, and everything else has left the caches of the processor."""
GOAL_OPEN_S = 1.0
GOAL_LIST_MS = 50.0
PROMPTS = 1000
GOAL_GROWTH = 1.5
"""How much more a prompt may cost at the end of a session than at its beginning."""
REPLAYED_STEPS = 5000
GOAL_REPLAY_S = 5.0
RUNS_AT_ONCE = 1000
GOAL_STALL_MS = 50.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="samples of each (default: 25)")
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):  # one core: what other programs do moves the numbers less
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as directory:
        measure_steps(Path(directory), rounds)
        measure_session(Path(directory))
        measure_replay()
        measure_start(Path(directory))
        measure_files(Path(directory))


# --- a step ----------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """How agents are run whose steps are measured."""

    words: str
    agents: int = 1
    waits: float | None = None
    """For how many seconds the model lets others continue before it answers, as real ones do."""
    synchronous: Synchronous = "NORMAL"
    goal: str = ""


SETTINGS = (
    Setting("NORMAL", goal=f"goal {GOAL_STEP_MS}"),
    Setting("NORMAL, the model yields: two commits", waits=0.0),
    Setting("NORMAL, the model waits 3 ms", waits=WAIT_S, goal=f"goal {GOAL_WAIT_MS}"),
    Setting("NORMAL, 10 agents in one loop", agents=10, waits=0.0),
    Setting("FULL", synchronous="FULL"),
)


def measure_steps(directory: Path, rounds: int) -> None:
    """CPU of all threads per step of whole runs: the intent is waited for, the results are not.

    Each sample is a pair, in memory and on disk, one right after the other: what else the machine does changes from
    minute to minute, and is in both. Beside the model that waits, a third run is in memory and its model inserts the
    same bytes into a table, once before it waits and once after: what SQLite takes for two commits at this rhythm.
    """
    print(f"a step with one tool call, CPU ms over in-memory, median of {rounds} rounds")
    samples: dict[Setting, list[tuple[float, float, float]]] = {each: [] for each in SETTINGS}
    bare: dict[Setting, list[float]] = {each: [] for each in SETTINGS if each.waits}
    for turn in range(rounds):
        for number, setting in enumerate(SETTINGS):
            memory, _ = asyncio.run(some_runs(setting, None))
            path = directory / f"{turn}-{number}.db"
            with SQLiteJournal(path, synchronous=setting.synchronous) as journal:
                cpu, wall = asyncio.run(some_runs(setting, journal))
            samples[setting].append((cpu, memory, wall))
            if setting in bare:
                with bare_inserts(path) as insert:
                    bare[setting].append(asyncio.run(some_runs(setting, None, insert))[0] - memory)
            path.unlink()
    for setting, taken in samples.items():
        over = statistics.median(cpu - memory for cpu, memory, _ in taken)
        cpus, memories, walls = zip(*taken, strict=True)
        best, usual = min(cpus) - min(memories), statistics.median(memories)
        told = f"best {best:.3f}; wall {statistics.median(walls):.3f}; in memory {usual:.3f}"
        print(f"  {setting.words:36} {over:.3f} ({told})  {setting.goal}".rstrip())
        if setting in bare:
            inserts = statistics.median(bare[setting])
            print(f"    to two bare inserts of its bytes   {over / inserts:.2f} ({inserts:.3f})")


@contextmanager
def bare_inserts(journal: Path) -> Iterator[Insert]:
    """Inserts what a journal holds into a table beside it, a batch with each call, with the same settings."""
    with closing(sqlite3.connect(journal)) as connection:
        rows = connection.execute("SELECT links, records FROM batches ORDER BY id").fetchall()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    path = journal.with_suffix(".bare")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # nor has the journal any here
        connection.execute(
            "CREATE TABLE batches (id INTEGER PRIMARY KEY, links BLOB, records TEXT)"
        )
        cursor, left = connection.cursor(), iter(rows)
        query = "INSERT INTO batches (links, records) VALUES (?, ?)"
        yield lambda: cursor.execute(query, next(left))
    path.unlink()


@tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


class Waiting(ScriptedDriver):
    """A model that takes some time."""

    def __init__(self, script: Sequence[Any], seconds: float, insert: Insert) -> None:
        super().__init__(script)
        self._seconds = seconds
        self._insert = insert

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """The next turn of the script."""
        self._insert()
        await asyncio.sleep(self._seconds)
        self._insert()
        return await super().infer(request, turn)


async def some_runs(
    setting: Setting, journal: SQLiteJournal | None, insert: Insert = lambda: None
) -> tuple[float, float]:
    """Milliseconds of CPU and of time per step."""
    agents = [agent_of(setting, journal, insert) for _ in range(setting.agents)]
    if journal is not None:
        await journal.runs()  # what opens it is no part of a step: see `measure_files`
    gc.collect()  # or one of a pair would clear up after the other
    started, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(agent.run("hello") for agent in agents))
    taken = time.process_time() - started, time.perf_counter() - began
    steps = STEPS * setting.agents
    return taken[0] / steps * 1000, taken[1] / steps * 1000


def agent_of(setting: Setting, journal: SQLiteJournal | None, insert: Insert) -> Agent:
    """An agent that makes so many steps."""
    script = [call("echo", text="hello")] * STEPS + [say("done")]
    waits = setting.waits
    driver = ScriptedDriver(script) if waits is None else Waiting(script, waits, insert)
    builder = AgentBuilder().with_driver(driver).with_tools(echo)
    builder.with_limits(steps=STEPS + 1, tokens=None)
    if journal is not None:
        builder.with_journal(journal)
    return builder.build()


# --- a long session ---------------------------------------------------------------------------------


def measure_session(directory: Path) -> None:
    """Bytes and time of a prompt, in the first and in the last hundred of a session."""
    print(f"{PROMPTS:,} short prompts in one session")
    path = directory / "session.db"
    with SQLiteJournal(path) as journal:
        session = Sessions(journal).create_sync(id="s")
        agent = AgentBuilder().with_driver(Same()).with_journal(journal).build()
        sizes, times = [size_of(path)], [time.process_time()]
        for _ in range(PROMPTS // 100):
            for _ in range(100):
                session.run_sync(agent, "What is the weather like?")
            sizes.append(size_of(path))
            times.append(time.process_time())
    spent = [after - before for before, after in itertools.pairwise(times)]
    grown = [after - before for before, after in itertools.pairwise(sizes)]
    print(
        f"  ms of CPU a prompt                   {spent[0] * 10:.2f} first, {spent[-1] * 10:.2f} last",
        end="",
    )
    print(f"  goal at most {GOAL_GROWTH:g} times as much")
    print(
        f"  bytes a prompt                       {grown[0] / 100:,.0f} first, {grown[-1] / 100:,.0f} last"
    )
    print(f"  the file                             {sizes[-1] / 1e6:.1f} MB")
    with SQLiteJournal(path) as journal:
        began = time.perf_counter()
        count = len(Sessions(journal).get_sync("s").state.messages)
        print(
            f"  read in another process              {time.perf_counter() - began:.2f} s, {count:,} messages"
        )


class Same(ScriptedDriver):
    """A model that always says the same."""

    def __init__(self) -> None:
        super().__init__([])

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """The answer."""
        return InferenceResponse("It is fine.")


def size_of(path: Path) -> int:
    """The records in the file, without what SQLite keeps beside them."""
    with sqlite3.connect(path) as connection:
        return int(
            connection.execute(
                "SELECT sum(length(records) + length(links)) FROM batches"
            ).fetchone()[0]
            or 0
        )


# --- a long replay, and many runs at once -------------------------------------------------------------


def measure_replay() -> None:
    """Replaying one run of many steps."""
    driver = ScriptedDriver([call("echo", text="hello")] * REPLAYED_STEPS + [say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(echo)
    agent = builder.with_limits(steps=REPLAYED_STEPS + 1, tokens=None, tool_calls=None).build()
    records = agent.run_sync("hello", run_id="long").records
    began = time.perf_counter()
    replayed = asyncio.run(replay(records, "long", agent))
    took = time.perf_counter() - began
    same = "identical" if replayed.identical else "NOT IDENTICAL"
    print(
        f"a replay of {REPLAYED_STEPS:,} steps                {took:.2f} s ({same})  goal {GOAL_REPLAY_S:g}"
    )


def measure_start(directory: Path) -> None:
    """The longest time in which nothing else runs in the event loop, while many runs start.

    It is CPU of the loop's thread: a machine that is busy with something else does not count. Python's own garbage
    collection does.
    """
    gc.collect()
    gc.freeze()  # what the measurements before this one have left is not collected again
    with SQLiteJournal(directory / "start.db") as journal:
        stall, wall, took = asyncio.run(start_many(journal))
    gc.unfreeze()
    print(f"{RUNS_AT_ONCE:,} runs start at once, in {took * 1000:.0f} ms")
    print(
        f"  the event loop works without a pause {stall * 1000:.0f} ms (wall {wall * 1000:.0f})"
        f"  goal {GOAL_STALL_MS:.0f}"
    )


async def start_many(journal: SQLiteJournal) -> tuple[float, float, float]:
    """Seconds of the longest stall, as CPU and on the clock, and of all."""
    agent = AgentBuilder().with_driver(Slow()).with_journal(journal).build()
    longest = last = (0.0, 0.0)
    is_over = False

    async def watch() -> None:
        nonlocal longest, last
        while not is_over:
            await asyncio.sleep(0)
            now = time.thread_time(), time.perf_counter()
            longest = max(longest[0], now[0] - last[0]), max(longest[1], now[1] - last[1])
            last = now

    watching = asyncio.create_task(watch())
    last = time.thread_time(), time.perf_counter()
    await asyncio.sleep(0)
    began = time.perf_counter()
    runs = [asyncio.create_task(agent_run(agent)) for _ in range(RUNS_AT_ONCE)]
    await asyncio.gather(*runs)
    took = time.perf_counter() - began
    is_over = True
    await watching
    return *longest, took


async def agent_run(agent: Agent) -> object:
    """One run, as a server starts it for a request."""
    return await agent.run("hello")


class Slow(Same):
    """A model that answers after some time."""

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """The answer."""
        await asyncio.sleep(1.0)
        return await super().infer(request, turn)


# --- a large file ----------------------------------------------------------------------------------


def measure_files(directory: Path) -> None:
    """Opening and listing."""
    path = directory / "large.db"
    run_ids = fill(path, runs=100, records=1000)
    print(f"100,000 records in 100 runs, {path.stat().st_size / 1e6:.0f} MB")
    open_s = best_of(5, lambda: opened(path))
    print(f"  open, and list its runs              {open_s:.3f} s  goal {GOAL_OPEN_S}")
    with SQLiteJournal(path) as journal:
        read_s = best_of(5, lambda: journal.read_sync(run_ids[0]))
        print(f"  read and check a run of 1,000        {read_s * 1000:.1f} ms")
    path = directory / "many.db"
    fill(path, runs=10_000, records=8)
    print(f"10,000 runs, each in a session of its own, {path.stat().st_size / 1e6:.0f} MB")
    with SQLiteJournal(path) as journal:
        list_ms = best_of(9, journal.runs_sync) * 1000
        print(f"  list all                             {list_ms:.1f} ms  goal {GOAL_LIST_MS:.0f}")
        page_ms = best_of(9, lambda: journal.runs_sync(limit=50)) * 1000
        print(f"  list the newest 50                   {page_ms:.2f} ms")
    measure_sessions(path, 10_000)


def measure_sessions(path: Path, count: int) -> None:
    """Listing sessions, in a file with as many runs."""
    with SQLiteJournal(path) as journal:
        sessions = Sessions(journal)
        for number in range(count):
            sessions.create_sync(title=f"What is the weather like in town {number}?")
        print(f"{count:,} sessions beside them, {path.stat().st_size / 1e6:.0f} MB")
        list_ms = best_of(9, sessions.list_sync) * 1000
        print(f"  list all                             {list_ms:.1f} ms  goal {GOAL_LIST_MS:.0f}")
        page_ms = best_of(9, lambda: sessions.list_sync(limit=50)) * 1000
        print(f"  list the 50 used last                {page_ms:.2f} ms")


def fill(path: Path, runs: int, records: int) -> list[str]:
    """Write so many runs of so many records, each in a session of its own."""
    pattern = two_steps()
    run_ids = [os.urandom(16).hex() for _ in range(runs)]
    with SQLiteJournal(path) as journal:
        for number, run_id in enumerate(run_ids):
            claim = journal.claim_sync(run_id)
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
            claim.give_back().result()
    return run_ids


def two_steps() -> list[Record]:
    """The records of two steps of a real run."""
    driver = ScriptedDriver([call("echo", text="hello"), call("echo", text="hello"), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(echo).build()
    records = asyncio.run(agent.run("hello")).records
    ends = [position for position, record in enumerate(records) if record.type == "step"]
    return list(records[ends[0] + 1 : ends[1] + 1]) * 2


def opened(path: Path) -> None:
    """Open a journal, look at its list, and close it."""
    with SQLiteJournal(path) as journal:
        journal.runs_sync()


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
