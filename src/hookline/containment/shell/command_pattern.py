"""Patterns over commands: `git status`, `git push *`, `npm run test:*`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from hookline.errors import UsageError
from hookline.shell_text.runners import can_run_anything, can_run_others
from hookline.wildcards import MANY, ONE, Glob, fits, fits_text, glob

PatternWord: TypeAlias = Any
"""A word of a command: its text, MANY where it may be any words, or ONE where it may be any but options."""

_BETWEEN = re.compile(r"[\s;&|()'\"`<>={}]+")
_PIECE = re.compile(r"""\s+|\\.|'[^']*'|"[^"]*"|[^\s'"\\]+|.""", re.DOTALL)
_CODE = re.compile(r"[\s(]")
_MOST_WORDS = 2000
"""A longer command line may contain any command."""


class CommandPart(NamedTuple):
    """One command of a command line. `argv` is None when its words are not known before it runs."""

    argv: tuple[str, ...] | None
    words: tuple[PatternWord, ...] = ()
    """The words that are known, when not all are."""


class CommandPattern:
    """A pattern over the words of one command. A separate `*` is any words, one within a word is any letters.

    At the end, a separate `*` is any rest, also none; so is `:*`, as other agents write it. A rule that allows stays
    narrow: a `*` within a word makes no option of it, and leads out of no directory. In a rule that forbids, a `*`
    within the last word is any rest too, and options may stand anywhere.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_anything = text in ("*", ":*", "")
        begun = text.removesuffix(":*")
        if begun == text:
            self._covering = [_shape(text)]
            self._touching = _loose(text)
        else:  # `test:*` is `test` and what follows it, or what begins with `test:`
            self._covering = [_shape(f"{begun} *"), _shape(f"{begun}:* *")]
            self._touching = _loose(f"{begun}*")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandPattern) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def covers(self, part: CommandPart) -> bool:
        """Whether the command is known and matches, word by word."""
        argv = part.argv
        return argv is not None and any(fits(each, argv, _is_word) for each in self._covering)

    def has_word(self, word: str) -> bool:
        """Whether the pattern spells out a word."""
        return any(tuple(word) == each for shape in self._covering for each in shape)

    def touches(self, part: CommandPart) -> bool:
        """Whether the command may match, in another spelling or when it runs."""
        words = part.argv or part.words
        if self.is_anything or self.covers(part) or self._touching.may_be(words):
            return True
        inner = _inner_words(words)
        # It is not known where a command within another ends.
        loose = self._touching._replace(has_rest=True)
        return len(inner) > _MOST_WORDS or any(
            loose.may_be(inner[start:]) for start in range(len(inner))
        )


class _Loose(NamedTuple):
    """A pattern in a rule that forbids: options may be anywhere between the words."""

    words: tuple[Glob, ...]
    options: tuple[Glob, ...]
    has_rest: bool

    def may_be(self, argv: Sequence[PatternWord]) -> bool:
        """Whether these words match, or may match once the unknown ones are known."""
        for option in self.options:
            if not any(word is MANY or fits_text(option, word) for word in argv if word is not ONE):
                return False
        # How many words of the pattern are found, and whether the word before was an option that may take this one.
        states = {(0, False)}
        for word in argv:
            found = {state for before in states for state in self._after(*before, word)}
            states = self._with_skips(found)
        return any(count == len(self.words) for count, _ in states)

    def can_begin_with(self, program: str) -> bool:
        """Whether such a command can begin with this word."""
        return not self.words or any(fits_text(self.words[0], name) for name in _names(program))

    def _after(self, count: int, takes: bool, word: PatternWord) -> Iterator[tuple[int, bool]]:
        is_left = count < len(self.words)
        if not isinstance(word, str):
            yield from ((more, True) for more in range(count, len(self.words) + 1))
        elif count == 0 and is_left:
            if self.can_begin_with(word):
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

    def _with_skips(self, states: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
        """These states, and those in which a `*` matches no words."""
        more = set(states)
        for count, _ in states:
            while 0 < count < len(self.words) and self.words[count] == (MANY,):
                count += 1
                more.add((count, False))
        return more


def _names(program: str) -> tuple[str, ...]:
    """A program as it is written, and without its directory."""
    return program, program.rpartition("/")[2]


def _inner_words(argv: Sequence[PatternWord]) -> list[PatternWord]:
    """The words that may be another command, when a command runs one."""
    inner: list[PatternWord] = []
    if can_run_others(argv):
        for given in argv[1:]:
            inner += inner_words(given) if isinstance(given, str) else [given]
    elif argv and isinstance(argv[0], str) and can_run_anything(argv[0]):
        for given in argv[1:]:  # source code, as in `python -c "..."`
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
    """Whether a word certainly matches: `src/*` does not match `src/../x`, nor `*.txt` the option `-x.txt`."""
    if not fits_text(expected, word):
        return False
    if MANY not in expected or expected == (MANY,):
        return True
    is_open = expected[0] is MANY
    return ".." not in word.split("/") and not (is_open and word.startswith(("-", "/", "~")))


def _loose(text: str) -> _Loose:
    words = _words(text)
    has_rest = bool(words) and words[-1][-1:] == (MANY,)
    if words and words[-1] == (MANY,):
        words.pop()
    if words and "/" in words[0] and MANY not in words[0]:
        # The program is the same, however its path is written.
        last = len(words[0]) - words[0][::-1].index("/")
        words[0] = words[0][last:]
    options = tuple(word for word in words if word[:1] == ("-",))
    return _Loose(tuple(word for word in words if word[:1] != ("-",)), options, has_rest)


def _words(text: str) -> list[Glob]:
    """The words of a pattern; a quoted text is one word."""
    words: list[str | None] = [None]
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece.isspace():
            words.append(None)
            continue
        if piece in ("'", '"'):
            raise UsageError(
                f"the command '{text}' has a {piece} at position {found.start()} that is never closed.",
                remedy=f"Close it, or write \\{piece} for the character itself.",
            )
        if piece[0] in "'\"":
            piece = piece[1:-1]
        elif piece[0] == "\\" and piece not in (r"\*", r"\\"):
            piece = piece[1:]
        words[-1] = (words[-1] or "") + piece
    return [glob(word) for word in words if word is not None]


def inner_words(text: str) -> list[PatternWord]:
    """The words of a text in any language that may contain a command, without quotes and operators."""
    return [word.replace("\\", "") for word in _BETWEEN.split(text) if word.strip(":")]
