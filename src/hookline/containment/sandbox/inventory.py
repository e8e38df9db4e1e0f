"""What was in a directory before commands ran there, on disk: if we die before we look again, the next start does.

There is one file per directory and process, locked as long as the process lives. Other processes that work in the same
directory, in one above or in one below, read it too: what is not in it is not the user's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hookline.containment.sandbox.directory_entries import Identity, identity_of
from hookline.containment.sandbox.quarantine import birth_of, facts_of
from hookline.errors import SandboxError
from hookline.own_directories import state_directory

_MODE = 0o600
_PATIENCE = 15.0
"""Seconds to wait for another process that clears up, or makes a sandbox. Each takes a moment."""
_ENDING = 2.0
"""Seconds to wait for the commands of a process that has died."""
_LOOK = 0.01
"""Seconds for which a lock is looked at: others who look hold it for a moment."""
_DAMAGED = (OSError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a record raises that is none of ours."""
_own: set[str] = set()
"""The records of this process."""
_of_dead: dict[str, tuple[Identity, SandboxRecord]] = {}
"""The records of processes that have died, by path: every start asks for them, several times."""


class Inventory:
    """The record of this process for one directory, while commands run there."""

    def __init__(self, path: str, fd: int) -> None:
        self._path, self._fd = path, fd
        self._written = os.fstat(fd).st_mtime_ns

    @property
    def is_marked(self) -> bool:
        """Whether a command of another process ran at the same time."""
        return os.fstat(self._fd).st_mtime_ns != self._written

    @classmethod
    def begin(
        cls,
        root: str,
        held: int,
        known: Mapping[str, tuple[int, int, int]],
        times: Mapping[str, int],
        named: Iterable[str],
        links: Mapping[str, str],
        *,
        alone: bool = False,
    ) -> Inventory | None:
        """Write down what is there; None where nothing can be written: then nobody looks after our death.

        `held` is the directory itself, open.
        """
        # Not by our number: in a container, the process that is started again has the same.
        path = f"{records_directory()}/{_key(root)}-{secrets.token_hex(8)}.json"
        record = {
            "root": root,
            "place": _place_of(os.fstat(held)),
            "born": birth_of("/", root),
            "namespace": _namespace(),
            "known": known,
            "changed_at": times,
            "named": [*named],
            "links": links,
            "alone": alone,
        }
        with _unless_full():
            os.makedirs(records_directory(), 0o700, exist_ok=True)
            # New, and not truncated: ext4 writes a file to disk that was, as soon as it is closed.
            begun = path.removesuffix(".json")
            fd = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                _write(fd, json.dumps(record).encode())
                _own.add(path)
                os.rename(begun, path)  # others see it when it is written
                return cls(path, fd)
            except BaseException:
                _own.discard(path)
                os.close(fd)
                _remove(begun)
                raise
        return None

    def note_first(self, pid: int) -> None:
        """The first process of a command. It may end a moment after we do, and the others of the command before it."""
        start = _start_of(str(pid))
        if not start:  # it has ended already, and the others with it
            return
        with _unless_full():
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            fd = os.open(_processes_file(self._path), flags, _MODE)
            try:
                before = os.fstat(fd).st_size
                try:
                    _write(fd, f"{pid} {start}\n".encode())
                except OSError:
                    os.ftruncate(fd, before)
                    raise
            finally:
                os.close(fd)

    def end(self) -> None:
        """Everything was looked at."""
        _remove(self._path)
        self.leave()

    def leave(self) -> None:
        """Nobody could look. The record stays, as if we had died: whoever starts the next command looks first."""
        _own.discard(self._path)
        os.close(self._fd)


class SandboxRecord(NamedTuple):
    """What one process wrote down."""

    path: str
    root: str
    """Empty if it was moved or removed, so that its commands may be anywhere."""
    known: dict[str, tuple[int, int, int]]
    times: dict[str, int]
    """When what was there changed last."""
    named: list[str]
    """What the user's configuration named then. After commands ran, it may be theirs that does."""
    links: dict[str, str]
    alone: bool
    """Whether no other command may run in the directory, above or below."""
    is_alive: bool
    place: list[int] | None
    born: int
    """When the directory was made, if that is known. Its device can have another number after a restart."""

    @property
    def is_of_this_directory(self) -> bool:
        """Whether the directory is where it was. Another one at its path is not looked at: the first may come back.

        The number of the directory must be the same, and one of two things: the number of its device, which changes at
        a restart, or its time of birth, which changes when a container first writes in a directory of its image. Where
        no time is known, the directory is looked at.
        """
        if not self.root or self.place is None or _is_there(self.root, self.place):
            return True
        with contextlib.suppress(OSError):
            facts = facts_of("/", self.root)
            is_same = facts is not None and facts.st_ino == self.place[1]
            return is_same and self.born in (0, birth_of("/", self.root))
        return False

    def mark(self) -> None:
        """Let the process that wrote it know that a command of ours runs."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def forget(self) -> None:
        """It was looked at."""
        _remove(self.path)


def records() -> Iterator[SandboxRecord]:
    """What other processes wrote down. One that died has left its lock."""
    place, names = records_directory(), list[str]()
    with contextlib.suppress(OSError):
        names = os.listdir(place)
    for path in (f"{place}/{name}" for name in names if name.endswith(".json")):
        with contextlib.suppress(*_DAMAGED):
            record = None if path in _own else _read(path)
            if record is not None and record.is_of_this_directory:
                yield record


def _read(path: str) -> SandboxRecord | None:
    """One record; None if it is none of ours."""
    identity = identity_of(os.stat(path))
    known = _of_dead.get(path)
    if known is not None and known[0] == identity:
        return known[1]
    with open(path, "rb") as file:
        is_alive = False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            is_alive = True
        kept = json.loads(file.read())
    is_alive = is_alive or _has_processes(path)
    # On another machine with the same home, or in another container, other directories may have these paths.
    is_here = kept.get("namespace") == _namespace()
    is_moved = is_alive and is_here and not _is_there(kept["root"], kept.get("place"))
    record = SandboxRecord(
        path=path,
        root="" if is_moved else kept["root"],
        # An earlier version wrote down the number of the device.
        known={name: (0, *each[1:]) for name, each in kept["known"].items()},
        times=kept.get("changed_at", {}),
        named=kept.get("named", []),
        links=kept.get("links", {}),
        alone=kept.get("alone", False) is True,
        is_alive=is_alive,
        place=kept.get("place"),
        born=kept.get("born", 0),
    )
    if not all(map(_is_inside, (*record.known, *record.times, *record.named, *record.links))):
        return None
    if not is_alive:
        _of_dead[path] = identity, record
    return record


def _write(fd: int, content: bytes) -> None:
    """Write all of it: a part of a record would be taken for a damaged one."""
    if os.write(fd, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _namespace() -> list[str]:
    """What decides which directory a path leads to: the machine since its start, and the table of mounts."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return [file.read().strip(), os.readlink("/proc/self/ns/mnt")]
    return []


def _processes_file(record: str) -> str:
    return f"{record.removesuffix('.json')}.processes"


def _has_processes(record: str) -> bool:
    """Whether a command still runs whose process has died: the kernel ends it a moment after the lock is free."""
    try:
        with open(_processes_file(record)) as file:
            first = [words for line in file if len(words := line.split()) == 2]
    except OSError:
        return False
    until = time.monotonic() + _ENDING
    while any(_start_of(pid) == start for pid, start in first):
        if time.monotonic() > until:
            return True
        time.sleep(0.002)
    return False


def _start_of(pid: str) -> str:
    """When a process began, so that it is not taken for a later one of that number; empty if it is gone."""
    facts = facts_of_process(pid)
    return "" if not facts or facts[0] in "ZX" else facts[19]


def facts_of_process(pid: int | str) -> list[str]:
    """What the kernel says of a process behind its name: its state first; nothing if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _place_of(facts: os.stat_result) -> list[int]:
    return [facts.st_dev, facts.st_ino]


def _is_there(root: str, place: object) -> bool:
    """Whether a directory is where it was: a command of one above may have moved it."""
    with contextlib.suppress(OSError):
        facts = facts_of("/", root)  # a link on the way leads to another place
        return place is None or (facts is not None and _place_of(facts) == place)
    return False


@contextlib.contextmanager
def _unless_full() -> Iterator[None]:
    """Write a record. Where none can ever be written, nobody has one; on a full disk others have, and rely on ours."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO):
            raise SandboxError(
                f"it cannot be written down in '{records_directory()}' that a command runs ({error.strerror}).",
                remedy="Make room on that disk, or close files.",
            ) from None


def _remove(record: str) -> None:
    for path in (record, _processes_file(record)):
        with contextlib.suppress(OSError):
            os.unlink(path)


def _is_inside(path: str) -> bool:
    """Whether a path stays in the directory of its record. We write no other, so somebody else wrote that record."""
    return not path.startswith("/") and ".." not in path.split("/")


# --- commands that run at the same time ---------------------------------------------------------------


def _lock_within(fd: int, kind: int, seconds: float) -> bool:
    """Lock what is open; False if another has locked it for so long. An `OSError` where there are no locks."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
        time.sleep(0.001)


def hold_lock(root: str) -> int:
    """Count a command that needs the names we hold in a directory. Returns the lock, for `give_up_lock`."""
    while True:
        fd, is_locked = _open_lock(root), True
        with contextlib.suppress(OSError):  # a file system without locks
            is_locked = _lock_within(fd, fcntl.LOCK_SH, _PATIENCE)
        if is_locked and os.fstat(fd).st_nlink:  # else another process has removed it meanwhile
            return fd
        os.close(fd)
        if not is_locked:
            raise SandboxError(
                f"another program keeps '{root}' locked.", remedy="Find out which, with `lslocks`."
            )


def give_up_lock(root: str, fd: int, clear: Callable[[], None]) -> None:
    """Count one command less. The last one calls `clear`, and then the lock goes too."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        clear()
        if stat.S_ISREG(os.fstat(fd).st_mode):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_lock_path(root))
    except OSError:  # another command needs them, or may: the file system has no locks
        pass
    finally:
        os.close(fd)


class StartLock:
    """Lets one sandbox of this user be made at a time: what runs meanwhile ran before.

    It is on the directory of our records. Where that is missing and cannot be made, or cannot be locked, nobody has it.

    Everybody writes a record and then comes here. So while we have it and no record says that a command runs, none
    begins to run.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        path = records_directory()
        with contextlib.suppress(OSError):
            os.makedirs(path, 0o700, exist_ok=True)
            if os.access(path, os.W_OK):  # else nobody has a record there
                self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                is_ours = _lock_within(self._fd, fcntl.LOCK_EX, _PATIENCE)
                if not is_ours:
                    self.give_back()
                    raise SandboxError(
                        f"another process keeps '{path}' locked.",
                        remedy="Find out which, with `lslocks`. Was it stopped while it started a command?",
                    )
                return
        self.give_back()

    @property
    def is_held(self) -> bool:
        """Whether we have it."""
        return self._fd is not None

    def give_back(self) -> None:
        """Let others have it. May be called again."""
        if self._fd is not None:
            # A process that was forked meanwhile has it too. A file system may have no locks.
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None


def find_locked_above(paths: Iterable[str], known: Collection[str]) -> str | None:
    """A directory above in which a command runs that is not known, where its lock is the directory itself."""
    above = dict.fromkeys(str(each) for path in paths for each in Path(path).parents)
    return next((each for each in above if each not in known and _is_locked(each)), None)


def _is_locked(directory: str) -> bool:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # closed to us, so none of our commands works there
        return False
    try:
        return not _lock_within(fd, fcntl.LOCK_EX, _LOOK)
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(fd)


def _open_lock(root: str) -> int:
    """A file of ours, which no command sees; the directory itself where we can write none."""
    with contextlib.suppress(OSError):
        os.makedirs(records_directory(), 0o700, exist_ok=True)
        return os.open(
            _lock_path(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE
        )
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _lock_path(root: str) -> str:
    return f"{records_directory()}/{_key(root)}.lock"


def _key(root: str) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:32]


def records_directory() -> str:
    """Where the records of all processes of this user are."""
    return f"{state_directory(os.environ)}/sandbox"
