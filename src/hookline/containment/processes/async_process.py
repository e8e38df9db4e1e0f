"""A process in the event loop: its pipes, its exit code and its end.

The event loop itself reads and writes the pipes. `asyncio.create_subprocess_exec` was rejected: its processes survive
us; its `wait` also waits for the end of the pipes, which a helper in the background may hold open for hours; and it
starts a process over several turns of the loop, so that one whose starter is cancelled in between is left to itself.
A thread for each process was rejected, too: it costs more than all the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import TypeAlias

from hookline.containment.processes.child import Standard
from hookline.containment.processes.supervisor_client import StartedProcess

OnData: TypeAlias = Callable[[bytes], None]

_CHUNK = 1 << 18
_POLL = 0.02
"""Seconds between two looks at a process whose end cannot be read from a descriptor."""


class AsyncProcess:
    """A process that runs, and nothing of which is left after `end`."""

    def __init__(
        self,
        start: Callable[[Standard], StartedProcess],
        *,
        on_output: OnData,
        on_errors: OnData | None = None,
        stdin: bytes | None = None,
        keep_stdin_open: bool = False,
    ) -> None:
        """Call `start` with the descriptors for the process.

        What it prints is given to `on_output`, its errors to `on_errors`, or to the same if there is none; an empty
        text is the end. Without `stdin` its input is `/dev/null`. Raises what `start` raises.
        """
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        """The exit code, negative for a signal. Wait with `asyncio.wait`: a cancelled `await` would cancel it."""
        self.silent: asyncio.Future[None] = self._loop.create_future()
        """Done when nobody can print anything any more."""
        self._outputs: dict[int, OnData] = {}
        """Our ends of its output, as far as they are open."""
        self._first_output = -1
        self._input: int | None = None
        self._unsent = memoryview(stdin or b"")
        self._keep_stdin_open = keep_stdin_open
        self._sent: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        """Done when nothing is left of it; None as long as nobody wants that."""
        self._is_left = False
        self._is_watched = True
        try:
            self._started = self._start(start, on_output, on_errors, stdin is not None)
        except BaseException:
            self._close_pipes()
            raise
        self.pid = self._started.pid
        for pipe in self._outputs:
            self._loop.add_reader(pipe, self._read, pipe)
        if self._input is not None and self._unsent:
            self._loop.add_writer(self._input, self._write)
        if (ends := self._started.fileno()) is not None:
            self._loop.add_reader(ends, self._look)
        self._look()  # its end may have been reported with its start

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None until its end is known."""
        return self.exited.result() if self.exited.done() else None

    # --- its input ----------------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """Write to its input, and wait until all is written. Raises `BrokenPipeError` if it reads no more."""
        if self._input is None:
            raise BrokenPipeError
        self._unsent, self._sent = memoryview(data), self._loop.create_future()
        self._loop.add_writer(self._input, self._write)
        await self._sent

    def close_input(self) -> None:
        """End its input."""
        if self._input is not None:
            self._close_pipe(self._input)
            self._input = None

    def _write(self) -> None:
        if self._input is None:
            return
        try:
            self._unsent = self._unsent[os.write(self._input, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more, or never did
            self.close_input()
            if self._sent is not None and not self._sent.done():
                self._sent.set_exception(BrokenPipeError())
            return
        if self._unsent:
            return
        if self._sent is not None and not self._sent.done():
            self._sent.set_result(None)
        if self._keep_stdin_open:
            self._loop.remove_writer(self._input)
        else:
            self.close_input()

    # --- its output ---------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Read no more of its output for now. An `asyncio.StreamReader` calls this."""
        if self._first_output in self._outputs:
            self._loop.remove_reader(self._first_output)

    def resume_reading(self) -> None:
        """Read its output again."""
        if self._first_output in self._outputs:
            self._loop.add_reader(self._first_output, self._read, self._first_output)

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._outputs[pipe](data)
        if not data:
            self._close_output(pipe)

    def _close_output(self, pipe: int) -> None:
        self._close_pipe(pipe)
        del self._outputs[pipe]
        if not self._outputs and not self.silent.done():
            self.silent.set_result(None)

    # --- its start and its end ------------------------------------------------------------------------

    def _start(
        self,
        start: Callable[[Standard], StartedProcess],
        on_output: OnData,
        on_errors: OnData | None,
        has_input: bool,
    ) -> StartedProcess:
        theirs: list[int] = []
        try:
            if has_input:
                read, self._input = os.pipe()
                os.set_blocking(self._input, False)
                theirs.append(read)
                if not self._keep_stdin_open:
                    self._write()  # what fits into the pipe is there before the process is
            else:
                theirs.append(os.open(os.devnull, os.O_RDONLY))
            for heard in (on_output, on_errors):
                if heard is not None:
                    ours, written = os.pipe()
                    os.set_blocking(ours, False)
                    theirs.append(written)
                    self._outputs[ours] = heard
            self._first_output = next(iter(self._outputs))
            return start((theirs[0], theirs[1], theirs[-1]))
        finally:
            for each in theirs:
                os.close(each)

    def kill(self) -> None:
        """Have it ended, with all that it has started; `exited` is set when that is done."""
        if self._gone is not None:
            return
        self._gone = self._loop.create_future()
        self._stop_watching()
        threading.Thread(target=self._end_in_thread, name="hookline:end", daemon=True).start()

    async def end(self) -> None:
        """End it, with all that it has started, and wait for that: also if the waiting task is cancelled meanwhile."""
        self.kill()
        assert self._gone is not None
        was_cancelled = False
        while not self._gone.done():
            try:
                await asyncio.wait([self._gone])
            except asyncio.CancelledError:
                was_cancelled = True
        if was_cancelled:
            raise asyncio.CancelledError

    async def terminate(self, grace: float) -> None:
        """Send SIGTERM to its group, give it a time to end by itself, and end what is left then."""
        self._started.terminate()
        try:
            await asyncio.wait([self.exited], timeout=grace)
        finally:
            await self.end()

    def leave(self) -> None:
        """It has ended, and what it left in the background may continue."""
        self._is_left = True
        self._stop_watching()
        self._started.leave()

    def close(self) -> None:
        """Close our ends of its pipes. A process that still runs is ended."""
        self._stop_watching()
        self._close_pipes()
        if self._gone is None and not self._is_left:
            self._is_left = True
            self._started.close()

    def _close_pipes(self) -> None:
        self.close_input()
        for pipe in tuple(self._outputs):
            self._close_output(pipe)

    def _close_pipe(self, pipe: int) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(pipe)
            self._loop.remove_writer(pipe)
        os.close(pipe)

    def _end_in_thread(self) -> None:
        self._started.end()
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._note_end)

    def _note_end(self) -> None:
        self._settle(self._started.poll())
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _look(self) -> None:
        if not self._is_watched:
            return
        code = self._started.poll()
        if code is not None:
            self._stop_watching()
            self._settle(code)
        elif self._started.fileno() is None:
            self._loop.call_later(_POLL, self._look)

    def _settle(self, code: int | None) -> None:
        if not self.exited.done():
            self.exited.set_result(-signal.SIGKILL if code is None else code)

    def _stop_watching(self) -> None:
        """Before the descriptor is closed: its number may be another one's then."""
        ends = self._started.fileno() if self._is_watched else None
        self._is_watched = False
        if ends is not None and not self._loop.is_closed():
            self._loop.remove_reader(ends)
