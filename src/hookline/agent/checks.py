"""Requests and responses that no conversation can hold are refused, with what is wrong about them."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from hookline.errors import HookError
from hookline.hooks import Entry
from hookline.state import (
    InferenceRequest,
    InferenceResponse,
    ToolCall,
    Usage,
    check_transcript,
    checked_text,
)


def check_request(entry: Entry, before: Any, request: object) -> None:
    """Refuse a request that is none, or whose conversation no model can be shown."""
    if not isinstance(request, InferenceRequest):
        raise HookError(entry.name, before.point, f"{request!r} is not an InferenceRequest.")
    if request.messages is not before.request.messages:
        check_transcript(request.messages)


def is_plain(response: Any) -> bool:
    """Whether nothing can be wrong with a response; says so at once for what models usually answer."""
    try:
        usage, calls = response.usage, response.calls
        given, made = usage.input_tokens, usage.output_tokens
        asked, unpriced = usage.requests, usage.unpriced_requests
        if not (type(given) is type(made) is type(asked) is type(unpriced) is int):
            return False
        if given | made | asked | unpriced < 0 or usage.cost is not None:
            return False  # one comparison for four: a negative one makes it negative
        words = response.model + response.text  # one look at all words: only text adds up to text
        if calls:
            (call,) = calls
            if type(call) is not ToolCall or not call.id:
                return False
            words = words + call.id + call.name
        if type(words) is not str or not words.isascii():
            return False
    except (AttributeError, TypeError, ValueError):
        return False
    return type(response) is InferenceResponse and type(calls) is tuple


def check_response(response: object, who: str) -> InferenceResponse:
    """Refuse a response no conversation can hold, and say which part of it; gives it with its calls in a tuple."""
    if not isinstance(response, InferenceResponse):
        raise TypeError(f"{who} gave {response!r} instead of an InferenceResponse.")
    for name in ("text", "model"):
        _check_type(getattr(response, name), str, f"response.{name}", who)
    if not response.text.isascii():
        checked_text(response.text, f"the text that {who} gave")
    _check_usage(response.usage, who)
    calls: object = response.calls
    if isinstance(calls, list):
        response = msgspec.structs.replace(response, calls=tuple(calls))
    _check_type(response.calls, tuple, "response.calls", who)
    ids = set()
    for position, call in enumerate(response.calls):
        where = f"response.calls[{position}]"
        _check_type(call, ToolCall, where, who)
        _check_type(call.id, str, f"{where}.id", who)
        _check_type(call.name, str, f"{where}.name", who)
        if not call.id:
            raise ValueError(f"{who} gave a call without an id ({where}).")
        if call.id in ids:
            raise ValueError(f"{who} gave two calls with the same id ({where}.id).")
        ids.add(call.id)
    return response


def _check_type(value: object, kind: type, where: str, who: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{who} gave {where}={value!r}, which is not a {kind.__name__}.")


def _check_usage(usage: Any, who: str) -> None:
    _check_type(usage, Usage, "response.usage", who)
    for name in ("input_tokens", "output_tokens", "requests", "unpriced_requests"):
        count = getattr(usage, name)
        if type(count) is not int or count < 0:
            raise ValueError(
                f"{who} gave response.usage.{name}={count!r}, which is not a whole number of at least zero."
            )
    cost = usage.cost
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if cost is not None and not (is_number and 0 <= cost < math.inf):
        raise ValueError(
            f"{who} gave response.usage.cost={cost!r}, which is not a finite number of at least zero."
        )
