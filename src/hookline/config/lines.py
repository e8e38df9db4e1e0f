"""In which line of a TOML file a key is: Python's reader does not say."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]
"""The way to a value: `("hooks", 0, "on")`."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|#.*")
_WORD = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")


def line_of(text: str, path: Path) -> int | None:
    """The line, counted from one, where a value or the nearest table around it is written; None if that is nowhere."""
    best, found = 0, None
    counts: dict[Path, int] = {}
    table: Path = ()
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
        shared = _shared(here, path)
        if shared == len(here) and shared > best:
            best, found = shared, number
    return found


def deepest_line(text: str, most: int) -> int:
    """The first line where lists and tables are in each other more than so many times; else the deepest there is."""
    depth, deepest, found, inside = 0, 0, 1, 0
    for number, line in enumerate(text.splitlines(), start=1):
        bare = _STRING.sub("", line)
        header = _HEADER.match(line) if depth == 0 else None
        if header is not None:
            inside = depth_here = len(_words(header[2]))
        else:
            key = _KEY.match(line)
            inner = len(_words(key[1])) - 1 if key is not None and depth == 0 else 0
            depth_here = inside + inner + depth
            for char in bare:
                depth += (char in "[{") - (char in "]}")
                depth_here = max(depth_here, inside + inner + depth)
        if depth_here > deepest:
            deepest, found = depth_here, number
        if deepest > most:
            break
    return found


def _words(dotted: str) -> Path:
    return tuple(a or b or c for a, b, c in _WORD.findall(dotted))


def _indexed(words: Path, is_list: bool, counts: dict[Path, int]) -> Path:
    """The way to a table, with the places in lists of tables that its header leaves out."""
    whole: Path = ()
    for position, word in enumerate(words):
        whole = (*whole, word)
        if is_list and position == len(words) - 1:
            counts[whole] = counts.get(whole, -1) + 1
        if whole in counts:
            whole = (*whole, counts[whole])
    return whole


def _shared(here: Path, path: Path) -> int:
    shared = 0
    for mine, theirs in zip(here, path, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def dotted(path: Path) -> str:
    """A way as people write it: `hooks[0].on`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += f".{part}" if shown else part
    return shown
