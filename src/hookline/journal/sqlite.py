"""Journals in a SQLite file, shared by many runs and many processes."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Self, get_args

from hookline.errors import JournalError, UsageError
from hookline.journal.base import BaseClaim, BaseJournal, Release, check_run_id
from hookline.journal.chain import StoredRun, anchor, link_all
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
    without_resume,
)
from hookline.journal.lease import take_lease
from hookline.journal.run_info import RunInfo
from hookline.journal.tables import (
    Tables,
    Tail,
    add_runs,
    insert_batch,
    insert_run,
    pack,
    remove_runs,
    update_run,
)
from hookline.journal.writer import Writer


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


class SQLiteClaim(BaseClaim):
    """Passes batches to the writer of the file."""

    def __init__(
        self, info: RunInfo, tail: Tail, release: Release, writer: Writer, journal: SQLiteJournal
    ) -> None:
        super().__init__(info, release)
        self.tail = tail
        """Changed only by whoever uses the connection that writes."""
        self._writer = writer
        self._journal = journal  # keeps the journal open: it closes when it is garbage

    def _put(self, bodies: list[bytes], before: RunInfo, after: RunInfo) -> Future[None]:
        return self._writer.write(RunBatch(self, bodies, before, after))

    def _can_wait(self) -> bool:
        # A forgotten run gives itself back during garbage collection, also in the middle of a commit.
        return not self._writer.is_used_here()


class RunBatch:
    """The records of one `write`, and how they change the run's summary."""

    __slots__ = ("_after", "_before", "_bodies", "_claim", "_records", "_tail_before", "size")

    def __init__(
        self, claim: SQLiteClaim, bodies: list[bytes], before: RunInfo, after: RunInfo
    ) -> None:
        self._claim = claim
        self._bodies = bodies
        self._before = before
        self._after = after
        self._tail_before: Tail | None = None
        self._records = pack(bodies)
        self.size = len(self._records)

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Insert the records, each linked to the one before it, and update the run."""
        claim = self._claim
        if (refusal := claim.refusal()) is not None:
            raise refusal
        self._tail_before = tail = claim.tail
        if tail.records != self._before.records:
            raise _out_of_order(claim.run_id, tail.records, self._before.records)
        links = link_all(tail.head, self._bodies)
        number = self._list_run(cursor, tail, links[-1])
        insert_batch(cursor, number, tail.records, links, self._records)
        claim.tail = Tail(run=number, records=tail.records + len(links), head=links[-1])

    def _list_run(self, cursor: sqlite3.Cursor, tail: Tail, head: bytes) -> int:
        """Update the run in the list, or insert it. Returns its number."""
        if not tail.run:
            try:
                return insert_run(cursor, self._after, head)
            except sqlite3.IntegrityError:
                raise _overtaken(self._claim.run_id) from None
        if not update_run(cursor, tail, self._before, self._after, head):
            raise _overtaken(self._claim.run_id)
        return tail.run

    def undo(self) -> None:
        """Forget what `write` did: the transaction was rolled back."""
        if self._tail_before is not None:
            self._claim.tail = self._tail_before

    def fail(self, error: JournalError) -> JournalError:
        """Note that it cannot be written, nor what follows it. Returns the error for whoever waits."""
        if not self._claim.tail.run and self._after.parent_run_id is None:
            error = without_resume(error)
        self._claim.fail(error)
        return error


def _overtaken(run_id: str) -> JournalError:
    """Somebody else has written to the run in spite of the lease."""
    return JournalError(
        f"run '{run_id}' has been written or deleted by someone else meanwhile.",
        remedy="Read it again before you continue, and see who removed the file that ends in -lease.",
    )


def _out_of_order(run_id: str, count: int, expected: int) -> JournalError:
    return JournalError(
        f"run '{run_id}' has {count} records, and was about to be written from its record {expected}.",
        remedy="This is a fault in Hookline. Resume the run: nothing that was written is lost.",
    )
