"""`hookline show RUN`: what happened in a run."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.options import add_setting_flags, flags_of, refuse_settings

if TYPE_CHECKING:
    from hookline.journal import JournalStore, Record


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "show",
        help="show what happened in a run",
        description="What happened in a run, step by step.",
    )
    parser.add_argument(
        "run_id",
        nargs="?",
        default="last",
        metavar="RUN",
        help="an id or the beginning of one; the last run otherwise",
    )
    parser.add_argument("--json", action="store_true", help="the journal's records, one per line")
    parser.add_argument(
        "--hooks", action="store_true", help="every hook that ran, also those that let things be"
    )
    parser.add_argument("--full", action="store_true", help="results as a whole")
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    from hookline.cli.keeping import found_run
    from hookline.config import load
    from hookline.journal import encode

    refuse_settings(arguments)
    settings = load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare)
    journal, run_id = found_run(settings, arguments.run_id)
    with journal:
        if arguments.json:
            for record in journal.read(run_id):
                print(encode(record).decode())
            return 0
        _story(journal, run_id, hooks=arguments.hooks, full=arguments.full)
    return 0


def _story(journal: JournalStore, run_id: str, *, hooks: bool, full: bool) -> None:
    from hookline.cli.screen import Screen
    from hookline.cli.terminal import printable
    from hookline.journal import (
        CallSettled,
        ChildStarted,
        HooksPassed,
        PromptSubmitted,
        RunFinished,
    )

    screen = Screen(out=sys.stdout, err=sys.stdout, spins=False)
    print(f"run {run_id}")
    records: list[Record] = journal.read(run_id)
    for record in records:
        if isinstance(record, PromptSubmitted):
            print(f"> {printable(record.text, lines=True)}")
        elif isinstance(record, RunFinished):
            status, stop = record.status.value, record.stop_reason or ""
            why = " ".join(part for part in (stop if stop != status else "", record.reason) if part)
            print(f"{status}: {printable(why)}" if why else status)
            for question in record.pending:
                print(f"waits: {question.id}: {printable(question.reason)}")
            if record.text:
                print(f"\n{printable(record.text, lines=True)}")
        elif isinstance(record, HooksPassed):
            if hooks:
                print(f"  hook {', '.join(record.hooks)} at {record.point}: proceed")
        elif isinstance(record, ChildStarted):
            told = f"  subagent {printable(record.name)}: hookline show"
            print(f"{told} {shlex.quote(printable(record.child_run_id))}")
        elif isinstance(record, CallSettled) and full:
            print(printable(record.result.text(), lines=True))
        else:
            screen(record)
