"""One program of a hook: it gets its input, its output is kept up to a limit, and nothing is left after its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from hookline.command_hooks.handler import ProgramResult
from hookline.containment.processes import AsyncProcess, Standard, StartedProcess, start_program

MOST_OUTPUT = 1 << 20
"""Bytes kept of each stream; the rest is read and dropped, so that the program does not wait for us."""
_AFTER_EXIT = 0.25
"""Seconds that the pipes may stay open after the program has ended: a helper in the background holds them."""
_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_WATCHED = 4096
"""Bytes at the beginning of the output that `watch` gets."""
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
        self._watch = spec.watch
        self._limit = asyncio.timeout(spec.timeout)
        self._out, self._err = _Stream(), _Stream()

    async def run(self) -> ProgramResult:
        started = time.monotonic()
        try:
            process = AsyncProcess(
                self._start,
                on_output=self._out.add if self._watch is None else self._add_and_watch,
                on_errors=self._err.add,
                stdin=self._spec.stdin,
            )
        except (OSError, ValueError) as error:
            return ProgramResult(None, problem="spawn_error", detail=_why(self._spec, error))
        try:
            await self._run_to_end(process)
        finally:
            process.close()
        is_over = self._limit.expired()
        return ProgramResult(
            code=None if is_over else process.returncode,
            stdout=self._out.kept.decode(errors="replace"),
            stderr=self._err.kept.decode(errors="replace"),
            seconds=time.monotonic() - started,
            problem="timeout" if is_over else "",
            detail=f"{self._spec.timeout:g} s" if is_over else "",
            is_cut=self._out.is_cut or self._err.is_cut,
        )

    def _start(self, standard: Standard) -> StartedProcess:
        spec = self._spec
        # No new session: it would wait milliseconds for its turn on a busy machine.
        return start_program(
            spec.argv, spec.env, spec.cwd, standard, leaves=_ANSWERED, session=False
        )

    def _add_and_watch(self, data: bytes) -> None:
        self._out.add(data)
        if self._watch is None:
            return
        seconds = self._watch(bytes(self._out.kept[:_WATCHED]))
        if seconds is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
        if seconds is not None or len(self._out.kept) >= _WATCHED:
            self._watch = None

    async def _run_to_end(self, process: AsyncProcess) -> None:
        """Wait for the end. Helpers of a program that did its work may continue; everything else of it ends."""
        try:
            try:
                async with self._limit:
                    await asyncio.wait([process.exited])
            finally:
                self._watch = None  # there is no time left to change
            if not process.silent.done():
                await asyncio.wait([process.silent], timeout=_AFTER_EXIT)
        except TimeoutError:
            await process.terminate(_GRACE)
        finally:
            if process.returncode in _ANSWERED and not self._limit.expired():
                process.leave()
            else:
                await process.end()


def _why(spec: ProgramSpec, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and not Path(spec.cwd).is_dir():
        return f"the directory '{spec.cwd}' is not there"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"'{spec.argv[0] if spec.argv else ''}' cannot be started: {reason}"
