"""Where a conversation stands, and where it stood after each of its steps: from the journals of its runs."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from hookline.errors import SessionError, UnknownRunError
from hookline.journal import (
    JournalStore,
    PromptSubmitted,
    Record,
    Segment,
    SessionPosition,
    SessionStory,
    StepFinished,
    StepStarted,
    answers_on_record,
    fold,
    hooks_in,
    still_waiting,
    with_changes,
)
from hookline.lifecycle import HookPoint
from hookline.state import EMPTY, AgentState, Counters, RunStatus


class Stand(msgspec.Struct, frozen=True):
    """The conversation as it is now."""

    state: AgentState
    """What the next run begins with; of a run that is not over, how far it has come."""
    opening: str
    """Why session_start is asked with the next run; empty when the session has started."""
    unfinished: str = ""
    """The run that is not over: it waits for a person, or its process died, or it is being driven now."""

    @property
    def status(self) -> RunStatus:
        """How the last run stands."""
        if self.unfinished:
            return RunStatus.PAUSED if self.state.pending else RunStatus.RUNNING
        return self.state.ending.status if self.state.ending is not None else RunStatus.COMPLETED


class Place(msgspec.Struct, frozen=True):
    """A place in the conversation: a record of one of its runs, or its beginning."""

    step: int
    """How many steps were made by then."""
    run_id: str = ""
    record: int = 0


def stand_of(journal: JournalStore, story: SessionStory) -> Stand:
    """Where the conversation stands."""
    standing, records = _begun(journal, story)
    if records is None:
        return Stand(_changed(_beginning(story, standing), standing), standing.opening)
    end = standing.segments[-1].end
    told = fold(records if end is None else records[: end + 1])
    if end is not None or told.is_over:
        opening = standing.opening or (standing.source if _failed_to_start(records) else "")
        return Stand(_changed(told.state, standing), opening)
    state = told.state
    if not told.is_finished:
        answers = answers_on_record(journal, told.settled, records)
        state = still_waiting(told.settled, answers)
    return Stand(state, standing.opening, standing.segments[-1].run_id)


def _begun(
    journal: JournalStore, story: SessionStory
) -> tuple[SessionPosition, list[Record] | None]:
    """Where it stands when runs that were added and never began do not count, and the records of the last one."""
    standing: SessionPosition | None = story.position
    while standing is not None and standing.segments:
        last = standing.segments[-1]
        try:
            return standing, journal.read(last.run_id)
        except UnknownRunError:
            if last.end is not None or last.run_id in story.ended:
                raise _gone(story, last.run_id) from None
            standing = standing.before
    return standing or story.position, None


def _failed_to_start(records: list[Record]) -> bool:
    """Whether a run got no further than to a session_start hook that failed: then the session has not started."""
    if any(isinstance(record, PromptSubmitted | StepStarted) for record in records):
        return False
    hooks = [ran for ran in hooks_in(records) if ran.point == HookPoint.SESSION_START]
    return any(ran.verdict == "failed" and not ran.shadow for ran in hooks)


def _gone(story: SessionStory, run_id: str) -> SessionError:
    return SessionError(
        f"run '{run_id}', in which session '{story.session_id}' stands, is not in the journal any more.",
        remedy="It was deleted or pruned, and with it the conversation: session.clear() begins anew.",
    )


def _beginning(story: SessionStory, standing: SessionPosition) -> AgentState:
    if standing.is_forked and story.initial is not None:
        return AgentState.from_json(msgspec.json.encode(story.initial))
    return AgentState(session_id=story.session_id)


def _changed(state: AgentState, standing: SessionPosition) -> AgentState:
    for delta in standing.changes:
        state = with_changes(state, delta)
    return state


# --- steps of the conversation, counted from one ------------------------------------------------------


def place_after(journal: JournalStore, story: SessionStory, step: int) -> Place:
    """Where the conversation stood after one of its steps; 0 is its beginning."""
    standing, _ = _begun(journal, story)
    made: int | None = None
    for segment in reversed(standing.segments):
        records = _part(journal, story, segment)
        if not records:
            continue
        first = _steps_before(records)
        ends = [at for at, record in enumerate(records) if isinstance(record, StepFinished)]
        made = first + len(ends) if made is None else made
        if first < step <= first + len(ends):
            is_last = step == first + len(ends)
            at = len(records) - 1 if is_last and _is_over(records) else ends[step - first - 1]
            return Place(step, segment.run_id, at)
    begins = story.at_step if standing.is_forked else 0
    if step == begins:
        return Place(step)
    raise _no_such_step(story, step, begins, begins if made is None else made)


def last_place(journal: JournalStore, story: SessionStory) -> Place:
    """The place after the last step that was settled."""
    standing, records = _begun(journal, story)
    if records is None:
        return Place(story.at_step if standing.is_forked else 0)
    part = _part(journal, story, standing.segments[-1])
    settled = sum(isinstance(record, StepFinished) for record in part)
    return place_after(journal, story, _steps_before(part) + settled)


def state_at(journal: JournalStore, story: SessionStory, place: Place) -> AgentState:
    """The conversation as it was there."""
    if place.run_id:
        return fold(_records(journal, story, place.run_id)[: place.record + 1]).state
    return _beginning(story, _begun(journal, story)[0])


def forked(state: AgentState, session_id: str) -> AgentState:
    """A state as another session begins with it. What was allowed for a session is not allowed for another one."""
    return replace(
        state,
        session_id=session_id,
        run_id="",
        counters=Counters(),
        ending=None,
        pending_step=None,
        remembered=EMPTY,
    )


def _part(journal: JournalStore, story: SessionStory, segment: Segment) -> list[Record]:
    """The records of a segment; none of a run whose process died before it had begun."""
    if segment.end is not None:
        return _records(journal, story, segment.run_id)[: segment.end + 1]
    try:
        return journal.read(segment.run_id)
    except UnknownRunError:
        if segment.run_id in story.ended:
            raise _gone(story, segment.run_id) from None
        return []


def _records(journal: JournalStore, story: SessionStory, run_id: str) -> list[Record]:
    try:
        return journal.read(run_id)
    except UnknownRunError:
        raise _gone(story, run_id) from None


def _steps_before(records: list[Record]) -> int:
    """How many steps the conversation had when a run began."""
    return len(fold(records[:1]).state.steps)


def _is_over(records: list[Record]) -> bool:
    return fold(records).is_over


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
