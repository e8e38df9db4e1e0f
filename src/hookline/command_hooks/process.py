"""Running one program: input in, output out, and nothing of it left behind when it takes too long.

One thread drives one program with a selector, because what asyncio waits for differs between versions of Python: some
wait for the end of the pipes, which a helper in the background may hold open for hours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

MARK = "HOOKLINE_HOOK_RUN"
"""A variable that every process of one run of a hook has: by it those are found that left their group."""
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
        self._mark = uuid.uuid4().hex
        self._cancelled = threading.Event()
        self._streams: dict[int, _Stream] = {}
        self._left = memoryview(order.stdin)
        self._watch = order.watch
        self._deadline = 0.0
        self._is_held = False
        """Somebody holds the pipes though the program has ended."""

    def cancel(self) -> None:
        """End it now."""
        self._cancelled.set()

    def drive(self) -> Ran:
        """Run it."""
        started = time.monotonic()
        order = self._order
        try:
            process = subprocess.Popen(
                order.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=order.cwd,
                env={**order.env, MARK: self._mark},
                start_new_session=True,  # a group of its own, and no terminal
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            return Ran(None, problem="spawn_error", detail=_why(order, error))
        try:
            self._deadline = started + order.timeout
            in_time = self._attend(process)
        finally:
            self._close(process)
        seconds = time.monotonic() - started
        out, err = self._streams.values()
        is_cut = out.is_cut or err.is_cut
        if in_time:
            return Ran(process.returncode, out.text(), err.text(), seconds, is_cut=is_cut)
        return Ran(None, out.text(), err.text(), seconds, "timeout", f"{order.timeout:g} s", is_cut)

    def _attend(self, process: subprocess.Popen[bytes]) -> bool:
        """Feed it and listen to it until it ends; False if its time was over first."""
        with selectors.DefaultSelector() as selector, _exit_of(process) as exited:
            self._register(selector, process)
            if exited is not None:
                selector.register(exited, selectors.EVENT_READ)
            while process.poll() is None:
                now = time.monotonic()
                if now >= self._deadline or self._cancelled.is_set():
                    return False
                wait = min(self._deadline - now, _POLL if exited is None else 0.1)
                self._pump(selector, wait, exited)
            until = time.monotonic() + _AFTER_EXIT
            while self._is_open(selector) and (left := until - time.monotonic()) > 0:
                self._pump(selector, left, exited)
            self._is_held = self._is_open(selector)
            return True

    def _register(self, selector: selectors.BaseSelector, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
            self._streams[pipe.fileno()] = _Stream()
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)

    def _pump(self, selector: selectors.BaseSelector, wait: float, exited: int | None) -> None:
        for key, _ in selector.select(wait):
            if key.fd == exited:
                selector.unregister(key.fileobj)
            elif key.fd in self._streams:
                self._read(selector, key)
            else:
                self._write(selector, key)

    def _read(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        try:
            data = os.read(key.fd, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._streams[key.fd].add(data)
            self._look(key.fd)
        else:
            selector.unregister(key.fileobj)

    def _look(self, descriptor: int) -> None:
        """Whether it has said how much time it wants from now on. Only the beginning of its output is looked at."""
        first, stream = next(iter(self._streams.items()))
        if self._watch is None or descriptor != first:
            return
        seconds = self._watch(bytes(stream.kept[:_LOOKED_AT]))
        if seconds is not None:
            self._deadline = time.monotonic() + seconds
        if seconds is not None or len(stream.kept) >= _LOOKED_AT:
            self._watch = None

    def _write(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        try:
            sent = os.write(key.fd, self._left[: 1 << 16])
        except BlockingIOError:
            return
        except OSError:  # it reads no more, or never did: that is its own affair
            sent = len(self._left)
        self._left = self._left[sent:]
        if not self._left:
            selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]

    def _is_open(self, selector: selectors.BaseSelector) -> bool:
        return any(key.fd in self._streams for key in selector.get_map().values())

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        """Leave nothing behind. Helpers that a program left on purpose when it did its work may go on."""
        if process.returncode is None:
            self._end(process)
        elif process.returncode not in _ANSWERED and (self._is_held or _is_group(process.pid)):
            self._end_strays({})
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        # Looked for while their parent lives: one that has left its group and its environment is found by no other way.
        below = descendants(process.pid)
        if not self._cancelled.is_set():
            _signal_group(process.pid, signal.SIGTERM)
            self._give_time(process.pid)
            below |= descendants(process.pid)
        # All of it, also what ignored the first signal, and what made a group of its own.
        _signal_group(process.pid, signal.SIGKILL)
        self._end_strays(below)
        process.wait()

    def _end_strays(self, below: Mapping[int, str]) -> None:
        """End what has the mark of this run, and these; what they start meanwhile has the mark too."""
        for _ in range(3):
            strays = {*marked_processes(self._mark), *still_there(below)}
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not strays:
                break
            time.sleep(0.01)

    def _give_time(self, pid: int) -> None:
        """Wait a moment for a program to end, without reaping it: until then its number is nobody else's."""
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and not self._cancelled.is_set():
            if hasattr(os, "waitid"):
                how = os.WEXITED | os.WNOWAIT | os.WNOHANG
                if os.waitid(os.P_PID, pid, how) is not None:
                    return
            time.sleep(_POLL)


def marked_processes(mark: str) -> list[int]:
    """The processes that have this mark, wherever they went. Where there is no /proc, none are found."""
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pid = int(entry.parent.name)
            if wanted in entry.read_bytes().split(b"\0") and pid != os.getpid():
                found.append(pid)
    return found


def descendants(leader: int) -> dict[int, str]:
    """The processes below one, each with the moment it began: by that a number that was given again is told."""
    below: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parent, began = _parentage(entry)
            below.setdefault(parent, []).append((int(entry.parent.name), began))
    found: dict[int, str] = {}
    waiting = [leader]
    while waiting:
        for pid, began in below.get(waiting.pop(), ()):
            if pid not in found:
                found[pid] = began
                waiting.append(pid)
    return found


def still_there(known: Mapping[int, str]) -> list[int]:
    """Those of these processes that still run, and are no others with the same number."""
    found = []
    for pid, began in known.items():
        with contextlib.suppress(OSError, ValueError):
            if _parentage(Path(f"/proc/{pid}/stat"))[1] == began:
                found.append(pid)
    return found


def _parentage(stat: Path) -> tuple[int, str]:
    """Who started a process that is alive, and when. Its name is in brackets, and may have brackets itself."""
    fields = stat.read_text(errors="replace").rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ValueError("it has ended")
    return int(fields[1]), fields[19]


def _signal_group(leader: int, number: int) -> None:
    # The leader is not reaped yet, so its number still means this group and no other.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _is_group(leader: int) -> bool:
    """Whether somebody is left in the group of a program that has ended."""
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _exit_of(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that can be read once the program has ended; None where there is no such thing."""
    try:
        descriptor: int | None = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _why(order: Order, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and not Path(order.cwd).is_dir():
        return f"the directory '{order.cwd}' is not there"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"'{_shown(order.argv)}' cannot be started: {reason}"


def _shown(argv: Sequence[str]) -> str:
    return argv[0] if argv else ""
