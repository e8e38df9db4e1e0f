"""Finds out whether anybody writes to a journal file now, and lets one process at a time examine it.

Whoever opens a journal first examines the file and its log without SQLite. Who comes later must not do it. What is
written meanwhile looks like damage. And to read the database it has to be closed again, which drops every lock that
SQLite has on it in that process: another process would take itself for the last one, and delete the log.

A writer has a shared lock on the file of last commits. It is a `flock`: it belongs to the open file, and nothing else
in the process can drop it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from hookline.errors import JournalError
from hookline.journal.last_commits import commits_file
from hookline.locked_files import add_locked_file, remove_locked_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SECONDS = 60.0
"""How long to wait for another process that examines the journal. A large log takes a second."""
_open: set[int] = set()
"""The descriptors of this process. A forked child closes its copies, or it would look like a writer."""


class JournalUse:
    """The use of a journal file by this process, from before it is examined until it is closed."""

    def __init__(self, journal: str) -> None:
        self._pid = os.getpid()
        self._journal = journal
        self._locked: list[tuple[int, int]] = []
        self._descriptor = _open_commits(journal)
        self.is_alone = True
        """Whether nobody writes to the journal. Until `share` or `end`, nobody else opens it."""
        if self._descriptor < 0 or fcntl is None:
            return
        _open.add(self._descriptor)
        until = time.monotonic() + _SECONDS
        while not self._lock(fcntl.LOCK_EX):
            if self._lock(fcntl.LOCK_SH):
                self.is_alone = False
                return
            if time.monotonic() > until:
                self.end()
                raise JournalError(
                    f"the journal '{journal}' cannot be opened: another process has been examining it for "
                    f"{_SECONDS:.0f} seconds.",
                    remedy="Find out which process that is, with `lslocks`. Was it stopped?",
                )
            time.sleep(0.002)

    def share(self) -> None:
        """It is examined, and this process writes to it: others may open it too."""
        self._locked = [
            file
            for path in (self._journal, f"{self._journal}-shm")
            if (file := add_locked_file(path)) is not None
        ]
        if self.is_alone and self._descriptor >= 0 and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def end(self) -> None:
        """This process does not write to it any more."""
        if self._pid != os.getpid():
            return
        while self._locked:
            remove_locked_file(self._locked.pop())
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _open.discard(descriptor)
            os.close(descriptor)

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: SQLite needs them too, and reports it
            pass
        return True


def _open_commits(journal: str) -> int:
    """The file of last commits; -1 where it cannot be opened, and nobody can write to the journal."""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            return os.open(commits_file(journal), flags | os.O_CLOEXEC, 0o600)
    return -1


def _after_fork() -> None:
    for descriptor in _open:
        with suppress(OSError):
            os.close(descriptor)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
