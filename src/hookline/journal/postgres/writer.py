"""The one connection that writes a journal in PostgreSQL.

Each batch is one statement. It changes the run and adds the records only if the run still ends where it ended and the
server process is the one that has the lock on the run; otherwise it does nothing. So batches of many runs share a
transaction, one round trip and one commit, and the failure of one is none of another.

Locks on runs belong to this connection. Whoever loses the connection has lost the locks, and cannot write any more.

An event loop that writes sends the statement itself, and has its selector wait for the answer. It never waits for the
connection: when another thread uses it, and for everything that is large or goes wrong, the thread of the writer does
the work. What is written meanwhile is the next transaction. Whoever needs the connection while an answer is on its way
waits for that answer in the place of the loop, and so does the thread when a loop has not come for it in time: loops
stop, end, or are busy.

Rejected: the thread for every commit (a step changes four times between threads and processes, a plain insert twice,
and a step cost 1.8 inserts), an event loop in the thread (the same changes), and a connection for each event loop (the
locks belong to a connection, and a run may be written from several loops).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import psycopg

from hookline.errors import (
    HooklineError,
    JournalError,
    RecordError,
    RunHandedOverError,
    RunInUseError,
)
from hookline.journal.connection import closed_error, forked_error
from hookline.journal.postgres.database import (
    Connection,
    Database,
    ask_one,
    is_lost,
    to_column,
)
from hookline.journal.postgres.exchange import AnswerReader, CommitExchange
from hookline.journal.postgres.schema import connect
from hookline.journal.postgres.statements import (
    PREPARED,
    BoundStatement,
    bind_batch,
    bind_list_lock,
    have_list_alone,
    lock_key,
)
from hookline.journal.writer import Batch, conflict_error, deleted_error

T = TypeVar("T")

LARGEST_RECORD = 64 * 1024 * 1024
"""Bytes of a record. PostgreSQL itself could take a gigabyte, and a reader would have to have it in memory."""
_SMALL = 64 * 1024
"""Bytes of a batch that an event loop sends itself: hashing them takes about a tenth of a millisecond."""
_PATIENCE_SECONDS = 1.0
"""So long, and at most twice as long, an answer waits for the loop that has sent the statement."""

_HOLDER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = %s AND objsubid = 1
"""

_Call: TypeAlias = Literal["work", "watch", "end"]
"""What the thread is woken for: something is queued, a loop has sent something, or the writer is closed."""


class _Commit(NamedTuple):
    """Batches on their way to the server."""

    batches: list[Batch]
    exchange: CommitExchange
    loop: asyncio.AbstractEventLoop | None
    """The event loop that sent them and takes the answer."""

    def find_refused(self) -> list[Batch]:
        """Those that the server has not written."""
        rows = self.exchange.rows[-len(self.batches) :]
        if rows.count(1) == len(self.batches):
            return []
        return [batch for batch, added in zip(self.batches, rows, strict=True) if added != 1]


class PostgresLease:
    """The right to write a run, until it is released or garbage, or the connection is lost."""

    def __init__(self, writer: PostgresWriter, run_id: str, pid: int) -> None:
        self._writer: PostgresWriter | None = writer
        self.run_id = run_id
        self.pid = pid
        """The server process that has the lock."""

    def release(self) -> Future[None] | None:
        """Let others have the run. The future is done when they can."""
        writer, self._writer = self._writer, None
        return None if writer is None else writer.release(self.run_id, self.pid)

    __del__ = release


class PostgresWriter:
    """Takes batches in order, and gives leases. Only the thread that holds `_using` uses the connection.

    An event loop never waits for `_using`. While it waits for an answer, it does not hold it.
    """

    def __init__(self, database: Database, on_loss: Callable[[], None]) -> None:
        self._database = database
        self._on_loss = on_loss
        self._pid = os.getpid()
        self._using = threading.RLock()
        self._user: int | None = None
        self._connection: Connection | None = None
        self._held: dict[str, int] = {}
        """The runs that are leased, with the server process that has the lock."""
        self._released: deque[tuple[str, int, Future[None]]] = deque()
        """Leases to end. Garbage is collected at any moment, so nobody waits for the connection to end one."""
        self._queue: deque[Batch] = deque()
        """What is not sent yet. Whoever holds `_using` takes from it."""
        self._commit: _Commit | None = None
        """What is on its way. Whoever holds `_using` may finish it."""
        self._commits = 0
        """How many were sent."""
        self._reader: AnswerReader | None = None
        """Of the event loop that has written last."""
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._is_watched = False
        """Whether the thread looks now and then if a loop has forgotten its answer."""
        self._lock = threading.RLock()  # garbage collection may write while this thread has it
        self._is_open = True
        self._thread: threading.Thread | None = None

    # --- leases ----------------------------------------------------------------------------------------

    def lease(self, run_id: str) -> PostgresLease:
        """Lock a run. Raises RunInUseError when somebody has it, also in this process."""
        key = lock_key("run", self._database.schema, run_id)

        def take(connection: Connection) -> PostgresLease:
            self._unlock_all()
            if run_id in self._held:
                ask_one(connection, "SELECT 1")  # if it is lost, nobody has the run
                raise RunInUseError(
                    f"run '{run_id}' is already running in this process ({os.getpid()}).",
                    remedy="Wait for it to end or pause, or cancel it: agent.cancel(run_id).",
                )
            query = "SELECT pg_try_advisory_lock(%s), pg_backend_pid()"
            is_mine, pid = ask_one(connection, query, key)
            if not is_mine:
                holder = connection.execute(_HOLDER, (key,)).fetchone()
                raise RunInUseError(
                    f"run '{run_id}' is already running in {_describe_holder(holder[0] if holder else '')}.",
                    remedy="Wait for it, or end that process: the run is free as soon as its connection has ended.",
                )
            self._held[run_id] = pid
            return PostgresLease(self, run_id, pid)

        with self._exclusive_use():
            connection = self._connection
            try:
                return self.run(take)
            except JournalError:
                if connection is None or self._connection is not None:
                    raise
                return self.run(take)  # the connection was lost while nobody used it

    def release(self, run_id: str, pid: int) -> Future[None] | None:
        """Unlock a run, in the thread: the caller may be an event loop, or the garbage collector."""
        if os.getpid() != self._pid:
            return None
        freed: Future[None] = Future()
        with self._lock:
            if not self._is_open:
                return None
            self._released.append((run_id, pid, freed))
        self._wake_thread()
        return freed

    def _unlock_all(self) -> None:
        while self._released:
            run_id, pid, freed = self._released.popleft()
            if self._held.get(run_id) == pid:
                del self._held[run_id]
                if self._connection is not None:
                    key = lock_key("run", self._database.schema, run_id)
                    with suppress(psycopg.Error):  # without the connection the lock is gone
                        self._connection.execute("SELECT pg_advisory_unlock(%s)", (key,))
            freed.set_result(None)

    # --- writing ---------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Future[None]:
        """Commit a batch. The future is done when it is committed."""
        if os.getpid() != self._pid:
            raise forked_error(str(self._database))
        if len(batch.records) > LARGEST_RECORD:
            for body in batch.bodies:
                if len(body) > LARGEST_RECORD:
                    raise _too_large_error(batch.after.run_id, body)
        done: Future[None] = Future()
        batch.done = done
        done.set_running_or_notify_cancel()  # it cannot be cancelled: what happened is recorded
        with self._lock:
            if not self._is_open:
                raise closed_error()
            self._queue.append(batch)
        if not self._try_in_loop():
            self._wake_thread()
        return done

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do something else with the connection, in this thread."""
        if os.getpid() != self._pid:
            raise forked_error(str(self._database))
        with self._exclusive_use():
            try:
                return work(self._connect())
            except psycopg.Error as error:
                problem = self._database.journal_error(error, "written")
                self._note_loss()
                raise problem from None

    def run_exclusively(self, work: Callable[[Connection], T]) -> T:
        """Do something in a transaction in which nobody else creates or deletes a run, or posts a message."""

        def do(connection: Connection) -> T:
            with connection.transaction():
                have_list_alone(connection, self._database)
                return work(connection)

        return self.run(do)

    def close(self) -> None:
        """Write what is queued, and close the connection."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._calls.put("end")
            thread = self._thread
        if thread is None:
            self._end()
        elif thread is not threading.current_thread():
            thread.join()

    @contextmanager
    def _exclusive_use(self) -> Iterator[None]:
        """Use the connection, when what is on its way has arrived."""
        before = None
        try:
            with self._using:
                before, self._user = self._user, threading.get_ident()
                try:
                    if before is None:
                        self._finish()
                    yield
                finally:
                    self._user = before
        finally:
            if before is None and self._queue:
                self._wake_thread()  # the loop that has queued it waited for what this thread has finished

    # --- by an event loop ------------------------------------------------------------------------------

    def _try_in_loop(self) -> bool:
        """Send what is queued, if an event loop runs in this thread. It does not block. False: the thread does it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if not self._using.acquire(blocking=False):
            return False
        try:
            if self._user is not None:  # garbage was collected while this thread uses it
                return False
            if self._commit is not None:
                return self._commit.loop is loop  # it sends what is queued after that
            return self._try_send(loop)
        finally:
            self._using.release()

    def _try_send(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Send what is queued. False if the thread has to do something about it."""
        connection = self._connection
        if connection is None or any(len(batch.records) > _SMALL for batch in self._queue):
            return False
        self._user = threading.get_ident()
        try:
            self._commit = self._send(connection, self._take_queue(), loop)
            # What does not fit into the buffer of the socket is large too.
            return (
                self._commit.exchange.is_sent and self._ensure_watch() and self._start_reader(loop)
            )
        finally:
            self._user = None

    def _start_reader(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Let the loop wait for the answer. False if it cannot."""
        reader = self._reader
        if reader is None or reader.loop is not loop:
            self._forget_reader()
            assert self._connection is not None
            reader = self._reader = AnswerReader(self._connection, loop, self._read_answer)
        try:
            reader.start()
        except NotImplementedError:
            return False
        return True

    def _forget_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _read_answer(self, reader: AnswerReader) -> None:
        """Take an answer in the event loop, and send what was queued meanwhile."""
        # A commit keeps its journal. One that becomes garbage now would be closed now, which waits for `_using`.
        commit = self._commit
        is_mine = commit is not None and commit.loop is reader.loop
        if commit is None or not is_mine or not self._using.acquire(blocking=False):
            reader.stop()  # it is the answer to a thread
            return
        try:
            is_written = self._commit is commit and self._take_answer(commit, reader)
        finally:
            self._using.release()
        if is_written:
            for batch in commit.batches:
                batch.settle()

    def _take_answer(self, commit: _Commit, reader: AnswerReader) -> bool:
        """Take the answer. False when it is not complete, or the thread has to see to it."""
        if not commit.exchange.is_done:
            commit.exchange.advance()
            if not commit.exchange.is_done:
                return False
        if commit.exchange.error is not None or commit.find_refused():
            reader.stop()
            self._wake_thread()  # the thread asks why, or tries again
            return False
        self._commit = None
        if self._queue and not self._try_send(reader.loop):
            self._wake_thread()
        return True

    # --- by the thread ---------------------------------------------------------------------------------

    def _wake_thread(self) -> None:
        """Let the thread see to everything. If there cannot be one, this thread does."""
        if self._ensure_thread():
            self._calls.put("work")
        elif self._user != threading.get_ident():  # what is queued during a use waits for its end
            self._write_queued()

    def _ensure_watch(self) -> bool:
        """Let the thread look after answers that no loop comes for. False when there is no thread."""
        if not self._is_watched and self._ensure_thread():
            self._is_watched = True
            self._calls.put("watch")
        return self._is_watched

    def _ensure_thread(self) -> bool:
        """Start the thread. False when there cannot be one: the process is exiting, or has too many."""
        with self._lock:
            if self._thread is None and self._is_open:
                thread = threading.Thread(
                    target=self._run_thread, name="hookline-journal", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
            return self._thread is not None

    def _run_thread(self) -> None:
        """Do what the thread is woken for, until the end."""
        commits = 0
        while True:
            try:
                call = self._calls.get(timeout=_PATIENCE_SECONDS if self._is_watched else None)
            except Empty:
                call = "watch" if commits != self._commits else "work"
            commits = self._commits
            if call == "end":
                break
            if call == "work":
                self._write_queued()
        self._end()

    def _write_queued(self) -> None:
        """Finish what is on its way, and write what is queued."""
        with self._exclusive_use():
            while self._queue or self._released:
                if self._queue:
                    self._write(self._take_queue())
                self._unlock_all()
            self._is_watched = False  # nothing is on its way

    def _end(self) -> None:
        self._write_queued()
        with self._exclusive_use():
            self._forget_reader()
            if self._connection is not None:
                self._connection.close()

    def _take_queue(self) -> list[Batch]:
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def _write(self, batches: list[Batch]) -> None:
        """Commit batches together, in one transaction."""
        try:
            self._commit = self._send(self._connect(), batches)
        except Exception as error:
            self._recover(batches, error)
        else:
            self._finish()

    def _finish(self) -> None:
        """Wait for what is on its way, and report it."""
        if self._commit is None:
            return
        commit = self._commit
        try:
            commit.exchange.wait()
        finally:
            self._commit = None
        if commit.exchange.error is not None:
            self._recover(commit.batches, commit.exchange.error)
            return
        for batch in commit.find_refused():
            batch.undo()
            batch.fail(self._refusal_error(batch))
        for batch in commit.batches:
            batch.settle()

    def _recover(self, batches: list[Batch], error: Exception) -> None:
        """Nothing of a transaction was written. Without the connection it has failed; otherwise each is tried alone."""
        problem = self._to_journal_error(error)
        for batch in reversed(batches):
            batch.undo()
        if self._note_loss() or len(batches) == 1:
            for batch in batches:
                batch.fail(problem)
                batch.settle()
        else:  # one run's error is not another's
            for batch in batches:
                self._write([batch])

    def _send(
        self,
        connection: Connection,
        batches: list[Batch],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> _Commit:
        """Send batches as one transaction, without those that cannot follow what their run has."""
        sent: list[Batch] = []
        statements: list[BoundStatement] = []
        for batch in batches:
            try:
                statements.append(bind_batch(batch, self._held.get(batch.after.run_id, 0)))
                sent.append(batch)
            except Exception as error:
                batch.undo()
                batch.fail(self._to_journal_error(error))
                batch.settle()
        if any(batch.is_first or batch.earlier is not None for batch in sent):
            statements.insert(0, bind_list_lock(self._database))
        self._commits += 1
        return _Commit(sent, CommitExchange(connection, statements), loop)

    def _connect(self) -> Connection:
        if not self._is_open and self._connection is None:
            raise closed_error()
        if self._connection is None:
            connection = connect(self._database)
            connection.prepare_threshold = None  # psycopg would deallocate statements of ours
            for statement in PREPARED:
                statement.prepare(connection)
            self._connection = connection
        return self._connection

    # --- errors ----------------------------------------------------------------------------------------

    def _note_loss(self) -> bool:
        """Whether the connection is lost, and with it every lease."""
        if self._connection is None or not is_lost(self._connection):
            return False
        self._connection = None
        self._forget_reader()
        self._held.clear()
        self._on_loss()
        return True

    def _refusal_error(self, batch: Batch) -> JournalError:
        """Why the server has not written a batch."""
        run_id, earlier = batch.after.run_id, batch.earlier
        if run_id not in self._held:
            return lost_error(run_id)
        try:
            if earlier is not None and not self._has_run(earlier):
                return deleted_error(run_id, earlier)
        except JournalError as problem:  # the connection was lost meanwhile
            return problem
        return conflict_error(run_id)

    def _has_run(self, run_id: str) -> bool:
        query = "SELECT EXISTS (SELECT 1 FROM runs WHERE run_id = %s)"
        return bool(self.run(lambda connection: ask_one(connection, query, to_column(run_id))[0]))

    def _to_journal_error(self, error: Exception) -> JournalError:
        if isinstance(error, JournalError):
            return error
        if isinstance(error, psycopg.Error):
            return self._database.journal_error(error, "written")
        if isinstance(error, HooklineError):
            return JournalError(error.message, remedy=error.remedy)
        return JournalError(
            f"the journal in {self._database} cannot be written: {type(error).__name__}: {error}.",
            remedy="This is a fault in Hookline, or the process ran out of memory.",
        )


def lost_error(run_id: str) -> RunHandedOverError:
    """Another process may have the run by now."""
    return RunHandedOverError(
        f"run '{run_id}' cannot be written: the connection that had the lock on it is lost.",
        remedy="Resume the run: what was committed is there.",
    )


def _describe_holder(application: str) -> str:
    kind, _, rest = application.partition(" ")
    host, _, pid = rest.rpartition(" ")
    return f"process {pid} on {host}" if kind == "hookline" and host else "another process"


def _too_large_error(run_id: str, body: bytes) -> RecordError:
    record = msgspec.json.decode(body)
    calls = [record.get("call"), record.get("result"), *record.get("calls", ())]
    names = sorted({call["name"] for call in calls if call and call.get("name")})
    tool = f"a record of tool '{', '.join(names)}'" if names else f"a record ({record['type']})"
    return RecordError(
        f"{tool} in run '{run_id}' has {len(body):,} bytes, and a journal in PostgreSQL takes {LARGEST_RECORD:,}.",
        remedy="Let the tool write its output to a file, and give its path.",
    )
