"""The one connection that writes a journal file, and the claims that pass batches to it.

A commit that does not wait for the disk takes about thirty microseconds. A thread would cost more than that, so such
a commit is made by the caller. A thread does the rest: all commits with `synchronous="FULL"`, large batches,
checkpoints of the log, a file that another process is writing, a disk that has become slow, and retries after an
error. What is queued while the thread waits or works goes into its next transaction. No batch is written by a caller
while one is queued.

Rejected: one transaction for all runs of an event loop (ten runs were not measurably faster), and a
`ThreadPoolExecutor` (its `submit` holds a lock that is not reentrant, and garbage collection may write at any moment).
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeAlias, TypeVar

from hookline.errors import HooklineError, JournalError, RecordError, RunHandedOverError
from hookline.journal.chain import link_all
from hookline.journal.connection import (
    BUSY_SECONDS,
    close_writing,
    closed_error,
    forked_error,
    journal_error,
)
from hookline.journal.history import accept_loss as write_loss
from hookline.journal.history import end_of_history
from hookline.journal.last_commits import LIST, LastCommits, read_commits
from hookline.journal.losses import most_steps
from hookline.journal.record import Record
from hookline.journal.run_info import RunInfo, check_records, summarise
from hookline.journal.stored_form import StoredForm
from hookline.journal.tables import (
    RunEnd,
    Tables,
    continue_run,
    describe_run,
    description,
    has_run,
    insert_batch,
    insert_run,
    pack,
)
from hookline.journal.write_ahead_log import PAGE_SIZE, log_file

T = TypeVar("T")
Release: TypeAlias = Callable[[], Future[None] | None]
"""Ends a lease, which also ends when this function is garbage. A future is done when others can have the run."""

_SMALL = 64 * 1024
"""Bytes of a batch that the caller writes itself: about a tenth of a millisecond."""
_SLOW_SECONDS = 0.05
"""After a commit that took so long the thread takes over until one is quick: no event loop waits for a slow disk."""
_IN_PLACE_SECONDS = 0.02
"""For so long the file is taken to be where it was: to look costs a tenth of a commit."""
_LOG_PAGES = 2000
"""Pages in the log before a checkpoint: 4 MB, as SQLite's own default. The count is approximate."""
_PAGES_OF_A_BATCH = 3
_MOST_LOG_PAGES = 3 * _LOG_PAGES
"""Pages in the log before a checkpoint waits for readers."""
_READERS_SECONDS = 0.5
"""How long it waits. A reader that takes longer lets the log grow: by two thousand pages in that time."""
_CLEARING_SECONDS = 0.005
"""How often a process that waits for another one to clear a long log looks again."""


def _finished_future(error: HooklineError | None = None) -> Future[None]:
    future: Future[None] = Future()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    return future


class _Done(Future[None]):
    """Done from the beginning, so nobody needs a lock to ask it."""

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> None:  # noqa: ARG002 - it never waits
        return None


DONE: Future[None] = _Done()
"""For everything that was written at once. It is shared: a new future costs as much as an SQL statement."""
DONE.set_result(None)


class Writer:
    """Takes batches in order. Only the thread that holds `_using` uses the connection.

    A journal in memory has no path, and no file of last commits.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        commits: LastCommits | None,
        *,
        waits_for_disk: bool,
    ) -> None:
        self._connection = connection
        self._commits = commits
        self._cursor = connection.cursor()
        self._path = path or "in memory"
        self._file = path
        self._identity = _identity(path)
        self._seen_at = -math.inf
        self._pid = os.getpid()
        self._waits_for_disk = waits_for_disk
        self._is_slow = False
        self._log_pages = _log_pages(path) if path else -math.inf  # memory has no log
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # the caller would wait for it
        if not waits_for_disk:
            connection.execute("PRAGMA busy_timeout = 0")  # only the thread waits
        self._using = threading.Lock()
        self._user: int | None = None
        self._lock = threading.RLock()  # garbage collection may write while this thread has it
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._waiting = 0
        """How many batches are queued, or being committed by the thread."""
        self._is_open = True
        self._thread: threading.Thread | None = None

    def write(self, batch: Batch) -> Future[None]:
        """Commit a batch, at once if that is quick. The future is done when it is committed."""
        if os.getpid() != self._pid:
            raise forked_error(self._path)
        is_quick = (
            self._log_pages < _LOG_PAGES
            and not (self._waits_for_disk or self._is_slow or self._waiting)
            and len(batch.records) <= _SMALL
        )
        if is_quick and self._using.acquire(blocking=False):
            try:
                if self._is_open:
                    self._user = threading.get_ident()
                    self._transact((batch,))
                    return DONE
            except Exception:
                pass  # the thread waits, or reports the error
            except BaseException as error:  # an interruption, before the commit or after it
                batch.fail(self._to_journal_error(error))
                raise
            finally:
                self._user = None
                self._using.release()
        done: Future[None] = Future()
        batch.done = done
        done.set_running_or_notify_cancel()  # it cannot be cancelled: what happened is recorded
        self._enqueue(batch)
        return done

    def run_exclusively(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something else with the connection, when the thread does not use it. It opens its own transaction."""
        with self.turn() as connection:
            if not self._is_open:
                raise closed_error()
            try:
                self._check_in_place(time.monotonic())
                result = work(connection)
                self._note_history()
                if self._file and _log_pages(self._file) > 2 * _LOG_PAGES:  # one is not cut off
                    self._checkpoint()
                return result
            except Exception as error:
                raise self._to_journal_error(error) from error
            finally:
                self._roll_back()  # what is not committed

    def is_used_here(self) -> bool:
        """Whether this thread is writing now: garbage may be collected in the middle of that."""
        return self._user == threading.get_ident()

    def close(self) -> None:
        """Write what is queued, and close the connection."""
        if os.getpid() != self._pid:
            return  # it is the parent's connection; closing it here would disturb the parent
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._queue.put(None)
        if self._thread is None:
            self._write_queued()
            self._close_files()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    # --- by the caller ---------------------------------------------------------------------------------

    def _transact(self, batches: Sequence[Batch]) -> None:
        cursor = self._cursor
        began = time.monotonic()
        try:
            if began - self._seen_at > _IN_PLACE_SECONDS:
                self._check_in_place(began)
            if len(batches) == 1 and batches[0].is_one_statement:
                batches[0].write(cursor)
            else:
                cursor.execute("BEGIN IMMEDIATE")
                for batch in batches:
                    batch.write(cursor)
                cursor.execute("COMMIT")
        except BaseException:
            self._roll_back()
            for batch in reversed(batches):
                batch.undo()
            raise
        self._is_slow = time.monotonic() - began > _SLOW_SECONDS
        for batch in batches:
            self._log_pages += _PAGES_OF_A_BATCH + len(batch.records) // PAGE_SIZE
            if self._commits is not None:
                end, lost = batch.claim.tail, batch.claim.steps_before_loss
                steps = end.steps if lost is None else max(end.steps, lost)
                started_at = batch.after.started_at
                self._commits.note(end.run, end.records, end.head, steps, started_at)
                if batch.is_first:
                    self._note_history()

    def accept_loss(self) -> None:
        """Write that the end of the journal is lost, and continue with what is there."""
        known = read_commits(self._file)
        tables = Tables(self._connection, self._path)
        if tables.file_damage():  # of an index: with another damage it is not opened
            self.run_exclusively(lambda connection: connection.execute("REINDEX"))
        self.run_exclusively(
            lambda connection: write_loss(connection, partial(most_steps, tables, known))
        )
        if self._commits is not None:
            self._commits.forgive()
            self._note_history()

    def forget(self, number: int) -> None:
        """A run is about to be deleted."""
        if self._commits is not None:
            self._commits.forget(number)

    def _note_history(self) -> None:
        if self._commits is not None:
            number, link = end_of_history(self._cursor)
            if number:
                self._commits.note(LIST, number, link)

    # --- by the thread ---------------------------------------------------------------------------------

    def _enqueue(self, batch: Batch) -> None:
        with self._lock:
            if os.getpid() != self._pid:
                raise forked_error(self._path)
            if not self._is_open:
                raise closed_error()
            self._waiting += 1
            self._queue.put(batch)
            if self._thread is not None:
                return
            # A daemon, so that a forgotten journal does not keep the process alive. What is queued is still written,
            # because the journal is closed when the process exits.
            thread = threading.Thread(target=self._write_all, name="hookline-journal", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:
                # No thread can be started: the process is exiting, or has too many. In the middle of a commit of this
                # thread the batch waits for the next caller.
                if not self.is_used_here():
                    self._write_queued()

    def _write_all(self) -> None:
        while self._write_batches(self._queue.get()):
            pass
        self._close_files()

    def _close_files(self) -> None:
        with self._using:
            close_writing(self._connection)
            if self._commits is not None:
                self._commits.close()

    def _write_queued(self) -> None:
        while not self._queue.empty():
            self._write_batches(self._queue.get())

    def _write_batches(self, first: Batch | None) -> bool:
        """Commit a batch, and all that are queued behind it, in one transaction. False for the end of the queue."""
        batches: list[Batch] = []
        with self.turn():
            item = first
            while item is not None:
                batches.append(item)
                if self._queue.empty():
                    break
                item = self._queue.get()
            if batches:
                self._commit(batches)
        with self._lock:
            self._waiting -= len(batches)
        for batch in batches:  # the waiting caller may write without the thread now
            batch.settle()
        return item is not None

    @contextmanager
    def turn(self) -> Iterator[sqlite3.Connection]:
        """Use the connection, and wait for other processes."""
        with self._using:
            self._user = threading.get_ident()
            self._set_busy_timeout(BUSY_SECONDS)
            try:
                yield self._connection
            finally:
                self._set_busy_timeout(0)
                self._user = None

    def _set_busy_timeout(self, seconds: float) -> None:
        if not self._waits_for_disk:  # otherwise only the thread writes, and it always waits
            with suppress(sqlite3.Error):
                self._connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")

    def _commit(self, batches: list[Batch]) -> None:
        if self._log_pages >= _LOG_PAGES:
            self._checkpoint()
        try:
            self._transact(batches)
        except BaseException as error:  # the waiting caller must get it, whatever it is
            if len(batches) > 1:  # one run's error is not another's
                for batch in batches:
                    self._commit([batch])
            else:
                batches[0].fail(self._to_journal_error(error))

    def _checkpoint(self) -> None:
        """Copy the log into the file, so that it is written from its beginning again."""
        # Before a commit, not after it: the first commit after a checkpoint waits for the disk too.
        self._log_pages = 0  # a reader may prevent it this time
        with suppress(sqlite3.Error):  # if the file is damaged, the commit reports it
            if self._copy_log() > _MOST_LOG_PAGES:
                # Somebody was reading each time the log could have begun again. This one keeps writers out until the
                # readers of now are done; those who come later read the file alone.
                self._cursor.execute(f"PRAGMA busy_timeout = {_READERS_SECONDS * 1000:.0f}")
                self._cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        with suppress(sqlite3.Error):
            # Not with our cursor: it would have a row to fetch, and nobody could vacuum.
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    def _copy_log(self) -> int:
        """Copy as much of the log as readers allow. Returns the number of its pages."""
        deadline = time.monotonic() + _READERS_SECONDS
        while True:
            query = "PRAGMA wal_checkpoint(PASSIVE)"
            is_busy, pages, _ = self._cursor.execute(query).fetchone()
            is_long = _log_pages(self._file) > _MOST_LOG_PAGES
            if not (is_busy and is_long) or time.monotonic() > deadline:
                return int(pages)
            # Another process is at it, and waits until nobody writes.
            time.sleep(_CLEARING_SECONDS)

    # --- errors ----------------------------------------------------------------------------------------

    def _check_in_place(self, now: float) -> None:
        # SQLite would continue to write to files that were deleted or moved, and all of it would be lost.
        self._seen_at = now
        if _identity(self._file) != self._identity:
            self._seen_at = -math.inf
            raise JournalError(
                f"the journal '{self._path}', or its log, was deleted, moved or replaced while it was open.",
                remedy="Put it back, or open the journal again. Does the program itself open and close the file? "
                "That drops the locks of SQLite.",
            )

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # on a broken disk this may fail too; the first error counts
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _to_journal_error(self, error: BaseException) -> JournalError:
        if isinstance(error, JournalError):
            return error
        if isinstance(error, sqlite3.Error | OverflowError):
            return journal_error(error, self._path, "written")
        if not isinstance(error, Exception):
            return JournalError(
                f"writing the journal '{self._path}' was interrupted ({type(error).__name__}).",
                remedy="Resume the run.",
            )
        return JournalError(
            f"the journal '{self._path}' cannot be written: {type(error).__name__}: {error}.",
            remedy="This is a fault in Hookline, or the process ran out of memory.",
        )


def _identity(path: str) -> list[tuple[int, int]]:
    """Which file a journal is, and which one its log; nothing in memory."""
    found: list[tuple[int, int]] = []
    for each in (path, log_file(path)) if path else ():
        with suppress(OSError):
            facts = os.stat(each)
            found.append((facts.st_dev, facts.st_ino))
    return found


def _log_pages(path: str) -> int:
    """The number of pages in the log: other processes may have filled it."""
    try:
        return os.path.getsize(f"{path}-wal") // PAGE_SIZE
    except OSError:
        return 0


# --- what is written -----------------------------------------------------------------------------------


class _Reads(Protocol):
    """A journal, as far as a claim needs it."""

    def read(self, run_id: str) -> list[Record]: ...


class BatchWriter(Protocol):
    """The part of a journal that writes batches: what a claim needs of it."""

    def write(self, batch: Batch) -> Future[None]: ...


class RunClaim:
    """Encodes records and passes them to the writer. After a failure nothing more is written."""

    def __init__(
        self,
        info: RunInfo,
        tail: RunEnd,
        release: Release,
        writer: BatchWriter,
        journal: _Reads,
        steps_before_loss: int | None = None,
    ) -> None:
        self.run_id = info.run_id
        self._info = info
        self.steps_before_loss = steps_before_loss
        """How many steps it may have made when the end of the journal was lost; None if it was not."""
        self.tail = tail
        """Changed only while the writing connection is in use."""
        self._release = release
        self._writer = writer
        self._journal = journal  # keeps the journal open: it closes when it is garbage
        self._form = StoredForm()
        self._has_past = tail.records > 0 and info.kind == "run"
        """Somebody has written to it before, and may have left a step unfinished."""
        self._latest = DONE
        self.failure: HooklineError | None = None
        self._is_held = True
        self._lock = threading.Lock()

    def write(self, records: Sequence[Record]) -> Future[None]:
        """Write records, in order. The future is done when they are committed, and fails if they cannot be."""
        with self._lock:
            if not self._is_held:
                return _finished_future(_given_back_error(self.run_id))
            if self.failure is not None:
                return _finished_future(self.refusal())
            if not records:
                return self._latest
            problem: HooklineError
            try:
                check_records(self.run_id, records)
                if self._has_past:  # before anything of ours is queued
                    self._has_past = False
                    self._form.see(self._journal.read(self.run_id))
                bodies = list(map(self._form.encode, records))
                before, self._info = self._info, summarise(self._info, records)
                self._latest = self._writer.write(Batch(self, bodies, before, self._info))
                return self._latest
            except HooklineError as error:
                problem = error
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                problem = RecordError(
                    f"a record of run '{self.run_id}' cannot be written: {error}.",
                    remedy="Records hold JSON only: see which hook or tool put something else there.",
                )
            self.fail(problem)
            self._latest = _finished_future(problem)
            return self._latest

    @property
    def is_lost(self) -> bool:
        """Whether another process may have the run by now."""
        return isinstance(self.failure, RunHandedOverError)

    def fail(self, error: HooklineError) -> None:
        """Note that a write has failed."""
        self.failure = self.failure or error

    def refusal(self) -> JournalError:
        """Why nothing more is written, once a write has failed: a journal has no holes."""
        error = self.failure
        assert error is not None
        is_known = isinstance(error, RunHandedOverError | RecordError)
        kind: type[JournalError] = type(error) if is_known else JournalError  # type: ignore[assignment]
        words = f"run '{self.run_id}' is not written any more, because a write has failed:"
        return kind(f"{words} {error.message}", remedy=error.remedy)

    def give_back(self) -> Future[None]:
        """Let others have the run when what is queued is written. The future is done when they can."""
        with self._lock:
            self._is_held = False
            latest = self._latest
        if latest.done():
            return self._release() or DONE
        given: Future[None] = Future()

        def release(_: Future[None]) -> None:
            (self._release() or DONE).add_done_callback(lambda _: given.set_result(None))

        latest.add_done_callback(release)
        return given


class Batch:
    """The records of one `write`, and how they change the run's summary."""

    done: Future[None] | None = None
    """For the caller that waits. A batch that is committed at once has none, because it is expensive."""
    _tail_before: RunEnd | None = None
    _error: JournalError | None = None

    def __init__(
        self, claim: RunClaim, bodies: list[bytes], before: RunInfo, after: RunInfo
    ) -> None:
        self.claim = claim
        self.bodies = bodies
        self.records = pack(bodies)
        self.after = after
        self.position = before.records
        """Of the first record in the run."""
        self.is_first = not before.records
        """Whether it creates the run."""
        self.is_one_statement = not self.is_first and description(before) == description(after)
        """Whether it only continues the run, so that its transaction is one statement."""
        self.earlier = None if before.continues == after.continues else after.continues
        """The run whose conversation the run continues from this batch on. It must not be deleted meanwhile."""

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Insert the records, each linked to the one before it, and update the run."""
        tail, links = self.begin()
        number = tail.run
        try:
            if self.earlier is not None and not has_run(cursor, self.earlier):
                raise deleted_error(self.claim.run_id, self.earlier)
            if not number:
                number = insert_run(cursor, self.after, links[-1])
                insert_batch(cursor, number, 0, links, self.records)
            else:
                continue_run(cursor, tail, self.after, links, self.records)
                if not self.is_one_statement:
                    describe_run(cursor, number, self.after)
        except sqlite3.IntegrityError:
            raise conflict_error(self.claim.run_id) from None
        self.advance(number, links)

    def begin(self) -> tuple[RunEnd, list[bytes]]:
        """Where the run ends, and the links of the records that follow. Raises when they cannot follow."""
        claim = self.claim
        if claim.failure is not None:
            raise claim.refusal()
        self._tail_before = tail = claim.tail
        if tail.records != self.position:
            raise _out_of_order(claim.run_id, tail.records, self.position)
        return tail, link_all(tail.head, self.bodies)

    def advance(self, number: int, links: list[bytes]) -> None:
        """The run, which has this number, ends with these records now."""
        after = self.after
        self.claim.tail = RunEnd(number, after.records, links[-1], after.steps)

    def undo(self) -> None:
        """Forget what `write` did: the transaction was rolled back."""
        if self._tail_before is not None:
            self.claim.tail = self._tail_before

    def fail(self, error: JournalError) -> None:
        """Note that it cannot be written, nor what follows it."""
        self._error = error
        self.claim.fail(error)

    def settle(self) -> None:
        """Report to the caller that waits."""
        assert self.done is not None
        if self._error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self._error)


def _given_back_error(run_id: str) -> JournalError:
    """Its owner has given it back, or closed the journal."""
    return JournalError(
        f"run '{run_id}' is not claimed any more, or its journal is closed: it cannot be written.",
        remedy="Close a journal when its runs are over. Claim the run again: journal.claim(run_id).",
    )


def conflict_error(run_id: str) -> JournalError:
    """Somebody else has written to the run in spite of the lease."""
    return RunHandedOverError(
        f"run '{run_id}' was written or deleted by another process or task.",
        remedy="Read it again before you continue. Next to a file, see who removed the file that ends in -lease.",
    )


def deleted_error(run_id: str, earlier: str) -> JournalError:
    """The run that it continues is gone."""
    return JournalError(
        f"run '{run_id}' cannot begin: run '{earlier}', which it continues, was deleted meanwhile.",
        remedy="Begin it again with the state, or in another session.",
    )


def _out_of_order(run_id: str, count: int, expected: int) -> JournalError:
    return JournalError(
        f"run '{run_id}' has {count} records, and was about to be written from its record {expected}.",
        remedy="This is a fault in Hookline. Resume the run: nothing that was written is lost.",
    )
