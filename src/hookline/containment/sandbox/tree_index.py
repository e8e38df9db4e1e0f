"""Where in a tree there are files that others run or obey, and environment files. Looked at before and after commands.

The whole tree is read once. After that only the time of each directory's last change is asked for, which a command
cannot set: an entry that comes or goes changes it. On 100,000 files in 10,000 directories that is a third of the time.
A watch by the kernel (inotify) was rejected: it has to be set for every directory, and loses events under load.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from hookline.containment.protected import (
    OBEYED,
    RUN_BELOW,
    VERSION_CONTROL,
    is_git_directory,
    run_by_pattern,
)
from hookline.containment.sandbox.directory_entries import Identity, identity_of, settle
from hookline.containment.sandbox.own_files import LinkedFile
from hookline.containment.sandbox.quarantine import IS_ASIDE, open_to_us
from hookline.containment.sandbox.repositories import (
    DIRECTORIES_OF_GIT,
    Part,
    git_parts,
    linked_ways,
    other_parts,
    pointer_targets,
    ref_parts,
)
from hookline.secret_tables import is_env_file

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_LISTING = stat.S_IRUSR | stat.S_IXUSR
_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LONGEST_PATH, _DEEPEST = 3000, 100
"""What is longer or deeper is not looked into, but moved aside as a whole where it is new."""
_POINTERS = frozenset({".git", "commondir"})
_CACHES_OF_MERCURIAL = ("/.hg/wcache", "/.hg/cache")
_CHECK, _CHECKED = "checklink", "checklink-target"
"""By this link Mercurial finds out whether there can be links. It never writes through it."""
_NOTHING: frozenset[str] = frozenset()
_OBEYED_IN_SMALL = frozenset(map(str.lower, OBEYED))
_NOTED = OBEYED.union(VERSION_CONTROL, RUN_BELOW, _POINTERS, {"objects"})
_HINTS = ("env", "mise", ".dev.vars", ".code-workspace", ".sublime-project")
"""Parts of names: each environment file, and each name that fits a pattern, has one of them."""


class _Directory(NamedTuple):
    identity: Identity
    below: tuple[str, ...] = ()
    """The directories in it, by their paths."""
    parts: tuple[str, ...] = ()
    """The entries that others run or obey."""
    systems: tuple[str, ...] = ()
    """The directories of version control in it, other than git's own."""
    is_git: bool = False
    pointers: tuple[str, ...] = ()
    """The files in it that lead git to a git directory."""
    env_files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    linked: tuple[LinkedFile, ...] = ()
    """The regular files in it that have more than one name, and that a command could write."""
    is_closed: bool = False
    """Whether it cannot be listed, or not be entered."""


class TreeIndex:
    """The parts and the environment files of one tree, by their paths relative to its root."""

    def __init__(self, root: str, depth: int | None = None) -> None:
        self._root = root
        self._depth = depth
        """How many directories deep it looks, and then at nothing that begins with a dot; None for all."""
        self._directories: dict[str, _Directory] = {}
        """What the last look saw."""
        self._known: dict[str, _Directory] = {}
        self._too_deep: list[str] = []

    @property
    def has_looked(self) -> bool:
        """Whether the whole tree was read once."""
        return bool(self._known)

    def refresh(
        self, places: Iterable[str] = ("",), may_open: Callable[[str], bool] | None = None
    ) -> None:
        """Look at the tree again, or only at some places in it: then the other methods know of these alone.

        A directory of ours that is closed, and that `may_open` agrees to, is opened to us.
        """
        known = self._known
        seen: dict[str, _Directory] = {}
        self._too_deep = []
        pending = list(places)
        while pending:
            place = pending.pop()
            path = f"{self._root}/{place}" if place else self._root
            record = known.get(place)
            try:
                if record is None or record.identity != identity_of(os.lstat(path)):
                    if _is_too_long(path) or place.count("/") > _DEEPEST:
                        self._too_deep.append(place)
                        continue
                    record = _read(path, place, files=self._depth is None)
                    if record.is_closed and may_open is not None and may_open(place):
                        open_to_us(path, _LISTING)
                        record = _read(path, place)
            except (FileNotFoundError, NotADirectoryError):  # it is gone, or a part of its path is
                continue
            except OSError:
                self._too_deep.append(place)
                continue
            seen[place] = record
            if self._depth is None:
                pending += record.below
            elif place.count("/") + bool(place) < self._depth:
                pending += (path for path in record.below if "/." not in f"/{path}")
        self._directories = seen
        self._known = seen if "" in seen else {**known, **seen}

    def parts(self) -> Iterator[Part]:
        """What others run or obey, and what is too deep to look at. Some files of version control may not be there."""
        yield from (Part(place, "too-deep") for place in self._too_deep)
        for record in self._directories.values():
            yield from map(Part, record.parts)
            for system in record.systems:
                yield from self._with_links(system, list(other_parts(system)))
                if system.endswith(".jj") and not os.path.isdir(f"{self._root}/{system}/repo"):
                    yield Part(f"{system}/repo")  # a file that says where the repository is
        for git in self.git_directories():
            yield from self._with_links(git, [*git_parts(git), *ref_parts(self._root, git)])
            yield from map(Part, self._links_in("" if git == "." else git))

    def _with_links(self, base: str, parts: list[Part]) -> Iterator[Part]:
        yield from parts
        yield from linked_ways(self._root, parts, base)

    def _links_in(self, git: str) -> Iterator[str]:
        """Links in a git directory of any name, and in the directories that git makes there.

        Not in others: work trees may lie in there, and in them links are no danger.
        """
        pending = [git]
        while pending:
            place = pending.pop()
            record = self._directories.get(place, _CLOSED)
            yield from record.links
            is_top = place == git
            pending += (
                each
                for each in record.below
                if not is_top or os.path.basename(each) in DIRECTORIES_OF_GIT
            )

    def git_directories(self) -> dict[str, bool]:
        """The git directories, each with whether it is one by its entries alone, which commands can move away."""
        found: dict[str, bool] = {}
        for place, record in self._directories.items():
            if record.is_git:
                found.setdefault(place or ".", os.path.basename(place) != ".git")
            for pointer in record.pointers:
                for led in pointer_targets(f"{self._root}/{pointer}"):
                    if f"{led}/".startswith(f"{self._root}/"):
                        found[os.path.relpath(led, self._root)] = False
        return found

    def env_files(self) -> list[str]:
        """Environment files, as `.env` and `deploy/prod.env`."""
        return [path for record in self._directories.values() for path in record.env_files]

    def linked_files(self) -> Iterator[tuple[str, tuple[LinkedFile, ...]]]:
        """The regular files that have more than one name, by their directories. A new name elsewhere does not show."""
        for place, record in self._directories.items():
            if record.linked:
                yield place, record.linked

    def forget(self) -> None:
        """Read every directory again at the next look."""
        self._known = {}

    @property
    def is_closed(self) -> bool:
        """Whether the last look was to be at the whole tree, and its top could not be listed."""
        top = self._directories.get("")
        return "" in self._too_deep or (top is not None and top.is_closed)

    def find_closed(self) -> list[str]:
        """Directories below the top that cannot be listed or entered, or that are too deep to be looked into."""
        closed = [
            place for place, record in self._directories.items() if record.is_closed and place
        ]
        # Nothing can be mounted on what cannot even be looked at.
        deep = (place for place in self._too_deep if os.path.lexists(f"{self._root}/{place}"))
        return [*closed, *deep]


_CLOSED = _Directory((0, 0, 0), is_closed=True)


def _leads(directory: int, link: str) -> str:
    """Where a link in a directory leads; nowhere if it is gone."""
    with contextlib.suppress(OSError):
        return os.readlink(link, dir_fd=directory)
    return ""


def _is_too_long(path: str) -> bool:
    """Counted in bytes, of which a character has up to four."""
    return len(path) > _LONGEST_PATH // 4 and len(os.fsencode(path)) > _LONGEST_PATH


def _links_in(before: str, entries: Mapping[str, os.DirEntry[str]]) -> Iterator[LinkedFile]:
    """The regular files of a directory that have more than one name, and that a command could write.

    Nothing else takes as long in the first look: the kernel has to be asked about each file.
    """
    user = os.geteuid()
    for name, entry in entries.items():
        if entry.is_file(follow_symlinks=False):
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:  # it is gone, or nobody can open it
                continue
            if facts.st_nlink > 1 and (facts.st_uid == user or facts.st_mode & _WRITTEN_BY_OTHERS):
                identity = (facts.st_dev, facts.st_ino)
                yield LinkedFile(before + name, *identity, facts.st_nlink, facts.st_size)


def _has_hint(text: str) -> bool:
    return any(map(text.lower().__contains__, _HINTS))


def _read(path: str, place: str, *, files: bool = True) -> _Directory:
    """Look into a directory. It is opened once: a command may put another one there between two looks."""
    now = time.time_ns()
    name_here = path.rpartition("/")[2]
    is_inside = not VERSION_CONTROL.isdisjoint(path.split("/"))
    before = f"{place}/" if place else ""
    try:
        fd = os.open(path, _DIRECTORY)
        try:
            identity = identity_of(os.stat(".", dir_fd=fd))  # an error if it cannot be entered
            with os.scandir(fd) as listed:
                entries = {entry.name: entry for entry in listed}
            below = [name for name, each in entries.items() if each.is_dir(follow_symlinks=False)]
            links = [name for name, each in entries.items() if each.is_symlink()]
            linked_files = tuple(_links_in(before, entries)) if files else ()
            if _CHECK in links and path.endswith(_CACHES_OF_MERCURIAL):
                links = [name for name in links if name != _CHECK or _leads(fd, name) != _CHECKED]
        finally:
            os.close(fd)
    except OSError as error:
        os.lstat(path)  # an error if it is gone, or cannot even be looked at
        is_closed = not place or error.errno in (errno.EACCES, errno.EPERM)
        is_git = name_here == ".git" and os.access(path, os.X_OK, effective_ids=True)
        return _CLOSED._replace(is_git=is_git, is_closed=is_closed)
    record = _Directory(
        settle(identity, now),
        tuple([before + name for name in below]),
        links=tuple([before + name for name in links]),
        linked=linked_files,
    )
    # Most directories have nothing of interest: one look at all names together is quicker than one at each.
    hinted = list(filter(_has_hint, entries)) if _has_hint("/".join(entries)) else []
    if not (
        is_inside or not place or name_here in RUN_BELOW or not _NOTED.isdisjoint(entries) or hinted
    ):
        return record
    # A link in the place of a directory leads to other files of the names that are run there. Inside of version
    # control, tools write through any link: a commit would write over a hook, or over a file of the home.
    found = {*OBEYED.intersection(entries), *(links if is_inside else RUN_BELOW.keys() & links)}
    if not place:  # some agents also obey `agents.md`, at the top alone: deeper it is documentation
        found.update(name for name in entries if name.lower() in _OBEYED_IN_SMALL)
    found |= RUN_BELOW.get(name_here, _NOTHING).intersection(entries)
    fitting = run_by_pattern(name_here, entries if name_here in RUN_BELOW else hinted)
    found.update(name for name in fitting if not IS_ASIDE.fullmatch(name))
    systems = VERSION_CONTROL.intersection(entries)
    linked = systems.difference(below)  # a pointer to a repository elsewhere
    pointers = _POINTERS.intersection(entries).difference(below)
    env_files = (name for name in hinted if is_env_file(name) and name not in below)
    return record._replace(
        parts=tuple(before + name for name in (*found, *linked)),
        systems=tuple(before + name for name in systems - linked - {".git"}),
        is_git=name_here == ".git" or is_git_directory(entries),
        pointers=tuple(before + name for name in pointers),
        env_files=tuple(before + name for name in env_files),
    )
