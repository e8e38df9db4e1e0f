"""An MCP server as a process: its pipes are the connection, its stderr goes to the log, nothing of it outlives us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from hookline._aio import within
from hookline.containment import end_with_us
from hookline.errors import ToolSourceError
from hookline.mcp.server import ServerCommand

_GRACE = 2.0
"""Seconds a server has to exit once its input ends, and again after SIGTERM."""
_MOMENT = 0.5
"""Seconds for what is about to happen anyway: the last message to be written, the exit after the last output."""
_POLL = 0.01
_CHUNK = 65_536
_LAST_LINES = 5
"""Lines of its stderr that an error quotes."""


class ServerProcess:
    """A transport for the SDK's client. Entering starts the server; leaving ends it and all it started."""

    def __init__(self, command: ServerCommand, log: Callable[[str], None]) -> None:
        self._command = command
        self._log = log
        self.ended = asyncio.Event()
        """Set when the server says no more: it is gone, or might as well be."""
        self.last_said: deque[str] = deque(maxlen=_LAST_LINES)
        self._descendants: list[Descendant] = []
        """What the server started, which may have left its group."""

    async def __aenter__(
        self,
    ) -> tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]:
        self._pipes, self._process, self._exited = await _start(self._command)
        self._seen_to = end_with_us(self._pipes.get_pid())
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (to_session, from_server, to_server, from_session)
        self._reader = asyncio.create_task(self._read(to_session))
        self._writer = asyncio.create_task(self._write(from_session))
        self._listener = asyncio.create_task(self._hear())
        self._watcher = asyncio.create_task(self._watch())
        return from_server, to_server

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._leave()
        finally:  # also when this is cancelled
            self._signal(_KILL)
            tasks = (self._reader, self._writer, self._listener, self._watcher)
            for task in tasks:
                task.cancel()
            for stream in self._streams:
                stream.close()
            self._pipes.close()
            self._seen_to()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def how_it_ended(self) -> str:
        """How the process ended, in words."""
        await within(_MOMENT, self._exited.wait())
        code = self._pipes.get_returncode()
        if code is None:
            return "it closed its output"
        if code < 0:
            return f"it was killed by signal {signal.Signals(-code).name}"
        return f"it exited with code {code}"

    # --- its pipes ----------------------------------------------------------------------------------

    async def _read(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        assert self._process.stdout is not None
        lines = _lines(self._process.stdout)
        with to_session:
            try:
                async for line in lines:
                    message = read_message(line)
                    if message is not None:
                        await to_session.send(SessionMessage(message))
                    elif line.strip():
                        self._log(f"[not a message] {line.decode(errors='replace')}")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # nobody listens any more
            finally:
                self.ended.set()
        async for _ in lines:  # a server that cannot get rid of its output cannot leave either
            pass

    async def _write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with from_session:
            try:
                async for message in from_session:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    stdin.write(f"{text}\n".encode())
                    await stdin.drain()
            except ConnectionError:  # it does not listen, so it will not answer either
                self._reader.cancel()

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        async for line in _lines(self._process.stderr):
            text = line.decode(errors="replace").rstrip()
            if text:
                self.last_said.append(text)
                self._log(text)

    async def _watch(self) -> None:
        """A process may be gone while something it started still holds its output open."""
        await self._exited.wait()
        await asyncio.wait([self._reader], timeout=_MOMENT)
        self._reader.cancel()

    # --- its end ------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Let the server end by itself; then terminate it; then kill it, and whatever it started."""
        self._descendants = descendants(
            self._pipes.get_pid()
        )  # they cannot be found once it is gone
        _, from_server, to_server, _ = self._streams
        from_server.close()
        to_server.close()
        await asyncio.wait([self._writer], timeout=_MOMENT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        await within(_GRACE, self._exited.wait())
        for number in (signal.SIGTERM, _KILL):
            if not self._signal(number):
                break
            await within(_GRACE, self._until_gone())
        await within(_GRACE, self._exited.wait())
        await asyncio.wait([self._listener], timeout=_MOMENT)  # its last words may say why it left

    async def _until_gone(self) -> None:
        while self._signal(0):  # noqa: ASYNC110 - nobody tells us when processes that are not ours end
            await asyncio.sleep(_POLL)

    def _signal(self, number: int) -> bool:
        """Signal the process and all that it started; returns whether one of them was left."""
        if os.name == "nt":
            if number and not self._exited.is_set():
                with contextlib.suppress(ProcessLookupError):
                    self._pipes.kill()
            return not self._exited.is_set()
        strays = [each for each in self._descendants if each.signal(number)]
        try:
            os.killpg(self._pipes.get_pid(), number)
        except ProcessLookupError:
            return bool(strays)
        except PermissionError:  # some of it is not ours to signal, or is dead and not yet reaped
            return bool(strays) or not self._exited.is_set()
        return True


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


class _Protocol(SubprocessStreamProtocol):
    """Says when the process is gone; `Process.wait` would wait for the end of its pipes as well."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


async def _start(
    command: ServerCommand,
) -> tuple[asyncio.SubprocessTransport, Process, asyncio.Event]:
    loop = asyncio.get_running_loop()
    # Windows starts `npx` only by its whole name, `npx.cmd`.
    program = (shutil.which(command.program) if os.name == "nt" else None) or command.program
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Protocol(loop),
            program,
            *command.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**get_default_environment(), **command.env},
            cwd=command.cwd,
            start_new_session=True,
        )
    )
    try:
        pipes, protocol = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _give_up(starting)
        raise
    except (OSError, ValueError) as error:
        raise _cannot_start(command, error) from None
    return pipes, Process(pipes, protocol, loop), protocol.exited


async def _give_up(starting: asyncio.Future[tuple[asyncio.SubprocessTransport, _Protocol]]) -> None:
    """End a process that is being started, once it is.

    asyncio, cut off in the middle of it, would end the process alone, and wait until what that has started is silent.
    """
    await asyncio.wait([starting])
    if starting.cancelled() or starting.exception() is not None:
        return
    pipes, protocol = starting.result()
    family = descendants(pipes.get_pid())
    with contextlib.suppress(
        OSError, AttributeError
    ):  # it is gone; or there are no groups on this system
        os.killpg(pipes.get_pid(), _KILL)
    for relative in family:
        relative.signal(_KILL)
    await within(_MOMENT, protocol.exited.wait())
    pipes.close()


def _cannot_start(command: ServerCommand, error: OSError | ValueError) -> ToolSourceError:
    if command.cwd is not None and not os.path.isdir(command.cwd):
        return ToolSourceError(
            f"there is no directory '{command.cwd}' to start '{command.program}' in.",
            remedy="Give another cwd=.",
        )
    if isinstance(error, FileNotFoundError):
        return ToolSourceError(
            f"there is no program '{command.program}'.",
            remedy="Install it, or give its whole path.",
        )
    return ToolSourceError(
        f"'{command.program}' cannot be started ({error}).",
        remedy="See whether it starts from a terminal.",
    )


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, however long they are."""
    begun = b""
    while chunk := await reader.read(_CHUNK):
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            yield line
    if begun:
        yield begun


# --- lines as messages -------------------------------------------------------------------------


_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two halves of one letter
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_ANSWERS = (b'"result"', b'"error"')


def read_message(line: bytes) -> types.JSONRPCMessage | None:
    """The message in a line; None if it is none. An answer that cannot be read is an error for whoever waits for it."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        return jsonrpc_message_adapter.validate_json(_repaired(line), by_name=False)
    except ValidationError as error:
        return _unreadable(line, error)


def _repaired(line: bytes) -> bytes:
    """The line with a replacement character for what is not text: half a surrogate pair, or bad UTF-8."""
    text = line.decode(errors="replace").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)


def _unreadable(line: bytes, error: ValidationError) -> types.JSONRPCError | None:
    request = _answered_request(line)
    if request is None:
        return None
    why = error.errors(include_url=False, include_input=False)[0]["msg"]
    said = types.ErrorData(code=types.PARSE_ERROR, message=f"its answer cannot be read ({why})")
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=said)


def _answered_request(line: bytes) -> int | str | None:
    """The id of the request that a line answers, however deep and broken the rest of it is."""
    depth, key, request, is_answer = 0, b"", b"", False
    for found in _TOKEN.finditer(line):
        token = found[0]
        if token in (b"}", b"]"):
            depth -= 1
            continue
        if depth == 1:
            is_answer |= key in _ANSWERS
            request = token if key == b'"id"' else request
            key = b"" if key else token
        if token in (b"{", b"["):
            depth += 1
    if not is_answer or not request:
        return None
    return int(request) if request.isdigit() else request.strip(b'"').decode(errors="replace")


# --- processes that a process has started ------------------------------------------------------


_PROC = Path("/proc")


class Descendant(NamedTuple):
    """A process. Its start time distinguishes it from a later one with the same number."""

    pid: int
    begun: str

    def signal(self, number: int) -> bool:
        """Signal it; says whether it was there."""
        stat = _stat(self.pid)
        if stat is None or stat.begun != self.begun or stat.state == "Z":
            return False
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class _Stat(NamedTuple):
    parent: int
    state: str
    begun: str


def descendants(pid: int) -> list[Descendant]:
    """All processes that a process has started, and those they started; none where there is no `/proc`."""
    children: dict[int, list[Descendant]] = {}
    for each, stat in _processes():
        children.setdefault(stat.parent, []).append(Descendant(each, stat.begun))
    found = list(children.get(pid, ()))
    for relative in found:  # it grows while we go
        found += children.get(relative.pid, ())
    return found


def _processes() -> Iterator[tuple[int, _Stat]]:
    with contextlib.suppress(OSError):
        for entry in os.listdir(_PROC):
            stat = _stat(int(entry)) if entry.isdecimal() else None
            if stat is not None:
                yield int(entry), stat


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it is gone, or there is no such directory here
        return None
    fields = text.rpartition(")")[2].split()  # its name may hold anything
    return _Stat(parent=int(fields[1]), state=fields[0], begun=fields[19])
