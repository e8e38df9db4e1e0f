"""`hookline show RUN`: what happened in a run."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from hookline.cli.options import add_run_argument, add_setting_flags, refuse_settings

if TYPE_CHECKING:
    from hookline.journal import JournalStore

DESCRIPTION = "What happened in a run, step by step."


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_run_argument(parser)
    add = parser.add_argument
    add("--json", action="store_true", help="the journal's records, one per line")
    add("--hooks", action="store_true", help="every hook that ran, also those without an objection")
    add("--full", action="store_true", help="whole results")
    add_setting_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the run."""
    from hookline.cli.journal_location import open_run
    from hookline.journal import encode

    refuse_settings(arguments)
    journal, run_id, _flags = open_run(arguments)
    with journal:
        if arguments.json:
            for record in journal.read(run_id):
                print(encode(record).decode())
        else:
            _print_story(journal, run_id, hooks=arguments.hooks, full=arguments.full)
    return 0


def _print_story(journal: JournalStore, run_id: str, *, hooks: bool, full: bool) -> None:
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
    for record in journal.read(run_id):
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
            child = shlex.quote(printable(record.child_run_id))
            print(f"  subagent {printable(record.name)}: hookline show {child}")
        elif isinstance(record, CallSettled) and full:
            print(printable(record.result.text(), lines=True))
        else:
            screen(record)
