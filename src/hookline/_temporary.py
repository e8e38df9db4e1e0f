"""Temporary files of this process. What a process left that was killed, the next one removes.

Our own are in the directory of our state, where no command can write: the sandbox keeps it, or refuses to run. TMPDIR
was rejected: it may lie in a directory that commands can write, and they would put a link to another file in the place
of what we mount or write. It is used if nothing can be made in the directory of our state.

A process has one directory in each place, and keeps a file in it locked as long as it lives: the kernel gives up the
lock of one that was killed. The number of the process in the name was rejected: another process, or another container,
may have the same. A lock on the directory itself was rejected: on NFS other machines do not see it, and the sandbox
would take it for that of a command.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import IO

from hookline.own_directories import state_directory

PREFIX = "hookline-own-"
"""Another name than earlier versions gave: they would remove a directory that is not locked itself."""
_LOCK = "lock"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def temporary_directory() -> Path:
    """A new directory of our own, which is removed when this process has ended, whatever ended it."""
    try:
        return Path(tempfile.mkdtemp(dir=_own_base())).resolve()
    except OSError:  # the disk has become full
        return directory_in_tmpdir()


def temporary_file() -> IO[bytes]:
    """A file of our own without a name."""
    try:
        return tempfile.TemporaryFile(buffering=0, dir=_own_base())
    except OSError:
        return tempfile.TemporaryFile(buffering=0, dir=_existing_base(tempfile.gettempdir()))


def directory_in_tmpdir() -> Path:
    """A new directory where TMPDIR says. Commands may be able to write there."""
    return Path(tempfile.mkdtemp(dir=_existing_base(tempfile.gettempdir()))).resolve()


def _own_base() -> str:
    place = f"{state_directory(os.environ)}/tmp"
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        return _existing_base(place)
    except OSError:  # it is read-only, full, or there is no home
        return _existing_base(tempfile.gettempdir())


def _existing_base(place: str) -> str:
    base = _base(place, os.getpid())
    os.makedirs(base, mode=0o700, exist_ok=True)  # somebody may have cleared /tmp
    return base


@cache
def _base(place: str, pid: int) -> str:
    base = tempfile.mkdtemp(prefix=PREFIX, dir=place)
    while not _hold(base):  # another process took it for one of the dead
        base = tempfile.mkdtemp(prefix=PREFIX, dir=place)
    threading.Thread(target=remove_left, args=(place,), name="hookline-clear", daemon=True).start()
    atexit.register(_remove, base, pid)
    return base


def _hold(path: str) -> bool:
    """Lock a directory for as long as we live; False if it is gone by then."""
    try:
        fd = _open_lock(path)
        with contextlib.suppress(OSError):  # without locks, nobody else gets one either
            fcntl.flock(fd, fcntl.LOCK_EX)
        return os.path.samestat(os.fstat(fd), os.stat(f"{path}/{_LOCK}"))
    except FileNotFoundError:
        return False


def _open_lock(path: str) -> int:
    """The file that is locked, of a directory of this user."""
    directory = os.open(path, _DIRECTORY)
    try:
        if os.fstat(directory).st_uid != os.geteuid():
            raise PermissionError(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(_LOCK, flags, 0o600, dir_fd=directory)
    finally:
        os.close(directory)


def _remove(path: str, pid: int) -> None:
    if pid == os.getpid():  # not in a process that we have forked
        shutil.rmtree(path, ignore_errors=True)


def remove_left(place: str) -> None:
    """Remove the directories of this user's processes that were killed."""
    for name in os.listdir(place):
        if name.startswith(PREFIX):
            with contextlib.suppress(OSError):
                _remove_if_left(f"{place}/{name}")


def _remove_if_left(path: str) -> None:
    fd = _open_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error if its process lives
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)
