"""What the open words of a line may be, so that a command can be looked at with each of their values.

Any value may be there when a command runs, those that are set further down too: a loop comes round again. A value that
is what a command prints is not among these, and is asked about where it matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from hookline.containment.shell.reach import MAY_BE_UNSET
from hookline.containment.shell.words import Command, Word, pieces_of

MAX_VARIANTS = 100
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_PATTERN = re.compile(r"[*?\[\\]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*|[0-9]{1,9}\.\.[0-9]{1,9}|[a-zA-Z]\.\.[a-zA-Z])\}")
_DEPTH = 4


class Variables:
    """The values that a line gives to its variables."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._values: dict[str, list[Word]] = {}
        for command in commands:
            texts = [word.text for word in command.words[:3]]
            if texts[:1] == ["for"] and texts[2:] == ["in"]:
                self._values.setdefault(texts[1], []).extend(command.words[3:])
            elif not command.words:
                for name, value in command.assignments:
                    self._values.setdefault(name, []).append(value)

    def of(self, word: Word) -> list[Word]:
        """What a word may be that is nothing but a variable; empty if it is none, or nothing is known."""
        found = _VARIABLE.fullmatch(word.text)
        return self._named(found[1], _DEPTH) if found and not word.exact else []

    def _named(self, name: str, depth: int) -> list[Word]:
        known: list[Word] = []
        for value in self._values.get(name, []):
            other = None if value.exact else _VARIABLE.fullmatch(value.text)
            if other and depth:
                known += self._named(other[1], depth - 1)
            elif not value.hidden and not other:
                known.append(value)
        return known

    def variants(self, words: Sequence[Word]) -> list[tuple[Word, ...]] | None:
        """What the words may be: each value in the place of its variable, braces opened, and with and without what may
        be unset. None if that is too much to look at."""
        values = {word.text: known for word in words if (known := self.of(word))}
        if prod(map(len, values.values())) > MAX_VARIANTS:
            return None
        chosen = [dict(zip(values, one, strict=True)) for one in product(*values.values())]
        made = [_with(words, one) for one in chosen]
        made += [_without_unset(one) for one in made]
        return [one for one in dict.fromkeys(made) if one != tuple(words)]


def _with(words: Sequence[Word], values: dict[str, Word]) -> tuple[Word, ...]:
    made: list[Word] = []
    for word in words:
        value = None if word.exact else values.get(word.text)
        if value is not None:
            made += _put(value, quoted=word.whole)
        elif not word.exact and not word.hidden and "{" in word.text and "$" not in word.text:
            made += map(_piece, _expanded(word.text) or [])
        else:
            made.append(word)
    return tuple(made)


def _without_unset(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words if every variable of the environment that may be unset is."""
    made: list[Word] = []
    for word in words:
        left = word.text if word.exact or word.hidden else MAY_BE_UNSET.sub("", word.text)
        if left == word.text:
            made.append(word)
        elif left or word.whole:
            made.append(_piece(left))
    return tuple(made)


def _put(value: Word, *, quoted: bool) -> list[Word]:
    """What a value becomes: without quotes bash takes it apart at blanks, and looks for files."""
    if quoted or not value.exact:
        return [value]
    return [_piece(piece) for piece in pieces_of(value.text)]


def _piece(text: str) -> Word:
    """A word that may still be a pattern, or begin with a home."""
    found = _PATTERN.search(text)
    plain = text.replace("\\", "")  # in a pattern, bash takes `\\n` for n
    if found:
        return Word(plain, exact=False, prefix=text[: found.start()])
    return Word(text, exact=False, prefix="/", whole=True) if text.startswith("~") else Word(text)


def _expanded(text: str) -> list[str]:
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
