"""Patterns over paths, much as in a .gitignore, and the places that the path in a call may mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from hookline.errors import UsageError
from hookline.permissions.wildcard import MANY, fits, fits_text, glob

_MOST_FILES = 50_000


class Root:
    """The directory that relative paths in rules begin at, and those in calls if they do not begin at `calls`.

    Where these are two directories, a path in a call may be meant from either.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] = ".",
        calls: str | os.PathLike[str] = "",
    ) -> None:
        self.path = os.path.abspath(directory)
        self._real = os.path.realpath(self.path)
        self._bases = {self.path, os.path.abspath(calls)} if calls else {self.path}

    def place(self, path: str) -> Place | None:
        """Where a path leads, as it is written and as the file system follows it; None if it leads nowhere."""
        try:
            written = [os.path.join(base, path) for base in self._bases]
            if path.startswith("~"):  # some tools expand this, and some do not
                written.append(os.path.expanduser(path))
            ways = {way(each) for each in written for way in (os.path.normpath, os.path.realpath)}
        except (OSError, ValueError):
            return None
        return Place(tuple(sorted(_parts(way) for way in ways)), self)

    def below(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """The components of a path below this directory; None if it is somewhere else."""
        for base in (_parts(self.path), _parts(self._real)):
            if parts[: len(base)] == base:
                return parts[len(base) :]
        return None


class Place(NamedTuple):
    """Where a path in a call may lead: every way to understand it, each from the top of the file system."""

    ways: tuple[tuple[str, ...], ...]
    root: Root


class PathPattern:
    """A pattern over paths: `src/**`, `*.py`, `./docs/*.md`, `//etc/**`, `~/notes/**`."""

    def __init__(self, text: str) -> None:
        self._from_top = text.startswith(("//", "~/")) or text == "~"
        self._may_be_absolute = text.startswith("/") and not self._from_top
        written = os.path.expanduser(text) if text.startswith("~") else text
        _refuse_unclear(text)
        names = [name for name in written.split("/") if name not in ("", ".")]
        is_anchored = self._from_top or "/" in written.rstrip("/")
        whole = () if is_anchored else (MANY,)
        below = (MANY,) if written.endswith("/") or not names else ()
        named = tuple(MANY if name == "**" else glob(name, single=True) for name in names)
        self._names: tuple[object, ...] = (*whole, *named, *below)

    def covers(self, place: Place) -> bool:
        """Whether the pattern means this place, however its path is understood."""
        return all(
            parts is not None and fits(self._names, parts, _same) for parts in self._compared(place)
        )

    def touches(self, place: Place, *, is_searched: bool = False) -> bool:
        """Whether the pattern means this place, or a directory that it is in, in one way of understanding it.

        A place that is searched is everything that is in it now.
        """
        if any(parts is not None and self._means_above(parts) for parts in self._meant(place)):
            return True
        return is_searched and self._is_in(place)

    def _meant(self, place: Place) -> Iterator[tuple[str, ...] | None]:
        yield from self._compared(place)
        if self._may_be_absolute:
            # `/etc/x` is `etc/x` here; who forbids it may have meant the other one.
            yield from place.ways

    def _compared(self, place: Place) -> Iterator[tuple[str, ...] | None]:
        for way in place.ways:
            yield way if self._from_top else place.root.below(way)

    def _means_above(self, parts: tuple[str, ...]) -> bool:
        return fits((*self._names, MANY), parts, _same)

    def _is_in(self, place: Place) -> bool:
        """Whether something that the pattern means is in a directory; of a very large one, that is taken to be so."""
        seen = 0
        for way in place.ways:
            for folder, folders, files in os.walk(os.sep + os.sep.join(way)):
                above = _parts(folder)
                found = (Place(((*above, name),), place.root) for name in (*folders, *files))
                seen += len(folders) + len(files)
                if seen > _MOST_FILES or any(map(self.touches, found)):
                    return True
        return False


def _same(name: object, part: str) -> bool:
    return name is not MANY and fits_text(name, part)  # type: ignore[arg-type]


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace(os.sep, "/")).parts[1:]


def _refuse_unclear(text: str) -> None:
    """What would silently mean something else than its author thought is refused."""
    if ".." in text.split("/"):
        raise UsageError(
            f"the path '{text}' climbs with '..'.",
            remedy="Write a path below the root, '//' and a path from the top, or '~/' and one in the home directory.",
        )
    if text.startswith("!"):
        raise UsageError(
            f"the path '{text}' begins with '!', which turns nothing round here.",
            remedy="Write the rule without it, into the list that says what you mean.",
        )
    if text.startswith("~") and not (text == "~" or text.startswith("~/")):
        raise UsageError(
            f"the path '{text}' is in the home directory of someone else.",
            remedy="Write '//' and the path from the top.",
        )
    for mark in "[{":
        if mark in text.replace(f"\\{mark}", ""):
            raise UsageError(
                f"the path '{text}' has a '{mark}', which other tools read as a choice.",
                remedy=f"Write one rule for each choice, or '\\{mark}' for a name that has it.",
            )


def fixed_part(pattern: str) -> str | None:
    """The directories a glob begins with, before its first wildcard: all that it finds is below. None if it climbs."""
    names = pattern.split("/")
    is_fixed = [not any(mark in name for mark in "*?[{\\") for name in names]
    count = is_fixed.index(False) if False in is_fixed else len(names)
    if ".." in names[count:]:
        return None
    return "/".join(names[:count]) or ("/" if pattern.startswith("/") else ".")
