"""Answers of OpenAI and its like, over the wire."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wires.answers import BOTH_WAYS, heard, text_of
from wires.openai import SSE, OpenAIWire, chunk, event, streaming, talking_to
from wires.server import Exchange

from hookline.errors import UnsupportedError
from hookline.providers import CallPiece, EndPiece, ReasoningPiece, TextPiece
from hookline.testing.wire import WireCall, WireTurn

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
