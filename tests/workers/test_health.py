from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from hookline.errors import UsageError
from hookline.workers.health import parse_address, serve_health


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8081", ("127.0.0.1", 8081)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:0", ("::1", 0)),
        ("", None),
        ("port", None),
        (":80", None),
        ("host:", None),
        ("70000", None),
        ("²", None),
    ],
)
def test_an_address_is_this_machine_unless_it_says_more(
    text: str, address: tuple[str, int] | None
) -> None:
    """A port alone is on the loopback interface."""
    if address is None:
        with pytest.raises(UsageError, match="not an address"):
            parse_address(text)
    else:
        assert parse_address(text) == address


async def ask(port: int, request: bytes) -> tuple[str, str]:
    """The first line and the body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return head.partition("\r\n")[0].removeprefix("HTTP/1.1 "), body


async def test_alive_and_ready_are_answered() -> None:
    """Also what is no request, which ends nothing but itself."""
    checks: dict[str, bool] = {"database": True}

    async def check() -> Mapping[str, bool]:
        return checks

    async with serve_health(("127.0.0.1", 0), check) as server:
        port = server.sockets[0].getsockname()[1]
        assert server.sockets[0].getsockname()[0] == "127.0.0.1"
        assert await ask(port, b"GET /alive HTTP/1.1\r\n\r\n") == ("200 OK", '{"alive": true}')
        ready = b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n"
        assert await ask(port, ready) == ("200 OK", '{"ready": true, "database": true}')
        checks["database"] = False
        assert await ask(port, ready) == (
            "503 Service Unavailable",
            '{"ready": false, "database": false}',
        )
        assert await ask(port, b"HEAD /alive HTTP/1.1\r\n\r\n") == ("200 OK", "")
        assert (await ask(port, b"GET /runs HTTP/1.1\r\n\r\n"))[0] == "404 Not Found"
        assert (await ask(port, b"POST /alive HTTP/1.1\r\n\r\n"))[0] == "405 Method Not Allowed"
        for odd in (b"", b"\r\n\r\n", b"GET", b"x" * 20_000):
            assert (await ask(port, odd))[0] == ""
        assert await ask(port, b"GET /alive HTTP/1.1\r\n\r\n") == ("200 OK", '{"alive": true}')
        with pytest.raises(UsageError, match="cannot be served"):
            async with serve_health(("127.0.0.1", port), check):
                pass
