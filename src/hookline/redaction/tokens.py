"""Tokens that are recognised by their form: of cloud providers, code hosts, models, and keys in general.

Each pattern reads a part of a text only a fixed number of times: repeats are bounded, or cannot contain the beginning
of the pattern. So hostile text costs no more than other text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

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
"""Letters before the end of a key that cannot be a word of the surrounding text."""


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
    """Private keys without their beginning, for example from `tail`. They are read backwards, each part once."""
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
    """Whether a part of a token is neither a word nor a number: `pk_users_email_2024` is a name."""
    return any(
        _MIXED.match(word) or (len(word) >= 12 and _LETTER_AND_DIGIT.match(word))
        for word in _WORD.findall(token)
    )


# --- secrets of Kubernetes: all values below `data` and `stringData`, in YAML and in JSON -------


_Q = r"\\{0,3}[\"']"
_IS_SECRET = re.compile(rf"\bkind(?:{_Q})?[ \t]{{0,4}}:[ \t]{{0,4}}(?:{_Q})?Secret\b(?!\w)")
_DOCUMENT = re.compile(r"(?m)^---[ \t]{0,4}\r?$")
_BLOCK = re.compile(r"(?m)^(?P<indent>[ \t]{0,40}(?:- )?)(?P<name>data|stringData):[ \t]{0,8}\r?$")
_ENTRY = re.compile(
    r"\r?\n(?P<indent>[ \t]{1,60})(?:[\w.-]{1,253}:[ \t]{1,8})?[\"']?(?P<value>[^\s\"'#][^\r\n\"']*+)?[^\r\n]*+"
)
_OBJECT = re.compile(rf"{_Q}(?P<name>data|stringData){_Q}[ \t]{{0,4}}:\s{{0,8}}\{{")
_PAIR = re.compile(
    rf"\s{{0,64}},?\s{{0,64}}{_Q}[\w.-]{{1,253}}{_Q}[ \t]{{0,4}}:\s{{0,8}}{_Q}(?P<value>[^\"'\\]*+){_Q}"
)
_PACKED = re.compile(r"[A-Za-z0-9+/]{2,}+={0,2}")
_FIELDS = ("data", "stringData")


def is_kubernetes_secret(value: Mapping[Any, Any]) -> bool:
    """Whether a JSON object is a Secret."""
    return value.get("kind") == "Secret" and any(
        isinstance(value.get(name), Mapping) for name in _FIELDS
    )


def kubernetes_spans(text: str) -> Iterator[Span]:
    """Where a text has values of Secrets. It is read once for the blocks, and each block once for its values."""
    if "ecret" not in text or "ata" not in text or not _IS_SECRET.search(text):
        return
    start = 0
    for end in (*(found.start() for found in _DOCUMENT.finditer(text)), len(text)):
        if _IS_SECRET.search(text, start, end):
            yield from _in_yaml(text, start, end)
            yield from _in_json(text, start, end)
        start = end


def _in_yaml(text: str, start: int, end: int) -> Iterator[Span]:
    for block in _BLOCK.finditer(text, start, end):
        indent, position = len(block["indent"]), block.end()
        while (entry := _ENTRY.match(text, position, end)) and len(entry["indent"]) > indent:
            position = entry.end()
            value = (entry["value"] or "").strip()
            if value and _is_value(block["name"], value):
                yield entry.start("value"), entry.start("value") + len(value), "secret"


def _in_json(text: str, start: int, end: int) -> Iterator[Span]:
    for opened in _OBJECT.finditer(text, start, end):
        position = opened.end()
        while pair := _PAIR.match(text, position, end):
            position = pair.end()
            if pair["value"] and _is_value(opened["name"], pair["value"]):
                yield *pair.span("value"), "secret"


def _is_value(name: str, value: str) -> bool:
    """Whether a value belongs to a Secret: below `data` all are base64. Others belong to a ConfigMap beside it."""
    if name == "stringData":
        return value not in ("|", "|-", ">", ">-") and not value.startswith("[redacted:")
    return len(value) % 4 == 0 and _PACKED.fullmatch(value) is not None
