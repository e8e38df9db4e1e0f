"""Variables that a line sets itself: what each may be, so that a command can be looked at with each of their values.

Any value may be there when a command runs, those that are set further down too: a loop comes round again. Where every
value is known, a word is looked at as what it comes to, and as nothing else (`"$d/package.json"`, `:$port`). Where some
are not, it is looked at as it stands, and with the values that are known besides. That a variable is set where it is
used is certain: the reader takes nothing else for one (`scan_words.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from math import prod

import msgspec

from hookline.containment.shell.braces import MAX_VARIANTS, expanded
from hookline.containment.shell.outputs import is_known_output
from hookline.containment.shell.reach import MAY_BE_UNSET
from hookline.containment.shell.words import SUM, Command, Word, pieces_of

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_USED = re.compile(r"(?:~/)?(?:[\w./@%+:^*?\[\]=,-]|(?<=[\w^@}])~|\$\{[A-Za-z_]\w*\})+")
_USED_IN_QUOTES = re.compile(r"(?:[^$]|\$\{[A-Za-z_]\w*\})+")
"""Variables of the line's own, and text around them in which nothing else is open."""
_NAME = re.compile(r"[\w./@%+:^*?\[\]-]+")
"""A pattern of files that is nothing else. With a brace or a tilde in it, more would happen to it."""
_PATTERN = re.compile(r"[*?\[\\]")
_OPEN = re.compile(r"[*?\[\\]|\$\(\(\)\)")
_APART = frozenset(" \t\n*?[\\")
_DEPTH = 4
_MOST = 24
"""How many ways there may be to spell out one command."""

Words = tuple[Word, ...]


class Variables:
    """The values that a line gives to its variables."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._values: dict[str, list[Word]] = {}
        self._open: set[str] = set()
        """Variables of which not every value is known."""
        for command in commands:
            for name, given in _settings(command):
                self._values.setdefault(name, []).extend(given)
                if not all(map(_is_known, given)):
                    self._open.add(name)
            if Word("read") in command.words and command.words[0] != Word("for"):
                self._open.update(word.text for word in command.words)

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

    def ways(self, words: Sequence[Word]) -> list[Words] | None:
        """Everything that the words may be, as far as it is known. None if that is too much to look at."""
        made: list[Words] = []
        for spelled in self._spelled_out(words):
            variants = self._variants(spelled)
            if variants is None:
                return None
            made += [*variants, spelled]
        return made

    def _spelled_out(self, words: Sequence[Word]) -> list[Words]:
        """The words with variables replaced of which all is known: one list for each value."""
        used = set(chain(*map(_uses_in, words))) - self._open
        known = {name: given for name in sorted(used) if (given := self._values.get(name))}
        if not known or prod(map(len, known.values())) > _MOST:
            return [tuple(words)]
        named = (dict(zip(known, choice, strict=True)) for choice in product(*known.values()))
        return [tuple(chain(*(_replaced(word, one) for word in words))) for one in named]

    def _variants(self, words: Words) -> list[Words] | None:
        """What words may be of which not all is known: each value in the place of its variable, braces opened, and with
        and without what may be unset."""
        values = {word.text: known for word in words if (known := self.of(word))}
        if prod(map(len, values.values())) > MAX_VARIANTS:
            return None
        chosen = [dict(zip(values, one, strict=True)) for one in product(*values.values())]
        made = [_with(words, one) for one in chosen]
        made += [_without_unset(one) for one in made]
        return [one for one in dict.fromkeys(made) if one != words]


def _settings(command: Command) -> list[tuple[str, list[Word]]]:
    """What a command gives to variables for the commands that follow."""
    words = command.words
    if not words:
        return [(name, [value]) for name, value in command.assignments]
    return [(words[1].text, list(words[3:]))] if words[0] == Word("for") else []


def _is_known(value: Word) -> bool:
    if value.text == "$()":
        return is_known_output(value.output)
    return (
        value.exact
        or value.text == SUM
        or (not value.hidden and _NAME.fullmatch(value.text) is not None)
    )


def _uses_in(word: Word) -> list[str]:
    """The variables in a word of which nothing else is open."""
    used = _USED_IN_QUOTES if word.whole else _USED
    plain = not word.exact and used.fullmatch(word.text) is not None
    return _VARIABLE.findall(word.text) if plain else []


def _replaced(word: Word, values: Mapping[str, Word]) -> list[Word]:
    """What a word comes to: outside of quotes bash takes a value apart, and takes its pieces for patterns."""
    names = _uses_in(word)
    if not names or not values.keys() >= set(names):
        return [word]
    if any(values[name].output for name in names):
        return [_printed(word, values[names[0]])]
    given = [values[name] for name in names]
    exact = all(value.exact for value in given)
    text = _VARIABLE.sub(lambda found: values[found[1]].text, word.text)
    if word.whole:
        return [_whole(text, exact=exact)]
    numbers = all(value.exact or value.text == SUM for value in given)
    if not numbers or text.startswith("~"):  # the names of files may have blanks in them
        return [word]
    if _VARIABLE.fullmatch(word.text):
        return [_piece(piece) for piece in pieces_of(text)]
    # Which part of it stands in quotes is not told, and matters to a blank, to a pattern, and where there is nothing.
    return [_piece(text)] if all(_APART.isdisjoint(v.text) and v.text for v in given) else [word]


def _printed(word: Word, value: Word) -> Word:
    """A word that begins with what a command has printed, as if the command stood there itself."""
    found = _VARIABLE.match(word.text)
    below = word.text[found.end() :] if found else "$"
    if "$" in below:
        return word
    return msgspec.structs.replace(value, text=f"$(){below}", whole=word.whole)


def _whole(text: str, *, exact: bool) -> Word:
    if text.startswith("~/"):
        return Word(text, exact=False, prefix="/", whole=True)
    if exact:
        return Word(text)
    return Word(text, exact=False, prefix=_OPEN.split(text, maxsplit=1)[0], whole=True)


def _with(words: Words, values: Mapping[str, Word]) -> Words:
    made: list[Word] = []
    for word in words:
        value = None if word.exact else values.get(word.text)
        if value is not None:
            made += _put(value, quoted=word.whole)
        elif not word.exact and not word.hidden and "{" in word.text and "$" not in word.text:
            made += map(_piece, expanded(word.text))
        else:
            made.append(word)
    return tuple(made)


def _without_unset(words: Words) -> Words:
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
    if SUM in text and not _PATTERN.search(text):
        return Word(text, exact=False, prefix=text.partition(SUM)[0], whole=True)
    found = _OPEN.search(text)
    plain = text.replace("\\", "")  # in a pattern, bash takes `\\n` for n
    if found:
        return Word(plain, exact=False, prefix=text[: found.start()], hidden=plain != text)
    return Word(text, exact=False, prefix="/", whole=True) if text.startswith("~") else Word(text)
