"""Removals: those that are denied everywhere, and those about which a person is asked in a sandbox too.

In a sandbox a line whose text has a remover's name asks, unless the name stands in a plain form of which it is known
what it removes (a part of the work directory, not all of it, and nothing of its `.git`), or in a command that only
prints or stores it. What git does not know cannot be restored. The text decides and not the words of each command: a
name may also stand in an array, a variable, a here-document or an option (`-x'rm -r x'`). A list of the programs that
run others was tried, and is never complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hookline.containment.links import is_below, real_path
from hookline.containment.shell.places import MAGIC, expand
from hookline.containment.shell.programs import roots_of
from hookline.containment.shell.scan import Unreadable, scan
from hookline.containment.shell.words import Word
from hookline.shell_text import PipelineStage, TooDeep, plain_text
from hookline.shell_text.runners import FEEDERS, can_run_input, name_of
from hookline.shell_text.started import started_by
from hookline.wildcards import matches

REMOVERS = frozenset("rm rmdir unlink shred".split())
_OWN_REMOVERS = (
    "git", "git remote", "npm",
    "docker", "docker container", "docker image", "docker volume", "docker network", "docker compose",
    "podman", "podman container", "podman image", "podman volume", "podman network",
)  # fmt: skip
"""What has a `rm` of its own, which removes no files of the work directory that git does not know."""
_SPOKEN = re.compile(
    rf"""
    (?<![\w.-]) {"".join(f"(?<!{name} )".replace(" ", "[ ]") for name in _OWN_REMOVERS)}
    (?: {"|".join(sorted(REMOVERS))} ) (?![\w.=-])
    | (?<!\S) -delete\b
    | \bgit\s+ (?: -[^;&|\n]{{0,80}}?\s )? clean (?![\w.-])
    | (?i: (?: = | \bgit\s+config\s[^;&|\n]{{0,40}}? ) \balias\.\w | \balias\.[\w-]+= | \binclude(?:\.path|if\.) )
    """,
    re.VERBOSE,
)
"""A removal in a text without quotes, or a setting by which git may run one."""
_QUOTES = re.compile(r"['\"\\]")
_JOINTS = re.compile(r"['\"]|\\[nt]")
_SPEAKERS = frozenset(
    ("echo", "printf", "cat", "tee", "grep", "which", "type", "git commit", "git log", "git tag", "gh issue", "gh pr")
)  # fmt: skip
"""Programs, and sub-commands, that run nothing of what they are given."""
_RUNS_A_VALUE = re.compile(r"(?:^|[;&|({`]|\b(?:do|then|else))[ \t]*\"?\$", re.MULTILINE)
_UNKNOWN = "it is not known what it removes"
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
    if name == "find" and _has_removal(" ".join(words)):
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


class Removals:
    """The removals of one line: which of them are plain, and what is left of its text without these."""

    def __init__(self, line: str) -> None:
        try:
            self._rest = plain_text(line)
        except TooDeep:
            self._rest = line
        self._is_spoken = _has_removal(self._rest)
        self._questions: list[str] = []
        """Why somebody is asked about a removal; empty of a plain one."""
        self._plain: list[str] = []
        self._printed: list[str] = []
        self._is_stored = False
        """Whether some of what is printed goes to a file."""

    def command(self, text: str, visited: Sequence[Location]) -> None:
        """Take a command of the line. `visited` are the places where the line has been."""
        question = _plain_question(_read(text), visited) if self._is_spoken else None
        if question is not None:
            self._plain.append(text)
            self._questions.append(question)

    def stage(self, stage: PipelineStage) -> None:
        """Take a member of a pipeline, for what it prints or stores."""
        if self._is_spoken and len(stage.commands) == 1 and _is_speaker(stage):
            self._printed += [stage.text, *stage.inputs]
            is_stored = any(operator not in {"<", "<>"} for operator, _ in stage.redirects)
            self._is_stored = self._is_stored or is_stored or stage.commands[0][0] == "tee"

    def add_found(self, argv: Sequence[str], text: str) -> None:
        """Take what is found in a command of the line, maybe not by its text: `$'\\x72m'` is rm."""
        is_removal = argv[0] in REMOVERS or argv[:2] == ["git", "clean"]
        if is_removal and text not in self._plain:
            self._questions.append(_UNKNOWN)

    def question(self, commands: Sequence[Sequence[str]]) -> str:
        """Why the line asks in a sandbox; empty if it does not. `commands` are all that were found in it."""
        if self._is_spoken and _has_removal(self._without(commands)):
            self._questions.append(_UNKNOWN)
        # It may stand behind the removal: in a loop, in the background, or before the call of a function.
        changers = (name for name in map(name_of, commands) if name in _CHANGERS)
        if self._questions and (changer := next(changers, "")):
            return f"it is not known what it removes, because of {changer} in the same line"
        return next(filter(None, self._questions), "")

    def _without(self, commands: Sequence[Sequence[str]]) -> str:
        """The text without its plain removals, and without what is printed if none of it is run."""
        rest, taken = self._rest, list(self._plain)
        is_run = any(can_run_input(argv) or name_of(argv) in FEEDERS for argv in commands)
        is_run = is_run or (self._is_stored and any(map(_can_run_file, commands)))
        if not is_run and not _RUNS_A_VALUE.search(rest):
            taken += self._printed
        for text in sorted(taken, key=len, reverse=True):  # `echo rm x` before `rm x`
            rest = rest.replace(text, " ", 1)
        return rest


def _has_removal(text: str) -> bool:
    """Whether a text has a removal, with its quotes taken out (`r''m`) or taken for blanks (`-x'rm x'`)."""
    return any(map(_SPOKEN.search, (_QUOTES.sub("", text), _JOINTS.sub(" ", text))))


def _is_speaker(stage: PipelineStage) -> bool:
    """Whether a command runs nothing of its words. With a variable before it, it may: `GIT_EDITOR=.. git commit`."""
    words = stage.commands[0]
    is_one = words[0] in _SPEAKERS or " ".join(words[:2]) in _SPEAKERS
    return is_one and stage.text.startswith(words[0])


def _can_run_file(argv: Sequence[str]) -> bool:
    """Whether a command runs a file by its path, or a script; it may be one that the same line has written."""
    return "/" in argv[0] or any(each.is_script for each in started_by(argv))


def _read(text: str) -> list[Word]:
    """The words of a command if it begins with a plain name, and all others are literal, or patterns; none if not."""
    try:
        found = scan(text).found
    except Unreadable:
        return []
    words = found[0].command.words if len(found) == 1 else ()
    return list(words) if words and text.startswith(words[0].text) else []


def _plain_question(words: Sequence[Word], visited: Sequence[Location]) -> str | None:
    """Why a plain removal asks; empty if it does not, and None if these are the words of something else."""
    written = [word.text for word in words]
    if name_of(written) in REMOVERS:
        return _rm_question(written[1:], visited)
    is_find = written[:1] == ["find"] and all(word.exact for word in words)
    if is_find and _is_plain_find(written[1:], visited):
        return ""
    return "" if _TRIAL.fullmatch("\0".join(written)) else None


def _rm_question(words: Sequence[str], visited: Sequence[Location]) -> str:
    targets = _operands(words)
    if not targets:
        return _UNKNOWN
    has_many = any(map(_RECURSIVE.match, words)) or any(map(MAGIC.search, targets))
    for target in targets:
        if MAGIC.search(target) and ".." in target.split("/"):
            return _UNKNOWN  # `s*/../*` is `*`
        for place in visited:
            if _is_everything(target, place):
                return "it removes everything in the work directory"
            if has_many and not _is_inside(target, place):
                return f"it removes {target}, which may be outside the work directory"
    return ""


def _is_everything(target: str, location: Location) -> bool:
    """Whether a pattern finds whatever is in the work directory, by its text."""
    parts = _BRACKET.sub("?", target).rstrip("/").split("/")
    first = next((at for at, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return (
        first < len(parts)
        and all(map(_EVERYTHING.fullmatch, parts[first:]))
        and location.resolve_removed("/".join([*parts[:first], ""]) or ".") == location.root
    )


def _is_inside(target: str, location: Location) -> bool:
    """Whether a word is certain to lead to something below the work directory, and not into `.git`."""
    paths = _find(target, location) if MAGIC.search(target) else {location.resolve_removed(target)}
    return bool(_LITERAL.fullmatch(target) and paths) and all(
        path != location.root and _is_part(path, location.root) for path in paths
    )


def _is_part(path: str, root: str) -> bool:
    """Whether a path is the work directory or below it, and not in `.git`."""
    return is_below(path, root) and ".git" not in path.removeprefix(root).lower().split("/")


def _find(pattern: str, location: Location) -> set[str]:
    """What a pattern finds now, each as what is removed; nothing if that is too much to look at."""
    names = [
        each.text.rstrip("/") for each in expand(Word(pattern, exact=False), location.where) or ()
    ]
    real = {
        above: location.resolve_removed(f"{above or '.'}/") for above in map(os.path.dirname, names)
    }
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
    path = location.resolve_removed(directory)
    is_itself = path == location.root and os.path.normpath(directory) != "."
    return _is_part(path, location.root) and not is_itself
