"""What was said, as attributes: messages in the form of the conventions, and everything redacted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hookline.redaction import Redactor
from hookline.state import AssistantMessage, Message, ToolCall, ToolMessage, thaw

_redactor = Redactor()
"""What an agent redacts itself is not in its records. This is for agents that redact nothing."""


def as_json(value: Any) -> str:
    """A value as JSON without secrets. What is found by its name is known from then on, in any text."""
    given = thaw(value)
    cleaned = _redactor.value(given)
    if cleaned is not given:
        _redactor.learn(given, cleaned)
        cleaned = _redactor.value(given)
    return msgspec.json.encode(cleaned).decode()


def as_text(text: str) -> str:
    """A text without secrets."""
    return _redactor.text(text)


def messages_as_json(messages: Iterable[Message]) -> str:
    """Messages of a conversation."""
    return as_json([_message(each) for each in messages])


def message_as_json(role: str, text: str, calls: Iterable[ToolCall] = (), finish: str = "") -> str:
    """One message."""
    message = {"role": role, "parts": _parts(text, calls)}
    return as_json([{**message, "finish_reason": finish} if finish else message])


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        part = {"type": "tool_call_response", "id": message.call_id, "response": message.text}
        return {"role": "tool", "parts": [part]}
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return {"role": message.role, "parts": _parts(message.text, calls)}


def _parts(text: str, calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    for call in calls:
        args = call.malformed or call.args
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": args})
    return parts
