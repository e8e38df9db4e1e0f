"""`hookline runs`: the recorded runs."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.cli.options import add_setting_flags, flags_of, refuse_settings, whole_number

if TYPE_CHECKING:
    from hookline.journal import RunInfo, SQLiteJournal

DESCRIPTION = "The runs of this project, newest first."
_STATUS = ("running", "completed", "stopped", "paused", "cancelled", "failed")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--all", action="store_true", help="the runs of every project")
    add("--status", choices=_STATUS)
    add("-n", "--limit", type=whole_number, default=20, metavar="N", help="at most so many (20)")
    add("--json", action="store_true", help="one JSON object per line")
    drop = "delete a run and its children"
    add("--delete", metavar="RUN", action="append", default=[], help=drop)
    add_setting_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """List runs, or delete some."""
    from hookline.cli.journal_location import find_run, recorded_runs
    from hookline.config import load

    refuse_settings(arguments)
    settings = load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare)
    if arguments.delete:
        _delete([find_run(settings, given) for given in arguments.delete])
        return 0
    infos = recorded_runs(settings, others=arguments.all)
    wanted = [info for info in infos if arguments.status in (None, info.status.value)]
    if infos and not wanted:
        count = f"{len(infos)} run{'s' * (len(infos) != 1)} here"
        print(f"of {count}, none is {arguments.status}", file=sys.stderr)
    elif not infos and not arguments.json:
        print('no runs here yet: hookline run "..."', file=sys.stderr)
    _print(wanted[: arguments.limit], arguments.json)
    return 0


def _delete(found: list[tuple[SQLiteJournal, str]]) -> None:
    """Delete runs, all of which were found. One that is named twice is deleted once."""
    deleted: set[str] = set()
    for journal, run_id in found:
        with journal:
            gone = [] if run_id in deleted else journal.delete(run_id)
        deleted.update(gone)
        if gone:
            print(f"deleted {', '.join(gone)}")


def _print(infos: list[RunInfo], as_json: bool) -> None:
    import msgspec

    from hookline.cli.terminal import fitted, list_width, printable

    if as_json:
        for info in infos:
            print(msgspec.json.encode(info).decode())
        return
    room = list_width(sys.stdout)
    widest = max((len(info.run_id) for info in infos), default=0)
    for info in infos:
        steps = f"{info.steps:>3} step{'s' if info.steps != 1 else ' '}"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.started_at))
        prompt = printable(info.prompt) or "(continued without a new prompt)"
        line = f"{info.run_id:<{widest}}  {when}  {info.status.value:<9}  {steps}  {prompt}"
        print(fitted(line, room))
