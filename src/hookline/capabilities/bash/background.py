"""Commands that go on while the model does something else. They end with the run, and with the process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass

from hookline.capabilities.bash.outputs import Output
from hookline.capabilities.bash.text import shown, took
from hookline.containment import RunningCommand
from hookline.errors import ToolError

_NAMED = 10
"""How many files are named in one message."""
_MOST = 16
"""How many may run at once in one run."""


@dataclass(frozen=True)
class BackgroundCommand:
    """One command that goes on, under an id."""

    id: str
    command: str
    running: RunningCommand
    output: Output


class Backgrounds:
    """The background commands of all runs, by run and id."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, BackgroundCommand]] = {}
        self._numbers: dict[str, itertools.count[int]] = {}

    def check_room(self, run_id: str) -> None:
        """Raise if there are too many already."""
        alive = [one for one in self._of.get(run_id, {}).values() if one.running.is_running]
        if len(alive) >= _MOST:
            raise ToolError(
                f"{_MOST} commands run in the background already: {', '.join(one.id for one in alive)}.",
                remedy="Stop one of them with bash_stop.",
            )

    def add(
        self, run_id: str, command: str, running: RunningCommand, output: Output
    ) -> BackgroundCommand:
        """Take a command that was started."""
        number = next(self._numbers.setdefault(run_id, itertools.count(1)))
        made = BackgroundCommand(f"bg-{number}", command, running, output)
        self._of.setdefault(run_id, {})[made.id] = made
        return made

    def find(self, run_id: str, id: str) -> BackgroundCommand:
        """The command of that id, or an error that names those there are."""
        here = self._of.get(run_id, {})
        if id in here:
            return here[id]
        known = f"Those there are: {', '.join(here)}." if here else "There are none now."
        raise ToolError(
            f"there is no background command '{id}': it was never started, or the process that ran it has ended.",
            remedy=known,
        )

    async def end(self, run_id: str) -> None:
        """End all commands of a run."""
        ended = self._of.pop(run_id, {})
        self._numbers.pop(run_id, None)
        for one in ended.values():
            one.running.kill()
        for one in ended.values():
            with contextlib.suppress(Exception):
                await one.running.wait()
            one.output.close()


def status(one: BackgroundCommand) -> str:
    """How it is going, in a line."""
    running = one.running
    if running.is_running:
        return f"[{one.id} is running: {_short(one.command)}]{set_aside(running)}"
    how = {
        "exited": f"ended by itself with exit code {running.exit_code}",
        "stopped": "was stopped",
        "output": "was ended because it printed too much",
        "processes": "was ended because it started too many processes",
        "memory": "was ended because its processes used more memory than they may",
        "disk": "was ended because it wrote more than it may, or left too little free space on the disk",
        "timeout": "ran out of time and was ended",
    }[running.ended]
    return f"[{one.id} {how} after {took(running.duration)}: {_short(one.command)}]{set_aside(running)}"


def set_aside(running: RunningCommand) -> str:
    """What became of files that the command made and others would run or obey; empty if there are none."""
    moved = running.set_aside
    if not moved:
        return ""
    more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
    return (
        f"\n[moved aside: {', '.join(moved[:_NAMED])}{more}. Under the name it was given, another program or agent "
        "would run or obey it. Tell the user, who may rename it; or write it with a tool that asks]"
    )


def news(one: BackgroundCommand) -> str:
    """What it printed since the last time, and how it is going."""
    unread, held = one.output.take_unread(is_over=not one.running.is_running)
    text = shown(unread, one.output.said).rstrip()
    waits = f"\n[{held:,} bytes are not shown yet: their line has not ended]" if held else ""
    text = text or ("" if held else "(nothing new)")
    return f"{text}{waits}\n{status(one)}".lstrip("\n")


async def settle(one: BackgroundCommand, seconds: float) -> None:
    """Give a command a moment, until it ends or prints something."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while one.running.is_running and not one.output.unread.total and loop.time() < until:  # noqa: ASYNC110 - output comes by callback, from two places
        await asyncio.sleep(0.02)


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 80 else f"{line[:77]}..."
