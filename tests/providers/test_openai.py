"""Answers of OpenAI and its like, over the wire."""

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wires.answers import BOTH_WAYS, heard, text_of
from wires.openai import SSE, OpenAIWire, chunk, completion, event, streaming, talking_to
from wires.server import Exchange, Server

from hookline.errors import (
    ConnectionLostError,
    MalformedResponseError,
    OverloadedError,
    UnsupportedError,
)
from hookline.providers import CallPiece, EndPiece, Piece, Provider, ReasoningPiece, TextPiece
from hookline.providers.openai import OpenAIProvider
from hookline.state import UserMessage
from hookline.testing.wire import Failure, WireCall, WireTurn

REQUEST = OpenAIWire.asking("Hi.")
pytestmark = pytest.mark.usefixtures("no_settings")


TURN = WireTurn(
    "Grüße, 世界 🎣",
    calls=(WireCall("add", {"a": 1, "b": 2}), WireCall("say", raw='{"broken": ')),
    reasoning="Let me think.",
    input_tokens=12,
    output_tokens=7,
)


@BOTH_WAYS
async def test_text_thinking_calls_and_usage_come_through(streamed: bool) -> None:
    """Everything an answer can hold arrives, whole or in pieces."""
    async with OpenAIWire().provider([TURN]) as provider:
        pieces = await heard(provider, REQUEST, streamed=streamed)
    thinking = [piece for piece in pieces if isinstance(piece, ReasoningPiece)]
    calls: dict[int, list[str]] = {}
    for piece in pieces:
        if isinstance(piece, CallPiece):
            calls.setdefault(piece.index, [piece.id, piece.name, ""])[2] += piece.arguments
    assert text_of(pieces) == TURN.text
    assert "".join(piece.text for piece in thinking) == TURN.reasoning
    assert calls == {
        0: ["call_0", "add", '{"a": 1, "b": 2}'],
        1: ["call_1", "say", '{"broken": '],
    }
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.requests) == (12, 7, 1)
    assert (end.usage.cost, end.usage.unpriced_requests) == (None, 1)  # nobody's prices
    assert (end.model, end.finish) == ("gpt-4o", "")
    assert (len(thinking) > 1) is streamed


@settings(max_examples=10)
@given(size=st.integers(1, 80))
async def test_a_stream_may_be_cut_anywhere(size: int) -> None:
    """However the network cuts the bytes, also within a letter, the same text arrives."""
    parts = [chunk({"content": part}, "m") for part in ("Grüße, ", "世界 🎣")]
    end = event(chunk({}, "m", "stop")) + "data: [DONE]\n\n"
    far_end = streaming(*parts, end, size=size)
    async with talking_to(far_end) as (provider, _):
        assert text_of(await heard(provider, REQUEST, streamed=True)) == "Grüße, 世界 🎣"


async def test_a_stream_without_its_last_word_is_whole_when_the_model_was_done() -> None:
    """Some servers send no [DONE]; comments, other events and empty data between the chunks do no harm."""
    far_end = streaming(
        ": keep-alive\n\n\r\n",
        {"choices": [], "usage": None},
        event(chunk({"content": "Hi"}, "m")).replace("\n", "\r\n"),
        chunk({}, "m", "stop"),
    )
    async with talking_to(far_end) as (provider, _):
        assert text_of(await heard(provider, REQUEST, streamed=True)) == "Hi"


async def test_pieces_arrive_while_the_answer_is_still_being_written() -> None:
    """The server continues only after its first piece was read: nothing waits for the end."""
    go_on = asyncio.Event()

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, SSE)
        await exchange.send(event(chunk({"content": "first"}, "m")))
        await exchange.until(go_on)
        await exchange.send(event(chunk({}, "m", "stop")))
        await exchange.end()

    async with (
        talking_to(far_end) as (provider, _),
        aclosing(provider.ask(REQUEST, streamed=True)) as pieces,
    ):
        assert await anext(pieces) == TextPiece("first")
        go_on.set()
        assert isinstance(await anext(pieces), EndPiece)


@BOTH_WAYS
async def test_the_request_is_what_was_asked(streamed: bool) -> None:
    """The body on the wire is JSON with the model, the messages and the options."""
    wire = OpenAIWire()
    async with wire.provider([WireTurn("Hi.")]) as provider:
        await heard(provider, REQUEST.with_options(temperature=0.5), streamed=streamed)
    (body,) = wire.requests
    assert body["model"] == "gpt-4o"
    assert body["messages"] == [{"role": "user", "content": "Hi."}]
    assert body["temperature"] == 0.5
    assert body.get("stream", False) is streamed


async def test_an_option_that_is_no_json_is_refused_before_it_is_sent() -> None:
    """The error says what is wrong; nothing goes over the wire."""
    wire = OpenAIWire()
    async with wire.provider([]) as provider:
        request = msgspec.structs.replace(REQUEST, options={"seed": object()})
        with pytest.raises(UnsupportedError, match="JSON"):
            await heard(provider, request, streamed=False)
    assert not wire.requests


# --- how OpenAI and its like are reached and left: connections, keys, addresses and headers -----------


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


# --- answers that break off, and what is no answer at all --------------------------------------------


async def test_what_came_before_the_cut_was_handed_on() -> None:
    """A broken stream has given its pieces, and ends in an error rather than an end."""
    pieces: list[Piece] = []

    async def read_on(provider: Provider) -> None:
        async for piece in provider.ask(REQUEST, streamed=True):
            pieces.append(piece)

    turn = WireTurn("Some words that break off.", failure=Failure.CUT)
    async with OpenAIWire().provider([turn]) as provider:
        with pytest.raises(ConnectionLostError):
            await read_on(provider)
    assert text_of(pieces)
    assert turn.text.startswith(text_of(pieces))
    assert not any(isinstance(piece, EndPiece) for piece in pieces)


MALFORMED_STREAMS = [
    "data: {not json\n\n",
    "data: []\n\n",
    'data: {"choices": "none"}\n\n',
    'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
    'data: {"choices": [{"delta": {"tool_calls": {"index": 0}}}]}\n\n',
    b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n',
    "data: " + "[" * 100_000 + "\n\n",
]


@pytest.mark.parametrize("garbage", MALFORMED_STREAMS, ids=range(len(MALFORMED_STREAMS)))
async def test_a_garbled_chunk_is_malformed(garbage: str | bytes) -> None:
    """What is not the protocol is called so, whatever it is."""
    async with talking_to(streaming(garbage, size=0)) as (provider, _):
        with pytest.raises(MalformedResponseError, match="base_url"):
            await heard(provider, REQUEST, streamed=True)


@BOTH_WAYS
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html>Welcome!</html>", "text/html; charset=utf-8"),
        ("{}", "application/json"),
        ('{"choices": []}', "application/json"),
        ("", "application/json"),
    ],
)
async def test_another_page_than_the_one_wanted_is_malformed(
    body: str, kind: str, streamed: bool
) -> None:
    """A base_url that leads to some other page is found out, and the remedy names base_url."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, body, {"content-type": kind})

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(MalformedResponseError, match="base_url"):
            await heard(provider, REQUEST, streamed=streamed)


async def test_a_stream_that_ends_before_the_model_did_is_lost() -> None:
    """Also an orderly end is an early one when the model had not finished."""
    async with talking_to(streaming(chunk({"content": "Hi"}, "m"))) as (provider, _):
        with pytest.raises(ConnectionLostError, match="ended too early"):
            await heard(provider, REQUEST, streamed=True)


@BOTH_WAYS
async def test_an_error_behind_a_good_status_is_an_error(streamed: bool) -> None:
    """Gateways answer 200 and then report a failure behind them."""
    trouble = {"error": {"message": "Upstream is overloaded", "code": 503}}

    async def far_end(exchange: Exchange) -> None:
        if not streamed:
            return await exchange.reply(200, trouble)
        return await streaming(chunk({"content": "Hi"}, "m"), trouble)(exchange)

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(OverloadedError, match="Upstream is overloaded"):
            await heard(provider, REQUEST, streamed=streamed)


@BOTH_WAYS
async def test_a_complaint_that_breaks_off_is_a_lost_connection(streamed: bool) -> None:
    """What was wrong is not known then, only that the server is gone."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(500, {"content-type": "application/json"})
        await exchange.send('{"error": {"message": "The ser')
        exchange.cut()

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(ConnectionLostError, match="before the end of its answer"):
            await heard(provider, REQUEST, streamed=streamed)
