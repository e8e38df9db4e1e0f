"""Marks: what replaces a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookline.redaction.names import is_secret_name

MARK = re.compile(r"\[redacted:[a-z0-9_.-]+\]")
_MARKS = re.compile(rf"(?:{MARK.pattern})+")
_WORD = re.compile(r"(?:[^\s\"'`\\;|&<>(){}$]|\$(?=\w))+")
"""Text that cannot be more than one word, and runs nothing, whatever quotes are around it."""


def mark(kind: str) -> str:
    """The mark for a kind of secret. For a kind that begins with a quote, the mark is quoted."""
    name = kind.lstrip("\\\"'`")
    quote = kind[: len(kind) - len(name)]
    return f"{quote}[redacted:{name}]{quote}"


def has_mark(value: Any) -> bool:
    """Whether there is a mark in a JSON value."""
    if isinstance(value, str):
        return MARK.search(value) is not None
    if isinstance(value, Mapping):
        return any(has_mark(each) for each in value.values())
    return isinstance(value, list | tuple) and any(map(has_mark, value))


def hides_only_words(args: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether each mark in `shown` replaces one plain word of the arguments, so that a reader sees all that matters.

    Otherwise a command could be hidden as the value of a variable, between `"$(` and `)"`. An argument whose name says
    that it is a secret is only a value to its tool, whatever is in it.
    """
    return all(
        name in shown
        and (
            (_is_hidden(shown[name]) and is_secret_name(name) == "strong")
            or _is_readable(value, shown[name])
        )
        for name, value in args.items()
    )


def _is_hidden(shown: Any) -> bool:
    return isinstance(shown, str) and MARK.fullmatch(shown) is not None


def _is_readable(value: Any, shown: Any) -> bool:
    if isinstance(value, str) and isinstance(shown, str):
        return value == shown or _stands_for_words(value, shown)
    if isinstance(value, Mapping) and isinstance(shown, Mapping):
        return value.keys() == shown.keys() and all(
            _is_readable(each, shown[name]) for name, each in value.items()
        )
    if isinstance(value, list | tuple) and isinstance(shown, list | tuple):
        return len(value) == len(shown) and all(map(_is_readable, value, shown))
    return bool(value == shown) or (isinstance(value, int | float) and _is_hidden(shown))


def _stands_for_words(text: str, shown: str) -> bool:
    """Whether the text is `shown` with a word in place of each mark. Each part is searched once."""
    first, *others = _MARKS.split(shown)
    if not others or not text.startswith(first):
        return False
    position = len(first)
    for place, part in enumerate(others):
        is_last = place == len(others) - 1
        end = len(text) - len(part) if is_last else text.find(part, position + 1)
        if end <= position or not text.startswith(part, end):
            return False
        if _WORD.fullmatch(text, position, end) is None:
            return False
        position = end + len(part)
    return True
