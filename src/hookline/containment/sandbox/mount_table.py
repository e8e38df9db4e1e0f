"""The table of mounts: under which other paths a directory can be seen."""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from typing import NamedTuple

_TABLE = "/proc/self/mountinfo"


class _Mount(NamedTuple):
    device: str
    root: str
    """Which directory of the file system is mounted."""
    place: str
    """Where."""


def second_paths(directories: tuple[str, ...]) -> list[str]:
    """Other paths of these directories, by a mount of what holds them: a bind mount, the root of a disk.

    A mount of something that is in a directory is not found.
    """
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as file:
            table = file.read()
    except OSError:
        return []
    return list(_second_paths(directories, table))


@lru_cache(maxsize=16)
def _second_paths(directories: tuple[str, ...], table: str) -> tuple[str, ...]:
    mounts = [_read(line) for line in table.splitlines()]
    found: dict[str, None] = {}
    for directory in directories:
        # Of several on one another the last is seen.
        around = [mount for mount in mounts if _is_in(directory, mount.place)]
        own = max(reversed(around), key=lambda mount: len(mount.place), default=None)
        if own is None:
            continue
        inside = _joined(own.root, os.path.relpath(directory, own.place))
        for mount in mounts:
            if mount.device == own.device and _is_in(inside, mount.root):
                path = _joined(mount.place, os.path.relpath(inside, mount.root))
                if path != directory and _is_same(path, directory):
                    found[path] = None
    return tuple(path for path in found if path not in directories)


def _read(line: str) -> _Mount:
    _, _, device, root, place = line.split(" ")[:5]
    return _Mount(device, _plain(root), _plain(place))


def _plain(text: str) -> str:
    """A path as it is: the table writes blanks and their like as numbers."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def _is_in(path: str, directory: str) -> bool:
    return directory == "/" or f"{path}/".startswith(f"{directory}/")


def _joined(directory: str, relative: str) -> str:
    return os.path.normpath(os.path.join(directory, relative))


def _is_same(one: str, other: str) -> bool:
    """Whether both are one directory: a mount may lie under another."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False
