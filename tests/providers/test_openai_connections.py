"""How OpenAI and its like are reached and left: connections, keys, addresses and headers."""

import asyncio
import threading
from typing import Any

import pytest
from wires.answers import heard, text_of
from wires.openai import SSE, OpenAIWire, chunk, completion, event, talking_to
from wires.server import Exchange, Server

from hookline.providers import TextPiece
from hookline.providers.openai import OpenAIProvider
from hookline.state import UserMessage
from hookline.testing.wire import WireTurn

REQUEST = OpenAIWire.asking("Hi.")
pytestmark = pytest.mark.usefixtures("no_settings")


async def test_closing_the_generator_closes_the_connection_at_once() -> None:
    """Whoever has read enough leaves, and the server sees it, while it would still be writing."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, SSE)
        await exchange.send(event(chunk({"content": "Hi"}, "m")))
        await exchange.until_hung_up()

    async with talking_to(far_end) as (provider, server):
        pieces = provider.ask(REQUEST, streamed=True)
        assert await anext(pieces) == TextPiece("Hi")
        await pieces.aclose()
        await server.hang_up.wait()


async def test_many_answers_at_once_do_not_mix() -> None:
    """One provider serves all the agents of a process."""

    async def far_end(exchange: Exchange) -> None:
        asked = exchange.request.json()["messages"][0]["content"]
        await exchange.begin(200, SSE)
        for letter in asked:
            await exchange.send(event(chunk({"content": letter}, "m")))
        await exchange.send(event(chunk({}, "m", "stop")))
        await exchange.end()

    async with talking_to(far_end) as (provider, _):
        requests = [REQUEST.with_messages([UserMessage(f"number {n}")]) for n in range(10)]
        answers = await asyncio.gather(
            *(heard(provider, request, streamed=True) for request in requests)
        )
    assert [text_of(pieces) for pieces in answers] == [f"number {n}" for n in range(10)]


def test_one_provider_works_in_one_event_loop_after_another() -> None:
    """Every run_sync starts a loop of its own, and the provider must not bring connections of the last one."""
    ready, done = threading.Event(), threading.Event()
    urls: list[str] = []

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, completion(WireTurn("Hi."), "m"))

    async def serve() -> None:
        async with Server(far_end) as server:
            urls.append(server.url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        provider = OpenAIProvider(base_url=f"{urls[0]}/v1")
        for _ in range(3):
            assert text_of(asyncio.run(heard(provider, REQUEST, streamed=False))) == "Hi."
    finally:
        done.set()
        thread.join()


async def headers_sent(**settings: Any) -> dict[str, str]:
    """The headers of a request that a provider with these settings sends."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, completion(WireTurn("Hi."), "m"))

    async with talking_to(far_end, **settings) as (provider, server):
        await heard(provider, REQUEST, streamed=False)
    return dict(server.requests[0].headers)


async def test_the_key_is_given_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server at another address needs none; one that is found is sent, unless an empty one is given."""
    assert "authorization" not in await headers_sent()
    assert (await headers_sent(api_key="given-key"))["authorization"] == "Bearer given-key"
    monkeypatch.setenv("OPENAI_API_KEY", "found-key")
    assert (await headers_sent())["authorization"] == "Bearer found-key"
    assert "authorization" not in await headers_sent(api_key="")


async def test_headers_are_added() -> None:
    """Gateways want headers of their own; one may take the place of the key."""
    sent = await headers_sent(headers={"X-Team": "fishing", "Authorization": "Basic abc"})
    assert sent["x-team"] == "fishing"
    assert sent["authorization"] == "Basic abc"


async def test_the_address_is_given_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_BASE_URL leads to another server, unless base_url is given."""
    wire = OpenAIWire()
    async with wire.provider([WireTurn("Hi.")]):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
        provider = OpenAIProvider()
        assert text_of(await heard(provider, REQUEST, streamed=False)) == "Hi."
        await provider.aclose()
