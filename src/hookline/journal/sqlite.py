"""Journals in a SQLite file: many runs, many processes, nothing lost that was said to be written."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, get_args

from hookline.errors import JournalError, UsageError
from hookline.journal.batch import SQLiteClaim, Tail, new_batch, new_run, packed
from hookline.journal.chain import Stored, anchor
from hookline.journal.claim import check_run_id
from hookline.journal.connect import (
    Readers,
    Synchronous,
    check_place,
    is_writable,
    open_for_reading,
    open_for_writing,
    read_only,
    size_of,
)
from hookline.journal.faults import closed, forked
from hookline.journal.lease import Lease, take_lease
from hookline.journal.schema import first_id
from hookline.journal.shelf import Shelf
from hookline.journal.store import RunInfo, SessionInfo
from hookline.journal.tables import Tables
from hookline.journal.writer import Writer
from hookline.state import RunStatus

_IMPORTED_BATCH = 50
"""How many records of an imported run make a batch: about as many as a step or a few make when they are written."""


class SQLiteJournal(Shelf):
    """A file of journals. Any number of processes may have it open; each run is driven by one of them at a time.

    With `synchronous="NORMAL"` what is written survives the death of the process; after a power cut the last
    moments may be missing, and nothing is torn. With `"FULL"` it is on the disk before it counts as written.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, synchronous: Synchronous = "NORMAL"
    ) -> None:
        if synchronous not in get_args(Synchronous):
            raise UsageError(
                f"synchronous cannot be {synchronous!r}.", remedy='Give "NORMAL" or "FULL".'
            )
        if not isinstance(path, str | bytes | os.PathLike):
            raise UsageError(f"{path!r} is no path.", remedy='SQLiteJournal("runs.db"), say.')
        path = os.fsdecode(path)
        if path in ("", ":memory:"):
            raise UsageError("a SQLite journal needs a file.", remedy="In memory: MemoryJournal().")
        self.given = os.path.abspath(path)
        """The path as it was given, with the links in it: another file may be there at the next start."""
        self.path = os.path.realpath(path)
        check_place(self.path)
        self._pid = os.getpid()
        self._readers = Readers(self.path)
        self._claims: weakref.WeakSet[SQLiteClaim] = weakref.WeakSet()
        self._writer: Writer | None = None
        if is_writable(self.path):
            connection = open_for_writing(self.path, synchronous)
            self._writer = Writer(connection, self.path, waits_for_disk=synchronous == "FULL")
        else:
            open_for_reading(self.path).close()
        self._close = weakref.finalize(self, _let_go, self._readers, self._writer)

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"SQLiteJournal({self.path!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, run_id: str) -> SQLiteClaim:
        """Take a run, new or known, for this process. Raises RunInUseError when another live process has it."""
        check_run_id(run_id)
        writer = self._for_writing()
        lease = self._lease(run_id)
        try:
            with self._snapshot() as tables:
                known = tables.end_of(run_id)
        except BaseException:
            lease.release()
            raise
        info, tail = known or (RunInfo(run_id=run_id), Tail(0, 0, anchor(run_id)))
        claim = SQLiteClaim(info, tail, lease, writer, self)
        self._claims.add(claim)
        return claim

    def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first."""
        with self._snapshot() as tables:
            return tables.infos(session_id, status, limit, "run")

    def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        with self._snapshot() as tables:
            return tables.sessions(limit)

    def vacuum(self) -> int:
        """Give the space of dropped runs back to the disk. Others wait meanwhile. Says how many bytes it gained."""
        before = size_of(self.path)
        self._for_writing().do(_vacuum)
        return before - size_of(self.path)

    def close(self) -> None:
        """Write what is queued, give back what is claimed, and let go of the file."""
        if os.getpid() == self._pid:
            for claim in list(self._claims):
                claim.give_back()
        self._close()

    # --- what the shelf builds on ----------------------------------------------------------------------

    @contextmanager
    def _snapshot(self) -> Iterator[Tables]:
        """The tables as they are now, whatever is written meanwhile."""
        self._check_open()
        with self._readers.snapshot() as connection:
            yield Tables(connection, self.path)

    def _lease(self, run_id: str) -> Lease:
        self._for_writing()
        return take_lease(self.path, run_id)

    def _add(self, runs: list[Stored]) -> None:
        self._for_writing().do(lambda connection: _add(connection, runs))

    def _remove(self, run_ids: list[str]) -> None:
        self._for_writing().do(lambda connection: _remove(connection, run_ids))

    def _for_writing(self) -> Writer:
        self._check_open()
        if self._writer is None:
            raise read_only(self.path)
        return self._writer

    def _check_open(self) -> None:
        if not self._close.alive:
            raise closed()
        if os.getpid() != self._pid:
            raise forked(self.path)


def _let_go(readers: Readers, writer: Writer | None) -> None:
    readers.close()  # first: the last to close is the one that can put the log into the file
    if writer is not None:
        writer.close()


def _add(connection: sqlite3.Connection, runs: list[Stored]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    cursor = connection.cursor()
    for run in runs:
        try:
            number = new_run(cursor, run.info, run.head)
        except sqlite3.IntegrityError:
            raise JournalError(
                f"run '{run.info.run_id}' is in this journal already.",
                remedy="Delete it first. Nothing was added.",
            ) from None
        for start in range(0, len(run.rows), _IMPORTED_BATCH):
            rows = run.rows[start : start + _IMPORTED_BATCH]
            links, bodies = [row.link for row in rows], [row.body for row in rows]
            new_batch(cursor, first_id(number) + start, links, packed(bodies))
    connection.execute("COMMIT")


def _remove(connection: sqlite3.Connection, run_ids: list[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for run_id in run_ids:
        found = connection.execute("SELECT id FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if found is not None:
            (number,) = found
            connection.execute(
                "DELETE FROM batches WHERE id BETWEEN ? AND ?",
                (first_id(number), first_id(number + 1) - 1),
            )
            connection.execute("DELETE FROM runs WHERE id = ?", (number,))
    connection.execute("COMMIT")


def _vacuum(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
