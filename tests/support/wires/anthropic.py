"""A far end that speaks Anthropic's messages protocol as it is documented, and plays the turns of a test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from hookline.providers.anthropic import AnthropicProvider
from hookline.testing.wire import Failure, WireCall, WireTurn
from wires.anthropic_rules import objection
from wires.scripted import FarEnd, HTTPWire, pieces, served, wait_header
from wires.server import Exchange, Server

KEY = "sk-ant-wire-0123456789abcdef"
"""The key the provider is given. It must turn up in no error, log or record."""
JSON = {"content-type": "application/json", "request-id": "req_wire"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8", "request-id": "req_wire"}

_COMPLAINTS = {
    Failure.RATE_LIMIT: (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute.",
    ),
    Failure.OVERLOADED: (529, "overloaded_error", "Overloaded"),
    Failure.CONTENT_FILTER: (
        400,
        "invalid_request_error",
        "Output blocked by content filtering policy",
    ),
    Failure.CONTEXT_OVERFLOW: (
        400,
        "invalid_request_error",
        "prompt is too long: 208310 tokens > 200000 maximum",
    ),
    Failure.BAD_KEY: (401, "authentication_error", f"invalid bearer token {KEY}"),
    Failure.UNKNOWN_MODEL: (404, "not_found_error", "model: claude-sonnet-4-5"),
    Failure.SERVER_ERROR: (500, "api_error", "Internal server error"),
}


class AnthropicWire(HTTPWire[AnthropicProvider]):
    """Anthropic's far end for the conformance suite."""

    model = "claude-sonnet-4-5"
    """A model that Anthropic has, and that has a price."""
    marks_failed_calls = True

    def _connect(self, url: str, timeout: float) -> AnthropicProvider:
        return AnthropicProvider(api_key=KEY, base_url=url, timeout=timeout)

    async def _play(self, exchange: Exchange, turn: WireTurn) -> None:
        body = exchange.request.json()
        if objected := objection(exchange.request):
            await exchange.reply(400, error_body("invalid_request_error", objected))
        elif turn.failure in _COMPLAINTS:
            status, kind, message = _COMPLAINTS[turn.failure]
            await exchange.reply(status, error_body(kind, message), wait_header(turn))
        elif turn.failure in (Failure.SILENCE, Failure.TIMEOUT):
            await exchange.until_hung_up()
        elif body.get("stream"):
            await _play_stream(exchange, turn, body["model"])
        else:
            await _play_whole(exchange, turn, body["model"])


def talking_to(
    far_end: FarEnd, **settings: Any
) -> AbstractAsyncContextManager[tuple[AnthropicProvider, Server]]:
    """A provider whose far end is this function, and that far end."""
    return served(AnthropicProvider, far_end, **{"api_key": KEY, **settings})


def streaming(*sent: dict[str, Any]) -> FarEnd:
    """A far end that sends these events."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, EVENTS)
        for each in sent:
            await exchange.send(event(each), size=0)
        await exchange.end()

    return far_end


def start(**usage: int) -> dict[str, Any]:
    """The first event of a stream."""
    message = {"type": "message", "model": AnthropicWire.model, "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def ending(reason: str, **usage: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last events of a stream."""
    delta = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    return delta, {"type": "message_stop"}


async def _play_whole(exchange: Exchange, turn: WireTurn, model: str) -> None:
    if turn.failure is Failure.MALFORMED:
        await exchange.reply(200, '{"type": "message", "content": [{"type": ', JSON)
        return
    answer = json.dumps(message_body(blocks(turn), model, turn))
    if turn.failure is Failure.CUT:
        await exchange.begin(200, JSON)
        await exchange.send(answer[: len(answer) // 2])
        exchange.cut()
    else:
        await exchange.reply(200, answer, JSON)


async def _play_stream(exchange: Exchange, turn: WireTurn, model: str) -> None:
    await exchange.begin(200, EVENTS)
    sent = list(events(turn, model))
    if turn.failure in (Failure.CUT, Failure.MALFORMED):
        sent = sent[: len(sent) // 2]
    for data in sent:
        await exchange.send(event(data))
    if turn.failure is Failure.CUT:
        exchange.cut()
        return
    if turn.failure is Failure.MALFORMED:
        await exchange.send(
            'event: content_block_delta\ndata: {"type": "content_block_delta", \n\n'
        )
    await exchange.end()


def events(turn: WireTurn, model: str) -> Iterator[dict[str, Any]]:
    """The events of a stream, one after the other."""
    start = {**message_body([], model, turn), "stop_reason": None, "stop_details": None}
    start["usage"] = {**start["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(blocks(turn)):
        yield from block_events(index, block)
    ending = {"stop_sequence": None, **stop(turn)}
    yield {
        "type": "message_delta",
        "delta": ending,
        "usage": {"output_tokens": turn.output_tokens},
    }
    yield {"type": "message_stop"}


def block_events(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of one block: it begins empty, and grows."""
    empty = {**block}
    deltas: list[dict[str, Any]] = []
    match block["type"]:
        case "text":
            empty["text"] = ""
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        case "thinking":
            empty |= {"thinking": "", "signature": ""}
            thoughts = pieces(block["thinking"])
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thoughts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use" | "server_tool_use":
            empty["input"] = {}
            args = block["input"]
            text = args if isinstance(args, str) else json.dumps(args)
            written = ["", *pieces(text)] if args else [""]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def blocks(turn: WireTurn) -> list[dict[str, Any]]:
    """The content of an answer."""
    content: list[dict[str, Any]] = []
    if turn.reasoning:
        content.append(
            {"type": "thinking", "thinking": turn.reasoning, "signature": "c2VhbGVk+/=="}
        )
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    return [*content, *(_call(call, number) for number, call in enumerate(turn.calls))]


def message_body(content: Sequence[dict[str, Any]], model: str, turn: WireTurn) -> dict[str, Any]:
    """A whole answer with this content."""
    return {
        "id": "msg_wire",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(content),
        "stop_sequence": None,
        **stop(turn),
        "usage": {
            "input_tokens": turn.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": turn.output_tokens,
            "service_tier": "standard",
        },
    }


def stop(turn: WireTurn) -> dict[str, Any]:
    """Why the model stopped."""
    if turn.failure is Failure.REFUSAL:
        details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
        return {"stop_reason": "refusal", "stop_details": details}
    return {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_details": None}


def error_body(kind: str, message: str) -> dict[str, Any]:
    """An error, as a body or as an event."""
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": "req_wire"}


def event(data: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _call(call: WireCall, number: int) -> dict[str, Any]:
    args = call.raw or call.args
    return {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": args}
