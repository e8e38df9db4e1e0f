"""Tokens that are known by their looks: those of cloud providers, code hosts, models, and keys in general.

Each pattern reads every part of a text at most a fixed number of times: runs of letters are bounded, or cannot contain
what begins the pattern. So hostile text costs no more than other text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TypeAlias

from hookline.secret_tables import TOKENS

Span: TypeAlias = tuple[int, int, str]
"""Where a secret begins and ends, and of what kind it is."""


_PATTERNS = tuple((token, re.compile(token.pattern)) for token in TOKENS)
_SHORTEST = 8
"""No token is shorter."""

_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_NUMBER = r"(?:\t\d{1,7} {0,8}|(?: {0,4}>){1,8})?"
_BODY_REVERSED = re.compile(
    rf"{_NUMBER}(?:(?:\n\r?|n\\(?:r\\)?)={{0,2}}(?:(?!n\\)[A-Za-z0-9+/]){{1,80}}{_NUMBER})+"
)
"""Lines of base64, last letter first, each perhaps with its number in a file before it, or quoted as in a mail."""
_LONGEST_BODY = 20_000
_LEAST_OF_A_KEY = 24
"""Letters before the end of a key that are no word of the text around it."""


def token_spans(text: str, lowered: str | None = None) -> Iterator[Span]:
    """Where tokens are in a text, in the order of their kinds. They may overlap."""
    if len(text) < _SHORTEST:
        return
    lowered = text.lower() if lowered is None else lowered
    for token, pattern in _PATTERNS:
        if not any(hint in lowered for hint in token.hints):
            continue
        group = "secret" if "secret" in pattern.groupindex else 0
        for found in pattern.finditer(text):
            if token.is_loose and not _is_random(found[0]):
                continue
            if token.kind == "basic-auth" and not _is_user_and_password(found[group]):
                continue
            start, end = found.span(group)
            yield start, end, token.kind
    if "-----end" in lowered:
        yield from _ends_of_keys(text)


def _ends_of_keys(text: str) -> Iterator[Span]:
    """Private keys of which the beginning was left out, by `tail` say. They are read backwards, each part once."""
    after = 0
    for found in _KEY_END.finditer(text):
        before = text[max(after, found.start() - _LONGEST_BODY) : found.start()]
        body = _BODY_REVERSED.match(before[::-1])
        if body is not None and body.end() >= _LEAST_OF_A_KEY:
            yield found.start() - body.end(), found.end(), "private-key"
        after = found.end()


_WORD = re.compile(r"[A-Za-z0-9]+")
_MIXED = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)")
_LETTER_AND_DIGIT = re.compile(r"(?=\d*[A-Za-z])(?=\D*\d)")


def _is_user_and_password(packed: str) -> bool:
    """Whether base64 holds `user:password`, as the header `Basic` has it. "Basic" is a word of other texts, too."""
    whole = packed.rstrip("=")
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        content = base64.urlsafe_b64decode(
            whole.replace("+", "-").replace("/", "_") + "=" * (-len(whole) % 4)
        )
    except ValueError:
        return False
    return b":" in content


def _is_random(token: str) -> bool:
    """Whether some part of a token is no word and no number: `pk_users_email_2024` is the name of something."""
    return any(
        _MIXED.match(word) or (len(word) >= 12 and _LETTER_AND_DIGIT.match(word))
        for word in _WORD.findall(token)
    )
