"""The one connection that writes a journal in PostgreSQL, in a thread of its own.

Each batch is one statement. It changes the run and adds the records only if the run still ends where it ended and the
server process is the one that has the lock on the run; otherwise it does nothing. So batches of many runs share a
transaction, one round trip and one commit, and the failure of one is none of another.

Locks on runs belong to this connection. Whoever loses the connection has lost the locks, and cannot write any more.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

import msgspec
import psycopg

from hookline.errors import HooklineError, JournalError, RunHandedOverError, RunInUseError
from hookline.journal.chain import Row, StoredRun, anchor
from hookline.journal.connection import closed_error, forked_error
from hookline.journal.postgres.database import (
    Connection,
    Database,
    ask_one,
    is_lost,
    to_column,
)
from hookline.journal.postgres.schema import connect
from hookline.journal.postgres.statement import BoundStatement, Statement, execute_all
from hookline.journal.run_info import RunInfo
from hookline.journal.tables import pack
from hookline.journal.writer import Batch, conflict_error, deleted_error

T = TypeVar("T")

LARGEST_RECORD = 64 * 1024 * 1024
"""Bytes of a record. PostgreSQL itself could take a gigabyte, and a reader would have to have it in memory."""

_NEXT_BATCH = """
WITH run AS (
    UPDATE runs SET records = %(records)s, steps = %(steps)s, updated_at = %(updated_at)s, head = %(head)s,
        session_id = %(session_id)s, agent_id = %(agent_id)s, parent_run_id = %(parent_run_id)s,
        status = %(status)s, prompt = %(prompt)s{changes}
    WHERE run_id = %(run_id)s AND head = %(head_before)s AND pg_backend_pid() = %(pid)s{conditions}
    RETURNING id
)
INSERT INTO batches (id, links, records) SELECT (id << 32) + %(position)s, %(links)s, %(bodies)s FROM run
"""
_CONTINUE = Statement("hookline_continue", _NEXT_BATCH.format(changes="", conditions=""))
_BEGIN = Statement(  # a queued run that continues another one
    "hookline_begin",
    _NEXT_BATCH.format(
        changes=", continues = %(continues)s",
        conditions=" AND EXISTS (SELECT 1 FROM runs WHERE run_id = %(continues)s)",
    ),
)
_CREATE = Statement(
    "hookline_create",
    """
WITH run AS (
    INSERT INTO runs (run_id, session_id, agent_id, parent_run_id, status, prompt, records, steps,
        started_at, updated_at, kind, head, continues)
    SELECT %(run_id)s, %(session_id)s, %(agent_id)s, %(parent_run_id)s, %(status)s, %(prompt)s, %(records)s,
        %(steps)s, %(started_at)s, %(updated_at)s, %(kind)s, %(head)s, %(continues)s
    WHERE pg_backend_pid() = %(pid)s
        AND (%(earlier)s::text IS NULL OR EXISTS (SELECT 1 FROM runs WHERE run_id = %(earlier)s))
    ON CONFLICT (run_id) DO NOTHING
    RETURNING id
), last AS (
    SELECT number, link FROM history ORDER BY number DESC LIMIT 1
), event AS (
    INSERT INTO history (number, event, run_id, records, at, link)
    SELECT coalesce((SELECT number FROM last), 0) + 1, 'created', %(run_id)s, 0, %(started_at)s,
        sha256(coalesce((SELECT link FROM last), %(first_link)s) || %(event)s)
    FROM run
)
INSERT INTO batches (id, links, records) SELECT (id << 32) + %(position)s, %(links)s, %(bodies)s FROM run
""",
)
_HAVE_LIST_ALONE = Statement("hookline_alone", "SELECT pg_advisory_xact_lock(%(key)s)")
_ADD_EVENT = """
WITH last AS (SELECT number, link FROM history ORDER BY number DESC LIMIT 1)
INSERT INTO history (number, event, run_id, records, at, link)
SELECT coalesce((SELECT number FROM last), 0) + 1, %(event)s, %(run_id)s, %(value)s, %(at)s,
    sha256(coalesce((SELECT link FROM last), %(first_link)s) || %(body)s)
"""
_ADD_BATCH = "INSERT INTO batches (id, links, records) SELECT (id << 32) + %s, %s, %s FROM runs WHERE run_id = %s"
_ROWS_OF_A_BATCH = 50
"""Of an imported run: about as many as a few steps make."""
_FIRST_LINK = anchor("")
_HOLDER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = %s AND objsubid = 1
"""

_Job: TypeAlias = Callable[[], None]


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
    """Takes batches in order, and gives leases. Only the thread that holds `_using` uses the connection."""

    def __init__(self, database: Database, on_loss: Callable[[], None]) -> None:
        self._database = database
        self._on_loss = on_loss
        self._pid = os.getpid()
        self._using = threading.RLock()
        self._user: int | None = None
        self._connection: Connection | None = None
        self._held: dict[str, int] = {}
        """The runs that are leased, with the server process that has the lock."""
        self._given_back: deque[tuple[str, int, Future[None]]] = deque()
        """Leases to end. Garbage is collected at any moment, so nobody waits for the connection to end one."""
        self._lock = threading.RLock()
        self._queue: SimpleQueue[Batch | _Job | None] = SimpleQueue()
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
                    f"run '{run_id}' is already running in {_describe(holder[0] if holder else '')}.",
                    remedy="Wait for it, or end that process: the run is free as soon as its connection has ended.",
                )
            self._held[run_id] = pid
            return PostgresLease(self, run_id, pid)

        with self._turn():
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
        self._given_back.append((run_id, pid, freed))
        return freed if self._enqueue(self._unlock_all) else None

    def _unlock_all(self) -> None:
        while self._given_back:
            run_id, pid, freed = self._given_back.popleft()
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
        for body in batch.bodies:
            if len(body) > LARGEST_RECORD:
                raise _too_large(batch.after.run_id, body)
        done: Future[None] = Future()
        batch.done = done
        done.set_running_or_notify_cancel()  # it cannot be cancelled: what happened is recorded
        if not self._enqueue(batch):
            raise closed_error()
        return done

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do something else with the connection, in this thread."""
        if os.getpid() != self._pid:
            raise forked_error(str(self._database))
        with self._turn():
            try:
                return work(self._connect())
            except psycopg.Error as error:
                problem = self._database.journal_error(error, "written")
                self._see_loss()
                raise problem from None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Use the connection."""
        with self._using:
            before, self._user = self._user, threading.get_ident()
            try:
                yield
            finally:
                self._user = before

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
            self._queue.put(None)
            thread = self._thread
        if thread is None:
            self._work_off()
        elif thread is not threading.current_thread():
            thread.join()

    # --- by the thread ---------------------------------------------------------------------------------

    def _enqueue(self, item: Batch | _Job) -> bool:
        with self._lock:
            if not self._is_open:
                return False
            self._queue.put(item)
            has_thread = self._thread is not None or self._has_started_thread()
        if not has_thread and self._user != threading.get_ident():
            while (
                not self._queue.empty()
            ):  # what is queued during a use by this thread waits for the next caller
                self._take(self._queue.get())
        return True

    def _has_started_thread(self) -> bool:
        """False when there cannot be one: the process is exiting, or has too many."""
        thread = threading.Thread(target=self._work_off, name="hookline-journal", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _work_off(self) -> None:
        """Take what is queued, until the end."""
        while self._take(self._queue.get()):
            pass  # in a function of its own, so that nothing of a claim that is forgotten is kept here
        with self._turn():
            if self._connection is not None:
                self._connection.close()

    def _take(self, item: Batch | _Job | None) -> bool:
        """Commit all batches that are there together, in one transaction. False for the end of the queue."""
        batches: list[Batch] = []
        while item is not None:
            if isinstance(item, Batch):
                batches.append(item)
            else:
                self._commit_and_settle(batches)
                batches = []
                with self._turn():
                    item()
            if self._queue.empty():
                break
            item = self._queue.get()
        self._commit_and_settle(batches)
        return item is not None

    def _commit_and_settle(self, batches: list[Batch]) -> None:
        if batches:
            with self._turn():
                self._commit(batches)
            for batch in batches:
                batch.settle()

    def _commit(self, batches: list[Batch]) -> None:
        try:
            written = self._send(self._connect(), batches)
        except Exception as error:
            problem = self._to_journal_error(error)
            for batch in reversed(batches):
                batch.undo()
            if self._see_loss() or len(batches) == 1:
                for batch in batches:
                    batch.fail(problem)
            else:  # one run's error is not another's
                for batch in batches:
                    self._commit([batch])
            return
        for batch, rows in written:
            if rows != 1:
                batch.undo()
                batch.fail(self._refusal(batch))

    def _send(self, connection: Connection, batches: list[Batch]) -> list[tuple[Batch, int]]:
        """Write batches in one transaction. Returns those that were sent, and how many rows each has added."""
        sent: list[Batch] = []
        statements: list[BoundStatement] = []
        for batch in batches:
            try:
                statements.append(self._statement(batch))
                sent.append(batch)
            except JournalError as refusal:
                batch.fail(refusal)
        if any(batch.is_first or batch.earlier is not None for batch in sent):
            statements.insert(0, _HAVE_LIST_ALONE.bind({"key": _list_key(self._database)}))
        rows = execute_all(connection, statements) if sent else []
        return list(zip(sent, rows[-len(sent) :], strict=True))

    def _statement(self, batch: Batch) -> BoundStatement:
        tail, links = batch.begin()
        values = _values(batch.after, links, batch.records)
        values["pid"] = self._held.get(batch.after.run_id, 0)
        values["head_before"], values["position"] = tail.head, tail.records
        batch.advance(1, links)
        if not batch.is_first:
            return (_CONTINUE if batch.earlier is None else _BEGIN).bind(values)
        return _CREATE.bind({**values, **_creation(batch.after), "earlier": batch.earlier})

    def _connect(self) -> Connection:
        if not self._is_open and self._connection is None:
            raise closed_error()
        if self._connection is None:
            connection = connect(self._database)
            connection.prepare_threshold = None  # psycopg would deallocate statements of ours
            for statement in (_CONTINUE, _BEGIN, _CREATE, _HAVE_LIST_ALONE):
                statement.prepare(connection)
            self._connection = connection
        return self._connection

    # --- errors ----------------------------------------------------------------------------------------

    def _see_loss(self) -> bool:
        """Whether the connection is lost, and with it every lease."""
        if self._connection is None or not is_lost(self._connection):
            return False
        self._connection = None
        self._held.clear()
        self._on_loss()
        return True

    def _refusal(self, batch: Batch) -> JournalError:
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


def have_list_alone(connection: Connection, database: Database) -> None:
    """Until the end of the transaction nobody else writes the list of what was created and deleted."""
    connection.execute(_HAVE_LIST_ALONE.text, {"key": _list_key(database)})


def _list_key(database: Database) -> int:
    return lock_key("history", database.schema)


def add_event(connection: Connection, event: str, run_id: str, value: int, at: float) -> None:
    """Add an entry to the list of what was created and deleted, in a transaction that has it alone."""
    values = {"event": event, "run_id": run_id, "value": value, "at": at, "first_link": _FIRST_LINK}
    values["body"] = _event_body(event, run_id, value, at)
    connection.execute(_ADD_EVENT, columns(values))


def create_run(connection: Connection, run: StoredRun) -> bool:
    """Add a whole run, in a transaction that has the list alone. False when there is one with its id.

    The run that it continues is there, or is added by the same transaction.
    """
    first, *others = _chunks(run.rows)
    values = {**_values(run.info, *first), **_creation(run.info), "head": run.head, "position": 0}
    values["earlier"] = None
    (values["pid"],) = ask_one(connection, "SELECT pg_backend_pid()")
    if connection.execute(_CREATE.text, columns(values)).rowcount != 1:
        return False
    for number, (links, bodies) in enumerate(others, start=1):
        position = number * _ROWS_OF_A_BATCH
        row = (position, b"".join(links), bodies, to_column(run.info.run_id))
        connection.execute(_ADD_BATCH, row)
    return True


def _chunks(rows: list[Row]) -> Iterator[tuple[list[bytes], bytes]]:
    for start in range(0, max(1, len(rows)), _ROWS_OF_A_BATCH):
        chunk = rows[start : start + _ROWS_OF_A_BATCH]
        yield [row.link for row in chunk], pack([row.body for row in chunk])


def _values(info: RunInfo, links: list[bytes], bodies: bytes) -> dict[str, object]:
    """What both statements need to know."""
    return {
        **msgspec.structs.asdict(info),
        "head": links[-1],
        "links": b"".join(links),
        "bodies": bodies,
    }


def _creation(info: RunInfo) -> dict[str, object]:
    """The entry in the list of what was created and deleted."""
    event = _event_body("created", info.run_id, 0, info.started_at)
    return {"event": event, "first_link": _FIRST_LINK}


def columns(values: dict[str, object]) -> dict[str, object]:
    """Values as PostgreSQL keeps them."""
    return {name: to_column(value) for name, value in values.items()}


def _event_body(event: str, run_id: str, value: int, at: float) -> bytes:
    return msgspec.json.encode((event, run_id, value, at))


def lock_key(*names: str) -> int:
    """The number of the advisory lock on something."""
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _describe(application: str) -> str:
    kind, _, rest = application.partition(" ")
    host, _, pid = rest.rpartition(" ")
    return f"process {pid} on {host}" if kind == "hookline" and host else "another process"


def _too_large(run_id: str, body: bytes) -> JournalError:
    record = msgspec.json.decode(body)
    calls = [record.get("call"), record.get("result"), *record.get("calls", ())]
    names = sorted({call["name"] for call in calls if call and call.get("name")})
    tool = f"a record of tool '{', '.join(names)}'" if names else f"a record ({record['type']})"
    return JournalError(
        f"{tool} in run '{run_id}' has {len(body):,} bytes, and a journal in PostgreSQL takes {LARGEST_RECORD:,}.",
        remedy="Let the tool write its output to a file, and give its path.",
    )
