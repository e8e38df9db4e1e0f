"""The records of a session, and what they add up to.

A session is many runs with one conversation. Each run has its own journal. What those do not say is in a stream of
session records, which a store keeps like the records of a run, under `session/<id>`. So a session has a chain that
shows damage, a lease, and a number of records, which is its version.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from hookline.errors import JournalError
from hookline.journal.record import HookRan, Record

STREAM = "session/"
"""The ids of session streams begin with this; no run id does."""


def stream_of(session_id: str) -> str:
    """The id under which the records of a session are kept."""
    return STREAM + session_id


class SessionStatus(enum.StrEnum):
    """What can be done with a session."""

    OPEN = "open"
    CLOSED = "closed"
    """It was ended; the next run opens it again."""
    SUSPENDED = "suspended"
    """Nothing runs in it until it is resumed."""
    DELETED = "deleted"


class SessionCreated(Record, frozen=True, gc=False, omit_defaults=True, tag="session_created"):
    """A session was created: a new one, or a fork of another."""

    session_id: str = ""
    title: str = ""
    forked_from: str = ""
    at_step: int = 0
    """After how many steps of the conversation it was forked."""
    initial: dict[str, Any] | None = None
    """The state it was forked with. The other session may be deleted."""
    version: int = 1
    """The version of the records. It is not written for version 1."""


class SessionRunAdded(Record, frozen=True, gc=False, omit_defaults=True, tag="session_run"):
    """A run is about to begin, or the last one is about to be resumed."""

    member: str = ""
    source: str = ""
    """Why session_start hooks are called with it; empty when the session had started."""
    resumed: bool = False


class SessionRunEnded(Record, frozen=True, gc=False, omit_defaults=True, tag="session_run_ended"):
    """A run ended, or paused. Its result is in its own journal."""

    member: str = ""


class SessionRewound(Record, frozen=True, gc=False, omit_defaults=True, tag="session_rewound"):
    """The conversation continues from one of its earlier steps."""

    to: int = 0
    member: str = ""
    """The run of that step; empty for the beginning."""
    record: int = 0
    """The last record of that run that counts."""


class SessionCleared(Record, frozen=True, gc=False, omit_defaults=True, tag="session_cleared"):
    """The conversation was emptied."""


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


# --- what they add up to -------------------------------------------------------------------------------


class Segment(msgspec.Struct, frozen=True):
    """A run as a part of the conversation: all of it, or up to a record."""

    run_id: str
    end: int | None = None


class SessionPosition(msgspec.Struct, frozen=True):
    """Where the next run continues: the runs that the conversation consists of."""

    segments: tuple[Segment, ...] = ()
    opening: str = ""
    """Why session_start hooks are called with the next run; empty when the session has started."""
    source: str = ""
    """Why they were called with the last run."""
    is_forked: bool = False
    """The conversation begins with the state that the session was forked with."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """What session_end hooks changed in the state since the last run."""
    before: SessionPosition | None = None
    """The position before the last run was added, as long as it is not known whether that run began."""


class SessionStory(msgspec.Struct, frozen=True, kw_only=True):
    """A session, from its records."""

    session_id: str
    title: str
    status: SessionStatus
    version: int
    """The number of records. A writer must have read all of them."""
    position: SessionPosition
    forked_from: str = ""
    at_step: int = 0
    initial: dict[str, Any] | None = None
    members: tuple[str, ...] = ()
    """Every run that was ever added, in order, also those that the conversation no longer contains."""
    ended: tuple[str, ...] = ()
    """The runs that ended or paused, and so are known to have begun."""
    created_at: float = 0.0


def fold_session(records: Iterable[Record], story: SessionStory | None = None) -> SessionStory:
    """The story of one session's records, in order; with a story, of those that followed."""
    for record in records:
        if isinstance(record, SessionCreated):
            story = _new_story(record)
        elif story is None:
            raise JournalError(
                f"the first record of this session is a '{record.type}' record.",
                remedy="Its beginning is missing: see what journal.check() finds.",
            )
        else:
            story = replace(_apply(story, record), version=story.version + 1)
    if story is None:
        raise JournalError("this session has no records.")
    return story


def _new_story(record: SessionCreated) -> SessionStory:
    is_forked = record.initial is not None
    opening = "fork" if is_forked else "startup"
    return SessionStory(
        session_id=record.session_id,
        title=record.title,
        status=SessionStatus.OPEN,
        version=1,
        position=SessionPosition(opening=opening, is_forked=is_forked),
        forked_from=record.forked_from,
        at_step=record.at_step,
        initial=record.initial,
        created_at=record.at,
    )


def _apply(story: SessionStory, record: Record) -> SessionStory:
    position = story.position
    match record:
        case SessionRunAdded() if not record.resumed:
            return _with_run(story, record)
        case SessionRunEnded():
            ended = (*story.ended, record.member)
            return replace(story, ended=ended, position=replace(position, before=None))
        case SessionRewound():
            segments = _segments_up_to(position.segments, record)
            return replace(story, position=replace(position, segments=segments, changes=()))
        case SessionCleared():
            opening = position.opening if not story.members else "clear"
            return replace(story, position=SessionPosition(opening=opening))
        case SessionTitled():
            return replace(story, title=record.title)
        case SessionStatusChanged():
            if record.status is SessionStatus.CLOSED and not position.opening:
                position = replace(position, opening="resume")
            return replace(story, status=record.status, position=position)
        case HookRan() if record.changes and not record.shadow and record.changes.get("state"):
            changes = (*position.changes, record.changes["state"])
            return replace(story, position=replace(position, changes=changes))
    return story


def _with_run(story: SessionStory, record: SessionRunAdded) -> SessionStory:
    before = story.position
    after = SessionPosition(
        segments=(*before.segments, Segment(record.member)),
        source=record.source,
        is_forked=before.is_forked,
        before=before,
    )
    members = (*story.members, record.member)
    return replace(story, position=after, members=members, status=SessionStatus.OPEN)


def _segments_up_to(segments: tuple[Segment, ...], record: SessionRewound) -> tuple[Segment, ...]:
    kept: list[Segment] = []
    for segment in segments:
        if segment.run_id == record.member:
            return (*kept, Segment(record.member, record.record))
        kept.append(segment)
    return ()
