"""Paths as they are asked for: text, taken apart and made relative, and nothing decoded that is not a path."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from hookline.errors import BadPathError, OutsideJailError, UsageError

Parts = tuple[str, ...]
LONGEST = 4095
"""Bytes in a path, as Linux counts them."""
DEEPEST = 256
"""Directories in a path. Some are held open on the way, and a process may have a thousand files open in all."""


class JailPath(NamedTuple):
    """A path as it was given, and its parts below the root. Dots that lead up are still in it."""

    given: str
    parts: Parts
    is_directory: bool
    """It ends in a way that only a directory's path does: with a slash, say."""


def jail_path(path: str | os.PathLike[str], roots: tuple[Parts, ...]) -> JailPath:
    """Take a path apart. An absolute one has to begin with one of the spellings of the root."""
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, str):
        raise UsageError(f"{path!r} is not a path.", remedy="Give it as text, as in 'src/main.py'.")
    _refuse_bad(given)
    parts = split(given)
    if len(parts) > DEEPEST:
        raise BadPathError(
            given, f"is more than {DEEPEST} directories deep.", code=errno.ENAMETOOLONG
        )
    if given.startswith("/"):
        parts = _below(given, parts, roots)
    last = given.rpartition("/")[2]
    asked = JailPath(given, parts, last in ("", ".", "..") or not parts)
    without_dots(asked)  # refused even where a link on the way would have led deeper first
    return asked


def split(path: str) -> Parts:
    """The parts of a path; empty ones and single dots say nothing."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


def without_dots(asked: JailPath) -> Parts:
    """The parts with `..` taken out as text. That is where the path leads if there are no links in it."""
    if ".." not in asked.parts:
        return asked.parts
    plain: list[str] = []
    for part in asked.parts:
        if part != "..":
            plain.append(part)
        elif plain:
            plain.pop()
        else:
            raise outside(asked.given)
    return tuple(plain)


def outside(given: str) -> OutsideJailError:
    """The error for a path that leads out."""
    return OutsideJailError(
        given,
        "is outside the root.",
        remedy="Use a path that is relative to the root, without '..' that leads out of it.",
        code=errno.EACCES,
    )


def _below(given: str, parts: Parts, roots: tuple[Parts, ...]) -> Parts:
    for root in roots:
        if parts[: len(root)] == root:
            return parts[len(root) :]
    raise outside(given)


def _refuse_bad(given: str) -> None:
    if not given:
        raise BadPathError(given, "is empty.", remedy="Use '.' for the root itself.")
    if "\0" in given:
        raise BadPathError(given, "has a NUL character in it.", remedy="Leave it out.")
    try:
        length = len(os.fsencode(given))
    except UnicodeEncodeError:
        raise BadPathError(given, "has half a character in it.", remedy="Leave it out.") from None
    if length > LONGEST:
        raise BadPathError(
            given,
            f"is {length:,} bytes long, and a path has at most {LONGEST:,}.",
            code=errno.ENAMETOOLONG,
        )
