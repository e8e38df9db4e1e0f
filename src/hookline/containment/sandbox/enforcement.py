"""Which mechanism holds each limit here: the kernel's, where it has one that we may use, or else a watcher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hookline.containment.sandbox.cgroups import Controller, Group, homes
from hookline.containment.sandbox.limits import (
    SandboxLimits,
    kernel_counts_processes,
    restrict,
)

_GROUP, _WATCHER, _RESOURCE_LIMIT = "a control group", "a watcher", "a resource limit"


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
        restrict(first, self.limits, processes=kernel_counts_processes())

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
