"""`hookline backtest`: what the hooks of now would say about recorded runs."""

from __future__ import annotations

import argparse
import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "backtest",
        help="what the hooks of now would say about recorded runs",
        description="Ask the hooks of now about everything that was decided in recorded runs, and show each verdict "
        "that would change. Nothing runs but hooks in Python; commands, addresses and models say what is on record.",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="these runs; all of them otherwise. May begin with module:agent",
    )
    parser.add_argument(
        "--since", metavar="TIME", type=_time, help="runs of the last 7d, 12h, 30m or 2w"
    )
    parser.add_argument(
        "-n", "--limit", type=whole_number, metavar="N", help="the newest so many runs"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument(
        "--check", action="store_true", help="exit code 1 when a verdict would change"
    )
    add_run_hooks(parser)
    add_agent_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Back-test them."""
    from hookline.cli.assembly.verify import load

    take_target(arguments, arguments.runs)
    settings = load(flags_of(arguments), bare=arguments.bare)
    return asyncio.run(_backtest(arguments, settings))


async def _backtest(arguments: argparse.Namespace, settings: Settings) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.interrupts import Interrupts
    from hookline.cli.keeping import found_run, journal_path, opened_journal
    from hookline.cli.streams import theirs
    from hookline.cli.terminal import printable
    from hookline.drivers import ScriptedDriver
    from hookline.errors import UsageError
    from hookline.playback import backtest

    named: list[str] = []
    path = journal_path(settings)
    for given in arguments.runs:
        found, run_id = found_run(settings, given)
        found.close()
        if named and Path(found.path) != path:
            raise UsageError(
                f"run '{run_id}' is in another project than '{named[0]}'.",
                remedy="Ask about those of one project at a time.",
            )
        path = Path(found.path)
        named.append(run_id)
    with opened_journal(path, make=False) as journal:
        extras = Extras(driver=ScriptedDriver([]), capabilities=(Interrupts(print),))
        async with opened(settings, extras) as agent:
            with theirs():
                report = await backtest(
                    journal,
                    agent,
                    runs=named or None,
                    since=arguments.since,
                    limit=arguments.limit,
                    run_hooks=arguments.run_hooks,
                )
    if arguments.html:
        with open(arguments.html, "w", encoding="utf-8") as page:  # noqa: ASYNC230 - nothing else goes on
            page.write(report.to_html())
    print(report.to_json() if arguments.json else printable(str(report), lines=True))
    return Exit.FAILED if arguments.check and report.changes else Exit.DONE


def _time(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 7d, 12h, 30m or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
