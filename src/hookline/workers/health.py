"""Whether a worker is alive and ready, for those who watch over it: two addresses over HTTP, on this machine only.

`/alive` answers while the event loop works. `/ready` says whether the database is reached, agents are loaded, and the
worker works and is not about to end. Nothing of a run can be asked here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from hookline.errors import UsageError

Check = Callable[[], Awaitable[Mapping[str, bool]]]
"""What has to be true for a worker to be ready."""
LOOPBACK = "127.0.0.1"
_SECONDS = 5.0
"""For a request, and for the checks."""
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def parse_address(text: str) -> tuple[str, int]:
    """The host and the port of `[HOST:]PORT`. Without a host only this machine is answered."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535 or (colon and not host):
        raise UsageError(
            f"'{text}' is not an address for the health of a worker.",
            remedy="Give a port, or HOST:PORT: --health 8081.",
        )
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


@asynccontextmanager
async def serve_health(address: tuple[str, int], check: Check) -> AsyncIterator[asyncio.Server]:
    """Answer at this address."""
    host, port = address

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that says nothing, or goes away, is its own concern.
        with suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_SECONDS):
                method, path, *_ = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
                status, said = await _answer(method, path, check)
                writer.write(_response(status, said, is_head=method == "HEAD"))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=8_192)
    except OSError as error:
        raise UsageError(
            f"the health of the worker cannot be served at {host}:{port}: {error.strerror or error}.",
            remedy="Give --health another port.",
        ) from None
    try:
        yield server
    finally:
        server.close()


async def _answer(method: str, path: str, check: Check) -> tuple[int, Mapping[str, bool]]:
    if method not in ("GET", "HEAD"):
        return 405, {}
    if path == "/alive":
        return 200, {"alive": True}
    if path != "/ready":
        return 404, {}
    try:
        async with asyncio.timeout(_SECONDS / 2):
            checks = await check()
    except TimeoutError:
        checks = {"answered": False}
    is_ready = all(checks.values())
    return 200 if is_ready else 503, {"ready": is_ready, **checks}


def _response(status: int, said: Mapping[str, bool], *, is_head: bool) -> bytes:
    body = json.dumps(said).encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
