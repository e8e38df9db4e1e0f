"""What writes a journal file: whoever has something small to write, or a thread for what may take its time.

A commit that need not wait for the disk is some thirty microseconds of work. Handing it to a thread and being woken
when it is done costs more than that, so it is made where it is asked for. The thread is for the rest: where every
commit waits for the disk (`synchronous="FULL"`), for large batches, for clearing the log, for a file that somebody
else is writing, for a disk that has become slow, for what went wrong, and for work that is not a batch. Whatever is
queued while it works goes into its next transaction. As long as anything is queued nothing overtakes it.

Several runs in one event loop write in one transaction too, either way: what they write is gathered for one turn of
the loop.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

from hookline.errors import JournalError
from hookline.journal.claim import DONE
from hookline.journal.faults import BUSY_SECONDS, closed, fault, forked

T = TypeVar("T")

_SMALL = 64 * 1024
"""Bytes of a batch that is written where it is asked for: about a tenth of a millisecond."""
_SLOW_SECONDS = 0.05
_PAUSE_SECONDS = 0.5
"""How long the thread takes over after a commit was that slow: an event loop is not to wait for the disk."""
_PAGE = 4096
_LOG_PAGES = 1000
"""Pages in the log before it is cleared, as SQLite does by itself. Roughly counted."""
_PAGES_OF_A_BATCH = 3


class Batch(Protocol):
    """Records of one run that are written together or not at all."""

    @property
    def size(self) -> int:
        """Its bytes, about."""
        ...

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Put it into the tables, as a part of the transaction that is open. Raises when an earlier one failed."""
        ...

    def withdraw(self) -> None:
        """The transaction it was a part of is undone."""
        ...

    def fail(self, error: JournalError) -> JournalError:
        """It cannot be written, nor can what follows it. Gives the error as whoever waits is told it."""
        ...


class _Queued(NamedTuple):
    """A batch for the thread."""

    batch: Batch
    done: Future[None]


class _Job(NamedTuple):
    """Something else to be done with the connection that writes, in a transaction of its own if it wants one."""

    work: Callable[[sqlite3.Connection], Any]
    done: Future[Any]


class Writer:
    """Takes batches and jobs in order. The connection is used by one thread at a time: by the one that has `_using`."""

    def __init__(self, connection: sqlite3.Connection, path: str, *, waits_for_disk: bool) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # one for all batches: making them is not free
        self._path = path
        self._file = _identity(path)
        self._pid = os.getpid()
        self._waits_for_disk = waits_for_disk
        self._not_before = 0.0
        self._log_pages = _log_pages(path)
        # It would be whoever commits that waits.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        if not waits_for_disk:
            connection.execute("PRAGMA busy_timeout = 0")  # waiting is for the thread
        self._using = threading.Lock()
        self._user: int | None = None
        # Garbage may be collected, and write, while this thread has it.
        self._lock = threading.RLock()
        self._last_run = 0
        self._gathered: list[_Queued] = []
        self._queue: SimpleQueue[_Queued | _Job | None] = SimpleQueue()
        self._waiting = 0
        """How many are gathered, queued, or being done by the thread. Nothing overtakes them."""
        self._is_open = True
        self._thread: threading.Thread | None = None

    def write(self, batch: Batch) -> Future[None]:
        """Commit a batch, here and now if nothing speaks against it. The future is done when it is committed."""
        if os.getpid() != self._pid:
            raise forked(self._path)
        if self._waiting:
            done = self._gather(batch)
            self.write_gathered()
            return done
        if self._is_quick(batch.size) and self._is_written_here((batch,)):
            return DONE
        done = self._gather(batch)
        self._pass_on()
        return done

    def write_soon(self, batch: Batch, run: int) -> Future[None]:
        """The same in the next turn of the event loop that is running: several runs in it share a transaction."""
        if run == self._last_run:
            # Nobody else has written meanwhile, so there is nobody to share it with.
            return self.write(batch)
        self._last_run = run
        done = self._gather(batch)
        asyncio.get_running_loop().call_soon(self.write_gathered)
        return done

    def _gather(self, batch: Batch) -> Future[None]:
        """Keep a batch until `write_gathered` is called."""
        done: Future[None] = Future()
        # From here on it cannot be cancelled: what happened has happened, whoever stops waiting for its record.
        done.set_running_or_notify_cancel()
        with self._lock:
            self._check_usable()
            self._waiting += 1
            self._gathered.append(_Queued(batch, done))
        return done

    def write_gathered(self) -> None:
        """Commit what was gathered, here and now if nothing speaks against it."""
        if not self._gathered:
            return
        with self._lock:
            gathered, self._gathered = self._gathered, []
            batches = [each.batch for each in gathered]
            is_next = self._waiting == len(batches)
            is_written = False
            try:
                if is_next and self._is_quick(sum([batch.size for batch in batches])):
                    is_written = self._is_written_here(batches)
            finally:  # after an interruption they have failed: those who wait are told so
                if not is_written:
                    self._hand_over(gathered)
            if not is_written:
                return
            self._waiting -= len(gathered)
        for each in gathered:
            each.done.set_result(None)

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Have something done by the thread, and wait for it."""
        done: Future[T] = Future()
        with self._lock:
            self._check_usable()
            self._pass_on()
            self._waiting += 1
            self._hand_over([_Job(work, done)])
        return done.result()

    def is_used_here(self) -> bool:
        """Whether this very thread is writing now. It is asked when garbage is collected in the middle of that."""
        return self._user == threading.get_ident()

    def close(self) -> None:
        """Write what is queued, and close the connection."""
        if os.getpid() != self._pid:
            return  # it is the parent's connection, and closing it here would disturb the parent
        with self._lock:
            if not self._is_open:
                return
            self._pass_on()
            self._is_open = False
            self._queue.put(None)
        if self._thread is None:
            self._work_off_all()
            with self._using:
                self._connection.close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    # --- here and now ----------------------------------------------------------------------------------

    def _is_quick(self, size: int) -> bool:
        """Whether a commit of so many bytes is over in no time, as far as anyone can tell."""
        return (
            size <= _SMALL
            and not self._waits_for_disk
            and self._log_pages < _LOG_PAGES
            and time.monotonic() >= self._not_before
        )

    def _is_written_here(self, batches: Sequence[Batch]) -> bool:
        """Commit batches in this thread. False when that did not work: the other one waits, or tells what is wrong."""
        if not self._using.acquire(blocking=False):
            return False
        try:
            if not self._is_open:
                return False
            self._user = threading.get_ident()
            began = time.monotonic()
            self._transact(batches)
            now = time.monotonic()
            if now - began > _SLOW_SECONDS:
                self._not_before = now + _PAUSE_SECONDS
            return True
        except Exception:
            return False
        except BaseException as error:  # an interruption, before the commit or after it
            for batch in batches:
                batch.fail(self._as_ours(error))
            raise
        finally:
            self._user = None
            self._using.release()

    def _transact(self, batches: Sequence[Batch]) -> None:
        cursor = self._cursor
        try:
            self._check_in_place()
            cursor.execute("BEGIN IMMEDIATE")
            for batch in batches:
                batch.write(cursor)
                self._log_pages += _PAGES_OF_A_BATCH + batch.size // _PAGE
            cursor.execute("COMMIT")
        except BaseException:
            self._roll_back()
            for batch in reversed(batches):
                batch.withdraw()
            raise

    # --- in the thread ---------------------------------------------------------------------------------

    def _pass_on(self) -> None:
        """Leave what was gathered to the thread."""
        with self._lock:
            gathered, self._gathered = self._gathered, []
            if gathered:
                self._hand_over(gathered)

    def _hand_over(self, items: Sequence[_Queued | _Job]) -> None:
        for item in items:
            self._queue.put(item)
        if self._thread is not None:
            return
        # A daemon: a forgotten journal must not keep the process from ending. What is queued then is still
        # written, because closing is among the last things a process does.
        thread = threading.Thread(target=self._work, name="hookline-journal", daemon=True)
        try:
            thread.start()
            self._thread = thread
        except RuntimeError:
            # There is none to be had: the process is ending, or has too many. In the middle of a commit of this
            # very thread it waits for the next who comes by.
            if not self.is_used_here():
                self._work_off_all()

    def _work(self) -> None:
        while self._work_off(self._queue.get()):
            pass
        with self._using:
            self._connection.close()

    def _work_off_all(self) -> None:
        while not self._queue.empty():
            self._work_off(self._queue.get())

    def _work_off(self, item: _Queued | _Job | None) -> bool:
        """Do what came from the queue, with all batches behind it in one go. False: that was all."""
        queued: list[_Queued] = []
        while isinstance(item, _Queued):
            queued.append(item)
            if self._queue.empty():
                break
            item = self._queue.get()
        if queued:
            self._take_turn(len(queued), self._commit, queued)
        if isinstance(item, _Job):
            self._take_turn(1, self._do, item)
        return item is not None

    def _take_turn(self, count: int, work: Callable[[T], _Outcomes], item: T) -> None:
        """Work with the connection. Those who wait are told when the thread is done: they may go on without it."""
        with self._using:
            self._user = threading.get_ident()
            self._set_patience(BUSY_SECONDS)
            outcomes = work(item)
            self._set_patience(0)
            self._user = None
        with self._lock:
            self._waiting -= count
        for done, result, error in outcomes:
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

    def _set_patience(self, seconds: float) -> None:
        """How long the connection waits for others. Where the thread does everything, that is always the same."""
        if not self._waits_for_disk:
            with suppress(sqlite3.Error):
                self._connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")

    def _commit(self, queued: list[_Queued]) -> _Outcomes:
        if self._log_pages >= _LOG_PAGES:
            self._clear_log()
        try:
            self._transact([each.batch for each in queued])
        except BaseException as error:  # whoever waits must hear of it, whatever it is
            if len(queued) > 1:  # one run's trouble is not another's
                return [outcome for each in queued for outcome in self._commit([each])]
            ((batch, done),) = queued
            return [(done, None, batch.fail(self._as_ours(error)))]
        return [(each.done, None, None) for each in queued]

    def _do(self, job: _Job) -> _Outcomes:
        try:
            self._check_in_place()
            return [(job.done, job.work(self._connection), None)]
        except BaseException as error:
            self._roll_back()
            return [(job.done, None, self._as_ours(error))]

    def _clear_log(self) -> None:
        """Bring what is in the log into the file, and have it written from its beginning again."""
        # Before a commit, not after it: the first one in a cleared log waits for the disk too.
        self._log_pages = 0  # whoever still reads the log keeps it from being cleared: another time
        with suppress(sqlite3.Error):  # if something is wrong with the file, the commit tells
            self._cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # --- what may be wrong -----------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise forked(self._path)
        if not self._is_open:
            raise closed()

    def _check_in_place(self) -> None:
        # SQLite would go on writing to a file that was deleted or moved, and all of it would be lost.
        if _identity(self._path) != self._file:
            raise JournalError(
                f"the journal '{self._path}' was deleted, moved or replaced while it was open.",
                remedy="Put it back, or open the journal anew.",
            )

    def _roll_back(self) -> None:
        # On a broken disk even this may fail. What counts is what went wrong first.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _as_ours(self, error: BaseException) -> JournalError:
        if isinstance(error, JournalError):
            return error
        if isinstance(error, sqlite3.Error | OverflowError):
            return fault(error, self._path, "written")
        if not isinstance(error, Exception):
            return JournalError(
                f"writing the journal '{self._path}' was interrupted ({type(error).__name__}).",
                remedy="Resume the run.",
            )
        return JournalError(
            f"the journal '{self._path}' cannot be written: {type(error).__name__}: {error}.",
            remedy="This is a fault in Hookline, or the process ran out of memory.",
        )


_Outcomes = list[tuple[Future[Any], Any, JournalError | None]]
"""Whoever waits, with what they are told."""


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _log_pages(path: str) -> int:
    """How many pages the log may hold: others may have filled it, each of them too little to clear it."""
    try:
        return os.path.getsize(f"{path}-wal") // _PAGE
    except OSError:
        return 0
