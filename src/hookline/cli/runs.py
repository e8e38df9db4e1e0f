"""`hookline runs` and `hookline show RUN`: the recorded runs, and what happened in one."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hookline.cli.exits import Exit
from hookline.cli.journal_location import (
    database_of,
    find_in_database,
    find_run,
    has_journal,
    journal_path,
    open_any_run,
    outer_runs,
    queue_of,
    recorded_runs,
    with_queue,
)
from hookline.cli.json_output import print_json
from hookline.cli.options import flags_of, refuse_settings
from hookline.cli.recorded_runs import Invocation
from hookline.cli.screen import Screen, error_text
from hookline.cli.terminal import (
    count,
    fit_text,
    list_width,
    print_note,
    print_text,
    printable,
    report,
)
from hookline.config import Settings, load
from hookline.errors import AccessDeniedError, HooklineError, UnknownRunError, UsageError
from hookline.journal import (
    CallSettled,
    ChildStarted,
    HooksPassed,
    JournalStore,
    PromptSubmitted,
    Record,
    RunFinished,
    RunInfo,
    RunQueued,
    RunStarted,
    story_of,
)
from hookline.state import Message, RunStatus, ToolMessage, UserMessage

_UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)
_MOST_EARLIER = 20
"""Messages of an earlier run that are shown, each in a line."""


def list_runs(arguments: argparse.Namespace) -> int:
    """List runs, or delete some."""
    refuse_settings(arguments)
    if arguments.with_later and not arguments.delete:
        raise UsageError(
            "--with-later is for runs that are deleted, and none is.",
            remedy="Name the run: hookline runs --delete RUN --with-later.",
        )
    database = database_of(arguments)
    settings = load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare)
    if arguments.delete:
        found: list[tuple[JournalStore, str]] = []
        for given in arguments.delete:
            if database is None:
                found.append(find_run(settings, given))
            else:
                run_id = find_in_database(database, given)
                found.append((with_queue(arguments, database, run_id), run_id))
        _delete(found, with_later=arguments.with_later)
        return Exit.DONE
    if database is None:
        infos = recorded_runs(settings, others=arguments.all)
    else:
        with database:
            infos = outer_runs(database)
    wanted = [info for info in infos if arguments.status in (None, info.status.value)]
    if infos and not wanted:
        print_note(f"of {count(len(infos), 'run')} here, none is {arguments.status}")
    elif not infos and not arguments.json:
        none = _why_empty(settings) if database is None else "no runs here yet"
        print_note(f'{none}: hookline run "..."')
    shown = wanted[: arguments.limit]
    _print(shown, arguments.json, {} if database is None else _why_waiting(arguments, shown))
    return Exit.DONE


def _why_empty(settings: Settings) -> str:
    """Why there are no runs: the file that somebody named may not be there."""
    path = journal_path(settings)
    is_missing = settings.configuration.journal and not has_journal(path)
    return f"there is no journal '{path}' yet" if is_missing else "no runs here yet"


def _why_waiting(arguments: argparse.Namespace, infos: list[RunInfo]) -> dict[str, str]:
    """Why runs in a database wait. Without a queue there, or the right to see it, nobody knows."""
    if all(info.status not in _UNFINISHED for info in infos):
        return {}
    try:
        with queue_of(arguments, warns=False) as journal:
            return journal.why_waiting_sync(*infos)
    except AccessDeniedError:
        report(
            "why runs wait is not shown: this role may not see the queue (docs/scaling.md lists rights)."
        )
    except HooklineError:
        pass  # there is no queue
    return {}


def _delete(found: list[tuple[JournalStore, str]], *, with_later: bool) -> None:
    """Delete runs, all of which were found. One that is named twice is deleted once."""
    deleted: set[str] = set()
    # Parents first: they take their children with them, and a child may not be deleted without its parent.
    for journal, run_id in sorted(found, key=lambda each: each[1].count("/")):
        is_gone = run_id in deleted
        gone = [] if is_gone else journal.delete_sync(run_id, with_later=with_later)
        deleted.update(gone)
        if gone:
            print_text(f"deleted {', '.join(gone)}")
    for journal, _ in found:
        journal.close_sync()


def _print(infos: list[RunInfo], as_json: bool, waits: dict[str, str]) -> None:
    if as_json:
        for info in infos:
            why = waits.get(info.run_id)
            print_json(info if why is None else msgspec.to_builtins(info) | {"waits": why})
        return
    room = list_width(sys.stdout)
    widest = max((len(info.run_id) for info in infos), default=0)
    for info in infos:
        steps = f"{info.steps:>3} step{'s' if info.steps != 1 else ' '}"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.started_at))
        prompt = printable(info.prompt) or "(continued without a new prompt)"
        line = f"{info.run_id:<{widest}}  {when}  {info.status.value:<9}  {steps}  {prompt}"
        print(fit_text(line, room))
        if info.run_id in waits:
            print_text(fit_text(f"  waits: {printable(waits[info.run_id])}", room))


def show_run(arguments: argparse.Namespace) -> int:
    """Show what happened in a run."""
    refuse_settings(arguments)
    journal, run_id = open_any_run(arguments)
    with journal:
        records = journal.read_sync(run_id)
        first = asyncio.run(story_of(records[:1], journal))  # the runs it continues are checked
        story = asyncio.run(story_of(records, journal))
        if arguments.html or arguments.svg:
            left_out = Invocation.of(story.state).without
            _write_files(arguments, journal, records, first.state.messages, left_out)
            return Exit.DONE
    if arguments.json:
        print_json(*records)
        return Exit.DONE
    print_text(f"run {run_id}")
    for each in Invocation.of(story.state).without:
        print_text(f"ran without this, because it was not trusted: {printable(each)}")
    _print_earlier(first.state.messages, full=arguments.full)
    _print_records(records, hooks=arguments.hooks, full=arguments.full)
    return Exit.DONE


def _write_files(
    arguments: argparse.Namespace,
    journal: JournalStore,
    records: list[Record],
    earlier: Iterable[Message],
    left_out: tuple[str, ...],
) -> None:
    from hookline.cli.page_files import check_target, current_redactor, write_page
    from hookline.pages import draw_run, run_page

    for path in filter(None, (arguments.html, arguments.svg)):
        check_target(path, force=arguments.force)
    redactor = current_redactor(arguments)
    if arguments.html:
        notes = [f"ran without this, because it was not trusted: {each}" for each in left_out]
        page = run_page(
            records,
            children=lambda child: _records_of(journal, child),
            earlier=earlier,
            notes=notes,
            redactor=redactor,
        )
        write_page(arguments.html, page, force=arguments.force)
    if arguments.svg:
        write_page(arguments.svg, draw_run(records, redactor=redactor), force=arguments.force)


def _records_of(journal: JournalStore, run_id: str) -> list[Record]:
    """The records of a child run; none if it was deleted."""
    try:
        return journal.read_sync(run_id)
    except UnknownRunError:
        return []


def _print_earlier(messages: Iterable[Message], *, full: bool) -> None:
    """What was said before a run: in runs that it continues, or where it was forked."""
    said = [each for each in messages if each.text and not isinstance(each, ToolMessage)]
    left_out = 0 if full else max(0, len(said) - _MOST_EARLIER)
    if left_out:
        print_text(f"| ({left_out} earlier messages; --full shows all)")
    room = list_width(sys.stdout)
    for each in said[left_out:]:
        mark = "> " if isinstance(each, UserMessage) else ""
        if full:
            print(f"| {mark}" + printable(each.text, lines=True).replace("\n", "\n| "))
        else:
            print(fit_text(f"| {mark}{printable(each.text)}", room))


def _print_records(records: list[Record], *, hooks: bool, full: bool) -> None:
    screen = Screen(out=sys.stdout, err=sys.stdout, spins=False)
    for record in records:
        if isinstance(record, PromptSubmitted):
            print_text(f"> {printable(record.text, lines=True)}")
        elif isinstance(record, RunFinished):
            status, stop = record.status.value, record.stop_reason or ""
            reason = printable(record.reason)
            if record.error is not None and record.error.message == record.reason:
                reason = error_text(record.error)
            why = " ".join(part for part in (stop if stop != status else "", reason) if part)
            print_text(f"{status}: {why}" if why else status)
            for question in record.pending:
                print_text(f"waits: {question.id}: {printable(question.reason)}")
            if record.text:
                print(f"\n{printable(record.text, lines=True)}")
        elif isinstance(record, RunQueued):
            print_text(f"queued for {printable(record.agent_id)}: {printable(record.prompt)}")
        elif isinstance(record, RunStarted):
            if record.continues is not None:
                earlier = shlex.quote(printable(record.continues.run_id))
                print_text(f"continues a conversation: hookline show {earlier}")
        elif isinstance(record, HooksPassed):
            if hooks:
                print_text(f"  hook {', '.join(record.hooks)} at {record.point}: proceed")
        elif isinstance(record, ChildStarted):
            child = shlex.quote(printable(record.child_run_id))
            print_text(f"  subagent {printable(record.name)}: hookline show {child}")
        elif isinstance(record, CallSettled) and full:
            screen.show_settled(record)
            print(printable(record.result.text, lines=True))
        else:
            screen(record)
