"""What the variables of a line may be, so that a command can be looked at with each of their values.

Any value may be there when a command runs, those that are set further down too: a loop comes round again. A value that
is what a command prints is not among these, and is asked about where it matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

from hookline.containment.shell.words import Command, Word

MAX_VARIANTS = 100
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_PATTERN = re.compile(r"[*?\[\\]")
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
        """The words with each value in the place of each variable. None if that is too much to look at."""
        values = {word.text: known for word in words if (known := self.of(word))}
        count = 1
        for known in values.values():
            count *= len(known)
        if not values or count > MAX_VARIANTS:
            return None if values else []
        return [
            _with(words, dict(zip(values, one, strict=True))) for one in product(*values.values())
        ]


def _with(words: Sequence[Word], values: dict[str, Word]) -> tuple[Word, ...]:
    made: list[Word] = []
    for word in words:
        value = None if word.exact else values.get(word.text)
        made += [word] if value is None else _put(value, quoted=word.whole)
    return tuple(made)


def _put(value: Word, *, quoted: bool) -> list[Word]:
    """What a value becomes: without quotes bash takes it apart at blanks, and looks for files."""
    if quoted or not value.exact:
        return [value]
    return [_piece(piece) for piece in value.text.split()]


def _piece(text: str) -> Word:
    found = _PATTERN.search(text)
    plain = text.replace("\\", "")  # in a pattern, bash takes `\\n` for n
    return Word(plain, exact=False, prefix=text[: found.start()]) if found else Word(text)
