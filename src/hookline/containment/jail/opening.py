"""Opening the root, and looking at what was opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hookline.containment.jail.faults import not_a_file, second_name
from hookline.containment.jail.paths import RequestedPath
from hookline.errors import UsageError

READ_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


def path_of_root(root: object) -> Path:
    """Where a jail begins, from what was given."""
    if not isinstance(root, str | os.PathLike):
        raise UsageError(
            f"{root!r} cannot be the root of a file jail: it is no path.",
            remedy="Give a directory that exists and can be read.",
        )
    return Path(os.path.abspath(os.fspath(root)))


def open_root(root: Path) -> int:
    """A descriptor of the directory that a jail is made of."""
    try:
        return os.open(root, READ_DIRECTORY)
    except OSError as error:
        raise UsageError(
            f"'{root}' cannot be the root of a file jail: {os.strerror(error.errno or 0).lower()}.",
            remedy="Give a directory that exists and can be read.",
        ) from None


def checked_file(requested: RequestedPath, fd: int, flags: int, writes: bool) -> int:
    """The descriptor, if what it opens is a plain file that may be used like this."""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise not_a_file(requested.given, found.st_mode)
        if writes and found.st_nlink > 1:
            raise second_name(requested.given)
        if flags & os.O_TRUNC:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd
