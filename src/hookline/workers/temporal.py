"""Workers on Temporal: a second engine, with the same journal.

One workflow with one activity drives a run. Its history has the id of the run and nothing else. The activity sends
heartbeats. When they stop, Temporal starts the activity on another worker, which waits for the claim of the journal.

The journal and Temporal have no transaction in common. The journal is written first, and workers look for runs that
Temporal was not told of.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from hookline._sync import sync_form
from hookline.agent import Agent
from hookline.errors import HooklineError, RunInUseError, UnknownRunError, UsageError
from hookline.journal import InboxMessage, Record, RunQueued, SessionCreated, post_cancel
from hookline.journal.inbox import check_message
from hookline.state import RunStatus
from hookline.workers.base import (
    CLAIM_SECONDS,
    BaseWorker,
    CannotDriveError,
    OtherWorkerError,
    WorkersJournal,
    check_same,
    make_queued,
    make_session,
    missing_package,
)

try:
    import temporalio.worker
    from temporalio import activity, workflow
    from temporalio.client import Client
    from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
    from temporalio.envconfig import ClientConfig
    from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
    from temporalio.service import RPCError
except ImportError:
    raise missing_package("temporalio", "temporal") from None

_ACTIVITY = "hookline_drive"
_NO_LIMIT = timedelta(days=3650)
"""Temporal demands a limit. The limits of a run are those of its agent."""
_log = logging.getLogger("hookline.workers")


# The sandbox for workflows would import this module and all that it imports again. There is nothing here to guard.
@workflow.defn(name="hookline_run", sandboxed=False)
class RunWorkflow:
    """Has a run driven until it ends or waits, and again if somebody answered meanwhile."""

    def __init__(self) -> None:
        self._posted = 0

    @workflow.signal
    def posted(self) -> None:
        """There is something in the inbox of the run."""
        self._posted += 1

    @workflow.run
    async def run(self, run_id: str, heartbeat: float) -> None:
        """Drive it. Temporal does not end a workflow that has a signal which it has not seen."""
        seen = -1
        while seen != self._posted:
            seen = self._posted
            await workflow.execute_activity(
                _ACTIVITY,
                run_id,
                start_to_close_timeout=_NO_LIMIT,
                heartbeat_timeout=timedelta(seconds=heartbeat),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(seconds=CLAIM_SECONDS), backoff_coefficient=1
                ),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )


class TemporalJournal(WorkersJournal):
    """A journal in PostgreSQL whose runs are driven by workers on Temporal.

    `connect` has the arguments of `temporalio.client.Client.connect`. Without it, Temporal's environment variables and
    configuration file count. Use a task queue for this journal alone. `heartbeat` is how many seconds a worker may be
    silent before another one takes its runs over.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        schema: str = "hookline",
        connect: Mapping[str, Any] | None = None,
        task_queue: str = "hookline",
        heartbeat: float = 5.0,
    ) -> None:
        super().__init__(url, schema=schema)
        self.task_queue = task_queue
        self.heartbeat = heartbeat
        self._connect_options = connect
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = (
            weakref.WeakKeyDictionary()
        )

    async def submit(
        self,
        agent: str,
        prompt: str,
        *,
        run_id: str | None = None,
        version: str = "",
        session: str | None = None,
    ) -> str:
        """Queue a run of an agent, which workers know by its name. Returns the id of the run.

        The same id with the same prompt is the same run; with another prompt it is a UsageError. Only a worker whose
        agent accepts `version` begins the run. A run with a `session` continues its conversation, after the runs that
        were submitted to it before.
        """
        record = make_queued(agent, prompt, run_id, "", version, session)
        if session is not None:
            await self._write(make_session(session))
        await self._write(record)
        await self._tell(record.run_id, posted=False)
        return record.run_id

    submit_sync = sync_form(submit)

    async def _write(self, record: RunQueued | SessionCreated) -> None:
        """Write the first record of a run or a session, unless it is there."""
        while True:
            try:
                known = await self.read(record.run_id)
                return check_same(known, record) if isinstance(record, RunQueued) else None
            except UnknownRunError:
                pass
            try:
                await self._create(record)
            except RunInUseError:  # somebody else submits it now
                await asyncio.sleep(CLAIM_SECONDS)

    async def _create(self, record: RunQueued | SessionCreated) -> None:
        claim = await self.claim(record.run_id)
        try:
            if not claim.tail.records:
                await asyncio.wrap_future(claim.write([replace(record, at=self.database.now())]))
        finally:
            await asyncio.wrap_future(claim.give_back())

    async def post(self, message: InboxMessage) -> None:
        """Keep a message for a run, and have the run driven if it was submitted here."""
        queued = (await self.read(check_message(message).run_id))[0]
        await super().post(message)
        if is_ours(queued):
            await self._tell(message.run_id, posted=True)

    async def wake(self, run_id: str, *, posted: bool = True) -> None:
        """Start the workflow of a run. One that runs already looks again if something was `posted`."""
        client = await self.client()
        await client.start_workflow(
            RunWorkflow.run,
            args=[run_id, self.heartbeat],
            id=f"{self.task_queue}:{run_id}",
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="posted" if posted else None,
        )

    async def _wake_next(self, queued: RunQueued, cause: str) -> None:
        if is_ours(queued):
            await self._tell(queued.run_id, posted=bool(cause))

    async def _tell(self, run_id: str, *, posted: bool) -> None:
        """Wake a run. What counts is in the journal, and workers look there if Temporal does not answer now."""
        try:
            await self.wake(run_id, posted=posted)
        except (RPCError, UsageError) as error:
            _log.warning("Temporal does not know of run '%s' yet: %s", run_id, error)

    async def client(self) -> Client:
        """The client of Temporal for this event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            options = self._connect_options
            found = ClientConfig.load_client_connect_config() if options is None else options
            try:
                self._clients[loop] = await Client.connect(**found)
            except RuntimeError as error:
                raise UsageError(
                    f"Temporal cannot be reached at {found.get('target_host', 'localhost:7233')}: {error}.",
                    remedy="Give its address: connect={'target_host': 'HOST:PORT'}, or TEMPORAL_ADDRESS.",
                ) from None
        return self._clients[loop]


class TemporalWorker(BaseWorker):
    """Drives the runs of a task queue: `await TemporalWorker(journal, {"sums": agent}).run()`."""

    journal: TemporalJournal

    def __init__(
        self,
        journal: TemporalJournal,
        agents: Mapping[str, Agent],
        *,
        concurrency: int = 10,
        grace: float = 25.0,
        max_attempts: int = 5,
        health: str | None = None,
    ) -> None:
        super().__init__(
            journal,
            agents,
            queues=(),
            concurrency=concurrency,
            grace=grace,
            max_attempts=max_attempts,
            health=health,
        )
        self._engine: temporalio.worker.Worker | None = None
        self._working: asyncio.Task[None]
        self._known: set[str] = set()
        """Queued runs whose workflows exist."""

    async def _launch(self) -> None:
        self._lock = await self.journal.claim(self.name)
        heartbeat = timedelta(seconds=self.journal.heartbeat / 3)
        self._engine = temporalio.worker.Worker(
            await self.journal.client(),
            task_queue=self.journal.task_queue,
            workflows=[RunWorkflow],
            activities=[self._body],
            max_concurrent_activities=self.concurrency,
            default_heartbeat_throttle_interval=heartbeat,
            max_heartbeat_throttle_interval=heartbeat,
        )
        self._working = asyncio.create_task(self._engine.run())
        self._working.add_done_callback(lambda _: self.stop())

    @activity.defn(name=_ACTIVITY)
    async def _body(self, run_id: str) -> None:
        """Drive a run, with heartbeats. Temporal may cancel this; the run ends by its journal alone."""
        driving = asyncio.create_task(self._drive(run_id))
        while not driving.done():
            try:
                activity.heartbeat()
                await asyncio.wait([driving], timeout=self.journal.heartbeat / 3)
            except asyncio.CancelledError:
                why = activity.cancellation_details()
                if why is not None and why.cancel_requested:
                    await self._cancel(run_id)
        try:
            await driving
        except OtherWorkerError as why:
            delay = timedelta(
                seconds=CLAIM_SECONDS if self._stopping.is_set() else self.journal.heartbeat
            )
            benign = ApplicationErrorCategory.BENIGN
            raise ApplicationError(str(why), next_retry_delay=delay, category=benign) from None

    async def _cancel(self, run_id: str) -> None:
        with suppress(UsageError):  # it is over
            await post_cancel(self.journal, run_id, by="Temporal")

    async def _hand_over(self) -> None:
        assert self._engine is not None
        ending = asyncio.create_task(self._engine.shutdown())  # it takes nothing new
        await super()._hand_over()
        await asyncio.wait([ending, self._working], timeout=self.journal.heartbeat)
        if self._working.done():
            self._working.result()  # it raises what went wrong

    async def _leave(self) -> None:
        raise OtherWorkerError("the worker stops")

    async def _pass_on(self, run_id: str, missing: CannotDriveError) -> None:
        _log.info("run '%s' is for a worker with %s", run_id, missing.place)
        raise OtherWorkerError("this worker cannot drive the run")

    async def _find_lost(self) -> None:
        """Wake runs that Temporal was not told of: they are queued, or it is their turn, or they have an answer."""
        queued = {each.run_id for each in await self.journal.runs(status=RunStatus.QUEUED)}
        for run_id in queued - self._known | await self.journal.find_paused_with_messages():
            try:
                await self._wake_if_lost(run_id)
            except HooklineError as error:  # the others are looked at all the same
                _log.warning("run '%s' cannot be looked at: %s", run_id, error)
        self._known = queued
        for session_id in await self.journal.find_first_queued():
            await self.journal.wake_turn(session_id, "")

    async def _wake_if_lost(self, run_id: str) -> None:
        records = await self.journal.read(run_id)
        if is_ours(records[0]) and not await self._is_at_rest(run_id, records):
            await self.journal.wake(run_id, posted=len(records) > 1)


def is_ours(record: Record) -> bool:
    """Whether a run that begins with this record waits in no queue of the database."""
    return isinstance(record, RunQueued) and not record.queue
