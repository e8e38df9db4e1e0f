"""One directory that is held open: what is in it, made, written and removed by name.

A file is written as a whole: under another name first, which then takes its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hookline.containment.jail.faults import fault, not_a_file, second_name
from hookline.containment.jail.paths import Parts, first_of, plain_names
from hookline.containment.jail.steps import DIRECTORY, NOFOLLOW
from hookline.containment.protected import PROTECTED, accept
from hookline.errors import FileChangedError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW
_PROTECTED = plain_names(PROTECTED, "protected")
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)


class FileEntry(NamedTuple):
    """Something in a directory, as it was when the directory was read."""

    path: str
    """Relative to the root."""
    name: str
    kind: str
    """`file`, `directory`, `link` or `other`."""
    size: int = 0
    modified: float = 0.0
    """Seconds since 1970."""

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file."""
        return self.kind == "file"

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory. A link to one is none."""
        return self.kind == "directory"


def entries_of(directory: int, below: str) -> Iterator[FileEntry]:
    """What is in a directory, in the order of the names."""
    with os.scandir(directory) as found:
        names = sorted(entry.name for entry in found)
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
            path = f"{below}/{name}" if below else name
            yield FileEntry(path, name, _kind(facts.st_mode), facts.st_size, facts.st_mtime)


def has_entry(directory: int, name: str) -> bool:
    """Whether there is something of this name in a directory, as its file system compares names."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def has_file(directory: int, name: str) -> bool:
    """Whether there is a plain file of this name in a directory."""
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def present(directory: int, names: Iterable[str]) -> set[str]:
    """Those of the names that a directory has."""
    return {name for name in names if has_entry(directory, name)}


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def make_directories(root: int, true: Parts) -> bool:
    """Make a directory and those above it; says whether the last one was missing."""
    made, here = False, os.dup(root)
    try:
        for name in true:
            made = _make(here, name)
            below = os.open(name, DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    return made


def _make(directory: int, name: str) -> bool:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        return False
    return True


def remove(directory: int, name: str, *, recursive: bool) -> None:
    """Remove what has this name in a directory. A link is removed, not what it points to."""
    facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(facts.st_mode):
        os.unlink(name, dir_fd=directory)
    elif recursive:
        shutil.rmtree(name, dir_fd=directory)  # holds directories open too: links do not mislead it
    else:
        os.rmdir(name, dir_fd=directory)


def write_file(
    given: str,
    directory: int,
    name: str,
    content: bytes,
    overwrite: bool,
    fsync: bool,
    expected: os.stat_result | None,
) -> None:
    """Give the file of this name in a directory this content. `given` is what its path is called in errors."""
    old = _find(given, directory, name)
    if old is not None and not overwrite:
        raise fault(given, FileExistsError(errno.EEXIST, "exists"))
    temporary = f".{secrets.token_hex(12)}.tmp"
    fd = os.open(temporary, _NEW, 0o666 if old is None else 0o600, dir_fd=directory)
    try:
        try:
            _fill(fd, content, old, fsync)
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
        if first_of((name,), _PROTECTED):
            accept(
                os.fstat(fd)
            )  # what was written: a command may have put another file in its place
    finally:
        os.close(fd)
    if fsync:
        os.fsync(directory)


def _find(given: str, directory: int, name: str) -> os.stat_result | None:
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
    now = _find(given, directory, name)
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
