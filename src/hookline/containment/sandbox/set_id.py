"""Clears the set-user-id and set-group-id bits of regular files that a command has left.

Whoever runs such a file gets the rights of its owner or group. Directories keep the bit: there it only says which group
new files have, and `git init --shared`, `cp -a` and `tar` set it.

The system call filter refuses the set-user-id bit, and both bits for files that are being made. It cannot refuse the
set-group-id bit to `chmod`, because it does not see what a path leads to. Nothing else in the kernel can: the mount
option `nosuid` holds only for that mount, Landlock does not know `chmod`, and without the file's group a process could
not set the bit on directories either. So the kernel reports such calls (see `spawner.py`), and after a command that
made one, files are looked at. A look after every command would take half a second for 100,000 files.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

_BITS = stat.S_ISUID | stat.S_ISGID
_DEPTH = 128
"""How deep directories are looked into: each level holds a file descriptor."""
_COARSE_CLOCK = 5
"""`CLOCK_REALTIME_COARSE`: the clock of file times, up to 10 ms behind the fine one."""


def file_clock() -> int:
    """Nanoseconds, as the kernel would write them into a file that is changed now."""
    return time.clock_gettime_ns(_COARSE_CLOCK)


def clear_set_ids(places: Iterable[Path], since: int) -> list[str]:
    """Clear the bits of regular files that were changed since then, and give their paths.

    Files from before keep theirs, unless the command has changed, renamed or linked them. The time of the last change
    is the kernel's: a command cannot set it.
    """
    look = _Look(since)
    for place in places:
        with contextlib.suppress(OSError):
            look.enter(None, str(place), str(place), 0)
    return look.cleared


class _Look:
    """One look at directory trees. All is done below open directories: a link that replaces one is not followed."""

    def __init__(self, since: int) -> None:
        self._since = since
        self.cleared: list[str] = []

    def enter(self, parent: int | None, name: str, path: str, depth: int) -> None:
        try:
            if depth > _DEPTH:
                raise PermissionError(f"'{path}' is too deep")
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            directory = os.open(name, flags, dir_fd=parent)
        except PermissionError:
            # What cannot be looked into is closed to all but its owner: nobody else gets at what is in there.
            self._change(parent, name, ~0o077)
            return
        try:
            self._clear(directory, path, depth)
        finally:
            os.close(directory)

    def _clear(self, directory: int, path: str, depth: int) -> None:
        with os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it is gone, or somebody else's
                    if entry.is_dir(follow_symlinks=False):
                        self.enter(directory, entry.name, f"{path}/{entry.name}", depth + 1)
                    elif self._is_new(entry):
                        self._change(directory, entry.name, ~_BITS)
                        self.cleared.append(f"{path}/{entry.name}")

    def _is_new(self, entry: os.DirEntry[str]) -> bool:
        if not entry.is_file(follow_symlinks=False):
            return False
        facts = entry.stat(follow_symlinks=False)
        return bool(facts.st_mode & _BITS) and facts.st_ctime_ns >= self._since

    def _change(self, parent: int | None, name: str, kept: int) -> None:
        """Take bits from the mode of an entry, whether or not it can be read."""
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            mode = stat.S_IMODE(os.fstat(held).st_mode)
            os.chmod(f"/proc/self/fd/{held}", mode & kept)
        finally:
            os.close(held)
