"""Which repositories git would read where a command stands, and whether one of them makes it start a program.

Git looks for a repository from a directory upwards, and takes a directory that merely looks like one for one. It also
asks the repositories inside, those that are recorded as submodules, with the configuration that lies there. So where a
command stands is looked at on the disk: what is not there can do nothing, and what cannot be read is asked about.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator

from hookline.containment.shell.git_config import (
    Setting,
    Unreadable,
    kept_secret,
    read_settings,
    starting_program,
)
from hookline.containment.shell.git_index import repositories_in

MAX_REPOSITORIES = 200
MAX_INDEX = 64_000_000
"""In bytes. Half a million files or so."""

_HEAD = re.compile(rb"ref: refs/[\w./+@-]+\n|[0-9a-f]{40}\n|[0-9a-f]{64}\n")
_INDEXES = re.compile(r"index$|sharedindex\.", re.IGNORECASE)
_HOOK = "post-index-change"
"""The one hook that looking runs: `git status` writes down what it has learned."""


def repository_objection(
    places: Iterable[str], verbs: frozenset[str], *, shows_settings: bool = False
) -> str | None:
    """Why git, asked to look from one of some directories, may start a program of a repository's, or None.

    With `shows_settings` it is also a reason that one of its settings is a secret.
    """
    look = _Look(verbs, shows_settings=shows_settings)
    try:
        for place in sorted(places):
            look.at(place)
    except _StartsProgram as found:
        return str(found)
    except Unreadable as why:
        return f"it cannot be said what git would start: {why}"
    except (OSError, ValueError):
        return "it cannot be said what git would start there"
    return None


class _StartsProgram(Exception):
    """A setting or a hook that is a program, or a secret that would be shown."""


class _Look:
    """What has been looked at so far."""

    def __init__(self, verbs: frozenset[str], *, shows_settings: bool) -> None:
        self.verbs = verbs
        self.shows_settings = shows_settings
        self.seen: set[tuple[str, str]] = set()
        self.modules: set[str] = set()
        self.levels: set[str] = set()

    def at(self, place: str) -> None:
        """Look at every repository that git may find from a directory upwards."""
        level = os.path.realpath(place)
        if not os.path.isdir(level):
            return
        while level not in self.levels:
            self.levels.add(level)
            level = level if self._found_at(level) else os.path.dirname(level)

    def _found_at(self, level: str) -> bool:
        """Look at what may be a repository in a directory; whether git certainly goes no further."""
        link = os.path.join(level, ".git")
        if os.path.lexists(link):
            directory = os.path.realpath(_git_directory(link))
            self.repository(directory, level)
            if _is_certain(directory):
                return True
        if os.path.lexists(os.path.join(level, "HEAD")):  # a directory that looks like one is one
            self.repository(level, "")
            return _is_certain(level)
        return False

    def repository(self, directory: str, tree: str) -> None:
        """Look at what a repository sets, at its hooks, and at the repositories inside. `tree`: where its files are."""
        if (directory, tree) in self.seen:
            return
        self.seen.add((directory, tree))
        if len(self.seen) > MAX_REPOSITORIES:
            raise Unreadable("there are too many repositories in it")
        common = _common_directory(directory)
        for path in sorted(
            {f"{common}/config", f"{directory}/config", f"{directory}/config.worktree"}
        ):
            self._settings(path, directory, tree, depth=0)
        self._hook(f"{common}/hooks")
        for path in _submodules(directory) if tree else ():
            self._submodule(os.path.join(tree, path))
        for module in _modules(f"{common}/modules"):
            self.modules.add(os.path.realpath(module))
            self.repository(os.path.realpath(module), "")

    def _submodule(self, tree: str) -> None:
        link = os.path.join(tree, ".git")
        if os.path.lexists(link):
            self.repository(os.path.realpath(_git_directory(link)), tree)

    def _settings(self, path: str, directory: str, tree: str, depth: int) -> None:
        if depth > 10:
            raise Unreadable(f"{path} is included too deeply")
        settings = read_settings(path)
        if key := starting_program(settings, self.verbs):
            raise _StartsProgram(f"{key} in {path} may start a program")
        if self.shows_settings and (key := kept_secret(settings)):
            raise _StartsProgram(f"{key} in {path} holds a secret")
        for one in settings:
            if one.key == "core.worktree":
                self._tree(one, path, directory, tree)
            elif one.key == "core.hookspath":
                self._hook(_below(tree or directory, one.value))
            elif one.key == "extensions.objectformat" and one.value.lower() != "sha1":
                raise Unreadable("its objects have names of another length")
            elif one.section in {"include", "includeif"} and one.name == "path":
                self._settings(_below(os.path.dirname(path), one.value), directory, tree, depth + 1)

    def _tree(self, one: Setting, path: str, directory: str, tree: str) -> None:
        """A repository may say that its files are elsewhere; only that of a submodule says what is so anyway."""
        named = os.path.realpath(_below(directory, one.value))
        kept = not tree and directory in self.modules and _leads_back(named, directory)
        if not kept and not (tree and named == os.path.realpath(tree)):
            raise _StartsProgram(f"{path} says that its files are in {one.value}")

    def _hook(self, hooks: str) -> None:
        hook = os.path.join(hooks, _HOOK)
        if os.path.lexists(hook):
            raise _StartsProgram(f"{hook} may be run")


def _below(place: str, path: str) -> str:
    """Where a path in a configuration leads. Git puts its own place for `%(prefix)`, and knows marks before a path."""
    if path.startswith(("%(", ":(")) or path != path.strip() or not path.isprintable():
        raise Unreadable(f"{path!r} is no plain path")
    return os.path.join(place, os.path.expanduser(path))


def _leads_back(tree: str, directory: str) -> bool:
    """Whether the files in a directory belong to a repository, or it is a submodule that is not checked out."""
    link = os.path.join(tree, ".git")
    return not os.path.lexists(link) or os.path.realpath(_git_directory(link)) == directory


def _git_directory(link: str) -> str:
    """The directory of a repository: `.git` itself, or where a file of that name says it is."""
    if os.path.isdir(link):
        return link
    said = _start_of(link)
    found = re.fullmatch(rb"gitdir: ([^\0\n\r]+)[\r\n]*", said)
    if found is None:
        raise Unreadable(f"{link} is no repository")
    return os.path.join(os.path.dirname(link), os.fsdecode(found[1]))


def _common_directory(directory: str) -> str:
    """Where the configuration is: with several working trees, that of the first."""
    path = os.path.join(directory, "commondir")
    if not os.path.lexists(path):
        return directory
    said = os.fsdecode(_start_of(path)).rstrip("\r\n")
    return os.path.realpath(os.path.join(directory, said))


def _start_of(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Unreadable(f"{path} is no file")
        return os.read(fd, 5000)
    finally:
        os.close(fd)


def _is_certain(directory: str) -> bool:
    """Whether git takes a directory for a repository without doubt, and looks no further up."""
    common = _common_directory(directory)
    whole = os.path.isdir(f"{common}/objects") and os.path.isdir(f"{common}/refs")
    head = os.path.join(directory, "HEAD")
    if not whole or os.path.islink(head) or not os.path.isfile(head):
        return False
    return _HEAD.fullmatch(_start_of(head)) is not None


def _modules(place: str, depth: int = 0) -> Iterator[str]:
    """The repositories of submodules that are kept in that of the project. Their names may have slashes."""
    if depth > 8 or not os.path.isdir(place):
        return
    with os.scandir(place) as entries:
        names = sorted(entry.path for entry in entries if entry.is_dir())
    for path in names:
        if os.path.lexists(f"{path}/HEAD"):
            yield path
        else:
            yield from _modules(path, depth + 1)


_found: dict[tuple[object, ...], tuple[str, ...]] = {}
"""What was found before in the same version of an index."""


def _submodules(directory: str) -> Iterator[str]:
    """The paths at which its indexes have repositories of their own."""
    with os.scandir(directory) as entries:
        names = [one.path for one in entries if _INDEXES.match(one.name)]
    for path in names:
        yield from _in_index(path)


def _in_index(path: str) -> tuple[str, ...]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_INDEX:
            raise Unreadable(f"{path} cannot be read")
        version = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if version not in _found:
            if len(_found) > 500:
                _found.clear()
            with open(fd, "rb", closefd=False) as file:
                _found[version] = tuple(repositories_in(file.read(MAX_INDEX)))
        return _found[version]
    finally:
        os.close(fd)
