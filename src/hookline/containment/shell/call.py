"""The one reader of options: which words of a command are options, which are their values, and which are neither.

It reads as getopt does: short options in one word, values joined or in the next word, `--` after which there are no
options. It is stricter in two things. A long option must be spelled out. And a value in the next word that looks like
an option must be a harmless one as well, so that a table which is wrong about what takes a value hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from hookline.containment.shell.options import Call, Options, Program
from hookline.containment.shell.words import Word

_FILES = re.compile(r"\{\}|\.\.\.|\$\(\)|\$\{\w+\}|\$<>|(?!-)[^${]*")
_LONGEST_VERB = 5
"""In words: `az network vnet subnet list` has four."""
_NUMBER = re.compile(r"-[0-9.]+[A-Za-z%]?")


class _Odd(Exception):
    """A word that is not known to be harmless."""


def read_call(options: Options, words: Sequence[Word], *, to_operand: bool = False) -> Call | str:
    """Tell words apart by a table, or say which of them is not harmless. `to_operand`: only those before an operand."""
    reader = _Reader(options, words, to_operand=to_operand)
    try:
        call = reader.read()
    except _Odd as odd:
        return str(odd)
    if to_operand:
        return call
    return _problem(options, call) or call


def _problem(options: Options, call: Call) -> str | None:
    if options.needs and not call.begins_with(*options.needs):
        return f"without {' or '.join(sorted(options.needs)[:3])} it does more"
    if options.operands is not None:
        late = len(call.options) - call.early  # to some programs these are names as well
        counted = all(word.single for word in call.operands)
        if not counted or len(call.operands) + late > options.operands:
            return "it is given more names than a mere question has"
    return options.check(call) if options.check else None


class _Reader:
    """A position in the words of a call."""

    def __init__(self, options: Options, words: Sequence[Word], *, to_operand: bool) -> None:
        self.table = options
        self.words = words
        self.to_operand = to_operand
        self.at = 0
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.early: int | None = None

    def read(self) -> Call:
        if self.table.old:
            self._add_dash()
        ended = self.table.plain_words
        while self.at < len(self.words):
            word = self.words[self.at]
            if not (ended or self._may_be_option(word)):
                if self.to_operand:
                    break
                self._operand(word)
                self.at += 1
            elif ended:
                if self.to_operand:
                    break
                for one in self.words[self.at :]:
                    self._operand(one)
                self.at = len(self.words)
            else:
                self.at += 1
                ended = word.exact and word.text == "--" and self.table.bundles
                if not ended:
                    self._option(word)
        rest = tuple(self.words[self.at :])
        operands = tuple(self.operands)
        early = len(self.options) if self.early is None else self.early
        return Call(tuple(self.options), operands, early, rest, self._files(operands))

    def _operand(self, word: Word) -> None:
        self.early = len(self.options) if self.early is None else self.early
        self.operands.append(word)

    def _add_dash(self) -> None:
        """Write the letters of a first word without a dash as options, the one with a value last."""
        first = self.words[0] if self.words else Word("")
        if first.start.startswith("-"):
            return
        valued = [letter for letter in first.text if self.table.wants_value(f"-{letter}")]
        if not first.exact or not first.text.isalpha() or len(valued) > 1:
            raise _Odd("it cannot be said what it does")
        flags = "".join(letter for letter in first.text if letter not in valued)
        self.words = (Word(f"-{flags}{''.join(valued)}"), *self.words[1:])

    def _may_be_option(self, word: Word) -> bool:
        """Whether a word is an option. An open word that may turn out to be one is a reason to ask."""
        start = word.start
        if not word.exact and not start:
            if self.table.tame or (self.table.loose and self._is_file(word)):
                return False
            raise _Odd(f"{word.text} may turn out to be an option")
        return start.startswith("-") and not (word.exact and start == "-")

    def _is_file(self, word: Word) -> bool:
        """Whether an open word becomes names of files: a pattern, or a variable whose values are looked at apart."""
        return _FILES.fullmatch(word.text) is not None and (self.table.shows or not word.hidden)

    def _option(self, word: Word) -> None:
        name, equals, value = word.text.partition("=")
        if not word.exact:
            known = word.prefix.startswith(f"{name}=") and self._has_value(name)
            if not known or not name.startswith("--"):
                raise _Odd(f"{word.text} may turn out to be another option")
            self.options.append((name, _rest_of(word, len(name) + 1)))
        elif name.startswith("--") or not self.table.bundles or self._is_whole(name):
            self._long(name, Word(value) if equals else None)
        else:
            self._cluster(word.text)

    def _has_value(self, name: str) -> bool:
        return name in self.table.maybe or self.table.wants_value(name)

    def _is_whole(self, name: str) -> bool:
        """Whether an option with one dash has a name of several letters, as `-vv` or that of `-noout`."""
        return len(name) > 2 and self.table.knows(name)

    def _long(self, name: str, value: Word | None) -> None:
        joined = value is not None and (name in self.table.flags or name in self.table.pairs)
        if not self.table.knows(name) or joined:
            raise _Odd(f"the option {name}")
        if value is None and self.table.wants_value(name):
            value = self._next(name)
        self.options.append((name, value))
        if name in self.table.pairs:
            self.options.append((name, self._next(name)))

    def _cluster(self, text: str) -> None:
        """Short options in one word, up to the first that takes the rest of it as its value."""
        counts = False
        for at, letter in enumerate(text[1:], start=2):
            name = f"-{letter}"
            if counts and not letter.isdigit() and name not in self.table.flags:
                raise _Odd(
                    f"the option {text}"
                )  # in `head -5c` the c is a unit, and takes no value
            if name in self.table.flags:
                self.options.append((name, None))
            elif letter.isdigit() and "-#" in self.table.flags:
                self.options.append(("-#", None))
                counts = True
            elif self.table.wants_value(name) and (self.table.glues or not text[at:]):
                self.options.append((name, Word(text[at:]) if text[at:] else self._next(name)))
                return
            elif name in self.table.maybe:
                self.options.append((name, Word(text[at:]) if text[at:] else None))
                return
            else:
                raise _Odd(f"the option {name if len(text) > 2 else text}")

    def _next(self, name: str) -> Word | None:
        """The value in the next word. What may become several words is a value and operands."""
        if self.at == len(self.words):
            if name in self.table.maybe:
                return None
            raise _Odd(f"the option {name}, which is given nothing")
        word = self.words[self.at]
        self.at += 1
        if not word.single:
            if self.to_operand or self._may_be_option(word):
                raise _Odd(f"the option {name}, given {word.text}")
            self._operand(word)
        elif word.start.startswith("-") and not self._is_plain_value(word):
            raise _Odd(f"the option {name}, given {word.text}")
        return word

    def _is_plain_value(self, word: Word) -> bool:
        """Whether a value that begins with a dash would be harmless as an option as well."""
        text = word.text
        if not word.exact or text == "--":
            return False
        if text == "-" or _NUMBER.fullmatch(text) or self.table.knows(text.partition("=")[0]):
            return True
        letters = self.table.flags | self.table.maybe
        known = self.table.tame or all(f"-{letter}" in letters for letter in text[1:])
        return known and not text.startswith("--")

    def _files(self, operands: tuple[Word, ...]) -> tuple[Word, ...]:
        """A first operand that may become several words is not left out: some of them are files."""
        instead = self.table.pattern
        has_pattern = (
            instead is not None and bool(operands) and operands[0].single and not operands[0].hidden
        )
        if instead and any(name in instead for name, _ in self.options):
            has_pattern = False
        values = (value for name, value in self.options if value and name not in self.table.texts)
        return (*operands[1 if has_pattern else 0 :], *values)


class Use(msgspec.Struct, frozen=True):
    """A call of a program that is harmless as far as its table says."""

    options: Options
    """The table of its verb."""
    call: Call
    verb: str = ""
    files: tuple[Word, ...] = ()
    """The words that may name files, also those before the verb."""


def read_use(program: Program, words: Sequence[Word]) -> Use | str:
    """Hold a call against a program's tables, or say what is not known to be harmless."""
    if program.verbs is None:
        call = read_call(program.options, words)
        return call if isinstance(call, str) else Use(program.options, call, files=call.files)
    before = read_call(program.options, words, to_operand=True)
    if isinstance(before, str):
        return before
    if program.options.check and (problem := program.options.check(before)):
        return problem
    verb = _verb(program.verbs, before.rest)
    if verb is None:
        name = before.rest[0].text if before.rest else ""
        return f"{f'the verb {name}' if name else 'a call without a verb'} is not known to be read-only"
    inner = program.verbs[verb]
    inner = inner if isinstance(inner, Program) else Program(inner)
    use = read_use(inner, before.rest[len(verb.split()) :])
    if isinstance(use, str):
        return use
    return Use(use.options, use.call, f"{verb} {use.verb}".strip(), (*before.files, *use.files))


def _verb(verbs: Mapping[str, Options | Program], words: Sequence[Word]) -> str | None:
    names = [word.text for word in takewhile(lambda word: word.exact, words[:_LONGEST_VERB])]
    for count in range(_LONGEST_VERB, 0, -1):
        if len(names) >= count and (verb := " ".join(names[:count])) in verbs:
            return verb
    return "" if not words and "" in verbs else None


def _rest_of(word: Word, at: int) -> Word:
    return Word(word.text[at:], exact=False, prefix=word.prefix[at:], hidden=word.hidden)
