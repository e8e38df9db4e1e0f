"""Measures one candidate inside its own interpreter: a request per line on stdin, an answer per line on stdout."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import os
import resource
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from script import Run, Script, Workload

Answer = dict[str, Any]
Build = Callable[[Workload], Run]


class RunFailed(Exception):
    """A run that ended before its script did."""


async def drive(run: Run, script: Script) -> object:
    """One whole run, whether the framework's own way to start it is async or not."""
    try:
        result = run(script)
        if inspect.isawaitable(result):
            result = await result
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:200]
        raise RunFailed(f"{text} (in model turn {script.turns})") from error
    finished(script)
    return result


def finished(script: Script) -> None:
    """A framework may give up and still return: a run counts only if its script was played to the end."""
    if script.turns != script.last + 1:
        raise RunFailed(f"ended after {script.turns} of {script.last + 1} model turns")


async def steps(build: Build, request: Answer) -> Answer:
    """The cost of one step, over the steps from `first` to `last` of as many runs as `budget` seconds allow."""
    first, last = request["first"], request["last"]
    run = build(Workload(**request["workload"]))
    await drive(run, Script(0, min(last, 3)))
    cpu = wall = 0.0
    count = 0
    deadline = time.perf_counter() + 4 * request["budget"]
    while not count or (wall < request["budget"] and time.perf_counter() < deadline):
        script = Script(first, last)
        await drive(run, script)
        cpu += script.cpu_seconds
        wall += script.wall_seconds
        count += last - first
    return {"cpu_us": cpu / count * 1e6, "wall_us": wall / count * 1e6, "steps": count}


async def fleet(build: Build, request: Answer) -> Answer:
    """Many agents in one event loop; the whole process is counted, so this wants a fresh one."""
    runs = [build(Workload()) for _ in range(request["agents"])]
    scripts = [Script(0, request["steps"], pause=True) for _ in runs]
    if inspect.iscoroutinefunction(runs[0]):
        work = [drive(run, script) for run, script in zip(runs, scripts, strict=True)]
    else:  # a blocking run is put in threads, as its users have to do
        work = [asyncio.to_thread(run, script) for run, script in zip(runs, scripts, strict=True)]
    results = await asyncio.gather(*work)
    for script in scripts:
        finished(script)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_mb": peak_mb(), "runs": len(results)}


def peak_mb() -> float:
    """The most memory this process ever held."""
    try:  # ru_maxrss starts at the parent's size on Linux, VmHWM does not
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


async def parallel(build: Build, request: Answer) -> Answer:
    """Wall time of one step with many calls that each only wait."""
    run = build(Workload(tool="nap"))
    await drive(run, Script(0, 1, calls=2))
    script = Script(0, 1, calls=request["calls"])
    await drive(run, script)
    return {"wall_ms": script.wall_seconds * 1e3}


async def build_cost(build: Build, request: Answer) -> Answer:
    """Time to build one agent, and the memory it holds once built."""
    count = request["count"]
    build(Workload())
    gc.collect()
    start = time.process_time()
    agents = [build(Workload()) for _ in range(count)]
    cpu = time.process_time() - start
    del agents
    gc.collect()
    tracemalloc.start()
    agents = [build(Workload()) for _ in range(count)]
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"cpu_us": cpu / count * 1e6, "kb": held / count / 1024, "count": len(agents)}


async def check(build: Build, request: Answer) -> Answer:
    """Counts the tool and hook calls of a short run: a number for work that was not done would be worth nothing."""
    hooks, last = 2, 3
    source = inspect.getfile(build)
    seen = {"echo": 0, "before": 0, "after": 0}

    def count(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in seen and code.co_filename == source:
            seen[code.co_name] += 1

    run = build(Workload(hooks=hooks))
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        await drive(run, Script(0, last))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if seen["echo"] < last or seen["before"] + seen["after"] < 2 * hooks * last:
        raise RunFailed(f"expected {last} tool and {2 * hooks * last} hook calls, saw {seen}")
    return seen


OPERATIONS = {
    "steps": steps,
    "fleet": fleet,
    "parallel": parallel,
    "build": build_cost,
    "check": check,
}


def answer(build: Build, request: Answer) -> Answer:
    """One operation; a framework that fails is an answer too, not a crash."""
    operation = OPERATIONS[request["op"]]
    try:
        return asyncio.run(operation(build, request))
    except RunFailed as failure:
        return {"error": str(failure)}
    except (Exception, asyncio.CancelledError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def serve(adapter: str, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until the input ends."""
    build: Build = importlib.import_module(adapter).build
    for line in requests:
        print(json.dumps(answer(build, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    # Frameworks print; the protocol keeps the real stdout for itself and they get stderr.
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.stdin, protocol)
