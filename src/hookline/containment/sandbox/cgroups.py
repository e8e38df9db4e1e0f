"""Control groups: a count of processes that holds for root too. Used where we may make one, which is not everywhere."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
from functools import cache
from pathlib import Path

_numbers = itertools.count(1)
_left: set[Path] = set()
"""Groups that could not be given back when they should have been: the last process in them was still leaving."""


class Group:
    """A group for one command: at most so many processes."""

    def __init__(self, parent: Path, processes: int) -> None:
        self._path = parent / f"hookline-{os.getpid()}-{next(_numbers)}"
        self._path.mkdir()
        try:
            (self._path / "pids.max").write_text(str(processes))
        except OSError:
            self.remove()
            raise

    def add(self, pid: int) -> None:
        """Put a process into the group; what it starts will be in it too."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Give the group back, once all that was in it is gone; and those that were left."""
        _left.add(self._path)
        for path in tuple(_left):
            with contextlib.suppress(OSError):
                path.rmdir()
            if not path.exists():
                _left.discard(path)


@cache
def home_for_groups() -> Path | None:
    """Where we may make groups that count processes, tried out; None where there is no such place."""
    for place in _places():
        with contextlib.suppress(OSError):
            group = Group(place, 16)
            group.remove()
            _clear_after_the_dead(place)
            atexit.register(group.remove)
            return place
    return None


def _clear_after_the_dead(place: Path) -> None:
    """Remove the groups of processes that were killed before they could. One that is in use cannot be removed."""
    for left in place.glob("hookline-*-*"):
        if not os.path.exists(f"/proc/{left.name.split('-')[1]}"):
            with contextlib.suppress(OSError):
                left.rmdir()


def _places() -> list[Path]:
    """Our own group's directories that count processes: the old hierarchy's, then the new one's and its parent."""
    mounts = _mounts()
    places: list[Path] = []
    for line in _lines("/proc/self/cgroup"):
        _, controllers, inside = line.split(":", 2)
        if "pids" in controllers.split(",") and "pids" in mounts:
            places.append(_below(mounts["pids"], inside))
        elif not controllers and "" in mounts:
            own = _below(mounts[""], inside)
            places += [own, own.parent] if own != mounts[""] else [own]
    return places


def _mounts() -> dict[str, Path]:
    """Where the hierarchies are mounted, by controller; the new, single one under the empty name."""
    found: dict[str, Path] = {}
    for line in _lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            found.setdefault("", place)
        elif kind == "cgroup" and "pids" in options.split(" ")[-1].split(","):
            found.setdefault("pids", place)
    return found


def _below(mount: Path, inside: str) -> Path:
    place = mount / inside.strip("/")
    return place if place.is_dir() else mount


def _lines(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return []
