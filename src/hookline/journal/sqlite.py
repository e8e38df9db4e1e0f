"""Journals in a SQLite file, shared by many runs and many processes."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, get_args

from hookline.errors import UsageError
from hookline.journal.base import BaseJournal, Release, check_run_id
from hookline.journal.chain import StoredRun, anchor
from hookline.journal.connection import (
    Readers,
    Synchronous,
    check_path,
    closed_error,
    forked_error,
    is_writable,
    open_for_reading,
    open_for_writing,
    read_only_error,
    size_of,
)
from hookline.journal.lease import take_lease
from hookline.journal.run_info import RunInfo
from hookline.journal.tables import Tables, Tail, add_runs, remove_runs
from hookline.journal.writer import SQLiteClaim, Writer


class SQLiteJournal(BaseJournal):
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
            raise UsageError(
                f"{path!r} is no path.", remedy='For example: SQLiteJournal("runs.db").'
            )
        path = os.fsdecode(path)
        if path in ("", ":memory:"):
            raise UsageError("a SQLite journal needs a file.", remedy="In memory: MemoryJournal().")
        self.given = os.path.abspath(path)
        """The path as it was given. Symbolic links in it may lead elsewhere at the next start."""
        self.path = os.path.realpath(path)
        check_path(self.path)
        self._pid = os.getpid()
        self._readers = Readers(self.path)
        self._claims: weakref.WeakSet[SQLiteClaim] = weakref.WeakSet()
        self._writer: Writer | None = None
        if is_writable(self.path):
            connection = open_for_writing(self.path, synchronous)
            self._writer = Writer(connection, self.path, waits_for_disk=synchronous == "FULL")
        else:
            open_for_reading(self.path).close()
        self._close = weakref.finalize(self, _close, self._readers, self._writer)

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
        writer = self._get_writer()
        release = self._lease(run_id)
        try:
            with self._snapshot() as tables:
                known = tables.end_of(run_id)
        except BaseException:
            release()
            raise
        info, tail = known or (RunInfo(run_id=run_id), Tail(run=0, records=0, head=anchor(run_id)))
        claim = SQLiteClaim(info, tail, release, writer, self)
        self._claims.add(claim)
        return claim

    def vacuum(self) -> int:
        """Give the space of deleted runs back to the disk, while others wait. Returns the number of bytes."""
        before = size_of(self.path)
        self._get_writer().do(_vacuum)
        return before - size_of(self.path)

    def close(self) -> None:
        """Write what is queued, give back what is claimed, and close the file."""
        if os.getpid() == self._pid:
            for claim in list(self._claims):
                claim.give_back()
        self._close()

    @contextmanager
    def _snapshot(self) -> Iterator[Tables]:
        self._check_open()
        with self._readers.snapshot() as connection:
            yield Tables(connection, self.path)

    def _lease(self, run_id: str) -> Release:
        self._get_writer()
        return take_lease(self.path, run_id).release

    def _add(self, runs: list[StoredRun]) -> None:
        self._get_writer().do(lambda connection: add_runs(connection, runs))

    def _remove(self, run_ids: list[str]) -> None:
        self._get_writer().do(lambda connection: remove_runs(connection, run_ids))

    def _get_writer(self) -> Writer:
        self._check_open()
        if self._writer is None:
            raise read_only_error(self.path)
        return self._writer

    def _check_open(self) -> None:
        if not self._close.alive:
            raise closed_error()
        if os.getpid() != self._pid:
            raise forked_error(self.path)


def _close(readers: Readers, writer: Writer | None) -> None:
    readers.close()  # first: only the last connection to close can put the log into the file
    if writer is not None:
        writer.close()


def _vacuum(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
