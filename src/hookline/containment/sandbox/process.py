"""A process whose output and end are told as they come.

It is started in one go. asyncio's own is started over several turns of the loop, and if its starter is cancelled
between them, it ends the process that it knows of, and neither what that has started already nor the wait for the end
of their output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

Popen: TypeAlias = "subprocess.Popen[bytes]"
Spawn: TypeAlias = Callable[[Callable[[], Popen]], Popen]
"""Calls what starts a process, in a thread of its choice."""

_CHUNK = 256 * 1024
_MOMENT = 1.0
"""Seconds until a process that was killed is gone."""


class Listener(Protocol):
    """Whoever wants to know. All of it is told in the event loop."""

    def heard(self, data: bytes) -> None:
        """It has printed something, to either stream."""

    def fell_silent(self) -> None:
        """Nobody is left who could print something."""

    def exited(self) -> None:
        """It has ended; others that it started may go on."""


class Process:
    """One process, in a session of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        fds: Sequence[int],
        cwd: str | Path,
        listener: Listener,
        spawn: Spawn,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._process = spawn(
            lambda: subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                pass_fds=tuple(fds),
                start_new_session=True,
            )
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None  # it was asked for
        self._output: int | None = os.dup(self._process.stdout.fileno())
        self._process.stdout.close()
        os.set_blocking(self._output, False)
        self._loop.add_reader(self._output, self._read)
        self._held = self._hold()

    def _hold(self) -> int | None:
        """A file descriptor that tells of its end; where there is no such thing, a thread does."""
        try:
            held = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or an old one
            threading.Thread(target=self._wait, daemon=True).start()
            return None
        self._loop.add_reader(held, self._ended)
        return held

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the number of the signal that ended it, below zero; None until its end was heard of."""
        return self._process.returncode

    def kill(self) -> None:
        """End it, and nothing that it has started."""
        self._process.kill()

    def close(self) -> None:
        """Listen no longer. A process that still runs is ended."""
        self._stop_reading()
        self._let_go()
        if self._process.poll() is None:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_MOMENT)

    def _read(self) -> None:
        if self._output is None:
            return
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._listener.heard(data)
        else:
            self._stop_reading()
            self._listener.fell_silent()

    def _stop_reading(self) -> None:
        output, self._output = self._output, None
        self._forget(output)

    def _let_go(self) -> None:
        held, self._held = self._held, None
        self._forget(held)

    def _forget(self, fd: int | None) -> None:
        if fd is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(fd)
            os.close(fd)

    def _ended(self) -> None:
        self._let_go()
        self._process.wait()
        self._listener.exited()

    def _wait(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self._listener.exited)
