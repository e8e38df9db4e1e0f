"""Our side of the supervisor: it starts programs for us, and reports how they end.

Where no supervisor can be started (a frozen program has no interpreter to run it with) programs are our own children:
they are ended with their group, but outlive us if we are killed.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias
from weakref import WeakSet

from hookline.containment.interpreter import compiled_code
from hookline.containment.processes import supervisor
from hookline.containment.processes.background import start_background
from hookline.containment.processes.child import OwnChild, Standard, end_marked, new_mark

_CODE = compiled_code(supervisor)
"""What the supervisor runs. It is read now, because the file may have changed by then."""
_LONGEST_START = 60.0
"""Seconds the supervisor has to start a program, if only the machine is slow."""
_LONGEST_END = 4.0
"""Seconds it has to end one."""
_LOOK = 0.25
"""Seconds without an answer after which we wake it: a program may have stopped it."""
_CHUNK = 1 << 16


def start_program(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    standard: Standard,
    *,
    pass_fds: Sequence[int] = (),
    leaves: Sequence[int] = (),
    grace: float = 0.0,
    session: bool = True,
) -> StartedProcess:
    """Start a program with these descriptors as its input, output and errors, and `pass_fds` under their own numbers.

    When we are gone, so is the program, with all that it has started: after `grace` seconds if it does not end by
    itself. What it left in the background may continue if it ended with one of the exit codes in `leaves`. Without
    `session` it gets a new group only, unless there is a terminal. Raises `OSError` or `ValueError` if it cannot be
    started.
    """
    mark = new_mark()
    options = (
        str(mark),
        ",".join(map(str, leaves)),
        str(grace),
        "1" if session else "0",
        ",".join(map(str, pass_fds)),
    )
    order = _order(options, argv, env, cwd)
    for _ in range(2):
        current = _current()
        if current is None:
            return OwnChild(argv, env, cwd, standard, pass_fds, mark)
        try:
            return current.start(order, mark, (*standard, *pass_fds))
        except ConnectionError:  # somebody has killed it
            _replace(current)
        except TimeoutError:
            _replace(current)
            end_marked(mark)  # it may have been started
            raise
    raise OSError("the process supervisor is killed again and again")


def _order(options: Sequence[str], argv: Sequence[str], env: Mapping[str, str], cwd: str) -> bytes:
    if not argv or any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name" if argv else "there is no program")
    pairs = (f"{name}={value}" for name, value in env.items())
    words = [*options, cwd, str(len(argv)), *argv, *pairs]
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    text = "\0".join(words).encode(errors="surrogateescape")
    return len(text).to_bytes(8, "big") + text


class _SupervisorLost(Exception):
    """The supervisor has ended."""


class _Supervisor:
    """The supervisor that runs, and the socket for orders to it."""

    def __init__(self, code: bytes) -> None:
        self._channels: WeakSet[socket.socket] = WeakSet()
        self._orders, theirs = socket.socketpair()
        try:
            with theirs:
                self._pid = start_background(code, theirs.fileno())
        except BaseException:
            self._orders.close()
            raise
        self._is_closed = False
        if not _can_be_read(self._orders, _LONGEST_START) or not self._orders.recv(1):
            self.close()
            raise OSError("the process supervisor does not run")

    def start(self, order: bytes, mark: int, fds: Sequence[int]) -> SupervisedProcess:
        """Send an order, and wait until it is carried out."""
        channel, theirs = socket.socketpair()
        try:
            with theirs:
                passed = array.array("i", (theirs.fileno(), *fds))
                self._orders.sendmsg([b"p"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            channel.settimeout(_LONGEST_START)
            channel.sendall(order)
            self._channels.add(channel)
            self._wait_for_answer(channel)
            return SupervisedProcess(self, channel, mark)
        except BaseException:
            channel.close()
            raise

    def _wait_for_answer(self, channel: socket.socket) -> None:
        """The program may run before the answer is written. If it kills the supervisor, the channel ends."""
        until = time.monotonic() + _LONGEST_START
        while not _can_be_read(channel, _LOOK):
            if time.monotonic() > until:
                raise TimeoutError("the process supervisor does not answer")
            self.wake()

    def wake(self) -> None:
        """Let it continue if a program has stopped it."""
        if not self._is_closed:  # else its number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)

    def close_in_copy(self) -> None:
        """Close the sockets in a copy of our process. Ours stay as they are."""
        for each in (self._orders, *self._channels):
            each.close()

    def leave_open(self) -> None:
        """Leave the socket open until our process is gone, and let Python not close it before."""
        self._orders.detach()

    def close(self) -> None:
        """End it. It may have been stopped, so it is not asked."""
        self._is_closed = True
        self._orders.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:  # else its number may be another's
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)


_lock = threading.Lock()
_supervisor: _Supervisor | None = None


def _current() -> _Supervisor | None:
    """The supervisor of this process, started when it is first needed; None where there can be none."""
    global _supervisor
    if _CODE is None:
        return None
    with _lock:
        if _supervisor is None:
            try:
                _supervisor = _Supervisor(_CODE)
            except (OSError, NotImplementedError):
                return None
            _register_ends()
        return _supervisor


@cache
def _register_ends() -> None:
    os.register_at_fork(after_in_child=_forget_in_copy)
    atexit.register(_leave_open)


def _leave_open() -> None:
    global _supervisor
    last, _supervisor = _supervisor, None  # without the lock: a thread that holds it may be gone
    if last is not None:
        last.leave_open()


def _forget_in_copy() -> None:
    """In a copy of this process: it does not own what was started, and must not keep it alive."""
    global _supervisor, _lock
    _lock = threading.Lock()  # a thread that is not here may have held it
    if _supervisor is not None:
        _supervisor.close_in_copy()
        _supervisor = None


def _replace(lost: _Supervisor) -> None:
    global _supervisor
    with _lock:
        if _supervisor is lost:
            _supervisor = None
            lost.close()


class SupervisedProcess:
    """A process that the supervisor has started."""

    def __init__(self, owner: _Supervisor, channel: socket.socket, mark: int) -> None:
        self._owner = owner
        self._channel = channel
        self._mark = mark
        self._received = b""
        self._code: int | None = None
        try:
            what, number = self._next()
        except (ConnectionError, _SupervisorLost):  # the program has killed it already
            what, number, self._code = "pid", 0, -signal.SIGKILL
        if what == "error":
            raise OSError(number, os.strerror(number))
        self.pid = number
        channel.setblocking(False)

    def fileno(self) -> int | None:
        """What can be read when it has ended."""
        return self._channel.fileno()

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self._code is None:
            try:
                self._code = self._next()[1]  # it may have come with what came before
            except BlockingIOError:
                return None
            except (OSError, _SupervisorLost):
                self._code = -signal.SIGKILL  # nobody knows any more how it ended
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM to it and its group."""
        self._send(b"t")

    def end(self) -> None:
        """End it now, with all that it has started. Returns when nothing of it is left."""
        if self._channel.fileno() >= 0 and not self._end_and_wait():
            end_marked(self._mark)

    def leave(self) -> None:
        """It has ended, and what it left in the background may continue."""
        self._send(b"l")
        self._channel.close()

    def close(self) -> None:
        """Have it ended, and do not wait for that."""
        self._send(b"k")
        self._channel.close()

    def _end_and_wait(self) -> bool:
        """Have all of it ended, and wait for that; False if the supervisor does not confirm it."""
        self._send(b"k")
        until = time.monotonic() + _LONGEST_END
        with self._channel as channel, contextlib.suppress(OSError, _SupervisorLost):
            while time.monotonic() < until and not self._received.endswith(b"done\n"):
                if _can_be_read(channel, _LOOK):
                    self._receive()
                else:  # a program that stops the supervisor has to end first
                    end_marked(self._mark)
                    self._owner.wake()
        return self._received.endswith(b"done\n")

    def _send(self, wish: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(wish)

    def _next(self) -> tuple[str, int]:
        """The next report of the supervisor."""
        while b"\n" not in self._received:
            self._receive()
        line, _, self._received = self._received.partition(b"\n")
        what, _, number = line.decode().partition(" ")
        return what, int(number or 0)

    def _receive(self) -> None:
        data = self._channel.recv(_CHUNK)
        if not data:
            raise _SupervisorLost
        self._received += data


StartedProcess: TypeAlias = SupervisedProcess | OwnChild
"""A process that was started, by the supervisor or by us."""


def _can_be_read(channel: socket.socket, seconds: float) -> bool:
    """Whether something can be read within a time. Not with `select`, which knows a thousand descriptors."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
