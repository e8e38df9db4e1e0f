"""`hookline journal`: examine the journal of this project, or copy it."""

from __future__ import annotations

import argparse
from pathlib import Path

from hookline.cli.exits import Exit
from hookline.cli.journal_location import (
    database_of,
    journal_at,
    journal_path,
    queue_of,
    require_journal,
)
from hookline.cli.options import flags_of, refuse_settings
from hookline.cli.terminal import print_text, printable
from hookline.config import load
from hookline.journal import SQLiteJournal


def check_journal(arguments: argparse.Namespace) -> int:
    """Report damage."""
    database = database_of(arguments)
    with database or _open(arguments, accept_loss=arguments.accept_loss) as journal:
        if database is not None and arguments.accept_loss:
            print(f"runs that may have lost their end: {database.accept_loss_sync()}")
        report = journal.check_sync()
    print_text(printable(str(report), lines=True))
    return Exit.DONE if report.ok else Exit.FAILED


def back_up(arguments: argparse.Namespace) -> int:
    """Copy the journal."""
    with database_of(arguments) or _open(arguments) as journal:
        journal.backup_sync(arguments.path)
    print_text(f"the journal {journal} was copied to {arguments.path}")
    return Exit.DONE


def migrate(arguments: argparse.Namespace) -> int:
    """Make the tables in a database, or bring them up to date."""
    from hookline.journal import PostgresJournal  # psycopg takes its time

    queue = queue_of(arguments) if arguments.workers else None
    journal = queue or database_of(arguments) or PostgresJournal(schema=arguments.schema)
    try:
        of_queue = queue.engine_version_sync() if queue else 0
        _print_versions(f"the tables in {journal}", *journal.migrate_sync())
        if queue:
            words = f"the tables of its queue (schema {queue.engine_schema})"
            _print_versions(words, of_queue, queue.engine_version_sync())
    finally:
        journal.close_sync()
    return Exit.DONE


def _print_versions(tables: str, before: int, now: int) -> None:
    words = (
        f"have version {now}" if before == now else f"are now of version {now} ({before} before)"
    )
    print_text(f"{tables} {words}")


def _open(arguments: argparse.Namespace, *, accept_loss: bool = False) -> SQLiteJournal:
    refuse_settings(arguments)
    settings = load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare)
    require_journal(settings)
    return journal_at(journal_path(settings), accept_loss=accept_loss)
