"""What a list shows of a run, added up from its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec.structs import replace

from hookline.errors import UsageError
from hookline.journal.codec import AnyRecord
from hookline.journal.record import (
    PromptSubmitted,
    Record,
    RunFinished,
    RunStarted,
    StatusChanged,
    StepFinished,
)
from hookline.journal.session import session_entry
from hookline.journal.session_record import SessionCreated
from hookline.journal.store import RunInfo
from hookline.state import RunStatus, valid_text

_JOURNALLED: frozenset[type] = frozenset(get_args(AnyRecord))
_TELLING: frozenset[type] = frozenset(
    {RunStarted, PromptSubmitted, StepFinished, StatusChanged, RunFinished}
)
"""The records that a summary is made of."""
_LONGEST_PROMPT = 300
"""Characters of a prompt that a list shows: the summary is written again and again, so it stays small."""


def check_records(run_id: str, records: Sequence[Record]) -> None:
    """Refuse what does not belong into the journal of this run, before any of it is written."""
    for record in records:
        if type(record) not in _JOURNALLED:
            raise UsageError(
                f"a {type(record).__name__} cannot be journalled: it could not be read again.",
                remedy="Deltas are told to listeners, and not written.",
            )
        if record.run_id != run_id:
            raise UsageError(
                f"a record of run '{record.run_id}' was about to be written to run '{run_id}'.",
                remedy="Claim that run, and write it there.",
            )


def summarise(info: RunInfo, records: Sequence[Record]) -> RunInfo:
    """The summary of a run after these records, of which there is at least one."""
    if info.kind == "session" or isinstance(records[0], SessionCreated):
        return _of_session(info, records)
    session_id, agent_id, parent = info.session_id, info.agent_id, info.parent_run_id
    status, prompt, steps = info.status, info.prompt, info.steps
    for record in records:
        if type(record) not in _TELLING:
            continue
        if isinstance(record, StepFinished):
            steps += 1
        elif isinstance(record, PromptSubmitted):
            prompt = prompt or valid_text(record.text[:_LONGEST_PROMPT])
        elif isinstance(record, RunStarted):
            status = RunStatus.RUNNING
            if not session_id and not agent_id:  # a run that goes on is still who it was
                session_id, agent_id = valid_text(record.session_id), valid_text(record.agent_id)
                parent = valid_text(record.parent_run_id)
        elif isinstance(record, StatusChanged | RunFinished):
            status = record.status
    return RunInfo(
        run_id=info.run_id,
        session_id=session_id,
        agent_id=agent_id,
        parent_run_id=parent,
        status=status,
        prompt=prompt,
        records=info.records + len(records),
        steps=steps,
        started_at=info.started_at if info.records else records[0].at,
        updated_at=records[-1].at,
    )


def _of_session(info: RunInfo, records: Sequence[Record]) -> RunInfo:
    """The same for the records of a session."""
    after = info
    for record in records:
        after = session_entry(after, record)
    return replace(
        after,
        prompt=valid_text(after.prompt[:_LONGEST_PROMPT]),
        records=info.records + len(records),
        started_at=info.started_at if info.records else records[0].at,
        updated_at=records[-1].at,
    )
