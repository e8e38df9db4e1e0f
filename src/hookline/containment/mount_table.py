"""The table of mounts: under which other paths a directory can be seen, and whether a sandbox has what was meant."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from hookline.containment.links import is_below

_TABLE = "/proc/self/mountinfo"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class _Mount(NamedTuple):
    device: str
    root: str
    """Which directory of the file system is mounted."""
    place: str
    """Where."""


def mounts_of(process: int) -> str:
    """The table of mounts of a process; empty when it has ended."""
    with contextlib.suppress(OSError):
        return _text_of(f"/proc/{process}/mountinfo")
    return ""


def find_misplaced(
    table: str, checked: Collection[str], ours: Collection[str], expected: Collection[str]
) -> str | None:
    """A path in a sandbox, by its table, with something else than what has that path outside, or without its mount.

    bubblewrap finds what it mounts by paths, and a command that runs meanwhile may put a link into one. The kernel's
    table has what was mounted, whatever led there. Descriptors instead of paths were rejected: bubblewrap makes paths
    of them. `checked` are paths inside that are checked otherwise, `ours` paths outside that may be anywhere inside.
    """
    outside: dict[str, list[_Mount]] = {}
    for mount in _parse(_text_of(_TABLE)):
        outside.setdefault(mount.device, []).append(mount)
    missing = set(expected)
    for mount in map(_read, _lines(table)):
        missing.discard(mount.place)
        # A file system that is not outside was made for the sandbox, and is empty.
        if mount.device in outside and mount.place not in checked:
            paths = set(_paths(mount, outside[mount.device]))
            if mount.place not in paths and paths.isdisjoint(ours):
                return mount.place
    return min(missing, default=None)


def _paths(mount: _Mount, outside: list[_Mount]) -> Iterator[str]:
    """The paths outside of what is mounted."""
    for each in outside:
        if mount.root == each.root:
            yield each.place
        elif mount.root.startswith(inside := f"{each.root.rstrip('/')}/"):
            yield f"{each.place.rstrip('/')}/{mount.root[len(inside) :]}"


def _text_of(table: str) -> str:
    with open(table, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return file.read()


def _lines(table: str) -> list[str]:
    return [line for line in table.split("\n") if line]  # other ends of lines are parts of names


@lru_cache(maxsize=4)
def _parse(text: str) -> tuple[_Mount, ...]:
    return tuple(map(_read, _lines(text)))


def second_paths(directories: tuple[str, ...]) -> list[str]:
    """Other paths of these directories, by a mount of what holds them: a bind mount, the root of a disk.

    A mount of something that is in a directory is not found.
    """
    found: dict[str, None] = {}
    with contextlib.suppress(OSError):
        table = _text_of(_TABLE)
        ways = ((path, each) for each in directories for path in _all_paths(each, table))
        found = dict.fromkeys(path for path, each in ways if path != each and _is_same(path, each))
    return [path for path in found if path not in directories]


def all_paths(*paths: str) -> list[str]:
    """These, and all others that lead to the same places by another mount, whether or not there is something.

    Also where parts of these directories are mounted, and where else what is mounted in them can be seen.
    """
    with contextlib.suppress(OSError):
        return list(_with_parts(paths, _text_of(_TABLE))) if paths else []
    return list(paths)


@lru_cache(maxsize=64)
def _with_parts(paths: tuple[str, ...], table: str) -> tuple[str, ...]:
    mounts, found, pending = _parse(table), dict[str, None](), [*reversed(paths)]
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found[path] = None
        own = _mount_of(path, mounts)
        if own is None:
            continue
        inside = f"{_join(own.root, os.path.relpath(path, own.place)).rstrip('/')}/"
        below = f"{path.rstrip('/')}/"
        pending += _all_paths(path, table)
        for each in mounts:
            is_part = each.device == own.device and each.root.startswith(inside)
            if is_part or each.place.startswith(below):
                pending.append(each.place)
    return tuple(found)


@lru_cache(maxsize=256)
def _all_paths(path: str, table: str) -> tuple[str, ...]:
    mounts = _parse(table)
    own = _mount_of(path, mounts)
    if own is None:
        return (path,)
    inside = _Mount(own.device, _join(own.root, os.path.relpath(path, own.place)), path)
    return (path, *_paths(inside, [each for each in mounts if each.device == own.device]))


def _mount_of(path: str, mounts: Sequence[_Mount]) -> _Mount | None:
    """The mount that a path is on. Of several on one another the last is seen."""
    around = [mount for mount in mounts if is_below(path, mount.place)]
    return max(reversed(around), key=lambda mount: len(mount.place), default=None)


def _read(line: str) -> _Mount:
    _, _, device, root, place = line.split(" ", 5)[:5]
    return _Mount(device, _plain(root), _plain(place))


def _plain(text: str) -> str:
    """A path as it is: the table writes blanks and their like as numbers."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text


def _join(directory: str, relative: str) -> str:
    return os.path.normpath(os.path.join(directory, relative))


def _is_same(one: str, other: str) -> bool:
    """Whether both are one directory: a mount may lie under another."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False
