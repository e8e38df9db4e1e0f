"""A command that runs: its output as it comes, its end, and the end of everything it started.

Its process is started in one go. That of asyncio is started over several turns of the loop; if the starter is cancelled
between them, asyncio ends the process that it knows, but not what that has started already.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from hookline._aio import within
from hookline.containment.sandbox.command import Ended, Job

Popen: TypeAlias = "subprocess.Popen[bytes]"
Spawn: TypeAlias = Callable[[Callable[[], Popen]], Popen]
"""Calls what starts a process, in a thread of its choice."""

_CHUNK = 256 * 1024
_MOMENT = 2.0
"""Seconds for what is about to happen anyway: the end of a process that was killed, or of its output."""


class Process:
    """One process, in a session of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        fds: Sequence[int],
        cwd: str | Path,
        spawn: Spawn,
        on_output: Callable[[bytes], None],
        on_silence: Callable[[], None],
        on_exit: Callable[[], None],
    ) -> None:
        """All three are called in the event loop: with what it prints to either stream; when nobody is left who could

        print something; and when it has ended, though others that it started may continue.
        """
        self._loop = asyncio.get_running_loop()
        self._on_output, self._on_silence, self._on_exit = on_output, on_silence, on_exit
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
            self._on_output(data)
        else:
            self._stop_reading()
            self._on_silence()

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
        self._on_exit()

    def _wait(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self._on_exit)


class RunningCommand:
    """One command and all that it starts. When it ends, everything that it started ends."""

    contained = False
    """Whether it runs in a sandbox."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.place = job.place
        self._process: Process | None = None
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()
        self._printed = 0
        self._began = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.ended: Ended = "exited"
        self.exit_code: int | None = None
        """None while it runs."""
        self.duration = 0.0
        self.set_aside: tuple[str, ...] = ()
        """The new paths of files that it made and that others would have run or obeyed under the old ones."""

    # --- for everybody --------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.exit_code is None

    async def wait(self) -> int:
        """Wait until it has ended, with all that it started, and say its exit code."""
        if self._task is not None:
            await asyncio.shield(self._task)
        self._check()
        return 0 if self.exit_code is None else self.exit_code

    def kill(self, why: Ended = "stopped") -> None:
        """End it, and all that it started, now."""
        if self.is_running and not self._exited.is_set():
            if self.ended == "exited":
                self.ended = why
            self._kill_all()

    def check(self) -> None:
        """Move aside what it has made so far and others would run or obey. `set_aside` has the new paths."""

    # --- for drivers ----------------------------------------------------------------------------------

    def _begin(
        self, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], cwd: str | Path
    ) -> int:
        """Start a process whose output comes here, and say its number."""
        self._began = time.monotonic()
        self._process = Process(
            argv,
            env=env,
            fds=fds,
            cwd=cwd,
            spawn=self._spawn,
            on_output=self._take_output,
            on_silence=self._silent.set,
            on_exit=self._exited.set,
        )
        return self._process.pid

    def _spawn(self, start: Callable[[], Popen]) -> Popen:
        """Start a process, in this thread or another."""
        return start()

    async def _abandon(self) -> None:
        """It is not to run after all: end what there is of it, and wait until it is gone."""
        if self._process is None:
            self._clean()
            return
        self.kill()
        self._supervise()
        await self.wait()

    def _supervise(self) -> None:
        """See the command to its end, whether or not anybody waits for it."""
        self._task = asyncio.create_task(self._to_the_end())

    async def _to_the_end(self) -> None:
        try:
            await self._exited.wait()
        finally:  # also when the loop is about to close
            self._kill_all()
            try:
                await within(_MOMENT, self._until_gone())
                await within(_MOMENT, self._silent.wait())
                # A loop that closes before it has heard of the end of a process never does.
                await within(_MOMENT, self._exited.wait())
                await self._put_away()
            finally:
                self._settle()

    def _settle(self) -> None:
        assert self._process is not None
        self._process.close()
        code = self._process.returncode
        self.duration = time.monotonic() - self._began
        self.exit_code = self._code(-9 if code is None else code)
        self._clean()

    def _code(self, code: int) -> int:
        """The exit code as a shell says it."""
        return code if code >= 0 else 128 - code

    def _take_output(self, data: bytes) -> None:
        limit = self._job.limits.output
        if limit is not None and self._printed + len(data) > limit:
            data = data[: max(0, limit - self._printed)]
            self.kill("output")
        self._printed += len(data)
        if data:
            self._job.on_output(data)

    def _check(self) -> None:
        """Raise if it was never run."""

    def _kill_all(self) -> None:
        """Kill what is left of the command. May be called at any time, and again."""
        raise NotImplementedError

    async def _until_gone(self) -> None:
        """Wait until nothing is left of it."""
        raise NotImplementedError

    async def _put_away(self) -> None:
        """Do what takes a while of the cleaning, where there is time for it."""

    def _clean(self) -> None:
        """Give back what was taken for it, as far as that was not done."""
        raise NotImplementedError


async def readable(fd: int) -> None:
    """Wait until a file descriptor has something to say."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


def close(*fds: int) -> None:
    """Close file descriptors, also those that are closed already."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
