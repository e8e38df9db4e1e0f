"""Runs commands for the tools, to the end or in the background, and describes the result."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shlex
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hookline._aio import call_in_thread
from hookline.capabilities.bash.output import (
    Output,
    ProgressMessages,
    Scratch,
    format_duration,
    format_output,
    hint,
)
from hookline.capabilities.bash.session import SessionRecorder
from hookline.containment import INSTRUCTIONS, RunningCommand, Sandbox, SandboxGrant
from hookline.containment.links import is_below, links_and_target, real_path
from hookline.containment.sandbox import Place, emptied_directories, is_inside_any
from hookline.containment.sandbox.command import NOT_MOVED
from hookline.errors import SandboxError, ToolError, UsageError
from hookline.state import ToolResult
from hookline.tools import ToolContext

_TMP = Path("/tmp")
_TOO_MUCH = {
    "output": "it printed too much",
    "processes": "it started too many processes",
    "disk": "it wrote more than it may, or left too little free space on the disk",
    "memory": "its processes used more memory than they may",
}
_LONGEST_WAIT = 60.0
"""Seconds a look at a background command may take."""
_FIRST_LOOK = 0.2
"""Seconds in which a background command shows whether it starts at all."""


_NAMED = 10
"""Files that one message names."""
_MOST_RUNNING = 16
"""Background commands that one run may have at once."""


@dataclass(frozen=True)
class CommandRequest:
    """A command as a model asked for it."""

    command: str | list[str]
    directory: str
    """Where it runs, as it was judged: a whole path without links."""
    place: Place | None
    """None for the place that commands run in anyway."""
    network: bool
    env_files: tuple[str, ...]
    """Environment files that a person has agreed to show to it."""
    only_reads: bool
    """Whether the policy itself knows that it only reads."""
    env: Mapping[str, str]
    """The variables that earlier commands have set for it."""
    note: str
    """For the model, if it does not run where it was to."""

    @property
    def text(self) -> str:
        """The command as text for a shell."""
        return self.command if isinstance(self.command, str) else shlex.join(self.command)


class CommandRunner:
    """Runs requests in a sandbox."""

    def __init__(self, sandbox: Sandbox, scratch: Scratch, max_chars: int) -> None:
        self.sandbox = sandbox
        self.backgrounds = BackgroundCommands()
        self._scratch = scratch
        self._max_chars = max_chars

    async def run(
        self,
        request: CommandRequest,
        context: ToolContext,
        seconds: float,
        recorder: SessionRecorder | None = None,
    ) -> ToolResult:
        """Run a command, and return what it printed. Whatever happens, nothing of it runs afterwards."""
        output = Output(self._scratch, self._max_chars)
        progress = ProgressMessages(context.progress)

        def on_output(data: bytes) -> None:
            output.add(data)
            progress.add(data)

        before = _instructions(self.sandbox.root)
        try:
            running = await self._start(request, on_output, recorder)
            await _wait(running, seconds)
        except (SandboxError, UsageError) as error:
            raise ToolError(error.message, remedy=error.remedy) from None
        finally:
            progress.finish()
            output.close()
        said = (
            self._result_text(request, running, output, seconds)
            + request.note
            + describe_moved_files(running)
        )
        if not running.contained:
            said += _warning(before, _instructions(self.sandbox.root))
        return ToolResult(said, metadata=_facts(running, output))

    async def start_in_background(
        self, request: CommandRequest, run_id: str, seconds: float | None
    ) -> ToolResult:
        """Start a command that runs for so many seconds at most, and return its id."""
        self.backgrounds.check_count(run_id)
        output = Output(self._scratch, self._max_chars)
        try:
            running = await self._start(request, output.add, alone=False)
        except (SandboxError, UsageError) as error:
            raise ToolError(error.message, remedy=error.remedy) from None
        one = self.backgrounds.add(run_id, request, running, output)
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, running.kill, "timeout")
        await settle(one, _FIRST_LOOK)
        said = self._new_output(one) + request.note
        if running.is_running:
            said += (
                f"\nbash_poll('{one.id}') gives what it prints from now on, "
                f"bash_stop('{one.id}') ends it. It ends with this run."
            )
        return ToolResult(said, metadata={**_facts(running, output), "background": one.id})

    async def poll(self, id: str, context: ToolContext, wait: float = 0.0) -> ToolResult:
        """See what a background command has printed since the last time, and whether it still runs.

        Args:
            id: What bash gave when the command was started.
            wait: Seconds to wait for it to print something, or to end; 60 at most.
        """
        one = self.backgrounds.find(context.state.run_id, id)
        await settle(one, min(max(wait, 0.0), _LONGEST_WAIT))
        await call_in_thread(one.running.check)
        return ToolResult(self._new_output(one), metadata=_facts(one.running, one.output))

    async def stop(self, id: str, context: ToolContext) -> ToolResult:
        """End a background command, with everything it started.

        Args:
            id: What bash gave when the command was started.
        """
        one = self.backgrounds.find(context.state.run_id, id)
        one.running.kill()
        await one.running.wait()
        return ToolResult(self._new_output(one), metadata=_facts(one.running, one.output))

    async def _start(
        self,
        request: CommandRequest,
        on_output: Callable[[bytes], None],
        recorder: SessionRecorder | None = None,
        *,
        alone: bool = True,
    ) -> RunningCommand:
        """Start a command.

        Beside one on the host no contained one starts, unless it is to continue in the background (`alone=False`).
        """
        is_on_host = self.sandbox.place_of(request.place) == "host"
        grant = SandboxGrant(
            network=request.network and not is_on_host,
            reveal=request.env_files,
            alone=alone and is_on_host,
        )
        return await self.sandbox.start(
            request.command if recorder is None else recorder.command(request.text),
            cwd=request.directory,
            env=self._variables(request),
            grant=grant,
            on_output=on_output,
            pass_fds=() if recorder is None else (recorder.fd,),
            place=request.place,
        )

    def _variables(self, request: CommandRequest) -> Mapping[str, str]:
        """What a command gets beside the variables that all commands get."""
        if request.only_reads and self.sandbox.place_of(request.place) == "host":
            # The policy means the programs of the system. It cannot know which others they start by their names.
            return {"PATH": self.sandbox.environment(place="host")["PATH"]}
        return {} if self.is_outside(request) else request.env

    def find_directory(self, kept: str, named: str, place: Place | None) -> tuple[str, str]:
        """The directory of a command as a whole path without links, and a note if it is not where it was to be.

        This is the only place where `~` becomes the home, and where paths are joined: what is judged is what the kernel
        is given. Two functions that did it differed, and a clone has brought a directory called `~`.
        """
        root, note = self.sandbox.root, ""
        if kept and not self.is_there(kept, place):
            note = f"\n[{kept} is gone, so this started in {root}]"
            named = "" if named == real_path(root / kept) else named
            kept = ""
        path = str(root / kept / os.path.expanduser(named))
        try:
            found = real_path(path)
        except ValueError:  # a character that no path has
            raise SandboxError(f"{named!r} is not a path.", remedy="Name a directory.") from None
        if self.sandbox.place_of(place) == "host":
            self._refuse_links(path, found)
        return found, note

    def _refuse_links(self, path: str, found: str) -> None:
        """Refuse a link that commands could have made, on the way to where a command runs on the host.

        A contained command, or a clone, may have made it, also while a person thinks about the command, or since. To
        compare the directory with the one that was judged was rejected: after a pause, that is not known any more.
        """
        *links, _ = links_and_target(path)
        for link in links:
            # A link above is new: the work directory was found without any.
            if any(
                is_below(link, str(each)) or is_below(str(each), link)
                for each in self.sandbox.writable
            ):
                raise SandboxError(
                    f"'{link}' is a link, so a command on the host would run in '{found}'.",
                    remedy=f"Name that directory itself: cwd={found!r}.",
                )

    def is_there(self, kept: str, asked: Place | None) -> bool:
        """Whether a command in this place would find the directory that an earlier one was left in."""
        sandbox, path = self.sandbox, self.sandbox.root / kept
        place = sandbox.place_of(asked)
        is_ours = is_inside_any(path, emptied_directories()) and not is_inside_any(
            path, sandbox.writable
        )
        if place == "host" or not is_ours:
            return path.is_dir()
        if place == "read-only":  # /tmp and its like are new for every command
            return path in emptied_directories()
        # What a command sees as /tmp is a directory of its own, if it is one that lasts.
        tmp = sandbox.paths.tmp
        return (
            tmp is not None
            and is_inside_any(path, [_TMP])
            and (tmp / path.relative_to(_TMP)).is_dir()
        )

    def is_outside(self, request: CommandRequest) -> bool:
        """Whether a command leaves the sandbox in some way: then it gets no variables of earlier commands."""
        place = self.sandbox.place_of(request.place)
        if place == "host":
            return self.sandbox.status.contained
        return request.network

    def _result_text(
        self, request: CommandRequest, running: RunningCommand, output: Output, seconds: float
    ) -> str:
        text = format_output(output.excerpt, output.note).rstrip()
        how = {
            "exited": f"exit code {running.exit_code}, {format_duration(running.duration)}",
            "stopped": f"stopped after {format_duration(running.duration)}",
            "timeout": f"timed out after {seconds:g} s and was ended, with everything it had started",
        }.get(running.ended) or f"ended because {_TOO_MUCH[running.ended]}"
        return f"{text}\n[{how}]{self._hint(request, running, output)}".lstrip("\n")

    def _new_output(self, one: BackgroundCommand) -> str:
        return new_output(one) + self._hint(one.request, one.running, one.output)

    def _hint(self, request: CommandRequest, running: RunningCommand, output: Output) -> str:
        """What the sandbox had to do with it.

        In the read-only place what is printed counts also of a command that succeeds: `make | tail` does, whatever
        make could not write. One that fails may have hidden why, as `git stash` does, unless it only reads.
        """
        causes, has_failed = output.take_causes(), running.ended == "exited" and running.exit_code
        is_strict = running.place == "read-only"
        if is_strict and has_failed and not request.only_reads:
            causes = causes or {"files"}
        is_told = is_strict or (running.contained and running.exit_code)
        said = hint(causes, str(self.sandbox.root), running.place) if is_told else ""
        shared = self.sandbox.describe_shared() if said and running.place == "workspace" else ()
        return said + "".join(f"\n[the sandbox: {each}]" for each in shared)


def _instructions(root: Path) -> dict[str, tuple[int, int]]:
    """The files that agents obey, as they are now."""
    found = {}
    for name in INSTRUCTIONS:
        with contextlib.suppress(OSError):
            facts = (root / name).lstat()
            if not stat.S_ISSOCK(
                facts.st_mode
            ):  # what holds the place of one, for a command beside this
                found[name] = (facts.st_ino, facts.st_mtime_ns)
    return found


def _warning(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> str:
    changed = sorted(name for name in after if after[name] != before.get(name))
    if not changed:
        return ""
    return f"\n[{', '.join(changed)} was written, which agents that work here later follow: tell the user]"


async def _wait(running: RunningCommand, seconds: float) -> None:
    """Wait for a command until its time is up, and end it then or when the run is cancelled."""
    try:
        async with asyncio.timeout(seconds):
            await running.wait()
    except TimeoutError:
        running.kill("timeout")
        await running.wait()
    finally:
        if running.is_running:  # the run is cancelled
            running.kill()
            await running.wait()


def _facts(running: RunningCommand, output: Output) -> dict[str, Any]:
    """The metadata of the result, for hooks."""
    facts: dict[str, Any] = {
        "exit_code": running.exit_code,
        "ended": "running" if running.is_running else running.ended,
        "contained": running.contained,
        "place": running.place,
        "bytes": output.excerpt.total,
    }
    return {**facts, "output_file": output.where} if output.where else facts


# --- commands in the background ----------------------------------------------------------------------


@dataclass(frozen=True)
class BackgroundCommand:
    """One command in the background, under an id."""

    id: str
    request: CommandRequest
    running: RunningCommand
    output: Output


class BackgroundCommands:
    """The background commands of all runs, by run and id."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, BackgroundCommand]] = {}
        self._numbers: dict[str, itertools.count[int]] = {}

    def check_count(self, run_id: str) -> None:
        """Raise if there are too many already."""
        alive = [one for one in self._of.get(run_id, {}).values() if one.running.is_running]
        if len(alive) >= _MOST_RUNNING:
            raise ToolError(
                f"{_MOST_RUNNING} commands run in the background already: {', '.join(one.id for one in alive)}.",
                remedy="Stop one of them with bash_stop.",
            )

    def add(
        self, run_id: str, request: CommandRequest, running: RunningCommand, output: Output
    ) -> BackgroundCommand:
        """Add a command that was started."""
        number = next(self._numbers.setdefault(run_id, itertools.count(1)))
        made = BackgroundCommand(f"bg-{number}", request, running, output)
        self._of.setdefault(run_id, {})[made.id] = made
        return made

    def find(self, run_id: str, id: str) -> BackgroundCommand:
        """The command of that id, or an error with the ids there are."""
        here = self._of.get(run_id, {})
        if id in here:
            return here[id]
        known = f"Existing ones: {', '.join(here)}." if here else "There are none now."
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
    """The status of a background command, in one line."""
    running = one.running
    if running.is_running:
        return f"[{one.id} is running: {_short(one.request.text)}]{describe_moved_files(running)}"
    how = {
        "exited": f"ended by itself with exit code {running.exit_code}",
        "stopped": "was stopped",
        "timeout": "ran out of time and was ended",
    }.get(running.ended) or f"was ended because {_TOO_MUCH[running.ended]}"
    took, command = format_duration(running.duration), _short(one.request.text)
    return f"[{one.id} {how} after {took}: {command}]{describe_moved_files(running)}"


def describe_moved_files(running: RunningCommand) -> str:
    """A note about files that were moved aside, because other programs would run or obey them, and those that stay."""
    stay = dict.fromkeys(path for path in running.set_aside if path.endswith(NOT_MOVED))
    moved = [path for path in running.set_aside if path not in stay]
    note = ""
    if stay:
        note += (
            f"\n[not moved aside: {_name([*stay])}. Another program or agent would run or obey what is there. Tell the "
            "user at once]"
        )
    if moved:
        note += (
            f"\n[moved aside: {_name(moved)}. Under the name it was given, another program or agent would run or obey "
            "it. Tell the user, who may rename it; or write it with a tool that asks]"
        )
    return note


def _name(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more


def new_output(one: BackgroundCommand) -> str:
    """What it printed since the last time, and its status."""
    unread, held = one.output.take_unread(is_over=not one.running.is_running)
    text = format_output(unread, one.output.note).rstrip()
    waits = f"\n[{held:,} bytes are not shown yet: their line has not ended]" if held else ""
    text = text or ("" if held else "(nothing new)")
    return f"{text}{waits}\n{status(one)}".lstrip("\n")


async def settle(one: BackgroundCommand, seconds: float) -> None:
    """Wait until a command ends or prints something."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while one.running.is_running and not one.output.unread.total and loop.time() < until:  # noqa: ASYNC110 - output comes by callback, from two places
        await asyncio.sleep(0.02)


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 80 else f"{line[:77]}..."
