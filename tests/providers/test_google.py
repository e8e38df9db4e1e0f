"""Answers of Gemini, over the wire as Google documents it."""

import asyncio
import base64
import json
from typing import Any

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
    retry_info,
    talking_to,
)
from wires.scripted import FarEnd
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
from hookline.providers import CallPiece, EndPiece, ReasoningPiece, TextPiece
from hookline.providers.google import GoogleProvider
from hookline.state import InferenceRequest, ToolSpec
from hookline.testing.wire import Failure, WireCall, WireTurn

MODEL = GoogleWire.model
asking = GoogleWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


@BOTH_WAYS
async def test_an_answer_is_text_with_its_usage_cost_and_model(streamed: bool) -> None:
    """Text comes in pieces when it is streamed, and the end has the cost."""
    wire = GoogleWire()
    async with wire.provider([WireTurn("Grüße aus Köln!", input_tokens=1000)]) as provider:
        *pieces, end = await heard(provider, asking(), streamed)
    assert text_of(pieces) == "Grüße aus Köln!"
    assert len(pieces) == (3 if streamed else 1)
    assert isinstance(end, EndPiece)
    assert (end.model, end.finish) == (MODEL, "")
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.requests) == (1000, 5, 1)
    assert end.usage.cost is not None
    assert end.usage.cost > 0


@BOTH_WAYS
async def test_a_request_is_written_as_google_documents_it(streamed: bool) -> None:
    """Address, key, system instruction, options and tools are where the API looks for them.

    The client writes some names in snake case; Google's JSON takes both spellings.
    """
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
    request = asking(
        "1 + 1?", system="Be brief.", tools=(tool,), options={"temperature": 0.5, "top_k": 3}
    )
    async with Server(answering(chunk_body([{"text": "2"}], "STOP"))) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url, headers={"x-team": "blue"})
        await heard(provider, request, streamed)
        await provider.aclose()
        [sent] = server.requests
    verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    assert sent.path.partition("/models/")[2] == f"{MODEL}:{verb}"
    assert sent.headers["x-goog-api-key"] == KEY
    assert sent.headers["x-team"] == "blue"
    assert sent.json() == {
        "contents": [{"role": "user", "parts": [{"text": "1 + 1?"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "generationConfig": {"temperature": 0.5, "topK": 3},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "add",
                        "description": "Adds.",
                        "parameters_json_schema": dict(tool.parameters),
                    }
                ]
            }
        ],
    }


async def test_structured_output_is_asked_for_with_its_json_schema() -> None:
    """The schema of the answer goes out as it is."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wire = GoogleWire()
    async with wire.provider([WireTurn('{"n": 1}')]) as provider:
        await heard(provider, asking(output_schema=schema))
    assert wire.requests[0]["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }


@BOTH_WAYS
async def test_parallel_calls_come_with_ids_of_their_own(streamed: bool) -> None:
    """Gemini gives no ids: each call gets one that no other call of the conversation has."""
    calls = (WireCall("add", {"a": 1, "b": [None, {"c": "é"}]}), WireCall("add", {"a": 2}))
    wire = GoogleWire()
    async with wire.provider([WireTurn(calls=calls)]) as provider:
        pieces = await heard(provider, asking(), streamed)
    made = [piece for piece in pieces if isinstance(piece, CallPiece)]
    assert [(call.index, call.name, json.loads(call.arguments)) for call in made] == [
        (0, "add", {"a": 1, "b": [None, {"c": "é"}]}),
        (1, "add", {"a": 2}),
    ]
    assert all(call.id for call in made)
    assert made[0].id != made[1].id


@BOTH_WAYS
async def test_an_id_that_gemini_gives_is_kept(streamed: bool) -> None:
    """Newer models give calls an id, and want it back with the result."""
    call = {"functionCall": {"id": "theirs", "name": "add", "args": {}}}
    async with talking_to(answering(chunk_body([call], "STOP"))) as (provider, _):
        pieces = await heard(provider, asking(), streamed)
    assert CallPiece(0, "theirs", "add", "{}") in pieces


@BOTH_WAYS
async def test_thinking_is_reasoning_in_one_part(streamed: bool) -> None:
    """Chunks of one thought have one index, and are not the answer."""
    wire = GoogleWire()
    async with wire.provider([WireTurn("42", reasoning="Let me think about it.")]) as provider:
        pieces = await heard(provider, asking(), streamed)
    thoughts = [piece for piece in pieces if isinstance(piece, ReasoningPiece)]
    assert "".join(piece.text for piece in thoughts if piece.index == 0) == "Let me think about it."
    assert text_of(pieces) == "42"
    assert thoughts[-1].signature == base64.b64encode(b"sealed: Let me think about it.").decode()


async def test_usage_counts_thinking_as_output_and_knows_what_was_cached() -> None:
    """The prompt has what Google's own tools read in it, the output has the thinking in it."""
    counts = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "toolUsePromptTokenCount": 7,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 30,
    }
    answer = chunk_body([{"text": "yes"}], "STOP", usageMetadata=counts)
    async with talking_to(answering(answer)) as (provider, _):
        end = (await heard(provider, asking()))[-1]
    assert isinstance(end, EndPiece)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (107, 40)
    assert end.usage.cache_read_tokens == 60
    assert end.usage.unpriced_requests == 0


async def test_a_price_nobody_knows_is_unknown() -> None:
    """A model without a price is not a model that costs nothing."""
    answer = {**chunk_body([{"text": "yes"}], "STOP"), "modelVersion": "gemini-of-my-own"}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1}
    async with talking_to(answering({**answer, "usageMetadata": counts}, answer)) as (provider, _):
        ends = [(await heard(provider, asking()))[-1] for _ in range(2)]
    for end in ends:
        assert isinstance(end, EndPiece)
        assert (end.usage.cost, end.usage.unpriced_requests) == (None, 1)


@BOTH_WAYS
async def test_running_out_of_tokens_is_reported(streamed: bool) -> None:
    """An answer that was cut at its longest says so."""
    async with talking_to(answering(chunk_body([{"text": "and th"}], "MAX_TOKENS"))) as (
        provider,
        _,
    ):
        end = (await heard(provider, asking(), streamed))[-1]
    assert isinstance(end, EndPiece)
    assert end.finish == "length"


@BOTH_WAYS
async def test_an_answer_in_several_requests_is_one_answer(streamed: bool) -> None:
    """Gemini may hand out a long answer in instalments; each is asked for, and counted."""
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    first = chunk_body([{"text": "once "}], "CONTINUATION", usageMetadata=counts)
    first["candidates"][0]["continuationToken"] = base64.b64encode(b"more").decode()
    second = chunk_body([{"text": "upon a time"}], "STOP", usageMetadata=counts)
    async with Server(answering(first, second)) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        pieces = await heard(provider, asking(), streamed)
        await provider.aclose()
        sent = [request.json() for request in server.requests]
    assert text_of(pieces) == "once upon a time"
    end = pieces[-1]
    assert isinstance(end, EndPiece)
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.requests) == (20, 10, 2)
    assert "continuationToken" not in sent[0]
    assert base64.urlsafe_b64decode(sent[1]["continuationToken"]) == b"more"


async def test_an_answer_that_a_message_cannot_carry_is_refused() -> None:
    """A picture is not silently dropped."""
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    async with talking_to(answering(chunk_body([picture], "STOP"))) as (provider, _):
        with pytest.raises(UnsupportedError, match="'inline_data'"):
            await heard(provider, asking())


# --- how Gemini is reached and left: connections and keys ---------------------------------------------


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
        await asyncio.wait_for(server.hang_up.wait(), 60)
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
        await asyncio.wait_for(server.hang_up.wait(), 60)
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


# --- what goes wrong at Gemini, or on the way there ---------------------------------------------------


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
    """What Google complains about is distinguished, repeated in its words, and asked for once only."""
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
    """The remedy distinguishes a used-up day from a busy minute."""
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
    """The filter, and what the model itself got wrong, are distinguished by the reason. The tokens are counted."""
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
        with pytest.raises(ConnectionLostError, match="before the end of the answer"):
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
async def test_garbage_is_not_an_answer(streamed: bool, body: str) -> None:
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
        with pytest.raises(MalformedResponseError, match="has no answer"):
            await heard(provider, asking(), streamed=False)


async def test_what_the_client_refuses_never_leaves() -> None:
    """A conversation without messages, and a name that is an address, are reported before anything is sent."""
    async with Server(answering()) as server:
        provider = GoogleProvider(api_key=KEY, base_url=server.url)
        for request in (InferenceRequest(model=MODEL), asking().with_model("../files")):
            with pytest.raises(UnsupportedError, match="does not take this request"):
                await heard(provider, request)
        await provider.aclose()
        assert server.requests == []
