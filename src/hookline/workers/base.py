"""What the workers of all engines have: they drive runs by their ids, count attempts and hand runs over.

The engine hands the id of a run to `_drive`, which resumes or begins the run. The claim of the journal decides who
drives it, whatever the engine does: `_drive` waits for the claim, and never returns while somebody drives the run.
Whether and how this worker drives it is decided in `_decide`, on the records that were read under the claim. What was
read before may be out of date: it only says whether to ask for the claim.

A worker holds a lock with its own name, on the connection that writes. One that finds that it lost its lock ends what
it drives, without writing anything, and waits for the claims again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

from msgspec.structs import replace

from hookline.agent import Agent
from hookline.agent.children import fail_idle
from hookline.agent.resume import SessionMembership
from hookline.errors import (
    DamagedRunError,
    HooklineError,
    JournalError,
    NewerRunError,
    RunHandedOverError,
    RunInUseError,
    SessionConflictError,
    SessionError,
    UnknownRunError,
    UsageError,
)
from hookline.extras import install_command
from hookline.journal import (
    RECORD_VERSION,
    ChildFinished,
    ChildStarted,
    Durable,
    InboxAnswer,
    InboxCancel,
    JournalStore,
    PostgresJournal,
    Questions,
    Record,
    RunQueued,
    RunReopened,
    RunTakenUp,
    SessionCreated,
    SessionStatus,
    StepFinished,
    StepPaused,
    reopen,
    story_of,
)
from hookline.journal.durable import StoredRecords
from hookline.journal.postgres.store import JournalInPostgres
from hookline.journal.run_info import check_own_id
from hookline.journal.session import stream_of
from hookline.journal.writer import RunClaim
from hookline.sessions import Session, Sessions
from hookline.sessions.session import check_session_id
from hookline.state import checked_text
from hookline.workers.health import parse_address, serve_health
from hookline.workers.registry import WorkerInfo, place_for, place_of_newer, wanted_version
from hookline.workers.telemetry import continue_trace, get_traceparent, send_rest

LOOK_SECONDS = 1.0
"""Between two looks at the lock of this worker, and what its engine looks at."""
LOST_SECONDS = 30.0
"""Between two looks for runs that have something to do and are in no queue."""
CLAIM_SECONDS = 0.25
_LONGEST_PAUSE = 30
_RESERVED = "_dbos_"
_log = logging.getLogger("hookline.workers")


class WorkersJournal(PostgresJournal, ABC):
    """A journal in PostgreSQL whose claims are remembered: a worker asks whether it lost one."""

    def __init__(self, url: str | None = None, *, schema: str = "hookline") -> None:
        super().__init__(url, schema=schema)
        self._claimed: weakref.WeakValueDictionary[str, RunClaim] = weakref.WeakValueDictionary()

    async def claim(self, run_id: str) -> RunClaim:
        """Take a run for this process. The last claim of a run is remembered while somebody has it."""
        claim = self._claimed[run_id] = await super().claim(run_id)
        return claim

    def has_lost(self, run_id: str) -> bool:
        """Whether this process had claimed a run, and can write it no more: the connection is lost."""
        claim = self._claimed.get(run_id)
        return claim is not None and claim.is_lost

    async def find_turn(self, session: Session) -> str:
        """The run of a session that is driven now or next; empty if there is none.

        That is the one that has begun and is not over, else the first one that was submitted.
        """
        if session.status is SessionStatus.SUSPENDED:
            return ""
        first = await self.find_first_queued(session.id)
        return session.unfinished or first.get(session.id, "")

    async def find_first_queued(self, session_id: str | None = None) -> dict[str, str]:
        """The first run that was submitted and has not begun, by session: of this one, or of all."""
        return await self._ask(
            lambda journal: cast("JournalInPostgres", journal).find_first_queued(session_id)
        )

    async def find_paused_with_messages(self) -> set[str]:
        """The runs that wait and have something in their inbox, also what they have read already."""
        return await self._ask(
            lambda journal: cast("JournalInPostgres", journal).find_paused_with_messages()
        )

    async def wake_turn(self, session_id: str, cause: str) -> None:
        """Queue the next run of a session, unless one has begun and is not over."""
        try:
            session = await Sessions(self).get(session_id)
            turn = await self.find_turn(session)
            if turn and turn != session.unfinished:
                queued = (await self.read(turn))[0]
                assert isinstance(queued, RunQueued)
                await self._wake_next(queued, cause)
        except (SessionError, UnknownRunError, NewerRunError) as error:
            _log.warning("session '%s' cannot be continued: %s", session_id, error)

    @abstractmethod
    async def _wake_next(self, queued: RunQueued, cause: str) -> None:
        """Have a run looked at whose turn it is, if the engine of this journal drives it."""

    async def is_at_rest(self, run_id: str, records: list[Record]) -> bool:
        """Whether a worker has nothing to do: the run is over, or waits and nobody has answered."""
        story = await story_of(records, self)
        if story.is_over or not story.is_finished:
            return story.is_over
        questions = (await Questions.read(self, run_id)).open
        if not questions or any(each.is_expired(self._database.now()) for each in questions):
            return False
        known = {each.id: each.fingerprint for each in questions}
        return all(
            isinstance(each, InboxAnswer) and known.get(each.question) != each.fingerprint
            for each in await self.inbox(run_id)
        )


class CannotDriveError(Exception):
    """This worker cannot drive a run: another one must."""

    def __init__(self, queue: str, place: str) -> None:
        super().__init__()
        self.queue = queue
        """Empty if the run cannot be read."""
        self.place = place
        """What only workers have that can drive it."""


class AtRestError(Exception):
    """A run that was claimed has nothing to do: somebody else has driven it meanwhile."""


class OtherWorkerError(Exception):
    """Tells the engine to start the body of a run again, on another worker."""


class BaseWorker(ABC):
    """Drives runs. An engine adds how it starts, and what becomes of a run that another worker must have."""

    journal: WorkersJournal

    def __init__(
        self,
        journal: WorkersJournal,
        agents: Mapping[str, Agent],
        *,
        queues: tuple[str, ...],
        concurrency: int,
        grace: float,
        max_attempts: int,
        health: str | None,
    ) -> None:
        for option, value, least in (
            ("concurrency", concurrency, 1),
            ("grace", grace, 0),
            ("max_attempts", max_attempts, 1),
        ):
            if value < least:
                raise UsageError(f"{option}={value} is not possible: give at least {least}.")
        for queue in queues:
            check_queue(queue)
        for name in agents:
            check_name("agent", name)
        self.journal = journal
        self.agents = {name: self._equip(name, each) for name, each in agents.items()}
        self.concurrency = concurrency
        self.grace = grace
        self.max_attempts = max_attempts
        self.health = None if health is None else parse_address(health)
        """Where it says whether it is alive and ready: `[HOST:]PORT`, without a host on this machine only."""
        self.name = f"worker {socket.gethostname()} {os.getpid()} {os.urandom(4).hex()}"
        """Of the lock that says that this worker is alive."""
        versions = {
            name: (each.definition.version, *each.definition.accepts)
            for name, each in self.agents.items()
        }
        self.info = WorkerInfo(self.name, queues, versions)
        self._driven: dict[asyncio.Task[bool], str] = {}
        self._slots = asyncio.Semaphore(concurrency)
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        """One for each run that is driven or about to be."""
        self._elsewhere: set[str] = set()
        """Runs that somebody else drives, whose bodies wait here."""
        self._stopping = asyncio.Event()
        self._lock: object = None

    # --- its life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`. Then every run is handed over after its step, at the latest after `grace` seconds."""
        async with AsyncExitStack() as stack:
            if self.health is not None:
                await stack.enter_async_context(serve_health(self.health, self.check))
            await self._work()

    async def check(self) -> dict[str, bool]:
        """What has to be true for the worker to be ready."""
        try:
            await self.journal.runs(limit=1)
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
        await self._launch()
        watches = [
            asyncio.create_task(self._repeat(work, seconds)) for work, seconds in self._watches()
        ]
        try:
            await self._stopping.wait()
            await self._hand_over()
        finally:
            for watch in watches:
                watch.cancel()

    async def _hand_over(self) -> None:
        until = asyncio.get_running_loop().time() + self.grace
        while self._driven and asyncio.get_running_loop().time() < until:
            for agent in self.agents.values():
                agent.hand_over()
            await asyncio.wait([*self._driven], timeout=CLAIM_SECONDS)

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

    # --- a run -----------------------------------------------------------------------------------------

    async def _drive(self, run_id: str) -> None:
        """Drive a run until it ends or waits for an answer. Whatever happens here, the engine learns nothing of it.

        An engine takes a body that raises for a run that is over. So all that can fail is part of an attempt, also what
        ends the run or leaves it to others, and an attempt that failed is made again.
        """
        failures, why_failed = 0, ""
        while True:
            if self._stopping.is_set():
                await self._leave()
            task = asyncio.create_task(self._attempt(run_id, why_failed))
            self._driven[task] = run_id
            try:
                if await task:
                    return
            except OtherWorkerError:
                raise
            except (RunInUseError, RunHandedOverError, SessionConflictError):
                await asyncio.sleep(CLAIM_SECONDS)
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
                    why_failed = f"{type(error).__name__}: {error}"
            finally:
                del self._driven[task]

    async def _attempt(self, run_id: str, why_failed: str) -> bool:
        """Resume a run when fewer than `concurrency` are driven: an engine may count each of its queues alone.

        True when it is over, or waits, or is where another worker finds it. With `why_failed` it is ended first.

        An engine may start a run here again while it is driven: others took this worker for dead. The claim does not
        tell them apart, if the first lost it and has not noticed. So the second waits until the first has ended.
        """
        turn = self._turns.setdefault(run_id, asyncio.Lock())
        async with turn, self._slots:
            if self._stopping.is_set():
                return False
            self._elsewhere.discard(run_id)
            try:
                if why_failed:
                    await self._end_idle(run_id, why_failed)
                return await self._resume(run_id)
            except AtRestError:
                return False  # it is looked at once more: whoever finds it at rest ends its turn
            except NewerRunError:
                place = place_of_newer(self.info.record_version)
                await self._pass_on(run_id, CannotDriveError("", place))
                return True
            except CannotDriveError as missing:
                await self._pass_on(run_id, missing)
                return True
            except (RunInUseError, SessionConflictError):
                self._elsewhere.add(run_id)
                raise

    async def _resume(self, run_id: str) -> bool:
        """Resume or begin a run. True when it is over, or waits, or another worker must have it."""
        try:
            records = await self.journal.read(run_id)
        except UnknownRunError:
            return True  # it was deleted
        except DamagedRunError as error:
            # Nothing can be appended to it, so it cannot be ended as failed. It is found again after it was restored.
            about = {"run_id": run_id, "error": str(error)}
            _log.error("run '%s' is left as it is: %s", run_id, error, extra={"hookline": about})
            return True
        if not await self._is_at_rest(run_id, records):
            if not await self._continue(run_id, records):
                return True
            records = await self.journal.read(run_id)
            if not await self._is_at_rest(run_id, records):
                return False
        await self._end_turn(records)
        return True

    async def _continue(self, run_id: str, records: list[Record]) -> bool:
        """Drive a run, or end it. False when another run of its session comes before it."""
        self._check_version(records)  # one that is not for this worker does not wait for its claim
        queued = records[0]
        assert isinstance(queued, RunQueued)
        agent = self.agents[queued.agent_id]
        # What is resumed later has a trace of its own, as without workers: see docs/observability.md.
        with continue_trace(queued.traceparent if len(records) == 1 else ""):
            if queued.session:
                return await self._continue_session(agent, queued)
            await agent.resume(run_id)
        return True

    async def _decide(self, durable: StoredRecords) -> None:
        """Whether this worker drives a run that it has claimed. One that was taken up too often is ended here.

        Raises AtRestError or CannotDriveError.
        """
        records = durable.records
        if await self.journal.is_at_rest(records[0].run_id, records):
            raise AtRestError
        self._check_version(records)
        if await is_stuck(self.journal, records, self.max_attempts):
            why = f"taken up {self.max_attempts} times without a step made"
            await fail_idle(durable, self.journal.database.now(), why)
            await durable.commit()

    def _check_version(self, records: list[Record]) -> None:
        """Refuse a run that this worker has no agent for."""
        queued, version = records[0], wanted_version(records)
        assert isinstance(queued, RunQueued)
        if not self.info.can_drive(queued.agent_id, version):
            raise CannotDriveError(queued.queue, place_for(queued.agent_id, version))

    async def _continue_session(self, agent: Agent, queued: RunQueued) -> bool:
        """Drive a run of a session if it is its turn. Otherwise the end of the run before it queues it again."""
        run_id = queued.run_id
        if any(isinstance(each, InboxCancel) for each in await self.journal.inbox(run_id)):
            await agent.resume(run_id, session=SessionMembership(queued.session))  # it only ends
            return True
        try:
            session = await Sessions(self.journal).get(queued.session)
            if await self.journal.find_turn(session) != run_id:
                return False
            if session.unfinished:
                await session.resume_run(agent)
            else:
                await session.begin_run(agent, run_id)
        except SessionConflictError:
            raise
        except SessionError as error:
            _log.warning("run '%s' waits: %s", run_id, error)
            return False
        return True

    async def _end_turn(self, records: list[Record]) -> None:
        """Queue the next run of a session if this one is over. Whoever finds it over does so, and it is done once."""
        queued = records[0]
        assert isinstance(queued, RunQueued)
        if queued.session and (await story_of(records, self.journal)).is_over:
            cause = f"after {queued.run_id} {len(records)}"
            await self.journal.wake_turn(queued.session, cause)

    async def _is_at_rest(self, run_id: str, records: list[Record]) -> bool:
        """Whether nothing is to be done."""
        return await self.journal.is_at_rest(run_id, records)

    def _equip(self, name: str, agent: Agent) -> Agent:
        """An agent with the journal of this worker, which decides what the agent drives."""
        if not isinstance(agent, Agent):
            raise UsageError(f"'{name}' is {agent!r}, which is not an agent.")
        if agent.definition.journal is not None:
            raise UsageError(
                f"agent '{name}' has a journal of its own.",
                remedy="Build it without one: the worker gives it the journal of the queue.",
            )
        return Agent(replace(agent.definition, journal=self.journal, on_claim=self._decide))

    async def _end_idle(
        self,
        run_id: str,
        why: str,
        end: Callable[[Durable, float, str], Awaitable[None]] = fail_idle,
    ) -> None:
        durable = await reopen(self.journal, run_id, ())
        try:
            # Another worker may have driven it, to its end or to a question. That is no failure, but can be cancelled.
            is_at_rest = await self.journal.is_at_rest(run_id, durable.records)
            is_over = (await story_of(durable.records, self.journal)).is_over
            if not (is_over or (is_at_rest and end is fail_idle)):
                await end(durable, self.journal.database.now(), why)
                await durable.commit()
        finally:
            await durable.close()

    async def _repeat(self, work: Any, seconds: float) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # the server may be away, and comes back
                about = {"error": type(error).__name__}
                _log.warning("the queue cannot be looked at: %s", error, extra={"hookline": about})
            await asyncio.sleep(seconds)

    async def _look(self) -> None:
        """See that this worker is still alive to others, and end what it may not write any more."""
        try:
            self._lock = await self.journal.claim(self.name)
        except RunInUseError:
            pass  # by this very worker: the connection is there
        finally:
            # Without its claim a run writes nothing, not even that it was cancelled. One that was claimed again since
            # is none of these. Once: a tool may take its time to clean up.
            for task, run_id in self._driven.items():
                if self.journal.has_lost(run_id) and not task.cancelling():
                    task.cancel()

    # --- what an engine does ---------------------------------------------------------------------------

    @abstractmethod
    async def _launch(self) -> None:
        """Claim the name of this worker, and start the engine on this event loop."""

    @abstractmethod
    async def _leave(self) -> None:
        """Leave a run to another worker, because this one stops. It raises OtherWorkerError, or does not return."""

    @abstractmethod
    async def _pass_on(self, run_id: str, missing: CannotDriveError) -> None:
        """Let a worker have a run that can drive it, or raise OtherWorkerError."""

    @abstractmethod
    async def _find_lost(self) -> None:
        """Queue runs that have something to do, and that the engine does not know or has given up."""

    def _watches(self) -> list[tuple[Callable[[], Awaitable[object]], float]]:
        """What is done again and again, with the seconds in between."""
        return [(self._look, LOOK_SECONDS), (self._find_lost, LOST_SECONDS)]


async def _exit_after(work: Any) -> None:
    """Do something, and end the process whatever threads there are."""
    code = 0
    try:
        await work
    except HooklineError as error:
        _log.error("the worker failed: %s", error, extra={"hookline": {"error": str(error)}})
        code = 1
    except BaseException:
        _log.exception("the worker failed")
        code = 1
    finally:
        await asyncio.to_thread(send_rest)
        os._exit(code)


async def is_stuck(journal: JournalStore, records: list[Record], attempts: int) -> bool:
    """Whether a run was taken up so often since it, or a child that it waits for, last made a step or paused."""
    times: list[float] = []
    for record in records:
        if isinstance(record, StepFinished | StepPaused | RunReopened):
            times.clear()
        elif isinstance(record, RunTakenUp):
            times.append(record.at)
    if len(times) < attempts:
        return False
    latest = await _latest_step_of_children(journal, records)
    return sum(at > latest for at in times) >= attempts


async def _latest_step_of_children(journal: JournalStore, records: list[Record]) -> float:
    """When a child that a run waits for last made a step, by the clocks of its workers."""
    waits_for: dict[str, None] = {}
    for record in records:
        if isinstance(record, ChildStarted):
            waits_for[record.child_run_id] = None
        elif isinstance(record, ChildFinished):
            waits_for.pop(record.child_run_id, None)
    latest = -math.inf
    for child_id in waits_for:
        with suppress(UnknownRunError):  # it has not begun
            of_child = await journal.read(child_id)
            steps = (each.at for each in of_child if isinstance(each, StepFinished | StepPaused))
            below = await _latest_step_of_children(journal, of_child)
            latest = max(latest, below, *steps)
    return latest


def missing_package(package: str, extra: str) -> UsageError:
    """What somebody reads who has not installed an engine."""
    return UsageError(
        f"workers need the package '{package}'.", remedy=f"Run: {install_command(extra)}"
    )


def make_queued(
    agent: str, prompt: str, run_id: str | None, queue: str, version: str, session: str | None
) -> RunQueued:
    """The first record of a run that is submitted."""
    run_id = os.urandom(16).hex() if run_id is None else check_id(run_id)
    if session is not None and check_session_id(session) == run_id:
        raise UsageError(
            f"a run cannot have the id of its session, '{session}'.", remedy="Give it another id."
        )
    if not checked_text(prompt, "the prompt").strip():
        raise UsageError("the prompt is empty.", remedy="Write what the agent is to do.")
    return RunQueued(
        run_id,
        0,
        0.0,
        agent_id=check_name("agent", agent),
        prompt=prompt,
        queue=queue,
        agent_version=version,
        session=session or "",
        traceparent=get_traceparent(),
    )


def make_session(session_id: str) -> SessionCreated:
    """The first record of a session that a run is submitted to."""
    return SessionCreated(
        stream_of(session_id), 0, 0.0, session_id=session_id, version=RECORD_VERSION
    )


def check_same(known: list[Record], record: RunQueued) -> None:
    """Refuse to submit another run with the id of a known one."""
    same = ("agent_id", "prompt", "queue", "agent_version", "session")
    if any(getattr(known[0], name, None) != getattr(record, name) for name in same):
        raise UsageError(
            f"run '{record.run_id}' is in the journal already, with another prompt, agent, version, queue or session.",
            remedy="Give the new run another id.",
        )


def check_name(kind: str, name: str) -> str:
    """The name of an agent or a queue, which can be typed and printed."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise UsageError(
            f"{name!r} cannot be the name of {'an' if kind == 'agent' else 'a'} {kind}.",
            remedy="Give a name of printable characters.",
        )
    return name


def check_queue(name: str) -> str:
    """The name of a queue. Below it, after a slash, runs wait that the first worker cannot drive."""
    if "/" in check_name("queue", name):
        raise UsageError(
            f"{name!r} cannot be the name of a queue.", remedy="Give a name without a slash."
        )
    if name.startswith(_RESERVED):
        raise UsageError(
            f"{name!r} cannot be the name of a queue: names that begin with {_RESERVED} are for the queues of DBOS.",
            remedy="Give another name.",
        )
    return name


def check_id(run_id: str) -> str:
    """An id that can be typed and printed."""
    if not isinstance(run_id, str) or not run_id.strip() or not run_id.isprintable():
        raise UsageError(
            f"{run_id!r} cannot be the id of a queued run.",
            remedy="Give an id of printable characters.",
        )
    return check_own_id(run_id)
