"""The journals in SQLite: in a file that many runs and many processes share, or in memory."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from hookline.errors import JournalError, RunInUseError, UsageError
from hookline.journal.chain import (
    StoredRun,
)
from hookline.journal.connection import (
    Readers,
    Synchronous,
    check_path,
    create_private,
    is_writable,
    open_for_reading,
    open_for_writing,
    open_in_memory,
    read_only_error,
    set_log_aside,
    size_of,
)
from hookline.journal.inbox import InboxMessage
from hookline.journal.last_commits import LastCommits, commits_file, read_commits
from hookline.journal.lease import take_lease
from hookline.journal.losses import End, broken_error, examine_end, find_missing, lost_error
from hookline.journal.operations import Journal, OpenedJournal, check_references
from hookline.journal.tables import (
    Tables,
    add_message,
    add_runs,
    remove_runs,
)
from hookline.journal.use import JournalUse
from hookline.journal.writer import Release, Writer

_log = logging.getLogger("hookline")


# --- with SQLite ---------------------------------------------------------------------------------------


class JournalInSQLite(Journal):
    """What a file and memory have in common."""

    def __init__(self, writer: Writer | None) -> None:
        super().__init__()
        self._writer = writer

    @abstractmethod
    def _get_writer(self) -> Writer:
        """The writer. Raises when nothing can be written."""

    def _add_runs(self, runs: list[StoredRun]) -> None:
        def add(connection: sqlite3.Connection) -> None:
            tables = Tables(connection, str(self))
            add_runs(connection, runs, lambda: check_references(tables, runs))

        self._get_writer().run_exclusively(add)

    def _remove(self, run_ids: list[str]) -> None:
        writer = self._get_writer()
        writer.run_exclusively(lambda connection: remove_runs(connection, run_ids, writer.forget))

    def _add_message(self, message: InboxMessage) -> bool:
        refusal: list[UsageError] = []

        def add(connection: sqlite3.Connection) -> bool:
            try:
                return add_message(connection, str(self), message)
            except UsageError as error:  # of the sender, and not of the journal
                refusal.append(error)
                return True

        is_there = self._get_writer().run_exclusively(add)
        if refusal:
            raise refusal[0]
        return is_there


class JournalFile(JournalInSQLite, OpenedJournal):
    """A file of journals, open."""

    def __init__(self, path: str, *, synchronous: Synchronous, accept_loss: bool) -> None:
        self.path = path
        check_path(self.path)
        use = JournalUse(path)
        self._readers = Readers(self.path)
        writer: Writer | None = None
        try:
            self._end = examine_end(self.path, is_alone=use.is_alone, accept_loss=accept_loss)
            use.protect()
            if is_writable(self.path) and (accept_loss or not self._end.losses):
                writer = self._begin_writing(synchronous)
                use.share()
            else:
                self._check_readable()
                use.protect()
                use.only_read()
        except BaseException:
            _close(self._readers, writer, use)
            raise
        super().__init__(writer)
        self._close = weakref.finalize(self, _close, self._readers, writer, use)

    def _begin_writing(self, synchronous: Synchronous) -> Writer:
        """Open the writer. What is lost is accepted."""
        if self._end.is_broken:
            raise broken_error(self.path, self._end.losses)
        if self._end.is_better_without_log:
            _log.warning("The damaged log is now '%s'.", set_log_aside(self.path))
        writer = _open_writer(self.path, synchronous)
        if self._end.losses:
            try:
                writer.accept_loss()
            except BaseException:
                writer.close()
                raise
            self._end = End()
        return writer

    def __str__(self) -> str:
        return self.path

    @property
    def losses(self) -> tuple[str, ...]:
        """What is lost of its end. While there is something, the journal can only be read."""
        return self._end.losses

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the journal as it is now to a new file, which only its owner can read. Others may write meanwhile.

        Refused while the end of the journal is lost: the copy would not show that.
        """
        if self._end.losses:
            raise lost_error(self.path, self._end.losses)
        super().backup(path)

    def vacuum(self) -> int:
        """Give the space of deleted runs back to the disk, while others wait. Returns the number of bytes."""
        before = size_of(self.path)
        self._get_writer().run_exclusively(_vacuum)
        return before - size_of(self.path)

    @contextmanager
    def _snapshot(self) -> Iterator[Tables]:
        self._check_open()
        with self._readers.snapshot() as connection:
            yield Tables(connection, self.path)

    def _examine_end(self) -> End:
        known = read_commits(self.path)
        with self._snapshot() as tables:
            missing = find_missing(self.path, tables, known.commits)
        losses = dict.fromkeys((*self._end.losses, *missing))
        notes = (_unknown_commits(self.path),) if known.damaged or known.unknown else ()
        return End(tuple(losses), notes)

    def _lease(self, run_id: str) -> Release:
        self._get_writer()
        return take_lease(self.path, run_id).release

    def _get_writer(self) -> Writer:
        self._check_open()
        if self._end.losses:
            raise lost_error(self.path, self._end.losses)
        if self._writer is None:
            raise read_only_error(self.path)
        return self._writer

    def _check_readable(self) -> None:
        try:
            open_for_reading(self.path).close()
        except JournalError:
            if self._end.losses:  # the tables themselves are lost
                raise lost_error(self.path, self._end.losses) from None
            raise


def _open_writer(path: str, synchronous: Synchronous) -> Writer:
    create_private(path)
    commits = LastCommits(path)
    try:
        connection = open_for_writing(path, synchronous, commits)
    except BaseException:
        commits.close()
        raise
    return Writer(connection, path, commits, waits_for_disk=synchronous == "FULL")


def _unknown_commits(path: str) -> str:
    return (
        f"'{commits_file(path)}' was missing or damaged: "
        "whether the last commits before that are there is not known"
    )


def _close(readers: Readers, writer: Writer | None, use: JournalUse) -> None:
    readers.close()  # first: only the last connection to close can put the log into the file
    if writer is not None:
        writer.close()
    use.end()


def _vacuum(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# --- in memory -----------------------------------------------------------------------------------------


class JournalInMemory(JournalInSQLite):
    """Journals of one process, which are gone with it."""

    def __init__(self) -> None:
        writer = Writer(open_in_memory(), "", None, waits_for_disk=False)
        super().__init__(writer)
        self._close = weakref.finalize(self, writer.close)
        self._held: dict[str, object] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "the journal in memory"

    def close(self) -> None:
        """Give back what is claimed, and forget the runs."""
        super().close()
        self._close()

    @contextmanager
    def _snapshot(self) -> Iterator[Tables]:
        with self._get_writer().turn() as connection:
            yield Tables(connection, str(self))

    def _get_writer(self) -> Writer:
        if not self._close.alive:
            raise UsageError(
                "this journal is closed, and its runs are lost.",
                remedy="Close it after the last use.",
            )
        assert self._writer is not None
        return self._writer

    def _lease(self, run_id: str) -> Release:
        with self._lock:
            if run_id in self._held:
                raise RunInUseError(
                    f"run '{run_id}' is already running.",
                    remedy="Wait for it to end or pause, or cancel it: agent.cancel(run_id).",
                )
            token = self._held[run_id] = object()
        return _MemoryLease(run_id, self._held, token).release


class _MemoryLease:
    """Ends when it is released, or garbage."""

    def __init__(self, run_id: str, held: dict[str, object], token: object) -> None:
        self._run_id = run_id
        self._held = held
        self._token = token

    def release(self) -> None:
        if self._held.get(self._run_id) is self._token:  # and not another one, after this was lost
            del self._held[self._run_id]

    __del__ = release
