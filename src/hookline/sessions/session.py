"""Sessions: many runs with one conversation, how one is forked, and the sessions of a journal.

How a run is resumed is in `agent/resume.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypedDict, Unpack, cast

import msgspec
from msgspec.structs import replace

from hookline._sync import sync_form
from hookline.agent.agent import Agent, RunOptions
from hookline.agent.loop.drive import drive
from hookline.agent.loop.stop import end_session
from hookline.agent.result import RunResult
from hookline.agent.resume import SessionMembership, session_error
from hookline.agent.run import Continuation, Run, RunSetup
from hookline.agent.stream import RunStream
from hookline.definition import Clock
from hookline.definition.definition import SYSTEM_CLOCK
from hookline.errors import (
    HookError,
    HooklineError,
    JournalError,
    RunInUseError,
    SessionConflictError,
    SessionError,
    UnknownRunError,
    UnknownSessionError,
    UsageError,
)
from hookline.journal import (
    RECORD_VERSION,
    Claim,
    EarlierRun,
    HookRan,
    JournalStore,
    Listener,
    PromptSubmitted,
    Record,
    SessionCleared,
    SessionCreated,
    SessionInfo,
    SessionRewound,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatus,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    fold_session,
)
from hookline.journal.durable import StoredRecords
from hookline.journal.record import start_of
from hookline.journal.session import stream_of
from hookline.sessions.conversation import (
    ConversationState,
    StepPlace,
    fork_state,
    last_place,
    missing_run_error,
    place_after,
    read_conversation,
    state_at,
)
from hookline.sessions.view import SessionView, view_of
from hookline.state import (
    AgentState,
    Attachment,
    Decision,
    PendingApproval,
    RunStatus,
    checked_text,
)

_ID = re.compile(r"[\w.@:+-]+")


class Session:
    """A conversation of many runs. The next run continues it.

    This object knows the session as it was when it was last read. A change, a run included, is refused when somebody
    else has changed the session since then: `refresh()` reads it again.
    """

    def __init__(
        self, journal: JournalStore, story: SessionStory, end: EarlierRun, clock: Clock
    ) -> None:
        self._journal = journal
        self._story = story
        self._end = end
        """Where its records ended when they were read."""
        self._clock = clock
        self._conversation: ConversationState | HooklineError | None = None
        """As it was when the session was read, or why it cannot be read."""

    # --- looking ----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its id in the journal."""
        return self._story.session_id

    @property
    def title(self) -> str:
        """The title it was given, or the beginning of its first prompt."""
        return self._story.title

    @property
    def status(self) -> SessionStatus:
        """Open, closed, suspended or deleted."""
        return self._story.status

    @property
    def version(self) -> int:
        """Increases with every change."""
        return self._story.version

    @property
    def forked_from(self) -> str | None:
        """The session it was forked from."""
        return self._story.forked_from or None

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of all its runs, also of those that were rewound or cleared."""
        return self._story.members

    @property
    def state(self) -> AgentState:
        """The state of the conversation; of an unfinished run, its state when the session was read."""
        return self._read_known().state

    @property
    def unfinished(self) -> str | None:
        """The run that waits for an answer, was left by a process that died, or is being driven now."""
        return self._read_known().unfinished or None

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The questions that its last run waits for."""
        return self.state.pending

    async def show(self) -> SessionView:
        """Its runs, its steps and its transcript. As text it is for reading."""
        conversation = await _read_conversation(self._journal, self._story)
        return await view_of(self._journal, self._story, conversation)

    show_sync = sync_form(show)

    async def refresh(self) -> Session:
        """Read it again, as it is in the journal now."""
        await self._take(*await _read_story(self._journal, self.id))
        return self

    refresh_sync = sync_form(refresh)

    def __repr__(self) -> str:
        return f"<Session {self.id}: {self.title!r}, {self.status.value}, version {self.version}>"

    # --- running ----------------------------------------------------------------------------------

    async def run(
        self, agent: Agent, prompt: str | None = None, **options: Unpack[TurnOptions]
    ) -> RunResult:
        """Continue the conversation with a new run."""
        async with self._hold() as held:
            begin = await _next(held, agent, options)
            result = await agent.run(prompt, **begin)
            await _note_end(held, result)
            return result

    run_sync = sync_form(run)

    def stream(
        self, agent: Agent, prompt: str | None = None, **options: Unpack[TurnOptions]
    ) -> RunStream[Record]:
        """`run`, with every record as it happens. It begins when it is first read."""

        async def read(results: list[RunResult]) -> AsyncGenerator[Record, None]:
            async with self._hold() as held:
                begin = await _next(held, agent, options)
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

        return RunStream(read)

    async def resume_run(
        self, agent: Agent, decisions: Mapping[str, Decision | bool] | None = None
    ) -> RunResult:
        """Continue the last run: it waits for these answers, or its process died."""
        async with self._hold() as held:
            _check_agent(held, agent)
            conversation = await read_conversation(self._journal, _usable(held.story))
            unfinished = conversation.unfinished
            if not unfinished:
                raise SessionError(
                    f"session '{self.id}' has no run that waits or is unfinished.",
                    remedy="Start a new one: session.run(agent, prompt).",
                )
            inside = _enter(held, member=unfinished, resumed=True)
            result = await agent.resume(unfinished, decisions, session=inside)
            await _note_end(held, result)
            return result

    resume_run_sync = sync_form(resume_run)

    async def begin_run(self, agent: Agent, run_id: str) -> RunResult:
        """Begin a run that was submitted to this session and has not begun. Workers do so."""
        async with self._hold() as held:
            inside = await _next_place(held, agent, run_id)
            result = await agent.resume(run_id, session=inside)
            if start_of(result.records) is not None:  # it may have been cancelled before
                await _note_end(held, result)
            return result

    begin_run_sync = sync_form(begin_run)

    async def close(self, agent: Agent, *, reason: str = "other") -> None:
        """End the session and call the agent's session_end hooks. The next run opens it again.

        Hooks find the reason in `ctx.source`: `clear` for a fresh start, `prompt_input_exit` when a person left.
        The error of a hook that fails is raised when the session is closed.
        """
        async with self._hold() as held:
            failure = await _close(held, agent, checked_text(reason, "a reason"))
        if failure is not None:
            raise failure

    close_sync = sync_form(close)

    # --- changing ---------------------------------------------------------------------------------

    async def fork(
        self, *, at: int | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """A new session with this conversation: as it is now, or as it was after step `at`."""
        session_id = _new_id() if id is None else check_session_id(id)
        title = self.title if title is None else _check_title(title)
        story, _ = await _read_story(self._journal, self.id)
        conversation = await _read_conversation(self._journal, story)
        if at is None and not conversation.unfinished:
            state = conversation.state
        else:
            state = await state_at(self._journal, story, await self._place(story, at))
        return await _create(
            self._journal,
            session_id,
            self._clock,
            title=title,
            forked_from=self.id,
            at_step=len(state.steps),
            initial=msgspec.json.decode(fork_state(state, session_id).to_json()),
        )

    async def rewind(self, *, to: int) -> None:
        """Go back to the conversation as it was after step `to`. Later runs stay in the journal."""
        async with self._hold() as held:
            story = _usable(held.story)
            place = await self._place(story, to)
            await held.add(SessionRewound, to=place.step, member=place.run_id, record=place.record)

    async def clear(self) -> None:
        """Empty the conversation: no messages, no metadata, no remembered answers."""
        async with self._hold() as held:
            _usable(held.story)
            await held.add(SessionCleared)

    async def rename(self, title: str) -> None:
        """Give it another title."""
        title = _check_title(title)
        async with self._hold() as held:
            await held.add(SessionTitled, title=title)

    async def suspend(self) -> None:
        """Let nothing run in it until it is resumed."""
        async with self._hold() as held:
            if held.story.status is not SessionStatus.SUSPENDED:
                _usable(held.story)
                await held.add(SessionStatusChanged, status=SessionStatus.SUSPENDED)

    async def resume(self) -> None:
        """Open a suspended session again. A run that waits in it is resumed with `resume_run`."""
        async with self._hold() as held:
            if held.story.status is not SessionStatus.SUSPENDED:
                raise SessionError(
                    f"session '{self.id}' is not suspended: it is {held.story.status.value}.",
                    remedy="A run that waits in it is resumed with session.resume_run(agent, decisions).",
                )
            await held.add(SessionStatusChanged, status=SessionStatus.OPEN)

    async def delete(self) -> None:
        """Delete it with all its runs. Forks stay. No hooks are called; `close` it first for that."""
        async with self._hold() as held:
            if held.story.status is not SessionStatus.DELETED:
                await held.add(SessionStatusChanged, status=SessionStatus.DELETED)
        try:
            await self._journal.delete(stream_of(self.id))
        except RunInUseError as error:
            raise SessionConflictError(
                f"session '{self.id}' is deleted, but its records could not be removed: {error.message}",
                remedy="Delete it again later.",
            ) from None

    fork_sync = sync_form(fork)
    rewind_sync = sync_form(rewind)
    clear_sync = sync_form(clear)
    rename_sync = sync_form(rename)
    suspend_sync = sync_form(suspend)
    resume_sync = sync_form(resume)
    delete_sync = sync_form(delete)

    # --- inside -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[HeldSession]:
        """Keep others off, and remember what was changed meanwhile. Raises when it has changed since it was read."""
        try:
            async with _claim_session(self._journal, self.id) as claim:
                # Its records are not read again: they grow with every run.
                if await _end_of(self._journal, self.id) != self._end:
                    raise _conflict_error(self._story, await _read_records(self._journal, self.id))
                known = self._conversation
                if not isinstance(known, ConversationState) or known.unfinished:
                    known = None  # it may have become another one since
                held = HeldSession(self._journal, claim, self._story, self._clock, known)
                try:
                    yield held
                finally:
                    if held.story is not self._story:
                        await self._take(held.story, await _end_of(self._journal, self.id))
        except UnknownSessionError:
            if self._story.status is SessionStatus.DELETED:
                raise session_error(self._story) from None
            raise

    async def _take(self, story: SessionStory, end: EarlierRun) -> Session:
        """Know the session as it is now."""
        self._story, self._end = story, end
        try:
            self._conversation = await _read_conversation(self._journal, story)
        except (
            HooklineError
        ) as error:  # whoever asks for the conversation gets it; `clear` needs none
            self._conversation = error
        return self

    def _read_known(self) -> ConversationState:
        conversation = self._conversation
        assert conversation is not None
        if isinstance(conversation, HooklineError):
            raise conversation
        return conversation

    async def _place(self, story: SessionStory, step: int | None) -> StepPlace:
        if step is None:
            return await last_place(self._journal, story)
        if isinstance(step, bool) or not isinstance(step, int):
            raise UsageError(
                f"a step is a number, not {step!r}.", remedy="session.show() has them."
            )
        return await place_after(self._journal, story, step)


class Sessions:
    """All sessions of a journal: `Sessions(SQLiteJournal(path))`."""

    def __init__(self, journal: JournalStore, *, clock: Clock = SYSTEM_CLOCK) -> None:
        for method in ("open", "claim", "read", "refer", "read_earlier", "sessions", "delete"):
            if isinstance(journal, type) or not callable(getattr(journal, method, None)):
                raise UsageError(
                    f"sessions cannot be kept in {journal!r}.",
                    remedy="Use SQLiteJournal(path), or a store with all methods of JournalStore.",
                )
        self._journal = journal
        self._clock = clock

    async def create(self, *, title: str = "", id: str | None = None) -> Session:
        """A new session. Without a title it gets one from its first prompt."""
        session_id = _new_id() if id is None else check_session_id(id)
        return await _create(self._journal, session_id, self._clock, title=_check_title(title))

    async def get(self, id: str) -> Session:
        """A session by its id, as it is now."""
        story, end = await _read_story(self._journal, check_session_id(id))
        return await Session(self._journal, story, end, self._clock)._take(story, end)

    async def list(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was used last first."""
        listed = await self._journal.sessions(limit=limit)
        return [info for info in listed if info.status is not SessionStatus.DELETED]

    create_sync = sync_form(create)
    get_sync = sync_form(get)
    list_sync = sync_form(list)


def _new_id() -> str:
    """A name that no other session has."""
    return os.urandom(6).hex()


def check_session_id(session_id: object) -> str:
    """The id of a session; refuses what cannot be one."""
    if not isinstance(session_id, str) or not _ID.fullmatch(session_id):
        raise UsageError(
            f"{session_id!r} cannot be the id of a session.",
            remedy="Use letters, digits and . _ - + : @ only.",
        )
    return session_id


def _check_title(title: object) -> str:
    """A title; refuses what cannot be one."""
    if not isinstance(title, str):
        raise UsageError(f"a title is text, not {title!r}.")
    return checked_text(title, "a title")


# --- runs, while everybody else is kept off the session ------------------------------------------

_TITLE = "hookline.title"
"""The metadata key for a title that hooks give the session."""
_LONGEST_TITLE = 80


class TurnOptions(TypedDict, total=False):
    """How a new run of a session begins."""

    attachments: Sequence[Attachment]
    run_id: str | None


async def _close(held: HeldSession, agent: Agent, reason: str) -> HookError | None:
    """Call the session_end hooks, and close the session whatever they do. Returns the failure of one that failed."""
    _check_agent(held, agent)
    story = held.story
    conversation = await _between_runs(held)
    if story.status is SessionStatus.CLOSED:
        return None
    failure = None
    if not conversation.opening:
        state = replace(
            conversation.state, run_id=stream_of(story.session_id), session_id=story.session_id
        )
        durable = await held.durable(agent.definition.listeners)
        try:
            run = Run(RunSetup.of(agent.definition, drive), state, durable)
            failure = await end_session(run, reason)
        finally:
            durable.flush()  # the records of the hooks stay, whatever happens
            held.take(durable.records)
        await durable.commit()
    await held.save((SessionStatusChanged, {"status": SessionStatus.CLOSED}))
    return failure


def _usable(story: SessionStory) -> SessionStory:
    """A session; refuses one that is suspended or deleted."""
    if story.status in (SessionStatus.SUSPENDED, SessionStatus.DELETED):
        raise session_error(story)
    return story


def _enter(
    held: HeldSession, opening: str = "", continues: Continuation | None = None, **added: Any
) -> SessionMembership:
    """A place in the session for a run. The run is added to the session's records before it begins."""
    return SessionMembership(
        session_id=held.story.session_id,
        source=opening,
        continues=continues,
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


async def _next(held: HeldSession, agent: Agent, given: TurnOptions) -> RunOptions:
    """What the next run begins with: the state, its place in the session, and its id."""
    run_id = given.get("run_id") or _new_run_id(held.story)
    inside = await _next_place(held, agent, run_id)
    # Options that there are not stay in: the agent refuses them.
    return cast(RunOptions, {**given, "state": inside.state, "session": inside, "run_id": run_id})


async def _next_place(held: HeldSession, agent: Agent, run_id: str) -> SessionMembership:
    """The place in the session of the next run."""
    _check_agent(held, agent)
    conversation = await _between_runs(held)
    continues, last = None, conversation.last
    if last is not None and last.end is not None:
        try:
            earlier = await held.journal.refer(last.run_id, last.end + 1)
        except UnknownRunError:
            raise missing_run_error(held.story, last.run_id) from None
        continues = Continuation(earlier, conversation.changes)
    opening = conversation.opening
    inside = _enter(held, opening, continues, member=run_id, source=opening)
    inside = replace(inside, state=conversation.state)
    segments = held.story.position.segments
    if segments and segments[-1].run_id == run_id:  # it was added, and its process died then
        inside = replace(inside, enter=None)
    return inside


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


async def _between_runs(held: HeldSession) -> ConversationState:
    """The conversation. Raises when its last run is not over."""
    story = held.story
    _usable(story)
    conversation = held.conversation or await read_conversation(held.journal, story)
    if not conversation.unfinished:
        return conversation
    which = f"run '{conversation.unfinished}' of session '{story.session_id}'"
    place = await last_place(held.journal, story)
    behind = f"leave it behind: session.rewind(to={place.step})."
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


# --- the records of a session --------------------------------------------------------------------


class HeldSession:
    """A session that nobody else can change meanwhile."""

    def __init__(
        self,
        journal: JournalStore,
        claim: Claim,
        story: SessionStory | None,
        clock: Clock,
        conversation: ConversationState | None = None,
    ) -> None:
        self.journal = journal
        self.conversation = conversation
        """As it was when the session was taken, if that is known."""
        self._claim = claim
        self._story = story
        self._clock = clock
        self._durable: StoredRecords | None = None

    @property
    def story(self) -> SessionStory:
        """The session as it is now."""
        assert self._story is not None  # a new session gets its first record at once
        return self._story

    def take(self, records: Sequence[Record]) -> None:
        """The session has these records, of which it knows the first ones."""
        known = 0 if self._story is None else self._story.version
        self._story = fold_session(records[known:], self._story)

    async def add(self, kind: type[Record], **fields: Any) -> None:
        """Add a record, and wait until it is written."""
        await self.save((kind, fields))

    async def save(self, *made: tuple[type[Record], dict[str, Any]]) -> None:
        """Add records, together, and wait until they are written."""
        records = self._make(*made)
        await asyncio.wrap_future(self._claim.write(records))
        self._story = fold_session(records, self._story)

    def _make(self, *made: tuple[type[Record], dict[str, Any]]) -> list[Record]:
        at = self._clock.now() + self.journal.clock_offset
        first = 0 if self._story is None else self._story.version
        return [
            kind(run_id=self._claim.run_id, seq=first + number, at=at, **fields)
            for number, (kind, fields) in enumerate(made)
        ]

    async def durable(self, listeners: tuple[Listener, ...]) -> StoredRecords:
        """The session's records in the place of a run's, for hooks that are called between runs."""
        # Kept, because it gives the claim back when it is garbage.
        records = await _read_records(self.journal, self.story.session_id)
        self._durable = StoredRecords(self.journal, self._claim, records, listeners)
        return self._durable


async def _read_story(journal: JournalStore, session_id: str) -> tuple[SessionStory, EarlierRun]:
    """A session as it is now, and where its records end."""
    records = await _read_records(journal, session_id)
    return fold_session(records), await journal.refer(stream_of(session_id), len(records))


async def _read_conversation(journal: JournalStore, story: SessionStory) -> ConversationState:
    """The conversation of a session that is not deleted."""
    if story.status is SessionStatus.DELETED:
        raise session_error(story)
    return await read_conversation(journal, story)


async def _end_of(journal: JournalStore, session_id: str) -> EarlierRun:
    try:
        return await journal.refer(stream_of(session_id))
    except UnknownRunError:
        raise _no_session(session_id) from None


def _no_session(session_id: str) -> UnknownSessionError:
    return UnknownSessionError(
        f"there is no session '{session_id}' in the journal; it may have been deleted.",
        remedy="sessions.list() shows all sessions, sessions.create() makes a new one.",
    )


async def _read_records(journal: JournalStore, session_id: str) -> list[Record]:
    try:
        return await journal.read(stream_of(session_id))
    except UnknownRunError:
        raise _no_session(session_id) from None


async def _create(journal: JournalStore, session_id: str, clock: Clock, **fields: Any) -> Session:
    """Create a session. Raises when there is one with that id."""
    async with _claim_session(journal, session_id) as claim:
        try:
            await _read_records(journal, session_id)
        except UnknownSessionError:
            held = HeldSession(journal, claim, None, clock)
            await held.add(SessionCreated, session_id=session_id, version=RECORD_VERSION, **fields)
            end = await _end_of(journal, session_id)
            return await Session(journal, held.story, end, clock)._take(held.story, end)
    raise UsageError(
        f"there is a session '{session_id}' already.",
        remedy="Continue it: sessions.get(id). Or give the new one another id=.",
    )


@asynccontextmanager
async def _claim_session(journal: JournalStore, session_id: str) -> AsyncIterator[Claim]:
    """Keep others off a session. Raises when somebody else has it."""
    try:
        claim = await journal.claim(stream_of(session_id))
    except RunInUseError as error:
        raise SessionConflictError(
            f"session '{session_id}' is in use by another process or task now ({error.message}).",
            remedy="Wait, and read it again with session.refresh(); or fork it: session.fork().",
        ) from None
    try:
        yield claim
    finally:
        given = claim.give_back()
        if not given.done():
            await asyncio.shield(asyncio.wrap_future(given))


def _conflict_error(known: SessionStory, records: list[Record]) -> SessionConflictError:
    since = ", ".join(filter(None, map(_describe, records[known.version :])))
    return SessionConflictError(
        f"session '{known.session_id}' has changed since it was read here: version {known.version} "
        f"was read, and it is at version {len(records)} ({since or 'it is another one'}). Nothing was done.",
        remedy="Read it again with session.refresh(), and repeat what is still needed.",
    )


def _describe(record: Record) -> str:
    match record:
        case SessionRunAdded():
            return f"run '{record.member}' {'was resumed' if record.resumed else 'was added'}"
        case SessionRunEnded():
            return f"run '{record.member}' ended or paused"
        case SessionRewound():
            return f"it was rewound to step {record.to}"
        case SessionCleared():
            return "it was cleared"
        case SessionTitled():
            return "it was renamed"
        case SessionStatusChanged():
            return f"it is {record.status.value}"
    return ""
