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
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from hookline._sync import sync_form
from hookline.agent.children import take_back_end
from hookline.agent.result import RunResult, recorded_result
from hookline.errors import (
    JournalError,
    NewerRunError,
    QueueFullError,
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
from hookline.journal.postgres.database import Connection, Database, from_column
from hookline.journal.postgres.store import add_message
from hookline.journal.postgres.writer import create_run, have_list_alone, lock_key
from hookline.journal.run_info import RunInfo, summarise
from hookline.sessions import Sessions
from hookline.state import Decision, RunStatus, StopReason, checked_text
from hookline.workers.base import (
    WorkersJournal,
    check_same,
    checked_id,
    missing_package,
    new_queued,
    new_session,
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
_LIVE = ("ENQUEUED", "DELAYED", "PENDING")
_UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)
_TOGETHER = 100
"""Runs in one transaction of `submit_many`. Nobody else begins a run meanwhile, so it is a matter of milliseconds."""
_HELD = """
SELECT (classid::bigint << 32 | objid::bigint) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_WAITING = f"""
SELECT queue_name, count(*),
    greatest(0, extract(epoch FROM now()) - min(greatest(created_at, delay_until_epoch_ms)) / 1000.0)::float8
FROM "{{schema}}".workflow_status WHERE name = '{WORKFLOW}' AND status = 'ENQUEUED' GROUP BY queue_name
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


class WaitingRuns(NamedTuple):
    """The runs that wait in a queue."""

    queue: str
    length: int
    age: float
    """Seconds since the oldest was queued, or was to begin."""


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
        self.engine_schema = engine_schema or f"{schema[:58]}_dbos"
        """Where the tables of the engine are."""
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
        if not isinstance(prompts, Mapping):
            prompts = {os.urandom(16).hex(): prompt for prompt in prompts}
        more: EnqueueOptions = {}  # type: ignore[typeddict-item]
        if priority is not None:
            more["priority"] = _between("priority", priority, 1, 2**31 - 1)
        if delay is not None:
            more["delay_seconds"] = _between("delay", delay, 0, 10 * 365 * 86_400)
        records = [
            new_queued(agent, prompt, run_id, queue, version, session)
            for run_id, prompt in prompts.items()
        ]
        for start in range(0, len(records), _TOGETHER):
            part = records[start : start + _TOGETHER]
            await self._in_thread(partial(self._submit, part, more), is_long=True)
        return list(prompts)

    submit_many_sync = sync_form(submit_many)

    async def set_concurrency(self, queue: str, count: int | None) -> None:
        """Set how many runs of a queue all workers together drive at once. None: as many as they can.

        When it becomes larger, workers follow within half a minute.
        """
        if count is not None:
            _between("concurrency", count, 1, 2**31 - 1)

        def write() -> None:
            known = self._known_queue(queue)
            of_worker = known.worker_concurrency
            if count is not None and of_worker is not None and of_worker > count:
                known.set_worker_concurrency(count)
            known.set_global_concurrency(count)

        await self._in_thread(write, is_long=True)

    set_concurrency_sync = sync_form(set_concurrency)

    async def set_rate(self, queue: str, rate: tuple[int, float] | None) -> None:
        """Set how many runs of a queue all workers together begin in so many seconds. None: as many as they can.

        A run that is taken up again, or continues after an answer, counts again.
        """
        if rate is not None:
            _between("rate", rate[0], 1, 2**31 - 1)
            _between("seconds of the rate", rate[1], 1, 10 * 365 * 86_400)
        limiter = None if rate is None else {"limit": rate[0], "period": rate[1]}
        await self._in_thread(
            lambda: self._known_queue(queue).set_limiter(limiter),  # type: ignore[arg-type]
            is_long=True,
        )

    set_rate_sync = sync_form(set_rate)

    async def set_schedule(
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
        made = Schedule(checked_id(name), cron, timezone, agent, prompt, queue)

        def write() -> Schedule:
            with self._transaction() as (_, raw):
                timed = replace(made, next_at=time_after(cron, timezone, self._database.now()))
                write_schedule(raw, timed)
                return timed

        return await self._in_thread(write, is_long=True)

    set_schedule_sync = sync_form(set_schedule)

    async def remove_schedule(self, name: str) -> None:
        """Submit no more runs of a schedule."""

        def remove() -> None:
            with self._transaction() as (_, raw):
                if not delete_schedule(raw, name):
                    raise UsageError(f"there is no schedule '{name}'.")

        await self._in_thread(remove, is_long=True)

    remove_schedule_sync = sync_form(remove_schedule)

    async def schedules(self) -> list[Schedule]:
        """All schedules, the next one first."""

        def read() -> list[Schedule]:
            with self._transaction() as (_, raw):
                return read_schedules(raw)

        return await self._in_thread(read, is_long=True)

    schedules_sync = sync_form(schedules)

    async def workers(self) -> list[WorkerInfo]:
        """The workers that are alive, and what they can drive."""
        return await self._in_thread(self._live_workers, is_long=True)

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
        found = await self._in_thread(
            lambda: self._entries(_LIVE, [each.run_id for each in unfinished]), is_long=True
        )
        workers = await self.workers()
        reasons = {}
        for info in unfinished:
            entries = [each for each in found if each.run_id == info.run_id]
            try:
                records = await self.read(info.run_id)
                why = await self._why_waiting(records, entries, workers)
            except NewerRunError:
                why = "it was written by a newer Hookline, and no such worker has taken it"
                why = "" if any(each.status == "PENDING" for each in entries) else why
            except UnknownRunError:
                continue  # it was deleted meanwhile
            if why:
                reasons[info.run_id] = why
        return reasons

    why_waiting_sync = sync_form(why_waiting)

    async def set_max_length(self, queue: str, length: int | None) -> None:
        """Refuse runs for a queue in which so many wait. None: any number may."""
        if length is not None:
            _between("length", length, 1, 2**62)
        await self._in_thread(lambda: self._set_max_length(queue, length), is_long=True)

    set_max_length_sync = sync_form(set_max_length)

    async def post(self, message: InboxMessage) -> None:
        """Keep a message for a run, and queue the run if it was submitted here."""
        queued = (await self.read(message.run_id))[0]
        if not isinstance(queued, RunQueued) or not queued.queue:
            await super().post(message)
            return
        options = self._options(message.run_id, message.id, queued.queue)
        await self._in_thread(lambda: self._post(message, options), is_long=True)

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
        last = records[-1]
        if isinstance(last, RunFinished) and last.stop_reason is StopReason.ATTEMPTS:
            await self._refuse_continued(run_id)
            await self._reopen(run_id)
        records = await self.read(run_id)
        if not await self.is_at_rest(run_id, records):
            await self._in_thread(lambda: self._queue_if_nowhere(records), is_long=True)
        return await self.wait(run_id)

    resume_sync = sync_form(resume)

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run has ended, or waits for answers. This process does not drive it."""
        while True:
            records = await self.read(run_id)
            if await self.is_at_rest(run_id, records):
                while not isinstance(records[-1], RunFinished):
                    records.pop()  # a worker took it up, and there was nothing to do
                return recorded_result(await story_of(records, self), records, None)
            await asyncio.sleep(_POLL_SECONDS)

    wait_sync = sync_form(wait)

    async def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        """Delete a run and its children, or a session and its runs, and their entries in the queue."""
        deleted = await super().delete(run_id, with_later=with_later)
        await self._in_thread(self._delete_entries, is_long=True)
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
        await self._in_thread(self._delete_entries, is_long=True)
        return deleted

    async def migrate(self) -> tuple[int, int]:
        """Make the tables of the journal and of the engine, or bring them up to date."""
        versions = await super().migrate()
        # The public function takes a URL only, and a password file or a service file is in none.
        await self._in_thread(lambda: self.client._sys_db.run_migrations(), is_long=True)
        return versions

    async def close(self) -> None:
        """Write what is queued, give back what is claimed, and close all connections."""
        await super().close()
        self.engine.dispose()

    # --- what workers do -------------------------------------------------------------------------------

    @property
    def client(self) -> DBOSClient:
        """The client of the engine."""
        with self._opening:
            if self._client is None:
                self._client = DBOSClient(
                    system_database_engine=self.engine,
                    dbos_system_schema=self.engine_schema,
                    serializer=DBOSPortableJSONSerializer(),
                    lazy=True,
                    retry_connection_errors=False,
                )
            return self._client

    async def register(self, worker: WorkerInfo) -> None:
        """Say what a worker can drive, which holds the lock with its name."""
        await self._in_thread(lambda: self._register(worker), is_long=True)

    def open_queue(self, name: str, concurrency: int | None = None) -> None:
        """Make a queue. Its limits stay as they are, but for how many runs a worker drives at once."""
        seconds = _POLL_PARKED_SECONDS if "/" in name else _POLL_SECONDS
        with self._convert_errors():
            self.client.register_queue(
                name, polling_interval_sec=seconds, on_conflict="never_update"
            )
            self._queues.add(name)
            if concurrency is not None:
                queue = self._known_queue(name)
                # The engine refuses one that is larger than that of all workers together.
                most = min(concurrency, queue.global_concurrency or concurrency)
                if queue.worker_concurrency != most:
                    queue.set_worker_concurrency(most)

    async def enqueue(self, run_id: str, cause: str, queue: str) -> None:
        """Queue a run again. The same cause queues it once."""
        await self._in_thread(
            lambda: self._enqueue(run_id, self._options(run_id, cause, queue)), is_long=True
        )

    async def wake_at(self, run_id: str, at: float, queue: str) -> None:
        """Queue a run that waits for an answer at a time of the database's clock, unless it is delayed already."""
        cause = f"{_EXPIRY} {at:.3f}"
        # A worker whose clock is wrong may wake the run too early: then it is queued for the same time again.
        options = self._options(run_id, f"{cause} {os.urandom(4).hex()}", queue)
        options["delay_seconds"] = max(0.0, at - self._database.now()) + _AFTER_EXPIRY_SECONDS

        def add() -> None:
            known = self._entries(("DELAYED",), [run_id])
            if not any(each.cause.startswith(cause) for each in known):
                self._enqueue(run_id, options)

        await self._in_thread(add, is_long=True)

    async def find_paused_with_messages(self) -> list[str]:
        """The runs that wait and have something in their inbox, also what they have read already."""
        return await self._in_thread(self._find_paused_with_messages, is_long=True)

    async def wake_lost_turns(self) -> None:
        """Queue the next run of each session where it is in no queue. Workers that look at once queue it once."""
        first = await self.find_first_queued()
        known = await self._in_thread(
            lambda: self._entries((*_LIVE, "SUCCESS"), [*first.values()]) if first else [],
            is_long=True,
        )
        for session_id, run_id in first.items():
            entries = [each for each in known if each.run_id == run_id]
            if all(each.status == "SUCCESS" for each in entries):
                await self.wake_turn(session_id, f"turn {len(entries)}")

    async def submit_due(self) -> list[str]:
        """Submit the runs of the schedules whose time is over. Returns their ids."""

        def submit() -> list[str]:
            return list(iter(self._submit_due, None))

        return await self._in_thread(submit, is_long=True)

    async def find_taken(self) -> list[QueueEntry]:
        """What workers have taken and not finished."""
        return await self._in_thread(lambda: self._entries(("PENDING",)), is_long=True)

    def measure_queues(self) -> list[WaitingRuns]:
        """How many runs wait in each queue that has some, by the clock of the database. For any thread."""
        query = _WAITING.format(schema=self.engine_schema)
        with self._transaction() as (_, raw):
            return [WaitingRuns(str(queue), *rest) for queue, *rest in raw.execute(query)]

    async def take_over(self, forgotten: Collection[str] = ()) -> list[QueueEntry]:
        """Queue again what workers have taken who are dead: nobody holds the lock with their name.

        Also the entries `forgotten`, which a living worker does not work on.
        """
        return await self._in_thread(lambda: self._take_over(forgotten), is_long=True)

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
                raise JournalError(
                    f"the queue in {self._database} cannot be used: its tables are not there.",
                    remedy="Make them, as a role that may: hookline database migrate --workers.",
                ) from None
            with self._database.convert_errors("written"):
                raise cause or error from None

    def _options(self, run_id: str, cause: str, queue: str) -> EnqueueOptions:
        return {
            "workflow_name": WORKFLOW,
            "workflow_id": f"{run_id}:{cause.replace(':', ' ')}",  # the last colon ends the id of the run
            "queue_name": queue,
            "serialization_type": WorkflowSerializationFormat.PORTABLE,
        }

    def _enqueue(self, run_id: str, options: EnqueueOptions) -> None:
        self._know_queue(options["queue_name"])
        with self._transaction() as (connection, _):
            self.client.enqueue_in_transaction(connection, options, run_id)

    def _know_queue(self, name: str) -> None:
        if name not in self._queues:
            self.open_queue(name)

    def _known_queue(self, name: str) -> Queue:
        self._know_queue(name)
        queue = self.client.retrieve_queue(name)
        assert queue is not None
        return queue

    def _submit(self, records: list[RunQueued], more: EnqueueOptions) -> None:
        self._know_queue(records[0].queue)
        with self._transaction() as (connection, raw):
            have_list_alone(raw, self._database)
            known = [each for each in records if not self._add_queued(connection, raw, each, more)]
            session = records[0].session
            if session and len(known) < len(records):  # unless it is there
                create_run(raw, _stored(new_session(session), self._database.now()))
        for each in known:
            check_same(self.read_sync(each.run_id), each)

    def _add_queued(
        self,
        connection: sqlalchemy.Connection,
        raw: Connection,
        record: RunQueued,
        more: EnqueueOptions,
    ) -> bool:
        """Add a run and its entry, in a transaction that has the list alone. False when there is one with its id."""
        if not create_run(raw, _stored(record, self._database.now())):
            return False
        self._check_length(raw, record.queue)
        options = {**self._options(record.run_id, "start", record.queue), **more}
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
        durable = await reopen(self, run_id, ())
        try:
            if (await story_of(durable.records, self)).is_over:
                await take_back_end(durable, self._database.now())
                await durable.commit()
        finally:
            await durable.close()

    def _queue_if_nowhere(self, records: list[Record]) -> None:
        """Queue a run that has no entry in the queue. One that is delayed, or with a worker, has one."""
        queued = records[0]
        assert isinstance(queued, RunQueued)
        options = self._options(queued.run_id, f"resume {len(records)}", queued.queue)
        with self._transaction() as (connection, _):
            entries = self._entries(_LIVE, [queued.run_id])
            if all(each.cause.startswith(_EXPIRY) for each in entries):
                self.client.enqueue_in_transaction(connection, options, queued.run_id)

    def _check_length(self, raw: Connection, queue: str) -> None:
        """Refuse a run for a queue that is full. Nobody else can submit one meanwhile."""
        limit = raw.execute("SELECT max_length FROM queues WHERE name = %s", (queue,)).fetchone()
        if limit is None:
            return
        table = sql.Identifier(self.engine_schema, "workflow_status")
        query = (
            "SELECT count(*) FROM {} WHERE queue_name = %s AND status IN ('ENQUEUED', 'DELAYED')"
        )
        (waiting,) = raw.execute(sql.SQL(query).format(table), (queue,)).fetchone() or (0,)
        if waiting >= limit[0]:
            raise QueueFullError(
                f"queue '{queue}' is full: {waiting} runs wait in it, and its maximum length is {limit[0]}.",
                remedy="Submit the run later, or to another queue, or start more workers.",
            )

    def _set_max_length(self, queue: str, length: int | None) -> None:
        with self._transaction() as (_, raw):
            raw.execute("DELETE FROM queues WHERE name = %s", (queue,))
            if length is not None:
                raw.execute("INSERT INTO queues VALUES (%s, %s)", (queue, length))

    def _register(self, worker: WorkerInfo) -> None:
        with self._transaction() as (_, raw):
            raw.execute(
                "INSERT INTO workers VALUES (%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET description = EXCLUDED.description",
                (worker.name, msgspec.json.encode(worker)),
            )

    def _live_workers(self) -> list[WorkerInfo]:
        with self._transaction() as (_, raw):
            held = {number for (number,) in raw.execute(_HELD)}
            rows = raw.execute("SELECT description FROM workers ORDER BY name")
            known = [msgspec.json.decode(text, type=WorkerInfo) for (text,) in rows]
        return [each for each in known if self._lock_of(each.name) in held]

    async def _why_waiting(
        self, records: list[Record], entries: list[QueueEntry], workers: list[WorkerInfo]
    ) -> str:
        queued = records[0]
        if not isinstance(queued, RunQueued) or any(each.status == "PENDING" for each in entries):
            return ""
        if await self.is_at_rest(queued.run_id, records):
            return "it waits for an answer"
        entries = [each for each in entries if not each.cause.startswith(_EXPIRY)]
        if queued.session and (before := await self._why_not_next(queued)):
            return before
        if not entries:
            return f"it is in no queue: hookline resume {queued.run_id}"
        if all(each.status == "DELAYED" for each in entries):
            return "it is delayed"
        missing = why_no_worker(workers, queued.queue, queued.agent_id, wanted_version(records))
        return missing or f"others are before it in queue '{queued.queue}'"

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
        waiting = await self._in_thread(
            lambda: self._entries(("ENQUEUED", "DELAYED"), [run_id]), is_long=True
        )
        if not waiting:
            await self.enqueue(run_id, cause, queued.queue)

    def _submit_due(self) -> str | None:
        with self._transaction() as (connection, raw):
            due = take_due(raw)
            if due is None:
                return None
            self._know_queue(due.queue)
            have_list_alone(raw, self._database)
            record = RunQueued(
                due.run_id, 0, 0.0, agent_id=due.agent, prompt=due.prompt, queue=due.queue
            )
            try:
                with raw.transaction():
                    self._add_queued(connection, raw, record, {})  # type: ignore[typeddict-item]
            except QueueFullError as error:
                _log.warning("run '%s' of a schedule is left out: %s", due.run_id, error)
            write_next_time(raw, due, self._database.now())
            return due.run_id

    def _post(self, message: InboxMessage, options: EnqueueOptions) -> None:
        with self._transaction() as (connection, raw):
            have_list_alone(raw, self._database)
            if not add_message(raw, self._database, message):
                raise UnknownRunError(f"there is no run '{message.run_id}' in the journal.")
            self.client.enqueue_in_transaction(connection, options, message.run_id)

    def _delete_entries(self) -> None:
        """Delete the entries of runs that are not in the journal. A worker that has one finishes it first."""
        query = sql.SQL(
            "SELECT workflow_uuid FROM {} WHERE name = %s AND status <> 'PENDING'"
            " AND regexp_replace(workflow_uuid, ':[^:]*$', '') NOT IN (SELECT run_id FROM runs)"
        ).format(sql.Identifier(self.engine_schema, "workflow_status"))
        with self._transaction() as (_, raw):
            ids = [id for (id,) in raw.execute(query, (WORKFLOW,))]
        for start in range(0, len(ids), 1000):
            self.client.delete_workflows(ids[start : start + 1000])

    def _find_paused_with_messages(self) -> list[str]:
        query = "SELECT run_id FROM runs WHERE status = 'paused' AND run_id IN (SELECT run_id FROM inbox)"
        with self._transaction() as (_, raw):
            return [str(from_column(run_id)) for (run_id,) in raw.execute(query)]

    def _take_over(self, forgotten: Collection[str]) -> list[QueueEntry]:
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
            for entry in dead:
                self.client.resume_workflow(entry.id, queue_name=entry.queue)
            return dead

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

    def _lock_of(self, name: str) -> int:
        return lock_key("run", self._database.schema, name)


def _connect(database: Database) -> Connection:
    connection = database.connect()
    connection.autocommit = False
    return connection


N = TypeVar("N", int, float)


def _between(option: str, value: N, least: int, most: int) -> N:
    if not least <= value <= most:
        raise UsageError(f"{option}={value} is not possible: give {least} to {most}.")
    return value


def _stored(record: RunQueued | SessionCreated, at: float) -> StoredRun:
    """A run or a session that has this record alone, written now."""
    record = replace(record, at=at)
    body = StoredForm().encode(record)
    head = link(anchor(record.run_id), body)
    info = summarise(RunInfo(run_id=record.run_id), [record])
    return StoredRun(info, head, [Row(0, head, body)])
