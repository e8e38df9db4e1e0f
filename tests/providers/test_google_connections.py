"""How Gemini is reached and left: connections and keys."""

import asyncio

import pytest
from wires.answers import BOTH_WAYS, heard, text_of
from wires.google import (
    KEY,
    STREAM,
    GoogleWire,
    answering,
    chunk_body,
    error_body,
    event,
    talking_to,
)
from wires.scripted import FarEnd
from wires.server import Exchange, Server

from hookline.errors import AuthenticationError
from hookline.providers import TextPiece
from hookline.providers.google import GoogleProvider

asking = GoogleWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


def endless(began: asyncio.Event) -> FarEnd:
    """Begins an answer, and leaves it at that."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, STREAM)
        await exchange.send(event(chunk_body([{"text": "Well, "}])))
        began.set()
        await exchange.until_hung_up()

    return far_end


async def test_closing_the_generator_hangs_up() -> None:
    """Nobody pays for an answer that nobody reads."""
    async with Server(endless(asyncio.Event())) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        pieces = provider.ask(asking(), streamed=True)
        assert await anext(pieces) == TextPiece("Well, ")
        await pieces.aclose()
        await asyncio.wait_for(server.hang_up.wait(), 5)
        await provider.aclose()


@BOTH_WAYS
async def test_cancelling_hangs_up_while_the_model_is_silent(streamed: bool) -> None:
    """A task that waits for the model can be cancelled, and the connection goes with it."""
    began = asyncio.Event()
    async with Server(endless(began)) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        task = asyncio.ensure_future(heard(provider, asking(), streamed))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.hang_up.wait(), 5)
        await provider.aclose()


@BOTH_WAYS
async def test_the_next_question_takes_the_same_connection(streamed: bool) -> None:
    """An answer that was read to its end leaves the connection open."""
    answer = chunk_body([{"text": "yes"}], "STOP")
    async with Server(answering(answer, answer)) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        for _ in range(2):
            await heard(provider, asking(), streamed)
        await provider.aclose()
        assert server.connections == 1


def test_one_provider_serves_one_event_loop_after_the_other() -> None:
    """Every `run_sync` has a loop of its own; the connections of the last one are of no use in it."""
    provider = GoogleProvider(api_key=KEY, base_url="http://127.0.0.1:9")

    async def one_run() -> str:
        async with Server(answering(chunk_body([{"text": "yes"}], "STOP"))) as server:
            provider._url = server.url
            return text_of(await heard(provider, asking()))

    assert [asyncio.run(one_run()) for _ in range(2)] == ["yes", "yes"]


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
async def test_the_key_is_found_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Either variable will do; an empty one does not hide the other."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "from-there" if name == variable else "")
    async with Server(answering(chunk_body([{"text": "yes"}], "STOP"))) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        provider = GoogleProvider()
        await heard(provider, asking())
        await provider.aclose()
        assert server.requests[0].headers["x-goog-api-key"] == "from-there"


async def test_a_key_may_come_in_a_header_of_ones_own() -> None:
    """However its name is spelled, it is sent once."""
    async with Server(answering(chunk_body([{"text": "yes"}], "STOP"))) as server:
        provider = GoogleProvider(base_url=server.url, headers={"X-Goog-Api-Key": "mine"})
        await heard(provider, asking())
        await provider.aclose()
        assert server.requests[0].headers["x-goog-api-key"] == "mine"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer mine"}])
async def test_a_server_of_ones_own_needs_no_key(headers: dict[str, str]) -> None:
    """No key is made up for it either, and the one in the environment can be kept at home."""
    async with Server(answering(chunk_body([{"text": "yes"}], "STOP"))) as server:
        provider = GoogleProvider(api_key="", base_url=server.url, headers=headers)
        await heard(provider, asking())
        await provider.aclose()
        [sent] = server.requests
    assert "x-goog-api-key" not in sent.headers
    assert sent.headers.get("authorization") == headers.get("Authorization")


@BOTH_WAYS
async def test_the_key_is_in_no_error(streamed: bool) -> None:
    """A server that repeats the key, or a header, in its complaint is not repeated with it."""
    secret = "a-token-in-a-header"
    body = error_body(403, "PERMISSION_DENIED", f"Key {KEY} with {secret} may not do this.")
    settings = {"headers": {"x-token": secret}}
    async with talking_to(lambda exchange: exchange.reply(403, body), **settings) as (provider, _):
        with pytest.raises(AuthenticationError) as caught:
            await heard(provider, asking(), streamed)
        assert KEY not in repr(provider)
    for text in (str(caught.value), repr(caught.value)):
        assert KEY not in text
        assert secret not in text
        assert "may not do this" in text
