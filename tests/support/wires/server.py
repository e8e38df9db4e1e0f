"""An HTTP/1.1 server on loopback whose answers are written by the test: the far end of a wire.

The test gives one async function. It is called once per request, and writes the answer the way a real server
would: at once, chunk by chunk, only half of it, or not at all. Events control the time, never a clock::

    async def far_end(exchange: Exchange) -> None:
        if exchange.request.json()["model"] != "known":
            await exchange.reply(404, {"error": "no such model"}, {"x-request-id": "7"})
            return
        await exchange.begin(200, {"content-type": "text/event-stream"})
        await exchange.send('data: {"text": "hé"}\\n\\n')  # in pieces of 5 bytes, cut wherever that falls
        await exchange.until(go_on)                      # an asyncio.Event of the test
        await exchange.end()                             # or exchange.cut(): hang up in the middle

    async with Server(far_end) as server:
        client = Client(base_url=server.url)             # http://127.0.0.1:PORT
        ...
    assert server.requests[0].headers["authorization"] == "Bearer ..."
    assert server.hung_up                                # the client left before its answer was over

When the client hangs up first, whatever the function is waiting for in `send`, `until` or `until_hung_up` ends and
the function with it. To wait for that in a test: `await server.hang_up.wait()`. An exception in the function is
raised again when the server is closed, so that a broken script does not pass for a broken client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple


class Request(NamedTuple):
    """A request as it came; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class HungUpError(Exception):
    """The other side left before its answer was over. It ends the far end's function, quietly."""


class _Reader(asyncio.StreamReader):
    """A reader that notices at once when the other side hangs up, also while nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: BaseException) -> None:
        super().set_exception(exc)  # type: ignore[arg-type]  # asyncio hands over what the transport gave
        self.ended.set()


class Exchange:
    """One request, and the answer while it is being written."""

    def __init__(self, request: Request, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.is_over = False
        """Whether the answer was ended here, whole or cut."""
        self._reader = reader
        self._writer = writer

    async def reply(
        self, status: int, body: object = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """The whole answer at once. `body` is bytes, text, or something to write as JSON."""
        kind = "text/plain" if isinstance(body, bytes | str) else "application/json"
        content = _as_bytes(body)
        fields = {"content-type": kind, "content-length": str(len(content)), **(headers or {})}
        self._write(_head(status, fields) + content)
        self.is_over = True
        await self._flush()

    async def begin(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Start an answer whose body comes in chunks."""
        self._write(_head(status, {"transfer-encoding": "chunked", **(headers or {})}))
        await self._flush()

    async def send(self, body: object, *, size: int = 5) -> None:
        """The next part of the body, in chunks of `size` bytes, each written by itself (0: all in one)."""
        content = _as_bytes(body)
        step = size or len(content) or 1
        for start in range(0, len(content), step):
            piece = content[start : start + step]
            self._write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await self._flush()

    async def end(self) -> None:
        """The body is complete."""
        self._write(b"0\r\n\r\n")
        self.is_over = True
        await self._flush()

    def cut(self) -> None:
        """Hang up now. What was sent still arrives; the rest never does."""
        self.is_over = True
        self._writer.close()

    async def until(self, event: asyncio.Event) -> None:
        """Wait for an event of the test, or until the other side hangs up, which ends the exchange."""
        waiters = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
        if not event.is_set():
            raise HungUpError

    async def until_hung_up(self) -> None:
        """Say nothing more, until the other side hangs up."""
        await self._ended.wait()
        raise HungUpError

    @property
    def _ended(self) -> asyncio.Event:
        return self._reader.ended

    def _write(self, content: bytes) -> None:
        if self._ended.is_set():
            raise HungUpError
        self._writer.write(content)

    async def _flush(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            raise HungUpError from None
        await asyncio.sleep(0)  # lets the other side read this piece before the next one is written


class Server:
    """The far end, while it is entered. Connections are kept alive between requests, as real servers do."""

    def __init__(self, far_end: Callable[[Exchange], Awaitable[None]]) -> None:
        self.requests: list[Request] = []
        self.hang_up = asyncio.Event()
        """Set when the other side leaves before its answer is over."""
        self.url = ""
        self.connections = 0
        """How many were opened."""
        self._far_end = far_end
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._problems: list[BaseException] = []

    @property
    def hung_up(self) -> bool:
        """Whether the other side left before an answer was over."""
        return self.hang_up.is_set()

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await self._server.wait_closed()
        if error is None and self._problems:
            raise self._problems[0]

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = _Reader()

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            talk = asyncio.ensure_future(self._talk(reader, writer))
            self._talks.add(talk)
            talk.add_done_callback(self._talks.discard)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _talk(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                exchange = Exchange(request, reader, writer)
                await self._play(exchange)
                if writer.is_closing():
                    break
        finally:
            writer.close()

    async def _play(self, exchange: Exchange) -> None:
        try:
            await self._far_end(exchange)
        except HungUpError:
            if not exchange.is_over:
                self.hang_up.set()
            exchange.cut()
        except Exception as error:
            self._problems.append(error)
            exchange.cut()
        else:
            if not exchange.is_over:
                self._problems.append(AssertionError("the far end left an answer unfinished"))
                exchange.cut()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None when the other side is done with this connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Request(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode("latin-1")


def _as_bytes(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()
