"""Child runs: begun, driven as often as it takes, counted with their parent, and on record when they are done.

A child goes through the same loop, under the policies, limits and cancellation of the runs above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from hookline.agent.in_progress import CallInProgress
from hookline.agent.recovery import ResumeSource
from hookline.agent.result import RunResult, restore_child, restore_result
from hookline.agent.run import AnswerSource, Run, RunSetup
from hookline.agent.run_index import RecordedCall, RunIndex
from hookline.definition import Definition, for_child
from hookline.errors import HooklineError, ToolError
from hookline.hooks import Result
from hookline.journal import (
    ChildFinished,
    ChildStarted,
    Durable,
    Record,
    RunFinished,
    RunReopened,
    StatusChanged,
    fold,
    story_of,
)
from hookline.journal.durable import StoredRecords
from hookline.journal.fold import remember_answers
from hookline.journal.record import start_of
from hookline.lifecycle import HookPoint, SubagentHookContext
from hookline.state import (
    NO_COUNTERS,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Ending,
    PendingApproval,
    RunStatus,
    StopReason,
)

_WHY = "its parent run continued without it"
_CANCELLED = RunStatus.CANCELLED


class AgentLike(Protocol):
    """What is needed of an agent to start it as a child: its definition."""

    @property
    def definition(self) -> Definition:
        """What it is made of."""
        ...


class ChildPaused(Exception):
    """A child run waits for a person, so the call that started it cannot finish now."""

    def __init__(self, approvals: tuple[PendingApproval, ...]) -> None:
        self.approvals = approvals
        super().__init__("a child run waits for approval; do not catch this exception")


async def start_child(
    run: Run, current: CallInProgress, key: str, definition: Definition, prompt: str, name: str
) -> RunResult:
    """Run a child on behalf of a call, or of a hook, whose key is its own."""
    child_id = f"{run.run_id}/{run.step_index}/{key}"
    saved = current.children.get(key)
    if saved is not None and saved.status is not RunStatus.PAUSED:
        return saved  # this call is resumed, and this child was done
    _protect_from_each_other(run, definition)
    objections = current.objections.get(key, 0)
    start = run.context(
        HookPoint.SUBAGENT_START,
        name=name or definition.agent_id,
        child_agent_id=definition.agent_id,
        child_run_id=child_id,
        prompt=prompt,
    )
    if saved is None:
        start = await _ask_to_start(run, key, start)
    child = ChildRun(run, definition, key, start.name, current.call.id, objections)
    child.counted = current.counted.get(key, NO_COUNTERS)
    child.durable = await run.durable.for_child(child_id, definition.listeners)
    try:
        if saved is None:
            run.append(
                ChildStarted(
                    *run.record_head(),
                    child_run_id=child_id,
                    name=start.name,
                    call_id=current.call.id,
                )
            )
            await _commit(run)  # or nobody would know whose child it is, should the process die
        result = await child.begin(child_id, saved, start.prompt)
        for _ in range(objections, child.objections):
            await _object_again(run, key, start, result)
        result = await _ask_to_stop(run, child, start, result)
    finally:
        await child.close()
        current.counted = {**current.counted, key: child.counted}
    current.children = {**current.children, key: result}
    current.objections = {**current.objections, key: child.objections}
    if result.status is not RunStatus.PAUSED:
        child.finish(result.state, result.status, result.text)
    return result


def _protect_from_each_other(run: Run, definition: Definition) -> None:
    """Have the tools of a child leave what guards the runs above, and theirs what guards the child."""
    without_journal = replace(definition, journal=None)  # its records go to the one of the top
    for above in run.self_and_parents():
        other = above.setup.definition
        if above.parent is not None:
            other = replace(other, journal=None)
        try:
            for protect in definition.protectors:
                protect(other)
            for protect in other.protectors:
                protect(without_journal)
        except HooklineError as error:
            said = f"the subagent was not started: {error.message}"
            raise ToolError(said, remedy=error.remedy) from None


async def _commit(run: Run) -> None:
    """Wait until what led to a child's work is safe: the child writes a record of its own, which may be ahead."""
    if run.commit is not None and run.has_begun:
        await run.commit()


async def _ask_to_start(run: Run, key: str, ctx: SubagentHookContext) -> SubagentHookContext:
    plan = run.plans.subagent_start
    if plan is None:
        return ctx
    async with run.hook_lock:  # other calls are running, and may start children too
        # Only now: hooks of other calls may have said something while this one waited for its turn.
        ctx = replace(ctx, state=run.state, evaluations=run.evaluations)
        result: Result[Any] = await run.ask(plan, ctx, about=key)
    if result.is_blocked or result.is_stopped:
        raise ToolError(f"the subagent was not started: {result.reason}")
    return result.context  # type: ignore[no-any-return]


def _to_show(run: Run, start: SubagentHookContext, result: RunResult) -> SubagentHookContext:
    return replace(
        start,
        point=HookPoint.SUBAGENT_STOP,
        state=run.state,
        evaluations=run.evaluations,
        result=result,
        continuation=result.outcome,
    )


async def _object_again(run: Run, key: str, start: SubagentHookContext, result: RunResult) -> None:
    """Hooks objected to an earlier end, before a process died: those on record say so again, and nobody is asked."""
    plan = run.plans.subagent_stop
    if plan is not None and run.source.is_after_crash:
        async with run.hook_lock:
            await run.ask(plan, _to_show(run, start, result), about=key, recorded_only=True)


async def _ask_to_stop(
    run: Run, child: ChildRun, start: SubagentHookContext, result: RunResult
) -> RunResult:
    """Show the parent's hooks the child's result. They may send it back to work up to `max_objections` times."""
    plan = run.plans.subagent_stop
    if plan is None:
        return result
    while result.status is not RunStatus.PAUSED:
        try:
            async with run.hook_lock:
                asked = await run.ask(plan, _to_show(run, start, result), about=child.key)
            if asked.is_blocked:
                await _commit(run)  # or nobody would know who sent it back, should the process die
        except BaseException:
            child.finish(result.state, result.status, "")  # no hook has cleared what it says
            raise
        result = asked.context.result
        # Like a stop hook: it may object to an ordinary end, and never to a guard's.
        ordinary = result.status is RunStatus.COMPLETED
        if not (asked.is_blocked and ordinary):
            return result
        if child.objections >= run.setup.definition.max_objections:
            return _refuse_end(result, asked, child.objections)
        child.objections += 1
        result = await child.drive(result.state, asked.reason)
    return result


def _refuse_end(result: RunResult, asked: Result[Any], times: int) -> RunResult:
    """What a child came back with when hooks object still, and it is not sent back again: no end that they take."""
    cap = (
        f"subagent_stop hooks objected {times} times, which is the limit; the last: {asked.reason}"
    )
    forbid = ContinuationEvaluation(
        source=asked.decided_by,
        decision=ContinuationDecision.FORBID_CONTINUATION,
        reason=cap,
        stop_reason=StopReason.OBJECTION_LIMIT,
    )
    ending = Ending(
        status=RunStatus.STOPPED,
        stop_reason=StopReason.OBJECTION_LIMIT,
        reason=cap,
        decided_by=asked.decided_by,
    )
    return replace(
        result,
        state=replace(result.state, ending=ending),
        status=RunStatus.STOPPED,
        stop_reason=StopReason.OBJECTION_LIMIT,
        outcome=ContinuationOutcome.from_evaluations((forbid,)),
    )


class ChildRun:
    """One child run, which may be driven more than once before it is done."""

    def __init__(
        self,
        parent: Run,
        definition: Definition,
        key: str,
        name: str,
        call_id: str,
        objections: int,
    ) -> None:
        self.parent = parent
        self.definition = definition
        self.key = key
        self.name = name
        self.call_id = call_id
        self.objections = objections
        """How often the parent's hooks have sent it back to work."""
        self.counted = NO_COUNTERS
        self.durable: Durable | None = None

    async def begin(self, child_id: str, saved: RunResult | None, prompt: str) -> RunResult:
        """Start it, or continue it from where it paused or where its process died."""
        parent, definition, durable = self.parent, self.definition, self.durable
        assert durable is not None
        if saved is not None:
            self.counted = saved.state.counters  # the parent knew of that much when it paused
        if start_of(durable.records) is None:
            if saved is None:
                return await self.drive(_fresh(parent, definition, child_id), prompt)
            return await self.drive(saved.state, None)
        story = fold(durable.records)
        self.objections = _times_sent_back(durable.records)
        parent.ledger.carry(story.settled.counters, self.counted)
        if not story.is_finished:
            source = ResumeSource(story.tail, story.unsettled_seconds)
            return await self.drive(story.settled, None, source)
        if story.state.pending_step is not None:
            return await self.drive(story.state, None)
        self._count(story.state)
        return restore_result(story, durable.records, definition.plans.output)

    async def close(self) -> None:
        """Let go of its record."""
        if self.durable is not None:
            await self.durable.close()

    async def drive(
        self, state: AgentState, prompt: str | None, source: AnswerSource | None = None
    ) -> RunResult:
        """Drive it to its end, or to where it waits."""
        parent, definition = self.parent, self.definition
        inherited = for_child((*parent.setup.inherited, *parent.setup.definition.registrations))
        assert self.durable is not None
        setup = RunSetup.of(definition, parent.setup.drive, parent=parent, inherited=inherited)
        source = source or await parent.source.for_child(parent, state.run_id)
        child = Run(setup, state, self.durable, source)
        try:
            result = await parent.setup.drive(child, prompt)
        except asyncio.CancelledError:
            self._count(child.state)
            self.finish(child.state, RunStatus.CANCELLED, "")
            if child.state.pending_step is not None:  # it has not continued yet
                await end_idle(self.durable, child.state, child.at, _WHY)
            raise
        self._count(result.state)
        return result

    def _count(self, state: AgentState) -> None:
        """What the child has used since it was last counted, its parent has used; the ledger knows it already."""
        self.parent.uncounted.add_child(state.counters, self.counted)
        self.counted = state.counters

    def finish(self, state: AgentState, status: RunStatus, text: str) -> None:
        """The child is done, and that is recorded."""
        run = self.parent
        run.append(
            ChildFinished(
                *run.record_head(),
                child_run_id=state.run_id,
                name=self.name,
                call_id=self.call_id,
                status=status,
                text=text,
                counters=state.counters,
                remembered=state.remembered,
            )
        )
        if run.has_begun:  # else it may begin again, and finds the child done
            run.durable.flush()
        run.set_state(remember_answers(run.state, state.remembered))


def _fresh(run: Run, definition: Definition, child_id: str) -> AgentState:
    return AgentState(
        agent_id=definition.agent_id,
        run_id=child_id,
        session_id=run.state.session_id,
        parent_agent_id=run.state.agent_id,
        parent_run_id=run.run_id,
    )


# --- children that were done before a process died ------------------------------------------------------


def recount_children(run: Run, current: CallInProgress, known: RecordedCall) -> None:
    """Count what the children of a call had used that was settled before the process died."""
    last = {
        child.child_run_id: child for child in known.finished_children
    }  # tried again, it ends again
    for child in last.values():
        key = child.child_run_id.removeprefix(f"{run.run_id}/{run.step_index}/")
        saved = current.children.get(key)
        counted = saved.state.counters if saved is not None else NO_COUNTERS
        run.count_child(child.counters, counted)
        run.set_state(remember_answers(run.state, child.remembered))


def recount_hook_work(run: Run, known: RunIndex) -> None:
    """Count what hooks had models and agents do, which they are not going to have done again."""
    for consulted in known.consultations.values():
        for record in consulted:
            run.charge(record.response.usage)
    for child in known.finished_hook_children:
        run.count_child(child.counters, NO_COUNTERS)


async def read_child_result(run: Run, definition: Definition, child_id: str) -> RunResult:
    """The result of a child that was done before the process died, from its journal."""
    durable = await run.durable.for_child(child_id, ())
    try:
        return restore_result(fold(durable.records), durable.records, definition.plans.output)
    finally:
        await durable.close()


async def abandon_children(run: Run, current: CallInProgress) -> None:
    """A call is settled while children of it still wait: nobody takes them up any more, and that is on record."""
    waiting = {
        key: child.state
        for key, child in current.children.items()
        if child.status is RunStatus.PAUSED
    }
    current.children = {}
    for key, state in waiting.items():
        name = child_name(run.durable.records, state)
        abandoned = ChildRun(run, run.setup.definition, key, name, current.call.id, 0)
        abandoned.finish(state, RunStatus.CANCELLED, "")
    for state in waiting.values():
        await end_child(run.durable, state, run.at, _WHY)


def _times_sent_back(records: Sequence[Record]) -> int:
    """How often a child continued after it had ended: only its last end says that it was done."""
    ends = [
        record
        for record in records
        if isinstance(record, RunFinished) and record.status is not RunStatus.PAUSED
    ]
    return len(ends) - (1 if ends and ends[-1] is records[-1] else 0)


# --- children that nobody resumes any more -------------------------------------------------------------


async def end_child(above: Durable, state: AgentState, at: float, why: str) -> None:
    """End a child that nobody drives, in its own record; `above` is the record of the run it is a part of."""
    durable = await above.for_child(state.run_id, ())
    try:
        if not (durable.records and fold(durable.records).is_over):
            await end_idle(durable, state, at, why)
    finally:
        await durable.close()


async def end_idle(
    durable: Durable,
    state: AgentState,
    at: float,
    why: str,
    status: RunStatus = _CANCELLED,
    stop_reason: StopReason = StopReason.CANCELLED,
) -> None:
    """End a run that nobody drives, and all below it. There is no agent to drive it with, so no hook is asked."""
    step = state.pending_step
    first = len(durable.records) or (step.records if step is not None else 0)
    run_id, ended = state.run_id, await _find_unfinished_children(durable)
    for call in step.calls if step is not None else ():
        for saved in (call.children or {}).values():
            child = restore_child(saved)
            if child.status is RunStatus.PAUSED:
                ended[child.state.run_id] = call.call.id, child.state
    head = (run_id, 0, at)
    records: list[Record] = [
        ChildFinished(
            *head,
            child_run_id=child_id,
            name=child_name(durable.records, below),
            call_id=call_id,
            status=_CANCELLED,
            counters=below.counters,
            remembered=below.remembered,
        )
        for child_id, (call_id, below) in ended.items()
    ]
    records.append(
        StatusChanged(
            *head,
            status=status,
            stop_reason=stop_reason,
            reason=why,
            usage=state.usage,
            counters=state.counters,
        )
    )
    records.append(
        RunFinished(
            *head,
            status=status,
            stop_reason=stop_reason,
            usage=state.counters.usage,
            steps=state.step_count,
            reason=why,
        )
    )
    for number, record in enumerate(records, first):
        durable.append(replace(record, seq=number))
    durable.flush()
    for _, below in ended.values():
        await end_child(durable, below, at, why)


async def _find_unfinished_children(durable: Durable) -> dict[str, tuple[str, AgentState]]:
    """The children on record that have not ended, each with its call and its settled state."""
    started = {
        each.child_run_id: each for each in durable.records if isinstance(each, ChildStarted)
    }
    for record in durable.records:
        if isinstance(record, ChildFinished):
            started.pop(record.child_run_id, None)
    found = {}
    for child_id, record in started.items():
        below = await durable.for_child(child_id, ())
        try:
            if below.records:  # in memory, a child has no record of its own
                found[child_id] = record.call_id, fold(below.records).settled
        finally:
            await below.close()
    return found


async def cancel_idle(durable: Durable, at: float, why: str) -> None:
    """End a run that nobody drives because somebody cancelled it: one that waits, or whose process died."""
    await end_idle(durable, await _read_settled_state(durable), at, why)


async def fail_idle(
    durable: Durable, at: float, why: str, reason: StopReason = StopReason.ATTEMPTS
) -> None:
    """End a run that process after process took up, and none of them made a step of it. Or for another reason."""
    settled = await _read_settled_state(durable)
    await end_idle(durable, settled, at, why, RunStatus.FAILED, reason)


async def take_back_end(durable: StoredRecords, at: float) -> None:
    """Open a run again that `fail_idle` ended. Children that were ended with it stay so."""
    records = durable.records
    end = max(number for number, each in enumerate(records) if isinstance(each, StatusChanged))
    while isinstance(records[end - 1], ChildFinished) and records[end - 1].at == records[end].at:
        end -= 1
    story = await story_of(records[:end], durable.store)
    status = RunStatus.PAUSED if story.is_finished else RunStatus.RUNNING
    if story.queued is not None:
        status = RunStatus.QUEUED
    head = (durable.records[0].run_id, len(records), at)
    durable.append(RunReopened(*head, records=end, status=status))


async def _read_settled_state(durable: Durable) -> AgentState:
    records, store = durable.records, durable.store
    return (fold(records) if store is None else await story_of(records, store)).settled


def child_name(records: Iterable[Record], child: AgentState) -> str:
    """What a child was called when it was started."""
    names = (
        record.name
        for record in records
        if isinstance(record, ChildStarted) and record.child_run_id == child.run_id
    )
    return next(names, child.agent_id)
