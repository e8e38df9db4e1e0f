"""How Anthropic is reached and left: keys, headers and connections."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from wires.answers import heard, text_of
from wires.anthropic import (
    EVENTS,
    JSON,
    KEY,
    AnthropicWire,
    block_events,
    ending,
    event,
    start,
    streaming,
    talking_to,
)
from wires.server import Exchange, Server

from hookline.errors import AuthenticationError
from hookline.providers import TextPiece
from hookline.providers.anthropic import AnthropicProvider
from hookline.testing.wire import Failure, WireTurn

request = AnthropicWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


@contextmanager
def threaded_server() -> Iterator[str]:
    """A server outside of any event loop, which keeps its connections open; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            content = [{"type": "text", "text": "Hi."}]
            body = json.dumps({**start()["message"], "content": content}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key and the address are found in the environment, and the key is sent as the API wants it."""
    async with Server(streaming(start(), *ending("end_turn"))) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        provider = AnthropicProvider(headers={"anthropic-beta": "x-1"})
        await heard(provider, request(), streamed=True)
        await provider.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["anthropic-beta"] == "x-1"
    assert KEY not in repr(provider)


async def test_the_key_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the libraries log, however much they are asked to, the key is not in it."""
    caplog.set_level(logging.DEBUG)
    turns = [WireTurn("Hi."), WireTurn(failure=Failure.BAD_KEY)]
    async with AnthropicWire().provider(turns) as provider:
        await heard(provider, request(), streamed=True)
        with pytest.raises(AuthenticationError):
            await heard(provider, request(), streamed=False)
    assert "/v1/messages" in caplog.text
    assert KEY not in caplog.text


async def test_a_server_of_ones_own_needs_no_key() -> None:
    """Where no key is known, none is made up and sent."""
    far_end = streaming(start(), *ending("end_turn"))
    async with talking_to(far_end, api_key="") as (provider, server):
        await heard(provider, request(), streamed=True)
    assert "authorization" not in server.requests[0].headers


async def test_a_header_can_bring_the_key() -> None:
    """Who signs requests in another way can do so."""
    far_end = streaming(start(), *ending("end_turn"))
    headers = {"Authorization": "Basic abc"}
    async with talking_to(far_end, api_key="", headers=headers) as (provider, server):
        await heard(provider, request(), streamed=True)
    assert server.requests[0].headers["authorization"] == "Basic abc"


async def test_closing_the_generator_hangs_up_at_once() -> None:
    """Who stops reading closes the connection: the server stops writing, and paying for it."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, EVENTS)
        await exchange.send(event(start()))
        for each in block_events(0, {"type": "text", "text": "Once"}):
            await exchange.send(event(each))
        await exchange.until_hung_up()

    async with talking_to(far_end) as (provider, server):
        pieces = provider.ask(request(), streamed=True)
        assert isinstance(await anext(pieces), TextPiece)
        await pieces.aclose()
        await server.hang_up.wait()


async def test_connections_are_kept_for_the_next_question() -> None:
    """Questions one after the other share a connection, whichever way they are answered."""

    async def far_end(exchange: Exchange) -> None:
        if exchange.request.json().get("stream"):
            await streaming(start(), *ending("end_turn"))(exchange)
        else:
            await exchange.reply(200, start()["message"], JSON)

    async with talking_to(far_end) as (provider, server):
        for streamed in (True, False, True):
            await heard(provider, request(), streamed=streamed)
    assert server.connections == 1


def test_one_provider_serves_several_event_loops() -> None:
    """Each loop gets connections of its own, as one `run_sync` after the other needs it."""
    with threaded_server() as url:
        provider = AnthropicProvider(api_key=KEY, base_url=url)
        for _ in range(3):
            assert text_of(asyncio.run(heard(provider, request(), streamed=False))) == "Hi."
