"""Directories: what is in them, made and removed. Every name is looked up in a directory that is held open."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from typing import NamedTuple

from hookline.containment.jail.paths import Parts
from hookline.containment.jail.steps import DIRECTORY


class Entry(NamedTuple):
    """Something in a directory, as it was when the directory was read."""

    path: str
    """Relative to the root."""
    name: str
    kind: str
    """`file`, `directory`, `link` or `other`."""
    size: int = 0
    modified: float = 0.0
    """Seconds since 1970."""

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file."""
        return self.kind == "file"

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory. A link to one is none."""
        return self.kind == "directory"


def entries_of(directory: int, below: str) -> Iterator[Entry]:
    """What is in a directory, in the order of the names."""
    with os.scandir(directory) as found:
        names = sorted(entry.name for entry in found)
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
            path = f"{below}/{name}" if below else name
            yield Entry(path, name, _kind(facts.st_mode), facts.st_size, facts.st_mtime)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def make_directories(root: int, true: Parts) -> bool:
    """Make a directory and those above it; says whether the last one was missing."""
    made, here = False, os.dup(root)
    try:
        for name in true:
            made = _make(here, name)
            below = os.open(name, DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    return made


def _make(directory: int, name: str) -> bool:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        return False
    return True


def remove(directory: int, name: str, *, recursive: bool) -> None:
    """Remove what has this name in a directory. A link is removed, not what it points to."""
    facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(facts.st_mode):
        os.unlink(name, dir_fd=directory)
    elif recursive:
        shutil.rmtree(name, dir_fd=directory)  # holds directories open too: links do not mislead it
    else:
        os.rmdir(name, dir_fd=directory)
