"""Runs of sessions that are kept in the journal: they go through the session, which knows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from hookline.errors import SessionError, UnknownRunError, UsageError
from hookline.journal import (
    STREAM,
    JournalStore,
    SessionStatus,
    SessionStory,
    Story,
    fold_session,
    stream_of,
)

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
        remedy=f"Go on with it there: Sessions(journal).get({session!r}).resume_run(agent, decisions).",
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
