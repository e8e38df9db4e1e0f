"""Patterns over paths, much as in a .gitignore, and the places that the path in a call may mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from hookline.containment.links import real_path
from hookline.errors import UsageError
from hookline.wildcards import MANY, fits, fits_text, glob

_MOST_FILES = 50_000


class Root:
    """The directory that relative paths in rules are relative to, and also those in calls.

    With `calls`, a path in a call may begin at either directory.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] = ".",
        calls: str | os.PathLike[str] = "",
    ) -> None:
        self.path = os.path.abspath(directory)
        self._real = real_path(self.path)
        self._bases = {self.path, os.path.abspath(calls)} if calls else {self.path}

    def place(self, path: str) -> PathPlace | None:
        """Where a path leads, as it is written and with links resolved; None if it cannot be a path."""
        try:
            written = [os.path.join(base, path) for base in self._bases]
            if path.startswith("~"):  # some tools expand this, and some do not
                written.append(os.path.expanduser(path))
            ways = {way(each) for each in written for way in (os.path.normpath, real_path)}
        except (OSError, ValueError):
            return None
        return PathPlace(tuple(sorted(_parts(way) for way in ways)), self)

    def forms(self, path: str) -> tuple[str, ...]:
        """A directory as it is written, and also where it leads if it has links or `..`; none if it is no path."""
        found, expanded = {path: None}, os.path.expanduser(path)
        for base in map(real_path, sorted(self._bases)):
            written = os.path.join(base, expanded)
            try:
                real = real_path(written)
            except ValueError:
                return ()
            if real != str(PurePosixPath(written)):
                found[real if os.path.isabs(expanded) else os.path.relpath(real, base)] = None
        return tuple(found)

    def relative_parts(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """The components of a path below this directory; None if it is somewhere else."""
        for base in (_parts(self.path), _parts(self._real)):
            if parts[: len(base)] == base:
                return parts[len(base) :]
        return None


class PathPlace(NamedTuple):
    """Where a path in a call may lead: each way to read it, from the root of the file system."""

    ways: tuple[tuple[str, ...], ...]
    root: Root


class FilePathPattern:
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

    def covers(self, place: PathPlace) -> bool:
        """Whether this place matches in every way to read it."""
        return all(
            parts is not None and fits(self._names, parts, _is_same_name)
            for parts in self._relative_ways(place)
        )

    def touches(self, place: PathPlace, *, is_searched: bool = False) -> bool:
        """Whether this place, or a directory above it, matches in one way to read it.

        A place that is searched is everything in it.
        """
        at_or_above = (*self._names, MANY)
        if any(
            parts is not None and fits(at_or_above, parts, _is_same_name)
            for parts in self._possible_meanings(place)
        ):
            return True
        return is_searched and self._is_in(place)

    def _possible_meanings(self, place: PathPlace) -> Iterator[tuple[str, ...] | None]:
        yield from self._relative_ways(place)
        if self._may_be_absolute:
            # `/etc/x` means `etc/x` below the root; a rule that forbids it may mean the absolute path.
            yield from place.ways

    def _relative_ways(self, place: PathPlace) -> Iterator[tuple[str, ...] | None]:
        for way in place.ways:
            yield way if self._from_top else place.root.relative_parts(way)

    def _is_in(self, place: PathPlace) -> bool:
        """Whether something in a directory matches. A very large directory counts as a match."""
        seen = 0
        for way in place.ways:
            for folder, folders, files in os.walk(os.sep + os.sep.join(way)):
                above = _parts(folder)
                found = (PathPlace(((*above, name),), place.root) for name in (*folders, *files))
                seen += len(folders) + len(files)
                if seen > _MOST_FILES or any(map(self.touches, found)):
                    return True
        return False


def _is_same_name(name: object, part: str) -> bool:
    return name is not MANY and fits_text(name, part)  # type: ignore[arg-type]


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace(os.sep, "/")).parts[1:]


def _refuse_unclear(text: str) -> None:
    """Refuse what would mean something else than its author thought."""
    if ".." in text.split("/"):
        raise UsageError(
            f"the path '{text}' contains '..'.",
            remedy="Write a path below the root, '//' and a path from the top, or '~/' and one in the home directory.",
        )
    if text.startswith("!"):
        raise UsageError(
            f"the path '{text}' begins with '!', which does not negate a rule here.",
            remedy="Write the rule without it, into the list that you mean.",
        )
    if text.startswith("~") and not (text == "~" or text.startswith("~/")):
        raise UsageError(
            f"the path '{text}' is in the home directory of someone else.",
            remedy="Write the absolute path after an extra '/': '//home/NAME/...'.",
        )
    for mark in "[{":
        if mark in text.replace(f"\\{mark}", ""):
            raise UsageError(
                f"the path '{text}' has a '{mark}', which other tools read as a choice.",
                remedy=f"Write one rule for each choice, or '\\{mark}' for a name that has it.",
            )


def fixed_part(pattern: str) -> str | None:
    """The directories before the first wildcard of a glob: it finds nothing elsewhere. None with `..` behind them."""
    names = pattern.split("/")
    is_fixed = [not any(mark in name for mark in "*?[{\\") for name in names]
    count = is_fixed.index(False) if False in is_fixed else len(names)
    if ".." in names[count:]:
        return None
    return "/".join(names[:count]) or ("/" if pattern.startswith("/") else ".")
