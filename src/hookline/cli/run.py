"""`hookline run "task"`: an agent on a task."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.options import add_agent_flags, flags_of, take_target

if TYPE_CHECKING:
    from hookline.cli.drive import Stage
    from hookline.config import Layer, Settings
    from hookline.journal import SQLiteJournal
    from hookline.state import AgentState

_MOST_INPUT = 10_000_000
_PATIENCE = 3.0
"""Seconds for whoever is piped in to say a first word."""


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "run",
        help="run an agent on a task",
        description="Run an agent on a task. The answer goes to standard output, everything else to standard "
        "error. Runs are saved, and can be shown, resumed, continued, forked and replayed.",
    )
    parser.add_argument(
        "task", nargs="*", help="what to do; may begin with module:agent, for an agent of your own"
    )
    parser.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="read the task from a file, after the words; - is standard input",
    )
    parser.add_argument(
        "-c",
        "--continue",
        dest="go_on",
        action="store_true",
        help="go on with the last conversation here",
    )
    parser.add_argument(
        "--from", dest="origin", metavar="RUN", help="go on with the conversation of a run"
    )
    add_output_flags(parser)
    parser.add_argument("--no-save", action="store_true", help="keep nothing of the run")
    add_agent_flags(parser)
    parser.set_defaults(run=run)


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say what is shown."""
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--json", action="store_true", help="the journal's records, one per line, the result last"
    )
    shown.add_argument("-q", "--quiet", action="store_true", help="the answer alone")
    parser.add_argument(
        "--no-input", action="store_true", help="ask nobody: pause where somebody is needed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the task."""
    from hookline.cli.assembly.verify import load

    words = list(arguments.task)
    take_target(arguments, words)
    _refuse_contradictions(arguments)
    prompt = task_of(words, arguments.file)
    flags = flags_of(arguments)
    settings = load(flags, bare=arguments.bare)
    return asyncio.run(_run(arguments, prompt, settings, flags))


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    from hookline.errors import UsageError

    goes_on = arguments.go_on or arguments.origin is not None
    if arguments.go_on and arguments.origin is not None:
        raise UsageError(
            f"-c goes on with the last conversation, and --from with that of {arguments.origin}.",
            remedy="Say one of them.",
        )
    if arguments.no_save and arguments.journal and not goes_on:
        raise UsageError(
            f"--no-save keeps nothing of the run, and --journal keeps it in {arguments.journal}.",
            remedy="Say one of them.",
        )


def task_of(words: list[str], files: list[str], command: str = "hookline run") -> str:
    """The task: the words, the files, and what is piped in."""
    parts = [" ".join(words)] if words else []
    for name in files:
        parts.append(_input() if name == "-" else _read(Path(name)))
    if "-" not in files and not sys.stdin.isatty():
        piped = _input(wait=not parts)
        parts += [piped] if piped.strip() else []
    task = "\n\n".join(part for part in parts if part.strip())
    # Bytes on the command line that are no text in UTF-8 reach Python as halves of characters.
    task = task.encode(errors="surrogateescape").decode(errors="replace")
    if not task:
        from hookline.errors import UsageError

        raise UsageError(
            "there is no task.",
            remedy=f'Say what to do: {command} "...", -f FILE, or pipe it in.',
        )
    return task


def _read(path: Path) -> str:
    from hookline.errors import UsageError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(
            f"{path} cannot be read: {said}.", remedy="-f names a file with the task, from here."
        ) from None


def _input(wait: bool = True) -> str:
    """What is piped in. Where there is a task already, a pipe that says nothing is not waited for long."""
    if sys.stdin is None or sys.stdin.closed or not (wait or _comes()):
        return ""
    data = sys.stdin.buffer.read(_MOST_INPUT + 1)
    if len(data) > _MOST_INPUT:
        from hookline.errors import UsageError

        raise UsageError(
            f"more than {_MOST_INPUT:,} bytes were piped in.",
            remedy="Put them into a file, and say in the task which.",
        )
    return data.decode(errors="replace")


def _comes() -> bool:
    """Whether something comes through standard input: it is a file, or a pipe that soon says something or ends."""
    import select
    import stat

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
    print(
        f"hookline: nothing came through the pipe in {_PATIENCE:.0f} s, so it is left out; "
        "`-f -` waits for it, `< /dev/null` says that there is nothing.",
        file=sys.stderr,
    )
    return False


async def _run(arguments: argparse.Namespace, prompt: str, settings: Settings, flags: Layer) -> int:
    from hookline.state import AgentState

    if not (arguments.go_on or arguments.origin):
        return await _played_from(arguments, prompt, settings, flags, AgentState())
    from hookline.cli.keeping import found_run
    from hookline.cli.past import conversation

    journal, run_id = found_run(settings, arguments.origin or "last")
    with journal:
        state = conversation(journal, run_id)
    return await gone_on(arguments, prompt, settings, flags, (run_id, state))


async def gone_on(
    arguments: argparse.Namespace,
    prompt: str,
    settings: Settings,
    flags: Layer,
    past: tuple[str, AgentState],
) -> int:
    """Run a task from where another run was, as that one was started."""
    from hookline.cli.keeping import as_started

    is_quiet = arguments.quiet or arguments.json
    flags, settings = as_started(past, flags, settings, quiet=is_quiet)
    return await _played_from(arguments, prompt, settings, flags, past[1])


async def _played_from(
    arguments: argparse.Namespace,
    prompt: str,
    settings: Settings,
    flags: Layer,
    state: AgentState,
) -> int:
    """Run a task from a state on, and keep with it how it was started."""
    from hookline.cli.drive import Manner, Stage, limits_for
    from hookline.cli.keeping import journal_path, new_run_id, opened_journal, started

    saved = not arguments.no_save
    manner = Manner(
        json=arguments.json,
        quiet=arguments.quiet,
        saved=saved,
        prompts=not arguments.no_input,
        journal=arguments.journal or "",
        limits=limits_for(settings),
    )
    stage = Stage(manner, Path.cwd())
    if settings.trust_hint:
        stage.screen.note(settings.trust_hint)
    if not saved:
        return await _played(stage, settings, None, state, prompt, new_run_id())
    state = started(Path.cwd(), flags, settings.agent, settings.is_bare).noted(state)
    with opened_journal(journal_path(settings)) as journal:
        return await _played(stage, settings, journal, state, prompt, new_run_id())


async def _played(
    stage: Stage,
    settings: Settings,
    journal: SQLiteJournal | None,
    state: AgentState,
    prompt: str,
    run_id: str,
) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.terminal import printable

    extras = Extras(
        journal=journal,
        listeners=(stage.listen,),
        terminal=stage.screen.send,
        display=stage.screen.show_instead if stage.screen.is_live else None,
        capabilities=(stage.interrupts,),
        note=lambda text: stage.screen.line(f"hookline: {printable(text)}"),
        warn=stage.screen.note,
    )
    async with opened(settings, extras) as agent:
        result = await stage.play(
            agent, lambda: agent.run(prompt, state=state, run_id=run_id), agent.resume
        )
        return stage.end(result)
