"""An agent: built once, frozen, and run as often as you like."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

from hookline._sync import run_to_end
from hookline.agent.children import fail_idle
from hookline.agent.loop.drive import drive
from hookline.agent.result import RunResult
from hookline.agent.resume import (
    SessionMembership,
    find_owner,
    find_session,
    refuse_child,
    resume_from_journal,
    resume_from_state,
)
from hookline.agent.run import Continuation, Run, RunSetup, SessionPart
from hookline.agent.stream import RunStream, StreamBuffer, follow
from hookline.definition import Definition
from hookline.errors import JournalError, RecordError, UnknownRunError, UsageError, in_words
from hookline.inspection import Finding, explain, lint
from hookline.journal import Durable, JournalStore, Listener, Record, begin, reopen, story_of
from hookline.journal.fold import next_state, with_changes
from hookline.journal.run_info import check_own_id, check_run_id
from hookline.state import (
    AgentState,
    Attachment,
    Decision,
    StopReason,
    UserMessage,
    check_transcript,
    checked_text,
)

T = TypeVar("T")
_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    weakref.WeakKeyDictionary()
)
_MOST_STARTING = 8
"""Runs of an event loop that wait for their claim at the same time."""


class RunOptions(TypedDict, total=False):
    """How a run begins: the options of `run`, `run_sync`, `stream` and `iterate`."""

    attachments: Sequence[Attachment]
    state: AgentState | None
    """The conversation it continues: `result.state`."""
    session: str | SessionMembership | None
    """The id of the session it belongs to."""
    run_id: str | None


class NewRun(NamedTuple):
    """What a new run begins with, before the journal was asked."""

    begun: AgentState
    said: str | UserMessage | None
    inside: SessionMembership | None
    """The session it belongs to, if that is kept in the journal."""
    state: AgentState | None
    """The conversation it continues, as it was given."""
    session: str | None


class Agent:
    """A model, tools and hooks. Made by AgentBuilder; immutable from then on."""

    __slots__ = ("__weakref__", "_runs", "definition")

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._runs = ActiveRuns()

    # --- running ----------------------------------------------------------------------------------

    def run(
        self, prompt: str | None = None, **options: Unpack[RunOptions]
    ) -> Coroutine[Any, Any, RunResult]:
        """Run to the end: `result = await agent.run("...")`. A run never raises for what happens inside it.

        What the journal refuses, such as a run that is there already, is raised when the run is awaited.
        """
        if self.definition.journal is None:
            new = self._check(prompt, options)
            run = self._start(new, Durable(self.definition.listeners), None)
            return self._drive(run, new.said, new.inside)
        self._refuse_without_model()
        return self._run_in_turn(prompt, options)

    async def _run_in_turn(self, prompt: str | None, options: RunOptions) -> RunResult:
        """Run. Of many runs that start at once, a few are claimed at a time: others have the event loop too."""
        loop = asyncio.get_running_loop()
        async with _turns.setdefault(loop, asyncio.Semaphore(_MOST_STARTING)):
            await asyncio.sleep(0)
            new = self._check(prompt, options)
            run = await self._begin(new)
        return await self._drive(run, new.said, new.inside)

    def run_sync(self, prompt: str | None = None, **options: Unpack[RunOptions]) -> RunResult:
        """`run` for code that is not async."""
        return run_to_end(lambda: self.run(prompt, **options))

    def stream(self, prompt: str | None = None, **options: Unpack[RunOptions]) -> RunStream[Record]:
        """Run, and get every record as it happens, with pieces of text and progress in between.

        It begins when it is first read, and what the journal refuses is raised then. A synchronous hook or approver
        holds up the reader: it gets the records when the run next waits.
        """
        feed: StreamBuffer[Record] = StreamBuffer()
        return self._follow(self._check(prompt, options), feed, feed.pace, feed.put)

    def iterate(
        self, prompt: str | None = None, **options: Unpack[RunOptions]
    ) -> RunStream[AgentState]:
        """Run step by step: the state after each step; the next step is made when you ask for it."""
        feed: StreamBuffer[AgentState] = StreamBuffer()
        return self._follow(self._check(prompt, options), feed, feed.take_states)

    def _follow(
        self, new: NewRun, feed: StreamBuffer[T], attach: Callable[[Run], None], *extra: Listener
    ) -> RunStream[T]:
        async def start() -> tuple[Run, Coroutine[Any, Any, RunResult]]:
            run = await self._begin(new, *extra)
            attach(run)
            return run, self._drive(run, new.said, new.inside)

        return RunStream(partial(follow, start, feed))

    async def resume(
        self,
        run: str | AgentState | RunResult,
        decisions: Mapping[str, Decision | bool] | None = None,
        *,
        session: SessionMembership | None = None,
    ) -> RunResult:
        """Continue a paused run: from its state, in this or another process, with answers by approval id.

        With a journal also a run whose process died. A queued run begins.

        `session` is the session it belongs to, as sessions give it; nobody else has one to give.
        """
        self._refuse_without_model()
        definition = self.definition
        answers = {} if decisions is None else decisions
        if definition.journal is not None:
            # It knows what has become of the run since, in any process.
            run_id = run if isinstance(run, str) else self._paused_state(run).run_id
            resumed = await resume_from_journal(
                definition, definition.journal, run_id, answers, session
            )
            if isinstance(resumed, RunResult):
                return resumed
            begun, prompt = resumed
            try:
                self._runs.begin(begun)
            except UsageError:  # it lost its claim, and has not ended here yet
                await begun.durable.close()
                raise
            return await self._drive(begun, prompt, session)
        state = self._paused_state(run)
        await refuse_child(state)
        pause = pause_of(state)
        self._runs.refuse_twice(pause)
        begun = resume_from_state(definition, state, answers)
        return await self._drive(self._runs.begin(begun), None, session, pause)

    def resume_sync(
        self,
        run: str | AgentState | RunResult,
        decisions: Mapping[str, Decision | bool] | None = None,
    ) -> RunResult:
        """`resume` for code that is not async."""
        return run_to_end(lambda: self.resume(run, decisions))

    def cancel(
        self, run_id: str | None = None, reason: str = "", *, out_of_time: bool = False
    ) -> int:
        """Cancel one run, or all runs of this agent, from any thread. Says how many were still there to be cancelled.

        A run that is named before it has started ends as soon as it does. One that is `out_of_time` ends at once too,
        and says that it has reached its time limit.
        """
        return self._runs.cancel(run_id, reason, out_of_time=out_of_time)

    def hand_over(self) -> int:
        """Leave all runs that are in a journal to other processes, each after the step that it makes now.

        Whoever waits for such a run gets a RunHandedOverError; `resume` continues it. Says how many will be left.
        """
        return self._runs.hand_over()

    async def aclose(self) -> None:
        """Close what its driver holds: connections, a model in memory. `async with agent:` does so at its end."""
        close = getattr(self.definition.driver, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- understanding ----------------------------------------------------------------------------

    def explain(self, tool: str | None = None, /, **args: Any) -> str:
        """What runs at each point, in which order and why; for a tool call, what would match and what would not."""
        return explain(self.definition, tool, args)

    def lint(self) -> list[Finding]:
        """What cannot be right about this set of hooks."""
        return lint(self.definition)

    def __repr__(self) -> str:
        hooks, tools = len(self.definition.registrations), len(self.definition.toolbox)
        return f"<Agent {self.definition.agent_id}: {tools} tools, {hooks} hooks>"

    # --- inside -----------------------------------------------------------------------------------

    def _check(self, prompt: str | None, options: RunOptions) -> NewRun:
        """What a new run begins with. Raises what is wrong with the options; the journal is not asked yet."""
        self._refuse_without_model()
        if unknown := options.keys() - RunOptions.__annotations__:
            raise TypeError(f"a run has no option {', '.join(map(repr, sorted(unknown)))}.")
        state, session, run_id = options.get("state"), options.get("session"), options.get("run_id")
        said = _user_message(prompt, options.get("attachments", ()))
        inside = session if isinstance(session, SessionMembership) else None
        if isinstance(session, SessionMembership):
            session = session.session_id
        begun = _begin(
            self.definition, prompt, state, session, run_id, is_checked=inside is not None
        )
        return NewRun(begun, said, inside, state, session)

    async def _begin(self, new: NewRun, *extra: Listener) -> Run:
        """The new run, with its record. In a journal it is claimed here."""
        journal, inside = self.definition.journal, new.inside
        listeners = (*self.definition.listeners, *extra)
        if journal is None:
            return self._start(new, Durable(listeners), None)
        if inside is None:
            await _refuse_outsider(journal, new.session)
            continues = await _continuation(journal, new.state)
        else:
            continues = inside.continues
        durable = await begin(journal, new.begun.run_id, listeners)
        try:
            return self._start(new, durable, continues)
        except BaseException:
            await durable.close()
            raise

    def _start(self, new: NewRun, durable: Durable, continues: Continuation | None) -> Run:
        begun, _, inside, state, session = new
        known = state is not None and session is not None and state.session_id == session
        source = "resume" if begun.messages else "startup"
        if inside is not None:
            known, source = not inside.source, inside.source
        part = SessionPart(starts=not known, ends=session is None, source=source)
        setup = RunSetup.of(self.definition, drive, session=part, continues=continues)
        return self._runs.begin(Run(setup, begun, durable))

    async def _drive(
        self,
        run: Run,
        prompt: str | UserMessage | None,
        inside: SessionMembership | None,
        resumed: Pause | None = None,
    ) -> RunResult:
        result: RunResult | None = None
        try:
            if inside is not None and inside.enter is not None:
                await inside.enter()
            result = await drive(run, prompt)
        finally:
            self._runs.end(run, resumed, result)
            await run.durable.close()
        if isinstance(result.error, RecordError) and self.definition.journal is not None:
            await _end_unwritten(self.definition.journal, result)
        return result

    def _refuse_without_model(self) -> None:
        """Refuse before a record is written: a run would only find out at its first step."""
        if self.definition.driver is None:
            raise UsageError(
                "this agent was built without a model, so it cannot run.",
                remedy='Give it one: AgentBuilder().with_model("provider:NAME").',
            )

    def _paused_state(self, run: str | AgentState | RunResult) -> AgentState:
        state = run.state if isinstance(run, RunResult) else run
        if isinstance(state, str):
            state = self._runs.find_paused(state)
        if not isinstance(state, AgentState):
            raise UsageError(
                f"resume takes a run id, a state or a result, not {state!r}.",
                remedy="Pass what the paused run gave: agent.resume(result, decisions).",
            )
        if state.pending_step is None:
            raise UsageError(
                "this state does not wait for anything.", remedy="Run it with a new prompt instead."
            )
        return state


def _user_message(
    prompt: str | None, attachments: Sequence[Attachment]
) -> str | UserMessage | None:
    """The prompt together with what is attached to it."""
    listed = isinstance(attachments, list | tuple)
    if not listed or not all(isinstance(each, Attachment) for each in attachments):
        raise UsageError(
            "attachments= takes a list of Attachment.",
            remedy="For example: [Attachment.from_file(path)].",
        )
    if not attachments:
        return prompt
    if prompt is None:
        raise UsageError("there are attachments without a prompt.", remedy="Say what they are for.")
    return UserMessage(prompt, "", tuple(attachments))


def _begin(
    definition: Definition,
    prompt: str | None,
    state: AgentState | None,
    session: str | None,
    run_id: str | None,
    *,
    is_checked: bool,
) -> AgentState:
    """The state a new run begins with. One from a session was checked when it was written."""
    if prompt is not None:
        if not isinstance(prompt, str):
            raise UsageError(f"the prompt is text, not {prompt!r}.")
        checked_text(prompt, "the prompt")
    if state is None:
        state = AgentState()
    elif not isinstance(state, AgentState):
        raise UsageError(
            f"state= takes an AgentState, not {state!r}.",
            remedy="Use result.state or AgentState.from_json.",
        )
    if state.pending_step is not None:
        raise UsageError(
            "this state waits for an approval, so it cannot take a new prompt.",
            remedy="Answer it first: agent.resume(state, decisions={pending.id: Decision.allow()}).",
        )
    if prompt is None and not state.messages:
        raise UsageError("there is nothing to run: no prompt, and no conversation to continue.")
    if not is_checked:
        check_transcript(state.messages)
    if run_id is None:
        run_id = os.urandom(16).hex()
    check_run_id(run_id := check_own_id(_identity(run_id, "run_id")))
    session = _identity(session, "session") or state.session_id or run_id
    return next_state(
        state.freeze(), agent_id=definition.agent_id, run_id=run_id, session_id=session
    )


async def _continuation(journal: JournalStore, state: AgentState | None) -> Continuation | None:
    """The run of this journal at whose end a state is; None for any other state, which is copied.

    A run of a session is not continued outside of it, because the session is deleted as a whole.
    """
    if state is None or not state.run_id or state.parent_run_id is not None:
        return None
    try:
        records = await journal.read(state.run_id)
        story = await story_of(records, journal)
        delta = _metadata_changes(story.state, state)
        changed = with_changes(story.state, delta)
        if not story.is_over or changed != state or await find_owner(journal, state) is not None:
            return None
        earlier = await journal.refer(state.run_id, len(records))
    except (JournalError, UnknownRunError):
        return None
    return Continuation(earlier, (delta,) if delta else ())


async def _refuse_outsider(journal: JournalStore, session: str | None) -> None:
    """A run beside a session, under its name, would be one that the session knows nothing of."""
    if session is not None and await find_session(journal, session) is not None:
        raise UsageError(
            f"session '{session}' is kept in the journal, so only the session can start this run.",
            remedy=f"Run it there: Sessions(journal).get({session!r}).run(agent, prompt).",
        )


def _metadata_changes(before: AgentState, after: AgentState) -> dict[str, Any]:
    """How the metadata differs: whoever continues a run may have noted something there."""
    was, now = before.metadata, after.metadata
    if was == now:
        return {}
    added = {key: value for key, value in now.items() if key not in was or was[key] != value}
    return {"metadata": {"set": added, "removed": [key for key in was if key not in now]}}


def _identity(given: object, option: str) -> str:
    """An id that somebody chose, as plain text; empty when none was given."""
    if given is None:
        return ""
    if not isinstance(given, str):
        raise UsageError(f"{option}= takes text, not {given!r}.")
    return checked_text(given, f"{option}=")


# --- what an agent knows of its own runs ----------------------------------------------------------


K = TypeVar("K")
V = TypeVar("V")
Pause: TypeAlias = tuple[str, int, tuple[str, ...]]
_MOST_REMEMBERED = 10_000
"""Of runs that are over, or never began: an agent that lives for months must not grow with them."""


class ActiveRuns:
    """The runs of one agent in this process: those that are driven, those that wait, those cancelled before they began.

    It is asked from any thread: `cancel` may come from a signal handler or a web request.
    """

    __slots__ = ("_cancelled_early", "_going", "_lock", "_paused", "_taken_up")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()
        self._cancelled_early: dict[str, str] = {}
        self._paused: dict[str, AgentState] = {}
        self._taken_up: dict[Pause, None] = {}

    def begin(self, run: Run) -> Run:
        """A run is about to begin. It is cancelled at once if that was asked for before."""
        with self._lock:
            if run.run_id in self._going:
                raise UsageError(
                    f"run '{run.run_id}' is running already.",
                    remedy="Give each run its own run_id=.",
                )
            self._going[run.run_id] = run
            self._paused.pop(run.run_id, None)
            early = self._cancelled_early.pop(run.run_id, None)
        if early is not None:
            run.token.cancel(early)
        return run

    def end(self, run: Run, resumed: Pause | None, result: RunResult | None) -> None:
        """A run ended or paused. `resumed` is the pause it was resumed from, if it was."""
        with self._lock:
            self._going.pop(run.run_id, None)
            if result is None:
                return
            pending = result.state.pending_step
            if pending is not None:
                self._paused[run.run_id] = result.state
            if resumed is not None and (pending is None or pause_of(result.state) != resumed):
                _remember(self._taken_up, resumed, None)

    def cancel(self, run_id: str | None, reason: str, *, out_of_time: bool = False) -> int:
        """Cancel one run, or all of them. Says how many were still there to be cancelled."""
        with self._lock:
            going = list(self._going.items())
            chosen = [run for key, run in going if run_id in (None, key)]
            if run_id is not None and not chosen:
                _remember(self._cancelled_early, run_id, reason)
        return sum([run.token.cancel(reason, out_of_time=out_of_time) for run in chosen])

    def hand_over(self) -> int:
        """Leave all runs that are in a journal."""
        with self._lock:
            chosen = [run for run in self._going.values() if run.durable.store is not None]
        for run in chosen:
            run.token.is_handed_over = True
        return len(chosen)

    def find_paused(self, run_id: str) -> AgentState:
        """The state of a run that waits, by its id."""
        with self._lock:
            state = self._paused.get(run_id)
        if state is None:
            raise UsageError(
                f"no paused run '{run_id}' is known to this agent.",
                remedy="Resume from its state instead: agent.resume(AgentState.from_json(text), decisions).",
            )
        return state

    def refuse_twice(self, pause: Pause) -> None:
        """A pause that was left is not left again: what was answered there has run."""
        if pause in self._taken_up:
            raise UsageError(
                f"step {pause[1] + 1} of run '{pause[0]}' was resumed already, and its calls have run.",
                remedy="Continue from the result of that resume.",
            )


def pause_of(state: AgentState) -> Pause:
    """What distinguishes one pause of a run from another: the step, and what had happened by then."""
    pending = state.pending_step
    assert pending is not None
    return state.run_id, pending.index, tuple(approval.id for approval in pending.approvals())


def _remember(known: dict[K, V], key: K, value: V) -> None:
    while len(known) >= _MOST_REMEMBERED:
        del known[next(iter(known))]
    known[key] = value


async def _end_unwritten(journal: JournalStore, result: RunResult) -> None:
    """End a run whose last records cannot be written. It must not be continued as if its process had died."""
    assert result.error is not None
    with suppress(JournalError):  # it is not in the journal at all, or somebody has taken it
        durable = await reopen(journal, result.run_id, ())
        try:
            at = time.time() + journal.clock_offset
            await fail_idle(durable, at, in_words(result.error), StopReason.ERROR)
            await durable.commit()
        finally:
            await durable.close()
