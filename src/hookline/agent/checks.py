"""Requests, responses and results that no conversation or journal can hold are refused, with what is wrong."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from hookline.errors import HookError
from hookline.hooks import Entry
from hookline.state import (
    ErrorInfo,
    InferenceRequest,
    InferenceResponse,
    Reasoning,
    ResultStatus,
    ToolCall,
    ToolResult,
    Usage,
    check_transcript,
    checked_text,
)

_STATUSES = tuple(status.value for status in ResultStatus)
_ZERO = 0
"""Compared by identity: what is not this very zero (False, 0.0) is looked at more closely."""


def check_request(entry: Entry, before: Any, request: object) -> None:
    """Refuse a request that is none, or whose conversation no model can be shown."""
    if not isinstance(request, InferenceRequest):
        raise HookError(entry.name, before.point, f"{request!r} is not an InferenceRequest.")
    if request.messages is not before.request.messages:
        check_transcript(request.messages)
    tools = () if request.tools is before.request.tools else request.tools
    try:
        fields = msgspec.structs.replace(request, messages=(), tools=tools)
        msgspec.convert(msgspec.to_builtins(fields, enc_hook=repr), InferenceRequest)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise HookError(
            entry.name, before.point, f"it made a request of which a part is not what it should be: {error}.",
            remedy="Derive it with request.with_system(...), .with_options(...) and so on.",
        ) from error  # fmt: skip


def is_plain(response: Any) -> bool:
    """Whether nothing can be wrong with a response; says so at once for what models usually answer."""
    if type(response) is not InferenceResponse:
        return False
    try:
        usage, calls = response.usage, response.calls
        given, made, asked = usage.input_tokens, usage.output_tokens, usage.requests
        if type(given) is not int or type(made) is not int or type(asked) is not int:
            return False
        if given | made | asked < 0 or usage.cost is not None:
            return False  # one comparison for three: a negative one makes it negative
        if usage.unpriced_requests is not _ZERO or usage.cache_read_tokens is not _ZERO:
            return False
        if usage.cache_write_tokens is not _ZERO or response.reasoning:
            return False
        # One look at all words: only text adds up to text.
        words = response.model + response.text + response.finish
        if calls:
            (call,) = calls
            if type(call) is not ToolCall or not call.id:
                return False
            words += call.id + call.name + call.malformed
        return type(words) is str and words.isascii() and type(calls) is tuple
    except (AttributeError, TypeError, ValueError):
        return False


def check_response(response: object, who: str) -> InferenceResponse:
    """Refuse a response no conversation can hold, and say which part of it; gives it with its calls in a tuple."""
    if not isinstance(response, InferenceResponse):
        raise TypeError(f"{who} gave {response!r} instead of an InferenceResponse.")
    for name in ("text", "model", "finish"):
        _check_type(getattr(response, name), str, f"response.{name}", who)
    if not response.text.isascii():
        checked_text(response.text, f"the text that {who} gave")
    _check_usage(response.usage, who)
    calls: object = response.calls
    if isinstance(calls, list):
        response = msgspec.structs.replace(response, calls=tuple(calls))
    _check_type(response.calls, tuple, "response.calls", who)
    _check_parts(response.reasoning, Reasoning, "response.reasoning", who)
    ids = set()
    for position, call in enumerate(response.calls):
        where = f"response.calls[{position}]"
        _check_type(call, ToolCall, where, who)
        _check_type(call.id, str, f"{where}.id", who)
        _check_type(call.name, str, f"{where}.name", who)
        _check_type(call.malformed, str, f"{where}.malformed", who)
        if not call.id:
            raise ValueError(f"{who} gave a call without an id ({where}).")
        if call.id in ids:
            raise ValueError(f"{who} gave two calls with the same id ({where}.id).")
        ids.add(call.id)
    return response


def _check_parts(parts: Any, kind: type, where: str, who: str) -> None:
    """Refuse what is no tuple of a kind that is made of text."""
    _check_type(parts, tuple, where, who)
    for position, part in enumerate(parts):
        _check_type(part, kind, f"{where}[{position}]", who)
        for name in part.__struct_fields__:
            _check_type(getattr(part, name), str, f"{where}[{position}].{name}", who)


def _check_type(value: object, kind: type, where: str, who: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{who} gave {where}={value!r}, which is not a {kind.__name__}.")


def _check_usage(usage: Any, who: str) -> None:
    _check_type(usage, Usage, "response.usage", who)
    if problem := usage.problem():
        raise ValueError(f"{who} gave response.usage.{problem}.")


# --- what comes of a tool ---------------------------------------------------------------------------


def check_result(result: ToolResult, who: str) -> ToolResult:
    """Refuse a result that could not be read back from a journal; gives it with its status as what it names."""
    status: object = result.status
    if type(status) is not ResultStatus:
        if not isinstance(status, str) or status not in _STATUSES:
            known = ", ".join(_STATUSES)
            raise TypeError(f"{who} gave result.status={status!r}. It is one of: {known}.")
        result = msgspec.structs.replace(result, status=ResultStatus(status))
    for name in ("call_id", "name", "reason", "decided_by"):
        _check_type(getattr(result, name), str, f"result.{name}", who)
    duration: object = result.duration
    if type(duration) not in (int, float) or not math.isfinite(result.duration):
        raise TypeError(f"{who} gave result.duration={duration!r}, which is not a number.")
    error: object = result.error
    if error is not None:
        _check_type(error, ErrorInfo, "result.error", who)
        for name in ErrorInfo.__struct_fields__:
            _check_type(getattr(error, name), str, f"result.error.{name}", who)
    return result
