"""The state of a run, computed from its records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from hookline.errors import JournalError, UnknownRunError
from hookline.journal.record import (
    ApprovalAnswered,
    ApprovalAsked,
    ChildFinished,
    EarlierRun,
    HookRan,
    PromptSubmitted,
    Record,
    RunFinished,
    RunQueued,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
    StepPaused,
    counted_records,
    start_of,
)
from hookline.journal.store import JournalStore
from hookline.state import (
    EMPTY,
    AgentState,
    CallStage,
    Counters,
    Decision,
    Ending,
    FrozenDict,
    Log,
    Message,
    PendingApproval,
    PendingCall,
    RunStatus,
    freeze_dict,
)
from hookline.state.pending_step import to_remember


class Story(msgspec.Struct, frozen=True):
    """A run, from its records."""

    state: AgentState
    """As it was when the last record was written."""
    settled: AgentState
    """As it was when the last step was settled, or when the run began: where an unfinished step continues."""
    tail: tuple[Record, ...]
    """The records of a step that was not settled, or of an end that was not reached."""
    is_finished: bool
    """The last record says that the run ended or paused."""
    unsettled_seconds: float = 0.0
    """Active time of the tail. Time between two processes is not active time."""
    queued: RunQueued | None = None
    """What was submitted, of a run that no process has begun."""

    @property
    def is_over(self) -> bool:
        """The run ended: there is nothing to continue."""
        return self.is_finished and self.state.pending_step is None


class EarlierRunReader(Protocol):
    """The part of a store that reads the earlier run which a run continues."""

    async def read_earlier(self, earlier: EarlierRun) -> Sequence[Record]:
        """The records that a later run continues."""
        ...


def fold(records: Iterable[Record]) -> Story:
    """The story of one run's records, in order. Raises JournalError when it continues an earlier run."""
    records = list(records)
    first = start_of(records)
    if first is not None and first.continues is not None:
        raise JournalError(
            f"run '{first.run_id}' continues run '{first.continues.run_id}', which is in the journal.",
            remedy="Pass the journal too: await story_of(records, journal).",
        )
    return _fold(records, None)


async def story_of(records: Iterable[Record], journal: EarlierRunReader) -> Story:
    """The story of one run's records, in order. The journal has the earlier runs whose conversation it continues."""
    records = list(records)
    first = start_of(records)
    before = await state_before(first, journal) if first is not None else None
    return _fold(records, before)


_MOST_STATES = 64
_states: WeakKeyDictionary[EarlierRunReader, dict[str, AgentState]] = WeakKeyDictionary()
"""The states at which runs were continued lately, by journal and head: a session reads its last run only."""


async def state_before(started: RunStarted, journal: EarlierRunReader) -> AgentState | None:
    """The state in which an earlier run was left, for the run that continues it; None if it continues none.

    Runs are read back to the first one, and folded from there: a session may have thousands.
    """
    known = _known_states(journal)
    parts: list[tuple[str, Sequence[Record]]] = []
    seen = {started.run_id}
    state: AgentState | None = None
    while (earlier := started.continues) is not None:
        state = known.get(earlier.head)
        if state is not None:
            break
        part = await journal.read_earlier(earlier)
        start = start_of(part)
        if start is None or earlier.run_id in seen:
            raise JournalError(
                f"the conversation of run '{started.run_id}' begins in run '{earlier.run_id}', "
                "which does not begin with the start of a run.",
                remedy="See what journal.check() finds.",
            )
        seen.add(earlier.run_id)
        parts.append((earlier.head, part))
        started = start
    for head, part in reversed(parts):
        state = known[head] = _fold(part, state).state
        while len(known) > _MOST_STATES:
            del known[next(iter(known))]
    return state


def _known_states(journal: EarlierRunReader) -> dict[str, AgentState]:
    try:
        return _states.setdefault(journal, {})
    except TypeError:  # a store that cannot be the key of a dictionary
        return {}


def _fold(records: Sequence[Record], before: AgentState | None) -> Story:
    state_fold = _StateFold(before)
    # Of a child whose process died before it began nothing counts. It waits in the state that it begins with.
    for record in counted_records(records) or records[:1]:
        state_fold.add(record)
    if state_fold.state is None or state_fold.settled is None:
        raise JournalError("this journal does not begin with the start of a run.")
    return Story(
        state=state_fold.state,
        settled=state_fold.settled,
        tail=tuple(state_fold.tail),
        is_finished=state_fold.is_finished,
        unsettled_seconds=state_fold.seconds,
        queued=state_fold.queued,
    )


class _StateFold:
    """The story so far. `before` is the state of the run that it continues."""

    def __init__(self, before: AgentState | None) -> None:
        self._before = before
        self.state: AgentState | None = None
        self.settled: AgentState | None = None
        self.tail: list[Record] = []
        self.is_finished = False
        self.queued: RunQueued | None = None
        self.seconds = 0.0
        self._at = 0.0
        self._asked: dict[str, PendingApproval] = {}
        self._last_step = -1

    def add(self, record: Record) -> None:
        if self.is_finished and isinstance(record, RunTakenUp):
            return  # it still waits: whoever took it up has not continued it yet
        self.is_finished = isinstance(record, RunFinished)
        self._count_time(record)
        if isinstance(record, RunQueued):
            self.queued = record
            run_id, session = record.run_id, record.session_id
            self._settle(AgentState(agent_id=record.agent_id, run_id=run_id, session_id=session))
            return
        if isinstance(record, RunStarted):
            paused = self.state if self.queued is None else None
            self.queued = None
            self._settle(_initial_state(record, self._before, paused))
            return
        state = self.state
        if state is None:
            raise JournalError(
                f"the first record of this journal is a '{record.type}' record.",
                remedy="A journal begins with a 'run_started' record: its beginning is missing.",
            )
        if isinstance(record, StepFinished):
            assert self.settled is not None
            self._last_step = record.step.index
            self._settle(_with_step(state, self.settled, record))
            return
        if isinstance(record, StepPaused):
            assert self.settled is not None
            self._settle(_with_pause(state, self.settled, record))
            return
        self.tail.append(record)
        self.state = after = self._redo_step() or self._apply(state, record)
        if isinstance(record, StatusChanged):
            self.state = self.settled = self._without_lost(
                after
            )  # the run has ended: no step is done again
        elif _is_between_steps(record, self._last_step):
            assert self.settled is not None
            self.settled = after if self.settled is state else self._apply(self.settled, record)

    def _count_time(self, record: Record) -> None:
        """Add the time since the record before, unless another process wrote that one."""
        if not isinstance(record, RunQueued | RunStarted | RunTakenUp):
            self.seconds += max(0.0, record.at - self._at)
        self._at = record.at
        if isinstance(record, StatusChanged):
            self.seconds = 0.0  # the record has the counters

    def _settle(self, state: AgentState) -> None:
        self.state = self.settled = state
        self.seconds = 0.0
        self.tail.clear()

    def _without_lost(self, state: AgentState) -> AgentState:
        """The state without what hooks around a step passed on when one inside them failed before the step was made."""
        tail = [each for each in self.tail if not _is_between_steps(each, self._last_step)]
        around = [each for each in tail if isinstance(each, HookRan) and _is_around_step(each)]
        if not around or around[-1].verdict != "failed" or around[-1].is_made:
            return state
        assert self.settled is not None
        state = self.settled
        for record in tail:
            state = state if _is_around_step(record) else self._apply(state, record)
        return state

    def _redo_step(self) -> AgentState | None:
        """The state in an unfinished step that another process took up; None where nobody is around it.

        Hooks around it begin again there, and before all others: what those changed is on record, and comes later.
        """
        if not isinstance(self.tail[-1], RunTakenUp) and not _is_around_step(self.tail[-1]):
            return None
        tail = [each for each in self.tail if not _is_between_steps(each, self._last_step)]
        kinds = [type(each) for each in tail]
        if RunTakenUp not in kinds or StatusChanged in kinds or not any(map(_is_around_step, tail)):
            return None
        taken_up = len(kinds) - kinds[::-1].index(RunTakenUp)
        around = [each for each in tail[taken_up:] if _is_around_step(each)]
        state = self.settled
        assert state is not None
        for record in (*around, *(each for each in tail if not _is_around_step(each))):
            state = self._apply(state, record)
        return state

    def _apply(self, state: AgentState, record: Record) -> AgentState:
        if isinstance(record, PromptSubmitted):
            return state.with_user_message(record.text, attachments=record.attachments)
        if isinstance(record, HookRan) and not record.shadow and record.changes:
            return with_changes(state, record.changes.get("state"))
        if isinstance(record, ApprovalAsked) and record.approval is not None:
            self._asked[record.approval.id] = record.approval
        if isinstance(record, ChildFinished):
            return remember_answers(state, record.remembered)
        if isinstance(record, ApprovalAnswered):
            return _with_answer(state, record, self._asked.get(record.approval_id))
        if isinstance(record, StatusChanged):
            return _with_ending(state, record)
        return add_record_count(state, record) if isinstance(record, RunFinished) else state


def add_record_count(state: AgentState, last: RunFinished) -> AgentState:
    """The state of a paused run, with its number of records: when it is resumed, it continues to count there."""
    pending = state.pending_step
    if pending is None:
        return state
    return replace(state, pending_step=replace(pending, records=last.seq + 1))


def _is_between_steps(record: Record, last_step: int) -> bool:
    """Whether a record belongs to no step: before the first, or after the last settled one."""
    if isinstance(record, HookRan):
        return record.step is None or record.step <= last_step
    return isinstance(record, PromptSubmitted | RunFinished)


def _is_around_step(record: Record) -> bool:
    return isinstance(record, HookRan) and record.point == "around_step"


def with_changes(state: AgentState, delta: Mapping[str, Any] | None) -> AgentState:
    """A state with the changes that a hook made."""
    if not delta:
        return state
    metadata = delta.get("metadata")
    if metadata is not None:
        removed = set(metadata.get("removed", ()))
        kept = {key: value for key, value in state.metadata.items() if key not in removed}
        changed = freeze_dict({**kept, **metadata.get("set", {})}, "metadata")
        state = replace(state, metadata=changed)
    messages = delta.get("messages")
    if messages is not None:
        state = state.with_messages(_changed_messages(state.messages, messages))
    if "remembered" in delta:  # hooks may remove answers, never add any
        gone = [name for name in state.remembered if name not in delta["remembered"]]
        state = state.without_remembered(*gone) if gone else state
    return state


def _changed_messages(messages: Log[Message], delta: Mapping[str, Any]) -> Log[Message]:
    if "replaced" in delta:
        return Log(msgspec.convert(delta["replaced"], list[Message]))
    return messages.extend(tuple(msgspec.convert(delta["added"], list[Message])))


def _initial_state(
    record: RunStarted, before: AgentState | None, paused: AgentState | None
) -> AgentState:
    """The state that a run begins with, or continues with after a pause."""
    if paused is not None and record.initial is None:
        return replace(paused, ending=None)
    return first_state(record, before)


def first_state(record: RunStarted, before: AgentState | None) -> AgentState:
    """The state that a run began with. `before` is that of the run that it continues."""
    if record.initial is not None:
        return AgentState.from_json(msgspec.json.encode(record.initial))
    if record.continues is not None and before is not None:
        for delta in record.changes:
            before = with_changes(before, delta)
        return next_state(
            before, agent_id=record.agent_id, run_id=record.run_id, session_id=record.session_id
        )
    return AgentState(
        agent_id=record.agent_id,
        run_id=record.run_id,
        session_id=record.session_id,
        parent_run_id=record.parent_run_id,
        parent_agent_id=record.parent_agent_id,
    )


def next_state(state: AgentState, *, agent_id: str, run_id: str, session_id: str) -> AgentState:
    """The state with which a new run continues a conversation."""
    if session_id != state.session_id:  # what was answered for one session is no answer in another
        state = replace(state, remembered=EMPTY)
    return replace(
        state,
        agent_id=agent_id,
        run_id=run_id,
        session_id=session_id,
        parent_agent_id=None,
        parent_run_id=None,
        counters=Counters(),
        ending=None,
        first_step=len(state.steps),
    )


def _with_step(now: AgentState, before: AgentState, record: StepFinished) -> AgentState:
    messages = (
        before.messages.extend(record.messages) if record.replaced is None else Log(record.replaced)
    )
    metadata = before.metadata
    if record.metadata is not None:
        metadata = freeze_dict(record.metadata, "metadata")
    return replace(
        before,
        messages=messages,
        metadata=metadata,
        steps=before.steps.append(record.step),
        usage=record.usage,
        counters=record.counters,
        remembered=now.remembered,
        pending_step=None,
    )


def _with_pause(now: AgentState, before: AgentState, record: StepPaused) -> AgentState:
    return replace(
        now,
        usage=record.usage,
        counters=record.counters,
        pending_step=record.pending,
        steps=before.steps,
    )


def _with_answer(
    state: AgentState, record: ApprovalAnswered, asked: PendingApproval | None
) -> AgentState:
    decision = record.decision
    if decision is None or asked is None:
        return state
    return remember_answers(state, to_remember(asked, decision))


def remember_answers(state: AgentState, answers: Mapping[str, Decision]) -> AgentState:
    """A state that remembers these answers too, for the rest of the session."""
    if not answers:
        return state
    return replace(state, remembered=FrozenDict({**state.remembered, **answers}))


def _with_ending(state: AgentState, record: StatusChanged) -> AgentState:
    assert record.stop_reason is not None
    ending = Ending(
        status=record.status,
        stop_reason=record.stop_reason,
        reason=record.reason,
        decided_by=record.decided_by,
    )
    pending = state.pending_step if record.status is RunStatus.PAUSED else None
    return replace(
        state, ending=ending, usage=record.usage, counters=record.counters, pending_step=pending
    )


# --- answers on record ---------------------------------------------------------------------------------


async def find_recorded_answers(
    journal: JournalStore, state: AgentState, records: Iterable[Record]
) -> dict[str, Decision]:
    """The recorded answers to what a run had paused for, by question: its own, and those of its children."""
    questions = state.pending
    found = _answers(records) if questions else {}
    for child in {each.run_id for each in questions} - {state.run_id, ""}:
        with suppress(UnknownRunError):
            found |= _answers(await journal.read(child))
    asked = {each.id for each in questions}
    return {id: decision for id, decision in found.items() if id in asked}


def _answers(records: Iterable[Record]) -> dict[str, Decision]:
    return {
        record.approval_id: record.decision
        for record in records
        if isinstance(record, ApprovalAnswered) and record.decision is not None
    }


def drop_answered_questions(state: AgentState, answers: Mapping[str, Decision]) -> AgentState:
    """The state of a paused run without the questions that have these answers."""
    step = state.pending_step
    if step is None or not answers:
        return state
    calls = tuple(_apply_answer(call, answers) for call in step.calls)
    return replace(state, pending_step=replace(step, calls=calls))


def _apply_answer(call: PendingCall, answers: Mapping[str, Decision]) -> PendingCall:
    children = tuple(each for each in call.child_approvals if each.id not in answers)
    call = replace(call, child_approvals=children)
    if call.stage is not CallStage.ASKED or call.approval is None:
        return call
    decision = answers.get(call.approval.id)
    return call if decision is None else replace(call, stage=CallStage.ADMITTED, decision=decision)
