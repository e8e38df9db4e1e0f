"""Variables that a line sets itself: what they may be, wherever they are used.

A word with one such variable in it (`"$d/package.json"`, `:$port`) is looked at as what it comes to, if every value
that the line gives to the variable is known.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from hookline.containment.shell.words import Command, Word, pieces_of

_USED = re.compile(
    r"((?:~/)?[\w./@%+:^*?\[\]=,-]*)\$\{([A-Za-z_][A-Za-z0-9_]*)\}([\w./@%+:^*?\[\]=,-]*)"
)
_NAME = re.compile(r"[\w./@%+:^*?\[\]-]+")
"""A pattern of files that is nothing else. With a brace or a tilde in it, more would happen to it."""
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
            if known is None or given is None or not all(map(_is_known, given)):
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


def _is_known(value: Word) -> bool:
    return value.exact or (not value.hidden and _NAME.fullmatch(value.text) is not None)


def spelled_out(words: Sequence[Word], values: Values) -> list[tuple[Word, ...]]:
    """The words of a command with variables replaced by what they may be: one list for each value."""
    used = {found[2] for word in words if (found := _use_in(word))}
    known = {name: given for name in sorted(used) if (given := values.get(name))}
    if not known or math.prod(map(len, known.values())) > _MOST:
        return [tuple(words)]
    choices = itertools.product(*known.values())
    named = (dict(zip(known, choice, strict=True)) for choice in choices)
    return [tuple(itertools.chain(*(_replaced(word, one) for word in words))) for one in named]


def _use_in(word: Word) -> re.Match[str] | None:
    return None if word.exact else _USED.fullmatch(word.text)


def _replaced(word: Word, values: Mapping[str, Word]) -> list[Word]:
    """What a word comes to: outside of quotes bash takes a value apart, and takes its pieces for patterns."""
    found = _use_in(word)
    value = values.get(found[2]) if found else None
    if found is None or value is None:
        return [word]
    text = f"{found[1]}{value.text}{found[3]}"
    if word.whole:
        return [_whole(text, exact=value.exact)]
    if not value.exact or text.startswith("~"):  # the names of files may have blanks in them
        return [word]
    return [_piece(piece) for piece in pieces_of(text)]


def _whole(text: str, *, exact: bool) -> Word:
    if text.startswith("~/"):
        return Word(text, exact=False, prefix="/", whole=True)
    if exact:
        return Word(text)
    return Word(text, exact=False, prefix=_PATTERN.split(text, maxsplit=1)[0], whole=True)


def _piece(text: str) -> Word:
    start = _PATTERN.split(text, maxsplit=1)[0]
    if start == text:
        return Word(text)
    return Word(text, exact=False, prefix=start, hidden="\\" in text)
