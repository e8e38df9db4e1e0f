"""Finds out whether anybody writes to a journal file now, and lets one process at a time examine it.

Whoever opens a journal first examines its log without SQLite. Who comes later must not do it: what is written
meanwhile looks like damage.

A writer has a shared lock on the file of last commits. It is a `flock`: it belongs to the open file, and nothing else
in the process can drop it. The database itself is never opened here. To close it would drop every lock that SQLite has
on it in this process: another process would take itself for the last one, and delete the log.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from hookline.errors import JournalError
from hookline.journal.connection import is_writable
from hookline.journal.last_commits import commits_file
from hookline.journal.lease import copy_mode
from hookline.locked_files import add_locked_file, remove_locked_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SECONDS = 60.0
"""How long to wait for another process that examines the journal. It may have to read the whole database."""
_open: set[int] = set()
"""The descriptors of this process. A forked child closes its copies, or it would look like a writer."""


class JournalUse:
    """The use of a journal file by this process, from before it is examined until it is closed."""

    def __init__(self, journal: str) -> None:
        self._pid = os.getpid()
        self._journal = journal
        self._locked: list[tuple[int, int]] = []
        self._descriptor = _open_commits(journal)
        # A writer makes the file. If it is there and cannot be locked, whether somebody writes is not known.
        self.is_alone = self._descriptor < 0 and not os.path.exists(commits_file(journal))
        """Whether nobody writes to the journal. Until `share` or `end`, nobody else opens it."""
        if self._descriptor < 0 or fcntl is None:
            return
        _open.add(self._descriptor)
        with suppress(OSError):  # a file system without such locks; SQLite has others
            self.is_alone = self._is_first()

    def _is_first(self) -> bool:
        """Whether nobody writes to the journal. Waits for whoever examines it."""
        until = time.monotonic() + _SECONDS
        while not self._lock(fcntl.LOCK_EX):
            if self._lock(fcntl.LOCK_SH):
                return False
            if time.monotonic() > until:
                self.end()
                raise JournalError(
                    f"the journal '{self._journal}' cannot be opened: another process has been examining it for "
                    f"{_SECONDS:.0f} seconds.",
                    remedy="Try again: a large database takes long. Or was that process stopped? See `lslocks`.",
                )
            time.sleep(0.002)
        return True

    def protect(self) -> None:
        """Have nobody in this process close the files.

        This is asked before SQLite opens them, because another journal object that ends meanwhile would have them
        closed, and again afterwards, because some are new.
        """
        for path in (self._journal, f"{self._journal}-shm"):
            if (file := add_locked_file(path)) is not None:
                self._locked.append(file)

    def share(self) -> None:
        """It is examined, and this process writes to it: others may open it too."""
        self.protect()
        if self.is_alone and self._descriptor >= 0 and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def end(self) -> None:
        """This process does not use it any more."""
        if self._pid != os.getpid():
            return
        while self._locked:
            remove_locked_file(self._locked.pop())
        self.only_read()

    def only_read(self) -> None:
        """It is examined, and this process does not write to it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _open.discard(descriptor)
            os.close(descriptor)

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _open_commits(journal: str) -> int:
    """The file of last commits; -1 where it cannot be opened."""
    # Made by somebody who only reads, the file would be one that the owner of the journal cannot write.
    if is_writable(journal):
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(commits_file(journal), flags, 0o600)
            copy_mode(descriptor, journal)
            return descriptor
    with suppress(OSError):
        return os.open(commits_file(journal), os.O_RDONLY | os.O_CLOEXEC)
    return -1


def _after_fork() -> None:
    for descriptor in _open:
        with suppress(OSError):
            os.close(descriptor)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
