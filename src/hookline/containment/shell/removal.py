"""Removals: those that are denied everywhere, and those about which a person is asked in a sandbox too.

In a sandbox only a removal of everything asks, in the plain forms of a mistake: what git does not know cannot be
restored. It is no protection. To search whole lines for the names of removers was tried: it asked about too much,
and names that are computed, scripts and other programs still passed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from hookline.containment.links import is_below, real_path
from hookline.containment.shell.places import MAGIC
from hookline.containment.shell.programs import roots_of
from hookline.shell_text import UNKNOWN
from hookline.shell_text.runners import name_of
from hookline.wildcards import matches

REMOVERS = frozenset("rm rmdir unlink shred".split())
REMOVAL = re.compile(r"\b(?:rm|rmdir|unlink|shred|git\s.*clean)\b|-delete\b")
"""A removal in the text for a shell that find starts, or in a line that is too large to be read."""
_GIT_CLEAN = re.compile("git(?:\0-[cC]\0[^\0]*|\0-[^\0]*)*\0clean(?:\0.*)?", re.DOTALL)
_TRIAL = re.compile(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-run")
_FIND_NAMES = frozenset("-name -iname -path -ipath -wholename -regex -iregex".split())
_FIND_LOGIC = frozenset("! -not -o -or , ( ) -prune".split())
_FIND_ACTIONS = frozenset("-delete -exec -execdir -ok -okdir".split())
_BRACKET = re.compile(r"\[[^/]*\]")
_EVERYTHING = re.compile(r"[^A-Za-z0-9]*[*?][^A-Za-z0-9]*")
"""A pattern of names that spells out none of them: `*`, `.[!.]*`."""
_ABOVE = re.compile(r"\.\.(?:/\.\.)*(?:/[^\w/]*[*?][^\w/]*)?/?")
_HOMES = re.compile(r"/(?:home|Users)/[^/]+")


class Location(NamedTuple):
    """The work directory, and the directory in which a command runs: whole paths."""

    root: str
    where: str

    def path(self, text: str) -> str:
        """Where a word leads, as it is written."""
        return os.path.normpath(os.path.join(self.where, os.path.expanduser(text)))

    def resolve_removed(self, text: str) -> str:
        """What is removed: links on the way are followed, and the last one where a slash follows it."""
        directory, last = os.path.split(os.path.join(self.where, os.path.expanduser(text)))
        if last in {"", ".", ".."}:
            return real_path(os.path.join(directory, last))
        return os.path.join(real_path(directory), last)


# --- what is denied -----------------------------------------------------------------------------------


def find_vital(argv: Sequence[str], location: Location) -> str | None:
    """What a command removes that must never be removed, or None."""
    name, words = name_of(argv), argv[1:]
    if name in REMOVERS:
        return next((each for each in _operands(words) if _is_vital(each, location)), None)
    if name == "find" and _is_removing_find(words):
        return next(_vital_in_find(words, location), None)
    return None


def _vital_in_find(words: Sequence[str], location: Location) -> Iterator[str]:
    for root in roots_of(words) or ["."]:
        if _is_vital(root, location) and location.resolve_removed(root) != location.root:
            yield f"files in {root}"
    for test, value in pairwise(words) if _FIND_LOGIC.isdisjoint(words) else ():
        if test in {"-name", "-iname"} and _is_name_of_git(value):
            yield value


def _operands(words: Sequence[str]) -> list[str]:
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if word and word[0] != "-"] + [*words[end + 1 :]]


def _is_vital(target: str, location: Location) -> bool:
    """Whether a path is the root, a home, the work directory or above it, or its `.git`; or all that is there."""
    if _ABOVE.fullmatch(target):
        return True
    return any(
        _is_vital_path(path, location.root)
        for path in {location.path(target), location.resolve_removed(target)}
    )


def _is_vital_path(path: str, root: str) -> bool:
    homes = _homes(os.path.expanduser("~"))
    directory, last = os.path.split(path)
    if _HOMES.fullmatch(path):
        return True
    if _EVERYTHING.fullmatch(last):
        is_above = is_below(root, directory) and directory != root
        is_git = os.path.basename(directory).lower() == ".git"
        return is_above or is_git or any(is_below(home, directory) for home in homes)
    if directory == "/" or any(is_below(each, path) for each in (root, *homes)):
        return True
    return _is_name_of_git(last)


@lru_cache(16)
def _homes(home: str) -> frozenset[str]:
    return frozenset({home, real_path(home)})


def _is_name_of_git(name: str) -> bool:
    """Whether a name is `.git`, or a pattern that spells out some of it."""
    return bool(re.match(r"\.\w", name)) and matches(".git", name.lower())


# --- what asks in a sandbox too -----------------------------------------------------------------------


def find_removal_of_all(argv: Sequence[str], visited: Sequence[Location]) -> str:
    """Why a command asks in a sandbox too; empty if it does not. `visited` are all places where the line has been."""
    name, words = name_of(argv), argv[1:]
    if name in REMOVERS:
        targets = _operands(words)
        if not targets or any(UNKNOWN in each for each in targets):  # `xargs rm`, `rm -r "$x"/*`
            return "it is not known what it removes"
        if any(_is_everything(each, place) for each in targets for place in visited):
            return "it removes everything in the work directory"
    if name == "find" and _is_removing_find(words) and not _has_name_test(words):
        roots = roots_of(words) or ["."]
        if any(_is_whole(each, place) for each in roots for place in visited):
            return "it removes everything that it finds in the work directory"
    is_clean = name == "git" and _GIT_CLEAN.fullmatch("\0".join(argv))
    if is_clean and not any(map(_TRIAL.fullmatch, words)):
        return "it removes files that git does not know"
    return ""


def _is_removing_find(words: Sequence[str]) -> bool:
    return "-delete" in words or (
        not _FIND_ACTIONS.isdisjoint(words) and REMOVAL.search(" ".join(words)) is not None
    )


def _has_name_test(words: Sequence[str]) -> bool:
    """Whether only files with some name are removed, as `*.o`: by a test before the removal, and nothing turns it
    around."""
    tests = list(takewhile(lambda word: word not in _FIND_ACTIONS, words))
    return _FIND_LOGIC.isdisjoint(words) and any(
        test in _FIND_NAMES and re.search("[A-Za-z0-9]", _BRACKET.sub("", value))
        for test, value in pairwise(tests)
    )


def _is_whole(target: str, location: Location) -> bool:
    """Whether a search begins at the work directory, above it, or at each of its entries."""
    return is_below(location.root, location.path(target)) or _is_everything(target, location)


def _is_everything(target: str, location: Location) -> bool:
    """Whether a pattern finds whatever is in the work directory, by its text."""
    parts = _BRACKET.sub("?", target).rstrip("/").split("/")
    first = next((at for at, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return (
        first < len(parts)
        and all(map(_EVERYTHING.fullmatch, parts[first:]))
        and location.resolve_removed("/".join([*parts[:first], ""]) or ".") == location.root
    )
