"""The processes that a process has started, as far as the system tells: on Linux, by `/proc`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Relative(NamedTuple):
    """A process, told apart from a later one of the same number by when it began."""

    pid: int
    begun: str

    def signal(self, number: int) -> bool:
        """Signal it; says whether it was there."""
        stat = _stat(self.pid)
        if stat is None or stat.begun != self.begun or stat.state == "Z":
            return False
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class _Stat(NamedTuple):
    parent: int
    state: str
    begun: str


def descendants(pid: int) -> list[Relative]:
    """What a process has started, and what that has; none where the system does not tell."""
    children: dict[int, list[Relative]] = {}
    for each, stat in _processes():
        children.setdefault(stat.parent, []).append(Relative(each, stat.begun))
    found = list(children.get(pid, ()))
    for relative in found:  # it grows while we go
        found += children.get(relative.pid, ())
    return found


def _processes() -> Iterator[tuple[int, _Stat]]:
    with contextlib.suppress(OSError):
        for entry in os.listdir(_PROC):
            stat = _stat(int(entry)) if entry.isdecimal() else None
            if stat is not None:
                yield int(entry), stat


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it is gone, or there is no such directory here
        return None
    fields = text.rpartition(")")[2].split()  # its name may hold anything
    return _Stat(parent=int(fields[1]), state=fields[0], begun=fields[19])
