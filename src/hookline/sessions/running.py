"""Runs in a session, while everybody else is kept off it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from hookline.agent import Agent, RunResult
from hookline.agent.in_session import InSession, halted
from hookline.agent.loop.drive import drive
from hookline.agent.loop.end import end_session
from hookline.agent.run import Run
from hookline.errors import HookError, JournalError, SessionError, UsageError
from hookline.journal import (
    HookRan,
    PromptSubmitted,
    Record,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatus,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    stream_of,
)
from hookline.sessions.naming import title_from
from hookline.sessions.standing import Stand, last_place, stand_of
from hookline.sessions.stream import Hold
from hookline.state import Attachment, Decision, RunStatus

_TITLE = "hookline.title"
"""Where in the metadata hooks put what they call the session."""


async def run_in(
    hold: Hold,
    agent: Agent,
    prompt: str | None,
    attachments: Sequence[Attachment],
    run_id: str | None,
) -> RunResult:
    """Go on with the conversation: a new run, from where it stands."""
    stand, run_id = _next(hold, agent, run_id)
    result = await agent.run(
        prompt,
        attachments=attachments,
        state=stand.state,
        session=_entered(hold, {"member": run_id, "source": stand.opening}, stand.opening),
        run_id=run_id,
    )
    await _note_end(hold, result)
    return result


async def stream_in(
    hold: Hold,
    agent: Agent,
    prompt: str | None,
    attachments: Sequence[Attachment],
    run_id: str | None,
    results: list[RunResult],
) -> AsyncGenerator[Record, None]:
    """The same, with every record as it happens. The result is put into the list."""
    stand, run_id = _next(hold, agent, run_id)
    stream = agent.stream(
        prompt,
        attachments=attachments,
        state=stand.state,
        session=_entered(hold, {"member": run_id, "source": stand.opening}, stand.opening),
        run_id=run_id,
    )
    try:
        async for record in stream:
            yield record
    finally:
        await stream.aclose()
        with suppress(UsageError):  # the task was cancelled, and there is no result
            results.append(stream.result)
        for result in results:
            await _note_end(hold, result)


async def resume_in(
    hold: Hold, agent: Agent, decisions: Mapping[str, Decision | bool] | None
) -> RunResult:
    """Go on with the last run, which waits for answers or was left unfinished."""
    _check_agent(hold, agent)
    stand = stand_of(hold.journal, usable(hold.story))
    if not stand.unfinished:
        raise SessionError(
            f"session '{hold.story.session_id}' has no run that waits or was left unfinished.",
            remedy="Go on with a new one: session.run(agent, prompt).",
        )
    inside = _entered(hold, {"member": stand.unfinished, "resumed": True})
    result = await agent.resume(stand.unfinished, decisions, session=inside)
    await _note_end(hold, result)
    return result


async def close_in(hold: Hold, agent: Agent, reason: str) -> HookError | None:
    """Ask the hooks of its end, and close it whatever they do. Gives the failure of one that failed."""
    _check_agent(hold, agent)
    story = hold.story
    stand = _between_runs(hold)
    if story.status is SessionStatus.CLOSED:
        return None
    failure = None
    if not stand.opening:
        state = replace(
            stand.state, run_id=stream_of(story.session_id), session_id=story.session_id
        )
        durable = hold.durable(agent.definition.listeners)
        try:
            run = Run(agent.definition, state, durable, drive=drive)
            failure = await end_session(run, reason)
        finally:
            durable.flush()  # what the hooks said stays said
        await durable.commit()
    await hold.save((SessionStatusChanged, {"status": SessionStatus.CLOSED}))
    return failure


def usable(story: SessionStory) -> SessionStory:
    """A session; refuses one that is suspended or deleted."""
    if story.status in (SessionStatus.SUSPENDED, SessionStatus.DELETED):
        raise halted(story)
    return story


def _entered(hold: Hold, added: dict[str, Any], opening: str = "") -> InSession:
    """A place in the session for a run that is prepared. One that is found without a record has never begun."""
    enter = partial(hold.save, (SessionRunAdded, added))
    return InSession(hold.story.session_id, opening, enter)


async def _note_end(hold: Hold, result: RunResult) -> None:
    if isinstance(result.error, JournalError):
        return  # nobody knows how much of it could be written
    made: list[tuple[type[Record], dict[str, Any]]] = []
    made.append((SessionRunEnded, {"member": result.run_id}))
    if title := _new_title(hold.story, result.records):
        made.append((SessionTitled, {"title": title}))
    with suppress(JournalError):  # the run is in its own journal, and its result is worth more
        await hold.save(*made)


def _new_title(story: SessionStory, records: Sequence[Record]) -> str:
    """What a hook of the run has called the session; or else, if it has no title yet, how its prompt begins."""
    given = ""
    for record in records:
        if isinstance(record, HookRan) and record.changes and not record.shadow:
            metadata = record.changes.get("state", {}).get("metadata", {})
            given = metadata.get("set", {}).get(_TITLE, given)
    if given:
        return given if isinstance(given, str) and given != story.title else ""
    said = (record for record in records if isinstance(record, PromptSubmitted))
    return "" if story.title else title_from(next(said, None))


def _next(hold: Hold, agent: Agent, run_id: str | None) -> tuple[Stand, str]:
    """Where the next run begins, and its id."""
    _check_agent(hold, agent)
    stand = _between_runs(hold)
    return stand, run_id or _new_run_id(hold.story)


def _new_run_id(story: SessionStory) -> str:
    numbers = itertools.count(len(story.members) + 1)
    names = (f"{story.session_id}-{number}" for number in numbers)
    return next(name for name in names if name not in story.members)


def _check_agent(hold: Hold, agent: Agent) -> None:
    if not isinstance(agent, Agent):
        raise UsageError(
            f"a session is run with an Agent, not {agent!r}.", remedy="Give the agent first."
        )
    if agent.definition.journal is not hold.journal:
        raise UsageError(
            f"this agent does not write to the journal that session '{hold.story.session_id}' is kept in.",
            remedy="Build it with the same one: AgentBuilder().with_journal(journal).",
        )


def _between_runs(hold: Hold) -> Stand:
    """Where the conversation stands; refuses one whose last run is not over."""
    story = hold.story
    stand = stand_of(hold.journal, usable(story))
    if not stand.unfinished:
        return stand
    which = f"run '{stand.unfinished}' of session '{story.session_id}'"
    behind = f"leave it behind: session.rewind(to={last_place(hold.journal, story).step})."
    if stand.status is RunStatus.PAUSED:
        raise SessionError(
            f"{which} waits for an answer.",
            remedy="Answer it: session.resume_run(agent, {pending.id: Decision.allow() "
            f"for pending in session.pending}}). Or {behind}",
        )
    raise SessionError(
        f"{which} was left unfinished.",
        remedy=f"Go on with it: session.resume_run(agent). Or {behind}",
    )
