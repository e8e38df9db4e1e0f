"""Answers that break off, and what is no answer at all: what a chat-completions server may do instead of answering."""

import pytest
from wires.answers import BOTH_WAYS, heard, text_of
from wires.openai import OpenAIWire, chunk, streaming, talking_to
from wires.server import Exchange

from hookline.errors import ConnectionLostError, MalformedResponseError, OverloadedError
from hookline.providers import EndPiece, Piece, Provider
from hookline.testing.wire import Failure, WireTurn

REQUEST = OpenAIWire.asking("Hi.")
pytestmark = pytest.mark.usefixtures("no_settings")


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
        with pytest.raises(ConnectionLostError, match="broke off"):
            await heard(provider, REQUEST, streamed=True)


@BOTH_WAYS
async def test_an_error_behind_a_good_status_is_an_error(streamed: bool) -> None:
    """Gateways answer 200 and then tell of a failure behind them."""
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
        with pytest.raises(ConnectionLostError, match="before its answer was over"):
            await heard(provider, REQUEST, streamed=streamed)
