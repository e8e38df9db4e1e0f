"""A store of journals in memory, for tests and for runs that need not last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from hookline.errors import RunInUseError
from hookline.journal.base import (
    DONE,
    EVERYTHING,
    BaseClaim,
    BaseJournal,
    Release,
    RunQuery,
    Snapshot,
    check_run_id,
)
from hookline.journal.chain import Row, StoredRun, anchor, link_all
from hookline.journal.run_info import RunInfo


class MemoryJournal(BaseJournal):
    """Many runs in a dict. Records are kept as bytes, so they are encoded and checked as on disk."""

    def __init__(self) -> None:
        self._runs: dict[str, StoredRun] = {}
        self._held: set[str] = set()
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "the journal in memory"

    def claim(self, run_id: str) -> MemoryClaim:
        """Take a run, new or known. Raises RunInUseError while somebody else has it."""
        check_run_id(run_id)
        return MemoryClaim(self, run_id)

    def close(self) -> None:
        """Do nothing: there is no file."""

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        with self._lock:
            runs = dict(self._runs)
        yield _MemorySnapshot(runs)

    def _get(self, run_id: str) -> StoredRun:
        known = self._runs.get(run_id)
        return known or StoredRun(info=RunInfo(run_id=run_id), head=anchor(run_id), rows=[])

    def _append(self, bodies: list[bytes], after: RunInfo) -> None:
        with self._lock:
            run = self._get(after.run_id)
            links = link_all(run.head, bodies)
            run.rows.extend(map(Row, range(run.info.records, after.records), links, bodies))
            self._runs[after.run_id] = StoredRun(info=after, head=links[-1], rows=run.rows)

    def _lease(self, run_id: str) -> Release:
        with self._lock:
            if run_id in self._held:
                raise RunInUseError(
                    f"run '{run_id}' is being driven already.",
                    remedy="Wait for it to end or pause, or cancel it: agent.cancel(run_id).",
                )
            self._held.add(run_id)
        return _MemoryLease(run_id, self._held).release

    def _add(self, runs: list[StoredRun]) -> None:
        with self._lock:
            self._runs.update({run.info.run_id: run for run in runs})

    def _remove(self, run_ids: list[str]) -> None:
        with self._lock:
            for run_id in run_ids:
                self._runs.pop(run_id, None)


class MemoryClaim(BaseClaim):
    """Writes at once."""

    def __init__(self, journal: MemoryJournal, run_id: str) -> None:
        release = journal._lease(run_id)
        super().__init__(journal._get(run_id).info, release)
        self._journal = journal

    def _put(
        self,
        bodies: list[bytes],
        before: RunInfo,  # noqa: ARG002 - for stores that write changes
        after: RunInfo,
    ) -> Future[None]:
        self._journal._append(bodies, after)
        return DONE


class _MemoryLease:
    """Ends when it is released, or garbage."""

    def __init__(self, run_id: str, held: set[str]) -> None:
        self._run_id = run_id
        self._held: set[str] | None = held

    def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.discard(self._run_id)

    __del__ = release


class _MemorySnapshot(Snapshot):
    def __init__(self, runs: dict[str, StoredRun]) -> None:
        self._runs = runs

    def infos(self, query: RunQuery = EVERYTHING) -> list[RunInfo]:
        chosen = [
            run.info
            for run in reversed(self._runs.values())
            if query.kind in (None, run.info.kind)
            and query.session_id in (None, run.info.session_id)
            and query.status in (None, run.info.status)
        ]
        chosen.sort(key=lambda info: float(getattr(info, query.newest_by)), reverse=True)
        return chosen[: query.limit]

    def stored(self, run_id: str) -> StoredRun | None:
        run = self._runs.get(run_id)
        if run is None:
            return None
        # The list is shared with the journal, and may have grown since.
        return StoredRun(info=run.info, head=run.head, rows=run.rows[: run.info.records])
