"""Sessions: many runs with one conversation, and the sessions of a journal."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Unpack

import msgspec

from hookline.agent.agent import Agent, halted, run_to_end
from hookline.agent.result import RunResult
from hookline.agent.stream import RunStream
from hookline.definition import SYSTEM_CLOCK, Clock
from hookline.errors import (
    RunInUseError,
    SessionConflictError,
    SessionError,
    UnknownSessionError,
    UsageError,
)
from hookline.journal import (
    JournalStore,
    Record,
    SessionCleared,
    SessionInfo,
    SessionRewound,
    SessionStatus,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    stream_of,
)
from hookline.sessions.conversation import (
    ConversationState,
    StepPlace,
    fork_state,
    last_place,
    place_after,
    read_conversation,
    state_at,
)
from hookline.sessions.log import HeldSession, SessionLog
from hookline.sessions.runs import TurnOptions, close_in, resume_in, run_in, stream_in, usable
from hookline.sessions.view import SessionView, view_of
from hookline.state import AgentState, Decision, PendingApproval, checked_text

_ID = re.compile(r"[\w.@:+-]+")


class Session:
    """A conversation of many runs. The next run continues it.

    This object knows the session as it was when it was last read. A change, a run included, is refused when somebody
    else has changed the session since then: `refresh()` reads it again.
    """

    def __init__(self, journal: JournalStore, story: SessionStory, clock: Clock) -> None:
        self._journal = journal
        self._story = story
        self._clock = clock
        self._log = SessionLog(journal, story.session_id, clock)

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
        """The state of the conversation; of an unfinished run, its state so far."""
        return self._conversation(self._story).state

    @property
    def unfinished(self) -> str | None:
        """The run that waits for an answer, was left by a process that died, or is being driven now."""
        return self._conversation(self._story).unfinished or None

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The questions that its last run waits for."""
        return self.state.pending

    def show(self) -> SessionView:
        """Its runs, its steps and its transcript. As text it is for reading."""
        return view_of(self._journal, self._story, self._conversation(self._story))

    def refresh(self) -> Session:
        """Read it again, as it is in the journal now."""
        self._story = self._log.read()
        return self

    def __repr__(self) -> str:
        return f"<Session {self.id}: {self.title!r}, {self.status.value}, version {self.version}>"

    # --- running ----------------------------------------------------------------------------------

    async def run(
        self, agent: Agent, prompt: str | None = None, **options: Unpack[TurnOptions]
    ) -> RunResult:
        """Continue the conversation with a new run."""
        with self._held() as held:
            return await run_in(held, agent, prompt, options)

    def run_sync(
        self, agent: Agent, prompt: str | None = None, **options: Unpack[TurnOptions]
    ) -> RunResult:
        """`run` for code that is not async."""
        return run_to_end(lambda: self.run(agent, prompt, **options))

    def stream(
        self, agent: Agent, prompt: str | None = None, **options: Unpack[TurnOptions]
    ) -> RunStream[Record]:
        """`run`, with every record as it happens. It begins when it is first read."""

        async def read(results: list[RunResult]) -> AsyncGenerator[Record, None]:
            with self._held() as held:
                records = stream_in(held, agent, prompt, options, results)
                async with aclosing(records):
                    async for record in records:
                        yield record

        return RunStream(read)

    async def resume_run(
        self, agent: Agent, decisions: Mapping[str, Decision | bool] | None = None
    ) -> RunResult:
        """Continue the last run: it waits for these answers, or its process died."""
        with self._held() as held:
            return await resume_in(held, agent, decisions)

    def resume_run_sync(
        self, agent: Agent, decisions: Mapping[str, Decision | bool] | None = None
    ) -> RunResult:
        """`resume_run` for code that is not async."""
        return run_to_end(lambda: self.resume_run(agent, decisions))

    async def close(self, agent: Agent, *, reason: str = "other") -> None:
        """End the session and call the agent's session_end hooks. The next run opens it again.

        Hooks find the reason in `ctx.source`: `clear` for a fresh start, `prompt_input_exit` when a person left.
        The error of a hook that fails is raised when the session is closed.
        """
        with self._held() as held:
            failure = await close_in(held, agent, checked_text(reason, "a reason"))
        if failure is not None:
            raise failure

    # --- changing ---------------------------------------------------------------------------------

    def fork(
        self, *, at: int | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """A new session with this conversation: as it is now, or as it was after step `at`."""
        session_id = _new_id() if id is None else _checked_id(id)
        title = self.title if title is None else _checked_title(title)
        story = self._log.read()
        if story.status is SessionStatus.DELETED:
            raise halted(story)
        conversation = self._conversation(story)
        if at is None and not conversation.unfinished:
            state = conversation.state
        else:
            state = state_at(self._journal, story, self._place(story, at))
        created = SessionLog(self._journal, session_id, self._clock).create(
            title=title,
            forked_from=self.id,
            at_step=len(state.steps),
            initial=msgspec.json.decode(fork_state(state, session_id).to_json()),
        )
        return Session(self._journal, created, self._clock)

    def rewind(self, *, to: int) -> None:
        """Go back to the conversation as it was after step `to`. Later runs stay in the journal."""
        with self._held() as held:
            story = usable(held.story)
            place = self._place(story, to)
            held.add(SessionRewound, to=place.step, member=place.run_id, record=place.record)

    def clear(self) -> None:
        """Empty the conversation: no messages, no metadata, no remembered answers."""
        with self._held() as held:
            usable(held.story)
            held.add(SessionCleared)

    def rename(self, title: str) -> None:
        """Give it another title."""
        title = _checked_title(title)
        with self._held() as held:
            held.add(SessionTitled, title=title)

    def suspend(self) -> None:
        """Let nothing run in it until it is resumed."""
        with self._held() as held:
            if held.story.status is not SessionStatus.SUSPENDED:
                usable(held.story)
                held.add(SessionStatusChanged, status=SessionStatus.SUSPENDED)

    def resume(self) -> None:
        """Open a suspended session again. A run that waits in it is resumed with `resume_run`."""
        with self._held() as held:
            if held.story.status is not SessionStatus.SUSPENDED:
                raise SessionError(
                    f"session '{self.id}' is not suspended: it is {held.story.status.value}.",
                    remedy="A run that waits in it is resumed with session.resume_run(agent, decisions).",
                )
            held.add(SessionStatusChanged, status=SessionStatus.OPEN)

    def delete(self) -> None:
        """Delete it with all its runs. Forks stay. No hooks are called; `close` it first for that."""
        with self._held() as held:
            if held.story.status is not SessionStatus.DELETED:
                held.add(SessionStatusChanged, status=SessionStatus.DELETED)
        try:
            self._journal.delete(stream_of(self.id))
        except RunInUseError as error:
            raise SessionConflictError(
                f"session '{self.id}' is deleted, and its records could not be dropped: {error.message}",
                remedy="Delete it again when that is over.",
            ) from None

    # --- inside -----------------------------------------------------------------------------------

    @contextmanager
    def _held(self) -> Iterator[HeldSession]:
        """Keep others off, and remember what was changed meanwhile."""
        try:
            with self._log.hold(self._story) as held:
                try:
                    yield held
                finally:
                    self._story = held.story
        except UnknownSessionError:
            if self._story.status is SessionStatus.DELETED:
                raise halted(self._story) from None
            raise

    def _conversation(self, story: SessionStory) -> ConversationState:
        if story.status is SessionStatus.DELETED:
            raise halted(story)
        return read_conversation(self._journal, story)

    def _place(self, story: SessionStory, step: int | None) -> StepPlace:
        if step is None:
            return last_place(self._journal, story)
        if isinstance(step, bool) or not isinstance(step, int):
            raise UsageError(
                f"a step is a number, not {step!r}.", remedy="session.show() has them."
            )
        return place_after(self._journal, story, step)


class Sessions:
    """All sessions of a journal: `Sessions(SQLiteJournal(path))`."""

    def __init__(self, journal: JournalStore, *, clock: Clock = SYSTEM_CLOCK) -> None:
        for method in ("claim", "read", "sessions", "delete"):
            if isinstance(journal, type) or not callable(getattr(journal, method, None)):
                raise UsageError(
                    f"sessions cannot be kept in {journal!r}.",
                    remedy="Use SQLiteJournal(path), or a store with claim, read, sessions and delete.",
                )
        self._journal = journal
        self._clock = clock

    def create(self, *, title: str = "", id: str | None = None) -> Session:
        """A new session. Without a title it gets one from its first prompt."""
        log = self._log(_new_id() if id is None else _checked_id(id))
        return Session(self._journal, log.create(title=_checked_title(title)), self._clock)

    def get(self, id: str) -> Session:
        """A session by its id, as it is now."""
        return Session(self._journal, self._log(_checked_id(id)).read(), self._clock)

    def list(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was used last first."""
        listed = self._journal.sessions(limit=limit)
        return [info for info in listed if info.status is not SessionStatus.DELETED]

    def _log(self, session_id: str) -> SessionLog:
        return SessionLog(self._journal, session_id, self._clock)


def _new_id() -> str:
    """A name that no other session has."""
    return os.urandom(6).hex()


def _checked_id(session_id: object) -> str:
    """The id of a session; refuses what cannot be one."""
    if not isinstance(session_id, str) or not _ID.fullmatch(session_id):
        raise UsageError(
            f"{session_id!r} cannot be the id of a session.",
            remedy="Use letters, digits and . _ - + : @ only.",
        )
    return session_id


def _checked_title(title: object) -> str:
    """A title; refuses what cannot be one."""
    if not isinstance(title, str):
        raise UsageError(f"a title is text, not {title!r}.")
    return checked_text(title, "a title")
