"""The long way to a file, one name at a time. No name is looked up anywhere but in a directory that is held open.

It is how paths are opened where there is no `openat2`, and how links are followed everywhere: a link is read, and its
target is walked from the directory it is in. `..` goes back to the directory the walk came from.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from hookline.containment.jail.paths import DEEPEST, Parts, split

MOST_LINKS = 40
# On systems without these, making a jail is an error.
NOFOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = NOFOLLOW | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)


class _Way(NamedTuple):
    """The directories on the way from the root to here, held open."""

    fds: list[int]
    device: int | None = None
    """The one device that all of it has to be on."""

    def open(self, name: str, flags: int) -> int:
        found = os.open(name, flags, dir_fd=self.fds[-1])
        if self.device is not None and os.fstat(found).st_dev != self.device:
            os.close(found)
            raise OSError(errno.EXDEV, "is on another device")
        return found

    def enter(self, name: str) -> None:
        if len(self.fds) > DEEPEST:
            raise OSError(errno.ENAMETOOLONG, "is too deep")
        self.fds.append(self.open(name, DIRECTORY))

    def leave(self) -> None:
        if len(self.fds) == 1:
            raise OSError(errno.EXDEV, "leads out")
        os.close(self.fds.pop())

    def close(self) -> None:
        while len(self.fds) > 1:
            os.close(self.fds.pop())


def open_by_steps(root: int, parts: Parts, flags: int, *, same_device: bool) -> int:
    """Open a path without links in it, like `openat2` with no symbolic links does."""
    way = _Way([root], os.fstat(root).st_dev if same_device else None)
    with contextlib.closing(way):
        for name in parts[:-1]:
            way.leave() if name == ".." else way.enter(name)
        last = parts[-1] if parts else "."
        if last == "..":
            way.leave()
            last = "."
        found = way.open(last, flags | NOFOLLOW)
        if stat.S_ISLNK(os.fstat(found).st_mode):
            # Who only looks (O_PATH) is given the link itself.
            os.close(found)
            raise OSError(errno.ELOOP, "is a link")
        return found


def resolve(root: int, parts: Parts, *, follow_last: bool) -> Parts:
    """Where a path leads: the same place without links and dots. What is missing at its end is kept as it is.

    Raises OSError: EXDEV where it leads out, ELOOP after too many links.
    """
    way, found, missing = _Way([root]), list[str](), list[str]()
    links, rest = 0, list(reversed(parts))
    try:
        while rest:
            name = rest.pop()
            if name == "..":
                _go_back(way, found, missing)
            elif missing:
                missing.append(name)
            elif rest and _enter(way, name):
                found.append(name)
            elif (rest or follow_last) and (target := _target(name, way.fds[-1])) is not None:
                links += 1
                rest += _parts_of_link(target, links)
            else:
                (missing if rest else found).append(name)
    finally:
        way.close()
    return (*found, *missing)


def _go_back(way: _Way, found: list[str], missing: list[str]) -> None:
    if missing:
        missing.pop()
    else:
        way.leave()
        found.pop()


def _enter(way: _Way, name: str) -> bool:
    """Enter a directory; says whether it is one."""
    try:
        way.enter(name)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            return False
        raise
    return True


def _target(name: str, directory: int) -> str | None:
    """Where a link points; None for what is no link."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _parts_of_link(target: str, links: int) -> list[str]:
    """The parts of a link's target, last first. An absolute target is outside: the jail has no other root."""
    if target.startswith("/"):
        raise OSError(errno.EXDEV, "is an absolute link")
    if links > MOST_LINKS:
        raise OSError(errno.ELOOP, "too many links")
    return list(reversed(split(target)))
