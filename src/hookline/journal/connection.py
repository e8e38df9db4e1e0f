"""Opening a journal for writing or reading, the version of its tables, and errors of SQLite in words.

A file of a newer version is refused. One of an older version is migrated when it is opened for writing, in one
transaction.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from hookline.errors import JournalError, UsageError
from hookline.journal import history
from hookline.journal.last_commits import LastCommits, commits_file
from hookline.journal.lease import lease_file
from hookline.journal.write_ahead_log import PAGE_SIZE, log_file, log_size

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
BUSY_SECONDS = 30.0
"""How long to wait for another process that writes. Its turns are short, unless it vacuums a large file."""
_MOST_IDLE = 4
_SMALLEST = 512
"""Bytes of the smallest file that SQLite can have written."""
_CREATION_SECONDS = 0.5
_LARGEST_LOG = 4 * 1024 * 1024
"""The write-ahead log is truncated to this size after something large was written."""


_RESUME = "then resume the run; start it again if the journal does not list it."
_WORDS = {
    sqlite3.SQLITE_FULL: (
        "the disk is full, or the file may not grow any more",
        f"Free some space, {_RESUME}",
    ),
    sqlite3.SQLITE_READONLY: (
        "it is read-only",
        "Make the file and its directory writable, or give another path.",
    ),
    sqlite3.SQLITE_NOTADB: (
        "it is not a journal",
        "Give another path, or move that file away.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged",
        "Restore it from a backup; journal.check() lists what is wrong.",
    ),
    sqlite3.SQLITE_BUSY: (
        f"another process has been writing to it for {BUSY_SECONDS:.0f} seconds",
        "Find out which process that is, and try again later.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "it, or a file next to it, cannot be opened",
        "Make the file and its directory readable and writable.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk failed, or refused",
        f"Check that the disk works and has space, {_RESUME}",
    ),
}
_OTHER = ("SQLite refused", "journal.check() reports whether the file is damaged.")


def journal_error(error: Exception, path: str, action: str) -> JournalError:
    """An error of SQLite as one of ours. `action` is `read`, `written` or `opened`."""
    code = getattr(error, "sqlite_errorcode", None)
    words, remedy = _WORDS.get(code & 0xFF, _OTHER) if code is not None else _OTHER
    name = getattr(error, "sqlite_errorname", None)
    detail = f"{error}, {name}" if name else str(error)
    return JournalError(
        f"the journal '{path}' cannot be {action}: {words} ({detail}).", remedy=remedy
    )


@contextmanager
def convert_errors(path: str, action: str) -> Iterator[None]:
    """Raise errors of SQLite as JournalError."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise journal_error(error, path, action) from error


def closed_error() -> UsageError:
    """For a journal that is closed."""
    return UsageError("this journal is closed.", remedy="Open it again: SQLiteJournal(path).")


def read_only_error(path: str) -> JournalError:
    """For a journal that can only be read."""
    return JournalError(
        f"the journal '{path}' cannot be written: the file, its directory or '{commits_file(path)}' is read-only.",
        remedy="Make them writable, or give another path.",
    )


def forked_error(path: str) -> JournalError:
    """For a journal that was opened before a fork."""
    return JournalError(
        f"the journal '{path}' was opened before this process was forked, so only the parent can use it.",
        remedy="Open it again in the child: SQLiteJournal(path).",
    )


# --- opening -------------------------------------------------------------------------------------------


def check_path(path: str) -> None:
    """Refuse a path that cannot be a journal."""
    # The file itself must never be opened here: closing it would drop every lock that SQLite has on it in this process.
    parent = os.path.dirname(path)
    if os.path.isdir(path):
        raise JournalError(
            f"the journal cannot be '{path}': that is a directory.",
            remedy=f"Give a file in it: '{os.path.join(path, 'journal.db')}'.",
        )
    if not os.path.isdir(parent):
        raise JournalError(
            f"the journal '{path}' cannot be opened: there is no directory '{parent}'.",
            remedy="Make the directory first.",
        )
    has_log = log_size(path) > 0  # asked first: a database is there before its log
    if os.path.exists(path):
        _check_file(path, has_log)
    elif has_log:
        raise _database_is_gone(path)
    elif not _can_write(parent):
        raise JournalError(
            f"the journal '{path}' cannot be made: its directory is read-only.",
            remedy="Make the directory writable, or give another path.",
        )


def _database_is_gone(path: str) -> JournalError:
    return JournalError(
        f"the journal '{path}' is missing or empty, but its write-ahead log exists.",
        remedy="Put the file back, or restore it from a backup. To start again, "
        f"delete '{log_file(path)}' too.",
    )


def _check_file(path: str, has_log: bool) -> None:
    if not os.path.isfile(path):
        raise JournalError(
            f"the journal cannot be '{path}': that is a device or a pipe.", remedy="Give a file."
        )
    size = os.path.getsize(path)
    if 0 < size < _SMALLEST:  # SQLite would take it for an empty one, and write over it
        raise JournalError(
            f"the journal '{path}' cannot be opened: it is not a journal, or its end is cut off.",
            remedy="Restore it from a backup, give another path, or move that file away.",
        )
    if size == 0 and has_log:
        raise _database_is_gone(path)
    if size == 0 and _is_emptied(path):
        raise JournalError(
            f"the journal '{path}' has been emptied: runs were written to it, and nothing is left.",
            remedy="Restore it from a backup, or delete it to start again.",
        )


def _is_emptied(path: str) -> bool:
    """Whether runs were once written to an empty file. Another process may just be creating it again, so this waits.

    The file of last commits is not asked. It may be left of a journal that was deleted, and a process that is killed
    here leaves an empty file beside it.
    """
    if not os.path.exists(lease_file(path)):
        return False
    deadline = time.monotonic() + _CREATION_SECONDS
    while os.path.getsize(path) == 0:
        if time.monotonic() > deadline:
            return True
        time.sleep(0.01)
    return False


def is_writable(path: str) -> bool:
    """Whether this process may write the file, and the files that SQLite keeps beside it."""
    beside = _can_write(os.path.dirname(path))
    if not os.path.exists(path):
        return beside
    commits = commits_file(path)
    if not (_can_write(commits) if os.path.exists(commits) else beside):
        return False  # a loss would not be noticed
    return _can_write(path) and (beside or all(_can_write(path + end) for end in ("-wal", "-shm")))


def _can_write(path: str) -> bool:
    # With the effective user where the system supports it, as for opening a file.
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def open_for_writing(
    path: str, synchronous: Synchronous, commits: LastCommits
) -> sqlite3.Connection:
    """The connection that writes. Brings the tables and the file of last commits up to date."""
    with convert_errors(path, "opened"):
        connection = _connect(path, "mode=rwc")
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # of a file that is new
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            if synchronous == "FULL":  # on macOS, fsync alone leaves it in the drive's cache
                connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA secure_delete = ON")  # what is deleted is gone
            connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_LOG}")
            # First, so that the file says what it is, whatever happens to its log.
            bring_up_to_date(connection, path, commits)
            _use_log(connection)
            _add_statements(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def create_private(path: str) -> bool:
    """Create a file that only its owner can read. False when it exists, or cannot be created.

    SQLite gives the files beside it the same mode.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return True
    return False


def close_writing(connection: sqlite3.Connection) -> None:
    """Close a connection that writes. The last one switches write-ahead logging off.

    So a file that is in this mode, and has no log, was not closed. SQLite lets only the last connection do this.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def is_in_log_mode(connection: sqlite3.Connection) -> bool:
    """Whether the file says that it has a write-ahead log."""
    return bool(connection.execute("PRAGMA journal_mode").fetchone() == ("wal",))


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. That needs exclusive access for a moment, and SQLite does not wait for it."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            # Before the first read, somebody who closes the file may take himself for the last one.
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if mode != "wal" or is_in_log_mode(connection):  # not every file system supports it
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def open_for_reading(path: str, *, of_any_version: bool = False) -> sqlite3.Connection:
    """A connection that cannot write."""
    with convert_errors(path, "read"):
        try:
            return _reader(path, "mode=ro", of_any_version)
        except sqlite3.OperationalError:
            # In a read-only directory SQLite cannot create its files. Without a log, the file alone is complete.
            if is_writable(path) or log_size(path):
                raise
            return _reader(path, "immutable=1", of_any_version)


def open_without_log(path: str) -> sqlite3.Connection:
    """A connection that reads the database without its log, and writes nothing."""
    with convert_errors(path, "read"):
        return _reader(path, "mode=ro&immutable=1", of_any_version=True)


def set_log_aside(path: str) -> str:
    """Continue without a damaged log. Returns where it is now; raises JournalError while somebody uses the journal."""
    log, kept = log_file(path), _free_name(f"{log_file(path)}-damaged")
    os.rename(log, kept)
    connection = _connect(path, "mode=rw")
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        os.rename(kept, log)
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise journal_error(error, path, "opened") from error
        raise JournalError(
            f"the damaged log of the journal '{path}' cannot be set aside: another process reads the journal.",
            remedy="End that process, and try again.",
        ) from None
    finally:
        connection.close()
    return kept


def _free_name(path: str) -> str:
    numbers = itertools.count(2)
    name = path
    while os.path.exists(name):
        name = f"{path}-{next(numbers)}"
    return name


def _reader(path: str, mode: str, of_any_version: bool) -> sqlite3.Connection:
    connection = _connect(path, mode)
    try:
        version = check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    if version < newest() and not of_any_version:
        connection.close()
        words = "it is empty" if version == 0 else "its tables are older than this Hookline"
        raise JournalError(
            f"the journal '{path}' cannot be read: {words}, and it is read-only.",
            remedy="Make it writable once, and open it.",
        )
    return connection


def _connect(path: str, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions begin and end where the code says so
        check_same_thread=False,  # a connection is used by one thread at a time, not always the same
    )
    connection.execute("PRAGMA trusted_schema = OFF")  # files come from anywhere
    return connection


def open_in_memory() -> sqlite3.Connection:
    """A journal that only this connection sees."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    bring_up_to_date(connection, ":memory:")
    _add_statements(connection)
    return connection


def size_of(path: str) -> int:
    """How many bytes the journal takes on the disk."""
    return os.path.getsize(path) + log_size(path)


class _Closes(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closes)


class IdleConnections(Generic[C]):
    """Connections that nobody uses now."""

    def __init__(self) -> None:
        self._idle: list[C] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self) -> C | None:
        """One of them, if there is one."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def keep(self, connection: C) -> None:
        """Keep one for the next, unless there are enough."""
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close them, and each that is kept later."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Readers:
    """A pool of connections for reading. Each is used by one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle = IdleConnections[sqlite3.Connection]()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the file as it is now, whatever is written meanwhile."""
        connection = self._idle.take() or open_for_reading(self._path)
        try:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            connection.close()
            raise journal_error(error, self._path, "read") from error
        except BaseException:
            connection.close()
            raise
        self._idle.keep(connection)

    def close(self) -> None:
        """Close all that are idle; those in use close when they are done."""
        self._idle.close()


# --- the tables and their version -----------------------------------------------------------------------

APPLICATION = 0x486B6C6E  # "Hkln"

# A batch is one row: its records as a JSON array, and the link of each. Its id consists of its run and the position of
# its first record, so a run is stored in one piece and a batch touches few pages. In any SQLite shell:
#   SELECT value ->> 'type' FROM batches, json_each(batches.records)
_FIRST = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    parent_run_id TEXT,
    status TEXT NOT NULL,
    prompt TEXT NOT NULL,
    records INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    started_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    kind TEXT NOT NULL,
    head BLOB NOT NULL
);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_session ON runs (session_id, started_at);
CREATE INDEX runs_by_status ON runs (status, started_at);
CREATE INDEX sessions_by_update ON runs (updated_at) WHERE kind = 'session';
CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE TABLE batches (
    id INTEGER PRIMARY KEY,
    links BLOB NOT NULL,
    records TEXT NOT NULL
);
"""

_INBOX = """
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX inbox_by_run ON inbox (run_id)
"""

# Almost every commit adds one batch to a run. It is one statement, because that costs less than four. The view and its
# trigger belong to the connection, not to the file. The head finds out whether somebody else has written to the run.
_NEXT_BATCHES = """
CREATE TEMP VIEW next_batches AS SELECT
    0 AS run, 0 AS head_before, 0 AS records, 0 AS steps, 0 AS updated_at, 0 AS head,
    0 AS id, 0 AS links, 0 AS body
"""
_ADD_BATCH = """
CREATE TEMP TRIGGER add_batch INSTEAD OF INSERT ON next_batches BEGIN
    UPDATE runs SET records = NEW.records, steps = NEW.steps, updated_at = NEW.updated_at, head = NEW.head
    WHERE id = NEW.run AND head = NEW.head_before;
    SELECT RAISE(ABORT, 'the run does not end there') WHERE changes() <> 1;
    INSERT INTO batches (id, links, records) VALUES (NEW.id, NEW.links, CAST(NEW.body AS TEXT));
END
"""


def _add_statements(connection: sqlite3.Connection) -> None:
    connection.execute(_NEXT_BATCHES)
    connection.execute(_ADD_BATCH)


def _second(connection: sqlite3.Connection) -> None:
    _run_statements(
        connection,
        """
        ALTER TABLE runs ADD COLUMN continues TEXT;
        CREATE INDEX runs_by_earlier ON runs (continues) WHERE continues IS NOT NULL
        """,
    )
    _run_statements(connection, _INBOX)
    _run_statements(connection, history.TABLE)
    history.list_existing(connection)


MIGRATIONS: tuple[str | Callable[[sqlite3.Connection], None], ...] = (_FIRST, _second)
"""From each version to the next, beginning with an empty file. Never edit one that was released."""


def newest() -> int:
    """The version that this Hookline writes."""
    return len(MIGRATIONS)


def check_version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the tables; 0 for an empty file. Raises for a file that is not ours, or newer than we are."""
    if connection.in_transaction:
        application, version, tables = _marks(connection)
    else:  # in one transaction: another process may just be creating the tables
        connection.execute("BEGIN")
        application, version, tables = _marks(connection)
        connection.execute("ROLLBACK")
    if not tables and not application and not version:
        return 0
    if application != APPLICATION:
        raise JournalError(
            f"'{path}' is a database of another program, not a journal.",
            remedy="Give the journal its own file.",
        )
    if version > newest():
        raise JournalError(
            f"'{path}' was written by a newer Hookline: its tables have version {version}, "
            f"and this one knows up to version {newest()}.",
            remedy="Upgrade hookline to use it.",
        )
    return version


def _run_statements(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):  # not executescript: it would end the transaction
        connection.execute(statement)


def _marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """What the file says it is, its version, and how many tables and indexes it has."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return application, version, tables


def bring_up_to_date(
    connection: sqlite3.Connection, path: str, commits: LastCommits | None = None
) -> None:
    """Migrate the tables, and repair the file of last commits. Of several processes, one does it."""
    is_whole = commits is None or commits.is_whole()
    if check_version(connection, path) == newest() and is_whole:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check_version(connection, path)
        is_successor = commits is not None and version == 0 and commits.is_used()
        if commits is not None and not is_successor:
            commits.repair() if version else commits.begin()
        if version < newest():
            _migrate(connection, version)
        if commits is not None and is_successor:
            # The list says which of the journals of this name it is. If it is not committed, the other one may come
            # back, and lacks this entry too.
            commits.begin_again(*history.add_event(connection, "begun", ""))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint")  # the log of an older file must not be needed
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    for migration in MIGRATIONS[version:]:
        if isinstance(migration, str):
            _run_statements(connection, migration)
        else:
            migration(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {newest()}")
