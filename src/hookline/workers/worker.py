"""A worker: a process that drives the runs of a queue.

The engine hands the id of a run to `_drive`, which resumes or begins the run. The claim of the journal decides who
drives it, whatever the engine does: `_drive` waits for the claim, and never returns while somebody drives the run.

A worker holds a lock with its own name, on the connection that writes. When the lock is free the worker is dead, and
another one queues again what it had taken. A worker that finds that it lost its lock ends what it drives, without
writing anything, and waits for the claims again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from msgspec.structs import replace

from hookline.agent import Agent
from hookline.agent.children import fail_idle
from hookline.errors import (
    HooklineError,
    JournalError,
    NewerRunError,
    RunHandedOverError,
    RunInUseError,
    UnknownRunError,
    UsageError,
)
from hookline.journal import (
    Questions,
    Record,
    RunQueued,
    RunReopened,
    RunTakenUp,
    StepFinished,
    StepPaused,
    reopen,
    story_of,
)
from hookline.workers.health import parse_address, serve_health
from hookline.workers.queue import DEFAULT_QUEUE, WORKFLOW, QueueJournal
from hookline.workers.registry import WorkerInfo, place_for, place_of_newer, wanted_version
from hookline.workers.telemetry import observe_queues, send_rest

_LOOK_SECONDS = 1.0
"""Between two looks for dead workers, and for the lock of this one."""
_ANSWER_SECONDS = 30.0
"""Between two looks for answers that did not queue their run, and at the settings of queues."""
_CLAIM_SECONDS = 0.25
_LONGEST_PAUSE = 30
_log = logging.getLogger("hookline.workers")


class Worker:
    """Drives the runs of some queues: `await Worker(journal, {"sums": agent}).run()`.

    The engine allows one in each process, and runs on the event loop of `run`. An application that has a DBOS of its
    own gives it as `dbos`, launches it when it has made the worker, and calls `run` then.
    """

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
        for option, value, least in (
            ("concurrency", concurrency, 1),
            ("grace", grace, 0),
            ("max_attempts", max_attempts, 1),
        ):
            if value < least:
                raise UsageError(f"{option}={value} is not possible: give at least {least}.")
        self.journal = journal
        self.agents = {name: _with_journal(name, each, journal) for name, each in agents.items()}
        self.queues = queues
        self.concurrency = concurrency
        self.grace = grace
        self.max_attempts = max_attempts
        self.health = None if health is None else parse_address(health)
        """Where it says whether it is alive and ready: `[HOST:]PORT`, without a host on this machine only."""
        self.name = f"worker {socket.gethostname()} {os.getpid()} {os.urandom(4).hex()}"
        """The executor id of the engine, and the name of the lock that says that this worker is alive."""
        versions = {
            name: (each.definition.version, *each.definition.accepts)
            for name, each in self.agents.items()
        }
        self.info = WorkerInfo(self.name, queues, versions)
        self._driven: dict[asyncio.Task[bool], str] = {}
        self._slots = asyncio.Semaphore(concurrency)
        self._stopping = asyncio.Event()
        self._lock: object = None
        self._entries: set[str] = set()
        """The entries of the queue whose bodies run here."""
        self._without_body: set[str] = set()
        """Entries that this worker has taken and that had no body at the last look."""
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._dbos = dbos
        if dbos is not None:
            self._register_body()

    # --- its life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`. Then every run is handed over after its step, at the latest after `grace` seconds."""
        async with AsyncExitStack() as stack:
            if self.health is not None:
                await stack.enter_async_context(serve_health(self.health, self.check))
            observe_queues(self.journal)
            await self._work()

    async def check(self) -> dict[str, bool]:
        """What has to be true for the worker to be ready."""
        try:
            await asyncio.to_thread(self.journal.measure_queues)
        except JournalError:
            is_reached = False
        else:
            is_reached = True
        return {
            "database": is_reached,
            "agents": bool(self.agents),
            "working": self._lock is not None and not self._stopping.is_set(),
        }

    async def _work(self) -> None:
        own: DBOS | None = None
        if self._dbos is None:
            own = await self._launch()
        else:
            await self._join()
        self._loop.set_result(asyncio.get_running_loop())
        self.info = replace(self.info, name=self.name)
        await self.journal.register(self.info)
        watches = [
            asyncio.create_task(self._repeat(self._look, _LOOK_SECONDS)),
            asyncio.create_task(self._repeat(self._find_answers, _ANSWER_SECONDS)),
            asyncio.create_task(self._repeat(self._open_queues, _ANSWER_SECONDS)),
            asyncio.create_task(self._repeat(self.journal.submit_due, _LOOK_SECONDS)),
        ]
        try:
            await self._stopping.wait()
            for event in own.background_thread_stop_events if own else ():
                event.set()  # the engine takes nothing new
            await self._hand_over()
        finally:
            for watch in watches:
                watch.cancel()

    async def _hand_over(self) -> None:
        until = asyncio.get_running_loop().time() + self.grace
        while self._driven and asyncio.get_running_loop().time() < until:
            for agent in self.agents.values():
                agent.hand_over()
            await asyncio.wait([*self._driven], timeout=_CLAIM_SECONDS)

    def stop(self) -> None:
        """Take nothing new, and hand over what is driven."""
        self._stopping.set()

    def run_to_exit(self) -> None:
        """Work until SIGTERM or SIGINT, and end the process. A second signal ends it at once.

        What is still driven after the grace period is left as by a process that died.
        """

        async def work() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal)
            await self.run()

        asyncio.run(_exit_after(work()))

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            os._exit(1)
        self.stop()

    async def _launch(self) -> DBOS:
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

    # --- a run -----------------------------------------------------------------------------------------

    async def _drive(self, run_id: str) -> None:
        """Drive a run until it ends or waits for an answer. Whatever happens here, the engine learns nothing of it."""
        failures = 0
        while True:
            if self._stopping.is_set():
                await asyncio.Event().wait()  # another worker takes the entry when this one is gone
            task = asyncio.create_task(self._resume_in_turn(run_id))
            self._driven[task] = run_id
            try:
                if await task:
                    return
            except (RunInUseError, RunHandedOverError):
                await asyncio.sleep(_CLAIM_SECONDS)
            except asyncio.CancelledError:
                if not task.cancelled():  # this body itself is cancelled
                    raise
            except Exception as error:
                failures += 1
                about = {"run_id": run_id, "failures": failures}
                _log.exception(
                    "run '%s' cannot be continued (%d)",
                    run_id,
                    failures,
                    extra={"hookline": about},
                )
                await asyncio.sleep(min(failures, _LONGEST_PAUSE))
                if failures >= self.max_attempts and not isinstance(error, JournalError):
                    await self._fail(run_id, f"{type(error).__name__}: {error}")
                    return
            finally:
                del self._driven[task]

    async def _resume_in_turn(self, run_id: str) -> bool:
        """Resume a run when fewer than `concurrency` are driven: the engine counts each of its queues alone."""
        async with self._slots:
            return not self._stopping.is_set() and await self._resume(run_id)

    async def _resume(self, run_id: str) -> bool:
        """Resume or begin a run. True when it is over, or waits, or another worker must have it."""
        try:
            records = await self.journal.read(run_id)
        except UnknownRunError:
            return True  # it was deleted
        except NewerRunError:
            taken = {each.run_id: each.queue for each in await self.journal.find_taken()}
            queue = taken.get(run_id, self.queues[0]).partition("/")[0]
            await self._park(run_id, queue, place_of_newer(self.info.record_version))
            return True
        if await self._is_at_rest(run_id, records):
            return True
        queued = records[0]
        assert isinstance(queued, RunQueued)
        name, version = queued.agent_id, wanted_version(records)
        if not self.info.can_drive(name, version):
            await self._park(run_id, queued.queue, place_for(name, version))
            return True
        if count_attempts(records) >= self.max_attempts:
            await self._fail(run_id, f"taken up {self.max_attempts} times without a step made")
            return True
        await self.agents[name].resume(run_id)
        return await self._is_at_rest(run_id, await self.journal.read(run_id))

    async def _is_at_rest(self, run_id: str, records: list[Record]) -> bool:
        """Whether nothing is to be done. If a question expires, the run is queued for that time."""
        if not await self.journal.is_at_rest(run_id, records):
            return False
        questions = (await Questions.read(self.journal, run_id)).open
        expiries = [each.expires_at for each in questions if each.expires_at is not None]
        queued = records[0]
        if expiries and isinstance(queued, RunQueued):
            place = place_for(queued.agent_id, wanted_version(records))
            await self.journal.wake_at(run_id, min(expiries), f"{queued.queue}/{place}")
        return True

    async def _park(self, run_id: str, queue: str, place: str) -> None:
        """Put a run where only workers look that can drive it."""
        await self.journal.enqueue(run_id, f"parked {os.urandom(4).hex()}", f"{queue}/{place}")

    async def _fail(self, run_id: str, why: str) -> None:
        durable = await reopen(self.journal, run_id, ())
        try:
            if not (await story_of(durable.records, self.journal)).is_over:
                await fail_idle(durable, self.journal.database.now(), why)
                await durable.commit()
        finally:
            await durable.close()

    # --- others ----------------------------------------------------------------------------------------

    async def _repeat(self, work: Any, seconds: float) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # the server may be away, and comes back
                about = {"error": type(error).__name__}
                _log.warning("the queue cannot be looked at: %s", error, extra={"hookline": about})
            await asyncio.sleep(seconds)

    async def _look(self) -> None:
        """See that this worker is still alive to others, and queue again what dead ones had."""
        try:
            self._lock = await self.journal.claim(self.name)
            await self.journal.register(self.info)
        except RunInUseError:
            pass  # by this very worker: the connection is there
        finally:
            # Without its claim a run writes nothing, not even that it was cancelled. One that was claimed again since
            # is none of these.
            for task, run_id in self._driven.items():
                if self.journal.has_lost(run_id):
                    task.cancel()
        mine = {each.id for each in await self.journal.find_taken() if each.worker == self.name}
        # The engine may lose an entry between taking it and starting its body, when the database is away for a moment.
        forgotten = (mine - self._entries) & self._without_body
        self._without_body = mine - self._entries
        for entry in await self.journal.take_over(forgotten):
            about = {"entry": entry.id, "worker": entry.worker}
            _log.info("%s of %s is queued again", *entry[::2], extra={"hookline": about})

    async def _find_answers(self) -> None:
        """Queue runs that wait and have an answer in the inbox, whoever put it there."""
        for run_id in await self.journal.find_paused_with_messages():
            try:
                records = await self.journal.read(run_id)
            except (UnknownRunError, NewerRunError):
                continue
            queued = records[0]
            if isinstance(queued, RunQueued) and not await self.journal.is_at_rest(run_id, records):
                await self.journal.enqueue(run_id, f"answered {len(records)}", queued.queue)


async def _exit_after(work: Any) -> None:
    """Do something, and end the process whatever threads there are."""
    code = 0
    try:
        await work
    except HooklineError as error:
        _log.error("the worker failed: %s", error)
        code = 1
    except BaseException:
        _log.exception("the worker failed")
        code = 1
    finally:
        await asyncio.to_thread(send_rest)
        os._exit(code)


def count_attempts(records: list[Record]) -> int:
    """How often a run was taken up since it last made a step, or paused in one, or was opened again."""
    count = 0
    for record in records:
        if isinstance(record, StepFinished | StepPaused | RunReopened):
            count = 0
        elif isinstance(record, RunTakenUp):
            count += 1
    return count


def _with_journal(name: str, agent: Agent, journal: QueueJournal) -> Agent:
    if not isinstance(agent, Agent):
        raise UsageError(f"'{name}' is {agent!r}, which is not an agent.")
    if agent.definition.journal is not None:
        raise UsageError(
            f"agent '{name}' has a journal of its own.",
            remedy="Build it without one: the worker gives it the journal of the queue.",
        )
    return Agent(replace(agent.definition, journal=journal))
