"""`hookline replay RUN`: repeat a recorded run with the current hooks, and compare."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from hookline.cli.exits import Exit
from hookline.cli.options import add_run_argument, add_run_hooks, add_setting_flags

if TYPE_CHECKING:
    from hookline.config import Layer
    from hookline.journal import SQLiteJournal

DESCRIPTION = (
    "Repeat a recorded run with the answers and results on record: no model is asked, no tool runs. The current "
    "hooks do run. Exit code 1 when something differs."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run_argument(parser)
    add_run_hooks(parser)
    add_setting_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay the run."""
    from hookline.cli.journal_location import open_run

    journal, run_id, flags = open_run(arguments)
    with journal:
        return asyncio.run(_replay(journal, run_id, flags, arguments))


async def _replay(
    journal: SQLiteJournal, run_id: str, flags: Layer, arguments: argparse.Namespace
) -> int:
    from hookline.cli.assembly import opened, without_model
    from hookline.cli.interrupts import Interrupts
    from hookline.cli.recorded_runs import Invocation
    from hookline.cli.streams import user_code
    from hookline.cli.terminal import printable
    from hookline.journal import fold
    from hookline.playback import replay

    invocation = Invocation.of(fold(journal.read(run_id)).state)
    settings = invocation.return_there(flags, bare=arguments.bare)
    async with opened(settings, without_model(Interrupts(print))) as agent:
        with user_code():
            replayed = await replay(journal, run_id, agent, run_hooks=arguments.run_hooks)
    print(printable(str(replayed), lines=True))
    return Exit.DONE if replayed.identical else Exit.FAILED
