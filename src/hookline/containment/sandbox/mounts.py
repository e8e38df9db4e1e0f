"""The view of the file system a command gets, in the words of bubblewrap."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hookline.containment.sandbox.paths import (
    SandboxPaths,
    emptied,
    existing,
    hidden,
    inside_any,
    protected_names,
    work_directory,
)
from hookline.containment.sandbox.protection import Protection

_SMALL = 64 * 1024
"""Bytes of a directory that is there to be empty."""
_SYSTEM = ("/run/current-system", "/run/booted-system")
"""Where some systems keep their programs, inside a directory that is emptied."""


@dataclass(frozen=True)
class Tree:
    """The directories of one sandbox, looked at once."""

    roots: tuple[Path, ...]
    paths: SandboxPaths

    @classmethod
    def of(cls, root: Path, paths: SandboxPaths) -> Tree:
        """What can be written: the work directory first."""
        further = tuple(work_directory(each) for each in paths.write)
        return cls((root, *further), paths)

    def protections(self) -> list[Protection]:
        """What keeps the protected names below each directory that can be written."""
        return [Protection(root, protected_names(root, self.paths)) for root in self.roots]

    def mounts(
        self,
        held: Sequence[Protection],
        *,
        reveal: tuple[str, ...] = (),
        scratch: int | None = None,
        network: bool = False,
        sizes: bool = True,
    ) -> Iterator[str]:
        """The options that make the view, in the order in which they lie over one another."""
        size = ("--size", str(scratch)) if sizes and scratch is not None else ()
        small = ("--size", str(_SMALL)) if sizes else ()
        secrets = hidden(self.paths.hide, reveal)
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", *size, "--tmpfs", "/dev/shm")
        yield from ("--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc")
        empty = emptied()
        for place in empty:
            if self.paths.tmp is not None and place == Path("/tmp"):
                yield from ("--bind", str(self.paths.tmp), "/tmp")
            else:
                yield from (*size, "--tmpfs", str(place))
        for place in existing((*_SYSTEM, *(_names() if network else ()), *self.paths.read)):
            if inside_any(place, empty) or place in map(Path, self.paths.read):
                yield from ("--ro-bind", str(place), str(place))
        for place in existing(reveal):
            if inside_any(place, empty):
                yield from ("--ro-bind", str(place), str(place))
        # A secret is hidden before what can be written is put in place, and again where that has brought it back.
        read = list(existing(self.paths.read))
        for secret in secrets:
            if not inside_any(secret, empty) or inside_any(secret, read):
                yield from _hide(secret, small)
        for root in self.roots:
            yield from ("--bind", str(root), str(root))
        for protection in held:
            for path in protection.pinned:
                yield from ("--bind", str(path), str(path))
            for path in protection.kept:
                yield from ("--ro-bind", str(path), str(path))
        for secret in secrets:
            if inside_any(secret, self.roots):
                yield from _hide(secret, small)


def _hide(secret: Path, small: tuple[str, ...]) -> tuple[str, ...]:
    if secret.is_dir():
        return (*small, "--tmpfs", str(secret), "--remount-ro", str(secret))
    return ("--ro-bind", "/dev/null", str(secret))  # devices cannot be opened through such a mount


def _names() -> list[str]:
    """What is needed to look names up, where it lies in a directory that is emptied."""
    with contextlib.suppress(OSError):
        return [os.path.realpath("/etc/resolv.conf", strict=True)]
    return []
