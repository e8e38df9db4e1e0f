"""Removals: those that are denied everywhere, and those about which a person is asked in a sandbox too.

In a sandbox a command that speaks of a removal asks, unless it is one of three plain forms of which it is known what
they remove: a part of the work directory, not all of it, and nothing of its `.git`. What git does not know cannot be
restored. That a remover's name is among the words is enough, also inside of a text (`git rebase -x 'rm -r x'`). A list
of the programs that run others was tried, and is never complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hookline.containment.links import is_below
from hookline.containment.shell.places import MAGIC, expand
from hookline.containment.shell.programs import roots_of
from hookline.containment.shell.scan import Unreadable, scan
from hookline.containment.shell.words import Word
from hookline.shell_text.runners import SHELLS, name_of
from hookline.wildcards import matches

REMOVERS = frozenset("rm rmdir unlink shred".split())
_SPOKEN = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(sorted(REMOVERS))}|git\b[^;&|\n]{{0,80}}\bclean)(?![\w.-])|(?<!\S)-delete\b"
)
_SPEAKERS = frozenset("echo printf grep".split())
"""Programs that run nothing of what they are given. What they print is looked at where a shell reads it."""
_HAVE_OWN = frozenset("git npm pnpm docker podman".split())
"""Programs with a sub-command `rm`."""
_GIT_ALIAS = re.compile(r"(?:--config-env=)?(?:alias|include|includeif)\.", re.IGNORECASE)
_TRIAL = re.compile("git\0clean(?:\0-[dqxX]+)*\0(?:-[dqxX]*n[ndqxX]*|--dry-run)(?:\0-[ndqxX]+)*")
_NAMED_FIND = re.compile(
    """
    (?:-(?:maxdepth|mindepth)\0[0-9]+\0|-type\0[a-z]\0)*
    -i?name\0(?P<name>(?=[^\0]*[A-Za-z0-9])[^][\\\\\0]+)\0
    (?:-(?:maxdepth|mindepth)\0[0-9]+\0|-type\0[a-z]\0)*
    (?:-delete|-exec\0rm\0(?:-(?:f|r|rf)\0)?{}\0[+;])
    """,
    re.VERBOSE,
)
_FIND_LOGIC = frozenset("! -not -o -or , ( ) -prune".split())
_RECURSIVE = re.compile(r"-(?:[A-Za-z]*[rR]|-r)")
_LITERAL = re.compile(r"(?!.*\*\*)[\w ./@%+=:,*?\[\]^-]+")
"""Not `**`: it may be any number of directories."""
_BRACKET = re.compile(r"\[[^/]*\]")
_EVERYTHING = re.compile(r"[^A-Za-z0-9]*[*?][^A-Za-z0-9]*")
"""A pattern of names that spells out none of them: `*`, `.[!.]*`."""
_ABOVE = re.compile(r"\.\.(?:/\.\.)*(?:/[^\w/]*[*?][^\w/]*)?/?")
_HOMES = re.compile(r"/(?:home|Users)/[^/]+")
_CHANGERS = frozenset({"ln", "mv", "shopt"})
"""Programs that change what a path or a pattern leads to."""


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


# --- what is denied -----------------------------------------------------------------------------------


def find_vital(argv: Sequence[str], location: Location) -> str | None:
    """What a command removes that must never be removed, or None."""
    name, words = name_of(argv), argv[1:]
    if name in REMOVERS:
        return next((each for each in _operands(words) if _is_vital(each, location)), None)
    if name == "find" and _speaks_of_removal(argv):
        return next(_vital_in_find(words, location), None)
    return None


def _vital_in_find(words: Sequence[str], location: Location) -> Iterator[str]:
    for root in roots_of(words) or ["."]:
        if _is_vital(root, location) and location.removed(root) != location.root:
            yield f"files in {root}"
    for test, value in pairwise(words) if _FIND_LOGIC.isdisjoint(words) else ():
        if test in {"-name", "-iname"} and _names_git(value):
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
        for path in {location.path(target), location.removed(target)}
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
    return _names_git(last)


@lru_cache(16)
def _homes(home: str) -> frozenset[str]:
    return frozenset({home, os.path.realpath(home)})


def _names_git(name: str) -> bool:
    """Whether a name is `.git`, or a pattern that spells out some of it."""
    return bool(re.match(r"\.\w", name)) and matches(".git", name.lower())


# --- what asks in a sandbox too -----------------------------------------------------------------------


def line_question(questions: Sequence[str], names: Sequence[str]) -> str:
    """Why a line asks in a sandbox: by one of its removals, or by another part that changes what they mean.

    That part may stand behind the removal: in a loop, in the background, or before the call of a function.
    """
    changer = next((name for name in names if name in _CHANGERS), "") if questions else ""
    if changer:
        return f"it is not known what it removes, because of {changer} in the same line"
    return next(filter(None, questions), "")


def removal_question(argv: Sequence[str], visited: Sequence[Location], text: str) -> str | None:
    """Why a command asks in a sandbox; empty if its removal is a plain one, and None if it speaks of none.

    `visited` are the places where the line has been; `text` is the command as it is written.
    """
    if not _speaks_of_removal(argv):
        return None
    words = _read(text)
    written = [word.text for word in words]
    if name_of(written) in REMOVERS:
        return _rm_question(written[1:], visited)
    is_find = written[:1] == ["find"] and all(word.exact for word in words)
    if is_find and _is_plain_find(written[1:], visited):
        return ""
    return "" if _TRIAL.fullmatch("\0".join(written)) else "it is not known what it removes"


def _speaks_of_removal(argv: Sequence[str]) -> bool:
    name, words = name_of(argv), argv[1:]
    if name in _SPEAKERS or [name, *words[:1]] == ["git", "commit"]:
        return False
    if name in SHELLS and words[:-1] in (
        ["-c"],
        ["-lc"],
    ):  # the text is looked at as a line of its own
        return False
    if name == "git" and ("clean" in words or any(map(_GIT_ALIAS.match, words))):
        return True
    own = 1 if name in _HAVE_OWN and words[:1] == ["rm"] else 0
    return name in REMOVERS or _SPOKEN.search("\n".join(words[own:])) is not None


def _read(text: str) -> list[Word]:
    """The words of a command if it begins with a plain name, and all others are literal, or patterns; none if not."""
    try:
        found = scan(text).found
    except Unreadable:
        return []
    words = found[0].command.words if len(found) == 1 else ()
    return list(words) if words and text.startswith(words[0].text) else []


def _rm_question(words: Sequence[str], visited: Sequence[Location]) -> str:
    targets = _operands(words)
    if not targets:
        return "it is not known what it removes"
    has_many = any(map(_RECURSIVE.match, words)) or any(map(MAGIC.search, targets))
    for target in targets:
        if MAGIC.search(target) and ".." in target.split("/"):
            return "it is not known what it removes"  # `s*/../*` is `*`
        for place in visited:
            if _is_everything(target, place):
                return "it removes everything in the work directory"
            if has_many and not _is_inside(target, place):
                return f"it removes {target}, which may be no part of the work directory"
    return ""


def _is_everything(target: str, location: Location) -> bool:
    """Whether a pattern finds whatever is in the work directory, by its text."""
    parts = _BRACKET.sub("?", target).rstrip("/").split("/")
    first = next((at for at, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return (
        first < len(parts)
        and all(map(_EVERYTHING.fullmatch, parts[first:]))
        and location.removed("/".join([*parts[:first], ""]) or ".") == location.root
    )


def _is_inside(target: str, location: Location) -> bool:
    """Whether a word is certain to lead to something below the work directory, and not into `.git`."""
    paths = _found(target, location) if MAGIC.search(target) else {location.removed(target)}
    return bool(_LITERAL.fullmatch(target) and paths) and all(
        path != location.root and _is_part(path, location.root) for path in paths
    )


def _is_part(path: str, root: str) -> bool:
    """Whether a path is the work directory or below it, and not in `.git`."""
    return is_below(path, root) and ".git" not in path.removeprefix(root).lower().split("/")


def _found(pattern: str, location: Location) -> set[str]:
    """What a pattern finds now, each as what is removed; nothing if that is too much to look at."""
    names = [
        each.text.rstrip("/") for each in expand(Word(pattern, exact=False), location.where) or ()
    ]
    real = {above: location.removed(f"{above or '.'}/") for above in map(os.path.dirname, names)}
    return {os.path.join(real[os.path.dirname(each)], os.path.basename(each)) for each in names}


def _is_plain_find(words: Sequence[str], visited: Sequence[Location]) -> bool:
    """Whether it is `find DIR.. TEST.. ACTION` with one test of the name, which is not `.git`."""
    roots = roots_of(words)
    found = _NAMED_FIND.fullmatch("\0".join(words[len(roots) :]))
    if not roots or found is None or matches(".git", found["name"].lower()):
        return False
    return all(_may_search(root, place) for root in roots for place in visited)


def _may_search(directory: str, location: Location) -> bool:
    """The work directory itself must be `.`: by its name, the test of a name could find it."""
    path = location.removed(directory)
    is_itself = path == location.root and os.path.normpath(directory) != "."
    return _is_part(path, location.root) and not is_itself
