from __future__ import annotations

import logging
from typing import Any

import pytest
from session_mcp_server import SessionServer

from hookline.mcp import McpServer, McpServers
from hookline.mcp.link import quiet_about
from hookline.mcp.server import Endpoint
from hookline.testing import call


async def test_keys_in_an_address_are_not_logged(
    use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither as they were written nor as they are sent; that there was a request is."""
    caplog.set_level(logging.DEBUG)
    with SessionServer() as server:
        address = f"{server.url}?key=sk-1234 56&b=abcdefgh"
        address = address.replace("http://", "http://me:passw0rd@")
        async with McpServers(McpServer.http(address, name="far")) as mcp:
            used = await use(mcp, call("mcp__far__echo", text="a"))
    assert used.results[0].result == "a"
    assert f"HTTP Request: POST {server.url} " in caplog.text
    assert not any(key in caplog.text for key in ("1234", "abcdefgh", "passw0rd"))


def test_what_led_to_an_error_is_hidden_too(caplog: pytest.LogCaptureFixture) -> None:
    """While the server is spoken to, and no longer."""
    server = McpServer.http("https://example.com/mcp?key=abcdefgh")
    assert isinstance(server.target, Endpoint)
    logger = logging.getLogger("httpx2")
    with quiet_about(server, server.target):
        try:
            raise ValueError("no abcdefgh here")
        except ValueError:
            logger.exception("it failed at %s", "https://example.com/mcp?key=abcdefgh")
    assert "it failed at https://example.com/mcp\n" in caplog.text
    assert "ValueError: no [hidden] here" in caplog.text
    assert "abcdefgh" not in caplog.text
    assert logger.filters == []
