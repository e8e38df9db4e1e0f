"""Measures command hooks: `python benchmarks/command_hooks.py`.

One hook that is a program, asked before every tool call of a run, beside `asyncio.create_subprocess_exec` of the same
program with the same input. What a step costs without the hook is subtracted. All are measured in turns, in one
process, and the fastest quarter of the samples is compared: other programs on the machine only add time.

Where there is a terminal, a hook has a session of its own, without it. Linux gives every session its own share of a
busy machine (`sched_autogroup_enabled`), and a new session waits longest for its turn. So the bare program is measured
in a session of its own, too: in a terminal, on a machine with other work, that column is the one to compare with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import NamedTuple

from hookline import Agent, AgentBuilder, tool
from hookline.command_hooks import CommandHooks
from hookline.testing import ScriptedDriver, call, say

CALLS = 5
GOAL = 2.0
SCRIPT = '#!/bin/sh\nread -r event\ncase "$event" in *\'"rm \'*) exit 2 ;; esac\n'
SAVING = "#!/bin/sh\ncat > event.json\n"


class Row(NamedTuple):
    """A hook, and the command that is the same without us."""

    label: str
    hooks: CommandHooks
    bare: tuple[str, ...]


@tool
def bash(command: str) -> str:
    """Run a command."""
    return command


def main() -> int:
    """Print the table. The exit status is 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="samples of each (default: 60)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(measure(Path(directory).resolve(), rounds))


async def measure(directory: Path, rounds: int) -> int:
    """Measure both dialects, and the bare programs, in turns."""
    os.environ["HOME"] = str(directory)
    (directory / "event.json").touch()
    rows = rows_in(directory)
    events = {row.label: await event_of(row, directory) for row in rows}
    bare: dict[str, list[float]] = {row.label: [] for row in rows}
    apart: dict[str, list[float]] = {row.label: [] for row in rows}
    ours: dict[str, list[float]] = {row.label: [] for row in rows}
    without: list[float] = []
    for _ in range(rounds):
        without.append(await timed(run_agent(agent_with(None))))
        for row in rows:
            event = events[row.label]
            bare[row.label].append(await timed(run_bare(row, event, directory)))
            apart[row.label].append(await timed(run_bare(row, event, directory, apart=True)))
            ours[row.label].append(await timed(run_agent(agent_with(row.hooks))))
    print(f"one command hook, ms for each call; the fastest quarter of {rounds} rounds of {CALLS}")
    missed = 0
    for row in rows:
        plain, session = quick(bare[row.label]), quick(apart[row.label])
        hook = quick(ours[row.label]) - quick(without)
        missed += hook > GOAL * plain
        print(
            f"  {row.label:28} {hook:6.2f}  bare {plain:6.2f} ({hook / plain:4.2f} x, goal {GOAL:g} x)"
            f"  in a session {session:6.2f} ({hook / session:4.2f} x)"
        )
    return min(missed, 1)


def quick(samples: list[float]) -> float:
    """Milliseconds of one call, in the fastest quarter."""
    return statistics.quantiles(samples, n=4)[0] / CALLS * 1000


def rows_in(directory: Path) -> list[Row]:
    """Hooks of Hookline's own dialect, with and without a shell, and of Claude's."""
    script = directory / "hook.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    settings = directory / "settings.json"
    entry = {"type": "command", "command": str(script)}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [entry]}]}}))
    on = {"on": "before_tool_use"}
    there, kept = directory, directory / "transcripts"
    own = CommandHooks([{**on, "argv": [str(script)]}], project=there, transcripts=kept)
    line = CommandHooks([{**on, "command": str(script)}], project=there, transcripts=kept)
    claude = CommandHooks.from_file(settings, "claude", project=there, transcripts=kept)
    return [
        Row("hookline, a program", own, (str(script),)),
        Row("hookline, a line for /bin/sh", line, ("/bin/sh", "-c", str(script))),
        Row("claude, a line for bash", claude, ("bash", "-c", str(script))),
    ]


async def event_of(row: Row, directory: Path) -> bytes:
    """The input of a hook, as it is when the hook is asked."""
    script = directory / "hook.sh"
    script.write_text(SAVING)
    await run_agent(agent_with(row.hooks, 1))
    script.write_text(SCRIPT)
    return (directory / "event.json").read_bytes()


def agent_with(hooks: CommandHooks | None, calls: int = CALLS) -> Agent:
    """An agent that calls a tool so many times."""
    asked = [call("bash", command=f"ls {number}") for number in range(calls)]
    builder = AgentBuilder().with_driver(ScriptedDriver([*asked, say("done")])).with_tools(bash)
    builder = builder.with_limits(steps=calls + 2)
    return (builder if hooks is None else builder.with_capability(hooks)).build()


async def run_agent(agent: Agent) -> None:
    """Run it to its end."""
    result = await agent.run("Go.")
    if result.text != "done":
        sys.exit(f"the run went wrong: {result}")


async def run_bare(row: Row, event: bytes, directory: Path, *, apart: bool = False) -> None:
    """Run the same program as often, by the standard library alone."""
    pipe = asyncio.subprocess.PIPE
    for _ in range(CALLS):
        process = await asyncio.create_subprocess_exec(
            *row.bare,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=directory,
            start_new_session=apart,
        )
        await process.communicate(event)
        if process.returncode != 0:
            sys.exit(f"{row.bare} ended with {process.returncode}")


async def timed(work: Coroutine[None, None, None]) -> float:
    """Seconds that it took."""
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
