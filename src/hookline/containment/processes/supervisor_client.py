"""Our side of the supervisor: orders to it, and what becomes of them.

Where it cannot be started (there is no interpreter to run it with, as in a frozen program) programs are our own
children: they are ended with their group, but outlive us if we are killed.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import os
import secrets
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol
from weakref import WeakSet

from hookline.containment.interpreter import PYTHON, compiled, from_pipe
from hookline.containment.processes import supervisor
from hookline.containment.processes.child import Child

_CODE = compiled(supervisor)
"""What the supervisor runs. Taken now: what is in its file may be another text by then."""
_FIRST_MARK = 1 << 60
"""Microseconds: no process ever runs so long. It leaves room for marks below what a system can count to."""
_ENOUGH = 4.0
"""Seconds the supervisor has to start a program, and to end it."""
_AT_MOST = 60.0
"""Seconds it has if it is at work, and only the machine is slow."""
_NOT_AT_WORK = (b"T", b"t", b"Z", b"X")
"""Processes that were stopped, or have ended."""
_MOST = 1 << 16


class Program(Protocol):
    """A program that runs."""

    pid: int

    def fileno(self) -> int | None:
        """What can be read when it has ended; None where it has to be asked again and again."""

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs. Others must not reap it."""

    def terminate(self) -> None:
        """Ask it, and its group, to end."""

    def end(self) -> None:
        """End it now, with all that it has started. Returns when nothing of it is left."""

    def leave(self) -> None:
        """It has ended, and what it has left in the background may go on."""


def start_program(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    standard: tuple[int, int, int],
    *,
    leaves: Sequence[int] = (),
) -> Program:
    """Start a program in a session of its own, with these descriptors as its input, output and errors.

    When we are gone, so is the program, with all that it has started; what it has left in the background is not, if it
    ended with one of the exit codes in `leaves`. Raises `OSError` or `ValueError` if it cannot be started.
    """
    mark = new_mark()
    order = _order(mark, argv, env, cwd, leaves)
    for _ in range(2):  # a supervisor that was killed is told by its silence
        keeping = _current()
        if keeping is None:
            break
        try:
            return keeping.start(order, mark, standard)
        except _SupervisorLost:
            _lose(keeping)
            _end_marked(mark)
    return Child(argv, env, cwd, standard)


def new_mark() -> int:
    """A limit on real-time processes that no other has, by which all that inherits it is known."""
    return _FIRST_MARK + secrets.randbits(58)


def end_with_us(pid: int) -> Callable[[], None]:
    """Have a process, the first of its group, end when we are gone, if it does not by itself; gives what takes it back.

    To be called when it has ended, or its number may be somebody else's one day.
    """
    keeping = _current()
    if keeping is None:
        return lambda: None
    try:
        return keeping.watch(pid)
    except OSError:  # the supervisor has been killed: it is started anew for the next
        _lose(keeping)
        return lambda: None


def _order(
    mark: int, argv: Sequence[str], env: Mapping[str, str], cwd: str, leaves: Sequence[int]
) -> bytes:
    if not argv or any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name" if argv else "there is no program")
    codes = ",".join(map(str, leaves))
    pairs = (f"{name}={value}" for name, value in env.items())
    words = [str(mark), codes, cwd, str(len(argv)), *argv, *pairs]
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    text = "\0".join(words).encode(errors="surrogateescape")
    return len(text).to_bytes(8, "big") + text


class _SupervisorLost(Exception):
    """It has been killed."""


class _Keeping:
    """The supervisor that runs, and the way to it."""

    def __init__(self, code: bytes) -> None:
        self._lines: WeakSet[socket.socket] = WeakSet()
        self._door, theirs = socket.socketpair()
        try:
            with theirs:
                written = self._begin(theirs.fileno())
        except BaseException:
            self._door.close()
            raise
        with open(written, "wb") as file, contextlib.suppress(BrokenPipeError):
            file.write(code)

    def _begin(self, door: int) -> int:
        """Start it; gives the pipe by which it waits for what to run."""
        text, written = os.pipe()
        try:
            self._pid = _spawn_supervisor(door, text)
        except BaseException:
            os.close(written)
            raise
        finally:
            os.close(text)
        return written

    def start(self, order: bytes, mark: int, standard: tuple[int, int, int]) -> _Kept:
        """Give an order, and wait until it is carried out."""
        line, theirs = socket.socketpair()
        try:
            with theirs:
                fds = array.array("i", (theirs.fileno(), *standard))
                self._door.sendmsg([b"p"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            line.settimeout(_ENOUGH)
            line.sendall(order)
            self._lines.add(line)
            self._until_heard(line)
            return _Kept(line, mark)
        except (ConnectionError, TimeoutError, _SupervisorLost):
            line.close()
            raise _SupervisorLost from None
        except BaseException:
            line.close()
            raise

    def _until_heard(self, line: socket.socket) -> None:
        """Wait for the answer to an order, as long as there is somebody who may give it."""
        until = time.monotonic() + _AT_MOST
        while not _says_something(line, _ENOUGH):
            if time.monotonic() > until or not self._is_at_work():
                raise _SupervisorLost

    def _is_at_work(self) -> bool:
        try:
            with open(f"/proc/{self._pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()[0] not in _NOT_AT_WORK
        except (OSError, IndexError):  # gone, or on a system that does not say
            return False

    def watch(self, pid: int) -> Callable[[], None]:
        """Name a process that is to end after us."""
        line, theirs = socket.socketpair()
        try:
            with theirs:
                fds = array.array("i", (theirs.fileno(),))
                line.sendall(pid.to_bytes(8, "big"))
                self._door.sendmsg([b"w"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except BaseException:
            line.close()
            raise
        self._lines.add(line)

        def release() -> None:
            with line, contextlib.suppress(OSError):
                line.send(b"l")

        return release

    def let_go(self) -> None:
        """Close the ways to it that a copy of our process has. Ours stay as they are."""
        for each in (self._door, *self._lines):
            each.close()

    def leave_open(self) -> None:
        """Have the way to it closed by the end of our process, as if that were killed, and not a moment before."""
        self._door.detach()

    def close(self) -> None:
        """Have it end. It may have been stopped, so it is not asked."""
        self._door.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:  # else its number may be somebody else's
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)


def _spawn_supervisor(door: int, text: int) -> int:
    """Without our output, whose readers would wait for its end, and out of the reach of keys on our terminal."""
    for fd in (door, text):
        os.set_inheritable(fd, True)
    argv = [*from_pipe(text), str(door)]
    silent = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
    if (
        sys.platform == "linux"
    ):  # in our session, so that hooks that ask for the terminal of their parent find it
        return os.posix_spawn(PYTHON, argv, os.environ, file_actions=silent, setpgroup=0)
    return os.posix_spawn(PYTHON, argv, os.environ, file_actions=silent, setsid=True)


_lock = threading.Lock()
_keeping: _Keeping | None = None


def _current() -> _Keeping | None:
    """The supervisor of this process, started when it is first needed; None where there can be none."""
    global _keeping
    if _CODE is None or not hasattr(os, "posix_spawn"):
        return None
    with _lock:
        if _keeping is None:
            try:
                _keeping = _Keeping(_CODE)
            except (OSError, NotImplementedError):
                return None
            _see_to_ends()
        return _keeping


@cache
def _see_to_ends() -> None:
    os.register_at_fork(after_in_child=_let_go)
    atexit.register(_leave_open)


def _leave_open() -> None:
    """At the end of this process the door stays open until it is gone: Python is not to wonder who forgot it."""
    global _keeping
    last, _keeping = _keeping, None  # without the lock: a thread that holds it may be gone
    if last is not None:
        last.leave_open()


def _let_go() -> None:
    """In a copy of this process: what was started is not its own, and must not wait for its end, too."""
    global _keeping, _lock
    _lock = threading.Lock()  # somebody may have held it, who is not here
    if _keeping is not None:
        _keeping.let_go()
        _keeping = None


def _lose(lost: _Keeping) -> None:
    global _keeping
    with _lock:
        if _keeping is lost:
            _keeping = None
            lost.close()


class _Kept:
    """A program that the supervisor has started."""

    def __init__(self, line: socket.socket, mark: int) -> None:
        self._line = line
        self._mark = mark
        self._said = b""
        self._code: int | None = None
        what, number = self._next()
        if what == "error":
            raise OSError(number, os.strerror(number))
        self.pid = number
        line.setblocking(False)

    def fileno(self) -> int | None:
        return self._line.fileno()

    def poll(self) -> int | None:
        if self._code is None:
            try:
                self._code = self._next()[1]  # which may have come with what was said before
            except BlockingIOError:
                return None
            except (ConnectionError, _SupervisorLost):
                self._code = -signal.SIGKILL  # nobody knows any more how it ended, if it did
        return self._code

    def terminate(self) -> None:
        self._tell(b"t")

    def end(self) -> None:
        if not self._ended():
            _end_marked(self._mark)

    def leave(self) -> None:
        self._tell(b"l")
        self._line.close()

    def _ended(self) -> bool:
        """Have all of it ended, and wait for that; False if the supervisor does not say so."""
        self._tell(b"k")
        until = time.monotonic() + _ENOUGH
        with self._line as line, contextlib.suppress(ConnectionError, _SupervisorLost):
            while (left := until - time.monotonic()) > 0 and not self._said.endswith(b"done\n"):
                if _says_something(line, left):
                    self._hear()
        return self._said.endswith(b"done\n")

    def _tell(self, wish: bytes) -> None:
        with contextlib.suppress(OSError):
            self._line.send(wish)

    def _next(self) -> tuple[str, int]:
        """The next thing that the supervisor says."""
        while b"\n" not in self._said:
            self._hear()
        line, _, self._said = self._said.partition(b"\n")
        what, _, number = line.decode().partition(" ")
        return what, int(number or 0)

    def _hear(self) -> None:
        data = self._line.recv(_MOST)
        if not data:
            raise _SupervisorLost
        self._said += data


def _says_something(line: socket.socket, seconds: float) -> bool:
    """Whether there is something to be heard within a time. Not by `select`, which knows a thousand descriptors."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _end_marked(mark: int) -> None:
    """End what a supervisor that is gone had started."""
    until = time.monotonic() + _ENOUGH
    text = str(mark).encode()
    while time.monotonic() < until:
        left = [
            pid for pid in supervisor.parents_of_the_living() if supervisor.is_marked(pid, text)
        ]
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.005)
