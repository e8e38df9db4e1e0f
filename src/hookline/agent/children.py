"""Child runs: started by a tool, through the same loop, under the policies, limits and cancellation of the tree."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from hookline.agent.approval import ask_while_running
from hookline.agent.recall import Memory
from hookline.agent.result import RunResult, recorded_result
from hookline.agent.run import Flight, Run
from hookline.blueprint import Definition, for_child
from hookline.errors import HookError, ToolError, UsageError
from hookline.hooks import Plan, Result
from hookline.journal import (
    ChildFinished,
    ChildStarted,
    Durable,
    Record,
    ToolProgress,
    fold,
    with_remembered,
)
from hookline.lifecycle import HookPoint, SubagentHookContext
from hookline.state import (
    NO_COUNTERS,
    AgentState,
    Counters,
    Decision,
    JSONValue,
    PendingApproval,
    RunStatus,
    ToolCall,
    Usage,
    checked_text,
    freeze,
)


class HasDefinition(Protocol):
    """An agent, as far as starting it as a child is concerned."""

    @property
    def definition(self) -> Definition:
        """What it is made of."""
        ...


class ChildWaits(Exception):
    """A child run waits for a person, so the call that started it cannot finish now."""

    def __init__(self, approvals: tuple[PendingApproval, ...]) -> None:
        self.approvals = approvals
        super().__init__("a child run waits for approval; let this exception pass")


class Host:
    """What a tool's context is made of: the run it is in, and its own call."""

    __slots__ = ("_asked", "_flight", "_idle", "_loop", "_run", "_running", "_spawned", "waiting")

    def __init__(self, run: Run, flight: Flight) -> None:
        self._run = run
        self._flight = flight
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._spawned = 0
        self._running = 0
        self._idle: asyncio.Event | None = None
        self.waiting: tuple[PendingApproval, ...] = ()
        """What the children of this call wait for."""

    @property
    def state(self) -> AgentState:
        """The state as it is settled now."""
        return self._run.state

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is to end."""
        return self._run.is_cancelled

    @property
    def depth(self) -> int:
        """How many runs are above this one."""
        return self._run.depth

    @property
    def records(self) -> Sequence[Record]:
        """The run's journal as it is now."""
        return tuple(self._run.durable.records)

    def progress(self, call: ToolCall, message: JSONValue) -> None:
        """Report how it is going to whoever listens."""
        shown = freeze(message, f"a progress message of tool '{call.name}'")
        self._in_the_loop(self._tell, call, shown)

    def _tell(self, call: ToolCall, shown: JSONValue) -> None:
        run = self._run
        run.clock()
        at = run.at
        run.durable.tell(
            ToolProgress(
                run.run_id,
                len(run.durable.records),
                at,
                call.id,
                call.name,
                shown,
                run.step_index or 0,
            )
        )

    def charge(self, usage: Usage) -> None:
        """Count a model call the tool made itself."""
        if not isinstance(usage, Usage):
            raise UsageError(f"charge takes a Usage, not {usage!r}.")
        self._in_the_loop(self._run.charge, usage)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this is asked in another thread than the run's, as sync tools do."""
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return True

    def _in_the_loop(self, work: Callable[..., None], *args: Any) -> None:
        """Do this in the run's own thread; from another one it is done in turn, before the tool's result arrives."""
        if not self._is_elsewhere:
            work(*args)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is long over
            self._loop.call_soon_threadsafe(work, *args)

    async def spawn(
        self, call: ToolCall, agent: HasDefinition, prompt: str, name: str = ""
    ) -> RunResult:
        """Start a child run and wait for it."""
        definition = getattr(agent, "definition", None)
        if not isinstance(definition, Definition):
            raise UsageError(
                f"spawn takes an Agent, not {agent!r}.",
                remedy="Build it: AgentBuilder()...build().",
            )
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' called spawn in a thread of its own, where the run cannot be driven.",
                remedy="Make the tool async: `async def`, and `await context.spawn(...)`.",
            )
        self._spawned += 1
        key = f"{call.id}/{self._spawned}"
        prompt = checked_text(prompt, "the prompt")
        self._idle = self._idle or asyncio.Event()
        self._running += 1
        try:
            result = await _spawn(self._run, self._flight, key, definition, prompt, name)
        except HookError as error:
            self._flight.failed_hook = error
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
        if result.status is not RunStatus.PAUSED:
            return result
        self.waiting += result.pending
        while self._running:  # children beside this one get as far as they can: none is left behind
            self._idle.clear()
            await self._idle.wait()
        raise ChildWaits(self.waiting)

    async def ask(self, call: ToolCall, question: ToolCall, reason: str, asked_by: str) -> Decision:
        """Ask whoever approves for this run."""
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' asked in a thread of its own, where the run's hooks cannot be.",
                remedy="Make the tool async: `async def`, and `await context.ask(...)`.",
            )
        self._asked += 1
        numbered = ToolCall(f"{call.id}/ask-{self._asked}", question.name, question.args)
        return await ask_while_running(self._run, numbered, reason, asked_by)


async def _spawn(
    run: Run, flight: Flight, key: str, definition: Definition, prompt: str, name: str
) -> RunResult:
    child_id = f"{run.run_id}/{run.step_index}/{key}"
    saved = flight.children.get(key)
    if saved is not None and saved.status is not RunStatus.PAUSED:
        return saved  # this call is being taken up again, and this child was done
    start = SubagentHookContext(
        point=HookPoint.SUBAGENT_START,
        state=run.state,
        evaluations=run.evaluations,
        live=run,
        name=name or definition.agent_id,
        child_agent_id=definition.agent_id,
        child_run_id=child_id,
        prompt=prompt,
    )
    if saved is None:
        start = await _ask_to_start(run, start)
        run.append(ChildStarted(*run.head(), child_id, start.name, flight.call.id))
    child = _Child(run, definition, key, start.name, flight.call.id)
    try:
        result = await child.begin(child_id, saved, start.prompt)
        result = await _ask_to_stop(run, child, start, result)
    finally:
        child.close()
    flight.children[key] = result
    if result.status is not RunStatus.PAUSED:
        child.finish(result.state, result.status, result.text)
    return result


def _fresh(run: Run, definition: Definition, child_id: str) -> AgentState:
    return AgentState(
        agent_id=definition.agent_id,
        run_id=child_id,
        session_id=run.state.session_id,
        parent_agent_id=run.state.agent_id,
        parent_run_id=run.run_id,
    )


def recount_children(run: Run, flight: Flight, memory: Memory) -> None:
    """Count what the children of a call had used that was settled before the process died."""
    for child in memory.finished_children(flight.call.id):
        key = child.child_run_id.removeprefix(f"{run.run_id}/{run.step_index}/")
        saved = flight.children.get(key)
        counted = saved.state.counters if saved is not None else NO_COUNTERS
        run.ledger.carry(child.counters, counted)
        _count_child(run, child.counters, counted)
        run.state = with_remembered(run.state, child.remembered)


def _count_child(run: Run, now: Counters, before: Counters) -> None:
    run.uncounted = run.uncounted + (now.usage - before.usage)
    run.child_steps += now.steps - before.steps
    run.uncounted_calls += now.tool_calls - before.tool_calls


class _Child:
    """One child run, which may be driven more than once before it is done."""

    def __init__(
        self, parent: Run, definition: Definition, key: str, name: str, call_id: str
    ) -> None:
        self.parent = parent
        self.definition = definition
        self.key = key
        self.name = name
        self.call_id = call_id
        self.counted = NO_COUNTERS
        self.drives = 0
        self.durable: Durable | None = None

    async def begin(self, child_id: str, saved: RunResult | None, prompt: str) -> RunResult:
        """Start it; or go on with it, from where it paused, or from where its process died."""
        parent, definition = self.parent, self.definition
        self.durable = durable = parent.durable.for_child(child_id, definition.listeners)
        if saved is not None:
            self.counted = saved.state.counters  # the parent knew of that much when it paused
        if not durable.records:
            if saved is None:
                return await self.drive(_fresh(parent, definition, child_id), prompt)
            return await self.drive(saved.state, None)
        story = fold(durable.records)
        parent.ledger.carry(story.settled.counters, self.counted)
        if not story.is_finished:
            return await self.drive(story.settled, None, Memory(story.tail))
        if story.state.pending_step is not None:
            return await self.drive(story.state, None)
        self._count(story.state)
        return recorded_result(story, durable.records)

    def close(self) -> None:
        """Let go of its record."""
        if self.durable is not None:
            self.durable.close()

    async def drive(
        self, state: AgentState, prompt: str | None, memory: Memory | None = None
    ) -> RunResult:
        """Drive it to its end, or to where it waits."""
        parent, definition = self.parent, self.definition
        inherited = for_child((*parent.inherited, *parent.definition.registrations))
        assert self.durable is not None
        child = Run(
            definition,
            state,
            self.durable,
            drive=parent.drive,
            parent=parent,
            inherited=inherited,
            memory=memory,
        )
        self.drives += 1
        key = (parent.step_index, self.key, self.drives)
        try:
            result = await parent.durable.spawn(key, lambda: parent.drive(child, prompt))
        except asyncio.CancelledError:
            self._count(child.state)
            self.finish(child.state, RunStatus.CANCELLED, "")
            raise
        self._count(result.state)
        return result

    def _count(self, state: AgentState) -> None:
        """What the child has used since it was last counted, its parent has used; the ledger knows it already."""
        _count_child(self.parent, state.counters, self.counted)
        self.counted = state.counters

    def finish(self, state: AgentState, status: RunStatus, text: str) -> None:
        """The child is done, and goes on record."""
        run = self.parent
        head = (*run.head(), state.run_id, self.name, self.call_id)
        run.append(ChildFinished(*head, status, text, state.counters, state.remembered))
        run.state = with_remembered(run.state, state.remembered)


async def _ask_to_start(run: Run, ctx: SubagentHookContext) -> SubagentHookContext:
    plan = run.plans.subagent_start
    if plan is None:
        return ctx
    async with run.hook_lock:
        # Only now: hooks of other calls may have said something while this one waited for its turn.
        ctx = msgspec.structs.replace(ctx, state=run.state, evaluations=run.evaluations)
        result: Result[Any] = await run.ask(plan, ctx)
    if result.is_blocked or result.is_stopped:
        raise ToolError(f"the subagent was not started: {result.reason}")
    return result.context  # type: ignore[no-any-return]


async def _show(run: Run, plan: Plan, start: SubagentHookContext, result: RunResult) -> Result[Any]:
    async with run.hook_lock:
        ctx = msgspec.structs.replace(
            start,
            point=HookPoint.SUBAGENT_STOP,
            state=run.state,
            evaluations=run.evaluations,
            result=result,
            continuation=result.outcome,
        )
        return await run.ask(plan, ctx)


async def _ask_to_stop(
    run: Run, child: _Child, start: SubagentHookContext, result: RunResult
) -> RunResult:
    """Show the parent's hooks what the child came back with. They may send it back to work, so often and no more."""
    plan = run.plans.subagent_stop
    if plan is None:
        return result
    objections = 0
    while result.status is not RunStatus.PAUSED:
        try:
            asked = await _show(run, plan, start, result)
        except BaseException:
            child.finish(result.state, result.status, "")  # no hook has cleared what it says
            raise
        result = asked.context.result
        # Like a stop hook: it may object to an ordinary end, and never to a guard's.
        ordinary = result.status is RunStatus.COMPLETED
        if not (asked.is_blocked and ordinary and objections < run.definition.max_objections):
            return result
        objections += 1
        result = await child.drive(result.state, asked.reason)
    return result
