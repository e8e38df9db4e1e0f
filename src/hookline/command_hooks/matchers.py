"""The matchers of the dialects: which tool, source or trigger a hook is for.

They are compiled when a file is read, so that a wrong one is told then, and not when it should have matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from hookline.errors import UsageError

Test: TypeAlias = Callable[[Sequence[str]], bool]
"""Whether a hook is for what has these names: a tool has one, and others that mean the same."""

_LONGEST = 2000
_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]+")
_NARROW = re.compile(r"[A-Za-z0-9_|]+")
_JS_NAMED = re.compile(r"\(\?<(?![=!])")
_NESTED = re.compile(r"\([^()]*[+*][^()]*\)\s*[+*{]")


def everything(_names: Sequence[str]) -> bool:
    """Matches all."""
    return True


@lru_cache(maxsize=4096)
def claude(text: str, *, narrow: bool = False) -> Test:
    """A list of exact names where it is written with nothing else; or a regular expression, found anywhere."""
    if text in ("", "*"):
        return everything
    if (_NARROW if narrow else _NAMES).fullmatch(text):
        return _one_of(part.strip() for part in re.split(r"[|,]", text))
    return _searching(text)


@lru_cache(maxsize=4096)
def gemini(text: str, *, is_tool: bool) -> Test:
    """For tools a regular expression, found anywhere; a wrong one is taken as it is written. Else exact texts, between
    `|`, as in published settings: `exit|logout`."""
    if text in ("", "*"):
        return everything
    if not is_tool:
        return _one_of(part.strip() for part in text.split("|"))
    try:
        return _searching(text)
    except UsageError:
        return _one_of((text,))


def codex(text: str) -> Test:
    """Exact names of letters, digits and `_`, between `|`; or a regular expression, found anywhere."""
    return claude(text, narrow=True)


@lru_cache(maxsize=4096)
def cursor(text: str) -> Test:
    """A regular expression, found anywhere."""
    return everything if text in ("", "*") else _searching(text)


@lru_cache(maxsize=4096)
def copilot(text: str) -> Test:
    """A regular expression over the whole of the name."""
    return everything if text in ("", "*", "**") else _searching(f"^(?:{text})$", shown=text)


@lru_cache(maxsize=4096)
def vscode(text: str) -> Test:
    """Exact names between `|`; or a regular expression over the whole of the name."""
    if text in ("", "*", "**"):
        return everything
    if _NAMES.fullmatch(text):
        return claude(text)
    return copilot(text)


def _one_of(names: object) -> Test:
    wanted = frozenset(names)  # type: ignore[call-overload]
    return lambda given: any(name in wanted for name in given)


def _searching(text: str, *, shown: str | None = None) -> Test:
    expression = _compiled(text, text if shown is None else shown)
    # Names are short; the text of a command may not be, and an expression must not take for ever over it.
    return lambda given: any(expression.search(name[:_LONGEST]) for name in given)


def _compiled(text: str, shown: str) -> re.Pattern[str]:
    if len(text) > _LONGEST:
        raise UsageError(
            f"the matcher '{shown[:60]}...' is longer than {_LONGEST} characters.",
            remedy="Write a shorter one, or several hooks.",
        )
    if _NESTED.search(text):
        raise UsageError(
            f"the matcher {shown!r} repeats what is repeated already, which can take for ever.",
            remedy="Write it with one repetition: `(a+)+` is `a+`.",
        )
    try:
        return re.compile(_JS_NAMED.sub("(?P<", text).replace("[^]", r"[\s\S]"))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"the matcher {shown!r} is not a regular expression: {error}.",
            remedy="Correct it; names alone are written `Edit|Write`.",
        ) from None
