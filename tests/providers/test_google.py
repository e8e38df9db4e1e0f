"""Answers of Gemini, over the wire as Google documents it."""

import base64
import json

import pytest
from wires.answers import BOTH_WAYS, heard, text_of
from wires.google import KEY, GoogleWire, answering, chunk_body, talking_to
from wires.server import Server

from hookline.errors import UnsupportedError
from hookline.providers import CallPiece, EndPiece, ReasoningPiece
from hookline.providers.google import GoogleProvider
from hookline.state import ToolSpec
from hookline.testing.wire import WireCall, WireTurn

MODEL = GoogleWire.model
asking = GoogleWire.asking
pytestmark = pytest.mark.usefixtures("no_settings")


@BOTH_WAYS
async def test_an_answer_is_text_with_its_usage_cost_and_model(streamed: bool) -> None:
    """Text comes in pieces when it is streamed, and the end tells what it cost."""
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
async def test_running_out_of_tokens_is_told(streamed: bool) -> None:
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
