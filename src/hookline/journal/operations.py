"""What every store that ships does with its tables: claiming, reading, checking, deleting, export and import.

It works in the thread that calls it; `stores.py` makes asynchronous stores of it. A kind of store gives the tables, the
leases, the writer and three changes.
"""

from __future__ import annotations

import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import timedelta
from typing import IO, Any, TypeVar

import msgspec

from hookline.errors import JournalError, RunInUseError, UnknownRunError
from hookline.journal.chain import (
    DAMAGE_REMEDY,
    CheckReport,
    Damage,
    StoredRun,
    anchor,
    check_chain,
    decode_all,
    examine,
)
from hookline.journal.connection import closed_error, create_private, forked_error
from hookline.journal.inbox import InboxMessage, check_message
from hookline.journal.jsonl import dump, load
from hookline.journal.last_commits import commits_file
from hookline.journal.losses import End
from hookline.journal.record import EarlierRun, Record, RunQueued, start_of
from hookline.journal.retention import Retention, may_continue, with_descendants
from hookline.journal.run_info import (
    RunInfo,
    SessionInfo,
    check_limit,
    check_run_id,
    session_info,
    summarise,
)
from hookline.journal.tables import (
    RunEnd,
    Tables,
    run_exists_error,
)
from hookline.journal.write_ahead_log import log_file
from hookline.journal.writer import BatchWriter, Release, RunClaim
from hookline.state import RunStatus

T = TypeVar("T")

_RUNS_AT_ONCE = 500
"""Runs leased and deleted in one transaction: other processes write in between. A tree is never divided."""


class Journal(ABC):
    """What all stores that ship can do. A store of another kind needs nothing but the interface in `store.py`."""

    def __init__(self) -> None:
        self._claims: weakref.WeakSet[RunClaim] = weakref.WeakSet()

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Tables]:
        """The store as it is now."""

    @abstractmethod
    def _lease(self, run_id: str) -> Release:
        """Keep everybody else off a run. Raises RunInUseError."""

    @abstractmethod
    def _get_writer(self) -> BatchWriter:
        """The writer. Raises when nothing can be written."""

    @abstractmethod
    def _add_runs(self, runs: list[StoredRun]) -> None:
        """Add whole runs, all or none."""

    @abstractmethod
    def _remove(self, run_ids: list[str]) -> None:
        """Delete runs, all or none. Raises JournalError when others continue one of them."""

    @abstractmethod
    def _add_message(self, message: InboxMessage) -> bool:
        """Add a message for a run, if it says something new. False when there is no such run."""

    def now(self) -> float:
        """The time, in seconds since 1970, by the clock that all who use the store share."""
        return time.time()

    def close(self) -> None:
        """Give back what is claimed, when it is written."""
        for claim in list(self._claims):
            claim.give_back()

    def _examine_end(self) -> End:
        """What was committed and is not there. Only a file can lose something."""
        return End()

    def claim(self, run_id: str) -> RunClaim:
        """Take a run, new or known, for this process. Raises RunInUseError when another live process has it."""
        check_run_id(run_id)
        writer = self._get_writer()
        release = self._lease(run_id)
        try:
            with self._snapshot() as tables:
                known = tables.end_of(run_id)
        except BaseException:
            release()
            raise
        info, tail, lost = known or (
            RunInfo(run_id=run_id),
            RunEnd(run=0, records=0, head=anchor(run_id), steps=0),
            None,
        )
        claim = RunClaim(info, tail, release, writer, self, lost)
        self._claims.add(claim)
        return claim

    # --- reading ---------------------------------------------------------------------------------------

    def runs(
        self,
        *,
        session_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """The recorded runs, newest first."""
        check_limit(limit)
        with self._snapshot() as tables:
            return tables.infos("run", session_id=session_id, status=status, limit=limit)

    def sessions(self, *, limit: int | None = None) -> list[SessionInfo]:
        """The sessions, the one that was written last first."""
        check_limit(limit)
        with self._snapshot() as tables:
            infos = tables.infos("session", limit=limit, newest_by="updated_at")
        return [session_info(info) for info in infos]

    def read(self, run_id: str) -> list[Record]:
        """The records of a run, checked. Raises JournalError when they are torn or edited."""
        with self._snapshot() as tables:
            stored = tables.read_stored(run_id)
        if (
            stored is None
        ):  # not raised above: a snapshot that fails closes its connection, and every run asks once
            raise _unknown(run_id)
        check_chain(stored)
        return decode_all(stored)

    def refer(self, run_id: str, records: int | None = None) -> EarlierRun:
        """What a later run names to continue a run: all of it, or its first records."""
        with self._snapshot() as tables:
            known = tables.end_of(run_id)
            if known is None:
                raise _unknown(run_id)
            count = known[1].records if records is None else records
            if not 1 <= count <= known[1].records:
                raise _no_such_records(run_id, known[1].records, count)
            return EarlierRun(run_id, count, tables.link_after(run_id, count).hex())

    def read_earlier(self, earlier: EarlierRun) -> list[Record]:
        """The records that a later run continues, checked. Raises JournalError when they are not what they were."""
        with self._snapshot() as tables:
            stored = tables.read_stored(earlier.run_id)
        if stored is not None:
            check_chain(stored)
            rows = stored.rows[: earlier.records]
            if rows and len(rows) == earlier.records and rows[-1].link.hex() == earlier.head:
                return decode_all(StoredRun(stored.info, stored.head, rows))
        raise JournalError(
            f"the journal is damaged: {_lost_words(earlier, is_there=stored is not None)}.",
            remedy=DAMAGE_REMEDY,
        )

    def check(self) -> CheckReport:
        """Check everything: the file, every chain, every record, and whether the list of runs agrees with them."""
        runs = records = 0
        found: list[Damage] = []
        end = self._examine_end()
        problems = list(end.losses)
        notes = list(end.notes)

        def attempt(look: Callable[[], Iterable[T]]) -> list[T]:
            try:
                return list(look())
            except JournalError as error:
                problems.append(error.message)
                return []

        with self._snapshot() as tables:
            for run_id, _ in attempt(tables.owners):
                count, damage = _find_damage(tables, run_id)
                runs += 1
                records += count
                found += damage
            found += attempt(tables.find_orphans)
            found += attempt(tables.find_missing)
            for at in attempt(tables.accepted_losses):
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
                notes.append(f"its end was lost, and that was accepted on {when}")
            problems += attempt(tables.file_damage)
        return CheckReport(
            journal=str(self),
            runs=runs,
            records=records,
            damage=tuple(found),
            file_damage=tuple(dict.fromkeys(problems)),
            notes=tuple(notes),
        )

    # --- the inbox --------------------------------------------------------------------------------------

    def post(self, message: InboxMessage) -> None:
        """Keep a message for a run, until the run is deleted. A second one that says the same adds nothing.

        Raises UsageError for an answer that differs from the first one to the same question.
        """
        if not self._add_message(check_message(message)):
            raise _unknown(message.run_id)

    def inbox(self, *run_ids: str) -> list[InboxMessage]:
        """The messages for these runs, in order."""
        with self._snapshot() as tables:
            return tables.messages(run_ids)

    # --- deleting --------------------------------------------------------------------------------------

    def delete(self, run_id: str, *, with_later: bool = False) -> list[str]:
        """Delete a run and its children, or a session and its runs, whatever their status. Returns their ids.

        Raises JournalError when later runs continue one of them; `with_later` deletes these too. Also for a child of a
        run that is not over: that run would start it again. Raises RunInUseError when one of them is being driven.
        """
        with ExitStack() as leases:
            mine: dict[str, None] = {}
            while True:
                with self._snapshot() as tables:
                    owners = tables.owners()
                    later = tables.continuations() if with_later else []
                    found = with_descendants(run_id, [*owners, *later])
                    needed = _find_needed(tables, found, dict(owners))
                if all(run_id != known for known, _ in owners):
                    raise _unknown(run_id)
                if needed is not None:
                    raise _needed_error(*needed)
                new = [each for each in found if each not in mine]
                if not new:
                    break
                for each in new:  # until all are leased, one of them may start another: look again
                    leases.callback(_end, self._lease(each))
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
        """Delete old runs, as `JournalStore.prune` says."""
        retention = Retention(older_than=older_than, keep=keep, unfinished=unfinished)
        chosen = self._choose(retention)
        deleted: list[str] = []
        free = {run_id for tree in chosen for run_id in tree}
        for trees in _portions(chosen):
            with ExitStack() as leases:
                for tree in trees:
                    if not self._try_lease(tree, leases):
                        free.difference_update(tree)
                deleted += self._prune_trees(retention, trees, free)
        return deleted

    def _prune_trees(
        self, retention: Retention, trees: list[list[str]], free: set[str]
    ) -> list[str]:
        """Delete trees that nobody can resume now. One that was resumed or continued since it was chosen is kept."""
        before = None
        while True:
            still = set(map(tuple, self._choose(retention, free)))
            run_ids = [run_id for tree in trees if tuple(tree) in still for run_id in tree]
            try:
                self._remove(run_ids)
                return run_ids
            except JournalError:  # a run that began meanwhile may continue one of them
                if run_ids == before:
                    raise
                before = run_ids

    def _choose(self, retention: Retention, free: set[str] | None = None) -> list[list[str]]:
        """The trees to delete. All others than those that are `free` are kept, also if they have begun since."""
        with self._snapshot() as tables:
            infos = tables.infos()
        kept = set() if free is None else {info.run_id for info in infos} - free
        return retention.choose(infos, self.now(), kept)

    def _try_lease(self, tree: list[str], leases: ExitStack) -> bool:
        """Lease each run of a tree, or none when one of them is being driven."""
        with ExitStack() as mine:
            try:
                for run_id in tree:
                    mine.callback(_end, self._lease(run_id))
            except RunInUseError:
                return False
            leases.push(mine.pop_all())
        return True

    # --- backup, export and import -----------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the journal as it is now to a new file, which only its owner can read. Others may write meanwhile."""
        target = os.path.abspath(os.fsdecode(path))
        with self._snapshot() as tables:
            beside = (log_file(target), commits_file(target))
            found = next((each for each in beside if os.path.exists(each)), target)
            if found != target or not create_private(target):
                raise _no_backup(found)
            try:
                tables.copy_to(target)
            except BaseException:
                os.unlink(target)
                raise

    def export_lines(self, run_id: str | None, file: IO[bytes]) -> int:
        """Write a run and its children, or all runs, as JSON Lines. Returns the number of runs.

        The earlier runs whose conversation it continues are written too.
        """
        with self._snapshot() as tables:
            owners = list(reversed(tables.owners()))
            if run_id is None:
                chosen = [each for each, _ in owners]
            else:
                _get(tables, run_id)
                earlier = [(before, later) for later, before in tables.continuations()]
                wanted = set(with_descendants(run_id, [*owners, *earlier]))
                chosen = [each for each, _ in owners if each in wanted]
            file.writelines(dump(len(chosen), (_get_intact(tables, each) for each in chosen)))
        return len(chosen)

    def import_lines(self, file: Iterable[bytes]) -> list[str]:
        """Add the runs that `export_lines` wrote, all or none. Returns their ids.

        Damage, and runs that are here already, are refused.
        """
        runs = load(file)
        with self._snapshot() as tables:
            known = {run_id for run_id, _ in tables.owners()}
        for run in runs:
            if run.info.run_id in known:
                raise run_exists_error(run.info.run_id)
            known.add(run.info.run_id)
        self._add_runs(runs)
        return [run.info.run_id for run in runs]


def _end(release: Release) -> None:
    """End a lease, and wait until others can have the run."""
    freed = release()
    if freed is not None:
        freed.result()


def _no_backup(path: str) -> JournalError:
    if os.path.exists(path):
        return JournalError(
            f"the backup was not made: '{path}' exists.",
            remedy="Give another path: a backup never replaces anything.",
        )
    return JournalError(
        f"the backup was not made: '{path}' cannot be created.",
        remedy="Give a path in a directory that exists and is writable.",
    )


def _get(tables: Tables, run_id: str) -> StoredRun:
    stored = tables.read_stored(run_id)
    if stored is None:
        raise _unknown(run_id)
    return stored


def _get_intact(tables: Tables, run_id: str) -> StoredRun:
    """A run whose chain is whole, and so is that of the run that it continues."""
    stored = _get(tables, run_id)
    check_chain(stored)
    earlier = _earlier_run(stored)
    wrong = _wrong_reference(tables, earlier)
    if stored.info.continues != (None if earlier is None else earlier.run_id):
        wrong = f"the list says that it continues {stored.info.continues!r}"  # and follows that
    if wrong:
        raise JournalError(
            f"the journal is damaged: run '{run_id}': {wrong}.", remedy=DAMAGE_REMEDY
        )
    return stored


def _unknown(run_id: str) -> UnknownRunError:
    return UnknownRunError(
        f"there is no run '{run_id}' in the journal.",
        remedy="journal.runs() lists all runs.",
    )


def _find_needed(
    tables: Tables, run_ids: list[str], owners: dict[str, str | None]
) -> tuple[str, RunInfo] | None:
    """One of these runs that a run which is not among them would start again, and that run."""
    for run_id in run_ids:
        owner = owners.get(run_id)
        if owner is None or owner in run_ids:
            continue
        with suppress(JournalError):  # a run that is damaged cannot be driven
            known = tables.end_of(owner)
            if known is not None and may_continue(known[0]):
                return run_id, known[0]
    return None


def _needed_error(run_id: str, parent: RunInfo) -> JournalError:
    return JournalError(
        f"run '{run_id}' cannot be deleted alone: run '{parent.run_id}' ({parent.status.value}) started it, and would "
        "start it again if it continues.",
        remedy=f"Delete that run, which takes its children with it: journal.delete({parent.run_id!r}), "
        "or hookline runs --delete RUN.",
    )


def _no_such_records(run_id: str, count: int, wanted: int) -> JournalError:
    return JournalError(
        f"run '{run_id}' has {count} records, so a later run cannot continue its first {wanted}.",
        remedy="Read the run again: journal.read(run_id).",
    )


def _earlier_run(stored: StoredRun) -> EarlierRun | None:
    records = decode_all(StoredRun(stored.info, stored.head, stored.rows[:1]))
    if records and isinstance(records[0], RunQueued):  # it begins later
        records = decode_all(stored)
    started = start_of(records)
    return None if started is None else started.continues


def _wrong_reference(tables: Tables, earlier: EarlierRun | None) -> str:
    """What is wrong with the run that another one continues; empty if nothing is."""
    if earlier is None:
        return ""
    link = tables.link_after(earlier.run_id, earlier.records)
    return "" if link.hex() == earlier.head else _lost_words(earlier, is_there=bool(link))


def _lost_words(earlier: EarlierRun, *, is_there: bool) -> str:
    what = f"its conversation begins in run '{earlier.run_id}'"
    if not is_there:
        return f"{what}, of which {_count_records(earlier.records)} not in the journal"
    return f"{what}, which is not what it was after {earlier.records} records"


def _count_records(count: int) -> str:
    return "a record is" if count == 1 else f"{count} records are"


class OpenedJournal(Journal):
    """A journal outside of this process. It is closed when it is garbage, and a forked process cannot use it."""

    _close: weakref.finalize[..., Any]

    def __init__(self) -> None:
        super().__init__()
        self._pid = os.getpid()

    def close(self) -> None:
        """Write what is queued, give back what is claimed, and close it."""
        if os.getpid() == self._pid:
            super().close()
        self._close()

    def _check_open(self) -> None:
        if not self._close.alive:
            raise closed_error()
        if os.getpid() != self._pid:
            raise forked_error(str(self))


def _portions(trees: list[list[str]]) -> Iterator[list[list[str]]]:
    portion: list[list[str]] = []
    for tree in trees:
        if portion and sum(map(len, portion)) + len(tree) > _RUNS_AT_ONCE:
            yield portion
            portion = []
        portion.append(tree)
    if portion:
        yield portion


def check_references(tables: Tables, runs: list[StoredRun]) -> None:
    """Refuse runs whose conversation begins in a run that is neither among them nor in the journal."""
    given = {run.info.run_id: run for run in runs}
    for run in runs:
        earlier = _earlier_run(run)
        if earlier is None:
            continue
        if earlier.run_id in given:
            links = [row.link for row in given[earlier.run_id].rows[: earlier.records]]
            link = links[-1] if len(links) == earlier.records > 0 else b""
        else:
            link = tables.link_after(earlier.run_id, earlier.records)
        if link.hex() != earlier.head:
            raise JournalError(
                f"run '{run.info.run_id}' cannot be imported: {_lost_words(earlier, is_there=bool(link))}.",
                remedy="Export it again: the runs that it continues are in the file. Nothing was imported.",
            )


def _find_damage(tables: Tables, run_id: str) -> tuple[int, list[Damage]]:
    """The number of a run's records, and what is wrong with them or with the list of runs."""
    try:
        stored = _get(tables, run_id)
        found = list(examine(stored)) or list(_disagreements(tables, stored))
    except JournalError as error:
        return 0, [Damage(run_id, "unreadable", error.message.rstrip("."))]
    return len(stored.rows), found


def _disagreements(tables: Tables, stored: StoredRun) -> Iterable[Damage]:
    """Where the list of runs, or the run that it continues, is not what its records say."""
    info, records = stored.info, decode_all(stored)
    wrong = _wrong_reference(tables, _earlier_run(stored))
    if wrong:
        yield Damage(info.run_id, "missing", wrong)
    computed = msgspec.to_builtins(summarise(RunInfo(run_id=info.run_id), records))
    for field, listed in msgspec.to_builtins(info).items():
        if listed != (real := computed[field]):
            words = f"the list says {field} is {listed!r}, its records say {real!r}"
            yield Damage(info.run_id, "summary", words)
