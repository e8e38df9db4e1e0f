"""Patterns over commands: `git status`, `git push *`, `npm run test:*`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hookline.errors import UsageError
from hookline.permissions.lines import Guess, Word, guesses, inner_words
from hookline.permissions.programs import runs_anything, runs_others
from hookline.permissions.wildcard import MANY, ONE, Glob, fits, fits_text, glob

_PIECE = re.compile(r"""\s+|\\.|'[^']*'|"[^"]*"|[^\s'"\\]+|.""", re.DOTALL)
_CODE = re.compile(r"[\s(]")
_MOST_WORDS = 2000
"""A command within a command is looked for among so many words; where there are more, it may be anywhere."""


class Part(NamedTuple):
    """One command of a command line. `argv` is None where its words are not known before it runs."""

    argv: tuple[str, ...] | None
    text: str
    words: tuple[Word, ...] | None = None
    """Its words as far as they are known, where that is not all there is to it."""


class CommandPattern:
    """A pattern over the words of one command. A `*` of its own is any words, one within a word is any letters.

    At the end, a `*` of its own is whatever else there is, nothing included; so is `:*`, as other agents write it.
    To forbid, one within the last word is that too.
    """

    def __init__(self, text: str) -> None:
        self.is_anything = text in ("*", ":*", "")
        begun = text.removesuffix(":*")
        if begun == text:
            self._covering = [_shape(text)]
            self._touching = _loose(text)
        else:  # `test:*` is `test` and what follows it, or what begins with `test:`
            self._covering = [_shape(f"{begun} *"), _shape(f"{begun}:* *")]
            self._touching = _loose(f"{begun}*")

    def covers(self, part: Part) -> bool:
        """Whether the command is known, and is what the pattern says, word by word."""
        argv = part.argv
        return argv is not None and any(fits(each, argv, _is_word) for each in self._covering)

    def touches(self, part: Part) -> bool:
        """Whether the command may be what the pattern says, in another spelling or when it runs."""
        if self.is_anything or self.covers(part):
            return True
        known = part.argv or part.words
        if known is not None:
            return self._may_be(known)
        return any(self._may_hold(guess) for guess in guesses(part.text))

    def _may_be(self, words: Sequence[Word]) -> bool:
        if self._touching.may_be(words):
            return True
        inner = _inner_words(words)
        # Where a command within another ends is not known.
        loose = self._touching._replace(has_rest=True)
        return len(inner) > _MOST_WORDS or any(
            loose.may_be(inner[start:]) for start in range(len(inner))
        )

    def _may_hold(self, guess: Guess) -> bool:
        """Whether one of the commands that words may be is this one: at any place where it is seen to begin."""
        words, starts = guess
        if len(words) > _MOST_WORDS:
            return True
        loose = self._touching._replace(has_rest=True)
        for start, word in enumerate(words):
            if start in starts and self._may_be(words[start:]):
                return True
            is_seen = start in starts or (isinstance(word, str) and loose.begins_with(word))
            if is_seen and loose.may_be(words[start:]):
                return True
        return False


class _Loose(NamedTuple):
    """A pattern as it is read to forbid: options may stand anywhere, and between the words."""

    words: tuple[Glob, ...]
    options: tuple[Glob, ...]
    has_rest: bool

    def may_be(self, argv: Sequence[Word]) -> bool:
        """Whether these words are such a command, or may be once it is known what they are."""
        for option in self.options:
            if not any(not isinstance(word, str) or fits_text(option, word) for word in argv):
                return False
        # How many words of the pattern are found, and whether the word before was an option that may take this one.
        states = {(0, False)}
        for word in argv:
            found = {state for before in states for state in self._after(*before, word)}
            states = self._with_skips(found)
        return any(count == len(self.words) for count, _ in states)

    def begins_with(self, program: str) -> bool:
        """Whether such a command can begin with this word."""
        return not self.words or any(fits_text(self.words[0], name) for name in _names(program))

    def _after(self, count: int, takes: bool, word: Word) -> Iterator[tuple[int, bool]]:
        is_left = count < len(self.words)
        if not isinstance(word, str):
            yield from self._after_unknown(count, word)
        elif count == 0 and is_left:
            if self.begins_with(word):
                yield 1, False
        else:
            if is_left and fits_text(self.words[count], word):
                yield count + 1, False
            if is_left and self.words[count] == (MANY,):
                yield count, False
            if word.startswith("-"):
                yield count, True
            elif takes or (not is_left and self.has_rest):
                yield count, False

    def _after_unknown(self, count: int, word: object) -> Iterator[tuple[int, bool]]:
        if word is MANY:  # it may become any words, or none
            yield from ((more, True) for more in range(count, len(self.words) + 1))
            return
        if count < len(self.words):
            yield count + 1, False
        if count:
            yield count, True

    def _with_skips(self, states: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
        """Besides these: words `*` that stand for nothing."""
        more = set(states)
        for count, _ in states:
            while 0 < count < len(self.words) and self.words[count] == (MANY,):
                count += 1
                more.add((count, False))
        return more


def _names(program: str) -> tuple[str, ...]:
    """A program as it is written, and without the directory it is in."""
    return program, program.rpartition("/")[2]


def _inner_words(argv: Sequence[Word]) -> list[Word]:
    """The words among which another command is written, where a command runs one."""
    inner: list[Word] = []
    if runs_others(argv):
        for given in argv[1:]:
            inner += inner_words(given) if isinstance(given, str) else [given]
    elif argv and isinstance(argv[0], str) and runs_anything(argv[0]):
        for given in argv[1:]:  # a program of its own, `python -c "..."`, and not mere arguments
            inner += inner_words(given) if isinstance(given, str) and _CODE.search(given) else []
    return inner


def _shape(text: str) -> tuple[object, ...]:
    words = _words(text)
    shape: list[object] = []
    for place, word in enumerate(words):
        is_last = place == len(words) - 1
        if word == (MANY,):
            shape += [MANY] if is_last else [ONE, MANY]
        else:
            shape.append(word)
    return tuple(shape)


def _is_word(expected: Glob, word: str) -> bool:
    """Whether a word is certainly what is expected: `src/*` is nothing that climbs out again."""
    climbs = MANY in expected and ".." in word.split("/")
    return fits_text(expected, word) and (not climbs or expected == (MANY,))


def _loose(text: str) -> _Loose:
    words = _words(text)
    has_rest = bool(words) and words[-1][-1:] == (MANY,)
    if words and words[-1] == (MANY,):
        words.pop()
    if words and "/" in words[0] and MANY not in words[0]:
        # Whichever way the program is named, it is the same program.
        last = len(words[0]) - words[0][::-1].index("/")
        words[0] = words[0][last:]
    options = tuple(word for word in words if word[:1] == ("-",))
    return _Loose(tuple(word for word in words if word[:1] != ("-",)), options, has_rest)


def _words(text: str) -> list[Glob]:
    """The words of a pattern; quotes hold together what has blanks in it."""
    words: list[str | None] = [None]
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece.isspace():
            words.append(None)
            continue
        if piece in ("'", '"'):
            raise UsageError(
                f"the command '{text}' has a {piece} at position {found.start()} that is never closed.",
                remedy=f"Close it, or write \\{piece} for the mark itself.",
            )
        if piece[0] in "'\"":
            piece = piece[1:-1]
        elif piece[0] == "\\" and piece not in (r"\*", r"\\"):
            piece = piece[1:]
        words[-1] = (words[-1] or "") + piece
    return [glob(word) for word in words if word is not None]
