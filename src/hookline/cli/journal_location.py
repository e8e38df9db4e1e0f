"""The journal that a command works with, and how to find a run in it."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hookline.cli.options import flags_of
from hookline.cli.terminal import print_text, report
from hookline.config import Layer, Settings, load
from hookline.config.locations import journal_of
from hookline.errors import JournalError, UnknownRunError, UsageError
from hookline.journal import JournalStore, RunInfo, RunQueued, SQLiteJournal, outermost
from hookline.journal.losses import lost_error
from hookline.journal.write_ahead_log import log_size
from hookline.own_directories import data_directory

if TYPE_CHECKING:
    from hookline.journal import PostgresJournal
    from hookline.workers import QueueJournal

_DATABASE = "HOOKLINE_DATABASE_URL"
_NAME_A_JOURNAL = "Name the file of a journal: --journal FILE, HOOKLINE_JOURNAL or `journal` in a configuration file."
_RESTORE = "Restore the journal from a backup."


def journal_path(settings: Settings) -> Path:
    """The file of the journal."""
    given = settings.configuration.journal
    return Path(given).expanduser() if given else journal_of(settings.project, os.environ)


def has_journal(path: Path) -> bool:
    """Whether a journal is there, or only its log: without the database, it is refused when it is opened."""
    return path.exists() or log_size(os.path.realpath(path)) > 0


def require_journal(settings: Settings) -> None:
    """Refuse a command about a journal that is not there."""
    path = journal_path(settings)
    if has_journal(path):
        return
    if settings.configuration.journal:
        raise UsageError(f"there is no journal '{path}'.", remedy=_NAME_A_JOURNAL)
    raise UsageError("there are no runs here yet.", remedy='Begin with: hookline run "..."')


def journal_at(path: Path, *, accept_loss: bool = False) -> SQLiteJournal:
    """The journal, to be opened. Only its owner can read the directory: runs contain what people and models wrote."""
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JournalError(
                f"runs cannot be recorded in {path.parent}: {error.strerror}.",
                remedy="Name another place (HOOKLINE_DATA_DIR, --journal FILE), or record none: --no-save.",
            ) from None
    return SQLiteJournal(path, accept_loss=accept_loss)


def open_journal(path: Path) -> SQLiteJournal:
    """The journal, opened to be read. If its end is lost, that is reported: reading does not fail, and is not all."""
    journal = journal_at(path)
    journal.open_sync()
    if journal.losses:
        _report_once(str(lost_error(journal.path, journal.losses)))
    return journal


@cache
def _report_once(words: str) -> None:
    """A command opens a journal for each run that it names."""
    report(words)


def new_run_id() -> str:
    """An id for a new run: the time, and a few random letters."""
    return f"{time.strftime('%m%d-%H%M')}-{secrets.token_hex(3)}"


def is_in_database(arguments: argparse.Namespace) -> bool:
    """Whether a command is about a database, which it or the variable names."""
    is_named = bool(os.environ.get(_DATABASE)) and not arguments.journal
    return arguments.database is not None or is_named


def database_of(arguments: argparse.Namespace) -> PostgresJournal | None:
    """The journal in the database that a command or the variable names; None if it is about a file."""
    url: str | None = arguments.database
    if not is_in_database(arguments):
        return None
    from hookline.journal.postgres import PostgresJournal

    _warn_of_password(url)
    return PostgresJournal(url, schema=arguments.schema)


def queue_of(arguments: argparse.Namespace, *, warns: bool = True) -> QueueJournal:
    """The journal with a queue in the database that a command or the variable names."""
    from hookline.workers import QueueJournal

    if warns:
        _warn_of_password(arguments.database)
    return QueueJournal(
        arguments.database, schema=arguments.schema, engine_schema=arguments.engine_schema
    )


def _warn_of_password(url: str | None) -> None:
    from hookline.journal.postgres import has_password

    if url is not None and has_password(url):
        print_text(
            "hookline: everybody on this machine can read the password in --database while the command runs. "
            f"Put it into {_DATABASE} or a password file (PGPASSFILE).",
            sys.stderr,
        )


def open_any_run(arguments: argparse.Namespace, *, posts: bool = False) -> tuple[JournalStore, str]:
    """The journal with the run that a command names, and its whole id: in a database, or in a file.

    `posts` is for a command that writes to the inbox of the run.
    """
    database = database_of(arguments)
    if database is None:
        journal, run_id, _flags = open_run(arguments)
        return journal, run_id
    run_id = find_in_database(database, arguments.run_id)
    return (with_queue(arguments, database, run_id) if posts else database), run_id


def with_queue(
    arguments: argparse.Namespace, database: PostgresJournal, run_id: str
) -> PostgresJournal:
    """The journal for a command that changes a run: one that was submitted is also in the queue, with its children."""
    queued = database.read_sync(asyncio.run(outermost(database, run_id)))[0]
    if isinstance(queued, RunQueued) and queued.queue:
        return queue_of(arguments, warns=False)
    return database


def find_in_database(journal: PostgresJournal, given: str) -> str:
    """The whole id of a run. `last` is the last one."""
    found = _find_matching(journal, given)
    if len(found) == 1 or (found and given == "last"):
        return found[0].run_id
    if found:
        raise _unclear(given, found)
    raise UnknownRunError(
        f"there is no run '{given}' in {journal}.",
        remedy="`hookline runs` with the same --database lists them.",
    )


def open_run(arguments: argparse.Namespace) -> tuple[SQLiteJournal, str, Layer]:
    """The journal with the run that a command names, its whole id, and the flags."""
    flags = flags_of(arguments)
    settings = load(Path.cwd(), flags=flags, bare=arguments.bare)
    accept_loss = getattr(arguments, "accept_loss", False)
    return (*find_run(settings, arguments.run_id, accept_loss=accept_loss), flags)


def find_run(
    settings: Settings, given: str, *, accept_loss: bool = False
) -> tuple[SQLiteJournal, str]:
    """The journal with a run, and its whole id: here, else in another project. `last` is the last one here.

    `accept_loss` is for a journal of this project that has lost so much that it cannot even be read.
    """
    named, here = settings.configuration.journal, journal_path(settings)
    if named and not has_journal(here):
        raise UnknownRunError(
            f"there is no run '{given}', because there is no file '{here}'.",
            remedy=_NAME_A_JOURNAL,
        )
    others = given != "last" and not named
    has_loss = False
    for journal in journals(here, others=others, accept_loss=accept_loss):
        found = _find_matching(journal, given)
        if len(found) == 1 or (found and given == "last"):
            return journal, found[0].run_id
        has_loss |= bool(journal.losses)
        journal.close_sync()
        if found:
            raise _unclear(given, found)
    if has_loss:
        raise UnknownRunError(
            f"there is no run '{given}' in what is left of the journal: it may be among what was lost.",
            remedy=_RESTORE,
        )
    if given == "last":
        raise UnknownRunError("there is no run here yet.", remedy='Begin with: hookline run "...".')
    raise UnknownRunError(
        f"there is no run '{given}'.",
        remedy="`hookline runs` lists those of this project, and `hookline runs --all` those of all.",
    )


def journals(here: Path, *, others: bool, accept_loss: bool = False) -> Iterator[SQLiteJournal]:
    """The journal of this project, if there is one, and those of all others. A broken other one is reported."""
    if has_journal(here):
        try:
            journal = open_journal(here)
        except JournalError:
            if not accept_loss:
                raise
            journal = journal_at(here, accept_loss=True)
        yield journal
    projects = sorted((data_directory(os.environ) / "projects").glob("*")) if others else []
    for path in (each / "journal.db" for each in projects):
        if path == here or not has_journal(path):
            continue
        try:
            journal = open_journal(path)
        except (JournalError, OSError) as error:
            print_text(f"hookline: skipped: {error}", sys.stderr)
            continue
        yield journal


def recorded_runs(settings: Settings, *, others: bool = False) -> list[RunInfo]:
    """The runs of this project, or of all, newest first. Child runs are left out."""
    found, has_loss = list[RunInfo](), False
    for journal in journals(journal_path(settings), others=others):
        with journal:
            found += outer_runs(journal)
            has_loss |= bool(journal.losses)
    if has_loss and not found:
        raise JournalError("no run is left in the journal.", remedy=_RESTORE)
    return sorted(found, key=lambda info: -info.started_at)


def outer_runs(journal: JournalStore) -> list[RunInfo]:
    """The runs of a journal, newest first, without child runs."""
    return [info for info in journal.runs_sync() if info.parent_run_id is None]


def _unclear(given: str, found: list[RunInfo]) -> UsageError:
    ids = ", ".join(info.run_id for info in found[:5])
    return UsageError(f"'{given}' may be any of: {ids}.", remedy="Give a longer part of the id.")


def _find_matching(journal: JournalStore, given: str) -> list[RunInfo]:
    if not given.strip():
        raise UsageError("the name of the run is empty.", remedy="Give its id, or `last`.")
    infos = journal.runs_sync()
    own = [info for info in infos if info.parent_run_id is None]
    if given == "last":
        return own[:1]
    exact = [info for info in infos if info.run_id == given]
    return exact or [
        info for info in own if info.run_id.startswith(given) or info.run_id.endswith(given)
    ]
