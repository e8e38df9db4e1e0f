"""What SQLite reports, and other reasons why a journal is of no use, in words that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from hookline.errors import JournalError, UsageError

BUSY_SECONDS = 30.0
"""How long to wait for another process that writes: its turns are short, unless it tidies a large file."""

_RESUME = "then resume the run."
_RUN = "then run it again: nothing of it is in the journal."
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
        "Restore it from a backup; journal.check() tells what is wrong with it.",
    ),
    sqlite3.SQLITE_BUSY: (
        f"another process has been writing to it for {BUSY_SECONDS:.0f} seconds",
        "See which process that is, and try again when it is done.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "it, or a file beside it, cannot be opened",
        "Make the file and its directory readable and writable.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk failed, or refused",
        f"See that the disk is healthy and has space left, {_RESUME}",
    ),
}
_OTHER = ("SQLite refused", "journal.check() tells whether the file is damaged.")


def fault(error: Exception, path: str, doing: str) -> JournalError:
    """An error of SQLite as one of ours. `doing` is read, or written."""
    code = getattr(error, "sqlite_errorcode", None)
    words, remedy = _WORDS.get(code & 0xFF, _OTHER) if code is not None else _OTHER
    name = getattr(error, "sqlite_errorname", None)
    detail = f"{error}, {name}" if name else str(error)
    return JournalError(
        f"the journal '{path}' cannot be {doing}: {words} ({detail}).", remedy=remedy
    )


def before_it_began(error: JournalError) -> JournalError:
    """The same error, of a run that is not in the journal yet: there is nothing to resume."""
    if not error.remedy.endswith(_RESUME):
        return error
    return JournalError(error.message, remedy=error.remedy.removesuffix(_RESUME) + _RUN)


@contextmanager
def told(path: str, doing: str) -> Iterator[None]:
    """Raise what SQLite reports as a JournalError."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise fault(error, path, doing) from error


def closed() -> UsageError:
    """Why nothing can be done with a journal any more."""
    return UsageError("this journal is closed.", remedy="Open it again: SQLiteJournal(path).")


def forked(path: str) -> JournalError:
    """Why a journal that was opened before a fork is of no use after it."""
    return JournalError(
        f"the journal '{path}' was opened before this process was forked, and stays with its parent.",
        remedy="Open it again in the child: SQLiteJournal(path).",
    )
