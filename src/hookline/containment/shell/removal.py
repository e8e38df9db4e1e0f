"""Removals: those that are denied everywhere, and those about which a person is asked in a sandbox too.

In a sandbox a removal runs without a question only if it is known what it removes, and that is a part of the work
directory: not all of it, and nothing of its `.git`. What git does not know cannot be restored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hookline.containment.links import is_below
from hookline.containment.shell.places import expand
from hookline.containment.shell.programs import roots_of
from hookline.containment.shell.scan import Unreadable, scan
from hookline.containment.shell.words import Word
from hookline.shell_text.runners import RUNNERS, RUNNERS_OF_ANY, name_of
from hookline.wildcards import matches

REMOVERS = frozenset("rm rmdir unlink shred".split())
_RECURSIVE = re.compile(r"-(?:[A-Za-z]*[rR]|-r)")
_REMOVER = re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(REMOVERS))})(?![\w.-])")
_LITERAL = re.compile(r"(?!.*\*\*)[\w ./@%+=:,*?\[\]^-]+")
"""Not `**`: it may be any number of directories."""
_MAGIC = re.compile(r"[*?\[]")
_EVERYTHING = re.compile(r"[^A-Za-z0-9]*[*?][^A-Za-z0-9]*")
"""A pattern of names that spells out none of them: `*`, `.[!.]*`."""
_ABOVE = re.compile(r"\.\.(?:/\.\.)*(?:/[^\w/]*[*?][^\w/]*)?/?")
_HOMES = re.compile(r"/(?:home|Users)/[^/]+")
_NAME = r"(?=.*[A-Za-z0-9])[^\[\]\\]+"
_FIND_TESTS = {
    **dict.fromkeys(("-maxdepth", "-mindepth"), "[0-9]+"),
    **dict.fromkeys(("-name", "-iname"), _NAME),
    "-type": "[a-z]",
}
_FIND_ACTION = re.compile("-delete|-exec\0rm\0(?:-(?:f|r|rf)\0)?{}\0[+;]")
_FIND_LOGIC = frozenset("! -not -o -or , ( ) -prune".split())
_GIT_ALIAS = re.compile(r"(?:--config-env=)?(?:alias|include|includeif)\.", re.IGNORECASE)
_TRIAL = re.compile(r"-[ndqxX]+|--dry-run")
_CHANGERS = frozenset({"ln", "mv", "shopt"})
"""Programs that change what a path or a pattern leads to."""
_EXTENDED = re.compile(r"[?*+@!]\(")


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


def removes(argv: Sequence[str]) -> bool:
    """Whether a command removes files, by its name and its words. A text for a shell may be among them."""
    name, words = name_of(argv), argv[1:]
    if name == "find":
        at = next((at for at, word in enumerate(words) if word.startswith(("-exec", "-ok"))), None)
        return "-delete" in words or (at is not None and _has_remover(words[at:]))
    is_runner = name in RUNNERS or name in RUNNERS_OF_ANY or name in {"fd", "fdfind"}
    return name in REMOVERS or (is_runner and _has_remover(words))


def _has_remover(words: Sequence[str]) -> bool:
    return any(map(_REMOVER.search, words))


def find_removal(argv: Sequence[str], visited: Sequence[Location], text: str) -> DenyFinding | None:
    """Why a removal is denied or asked about everywhere; None if it is neither, or nothing is removed.

    `visited` are the places where the line has been, the current one last; `text` is the command as it is written.
    """
    name, words = name_of(argv), argv[1:]
    if name == "git":
        return _git(words, text)
    if not removes(argv):
        return None
    if name in REMOVERS:
        return _rm(words, visited, text)
    if name == "find":
        return _find(words, visited, text)
    return _ask("it is not known what it removes")


def line_removal(commands: Sequence[Sequence[str]], text: str) -> str:
    """Why a line with a removal is asked about whatever its words are: another part may change what they mean.

    That part may stand behind the removal: in a loop, in the background, or before the call of a function.
    """
    if not any(map(removes, commands)):
        return ""
    if changer := next((name for name in map(name_of, commands) if name in _CHANGERS), ""):
        return f"it is not known what it removes, because of {changer} in the same line"
    return "it is not known what it removes" if _EXTENDED.search(text) else ""


def _ask(reason: str) -> DenyFinding:
    return DenyFinding(reason, is_denied=False)


def _read(text: str) -> list[Word]:
    """The words of a command if it begins with a plain name, and all others are literal, or patterns; none if not."""
    try:
        found = scan(text).found
    except Unreadable:
        return []
    words = found[0].command.words if len(found) == 1 else ()
    return list(words) if words and text.startswith(words[0].text) else []


def _operands(words: Sequence[str]) -> list[str]:
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if word and word[0] != "-"] + [*words[end + 1 :]]


def _rm(words: Sequence[str], visited: Sequence[Location], text: str) -> DenyFinding | None:
    location = visited[-1]
    if vital := next((each for each in _operands(words) if is_vital(each, location)), None):
        return DenyFinding(f"it removes {vital}")
    written = [word.text for word in _read(text)]
    if name_of(written) == "find":  # which is judged as a whole
        return None
    targets = _operands(written[1:])
    # Behind another program (`env -C dir rm -r x`) it may run elsewhere.
    if name_of(written) not in REMOVERS or not targets:
        return _ask("it is not known what it removes")
    patterns = [target for target in targets if _MAGIC.search(target)]
    everywhere = ((one, place) for one in targets for place in visited)
    outside = next((one for one, place in everywhere if not _is_inside(one, place)), None)
    if outside and (patterns or any(map(_RECURSIVE.match, written))):
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


def _find(words: Sequence[str], visited: Sequence[Location], text: str) -> DenyFinding | None:
    """A find that removes what it finds."""
    location = visited[-1]
    for root in roots_of(words) or ["."]:
        if is_vital(root, location) and location.removed(root) != location.root:
            return DenyFinding(f"it removes files in {root}")
    for test, value in pairwise(words) if _FIND_LOGIC.isdisjoint(words) else ():
        if test in {"-name", "-iname"} and _names_git(value):
            return DenyFinding(f"it removes {value}")
    program, *written = _read(text) or [Word("")]
    is_known = program.text == "find" and all(word.exact for word in written)
    if is_known and _is_known_find([word.text for word in written], visited):
        return None
    return _ask("it is not known to remove only what has a certain name")


def _is_known_find(words: Sequence[str], visited: Sequence[Location]) -> bool:
    """Whether it is `find DIR.. TEST.. ACTION` with a test of the name, each test once, and nothing else."""
    roots = roots_of(words)
    rest = words[len(roots) :]
    end = next((at for at, word in enumerate(rest) if word in {"-delete", "-exec"}), 0)
    tests = dict(zip(rest[:end:2], rest[1:end:2], strict=False))
    names = [tests[test].lower() for test in ("-name", "-iname") if test in tests]
    return (
        bool(roots)
        and all(_may_search(root, place) for root in roots for place in visited)
        and len(tests) * 2 == end
        and all(re.fullmatch(_FIND_TESTS.get(test, "(?!)"), tests[test]) for test in tests)
        and len(names) == 1
        and not matches(".git", names[0])
        and _FIND_ACTION.fullmatch("\0".join(rest[end:])) is not None
    )


def _may_search(directory: str, location: Location) -> bool:
    """The work directory itself must be `.`: by its name, the test of a name could find it."""
    path = location.removed(directory)
    is_itself = path == location.root and os.path.normpath(directory) != "."
    return _is_part(path, location.root) and not is_itself


def _git(words: Sequence[str], text: str) -> DenyFinding | None:
    """`git clean` removes what git does not know. Only options stand before the sub-command, and their values."""
    is_set = any(word in {"-c", "config"} or word.startswith("--config-env") for word in words)
    if is_set and any(map(_GIT_ALIAS.match, words)):
        return _ask("it is not known what its alias does")
    if "clean" not in words:
        return None
    at = words.index("clean")
    before, after = pairwise(["", *words[:at]]), words[at + 1 :]
    is_verb = all(word.startswith("-") or option.startswith("-") for option, word in before)
    is_read = [word.text for word in _read(text)] == ["git", *words]
    is_trial = is_read and all(map(_TRIAL.fullmatch, after)) and any("n" in word for word in after)
    return _ask("it removes what git does not know") if is_verb and not is_trial else None
