"""Finds out, before SQLite writes to a journal, whether the end of the journal is lost.

SQLite takes a damaged log for a short one and writes over the rest, so this has to be asked first. While the answer is
yes, the journal can only be read.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import NamedTuple

from hookline.errors import JournalError
from hookline.journal.connection import (
    check_version,
    is_in_log_mode,
    open_for_reading,
    open_without_log,
)
from hookline.journal.history import ANY_STEPS
from hookline.journal.last_commits import (
    LIST,
    NO_COMMIT,
    UNKNOWN,
    Commit,
    KnownCommits,
    read_commits,
)
from hookline.journal.tables import Tables
from hookline.journal.write_ahead_log import LogReport, log_file, log_size, read_log

_ACCEPT = (
    "or continue with what is left: SQLiteJournal(path, accept_loss=True), "
    "or `hookline journal check --accept-loss`."
)


_NOT_FITTING = "what is left of its write-ahead log does not fit the database"
_DAMAGED = "the database is damaged"
_COMPLETE_WITHOUT_LOG = "without the log, the database has all commits that are known"
_WITH_COMMITS = 2
"""The version of the tables since which there is a file of last commits."""


class End(NamedTuple):
    """What was found at the end of a journal."""

    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What cannot be found out."""
    is_better_without_log: bool = False
    """Whether there is more in the database without its log. What is left of a damaged log may be older than what was
    copied into the database, and SQLite takes it for newer."""
    is_broken: bool = False
    """Whether the database is damaged, with its log and without: nothing more can be written to it."""


def examine_end(path: str, *, is_alone: bool, accept_loss: bool = False) -> End:
    """Compare a journal and its log with what was committed. Nothing is written.

    The log itself is read only if nobody else writes to the journal. Raises JournalError when the log is gone, unless
    that loss is accepted too.
    """
    if not os.path.exists(path) or not os.path.getsize(path):
        return End()
    had_log = log_size(path) > 0
    log = _read_log(path) if is_alone else LogReport()
    known = read_commits(path)
    try:
        connection = open_for_reading(path, of_any_version=True)
    except JournalError as error:
        if log.has_rest:
            end = _compare(path, known, [error.message.removesuffix(".")], _BROKEN)
            if end.is_better_without_log:
                return end
        return End()  # whoever opens it next reports that
    with closing(connection):
        connection.execute("BEGIN")
        version = check_version(connection, path)
        tables = Tables(connection, path)
        losses = _in_log(log, has_commits=known.is_whole)
        if version >= _WITH_COMMITS:
            losses += find_missing(path, tables, known.commits)
        elif known.commits:
            losses.append("records that a newer Hookline wrote are missing")
        if not had_log and _needs_log(version, known) and is_in_log_mode(connection):
            if not accept_loss:
                raise _log_is_gone(path)
            losses.append("its write-ahead log is gone")
        if version < _WITH_COMMITS:
            return End(tuple(losses))
        # A run that is not found would begin again. To look at the whole of a large file each time would take too long.
        is_doubtful = had_log and is_alone and (bool(losses) or log.has_rest)
        with_log = _look_at(path, tables, known, whole=is_doubtful)
    if with_log.is_whole and not losses:
        return End()
    if had_log and is_alone:
        return _compare(path, known, losses, with_log)
    losses += [_DAMAGED] * with_log.is_damaged
    return End(tuple(losses), is_broken=with_log.is_broken)


def _read_log(path: str) -> LogReport:
    """Examine the log. Without its header, only the database says how large a page is.

    SQLite reads that. Rejected: to open the file here. To close it would drop the locks of journals of this process
    that are only read, and a writer that is opened beside them would have none.
    """
    report = read_log(path)
    if not report.is_header_valid:
        with suppress(JournalError, sqlite3.Error), closing(open_without_log(path)) as connection:
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
            return read_log(path, page_size)
    return report


class _View(NamedTuple):
    """What can be seen of a journal, with its log or without."""

    is_broken: bool
    """Whether the tables are damaged, and not only their indexes."""
    is_damaged: bool
    missing: int
    """How many of the last commits are not there."""
    records: int

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """The better of two views has the lower one: less is damaged, or else missing, or else more is there."""
        return self.is_broken, self.is_damaged, self.missing, -self.records

    @property
    def is_whole(self) -> bool:
        return not (self.is_damaged or self.missing)


_BROKEN = _View(True, True, 0, 0)


def _compare(path: str, known: KnownCommits, losses: list[str], with_log: _View) -> End:
    """What is lost, and whether more is there without the log."""
    try:
        with closing(open_without_log(path)) as connection:
            without_log = _look_at(path, Tables(connection, path), known, whole=True)
    except JournalError:
        without_log = _BROKEN
    is_better = without_log.rank < with_log.rank
    if not losses or (with_log.is_damaged and not is_better):
        losses = [*losses, _NOT_FITTING if is_better else _DAMAGED]
    if is_better and without_log.is_whole and known.is_whole:
        losses = [*losses, _COMPLETE_WITHOUT_LOG]
    return End(tuple(losses), (), is_better, without_log.is_broken and with_log.is_broken)


def _look_at(path: str, tables: Tables, known: KnownCommits, *, whole: bool) -> _View:
    """A journal as one connection sees it: all of it, or only the list of runs with its indexes."""
    try:
        is_damaged = bool(tables.file_damage("" if whole else "runs"))
        is_broken = is_damaged and bool(tables.file_damage(with_indexes=False))
        # A last batch that is missing shows that the log does not fit. `find_missing` does not ask for it: without a
        # log one run is damaged then, which its reader learns, and the others go on.
        missing = [
            each
            for each in known.commits
            if not (tables.has_commit(each) and tables.has_last_batch(each))
        ]
        lost = len(_still_named(path, missing))
        return _View(is_broken, is_damaged, lost, tables.count_records())
    except JournalError:
        return _BROKEN


def _needs_log(version: int, known: KnownCommits) -> bool:
    """Whether a file with write-ahead logging is incomplete without a log.

    The log of a killed process may be empty. Then all that the file of last commits names is in the database.
    """
    if 0 < version < _WITH_COMMITS:  # a file that was closed kept this mode
        return False
    return version == 0 or not known.is_whole


def _in_log(log: LogReport, *, has_commits: bool) -> list[str]:
    if not (log.is_damaged or (log.may_be_damaged and not has_commits)):
        return []
    count = log.hidden_commits
    words = f"{count} commit{'s' * (count != 1)}" if count else "all commits"
    return [f"its write-ahead log is damaged, and {words} behind the damage cannot be read"]


def find_missing(path: str, tables: Tables, commits: list[Commit]) -> list[str]:
    """What was committed and is not there. The commits must have been read before the tables."""
    missing = [commit for commit in commits if not _has(tables, commit)]
    return [
        "runs or sessions that were created or deleted last are missing from its list"
        if number == LIST
        else f"{tables.name_of(number)} had {records} records, and the last of them is missing"
        for number, records, *_ in _still_named(path, missing)
    ]


def _still_named(path: str, missing: list[Commit]) -> list[Commit]:
    """Those of the commits that the file still names: a run may have been deleted since it was read."""
    if not missing:
        return []
    named = read_commits(path).commits
    return [commit for commit in missing if commit in named]


def _has(tables: Tables, commit: Commit) -> bool:
    try:
        return tables.has_commit(commit)
    except JournalError:
        return True  # another kind of damage: check() reports it


def most_steps(
    tables: Tables, known: KnownCommits, number: int, started_at: float, steps: int
) -> int | None:
    """How many steps a run may have made, of which `steps` are there; None if it has lost nothing.

    What is lost was committed last, so a run whose place was used by another one since has lost something only if that
    one has. A place that demands nothing was changed together with the list.
    """
    last = known.last_commit(number)
    if last == UNKNOWN:
        return ANY_STEPS
    demanded = last if last.records else known.last_commit(LIST)
    if last == NO_COMMIT or tables.has_commit(demanded):
        return None
    is_its_own = (last.number, last.started_at) == (number, started_at)
    return max(steps, last.steps) if is_its_own else ANY_STEPS


def lost_error(path: str, losses: tuple[str, ...]) -> JournalError:
    """For a journal whose end is lost."""
    return JournalError(
        f"the end of the journal '{path}' is lost: {'; '.join(losses)}.",
        remedy=f"Restore it from a backup, {_ACCEPT}",
    )


def broken_error(path: str, losses: tuple[str, ...]) -> JournalError:
    """For a journal to which nothing can be written any more, even if the loss is accepted."""
    return JournalError(
        f"the journal '{path}' is damaged: {'; '.join(losses)}. Its tables are damaged with the log and without.",
        remedy="Restore it from a backup. Runs that can be read can be exported from this one: journal.export_lines.",
    )


def _log_is_gone(path: str) -> JournalError:
    return JournalError(
        f"the journal '{path}' was not closed, and its write-ahead log '{log_file(path)}' is gone.",
        remedy=f"Put that file back, restore the journal from a backup, {_ACCEPT}",
    )
