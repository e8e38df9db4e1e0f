"""Gemini's far end, scripted: `generateContent` and `streamGenerateContent` as Google documents them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from hookline.providers.google import GoogleProvider
from hookline.testing.wire import Failure, WireTurn
from wires.scripted import FarEnd, HTTPWire, served
from wires.server import Exchange, Server

KEY = "AIzaSy-only-a-test-0123456789"
STREAM = {"content-type": "text/event-stream"}

_TYPE = "type.googleapis.com/google.rpc."
_PIECE = 7
"""How many letters of text one chunk of a stream carries."""


def error_body(
    code: int, status: str, message: str, details: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """An error as Google's APIs write it."""
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = list(details)
    return {"error": error}


def retry_info(seconds: float) -> dict[str, Any]:
    """The detail that says how long to wait."""
    return {"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{seconds:g}s"}


def chunk_body(
    parts: Sequence[dict[str, Any]] = (), finish: str = "", **fields: Any
) -> dict[str, Any]:
    """One GenerateContentResponse: a whole answer, or one chunk of a stream."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": GoogleWire.model, **fields}


def event(body: object) -> str:
    """One event of a stream."""
    return f"data: {body if isinstance(body, str) else json.dumps(body)}\r\n\r\n"


_ERRORS = {
    Failure.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    Failure.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    Failure.CONTEXT_OVERFLOW: (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    Failure.BAD_KEY: (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    Failure.UNKNOWN_MODEL: (
        404,
        "NOT_FOUND",
        "models/nothing is not found for API version v1, or is not supported for generateContent.",
    ),
    Failure.SERVER_ERROR: (500, "INTERNAL", "An internal error has occurred."),
}


class GoogleWire(HTTPWire[GoogleProvider]):
    """Plays turns as Gemini would: calls come whole and without an id, text in pieces, usage with every chunk."""

    model = "gemini-2.5-flash"
    marks_failed_calls = True
    failures = frozenset(Failure) - {Failure.REFUSAL}

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The bodies that arrived; the model is named in the path."""
        arrived = self._server.requests if self._server else []
        return [{"path": request.path, **request.json()} for request in arrived]

    def _connect(self, url: str, timeout: float) -> GoogleProvider:
        return GoogleProvider(api_key=KEY, base_url=url, timeout=timeout)

    async def _play(self, exchange: Exchange, turn: WireTurn) -> None:
        if turn.failure in _ERRORS:
            return await exchange.reply(_ERRORS[turn.failure][0], _error(turn))
        if turn.failure in (Failure.SILENCE, Failure.TIMEOUT):
            await exchange.until_hung_up()
        if ":streamGenerateContent?alt=sse" in exchange.request.path:
            return await self._stream(exchange, turn)
        return await self._whole(exchange, turn)

    async def _whole(self, exchange: Exchange, turn: WireTurn) -> None:
        body = _blocked() if turn.failure is Failure.CONTENT_FILTER else self._answer(turn)
        if turn.failure is Failure.MALFORMED:
            return await exchange.reply(200, '{"candidates": [{"content": ')
        if turn.failure is not Failure.CUT:
            return await exchange.reply(200, body)
        await exchange.begin(200, {"content-type": "application/json"})
        await exchange.send(json.dumps(body)[:40])
        return exchange.cut()

    async def _stream(self, exchange: Exchange, turn: WireTurn) -> None:
        await exchange.begin(200, STREAM)
        if turn.failure is Failure.CONTENT_FILTER:
            await exchange.send(event(_blocked()))
            return await exchange.end()
        *first, last = [[part] for part in _parts(turn, _PIECE)] or [[]]
        for parts in first:
            await exchange.send(event(chunk_body(parts, **self._frame(turn))), size=64)
        if turn.failure is Failure.CUT:
            await exchange.send(event(chunk_body(last))[:30])
            return exchange.cut()
        if turn.failure is Failure.MALFORMED:
            await exchange.send(event('{"candidates": [{"content": '))
            return await exchange.end()
        await exchange.send(event(chunk_body(last, _finish(turn), **self._frame(turn))), size=64)
        return await exchange.end()

    def _answer(self, turn: WireTurn) -> dict[str, Any]:
        return chunk_body(list(_parts(turn)), _finish(turn), **self._frame(turn))

    def _frame(self, turn: WireTurn) -> dict[str, Any]:
        total = turn.input_tokens + turn.output_tokens
        counts = {
            "promptTokenCount": turn.input_tokens,
            "candidatesTokenCount": turn.output_tokens,
            "totalTokenCount": total,
        }
        return {"usageMetadata": counts, "responseId": f"answer{len(self.requests)}"}


def talking_to(
    far_end: FarEnd, **settings: Any
) -> AbstractAsyncContextManager[tuple[GoogleProvider, Server]]:
    """A provider whose Gemini is this function, and that Gemini."""
    return served(GoogleProvider, far_end, **{"api_key": KEY, **settings})


def answering(*bodies: dict[str, Any]) -> FarEnd:
    """Answers request after request with these, each whole or as the one event of a stream."""
    script = iter(bodies)

    async def far_end(exchange: Exchange) -> None:
        body = next(script)
        if "streamGenerateContent" not in exchange.request.path:
            return await exchange.reply(200, body)
        await exchange.begin(200, STREAM)
        await exchange.send(event(body), size=0)
        return await exchange.end()

    return far_end


def _parts(turn: WireTurn, size: int = 0) -> Iterator[dict[str, Any]]:
    """Thinking, text, calls. Gemini seals the first call of an answer it thought about, or the end of its text."""
    seal = {"thoughtSignature": base64.b64encode(b"sealed: " + turn.reasoning.encode()).decode()}
    for thought in _cut(turn.reasoning, size):
        yield {"text": thought, "thought": True}
    for text in _cut(turn.text, size):
        yield {"text": text}
    if turn.reasoning and not turn.calls:
        yield {"text": "", **seal}
    for number, call in enumerate(turn.calls):
        if not call.raw:
            part: dict[str, Any] = {"functionCall": {"name": call.name, "args": dict(call.args)}}
            yield {**part, **seal} if turn.reasoning and number == 0 else part


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size or len(text) or 1):
        yield text[start : start + (size or len(text))]


def _finish(turn: WireTurn) -> str:
    return "MALFORMED_FUNCTION_CALL" if any(call.raw for call in turn.calls) else "STOP"


def _blocked() -> dict[str, Any]:
    return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}


def _error(turn: WireTurn) -> dict[str, Any]:
    assert turn.failure is not None
    details: list[dict[str, Any]] = []
    if turn.failure is Failure.BAD_KEY:
        reason = {"reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        details.append({"@type": f"{_TYPE}ErrorInfo", **reason})
    if turn.retry_after is not None:
        details.append(retry_info(turn.retry_after))
    return error_body(*_ERRORS[turn.failure], details)
