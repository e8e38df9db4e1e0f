"""A store of journals in memory: what the one on disk does, without the disk. For tests, and what need not last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import msgspec

from hookline.errors import JournalError, RunInUseError
from hookline.journal.chain import Damage, Row, Stored, anchor, link
from hookline.journal.claim import DONE, StoreClaim, check_run_id
from hookline.journal.retention import owner_of
from hookline.journal.session import session_info
from hookline.journal.shelf import Shelf
from hookline.journal.store import RunInfo, SessionInfo
from hookline.state import RunStatus


class MemoryJournal(Shelf):
    """Many runs in a dict. They are kept as bytes, so that what is read went through the same door as on disk."""

    def __init__(self) -> None:
        self._runs: dict[str, Stored] = {}
        self._held: set[str] = set()
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "the journal in memory"

    def claim(self, run_id: str) -> MemoryClaim:
        """Take a run, new or known. Raises RunInUseError while somebody else has it."""
        check_run_id(run_id)
        return MemoryClaim(self, self._lease(run_id))

    def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first."""
        with self._snapshot() as snapshot:
            chosen = [
                info
                for info in snapshot.infos()
                if info.kind == "run"
                and session_id in (None, info.session_id)
                and status in (None, info.status)
            ]
        return chosen[:limit]

    def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        with self._snapshot() as snapshot:
            chosen = [session_info(info) for info in snapshot.infos() if info.kind == "session"]
        return sorted(chosen, key=lambda info: info.updated_at, reverse=True)[:limit]

    def close(self) -> None:
        """There is nothing to let go of."""

    @contextmanager
    def _snapshot(self) -> Iterator[_Snapshot]:
        """The journal as it is now."""
        with self._lock:
            runs = dict(self._runs)
        yield _Snapshot(runs)

    def _stored(self, run_id: str) -> Stored:
        """A run as it is kept; an empty one if it is new."""
        known = self._runs.get(run_id)
        return known or Stored(RunInfo(run_id=run_id), anchor(run_id), [])

    def _append(self, bodies: list[bytes], after: RunInfo) -> None:
        """Add records to a run, whose summary is this from then on."""
        with self._lock:
            stored = self._stored(after.run_id)
            head, rows = stored.head, stored.rows
            for position, body in enumerate(bodies, stored.info.records):
                head = link(head, body)
                rows.append(Row(position, head, body))
            self._runs[after.run_id] = Stored(after, head, rows)

    def _lease(self, run_id: str) -> _Lease:
        with self._lock:
            if run_id in self._held:
                raise RunInUseError(
                    f"run '{run_id}' is being driven already.",
                    remedy="Wait for it to end or pause, or cancel it: agent.cancel(run_id).",
                )
            self._held.add(run_id)
        return _Lease(run_id, self._held)

    def _add(self, runs: list[Stored]) -> None:
        with self._lock:
            for run in runs:
                if run.info.run_id in self._runs:
                    raise JournalError(
                        f"run '{run.info.run_id}' is in this journal already.",
                        remedy="Delete it first. Nothing was added.",
                    )
            self._runs.update({run.info.run_id: run for run in runs})

    def _remove(self, run_ids: list[str]) -> None:
        with self._lock:
            for run_id in run_ids:
                self._runs.pop(run_id, None)


class MemoryClaim(StoreClaim):
    """Writes at once."""

    def __init__(self, journal: MemoryJournal, lease: _Lease) -> None:
        super().__init__(journal._stored(lease.run_id).info, lease)
        self._journal = journal

    def _put(
        self,
        bodies: list[bytes],
        before: RunInfo,  # noqa: ARG002 - for stores that write changes
        after: RunInfo,
        *,
        soon: bool,  # noqa: ARG002 - at once is soon
    ) -> Future[None]:
        self._journal._append(bodies, after)
        return DONE


class _Lease:
    """Free when it is released or forgotten."""

    def __init__(self, run_id: str, held: set[str]) -> None:
        self.run_id = run_id
        self._held: set[str] | None = held

    def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.discard(self.run_id)

    __del__ = release


class _Snapshot(msgspec.Struct, frozen=True):
    runs: dict[str, Stored]

    def infos(self) -> list[RunInfo]:
        infos = [stored.info for stored in reversed(self.runs.values())]
        return sorted(infos, key=lambda info: info.started_at, reverse=True)

    def parents(self) -> list[tuple[str, str | None]]:
        return [
            (info.run_id, owner_of(info.run_id, info.session_id, info.parent_run_id, info.kind))
            for info in self.infos()
        ]

    def stored(self, run_id: str) -> Stored | None:
        stored = self.runs.get(run_id)
        if stored is None:
            return None
        # The list is the run's own and may have grown since.
        rows = stored.rows[: stored.info.records]
        return Stored(stored.info, stored.head, rows)

    def strays(self) -> Iterator[Damage]:
        return iter(())

    def file_damage(self) -> list[str]:
        return []
