"""find, fd and xargs: looking for files, and what may be done with each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hookline.containment.shell.options import Program, but
from hookline.containment.shell.words import Word

PREDICATES = frozenset(
    """
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname -type -xtype -size -empty
    -mtime -mmin -atime -amin -ctime -cmin -newer -newermt -newerct -newerat -anewer -cnewer -user -group -uid -gid
    -nouser -nogroup -perm -links -inum -samefile -readable -writable -executable -maxdepth -mindepth -depth -d -xdev
    -mount -prune -quit -print -print0 -printf -ls -follow -daystart -noleaf -not -a -and -o -or -true -false -L -H -P
    -ignore_readdir_race -warn -nowarn -used -fstype -O1 -O2 -O3
    """.split()
)
_ALONE = frozenset(
    """
    -empty -nouser -nogroup -readable -writable -executable -depth -d -xdev -mount -prune -quit -print -print0 -ls
    -follow -daystart -noleaf -not -a -and -o -or -true -false -L -H -P -ignore_readdir_race -warn -nowarn
    """.split()
)
"""Predicates without a value: after any other, `-exec` would be its value."""
_VALUE = re.compile(r"-[0-9]+[a-zA-Z]?|-[ugoa]*[=+-][rwxXst]+(,[ugoa]*[=+-][rwxXst]+)*")
"""Values that begin like options: `-7`, `-10k`, `-u=rw`. No action is spelled so."""
_EXECUTING = frozenset({"-exec", "-execdir"})
_FOUND = Word("{}", exact=False, prefix="./")
"""A path that was found. It begins with where the search began, which is never a `-`."""
_BARE = Word("{}", exact=False)
"""The same where it may be the bare name of a file, as with `-execdir` of BSD."""


class Search(NamedTuple):
    """A find, taken apart: its own words, and the commands it runs on what it finds."""

    words: list[Word]
    commands: list[tuple[Word, ...]]


def take_apart(words: Sequence[Word]) -> Search | None:
    """The two kinds of words of a find. None where it cannot be said where a command begins or ends."""
    search = Search([], [])
    pending = iter(words)
    for word in pending:
        if not (word.exact and word.text in _EXECUTING):
            search.words.append(word)
            continue
        before = search.words[-1].text if search.words else ""
        command = _until_its_end(pending, _BARE if word.text == "-execdir" else _FOUND)
        if command is None or (before in PREDICATES and before not in _ALONE):
            return None
        search.commands.append(command)
    return search


def _until_its_end(pending: Iterator[Word], found: Word) -> tuple[Word, ...] | None:
    command: list[Word] = []
    for word in pending:
        if word == Word(";") or (word == Word("+") and command[-1:] == [found]):
            return tuple(command)
        command.append(_filled(word, found))
    return None


def _filled(word: Word, found: Word) -> Word:
    """A word of the command: find puts the path in wherever braces stand, also within a word."""
    if word == Word("{}"):
        return found
    before, braces, _ = word.text.partition("{}")
    return Word(word.text, exact=False, prefix=before, hidden=True) if braces else word


def _find(words: Sequence[Word]) -> str | None:
    search = take_apart(words)
    if search is None:
        return "it cannot be said what it runs"
    for word in search.words:
        if not word.start:
            return f"{word.text} may turn out to be an action"
        if word.start.startswith("-") and not (word.exact and _only_looks(word.text)):
            return f"the action {word.text}"
    return None


def _only_looks(text: str) -> bool:
    """Whether a word is a predicate that tests or prints, or a value that begins with a dash."""
    return text in PREDICATES or _VALUE.fullmatch(text) is not None


FIND = Program(but(check=_find), reads=False)
FD = Program(but("-x --exec -X --exec-batch", takes="-e -t -d -E -S"), reads=False)
