"""Processes that are our own children: sandboxes, which the kernel ends with us, and programs that answer at once."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from hookline.containment.processes import supervisor

Standard: TypeAlias = tuple[int, int, int]
"""The descriptors for the input, the output and the errors of a program."""

_MOMENT = 1.0
"""Seconds until a process that was killed is gone."""
_FIRST_MARK = 1 << 60
"""Microseconds: no process ever runs so long. There is room for marks below the largest number of the system."""
_LONGEST = 4.0
"""Seconds for all marked processes to be gone."""


class OwnChild:
    """A process that we started ourselves, in a session of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        standard: Standard,
        pass_fds: Sequence[int] = (),
        mark: int | None = None,
    ) -> None:
        stdin, stdout, stderr = standard
        self._mark = mark
        self._process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=dict(env),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
        self.pid = self._process.pid
        if mark is not None:
            supervisor.set_mark(self.pid, mark)
        self._pidfd: int | None = None
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or an old one
            self._pidfd = os.pidfd_open(self.pid)

    def fileno(self) -> int | None:
        """What can be read when it has ended; None where it has to be polled."""
        return self._pidfd

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Send SIGTERM to its group."""
        self._signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill its group, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._mark is not None:
            end_marked(self._mark)
        self.leave()

    def leave(self) -> None:
        """It has ended, and what it left in its group may continue."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def close(self) -> None:
        """Kill it if it still runs, and wait for a moment only."""
        if self.poll() is None:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_MOMENT)
        self.leave()

    def _signal(self, number: int) -> None:
        # The number of a group is not given to another one while somebody is in it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def new_mark() -> int:
    """A mark that no other process has: see `supervisor.py`."""
    return _FIRST_MARK + secrets.randbits(58)


def end_marked(mark: int) -> None:
    """Kill all processes with a mark; what they start meanwhile is found in the next round."""
    until = time.monotonic() + _LONGEST
    text = str(mark).encode()
    while time.monotonic() < until:
        left = [pid for pid in supervisor.living_parents() if supervisor.is_marked(pid, text)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.005)


def run_briefly(
    argv: Sequence[str],
    *,
    seconds: float,
    env: Mapping[str, str],
    cwd: str = "/",
    stdin: bytes | None = None,
    pass_fds: Sequence[int] = (),
) -> tuple[int, bytes, bytes]:
    """Run a program that answers at once, as `git config --list`; gives its exit code, output and errors.

    After its time it is ended, with all of its group. Raises `OSError`: `TimeoutError` if it takes too long.
    """
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(stdin, timeout=seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{argv[0]} took longer than {seconds:g} s") from None
            raise
        return process.returncode, output, errors
