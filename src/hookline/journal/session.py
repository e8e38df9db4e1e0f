"""What the records of a session add up to.

A session is many runs with one conversation. Its runs have journals of their own; what cannot be told from those is
in a stream of the session's own records, which a store keeps like the records of a run, under `session/<id>`. So a
session has what a run has: a chain that shows damage, a lease that keeps others off, and a number of records, which
is its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.errors import JournalError
from hookline.journal.record import HookRan, Record
from hookline.journal.session_record import (
    SessionCleared,
    SessionCreated,
    SessionRewound,
    SessionRunAdded,
    SessionRunEnded,
    SessionStatus,
    SessionStatusChanged,
    SessionTitled,
)
from hookline.journal.store import RunInfo, SessionInfo
from hookline.state import RunStatus

STREAM = "session/"
"""What the ids of such streams begin with; no run is called so."""
AS_RUN = {
    SessionStatus.OPEN: RunStatus.RUNNING,
    SessionStatus.CLOSED: RunStatus.COMPLETED,
    SessionStatus.SUSPENDED: RunStatus.PAUSED,
    SessionStatus.DELETED: RunStatus.CANCELLED,
}
"""How the status of a session is written in a store's list, where the others are runs."""
_AS_SESSION = {of_run: status for status, of_run in AS_RUN.items()}


def stream_of(session_id: str) -> str:
    """Where the records of a session are kept."""
    return STREAM + session_id


# --- in a list ----------------------------------------------------------------------------------------


def session_info(entry: RunInfo) -> SessionInfo:
    """What a store's entry says of a session."""
    return SessionInfo(
        entry.session_id,
        entry.prompt,
        _AS_SESSION[entry.status],
        entry.records,
        entry.steps,
        entry.started_at,
        entry.updated_at,
    )


def session_entry(entry: RunInfo, record: Record) -> RunInfo:
    """The entry of a session in a store's list, after one more record; stores count records and times themselves.

    Entries of sessions have the fields of those of runs: the title is the prompt, its runs are the steps.
    """
    match record:
        case SessionCreated():
            return replace(
                entry,
                kind="session",
                session_id=record.session_id,
                prompt=record.title,
                status=AS_RUN[SessionStatus.OPEN],
            )
        case SessionTitled():
            return replace(entry, prompt=record.title)
        case SessionRunAdded() if not record.resumed:
            return replace(entry, steps=entry.steps + 1, status=AS_RUN[SessionStatus.OPEN])
        case SessionStatusChanged():
            return replace(entry, status=AS_RUN[record.status])
    return entry


# --- as a whole ---------------------------------------------------------------------------------------


class Segment(msgspec.Struct, frozen=True):
    """A run as a part of the conversation: all of it, or up to a record of it."""

    run_id: str
    end: int | None = None


class Standing(msgspec.Struct, frozen=True):
    """Where the conversation stands: the runs it is made of, since its beginning."""

    segments: tuple[Segment, ...] = ()
    opening: str = ""
    """Why session_start is asked with the next run; empty when the session has started."""
    source: str = ""
    """Why session_start was asked with the last run."""
    is_forked: bool = False
    """It begins with what the session was forked with, rather than with nothing."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """What session_end hooks did to the state since the last run."""
    before: Standing | None = None
    """Where it stood before the last run was added, as long as that run may never have begun."""


class SessionStory(msgspec.Struct, frozen=True):
    """A session as its records tell it."""

    session_id: str
    title: str
    status: SessionStatus
    version: int
    """How many records there are: whoever changes the session has to know all of them."""
    standing: Standing
    forked_from: str = ""
    at_step: int = 0
    initial: dict[str, Any] | None = None
    members: tuple[str, ...] = ()
    """Every run that was ever added, in order, also those the conversation has left behind."""
    ended: frozenset[str] = frozenset()
    """Those that ended or paused, and so are known to have begun."""
    created_at: float = 0.0


def fold_session(records: Iterable[Record]) -> SessionStory:
    """The story of one session's records, in order."""
    story: SessionStory | None = None
    for record in records:
        if isinstance(record, SessionCreated):
            story = _created(record)
        elif story is None:
            raise JournalError(
                f"the first record of this session is a '{record.type}' record.",
                remedy="Its beginning is missing: see what journal.check() finds.",
            )
        else:
            told = _after(story, record)
            story = replace(told, version=story.version + 1)
    if story is None:
        raise JournalError("this session has no records.")
    return story


def _created(record: SessionCreated) -> SessionStory:
    is_forked = record.initial is not None
    return SessionStory(
        record.session_id,
        record.title,
        SessionStatus.OPEN,
        1,
        Standing(opening="fork" if is_forked else "startup", is_forked=is_forked),
        record.forked_from,
        record.at_step,
        record.initial,
        created_at=record.at,
    )


def _after(story: SessionStory, record: Record) -> SessionStory:
    standing = story.standing
    match record:
        case SessionRunAdded():
            return _with_run(story, record)
        case SessionRunEnded():
            settled = replace(standing, before=None)
            return replace(story, ended=story.ended | {record.member}, standing=settled)
        case SessionRewound():
            segments = _up_to(standing.segments, record)
            return replace(story, standing=replace(standing, segments=segments, changes=()))
        case SessionCleared():
            opening = standing.opening if not story.members else "clear"
            return replace(story, standing=Standing(opening=opening))
        case SessionTitled():
            return replace(story, title=record.title)
        case SessionStatusChanged():
            return _with_status(story, record.status)
        case HookRan() if record.changes and not record.shadow and record.changes.get("state"):
            changes = (*standing.changes, record.changes["state"])
            return replace(story, standing=replace(standing, changes=changes))
    return story


def _with_run(story: SessionStory, record: SessionRunAdded) -> SessionStory:
    if record.resumed:
        return story
    standing = story.standing
    added = Standing(
        (*standing.segments, Segment(record.member)),
        source=record.source,
        is_forked=standing.is_forked,
        before=standing,
    )
    members = (*story.members, record.member)
    return replace(story, standing=added, members=members, status=SessionStatus.OPEN)


def _with_status(story: SessionStory, status: SessionStatus) -> SessionStory:
    standing = story.standing
    if status is SessionStatus.CLOSED and not standing.opening:
        standing = replace(standing, opening="resume")
    return replace(story, status=status, standing=standing)


def _up_to(segments: tuple[Segment, ...], record: SessionRewound) -> tuple[Segment, ...]:
    kept: list[Segment] = []
    for segment in segments:
        if segment.run_id == record.member:
            return (*kept, Segment(record.member, record.record))
        kept.append(segment)
    return ()
