"""Atomic writes: the content is written under a temporary name, which then replaces the file."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat

from hookline.containment.jail.faults import jail_error, not_a_file, second_name
from hookline.containment.jail.steps import NOFOLLOW
from hookline.containment.protected import PROTECTED, accept
from hookline.errors import FileChangedError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)


def write_file(
    given: str,
    directory: int,
    name: str,
    content: bytes,
    overwrite: bool,
    fsync: bool,
    expected: os.stat_result | None,
) -> None:
    """Write the content of a file in a directory. `given` is its path in errors."""
    old = _found(given, directory, name)
    if old is not None and not overwrite:
        raise jail_error(given, FileExistsError(errno.EEXIST, "exists"))
    temporary = f".{secrets.token_hex(12)}.tmp"
    fd = os.open(temporary, _NEW, 0o666 if old is None else 0o600, dir_fd=directory)
    try:
        try:
            _fill(fd, content, old, fsync)
        finally:
            os.close(fd)
        if expected is not None:
            _refuse_changed(given, directory, name, expected)
        if overwrite:
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        else:
            _take_free_name(directory, temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    if name in PROTECTED:
        accept(os.stat(name, dir_fd=directory, follow_symlinks=False))
    if fsync:
        os.fsync(directory)


def _found(given: str, directory: int, name: str) -> os.stat_result | None:
    """The file that is there now, if it is one that may be written."""
    try:
        old = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise not_a_file(given, old.st_mode)
    if old.st_nlink > 1:
        raise second_name(given)
    return old


def _fill(fd: int, content: bytes, old: os.stat_result | None, fsync: bool) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    if old is not None:
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(OSError):  # only root may give a file back to its owner
                os.fchown(fd, old.st_uid, old.st_gid)
        # Without the bits that let a program run as somebody else: this is another program now.
        os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)
    if fsync:
        os.fsync(fd)


def _refuse_changed(given: str, directory: int, name: str, expected: os.stat_result) -> None:
    now = _found(given, directory, name)
    if now is None or _identity(now) != _identity(expected):
        raise FileChangedError(given, "has changed meanwhile.", remedy="Read it again.")


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _take_free_name(directory: int, temporary: str, name: str) -> None:
    """Rename, unless there is something by then."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(name, _NEW, 0o600, dir_fd=directory))  # the name is ours, and then filled
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    else:
        os.unlink(temporary, dir_fd=directory)
