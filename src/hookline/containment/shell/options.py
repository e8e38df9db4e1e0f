"""The one reader of options: which words of a command are options, which are their values, and which are neither.

A table names every option that is harmless, and says which of them take values. It is read as getopt does: short
options in one word, values joined or in the next word, `--` after which there are no options. It is stricter in two
things. A long option must be spelled out: cut short (`--outp`) it may stand for another. And a value in the next word
that looks like an option must be harmless as an option too, so that a wrong table hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from hookline.containment.shell.words import Word

_NUMBER = re.compile(r"-[0-9.]+[A-Za-z%]?")


class Call(msgspec.Struct, frozen=True):
    """The words after a program's name, sorted into options and operands."""

    options: tuple[tuple[str, Word | None], ...] = ()
    """Each option by its name, with its value if it has one."""
    operands: tuple[Word, ...] = ()
    """The words that are neither options nor their values."""
    early: int = 0
    """How many of the options stand before the first operand. Some programs read none after it."""
    rest: tuple[Word, ...] = ()
    """What was left unread, where reading had to stop at the first operand."""
    files: tuple[Word, ...] = ()
    """The words that may name files: operands without a pattern, and the values of options that can name one."""

    def has(self, *names: str) -> bool:
        """Whether one of some options is given, wherever it stands."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """What some options are given."""
        return [value.text for name, value in self.options if value and name in names]

    @property
    def texts(self) -> list[str]:
        """The operands as they are written."""
        return [word.text for word in self.operands]

    @property
    def words(self) -> list[Word]:
        """The operands and the values of options."""
        return [*self.operands, *(value for _, value in self.options if value)]


Check = Callable[[Call], str | None]
"""Takes a call; returns why it is not harmless, or None."""


class OptionTable(msgspec.Struct, frozen=True):
    """The harmless options of a program or of one of its sub-commands, and what its other words are."""

    flags: frozenset[str] = frozenset()
    """Options without a value. `-#` is any digit."""
    takes: frozenset[str] = frozenset()
    """Options with a value, in the same word or the next, that may name a file."""
    texts: frozenset[str] = frozenset()
    """The same where the value never names a file: patterns, formats, separators."""
    maybe: frozenset[str] = frozenset()
    """Options with a value only if it is in the same word."""
    pattern: frozenset[str] | None = None
    """Of a program whose first operand is no file but a pattern: the options that give the pattern instead."""
    operands: int | None = None
    """How many operands there may be; None: any number."""
    shows: bool = True
    """Whether it shows what is in the files it is given."""
    plain_words: bool = False
    """Whether all words count as operands, and the check looks at them."""
    glues: bool = True
    """Whether a short option may have its value in the same word."""
    check: Check | None = None
    """What a table cannot say, asked last."""

    def has_option(self, name: str) -> bool:
        """Whether an option is one of these."""
        return name in self.flags or name in self.maybe or self.has_value(name)

    def has_value(self, name: str) -> bool:
        """Whether an option has a value, in the same word or the next."""
        return name in self.takes or name in self.texts


def only(
    flags: str = "",
    *,
    takes: str = "",
    texts: str = "",
    maybe: str = "",
    pattern: str | None = None,
    operands: int | None = None,
    shows: bool = True,
    plain_words: bool = False,
    glues: bool = True,
    check: Check | None = None,
) -> OptionTable:
    """Exactly these options, each kind a text of names with blanks between them."""
    return OptionTable(
        flags=frozenset(flags.split()),
        takes=frozenset(takes.split()),
        texts=frozenset(texts.split()),
        maybe=frozenset(maybe.split()),
        pattern=None if pattern is None else frozenset(pattern.split()),
        operands=operands,
        shows=shows,
        plain_words=plain_words,
        glues=glues,
        check=check,
    )


class _UnknownOption(Exception):
    """A word that is not known to be harmless."""


def read_call(
    options: OptionTable, words: Sequence[Word], *, to_operand: bool = False
) -> Call | str:
    """Sort words by a table, or say which of them is not harmless. `to_operand`: only those before an operand."""
    try:
        call = _CallReader(options, words, to_operand=to_operand).read()
    except _UnknownOption as odd:
        return str(odd)
    if to_operand:
        return call
    late = len(call.options) - call.early  # to some versions these are names as well
    if options.operands is not None and len(call.operands) + late > options.operands:
        return "it has more arguments than a command that only reads"
    return (options.check(call) if options.check else None) or call


class _CallReader:
    """A position in the words of a call."""

    def __init__(self, options: OptionTable, words: Sequence[Word], *, to_operand: bool) -> None:
        self.table = options
        self.words = words
        self.to_operand = to_operand
        self.at = 0
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.early: int | None = None

    def read(self) -> Call:
        has_ended = self.table.plain_words
        while self.at < len(self.words):
            word = self.words[self.at]
            is_option = not has_ended and word.text.startswith("-") and word.text != "-"
            if not is_option and self.to_operand:
                break
            self.at += 1
            if not is_option:
                self.early = len(self.options) if self.early is None else self.early
                self.operands.append(word)
            elif not word.exact:  # the name of a file that a pattern finds
                raise _UnknownOption(f"the file {word.text}, which it takes for an option")
            elif word.text == "--":
                has_ended = True
            else:
                self._option(word.text)
        operands = tuple(self.operands)
        early = len(self.options) if self.early is None else self.early
        rest = tuple(self.words[self.at :])
        return Call(tuple(self.options), operands, early, rest, self._files(operands))

    def _option(self, text: str) -> None:
        name, equals, value = text.partition("=")
        is_whole = len(name) > 2 and self.table.has_option(name)
        if name.startswith("--") or is_whole:
            if not self.table.has_option(name) or (equals and name in self.table.flags):
                raise _UnknownOption(f"the option {name}")
            given = Word(value) if equals else None
            if given is None and self.table.has_value(name):
                given = self._next(name)
            self.options.append((name, given))
        else:
            self._cluster(text)

    def _cluster(self, text: str) -> None:
        """Short options in one word, up to the first that takes the rest of it as its value."""
        has_digits = False
        for at, letter in enumerate(text[1:], start=2):
            name, rest = f"-{letter}", text[at:]
            if has_digits and not letter.isdigit() and name not in self.table.flags:
                raise _UnknownOption(f"the option {text}")  # in `head -5c` the c is a unit
            if name in self.table.flags:
                self.options.append((name, None))
            elif letter.isdigit() and "-#" in self.table.flags:
                self.options.append(("-#", None))
                has_digits = True
            elif self.table.has_value(name) and (self.table.glues or not rest):
                self.options.append((name, Word(rest) if rest else self._next(name)))
                return
            elif name in self.table.maybe:
                self.options.append((name, Word(rest) if rest else None))
                return
            else:
                raise _UnknownOption(f"the option {name if len(text) > 2 else text}")

    def _next(self, name: str) -> Word:
        """The value in the next word."""
        word = self.words[self.at] if self.at < len(self.words) else None
        if word is None or not word.exact:
            raise _UnknownOption(f"the option {name}, whose value is not known")
        if word.text.startswith("-") and not self._is_plain_value(word.text):
            raise _UnknownOption(f"the option {name}, given {word.text}")
        self.at += 1
        return word

    def _is_plain_value(self, text: str) -> bool:
        """Whether a value that begins with a dash would be harmless as an option as well."""
        if text == "--":
            return False
        if text == "-" or _NUMBER.fullmatch(text) or self.table.has_option(text.partition("=")[0]):
            return True
        letters = self.table.flags | self.table.maybe
        is_known = all(f"-{letter}" in letters for letter in text[1:])
        return is_known and not text.startswith("--")

    def _files(self, operands: tuple[Word, ...]) -> tuple[Word, ...]:
        instead = self.table.pattern
        has_pattern = instead is not None and not any(name in instead for name, _ in self.options)
        if has_pattern and operands and not operands[0].exact:
            raise _UnknownOption(f"{operands[0].text}, where a pattern belongs")
        values = (value for name, value in self.options if value and name not in self.table.texts)
        return (*operands[1 if has_pattern else 0 :], *values)
