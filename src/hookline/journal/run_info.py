"""What a list shows of a run or a session, computed from its records."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from hookline.errors import JournalError, UsageError
from hookline.journal.record import (
    EffectStarted,
    HookRan,
    HooksPassed,
    PromptSubmitted,
    Record,
    RunFinished,
    RunQueued,
    RunReopened,
    RunStarted,
    StatusChanged,
    StepFinished,
)
from hookline.journal.record_json import AnyRecord
from hookline.journal.session import (
    SessionCreated,
    SessionRunAdded,
    SessionStatus,
    SessionStatusChanged,
    SessionTitled,
)
from hookline.state import RunStatus
from hookline.state.frozen import valid_text

_JOURNALLED: frozenset[type] = frozenset(get_args(AnyRecord))
_run_of = attrgetter("run_id")
_DESCRIBING: frozenset[type] = frozenset(
    {
        RunQueued,
        RunStarted,
        RunReopened,
        PromptSubmitted,
        StatusChanged,
        RunFinished,
        SessionCreated,
        SessionTitled,
        SessionRunAdded,
        SessionStatusChanged,
        EffectStarted,
    }
)
"""The records that say something else of a run than how long it is."""
_WAITING = (RunStatus.QUEUED, RunStatus.PAUSED)
_AT_START = ("session_start", "execution_start", "prompt_submit")
_LONGEST_PROMPT = 300
"""Characters of a prompt in a list. The summary is written with every batch, so it stays small."""
_STATUS_OF_SESSION = {
    SessionStatus.OPEN: RunStatus.RUNNING,
    SessionStatus.CLOSED: RunStatus.COMPLETED,
    SessionStatus.SUSPENDED: RunStatus.PAUSED,
    SessionStatus.DELETED: RunStatus.CANCELLED,
}
"""How the status of a session is written in a store's list, where the other entries are runs."""
_OPEN = _STATUS_OF_SESSION[SessionStatus.OPEN]
_SESSION_STATUS = {of_run: status for status, of_run in _STATUS_OF_SESSION.items()}


class RunInfo(msgspec.Struct, frozen=True, gc=False):
    """One recorded run, as a list shows it.

    A session has an entry of the same form: its title is the prompt, the number of its runs the steps.
    """

    run_id: str
    session_id: str = ""
    agent_id: str = ""
    parent_run_id: str | None = None
    status: RunStatus = RunStatus.RUNNING
    """`running` also for a run whose process died."""
    prompt: str = ""
    """The first prompt, or its beginning when it is long."""
    records: int = 0
    steps: int = 0
    started_at: float = 0.0
    updated_at: float = 0.0
    kind: Literal["run", "session"] = "run"
    continues: str | None = None
    """The earlier run whose conversation it continues, which cannot be deleted alone."""


class SessionInfo(msgspec.Struct, frozen=True, gc=False):
    """One session, as a list shows it."""

    id: str
    title: str = ""
    status: SessionStatus = SessionStatus.OPEN
    version: int = 0
    runs: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0
    """When a run in it last began or ended, or the session itself was changed."""


def session_info(entry: RunInfo) -> SessionInfo:
    """The session that an entry of a store's list is about."""
    status = _SESSION_STATUS.get(entry.status)
    if status is None:
        raise JournalError(
            f"the journal is damaged: session '{entry.session_id}' has the status '{entry.status}' of a run.",
            remedy="Restore the journal from a backup; journal.check() lists all damage.",
        )
    return SessionInfo(
        id=entry.session_id,
        title=entry.prompt,
        status=status,
        version=entry.records,
        runs=entry.steps,
        created_at=entry.started_at,
        updated_at=entry.updated_at,
    )


def check_run_id(run_id: str) -> None:
    """Refuse what cannot be the id of a run."""
    if not isinstance(run_id, str) or not run_id:
        raise UsageError("a run id cannot be empty.", remedy="Give a run_id.")
    try:
        run_id.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the run id {run_id!r} is not valid Unicode.") from None


def check_own_id(run_id: str) -> str:
    """Refuse an id that somebody gives a run, and that a child of a run or a session has or may have one day."""
    if "/" in run_id:
        raise UsageError(
            f"{run_id!r} cannot be the id of a run: ids with a slash are those of child runs and sessions.",
            remedy="Give an id without a slash.",
        )
    return run_id


def check_limit(limit: int | None) -> None:
    """Refuse what cannot be the length of a list."""
    if limit is not None and limit < 0:
        raise UsageError(f"limit cannot be {limit}.", remedy="Leave it out to get all.")


def check_records(run_id: str, records: Sequence[Record]) -> None:
    """Refuse records that do not belong into the journal of this run."""
    # Each commit asks this, so the usual case has no loop of its own.
    if _JOURNALLED.issuperset(map(type, records)) and {run_id}.issuperset(map(_run_of, records)):
        return
    for record in records:
        if type(record) not in _JOURNALLED:
            raise UsageError(
                f"a {type(record).__name__} cannot be journalled: it could not be read again.",
                remedy="Deltas are for listeners only.",
            )
        if record.run_id != run_id:
            raise UsageError(
                f"a record of run '{record.run_id}' cannot be written to run '{run_id}'.",
                remedy="Claim that run, and write it there.",
            )


def summarise(info: RunInfo, records: Sequence[Record]) -> RunInfo:
    """The entry of a run or a session after these records, of which there is at least one."""
    kinds, entry = list(map(type, records)), info
    if info.status in _WAITING or not _DESCRIBING.isdisjoint(kinds):
        for record in records:
            entry = _describe(entry, record)
    return replace(
        entry,
        records=info.records + len(records),
        steps=entry.steps + kinds.count(StepFinished),
        started_at=info.started_at if info.records else records[0].at,
        updated_at=records[-1].at,
    )


def _describe(entry: RunInfo, record: Record) -> RunInfo:
    """The entry after one more record, but for what is counted."""
    match record:
        case PromptSubmitted():
            return replace(entry, prompt=entry.prompt or _shorten(record.text))
        case RunQueued():
            entry = replace(entry, status=RunStatus.QUEUED, prompt=_shorten(record.prompt))
            return _identify(entry, record.session_id, record.agent_id)
        case RunStarted():
            if not entry.session_id and not entry.agent_id:  # a resumed run keeps its identity
                entry = _identify(entry, record.session_id, record.agent_id)
                entry = replace(entry, parent_run_id=valid_text(record.parent_run_id))
            earlier = entry.continues if record.continues is None else record.continues.run_id
            return replace(entry, status=RunStatus.RUNNING, continues=earlier)
        case StatusChanged() | RunFinished() | RunReopened():
            return replace(entry, status=record.status)
        case EffectStarted() if record.status_before is not None:
            return replace(entry, status=record.status_before)
        case HookRan() | HooksPassed() if record.point in _AT_START and entry.status in _WAITING:
            # The effect is made, and the run begins.
            return replace(entry, status=RunStatus.RUNNING)
        case SessionCreated():
            entry = replace(entry, kind="session", session_id=record.session_id)
            return replace(entry, prompt=_shorten(record.title), status=_OPEN)
        case SessionTitled():
            return replace(entry, prompt=_shorten(record.title))
        case SessionRunAdded() if not record.resumed:
            return replace(entry, steps=entry.steps + 1, status=_OPEN)
        case SessionStatusChanged():
            return replace(entry, status=_STATUS_OF_SESSION[record.status])
    return entry


def _identify(entry: RunInfo, session_id: str, agent_id: str) -> RunInfo:
    return replace(entry, session_id=valid_text(session_id), agent_id=valid_text(agent_id))


def _shorten(prompt: str) -> str:
    short: str = valid_text(prompt[:_LONGEST_PROMPT])
    return short
