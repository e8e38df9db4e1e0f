"""`hookline runs`: what has been run here."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.options import add_setting_flags, flags_of, refuse_settings, whole_number

if TYPE_CHECKING:
    from hookline.journal import RunInfo, SQLiteJournal


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "runs",
        help="list the runs of this project",
        description="The runs of this project, newest first.",
    )
    parser.add_argument("--all", action="store_true", help="the runs of every project")
    parser.add_argument(
        "--status", choices=("running", "completed", "stopped", "paused", "cancelled", "failed")
    )
    parser.add_argument(
        "-n", "--limit", type=whole_number, default=20, metavar="N", help="at most so many (20)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument(
        "--delete", metavar="RUN", action="append", default=[], help="drop a run and its children"
    )
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List them, or drop some."""
    from hookline.cli.keeping import found_run, journal_path, journals
    from hookline.config import load

    refuse_settings(arguments)
    settings = load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare)
    if arguments.delete:
        _drop([found_run(settings, given) for given in arguments.delete])
        return 0
    infos: list[RunInfo] = []
    for journal in journals(journal_path(settings), others=arguments.all):
        with journal:
            infos += [info for info in journal.runs() if info.parent_run_id is None]
    infos.sort(key=lambda info: -info.started_at)
    wanted = [info for info in infos if arguments.status in (None, info.status.value)]
    if infos and not wanted:
        count = f"{len(infos)} run{'s' * (len(infos) != 1)} here"
        print(f"of {count}, none is {arguments.status}", file=sys.stderr)
    elif not infos and not arguments.json:
        print('no runs here yet: hookline run "..."', file=sys.stderr)
    _print(wanted[: arguments.limit], arguments.json)
    return 0


def _drop(found: list[tuple[SQLiteJournal, str]]) -> None:
    """Drop runs, once all of them are known to be there. One that is named twice is dropped once."""
    dropped: set[str] = set()
    for journal, run_id in found:
        with journal:
            gone = [] if run_id in dropped else journal.delete(run_id)
        dropped.update(gone)
        if gone:
            print(f"dropped {', '.join(gone)}")


def _print(infos: list[RunInfo], as_json: bool) -> None:
    import msgspec

    from hookline.cli.terminal import fitted, is_terminal, printable, width

    if as_json:
        for info in infos:
            print(msgspec.json.encode(info).decode())
        return
    room = width() if is_terminal(sys.stdout) else 200
    widest = max((len(info.run_id) for info in infos), default=0)
    for info in infos:
        steps = f"{info.steps:>3} step{'s' if info.steps != 1 else ' '}"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.started_at))
        said = printable(info.prompt) or "(went on without a new prompt)"
        line = f"{info.run_id:<{widest}}  {when}  {info.status.value:<9}  {steps}  {said}"
        print(fitted(line, room))
