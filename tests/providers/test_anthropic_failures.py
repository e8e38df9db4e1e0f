"""What goes wrong at Anthropic, or on the way there."""

from typing import Any

import pytest
from wires.answers import BOTH_WAYS, heard, text_of
from wires.anthropic import (
    JSON,
    AnthropicWire,
    block_events,
    error_body,
    start,
    streaming,
    talking_to,
)
from wires.anthropic_rules import objection
from wires.server import Exchange

from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    ContextOverflowError,
    MalformedResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    UnsupportedError,
)
from hookline.testing.wire import WireTurn

request = AnthropicWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", OverloadedError),
        ("rate_limit_error", RateLimitError),
        ("timeout_error", ModelTimeoutError),
        ("api_error", OverloadedError),
    ],
)
async def test_an_error_in_the_middle_of_a_stream(kind: str, expected: type[ModelError]) -> None:
    """An error event after half of the answer is the error it would have been before it."""
    far_end = streaming(
        start(), *block_events(0, {"type": "text", "text": "Once"}), error_body(kind, "Sorry")
    )
    async with talking_to(far_end) as (provider, _):
        pieces = provider.ask(request(), streamed=True)
        heard = [await anext(pieces) for _ in range(4)]
        with pytest.raises(ModelError, match="Sorry") as caught:
            await anext(pieces)
    assert type(caught.value) is expected
    assert text_of(heard) == "Once"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, error_body("permission_error", "Not allowed."), AuthenticationError),
        (402, error_body("billing_error", "No money."), AuthenticationError),
        (
            400,
            error_body("invalid_request_error", "Your credit balance is too low."),
            AuthenticationError,
        ),
        (413, error_body("request_too_large", "Request exceeds 32 MB."), ContextOverflowError),
        (413, "<html>too large</html>", ContextOverflowError),
        (
            400,
            error_body(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ),
            ContextOverflowError,
        ),
        (
            400,
            error_body("invalid_request_error", "messages.0: all is lost"),
            ModelError,
        ),
        (504, error_body("timeout_error", "Too slow."), ModelTimeoutError),
        (503, "<html>try later</html>", OverloadedError),
        (500, "", OverloadedError),
        (520, "", OverloadedError),
        (418, "{}", ModelError),
        (400, {"error": {"type": ["?"], "message": {"a": 1}}}, ModelError),
        (404, {"detail": "Not Found"}, ModelNotFoundError),
        (500, {"error": "boom"}, OverloadedError),
    ],
)
async def test_statuses(status: int, body: Any, expected: type[ModelError]) -> None:
    """What a status means is known also when a proxy answers, in words of its own."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(status, body)

    async with talking_to(far_end) as (provider, _):
        for streamed in (False, True):
            with pytest.raises(ModelError) as caught:
                await heard(provider, request(), streamed=streamed)
            assert type(caught.value) is expected
            assert caught.value.remedy


async def test_an_option_that_is_gone_is_told() -> None:
    """The API no longer takes a temperature: the error names it."""
    async with AnthropicWire().provider([WireTurn("Hi.")]) as provider:
        with pytest.raises(UnsupportedError, match="temperature: Extra inputs"):
            await heard(provider, request(options={"temperature": 0}), streamed=False)


async def test_an_older_version_of_the_api_can_be_asked_for() -> None:
    """Who needs a temperature can ask for the version that has one, in the headers."""

    async def far_end(exchange: Exchange) -> None:
        assert not objection(exchange.request)
        await exchange.reply(200, start()["message"], JSON)

    headers = {"anthropic-version": "2023-06-01"}
    async with talking_to(far_end, headers=headers) as (provider, server):
        await heard(provider, request(options={"temperature": 0}), streamed=False)
    assert server.requests[0].json()["temperature"] == 0


async def test_a_stream_that_stops_in_good_order_before_its_end_is_cut() -> None:
    """An answer without its last event is not an answer, however politely the server left."""
    far_end = streaming(start(), *block_events(0, {"type": "text", "text": "Once"}))
    async with talking_to(far_end) as (provider, _):
        with pytest.raises(ConnectionLostError):
            await heard(provider, request(), streamed=True)


@BOTH_WAYS
async def test_what_is_no_answer_is_malformed(streamed: bool) -> None:
    """A page of something else, with the status of a success, is not taken for an answer."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(
            200, "<html>Welcome to the hotel</html>", {"content-type": "text/html"}
        )

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(MalformedResponseError):
            await heard(provider, request(), streamed=streamed)


@BOTH_WAYS
async def test_what_cannot_be_unpacked_is_malformed(streamed: bool) -> None:
    """A body that is not packed as it says is malformed."""
    kind = "text/event-stream" if streamed else "application/json"

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, b"no gzip", {"content-type": kind, "content-encoding": "gzip"})

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(MalformedResponseError):
            await heard(provider, request(), streamed=streamed)


async def test_options_that_are_not_json() -> None:
    """An option that cannot be sent is the caller's to mend."""
    async with AnthropicWire().provider([]) as provider:
        for streamed in (False, True):
            with pytest.raises(UnsupportedError, match="JSON"):
                await heard(
                    provider, request(options={"metadata": {1, object()}}), streamed=streamed
                )
