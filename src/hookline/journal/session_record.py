"""What happens to a session: a stream of records of their own, in the place of a run's."""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

from hookline.journal.record import RECORD_VERSION, Record


class SessionStatus(enum.StrEnum):
    """What can be done with a session."""

    OPEN = "open"
    CLOSED = "closed"
    """It was ended; the next run opens it again."""
    SUSPENDED = "suspended"
    """Nothing runs in it until it is resumed."""
    DELETED = "deleted"


class SessionCreated(Record, frozen=True, gc=False, omit_defaults=True, tag="session_created"):
    """A session was made: a new one, or one that goes on from a step of another."""

    session_id: str = ""
    title: str = ""
    forked_from: str = ""
    """The session it was forked from, after so many steps of its conversation."""
    at_step: int = 0
    initial: dict[str, Any] | None = None
    """The state it was forked with: it needs nothing of the other session any more."""
    version: int = RECORD_VERSION


class SessionRunAdded(Record, frozen=True, gc=False, omit_defaults=True, tag="session_run"):
    """A run is about to begin where the conversation stands, or the last one goes on."""

    member: str = ""
    source: str = ""
    """Why session_start is asked with it; empty when the session had started."""
    resumed: bool = False


class SessionRunEnded(Record, frozen=True, gc=False, omit_defaults=True, tag="session_run_ended"):
    """A run ended, or paused. What it came to is in its own journal."""

    member: str = ""


class SessionRewound(Record, frozen=True, gc=False, omit_defaults=True, tag="session_rewound"):
    """The conversation stands where it stood after one of its steps."""

    to: int = 0
    member: str = ""
    """The run it stands in; empty for the beginning."""
    record: int = 0
    """The last record of that run that counts."""


class SessionCleared(Record, frozen=True, gc=False, omit_defaults=True, tag="session_cleared"):
    """The conversation begins anew, with nothing."""


class SessionTitled(Record, frozen=True, gc=False, omit_defaults=True, tag="session_titled"):
    """The session was given a title."""

    title: str = ""


class SessionStatusChanged(Record, frozen=True, gc=False, omit_defaults=True, tag="session_status"):
    """The session was closed, suspended, resumed or deleted."""

    status: SessionStatus = SessionStatus.OPEN


SessionRecord: TypeAlias = (
    SessionCreated
    | SessionRunAdded
    | SessionRunEnded
    | SessionRewound
    | SessionCleared
    | SessionTitled
    | SessionStatusChanged
)
