"""What all stores share: claims, reading, integrity checks, deleting, export and import.

A store that derives from `BaseJournal` only says how runs are kept. This is a convenience of the two stores here:
a store of another kind needs nothing but the interface in `store.py`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import timedelta
from typing import IO, Literal, TypeAlias, TypeVar

import msgspec

from hookline.errors import (
    HooklineError,
    JournalError,
    RunInUseError,
    UnknownRunError,
    UsageError,
)
from hookline.journal.chain import CheckReport, Damage, StoredRun, check_chain, decode_all, examine
from hookline.journal.jsonl import dump, load
from hookline.journal.record import Record
from hookline.journal.record_json import encode_readable
from hookline.journal.retention import Retention, owner_of, with_descendants
from hookline.journal.run_info import (
    RunInfo,
    SessionInfo,
    check_records,
    session_info,
    summarise,
)
from hookline.state import RunStatus

T = TypeVar("T")
Release: TypeAlias = Callable[[], None]
"""Ends a lease. A lease also ends when this function is garbage."""

_TREES_AT_ONCE = 500
"""Trees of runs deleted in one transaction: other processes write in between."""


class BaseClaim(ABC):
    """Encodes records and passes them to the store. After a failure nothing more is written."""

    def __init__(self, info: RunInfo, release: Release) -> None:
        self._info = info
        self._release = release
        self._latest = DONE
        self._failure: JournalError | None = None
        self._is_held = True
        self._lock = threading.Lock()

    @property
    def run_id(self) -> str:
        """The run."""
        return self._info.run_id

    @abstractmethod
    def _put(self, bodies: list[bytes], before: RunInfo, after: RunInfo) -> Future[None]:
        """Have the store write these records, which change the run's summary like this."""

    def write(self, records: Sequence[Record]) -> Future[None]:
        """Write records, in order. The future is done when they are committed, and fails if they cannot be."""
        with self._lock:
            if not self._is_held:
                raise UsageError(
                    f"run '{self.run_id}' was given back, and cannot be written any more.",
                    remedy="Claim it again: journal.claim(run_id).",
                )
            if self._failure is not None:
                return _done(self.refusal())
            check_records(self.run_id, records)
            if records:
                self._latest = self._encode_and_put(records)
            return self._latest

    def _encode_and_put(self, records: Sequence[Record]) -> Future[None]:
        try:
            bodies = [encode_readable(record) for record in records]
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            problem = JournalError(
                f"a record of run '{self.run_id}' cannot be written: {error}.",
                remedy="Records hold JSON only: see which hook or tool put something else there.",
            )
            self.fail(problem)
            return _done(problem)
        before, self._info = self._info, summarise(self._info, records)
        return self._put(bodies, before, self._info)

    def fail(self, error: JournalError) -> None:
        """Note that a write has failed."""
        self._failure = self._failure or error

    def refusal(self) -> JournalError | None:
        """Why nothing more is written, once a write has failed: a journal has no holes."""
        error = self._failure
        if error is None:
            return None
        words = f"run '{self.run_id}' is not written any more, because a write has failed:"
        return JournalError(f"{words} {error.message}", remedy=error.remedy)

    def give_back(self) -> None:
        """Write what is queued, then let others have the run."""
        with self._lock:
            self._is_held = False
            latest = self._latest
        if self._can_wait():
            with suppress(HooklineError):  # whoever wrote it gets the error
                latest.result()
            self._release()
        else:
            latest.add_done_callback(lambda _: self._release())

    def _can_wait(self) -> bool:
        """Whether queued records can be waited for here."""
        return True


def _done(error: JournalError | None = None) -> Future[None]:
    future: Future[None] = Future()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    return future


DONE = _done()
"""For everything that was written at once. It is shared: a new future costs as much as an SQL statement."""


def check_run_id(run_id: str) -> None:
    """Refuse what cannot be the id of a run."""
    if not isinstance(run_id, str) or not run_id:
        raise UsageError("a run is named by a text that is not empty.", remedy="Give a run_id.")
    try:
        run_id.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the run id {run_id!r} holds half a character.") from None


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of a store's list are asked for."""

    kind: Literal["run", "session"] | None = None
    session_id: str | None = None
    status: RunStatus | None = None
    limit: int | None = None
    newest_by: Literal["started_at", "updated_at"] = "started_at"


EVERYTHING = RunQuery()


class Snapshot(ABC):
    """A store as it was at one moment."""

    @abstractmethod
    def infos(self, query: RunQuery = EVERYTHING) -> list[RunInfo]:
        """The entries that are asked for, newest first."""

    @abstractmethod
    def stored(self, run_id: str) -> StoredRun | None:
        """A run with its records, unchecked."""

    def owners(self) -> list[tuple[str, str | None]]:
        """All runs with what they belong to, newest first."""
        return [
            (info.run_id, owner_of(info.run_id, info.session_id, info.parent_run_id, info.kind))
            for info in self.infos()
        ]

    def strays(self) -> Iterable[Damage]:
        """Records that belong to no run."""
        return ()

    def file_damage(self) -> list[str]:
        """What is wrong with the file itself."""
        return []


class BaseJournal(ABC):
    """A store of journals. How runs are kept is in the derived classes."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        """The store as it is now."""

    @abstractmethod
    def _lease(self, run_id: str) -> Release:
        """Keep everybody else off a run. Raises RunInUseError."""

    @abstractmethod
    def _add(self, runs: list[StoredRun]) -> None:
        """Add runs that are not there yet, all or none."""

    @abstractmethod
    def _remove(self, run_ids: list[str]) -> None:
        """Delete runs, all or none."""

    # --- reading ---------------------------------------------------------------------------------------

    def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first."""
        query = RunQuery(kind="run", session_id=session_id, status=status, limit=limit)
        with self._snapshot() as snapshot:
            return snapshot.infos(query)

    def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        query = RunQuery(kind="session", limit=limit, newest_by="updated_at")
        with self._snapshot() as snapshot:
            return [session_info(info) for info in snapshot.infos(query)]

    def read(self, run_id: str) -> list[Record]:
        """The records of a run, checked. Raises JournalError when they are torn or edited."""
        with self._snapshot() as snapshot:
            stored = _get(snapshot, run_id)
        check_chain(stored)
        return decode_all(stored)

    def check(self) -> CheckReport:
        """Check everything: the file, every chain, every record, and whether the list of runs agrees with them."""
        runs = records = 0
        found: list[Damage] = []
        problems: list[str] = []

        def attempt(look: Callable[[], Iterable[T]]) -> list[T]:
            try:
                return list(look())
            except JournalError as error:
                problems.append(error.message)
                return []

        with self._snapshot() as snapshot:
            for run_id, _ in attempt(snapshot.owners):
                count, damage = _find_damage(snapshot, run_id)
                runs += 1
                records += count
                found += damage
            found += attempt(snapshot.strays)
            problems += attempt(snapshot.file_damage)
        return CheckReport(
            journal=str(self),
            runs=runs,
            records=records,
            damage=tuple(found),
            file_damage=tuple(dict.fromkeys(problems)),
        )

    # --- deleting --------------------------------------------------------------------------------------

    def delete(self, run_id: str) -> list[str]:
        """Delete a run and its children, or a session and its runs, whatever their status. Returns their ids.

        Raises RunInUseError when one of them is being driven.
        """
        with ExitStack() as leases:
            mine: dict[str, None] = {}
            while True:
                with self._snapshot() as snapshot:
                    owners = snapshot.owners()
                if all(run_id != known for known, _ in owners):
                    raise _unknown(run_id)
                new = [each for each in with_descendants(run_id, owners) if each not in mine]
                if not new:
                    break
                for each in new:  # until all are leased, one of them may start another: look again
                    leases.callback(self._lease(each))
                    mine[each] = None
            self._remove(list(mine))
            return list(mine)

    def prune(
        self,
        *,
        older_than: timedelta | float | None = None,
        keep: int | None = None,
        unfinished: bool = False,
    ) -> list[str]:
        """Delete runs last written `older_than` ago (seconds, or a timedelta) that are not among the `keep` newest.

        Children are deleted with their parents, and runs of a session that is kept here with the session. Running and
        paused runs, and what belongs to them, are kept unless `unfinished=True`. Runs that are being driven are always
        kept. Returns the ids of the deleted runs.
        """
        if older_than is None and keep is None:
            raise UsageError(
                "prune needs to know what to keep.", remedy="Give older_than=, keep=, or both."
            )
        age = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        if (age or 0) < 0 or (keep or 0) < 0:
            raise UsageError("older_than and keep cannot be negative.")
        retention = Retention(older_than=age, keep=keep or 0, unfinished=unfinished)
        chosen = self._choose(retention)
        deleted: list[str] = []
        for start in range(0, len(chosen), _TREES_AT_ONCE):
            with ExitStack() as leases:
                trees = chosen[start : start + _TREES_AT_ONCE]
                free = [tree for tree in trees if self._can_lease(tree, leases)]
                # Now nobody can resume them. One that was resumed since it was chosen is kept.
                still = set(map(tuple, self._choose(retention)))
                run_ids = [run_id for tree in free if tuple(tree) in still for run_id in tree]
                self._remove(run_ids)
                deleted += run_ids
        return deleted

    def _choose(self, retention: Retention) -> list[list[str]]:
        with self._snapshot() as snapshot:
            return retention.choose(snapshot.infos(), time.time())

    def _can_lease(self, tree: list[str], leases: ExitStack) -> bool:
        """Lease each run of a tree, or none when one of them is being driven."""
        with ExitStack() as mine:
            try:
                for run_id in tree:
                    mine.callback(self._lease(run_id))
            except RunInUseError:
                return False
            leases.push(mine.pop_all())
        return True

    # --- export and import -----------------------------------------------------------------------------

    def export_lines(self, run_id: str | None, file: IO[bytes]) -> int:
        """Write a run and its children, or all runs, as JSON Lines. Returns the number of runs."""
        with self._snapshot() as snapshot:
            owners = list(reversed(snapshot.owners()))
            if run_id is None:
                chosen = [each for each, _ in owners]
            else:
                _get(snapshot, run_id)
                chosen = with_descendants(run_id, owners)
            file.writelines(dump(len(chosen), (_get_intact(snapshot, each) for each in chosen)))
        return len(chosen)

    def import_lines(self, file: Iterable[bytes]) -> list[str]:
        """Add the runs that `export_lines` wrote, all or none. Returns their ids.

        Damage, and runs that are here already, are refused.
        """
        runs = load(file)
        with self._snapshot() as snapshot:
            known = {run_id for run_id, _ in snapshot.owners()}
        for run in runs:
            if run.info.run_id in known:
                raise already_there(run.info.run_id)
            known.add(run.info.run_id)
        self._add(runs)
        return [run.info.run_id for run in runs]


def _get(snapshot: Snapshot, run_id: str) -> StoredRun:
    stored = snapshot.stored(run_id)
    if stored is None:
        raise _unknown(run_id)
    return stored


def _get_intact(snapshot: Snapshot, run_id: str) -> StoredRun:
    stored = _get(snapshot, run_id)
    check_chain(stored)
    return stored


def _unknown(run_id: str) -> UnknownRunError:
    return UnknownRunError(
        f"there is no run '{run_id}' in the journal.",
        remedy="journal.runs() lists those there are.",
    )


def already_there(run_id: str) -> JournalError:
    """Why a run cannot be added."""
    return JournalError(
        f"run '{run_id}' is in this journal already, or twice in the file.",
        remedy="Delete it first, or import into another journal. Nothing was imported.",
    )


def _find_damage(snapshot: Snapshot, run_id: str) -> tuple[int, list[Damage]]:
    """The number of a run's records, and what is wrong with them or with the list of runs."""
    try:
        stored = _get(snapshot, run_id)
        found = list(examine(stored)) or list(_disagreements(stored))
    except JournalError as error:
        return 0, [Damage(run_id, "unreadable", error.message.rstrip("."))]
    return len(stored.rows), found


def _disagreements(stored: StoredRun) -> Iterable[Damage]:
    info = stored.info
    computed = msgspec.to_builtins(summarise(RunInfo(run_id=info.run_id), decode_all(stored)))
    for field, listed in msgspec.to_builtins(info).items():
        if listed != (real := computed[field]):
            words = f"the list says {field} is {listed!r}, its records say {real!r}"
            yield Damage(info.run_id, "summary", words)
