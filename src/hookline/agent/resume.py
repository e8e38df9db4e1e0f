"""How a run is resumed: from the state of a paused one, or from its journal. `sessions/session.py` forks.

A child run continues with the run above it, and a run of a session in its session. A run whose process died goes
through its last step again: `recovery.py` has what is on record of it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from hookline.agent.approvals import check_answers
from hookline.agent.children import cancel_idle
from hookline.agent.loop.drive import drive
from hookline.agent.recovery import ResumeSource
from hookline.agent.result import RunResult, restore_result
from hookline.agent.run import Continuation, Run, RunSetup, SessionPart
from hookline.definition import Definition
from hookline.errors import SessionError, UnknownRunError, UsageError
from hookline.journal import (
    Durable,
    InboxAnswer,
    InboxCancel,
    InboxMessage,
    JournalStore,
    Questions,
    Record,
    RunQueued,
    RunStarted,
    RunTakenUp,
    SessionStatus,
    SessionStory,
    Story,
    fold_session,
    reopen,
    story_of,
)
from hookline.journal.durable import StoredRecords
from hookline.journal.fold import drop_answered_questions, find_recorded_answers, next_state
from hookline.journal.inbox import FirstAnswer
from hookline.journal.record import parent_of
from hookline.journal.session import stream_of
from hookline.state import AgentState, Decision

Answers = Mapping[str, Decision | bool]
"""Answers to the questions of a run, by the id of each."""
_HALTED = (SessionStatus.SUSPENDED, SessionStatus.DELETED)
_log = logging.getLogger("hookline")


def resume_from_state(definition: Definition, state: AgentState, answers: Answers) -> Run:
    """The run of a paused state, with its answers."""
    checked = check_answers(state, answers, definition.toolbox)
    part = SessionPart(ends=state.session_id == state.run_id)
    setup = RunSetup.of(definition, drive, session=part, answers=checked)
    return Run(setup, state, Durable(definition.listeners))


async def resume_from_journal(
    definition: Definition,
    journal: JournalStore,
    run_id: str,
    decisions: Answers,
    inside: SessionMembership | None,
) -> tuple[Run, str | None] | RunResult:
    """The run of a journal, and the prompt that it begins with. Or the result, if it is over.

    It waits for an answer, or was left behind by a process that died, or is queued: only then there is a prompt.
    """
    durable = await reopen(journal, run_id, definition.listeners)
    try:
        if definition.on_claim is not None:
            await definition.on_claim(durable)
        story = await story_of(durable.records, journal)
        if not story.is_finished or story.state.pending_step is not None:
            await refuse_child(story.state, journal)
        if inside is None:
            await refuse_member(journal, story)
        known = (
            {}
            if story.is_finished
            else await find_recorded_answers(journal, story.state, durable.records)
        )
        waiting = drop_answered_questions(story.state, known)
        posted = await journal.inbox(run_id)
        in_inbox = _answers_in_inbox(waiting, posted)
        answers = check_answers(
            waiting,
            decisions,
            definition.toolbox,
            await _answers_on_record(journal, waiting, decisions) | in_inbox,
            definition.redact,
        )
        # What is in the inbox already is taken from there: the record names who was first.
        answers = {key: answer for key, answer in answers.items() if key not in in_inbox}
    except BaseException:
        await durable.close()
        raise
    if story.is_over:
        await durable.close()
        return restore_result(story, durable.records, definition.plans.output)
    for message in posted:
        if isinstance(message, InboxCancel):
            return await _end_cancelled(definition, journal, durable, message.words)
    if story.queued is not None:
        await _note_attempt(definition, journal, durable)
        return _begin_queued(definition, durable, story.queued, inside)
    _report_version(durable.records, definition)
    paused = story.is_finished
    if paused and isinstance(durable.records[0], RunQueued):
        await _note_attempt(definition, journal, durable)
    part = SessionPart(ends=story.state.session_id == run_id)
    try:
        resumed = Run(
            RunSetup.of(definition, drive, session=part, answers=answers),
            story.state if paused else story.settled,
            durable,
            None if paused else ResumeSource(story.tail, story.unsettled_seconds),
        )
        await _take_posted(resumed, posted, journal if paused else None)
    except BaseException:
        await durable.close()
        raise
    return resumed, None


async def _note_attempt(
    definition: Definition, journal: JournalStore, durable: StoredRecords
) -> None:
    """Write that a run of a queue is taken up, before anything else: one that kills its process is counted."""
    at = definition.clock.now() + journal.clock_offset
    seq, version = len(durable.records), definition.version
    durable.append(RunTakenUp(durable.records[0].run_id, seq, at, agent_version=version))
    try:
        await durable.commit()
    except BaseException:
        await durable.close()
        raise


def _begin_queued(
    definition: Definition,
    durable: StoredRecords,
    queued: RunQueued,
    inside: SessionMembership | None,
) -> tuple[Run, str]:
    """A run that was submitted, and its prompt."""
    if inside is None:
        state, continues = AgentState(), None
        part = SessionPart(starts=True, ends=True, source="startup")
    else:
        state, continues = inside.state.freeze(), inside.continues
        part = SessionPart(starts=bool(inside.source), source=inside.source)
    begun = next_state(
        state,
        agent_id=definition.agent_id,
        run_id=queued.run_id,
        session_id=queued.session_id,
    )
    setup = RunSetup.of(definition, drive, session=part, continues=continues)
    return Run(setup, begun, durable), queued.prompt


async def _end_cancelled(
    definition: Definition, journal: JournalStore, durable: StoredRecords, why: str
) -> RunResult:
    """End a run that nobody drives, because somebody cancelled it."""
    try:
        await cancel_idle(durable, definition.clock.now() + journal.clock_offset, why)
        await durable.commit()
    finally:
        await durable.close()
    story = await story_of(durable.records, journal)
    return restore_result(story, durable.records, definition.plans.output)


def _report_version(records: Sequence[Record], definition: Definition) -> None:
    """Say so when another version of the agent continues a run than drove it last. The record says it too."""
    versions = [each.agent_version for each in records if isinstance(each, RunStarted | RunTakenUp)]
    version = definition.version
    if versions[-1] not in (version, *definition.accepts):
        was, now = (
            f"version {each!r}" if each else "no version" for each in (versions[-1], version)
        )
        _log.warning(
            "run '%s' was last driven by %s of its agent, and is continued by %s.",
            records[0].run_id,
            was,
            now,
        )


async def _answers_on_record(
    journal: JournalStore, state: AgentState, decisions: Answers
) -> dict[str, FirstAnswer]:
    """The answers to the questions of the run; none if all `decisions` are about questions that wait."""
    waiting = {each.id for each in state.pending}
    if not isinstance(decisions, Mapping) or decisions.keys() <= waiting:
        return {}
    return (await Questions.read(journal, state.run_id)).answered


def _answers_in_inbox(state: AgentState, posted: Sequence[InboxMessage]) -> dict[str, FirstAnswer]:
    """The answers to questions that wait."""
    waiting = {(each.id, each.fingerprint) for each in state.pending}
    return {
        each.question: FirstAnswer(each.decision, each.who)
        for each in posted
        if isinstance(each, InboxAnswer) and (each.question, each.fingerprint) in waiting
    }


async def _take_posted(
    run: Run, posted: Sequence[InboxMessage], paused: JournalStore | None
) -> None:
    """Take the answers of the inbox. Those to what a paused run neither asks nor has an answer to are void."""
    if not posted or run.inbox is None:
        return
    run.inbox.take(posted)
    if paused is None:
        return  # it goes through its step again, and asks again what it had asked
    known = {each.id for each in run.state.pending}
    given = [
        each for each in posted if isinstance(each, InboxAnswer) and each.question not in known
    ]
    answered = (await Questions.read(paused, run.run_id)).answered if given else {}
    for message in given:
        if message.question not in answered:
            run.inbox.report(message, "no hook asks this any more")


# --- what is resumed elsewhere ---------------------------------------------------------------------


async def refuse_child(state: AgentState, journal: JournalStore | None = None) -> None:
    """A child run continues with the run it is a part of: alone, the policies and limits above it would not hold."""
    outer = state.parent_run_id
    if outer is None:
        return
    with suppress(UnknownRunError):
        while journal is not None:
            if (above := parent_of(await journal.read(outer))) is None:
                break
            outer = above
    raise UsageError(
        f"run '{state.run_id}' is a part of run '{outer}', and continues under its policies and limits.",
        remedy=f"Resume the outer run, with the same answers: agent.resume('{outer}', decisions).",
    )


class SessionMembership(msgspec.Struct, frozen=True):
    """Which session a run belongs to, as the session itself says it."""

    session_id: str
    source: str = ""
    """Why session_start is asked; empty when the session has started."""
    continues: Continuation | None = None
    """The run of the session that it continues."""
    state: AgentState = AgentState()
    """What a run that was submitted begins with."""
    enter: Callable[[], Awaitable[None]] | None = None
    """Notes in the session that it has this run, before the run begins. If that fails the run never does."""


async def refuse_member(journal: JournalStore, run: Story) -> None:
    """A run of a session continues in the session, which keeps others off and may have left it behind."""
    state, session = run.state, run.state.session_id
    story = await find_owner(journal, state)
    if story is None or state.parent_run_id is not None:
        return
    if story.status in _HALTED:
        raise session_error(story)
    if run.is_over:
        return  # it is only looked at
    raise UsageError(
        f"run '{state.run_id}' belongs to session '{session}', which is kept in the journal.",
        remedy=f"Continue it there: Sessions(journal).get({session!r}).resume_run(agent, decisions).",
    )


def session_error(story: SessionStory) -> SessionError:
    """Why nothing runs in it."""
    if story.status is SessionStatus.DELETED:
        return SessionError(
            f"session '{story.session_id}' was deleted.", remedy="Create another one."
        )
    return SessionError(
        f"session '{story.session_id}' is suspended.", remedy="Resume it: session.resume()."
    )


async def find_owner(journal: JournalStore, state: AgentState) -> SessionStory | None:
    """The session that a run belongs to, if it is kept in the journal."""
    is_alone = state.session_id == state.run_id
    return None if is_alone else await find_session(journal, state.session_id)


async def find_session(journal: JournalStore, session: str) -> SessionStory | None:
    """A session that is kept in the journal, by its id."""
    try:
        return fold_session(await journal.read(stream_of(session)))
    except UnknownRunError:
        return None
