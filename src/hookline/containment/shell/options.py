"""How a program's harmless use is written down: the words of the tables.

A table names every option that is harmless, and says which of them take values. An option that is in no table is a
reason to ask; so is one cut short (`--outp`), for it may stand for another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from hookline.containment.shell.words import Word

Check = Callable[["Call"], str | None]
"""Takes the words of a call, told apart; answers why they are not harmless, or None."""


class Call(msgspec.Struct, frozen=True):
    """The words after a program's name, told apart."""

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

    def begins_with(self, *names: str) -> bool:
        """Whether one of them stands before the first operand, where every program reads it."""
        return any(name in names for name, _ in self.options[: self.early])

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


class Options(msgspec.Struct, frozen=True):
    """The harmless options of a program or of one of its verbs, and what its other words are."""

    flags: frozenset[str] = frozenset()
    """Options without a value. `-#` is any digit."""
    takes: frozenset[str] = frozenset()
    """Options with a value, in the same word or the next, that may name a file."""
    texts: frozenset[str] = frozenset()
    """The same where the value never names a file: patterns, formats, separators."""
    maybe: frozenset[str] = frozenset()
    """Options with a value only if it is in the same word. In `texts` as well: with none only if no word follows."""
    picks: frozenset[str] = frozenset()
    """Those of `takes` whose value is a pattern that picks files, hidden ones too."""
    pairs: frozenset[str] = frozenset()
    """Options with two values, in the next two words."""
    needs: frozenset[str] = frozenset()
    """Options without one of which, before the first operand, it does more than look."""
    pattern: frozenset[str] | None = None
    """Of a program whose first operand is no file but a pattern: the options that give the pattern instead."""
    operands: int | None = None
    """How many operands there may be; None: any number."""
    shows: bool = True
    """Whether it shows what is in the files it is given, if its program does."""
    plain_words: bool = False
    """Whether it has no options, so that a word that begins with a dash is like every other (`expr`, `[`)."""
    old: bool = False
    """Whether a first word without a dash is options as well (`tar tf x`)."""
    bundles: bool = True
    """Whether `-ab` is `-a -b`, `-n5` is `-n 5`, and options end at `--`."""
    glues: bool = True
    """Whether a short option may have its value in the same word."""
    tame: bool = False
    """Whether none of all its options does harm, known or not, so that an open word may turn out to be one."""
    loose: bool = False
    """Whether a file whose name is an option (`du *`) could do no harm worth asking about. Where it shows files, what
    names them is asked about in any case."""
    check: Check | None = None
    """What a table cannot say, asked last."""

    def knows(self, name: str) -> bool:
        """Whether an option is one of these."""
        return name in self.flags or name in self.maybe or self.wants_value(name)

    def wants_value(self, name: str) -> bool:
        """Whether an option has a value, be it in the next word."""
        return name in self.takes or name in self.texts or name in self.pairs


class Program(msgspec.Struct, frozen=True):
    """A program that is harmless if used like this."""

    options: Options = Options()
    verbs: Mapping[str, Options | Program] | None = None
    """Its harmless sub-commands; a key of several words is a verb and its own verbs. `options` come before them. The
    empty key stands for a call without a verb."""
    reads: bool = True
    """Whether it shows what is in the files it is given, so that the names of secret files matter."""


def only(
    flags: str = "",
    *,
    takes: str = "",
    texts: str = "",
    maybe: str = "",
    picks: str = "",
    pairs: str = "",
    needs: str = "",
    pattern: str | None = None,
    operands: int | None = None,
    check: Check | None = None,
    shows: bool = True,
    old: bool = False,
    bundles: bool = True,
    glues: bool = True,
    tame: bool = False,
    loose: bool = False,
) -> Options:
    """Exactly these options, each kind a text of names with blanks between them."""
    return Options(
        _names(flags),
        _names(takes) | _names(picks),
        _names(texts),
        _names(maybe),
        picks=_names(picks),
        pairs=_names(pairs),
        needs=_names(needs),
        pattern=None if pattern is None else _names(pattern),
        operands=operands,
        check=check,
        shows=shows,
        old=old,
        bundles=bundles,
        glues=glues,
        tame=tame,
        loose=loose,
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def more(
    options: Options, flags: str = "", *, takes: str = "", texts: str = "", maybe: str = ""
) -> Options:
    """The same options and some others."""
    return msgspec.structs.replace(
        options,
        flags=options.flags | _names(flags),
        takes=options.takes | _names(takes),
        texts=options.texts | _names(texts),
        maybe=options.maybe | _names(maybe),
    )


WORDS = Options(plain_words=True, tame=True)
"""No options at all: every word is an operand."""
