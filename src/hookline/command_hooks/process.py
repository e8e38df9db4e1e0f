"""One program: it gets its input, its output is kept up to a limit, and nothing of it is left when its time is over.

The event loop itself reads and writes the pipes. `asyncio.create_subprocess_exec` was rejected: its programs survive
us, and in some versions of Python its `wait` waits for the end of the pipes, which a helper in the background may hold
open for hours. A thread for each program was rejected, too: starting it costs more than the rest of this file.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from hookline._aio import call_in_thread
from hookline.command_hooks.handler import ProgramResult
from hookline.containment import Program, start_program

MOST_OUTPUT = 1 << 20
"""Bytes kept of each stream; the rest is read and dropped, so that the program does not wait for us."""
_AFTER_EXIT = 0.25
"""Seconds that the pipes may stay open after the program has ended: a helper in the background holds them."""
_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_POLL = 0.02
_CHUNK = 1 << 16
_WATCHED = 4096
"""Bytes at the beginning of the output that `watch` is shown."""
_ANSWERED = (0, 2)
"""Exit codes of a program that did its work: what it left in the background may continue."""

Watch: TypeAlias = Callable[[bytes], float | None]
"""Called with the output so far, until it gives a number: the seconds that the program has from then on."""


class ProgramSpec(msgspec.Struct, frozen=True):
    """What to run, and with what."""

    argv: tuple[str, ...]
    stdin: bytes
    env: Mapping[str, str]
    cwd: str
    timeout: float
    watch: Watch | None = None


async def run_program(spec: ProgramSpec) -> ProgramResult:
    """Run a program to its end, or to the end of its time. If the task is cancelled, all of it is ended first."""
    return await _Execution(spec).run()


class _Stream:
    """What is kept of one stream."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.is_cut = False

    def add(self, data: bytes) -> None:
        room = MOST_OUTPUT - len(self.kept)
        self.kept += data[:room]
        self.is_cut = self.is_cut or len(data) > room


class _Execution:
    """One program, from its start to the last of its processes."""

    def __init__(self, spec: ProgramSpec) -> None:
        self._spec = spec
        self._loop = asyncio.get_running_loop()
        self._input = memoryview(spec.stdin)
        self._watch = spec.watch
        self._pipes: list[int] = []
        """Our ends, as far as they are open: the input first, while it is."""
        self._streams: dict[int, _Stream] = {}
        self._out, self._err = _Stream(), _Stream()
        self._exited: asyncio.Future[int | None] = self._loop.create_future()
        """The exit code; None when the time is over."""
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._is_cancelled = False

    async def run(self) -> ProgramResult:
        started = time.monotonic()
        try:
            try:
                program = self._start()
            except (OSError, ValueError) as error:
                return ProgramResult(None, problem="spawn_error", detail=_why(self._spec, error))
            code = await self._watch_over(program)
        finally:
            for pipe in tuple(self._pipes):
                self._close(pipe)
        seconds = time.monotonic() - started
        out, err = (each.kept.decode(errors="replace") for each in (self._out, self._err))
        is_cut = self._out.is_cut or self._err.is_cut
        if code is not None:
            return ProgramResult(code, out, err, seconds, is_cut=is_cut)
        return ProgramResult(
            None, out, err, seconds, "timeout", f"{self._spec.timeout:g} s", is_cut
        )

    # --- pipes --------------------------------------------------------------------------------------

    def _start(self) -> Program:
        spec = self._spec
        theirs: list[int] = []
        try:
            for is_input in (True, False, False):
                read, written = os.pipe()
                theirs.append(read if is_input else written)
                self._pipes.append(written if is_input else read)
                os.set_blocking(self._pipes[-1], False)
            feed, out, err = self._pipes
            self._streams = {out: self._out, err: self._err}
            self._write(feed)  # the input is there before the program is
            return start_program(
                spec.argv,
                spec.env,
                spec.cwd,
                (theirs[0], theirs[1], theirs[2]),
                leaves=_ANSWERED,
            )
        finally:
            for each in theirs:
                os.close(each)

    def _write(self, pipe: int) -> None:
        try:
            sent = os.write(pipe, self._input[:_CHUNK]) if self._input else 0
        except BlockingIOError:
            return
        except OSError:  # the program reads no more, or never did
            sent = len(self._input)
        self._input = self._input[sent:]
        if not self._input:
            self._close(pipe)

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._close(pipe)
            return
        self._streams[pipe].add(data)
        if self._watch is not None and self._streams[pipe] is self._out:
            self._show_beginning(self._watch)

    def _show_beginning(self, watch: Watch) -> None:
        seconds = watch(bytes(self._out.kept[:_WATCHED]))
        if seconds is not None:
            self._set_timer(seconds)
        if seconds is not None or len(self._out.kept) >= _WATCHED:
            self._watch = None

    def _close(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        self._loop.remove_writer(pipe)
        self._pipes.remove(pipe)
        os.close(pipe)
        if not self._streams.keys() & self._pipes and not self._drained.done():
            self._drained.set_result(None)

    # --- its end ------------------------------------------------------------------------------------

    async def _watch_over(self, program: Program) -> int | None:
        """The exit code; None if the time was over first."""
        line, code = program.fileno(), None
        self._set_timer(self._spec.timeout)
        for pipe in tuple(self._pipes):
            if pipe in self._streams:
                self._loop.add_reader(pipe, self._read, pipe)
            else:
                self._loop.add_writer(pipe, self._write, pipe)
        if line is not None:
            self._loop.add_reader(line, self._poll, program)
        self._poll(program)  # its end may have been reported with its start
        try:
            code = await self._exited
            if code is not None and not self._drained.done():
                await asyncio.wait([self._drained], timeout=_AFTER_EXIT)
        except asyncio.CancelledError:
            self._is_cancelled = True
            self._stop_watching(line)
            await self._end(program, code)
            raise
        finally:
            self._stop_watching(line)
        await self._end(program, code)
        return code

    def _stop_watching(self, line: int | None) -> None:
        """Before the line is closed: its number may be another one's then."""
        if self._timer is not None:
            self._timer.cancel()
        if line is not None:
            self._loop.remove_reader(line)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._settle, None)

    def _settle(self, code: int | None) -> None:
        if not self._exited.done():
            self._exited.set_result(code)

    def _poll(self, program: Program) -> None:
        code, line = program.poll(), program.fileno()
        if code is not None:
            if line is not None:
                self._loop.remove_reader(line)
            self._settle(code)
        elif line is None and not self._exited.done():  # nothing can be read when it has ended
            self._loop.call_later(_POLL, self._poll, program)

    async def _end(self, program: Program, code: int | None) -> None:
        """Helpers of a program that did its work may continue; everything else of it ends now."""
        if code in _ANSWERED:
            program.leave()
            return
        ending = asyncio.ensure_future(self._terminate(program, code))
        was_cancelled = False
        while not ending.done():  # also if we are cancelled meanwhile
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError:
                was_cancelled = self._is_cancelled = True
        ending.result()
        if was_cancelled:
            raise asyncio.CancelledError

    async def _terminate(self, program: Program, code: int | None) -> None:
        if code is None and not self._is_cancelled:
            program.terminate()
            for _ in range(round(_GRACE / _POLL)):
                if program.poll() is not None or self._is_cancelled:
                    break
                await asyncio.sleep(_POLL)
        await call_in_thread(program.end)


def _why(spec: ProgramSpec, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and not Path(spec.cwd).is_dir():
        return f"the directory '{spec.cwd}' is not there"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"'{spec.argv[0] if spec.argv else ''}' cannot be started: {reason}"
