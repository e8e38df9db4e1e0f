"""`hookline resume RUN`: go on with a run that waits for an answer, or whose process died."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.options import add_setting_flags, flags_of

if TYPE_CHECKING:
    from hookline.journal import SQLiteJournal


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    from hookline.cli.run import add_output_flags

    parser = commands.add_parser(
        "resume",
        help="go on with a run that waits, or was cut off",
        description="Go on with a run: with the configuration of now, and the flags it was started with. Questions "
        "are answered with --allow and --deny, or on the terminal.",
    )
    parser.add_argument(
        "run_id",
        nargs="?",
        default="last",
        metavar="RUN",
        help="an id or the beginning of one; the last run otherwise",
    )
    parser.add_argument(
        "--allow",
        metavar="ID",
        action="append",
        default=[],
        dest="yes",
        help="say yes to a question; `all` to all of them",
    )
    parser.add_argument(
        "--deny", metavar="ID", action="append", default=[], dest="no", help="say no"
    )
    parser.add_argument("--reason", default="", help="what the model reads with a no")
    add_output_flags(parser)
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Go on with the run."""
    from hookline.cli.keeping import found_run
    from hookline.config import load

    settings = load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare)
    journal, run_id = found_run(settings, arguments.run_id)
    with journal:
        return asyncio.run(_resume(arguments, journal, run_id))


async def _resume(arguments: argparse.Namespace, journal: SQLiteJournal, run_id: str) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.drive import Manner, Stage, answers_of, time_for
    from hookline.cli.keeping import Started, turns_played
    from hookline.cli.terminal import printable
    from hookline.journal import fold

    state = fold(journal.read(run_id)).state
    begun = Started.of(state)
    settings = begun.return_there()
    stage = Stage(
        Manner(
            json=arguments.json,
            quiet=arguments.quiet,
            prompts=not arguments.no_input,
            journal=arguments.journal or "",
            seconds=time_for(settings),
        ),
        Path.cwd(),
    )
    if settings.trust_hint:
        stage.screen.note(settings.trust_hint)
    answers = answers_of(state.pending, arguments.yes, arguments.no, arguments.reason)
    extras = Extras(
        journal=journal,
        listeners=(stage.listen,),
        capabilities=(stage.interrupts,),
        played=turns_played(journal, run_id),
        note=lambda text: stage.screen.line(f"hookline: {printable(text)}"),
        warn=stage.screen.note,
    )
    async with opened(settings, extras) as agent:
        result = await stage.play(agent, lambda: agent.resume(run_id, answers), agent.resume)
        return stage.end(result)
