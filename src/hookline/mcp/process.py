"""An MCP server as a process: its pipes are the connection, its stderr goes to the log, nothing of it outlives us.

The SDK's own `stdio_client` was rejected: a server and what it started outlive us if we are killed, what left the
server's session is not found, its stderr can only go to a file, and an answer that cannot be read leaves the request
without one.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from hookline.containment.processes import AsyncProcess, Standard, StartedProcess, start_program
from hookline.errors import ToolSourceError
from hookline.mcp.server import ServerCommand

_GRACE = 2.0
"""Seconds a server has to exit once its input ends, and again after SIGTERM."""
_MOMENT = 0.5
"""Seconds for what is about to happen anyway: the last message to be written, the last output to come."""
_CHUNK = 65_536
_LAST_LINES = 5
"""Lines of its stderr that an error quotes."""


class ServerProcess:
    """A transport for the SDK's client. Entering starts the server; leaving ends it and all it started."""

    def __init__(self, command: ServerCommand, log: Callable[[str], None]) -> None:
        self._command = command
        self._log = log
        self.ended = asyncio.Event()
        """Set when the server writes no more: it is gone, or might as well be."""
        self.last_said: deque[str] = deque(maxlen=_LAST_LINES)
        self._output = asyncio.StreamReader(limit=_CHUNK)
        self._has_output = True
        self._begun = b""
        """The beginning of a line of its stderr."""

    async def __aenter__(
        self,
    ) -> tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]:
        if changed := self._command.find_change():
            raise ToolSourceError(f"it is not started: {changed}.")
        try:
            self._process = AsyncProcess(
                self._start,
                on_output=self._feed,
                on_errors=self._hear,
                stdin=b"",
                keep_stdin_open=True,
            )
        except (OSError, ValueError) as error:
            raise _cannot_start(self._command, error) from None
        # The reader pauses the process if nobody takes its messages.
        self._output.set_transport(cast(asyncio.Transport, self._process))
        self._process.exited.add_done_callback(self._end_output_soon)
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (to_session, from_server, to_server, from_session)
        self._reader = asyncio.create_task(self._read(to_session))
        self._writer = asyncio.create_task(self._write(from_session))
        return from_server, to_server

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._leave()
        finally:  # also when this is cancelled
            try:
                await self._process.end()
            finally:
                for task in (self._reader, self._writer):
                    task.cancel()
                for stream in self._streams:
                    stream.close()
                self._process.close()
                await asyncio.gather(self._reader, self._writer, return_exceptions=True)

    async def how_it_ended(self) -> str:
        """How the process ended, in words."""
        await asyncio.wait([self._process.exited], timeout=_MOMENT)
        code = self._process.returncode
        if code is None:
            return "it closed its output"
        if code < 0:
            return f"it was killed by signal {signal.Signals(-code).name}"
        return f"it exited with code {code}"

    def _start(self, standard: Standard) -> StartedProcess:
        command = self._command
        env = {**get_default_environment(), **command.search, **command.env}
        return start_program(command.words, env, command.directory, standard, grace=_GRACE)

    async def _leave(self) -> None:
        """Let the server end by itself; then terminate it; then kill it. What it started ends with it."""
        _, from_server, to_server, _ = self._streams
        from_server.close()
        to_server.close()
        await asyncio.wait([self._writer], timeout=_MOMENT)
        self._process.close_input()
        await asyncio.wait([self._process.exited], timeout=_GRACE)
        if not self._process.exited.done():
            await self._process.terminate(_GRACE)
        await self._process.end()
        # Its last words may say why it left.
        await asyncio.wait([self._process.silent], timeout=_MOMENT)

    # --- its pipes ----------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        if not self._has_output:
            return
        if data:
            self._output.feed_data(data)
        else:
            self._end_output()

    def _end_output(self) -> None:
        self._has_output = False
        self._output.feed_eof()

    def _end_output_soon(self, _: object) -> None:
        """A process may be gone while something it started still holds its output open."""
        asyncio.get_running_loop().call_later(_MOMENT, self._end_output)

    async def _read(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        lines = _lines(self._output)
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
        with from_session:
            try:
                async for message in from_session:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._process.send(f"{text}\n".encode())
            except BrokenPipeError:  # it does not listen, so it will not answer either
                self._reader.cancel()

    def _hear(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + (data or b"\n")).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            if text:
                self.last_said.append(text)
                self._log(text)


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
    """The message in a line, or None. An answer that cannot be read is an error for the call that waits for it."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        return jsonrpc_message_adapter.validate_json(_repair(line), by_name=False)
    except ValidationError as error:
        return _unreadable(line, error)


def _repair(line: bytes) -> bytes:
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
