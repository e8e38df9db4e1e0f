"""Variables that a line sets itself: what they may be, wherever they are used.

A word with one such variable in it (`"$d/package.json"`, `:$port`) is looked at as what it comes to, if every value
that the line gives to the variable is known.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from hookline.containment.shell.words import Command, Word

_USED = re.compile(r"([^$]*)\$\{([A-Za-z_][A-Za-z0-9_]*)\}([^$]*)")
_PLAIN = re.compile(r"[\w./@%+:^*?\[\]-]+")
"""A value that bash does not take apart. With `=` or a tilde in it, the place would matter."""
_PATTERN = re.compile(r"[*?\[]")
_MOST = 24
"""How many ways there may be to spell out one command."""

Values = Mapping[str, Sequence[Word] | None]
"""What each variable may be; None where that is not known."""


def values_of(commands: Iterable[Command]) -> Values:
    """Every value that a line gives to its variables, also after their use: a loop comes round again."""
    values: dict[str, list[Word] | None] = {}
    begins = True
    for command in commands:
        begins = begins and not command.words
        for name, given in _settings(command, begins=begins):
            known = values.setdefault(name, [])
            if known is None or given is None or not all(map(_is_plain, given)):
                values[name] = None
            else:
                known += given
    return values


def _settings(command: Command, *, begins: bool) -> Iterable[tuple[str, list[Word] | None]]:
    """What a command sets. Of what is not set at the very beginning it is not certain that it is set at all."""
    words = command.words
    if not words:
        return [(name, [value] if begins else None) for name, value in command.assignments]
    if words[0] == Word("for"):
        return [(words[1].text, list(words[3:]))]
    if any(word == Word("read") for word in words):
        return [(word.text, None) for word in words]
    return []


def _is_plain(value: Word) -> bool:
    known = value.exact or not value.hidden
    return known and "$" not in value.text and _PLAIN.fullmatch(value.text) is not None


def spelled_out(words: Sequence[Word], values: Values) -> list[tuple[Word, ...]]:
    """The words of a command with variables replaced by what they may be: one list for each value."""
    used = {found[2] for word in words if (found := _use_in(word))}
    known = {name: given for name in sorted(used) if (given := values.get(name))}
    if not known or math.prod(map(len, known.values())) > _MOST:
        return [tuple(words)]
    choices = itertools.product(*known.values())
    named = (dict(zip(known, choice, strict=True)) for choice in choices)
    return [tuple(_replaced(word, one) for word in words) for one in named]


def _use_in(word: Word) -> re.Match[str] | None:
    return None if word.exact else _USED.fullmatch(word.text)


def _replaced(word: Word, values: Mapping[str, Word]) -> Word:
    found = _use_in(word)
    value = values.get(found[2]) if found else None
    if found is None or value is None:
        return word
    text = f"{found[1]}{value.text}{found[3]}"
    if text.startswith("~/") and _PLAIN.fullmatch(text[2:]):
        return Word(text, exact=False, prefix="/", whole=word.whole)
    if not _PLAIN.fullmatch(text):
        return word
    start = _PATTERN.split(text, maxsplit=1)[0]
    if start == text:
        return Word(text)
    return Word(text, exact=False, prefix=start, whole=word.whole)
