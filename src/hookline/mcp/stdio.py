"""The standard input and output of this process as the connection to a client.

The SDK's own reads in a thread that must return before the process can end: it would wait for one more message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from hookline._aio import call_in_thread

_CHUNK = 65_536


@contextlib.asynccontextmanager
async def standard_streams() -> AsyncIterator[
    tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]
]:
    """Streams of messages, as a server of the SDK wants them."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    with _kept_apart() as (incoming, outgoing):
        reader = asyncio.create_task(_read(incoming, to_server))
        writer = asyncio.create_task(_write(outgoing, from_server))
        try:
            yield from_client, to_client
        finally:
            to_client.close()
            await asyncio.wait([writer], timeout=1)  # the last answer may still be on its way
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            for stream in (to_server, from_client, from_server):
                stream.close()


@contextlib.contextmanager
def _kept_apart() -> Iterator[tuple[int, int]]:
    """The two pipes under other numbers: what tools read and print must not reach the client."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield incoming, outgoing
    finally:
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)


async def _read(
    incoming: int, to_server: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def hand_over(line: bytes | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
            loop.call_soon_threadsafe(lines.put_nowait, line)

    def work() -> None:
        begun = b""
        while chunk := os.read(incoming, _CHUNK):
            *whole, begun = (begun + chunk).split(b"\n")
            for line in whole:
                hand_over(line)
        hand_over(None)

    threading.Thread(target=work, name="hookline:stdin", daemon=True).start()
    with to_server:
        while (line := await lines.get()) is not None:
            if line.strip():
                await to_server.send(_message(line))


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(outgoing: int, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
    def put(data: bytes) -> None:
        while data:
            data = data[os.write(outgoing, data) :]

    with from_server:
        async for message in from_server:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await call_in_thread(put, f"{text}\n".encode())
