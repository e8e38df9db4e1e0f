"""A worker: a process that drives the runs of a queue.

A worker holds a lock with its own name. When the lock is free the worker is dead, and another one queues again what it
had taken.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

from msgspec.structs import replace

from hookline.agent import Agent
from hookline.agent.children import cancel_idle
from hookline.errors import HooklineError, RunInUseError, UsageError
from hookline.journal import InboxCancel, Questions, Record, RunQueued
from hookline.workers.base import (
    LOOK_SECONDS,
    BaseWorker,
    CannotDriveError,
    missing_package,
)
from hookline.workers.queue import DEFAULT_QUEUE, WORKFLOW, LostRun, QueueJournal
from hookline.workers.registry import place_for, wanted_version
from hookline.workers.telemetry import observe_queues

try:
    from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, Queue
except ImportError:
    raise missing_package("dbos", "dbos") from None

_OVERDUE_SECONDS = 30.0
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
        self._entries: list[str] = []
        """The entries of the queue whose bodies run here. One that others queued again may be here twice."""
        self._reserved: set[str] = set()
        """Entries that this worker has taken and whose bodies have not begun."""
        self._had_place: dict[str, float] = {}
        """When each queue of runs that others could not drive last found a free place."""
        self._taking = threading.Lock()
        self._without_body: set[str] = set()
        """Entries that this worker has taken and that had no body at the last look."""
        self._idle: dict[str, LostRun] = {}
        """Runs that have nothing to do as long as they are so."""
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._dbos = dbos
        if dbos is not None:
            self._register_body()

    async def _launch(self) -> None:
        observe_queues(self.journal.measure_queues)
        if self._dbos is None:
            self._dbos = await self._start()
        else:
            await self._join(self._dbos)
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
        self._limit(engine)  # it looks at a queue half a second after its launch
        return engine

    async def _join(self, engine: DBOS) -> None:
        """Work with the engine that the application has launched. It ends with the application, and not with this.

        The engine gets the queues of this worker when it is limited. Before, it would take all that waits in them.
        """
        listening = engine._listening_queues
        if listening is None or not {*listening}.isdisjoint(self.info.places()):
            raise UsageError(
                "the DBOS of this application takes runs without a limit, also those of other workers.",
                remedy="Name the queues of the application before the launch, without those of the worker, which adds "
                "them: DBOS.listen_queues([...]).",
            )
        self.name = DBOS.executor_id
        try:
            self._lock = await self.journal.claim(self.name)
        except RunInUseError:
            raise UsageError(
                f"another process has the executor id '{self.name}'.",
                remedy="Give the DBOS of each process an executor_id of its own.",
            ) from None
        names = await self._open_queues()
        if await DBOS.retrieve_queue_async(self.queues[0]) is None:
            raise UsageError(
                f"the DBOS of this application has its tables elsewhere, not in {self.journal.engine_schema}.",
                remedy="Let both use one database, and name its dbos_system_schema: QueueJournal(engine_schema=...).",
            )
        self._limit(engine)
        engine._listening_queues = [*listening, *names]  # it looks at this list every second

    async def _open_queues(self) -> list[str]:
        """See that the queues are there."""
        names = self.info.places()
        for name in names:
            await asyncio.to_thread(self.journal.open_queue, name)
        return names

    def _register_body(self) -> None:
        """Tell the engine what drives a run. Its body may be on another event loop than `run`."""

        async def hookline_run(run_id: str) -> None:
            entry = DBOS.workflow_id or ""
            self._entries.append(entry)
            self._reserved.discard(entry)
            try:
                loop = await asyncio.wrap_future(self._loop)
                driven = asyncio.run_coroutine_threadsafe(self._drive(run_id), loop)
                await asyncio.wrap_future(driven)
            finally:
                self._entries.remove(entry)

        # A run may be taken up any number of times as far as the engine is concerned: the journal counts.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(hookline_run)

    def _limit(self, engine: DBOS) -> None:
        """Let the engine take no more runs than this worker has free places, in all its queues together.

        The engine counts each queue alone, and no setting changes that. What it takes is kept from other workers, also
        while it waits here for a place. Rejected: to queue such a run again, which counts for the rate of its queue.
        """
        take, mine = engine._sys_db.start_queued_workflows, {*self.info.places()}

        def take_what_fits(queue: Queue, *given: Any, **more: Any) -> tuple[list[str], Any]:
            if queue.name not in mine:
                return take(queue, *given, **more)
            with self._taking:  # each queue has a thread of its own
                free = 0 if self._stopping.is_set() else self._count_free(queue.name)
                if free <= 0:
                    return [], "worker_concurrency"
                limited = copy.copy(queue)
                limited._worker_concurrency = free
                executor, version, *_ = given
                # The version of an application says nothing about that of its agents, which the worker looks at.
                more["is_latest_version"] = True
                taken, why_not = take(limited, executor, version, None, **more)
                self._reserved.update(taken)
                return taken, why_not

        engine._sys_db.start_queued_workflows = take_what_fits  # type: ignore[method-assign]

    def _count_free(self, queue: str) -> int:
        """How many runs this worker may take from a queue now.

        Runs that others could not drive are looked for less often, and would find no free place while another queue
        has many runs. So one is left to them when they found none for long. Several entries of one run take one place:
        answers that come while it is driven wait for it. They take none if another worker drives it.
        """
        runs = {entry.rpartition(":")[0] for entry in (*self._entries, *self._reserved)}
        free, now = self.concurrency - len(runs - self._elsewhere), time.monotonic()
        if "/" not in queue:
            is_overdue = now - min(self._had_place.values(), default=now) > _OVERDUE_SECONDS
            return free - is_overdue
        if free > 0 or queue not in self._had_place:
            self._had_place[queue] = now
        return free

    async def _leave(self) -> None:
        await asyncio.Event().wait()  # another worker takes the entry when this one is gone

    async def _pass_on(self, run_id: str, missing: CannotDriveError) -> None:
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
        if expiries and isinstance(queued, RunQueued) and queued.queue:
            place = place_for(queued.agent_id, wanted_version(records))
            await self.journal.wake_at(run_id, min(expiries), f"{queued.queue}/{place}")
        return True

    def _watches(self) -> list[tuple[Callable[[], Awaitable[object]], float]]:
        more = [(self.journal.submit_due, LOOK_SECONDS), (self._queue_delayed, LOOK_SECONDS)]
        return [*super()._watches(), *more]

    async def _queue_delayed(self) -> None:
        """Queue the runs whose delay is over by the clock of this worker.

        The engine leaves that to one of all workers. If its clock is slow, or it is stopped, all delays are too long.
        """
        assert self._dbos is not None
        await asyncio.to_thread(self._dbos._sys_db.transition_delayed_workflows)

    async def _look(self) -> None:
        """Also queue again what dead workers had."""
        lock = self._lock
        await super()._look()
        if self._lock is not lock:  # others took this worker for dead
            await self.journal.register(self.info)
        before = {*self._reserved}
        mine = {each.id for each in await self.journal.find_taken() if each.worker == self.name}
        # The engine may lose an entry between taking it and starting its body, when the database is away for a moment.
        forgotten = mine.difference(self._entries) & self._without_body
        self._without_body = mine.difference(self._entries)
        self._reserved -= (before - mine) | forgotten
        for entry in await self.journal.take_over(forgotten):
            about = {"entry": entry.id, "worker": entry.worker}
            _log.info("%s of %s is queued again", *entry[::2], extra={"hookline": about})

    async def _find_lost(self) -> None:
        """Queue runs that have something to do and are in no queue, whatever is the reason, and end cancelled ones.

        Somebody who may not queue runs has answered, it is the turn of a run in its session, the entry of a run ended
        before the run did, or there is none. A run whose question expires gets an entry for that time.
        """
        lost = await self.journal.find_lost()
        self._idle = {run_id: at for run_id, at in self._idle.items() if lost.get(run_id) == at}
        for run_id in lost.keys() - self._idle.keys():
            try:
                if await self.journal.queue_again(run_id):
                    await self._end_cancelled(run_id)
                    continue
                if lost[run_id].is_unwatched:  # the entry that it gets now may be lost too
                    await self._is_at_rest(run_id, await self.journal.read(run_id))
                else:
                    self._idle[run_id] = lost[run_id]
            except RunInUseError:
                pass  # it is driven by now, and sees its messages
            except HooklineError as error:  # the others are looked at all the same
                _log.warning("run '%s' cannot be looked at: %s", run_id, error)

    async def _end_cancelled(self, run_id: str) -> None:
        """End a run that somebody cancelled, also if it waits where no worker looks."""
        for message in await self.journal.inbox(run_id):
            if isinstance(message, InboxCancel):
                await self._end_idle(run_id, message.words, cancel_idle)
                await self._end_turn(await self.journal.read(run_id))
                return
