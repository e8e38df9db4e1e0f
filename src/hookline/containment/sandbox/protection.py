"""Keeps what others run or obey below a work directory from changing, while a command runs and afterwards.

What exists is mounted read-only on itself. At the top of the directory some names are held that do not exist: a name
can only be held by mounting something on it, so it is made for as long as a command runs, marked by its mode. It is a
socket that nobody listens to: nothing can be read from it, nobody waits at it, git does not list it, and unlike a
directory it costs nothing to remove. When the last command that needs it is gone it is removed again, also when an
earlier process died before it could. A lock counts the commands, in this process and in others: to remove a name here
would unmount it there. It is on a file that commands cannot reach: one that they can lock themselves would keep the
names there.

Everything else that is new after a command is judged by `work_tree`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from hookline.containment.links import real_path
from hookline.containment.protected import RUN_BELOW, VERSION_CONTROL
from hookline.containment.sandbox.inventory import give_up_lock, hold_lock
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    held_names,
    is_kept_by_its_target,
    is_shown_by_name,
    named_secrets,
    outermost,
    own_names,
    prefixes,
    printable,
    without,
)
from hookline.containment.sandbox.quarantine import (
    facts_of,
    in_directory,
    not_the_same,
    refuse_one_case,
)
from hookline.containment.sandbox.work_tree import TreeVisit, describe_shared, work_tree
from hookline.errors import SandboxError

_PLACEHOLDER, _PARENT = 0o1555, 0o1755
"""The modes of what we made: sticky, which means nothing on a socket, or on a directory of one owner, so nobody sets
it. One of them cannot be written, not by its owner either."""
_MARK, _WRITABLE = 0o1000, 0o200
_NOBODY_CAN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Protection:
    """The protected names below one directory, for as long as one command runs."""

    def __init__(
        self,
        root: Path,
        paths: SandboxPaths | None = None,
        left_out: Iterable[str] = (),
        *,
        keeps: bool = True,
        alone: bool = False,
    ) -> None:
        self.root = root
        self._keeps = keeps
        """Whether what is there is kept; else only what is new is moved aside."""
        self._paths = paths or SandboxPaths()
        self._left_out, self._alone = tuple(left_out), alone
        self._tree = work_tree(str(root))
        self.visit: TreeVisit | None = None
        """What was found in the directory."""
        self._lock: int | None = None
        self._socket = -1
        """The first socket by which we hold a name, held open."""
        self._ours: set[tuple[str, int]] = set()
        """What holds a name or the way to it, made by us or by a process that died: path and kind."""
        self.pinned: list[str] = []
        """Directories to be mounted on themselves: what they hold is protected or hidden, and must not be moved."""
        self.kept: list[str] = []
        """Paths to mount read-only on themselves."""

    @property
    def moved_files(self) -> list[str]:
        """The new paths of what the command made and nobody is to obey, so far."""
        moved = [] if self.visit is None else map(printable, self.visit.moved)
        return list(moved) if self._keeps else [f"/tmp/{path}" for path in moved]

    def note_first(self, pid: int) -> None:
        """The first process of the command, which the others do not outlive."""
        # Not by the tree: a scan may hold its lock for seconds, and the event loop waits for us.
        if self.visit is not None and self.visit.inventory is not None:
            self.visit.inventory.note_first(pid)

    def hold(self) -> Protection:
        """Make what is missing, and say what to mount."""
        self._lock = hold_lock(str(self.root))
        try:
            names = held_names(self.root, self._paths) if self._keeps else []
            names = without(self._left_out, names)
            self.visit = self._tree.enter(
                self._left_out,
                alone=self._alone,
                held=names,
                hidden=named_secrets(self._paths.hide),
                is_shown=partial(is_shown_by_name, self._paths) if self._keeps else None,
            )
            if not self._keeps:
                self._check_tmp()
                return self
            for name in names:
                self._protect(name)
            refuse_one_case(str(self.root), names)
            self.kept += map(self._at, self.visit.shared)
            for path in self.visit.kept:
                self._keep(path)
            # What is not copied must not be moved away from the mount that makes it read-only.
            self._pin_parents((*self.visit.named, *self.visit.shared, *self.visit.ways))
            self.pinned += filter(_is_directory, map(self._at, self.visit.ways))
        except BaseException:
            self.release()
            raise
        finally:
            self._let_go()
        self.kept = outermost(self.kept)
        self._order_pinned()
        return self

    def pin(self, hidden: Iterable[str]) -> None:
        """Keep the directories from being moved in which there is something that is hidden by its whole path."""
        inside = (path for path in hidden if self._keeps and path.startswith(self._at("")))
        self._pin_parents(os.path.relpath(path, self.root) for path in inside)
        self._order_pinned()

    def _order_pinned(self) -> None:
        """The outer ones first: what is mounted later covers what is below it."""
        kept = set(self.kept)
        self.pinned = sorted(path for path in {*self.pinned} if kept.isdisjoint(prefixes(path)))

    def _check_tmp(self) -> None:
        """Refuse a directory for /tmp with files of others or our own: nothing in there is mounted read-only."""
        if self.visit is not None and self.visit.shared:
            raise SandboxError(
                f"'{self.root}': {describe_shared(self.visit.shared)}.",
                remedy="Name an empty directory with tmp=.",
            )
        if own := own_names(self.root):
            raise SandboxError(
                f"'{self.root}': '{own[0]}' holds settings, trust or records of the user's.",
                remedy="Name another directory with tmp=.",
            )

    def check(self) -> None:
        """Move aside what the command has made so far and nobody is to obey."""
        self._tree.check()

    def _keep(self, path: str) -> None:
        """Keep what exists. A link is kept by what it leads to, and made again by `work_tree`."""
        whole = self._at(path)
        if stat.S_ISLNK(_mode(whole) or 0):
            if "/" not in path and not is_kept_by_its_target(self.root, path, self._paths):
                raise _is_a_link(self.root, path, whole)
            whole = real_path(whole)
            if whole.startswith(f"{self.root}/") and os.path.exists(whole):
                self._protect(os.path.relpath(whole, self.root))
            return
        self.kept.append(whole)
        *above, _ = Path(path).parts
        gits = {} if self.visit is None else self.visit.git_directories
        is_inside = "." in gits
        for depth, name in enumerate(above, 1):
            place = "/".join(above[:depth])
            # Files in there lead to others by relative paths, so no directory on the way is moved.
            is_inside = is_inside or name in VERSION_CONTROL or place in gits
            if is_inside or (name in RUN_BELOW and depth == len(above)):
                self.pinned.append(self._at(place))
        # It is known by these, so a command must not move them away.
        if gits.get("/".join(above) or "."):
            known_by = (self._at("/".join((*above, name))) for name in ("objects", "refs"))
            self.pinned += filter(_is_directory, known_by)

    def _pin_parents(self, names: Iterable[str]) -> None:
        """Keep the directories in which files are, or are missing, from being moved away or replaced.

        A repository that names files is one of them: in another place a relative path leads to another file.
        """
        above = {each for name in names for each in prefixes(name) if each != name}
        self.pinned += filter(_is_directory, map(self._at, above))

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _protect(self, name: str) -> None:
        path = str(self.root)
        *parents, _ = parts = Path(name).parts
        for depth, part in enumerate(parts):
            path = f"{path}/{part}"
            mode = _mode(path)
            if mode is None and depth == len(parents):
                if not self._hold_place(path):
                    return
                break
            if mode is None:
                if not _make(path, _PARENT):
                    return
            elif stat.S_ISLNK(mode):
                raise _is_a_link(self.root, name, path)
            elif not stat.S_ISDIR(mode) or _kind(mode) == _PLACEHOLDER:
                break
            if depth < len(parents):
                self.pinned.append(path)
                self._ours.add((path, _PARENT))
        self.kept.append(path)
        self._ours.add((path, _PLACEHOLDER))

    def _hold_place(self, path: str) -> bool:
        """Make something on which to mount; False if nobody can make anything there.

        All names are names of one socket: file systems take longer to find a free number for a file than for the rest.
        """
        if self._socket >= 0:
            with contextlib.suppress(OSError):  # a file system without second names
                if in_directory("/", path, _link, self._socket):
                    return True
        try:
            made = in_directory("/", path, _make_socket)
        except FileExistsError:
            return True
        except OSError:  # a file system without sockets; some say that we are not allowed to
            made = None
        if made is None:
            return _make(path, _PLACEHOLDER)
        self._let_go()
        self._socket = made
        return True

    def _let_go(self) -> None:
        if self._socket >= 0:
            os.close(self._socket)
            self._socket = -1

    def release(self) -> None:
        """Take away what was made, unless another command still needs it."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            if self.visit is not None:
                self._tree.leave(self.visit)
        finally:
            # A command that starts now waits until we are done, and makes them again.
            give_up_lock(str(self.root), lock, self._clear)

    def _clear(self) -> None:
        for path, kind in sorted(self._ours, reverse=True):  # what is in a directory before it
            with contextlib.suppress(OSError):
                in_directory("/", path, _take_away, kind)


# What follows looks and acts without following a link: a command above may put one on the way at any moment.


def _mode(path: str) -> int | None:
    facts = facts_of("/", path)
    return None if facts is None else facts.st_mode


def _is_directory(path: str) -> bool:
    return stat.S_ISDIR(_mode(path) or 0)


def _link(name: str, directory: int, held: int) -> bool:
    """Give a socket one more name. By what is held: another file may have its first name by now."""
    os.link(f"/proc/self/fd/{held}", name, dst_dir_fd=directory, follow_symlinks=True)
    return True


def _make_socket(name: str, directory: int) -> int:
    os.mknod(name, stat.S_IFSOCK | _PLACEHOLDER, dir_fd=directory)
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
    if stat.S_ISSOCK(os.fstat(held).st_mode):
        return held
    os.close(held)
    raise FileExistsError  # a command was quicker


def _make_directory(name: str, directory: int, mode: int) -> bool:
    os.mkdir(name, mode, dir_fd=directory)
    return True


def _take_away(name: str, directory: int, kind: int) -> None:
    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    if _kind(mode) != kind:
        return
    if stat.S_ISSOCK(mode):
        os.unlink(name, dir_fd=directory)
        return
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError:
        if kind == _PARENT:  # there is something in it now, so it is the user's
            _make_usual(name, directory)


def _make_usual(name: str, directory: int) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        os.fchmod(fd, 0o755)
    finally:
        os.close(fd)


def _make(path: str, mode: int) -> bool:
    """Make a marked directory; False if nobody can make anything there, so that there is nothing to prevent."""
    try:
        if in_directory("/", path, _make_directory, mode) is None:
            raise not_the_same(os.path.dirname(path), "it is gone, or a link leads there")
    except FileExistsError:  # another command was quicker
        pass
    except OSError as error:
        if error.errno not in _NOBODY_CAN:
            raise SandboxError(
                f"'{path}' cannot be protected from being created by the command ({error.strerror}).",
                remedy="Make room, or leave it out with SandboxPaths(unprotected=...).",
            ) from None
        return False
    return True


def _kind(mode: int) -> int | None:
    """Which of the two something is, by its mode, of which a umask may have taken some; None if it is neither."""
    ours = stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)
    if not ours or not mode & _MARK or mode & stat.S_IWOTH:
        return None
    return _PARENT if mode & _WRITABLE else _PLACEHOLDER


def _is_a_link(root: Path, name: str, path: str) -> SandboxError:
    where = os.path.relpath(path, root)
    target = real_path(path)
    is_there = os.path.exists(target) and not root.is_relative_to(target)
    remedy = (
        f"Replace the link with its target: `cd {shlex.quote(str(root))} && rm {shlex.quote(where)} && "
        f"cp -R {shlex.quote(target)} {shlex.quote(where)}`."
        if is_there
        else f"Remove it: `rm {shlex.quote(path)}`."
    )
    return SandboxError(
        f"'{where}' in '{root}' is a symbolic link, and links cannot be protected from being replaced.",
        remedy=f"{remedy} Or leave it out, in Python: SandboxPaths(unprotected=({name!r},)).",
    )
