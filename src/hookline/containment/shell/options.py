"""How a program's harmless use is written down, and how a command is held against it.

Every word that begins with `-` must be a harmless option, wherever it stands: it is not relied on that it is the
value of the option before it, or comes after `--`. So a table that is wrong about which options take values can make
the policy ask too often, never too seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

import msgspec

from hookline.containment.shell.words import Word

Check = Callable[[Sequence[Word]], str | None]
"""Takes the words after the program's name; answers why they are not harmless, or None."""


class Options(msgspec.Struct, frozen=True):
    """The harmless options of a program or of one of its verbs."""

    only: frozenset[str] | None = None
    """The options that are harmless. None: all but `never`."""
    never: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    """Options with a value, in the same word or the next."""
    operands: int | None = None
    """How many words may be no options; None: any number."""
    check: Check | None = None
    """What a table cannot say, asked last."""
    loose: bool = False
    """Whether a file whose name is an option (`du *`) could do no harm worth asking about."""

    @property
    def free(self) -> bool:
        """Whether no option at all does harm, so that a word may turn out to be one."""
        return self.only is None and not self.never and self.operands is None and self.check is None


class Program(msgspec.Struct, frozen=True):
    """A program that is harmless if used like this."""

    options: Options = Options()
    verbs: Mapping[str, Options] | None = None
    """Its harmless sub-commands; a key of several words is a verb and its own verbs. `options` come before them."""
    reads: bool = True
    """Whether it shows what is in the files it is given, so that the names of secret files matter."""


def only(
    names: str = "",
    *,
    takes: str = "",
    operands: int | None = None,
    check: Check | None = None,
    loose: bool = False,
) -> Options:
    """Exactly these options; those in `takes` have a value."""
    taking = frozenset(takes.split())
    return Options(
        frozenset(names.split()) | taking,
        takes=taking,
        operands=operands,
        check=check,
        loose=loose,
    )


def but(
    names: str = "",
    *,
    takes: str = "",
    operands: int | None = None,
    check: Check | None = None,
    loose: bool = False,
) -> Options:
    """Every option but these."""
    return Options(
        never=frozenset(names.split()),
        takes=frozenset(takes.split()),
        operands=operands,
        check=check,
        loose=loose,
    )


def refusal(options: Options, words: Sequence[Word]) -> str | None:
    """Why words are not harmless by a table, or None if they are."""
    for word in words:
        if problem := _word_refusal(options, word):
            return problem
    if options.operands is not None:
        operands = operands_of(options, words)
        exact = all(word.exact for word in operands) and all(word.single for word in words)
        if len(operands) > options.operands or not exact:
            return "it is given more names than a mere question has"
    return options.check(words) if options.check else None


def _word_refusal(options: Options, word: Word) -> str | None:
    if not word.exact and not word.prefix:
        harmless = options.free or (options.loose and not word.hidden)
        return None if harmless else f"{word.text} may turn out to be an option"
    start = word.start
    if not start.startswith("-") or (word.exact and start in {"-", "--"}):
        return None
    if not word.exact and not (start.startswith("--") and "=" in start):
        return f"{word.text} may turn out to be another option"
    return None if _is_harmless(options, start) else f"the option {start.partition('=')[0]}"


def _is_harmless(options: Options, text: str) -> bool:
    name = text.partition("=")[0]
    if options.only is None:
        return not _may_mean(options, name)
    if name in options.only:
        return True
    if name.startswith("--"):
        return False
    return all(_letter_in(options.only, letter) for letter in _letters(options, text))


def _letter_in(names: frozenset[str], letter: str) -> bool:
    return f"-{letter}" in names or (letter.isdigit() and "-#" in names)


def _may_mean(options: Options, name: str) -> bool:
    """Whether an option may be one of those that never do: long ones may be cut short, short ones put together."""
    if name in options.never:
        return True
    if name.startswith("--"):
        return any(bad.startswith(name) for bad in options.never)
    return any(f"-{letter}" in options.never for letter in _letters(options, name))


def _letters(options: Options, text: str) -> str:
    """The options in a cluster such as `-rn5`: up to the first that takes the rest as its value."""
    for at, letter in enumerate(text[1:], start=2):
        if f"-{letter}" in options.takes:
            return text[1:at]
    return text[1:]


def operands_of(options: Options, words: Sequence[Word]) -> list[Word]:
    """The words that are neither options nor the values of options."""
    operands = []
    value_follows = False
    for word in words:
        start = word.start
        if value_follows:
            value_follows = False
        elif start.startswith("-") and start not in {"-"}:
            value_follows = _wants_value(options, start)
        else:
            operands.append(word)
    return operands


def _wants_value(options: Options, text: str) -> bool:
    if text in options.takes:
        return True
    if text.startswith("--"):
        return False
    letters = _letters(options, text)
    return len(letters) == len(text) - 1 and f"-{letters[-1:]}" in options.takes


def verb_of(program: Program, words: Sequence[Word]) -> tuple[str, Sequence[Word]] | str:
    """A program's verb and the words after it, or why that cannot be said."""
    verbs = program.verbs or {}
    at = 0
    while at < len(words):
        word = words[at]
        if not word.exact:
            return f"{word.text}"
        if not word.text.startswith("-"):
            break
        if not _is_harmless(program.options, word.text):
            return f"the option {word.text.partition('=')[0]}"
        if not _wants_value(program.options, word.text):
            at += 1
        elif all(value.single for value in words[at + 1 : at + 2]):
            at += 2
        else:  # the second of the words it becomes would be the verb
            return f"the option {word.text}, given {words[at + 1].text},"
    names = [word.text for word in takewhile(lambda word: word.exact, words[at : at + 3])]
    for count in (3, 2, 1):
        if len(names) >= count and (verb := " ".join(names[:count])) in verbs:
            return verb, words[at + count :]
    return f"the verb {names[0]}" if names else "a call without a verb"
