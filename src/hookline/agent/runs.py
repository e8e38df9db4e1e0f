"""What an agent knows of its own runs, and which it refuses because a session or another run has them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

import msgspec

from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.errors import SessionError, UnknownRunError, UsageError
from hookline.journal import (
    STREAM,
    JournalStore,
    RunStarted,
    SessionStatus,
    SessionStory,
    Story,
    fold_session,
    stream_of,
)
from hookline.state import AgentState

K = TypeVar("K")
V = TypeVar("V")
Pause: TypeAlias = tuple[str, int, tuple[str, ...]]
_MOST_REMEMBERED = 10_000
"""Of runs that are over, or never began: an agent that lives for months must not grow with them."""


class Runs:
    """Asked from any thread: `cancel` may come from a signal handler or a web request."""

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

    def paused(self, run_id: str) -> AgentState:
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
    enter: Callable[[], Awaitable[None]] | None = None
    """Notes in the session that it has this run, before the run begins. If that fails the run never does."""


def refuse_outsider(journal: JournalStore | None, session: str | None, run_id: str | None) -> None:
    """A run beside a session, under its name, would be one that the session knows nothing of."""
    if run_id is not None and run_id.startswith(STREAM):
        raise UsageError(
            f"run_id={run_id!r}: ids that begin with '{STREAM}' are those of sessions.",
            remedy="Give the run another id.",
        )
    if journal is not None and session is not None and _known(journal, session) is not None:
        raise UsageError(
            f"session '{session}' is kept in the journal, and would not know of this run.",
            remedy=f"Run it there: Sessions(journal).get({session!r}).run(agent, prompt).",
        )


def refuse_member(journal: JournalStore, run: Story) -> None:
    """A run of a session continues in the session, which keeps others off and may have left it behind."""
    state, session = run.state, run.state.session_id
    story = _known(journal, session) if session != state.run_id else None
    if story is None or state.parent_run_id is not None:
        return
    if story.status in _HALTED:
        raise halted(story)
    if run.is_over:
        return  # it is only looked at
    raise UsageError(
        f"run '{state.run_id}' belongs to session '{session}', which is kept in the journal.",
        remedy=f"Continue it there: Sessions(journal).get({session!r}).resume_run(agent, decisions).",
    )


def halted(story: SessionStory) -> SessionError:
    """Why nothing runs in it."""
    if story.status is SessionStatus.DELETED:
        return SessionError(
            f"session '{story.session_id}' was deleted.", remedy="Create another one."
        )
    return SessionError(
        f"session '{story.session_id}' is suspended.", remedy="Take it up again: session.resume()."
    )


def _known(journal: JournalStore, session: str) -> SessionStory | None:
    try:
        return fold_session(journal.read(stream_of(session)))
    except UnknownRunError:
        return None
