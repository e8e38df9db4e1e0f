"""How much a command may use, and which mechanism holds it to that: the kernel's, where we may use it, or a watcher."""

from __future__ import annotations

import contextlib
import math
import os
import platform
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from hookline.containment.sandbox.cgroups import Controller, Group, homes
from hookline.errors import UsageError

MIB, GIB = 1024**2, 1024**3
_GROUP, _WATCHER, _RESOURCE_LIMIT = "a control group", "a watcher", "a resource limit"


def most_of_memory() -> int:
    """Three quarters of the machine's memory: a large build fits, and the machine stays usable."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # a system that does not say
        return 8 * GIB
    return pages * size * 3 // 4 if pages > 0 and size > 0 else 8 * GIB


@dataclass(frozen=True, kw_only=True)
class SandboxLimits:
    """What one command may use. None is no limit."""

    memory: int | None = field(default_factory=most_of_memory)
    """Bytes of memory, for all processes of the command together. On the host: for each process."""
    address_space: int | None = None
    """Bytes of address space, for each process. Runtimes reserve far more of it than they use."""
    cpu_seconds: int | None = 3600
    """Seconds of processor time, for each process."""
    file_size: int | None = 8 * GIB
    """Bytes of the largest file a process may write."""
    disk: int | None = 64 * GIB
    """Bytes the command may write to disks, files that it writes again included. Not on the host."""
    disk_reserve: int | None = GIB
    """Bytes that stay free where the command can write; half of what was free, if that was less. Not on the host."""
    processes: int | None = 1024
    """How many processes and threads there may be at once. Not on the host."""
    output: int | None = 64 * MIB
    """Bytes a command may print before it is ended."""
    scratch: int | None = GIB
    """Bytes that fit into each temporary directory that is made for a command. Not on the host."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not (type(value) is int and value >= 1):
                raise UsageError(
                    f"{each.name}={value!r} is not a limit.",
                    remedy="Give a whole number above 0, or None for no limit.",
                )


def check_timeout(seconds: float | None) -> float | None:
    """A time-out that can be kept, or an error that says why not."""
    if seconds is None or (
        isinstance(seconds, int | float) and seconds > 0 and math.isfinite(seconds)
    ):
        return seconds
    raise UsageError(
        f"timeout={seconds!r} is not a number of seconds above 0.", remedy="Use None for no limit."
    )


def kernel_counts_processes() -> bool:
    """Whether RLIMIT_NPROC counts what runs in one user namespace only, and applies to us at all.

    Before Linux 5.14 it counted all that a user runs; and it never applies to root.
    """
    return os.geteuid() != 0 and kernel_version() >= (5, 14)


def kernel_version() -> tuple[int, int]:
    """The kernel's first two numbers."""
    numbers = platform.release().split(".")[:2]
    with contextlib.suppress(ValueError):
        return int(numbers[0]), int(numbers[1].split("-")[0])
    return (0, 0)


@dataclass(frozen=True)
class Enforcement:
    """How one command is held to its limits."""

    limits: SandboxLimits
    group: dict[Controller, tuple[Path, int]]
    """What a control group holds: where it can be made, and the limit."""
    watched: SandboxLimits
    """The limits that are left to a watcher. The others are None."""

    @classmethod
    def of(cls, limits: SandboxLimits) -> Enforcement:
        """Find out what there is."""
        processes = None if kernel_counts_processes() else limits.processes
        asked: dict[Controller, int | None] = {"pids": processes, "memory": limits.memory}
        wanted = {controller: limit for controller, limit in asked.items() if limit is not None}
        found = homes(*wanted)
        watched = replace(
            limits,
            processes=None if "pids" in found else processes,
            memory=None if "memory" in found else limits.memory,
        )
        return cls(limits, {name: (home, wanted[name]) for name, home in found.items()}, watched)

    @property
    def needs_watcher(self) -> bool:
        """Whether a limit is left to a watcher."""
        watched = self.watched
        limits = (watched.processes, watched.memory, watched.disk, watched.disk_reserve)
        return any(limit is not None for limit in limits)

    def restrict(self, first: int) -> None:
        """Set the resource limits of a process, and of all that it will start."""
        import resource

        limits = self.limits
        wanted = {
            resource.RLIMIT_AS: limits.address_space,
            resource.RLIMIT_CPU: limits.cpu_seconds,
            resource.RLIMIT_FSIZE: limits.file_size,
            # One byte, not none: with none, the kernel still hands the memory of a crash to a program of the host.
            resource.RLIMIT_CORE: 1,
            resource.RLIMIT_NPROC: limits.processes if kernel_counts_processes() else None,
        }
        for kind, value in wanted.items():
            if value is not None:
                _, hardest = resource.prlimit(first, kind)
                allowed = value if hardest == resource.RLIM_INFINITY else min(value, hardest)
                resource.prlimit(first, kind, (allowed, allowed))

    def make_group(self) -> Group | None:
        """Make the control group, if one is needed and can be had."""
        return Group(self.group) if self.group else None

    def describe(self) -> str:
        """The mechanisms in a line, for people."""
        limits, watched = self.limits, self.watched
        held = []
        if limits.memory is not None:
            held.append(f"memory by {_WATCHER if watched.memory else _GROUP}")
        if limits.processes is not None:
            kernel = _GROUP if "pids" in self.group else _RESOURCE_LIMIT
            held.append(f"processes by {_WATCHER if watched.processes else kernel}")
        if limits.disk is not None or limits.disk_reserve is not None:
            held.append(f"disk by {_WATCHER}")
        if not held:
            return "no limits on memory, processes and disk"
        late = " (a watcher reacts late)" if self.needs_watcher else ""
        return f"limits: {', '.join(held)}{late}"
