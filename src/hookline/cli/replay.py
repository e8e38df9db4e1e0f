"""`hookline replay RUN`: drive a recorded run again, with the hooks of now, and compare."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.exits import Exit
from hookline.cli.options import add_run_hooks, add_setting_flags, flags_of

if TYPE_CHECKING:
    from hookline.config import Layer
    from hookline.journal import SQLiteJournal


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "replay",
        help="drive a recorded run again and compare",
        description="Drive a recorded run again with the answers and results on record: no model is asked, no tool "
        "runs. Hooks in Python do run; commands, addresses and models say what is on record. Exit code 1 when "
        "something differs.",
    )
    add_run_hooks(parser)
    parser.add_argument(
        "run_id",
        nargs="?",
        default="last",
        metavar="RUN",
        help="an id or the beginning of one; the last run otherwise",
    )
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay it."""
    from hookline.cli.keeping import found_run
    from hookline.config import load

    flags = flags_of(arguments)
    settings = load(Path.cwd(), flags=flags, bare=arguments.bare)
    journal, run_id = found_run(settings, arguments.run_id)
    with journal:
        return asyncio.run(_replay(journal, run_id, flags, arguments))


async def _replay(
    journal: SQLiteJournal, run_id: str, flags: Layer, arguments: argparse.Namespace
) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.interrupts import Interrupts
    from hookline.cli.keeping import Started
    from hookline.cli.streams import theirs
    from hookline.cli.terminal import printable
    from hookline.drivers import ScriptedDriver
    from hookline.journal import fold
    from hookline.playback import replay

    begun = Started.of(fold(journal.read(run_id)).state)
    settings = begun.return_there(flags, bare=arguments.bare)
    async with opened(
        settings, Extras(driver=ScriptedDriver([]), capabilities=(Interrupts(print),))
    ) as agent:
        with theirs():
            replayed = await replay(journal, run_id, agent, run_hooks=arguments.run_hooks)
    print(printable(str(replayed), lines=True))
    return Exit.DONE if replayed.identical else Exit.FAILED
