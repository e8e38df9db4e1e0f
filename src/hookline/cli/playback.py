"""`hookline replay RUN` and `hookline backtest`: what the current hooks decide about recorded runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from hookline.cli.assembly.agent import open_agent, without_model
from hookline.cli.exits import Exit
from hookline.cli.interrupts import Interrupts, watch_signals
from hookline.cli.journal_location import (
    database_of,
    find_in_database,
    find_run,
    journal_path,
    open_any_run,
    open_journal,
    require_journal,
)
from hookline.cli.json_output import print_json
from hookline.cli.options import flags_of, load_settings, report_untrusted, take_target
from hookline.cli.page_files import check_target, redactor_of, write_page
from hookline.cli.recorded_runs import Invocation
from hookline.cli.standard_streams import user_code
from hookline.cli.terminal import is_terminal, printable, width
from hookline.config import Layer, Settings
from hookline.errors import UsageError
from hookline.journal import JournalStore, story_of
from hookline.playback import backtest, replay
from hookline.playback.report import WIDTH


def replay_run(arguments: argparse.Namespace) -> int:
    """Repeat a recorded run, and compare."""
    journal, run_id = open_any_run(arguments)
    with journal:
        return asyncio.run(_replay(journal, run_id, flags_of(arguments), arguments))


async def _replay(
    journal: JournalStore, run_id: str, flags: Layer, arguments: argparse.Namespace
) -> int:
    invocation = Invocation.of((await story_of(await journal.read(run_id), journal)).state)
    settings = invocation.return_there(flags, bare=arguments.bare)
    report_untrusted(settings)
    async with open_agent(settings, without_model(Interrupts(print))) as agent:
        with watch_signals(), user_code():
            replayed = await replay(journal, run_id, agent, run_hooks=arguments.run_hooks)
    print(printable(str(replayed), lines=True))
    return Exit.DONE if replayed.identical else Exit.FAILED


def backtest_runs(arguments: argparse.Namespace) -> int:
    """Ask the current hooks about every decision of recorded runs."""
    take_target(arguments, arguments.runs)
    if arguments.html:
        check_target(arguments.html, force=arguments.force)
    settings = load_settings(arguments)
    journal, named = _find_runs(arguments, settings)
    return asyncio.run(_backtest(arguments, settings, journal, named))


def _find_runs(arguments: argparse.Namespace, settings: Settings) -> tuple[JournalStore, list[str]]:
    """The journal with all of the runs that a command names, and their whole ids."""
    database = database_of(arguments)
    if database is not None:
        return database, [find_in_database(database, each) for each in arguments.runs]
    path, named = journal_path(settings), list[str]()
    for each in arguments.runs:
        journal, run_id = find_run(settings, each)
        journal.close_sync()
        if named and Path(journal.path) != path:
            raise UsageError(
                f"run '{run_id}' is in another project than '{named[0]}'.",
                remedy="Test the runs of one project at a time.",
            )
        path = Path(journal.path)
        named.append(run_id)
    if not named:
        require_journal(settings)
    return open_journal(path), named


async def _backtest(
    arguments: argparse.Namespace, settings: Settings, journal: JournalStore, named: list[str]
) -> int:
    async with (
        journal,
        open_agent(settings, without_model(Interrupts(print))) as agent,
    ):
        with watch_signals(), user_code():
            report = await backtest(
                journal,
                agent,
                runs=named or None,
                since=arguments.since,
                limit=arguments.limit,
                run_hooks=arguments.run_hooks,
            )
    if arguments.html:
        page = report.to_html(redactor=redactor_of(settings))
        write_page(arguments.html, page, force=arguments.force)
    if arguments.json:
        print_json(report.to_json())
    else:
        room = min(width(), WIDTH) if is_terminal(sys.stdout) else WIDTH
        print(printable(report.to_text(room), lines=True))
    return Exit.FAILED if arguments.check and report.changes else Exit.DONE
