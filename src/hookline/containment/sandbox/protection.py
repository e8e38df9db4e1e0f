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
from pathlib import Path

from hookline.containment.links import real_path
from hookline.containment.protected import RUN_BELOW, VERSION_CONTROL
from hookline.containment.sandbox.inventory import give_up_lock, hold_lock
from hookline.containment.sandbox.paths import (
    SandboxPaths,
    held_names,
    hidden_below,
    is_kept_by_its_target,
    outermost,
    own_names,
    prefixes,
    printable,
    without,
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
        self._socket: str | None = None
        """The first name that we hold by a socket."""
        self.pinned: list[str] = []
        """Directories to be mounted on themselves: they hold a protected name, and must not be moved with it."""
        self.kept: list[str] = []
        """Paths to mount read-only on themselves."""

    @property
    def moved_files(self) -> list[str]:
        """The new paths of what the command made and nobody is to obey, so far."""
        moved = [] if self.visit is None else map(printable, self.visit.moved)
        return list(moved) if self._keeps else [f"/tmp/{path}" for path in moved]

    def note_processes(self, namespace: int) -> None:
        """The processes of the command are in this namespace."""
        self._tree.note_processes(namespace)

    def hold(self) -> Protection:
        """Make what is missing, and say what to mount."""
        self._lock = hold_lock(str(self.root))
        try:
            names = held_names(self.root, self._paths) if self._keeps else []
            names = without(self._left_out, names)
            hidden = hidden_below(self.root, self._paths)
            self.visit = self._tree.enter(
                self._left_out, alone=self._alone, held=names, hidden=hidden
            )
            if not self._keeps:
                self._check_tmp()
                return self
            for name in names:
                self._protect(name)
            self.kept += map(self._at, self.visit.shared)
            for path in self.visit.kept:
                self._keep(path)
            # What is not copied must not be moved away from the mount that makes it read-only.
            for path in (*self.visit.named, *self.visit.shared):
                self._pin_parents(path)
        except BaseException:
            self.release()
            raise
        self.kept = outermost(self.kept)
        kept = set(self.kept)
        # The outer ones first: what is mounted later covers what is below it.
        self.pinned = sorted(path for path in {*self.pinned} if kept.isdisjoint(prefixes(path)))
        return self

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
        if os.path.islink(whole):
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
        if gits.get(
            "/".join(above) or "."
        ):  # it is known by these, so a command must not move them away
            known_by = (self._at("/".join((*above, name))) for name in ("objects", "refs"))
            self.pinned += (each for each in known_by if stat.S_ISDIR(_mode(each) or 0))

    def _pin_parents(self, name: str) -> None:
        """Keep the directories in which a file is, or is missing, from being moved away or replaced.

        A repository that names files is one of them: in another place a relative path leads to another file.
        """
        path = str(self.root)
        for part in Path(name).parts[:-1]:
            path = f"{path}/{part}"
            mode = _mode(path)
            if mode is None or not stat.S_ISDIR(mode):
                return
            self.pinned.append(path)

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
        self.kept.append(path)

    def _hold_place(self, path: str) -> bool:
        """Make something on which to mount; False if nobody can make anything there.

        All names are names of one socket: file systems take longer to find a free number for a file than for the rest.
        """
        if self._socket is not None:
            with contextlib.suppress(OSError):  # a file system without second names
                os.link(self._socket, path, follow_symlinks=False)
                return True
        try:
            os.mknod(path, stat.S_IFSOCK | _PLACEHOLDER)
        except FileExistsError:
            return True
        except OSError:  # a file system without sockets; some say that we are not allowed to
            return _make(path, _PLACEHOLDER)
        self._socket = path
        return True

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
        for path in self.kept:
            mode = _mode(path)
            if mode is not None and _kind(mode) == _PLACEHOLDER:
                with contextlib.suppress(OSError):
                    os.rmdir(path) if stat.S_ISDIR(mode) else os.unlink(path)
        for path in reversed(self.pinned):
            mode = _mode(path)
            if mode is not None and _kind(mode) == _PARENT:
                try:
                    os.rmdir(path)
                except OSError:  # there is something in it now, so it is the user's
                    with contextlib.suppress(OSError):
                        os.chmod(path, 0o755)


def _mode(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _make(path: str, mode: int) -> bool:
    """Make a marked directory; False if nobody can make anything there, so that there is nothing to prevent."""
    try:
        os.mkdir(path, mode)
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
