"""How much a command may use, and how a process is held to it."""

from __future__ import annotations

import contextlib
import math
import os
import platform
from dataclasses import dataclass, field, fields

from hookline.errors import UsageError

MIB, GIB = 1024**2, 1024**3


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


def checked_timeout(seconds: float | None) -> float | None:
    """A time-out that can be kept, or an error that says why not."""
    if seconds is None or (
        isinstance(seconds, int | float) and seconds > 0 and math.isfinite(seconds)
    ):
        return seconds
    raise UsageError(
        f"timeout={seconds!r} is not a number of seconds above 0.", remedy="Use None for no limit."
    )


def restrict(pid: int, limits: SandboxLimits, *, processes: bool) -> None:
    """Hold a process, and all that it will start, to these limits. `processes` counts them too."""
    import resource

    wanted = {
        resource.RLIMIT_AS: limits.address_space,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_size,
        # One byte, not none: with none, the kernel still hands the memory of a crash to a program of the host.
        resource.RLIMIT_CORE: 1,
    }
    if processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes
    for kind, value in wanted.items():
        if value is not None:
            _, hardest = resource.prlimit(pid, kind)
            allowed = value if hardest == resource.RLIM_INFINITY else min(value, hardest)
            resource.prlimit(pid, kind, (allowed, allowed))


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
