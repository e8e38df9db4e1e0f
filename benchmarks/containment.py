"""Measures containment: `python benchmarks/containment.py`.

What it costs to open a file through the jail, in each way there is, beside opening it plainly; and what it costs to
start a command in the sandbox, beside starting a process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hookline.containment import FileJail
from hookline.errors import UsageError
from sandbox import measure_sandbox

OPENS = 500
GOAL_OPEN_US = 50.0

Open = Callable[[], object]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="samples of each (default: 25)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure_sandbox(Path(directory), rounds))
    if hasattr(os, "sched_setaffinity"):  # one core: what other programs do moves the numbers less
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as directory:
        measure_jail(Path(directory), rounds)


# --- the file jail -----------------------------------------------------------------------------------


def measure_jail(directory: Path, rounds: int) -> None:
    """CPU and time of one open and close, four directories deep."""
    deep = directory / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "file.txt").write_text("x")
    (directory / "link").symlink_to("a/b/c")
    print(f"file-jail open, us of CPU per open and close, {rounds} rounds of {OPENS}")
    rows = [("plain open(), no jail", plainly(deep / "file.txt"), False), *jailed(directory)]
    samples: dict[str, list[tuple[float, float]]] = {label: [] for label, *_ in rows}
    for _ in range(rounds):
        for label, open_it, _has_goal in rows:
            samples[label].append(timed(open_it))
    for label, _open, has_goal in rows:
        cpu, wall = (statistics.median(column) for column in zip(*samples[label], strict=True))
        best = min(cpu for cpu, _ in samples[label])
        goal = f"goal {GOAL_OPEN_US:g}" if has_goal else ""
        print(f"  {label:36} {cpu:6.1f} (best {best:.1f}; wall {wall:.1f})  {goal}".rstrip())


def plainly(path: Path) -> Open:
    """As Python opens it."""
    return lambda: open(path, "rb").close()


def jailed(directory: Path) -> list[tuple[str, Open, bool]]:
    """Through a jail, in each way that this system has."""
    rows: list[tuple[str, Open, bool]] = []
    for way in ("openat2", "steps"):
        try:
            jail = FileJail(directory, way=way)
        except UsageError as error:
            print(f"  {way}: {error}")
            continue
        rows.append((f"file-jail open, {way}", opened(jail, "a/b/c/file.txt"), True))
        rows.append((f"file-jail open, {way}, over a link", opened(jail, "link/file.txt"), True))
    return rows


def opened(jail: FileJail, path: str) -> Open:
    """One open and close."""
    return lambda: jail.open(path, "rb").close()


def timed(open_it: Open) -> tuple[float, float]:
    """Microseconds of CPU and of time per call."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(OPENS):
        open_it()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / OPENS * 1e6, wall / OPENS * 1e6


if __name__ == "__main__":
    main()
