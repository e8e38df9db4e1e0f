"""The one thread that writes a journal file. Whatever is queued while it works goes into its next transaction."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from hookline.errors import JournalError, UsageError
from hookline.journal.faults import fault

T = TypeVar("T")


class Batch(Protocol):
    """Records of one run that are written together or not at all."""

    def refusal(self) -> JournalError | None:
        """Why it may not be written, if it may not: an earlier batch of the run was not."""
        ...

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Put it into the tables, as a part of the transaction that is open."""
        ...

    def withdraw(self) -> None:
        """The transaction it was a part of is undone."""
        ...

    def settle(self, error: JournalError | None) -> None:
        """It is committed, or it cannot be."""
        ...


class Job:
    """Something else to be done with the connection that writes, in a transaction of its own if it wants one."""

    def __init__(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        self.work = work
        self.done: Future[Any] = Future()


class Writer:
    """Takes batches and jobs in order."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # one for all batches: making them is not free
        self._path = path
        self._file = _identity(path)
        self._pid = os.getpid()
        self._queue: SimpleQueue[Batch | Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self._thread: threading.Thread | None = None

    def submit(self, item: Batch | Job) -> None:
        """Queue something."""
        if os.getpid() != self._pid:
            raise forked(self._path)
        with self._lock:  # or it might be queued behind the end
            if not self._is_open:
                raise closed()
            if self._thread is None:
                self._start()
            self._queue.put(item)

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Have something done by the thread that writes, and wait for it."""
        job = Job(work)
        self.submit(job)
        result: T = job.done.result()
        return result

    def _start(self) -> None:
        # A daemon: a forgotten journal must not keep the process from ending. What is queued then is still
        # written, because closing is among the last things a process does.
        self._thread = threading.Thread(target=self._work, name="hookline-journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is queued, and close the connection."""
        if os.getpid() != self._pid:
            return  # it is the parent's connection, and closing it here would disturb the parent
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._queue.put(None)
        if self._thread is None:
            self._connection.close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    # --- in the thread ---------------------------------------------------------------------------------

    def _work(self) -> None:
        queue = self._queue
        while True:
            item = queue.get()
            batches = []
            while item is not None and not isinstance(item, Job):
                batches.append(item)
                if queue.empty():
                    break
                item = queue.get()
            if batches:
                self._commit(batches)
            if isinstance(item, Job):
                self._do(item)
            elif item is None:
                break
            del batches, item  # what they belong to may be given up before there is more to do
        self._connection.close()

    def _commit(self, batches: list[Batch]) -> None:
        error = self._transact(batches)
        if error is None:
            for batch in batches:
                batch.settle(None)
        elif len(batches) == 1:
            batches[0].settle(error)
        else:  # one run's trouble is not another's
            for batch in batches:
                self._commit([batch])

    def _transact(self, batches: list[Batch]) -> JournalError | None:
        cursor = self._cursor
        try:
            self._check_in_place()
            cursor.execute("BEGIN IMMEDIATE")
            for batch in batches:
                if (refusal := batch.refusal()) is not None:
                    raise refusal
                batch.write(cursor)
            cursor.execute("COMMIT")
        except BaseException as error:  # whoever waits must hear of it, whatever it is
            self._roll_back()
            for batch in reversed(batches):
                batch.withdraw()
            return self._as_ours(error)
        return None

    def _do(self, job: Job) -> None:
        try:
            self._check_in_place()
            job.done.set_result(job.work(self._connection))
        except BaseException as error:
            self._roll_back()
            job.done.set_exception(self._as_ours(error))

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
        return JournalError(
            f"the journal '{self._path}' cannot be written: {type(error).__name__}: {error}.",
            remedy="This is a fault in Hookline, or the process ran out of memory.",
        )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def closed() -> UsageError:
    """Why nothing can be done with a journal any more."""
    return UsageError("this journal is closed.", remedy="Open it again: SQLiteJournal(path).")


def forked(path: str) -> JournalError:
    """Why a journal that was opened before a fork is of no use after it."""
    return JournalError(
        f"the journal '{path}' was opened before this process was forked, and stays with its parent.",
        remedy="Open it again in the child: SQLiteJournal(path).",
    )
