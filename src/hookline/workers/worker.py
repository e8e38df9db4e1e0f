"""A worker: a process that drives the runs of a queue.

A worker holds a lock with its own name. When the lock is free the worker is dead, and another one queues again what it
had taken.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future

from msgspec.structs import replace

from hookline.agent import Agent
from hookline.errors import NewerRunError, RunInUseError, UnknownRunError, UsageError
from hookline.journal import Questions, Record, RunQueued
from hookline.workers.base import (
    ANSWER_SECONDS,
    LOOK_SECONDS,
    BaseWorker,
    CannotDrive,
    missing_package,
)
from hookline.workers.queue import DEFAULT_QUEUE, WORKFLOW, QueueJournal
from hookline.workers.registry import place_for, wanted_version
from hookline.workers.telemetry import observe_queues

try:
    from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
except ImportError:
    raise missing_package("dbos", "dbos") from None

_log = logging.getLogger("hookline.workers")


class Worker(BaseWorker):
    """Drives the runs of some queues: `await Worker(journal, {"sums": agent}).run()`.

    The engine allows one in each process, and runs on the event loop of `run`. An application that has a DBOS of its
    own gives it as `dbos`, launches it when it has made the worker, and calls `run` then.
    """

    journal: QueueJournal

    def __init__(
        self,
        journal: QueueJournal,
        agents: Mapping[str, Agent],
        *,
        queues: tuple[str, ...] = (DEFAULT_QUEUE,),
        concurrency: int = 10,
        grace: float = 25.0,
        max_attempts: int = 5,
        health: str | None = None,
        dbos: DBOS | None = None,
    ) -> None:
        super().__init__(
            journal,
            agents,
            queues=queues,
            concurrency=concurrency,
            grace=grace,
            max_attempts=max_attempts,
            health=health,
        )
        self.queues = queues
        self._entries: set[str] = set()
        """The entries of the queue whose bodies run here."""
        self._without_body: set[str] = set()
        """Entries that this worker has taken and that had no body at the last look."""
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._dbos = dbos
        self._own: DBOS | None = None
        if dbos is not None:
            self._register_body()

    async def _launch(self) -> None:
        observe_queues(self.journal.measure_queues)
        if self._dbos is None:
            self._own = await self._start()
        else:
            await self._join()
        self._loop.set_result(asyncio.get_running_loop())
        self.info = replace(self.info, name=self.name)
        await self.journal.register(self.info)

    async def _start(self) -> DBOS:
        """Start the engine on this event loop."""
        self._lock = await self.journal.claim(self.name)
        names = await self._open_queues()
        config: DBOSConfig = {
            "name": "hookline",
            "system_database_engine": self.journal.engine,
            "dbos_system_schema": self.journal.engine_schema,
            "serializer": DBOSPortableJSONSerializer(),
            "executor_id": self.name,
            # Which versions of an agent a worker has is no concern of the engine.
            "application_version": "hookline",
            "use_listen_notify": False,
            "run_migrations": False,
            "log_level": "ERROR",
        }
        engine = DBOS(config=config)
        self._register_body()
        DBOS.listen_queues(names)
        DBOS.launch()
        return engine

    async def _join(self) -> None:
        """Work with the engine that the application has launched. It ends with the application, and not with this."""
        self.name = DBOS.executor_id
        try:
            self._lock = await self.journal.claim(self.name)
        except RunInUseError:
            raise UsageError(
                f"another process has the executor id '{self.name}'.",
                remedy="Give the DBOS of each process an executor_id of its own.",
            ) from None
        await self._open_queues()
        if await DBOS.retrieve_queue_async(self.queues[0]) is None:
            raise UsageError(
                f"the DBOS of this application has its tables elsewhere, not in {self.journal.engine_schema}.",
                remedy="Let both use one database, and name its dbos_system_schema: QueueJournal(engine_schema=...).",
            )

    async def _open_queues(self) -> list[str]:
        """See that the queues are there, with the concurrency of this worker. Their own limits may have changed."""
        names = self.info.places()
        for name in names:
            await asyncio.to_thread(self.journal.open_queue, name, self.concurrency)
        return names

    def _register_body(self) -> None:
        """Tell the engine what drives a run. Its body may be on another event loop than `run`."""

        async def hookline_run(run_id: str) -> None:
            entry = DBOS.workflow_id or ""
            self._entries.add(entry)
            try:
                loop = await asyncio.wrap_future(self._loop)
                driven = asyncio.run_coroutine_threadsafe(self._drive(run_id), loop)
                await asyncio.wrap_future(driven)
            finally:
                self._entries.discard(entry)

        # A run may be taken up any number of times as far as the engine is concerned: the journal counts.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(hookline_run)

    async def _hand_over(self) -> None:
        for event in self._own.background_thread_stop_events if self._own else ():
            event.set()  # the engine takes nothing new
        await super()._hand_over()

    async def _leave(self) -> None:
        await asyncio.Event().wait()  # another worker takes the entry when this one is gone

    async def _pass_on(self, run_id: str, missing: CannotDrive) -> None:
        """Put a run where only workers look that can drive it."""
        queue = missing.queue
        if not queue:
            taken = {each.run_id: each.queue for each in await self.journal.find_taken()}
            queue = taken.get(run_id, self.queues[0]).partition("/")[0]
        place = f"{queue}/{missing.place}"
        await self.journal.enqueue(run_id, f"parked {os.urandom(4).hex()}", place)

    async def _is_at_rest(self, run_id: str, records: list[Record]) -> bool:
        """Whether nothing is to be done. If a question expires, the run is queued for that time."""
        if not await super()._is_at_rest(run_id, records):
            return False
        questions = (await Questions.read(self.journal, run_id)).open
        expiries = [each.expires_at for each in questions if each.expires_at is not None]
        queued = records[0]
        if expiries and isinstance(queued, RunQueued):
            place = place_for(queued.agent_id, wanted_version(records))
            await self.journal.wake_at(run_id, min(expiries), f"{queued.queue}/{place}")
        return True

    def _watches(self) -> list[tuple[Callable[[], Awaitable[object]], float]]:
        more = [(self._open_queues, ANSWER_SECONDS), (self.journal.submit_due, LOOK_SECONDS)]
        return [*super()._watches(), *more]

    async def _look(self) -> None:
        """Also queue again what dead workers had."""
        lock = self._lock
        await super()._look()
        if self._lock is not lock:  # others took this worker for dead
            await self.journal.register(self.info)
        mine = {each.id for each in await self.journal.find_taken() if each.worker == self.name}
        # The engine may lose an entry between taking it and starting its body, when the database is away for a moment.
        forgotten = (mine - self._entries) & self._without_body
        self._without_body = mine - self._entries
        for entry in await self.journal.take_over(forgotten):
            about = {"entry": entry.id, "worker": entry.worker}
            _log.info("%s of %s is queued again", *entry[::2], extra={"hookline": about})

    async def _find_answers(self) -> None:
        """Queue runs that wait and have an answer in the inbox, whoever put it there, and those whose turn it is."""
        for run_id in await self.journal.find_paused_with_messages():
            try:
                records = await self.journal.read(run_id)
            except (UnknownRunError, NewerRunError):
                continue
            queued = records[0]
            if isinstance(queued, RunQueued) and not await self.journal.is_at_rest(run_id, records):
                await self.journal.enqueue(run_id, f"answered {len(records)}", queued.queue)
        await self.journal.wake_lost_turns()
