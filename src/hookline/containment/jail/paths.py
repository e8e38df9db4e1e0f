"""Paths as they are asked for: text, taken apart and made relative, and names that stand for the same file somewhere.

Nothing is decoded that is not a path.
"""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from hookline.errors import BadPathError, OutsideJailError, UsageError
from hookline.wildcards import compile_entries

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
        raise BadPathError(
            given, "has an incomplete character (a surrogate).", remedy="Leave it out."
        ) from None
    if length > LONGEST:
        raise BadPathError(
            given,
            f"is {length:,} bytes long, and a path has at most {LONGEST:,}.",
            code=errno.ENAMETOOLONG,
        )


# --- names --------------------------------------------------------------------------------------------

# Characters that HFS+ leaves out when it compares names.
_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
_SHORT = {"git~1": ".git"}
"""What NTFS calls them in eight characters."""
_WILD = re.compile(r"[*?\[]")
GIT_NAMES = frozenset({"config", "config.worktree", "commondir", "hooks", "objects", "refs"})
"""What is in a repository of git, and in projects too: what names programs, and the stores."""


def plain(name: str) -> str:
    """A name as the least particular file system compares it: without case, trailing dots, streams or marks."""
    text = unicodedata.normalize("NFC", name.translate(_IGNORED)).casefold()
    text = text.partition(":")[0].rstrip(" .") or text
    return _SHORT.get(text, text)


def is_only_of_git(name: str) -> bool:
    """Whether a file of this name makes a directory a repository of git. Other programs have no such files."""
    return plain(name) in ("head", "commondir")


def plain_names(names: Iterable[str], option: str) -> frozenset[str]:
    """Names to compare with, checked. But for secret ones, each may have the name of its directory before it."""
    given = [names] if isinstance(names, str) else list(names)
    # Secret names are left out of lists, which are of one directory.
    most = 0 if option == "secret" else 1
    for name in given:
        is_name = isinstance(name, str) and all(name.split("/")) and name.count("/") <= most
        if not is_name or ("/" in name and "[" in name):  # a slash in brackets would fit nothing
            raise UsageError(
                f"{option}= has {name!r} in it, which is not a name.",
                remedy="Give single names, as in ('.git', '*.pem'): they hold at any depth.",
            )
    return frozenset("/".join(map(plain, name.split("/"))) for name in given)


def first_of(parts: Iterable[str], names: frozenset[str], above: str = "") -> str:
    """The first part of a path that is one of these names, or fits one with `*`, `?` or `[...]`; empty if none does.

    `above` is the name of the directory that the path begins in.
    """
    if not names:
        return ""
    fits, before = _wild(names), plain(above)
    for part in parts:
        name = plain(part)
        pair = f"{before}/{name}"
        if name in names or pair in names or fits.match(pair):
            return part
        before = name
    return ""


@lru_cache(maxsize=64)
def _wild(names: frozenset[str]) -> re.Pattern[str]:
    return compile_entries(filter(_WILD.search, names))


def within(parts: Sequence[str], places: Iterable[Sequence[str]]) -> str:
    """The place that a path leads to or into; empty if it leads to none."""
    given = [plain(part) for part in parts] if places else []
    for place in places:
        if given[: len(place)] == [plain(part) for part in place]:
            return "/".join(place) or "."
    return ""
