"""Braces of bash: `{a,b}` and `{1..9}`."""

from __future__ import annotations

import re

MAX_VARIANTS = 100
_BRACES = re.compile(r"\{([^{}]*,[^{}]*|[0-9]{1,9}\.\.[0-9]{1,9}|[a-zA-Z]\.\.[a-zA-Z])\}")


def expanded(text: str) -> list[str]:
    """What braces come to; the text itself if that is too much."""
    done: list[str] = []
    pending = [text]
    while pending:
        one = pending.pop(0)
        found = _BRACES.search(one)
        if found is None:
            done.append(one)
        else:
            pending += [one[: found.start()] + x + one[found.end() :] for x in _choices(found[1])]
        if len(done) + len(pending) > MAX_VARIANTS:
            return [text]
    return done


def _choices(inner: str) -> list[str]:
    if "," in inner:
        return inner.split(",")
    first, _, last = inner.partition("..")
    if first.isdigit() and last.isdigit():
        low, high = sorted((int(first), int(last)))
        return [str(number) for number in range(low, min(high, low + MAX_VARIANTS) + 1)]
    low, high = sorted((ord(first), ord(last)))
    return [chr(code) for code in range(low, high + 1)]
