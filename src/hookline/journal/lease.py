"""A lease on a run: one process drives it at a time, and the lease of a dead process is free at once.

A lease is a lock on one byte of a file beside the journal. The byte follows from the run's id. Nothing is written:
when a process is gone, its locks are gone too.

On Linux the lock belongs to the open file (`F_OFD_SETLK`). A lock of the process would be dropped when anything in
the process opens and closes the same file: a tool that searches a directory is enough. A forked child closes its copy
of the file, so that it does not keep the lease of a parent that was killed. The kernel does not say who holds such a
lock, so a second lock, of the process, says it for error messages. Other systems have only the lock of the process,
so there is one descriptor per file, closed with the last lease. Neither kind of lock separates threads, so the leases
of this process are also in a set.

Rejected: `filelock` (one file per run, and it stays), and a heartbeat in a table (needs a clock and a timeout).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import sys
import threading
from collections import deque

from hookline.errors import JournalError, RunInUseError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_IS_BSD = sys.platform == "darwin" or "bsd" in sys.platform
_OWNER = 1 << 62
"""Added to the byte of a run: the lock that says which process has the lease."""
_FileKey = tuple[int, int]
_guard = threading.Lock()
_files: dict[_FileKey, _LockFile] = {}
_given_back: deque[Lease] = deque()
"""Leases to release. Garbage is collected at any moment, also while this thread holds the guard, so nobody waits for
the guard to release one: whoever has it releases all that are here, and looks again after it let go."""


class _LockFile:
    """One file of locks, open in this process."""

    def __init__(self, key: _FileKey, descriptor: int) -> None:
        self.key = key
        self.descriptor = descriptor
        self.held: set[int] = set()

    def close_if_unused(self) -> None:
        if not self.held:
            os.close(self.descriptor)
            del _files[self.key]


class Lease:
    """The right to write a run, until it is released or garbage."""

    __slots__ = ("_byte", "_file", "_pid")

    def __init__(self, file: _LockFile, byte: int) -> None:
        self._file: _LockFile | None = file
        self._byte = byte
        self._pid = os.getpid()

    def release(self) -> None:
        """Let others have the run."""
        if self._file is not None:
            _given_back.append(self)
            _release_all()

    __del__ = release

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is None or self._pid != os.getpid():  # a forked child never had the lock
            return
        file.held.discard(self._byte)
        _set(file.descriptor, fcntl.F_UNLCK, self._byte)
        file.close_if_unused()


def take_lease(journal: str, run_id: str) -> Lease:
    """Lease a run of a journal file. Raises RunInUseError when a live process, or this one, has it."""
    if fcntl is None:
        raise JournalError(
            "runs cannot be claimed here: this system has no POSIX record locks.",
            remedy="Reading works; run agents with a SQLite journal on Linux or macOS.",
        )
    byte = _byte_of(run_id)
    try:
        with _guard:
            while _given_back:
                _given_back.popleft()._release()
            file = _open(journal)
            try:
                if byte in file.held:
                    raise RunInUseError(
                        f"run '{run_id}' is already running in this process ({os.getpid()}).",
                        remedy="Wait for it to end or pause, or cancel it: agent.cancel(run_id).",
                    )
                _lock(file.descriptor, byte, journal, run_id)
                file.held.add(byte)
            finally:
                file.close_if_unused()
            return Lease(file, byte)
    finally:
        _release_all()


def _release_all() -> None:
    """Release what was given back, unless somebody has the guard: they look here afterwards."""
    while _given_back and _guard.acquire(blocking=False):
        try:
            while _given_back:
                _given_back.popleft()._release()
        finally:
            _guard.release()


def lease_file(journal: str) -> str:
    """Where the locks of a journal file are."""
    return f"{journal}-lease"


def _byte_of(run_id: str) -> int:
    # Bytes beyond the end of a file can be locked, so the file stays empty. Two of a million runs share a byte once in
    # ten million journals; one of them would then wait for the other.
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big") >> 2


def _open(journal: str) -> _LockFile:
    """The file of locks. Opened once per process: closing a second descriptor would drop the locks of the first."""
    path = lease_file(journal)
    try:
        with contextlib.suppress(FileNotFoundError):
            known = os.stat(path)
            if (key := (known.st_dev, known.st_ino)) in _files:
                return _files[key]
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _lock_error(path, error) from None
    copy_mode(descriptor, journal)
    opened = os.fstat(descriptor)
    key = (opened.st_dev, opened.st_ino)
    _files[key] = _LockFile(key, descriptor)
    return _files[key]


def copy_mode(descriptor: int, journal: str) -> None:
    """Give a file the mode and owner of the journal: a user who may write the journal may write and lock it."""
    with contextlib.suppress(OSError):  # it is somebody else's file
        model = os.stat(journal)
        os.fchmod(descriptor, model.st_mode & 0o666)
        if os.geteuid() == 0:
            os.fchown(descriptor, model.st_uid, model.st_gid)


def _lock(descriptor: int, byte: int, journal: str, run_id: str) -> None:
    try:
        _set(descriptor, fcntl.F_WRLCK, byte)
    except (BlockingIOError, PermissionError):
        raise RunInUseError(
            f"run '{run_id}' is already running in {_holder(descriptor, byte)}.",
            remedy="Wait for it, or end that process.",
        ) from None
    except OSError as error:
        raise _lock_error(lease_file(journal), error) from None


def _set(descriptor: int, kind: int, byte: int) -> None:
    """Lock or unlock a byte. Raises when somebody else has it."""
    of_file: int | None = getattr(fcntl, "F_OFD_SETLK", None)
    if of_file is None:
        fcntl.fcntl(descriptor, fcntl.F_SETLK, _flock(kind, byte))
        return
    fcntl.fcntl(descriptor, of_file, _flock(kind, byte))
    with contextlib.suppress(OSError):  # only for error messages
        fcntl.fcntl(descriptor, fcntl.F_SETLK, _flock(kind, byte | _OWNER))


def _lock_error(path: str, error: OSError) -> JournalError:
    return JournalError(
        f"runs cannot be claimed: '{path}' cannot be locked ({error.strerror}).",
        remedy="Make the journal's directory writable, or move the journal to a local disk.",
    )


def _holder(descriptor: int, byte: int) -> str:
    """The process that has the lock, if the kernel knows."""
    host = os.uname().nodename
    try:
        pid = _find_holder(descriptor, byte)
    except (OSError, struct.error):
        pid = 0
    # 0 when it is in another container, or has just released the lock.
    return f"process {pid} on {host}" if pid > 0 else f"another process on {host}"


def _find_holder(descriptor: int, byte: int) -> int:
    place = byte | _OWNER if hasattr(fcntl, "F_OFD_SETLK") else byte
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, place))
    fields = struct.unpack("qqihh" if _IS_BSD else "hhqqi4x", answer)
    return int(fields[2] if _IS_BSD else fields[4])


def _flock(kind: int, byte: int) -> bytes:
    """`struct flock`: the same fields everywhere, in one of two orders."""
    if _IS_BSD:
        return struct.pack("qqihh", byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)


def _after_fork() -> None:
    """Close the descriptors in a forked child, which has none of the locks."""
    global _guard
    _guard = threading.Lock()
    for file in _files.values():
        os.close(file.descriptor)
    _files.clear()
    _given_back.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
