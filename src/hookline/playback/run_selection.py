"""Which recorded runs are played, and where they come from: a store of journals, or records in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from hookline.errors import UnknownRunError, UsageError
from hookline.journal import ChildStarted, EarlierRun, Record, RunInfo, RunStarted, StatusChanged
from hookline.state import RunStatus


class Recordings(Protocol):
    """Where the records of runs are read: a store has these methods."""

    async def read(self, run_id: str) -> list[Record]:
        """The records of a run; raises UnknownRunError when there is no such run."""
        ...

    async def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        """The records that a later run continues."""
        ...


def is_store(journal: object) -> bool:
    """Whether this is a store, rather than records."""
    return all(callable(getattr(journal, name, None)) for name in ("read", "runs"))


def recordings_of(journal: Any) -> Recordings:
    """The runs of a journal, or of a list of records in which there may be children and earlier runs too."""
    return journal if is_store(journal) else GivenRecords(_by_run(journal))


class GivenRecords:
    """Records that somebody has in hand, by run."""

    def __init__(self, by_run: Mapping[str, list[Record]]) -> None:
        self._by_run = by_run

    async def read(self, run_id: str) -> list[Record]:
        """The records of a run."""
        if run_id not in self._by_run:
            known = ", ".join(sorted(self._by_run)) or "nothing"
            raise UnknownRunError(
                f"there is no run '{run_id}' among these records.", remedy=f"There are: {known}."
            )
        return self._by_run[run_id]

    async def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        """The records that a later run continues. Without a store there are no links to compare."""
        records = self._by_run.get(earlier.run_id, ())[: earlier.records]
        if len(records) < earlier.records:
            raise UnknownRunError(
                f"a conversation here begins in run '{earlier.run_id}', which is not among these records.",
                remedy="Pass the records of that run too, or the journal.",
            )
        return list(records)


async def read_tree(recordings: Recordings, run_id: str) -> dict[str, list[Record]]:
    """The records of a run, and of its children as far as they are there."""
    found = {run_id: await recordings.read(run_id)}
    waiting = [run_id]
    while waiting:
        for record in found[waiting.pop()]:
            if isinstance(record, ChildStarted) and record.child_run_id not in found:
                with suppress(UnknownRunError):
                    found[record.child_run_id] = await recordings.read(record.child_run_id)
                    waiting.append(record.child_run_id)
    return found


async def select_runs(
    journal: Any,
    *,
    runs: Sequence[str] | None,
    session: str | None,
    status: RunStatus | None,
    since: datetime | timedelta | None,
    limit: int | None,
) -> list[str]:
    """The ids of the runs that are wanted. Children are not among them, unless their parents are not there."""
    if isinstance(runs, str):
        raise UsageError(f"runs= takes a list of ids, not {runs!r}.", remedy="Write [id].")
    if status is not None and status not in list(RunStatus):
        known = ", ".join(status.value for status in RunStatus)
        raise UsageError(f"no run has the status {status!r}.", remedy=f"Give one of {known}.")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise UsageError(
            f"limit={limit!r} is not a number of runs.", remedy="Leave it out for all."
        )
    begins_at = _earliest_start(since)
    infos = await journal.runs() if is_store(journal) else list(_infos(_by_run(journal)))
    there = {info.run_id for info in infos}
    if session is not None and not any(info.session_id == session for info in infos):
        raise UnknownRunError(f"there is no run of session '{session}' in the journal.")
    for run_id in runs or ():
        if run_id not in there:
            raise UnknownRunError(f"there is no run '{run_id}' in the journal.")
    found = [
        info.run_id
        for info in infos
        if info.parent_run_id not in there
        and info.started_at >= begins_at
        and session in (None, info.session_id)
        and status in (None, info.status)
        and (runs is None or info.run_id in runs)
    ]
    return found[:limit]


def _earliest_start(since: object) -> float:
    """When a wanted run began at the earliest, in seconds since 1970."""
    if isinstance(since, timedelta):
        return time.time() - since.total_seconds()
    if isinstance(since, datetime):
        return since.timestamp()
    if since is None:
        return 0.0
    raise UsageError(
        f"since={since!r} is not a point in time.",
        remedy="Pass a datetime, or a timedelta: since=timedelta(days=7).",
    )


def _by_run(records: Any) -> dict[str, list[Record]]:
    by_run: dict[str, list[Record]] = {}
    for record in _each(records):
        by_run.setdefault(record.run_id, []).append(record)
    return by_run


def _each(records: Any) -> Iterator[Record]:
    """All records of a list, or of a list of lists."""
    if not isinstance(records, Iterable) or isinstance(records, str | bytes):
        raise _not_a_journal(records)
    for record in records:
        if isinstance(record, Record):
            yield record
        else:
            yield from _each(record)


def _infos(by_run: dict[str, list[Record]]) -> Iterator[RunInfo]:
    for run_id, records in by_run.items():
        starts = [record for record in records if isinstance(record, RunStarted)]
        ends = [record.status for record in records if isinstance(record, StatusChanged)]
        yield RunInfo(
            run_id=run_id,
            session_id=starts[0].session_id if starts else "",
            parent_run_id=starts[0].parent_run_id if starts else None,
            status=ends[-1] if ends else RunStatus.RUNNING,
            started_at=records[0].at,
        )


def _not_a_journal(given: object) -> UsageError:
    return UsageError(
        f"{given!r} is not a journal.",
        remedy="Pass the store the agent was built with, or records: result.records.",
    )
