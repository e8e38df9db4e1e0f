"""A home directory for one command: what is written there is gone with the command."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from hookline.containment.sandbox.paths import emptied, inside_any

_MOST = 100
"""Entries of a home directory. Each costs a mount, and a mount costs the more the more there are: 100 take 25 ms."""


def temporary_home(
    roots: Sequence[Path], shown: Sequence[Path], size: tuple[str, ...]
) -> Iterator[str]:
    """The options that put an empty directory over the home directory, and in it, read-only, what the real one has.

    Programs write new files there all the time. The real directory under another name, and `HOME` set to that, was
    rejected: a program that asks for the user's home, or is given `/home/...`, would find another one than `~`.
    A home that is the work directory, or lies in it, stays what it is there: read-only. `shown` are directories
    of the machine that are seen in places that are emptied.
    """
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if home == Path("/") or inside_any(home, roots):
        return
    if inside_any(home, emptied()) and not inside_any(home, shown):
        yield from ("--dir", str(home))
        return
    try:
        names = os.listdir(home)
    except OSError:
        return
    if len(names) > _MOST:
        return
    yield from (*size, "--tmpfs", str(home))
    for name in names:
        yield from _shown(f"{home}/{name}")


def _shown(path: str) -> Iterator[str]:
    try:
        mode = os.lstat(path).st_mode
        target = os.readlink(path) if stat.S_ISLNK(mode) else ""
    except OSError:  # it has gone meanwhile
        return
    if target:
        yield from ("--symlink", target, path)
    elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        yield from ("--ro-bind-try", path, path)
