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
import logging
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hookline.containment.sandbox.quarantine import open_directory
from hookline.errors import SandboxError

_BITS = stat.S_ISUID | stat.S_ISGID
_OWN = stat.S_IRWXU
_MOST_NAMED = 1000
"""Files that are named: each path may be long."""
_TRIES = 3
"""How often a look begins again because somebody moved a directory meanwhile."""
_COARSE_CLOCK = 5
"""`CLOCK_REALTIME_COARSE`: the clock of file times, up to 10 ms behind the fine one."""
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger("hookline.containment")


def file_clock() -> int:
    """Nanoseconds, as the kernel would write them into a file that is changed now."""
    return time.clock_gettime_ns(_COARSE_CLOCK)


def clear_set_ids(places: Iterable[Path], since: int) -> list[str]:
    """Clear the bits of regular files that were changed since then, and give the paths of the first ones.

    Files from before keep theirs, unless the command has changed, renamed or linked them. The time of the last change
    is the kernel's: a command cannot set it.
    """
    cleared: list[str] = []
    for place in map(str, places):
        looks = (_Look(since, cleared).walk(place) for _ in range(_TRIES))
        if not any(looks):
            _log.warning("'%s' was not searched for set-id bits to its end: it changes", place)
    return cleared


class _Level(NamedTuple):
    """A directory on the way from the top to the one that is looked at."""

    identity: tuple[int, int]
    left: list[str]
    """Directories in it that are not looked at yet."""
    mode: int | None
    """What it has when the look is over, if it was opened for that."""


class _Look:
    """One look at a directory tree, with one directory open at a time: a command can make them as deep as it likes.

    No link is followed, nor on the way to it. The way back is `..`, compared with the directory that it must lead to.
    """

    def __init__(self, since: int, cleared: list[str]) -> None:
        self._since = since
        self._cleared = cleared
        self._levels: list[_Level] = []
        self._names: list[str] = []
        self._here = -1

    def walk(self, top: str) -> bool:
        """Whether everything below could be looked at."""
        if not self._enter(top):
            return True  # it is gone
        try:
            while self._levels:
                left = self._levels[-1].left
                if left:
                    self._enter(left.pop())
                elif not self._leave():
                    return False
        finally:
            if self._here >= 0:
                os.close(self._here)
        return True

    def _enter(self, name: str) -> bool:
        """Open a directory, and clear the bits in it. If a command has closed it, its owner is let in for that."""
        try:
            above = None if self._here < 0 else self._here
            held = (
                open_directory(name)
                if above is None
                else os.open(name, os.O_PATH | _DIRECTORY, dir_fd=above)
            )
        except (OSError, SandboxError):  # it is gone
            return False
        try:
            facts, path = os.fstat(held), f"/proc/self/fd/{held}"
            mode = stat.S_IMODE(facts.st_mode)
            is_ours = facts.st_uid == os.geteuid() and facts.st_ctime_ns >= self._since
            is_closed = is_ours and mode & _OWN != _OWN
            if is_closed:
                os.chmod(path, mode | _OWN)
            opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # somebody else's, or closed before: no command can have written there
            return False
        finally:
            os.close(held)
        if above is not None:
            os.close(above)
        self._here = opened
        self._names.append(name)
        identity = facts.st_dev, facts.st_ino
        self._levels.append(_Level(identity, self._clear(), mode if is_closed else None))
        return True

    def _leave(self) -> bool:
        """Go back to the directory above. False if that is not where we came from."""
        level, below = self._levels.pop(), self._here
        self._names.pop()
        self._here = -1
        try:
            if self._levels:
                self._here = os.open("..", os.O_RDONLY | _DIRECTORY, dir_fd=below)
            if level.mode is not None:
                os.fchmod(below, level.mode)
        except OSError:  # it was removed, or is closed again
            return False
        finally:
            os.close(below)
        if not self._levels:
            return True
        facts = os.fstat(self._here)
        return (facts.st_dev, facts.st_ino) == self._levels[-1].identity

    def _clear(self) -> list[str]:
        """Clear the bits of the files here. Gives the directories here."""
        directories = []
        with os.scandir(self._here) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it is gone, or somebody else's
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif self._is_new(entry):
                        self._clear_bits(entry.name)
                        if len(self._cleared) < _MOST_NAMED:
                            self._cleared.append("/".join((*self._names, entry.name)))
        return directories

    def _is_new(self, entry: os.DirEntry[str]) -> bool:
        if not entry.is_file(follow_symlinks=False):
            return False
        facts = entry.stat(follow_symlinks=False)
        return bool(facts.st_mode & _BITS) and facts.st_ctime_ns >= self._since

    def _clear_bits(self, name: str) -> None:
        """Take the bits from the mode of a file, whether or not it can be read."""
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._here)
        try:
            mode = stat.S_IMODE(os.fstat(held).st_mode)
            os.chmod(f"/proc/self/fd/{held}", mode & ~_BITS)
        finally:
            os.close(held)
