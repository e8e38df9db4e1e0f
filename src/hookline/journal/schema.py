"""The tables of a journal file and their version.

A file of a newer version is refused. One of an older version is migrated when it is opened for writing, in one
transaction.
"""

from __future__ import annotations

import sqlite3

from hookline.errors import JournalError

APPLICATION = 0x486B6C6E  # "Hkln"

# A batch is one row: its records as a JSON array, and the link of each. Its id consists of its run and the position of
# its first record, so a run is stored in one piece and a batch touches few pages. In any SQLite shell:
#   SELECT value ->> 'type' FROM batches, json_each(batches.records)
_FIRST = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    parent_run_id TEXT,
    status TEXT NOT NULL,
    prompt TEXT NOT NULL,
    records INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    started_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    kind TEXT NOT NULL,
    head BLOB NOT NULL
);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_session ON runs (session_id, started_at);
CREATE INDEX runs_by_status ON runs (status, started_at);
CREATE INDEX sessions_by_update ON runs (updated_at) WHERE kind = 'session';
CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE TABLE batches (
    id INTEGER PRIMARY KEY,
    links BLOB NOT NULL,
    records TEXT NOT NULL
);
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)
"""From each version to the next, beginning with an empty file. Never edit one that was released."""

_POSITION_BITS = 32


def newest() -> int:
    """The version that this Hookline writes."""
    return len(MIGRATIONS)


def first_id(run: int) -> int:
    """The id of the first batch of a run. Others add the position of their first record."""
    return run << _POSITION_BITS


def run_of(batch: int) -> int:
    """The run that a batch belongs to."""
    return batch >> _POSITION_BITS


def check_version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the tables; 0 for an empty file. Raises for a file that is not ours, or newer than we are."""
    if connection.in_transaction:
        application, version, tables = _marks(connection)
    else:  # in one transaction: another process may just be creating the tables
        connection.execute("BEGIN")
        application, version, tables = _marks(connection)
        connection.execute("ROLLBACK")
    if not tables and not application and not version:
        return 0
    if application != APPLICATION:
        raise JournalError(
            f"'{path}' is a database of another program, not a journal.",
            remedy="Give the journal a file of its own.",
        )
    if version > newest():
        raise JournalError(
            f"'{path}' was written by a newer Hookline: its tables have version {version}, "
            f"and this one knows up to version {newest()}.",
            remedy="Upgrade hookline to use it.",
        )
    return version


def _marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """What the file says it is, its version, and how many tables and indexes it has."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return application, version, tables


def bring_up_to_date(connection: sqlite3.Connection, path: str) -> None:
    """Migrate the tables. Of several processes, one does it and the others find it done."""
    if check_version(connection, path) == newest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check_version(connection, path)
        for migration in MIGRATIONS[version:]:
            for statement in migration.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {newest()}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
