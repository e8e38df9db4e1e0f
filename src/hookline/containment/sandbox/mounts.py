"""The view of the file system a command gets, in the words of bubblewrap."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hookline.containment.sandbox.command import Job, Place, SandboxGrant
from hookline.containment.sandbox.home import (
    both_paths,
    credentials_in,
    dot_entry,
    entries,
    git_configuration,
    homes,
    ignore_file,
    is_of_system,
    linked_entries,
    mounted_homes,
    needed_paths,
)
from hookline.containment.sandbox.mount_table import second_paths
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    emptied,
    existing,
    inside_any,
    outermost,
    secrets,
    work_directory,
)
from hookline.containment.sandbox.protection import Protection
from hookline.containment.sandbox.repositories import may_be_tracked
from hookline.containment.sandbox.tables import OF_PROJECTS, SYSTEM
from hookline.containment.sandbox.tree_index import TreeIndex
from hookline.containment.sandbox.work_tree import TreeVisit, work_tree

_SMALL = 64 * 1024
"""Bytes of a directory that is there to be empty."""
_SYSTEM = ("/run/current-system", "/run/booted-system")
"""Where some systems keep their programs, inside a directory that is emptied."""


@dataclass(frozen=True)
class FileView:
    """The directories of one sandbox, looked at once."""

    roots: tuple[Path, ...]
    paths: SandboxPaths
    has_homes: bool = True
    """Whether home directories are hidden. The test of the sandbox leaves them out: what lies in a home must not decide
    whether there is a sandbox."""

    @classmethod
    def of(cls, root: Path, paths: SandboxPaths) -> FileView:
        """What can be written: the work directory first."""
        further = tuple(work_directory(each) for each in paths.write)
        return cls((root, *further), paths)

    @property
    def lasting(self) -> tuple[Path, ...]:
        """The directories in which what a command writes outlives it."""
        tmp = self.paths.tmp
        return self.roots if tmp is None else (*self.roots, Path(tmp))

    def places(self, place: Place) -> list[tuple[str, str]]:
        """Where each directory of this view is inside, and where outside."""
        tmp = None if place == "read-only" else self.paths.tmp
        found = [(str(root), str(root)) for root in self.roots]
        return found if tmp is None else [*found, ("/tmp", str(tmp))]

    def protections(self, grant: SandboxGrant, place: Place) -> list[Protection]:
        """What keeps the protected names below each directory that can be written: none where nothing can."""
        if place == "read-only":
            return []
        left_out = (*self.paths.unprotected, *grant.unprotected)
        held = [Protection(root, self.paths, left_out) for root in self.roots]
        if self.paths.tmp is not None:
            # A link can lead there from the work directory. What is in it has another path inside, and is not kept.
            held.append(Protection(Path(self.paths.tmp).resolve(), None, left_out, keeps=False))
        return held

    def shown(self, grant: SandboxGrant, env: Mapping[str, str]) -> list[str]:
        """Whole paths that are seen although they lie in a place that is hidden, as they are and where they lead.

        `env` are the variables of the command.
        """
        return self._shown(self._needed(env), grant)

    def _needed(self, env: Mapping[str, str]) -> list[str]:
        return needed_paths(self._writable, homes() if self.has_homes else [], env)

    @property
    def _writable(self) -> tuple[str, ...]:
        return tuple(map(os.path.realpath, self.lasting))

    def _shown(self, needed: list[str], grant: SandboxGrant) -> list[str]:
        wanted = [*self._named(grant), *ignore_file()]
        named = (each for path in wanted for each in both_paths(path, self._writable))
        return sorted({*needed, *named} - {"/"})

    def _looked(self, held: Sequence[Protection]) -> dict[Path, Protection | TreeVisit]:
        """What was found in each directory of this view. Nothing is held where nothing can be written."""
        found = {protection.root: protection for protection in held}
        return {root: found.get(root) or work_tree(str(root)).look() for root in self.roots}

    def _env_files(
        self,
        looked: Mapping[Path, Protection | TreeVisit],
        grant: SandboxGrant,
        shown: list[str],
        known: list[str],
    ) -> Iterator[str]:
        """Environment files below the directories of this view and in other projects, but for those that are shown."""
        given = [os.path.expanduser(each) for each in self.paths.show]
        names = {each for each in given if not os.path.isabs(each)}
        whole = set(map(os.path.realpath, self._named(grant)))
        for root, found in looked.items():
            for path in found.env_files:
                is_named = path in names or os.path.basename(path) in names
                if not is_named and f"{root}/{path}" not in whole:
                    yield f"{root}/{path}"
        for home in known:
            if is_of_system(home) or not self._is_seen(home, shown, known):
                continue
            for path in _env_files_of_others(home):
                if not inside_any(Path(path), self.roots) and path not in whole:
                    yield path

    def _may_cover(self, path: str, shown: list[str], known: list[str]) -> bool:
        """Whether there is a file of the user's to be covered.

        A link may lead to a place that is hidden anyway, or to a program of the system, which others need.
        """
        if os.path.isdir(path) or not os.path.exists(path):
            return False
        if inside_any(Path(path), self.roots):
            return True
        is_users = not inside_any(Path(path), map(Path, SYSTEM))
        is_hidden = inside_any(Path(path), emptied()) or dot_entry(path, known)
        return is_users and (not is_hidden or inside_any(Path(path), map(Path, shown)))

    def _is_seen(self, home: str, shown: list[str], known: list[str]) -> bool:
        """Whether there is anything of a home to be seen: not in a place that is hidden as a whole."""
        is_hidden = inside_any(Path(home), emptied()) or dot_entry(home, known)
        return not is_hidden or inside_any(Path(home), map(Path, shown))

    def mounts(
        self,
        held: Sequence[Protection],
        job: Job,
        *,
        sizes: bool,
        file: Callable[[bytes], int],
    ) -> Iterator[str]:
        """The options that make the view, in the order in which they lie over one another.

        Not every bubblewrap knows `sizes` of what is made for the command. `file` gives a descriptor by which it
        reads some bytes.
        """
        grant, scratch, read_only = job.grant, job.limits.scratch, job.place == "read-only"
        size = ("--size", str(scratch)) if sizes and scratch is not None else ()
        cover = _Cover(("--size", str(_SMALL)) if sizes else ())
        needed = self._needed(job.own_env)
        shown, known = self._shown(needed, grant), mounted_homes() if self.has_homes else []
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", *size, "--tmpfs", "/dev/shm")
        yield from ("--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc")
        yield from self._emptied(grant, shown, size, None if read_only else self.paths.tmp)
        for home in known:  # the outer ones first: what is mounted later covers what is below it
            is_seen = self._is_seen(home, shown, known)
            if is_of_system(home) or (is_seen and len(entries(home)[1]) > _MOST_ENTRIES):
                yield from self._one_by_one(entries(home)[0], shown, cover)
            elif not inside_any(Path(home), self.roots):
                yield from self._home(home, shown, size, file, is_seen=is_seen)
        # A secret is hidden before what can be written is put in place, and again where that has brought it back.
        hidden = self._secrets(shown, needed, grant, known)
        for secret in hidden:
            if not inside_any(Path(secret), self.roots):
                yield from cover(secret)
        for second in second_paths(tuple(map(str, self.roots))):  # where nothing of it is hidden
            yield from cover(second)
        yield from self._work(held, "--ro-bind" if read_only else "--bind")
        for home in known:
            if inside_any(Path(home), self.roots):
                yield from self._home_in_work(home, shown, cover)
        for secret in hidden:
            if inside_any(Path(secret), self.roots):
                yield from cover(secret)
        looked = self._looked(held)
        for root, found in looked.items():
            for path in found.closed:  # nobody knows what is in there
                yield from cover(f"{root}/{path}")
        covered: set[str] = set()
        env_files = set(self._env_files(looked, grant, shown, known))
        crowded = self._crowded(env_files, known)
        for path in crowded:
            yield from cover(path)
        for path in sorted(env_files):
            real = os.path.realpath(path)
            if (
                real in covered
                or inside_any(Path(real), map(Path, (*hidden, *crowded)))
                or not self._may_cover(real, shown, known)
            ):
                continue
            covered.add(real)
            # An empty file would be committed in the place of one that git tracks. No device is.
            is_tracked = inside_any(Path(real), self.roots) and may_be_tracked(real)
            yield from ("--dev-bind", os.devnull, real) if is_tracked else cover(real)

    def _crowded(self, paths: set[str], known: list[str]) -> list[str]:
        """Directories of other projects with so many of these paths that bubblewrap could not cover them one by one."""
        count = Counter(self._project(path, known) for path in paths)
        return [each for each, number in count.items() if each and number > _MOST_ENV_FILES]

    def _project(self, path: str, known: list[str]) -> str:
        """The outermost directory in a home that holds a path and no directory of this view; empty if there is none."""
        if inside_any(Path(path), self.roots):
            return ""
        above = [str(each) for each in Path(path).parents if not self._holds_root(str(each))]
        return next(
            (each for each in reversed(above) if any(each.startswith(f"{h}/") for h in known)), ""
        )

    def _emptied(
        self, grant: SandboxGrant, shown: list[str], size: tuple[str, ...], tmp: str | Path | None
    ) -> Iterator[str]:
        """Empty directories in place of those of the machine, and what is shown in them."""
        empty = emptied()
        for place in empty:
            if tmp is not None and place == Path("/tmp"):
                yield from ("--bind", str(tmp), "/tmp")
            else:
                yield from (*size, "--tmpfs", str(place))
        names = _names() if grant.network else []
        inside = [
            str(path) for path in existing((*_SYSTEM, *names, *shown)) if inside_any(path, empty)
        ]
        for path in outermost(inside):
            yield from ("--ro-bind", path, path)

    def _home(
        self,
        home: str,
        shown: list[str],
        size: tuple[str, ...],
        file: Callable[[bytes], int],
        *,
        is_seen: bool,
    ) -> Iterator[str]:
        """A temporary directory in place of a home, with what is shown of it."""
        yield from (*size, "--tmpfs", home)
        for path in entries(home)[1] if is_seen else ():
            yield from _unchanged_entry(path)
        for path in outermost(path for path in shown if path.startswith(f"{home}/")):
            if dot_entry(path, [home]) or not is_seen:
                yield from _unchanged_entry(path)
        if f"{home}/.gitconfig" not in shown and home == os.path.realpath(os.path.expanduser("~")):
            text = git_configuration(str(self.roots[0]))
            yield from ("--perms", "0600", "--file", str(file(text)), f"{home}/.gitconfig")

    def _home_in_work(self, home: str, shown: list[str], cover: _Cover) -> Iterator[str]:
        """A home that is the work directory, or lies in it: its hidden entries one by one."""
        left = OF_PROJECTS if Path(home) in self.roots else frozenset()
        hidden = [path for path in entries(home)[0] if os.path.basename(path) not in left]
        hidden += [path for path in linked_entries(home) if inside_any(Path(path), [Path(home)])]
        hidden = [path for path in hidden if not self._holds_root(path)]
        yield from self._one_by_one(hidden, shown, cover)

    def _holds_root(self, path: str) -> bool:
        return any(root.is_relative_to(path) for root in self.roots)

    def _one_by_one(self, hidden: list[str], shown: list[str], cover: _Cover) -> Iterator[str]:
        """Cover some paths, but for what of them is to be seen."""
        for path in hidden:
            if path in shown:
                continue
            yield from cover(path, sealed=False)
            for inner in shown:
                if inner.startswith(f"{path}/"):
                    yield from _unchanged_entry(inner)

    def _secrets(
        self, shown: list[str], needed: list[str], grant: SandboxGrant, known: list[str]
    ) -> list[str]:
        """What would be seen but for what hides it: not what lies in a place that is hidden as a whole."""
        empty = emptied()
        found = [
            path
            for path in secrets(self.paths.hide, grant.reveal)
            if inside_any(Path(path), map(Path, shown))
            or not (dot_entry(path, known) or inside_any(Path(path), empty))
        ]
        # What the user names is shown as it is, with the keys in it.
        named = [Path(path) for path in self._named(grant) if dot_entry(path, known)]
        for path in (each for home in known for each in linked_entries(home)):
            is_work = inside_any(Path(path), self.roots)
            if not is_work and path not in shown and not dot_entry(path, known):
                found.append(path)
        for each in needed:
            inside = map(os.path.realpath, credentials_in(each))
            found += [path for path in inside if not inside_any(Path(path), named)]
        return outermost(found)

    def _named(self, grant: SandboxGrant) -> list[str]:
        """Whole paths that the user shows by name."""
        given = [os.path.expanduser(each) for each in (*self.paths.show, *grant.reveal)]
        return [os.path.normpath(each) for each in given if os.path.isabs(each)]

    def _work(self, held: Sequence[Protection], bind: str) -> Iterator[str]:
        """The work directory and its like, and in them what cannot be written."""
        for root in self.roots:
            yield from (bind, str(root), str(root))
        for protection in held:
            for path in protection.pinned:
                yield from ("--bind", path, path)
            for path in protection.kept:
                yield from ("--ro-bind", path, path)


@dataclass(frozen=True)
class _Cover:
    """Puts nothing in the place of something."""

    small: tuple[str, ...]

    def __call__(self, path: str, *, sealed: bool = True) -> tuple[str, ...]:
        if not _can_be_reached(os.path.dirname(path)):
            return ()
        if os.path.isdir(path):
            seal = ("--remount-ro", path) if sealed else ()
            return (*self.small, "--tmpfs", path, *seal)
        if os.path.islink(path):
            return ()  # what it leads to is hidden where it is
        return ("--ro-bind", empty_file(), path)


def empty_file() -> str:
    """A file of our own with nothing in it. A descriptor for each place would use them up."""
    global _empty
    if _empty is None or not os.path.exists(_empty):
        directory = tempfile.mkdtemp(prefix="hookline-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        _empty = f"{directory}/empty"
        os.close(os.open(_empty, os.O_CREAT | os.O_EXCL, 0o444))
    return _empty


_empty: str | None = None
_MOST_ENTRIES = 1000
"""Entries of a home that are shown one by one. A home with more is shown as it is, without its hidden entries."""
_MOST_ENV_FILES = 200
"""Environment files of one project below a home that are covered one by one."""
_OTHERS = 3
"""How many directories deep other projects may lie below a home. The whole home may be too large to look through."""


def _env_files_of_others(home: str) -> Iterator[str]:
    """Environment files of projects below a home directory, as whole paths."""
    index = _index_of_home(home)
    index.refresh()
    yield from (f"{home}/{path}" for path in index.env_files() if not path.startswith("."))


@cache
def _index_of_home(home: str) -> TreeIndex:
    return TreeIndex(home, _OTHERS)


def _unchanged_entry(path: str) -> Iterator[str]:
    """An entry of a directory that was replaced: links as links."""
    if not _can_be_reached(os.path.dirname(path)):
        return
    try:
        mode = os.lstat(path).st_mode
        target = os.readlink(path) if stat.S_ISLNK(mode) else ""
    except OSError:  # it was removed
        return
    if target:
        yield from ("--symlink", target, path)
    elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        yield from ("--ro-bind-try", path, path)


def _can_be_reached(directory: str) -> bool:
    """Whether a command of ours could reach what is in a directory, and bubblewrap can mount something there.

    In a namespace of its own, root has no rights to the files of other users but those that everybody has.
    """
    for each in (directory, *map(str, Path(directory).parents)):
        facts = os.stat(each)
        if facts.st_uid == os.geteuid():
            continue
        needed = stat.S_IXGRP if facts.st_gid in (os.getegid(), *os.getgroups()) else stat.S_IXOTH
        if not facts.st_mode & needed:
            return False
    return True


def _names() -> list[str]:
    """What is needed to look names up, where it lies in a directory that is emptied."""
    with contextlib.suppress(OSError):
        return [os.path.realpath("/etc/resolv.conf", strict=True)]
    return []
