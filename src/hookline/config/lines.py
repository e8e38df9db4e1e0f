"""Finds the line of a key in a TOML file. Python's own parser does not report lines."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]
"""The keys that lead to a value: `("hooks", 0, "on")`."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_WORD = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def line_of(text: str, path: KeyPath) -> int | None:
    """The line of a value, or of the nearest table around it, counted from one; None if neither is written."""
    best, found = 0, None
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            table = _indexed(_words(header[2]), header[1] == "[[", counts)
            here = table
        else:
            key = _KEY.match(line)
            if key is None:
                continue
            here = (*table, *_words(key[1]))
        if path[: len(here)] == here and len(here) > best:
            best, found = len(here), number
    return found


def _words(dotted: str) -> KeyPath:
    return tuple(a or b or c for a, b, c in _WORD.findall(dotted))


def _indexed(words: KeyPath, is_list: bool, counts: dict[KeyPath, int]) -> KeyPath:
    """The path of a table, with the positions in lists of tables, which its header does not contain."""
    whole: KeyPath = ()
    for position, word in enumerate(words):
        whole = (*whole, word)
        if is_list and position == len(words) - 1:
            counts[whole] = counts.get(whole, -1) + 1
        if whole in counts:
            whole = (*whole, counts[whole])
    return whole


def dotted(path: KeyPath) -> str:
    """A path as people write it: `hooks[0].on`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += f".{part}" if shown else part
    return shown
