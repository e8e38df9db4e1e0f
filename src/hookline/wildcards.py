"""The patterns of rules, hooks and settings, matched without exponential time.

`glob` and `fits` know `*` and `?`, over letters, words and path components, and a backslash before either. `matches`
is for plain names and knows `[a-z]` too. Another matcher stays for what these do not know:
`capabilities/files/patterns.py` reads the patterns of ignore files and of the glob tool (`{a,b}`, `**`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias


class _Mark:
    """A wildcard in a pattern."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


MANY = _Mark("*")
"""Any number of items, none included."""
ONE = _Mark("?")
"""Any one item."""

Glob: TypeAlias = tuple[str | _Mark, ...]
"""A pattern over letters."""


def fits(pattern: Sequence[Any], items: Sequence[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether the items match the pattern. `same(expected, item)` compares what is not a wildcard.

    After a mismatch the latest MANY takes one item more; earlier ones need not be tried again.
    """
    at = seen = 0
    many = resume = -1
    while seen < len(items):
        if at < len(pattern) and pattern[at] is MANY:
            many, resume = at, seen
            at += 1
        elif at < len(pattern) and (pattern[at] is ONE or same(pattern[at], items[seen])):
            at += 1
            seen += 1
        elif many >= 0:
            resume += 1
            at, seen = many + 1, resume
        else:
            return False
    return all(rest is MANY for rest in pattern[at:])


def glob(text: str, *, single: bool = False) -> Glob:
    r"""A pattern as people write it: `*`, with `single` also `?`, and a backslash before either to mean itself."""
    letters: list[str | _Mark] = []
    escaped = False
    for letter in text:
        if escaped:
            letters.append(letter if letter in "*?\\[]{}" else f"\\{letter}")
        elif letter == "*":
            letters.append(MANY)
        elif letter == "?" and single:
            letters.append(ONE)
        elif letter != "\\":
            letters.append(letter)
        escaped = letter == "\\" and not escaped
    if escaped:
        letters.append("\\")
    return tuple(
        split for item in letters for split in (item if isinstance(item, str) else (item,))
    )


def fits_text(pattern: Glob, text: str) -> bool:
    """Whether a text matches a pattern over letters."""
    return fits(pattern, text, str.__eq__)


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern with `*`, `?` and `[a-z]`: of tools, hooks, keys and single files."""
    return fnmatch.fnmatchcase(name, pattern)


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches one of these patterns."""
    return any(matches(name, pattern) for pattern in patterns)


def compile_entries(patterns: Iterable[str]) -> re.Pattern[str]:
    """Such patterns, for the name of a file behind that of its directory: `*.toml`, `mise/*.toml`.

    What is compared has one slash in it, so `*` does not go past it. Without patterns nothing matches.
    """
    entries = [fnmatch.translate(each if "/" in each else f"*/{each}") for each in sorted(patterns)]
    return re.compile("|".join(entries) or "(?!)")
