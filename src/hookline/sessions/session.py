"""One session: run in it, look at it, and change what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager

import msgspec

from hookline.agent import Agent, RunResult
from hookline.agent.agent import run_to_end
from hookline.agent.in_session import halted
from hookline.definition import Clock
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
    SessionRewound,
    SessionStatus,
    SessionStatusChanged,
    SessionStory,
    SessionTitled,
    stream_of,
)
from hookline.sessions.naming import checked_id, checked_title, new_id
from hookline.sessions.running import close_in, resume_in, run_in, stream_in, usable
from hookline.sessions.standing import (
    Place,
    Stand,
    forked,
    last_place,
    place_after,
    stand_of,
    state_at,
)
from hookline.sessions.stream import Hold, Stream
from hookline.sessions.streaming import SessionStream
from hookline.sessions.view import SessionView, view_of
from hookline.state import AgentState, Attachment, Decision, PendingApproval, checked_text


class Session:
    """A conversation that many runs have had, and the next one goes on with.

    It knows the session as it was when it was last read here. What changes it, running included, is refused when
    somebody else has changed it since: `refresh()` looks again.
    """

    def __init__(self, journal: JournalStore, story: SessionStory, clock: Clock) -> None:
        self._journal = journal
        self._story = story
        self._clock = clock
        self._stream = Stream(journal, story.session_id, clock)

    # --- looking ----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its name in the journal."""
        return self._story.session_id

    @property
    def title(self) -> str:
        """What people call it: what it was given, or how its first prompt begins."""
        return self._story.title

    @property
    def status(self) -> SessionStatus:
        """Open, closed, suspended or deleted."""
        return self._story.status

    @property
    def version(self) -> int:
        """Goes up with everything that is done with it."""
        return self._story.version

    @property
    def forked_from(self) -> str | None:
        """The session it was forked from."""
        return self._story.forked_from or None

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of all its runs, also of those the conversation has left behind."""
        return self._story.members

    @property
    def state(self) -> AgentState:
        """The conversation as it stands; of a run that is not over, how far it has come."""
        return self._stand(self._story).state

    @property
    def unfinished(self) -> str | None:
        """The run that waits for an answer, or was left behind by a process that died, or is going on now."""
        return self._stand(self._story).unfinished or None

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The questions that its last run waits for."""
        return self.state.pending

    def show(self) -> SessionView:
        """Its runs, its steps and its transcript. As text it is for reading."""
        return view_of(self._journal, self._story, self._stand(self._story))

    def refresh(self) -> Session:
        """Read it again, as it is in the journal now."""
        self._story = self._stream.read()
        return self

    def __repr__(self) -> str:
        return f"<Session {self.id}: {self.title!r}, {self.status.value}, version {self.version}>"

    # --- running ----------------------------------------------------------------------------------

    async def run(
        self,
        agent: Agent,
        prompt: str | None = None,
        *,
        attachments: Sequence[Attachment] = (),
        run_id: str | None = None,
    ) -> RunResult:
        """Go on with the conversation: the next run begins where the last one ended."""
        with self._held() as hold:
            return await run_in(hold, agent, prompt, attachments, run_id)

    def run_sync(
        self,
        agent: Agent,
        prompt: str | None = None,
        *,
        attachments: Sequence[Attachment] = (),
        run_id: str | None = None,
    ) -> RunResult:
        """`run` for code that is not async."""
        return run_to_end(lambda: self.run(agent, prompt, attachments=attachments, run_id=run_id))

    def stream(
        self,
        agent: Agent,
        prompt: str | None = None,
        *,
        attachments: Sequence[Attachment] = (),
        run_id: str | None = None,
    ) -> SessionStream:
        """`run`, with every record as it happens. It begins when it is first read."""

        async def read(results: list[RunResult]) -> AsyncGenerator[Record, None]:
            with self._held() as hold:
                records = stream_in(hold, agent, prompt, attachments, run_id, results)
                async with aclosing(records):
                    async for record in records:
                        yield record

        return SessionStream(read)

    async def resume_run(
        self, agent: Agent, decisions: Mapping[str, Decision | bool] | None = None
    ) -> RunResult:
        """Go on with the last run: it waits for these answers, or its process died."""
        with self._held() as hold:
            return await resume_in(hold, agent, decisions)

    def resume_run_sync(
        self, agent: Agent, decisions: Mapping[str, Decision | bool] | None = None
    ) -> RunResult:
        """`resume_run` for code that is not async."""
        return run_to_end(lambda: self.resume_run(agent, decisions))

    async def close(self, agent: Agent, *, reason: str = "other") -> None:
        """End the session: the agent's session_end hooks are asked. The next run opens it again.

        They find the reason in `ctx.source`: `clear` when it begins anew, `prompt_input_exit` when a person has left.
        One of them that fails is raised when the session is closed.
        """
        with self._held() as hold:
            failure = await close_in(hold, agent, checked_text(reason, "a reason"))
        if failure is not None:
            raise failure

    # --- changing ---------------------------------------------------------------------------------

    def fork(
        self, *, at: int | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """A new session whose conversation is this one's: as it stands, or as it was after step `at`."""
        session_id = new_id() if id is None else checked_id(id)
        title = self.title if title is None else checked_title(title)
        story = self._stream.read()
        if story.status is SessionStatus.DELETED:
            raise halted(story)
        stand = self._stand(story)
        if at is None and not stand.unfinished:
            state = stand.state
        else:
            state = state_at(self._journal, story, self._place(story, at))
        created = Stream(self._journal, session_id, self._clock).create(
            title=title,
            forked_from=self.id,
            at_step=len(state.steps),
            initial=msgspec.json.decode(forked(state, session_id).to_json()),
        )
        return Session(self._journal, created, self._clock)

    def rewind(self, *, to: int) -> None:
        """Go back to where the conversation stood after step `to`. What came later stays in the journal."""
        with self._held() as hold:
            story = usable(hold.story)
            place = self._place(story, to)
            hold.add(SessionRewound, to=place.step, member=place.run_id, record=place.record)

    def clear(self) -> None:
        """Begin the conversation anew: no messages, no metadata, no remembered answers."""
        with self._held() as hold:
            usable(hold.story)
            hold.add(SessionCleared)

    def rename(self, title: str) -> None:
        """Give it another title."""
        title = checked_title(title)
        with self._held() as hold:
            hold.add(SessionTitled, title=title)

    def suspend(self) -> None:
        """Nothing runs in it any more, until it is resumed."""
        with self._held() as hold:
            if hold.story.status is not SessionStatus.SUSPENDED:
                usable(hold.story)
                hold.add(SessionStatusChanged, status=SessionStatus.SUSPENDED)

    def resume(self) -> None:
        """Take up a suspended session. A run that waits in it is resumed with `resume_run`."""
        with self._held() as hold:
            if hold.story.status is not SessionStatus.SUSPENDED:
                raise SessionError(
                    f"session '{self.id}' is not suspended: it is {hold.story.status.value}.",
                    remedy="A run that waits in it is resumed with session.resume_run(agent, decisions).",
                )
            hold.add(SessionStatusChanged, status=SessionStatus.OPEN)

    def delete(self) -> None:
        """Drop it with all its runs. Forks of it stay as they are. No hooks are asked: `close` it first for that."""
        with self._held() as hold:
            if hold.story.status is not SessionStatus.DELETED:
                hold.add(SessionStatusChanged, status=SessionStatus.DELETED)
        try:
            self._journal.delete(stream_of(self.id))
        except RunInUseError as error:
            raise SessionConflictError(
                f"session '{self.id}' is deleted, and its records could not be dropped: {error.message}",
                remedy="Delete it again when that is over.",
            ) from None

    # --- inside -----------------------------------------------------------------------------------

    @contextmanager
    def _held(self) -> Iterator[Hold]:
        """Keep others off, and know afterwards what was done meanwhile."""
        try:
            with self._stream.hold(self._story) as hold:
                try:
                    yield hold
                finally:
                    self._story = hold.story
        except UnknownSessionError:
            if self._story.status is SessionStatus.DELETED:
                raise halted(self._story) from None
            raise

    def _stand(self, story: SessionStory) -> Stand:
        if story.status is SessionStatus.DELETED:
            raise halted(story)
        return stand_of(self._journal, story)

    def _place(self, story: SessionStory, step: int | None) -> Place:
        if step is None:
            return last_place(self._journal, story)
        if isinstance(step, bool) or not isinstance(step, int):
            raise UsageError(
                f"a step is a number, not {step!r}.", remedy="session.show() has them."
            )
        return place_after(self._journal, story, step)
