"""Looks at a running command from outside, where no limit of the kernel covers all of its processes together.

A watcher reacts late: between two looks a command can exceed its limit. So it is the second choice, for processes and
memory where no control group can be made. For disks it is the only one: quotas need privileges and a file system that
has them, and the kernel's count of bytes per group misses most of what is written through its cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from hookline.containment.sandbox.limits import SandboxLimits

_PAUSE, _DISK_PAUSE, _LONGEST_PAUSE = 0.05, 0.25, 1.0
"""Seconds between two looks: disks fill more slowly than memory."""
_SHARE = 50
"""A look at many processes takes longer, and is followed by a pause of so many times its length."""
_KIB = 1024
_NUMBER = re.compile(rb"^(\w+):\s+(\d+)", re.M)

Exceeded: TypeAlias = Literal["processes", "memory", "disk"]


class Watcher:
    """Looks at the processes of one sandbox, and at the disks that they can write to."""

    def __init__(self, first: int, watched: SandboxLimits, places: Iterable[Path]) -> None:
        """`first` is the number of the sandbox's first process, `places` are directories that it can write.

        A limit that is None in `watched` is left to the kernel.
        """
        self._processes = f"/proc/{first}/root/proc"
        """The list of processes as it is inside: its own, and nobody else's."""
        self._watched = watched
        self._written = BytesWritten()
        self._floors = floors(places, watched.disk_reserve)
        self._sees_processes = watched.processes is not None or watched.memory is not None
        self._pause = _PAUSE if self._sees_processes else _DISK_PAUSE

    async def wait_exceeded(self) -> Exceeded:
        """Wait until a limit is exceeded, and say which."""
        pause = self._pause
        while True:
            await asyncio.sleep(pause)  # first of all: most commands have ended by then
            began = time.monotonic()
            found = self._look()
            # Memory that processes share counts once. To know what is shared takes long, so it is looked at only when
            # the sum without regard to it is too high, and not in the event loop.
            if found == "memory" and not await asyncio.to_thread(self._is_memory_exceeded):
                found = None
            if found is not None:
                return found
            pause = min(max(self._pause, _SHARE * (time.monotonic() - began)), _LONGEST_PAUSE)

    def _look(self) -> Exceeded | None:
        """The limit that is exceeded. For memory, one that may be."""
        if any(_free(place) < floor for place, floor in self._floors):
            return "disk"
        watched = self._watched
        if not self._sees_processes and watched.disk is None:
            return None
        pids = self._pids()
        if self._sees_processes:
            used = [self._threads_and_memory(pid) for pid in pids]
            if _is_over(sum(threads for threads, _ in used), watched.processes):
                return "processes"
            if _is_over(sum(memory for _, memory in used), watched.memory):
                return "memory"
        if watched.disk is not None:
            written = self._written.update(pids, self._bytes_written)
            return "disk" if written > watched.disk else None
        return None

    def _pids(self) -> list[int]:
        with contextlib.suppress(OSError):
            return sorted(int(name) for name in os.listdir(self._processes) if name.isdigit())
        return []  # it has ended

    def _threads_and_memory(self, pid: int) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            facts = self._numbers(pid, "status")
            # What is resident and what is swapped out, shared or not: never less than its own share of it.
            memory = _KIB * (facts.get("VmRSS", 0) + facts.get("VmSwap", 0))
            return facts.get("Threads", 1), memory
        return 0, 0  # it has ended

    def _is_memory_exceeded(self) -> bool:
        assert self._watched.memory is not None
        return sum(self._share_of_memory(pid) for pid in self._pids()) > self._watched.memory

    def _share_of_memory(self, pid: int) -> int:
        """The proportional share: a page that four processes share is a quarter of one for each.

        Resident memory counts what forked workers share once for each of them, and a server of ten workers would be
        ended for a tenth of its limit. Resident memory without shared pages would leave out memory files.
        """
        with contextlib.suppress(OSError, KeyError):
            facts = self._numbers(pid, "smaps_rollup")
            return _KIB * (facts["Pss"] + facts.get("SwapPss", 0))
        # It does not let others look: all that it uses counts as its own.
        return self._threads_and_memory(pid)[1]

    def _bytes_written(self, pid: int) -> int:
        return self._numbers(pid, "io").get("write_bytes", 0)

    def _numbers(self, pid: int, name: str) -> dict[str, int]:
        """The lines "name: number" of a file about a process."""
        with open(f"{self._processes}/{pid}/{name}", "rb", buffering=0) as file:
            return {key.decode(): int(value) for key, value in _NUMBER.findall(file.read(_KIB * 8))}


class BytesWritten:
    """Adds up what processes have written to disks, also those that have ended.

    The kernel counts for each process what it has handed to disks (not to memory file systems), and adds the count of a
    child to that of its parent when the parent waits for it. So the processes that live have the sum of all, but for
    children that nobody waits for: of those counts what was seen last. What they write after the last look at them is
    missed. A program that uses this to write more than it may is stopped by the reserve of free space.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._lost = 0

    def update(self, pids: Iterable[int], read: Callable[[int], int]) -> int:
        """Look at these processes, parents before children, and say how many bytes it is together."""
        now: dict[int, int] = {}
        for pid in pids:
            try:
                now[pid] = read(pid)
            except PermissionError:  # it does not let others look
                now[pid] = self._last.get(pid, 0)
            except OSError:
                # It has ended since it was listed, and its count may have moved to a parent that was read before it.
                # The next look finds it there.
                return self.total
        still_there = sum(now[pid] for pid in now.keys() & self._last.keys())
        self._lost += max(0, sum(self._last.values()) - still_there)
        self._last = now
        return self.total

    @property
    def total(self) -> int:
        """All that is known of."""
        return self._lost + sum(self._last.values())


def floors(places: Iterable[Path], reserve: int | None) -> list[tuple[Path, int]]:
    """For one directory of each file system: how many bytes must stay free there.

    That is the reserve, or half of what is free now, if that is less. So a disk that is nearly full does not end every
    command, only one that takes half of the rest.
    """
    if reserve is None:
        return []
    by_disk: dict[int, Path] = {}
    for place in places:
        with contextlib.suppress(OSError):
            by_disk.setdefault(place.stat().st_dev, place)
    return [(place, min(reserve, _free(place) // 2)) for place in by_disk.values()]


def _is_over(amount: int, limit: int | None) -> bool:
    return limit is not None and amount > limit


def _free(place: Path) -> int:
    try:
        facts = os.statvfs(place)
    except OSError:  # the directory is gone: there is nothing that could be measured
        return 1 << 62
    return facts.f_bavail * facts.f_frsize
