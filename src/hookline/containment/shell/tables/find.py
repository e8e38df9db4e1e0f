"""find, fd and xargs: looking for files, and what may be done with each."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, pairwise, takewhile
from typing import NamedTuple

from hookline.containment.shell.options import Call, Options, Program, only
from hookline.containment.shell.words import Word

_PICKING = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname".split()
)
_VALUED = _PICKING | frozenset(
    """
    -regextype -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -newermt -newerct -newerat -anewer
    -cnewer -user -group -uid -gid -perm -links -inum -samefile -maxdepth -mindepth -printf -used -fstype
    """.split()
)
"""Predicates with a value: after them, `-exec` would be the value."""
_ALONE = frozenset(
    """
    -empty -nouser -nogroup -readable -writable -executable -depth -d -xdev -mount -prune -quit -print -print0 -ls
    -follow -daystart -noleaf -not -a -and -o -or -true -false -L -H -P -E -x -s -ignore_readdir_race -warn -nowarn
    -O1 -O2 -O3
    """.split()
)
_VALUE = re.compile(r"-[0-9]+[a-zA-Z]?|-[ugoa]*[=+-][rwxXst]+(,[ugoa]*[=+-][rwxXst]+)*")
"""Values that begin like options: `-7`, `-10k`, `-u=rw`. No action is spelled so."""
_ACTIONS = (
    *("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fls", "-fprint", "-fprint0", "-fprintf"),
    *("-files0-from", "-D"),
)
_EXECUTING = frozenset({"-exec", "-execdir"})
_FOUND = Word("./{}", exact=False, prefix="./")
"""A path that was found. It begins with where the search began, so it is no option."""
_BARE = Word("{}", exact=False)
"""The same where nothing is known of how it begins: the bare name of a file, as with `-execdir` of BSD."""
_PLAIN_ROOT = re.compile(r"[A-Za-z0-9_./~]")
"""How a place to search begins that no program takes for anything else. `@x` is a file of options to some."""


class Search(NamedTuple):
    """A find, taken apart: its own words, and the commands it runs on what it finds."""

    words: list[Word]
    commands: list[tuple[Word, ...]]

    def picks(self) -> list[str]:
        """The patterns that say which files are found."""
        return [word.text for before, word in pairwise(self.words) if before.text in _PICKING]

    def expressions(self) -> list[str]:
        """Those of them that are regular expressions."""
        return [word.text for before, word in pairwise(self.words) if "regex" in before.text]


def take_apart(words: Sequence[Word]) -> Search | None:
    """The two kinds of words of a find. None where it cannot be said where a command begins or ends."""
    search = Search([], [])
    found = _FOUND if _has_plain_roots(words) else _BARE
    pending = iter(words)
    for word in pending:
        if not (word.exact and word.text in _EXECUTING):
            search.words.append(word)
            continue
        before = search.words[-1].text if search.words else ""
        command = _until_its_end(pending, _BARE if word.text == "-execdir" else found)
        if command is None or before in _VALUED:
            return None
        search.commands.append(command)
    return search


def _has_plain_roots(words: Sequence[Word]) -> bool:
    own = dropwhile(lambda word: word.text.startswith("-"), words)
    roots = takewhile(lambda word: not word.start.startswith(("-", "(", "!")), own)
    return all(_PLAIN_ROOT.match(word.start) and ":" not in word.text for word in roots)


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


def _find(call: Call) -> str | None:
    search = take_apart(call.operands)
    if search is None:
        return "it cannot be said what it runs"
    for word in search.words:
        if not word.start and _may_act(word):
            return f"{word.text} may turn out to be an action"
        if word.start.startswith("-") and not (word.exact and _only_looks(word.text)):
            return f"the action {word.text}"
    return None


def _may_act(word: Word) -> bool:
    """Whether an open word may become an action. A pattern becomes names of files, and `*.py` none that is one."""
    if word.hidden or not re.fullmatch(r"[\w.+-]*[*?][\w.*?+-]*", word.text):
        return True
    return any(fnmatch.fnmatchcase(action, word.text) for action in _ACTIONS)


def _only_looks(text: str) -> bool:
    """Whether a word is a predicate that tests or prints, or a value that begins with a dash."""
    return text in _VALUED or text in _ALONE or _VALUE.fullmatch(text) is not None


FIND = Program(Options(plain_words=True, check=_find), reads=False)
FD = Program(
    only(
        """
        -H -I -u -s -i -g -F -a -l -L -p -0 -1 -q -h -V --hidden --no-ignore --unrestricted --no-ignore-vcs
        --no-ignore-parent --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --list-details
        --follow --full-path --print0 --quiet --show-errors --one-file-system --mount --xdev --help --version --prune
        --no-hidden --no-require-git --relative-path --and
        """,
        texts="""
        -d -t -e -E -c -j -S -o --max-depth --min-depth --exact-depth --type --extension --exclude --color --threads
        --size --changed-within --changed-before --newer --older --owner --path-separator --max-results
        """,
        takes="--base-directory --search-path --ignore-file",
        maybe="--strip-cwd-prefix",
        pattern="",
    ),
    reads=False,
)
