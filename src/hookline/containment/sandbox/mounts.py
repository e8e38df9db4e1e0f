"""The view of the file system a command gets, in the words of bubblewrap."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hookline.containment.sandbox.command import Place, SandboxGrant
from hookline.containment.sandbox.home import temporary_home
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    emptied,
    existing,
    hidden,
    inside_any,
    protected_names,
    watched_names,
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

    def protections(self, grant: SandboxGrant, place: Place) -> list[Protection]:
        """What keeps the protected names below each directory that can be written: none where nothing can."""
        if place == "read-only":
            return []
        left_out = (*self.paths.unprotected, *grant.unprotected)
        paths = replace(self.paths, unprotected=left_out)
        return [
            Protection(root, protected_names(root, paths), watched_names(root, paths))
            for root in self.roots
        ]

    def mounts(
        self,
        held: Sequence[Protection],
        grant: SandboxGrant,
        scratch: int | None,
        *,
        sizes: bool,
        place: Place,
    ) -> Iterator[str]:
        """The options that make the view, in the order in which they lie over one another.

        `scratch` is how much fits into what is made for the command; not every bubblewrap knows `sizes`.
        """
        read_only = place == "read-only"
        size = ("--size", str(scratch)) if sizes and scratch is not None else ()
        small = ("--size", str(_SMALL)) if sizes else ()
        secrets = hidden(self.paths.hide, grant.reveal)
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", *size, "--tmpfs", "/dev/shm")
        yield from ("--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc")
        yield from self._emptied(grant, size, None if read_only else self.paths.tmp)
        if read_only:
            yield from temporary_home(self.roots, list(existing(self.paths.read)), size)
        # A secret is hidden before what can be written is put in place, and again where that has brought it back.
        for secret in self._seen(secrets):
            holds_work = any(root.is_relative_to(secret) for root in self.roots)
            yield from _hide(secret, small, sealed=not holds_work)
        yield from self._work(held, "--ro-bind" if read_only else "--bind")
        for secret in secrets:
            if inside_any(secret, self.roots):
                yield from _hide(secret, small)

    def _emptied(
        self, grant: SandboxGrant, size: tuple[str, ...], tmp: str | Path | None
    ) -> Iterator[str]:
        """Empty directories in place of those of the machine, and what is to be seen in them all the same."""
        empty = emptied()
        for place in empty:
            if tmp is not None and place == Path("/tmp"):
                yield from ("--bind", str(tmp), "/tmp")
            else:
                yield from (*size, "--tmpfs", str(place))
        names = _names() if grant.network else []
        for place in existing((*_SYSTEM, *names, *self.paths.read, *grant.reveal)):
            if inside_any(place, empty):
                yield from ("--ro-bind", str(place), str(place))

    def _seen(self, secrets: list[Path]) -> Iterator[Path]:
        """The secrets that would be seen but for what hides them: not those in a directory that is emptied."""
        empty, shown = emptied(), list(existing(self.paths.read))
        for secret in secrets:
            if not inside_any(secret, empty) or inside_any(secret, shown):
                yield secret

    def _work(self, held: Sequence[Protection], bind: str) -> Iterator[str]:
        """The work directory and its like, and in them what cannot be written."""
        for root in self.roots:
            yield from (bind, str(root), str(root))
        for protection in held:
            for path in protection.pinned:
                yield from ("--bind", path, path)
            for path in protection.kept:
                yield from ("--ro-bind", path, path)


def _hide(secret: Path, small: tuple[str, ...], *, sealed: bool = True) -> tuple[str, ...]:
    if secret.is_dir():
        seal = ("--remount-ro", str(secret)) if sealed else ()
        return (*small, "--tmpfs", str(secret), *seal)
    return ("--ro-bind", "/dev/null", str(secret))  # devices cannot be opened through such a mount


def _names() -> list[str]:
    """What is needed to look names up, where it lies in a directory that is emptied."""
    with contextlib.suppress(OSError):
        return [os.path.realpath("/etc/resolv.conf", strict=True)]
    return []
