"""Files that a command made and that others would run or obey get another name, under which nobody does.

Most of them cannot be kept from being made: something would have to lie in their place, and `AGENTS.md` is no hidden
name. So the command may make them, and they are moved aside afterwards. Nothing is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeVar

from hookline.containment.openat2 import NO_SYMLINKS, is_available, openat2
from hookline.containment.sandbox.paths import prefixes
from hookline.errors import SandboxError

T = TypeVar("T")

_SIZE_OF_STATX, _BTIME_IN_STATX, _STATX_BTIME, _NOFOLLOW = 256, 80, 0x800, 0x100
"""Of the system call `statx`, which Python lacks."""

ASIDE = ".from-command"
"""What is added to the name."""
IS_ASIDE = re.compile(rf".*{re.escape(ASIDE)}(?:-[0-9a-f]+)?", re.DOTALL)
_LONGEST_NAME = 200
"""Bytes of a name that leave room for what is added."""
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW
_WAY = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""Opens also a directory that cannot be listed: its files can be opened by name."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_CANNOT_BE_OPENED = frozenset({errno.ENXIO, errno.EOPNOTSUPP})
"""For a socket: one that holds a place, or one that a command has made."""


def in_directory(root: str, path: str, act: Callable[..., T], *more: object) -> T | None:
    """Do something to a name in the directory that it is in, held open; None if it is not there, or a link leads there.

    A command may have put a link where a directory was, also above `root`, and what is done here is done outside the
    sandbox. It cannot move a directory there that it cannot write: that is read-only for it, or another mount. Any
    other error is raised: it must not pass for "there is nothing".
    """
    way, _, last = path.rpartition("/")
    if ".." in path.split("/"):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    here = -1
    try:
        here = _open_way(f"{root}/{way}")
        return act(last, here, *more)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return None
    finally:
        if here >= 0:
            os.close(here)


def open_directory(path: str) -> int:
    """Hold a directory open. A link anywhere in its path is an error: a command may have put it there."""
    try:
        return _open_way(path)
    except OSError as error:
        raise not_the_same(path, f"{error.strerror} at '{error.filename}'") from None


def not_the_same(path: str, why: str) -> SandboxError:
    """The error for a directory in whose place there is something else."""
    return SandboxError(
        f"'{path}' is not the same directory any more ({why}).",
        remedy="Has a command of a directory above it replaced it? Put it back.",
    )


def _open_way(path: str) -> int:
    """Open a directory from the top of the file system on. A link is an error."""
    if is_available() and "\0" not in path:
        with contextlib.suppress(OSError):  # by steps, the error says where; and a path may be long
            return openat2(-1, os.fsencode(f"/{path}"), _WAY, NO_SYMLINKS)
    here = os.open("/", _WAY)
    for part in filter(None, path.split("/")):
        try:
            inner = os.open(part, _WAY, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here


def facts_of(root: str, path: str) -> os.stat_result | None:
    """What the system knows of a file, or of a link itself; None if there is none."""
    return in_directory(root, path, _facts)


def refuse_one_case(root: str, names: Iterable[str]) -> None:
    """Refuse a directory in which another name in other capitals leads to the same file.

    What is read-only or hidden there can be reached by it. To compare names in any capitals everywhere was rejected:
    a mount covers one of them only.
    """
    for name in names:
        facts = facts_of(root, name)
        if facts is None or name == name.swapcase():
            continue
        other = facts_of(root, name.swapcase())
        if other is None or not os.path.samestat(facts, other):
            return
        raise SandboxError(
            f"in '{root}', '{name.swapcase()}' is the same file as '{name}', so what is protected or hidden there has "
            "names that are not.",
            remedy="Work on a file system that distinguishes capitals, or remove one of the two names.",
        )


def is_directory(path: str) -> bool:
    """Whether there is a directory, and no link in its path."""
    with contextlib.suppress(OSError):
        facts = facts_of("/", path)
        return facts is not None and stat.S_ISDIR(facts.st_mode)
    return False


def target_of(root: str, path: str) -> str | None:
    """What a link says; None if there is none."""
    return in_directory(root, path, _target)


def birth_of(root: str, path: str) -> int:
    """When a file was made, in nanoseconds; 0 where the file system does not know."""
    return in_directory(root, path, _birth) or 0


def content_of(root: str, path: str, most: int) -> bytes | None:
    """The beginning of a file; None if it is no plain file, or a link leads there."""
    return in_directory(root, path, _content, most)


def names_in(root: str, path: str) -> list[str] | None:
    """The names in a directory; None if it is none, or a link leads there."""
    return in_directory(root, path, _list_names)


def move_aside(root: str, path: str) -> str:
    """Rename what is there, and give its new path; empty if it cannot be renamed: then it is closed to all but root."""
    for act in (_move, _move_from_closed):
        with contextlib.suppress(OSError):
            if name := in_directory(root, path, act):
                return os.path.join(os.path.dirname(path), name)
    with contextlib.suppress(OSError):
        in_directory(root, path, _close)
    return ""


def move_up(root: str, path: str) -> str:
    """Move a directory that is too deep to the top of the tree, and give its new path; empty if that fails.

    Where it cannot get there, as from another mount, it is moved as near to the top as it can. One that cannot be
    moved, as a mount, is moved with the directory that it is in. Nobody can foresee the new name, so no index of git
    leads there. What stays is closed to all but root.
    """
    name = f"deep{ASIDE}-{secrets.token_hex(4)}"
    moved = path
    while moved:
        way = os.path.dirname(moved)
        for new in (os.path.join(above, name) for above in ("", *prefixes(way))):
            if (new.count("/"), len(new)) < (moved.count("/"), len(moved)):
                with contextlib.suppress(OSError):
                    # If it is gone, what it was in stays where it is.
                    return new if in_directory(root, moved, _move_to, f"{root}/{new}") else ""
        moved = way
    with contextlib.suppress(OSError):
        in_directory(root, path, _close)
    return ""


def make_link(root: str, path: str, target: str) -> None:
    """Make a link again that was replaced."""
    with contextlib.suppress(OSError):
        in_directory(root, path, lambda name, directory: os.symlink(target, name, dir_fd=directory))


def open_to_us(path: str, needed: int) -> None:
    """Give ourselves rights to a directory of our own, by what was opened: a link may be there by now."""
    with contextlib.suppress(OSError):
        in_directory("/", path, _open_to_us, needed)


def _open_to_us(name: str, directory: int, needed: int) -> None:
    with _closing(os.open(name, _WAY, dir_fd=directory)) as fd:
        _add_rights(fd, needed)


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _add_rights(directory: int, needed: int) -> int | None:
    """Give ourselves rights to a directory of our own that is held open, and say what its mode was if that changed."""
    facts = os.fstat(directory)
    if facts.st_uid != os.geteuid() or facts.st_mode & needed == needed:
        return None
    mode = stat.S_IMODE(facts.st_mode)
    os.chmod(f"/proc/self/fd/{directory}", mode | needed)
    return mode


@contextlib.contextmanager
def _writable(directory: int) -> Iterator[None]:
    """Let a directory of ours be written meanwhile: a command may have closed it."""
    mode = _add_rights(directory, stat.S_IRWXU)
    try:
        yield
    finally:
        if mode is not None:
            os.chmod(f"/proc/self/fd/{directory}", mode)


def _facts(name: str, directory: int) -> os.stat_result:
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


def _target(name: str, directory: int) -> str:
    return os.readlink(name, dir_fd=directory)


def _birth(name: str, directory: int) -> int:
    statx = _statx()
    facts = ctypes.create_string_buffer(_SIZE_OF_STATX)
    if statx is None or statx(directory, os.fsencode(name), _NOFOLLOW, _STATX_BTIME, facts):
        return 0
    seconds, nanoseconds = struct.unpack_from("qI", facts, _BTIME_IN_STATX)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


@cache
def _statx() -> Callable[..., int] | None:
    """The system call, which an old C library lacks."""
    return getattr(ctypes.CDLL(None), "statx", None)


def _content(name: str, directory: int, most: int) -> bytes | None:
    try:
        fd = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        if error.errno in _CANNOT_BE_OPENED:
            return None
        raise
    with open(fd, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else None


def _list_names(name: str, directory: int) -> list[str]:
    with _closing(os.open(name, _DIRECTORY, dir_fd=directory)) as fd:
        return os.listdir(fd)


def _move_from_closed(name: str, directory: int) -> str:
    """The same in a directory of ours that cannot be written."""
    with _writable(directory):
        return _move(name, directory)


def _move_to(name: str, directory: int, new: str) -> bool:
    """Move a directory to another one. Its `..` changes, so it must be writable itself."""
    to, _, last = new.rpartition("/")
    with (
        _writable(directory),
        _closing(os.open(name, _WAY, dir_fd=directory)) as moved,
        _writable(moved),
        _closing(_open_way(to)) as top,
        _writable(top),
    ):
        os.rename(name, last, src_dir_fd=directory, dst_dir_fd=top)
    return True


def _move(name: str, directory: int) -> str:
    short = os.fsdecode(os.fsencode(name)[:_LONGEST_NAME])
    numbers = ("", *(f"-{number}" for number in range(1, 10)), f"-{secrets.token_hex(4)}")
    for aside in (f"{short}{ASIDE}{number}" for number in numbers):
        try:
            os.stat(aside, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
            return aside
    return ""


def _close(name: str, directory: int) -> None:
    """Take the rights to it from everybody but root."""
    with _closing(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)) as fd:
        os.chmod(f"/proc/self/fd/{fd}", 0)
