"""Runs in a session, while everybody else is kept off it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypedDict, cast

from msgspec.structs import replace

from hookline.agent.agent import Agent, InSession, RunOptions, halted
from hookline.agent.loop.drive import drive
from hookline.agent.loop.end import end_session
from hookline.agent.result import RunResult
from hookline.agent.run import Run, RunSetup
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
from hookline.sessions.conversation import ConversationState, last_place, read_conversation
from hookline.sessions.log import HeldSession
from hookline.state import Attachment, Decision, RunStatus

_TITLE = "hookline.title"
"""The metadata key for a title that hooks give the session."""
_LONGEST_TITLE = 80


class TurnOptions(TypedDict, total=False):
    """How a new run of a session begins."""

    attachments: Sequence[Attachment]
    run_id: str | None


async def run_in(
    held: HeldSession, agent: Agent, prompt: str | None, options: TurnOptions
) -> RunResult:
    """Continue the conversation with a new run."""
    begin = _next(held, agent, options)
    result = await agent.run(prompt, **begin)
    await _note_end(held, result)
    return result


async def stream_in(
    held: HeldSession,
    agent: Agent,
    prompt: str | None,
    options: TurnOptions,
    results: list[RunResult],
) -> AsyncGenerator[Record, None]:
    """The same, with every record as it happens. The result is put into the list."""
    begin = _next(held, agent, options)
    stream = agent.stream(prompt, **begin)
    try:
        async for record in stream:
            yield record
    finally:
        await stream.aclose()
        with suppress(UsageError):  # the task was cancelled, and there is no result
            results.append(stream.result)
        for result in results:
            await _note_end(held, result)


async def resume_in(
    held: HeldSession, agent: Agent, decisions: Mapping[str, Decision | bool] | None
) -> RunResult:
    """Continue the last run, which waits for answers or was left unfinished."""
    _check_agent(held, agent)
    conversation = read_conversation(held.journal, usable(held.story))
    if not conversation.unfinished:
        raise SessionError(
            f"session '{held.story.session_id}' has no run that waits or was left unfinished.",
            remedy="Start a new one: session.run(agent, prompt).",
        )
    inside = _enter(held, member=conversation.unfinished, resumed=True)
    result = await agent.resume(conversation.unfinished, decisions, session=inside)
    await _note_end(held, result)
    return result


async def close_in(held: HeldSession, agent: Agent, reason: str) -> HookError | None:
    """Call the session_end hooks, and close the session whatever they do. Returns the failure of one that failed."""
    _check_agent(held, agent)
    story = held.story
    conversation = _between_runs(held)
    if story.status is SessionStatus.CLOSED:
        return None
    failure = None
    if not conversation.opening:
        state = replace(
            conversation.state, run_id=stream_of(story.session_id), session_id=story.session_id
        )
        durable = held.durable(agent.definition.listeners)
        try:
            run = Run(RunSetup.of(agent.definition, drive), state, durable)
            failure = await end_session(run, reason)
        finally:
            durable.flush()  # the records of the hooks stay, whatever happens
        await durable.commit()
    await held.save((SessionStatusChanged, {"status": SessionStatus.CLOSED}))
    return failure


def usable(story: SessionStory) -> SessionStory:
    """A session; refuses one that is suspended or deleted."""
    if story.status in (SessionStatus.SUSPENDED, SessionStatus.DELETED):
        raise halted(story)
    return story


def _enter(held: HeldSession, opening: str = "", **added: Any) -> InSession:
    """A place in the session for a run. The run is added to the session's records before it begins."""
    return InSession(
        session_id=held.story.session_id,
        source=opening,
        enter=partial(held.save, (SessionRunAdded, added)),
    )


async def _note_end(held: HeldSession, result: RunResult) -> None:
    if isinstance(result.error, JournalError):
        return  # it is not known how much of it was written
    made: list[tuple[type[Record], dict[str, Any]]] = [(SessionRunEnded, {"member": result.run_id})]
    if title := _new_title(held.story, result.records):
        made.append((SessionTitled, {"title": title}))
    with suppress(JournalError):  # the run is in its own journal, and its result is worth more
        await held.save(*made)


def _new_title(story: SessionStory, records: Sequence[Record]) -> str:
    """The title that a hook of the run gave; else, if there is no title yet, the beginning of the prompt."""
    given = ""
    for record in records:
        if isinstance(record, HookRan) and record.changes and not record.shadow:
            metadata = record.changes.get("state", {}).get("metadata", {})
            given = metadata.get("set", {}).get(_TITLE, given)
    if given:
        return given if isinstance(given, str) and given != story.title else ""
    prompts = (record.text for record in records if isinstance(record, PromptSubmitted))
    words = " ".join(next(prompts, "").split())
    if story.title or len(words) <= _LONGEST_TITLE:
        return "" if story.title else words
    return words[: _LONGEST_TITLE - 1].rstrip() + "…"


def _next(held: HeldSession, agent: Agent, given: TurnOptions) -> RunOptions:
    """What the next run begins with: the state, its place in the session, and its id."""
    _check_agent(held, agent)
    conversation = _between_runs(held)
    run_id, opening = given.get("run_id") or _new_run_id(held.story), conversation.opening
    inside = _enter(held, opening, member=run_id, source=opening)
    # Options that there are not stay in: the agent refuses them.
    return cast(
        RunOptions, {**given, "state": conversation.state, "session": inside, "run_id": run_id}
    )


def _new_run_id(story: SessionStory) -> str:
    numbers = itertools.count(len(story.members) + 1)
    names = (f"{story.session_id}-{number}" for number in numbers)
    return next(name for name in names if name not in story.members)


def _check_agent(held: HeldSession, agent: Agent) -> None:
    if not isinstance(agent, Agent):
        raise UsageError(
            f"a session is run with an Agent, not {agent!r}.", remedy="Give the agent first."
        )
    if agent.definition.journal is not held.journal:
        raise UsageError(
            f"this agent does not write to the journal that session '{held.story.session_id}' is kept in.",
            remedy="Build it with the same one: AgentBuilder().with_journal(journal).",
        )


def _between_runs(held: HeldSession) -> ConversationState:
    """The conversation. Raises when its last run is not over."""
    story = held.story
    conversation = read_conversation(held.journal, usable(story))
    if not conversation.unfinished:
        return conversation
    which = f"run '{conversation.unfinished}' of session '{story.session_id}'"
    behind = f"leave it behind: session.rewind(to={last_place(held.journal, story).step})."
    if conversation.status is RunStatus.PAUSED:
        raise SessionError(
            f"{which} waits for an answer.",
            remedy="Answer it: session.resume_run(agent, {pending.id: Decision.allow() "
            f"for pending in session.pending}}). Or {behind}",
        )
    raise SessionError(
        f"{which} was left unfinished.",
        remedy=f"Continue it: session.resume_run(agent). Or {behind}",
    )
