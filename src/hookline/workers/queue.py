"""A journal whose runs wait for workers.

What is written to the journal and the entry in the queue of the engine are one transaction of one connection: neither
is there without the other. The engine's tables are in a schema of their own, beside that of the journal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from hookline._sync import sync_form
from hookline.agent.children import take_back_end
from hookline.agent.result import RunResult, restore_result
from hookline.errors import (
    AccessDeniedError,
    DamagedRunError,
    JournalError,
    NewerRunError,
    QueueFullError,
    RunInUseError,
    SessionError,
    UnknownRunError,
    UsageError,
)
from hookline.journal import (
    InboxMessage,
    Record,
    RunFinished,
    RunQueued,
    SessionCreated,
    StoredForm,
    post_answer,
    reopen,
    story_of,
)
from hookline.journal.chain import Row, StoredRun, anchor, link
from hookline.journal.inbox import check_message
from hookline.journal.postgres.database import Connection, Database, ask_one, from_column
from hookline.journal.postgres.statements import create_run, have_list_alone, lock_key
from hookline.journal.postgres.store import add_message
from hookline.journal.postgres.writer import LARGEST_RECORD
from hookline.journal.run_info import RunInfo, summarise
from hookline.sessions import Sessions
from hookline.state import Decision, RunStatus, StopReason, checked_text
from hookline.workers.base import (
    CLAIM_SECONDS,
    LOST_SECONDS,
    WorkersJournal,
    check_id,
    check_name,
    check_queue,
    check_same,
    make_queued,
    make_session,
    missing_package,
)
from hookline.workers.registry import WorkerInfo, wanted_version, why_no_worker
from hookline.workers.schedules import (
    Schedule,
    delete_schedule,
    read_schedules,
    take_due,
    time_after,
    write_next_time,
    write_schedule,
)

try:
    import psycopg
    import sqlalchemy
    from dbos import (
        DBOSClient,
        DBOSPortableJSONSerializer,
        EnqueueOptions,
        Queue,
        WorkflowSerializationFormat,
    )
    from dbos._migration import get_dbos_migrations
    from psycopg import sql
except ImportError:
    raise missing_package("dbos", "dbos") from None

WORKFLOW = "hookline_run"
"""The name of the one workflow. Its body drives a run."""
DEFAULT_QUEUE = "default"
_log = logging.getLogger("hookline.workers")
_POLL_SECONDS = 0.5
_POLL_PARKED_SECONDS = 2.0
_AFTER_EXPIRY_SECONDS = 0.1
_EXPIRY = "expiry"
_LONGEST_NAME = 63
_LIVE = ("ENQUEUED", "DELAYED", "PENDING")
_UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)
_TOGETHER = 100
"""Runs in one transaction of `submit_many`. Nobody else begins a run meanwhile, so it is a matter of milliseconds."""
_HELD = """
SELECT (classid::bigint << 32 | objid::bigint) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_RUN_OF_ENTRY = "regexp_replace(workflow_uuid, ':[^:]*$', '')"
# An entry that waits for the expiry of a question does nothing for a run that has something to do.
_RUNS_IN_QUEUE = f"""
SELECT {_RUN_OF_ENTRY} FROM {{table}} WHERE name = '{WORKFLOW}' AND (status IN ('ENQUEUED', 'PENDING')
    OR status = 'DELAYED' AND workflow_uuid !~ ':{_EXPIRY} [^:]*$')
"""
# One that has a priority comes later than one that has none.
_WAITS_IN_QUEUE = f"""
SELECT 1 FROM {{table}} WHERE name = '{WORKFLOW}' AND status = 'ENQUEUED' AND priority = 0 AND queue_name = %s
    AND starts_with(workflow_uuid, %s) AND {_RUN_OF_ENTRY} = %s LIMIT 1 FOR UPDATE
"""
# An entry that was taken is for the application and the version that took it, also when it is queued again: an engine
# that starts queues its own entries so. When that application is gone, nobody else would take them.
_RELEASE = f"""
UPDATE {{table}} SET application_name = NULL, application_version = NULL
WHERE name = '{WORKFLOW}' AND status = 'ENQUEUED' AND coalesce(application_name, application_version) IS NOT NULL
"""
# What the engine does to continue an entry. In one statement, so that it is never queued for a dead application.
_QUEUE_AGAIN = """
UPDATE {table} SET status = 'ENQUEUED', application_name = NULL, application_version = NULL, owner_xid = NULL,
    recovery_attempts = 0, started_at_epoch_ms = NULL, updated_at = extract(epoch FROM now()) * 1000
WHERE workflow_uuid = ANY(%s) AND status = 'PENDING'
"""
# Earlier versions kept there how many runs a worker drives at once. An application may have queues of its own.
_CLEAR_WORKER_CONCURRENCY = f"""
UPDATE {{queues}} SET worker_concurrency = NULL WHERE worker_concurrency IS NOT NULL AND split_part(name, '/', 1) IN
    (SELECT split_part(queue_name, '/', 1) FROM {{table}} WHERE name = '{WORKFLOW}')
"""
# A run that waits for an answer until some time, and that no entry wakes then. The time is in the record of its pause
# alone, so the text of that record is searched: what only looks like one is looked at too. Rejected: a column for it.
_IS_UNWATCHED = f"""
status = 'paused' AND run_id NOT IN (SELECT {_RUN_OF_ENTRY} FROM {{table}}
    WHERE name = '{WORKFLOW}' AND status IN ('ENQUEUED', 'DELAYED', 'PENDING'))
AND coalesce((SELECT position('"expires_at":'::bytea IN batches.records) > 0 FROM batches
    WHERE batches.id >= runs.id << 32 AND batches.id < (runs.id + 1) << 32
        AND position('"type":"result"'::bytea IN batches.records) > 0 ORDER BY batches.id DESC LIMIT 1), false)
"""
# A run with a message may have to end, wherever its entry is: delayed, or in a queue without workers.
_MAY_BE_LOST = f"""
SELECT run_id, records, (SELECT count(*) FROM inbox WHERE inbox.run_id = runs.run_id), is_unwatched
FROM (SELECT *, {_IS_UNWATCHED} AS is_unwatched FROM runs
        WHERE kind = 'run' AND parent_run_id IS NULL AND status IN ('queued', 'running', 'paused')) runs
WHERE (run_id IN (SELECT run_id FROM inbox) OR is_unwatched
        OR status <> 'paused' AND run_id NOT IN ({_RUNS_IN_QUEUE}) AND NOT (status = 'queued' AND EXISTS (
            SELECT 1 FROM runs earlier WHERE earlier.session_id = runs.session_id AND earlier.id < runs.id
                AND earlier.status = 'queued' AND earlier.kind = 'run')))
"""
# A run that has not begun waits since it was submitted, also if a worker has put it into another queue.
_WAITING = f"""
SELECT queue_name, count(*), greatest(0, extract(epoch FROM now()) - min(greatest(delay_until_epoch_ms / 1000.0,
    CASE WHEN runs.status = 'queued' THEN started_at ELSE created_at / 1000.0 END)))::float8
FROM {{table}} entry LEFT JOIN runs ON run_id = {_RUN_OF_ENTRY}
WHERE name = '{WORKFLOW}' AND entry.status = 'ENQUEUED' GROUP BY queue_name
"""


class QueueEntry(NamedTuple):
    """An entry of the queue that is not finished."""

    id: str
    queue: str
    worker: str
    """The one that has taken it, if it is `PENDING`."""
    status: str

    @property
    def run_id(self) -> str:
        """The run."""
        return self.id.rpartition(":")[0]

    @property
    def cause(self) -> str:
        """Why it was queued, without a colon."""
        return self.id.rpartition(":")[2]


class LostRun(NamedTuple):
    """A run that may have something to do, as it is now. If it has nothing, nobody looks again until this changes."""

    records: int
    messages: int
    is_unwatched: bool
    """A question may expire, and no entry of the queue wakes the run then."""


class WaitingRuns(NamedTuple):
    """The runs that wait in a queue."""

    queue: str
    length: int
    age: float
    """Seconds since the oldest was submitted, or was to begin, or was queued again after it began."""


@dataclass
class QueueLength:
    """How many runs wait in a queue, and how many may."""

    queue: str
    waiting: int
    limit: int | None

    def add_run(self) -> None:
        """Count one more. Raises QueueFullError."""
        if self.limit is not None and self.waiting >= self.limit:
            raise QueueFullError(
                f"queue '{self.queue}' is full: {self.waiting} runs wait in it, and its maximum length is "
                f"{self.limit}.",
                remedy="Submit the run later, or to another queue, or start more workers.",
            )
        self.waiting += 1


J = TypeVar("J", bound=WorkersJournal)
P = ParamSpec("P")
T = TypeVar("T")


def in_thread(
    method: Callable[Concatenate[J, P], T],
) -> Callable[Concatenate[J, P], Coroutine[Any, Any, T]]:
    """Make a method that waits for the database one that waits in a thread."""

    @wraps(method)
    async def call(self: J, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work = partial(method, self, *args, **kwargs)
        return await self._in_thread(work, is_long=True)

    return call


class QueueJournal(WorkersJournal):
    """A journal in PostgreSQL whose runs are driven by workers: `submit` queues a run, an answer queues it again.

    The tables of the engine are in `engine_schema`; the default is that of the journal with `_dbos`. An application
    that has a DBOS of its own in the same database names its schema, `dbos` if it has not said otherwise.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        schema: str = "hookline",
        engine_schema: str | None = None,
    ) -> None:
        super().__init__(url, schema=schema)
        self.engine_schema = engine_schema or f"{schema}_dbos"
        """Where the tables of the engine are."""
        if (
            len(self.engine_schema.encode()) > _LONGEST_NAME
        ):  # the server would cut it off: two might be one
            raise UsageError(
                f"the name of the schema with the tables of the queue, {self.engine_schema!r}, is too long.",
                remedy=f"Give engine_schema= with at most {_LONGEST_NAME} bytes, or a shorter schema=.",
            )
        self.engine = sqlalchemy.create_engine(
            "postgresql+psycopg://", creator=partial(_connect, self._database), pool_pre_ping=True
        )
        weakref.finalize(self, self.engine.dispose)
        self._client: DBOSClient | None = None
        self._queues: set[str] = set()
        self._opening = threading.Lock()

    # --- what users do ---------------------------------------------------------------------------------

    async def submit(
        self,
        agent: str,
        prompt: str,
        *,
        run_id: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int | None = None,
        delay: float | None = None,
        version: str = "",
        session: str | None = None,
    ) -> str:
        """Queue a run of an agent, which workers know by its name. Returns the id of the run.

        The same id with the same prompt is the same run; with another prompt it is a UsageError. A smaller `priority`
        comes first, from 1; without one a run comes before all that have one. `delay` is in seconds, by the clock of
        the workers. Only a worker whose agent accepts `version` begins the run; without one any worker that has the
        agent. Raises QueueFullError when the queue has a maximum length, and has reached it.

        A run with a `session` continues its conversation. Runs of one session are driven one after the other, in the
        order in which they were submitted. If there is no session of this id, it is made.
        """
        run_id = os.urandom(16).hex() if run_id is None else run_id
        (submitted,) = await self.submit_many(
            agent,
            {run_id: prompt},
            queue=queue,
            priority=priority,
            delay=delay,
            version=version,
            session=session,
        )
        return submitted

    submit_sync = sync_form(submit)

    async def submit_many(
        self,
        agent: str,
        prompts: Iterable[str] | Mapping[str, str],
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int | None = None,
        delay: float | None = None,
        version: str = "",
        session: str | None = None,
    ) -> list[str]:
        """Queue many runs of an agent, a hundred in each transaction. Returns their ids.

        `prompts` maps ids to prompts: then it can be repeated after an error, and what is queued already stays as it
        is. Or it has prompts alone.
        """
        check_queue(queue)
        if not isinstance(prompts, Mapping):
            prompts = {os.urandom(16).hex(): prompt for prompt in prompts}
        more: EnqueueOptions = {}  # type: ignore[typeddict-item]
        if priority is not None:
            more["priority"] = _between("priority", priority, 1, 2**31 - 1)
        if delay is not None:
            more["delay_seconds"] = _between("delay", delay, 0, 10 * 365 * 86_400)
        records = [
            make_queued(agent, prompt, run_id, queue, version, session)
            for run_id, prompt in prompts.items()
        ]
        for start in range(0, len(records), _TOGETHER):
            part = records[start : start + _TOGETHER]
            await self._submit(part, more)
        return list(prompts)

    submit_many_sync = sync_form(submit_many)

    @in_thread
    def set_concurrency(self, queue: str, count: int | None) -> None:
        """Set how many runs of a queue all workers together drive at once. None: as many as they can."""
        check_limits(concurrency=count)
        self._get_queue(check_queue(queue)).set_global_concurrency(count)

    set_concurrency_sync = sync_form(set_concurrency)

    @in_thread
    def set_rate(self, queue: str, rate: tuple[int, float] | None) -> None:
        """Set how many runs of a queue all workers together begin in so many seconds. None: as many as they can.

        A run that is taken up again, or continues after an answer, counts again.
        """
        check_limits(rate=rate)
        limiter = None if rate is None else {"limit": rate[0], "period": rate[1]}
        self._get_queue(check_queue(queue)).set_limiter(limiter)  # type: ignore[arg-type]

    set_rate_sync = sync_form(set_rate)

    @in_thread
    def set_schedule(
        self,
        name: str,
        cron: str,
        agent: str,
        prompt: str,
        *,
        queue: str = DEFAULT_QUEUE,
        timezone: str = "UTC",
    ) -> Schedule:
        """Submit a run at each time of a cron line, as long as there are workers. Replaces the schedule of that name.

        What was due while there was no worker is submitted once.
        """
        checked_text(prompt, "the prompt")
        check_name("agent", agent)
        made = Schedule(check_id(name), cron, timezone, agent, prompt, check_queue(queue))
        with self._transaction() as (_, raw):
            timed = replace(made, next_at=time_after(cron, timezone, self._database.now()))
            write_schedule(raw, timed)
            return timed

    set_schedule_sync = sync_form(set_schedule)

    @in_thread
    def remove_schedule(self, name: str) -> None:
        """Submit no more runs of a schedule."""
        with self._transaction() as (_, raw):
            if not delete_schedule(raw, name):
                known = ", ".join(each.name for each in read_schedules(raw))
                raise UsageError(
                    f"there is no schedule '{name}'.",
                    remedy=f"There are: {known}." if known else "There are no schedules.",
                )

    remove_schedule_sync = sync_form(remove_schedule)

    @in_thread
    def schedules(self) -> list[Schedule]:
        """All schedules, the next one first."""
        with self._transaction() as (_, raw):
            return read_schedules(raw)

    schedules_sync = sync_form(schedules)

    @in_thread
    def workers(self) -> list[WorkerInfo]:
        """The workers that are alive, and what they can drive."""
        with self._transaction() as (_, raw):
            held = {number for (number,) in raw.execute(_HELD)}
            rows = raw.execute("SELECT description FROM workers ORDER BY name")
            known = [msgspec.json.decode(text, type=WorkerInfo) for (text,) in rows]
        return [each for each in known if self._lock_of(each.name) in held]

    workers_sync = sync_form(workers)

    async def why_no_worker(
        self, agent: str, *, queue: str = DEFAULT_QUEUE, version: str = ""
    ) -> str:
        """Why no live worker would begin such a run; empty if one would. A run can be submitted all the same."""
        return why_no_worker(await self.workers(), queue, agent, version or None)

    why_no_worker_sync = sync_form(why_no_worker)

    async def why_waiting(self, *runs: RunInfo) -> dict[str, str]:
        """Why runs wait, by id. Those that are over, driven, or were not submitted are left out."""
        unfinished = [each for each in runs if each.status in _UNFINISHED]
        found = await self._find_entries(_LIVE, [each.run_id for each in unfinished])
        workers = await self.workers()
        claimed = await self._find_claimed([each.run_id for each in unfinished])
        limits = await self._read_limits()
        reasons = {}
        for info in unfinished:
            if info.run_id in claimed:
                continue
            entries = [each for each in found if each.run_id == info.run_id]
            try:
                records = await self.read(info.run_id)
                why = await self._why_waiting(records, entries, workers, limits)
            except NewerRunError:
                why = "it was written by a newer Hookline, and no such worker has taken it"
            except DamagedRunError as error:
                why = error.message.rstrip(".")
            except UnknownRunError:
                continue  # it was deleted meanwhile
            if why:
                reasons[info.run_id] = why
        return reasons

    why_waiting_sync = sync_form(why_waiting)

    @in_thread
    def set_max_length(self, queue: str, length: int | None) -> None:
        """Refuse runs for a queue in which so many wait. None: any number may."""
        check_limits(length=length)
        check_queue(queue)
        with self._transaction() as (_, raw):
            raw.execute("DELETE FROM queues WHERE name = %s", (queue,))
            if length is not None:
                raw.execute("INSERT INTO queues VALUES (%s, %s)", (queue, length))

    set_max_length_sync = sync_form(set_max_length)

    async def post(self, message: InboxMessage) -> None:
        """Keep a message for a run, and queue the run if it was submitted here.

        A role that may not write to the queue leaves that to the workers, which look for such messages.
        """
        queued = (await self.read(check_message(message).run_id))[0]
        if not isinstance(queued, RunQueued) or not queued.queue:
            await super().post(message)
            return
        options = self._options(message.run_id, message.id, queued.queue)
        await self._post(message, options)

    async def resume(
        self, run_id: str, decisions: Mapping[str, Decision] | None = None, *, by: str = ""
    ) -> RunResult:
        """Have workers continue a submitted run, and wait until it ends, or waits for answers.

        The answers are posted, by `by`. A run that failed with the reason `attempts` may be taken up again as often as
        a new one.
        """
        records = await self.read(run_id)
        if not isinstance(records[0], RunQueued) or not records[0].queue:
            raise UsageError(
                f"run '{run_id}' was not submitted here: no worker of this queue drives it.",
                remedy=f"Continue it where its agent is: agent.resume({run_id!r}).",
            )
        for question, decision in (decisions or {}).items():
            await post_answer(self, run_id, question, decision, by=by)
        if _was_given_up(records):
            await self._refuse_continued(run_id)
            await self._reopen(run_id)
        await self.queue_again(run_id)
        return await self.wait(run_id)

    resume_sync = sync_form(resume)

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run has ended, or waits for answers. This process does not drive it."""
        while True:
            records = await self.read(run_id)
            if await self.is_at_rest(run_id, records):
                while not isinstance(records[-1], RunFinished):
                    records.pop()  # a worker took it up, and there was nothing to do
                return restore_result(await story_of(records, self), records, None)
            await asyncio.sleep(_POLL_SECONDS)

    wait_sync = sync_form(wait)

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        """Delete a run and its children, or a session and its runs, and their entries in the queue."""
        deleted = await super().delete(run_id, with_later=with_later)
        await self._delete_entries()
        return deleted

    async def prune(
        self,
        *,
        older_than: timedelta | float | None = None,
        keep: int | None = None,
        unfinished: bool = False,
    ) -> list[str]:
        """Delete old runs, and the entries in the queue of all that are not in the journal any more."""
        deleted = await super().prune(older_than=older_than, keep=keep, unfinished=unfinished)
        await self._delete_entries()
        return deleted

    async def migrate(self) -> tuple[int, int]:
        """Make the tables of the journal and of the engine, or bring them up to date."""
        versions = await super().migrate()
        await self._in_thread(self._migrate_engine, is_long=True)
        return versions

    @in_thread
    def engine_version(self) -> int:
        """The version of the tables of the engine; 0 if there are none."""
        return self._engine_version()

    engine_version_sync = sync_form(engine_version)

    async def close(self) -> None:
        """Write what is queued, give back what is claimed, and close all connections."""
        await super().close()
        self.engine.dispose()

    # --- what workers do -------------------------------------------------------------------------------

    @property
    def client(self) -> DBOSClient:
        """The client of the engine. Tables of another version are refused at its first use."""
        with self._opening:
            if self._client is None:
                self._check_engine()
                self._client = self._make_client()
            return self._client

    @in_thread
    def register(self, worker: WorkerInfo) -> None:
        """Say what a worker can drive, which holds the lock with its name."""
        with self._transaction() as (_, raw):
            raw.execute(
                "INSERT INTO workers VALUES (%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET description = EXCLUDED.description",
                (worker.name, msgspec.json.encode(worker)),
            )

    def open_queue(self, name: str) -> None:
        """Make a queue, unless there is one: its limits stay as they are."""
        seconds = _POLL_PARKED_SECONDS if "/" in name else _POLL_SECONDS
        with self._convert_errors():
            self.client.register_queue(
                name, polling_interval_sec=seconds, on_conflict="never_update"
            )
            self._queues.add(name)

    @in_thread
    def enqueue(self, run_id: str, cause: str, queue: str) -> None:
        """Queue a run again, unless it waits in this queue already. The same cause queues it once."""
        self._enqueue(run_id, self._options(run_id, cause, queue))

    @in_thread
    def wake_at(self, run_id: str, at: float, queue: str) -> None:
        """Queue a run that waits for an answer at a time of the database's clock, unless it is delayed already."""
        cause = f"{_EXPIRY} {at:.3f}"
        # A worker whose clock is wrong may wake the run too early: then it is queued for the same time again.
        options = self._options(run_id, f"{cause} {os.urandom(4).hex()}", queue)
        options["delay_seconds"] = max(0.0, at - self._database.now()) + _AFTER_EXPIRY_SECONDS
        known = self._entries(("DELAYED",), [run_id])
        if not any(each.cause.startswith(cause) for each in known):
            self._enqueue(run_id, options)

    @in_thread
    def find_lost(self) -> dict[str, LostRun]:
        """The runs that may have something to do and that nobody drives.

        They are in no queue, and are queued, or it is their turn in a session, or they began, or a question of theirs
        expires. Or they have something in their inbox, which they may have read already. What waits in a queue for one
        application is for all from now on.
        """
        with self._transaction() as (_, raw):
            raw.execute(sql.SQL(_RELEASE).format(table=self._table))
            rows = raw.execute(sql.SQL(_MAY_BE_LOST).format(table=self._table)).fetchall()
            held = {number for (number,) in raw.execute(_HELD)}
        found = {str(from_column(run_id)): LostRun(*rest) for run_id, *rest in rows}
        return {run_id: found[run_id] for run_id in found if self._lock_of(run_id) not in held}

    async def queue_again(self, run_id: str) -> bool:
        """Queue a run that has something to do and is in no queue.

        False if it has nothing to do until it changes: it is over, or waits, or was not submitted here.
        """
        records = await self.read(run_id)
        queued = records[0]
        if not isinstance(queued, RunQueued) or not queued.queue:
            return False
        if await self.is_at_rest(run_id, records):
            return False
        if not queued.session or not await self._why_not_next(queued):
            await self._queue_if_nowhere(queued)
        return True

    @in_thread
    def submit_due(self) -> list[str]:
        """Submit the runs of the schedules whose time is over. Returns their ids."""
        return list(iter(self._submit_due, None))

    @in_thread
    def find_taken(self) -> list[QueueEntry]:
        """What workers have taken and not finished."""
        return self._entries(("PENDING",))

    def measure_queues(self) -> list[WaitingRuns]:
        """How many runs wait in each queue that has some, by the clock of the database. For any thread."""
        query = sql.SQL(_WAITING).format(table=self._table)
        with self._transaction() as (_, raw):
            return [WaitingRuns(str(queue), *rest) for queue, *rest in raw.execute(query)]

    @in_thread
    def take_over(self, forgotten: Collection[str] = ()) -> list[QueueEntry]:
        """Queue again what workers have taken who are dead: nobody holds the lock with their name.

        Also the entries `forgotten`, which a living worker does not work on.
        """
        with self._transaction() as (_, raw):
            # One worker at a time: what it queues again is no longer in the list of the next one.
            key = lock_key("takeover", self._database.schema)
            row = raw.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchone()
            if row is None or not row[0]:
                return []
            held = {number for (number,) in raw.execute(_HELD)}
            for (name,) in raw.execute("SELECT name FROM workers").fetchall():
                if self._lock_of(name) not in held:
                    raw.execute("DELETE FROM workers WHERE name = %s", (name,))
            dead = [
                each
                for each in self._entries(("PENDING",))
                if each.id in forgotten or self._lock_of(each.worker) not in held
            ]
            query = sql.SQL(_QUEUE_AGAIN).format(table=self._table)
            raw.execute(query, ([each.id for each in dead],))
            return dead

    # --- inside ----------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[tuple[sqlalchemy.Connection, Connection]]:
        """A transaction, for the engine and for the journal."""
        with self._convert_errors(), self.engine.begin() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            yield connection, raw

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Raise errors of PostgreSQL as JournalError, also those that come by way of the engine."""
        try:
            yield
        except (psycopg.Error, sqlalchemy.exc.DBAPIError) as error:
            cause = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
            if isinstance(cause, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
                raise self._no_tables() from None
            with self._database.convert_errors("written"):
                raise cause or error from None

    def _no_tables(self) -> JournalError:
        return JournalError(
            f"the queue in {self._database} cannot be used: its tables are not in schema {self.engine_schema}.",
            remedy="Make them, as a role that may: hookline database migrate --workers. If an application has "
            "them elsewhere, name its schema: --engine-schema NAME.",
        )

    def _make_client(self) -> DBOSClient:
        return DBOSClient(
            system_database_engine=self.engine,
            dbos_system_schema=self.engine_schema,
            serializer=DBOSPortableJSONSerializer(),
            lazy=True,
            retry_connection_errors=False,
        )

    def _migrate_engine(self) -> None:
        with self._convert_errors():
            # The public function takes a URL only, and a password file or a service file is in none.
            self._make_client()._sys_db.run_migrations()
        self._check_engine()
        query = sql.SQL(_CLEAR_WORKER_CONCURRENCY)
        with self._transaction() as (_, raw):
            raw.execute(query.format(queues=self._queues_table, table=self._table))

    def _engine_version(self) -> int:
        table = sql.Identifier(self.engine_schema, "dbos_migrations")
        with self._transaction() as (_, raw):
            if ask_one(raw, "SELECT to_regclass(%s)", table.as_string(raw))[0] is None:
                return 0
            return int(
                ask_one(raw, sql.SQL("SELECT coalesce(max(version), 0) FROM {}").format(table))[0]
            )

    def _check_engine(self) -> None:
        """Refuse tables of another version. The engine itself would work on those of a newer one."""
        needed = len(get_dbos_migrations(self.engine_schema, use_listen_notify=False))
        try:
            version = self._engine_version()
        except AccessDeniedError:
            return  # a role that may only submit runs need not read it
        if version == 0:
            raise self._no_tables()
        if version == needed:
            return
        is_newer = version > needed
        raise JournalError(
            f"the queue in {self._database} cannot be used: its tables in schema {self.engine_schema} are of version "
            f"{version}, and this Hookline {'knows' if is_newer else 'needs'} {needed}.",
            remedy="Upgrade Hookline."
            if is_newer
            else "Bring them up to date, as a role that may: hookline database migrate --workers.",
        )

    def _options(self, run_id: str, cause: str, queue: str) -> EnqueueOptions:
        return {
            "workflow_name": WORKFLOW,
            "workflow_id": f"{run_id}:{cause.replace(':', ' ')}",  # the last colon ends the id of the run
            "queue_name": queue,
            "serialization_type": WorkflowSerializationFormat.PORTABLE,
        }

    def _enqueue(self, run_id: str, options: EnqueueOptions) -> None:
        self._ensure_queue(options["queue_name"])
        with self._transaction() as (connection, raw):
            self._add_entry(connection, raw, run_id, options)

    def _add_entry(
        self,
        connection: sqlalchemy.Connection,
        raw: Connection,
        run_id: str,
        options: EnqueueOptions,
    ) -> None:
        """Queue a run, unless it waits in this queue already: whoever takes that entry sees what is committed by then.

        So a queue does not grow when somebody answers again and again. The entry is locked, so that nobody takes it
        before this transaction is over. One that is taken does not count: its worker may have read the inbox before.
        """
        query = sql.SQL(_WAITS_IN_QUEUE).format(table=self._table)
        values = (options["queue_name"], f"{run_id}:", run_id)
        if raw.execute(query, values).fetchone() is None:
            self.client.enqueue_in_transaction(connection, options, run_id)

    def _ensure_queue(self, name: str) -> None:
        if name not in self._queues:
            self.open_queue(name)

    def _get_queue(self, name: str) -> Queue:
        self._ensure_queue(name)
        queue = self.client.retrieve_queue(name)
        assert queue is not None
        return queue

    @in_thread
    def _submit(self, records: list[RunQueued], more: EnqueueOptions) -> None:
        self._ensure_queue(records[0].queue)
        with self._transaction() as (connection, raw):
            have_list_alone(raw, self._database)
            length = self._measure_length(raw, records[0].queue)
            known = [
                each
                for each in records
                if not self._add_queued(connection, raw, each, more, length)
            ]
            session = records[0].session
            if session and len(known) < len(records):  # unless it is there
                create_run(raw, _make_run(make_session(session), self._database.now()))
        for each in known:
            check_same(self.read_sync(each.run_id), each)

    def _add_queued(
        self,
        connection: sqlalchemy.Connection,
        raw: Connection,
        record: RunQueued,
        more: EnqueueOptions,
        length: QueueLength,
    ) -> bool:
        """Add a run and its entry, in a transaction that has the list alone. False when there is one with its id."""
        if not create_run(raw, _make_run(record, self._database.now())):
            return False
        length.add_run()
        cause = "start"
        query = sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE workflow_uuid = %s)").format(
            self._table
        )
        if ask_one(raw, query, f"{record.run_id}:{cause}")[0]:
            cause += f" {os.urandom(4).hex()}"  # of a run with this id that was deleted
        options = {**self._options(record.run_id, cause, record.queue), **more}
        self.client.enqueue_in_transaction(connection, options, record.run_id)  # type: ignore[arg-type]
        return True

    async def _refuse_continued(self, run_id: str) -> None:
        """A run whose conversation another one has continued meanwhile stays as it ended."""
        session = (await self.read(run_id))[0].session_id  # type: ignore[attr-defined]
        later = [each for each in await self.runs(session_id=session) if each.continues == run_id]
        if later:
            raise UsageError(
                f"run '{run_id}' cannot be continued: run '{later[-1].run_id}' has continued its conversation since.",
                remedy="Submit its prompt again.",
            )

    async def _reopen(self, run_id: str) -> None:
        while True:
            try:
                durable = await reopen(self, run_id, ())
                break
            except RunInUseError:  # a worker that ended it gives it back in a moment
                await asyncio.sleep(CLAIM_SECONDS)
        try:
            if _was_given_up(durable.records):  # of several that opened it again, one did
                await take_back_end(durable, self._database.now())
                await durable.commit()
        finally:
            await durable.close()

    @in_thread
    def _queue_if_nowhere(self, queued: RunQueued) -> None:
        """Queue a run that has no entry in the queue. One that is delayed, or with a worker, has one.

        The new entry has an id of its own: the engine does nothing for the id of an entry that has ended.
        """
        options = self._options(queued.run_id, f"again {os.urandom(4).hex()}", queued.queue)
        query = sql.SQL(f"SELECT %s IN ({_RUNS_IN_QUEUE})").format(table=self._table)
        self._ensure_queue(queued.queue)
        with self._transaction() as (connection, raw):
            key = lock_key("queue", self._database.schema, queued.run_id)
            raw.execute(
                "SELECT pg_advisory_xact_lock(%s)", (key,)
            )  # of several that look, one queues it
            if not ask_one(raw, query, queued.run_id)[0]:
                self.client.enqueue_in_transaction(connection, options, queued.run_id)
                _log.info("run '%s' was in no queue, and is queued again", queued.run_id)

    def _measure_length(self, raw: Connection, queue: str) -> QueueLength:
        """How many runs a queue has and takes. Nobody else can submit one meanwhile.

        Those that wait are counted, once each: a run that is over may have entries, and one that is cancelled two.
        """
        limit = raw.execute("SELECT max_length FROM queues WHERE name = %s", (queue,)).fetchone()
        if limit is None:
            return QueueLength(queue, 0, None)
        # Also those that only some workers can drive, and not those that wait for an answer.
        query = (
            f"SELECT count(DISTINCT run_id) FROM {{}} entry JOIN runs ON run_id = {_RUN_OF_ENTRY}"
            " WHERE (queue_name = %s OR starts_with(queue_name, %s)) AND workflow_uuid !~ %s"
            " AND entry.status IN ('ENQUEUED', 'DELAYED') AND runs.status = ANY(%s)"
        )
        values = (queue, f"{queue}/", f":{_EXPIRY} [^:]*$", [*_UNFINISHED])
        (waiting,) = ask_one(raw, sql.SQL(query).format(self._table), *values)
        return QueueLength(queue, waiting, limit[0])

    async def _why_waiting(
        self,
        records: list[Record],
        entries: list[QueueEntry],
        workers: list[WorkerInfo],
        limits: Mapping[str, str],
    ) -> str:
        queued = records[0]
        if not isinstance(queued, RunQueued):
            return ""
        if await self.is_at_rest(queued.run_id, records):
            return "it waits for an answer"
        entries = [each for each in entries if not each.cause.startswith(_EXPIRY)]
        if queued.session and (before := await self._why_not_next(queued)):
            return before
        missing = why_no_worker(workers, queued.queue, queued.agent_id, wanted_version(records))
        alive = {each.name for each in workers}
        taken = [each for each in entries if each.status == "PENDING"]
        if taken and not (missing and alive.isdisjoint(each.worker for each in taken)):
            return "a worker has taken it, and has not begun or is about to stop"
        if not entries:
            return f"it is in no queue: hookline resume {queued.run_id}"
        if all(each.status == "DELAYED" for each in entries):
            return "it is delayed"
        if missing:
            return missing
        others = f"others are before it in queue '{queued.queue}'"
        reached = [limits[each.queue] for each in entries if limits.get(each.queue)]
        if not reached:
            return f"{others}, or its workers are full"
        return f"{others}, its workers are full, or the queue is at its limit ({reached[0]})"

    async def _why_not_next(self, queued: RunQueued) -> str:
        """What a run waits for in its session; empty if it is its turn."""
        try:
            session = await Sessions(self).get(queued.session)
            turn = await self.find_turn(session)
        except SessionError as error:
            return error.message.rstrip(".")
        if turn == queued.run_id:
            return ""
        return f"run '{turn}' of its session is not over" if turn else "its session is suspended"

    async def _wake_next(self, queued: RunQueued, cause: str) -> None:
        if not queued.queue:
            return
        run_id = queued.run_id
        # A worker may be about to leave it because it was not its turn, so an entry that is taken does not count.
        if not await self._find_entries(("ENQUEUED", "DELAYED"), [run_id]):
            await self.enqueue(run_id, cause, queued.queue)

    def _submit_due(self) -> str | None:
        with self._transaction() as (connection, raw):
            due = take_due(raw)
            if due is None:
                return None
            self._ensure_queue(due.queue)
            have_list_alone(raw, self._database)
            record = RunQueued(
                due.run_id, 0, 0.0, agent_id=due.agent, prompt=due.prompt, queue=due.queue
            )
            try:
                with raw.transaction():
                    length = self._measure_length(raw, due.queue)
                    self._add_queued(connection, raw, record, {}, length)  # type: ignore[typeddict-item]
            except QueueFullError as error:
                _log.warning("run '%s' of a schedule is left out: %s", due.run_id, error)
            write_next_time(raw, due, self._database.now())
            return due.run_id

    @in_thread
    def _post(self, message: InboxMessage, options: EnqueueOptions) -> None:
        with self._transaction() as (connection, raw):
            have_list_alone(raw, self._database)
            if not add_message(raw, self._database, message):
                raise UnknownRunError(f"there is no run '{message.run_id}' in the journal.")
            try:
                with self._convert_errors(), connection.begin_nested():
                    self._add_entry(connection, raw, message.run_id, options)
            except AccessDeniedError:
                _log.warning(
                    "this role may not queue run '%s': a worker finds the message within %d seconds.",
                    message.run_id,
                    LOST_SECONDS,
                )

    @in_thread
    def _delete_entries(self) -> None:
        """Delete the entries of runs that are not in the journal. A worker that has one finishes it first."""
        query = sql.SQL(
            "SELECT workflow_uuid FROM {} WHERE name = %s AND status <> 'PENDING'"
            f" AND {_RUN_OF_ENTRY} NOT IN (SELECT run_id FROM runs)"
        ).format(self._table)
        with self._transaction() as (_, raw):
            ids = [id for (id,) in raw.execute(query, (WORKFLOW,))]
        for start in range(0, len(ids), 1000):
            self.client.delete_workflows(ids[start : start + 1000])

    def _entries(
        self, status: tuple[str, ...], run_ids: Collection[str] | None = None
    ) -> list[QueueEntry]:
        """The entries of all runs, or of some, that have one of these states."""
        with self._convert_errors():
            found = self.client.list_workflows(
                status=[*status],
                name=WORKFLOW,
                workflow_id_prefix=None if run_ids is None else [f"{each}:" for each in run_ids],
                load_input=False,
                load_output=False,
            )
        entries = [
            QueueEntry(
                each.workflow_id,
                each.queue_name or DEFAULT_QUEUE,
                each.executor_id or "",
                each.status,
            )
            for each in found
        ]
        # What matches a prefix may be an entry of another run whose id begins in the same way.
        return [each for each in entries if run_ids is None or each.run_id in run_ids]

    _find_entries = in_thread(_entries)

    @in_thread
    def _find_claimed(self, run_ids: list[str]) -> set[str]:
        """Those of these runs that somebody drives now."""
        with self._transaction() as (_, raw):
            held = {number for (number,) in raw.execute(_HELD)}
        return {each for each in run_ids if self._lock_of(each) in held}

    @in_thread
    def _read_limits(self) -> dict[str, str]:
        """The limits of the queues that have some, in words."""
        query = sql.SQL("SELECT name, concurrency, rate_limit_max, rate_limit_period_sec FROM {}")
        limits = {}
        with self._transaction() as (_, raw):
            for name, concurrency, runs, seconds in raw.execute(query.format(self._queues_table)):
                words = [f"{concurrency} at once"] if concurrency is not None else []
                words += [f"{runs} in {seconds:g} seconds"] if runs is not None else []
                limits[str(name)] = ", ".join(words)
        return limits

    @property
    def _queues_table(self) -> sql.Identifier:
        """Of the queues of the engine, with their limits."""
        return sql.Identifier(self.engine_schema, "queues")

    @property
    def _table(self) -> sql.Identifier:
        """Of the entries of the engine."""
        return sql.Identifier(self.engine_schema, "workflow_status")

    def _lock_of(self, name: str) -> int:
        return lock_key("run", self._database.schema, name)


def _was_given_up(records: list[Record]) -> bool:
    """Whether a run failed because too many workers took it up."""
    last = records[-1]
    return isinstance(last, RunFinished) and last.stop_reason is StopReason.ATTEMPTS


def _connect(database: Database) -> Connection:
    connection = database.connect_for_engine()
    connection.autocommit = False
    return connection


N = TypeVar("N", int, float)


def _between(option: str, value: N, least: int, most: int) -> N:
    if not least <= value <= most:
        raise UsageError(f"{option}={value} is not possible: give {least} to {most}.")
    return value


def check_limits(
    *,
    concurrency: int | None = None,
    rate: tuple[int, float] | None = None,
    length: int | None = None,
) -> None:
    """Refuse limits of a queue that are not possible."""
    if concurrency is not None:
        _between("concurrency", concurrency, 1, 2**31 - 1)
    if rate is not None:
        _between("rate", rate[0], 1, 2**31 - 1)
        _between("seconds of the rate", rate[1], 1, 10 * 365 * 86_400)
    if length is not None:
        _between("the maximum length", length, 1, 2**62)


def _make_run(record: RunQueued | SessionCreated, at: float) -> StoredRun:
    """A run or a session that has this record alone, written now."""
    record = replace(record, at=at)
    body = StoredForm().encode(record)
    if len(body) > LARGEST_RECORD:
        raise UsageError(
            f"the prompt of run '{record.run_id}' has {len(body):,} bytes, and a record takes {LARGEST_RECORD:,}.",
            remedy="Put it into a file, and let the agent read it.",
        )
    head = link(anchor(record.run_id), body)
    info = summarise(RunInfo(run_id=record.run_id), [record])
    return StoredRun(info, head, [Row(0, head, body)])
