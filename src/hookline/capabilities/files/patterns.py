"""Patterns for paths: `*`, `?`, `[a-z]`, `{a,b}` and `**`. Matching takes time in proportion to path and pattern."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hookline.errors import ToolError

_MOST_ALTERNATIVES = 100
_ANY_DEPTH = "**"
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
"""Braces that have a comma and no other braces in them."""


class GlobPattern(NamedTuple):
    """A pattern, taken apart at its slashes."""

    parts: tuple[str, ...]
    hidden: bool = False
    """Whether `*`, `?` and `**` stand for names that begin with a dot too."""

    def matches(self, path: Sequence[str]) -> bool:
        """Whether the path fits as a whole."""
        return len(self.parts) in self._places(path)

    def leads_to(self, directory: Sequence[str]) -> bool:
        """Whether something in this directory, or further down, could fit."""
        return any(place < len(self.parts) for place in self._places(directory))

    def _places(self, path: Sequence[str]) -> set[int]:
        """How much of the pattern may have been used up after this path: all possibilities at once."""
        places = self._with_skips({0})
        for name in path:
            after = set()
            for place in places:
                if place == len(self.parts):
                    continue
                part = self.parts[place]
                if part == _ANY_DEPTH:
                    if self.hidden or not name.startswith("."):
                        after.add(place)
                elif name_matches(part, name, self.hidden):
                    after.add(place + 1)
            places = self._with_skips(after)
        return places

    def _with_skips(self, places: set[int]) -> set[int]:
        """`**` may stand for nothing."""
        found = set(places)
        for place in places:
            while place < len(self.parts) and self.parts[place] == _ANY_DEPTH:
                place += 1
                found.add(place)
        return found


def path_patterns(text: str, *, hidden: bool, any_depth: bool = False) -> tuple[GlobPattern, ...]:
    """The patterns a text stands for, one for each of its alternatives.

    With `any_depth` one without a slash is about names, wherever they are.
    """
    made = []
    for each in alternatives(text):
        parts = [part for part in each.split("/") if part not in ("", ".")]
        if any_depth and len(parts) == 1:
            parts.insert(0, _ANY_DEPTH)
        if parts and parts[-1] == _ANY_DEPTH:
            parts.append("*")  # everything below, and not the directory itself
        made.append(GlobPattern(tuple(parts), hidden))
    return tuple(made)


def alternatives(text: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`, to any depth. Braces without a comma, or that are not closed, are plain characters."""
    done: list[str] = []
    waiting = [text]
    while waiting:
        each = waiting.pop(0)
        found = _BRACES.search(each)
        if found is None:
            done.append(each)
        else:
            before, after = each[: found.start()], each[found.end() :]
            waiting += [before + word + after for word in found[1].split(",")]
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise ToolError(
                f"the pattern '{text[:100]}' stands for more than {_MOST_ALTERNATIVES} patterns.",
                remedy="Use fewer alternatives in braces.",
            )
    return list(dict.fromkeys(done))


_CLASS = re.compile(
    r"[!^]?(?:\[:\w*:\]|(?!\[:\w*:\]).)(?:\[:\w*:\]|(?!\[:\w*:\])[^\]])*\]", re.DOTALL
)
"""What follows a `[`, to the `]` that ends it: one that comes first is a plain character."""
_NAMED = re.compile(r"\[:(\w*):\]")
_KINDS = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": r" \t\n\r\f\v",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "punct": r"!-/:-@\[-`{-~",
    "graph": "!-~",
    "print": " -~",
}
"""`[[:digit:]]` and its like, as `.gitignore` files have them."""


@functools.lru_cache(maxsize=512)
def _compile(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(_expression(pattern), re.DOTALL).fullmatch


def name_matches(pattern: str, name: str, hidden: bool) -> bool:
    """Whether one name fits one part of a pattern."""
    if not hidden and name.startswith(".") and not pattern.startswith((".", "\\.")):
        return False
    return _compile(pattern)(name) is not None


def _expression(pattern: str) -> str:
    """One part of a pattern as a regular expression that never goes back behind a `*` it is done with."""
    pieces = [""]
    for token in _tokens(pattern):
        if token == "*":
            pieces.append("")
        else:
            pieces[-1] += token
    if len(pieces) == 1:
        return pieces[0]
    # The first place where a piece fits is as good as any later one, so that is settled (an atomic group).
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{middle}.*{pieces[-1]}"


def _tokens(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            yield "*"
        elif char == "?":
            yield "."
        elif char == "\\" and at < len(pattern):
            yield re.escape(pattern[at])
            at += 1
        elif char == "[" and (found := _CLASS.match(pattern, at)):
            yield _class(found[0][:-1])
            at = found.end()
        else:
            yield re.escape(char)


def _class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    body = inside[1:] if negated else inside
    parts = _NAMED.split(body)
    if not _KINDS.keys() >= set(parts[1::2]):
        return r"[^\s\S]"  # as for git, which has no such kind either
    plain, kinds = "".join(parts[::2]), "".join(_KINDS[name] for name in parts[1::2])
    safe = kinds + "".join(f"\\{char}" if char in "\\[]^&~|" else char for char in plain)
    try:
        re.compile(f"[{safe}]")
    except re.error:  # a range that runs backwards fits nothing
        return r"[^\s\S]" if not negated else "."
    return f"[{'^' * negated}{safe}]"
