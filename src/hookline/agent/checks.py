"""Requests, responses and results that no conversation or journal can hold are refused, with what is wrong."""

from __future__ import annotations

import math
from typing import Any, TypeVar

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

S = TypeVar("S", bound=msgspec.Struct)
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
        model, text, finish = response.model, response.text, response.finish
        if type(model) is not str or type(text) is not str or type(finish) is not str:
            return False
        words = model + text + finish  # one look at all of them
        if calls:
            (call,) = calls
            if type(call) is not ToolCall or not call.id:
                return False
            id_, name, malformed = call.id, call.name, call.malformed
            if type(id_) is not str or type(name) is not str or type(malformed) is not str:
                return False
            words += id_ + name + malformed
        return words.isascii() and type(calls) is tuple
    except (AttributeError, TypeError, ValueError):
        return False


def check_response(response: object, who: str) -> InferenceResponse:
    """Refuse a response no conversation can hold, and say which part of it.

    Gives it with its calls in a tuple, and its words in plain text.
    """
    if not isinstance(response, InferenceResponse):
        raise TypeError(f"{who} gave {response!r} instead of an InferenceResponse.")
    response = _worded(response, ("text", "model", "finish"), "response", who)
    _check_usage(response.usage, who)
    given: object = response.calls
    calls = _parts(
        tuple(given) if isinstance(given, list) else given,
        ToolCall, ("id", "name", "malformed"), "response.calls", who,
    )  # fmt: skip
    _check_ids(calls, who)
    reasoning = _parts(
        response.reasoning, Reasoning, Reasoning.__struct_fields__, "response.reasoning", who
    )
    if calls is response.calls and reasoning is response.reasoning:
        return response
    return msgspec.structs.replace(response, calls=calls, reasoning=reasoning)


def _check_ids(calls: tuple[ToolCall, ...], who: str) -> None:
    """Refuse calls that cannot be told apart by their ids."""
    ids = set()
    for position, call in enumerate(calls):
        where = f"response.calls[{position}]"
        if not call.id:
            raise ValueError(f"{who} gave a call without an id ({where}).")
        if call.id in ids:
            raise ValueError(f"{who} gave two calls with the same id ({where}.id).")
        ids.add(call.id)


def _parts(
    parts: Any, kind: type[S], names: tuple[str, ...], where: str, who: str
) -> tuple[S, ...]:
    """A tuple of parts of a kind, the words of these names in plain text; refuses what is none."""
    _check_type(parts, tuple, where, who)
    worded = []
    for position, part in enumerate(parts):
        _check_type(part, kind, f"{where}[{position}]", who)
        worded.append(_worded(part, names, f"{where}[{position}]", who))
    is_same = all(new is old for new, old in zip(worded, parts, strict=True))
    return parts if is_same else tuple(worded)


def _worded(part: S, names: tuple[str, ...], where: str, who: str) -> S:
    """The part with the words of these names in plain text; refuses what is no text, or cannot be saved as it is."""
    plain = {}
    for name in names:
        value = getattr(part, name)
        _check_type(value, str, f"{where}.{name}", who)
        if type(value) is not str or not value.isascii():
            plain[name] = checked_text(value, f"{where}.{name} that {who} gave")
    is_same = all(getattr(part, name) is text for name, text in plain.items())
    return part if is_same else msgspec.structs.replace(part, **plain)


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
    result = _worded(result, ("call_id", "name", "reason", "decided_by"), "result", who)
    duration: object = result.duration
    if type(duration) not in (int, float) or not math.isfinite(result.duration):
        raise TypeError(f"{who} gave result.duration={duration!r}, which is not a number.")
    error = result.error
    if error is not None:
        _check_type(error, ErrorInfo, "result.error", who)
        worded = _worded(error, ErrorInfo.__struct_fields__, "result.error", who)
        if worded is not error:
            result = msgspec.structs.replace(result, error=worded)
    return result
