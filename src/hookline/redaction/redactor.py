"""Takes secrets out of texts, JSON values, exceptions and logs: by pattern, by name and by value."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import traceback
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from hookline.errors import HooklineError, UsageError
from hookline.redaction.commands import argument_spans, command_spans
from hookline.redaction.names import (
    is_hidden,
    is_secret_name,
    laid_out_spans,
    named_spans,
    pattern_for_names,
    spans_behind,
)
from hookline.redaction.readings import MARGIN, Span, find_in_readings
from hookline.redaction.secret_encodings import SecretPatterns, cuts_in
from hookline.redaction.tokens import kubernetes_spans, tokens_in

Values: TypeAlias = Iterable[str] | Mapping[str, str]
Patterns: TypeAlias = Mapping[str, str | re.Pattern[str]]

_SHORTEST = 5
"""A shorter value occurs in many texts by chance."""
_KIND = re.compile(r"[^a-z0-9_.-]+")
_REMEMBERED, _MOST_REMEMBERED = 200, 4_096
"""Characters of a text that is remembered as clean, and how many of them."""
_LEARNT = 6
"""Letters of a secret that is known for the rest of the process once it was taken out of a call."""
_MOST_LEARNT = 256
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_CONTINUED = re.compile(r"\\\r?\n|(?<!\\)\\{3}n")
"""Where a shell continues a line; in a JSON text that is an escape."""
_LOG_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_MOST_PASSES = 16
"""Taking a secret out may uncover another. Two passes are usual."""


class Redactor:
    """Takes secrets out of texts, JSON values and exceptions. Redacted text does not change again.

    - `values`: known secrets, as a list, or by the name for their marks;
    - `environment`: environment variables whose values are secrets; those that are not set are left out;
    - `patterns`: regular expressions of your own, by kind; a group `secret` is what is taken out;
    - `names`: more names of fields and variables that hold secrets.
    """

    def __init__(
        self,
        *,
        values: Values = (),
        environment: Iterable[str] = (),
        patterns: Patterns | None = None,
        names: Iterable[str] = (),
    ) -> None:
        known = dict(_named_values(values))
        for name in _texts(environment, "environment"):
            if value := os.environ.get(name, "").strip():
                known[value] = name
        for value, name in known.items():
            _check(value, name)
        self._known = {value: (_kind(name), SecretPatterns(value)) for value, name in known.items()}
        self._patterns = tuple(
            (_kind(kind), _compile(kind, each))
            for kind, each in _check_patterns(patterns or {}).items()
        )
        self._names = frozenset(name.lower() for name in _texts(names, "names"))
        self._named_values = pattern_for_names(self._names) if self._names else None
        self._clean: set[tuple[str, bool]] = set()
        """Short texts without secrets: the records of a run repeat the same ids and names."""

    def text(self, text: str, *, by_name: bool = True, before: str = "") -> str:
        """A text without secrets. With `by_name=False` only what is certainly one is taken out: tokens and values.

        `before` is the text directly before it, which is not returned: a secret may have begun there.
        """
        if (text, by_name) in self._clean and not before:
            return text
        whole, start = before + text, len(before)
        for _ in range(_MOST_PASSES):
            changed, start = self._once(whole, by_name, start)
            if changed == whole:
                break
            whole = changed
        if whole == text and len(text) <= _REMEMBERED:
            if len(self._clean) >= _MOST_REMEMBERED:
                self._clean.clear()
            self._clean.add((text, by_name))
        return whole[start:]

    def learn(self, before: Any, after: Any) -> None:
        """From now on take out, everywhere, what was taken out of a value."""
        if isinstance(before, str) and isinstance(after, str):
            for secret in _find_removed(before, after):
                self._add(_CONTINUED.sub("", secret).strip("\"' \t\n"))
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            for one, other in zip(before.values(), after.values(), strict=False):
                self.learn(one, other)
        elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
            for one, other in zip(before, after, strict=False):
                self.learn(one, other)

    def _add(self, secret: str) -> None:
        is_ordinary = (
            len(secret) < _LEARNT
            or secret.isdigit()
            or secret in "[redacted:known-value secret password]"
        )
        if is_ordinary or secret in self._known or len(self._known) >= _MOST_LEARNT:
            return
        self._known = {**self._known, secret: ("secret", SecretPatterns(secret))}
        self._clean.clear()

    def value(self, value: Any, *, by_name: bool = True, by_field: bool = True) -> Any:
        """A JSON value without secrets; the same object if there were none.

        With `by_field=False` a name counts in a text only (`password=...`), and not as the name of a field.
        """
        if isinstance(value, str):
            return self.text(value, by_name=by_name)
        if isinstance(value, Mapping):
            return self._mapping(value, by_name, by_name and by_field)
        if isinstance(value, list | tuple):
            items = [self.value(each, by_name=by_name, by_field=by_field) for each in value]
            if all(isinstance(each, str) for each in items):
                items = _without_arguments(items)
            return value if all(map(_is_identical, items, value)) else items
        if isinstance(value, int | float) and not isinstance(value, bool) and self._known:
            return self._number(value)
        return value

    def exception(self, error: BaseException) -> None:
        """Take secrets out of what an exception says, in place, and of those that led to it."""
        seen: set[int] = set()
        left = [error]
        while left:
            one = left.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            self._redact_error(one)
            left += [each for each in (one.__cause__, one.__context__) if each is not None]
            left += getattr(one, "exceptions", ())

    def __repr__(self) -> str:
        known, more = len(self._known), len(self._patterns) + len(self._names)
        return f"<Redactor, {known} known values, {more} more patterns and names>"

    def _redact_error(self, error: BaseException) -> None:
        error.args = tuple(self.value(each) for each in error.args)
        if isinstance(error, HooklineError):
            error.message, error.remedy = self.text(error.message), self.text(error.remedy)
        notes = getattr(error, "__notes__", None)
        if notes:
            notes[:] = [self.value(note) for note in notes]

    def _mapping(
        self, value: Mapping[Any, Any], by_name: bool, by_field: bool, *, is_secret: bool = False
    ) -> Any:
        items: dict[Any, Any] = {}
        made: Any
        is_same = True
        paired = _paired_name(value) if by_field else ""
        is_secret = by_field and (is_secret or value.get("kind") == "Secret")
        is_list = by_field and value.get("kind") == "SecretList"
        for key, each in value.items():
            name = self.text(key, by_name=by_name) if isinstance(key, str) else key
            if is_secret and key in ("data", "stringData") and isinstance(each, Mapping):
                marks = {name: mark("secret") for name in each}
                made = each if marks == each else marks
            elif is_list and key == "items" and isinstance(each, list):
                made = self._secrets(each)
            elif by_field and isinstance(key, str):
                made = self._redact_field(
                    paired if paired and key.lower() == "value" else key, each
                )
            else:
                made = self.value(each, by_name=by_name, by_field=by_field)
            is_same = is_same and name == key and made is each
            items[name] = made
        return value if is_same else items

    def _secrets(self, items: list[Any]) -> list[Any]:
        """The items of a list of Kubernetes: they do not say themselves that they are Secrets."""
        made = [
            self._mapping(each, True, True, is_secret=True) if isinstance(each, Mapping) else each
            for each in items
        ]
        return items if all(map(_is_identical, made, items)) else made

    def _redact_field(self, name: str, value: Any) -> Any:
        """The value of a field: hidden as a whole, or searched."""
        is_ours = name.lower() in self._names
        if isinstance(value, str):
            is_secret = is_hidden(name, value) or (is_ours and value.strip() != "")
            return self._hide(value) if is_secret else self.text(value)
        is_strong = is_ours or is_secret_name(name) == "strong"
        if isinstance(value, list) and is_strong:
            items = [self._redact_field(name, each) for each in value]
            return value if all(map(_is_identical, items, value)) else items
        if isinstance(value, int | float) and not isinstance(value, bool) and is_strong:
            return mark("secret")
        return self.value(value)

    def _hide(self, value: str) -> str:
        """A whole value that is a secret, under the kind that it has anywhere else."""
        if MARK.fullmatch(value):
            return value
        for start, end, kind in self._certain(value):
            if (start, end) == (0, len(value)):
                return mark(kind)
        return mark("secret")

    def _number(self, value: float) -> Any:
        written = repr(value)
        for known, (kind, _) in self._known.items():
            if known in written:
                return mark(kind)
        return value

    def _once(self, text: str, by_name: bool, start: int) -> tuple[str, int]:
        is_local = not self._patterns and max(map(len, self._known), default=0) <= MARGIN
        find = functools.partial(self._spans, by_name)
        spans = list(find_in_readings(text, find, is_local=is_local))
        if not spans:
            return text, start
        marks = [found.span() for found in MARK.finditer(text)]
        return _replace_spans(text, [span for span in spans if not _is_within(span, marks)], start)

    def _spans(self, by_name: bool, text: str, is_as_written: bool) -> Iterator[Span]:
        yield from self._certain(text, is_as_written)
        if by_name:
            yield from self._find_by_name(text)

    def _certain(self, text: str, is_as_written: bool = True) -> Iterator[Span]:
        lowered = text.lower()
        cuts = cuts_in(text) if self._known else []
        for kind, spelled in self._known.values():
            for start, end in (*spelled.spans(text, lowered), *spelled.ends(text, cuts)):
                yield start, end, kind
        yield from tokens_in(text, lowered)
        yield from command_spans(text, lowered)
        yield from kubernetes_spans(text, is_as_written)
        for kind, pattern in self._patterns:
            group = "secret" if "secret" in pattern.groupindex else 0
            for found in pattern.finditer(text):
                start, end = found.span(group)
                if start < end:
                    yield start, end, kind

    def _find_by_name(self, text: str) -> Iterator[Span]:
        if "=" not in text and ":" not in text and "</" not in text:
            return  # no name has a value here, as in most texts
        yield from named_spans(text)
        yield from laid_out_spans(text)
        if self._named_values is not None:
            yield from spans_behind(self._named_values, text)


@functools.lru_cache(maxsize=1)
def _default() -> Redactor:
    return Redactor()


def redact(text: str) -> str:
    """A text without what looks like a secret. For values you know, make a `Redactor`."""
    return _default().text(text)


def redact_value(value: Any) -> Any:
    """A JSON value without what looks like a secret, or has a name like `password`."""
    return _default().value(value)


class RedactingFilter(logging.Filter):
    """Takes secrets out of log records: `handler.addFilter(RedactingFilter())`.

    Add it to handlers: a filter of a logger does not see the records of loggers below it.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, without secrets in its message, its traceback and what was added to it."""
        redact = self._redactor
        try:
            said = record.getMessage()
        except Exception:  # arguments that do not fit: logging says so, with all of them
            said = f"{record.msg!r} with {record.args!r}"
        record.msg, record.args = redact.text(said), ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_info = None
        if record.exc_text:
            record.exc_text = redact.text(record.exc_text)
        if record.stack_info:
            record.stack_info = redact.text(record.stack_info)
        for name, value in list(vars(record).items()):
            if name not in _LOG_FIELDS:
                setattr(record, name, redact.value({name: value})[name])
        return True


# --- spans --------------------------------------------------------------------------------------------


def _replace_spans(text: str, spans: list[Span], place: int) -> tuple[str, int]:
    """A text with a mark in place of each span. Spans that overlap are one, of the kind that was found first.

    Also returns where `place` is now. A mark for a span on both sides of it comes after it.
    """
    kept: list[str] = []
    position, now_at = 0, place
    for start, end, kind in _merge_spans(spans):
        kept += [text[position:start], mark(kind)]
        position = end
        if end <= place:
            now_at += len(kept[-1]) - (end - start)
        elif start < place:
            now_at -= place - start
    return "".join((*kept, text[position:])), now_at


def _find_removed(before: str, after: str) -> Iterator[str]:
    """What was in a text where marks are now, if it was found by its name. Others are recognised by their form."""
    marks = ["", *(found[0] for found in MARK.finditer(after))]
    position = 0
    for marked, piece in zip(marks, MARK.split(after), strict=True):
        found = before.find(piece, position)
        if found < 0:
            return
        if marked == mark("secret"):
            yield before[position:found] if piece else before[position:]
        position = found + len(piece)


def _without_arguments(words: list[str]) -> list[str]:
    """The arguments of a program with a mark in place of each secret."""
    named = (
        (index, 0, len(word))
        for index, (option, word) in enumerate(pairwise(words), 1)
        if _OPTION.fullmatch(option) and word[:1] != "-" and is_hidden(option.lstrip("-"), word)
    )
    for index, start, end in sorted({*argument_spans(words), *named}, reverse=True):
        word = words[index]
        if not MARK.search(word, start):
            words[index] = f"{word[:start]}{mark('secret')}{word[end:]}"
    return words


def _merge_spans(spans: list[Span]) -> Iterator[Span]:
    found_as = {id(span): place for place, span in enumerate(spans)}
    current: Span | None = None
    for span in sorted(spans, key=lambda each: (each[0], each[1])):
        if current is None or span[0] >= current[1]:
            if current is not None:
                yield current
            current = span
            continue
        first = min(current, span, key=lambda each: found_as.get(id(each), 0))
        current = (current[0], max(current[1], span[1]), first[2])
        found_as[id(current)] = found_as.get(id(first), 0)
    if current is not None:
        yield current


def _is_within(span: Span, marks: list[tuple[int, int]]) -> bool:
    """Whether a span is part of a mark; marks are in order."""
    place = bisect_right(marks, (span[0], sys.maxsize)) - 1
    return place >= 0 and span[1] <= marks[place][1]


def _is_identical(one: object, other: object) -> bool:
    return one is other


def _paired_name(value: Mapping[Any, Any]) -> str:
    """The name in `{"name": "DB_PASSWORD", "value": "..."}`, as lists of variables are written."""
    for key in ("name", "key", "Name", "Key"):
        if isinstance(name := value.get(key), str) and ("value" in value or "Value" in value):
            return name
    return ""


# --- what is given ------------------------------------------------------------------------------------


def _named_values(values: Values) -> Iterator[tuple[str, str]]:
    if isinstance(values, Mapping):
        texts = _texts(values.values(), "values")
        yield from zip((text.strip() for text in texts), values, strict=True)
        return
    for value in _texts(values, "values"):
        yield value.strip(), "known-value"


def _texts(given: Iterable[str], what: str) -> list[str]:
    if isinstance(given, str):
        raise UsageError(f"{what}= takes a list, not one text.", remedy=f"Write {what}=[...].")
    texts = list(given)
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{what}= takes texts, not {type(text).__name__}.")
    return texts


def _check(value: str, name: str) -> None:
    """Refuse a value that cannot be distinguished from other text, without showing it."""
    if len(value) < _SHORTEST:
        raise UsageError(
            f"the secret '{name}' has {len(value)} letters, which occur in many texts by chance.",
            remedy=f"Give values of at least {_SHORTEST} letters; for shorter ones, name the field: names=[...].",
        )
    if re.search(re.escape(value), "[redacted:known-value secret password]", re.IGNORECASE):
        raise UsageError(
            f"the secret '{name}' is a part of the mark that would replace it.",
            remedy="Choose another secret.",
        )


def _kind(name: str) -> str:
    return _KIND.sub("-", name.lower()).strip("-") or "secret"


def _check_patterns(patterns: object) -> Patterns:
    if not isinstance(patterns, Mapping):
        raise UsageError(
            f"patterns= takes them by kind, not as {type(patterns).__name__}.",
            remedy='Write patterns={"ticket": r"T-[0-9]+"}: the mark is then [redacted:ticket].',
        )
    return patterns


def _compile(kind: str, pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"the pattern for '{kind}' is not a regular expression: {error}.",
            remedy="Correct it. For plain text, use re.escape(text).",
        ) from None


# --- marks: what replaces a secret --------------------------------------------------------------


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
        return value == shown or _is_made_of_words(value, shown)
    if isinstance(value, Mapping) and isinstance(shown, Mapping):
        return value.keys() == shown.keys() and all(
            _is_readable(each, shown[name]) for name, each in value.items()
        )
    if isinstance(value, list | tuple) and isinstance(shown, list | tuple):
        return len(value) == len(shown) and all(map(_is_readable, value, shown))
    return bool(value == shown) or (isinstance(value, int | float) and _is_hidden(shown))


def _is_made_of_words(text: str, shown: str) -> bool:
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
