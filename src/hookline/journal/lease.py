"""Who drives a run: one process at a time, known to the kernel, so that a dead one's lease is free at once.

A lease is a lock on one byte of a file beside the journal; which byte follows from the run's id. No clock is
asked and nothing is written: when a process is gone, for whatever reason, its locks are gone too.

On Linux the lock belongs to the open file (`F_OFD_SETLK`), because a lock of the process would be dropped when
anything in it opens and closes the same file: a tool that searches a directory is enough. A forked child closes its
copy of the file, so that it does not keep the lease of a parent that was killed. The kernel does not say who holds
such a lock, so a second lock, the process's own, says that, and nothing depends on it. Elsewhere the process's own
lock is all there is; so there is one descriptor per file, closed with the last lease. Neither keeps threads of
one process apart, so the leases of this process are also kept in a set.
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
_WHOSE = 1 << 62
"""Beyond the bytes of runs: where the lock is that says whose a lease is."""
_FileKey = tuple[int, int]
_guard = threading.Lock()
_files: dict[_FileKey, _LockFile] = {}
_dropped: deque[Lease] = deque()
"""Leases whose owner forgot them, while someone held the guard."""


class _LockFile:
    """One file of locks, open in this process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.held: set[int] = set()


class Lease:
    """The right to write a run, until it is released or forgotten."""

    __slots__ = ("_byte", "_file", "_key", "_pid", "run_id")

    def __init__(self, run_id: str, key: _FileKey, file: _LockFile, byte: int) -> None:
        self.run_id = run_id
        self._key = key
        self._file: _LockFile | None = file
        self._byte = byte
        self._pid = os.getpid()

    def release(self) -> None:
        """Let others have the run."""
        with _guard:
            _release_dropped()
            self._release()

    def __del__(self) -> None:
        # Garbage is collected at any moment, also while this very thread holds the guard.
        if _guard.acquire(blocking=False):
            try:
                self._release()
            finally:
                _guard.release()
        elif self._file is not None:
            _dropped.append(self)

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is None or self._pid != os.getpid():  # a forked child never had the lock
            return
        file.held.discard(self._byte)
        _set(file.descriptor, fcntl.F_UNLCK, self._byte)
        if not file.held:
            os.close(file.descriptor)
            del _files[self._key]


def take_lease(journal: str, run_id: str) -> Lease:
    """Take a run of a journal file. Raises RunInUseError when another live process, or this one, has it."""
    if fcntl is None:
        raise JournalError(
            "runs cannot be claimed here: this system has no POSIX record locks.",
            remedy="Reading works; run agents with a SQLite journal on Linux or macOS.",
        )
    byte = _byte_of(run_id)
    with _guard:
        _release_dropped()
        key, file = _opened(journal)
        try:
            if byte in file.held:
                raise RunInUseError(
                    f"run '{run_id}' is being driven already, by this process ({os.getpid()}).",
                    remedy="Wait for it to end or pause, or cancel it: agent.cancel(run_id).",
                )
            _lock(file.descriptor, byte, journal, run_id)
            file.held.add(byte)
        finally:
            if not file.held:
                os.close(file.descriptor)
                del _files[key]
        return Lease(run_id, key, file, byte)


def _release_dropped() -> None:
    while _dropped:
        _dropped.popleft()._release()


def lease_file(journal: str) -> str:
    """Where the locks of a journal file are."""
    return f"{journal}-lease"


def _byte_of(run_id: str) -> int:
    # Files may be locked far beyond their end, so the file stays empty. Two of a million runs share a byte
    # once in ten million journals; one of them would then have to wait for the other.
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big") >> 2


def _opened(journal: str) -> tuple[_FileKey, _LockFile]:
    """The file of locks. Opened once per process: a second descriptor, closed, would drop the locks of the first."""
    path = lease_file(journal)
    try:
        with contextlib.suppress(FileNotFoundError):
            known = os.stat(path)
            if (key := (known.st_dev, known.st_ino)) in _files:
                return key, _files[key]
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _refused(path, error) from None
    _like_the_journal(descriptor, journal)
    opened = os.fstat(descriptor)
    key = (opened.st_dev, opened.st_ino)
    _files[key] = _LockFile(descriptor)
    return key, _files[key]


def _like_the_journal(descriptor: int, journal: str) -> None:
    """Whoever may write the journal may lock it: root must not leave a file that others cannot open."""
    with contextlib.suppress(OSError):  # it is someone else's file, and is as they made it
        model = os.stat(journal)
        os.fchmod(descriptor, model.st_mode & 0o666)
        if os.geteuid() == 0:
            os.fchown(descriptor, model.st_uid, model.st_gid)


def _lock(descriptor: int, byte: int, journal: str, run_id: str) -> None:
    try:
        _set(descriptor, fcntl.F_WRLCK, byte)
    except (BlockingIOError, PermissionError):
        raise RunInUseError(
            f"run '{run_id}' is being driven by {_holder(descriptor, byte)}.",
            remedy="Wait for it, or end that process: the run is free as soon as it is gone.",
        ) from None
    except OSError as error:
        raise _refused(lease_file(journal), error) from None


def _set(descriptor: int, kind: int, byte: int) -> None:
    """Lock a byte, or let it go. Raises when somebody else has it."""
    of_file: int | None = getattr(fcntl, "F_OFD_SETLK", None)
    if of_file is None:
        fcntl.fcntl(descriptor, fcntl.F_SETLK, _asked(kind, byte))
        return
    fcntl.fcntl(descriptor, of_file, _asked(kind, byte))
    with contextlib.suppress(OSError):  # for those who want to know whose it is
        fcntl.fcntl(descriptor, fcntl.F_SETLK, _asked(kind, byte | _WHOSE))


def _refused(path: str, error: OSError) -> JournalError:
    return JournalError(
        f"runs cannot be claimed: '{path}' cannot be locked ({error.strerror}).",
        remedy="Make the journal's directory writable, or move the journal to a local disk.",
    )


def _holder(descriptor: int, byte: int) -> str:
    """The process that has the lock, as far as the kernel tells."""
    host = os.uname().nodename
    try:
        pid = _locked_by(descriptor, byte)
    except (OSError, struct.error):
        pid = 0
    # None where it is in a container that this process cannot see into, or has just let go.
    return f"process {pid} on {host}" if pid > 0 else f"another process on {host}"


def _locked_by(descriptor: int, byte: int) -> int:
    place = byte | _WHOSE if hasattr(fcntl, "F_OFD_SETLK") else byte
    told = fcntl.fcntl(descriptor, fcntl.F_GETLK, _asked(fcntl.F_WRLCK, place))
    fields = struct.unpack("qqihh" if _IS_BSD else "hhqqi4x", told)
    return int(fields[2] if _IS_BSD else fields[4])


def _asked(kind: int, byte: int) -> bytes:
    """`struct flock`: the same fields everywhere, in one of two orders."""
    if _IS_BSD:
        return struct.pack("qqihh", byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)


def _after_fork() -> None:
    """A forked child has the descriptors and none of the locks."""
    global _guard
    _guard = threading.Lock()
    for file in _files.values():
        os.close(file.descriptor)
    _files.clear()
    _dropped.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
