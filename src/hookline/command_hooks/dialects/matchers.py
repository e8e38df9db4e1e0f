"""Matchers: which tool, source or trigger a hook is for. Each dialect composes its own of these.

They are compiled when a file is read, so that a wrong one is reported then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from hookline.command_hooks.dialect import NameTest
from hookline.errors import UsageError

_LONGEST = 2000
NAMES = re.compile(r"[A-Za-z0-9_\- ,|]+")
_NARROW = re.compile(r"[A-Za-z0-9_|]+")
_JS_NAMED = re.compile(r"\(\?<(?![=!])")
_NESTED = re.compile(r"\([^()]*[+*][^()]*\)\s*[+*{]")


def everything(_names: Sequence[str]) -> bool:
    """Matches everything."""
    return True


def one_of(names: Iterable[str]) -> NameTest:
    """Matches exact names."""
    wanted = frozenset(name.strip() for name in names)
    return lambda given: any(name in wanted for name in given)


@lru_cache(maxsize=4096)
def expression(text: str, *, shown: str | None = None) -> NameTest:
    """Matches what a regular expression finds, anywhere. A wrong expression is a UsageError."""
    compiled = _compiled(text, text if shown is None else shown)
    # Names are short, but the text of a command may be long: only its beginning is searched.
    return lambda given: any(compiled.search(name[:_LONGEST]) for name in given)


def whole_expression(text: str) -> NameTest:
    """Matches what a regular expression finds, if it is the whole name."""
    return expression(f"^(?:{text})$", shown=text)


@lru_cache(maxsize=4096)
def names_or_expression(text: str, *, narrow: bool = False) -> NameTest:
    """Exact names between `|` or `,`, if there is nothing else in the text; else an expression, found anywhere.

    `narrow` allows fewer characters in names.
    """
    if text in ("", "*"):
        return everything
    if (_NARROW if narrow else NAMES).fullmatch(text):
        return one_of(re.split(r"[|,]", text))
    return expression(text)


def _compiled(text: str, shown: str) -> re.Pattern[str]:
    if len(text) > _LONGEST:
        raise UsageError(
            f"the matcher '{shown[:60]}...' is longer than {_LONGEST} characters.",
            remedy="Write a shorter one, or several hooks.",
        )
    if _NESTED.search(text):
        raise UsageError(
            f"the matcher {shown!r} repeats what is repeated already, which can take forever.",
            remedy="Write it with one repetition: `(a+)+` is `a+`.",
        )
    try:
        return re.compile(_JS_NAMED.sub("(?P<", text).replace("[^]", r"[\s\S]"))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"the matcher {shown!r} is not a regular expression: {error}.",
            remedy="Correct it; names alone are written `Edit|Write`.",
        ) from None
