"""What agents obey and a command has made: it cannot be kept from being made, so it is set aside afterwards.

Something would have to lie in the place of such a file to keep a command from making one, and `AGENTS.md` is no hidden
name: `cat *.md` would trip over it. So the command may make it, and when the command ends it gets another name, under
which nobody obeys it. Nothing is lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from hookline.containment.protected import is_vouched

T = TypeVar("T")

ASIDE = ".from-command"
"""What is added to the name."""
_NAMES = 1000
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_RDONLY


class Watch:
    """Names below a work directory at which nothing new may stay."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self._root = root
        watched = list(names)
        self._absent = [name for name in watched if not os.path.lexists(f"{root}/{name}")]
        self._links = {
            name: target for name in watched if (target := _target(f"{root}/{name}", None))
        }

    def set_aside(self) -> list[str]:
        """Rename what was made since, and say under which names it is now. A link that is gone is made again."""
        names = (*self._absent, *self._links)
        moved = (
            in_directory(self._root, name, _aside, self._links.get(name, "")) for name in names
        )
        return [each for each in moved if each]


def in_directory(root: Path, name: str, act: Callable[..., T], *more: object) -> T | None:
    """Do something to a name in the directory that it is in, held open; None if that fails, or a link leads there.

    A command may have put a link where a directory was, and what is done here is done outside the sandbox.
    """
    *parents, last = name.split("/")
    fds: list[int] = []
    try:
        fds.append(os.open(root, _DIRECTORY))
        for part in parents:
            fds.append(os.open(part, _DIRECTORY, dir_fd=fds[-1]))
        return act(last, fds[-1], *more)
    except OSError:
        return None
    finally:
        for fd in fds:
            os.close(fd)


def _aside(name: str, directory: int, target: str) -> str:
    """Move away what is there, unless it is the link to `target` that it was, and make that link again."""
    if target and _target(name, directory) == target:
        return ""
    was_there = _is_there(name, directory)
    moved = _moved(name, directory)
    if target and (moved or not was_there):
        os.symlink(target, name, dir_fd=directory)
    return moved


def _moved(name: str, directory: int) -> str:
    """The new name of what is there; empty if there is nothing, or somebody has agreed to it."""
    if not _is_there(name, directory) or is_vouched(name, directory):
        return ""
    for number in range(_NAMES):
        aside = f"{name}{ASIDE}{f'-{number}' if number else ''}"
        if not _is_there(aside, directory):
            os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
            return aside
    return ""


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _target(path: str, directory: int | None) -> str:
    """Where a link points; empty if there is no link."""
    with contextlib.suppress(OSError):
        return os.readlink(path, dir_fd=directory)
    return ""
