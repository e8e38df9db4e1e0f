"""`hookline run "task"`: run an agent on a task."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import select
import stat
import sys
from pathlib import Path

from hookline.cli.assembly.agent import open_agent
from hookline.cli.assembly.verification import load_verified
from hookline.cli.console import Console
from hookline.cli.guards import Guards, require_guards
from hookline.cli.journal_location import find_run, journal_at, journal_path, new_run_id
from hookline.cli.options import flags_of, take_target
from hookline.cli.recorded_runs import Invocation, conversation_of, inherit_flags
from hookline.cli.terminal import report
from hookline.config import Layer
from hookline.errors import UsageError
from hookline.state import AgentState

_MAX_INPUT = 10_000_000
_PATIENCE = 3.0
"""Seconds to wait for the first word of a pipe."""


def run(arguments: argparse.Namespace) -> int:
    """Run the task."""
    words = list(arguments.task)
    take_target(arguments, words)
    _refuse_contradictions(arguments)
    prompt = _read_task(words, arguments.file)
    flags, state = flags_of(arguments), AgentState()
    settings = load_verified(flags, bare=arguments.bare)
    if arguments.continues or arguments.origin:
        journal, run_id = find_run(settings, arguments.origin or "last")
        with journal:
            state = asyncio.run(conversation_of(journal, run_id, after=arguments.at))
        is_quiet = arguments.quiet or arguments.json
        flags, settings = inherit_flags(run_id, state, flags, settings, quiet=is_quiet)
    guards = require_guards(arguments, settings, flags)
    if not guards.settings.has_model:
        from hookline.cli.model_choice import choose_model

        guards = choose_model(arguments, guards, flags)
    return asyncio.run(_run_from(arguments, prompt, guards, flags, state))


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    is_new = not arguments.continues and arguments.origin is None
    if arguments.at is not None and is_new:
        raise UsageError(
            f"--at {arguments.at} needs a recorded run, and none is named.",
            remedy=f'Name it: hookline run --from RUN --at {arguments.at} "...".',
        )
    if arguments.no_save and arguments.journal and is_new:
        raise UsageError(
            f"--no-save records nothing, and --journal records the run in {arguments.journal}.",
            remedy="Give one of them.",
        )


def _read_task(words: list[str], files: list[str]) -> str:
    """The task: the words, the files, and standard input."""
    parts = [" ".join(words)] if words else []
    for name in files:
        parts.append(_read_input() if name == "-" else _read_file(Path(name)))
    if "-" not in files and not sys.stdin.isatty():
        piped = _read_input(wait=not parts)
        parts += [piped] if piped.strip() else []
    task = "\n\n".join(part for part in parts if part.strip())
    # Python represents bytes on the command line that are not UTF-8 as surrogates.
    task = task.encode(errors="surrogateescape").decode(errors="replace")
    if not task:
        remedy = 'Say what to do: hookline run "...", -f FILE, or pipe it in.'
        raise UsageError("there is no task.", remedy=remedy)
    return task


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(
            f"{path} cannot be read: {problem}.",
            remedy="Give -f the path of a text file with the task, relative to the current directory.",
        ) from None


def _read_input(wait: bool = True) -> str:
    """Read standard input. If there is a task already, a silent pipe is not waited for long."""
    if sys.stdin is None or sys.stdin.closed or not (wait or _has_input()):
        return ""
    data = sys.stdin.buffer.read(_MAX_INPUT + 1)
    if len(data) > _MAX_INPUT:
        raise UsageError(
            f"more than {_MAX_INPUT:,} bytes were piped in.",
            remedy="Put them into a file, and name it in the task.",
        )
    return data.decode(errors="replace")


def _has_input() -> bool:
    """Whether standard input is a file, or a pipe that soon has data or ends."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
        if stat.S_ISREG(mode):
            return True
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return False
        if select.select([sys.stdin], [], [], _PATIENCE)[0]:
            return True
    except (OSError, ValueError):
        return False
    report(
        f"the pipe had no data for {_PATIENCE:.0f} s and is ignored; use `-f -` to wait for data, "
        "or `< /dev/null` if there is none."
    )
    return False


async def _run_from(
    arguments: argparse.Namespace, prompt: str, guards: Guards, flags: Layer, state: AgentState
) -> int:
    """Run a task from a state, and record how it was started."""
    settings = guards.settings
    console, run_id = Console(arguments, guards), new_run_id()
    async with contextlib.AsyncExitStack() as stack:
        journal = None
        if not arguments.no_save:
            state = Invocation.current(flags, settings, guards.missing).add_to(state)
            journal = await stack.enter_async_context(journal_at(journal_path(settings)))
        async with open_agent(settings, console.additions(journal)) as agent:
            result = await console.drive(
                agent, lambda: agent.run(prompt, state=state, run_id=run_id), agent.resume
            )
            return console.finish(result)
