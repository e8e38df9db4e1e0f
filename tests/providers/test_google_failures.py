"""What goes wrong at Gemini, or on the way there."""

from typing import Any

import pytest
from wires.answers import BOTH_WAYS, heard
from wires.google import (
    KEY,
    STREAM,
    GoogleWire,
    answering,
    chunk_body,
    error_body,
    event,
    retry_info,
    talking_to,
)
from wires.server import Exchange, Server

from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    ContentFilterError,
    ContextOverflowError,
    MalformedResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    UnsupportedError,
)
from hookline.providers import TextPiece
from hookline.providers.google import GoogleProvider
from hookline.state import InferenceRequest
from hookline.testing.wire import Failure, WireTurn

MODEL = GoogleWire.model
asking = GoogleWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


INVALID = "INVALID_ARGUMENT"
BAD_KEY = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
COMPLAINTS: list[tuple[int, str, str, Any, type[ModelError]]] = [
    (400, INVALID, "API key not valid.", BAD_KEY, AuthenticationError),
    (401, "UNAUTHENTICATED", "Invalid credentials.", (), AuthenticationError),
    (403, "PERMISSION_DENIED", "Not for you.", (), AuthenticationError),
    (404, "NOT_FOUND", "models/x is not found.", (), ModelNotFoundError),
    (429, "RESOURCE_EXHAUSTED", "Quota exceeded.", [retry_info(34.5)], RateLimitError),
    (503, "UNAVAILABLE", "The model is overloaded.", [retry_info(3)], OverloadedError),
    (504, "DEADLINE_EXCEEDED", "Took too long.", (), ModelTimeoutError),
    (400, INVALID, "The input token count (9) exceeds the maximum.", (), ContextOverflowError),
    (400, INVALID, "Request payload size exceeds the limit.", (), ContextOverflowError),
    (400, INVALID, "Image input modality is not enabled for x.", (), UnsupportedError),
    (400, "FAILED_PRECONDITION", "User location is not supported.", (), ModelError),
    (400, INVALID, "Invalid value at 'contents'.", (), ModelError),
    (500, "INTERNAL", "An internal error has occurred.", (), OverloadedError),
    (524, "", "A timeout occurred", (), OverloadedError),
]


@BOTH_WAYS
@pytest.mark.parametrize(("code", "status", "message", "details", "expected"), COMPLAINTS)
async def test_every_complaint_has_its_error_class(
    streamed: bool, code: int, status: str, message: str, details: Any, expected: type[ModelError]
) -> None:
    """What Google complains about is told apart, repeated in its words, and asked for once only."""
    body = error_body(code, status, message, details)
    async with Server(lambda exchange: exchange.reply(code, body)) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        with pytest.raises(ModelError) as caught:
            await heard(provider, asking(), streamed)
        await provider.aclose()
        assert len(server.requests) == 1
    assert type(caught.value) is expected
    assert message.rstrip(".") in caught.value.message
    assert caught.value.remedy.endswith(".")
    assert caught.value.__cause__ is caught.value.__context__ is None
    waits = {429: 34.5, 503: 3.0}
    assert getattr(caught.value, "retry_after", None) == waits.get(code)


async def test_a_proxy_may_say_in_a_header_how_long_to_wait() -> None:
    """Where the body does not say it, Retry-After is believed."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(429, "<html>slow down</html>", {"retry-after": "7"})

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(RateLimitError, match="slow down") as caught:
            await heard(provider, asking())
    assert caught.value.retry_after == 7


async def test_a_quota_of_the_day_does_not_come_back_in_seconds() -> None:
    """The remedy tells a used-up day from a busy minute."""
    violation = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject-FreeTier"}]}
    body = error_body(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", [violation])
    async with talking_to(lambda exchange: exchange.reply(429, body)) as (provider, _):
        with pytest.raises(RateLimitError, match="quota of the day"):
            await heard(provider, asking())


FINISHES: list[tuple[str, type[ModelError]]] = [
    ("SAFETY", ContentFilterError),
    ("RECITATION", ContentFilterError),
    ("PROHIBITED_CONTENT", ContentFilterError),
    ("SPII", ContentFilterError),
    ("MALFORMED_FUNCTION_CALL", MalformedResponseError),
    ("UNEXPECTED_TOOL_CALL", MalformedResponseError),
    ("OTHER", ModelError),
]


@BOTH_WAYS
@pytest.mark.parametrize(("reason", "expected"), FINISHES)
async def test_an_answer_that_was_not_finished_is_an_error(
    streamed: bool, reason: str, expected: type[ModelError]
) -> None:
    """The filter, and what the model itself got wrong, are told apart by the reason. The tokens are counted."""
    counts = {"promptTokenCount": 12, "candidatesTokenCount": 7}
    body = chunk_body([{"text": "Well, "}], reason, usageMetadata=counts)
    async with talking_to(answering(body)) as (provider, _):
        with pytest.raises(ModelError, match=reason) as caught:
            await heard(provider, asking(), streamed)
    assert type(caught.value) is expected
    used = caught.value.usage
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.requests) == (12, 7, 1)


@pytest.mark.filterwarnings("ignore:.*is not a valid FinishReason")
async def test_a_reason_of_tomorrow_is_an_error_too() -> None:
    """What is not known to be fine is not taken for an answer."""
    async with talking_to(answering(chunk_body([{"text": "Well, "}], "BORED"))) as (provider, _):
        with pytest.raises(ModelError, match="BORED"):
            await heard(provider, asking())


@BOTH_WAYS
async def test_a_blocked_prompt_is_a_content_filter(streamed: bool) -> None:
    """A prompt that never reached the model says so."""
    wire = GoogleWire()
    async with wire.provider([WireTurn(failure=Failure.CONTENT_FILTER)]) as provider:
        with pytest.raises(ContentFilterError, match=r"the prompt .*PROHIBITED_CONTENT"):
            await heard(provider, asking(), streamed)


async def test_an_error_in_the_middle_of_a_stream_has_its_class() -> None:
    """A model may be overloaded after it began to speak."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, STREAM)
        await exchange.send(event(chunk_body([{"text": "Well, "}])))
        await exchange.send(event(error_body(503, "UNAVAILABLE", "Overloaded.", [retry_info(2)])))
        await exchange.end()

    async with talking_to(far_end) as (provider, _):
        pieces = provider.ask(asking(), streamed=True)
        assert await anext(pieces) == TextPiece("Well, ")
        with pytest.raises(OverloadedError) as caught:
            await anext(pieces)
    assert caught.value.retry_after == 2


@BOTH_WAYS
async def test_a_connection_cut_in_mid_answer_is_lost(streamed: bool) -> None:
    """Half an answer is not an answer."""
    wire = GoogleWire()
    async with wire.provider([WireTurn("a longer text", failure=Failure.CUT)]) as provider:
        with pytest.raises(ConnectionLostError, match=r"127\.0\.0\.1.*closed the connection"):
            await heard(provider, asking(), streamed)


async def test_a_stream_that_ends_without_a_reason_is_lost() -> None:
    """A proxy that hangs up politely has still cut the answer off."""
    async with talking_to(answering(chunk_body([{"text": "Well, "}]))) as (provider, _):
        with pytest.raises(ConnectionLostError, match="before the answer was over"):
            await heard(provider, asking())


@BOTH_WAYS
@pytest.mark.parametrize(
    "body",
    [
        '{"candidates": [{"content": ',
        '{"candidates": {"content": "x"}}',
        '{"candidates": [{"content": {"parts": "x"}}]}',
        '{"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]}',
        '{"error": "boom"}',
    ],
)
async def test_garbage_is_told_from_an_answer(streamed: bool, body: str) -> None:
    """Whatever the client trips over becomes one error class."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, STREAM)
        await exchange.send(event(body) if streamed else body)
        await exchange.end()

    async with talking_to(far_end) as (provider, _):
        with pytest.raises(MalformedResponseError, match="google: "):
            await heard(provider, asking(), streamed)


async def test_an_answer_without_an_answer_is_malformed() -> None:
    """An empty body with status 200 has been seen."""
    async with talking_to(lambda exchange: exchange.reply(200, {})) as (provider, _):
        with pytest.raises(MalformedResponseError, match="holds no answer"):
            await heard(provider, asking(), streamed=False)


async def test_what_the_client_refuses_never_leaves() -> None:
    """A conversation without messages, and a name that is an address, are told before anything is sent."""
    async with Server(answering()) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        for request in (InferenceRequest(model=MODEL), asking().with_model("../files")):
            with pytest.raises(UnsupportedError, match="does not take this request"):
                await heard(provider, request)
        await provider.aclose()
        assert server.requests == []
