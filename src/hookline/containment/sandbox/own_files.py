"""Makes the files of a work directory its own: those that have another name outside of it.

uv shares the files of all environments with its cache, `git clone DIR` shares the objects of a repository, and `cp -l`
shares everything. Who writes such a file in place changes it under its other names too, and no mount prevents that. So
it is copied, and the copy replaces it. What cannot be copied is read-only for commands. Nothing is copied while other
commands run: to replace a file takes away what is mounted on it for them, and with that what protects or hides it.

All is done below open directories: a link that replaces one is not followed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hookline.containment.sandbox.paths import outermost, prefixes
from hookline.containment.sandbox.quarantine import in_directory

_MOST_BYTES, _MOST_FILES = 2 * 1024**3, 200_000
"""What is copied. The smallest entries of the work directory come first."""
_MOST_MOUNTS = 100
"""Files that are read-only one by one; else the directories are that they are in."""
_CLONE = 0x40049409
"""`FICLONE`: a copy that takes no space, on some file systems."""
_CHUNK = 1 << 30
_MODE = 0o1777
"""Without set-id bits: whoever runs a copy does not get the rights of its owner."""
_KEPT_ATTRIBUTES = ("user.", "system.")


class LinkedFile(NamedTuple):
    """A regular file that has more than one name."""

    path: str
    device: int
    number: int
    links: int
    size: int

    @property
    def identity(self) -> tuple[int, int]:
        """What all names of the file have in common."""
        return self.device, self.number


def find_shared_outside(
    linked: Iterable[tuple[str, Sequence[LinkedFile]]], read_only: Iterable[str]
) -> list[LinkedFile]:
    """Those of these files, by directory, that commands can write and that have a name where commands cannot.

    A name in a place that is read-only for commands counts as one outside.
    """
    held = frozenset(read_only)
    writable: list[LinkedFile] = []
    for place, files in linked:
        if held.isdisjoint(prefixes(place)):
            writable += (file for file in files if file.path not in held)
    names = Counter([file.identity for file in writable])
    return [file for file in writable if names[file.identity] < file.links]


def make_own(root: str, files: Iterable[LinkedFile]) -> list[LinkedFile]:
    """Replace each file by a copy of its own, and give those for which that does not work."""
    by_entry: dict[str, list[LinkedFile]] = defaultdict(list)
    for file in files:
        by_entry[file.path.partition("/")[0]].append(file)
    system = os.statvfs(root)
    room = min(_MOST_BYTES, system.f_bavail * system.f_frsize // 2)
    count = 0
    left: list[LinkedFile] = []
    for group in sorted(by_entry.values(), key=_size):
        room, count = room - _size(group), count + len(group)
        if room < 0 or count > _MOST_FILES:
            left += group
        else:
            left += [file for file in group if not _is_made_own(root, file)]
    return left


def to_mount(files: Iterable[LinkedFile], *, by_directory: bool) -> list[str]:
    """What to mount read-only, so that none of these files can be written: each file, or the directories above.

    `by_directory` while other commands run: bubblewrap empties a file that they move to and fro as it mounts it.
    """
    paths = [file.path for file in files]
    found = {(os.path.dirname(path) or path) if by_directory else path for path in paths}
    depth = max((path.count("/") for path in found), default=0)
    while len(found) > _MOST_MOUNTS and depth:
        found = {path if path.count("/") < depth else os.path.dirname(path) for path in found}
        depth -= 1
    return outermost(found)


def _size(files: Iterable[LinkedFile]) -> int:
    return sum(file.size for file in files)


def _is_made_own(root: str, file: LinkedFile) -> bool:
    """Whether a name is not one of a shared file any more: a copy replaced it, or it is gone."""
    try:
        in_directory(root, file.path, _replace, file)
    except OSError:
        return False
    return True


def _replace(name: str, directory: int, file: LinkedFile) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    try:
        facts = os.fstat(source)
        if (facts.st_dev, facts.st_ino) != file.identity or facts.st_nlink == 1:
            return  # another file by now
        draft = f".hookline-{secrets.token_hex(8)}"
        try:
            _copy(source, facts, draft, directory)
            now = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if (now.st_ino, now.st_mtime_ns) != (facts.st_ino, facts.st_mtime_ns):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))  # it changes
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=directory)
            raise
    finally:
        os.close(source)


def _copy(source: int, facts: os.stat_result, draft: str, directory: int) -> None:
    """Copy a file with its owner, mode, times and attributes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    copy = os.open(draft, flags, 0o600, dir_fd=directory)
    try:
        try:
            fcntl.ioctl(copy, _CLONE, source)
        except OSError:
            done = 0
            while sent := os.sendfile(copy, source, done, _CHUNK):
                done += sent
        ours = os.fstat(copy)
        if (ours.st_uid, ours.st_gid) != (facts.st_uid, facts.st_gid):
            os.fchown(copy, facts.st_uid, facts.st_gid)
        for attribute in os.listxattr(source):
            if attribute.startswith(_KEPT_ATTRIBUTES):
                os.setxattr(copy, attribute, os.getxattr(source, attribute))
        os.fchmod(copy, stat.S_IMODE(facts.st_mode) & _MODE)
        os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    finally:
        os.close(copy)
