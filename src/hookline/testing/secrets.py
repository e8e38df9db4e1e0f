"""What must not be written down: keys however they are spelled, and whatever looks like one."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from hookline.errors import UsageError
from hookline.redaction import is_secret_name, spellings, token_spans
from hookline.secret_tables import SECRET_OF_REQUEST

SCRUBBED = "[scrubbed]"
"""What stands where a secret stood."""

ScrubRule: TypeAlias = str | re.Pattern[str] | Callable[[str], str]
"""A regular expression for what is to go, or a function that gives a text without it."""
_Span: TypeAlias = tuple[int, int]

_SHORTEST = 6
"""What is shorter may stand in any text by chance."""
_WORD = re.compile(r"[a-z_]+")
_CUT_OFF = 3
"""A word that is all of a secret but so many letters is no word."""
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])\S{16,}")
_OPEN_HEADERS = frozenset({"anthropic-beta", "host", "idempotency-key", "user-agent"})
"""Headers that look secret and are not."""
_SCHEMES = frozenset({"basic", "bearer", "token"})


class Scrubber:
    """Takes secrets out of texts and JSON values: those it learns of, the usual tokens, and what the user names."""

    def __init__(self, rules: ScrubRule | Iterable[ScrubRule] = ()) -> None:
        given = (rules,) if isinstance(rules, str | re.Pattern) or callable(rules) else rules
        self._patterns: list[re.Pattern[str]] = []
        self._functions: list[Callable[[str], str]] = []
        for rule in given:
            if isinstance(rule, str | re.Pattern):
                self._patterns.append(_compile(rule))
            elif callable(rule):
                self._functions.append(rule)
            else:
                raise UsageError(
                    f"scrub={rule!r} is not a regular expression or a function.",
                    remedy="Give a regular expression, or a function from text to text.",
                )
        self._known: set[str] = set()

    def learn(self, secrets: Iterable[str]) -> None:
        """These are secret wherever they turn up."""
        for secret in secrets:
            if len(secret) >= _SHORTEST and secret not in SCRUBBED and secret not in self._known:
                self._known.add(secret)
                self._patterns[:0] = spellings(secret)

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self.pieces([text])[0]

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other, without secrets, also without those that go across several of them.

        The last one may end in the middle of a secret: what is there of it goes, too.
        """
        joined = "".join(texts)
        spans = list(_merge_spans((*self._spans(joined), *self._find_begun(joined))))
        ends = accumulate(map(len, texts), initial=0)
        return [
            self._apply_functions(_scrub_spans(joined, *place, spans)) for place in pairwise(ends)
        ]

    def value(self, value: Any, clean: Callable[[str], str] | None = None) -> Any:
        """A JSON value without secrets. `clean` is asked for each text in it, in order, in place of `text`."""
        if isinstance(value, str):
            return (clean or self.text)(value)
        if isinstance(value, dict):
            made = {}
            for name, each in value.items():
                cleaned = self.value(each, clean)
                made[self.text(name)] = SCRUBBED if is_credential(name, each) else cleaned
            return made
        if isinstance(value, list):
            return [self.value(each, clean) for each in value]
        is_known = any(secret in json.dumps(value) for secret in self._known)
        return SCRUBBED if is_known else value  # a key may be nothing but digits

    def _spans(self, text: str) -> Iterator[_Span]:
        for pattern in self._patterns:
            group = "secret" if "secret" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                yield match.span(group)
        for start, end, _ in token_spans(text):
            yield start, end

    def _find_begun(self, text: str) -> Iterator[_Span]:
        """The beginning of a known secret at the very end, unless it is a word that happens to begin a secret."""
        is_word = _WORD.fullmatch(text) is not None
        for secret in self._known:
            start = max(0, len(text) - len(secret) + 1)
            while (start := text.find(secret[:_SHORTEST], start)) >= 0:
                rest = len(secret) - (len(text) - start)
                if secret.startswith(text[start:]) and not (is_word and rest > _CUT_OFF):
                    yield start, len(text)
                    break
                start += 1

    def _apply_functions(self, text: str) -> str:
        for function in self._functions:
            text = function(text)
            if not isinstance(text, str):
                raise UsageError(
                    f"the scrub function {function!r} made {type(text).__name__} of a text.",
                    remedy="Return the text, changed or not.",
                )
        return text


def _scrub_spans(text: str, start: int, end: int, spans: Iterable[_Span]) -> str:
    """A piece of a text without the spans; what replaces a span stands where the span begins."""
    kept: list[str] = []
    position = start
    for first, last in spans:
        if last <= position or first >= end:
            continue
        kept.append(text[position : max(position, first)])
        if first >= start:
            kept.append(SCRUBBED)
        position = min(last, end)
    return "".join((*kept, text[position:end]))


def _merge_spans(spans: Iterable[_Span]) -> Iterator[_Span]:
    """The spans in order; those that overlap or touch are one."""
    first, last = -1, -1
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if start > last:
            if last > first:
                yield first, last
            first, last = start, end
        last = max(last, end)
    if last > first:
        yield first, last


def is_credential(name: str, value: object) -> bool:
    """Whether a field of a body holds a key, going by its name."""
    return isinstance(value, str) and bool(value) and is_secret_name(name) == "strong"


# --- where keys are ------------------------------------------------------------------------------


def secrets_of(url: str, headers: Mapping[str, str]) -> Iterator[str]:
    """What is secret in a request's address and headers."""
    for name, value in parse_qsl(urlsplit(url).query):
        if SECRET_OF_REQUEST.search(name):
            yield value
    for name, value in headers.items():
        if name.lower() in _OPEN_HEADERS:
            continue
        if SECRET_OF_REQUEST.search(name):
            yield from _parts(value)
        elif _RANDOM.fullmatch(value):
            yield value


def secrets_of_environment() -> Iterator[str]:
    """The keys in the environment: a tool may print it, and the model may repeat that."""
    for name, value in os.environ.items():
        if is_secret_name(name) and _RANDOM.fullmatch(value):
            yield value


def open_query(query: str) -> str:
    """The query of an address without its secret parameters."""
    pairs = [part for part in query.split("&") if part]
    return "&".join(part for part in pairs if not SECRET_OF_REQUEST.search(part.partition("=")[0]))


def open_address(address: str) -> str:
    """An address without the secret parameters of its query."""
    place, mark, query = address.partition("?")
    return f"{place}{mark}{open_query(query)}"


def _parts(value: str) -> Iterator[str]:
    """A header's value, without its scheme, and what a scheme or a cookie packs into it."""
    scheme, _, rest = value.partition(" ")
    yield rest if scheme.lower() in _SCHEMES else value
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(rest).decode()
        except ValueError:
            return
        yield decoded
        yield decoded.partition(":")[2]
    for pair in value.split(";"):
        yield pair.partition("=")[2].strip()


def _compile(rule: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(rule)
    except re.error as error:
        raise UsageError(
            f"scrub={rule!r} is not a regular expression: {error}.",
            remedy="Correct it. For plain text, use re.escape(text).",
        ) from None
