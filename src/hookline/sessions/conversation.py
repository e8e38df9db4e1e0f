"""The conversation of a session, now and after each of its steps, from the journals of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.errors import SessionError, UnknownRunError
from hookline.journal import (
    JournalStore,
    PromptSubmitted,
    Record,
    Segment,
    SessionStory,
    StepFinished,
    StepStarted,
    hooks_in,
    story_of,
)
from hookline.journal.fold import drop_answered_questions, find_recorded_answers, with_changes
from hookline.journal.record import start_of
from hookline.journal.session import SessionPosition
from hookline.lifecycle import HookPoint
from hookline.state import EMPTY, AgentState, Counters, RunStatus


class ConversationState(msgspec.Struct, frozen=True):
    """The conversation as it is now."""

    state: AgentState
    """What the next run begins with; of an unfinished run, its state so far."""
    opening: str
    """Why session_start hooks are called with the next run; empty when the session has started."""
    unfinished: str = ""
    """The run that is not over: it waits for a person, its process died, or it is being driven now."""
    last: Segment | None = None
    """The run at whose end, or after whose record, the next one continues."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """What session_end hooks changed in the state since that run."""

    @property
    def status(self) -> RunStatus:
        """The status of the last run."""
        if self.unfinished:
            return RunStatus.PAUSED if self.state.pending else RunStatus.RUNNING
        return self.state.ending.status if self.state.ending is not None else RunStatus.COMPLETED


class StepPlace(msgspec.Struct, frozen=True):
    """A place in the conversation: a record of one of its runs, or the beginning."""

    step: int
    """How many steps there are up to here."""
    run_id: str = ""
    record: int = 0


async def read_conversation(journal: JournalStore, story: SessionStory) -> ConversationState:
    """The conversation as it is now."""
    position, records = await _last_run(journal, story)
    if records is None:
        state = _with_end_changes(_initial_state(story, position), position)
        return ConversationState(state=state, opening=position.opening)
    end = position.segments[-1].end
    run = await story_of(records if end is None else records[: end + 1], journal)
    if end is not None or run.is_over:
        opening = position.opening or (position.source if _has_failed_to_start(records) else "")
        last = Segment(records[0].run_id, len(records) - 1 if end is None else end)
        state = _with_end_changes(run.state, position)
        return ConversationState(state=state, opening=opening, last=last, changes=position.changes)
    state = run.state
    if not run.is_finished:
        answers = await find_recorded_answers(journal, run.settled, records)
        state = drop_answered_questions(run.settled, answers)
    return ConversationState(
        state=state, opening=position.opening, unfinished=position.segments[-1].run_id
    )


async def _last_run(
    journal: JournalStore, story: SessionStory
) -> tuple[SessionPosition, list[Record] | None]:
    """The position without runs that were added and never began, and the records of its last run."""
    position: SessionPosition | None = story.position
    while position is not None and position.segments:
        last = position.segments[-1]
        try:
            records = await journal.read(last.run_id)
        except UnknownRunError:
            if last.end is not None or last.run_id in story.ended:
                raise missing_run_error(story, last.run_id) from None
        else:
            if start_of(records) is not None:
                return position, records
        position = position.before or replace(position, segments=position.segments[:-1])
    return position or story.position, None


def _has_failed_to_start(records: list[Record]) -> bool:
    """Whether a session_start hook failed before anything else happened: then the session has not started."""
    if any(isinstance(record, PromptSubmitted | StepStarted) for record in records):
        return False
    hooks = [ran for ran in hooks_in(records) if ran.point == HookPoint.SESSION_START]
    return any(ran.verdict == "failed" and not ran.shadow for ran in hooks)


def missing_run_error(story: SessionStory, run_id: str) -> SessionError:
    """For a session whose last run was deleted alone."""
    return SessionError(
        f"run '{run_id}', the current run of session '{story.session_id}', is not in the journal any more.",
        remedy="It was deleted. session.rewind(to=STEP) goes back to a step before it; session.clear() starts again.",
    )


def _initial_state(story: SessionStory, position: SessionPosition) -> AgentState:
    if position.is_forked and story.initial is not None:
        return AgentState.from_json(msgspec.json.encode(story.initial))
    return AgentState(session_id=story.session_id)


def _with_end_changes(state: AgentState, position: SessionPosition) -> AgentState:
    """A state with what session_end hooks changed since the last run."""
    for delta in position.changes:
        state = with_changes(state, delta)
    return state


# --- steps of the conversation, counted from one ------------------------------------------------------


async def place_after(journal: JournalStore, story: SessionStory, step: int) -> StepPlace:
    """The place after one of the steps; 0 is the beginning."""
    begins = made = story.at_step if story.position.is_forked else 0
    if step == begins:
        return StepPlace(step=step)
    for segment in story.position.segments:
        records = await _part(journal, story, segment)
        ends = [at for at, record in enumerate(records) if isinstance(record, StepFinished)]
        first, made = made, made + len(ends)
        if first < step <= made:
            is_over = step == made and (await story_of(records, journal)).is_over
            at = len(records) - 1 if is_over else ends[step - first - 1]
            return StepPlace(step=step, run_id=segment.run_id, record=at)
    raise _no_such_step(story, step, begins, made)


async def last_place(journal: JournalStore, story: SessionStory) -> StepPlace:
    """The place after the last step that was settled."""
    position, records = await _last_run(journal, story)
    if records is None:
        return StepPlace(step=story.at_step if position.is_forked else 0)
    part = await _part(journal, story, position.segments[-1])
    settled = (await story_of(part, journal)).settled
    return await place_after(journal, story, len(settled.steps))


async def state_at(journal: JournalStore, story: SessionStory, place: StepPlace) -> AgentState:
    """The state at a place."""
    if place.run_id:
        records = await _records(journal, story, place.run_id)
        return (await story_of(records[: place.record + 1], journal)).state
    return _initial_state(story, story.position)


def fork_state(state: AgentState, session_id: str) -> AgentState:
    """A state for another session to begin with. What was allowed for one session is not allowed for another."""
    return replace(
        state,
        session_id=session_id,
        run_id="",
        counters=Counters(),
        ending=None,
        pending_step=None,
        remembered=EMPTY,
    )


async def _part(journal: JournalStore, story: SessionStory, segment: Segment) -> list[Record]:
    """The records of a segment; none if the process died before the run began."""
    if segment.end is not None:
        return (await _records(journal, story, segment.run_id))[: segment.end + 1]
    if segment.run_id in story.ended:
        return await _records(journal, story, segment.run_id)
    try:
        return await journal.read(segment.run_id)
    except UnknownRunError:
        return []


async def _records(journal: JournalStore, story: SessionStory, run_id: str) -> list[Record]:
    try:
        return await journal.read(run_id)
    except UnknownRunError:
        raise missing_run_error(story, run_id) from None


def _no_such_step(story: SessionStory, step: int, begins: int, made: int) -> SessionError:
    name = f"session '{story.session_id}'"
    if begins and 0 <= step < begins:
        return SessionError(
            f"step {step} is before {name} was forked, after step {begins} of '{story.forked_from}'.",
            remedy=f"Fork that one: sessions.get({story.forked_from!r}).fork(at={step}).",
        )
    return SessionError(
        f"there is no step {step} in {name}: its conversation has {made} step{'' if made == 1 else 's'}.",
        remedy=f"Give a number from {begins} to {made}; {begins} is the beginning.",
    )
