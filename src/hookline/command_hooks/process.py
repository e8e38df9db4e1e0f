"""Running one program: input in, output out, and nothing of it left behind when it takes too long.

One thread drives one program with a selector, because what asyncio waits for differs between versions of Python: some
wait for the end of the pipes, which a helper in the background may hold open for hours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from hookline.containment import Program, start_program

MOST_OUTPUT = 1 << 20
"""Bytes kept of each stream; the rest is read and dropped, so that the program does not wait for us."""
_AFTER_EXIT = 0.25
"""Seconds the pipes may stay open after the program has ended: somebody else holds them."""
_GRACE = 0.5
"""Seconds between the polite signal and the other one."""
_POLL = 0.02
_LOOKED_AT = 4096
"""Bytes of the output in which a program may say something about itself before it ends."""
_ANSWERED = (0, 2)
"""Exit codes of a program that did its work: what it left in the background is meant to be there."""


class Order(msgspec.Struct, frozen=True):
    """What to run, and with what."""

    argv: tuple[str, ...]
    stdin: bytes
    env: Mapping[str, str]
    cwd: str
    timeout: float
    watch: Callable[[bytes], float | None] | None = None
    """Called with what it has printed so far, until it gives a number: so many seconds it has from then on."""


class Ran(msgspec.Struct, frozen=True):
    """What came of it. `code` is None if it did not end by itself."""

    code: int | None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    problem: str = ""
    """`timeout`, `spawn_error`, or empty."""
    detail: str = ""
    """More about that, or how an address failed, which has no exit code."""
    is_cut: bool = False
    """There was more output than is kept."""


async def run_program(order: Order) -> Ran:
    """Run a program to its end, or to the end of its time. If the task is cancelled, all of it is ended at once."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Ran] = loop.create_future()
    driver = _Driver(order)

    def work() -> None:
        try:
            ran: Ran | BaseException = driver.drive()
        except BaseException as error:
            ran = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(_settle, done, ran)

    threading.Thread(target=work, name="hookline-command-hook", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        driver.cancel()
        await _see_out(done)
        raise


async def _see_out(done: asyncio.Future[Ran]) -> None:
    """Wait until nothing is left of it, whoever cancels us meanwhile."""
    while not done.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([done])
    done.exception()


def _settle(done: asyncio.Future[Ran], ran: Ran | BaseException) -> None:
    if done.cancelled():
        return
    if isinstance(ran, Ran):
        done.set_result(ran)
    else:
        done.set_exception(ran)


class _Stream:
    """What is kept of one stream."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.is_cut = False

    def add(self, data: bytes) -> None:
        room = MOST_OUTPUT - len(self.kept)
        self.kept += data[:room]
        self.is_cut = self.is_cut or len(data) > room

    def text(self) -> str:
        return self.kept.decode(errors="replace")


class _Driver:
    """One program, from its start to the last of its processes."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._cancelled = threading.Event()
        self._streams: dict[int, _Stream] = {}
        self._left = memoryview(order.stdin)
        self._watch = order.watch
        self._deadline = 0.0
        self._pipes: list[int] = []
        """Our ends of them, as far as they are open."""

    def cancel(self) -> None:
        """End it now."""
        self._cancelled.set()

    def drive(self) -> Ran:
        """Run it."""
        started = time.monotonic()
        order = self._order
        try:
            try:
                program = self._start()
            except (OSError, ValueError) as error:
                return Ran(None, problem="spawn_error", detail=_why(order, error))
            self._deadline = started + order.timeout
            code = self._see_through(program)
        finally:
            for pipe in self._pipes:
                os.close(pipe)
        seconds = time.monotonic() - started
        out, err = self._streams.values()
        is_cut = out.is_cut or err.is_cut
        if code is not None:
            return Ran(code, out.text(), err.text(), seconds, is_cut=is_cut)
        return Ran(None, out.text(), err.text(), seconds, "timeout", f"{order.timeout:g} s", is_cut)

    def _start(self) -> Program:
        order = self._order
        theirs: list[int] = []
        try:
            for is_input in (True, False, False):
                read, written = os.pipe()
                theirs.append(read if is_input else written)
                self._pipes.append(written if is_input else read)
            stdin, stdout, stderr = theirs
            return start_program(
                order.argv, order.env, order.cwd, (stdin, stdout, stderr), leaves=_ANSWERED
            )
        finally:
            for each in theirs:
                os.close(each)

    def _see_through(self, program: Program) -> int | None:
        """Its exit code; None if its time was over first. Helpers that it left when it did its work may go on."""
        code = None
        try:
            code = self._attend(program)
        finally:
            if code in _ANSWERED:
                program.leave()
            else:
                if code is None and not self._cancelled.is_set():
                    self._ask_to_end(program)
                program.end()
        return code

    def _attend(self, program: Program) -> int | None:
        """Feed it and listen to it until it ends."""
        with selectors.DefaultSelector() as selector:
            self._register(selector, program)
            while (code := program.poll()) is None:
                now = time.monotonic()
                if now >= self._deadline or self._cancelled.is_set():
                    return None
                wait = min(self._deadline - now, _POLL if program.fileno() is None else 0.1)
                self._pump(selector, wait)
            until = time.monotonic() + _AFTER_EXIT
            while self._is_open(selector) and (left := until - time.monotonic()) > 0:
                self._pump(selector, left)
            return code

    def _register(self, selector: selectors.BaseSelector, program: Program) -> None:
        feed, *heard = self._pipes
        for pipe in heard:
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ)
            self._streams[pipe] = _Stream()
        os.set_blocking(feed, False)
        selector.register(feed, selectors.EVENT_WRITE)
        exited = program.fileno()
        if exited is not None:
            selector.register(exited, selectors.EVENT_READ, program)

    def _pump(self, selector: selectors.BaseSelector, wait: float) -> None:
        for key, _ in selector.select(wait):
            if key.data is not None:
                if key.data.poll() is not None:
                    selector.unregister(key.fd)
            elif key.fd in self._streams:
                self._read(selector, key.fd)
            else:
                self._write(selector, key.fd)

    def _read(self, selector: selectors.BaseSelector, pipe: int) -> None:
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._streams[pipe].add(data)
            self._look(pipe)
        else:
            selector.unregister(pipe)

    def _look(self, pipe: int) -> None:
        """Whether it has said how much time it wants from now on. Only the beginning of its output is looked at."""
        first, stream = next(iter(self._streams.items()))
        if self._watch is None or pipe != first:
            return
        seconds = self._watch(bytes(stream.kept[:_LOOKED_AT]))
        if seconds is not None:
            self._deadline = time.monotonic() + seconds
        if seconds is not None or len(stream.kept) >= _LOOKED_AT:
            self._watch = None

    def _write(self, selector: selectors.BaseSelector, pipe: int) -> None:
        try:
            sent = os.write(pipe, self._left[: 1 << 16])
        except BlockingIOError:
            return
        except OSError:  # it reads no more, or never did: that is its own affair
            sent = len(self._left)
        self._left = self._left[sent:]
        if not self._left:
            selector.unregister(pipe)
            self._pipes.remove(pipe)
            os.close(pipe)

    def _is_open(self, selector: selectors.BaseSelector) -> bool:
        return any(key.fd in self._streams for key in selector.get_map().values())

    def _ask_to_end(self, program: Program) -> None:
        """Politely first, and a moment to do it in."""
        program.terminate()
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and not self._cancelled.is_set():
            if program.poll() is not None:
                return
            time.sleep(_POLL)


def _why(order: Order, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and not Path(order.cwd).is_dir():
        return f"the directory '{order.cwd}' is not there"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"'{_shown(order.argv)}' cannot be started: {reason}"


def _shown(argv: Sequence[str]) -> str:
    return argv[0] if argv else ""
