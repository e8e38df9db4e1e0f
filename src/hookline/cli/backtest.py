"""`hookline backtest`: what the current hooks would decide about recorded runs."""

from __future__ import annotations

import argparse
import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.cli.exits import Exit
from hookline.cli.options import (
    add_agent_flags,
    add_run_hooks,
    flags_of,
    take_target,
    whole_number,
)

if TYPE_CHECKING:
    from hookline.config import Settings

DESCRIPTION = (
    "Ask the current hooks about everything that was decided in recorded runs, and show each verdict that would "
    "change. Nothing runs but the hooks."
)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    which = "these runs; all of them otherwise. May begin with module:agent"
    add("runs", nargs="*", metavar="RUN", help=which)
    add("--since", metavar="TIME", type=_time, help="runs of the last 7d, 12h, 30m or 2w")
    add("-n", "--limit", type=whole_number, metavar="N", help="at most so many, the newest first")
    add("--json", action="store_true", help="the report as JSON")
    add("--html", metavar="FILE", help="write the report as a page")
    add("--check", action="store_true", help="exit code 1 when a verdict would change")
    add_run_hooks(parser)
    add_agent_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Back-test the runs."""
    from hookline.cli.assembly.verify import load

    take_target(arguments, arguments.runs)
    settings = load(flags_of(arguments), bare=arguments.bare)
    path, named = _find_runs(arguments.runs, settings)
    return asyncio.run(_backtest(arguments, settings, path, named))


def _find_runs(given: list[str], settings: Settings) -> tuple[Path, list[str]]:
    """The journal with all of these runs, and their whole ids."""
    from hookline.cli.journal_location import find_run, journal_path
    from hookline.errors import UsageError

    path, named = journal_path(settings), list[str]()
    for each in given:
        journal, run_id = find_run(settings, each)
        journal.close()
        if named and Path(journal.path) != path:
            raise UsageError(
                f"run '{run_id}' is in another project than '{named[0]}'.",
                remedy="Test the runs of one project at a time.",
            )
        path = Path(journal.path)
        named.append(run_id)
    return path, named


async def _backtest(
    arguments: argparse.Namespace, settings: Settings, path: Path, named: list[str]
) -> int:
    from hookline.cli.assembly import opened, without_model
    from hookline.cli.interrupts import Interrupts
    from hookline.cli.journal_location import open_journal
    from hookline.cli.streams import user_code
    from hookline.cli.terminal import printable
    from hookline.playback import backtest

    with open_journal(path, make=False) as journal:
        async with opened(settings, without_model(Interrupts(print))) as agent:
            with user_code():
                report = await backtest(
                    journal,
                    agent,
                    runs=named or None,
                    since=arguments.since,
                    limit=arguments.limit,
                    run_hooks=arguments.run_hooks,
                )
    if arguments.html:
        with open(arguments.html, "w", encoding="utf-8") as page:  # noqa: ASYNC230 - nothing else runs
            page.write(report.to_html())
    print(report.to_json() if arguments.json else printable(str(report), lines=True))
    return Exit.FAILED if arguments.check and report.changes else Exit.DONE


def _time(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 7d, 12h, 30m or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
