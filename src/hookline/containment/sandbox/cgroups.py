"""Control groups: the kernel's own limits on processes and memory of a whole command. Not everybody may make one."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from hookline.containment.processes import OwnChild

Controller: TypeAlias = Literal["pids", "memory"]

_TASKS = "tasks"
"""The threads of a group, in the old hierarchy."""
_SELF = 0
"""The thread that writes it."""
_left: set[Path] = set()
"""Groups that could not be removed at the end of their command: the last process in them was still exiting."""


class Group:
    """A group for one command: at most so many processes, and so many bytes of memory."""

    def __init__(self, limits: dict[Controller, tuple[Path, int]]) -> None:
        """`limits` has for each controller the directory to make the group in, and the limit."""
        # In a container, the process that is started again may have our number, and left groups behind.
        name = f"hookline-{os.getpid()}-{_process_numbers()}-{secrets.token_hex(6)}"
        self._paths: list[Path] = []
        self._parents: list[Path] = []
        self._has_started = False
        """Whether a process was started in it, so that it has all that this process starts."""
        self._memory: Path | None = None
        self.oom: int | None = None
        """A file descriptor that is readable once memory ran out, where the kernel does not end the whole group."""
        try:
            for controller, (parent, limit) in limits.items():
                path = parent / name
                if (
                    path not in self._paths
                ):  # the new hierarchy has one directory for all controllers
                    path.mkdir()
                    self._paths.append(path)
                    self._parents.append(parent)
                if controller == "pids":
                    _write(path / "pids.max", limit)
                else:
                    self._memory = path
                    self._limit_memory(path, limit)
        except OSError:
            self.remove()
            raise

    def _limit_memory(self, path: Path, limit: int) -> None:
        if (path / "memory.max").exists():
            _write(path / "memory.max", limit)
            _write_where_known(path / "memory.swap.max", 0)
            _write_where_known(path / "memory.oom.group", 1)
        else:
            _write(path / "memory.limit_in_bytes", limit)
            _write_where_known(path / "memory.memsw.limit_in_bytes", limit)
            # The old hierarchy kills one process, and the rest continues. So we ask to be notified, and end the rest.
            self.oom = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            with open(path / "memory.oom_control") as control:
                _write(path / "cgroup.event_control", f"{self.oom} {control.fileno()}")

    @contextlib.contextmanager
    def join_group(self) -> Iterator[None]:
        """Have this thread in the group, so that what it starts now is born there. It must not be the main thread.

        A thread that moves itself moves at once. To move another process, the kernel waits 10 ms for all processors:
        one might just be starting something. But the new hierarchy only moves whole processes; there nothing is done.
        """
        if not all(os.path.exists(path / _TASKS) for path in self._paths) or _is_main_thread():
            yield
            return
        try:
            for path in self._paths:
                _write(path / _TASKS, _SELF)
            yield
            self._has_started = True
        finally:
            for parent in self._parents:
                _write(parent / _TASKS, _SELF)

    def add(self, pid: int) -> None:
        """Put a process into the group, unless it was born there; what it starts will be in it too."""
        for path in () if self._has_started else self._paths:
            _write(path / "cgroup.procs", pid)

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has ended a process of the group because there was no memory left for it."""
        if self._memory is None:
            return False
        # One of them exists, by the kind of hierarchy. Both have a line "oom_kill N".
        lines = (
            *_lines(self._memory / "memory.events"),
            *_lines(self._memory / "memory.oom_control"),
        )
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def remove(self) -> None:
        """Remove the group once its processes are gone, and those that were left."""
        if self.oom is not None:
            os.close(self.oom)
            self.oom = None
        _left.update(self._paths)
        for path in tuple(_left):
            with contextlib.suppress(OSError):
                path.rmdir()
            if not path.exists():
                _left.discard(path)


def _is_main_thread() -> bool:
    """Whether this is the thread whose group is charged with the memory of all threads."""
    return threading.get_native_id() == os.getpid()


def homes(*controllers: Controller) -> dict[Controller, Path]:
    """Where we may make groups with each of these controllers. One that is missing is not to be had."""
    found = ((controller, _home(controller)) for controller in controllers)
    return {controller: home for controller, home in found if home is not None}


@cache
def _home(controller: Controller) -> Path | None:
    for place in _places(controller):
        with contextlib.suppress(OSError):
            _try(place, controller)
            _clear_after_the_dead(place)
            return place
    return None


def _try(place: Path, controller: Controller) -> None:
    """Make a group and put a process into it: to make one is not yet to be allowed to fill it."""
    group = Group(
        {controller: (place, 2**30)} if controller == "memory" else {controller: (place, 16)}
    )
    try:
        with open(os.devnull, "r+b") as nothing:
            waiting = OwnChild(("sleep", "60"), os.environ, "/", (nothing.fileno(),) * 3)
        try:
            group.add(waiting.pid)
        finally:
            waiting.end()
    finally:
        group.remove()
        atexit.register(group.remove)


def _clear_after_the_dead(place: Path) -> None:
    """Remove the groups of processes that were killed before they could. One that is in use cannot be removed.

    A container may see the groups of others. Who is alive there, it does not know.
    """
    for left in place.glob(f"hookline-*-{_process_numbers()}-*"):
        if not os.path.exists(f"/proc/{left.name.split('-')[1]}"):
            with contextlib.suppress(OSError):
                left.rmdir()


@cache
def _process_numbers() -> int:
    """What tells apart the numbers of processes in different containers."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _places(controller: Controller) -> list[Path]:
    """Our own group's directories with a controller: the old hierarchy's, then the new one's and its parent."""
    mounts = _mounts()
    places: list[Path] = []
    for line in _lines("/proc/self/cgroup"):
        _, controllers, inside = line.split(":", 2)
        if controller in controllers.split(",") and controller in mounts:
            places.append(_below(mounts[controller], inside))
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
        elif kind == "cgroup":
            for name in options.split(" ")[-1].split(","):
                found.setdefault(name, place)
    return found


def _below(mount: Path, inside: str) -> Path:
    place = mount / inside.strip("/")
    return place if place.is_dir() else mount


def _write(path: Path, value: object) -> None:
    # Not `write_text`, which would make a file where there is none, if the directory were an ordinary one.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _write_where_known(path: Path, value: object) -> None:
    """Set what not every kernel has: accounting of swap can be left out of it."""
    with contextlib.suppress(FileNotFoundError):
        _write(path, value)


def _lines(path: str | Path) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return []
