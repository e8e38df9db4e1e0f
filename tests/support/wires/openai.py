"""A far end that speaks OpenAI's chat-completions protocol as it is documented, and plays the turns of a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from hookline.providers.openai import OpenAIProvider
from hookline.testing.wire import Failure, WireCall, WireTurn
from wires.scripted import FarEnd, HTTPWire, pieces, served, wait_header
from wires.server import Exchange, Server

KEY = "sk-wire-0123456789abcdef"
"""The key the provider is given. It must turn up in no error, log or record."""
SSE = {"content-type": "text/event-stream"}

_COMPLAINTS: dict[Failure, tuple[int, dict[str, Any]]] = {
    Failure.RATE_LIMIT: (
        429,
        {
            "message": "Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): "
            "Limit 3, Used 3, Requested 1.",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        },
    ),
    Failure.OVERLOADED: (
        503,
        {
            "message": "The engine is currently overloaded, please try again later.",
            "type": "server_error",
            "param": None,
            "code": None,
        },
    ),
    Failure.CONTEXT_OVERFLOW: (
        400,
        {
            "message": "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130000 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    ),
    Failure.BAD_KEY: (
        401,
        {
            "message": f"Incorrect API key provided: {KEY}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        },
    ),
    Failure.UNKNOWN_MODEL: (
        404,
        {
            "message": "The model `gpt-4o` does not exist or you do not have access to it.",
            "type": "invalid_request_error",
            "param": None,
            "code": "model_not_found",
        },
    ),
    Failure.SERVER_ERROR: (
        500,
        {
            "message": "The server had an error while processing your request. Sorry about that!",
            "type": "server_error",
            "param": None,
            "code": None,
        },
    ),
}


class OpenAIWire(HTTPWire[OpenAIProvider]):
    """OpenAI's far end for the conformance suite."""

    model = "gpt-4o"
    """A model that OpenAI has, and that has a price."""

    def _connect(self, url: str, timeout: float) -> OpenAIProvider:
        return OpenAIProvider(api_key=KEY, base_url=f"{url}/v1", timeout=timeout)

    async def _play(self, exchange: Exchange, turn: WireTurn) -> None:
        assert exchange.request.path == "/v1/chat/completions"
        body = exchange.request.json()
        if turn.failure in _COMPLAINTS:
            status, complaint = _COMPLAINTS[turn.failure]
            await exchange.reply(status, {"error": complaint}, wait_header(turn))
        elif turn.failure in (Failure.SILENCE, Failure.TIMEOUT):
            await exchange.until_hung_up()
        elif body.get("stream"):
            await _play_stream(exchange, turn, body)
        else:
            await _play_whole(exchange, turn, body["model"])


def talking_to(
    far_end: FarEnd, **settings: Any
) -> AbstractAsyncContextManager[tuple[OpenAIProvider, Server]]:
    """A provider without a key whose far end is this function, and that far end."""
    return served(OpenAIProvider, far_end, path="/v1", **settings)


def streaming(*sent: dict[str, Any] | str | bytes, size: int = 5) -> FarEnd:
    """A far end that sends these, as events or as they are, in chunks of `size` bytes."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, SSE)
        for each in sent:
            await exchange.send(event(each) if isinstance(each, dict) else each, size=size)
        await exchange.end()

    return far_end


async def _play_whole(exchange: Exchange, turn: WireTurn, model: str) -> None:
    if turn.failure is Failure.MALFORMED:
        await exchange.reply(200, '{"choices": [{"message": ', {"content-type": "application/json"})
        return
    answer = json.dumps(completion(turn, model))
    if turn.failure is Failure.CUT:
        await exchange.begin(200, {"content-type": "application/json"})
        await exchange.send(answer[: len(answer) // 2])
        exchange.cut()
    else:
        await exchange.reply(200, answer, {"content-type": "application/json"})


async def _play_stream(exchange: Exchange, turn: WireTurn, body: dict[str, Any]) -> None:
    await exchange.begin(200, {"content-type": "text/event-stream; charset=utf-8"})
    events = list(deltas(turn))
    if turn.failure in (Failure.CUT, Failure.MALFORMED):
        events = events[: max(1, len(events) // 2)]
    for delta in events:
        await exchange.send(event(chunk(delta, body["model"])))
    if turn.failure is Failure.CUT:
        exchange.cut()
        return
    if turn.failure is Failure.MALFORMED:
        await exchange.send('data: {"choices": [{"delta": \n\n')
    else:
        await exchange.send(event(chunk({}, body["model"], finish_reason(turn))))
        if (body.get("stream_options") or {}).get("include_usage"):
            last = {**chunk({}, body["model"]), "choices": [], "usage": usage(turn)}
            await exchange.send(event(last))
        await exchange.send("data: [DONE]\n\n")
    await exchange.end()


def completion(turn: WireTurn, model: str) -> dict[str, Any]:
    """The whole answer."""
    is_refusal = turn.failure is Failure.REFUSAL
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if is_refusal else turn.text or None,
        "refusal": turn.text or "I cannot help with that." if is_refusal else None,
    }
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [_call(call, number) for number, call in enumerate(turn.calls)]
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(turn)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": model,
        "choices": [{**choice, "logprobs": None}],
        "usage": usage(turn),
        "system_fingerprint": "fp_1",
    }


def deltas(turn: WireTurn) -> Iterator[dict[str, Any]]:
    """What the chunks of a stream add to the message, one after the other."""
    yield {"role": "assistant", "content": "", "refusal": None}
    for piece in pieces(turn.reasoning):
        yield {"reasoning_content": piece}
    if turn.failure is Failure.REFUSAL:
        for piece in pieces(turn.text or "I cannot help with that."):
            yield {"refusal": piece}
    else:
        for piece in pieces(turn.text):
            yield {"content": piece}
    for number, call in enumerate(turn.calls):
        whole = _call(call, number)
        arguments = whole["function"]["arguments"]
        whole["function"]["arguments"] = ""
        yield {"tool_calls": [{"index": number, **whole}]}
        for piece in pieces(arguments):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def chunk(delta: dict[str, Any], model: str, finish: str | None = None) -> dict[str, Any]:
    """One chunk of a stream."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": model,
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
    }


def event(data: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def usage(turn: WireTurn) -> dict[str, Any]:
    """The token counts of an answer."""
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def finish_reason(turn: WireTurn) -> str:
    """Why the model stopped."""
    if turn.failure is Failure.CONTENT_FILTER:
        return "content_filter"
    return "tool_calls" if turn.calls else "stop"


def _call(call: WireCall, number: int) -> dict[str, Any]:
    arguments = call.raw or json.dumps(call.args)
    function = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}
