"""Measures the sandbox: `python benchmarks/sandbox.py`.

What it costs to start a command in it, beside a bare process and beside the host driver; and what it costs to look
for files that others would run or obey, before and after a command, in a tree of 100,000 files.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from hookline.containment import Sandbox
from hookline.containment.sandbox.work_tree import WorkTree

GOAL_START_MS = 20.0
GOAL_CHECK_MS = 100.0
DIRECTORIES, FILES_EACH = 10_000, 10

Start = Callable[[], Awaitable[object]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="samples of each (default: 100)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure_sandbox(Path(directory), rounds))
    with tempfile.TemporaryDirectory() as directory:
        measure_check(Path(directory), max(3, rounds // 10))


async def measure_sandbox(directory: Path, rounds: int) -> None:
    """Time and CPU of one `true`, start to end. All take turns; each is compared with the bare one beside it."""
    contained, host = Sandbox(directory, "auto"), Sandbox(directory, "host")
    print(f"sandbox start, ms over a bare process, {rounds} rounds ({contained.describe()})")
    rows: list[tuple[str, Start]] = [("on the host", lambda: host.run(["true"]))]
    if contained.status.contained:
        rows.append((f"in {contained.status.driver}", lambda: contained.run(["true"])))
    await measure_starts(rows, rounds, goal=f"  goal {GOAL_START_MS:g}")
    if contained.status.contained:
        running = await contained.start(["sleep", "1000"], on_output=lambda _: None)
        await measure_starts([("beside another command", rows[-1][1])], rounds)
        running.kill()
        await running.wait()


async def measure_starts(rows: list[tuple[str, Start]], rounds: int, goal: str = "") -> None:
    """Print a line for each. The goal is that of the last one."""
    samples: dict[str, list[tuple[float, float]]] = {label: [] for label, _ in rows}
    bare_times: list[float] = []
    for _ in range(rounds):
        bare = await timed(bare_process)
        bare_times.append(bare[0])
        for label, start in rows:
            took = await timed(start)
            samples[label].append((took[0] - bare[0], took[1] - bare[1]))
    print(
        f"  {'a bare process itself':24} {statistics.median(bare_times):6.1f} (best {min(bare_times):.1f})"
    )
    for label, each in samples.items():
        wall, cpu = (statistics.median(column) for column in zip(*each, strict=True))
        best = min(wall for wall, _ in each)
        end = goal if label == rows[-1][0] else ""
        print(f"  {label:24} {wall:6.1f} (best {best:.1f}; CPU {cpu:.1f}){end}")


def measure_check(directory: Path, rounds: int) -> None:
    """Time and CPU of both looks at a large tree, with the first one ahead, as `Bash` does it, and without."""
    for number in range(DIRECTORIES):
        place = directory / f"{number // 100}" / f"{number % 100}"
        place.mkdir(parents=True)
        for each in range(FILES_EACH):
            (place / f"{each}.py").touch()
    alone, ahead, first, other = [], [], [], []
    for _ in range(rounds):
        alone.append(timed_look(both_looks, WorkTree(str(directory))))
        tree = WorkTree(str(directory))
        ahead.append(timed_look(WorkTree.look, tree))
        first.append(timed_look(both_looks, tree))
        other.append(timed_look(both_looks, tree))
    print(f"looks at {DIRECTORIES * FILES_EACH:,} files, ms, {rounds} rounds")
    for label, taken, goal in (
        ("while the model is asked", ahead, ""),
        ("the first command then", first, f"  goal {GOAL_CHECK_MS:g}"),
        ("every other", other, f"  goal {GOAL_CHECK_MS:g}"),
        ("the first without an agent", alone, ""),
    ):
        wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
        print(f"  {label:26} {wall:6.1f} (best {min(taken)[0]:.1f}; CPU {cpu:.1f}){goal}")


def both_looks(tree: WorkTree) -> None:
    """Before a command, and after it."""
    tree.leave(tree.enter())


def timed_look(look: Callable[[WorkTree], object], tree: WorkTree) -> tuple[float, float]:
    """Milliseconds of time and of CPU."""
    began, before = time.perf_counter(), time.process_time()
    look(tree)
    return (time.perf_counter() - began) * 1000, (time.process_time() - before) * 1000


async def bare_process() -> None:
    """As Python starts one."""
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()


async def timed(start: Start) -> tuple[float, float]:
    """Milliseconds of time, and of CPU of ours and of what we started."""
    began, before = time.perf_counter(), _cpu()
    await start()
    return (time.perf_counter() - began) * 1000, (_cpu() - before) * 1000


def _cpu() -> float:
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    main()
