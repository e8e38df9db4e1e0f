"""An agent: built once, frozen, and run as often as you like."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from hookline._aio import is_in_event_loop
from hookline.agent.approvals import check_answers
from hookline.agent.children import cancel_idle
from hookline.agent.loop.drive import drive
from hookline.agent.recovery import ResumeSource
from hookline.agent.result import RunResult, recorded_result
from hookline.agent.run import Continuation, Run, RunSetup, SessionPart
from hookline.agent.stream import Feed, RunStream, follow
from hookline.definition import Definition
from hookline.errors import JournalError, SessionError, UnknownRunError, UsageError
from hookline.inspection import Finding, explain, lint
from hookline.journal import (
    STREAM,
    Durable,
    FirstAnswer,
    InboxAnswer,
    InboxCancel,
    InboxMessage,
    JournalStore,
    Listener,
    Questions,
    Record,
    RunStarted,
    RunTakenUp,
    SessionStatus,
    SessionStory,
    Story,
    answers_on_record,
    begin,
    fold,
    fold_session,
    next_state,
    reopen,
    still_waiting,
    stream_of,
    with_changes,
)
from hookline.state import (
    AgentState,
    Attachment,
    Decision,
    UserMessage,
    check_transcript,
    checked_text,
)

_log = logging.getLogger("hookline")


_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
    weakref.WeakKeyDictionary()
)


class RunOptions(TypedDict, total=False):
    """How a run begins: the options of `run`, `run_sync`, `stream` and `iterate`."""

    attachments: Sequence[Attachment]
    state: AgentState | None
    """The conversation it continues: `result.state`."""
    session: str | InSession | None
    """The id of the session it belongs to."""
    run_id: str | None


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
        """Run to the end: `result = await agent.run("...")`. A run never raises for what happens inside it."""
        if self.definition.journal is None:
            return self._drive(*self._prepare(prompt, options))
        self._refuse_without_model()
        return self._run_in_turn(prompt, options)

    async def _run_in_turn(self, prompt: str | None, options: RunOptions) -> RunResult:
        """Run. A claim takes a moment, so of many runs that start at once each waits for the one before."""
        turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn:
            await asyncio.sleep(0)  # one run starts in each round of the event loop
            prepared = self._prepare(prompt, options)
        return await self._drive(*prepared)

    def run_sync(self, prompt: str | None = None, **options: Unpack[RunOptions]) -> RunResult:
        """`run` for code that is not async."""
        return run_to_end(lambda: self.run(prompt, **options))

    def stream(self, prompt: str | None = None, **options: Unpack[RunOptions]) -> RunStream[Record]:
        """Run, and get every record as it happens, with pieces of text and progress in between."""
        feed: Feed[Record] = Feed()
        run, said, inside = self._prepare(prompt, options, feed.put)
        feed.pace(run)
        return RunStream(partial(follow, run, lambda: self._drive(run, said, inside), feed))

    def iterate(
        self, prompt: str | None = None, **options: Unpack[RunOptions]
    ) -> RunStream[AgentState]:
        """Run step by step: the state after each step; the next step is made when you ask for it."""
        feed: Feed[AgentState] = Feed()
        run, said, inside = self._prepare(prompt, options)
        feed.take_states(run)
        return RunStream(partial(follow, run, lambda: self._drive(run, said, inside), feed))

    def resume(
        self,
        run: str | AgentState | RunResult,
        decisions: Mapping[str, Decision | bool] | None = None,
        *,
        session: InSession | None = None,
    ) -> Coroutine[Any, Any, RunResult]:
        """Continue a paused run: from its state, in this or another process, with answers by approval id.

        `session` is the session it belongs to, as sessions give it; nobody else has one to give.
        """
        self._refuse_without_model()
        journal = self.definition.journal
        if journal is not None:  # which knows what has become of the run since, in any process
            run_id = run if isinstance(run, str) else self._paused_state(run).run_id
            return self._resume_stored(journal, run_id, decisions or {}, session)
        state = self._paused_state(run)
        refuse_child(state)
        pause = pause_of(state)
        self._runs.refuse_twice(pause)
        answers = check_answers(
            state, {} if decisions is None else decisions, self.definition.toolbox
        )
        durable = Durable(self.definition.listeners, answers)
        part = SessionPart(ends=state.session_id == state.run_id)
        resumed = Run(RunSetup.of(self.definition, drive, session=part), state, durable)
        return self._drive(self._runs.begin(resumed), None, session, pause)

    def _resume_stored(
        self,
        journal: JournalStore,
        run_id: str,
        decisions: Mapping[str, Decision | bool],
        session: InSession | None,
    ) -> Coroutine[Any, Any, RunResult]:
        """Continue a run from its journal: paused, or left behind by a process that died."""
        durable = reopen(journal, run_id, self.definition.listeners)
        try:
            story = fold(durable.records, journal)
            if not story.is_finished or story.state.pending_step is not None:
                refuse_child(story.state, journal)
            if session is None:
                refuse_member(journal, story)
            known = (
                {}
                if story.is_finished
                else answers_on_record(journal, story.state, durable.records)
            )
            waiting = still_waiting(story.state, known)
            posted = journal.inbox(run_id)
            answers = check_answers(
                waiting,
                decisions,
                self.definition.toolbox,
                _first_answers(journal, waiting, decisions, posted),
                self.definition.redact,
            )
        except BaseException:
            durable.close()
            raise
        durable.take_answers(answers)
        if story.is_over:
            durable.close()
            return _give_result(
                recorded_result(story, durable.records, self.definition.plans.output)
            )
        for message in posted:
            if isinstance(message, InboxCancel):
                return self._end(durable, message.words)
        _report_version(durable.records, self.definition.version)
        paused = story.is_finished
        part = SessionPart(ends=story.state.session_id == run_id)
        resumed = Run(
            RunSetup.of(self.definition, drive, session=part),
            story.state if paused else story.settled,
            durable,
            None if paused else ResumeSource(story.tail, story.unsettled_seconds),
        )
        _take_posted(resumed, posted, journal if paused else None)
        return self._drive(self._runs.begin(resumed), None, session)

    async def _end(self, durable: Durable, why: str) -> RunResult:
        """End a run that nobody drives, because somebody cancelled it."""
        try:
            cancel_idle(durable, self.definition.clock.now(), why)
            if durable.commit is not None:
                await durable.commit()
        finally:
            durable.close()
        story = fold(durable.records, durable.store)
        return recorded_result(story, durable.records, self.definition.plans.output)

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

    def _prepare(
        self, prompt: str | None, options: RunOptions, *extra: Listener
    ) -> tuple[Run, str | UserMessage | None, InSession | None]:
        """A new run, what it is asked, and the session it belongs to if that is kept in the journal."""
        self._refuse_without_model()
        if unknown := options.keys() - RunOptions.__annotations__:
            raise TypeError(f"a run has no option {', '.join(map(repr, sorted(unknown)))}.")
        state, session, run_id = options.get("state"), options.get("session"), options.get("run_id")
        said = _user_message(prompt, options.get("attachments", ()))
        inside = session if isinstance(session, InSession) else None
        if isinstance(session, InSession):
            session = session.session_id
        begun = _begin(
            self.definition, prompt, state, session, run_id, is_checked=inside is not None
        )
        journal = self.definition.journal
        if inside is None:
            refuse_outsider(journal, session, run_id)
        continues = inside.continues if inside is not None else _continuation(journal, state)
        listeners = (*self.definition.listeners, *extra)
        durable: Durable = (
            Durable(listeners) if journal is None else begin(journal, begun.run_id, listeners)
        )
        known = state is not None and session is not None and state.session_id == session
        source = "resume" if begun.messages else "startup"
        if inside is not None:
            known, source = not inside.source, inside.source
        part = SessionPart(starts=not known, ends=session is None, source=source)
        setup = RunSetup.of(self.definition, drive, session=part, continues=continues)
        return self._runs.begin(Run(setup, begun, durable)), said, inside

    async def _drive(
        self,
        run: Run,
        prompt: str | UserMessage | None,
        inside: InSession | None,
        resumed: Pause | None = None,
    ) -> RunResult:
        result: RunResult | None = None
        try:
            if inside is not None and inside.enter is not None:
                await inside.enter()
            result = await drive(run, prompt)
        finally:
            self._runs.end(run, resumed, result)
            run.durable.close()
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


def _report_version(records: Sequence[Record], version: str) -> None:
    """Say so when another version of the agent continues a run than drove it last. The record says it too."""
    versions = [each.agent_version for each in records if isinstance(each, RunStarted | RunTakenUp)]
    if versions[-1] != version:
        was, now = (
            f"version {each!r}" if each else "no version" for each in (versions[-1], version)
        )
        _log.warning(
            "run '%s' was driven by %s of its agent, and %s continues it.",
            records[0].run_id,
            was,
            now,
        )


def run_to_end(start: Callable[[], Coroutine[Any, Any, RunResult]]) -> RunResult:
    """Drive a run for code that is not async."""
    if is_in_event_loop():
        raise UsageError(
            "this is async code already, so it cannot wait for a run without blocking it.",
            remedy="Write `await agent.run(...)`.",
        )

    async def main() -> RunResult:
        return await start()

    return asyncio.run(main())


def _user_message(
    prompt: str | None, attachments: Sequence[Attachment]
) -> str | UserMessage | None:
    """The prompt together with what is attached to it."""
    listed = isinstance(attachments, list | tuple)
    if not listed or not all(isinstance(each, Attachment) for each in attachments):
        raise UsageError(
            "attachments= takes a list of Attachment, and nothing else.",
            remedy="Write [Attachment.from_file(path)], say.",
        )
    if not attachments:
        return prompt
    if prompt is None:
        raise UsageError(
            "there are attachments, and no prompt they go with.", remedy="Say what they are for."
        )
    return UserMessage(prompt, "", tuple(attachments))


async def _give_result(result: RunResult) -> RunResult:
    """The result of a run that had ended already."""
    return result


def _first_answers(
    journal: JournalStore,
    state: AgentState,
    decisions: Mapping[str, Decision | bool],
    posted: Sequence[InboxMessage],
) -> dict[str, FirstAnswer]:
    """The answers that the questions of `decisions` have already: on record, or in the inbox if they wait."""
    waiting = {each.id: each for each in state.pending}
    first: dict[str, FirstAnswer] = {}
    if isinstance(decisions, Mapping) and not decisions.keys() <= waiting.keys():
        first |= Questions(journal, state.run_id).answered
    for message in posted:
        if isinstance(message, InboxAnswer):
            approval = waiting.get(message.question)
            if approval is not None and approval.fingerprint == message.fingerprint:
                first[message.question] = FirstAnswer(message.decision, message.by)
    return first


def _take_posted(run: Run, posted: Sequence[InboxMessage], paused: JournalStore | None) -> None:
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
    answered = Questions(paused, run.run_id).answered if given else {}
    for message in given:
        if message.question not in answered:
            run.inbox.report(message, "nothing asks this any more")


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
    run_id = _identity(run_id, "run_id") or os.urandom(16).hex()
    session = _identity(session, "session") or state.session_id or run_id
    return next_state(
        state.checked(), agent_id=definition.agent_id, run_id=run_id, session_id=session
    )


def _continuation(journal: JournalStore | None, state: AgentState | None) -> Continuation | None:
    """The run of this journal at whose end a state is; None for any other state, which is copied.

    A run of a session is not continued outside of it, because the session is deleted as a whole.
    """
    if journal is None or state is None or not state.run_id or state.parent_run_id is not None:
        return None
    try:
        records = journal.read(state.run_id)
        story = fold(records, journal)
        delta = _metadata_changes(story.state, state)
        changed = with_changes(story.state, delta)
        if not story.is_over or changed != state or _find_owner(journal, state) is not None:
            return None
        earlier = journal.refer(state.run_id, len(records))
    except (JournalError, UnknownRunError):
        return None
    return Continuation(earlier, (delta,) if delta else ())


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


def refuse_child(state: AgentState, journal: JournalStore | None = None) -> None:
    """A child run continues with the run it is a part of: alone, the policies and limits above it would not hold."""
    outer = state.parent_run_id
    if outer is None:
        return
    with suppress(UnknownRunError):
        while journal is not None:
            started = journal.read(outer)[0]
            above = started.parent_run_id if isinstance(started, RunStarted) else None
            if above is None:
                break
            outer = above
    raise UsageError(
        f"run '{state.run_id}' is a part of run '{outer}', under whose policies and limits it continues.",
        remedy=f"Resume the outer run, with the same answers: agent.resume('{outer}', decisions).",
    )


def _remember(known: dict[K, V], key: K, value: V) -> None:
    while len(known) >= _MOST_REMEMBERED:
        del known[next(iter(known))]
    known[key] = value


# --- runs of sessions that are kept in the journal ----------------------------------------------------


_HALTED = (SessionStatus.SUSPENDED, SessionStatus.DELETED)


class InSession(msgspec.Struct, frozen=True):
    """Which session a run belongs to, as the session itself says it."""

    session_id: str
    source: str = ""
    """Why session_start is asked; empty when the session has started."""
    continues: Continuation | None = None
    """The run of the session that it continues."""
    enter: Callable[[], Awaitable[None]] | None = None
    """Notes in the session that it has this run, before the run begins. If that fails the run never does."""


def refuse_outsider(journal: JournalStore | None, session: str | None, run_id: str | None) -> None:
    """A run beside a session, under its name, would be one that the session knows nothing of."""
    if run_id is not None and run_id.startswith(STREAM):
        raise UsageError(
            f"run_id={run_id!r}: ids that begin with '{STREAM}' are those of sessions.",
            remedy="Give the run another id.",
        )
    if journal is not None and session is not None and _find_session(journal, session) is not None:
        raise UsageError(
            f"session '{session}' is kept in the journal, and would not know of this run.",
            remedy=f"Run it there: Sessions(journal).get({session!r}).run(agent, prompt).",
        )


def refuse_member(journal: JournalStore, run: Story) -> None:
    """A run of a session continues in the session, which keeps others off and may have left it behind."""
    state, session = run.state, run.state.session_id
    story = _find_owner(journal, state)
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
        f"session '{story.session_id}' is suspended.", remedy="Take it up again: session.resume()."
    )


def _find_owner(journal: JournalStore, state: AgentState) -> SessionStory | None:
    """The session that a run belongs to, if it is kept in the journal."""
    return _find_session(journal, state.session_id) if state.session_id != state.run_id else None


def _find_session(journal: JournalStore, session: str) -> SessionStory | None:
    try:
        return fold_session(journal.read(stream_of(session)))
    except UnknownRunError:
        return None
