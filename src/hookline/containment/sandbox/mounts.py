"""The view of the file system a command gets, in the words of bubblewrap."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hookline._temporary import directory_in_tmpdir, temporary_directory
from hookline.containment.links import is_below, is_inside_any, real_path
from hookline.containment.mount_table import all_paths, second_paths
from hookline.containment.sandbox.command import Job, Place, SandboxGrant
from hookline.containment.sandbox.home import (
    credentials_in,
    dot_entry,
    entries,
    git_configuration,
    homes,
    ignore_file,
    is_of_system,
    linked_credentials,
    linked_entries,
    mounted_homes,
    needed_paths,
    shown_paths,
)
from hookline.containment.sandbox.inventory import records_directory
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    check_name,
    emptied_directories,
    find_existing,
    is_shown_by_name,
    outermost,
    prefixes,
    private_of_root,
    secrets,
    work_directory,
)
from hookline.containment.sandbox.protection import Protection
from hookline.containment.sandbox.repositories import may_be_tracked
from hookline.containment.sandbox.tables import OF_PROJECTS, SYSTEM
from hookline.containment.sandbox.tree_index import TreeIndex
from hookline.containment.sandbox.work_tree import TreeVisit, work_tree
from hookline.errors import SandboxError
from hookline.own_directories import state_directory

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
    def lasting_roots(self) -> tuple[Path, ...]:
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
        if place != "workspace":
            return []
        for root in self.roots:
            check_name(root, self.paths)
        left_out = self.paths.unprotected
        held = [Protection(root, self.paths, left_out, alone=grant.alone) for root in self.roots]
        if self.paths.tmp is not None:
            # A link can lead there from the work directory. What is in it has another path inside, and is not kept.
            held.append(Protection(Path(self.paths.tmp), None, left_out, keeps=False))
        return held

    def find_needed(self, env: Mapping[str, str]) -> list[str]:
        """Whole paths in places that are hidden without which programs do not start. `env` are their variables."""
        return needed_paths(self._writable, self._homes, env)

    def find_shown(self, grant: SandboxGrant, needed: list[str]) -> list[str]:
        """All that is seen although it lies in a place that is hidden: as it is, the links, and where it leads."""
        wanted = (*self.find_named(grant), *ignore_file())
        known = tuple(self._homes)
        named = (each for path in wanted for each in shown_paths(path, self._writable, known))
        return sorted({*needed, *named} - {"/"})

    def find_named(self, grant: SandboxGrant) -> list[str]:
        """Whole paths that the user shows by name."""
        given = [os.path.expanduser(each) for each in (*self.paths.show, *grant.reveal)]
        return [os.path.normpath(each) for each in given if os.path.isabs(each)]

    @property
    def _homes(self) -> list[str]:
        return homes() if self.has_homes else []

    @property
    def _writable(self) -> tuple[str, ...]:
        return tuple(map(real_path, self.lasting_roots))


class MountPlan:
    """What is mounted for one command, as options of bubblewrap.

    Not every bubblewrap knows `sizes` of what is made for the command. `file` gives a descriptor by which it reads some
    bytes.
    """

    def __init__(
        self,
        view: FileView,
        held: Sequence[Protection],
        job: Job,
        *,
        sizes: bool,
        file: Callable[[bytes], int],
    ) -> None:
        self._roots, self._paths, self._held, self._job = view.roots, view.paths, held, job
        self._file = file
        scratch = job.limits.scratch
        self._size = ("--size", str(scratch)) if sizes and scratch is not None else ()
        self._small = ("--size", str(_SMALL)) if sizes else ()
        self._reached: dict[str, bool] = {}
        """The directories that were looked at, with whether a command could reach what is in them."""
        self._needed = view.find_needed(job.own_env)
        self._named = view.find_named(job.grant)
        self._shown = view.find_shown(job.grant, self._needed)
        # The outer ones first: what is mounted later covers what is below it.
        self._homes = mounted_homes() if view.has_homes else []

    def options(self) -> Iterator[str]:
        """The options that make the view, in the order in which they lie over one another."""
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", *self._size, "--tmpfs", "/dev/shm")
        for device, own in own_devices().items():
            yield from ("--dev-bind", own, device)
        yield from ("--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc")
        yield from self._empty_directories()
        for home in self._homes:
            if is_of_system(home) or self._is_crowded(home):
                yield from self._one_by_one(entries(home)[0])
            elif not is_inside_any(home, self._roots):
                yield from self._home(home)
        # A secret is hidden before what can be written is put in place, and again where that has brought it back.
        hidden = self._secrets()
        visits = {each.root: each.visit for each in self._held}  # none where nothing can be written
        looked = {root: visits.get(root) or work_tree(str(root)).look() for root in self._roots}
        env_files = {each: real_path(each) for each in self._env_files(looked)}
        # An environment file is found by its name wherever a command moves it; what a link leads to is not.
        linked = [
            real for path, real in env_files.items() if real != path and self._may_cover(real)
        ]
        for protection in self._held:
            protection.pin(each for each in (*hidden, *linked) if self._can_be_covered(each))
        for secret in hidden:
            if not is_inside_any(secret, self._roots):
                yield from self._cover(secret)
        for second in second_paths(tuple(map(str, self._roots))):  # where nothing of it is hidden
            yield from self._cover(second)
        yield from self._work()
        for home in self._homes:
            if is_inside_any(home, self._roots):
                yield from self._home_in_work(home)
        for secret in hidden:
            if is_inside_any(secret, self._roots):
                yield from self._cover_in_work(secret)
        for root, seen in looked.items():
            for path in seen.closed:  # nobody knows what is in there
                yield from self._cover(f"{root}/{path}")
        real_env_files = set(env_files.values())
        crowded = self._crowded_projects(real_env_files)
        for path in crowded:
            yield from self._cover(path)
        for path in sorted(real_env_files):
            if is_inside_any(path, (*hidden, *crowded)) or not self._may_cover(path):
                continue
            yield from self._cover_in_work(path)

    def _cover(self, path: str, *, sealed: bool = True) -> tuple[str, ...]:
        """Put nothing in the place of something."""
        if not self._can_be_covered(path):
            return ()
        if os.path.isdir(path):
            # Not mounted read-only: bubblewrap reads the whole table of mounts for that.
            seal = ("--perms", "0555") if sealed else ()
            # Where a link leads: a newer bubblewrap mounts nothing on a link.
            return (*self._small, *seal, "--tmpfs", real_path(path))
        real = real_path(path)
        is_elsewhere = not is_inside_any(real, (*self._roots, *self._shown))
        if real != path and not (is_elsewhere and self._may_cover(real)):
            return ()  # hidden where it is, or what commands work on
        return ("--ro-bind", empty_file(), real) if self._can_be_covered(real) else ()

    def _cover_in_work(self, path: str) -> tuple[str, ...]:
        """The same. An empty file would be committed in the place of one that git tracks; no device is."""
        is_tracked = is_inside_any(path, self._roots) and may_be_tracked(path)
        if is_tracked and self._can_be_covered(path) and not os.path.isdir(path):
            return ("--dev-bind", null_device(), path)
        return self._cover(path)

    def _unchanged_entry(self, path: str) -> Iterator[str]:
        """An entry of a directory that was replaced: links as links."""
        if not self._can_be_covered(path):
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

    def _can_be_covered(self, path: str) -> bool:
        """Whether a command of ours could reach a path, and bubblewrap can mount something there."""
        directory = os.path.dirname(path)
        if directory not in self._reached:
            is_reached = directory == os.path.dirname(directory) or self._can_be_covered(directory)
            self._reached[directory] = is_reached and _can_be_entered(directory)
        return self._reached[directory]

    def _is_seen(self, path: str) -> bool:
        """Whether a path is seen: not in a place that is hidden as a whole."""
        is_hidden = is_inside_any(path, emptied_directories()) or dot_entry(path, self._homes)
        return not is_hidden or is_inside_any(path, self._shown)

    def _is_put_back(self, path: str) -> bool:
        """Whether a path is seen because it lies in a work directory, and that in a place that is hidden as a whole."""
        entry = dot_entry(path, self._homes)
        return any(
            is_inside_any(path, [root])
            and not self._is_seen(str(root))
            and not (entry and is_inside_any(entry, [root]))
            for root in self._roots
        )

    def _env_files(self, looked: Mapping[Path, TreeVisit]) -> Iterator[str]:
        """Environment files below the directories of this view and in other projects, but for those that are shown."""
        whole = set(map(real_path, self._named))
        for root, found in looked.items():
            for path in found.env_files:
                if not is_shown_by_name(self._paths, path) and f"{root}/{path}" not in whole:
                    yield f"{root}/{path}"
        for home in self._homes:
            if is_of_system(home) or not self._is_seen(home):
                continue
            for path in _env_files_of_others(home):
                if not is_inside_any(path, self._roots) and path not in whole:
                    yield path

    def _is_crowded(self, home: str) -> bool:
        """Whether a home has so many entries that bubblewrap cannot show them one by one."""
        return self._is_seen(home) and len(entries(home)[1]) > _MOST_ENTRIES

    def _crowded_projects(self, paths: set[str]) -> list[str]:
        """Directories of other projects with so many of these paths that they are not covered one by one."""
        count = Counter(map(self._other_project, paths))
        return [each for each, number in count.items() if each and number > _MOST_ENV_FILES]

    def _other_project(self, path: str) -> str:
        """The outermost directory in a home that holds a path and no directory of this view; empty if there is none."""
        above = map(str, reversed(Path(path).parents))
        inside = (each for each in above if any(each.startswith(f"{h}/") for h in self._homes))
        other = (each for each in inside if not any(is_below(root, each) for root in self._roots))
        return "" if is_inside_any(path, self._roots) else next(other, "")

    def _may_cover(self, path: str) -> bool:
        """Whether there is a file of the user's to be covered.

        A link may lead to a place that is hidden anyway, or to a program of the system, which others need.
        """
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                return False
        except PermissionError:
            # A command that runs may have closed a directory on the way, for now.
            return True
        except OSError:
            return False
        is_seen = not is_inside_any(path, SYSTEM) and self._is_seen(path)
        return is_inside_any(path, self._roots) or is_seen

    def _empty_directories(self) -> Iterator[str]:
        """Empty directories in place of those of the machine, and what is shown in them."""
        tmp = None if self._job.place == "read-only" else self._paths.tmp
        for place in emptied_directories():
            if tmp is not None and place == Path("/tmp"):
                yield from ("--bind", str(tmp), "/tmp")
            else:
                yield from (*self._size, "--tmpfs", str(place))
        wanted = (*_SYSTEM, *(_names() if self._job.grant.network else ()), *self._shown)
        # A link that leads there from elsewhere need not be followed: what is shown is there with where it leads.
        inside = find_existing(
            path for path in wanted if is_inside_any(path, emptied_directories())
        )
        for path in outermost(
            str(path) for path in inside if is_inside_any(path, emptied_directories())
        ):
            yield from ("--ro-bind", path, path)

    def _home(self, home: str) -> Iterator[str]:
        """A temporary directory in place of a home, with what is shown of it."""
        is_seen = self._is_seen(home)
        yield from (*self._size, "--tmpfs", home)
        for path in entries(home)[1] if is_seen else ():
            yield from self._unchanged_entry(path)
        for path in outermost(path for path in self._shown if path.startswith(f"{home}/")):
            if dot_entry(path, [home]) or not is_seen:
                yield from self._unchanged_entry(path)
        is_own = home == real_path(os.path.expanduser("~"))
        if is_own and f"{home}/.gitconfig" not in self._shown:
            text = git_configuration(str(self._roots[0]))
            yield from ("--perms", "0600", "--file", str(self._file(text)), f"{home}/.gitconfig")

    def _home_in_work(self, home: str) -> Iterator[str]:
        """A home that is the work directory, or lies in it: its hidden entries one by one."""
        left = OF_PROJECTS if Path(home) in self._roots else frozenset()
        hidden = [path for path in entries(home)[0] if os.path.basename(path) not in left]
        hidden += linked_entries(home)
        holds_root = {path for path in hidden for root in self._roots if is_below(root, path)}
        yield from self._one_by_one([path for path in hidden if path not in holds_root])

    def _one_by_one(self, hidden: list[str]) -> Iterator[str]:
        """Cover some paths, but for what of them is to be seen."""
        for path in hidden:
            if path in self._shown:
                continue
            yield from self._cover(path, sealed=False)
            # What lies behind a link is found by the link.
            for inner in outermost(each for each in self._shown if each.startswith(f"{path}/")):
                yield from self._unchanged_entry(inner)

    def _secrets(self) -> list[str]:
        """What would be seen but for what hides it: not what lies in a place that is hidden as a whole."""
        known = filter(is_open_to_us, secrets(self._paths.hide, self._job.grant.reveal))
        found = [path for path in known if self._is_seen(path) or self._is_put_back(path)]
        found += self._private()
        records = real_path(records_directory())
        if os.path.isdir(records) and self._is_seen(records):  # who locks it stops every start
            found.append(records)
        # What the user names is shown as it is, with the keys in it.
        named = [path for path in self._named if dot_entry(path, self._homes)]
        linked = tuple(each for home in self._homes for each in linked_entries(home))
        for path in (*linked, *second_paths(linked)):
            is_elsewhere = not is_inside_any(path, self._roots) and path not in self._shown
            if is_elsewhere and not dot_entry(path, self._homes):
                found.append(path)
        found += self._linked_credentials()
        for each in itertools.filterfalse(os.path.islink, self._needed):
            inside = map(real_path, credentials_in(each))
            found += [path for path in inside if not is_inside_any(path, named)]
        return outermost(found)

    def _linked_credentials(self) -> Iterator[str]:
        """Credentials of a home that are in a directory in which commands work: the rest of it is what they work on."""
        real = map(real_path, self._named)
        named = [path for path in real if is_inside_any(path, self._roots)]
        for home in self._homes:
            if is_inside_any(home, self._roots):
                continue  # there, all is hidden
            for path in linked_credentials(home):
                is_in_work = is_inside_any(path, self._roots) and not is_inside_any(path, named)
                if is_in_work and not any(is_below(root, path) for root in self._roots):
                    yield path

    def _private(self) -> Iterator[str]:
        """What of root's is to be hidden: not what the agent works in or is shown, nor root's home."""
        used = [*map(str, self._roots), *self._named, *self._needed, real_path(Path.home())]
        used += map(os.path.expanduser, self._job.grant.reveal)
        around = {place for each in (*used, *self._homes) for place in prefixes(each)}
        for path in private_of_root():
            is_used = path in around or is_inside_any(path, used)
            if not is_used and self._is_seen(path) and os.path.lexists(path):
                yield path

    def _work(self) -> Iterator[str]:
        """The work directory and its like, and in them what cannot be written."""
        bind = "--ro-bind" if self._job.place == "read-only" else "--bind"
        for root in self._roots:
            yield from (bind, str(root), str(root))
        for protection in self._held:
            for path in protection.pinned:
                yield from ("--bind", path, path)
            for path in protection.kept:
                yield from ("--ro-bind", path, path)


def empty_file() -> str:
    """A file of our own with nothing in it. A descriptor for each place would use them up."""
    global _empty
    if _empty is None or not _is_empty(_empty):
        _empty = f"{temporary_directory()}/empty"
        os.close(os.open(_empty, os.O_CREAT | os.O_EXCL, 0o444))
    return _empty


def own_devices() -> dict[str, str]:
    """Devices of our own, by the path of the machine's that each replaces. None where the machine's are safe, or where
    we cannot make any.

    Root owns the machine's, and a root without capabilities can still change the mode and the times of what it owns. To
    mount them read-only was rejected: bubblewrap then lets nobody open them.
    """
    global _devices
    if _devices is None or not all(_is_device(own, of) for of, own in _devices.items()):
        made = {} if os.geteuid() else _make_devices(temporary_directory())
        _devices = made if made or os.geteuid() else _make_devices(directory_in_tmpdir())
    return _devices


def null_device() -> str:
    """What commands get for `/dev/null`."""
    return own_devices().get(os.devnull, os.devnull)


def open_null_device() -> int:
    """That device, to be read. What a command may have put in its place is an error."""
    fd = os.open(null_device(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev:
        return fd
    os.close(fd)
    raise OSError(errno.ENXIO, "it is no null device", null_device())


def refuse_reachable(writable: Iterable[str]) -> None:
    """Refuse to run if commands can write where files are that we use ourselves, and that we mount for commands.

    They cannot in the directory of our state. But ours are elsewhere if it is read-only, or can have no devices.
    """
    state = real_path(state_directory(os.environ))
    used = {os.path.dirname(each) for each in (empty_file(), *own_devices().values())}
    for path in sorted(each for each in used if not is_inside_any(each, [state])):
        if is_inside_any(path, all_paths(*writable)):
            raise SandboxError(
                f"temporary files of Hookline's own are in '{path}', where commands can write.",
                remedy=f"Let TMPDIR name a directory in which no command can write, or let '{state}' be one in which "
                "files and devices can be made.",
            )


def _is_empty(path: str) -> bool:
    """Whether a file of ours is there: a command may have put a link in its place, if TMPDIR is where it can write."""
    with contextlib.suppress(OSError):
        facts = os.lstat(path)
        return stat.S_ISREG(facts.st_mode) and not facts.st_size
    return False


def _is_device(path: str, device: str) -> bool:
    with contextlib.suppress(OSError):
        return os.lstat(path).st_rdev == os.stat(device).st_rdev
    return False


def _make_devices(directory: Path) -> dict[str, str]:
    made = {f"/dev/{name}": f"{directory}/{name}" for name in _DEVICES}
    try:
        for device, own in made.items():
            os.mknod(own, stat.S_IFCHR, os.stat(device).st_rdev)
            os.chmod(own, 0o666)
            os.chown(own, _NOBODY, _NOBODY)
        os.close(os.open(made[os.devnull], os.O_RDWR))  # an error on a file system without devices
    except OSError:
        return {}
    return made


_empty: str | None = None
_devices: dict[str, str] | None = None
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
"""Those that bubblewrap shows."""
_NOBODY = 65534
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


def is_open_to_us(path: str) -> bool:
    """Whether we could look into a file or directory, or as its owner give ourselves the right to.

    What is closed to us is closed to a command, as `/etc/shadow` is to all but root. Each mount takes its time.
    """
    try:
        facts = os.stat(path)
    except OSError:
        return True
    rights = (os.R_OK, os.X_OK) if stat.S_ISDIR(facts.st_mode) else (os.R_OK,)
    is_own = facts.st_uid == os.geteuid()
    return is_own or any(os.access(path, right, effective_ids=True) for right in rights)


def _can_be_entered(directory: str) -> bool:
    """Whether a command of ours could reach what is in a directory, as far as that depends on the directory itself.

    In a namespace of its own, root has no rights to the files of other users but those that everybody has.
    """
    try:
        facts = os.stat(directory)
    except PermissionError:  # a command that runs may have closed the one above, for now
        return True
    except OSError:  # it was removed
        return False
    if facts.st_uid == os.geteuid():
        return True
    needed = stat.S_IXGRP if facts.st_gid in (os.getegid(), *os.getgroups()) else stat.S_IXOTH
    return bool(facts.st_mode & needed)


def _names() -> list[str]:
    """What is needed to look names up, where it lies in a directory that is emptied."""
    with contextlib.suppress(OSError):
        return [os.path.realpath("/etc/resolv.conf", strict=True)]
    return []
