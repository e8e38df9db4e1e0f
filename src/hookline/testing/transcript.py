"""A conversation as plain tuples: easy to read, easy to compare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from hookline.state import AssistantMessage, Message, ToolMessage, thaw

Line: TypeAlias = tuple[Any, ...]
"""`("user", text)`, `("assistant", text, (tool, args), ...)` or `("tool", name, text)`."""


def transcript(messages: Iterable[Message]) -> list[Line]:
    """Each message as one tuple, without ids: the same conversation always reads the same."""
    return [_line(message) for message in messages]


def _line(message: Message) -> Line:
    if isinstance(message, AssistantMessage):
        made = tuple((call.name, thaw(call.args)) for call in message.calls)
        return ("assistant", message.text, *made)
    if isinstance(message, ToolMessage):
        return ("tool", message.name, message.text)
    return ("user", message.text)
