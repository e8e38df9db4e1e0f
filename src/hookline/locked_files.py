"""The files that SQLite has locked in this process: journals that it writes, and the shared memory beside them.

When a process closes a file, the system drops all locks that the process has on it, whoever took them. Another process
would then take itself for the last user of the journal, and delete its log. So who opens files that a model names asks
here: such a file is not read, and is closed with its journal.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TypeAlias

_File: TypeAlias = tuple[int, int]
_lock = threading.RLock()  # garbage collection may close a journal at any moment
_users: dict[_File, int] = {}
_kept: dict[_File, list[int]] = {}
"""Descriptors of such files, to be closed when nobody uses them."""


def add_locked_file(path: str) -> _File | None:
    """Another journal object writes to a file. Returns what `remove_locked_file` takes."""
    with suppress(OSError), _lock:
        facts = os.stat(path)
        file = facts.st_dev, facts.st_ino
        _users[file] = _users.get(file, 0) + 1
        return file
    return None


def remove_locked_file(file: _File) -> None:
    """It is closed."""
    with _lock:
        _users[file] -= 1
        if _users[file]:
            return
        del _users[file]
        for descriptor in _kept.pop(file, ()):
            os.close(descriptor)


def is_locked(facts: os.stat_result) -> bool:
    """Whether this is such a file. Asked before it is opened, it need not be kept."""
    with _lock:
        return (facts.st_dev, facts.st_ino) in _users


def keep_if_locked(descriptor: int) -> bool:
    """Whether this is such a file. Then it belongs to this module, and the caller must not close it."""
    facts = os.fstat(descriptor)
    with _lock:
        if not is_locked(facts):
            return False
        _kept.setdefault((facts.st_dev, facts.st_ino), []).append(descriptor)
        return True


def _after_fork() -> None:
    """A forked child has none of the locks, and another thread may have had this one."""
    global _lock
    _lock = threading.RLock()
    _users.clear()
    for descriptors in _kept.values():
        for descriptor in descriptors:
            os.close(descriptor)
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
