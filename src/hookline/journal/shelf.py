"""What every store of journals can do with its runs: read them, look for damage, drop them, move them in and out."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import IO, Protocol, TypeAlias, TypeVar

import msgspec

from hookline.errors import JournalError, RunInUseError, StateVersionError, UnknownRunError
from hookline.journal.chain import Damage, Stored, check_chain, examine
from hookline.journal.claim import Lease
from hookline.journal.codec import decode
from hookline.journal.lines import dump, load
from hookline.journal.record import Record
from hookline.journal.report import CheckReport
from hookline.journal.retention import Retention, family
from hookline.journal.store import RunInfo
from hookline.journal.summary import summarise

T = TypeVar("T")
LinesFile: TypeAlias = str | os.PathLike[str] | IO[bytes]
"""A path, or a file that is open in binary mode."""

_AT_ONCE = 500
"""Trees of runs dropped in one transaction: others want to write in between."""


class Snapshot(Protocol):
    """A store as it was at one moment."""

    def infos(self) -> list[RunInfo]:
        """All runs, newest first."""
        ...

    def parents(self) -> list[tuple[str, str | None]]:
        """All runs with what they belong to, newest first, also where the rest of a run's entry is damaged."""
        ...

    def stored(self, run_id: str) -> Stored | None:
        """A run with its records, unchecked."""
        ...

    def strays(self) -> Iterator[Damage]:
        """Records that belong to no run."""
        ...

    def file_damage(self) -> list[str]:
        """What is wrong beneath the records."""
        ...


class Shelf(ABC):
    """Stores differ in how they keep runs. The rest is here."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        """The store as it is now."""

    @abstractmethod
    def _lease(self, run_id: str) -> Lease:
        """Keep everybody else off a run."""

    @abstractmethod
    def _add(self, runs: list[Stored]) -> None:
        """Add runs that are not there yet, all or none."""

    @abstractmethod
    def _remove(self, run_ids: list[str]) -> None:
        """Drop runs, all or none."""

    # --- reading ---------------------------------------------------------------------------------------

    def read(self, run_id: str) -> list[Record]:
        """The records of a run as they are on disk, checked; raises JournalError when they are torn or edited."""
        with self._snapshot() as snapshot:
            stored = _known(snapshot, run_id)
        check_chain(stored)
        return _records(stored)

    def verify(self, run_id: str | None = None) -> list[Damage]:
        """Everything that is wrong with the chain of a run, or of all: what is edited, missing, moved or cut off."""
        with self._snapshot() as snapshot:
            if run_id is not None:
                return list(examine(_known(snapshot, run_id)))
            found = [
                damage
                for each, _ in snapshot.parents()
                for damage in _verified(snapshot, each, in_full=False)[1]
            ]
            return [*found, *snapshot.strays()]

    def check(self) -> CheckReport:
        """Look at everything: the file, every chain, every record, and whether the list of runs says what they say."""
        runs = records = 0
        found: list[Damage] = []
        problems: list[str] = []
        with self._snapshot() as snapshot:
            for run_id, _ in _noting(problems, snapshot.parents):
                count, damage = _verified(snapshot, run_id, in_full=True)
                runs += 1
                records += count
                found += damage
            found += _noting(problems, snapshot.strays)
            problems += _noting(problems, snapshot.file_damage)
        unique = tuple(dict.fromkeys(problems))
        return CheckReport(str(self), runs, records, tuple(found), unique)

    # --- dropping --------------------------------------------------------------------------------------

    def delete(self, run_id: str) -> list[str]:
        """Drop a run and its children, or a session and its runs, in whatever state they are.

        Nobody may be driving them. Gives their ids.
        """
        with ExitStack() as leases:
            mine: dict[str, None] = {}
            while True:
                with self._snapshot() as snapshot:
                    parents = snapshot.parents()
                if all(run_id != known for known, _ in parents):
                    raise _unknown(run_id)
                new = [each for each in family(run_id, parents) if each not in mine]
                if not new:
                    break
                for each in new:  # who drives one of them might still start another: look again
                    leases.callback(self._lease(each).release)
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
        """Drop runs last written `older_than` ago (seconds, or a timedelta) that are not among the `keep` newest.

        Children go with their parents, and all runs of a session that is kept here go with it, or stay with it.
        Runs that are running or paused stay, and what belongs to them, unless
        `unfinished=True`; those that somebody is driving stay in any case. Gives the ids of what was dropped.
        """
        retention = Retention(older_than, keep, unfinished)
        chosen = self._chosen(retention)
        dropped: list[str] = []
        for start in range(0, len(chosen), _AT_ONCE):
            with ExitStack() as leases:
                free = [
                    tree for tree in chosen[start : start + _AT_ONCE] if self._take(tree, leases)
                ]
                # Now that nobody can take them up, see whether somebody has since they were chosen.
                still = set(map(tuple, self._chosen(retention)))
                going = [run_id for tree in free if tuple(tree) in still for run_id in tree]
                self._remove(going)
                dropped += going
        return dropped

    def _chosen(self, retention: Retention) -> list[list[str]]:
        with self._snapshot() as snapshot:
            return retention.choose(snapshot.infos(), time.time())

    def _take(self, tree: list[str], leases: ExitStack) -> bool:
        """Get a lease on each run of a tree. No if somebody is driving one of them, and then none is kept."""
        with ExitStack() as mine:
            try:
                for run_id in tree:
                    mine.callback(self._lease(run_id).release)
            except RunInUseError:
                return False
            leases.push(mine.pop_all())
        return True

    # --- in and out ------------------------------------------------------------------------------------

    def export_lines(self, run_id: str | None, file: LinesFile) -> int:
        """Write a run and its children, or all runs, as JSON Lines. Gives the number of runs."""
        with self._snapshot() as snapshot:
            parents = snapshot.parents()
            if run_id is None:
                chosen = [each for each, _ in reversed(parents)]
            else:
                _known(snapshot, run_id)
                chosen = family(run_id, reversed(parents))
            lines = dump(len(chosen), (_intact(snapshot, each) for each in chosen))
            if isinstance(file, str | os.PathLike):
                _write_whole(Path(file), lines)
            else:
                file.writelines(lines)
        return len(chosen)

    def import_lines(self, file: LinesFile) -> list[str]:
        """Add the runs that `export_lines` wrote, all or none. Gives their ids.

        Refuses damage, and runs that are here already, with the number of the line.
        """
        with self._snapshot() as snapshot:
            known = {run_id for run_id, _ in snapshot.parents()}
        if isinstance(file, str | os.PathLike):
            try:
                with Path(file).open("rb") as opened:
                    runs = load(opened, known.__contains__)
            except OSError as error:
                raise JournalError(
                    f"'{file}' cannot be read: {error.strerror}.",
                    remedy="Give a file that export_lines wrote.",
                ) from None
        else:
            runs = load(file, known.__contains__)
        self._add(runs)
        return [run.info.run_id for run in runs]


def _write_whole(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file that is there when all of it is written: what was there before is worth more than half of this."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as opened:
            opened.writelines(lines)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(path)
    except OSError as error:
        raise JournalError(
            f"'{path}' cannot be written: {error.strerror}.",
            remedy="What was there before is as it was. Give a file in a directory that can be written.",
        ) from None
    finally:
        beside.unlink(missing_ok=True)


def _known(snapshot: Snapshot, run_id: str) -> Stored:
    stored = snapshot.stored(run_id)
    if stored is None:
        raise _unknown(run_id)
    return stored


def _unknown(run_id: str) -> UnknownRunError:
    return UnknownRunError(
        f"there is no run '{run_id}' in the journal.",
        remedy="journal.runs() lists those there are.",
    )


def _intact(snapshot: Snapshot, run_id: str) -> Stored:
    stored = _known(snapshot, run_id)
    check_chain(stored)
    return stored


def _records(stored: Stored) -> list[Record]:
    records: list[Record] = []
    try:
        for row in stored.rows:
            records.append(decode(row.body))
    except StateVersionError as error:
        # The chain is whole, so this is what was written: by a version that knows more than this one.
        raise JournalError(
            f"record {len(records)} of run '{stored.info.run_id}' cannot be understood: {error.message}",
            remedy=error.remedy or "Upgrade hookline to read it.",
        ) from None
    return records


def _noting(problems: list[str], look: Callable[[], Iterable[T]]) -> list[T]:
    """What there is to see; where that cannot be seen, nothing, and a note of the problem."""
    try:
        return list(look())
    except JournalError as error:
        problems.append(error.message)
        return []


def _verified(snapshot: Snapshot, run_id: str, *, in_full: bool) -> tuple[int, list[Damage]]:
    """How many records a run has, and what is wrong with it; in full, with what they say."""
    try:
        stored = _known(snapshot, run_id)
        found = list(examine(stored))
        if in_full and not found:
            found = list(_disagreements(stored))
    except JournalError as error:
        return 0, [Damage(run_id, "unreadable", error.message.rstrip("."))]
    return len(stored.rows), found


def _disagreements(stored: Stored) -> Iterable[Damage]:
    info = stored.info
    added_up = msgspec.to_builtins(summarise(RunInfo(run_id=info.run_id), _records(stored)))
    for field, listed in msgspec.to_builtins(info).items():
        if listed != (real := added_up[field]):
            words = f"the list says {field} is {listed!r}, its records say {real!r}"
            yield Damage(info.run_id, "summary", words)
