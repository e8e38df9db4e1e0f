"""The list of all that was created and deleted in a journal, so that a run or a session that is gone is missed.

Each entry is linked to the one before it, like the records of a run, and is written in the transaction of what it is
about. A third kind of entry says that the end of the journal was lost and somebody accepted that: one for each run that
had not ended, with the number of records that are left of it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from hookline.journal.chain import Damage, anchor, link

TABLE = """
CREATE TABLE history (
    number INTEGER PRIMARY KEY,
    event TEXT NOT NULL,
    run_id TEXT NOT NULL,
    records INTEGER NOT NULL,
    at REAL NOT NULL,
    link BLOB NOT NULL
);
CREATE INDEX losses ON history (run_id) WHERE event = 'lost';
"""
_START = anchor("")
_END = "SELECT number, CAST(link AS BLOB) FROM history ORDER BY number DESC LIMIT 1"
_ADD = "INSERT INTO history (number, event, run_id, records, at, link) VALUES (?, ?, ?, ?, ?, ?)"
_LOST = (
    "SELECT records FROM history WHERE event = 'lost' AND run_id = ? ORDER BY number DESC LIMIT 1"
)


class HistoryEvent(NamedTuple):
    """One entry."""

    number: int
    event: str
    run_id: str
    records: int
    at: float
    link: bytes


_Database = sqlite3.Connection | sqlite3.Cursor


def add_event(
    cursor: _Database,
    event: Literal["created", "deleted", "lost"],
    run_id: str,
    records: int = 0,
    at: float | None = None,
) -> tuple[int, bytes]:
    """Write an entry, in the open transaction. Returns its number and link."""
    number, previous = end_of_history(cursor)
    at = time.time() if at is None else at
    new = _link(previous, event, run_id, records, at)
    cursor.execute(_ADD, (number + 1, event, run_id, records, at, new))
    return number + 1, new


def end_of_history(cursor: _Database) -> tuple[int, bytes]:
    """The number and the link of the last entry."""
    found = cursor.execute(_END).fetchone()
    return (0, _START) if found is None else (int(found[0]), bytes(found[1] or b""))


def list_existing(connection: sqlite3.Connection) -> None:
    """Begin the list of a file that was written without one: with all that is there now."""
    rows = connection.execute("SELECT run_id, started_at FROM runs ORDER BY id").fetchall()
    for run_id, started_at in rows:
        add_event(connection, "created", run_id, at=started_at)


def accept_loss(connection: sqlite3.Connection) -> None:
    """Write which runs may have lost their end: all that had not ended."""
    connection.execute("BEGIN IMMEDIATE")
    query = (
        "SELECT run_id, records FROM runs WHERE kind = 'run' AND status IN ('running', 'paused')"
    )
    for run_id, records in [("", 0), *connection.execute(query).fetchall()]:
        add_event(connection, "lost", run_id, records)
    connection.execute("COMMIT")


def records_before_loss(connection: sqlite3.Connection, run_id: str) -> int | None:
    """How many records were left of a run when the end of the journal was lost; None if none was."""
    found = connection.execute(_LOST, (run_id,)).fetchone()
    return None if found is None else int(found[0])


def read_history(connection: sqlite3.Connection) -> Iterator[HistoryEvent]:
    """All entries."""
    for row in connection.execute("SELECT * FROM history ORDER BY number"):
        yield HistoryEvent(*row)


def examine_history(events: Iterable[HistoryEvent], run_ids: Iterable[str]) -> Iterator[Damage]:
    """What is wrong with the list, and which of these runs do not agree with it."""
    previous, listed = _START, dict[str, None]()
    for expected, entry in enumerate(events, start=1):
        if entry.number != expected:
            words = f"entry {expected} of the list of what was created and deleted is missing"
            yield Damage("?", "missing", words)
            return
        if entry.link != _link(previous, *entry[1:5]):
            words = f"entry {expected} of the list of what was created and deleted was edited"
            yield Damage("?", "edited", words)
        previous = entry.link
        if entry.event == "created":
            listed[entry.run_id] = None
        elif entry.event == "deleted":
            listed.pop(entry.run_id, None)
    found = set(run_ids)
    for run_id in listed:
        if run_id not in found:
            yield Damage(run_id, "missing", "it was created and not deleted, and it is not there")
    for run_id in found - listed.keys():
        yield Damage(run_id, "added", "it is there, and the list does not say that it was created")


def _link(previous: bytes, *values: object) -> bytes:
    return link(previous, msgspec.json.encode(values))
