"""The tables of a journal: reading them within one transaction, and the statements that change them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from operator import attrgetter
from typing import Any, Literal

import msgspec

from hookline.errors import JournalError
from hookline.journal.chain import DAMAGE_REMEDY, LINK, Damage, StoredRun, unpack
from hookline.journal.connection import convert_errors
from hookline.journal.history import (
    HistoryEvent,
    add_event,
    digest,
    examine_history,
    steps_before_loss,
)
from hookline.journal.inbox import InboxMessage, decode_message, encode_message, is_new
from hookline.journal.last_commits import LIST, Commit
from hookline.journal.retention import owner_of
from hookline.journal.run_info import RunInfo
from hookline.state import RunStatus

_FIELDS = RunInfo.__struct_fields__
_COLUMNS = ", ".join(_FIELDS)
_ROWS: Any = list[tuple[tuple(field.type for field in msgspec.structs.fields(RunInfo))]]  # type: ignore[misc]
_NEW_RUN = f"""
INSERT INTO runs (run_id, session_id, agent_id, parent_run_id, status, prompt, continues, records, steps,
                  started_at, updated_at, kind, head)
VALUES ({", ".join("?" * 13)})
"""
_NEXT_BATCH = f"INSERT INTO next_batches VALUES ({', '.join('?' * 9)})"
_DESCRIBE_RUN = """
UPDATE runs SET session_id = ?, agent_id = ?, parent_run_id = ?, status = ?, prompt = ?, continues = ? WHERE id = ?
"""
_NEW_BATCH = "INSERT INTO batches (id, links, records) VALUES (?, ?, CAST(? AS TEXT))"
description = attrgetter("session_id", "agent_id", "parent_run_id", "status", "prompt", "continues")
"""The columns that rarely change; some of them are indexed."""
_BATCHES_OF_RUN = "batches WHERE id BETWEEN ? AND ?"
_POSITION_BITS = 32
_IMPORTED_BATCH = 50
"""Records in a batch of an imported run: about as many as a few steps make."""


def first_id(run: int) -> int:
    """The id of the first batch of a run. Others add the position of their first record."""
    return run << _POSITION_BITS


class RunEnd(msgspec.Struct, frozen=True, gc=False):
    """The end of a run: its number in the file (0 before it has one), its records, their last link, its steps."""

    run: int
    records: int
    head: bytes
    steps: int


class Tables:
    """Reads with a connection, as long as its transaction is open."""

    _role_column = "''"
    """Who posted a message. A file has no roles."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    def infos(
        self,
        kind: Literal["run", "session"] | None = None,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
        newest_by: Literal["started_at", "updated_at"] = "started_at",
    ) -> list[RunInfo]:
        """The entries that are asked for, newest first."""
        asked = {"session_id": session_id, "status": status}
        given = {name: value for name, value in asked.items() if value is not None}
        conditions = [f"{name} = ?" for name in given]
        if kind is not None:  # written out: SQLite uses the index for sessions only then
            conditions.append(f"kind = '{kind}'")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        most = "" if limit is None else f"LIMIT {limit:d}"
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM runs {where} ORDER BY {newest_by} DESC, id DESC {most}",
            *given.values(),
        )
        return self._to_infos(rows)

    def owners(self) -> list[tuple[str, str | None]]:
        """All runs with what they belong to, newest first, also where other columns are damaged."""
        rows = self._rows(
            "SELECT run_id, session_id, parent_run_id, kind FROM runs"
            " ORDER BY started_at DESC, id DESC"
        )
        return [(str(row[0]), owner_of(*row)) for row in rows]

    def read_stored(self, run_id: str) -> StoredRun | None:
        """A run with its records, unchecked."""
        entry = self._entry(run_id)
        if entry is None:
            return None
        tail, info = entry
        query = f"SELECT id, {self._bytes('links')}, {self._bytes('records')} FROM {_BATCHES_OF_RUN} ORDER BY id"
        found = [
            row
            for id, links, records in self._rows(query, *_ids(tail.run))
            for row in unpack(id - first_id(tail.run), _bytes(links), _bytes(records))
        ]
        return StoredRun(info=info, head=tail.head, rows=found)

    def end_of(self, run_id: str) -> tuple[RunInfo, RunEnd, int | None] | None:
        """A run's summary, where it ends, and its steps before a loss. Raises when its last record is not there."""
        entry = self._entry(run_id)
        if entry is None:
            return None
        tail, info = entry
        query = f"SELECT id, {self._bytes('links')} FROM {_BATCHES_OF_RUN} ORDER BY id DESC LIMIT 1"
        rows = [(id, _bytes(links)) for id, links in self._rows(query, *_ids(tail.run))]
        ends = [(id - first_id(tail.run) + len(links) // LINK, links[-LINK:]) for id, links in rows]
        if ends != [(tail.records, tail.head)]:
            raise JournalError(
                f"the journal '{self._path}' is damaged: run '{run_id}' does not end with its last record.",
                remedy=DAMAGE_REMEDY,
            )
        return info, tail, steps_before_loss(self._rows, run_id)

    def has_commit(self, commit: Commit) -> bool:
        """Whether something that was committed is there. Records that are damaged are there."""
        number, records, head, *_ = commit
        if number == LIST:
            query = f"SELECT {self._bytes('link')} FROM history WHERE number = ?"
            return self._rows(query, records) == [(head,)]
        query = f"SELECT records, {self._bytes('head')} FROM runs WHERE id = ?"
        for count, last in self._rows(query, number):
            if isinstance(count, int) and count < records:
                return False
            return last == head or self._link_at(number, records - 1) == head
        return False

    def has_last_batch(self, commit: Commit) -> bool:
        """Whether the last record of a commit is there too, and not only its entry in the list."""
        number, records, head, *_ = commit
        return number == LIST or self._link_at(number, records - 1) == head

    def _link_at(self, number: int, position: int) -> bytes:
        place = first_id(number) + position
        query = f"SELECT id, {self._bytes('links')} FROM {_BATCHES_OF_RUN} ORDER BY id DESC LIMIT 1"
        for id, links in self._rows(query, first_id(number), place):
            start = (place - id) * LINK
            return _bytes(links)[start : start + LINK]
        return b""

    def name_of(self, number: int) -> str:
        """A run by its number in the file."""
        rows = self._rows("SELECT run_id FROM runs WHERE id = ?", number)
        return f"run '{rows[0][0]}'" if rows else f"a run that is not in the list (number {number})"

    def find_missing(self) -> Iterator[Damage]:
        """Where the runs, their messages and the list of what was created and deleted do not agree."""
        run_ids = [str(run_id) for (run_id,) in self._rows("SELECT run_id FROM runs")]
        query = f"SELECT CAST(run_id AS TEXT), {self._bytes('message')} FROM inbox ORDER BY id"
        messages = [(run_id, _bytes(text)) for run_id, text in self._rows(query)]
        query = f"SELECT number, event, run_id, records, at, {self._bytes('link')} FROM history ORDER BY number"
        events = (HistoryEvent(*row)._replace(link=_bytes(row[5])) for row in self._rows(query))
        yield from examine_history(events, run_ids, messages)

    def accepted_losses(self) -> list[float]:
        """When somebody accepted that the end of the journal is lost."""
        query = (
            "SELECT CAST(at AS INTEGER) FROM history"
            " WHERE event = 'lost' AND run_id = '' AND at BETWEEN 0 AND 1e11"
        )
        return [at for (at,) in self._rows(query)]

    def messages(self, run_ids: tuple[str, ...]) -> list[InboxMessage]:
        """The messages for these runs, in order."""
        condition, value = self._one_of(run_ids)
        columns = f"run_id, {self._bytes('message')}, {self._role_column}"
        rows = self._rows(
            f"SELECT {columns} FROM inbox WHERE run_id {condition} ORDER BY id", value
        )
        return [decode_message(run_id, _bytes(text), role) for run_id, text, role in rows]

    def link_after(self, run_id: str, records: int) -> bytes:
        """The link of the last of a run's first records; empty when there are not so many."""
        entry = self._entry(run_id)
        if entry is None or records < 1:
            return b""
        first = first_id(entry[0].run)
        query = f"SELECT id, {self._bytes('links')} FROM {_BATCHES_OF_RUN} ORDER BY id DESC LIMIT 1"
        for id, links in self._rows(query, first, first + records - 1):
            place = LINK * (records - 1 - (id - first))
            return _bytes(links)[place : place + LINK]
        return b""

    def continuations(self) -> list[tuple[str, str]]:
        """The runs that continue another one, with that one."""
        rows = self._rows("SELECT run_id, continues FROM runs WHERE continues IS NOT NULL")
        return [(str(later), str(earlier)) for later, earlier in rows]

    def find_orphans(self) -> Iterator[Damage]:
        """Records whose run is not in the list."""
        known = {number for (number,) in self._rows("SELECT id FROM runs")}
        # Not from each run to the next: in a damaged file the next one can be the one before.
        query = f"SELECT DISTINCT id >> {_POSITION_BITS} FROM batches"
        for (number,) in self._rows(query):
            if number not in known:
                words = f"there are records of a run that is not in the list (number {number})"
                yield Damage("?", "stray", words)

    def copy_to(self, path: str) -> None:
        """Copy everything into an empty file."""
        with convert_errors(path, "written"), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # it is closed, and has no log

    def count_records(self) -> int:
        """How many records all runs have."""
        rows = self._rows("SELECT total(records) FROM runs")
        return int(rows[0][0])

    def file_damage(self, table: str = "", *, with_indexes: bool = True) -> list[str]:
        """What SQLite's own check finds, in the whole file or in one table."""
        check = "integrity_check" if with_indexes else "quick_check"
        rows = self._rows(f"PRAGMA {check}({table})" if table else f"PRAGMA {check}")
        return [str(words) for (words,) in rows if words != "ok"]

    def _bytes(self, column: str) -> str:
        """A column, read as bytes: after an edit it may hold anything, also text that cannot be decoded."""
        return f"CAST({column} AS BLOB)"

    def _one_of(self, values: tuple[str, ...]) -> tuple[str, object]:
        """A condition for a column, and what is given for its mark."""
        return "IN (SELECT value FROM json_each(?))", msgspec.json.encode(values).decode()

    def _rows(self, query: str, *values: object) -> list[Any]:
        with convert_errors(self._path, "read"):
            return self._connection.execute(query, values).fetchall()

    def _entry(self, run_id: str) -> tuple[RunEnd, RunInfo] | None:
        rows = self._rows(
            f"SELECT id, {self._bytes('head')}, {_COLUMNS} FROM runs WHERE run_id = ?", run_id
        )
        if not rows:
            return None
        (number, head, *fields) = rows[0]
        if not isinstance(number, int):  # so says a file whose tables were edited
            raise JournalError(
                f"the journal '{self._path}' is damaged: run '{run_id}' has no number.",
                remedy=DAMAGE_REMEDY,
            )
        (info,) = self._to_infos([fields])
        return RunEnd(number, info.records, _bytes(head), info.steps), info

    def _to_infos(self, rows: list[Any]) -> list[RunInfo]:
        """The entries in these rows. An edit of the file may have put anything there."""
        try:
            return [RunInfo(*row) for row in msgspec.convert(rows, _ROWS)]
        except msgspec.ValidationError as error:
            raise JournalError(
                f"the journal '{self._path}' is damaged: its list of runs holds {error}.",
                remedy=DAMAGE_REMEDY,
            ) from None


def _ids(run: int) -> tuple[int, int]:
    """The first and the last id that a batch of a run can have."""
    return first_id(run), first_id(run + 1) - 1


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


# --- statements that change the tables -----------------------------------------------------------------


def pack(bodies: list[bytes]) -> bytes:
    """Records as a batch holds them: a JSON array."""
    return b"[%s]" % b",".join(bodies)


def insert_run(cursor: sqlite3.Cursor, info: RunInfo, head: bytes) -> int:
    """Add a run to the table. Returns its number in the file; raises IntegrityError when it is there."""
    numbers = (info.records, info.steps, info.started_at, info.updated_at)
    row = (info.run_id, *description(info), *numbers, info.kind, head)
    number = int(cursor.execute(_NEW_RUN, row).lastrowid or 0)
    add_event(cursor, "created", info.run_id, at=info.started_at)
    return number


def continue_run(
    cursor: sqlite3.Cursor, tail: RunEnd, after: RunInfo, links: list[bytes], records: bytes
) -> None:
    """Add packed records to a run that is in the list, in one statement: `connection.py` has what it does.

    Raises IntegrityError when the run no longer ends with `tail`.
    """
    # Python's module looks for an adapter of every value of type `bytes`, four times in each commit. Not of these.
    values = (
        tail.run,
        bytearray(tail.head),
        after.records,
        after.steps,
        after.updated_at,
        bytearray(links[-1]),
        (tail.run << _POSITION_BITS) + tail.records,
        bytearray().join(links),
        bytearray(records),
    )
    cursor.execute(_NEXT_BATCH, values)


def describe_run(cursor: sqlite3.Cursor, run: int, info: RunInfo) -> None:
    """Change what rarely changes."""
    cursor.execute(_DESCRIBE_RUN, (*description(info), run))


def insert_batch(
    cursor: sqlite3.Cursor, run: int, position: int, links: list[bytes], records: bytes
) -> None:
    """Add packed records, with the link of each, at a position of a run."""
    cursor.execute(_NEW_BATCH, (first_id(run) + position, b"".join(links), records))


def run_exists_error(run_id: str) -> JournalError:
    """Why a run cannot be added."""
    return JournalError(
        f"run '{run_id}' is in this journal already, or twice in the file.",
        remedy="Delete it first, or import into another journal. Nothing was imported.",
    )


def add_runs(
    connection: sqlite3.Connection, runs: list[StoredRun], check: Callable[[], None]
) -> None:
    """Add whole runs in one transaction, if `check` finds there that they fit."""
    connection.execute("BEGIN IMMEDIATE")
    check()
    cursor = connection.cursor()
    for run in runs:
        try:
            number = insert_run(cursor, run.info, run.head)
        except sqlite3.IntegrityError:
            raise run_exists_error(run.info.run_id) from None
        for start in range(0, len(run.rows), _IMPORTED_BATCH):
            rows = run.rows[start : start + _IMPORTED_BATCH]
            links, bodies = [row.link for row in rows], [row.body for row in rows]
            insert_batch(cursor, number, start, links, pack(bodies))
    connection.execute("COMMIT")


def has_run(cursor: sqlite3.Cursor, run_id: str) -> bool:
    """Whether a run is in the list."""
    return bool(cursor.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone())


def remove_runs(
    connection: sqlite3.Connection, run_ids: list[str], forget: Callable[[int], None]
) -> None:
    """Delete runs in one transaction. Raises JournalError when others continue one of them.

    `forget` gets the number of each before that is committed.
    """
    connection.execute("BEGIN IMMEDIATE")
    gone = set(run_ids)
    for run_id in run_ids:
        query = "SELECT run_id FROM runs WHERE continues = ? ORDER BY started_at, id"
        later = [name for (name,) in connection.execute(query, (run_id,)) if name not in gone]
        if later:
            raise continued_error(run_id, later)
    for run_id in run_ids:
        query = "SELECT id, records FROM runs WHERE run_id = ?"
        found = connection.execute(query, (run_id,)).fetchone()
        if found is not None:
            number, records = found
            connection.execute(f"DELETE FROM {_BATCHES_OF_RUN}", _ids(number))
            connection.execute("DELETE FROM runs WHERE id = ?", (number,))
            add_event(connection, "deleted", run_id, records)
            forget(number)
            connection.execute("DELETE FROM inbox WHERE run_id = ?", (run_id,))
    connection.execute("COMMIT")


def add_message(connection: sqlite3.Connection, path: str, message: InboxMessage) -> bool:
    """Add a message for a run in one transaction, if it says something new. False when there is no such run."""
    connection.execute("BEGIN IMMEDIATE")  # first: nobody adds one between looking and adding
    run = (message.run_id,)
    if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", run).fetchone() is None:
        return False
    if is_new(message, Tables(connection, path).messages(run)):
        text = encode_message(message)
        row = (message.run_id, text.decode())
        connection.execute("INSERT INTO inbox (run_id, message) VALUES (?, ?)", row)
        add_event(connection, "posted", message.run_id, digest(text))
    connection.execute("COMMIT")
    return True


_MOST_NAMED = 5


def continued_error(run_id: str, later: list[str]) -> JournalError:
    """Why a run cannot be deleted alone."""
    names = ", ".join(f"'{name}'" for name in later[:_MOST_NAMED])
    more = len(later) - _MOST_NAMED
    return JournalError(
        f"run '{run_id}' cannot be deleted alone: {names}{f' and {more} more' if more > 0 else ''} "
        f"continue{'s' if len(later) == 1 else ''} it.",
        remedy="Delete the later runs too: journal.delete(run_id, with_later=True), "
        "or hookline runs --delete RUN --with-later.",
    )
