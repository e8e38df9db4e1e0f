"""Starts sandboxes below a filter that has the kernel report each call that sets a set-group-id bit.

The filter has to be there before the sandbox is: bubblewrap loads filters, but not one that reports. A filter belongs
to a thread, and what the thread starts inherits it. So one thread starts them all. It lives as long as this process,
because a sandbox ends with the thread that started it. The alternatives were code between fork and exec, which is not
safe in a process with threads, and a program in between, which would take longer than the sandbox.

The report is only a hint that files have to be looked at when the command has ended. The call is not judged here: the
path that it names is in memory that the command can change before the kernel reads it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import TypeAlias

from hookline.containment.processes import OwnChild
from hookline.containment.sandbox.seccomp import known_machine, reporting_program
from hookline.errors import SandboxError

Start: TypeAlias = Callable[[], OwnChild]

_NO_NEW_PRIVILEGES = 38
_SET_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_REPORT_SIZE = 80
_CONTINUE = 1
"""The call is made as if there were no filter."""


class Spawner:
    """The thread, and how often the kernel has reported."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Start, Future[OwnChild]]] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._reports: int | None = 0
        threading.Thread(target=self._serve, name="hookline-sandboxes", daemon=True).start()
        os.register_at_fork(after_in_child=spawner.cache_clear)  # a fork has no threads

    @property
    def reports(self) -> int | None:
        """How many reports there were, of all commands together; None if the kernel does not report."""
        return self._reports

    def start(self, start: Start) -> OwnChild:
        """Start a process in the thread."""
        order: Future[OwnChild] = Future()
        self._orders.put((start, order))
        os.eventfd_write(self._wake, 1)
        try:
            return order.result()
        except BaseException:  # interrupted: nobody will know of the process
            order.add_done_callback(_end)
            raise

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        listener = -1
        try:
            listener = _listen()
            poll.register(listener, select.POLLIN)
        except (OSError, SandboxError):  # an old kernel, or a container that forbids it
            self._reports = None
        while True:
            for fd, _ in poll.poll():
                if fd == listener:
                    self._answer(listener)
                else:
                    os.eventfd_read(self._wake)
                    self._run_orders()

    def _run_orders(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                start, order = self._orders.get_nowait()
                try:
                    order.set_result(start())
                except BaseException as error:
                    order.set_exception(error)

    def _answer(self, listener: int) -> None:
        import fcntl  # not on every system, where this module can still be imported

        with contextlib.suppress(OSError):  # who made the call is gone
            report = bytearray(_REPORT_SIZE)
            fcntl.ioctl(listener, _RECEIVE, report)
            assert self._reports is not None
            self._reports += 1
            (number,) = struct.unpack_from("<Q", report)
            fcntl.ioctl(listener, _ANSWER, struct.pack("<QqiI", number, 0, 0, _CONTINUE))


@cache
def spawner() -> Spawner:
    """The one of this process."""
    return Spawner()


def _end(order: Future[OwnChild]) -> None:
    if order.exception() is None:
        order.result().close()


def _listen() -> int:
    """Put the filter on this thread, and give the file descriptor on which the kernel reports."""
    import ctypes

    program = reporting_program()
    text = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    number = known_machine().calls["seccomp"]
    listener = int(libc.syscall(number, _SET_FILTER, _NEW_LISTENER, described))
    if listener < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return listener
