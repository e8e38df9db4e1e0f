"""Removals: those that are denied everywhere, and those about which a person is asked in a sandbox too.

In a sandbox a removal runs without a question only if it is known what it removes, and that is a part of the work
directory: not all of it, and nothing of its `.git`. What git does not know cannot be restored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hookline.containment.links import is_below
from hookline.containment.shell.places import expand
from hookline.containment.shell.programs import roots_of
from hookline.containment.shell.runners import FEEDERS, name_of
from hookline.containment.shell.words import Word
from hookline.wildcards import matches

REMOVERS = frozenset("rm rmdir unlink shred".split())
_RECURSIVE = re.compile(r"-(?:[A-Za-z]*[rR]|-r)")
_LITERAL = re.compile(r"[\w ./@%+=:,*?\[\]^-]+|\{\}")
_MAGIC = re.compile(r"[*?\[]")
_BRACKET = re.compile(r"\[[^\]]*\]?")
_EVERYTHING = re.compile(r"[^A-Za-z0-9]*[*?][^A-Za-z0-9]*")
"""A pattern of names that spells out none of them: `*`, `.[!.]*`."""
_ABOVE = re.compile(r"\.\.(?:/\.\.)*(?:/[^\w/]*[*?][^\w/]*)?/?")
_HOMES = re.compile(r"/(?:home|Users)/[^/]+")
_NAME_TESTS = frozenset("-name -iname -path -ipath -wholename -iwholename".split())
_NOT = frozenset({"!", "-not"})
_ALTERNATIVES = frozenset({"-o", "-or", ",", "(", ")"})
_TRIAL = re.compile(r"-[dfqxX]*n[dfqxX]*|--dry-run")


class DenyFinding(NamedTuple):
    """Why a command is denied, or is asked about everywhere."""

    reason: str
    is_denied: bool = True


class Location(NamedTuple):
    """The work directory, and the directory in which a command runs: whole paths."""

    root: str
    where: str

    def path(self, text: str) -> str:
        """Where a word leads, as it is written."""
        return os.path.normpath(os.path.join(self.where, os.path.expanduser(text)))

    def removed(self, text: str) -> str:
        """What is removed: links on the way are followed, and the last one where a slash follows it."""
        directory, last = os.path.split(os.path.join(self.where, os.path.expanduser(text)))
        if last in {"", ".", ".."}:
            return os.path.realpath(os.path.join(directory, last))
        return os.path.join(os.path.realpath(directory), last)


def find_removal(argv: Sequence[str], visited: Sequence[Location], text: str) -> DenyFinding | None:
    """Why a removal is denied or asked about everywhere; None if it is neither, or nothing is removed.

    `visited` are the places where the line has been, the current one last; `text` is the command as it is written.
    """
    name, words = name_of(argv), argv[1:]
    if name in REMOVERS:
        return _rm(words, visited, text)
    if name == "git":
        return _clean(words)
    # A text for a shell may be among the words: `find . -exec sh -c 'rm "$0"' {} \;`
    removes = any(name_of([word]) in REMOVERS for word in " ".join(words).split())
    if name == "find" and (removes or "-delete" in words):
        return _find(words, visited[-1], text)
    if removes and (name in FEEDERS or name in {"fd", "fdfind"}):
        return _ask("it is not known what it removes")
    return None


def _ask(reason: str) -> DenyFinding:
    return DenyFinding(reason, is_denied=False)


def _rm(words: Sequence[str], visited: Sequence[Location], text: str) -> DenyFinding | None:
    location = visited[-1]
    targets = [word for word in words if word and not word.startswith("-")]
    if vital := next((target for target in targets if is_vital(target, location)), None):
        return DenyFinding(f"it removes {vital}")
    is_recursive = any(map(_RECURSIVE.match, words))
    # Behind another program (`env -C dir rm -r x`) it may run elsewhere.
    is_plain = name_of(text.split()[:1]) in REMOVERS | {"find"} and "$" not in text
    if "`" in text or "$(" in text or (is_recursive and not (is_plain and targets)):
        return _ask("it is not known what it removes")
    patterns = [target for target in targets if _MAGIC.search(target)]
    outside = next((one for one in targets if not _is_inside(one, location)), None)
    if outside and (is_recursive or patterns):
        return _ask(f"it removes {outside}, which may be no part of the work directory")
    if patterns and any(_is_everything(patterns, place) for place in visited):
        return _ask("it removes everything in the work directory")
    return None


def is_vital(target: str, location: Location) -> bool:
    """Whether a path is the root, a home, the work directory or above it, or its `.git`; or all that is there."""
    if _ABOVE.fullmatch(target):
        return True
    return any(
        _is_vital(p, location.root) for p in {location.path(target), location.removed(target)}
    )


def _is_vital(path: str, root: str) -> bool:
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
    return _names_git(last)


@lru_cache(16)
def _homes(home: str) -> frozenset[str]:
    return frozenset({home, os.path.realpath(home)})


def _names_git(name: str) -> bool:
    """Whether a name is `.git`, or a pattern that spells out some of it."""
    return bool(re.match(r"\.\w", name)) and matches(".git", name.lower())


def _is_inside(target: str, location: Location) -> bool:
    """Whether a word is certain to lead to something below the work directory, and not into `.git`."""
    paths = _found(target, location) if _MAGIC.search(target) else {location.removed(target)}
    return bool(_LITERAL.fullmatch(target) and paths) and all(
        path.startswith(f"{location.root}/")
        and ".git" not in path.removeprefix(location.root).lower().split("/")
        for path in paths or ()
    )


def _found(pattern: str, location: Location) -> set[str]:
    """What a pattern finds now, each as what is removed; nothing if that is too much to look at."""
    names = [
        each.text.rstrip("/") for each in expand(Word(pattern, exact=False), location.where) or ()
    ]
    real = {above: location.removed(f"{above or '.'}/") for above in map(os.path.dirname, names)}
    return {os.path.join(real[os.path.dirname(each)], os.path.basename(each)) for each in names}


def _is_everything(patterns: Sequence[str], location: Location) -> bool:
    """Whether patterns find all that is in the work directory and not hidden."""
    found = set[str]()
    for pattern in patterns:
        parts = pattern.rstrip("/").split("/")
        first = next(at for at, part in enumerate(parts) if _MAGIC.search(part))
        begins = location.removed("/".join([*parts[:first], ""]) or ".")
        if begins == location.root and all(map(_EVERYTHING.fullmatch, parts[first:])):
            return True
        found |= _found(pattern, location)
    visible = {f"{location.root}/{name}" for name in _entries(location.root) if name[0] != "."}
    return bool(visible) and visible <= found


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _find(words: Sequence[str], location: Location, text: str) -> DenyFinding | None:
    """A find that removes what it finds: it must be limited by a name."""
    roots = roots_of(words) or ["."]
    for root in roots:
        if is_vital(root, location) and location.removed(root) != location.root:
            return DenyFinding(f"it removes files in {root}")
    is_known = all(is_below(location.removed(root), location.root) for root in roots)
    if not is_known or not _ALTERNATIVES.isdisjoint(words) or re.search("[$`]", text):
        return _ask("it is not known what it removes")
    names = list(_tested_names(words))
    if git := next((name for name in names if any(map(_names_git, name.split("/")))), None):
        return DenyFinding(f"it removes {git}")
    if any(re.search(r"\w", _BRACKET.sub("", name)) for name in names):
        return None
    return _ask("it removes everything that it finds")


def _tested_names(words: Sequence[str]) -> Iterator[str]:
    """The patterns that a file must match before something is done with it."""
    for at, (test, value) in enumerate(pairwise(words)):
        if test == "-delete" or test.startswith(("-exec", "-ok")):
            return
        if test in _NAME_TESTS and words[at - 1] not in _NOT:
            yield value


def _clean(words: Sequence[str]) -> DenyFinding | None:
    """`git clean` removes what git does not know. Only options stand before the sub-command, and their values."""
    if "clean" not in words:
        return None
    at = words.index("clean")
    before = pairwise(["", *words[:at]])
    is_verb = all(word.startswith("-") or option.startswith("-") for option, word in before)
    is_trial = any(map(_TRIAL.fullmatch, words[at + 1 : at + 2])) and "--no-dry-run" not in words
    return _ask("it removes what git does not know") if is_verb and not is_trial else None
