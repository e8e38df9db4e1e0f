"""How many tokens something is, as nearly as can be told without the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Message,
    ToolSpec,
    UserMessage,
)

Count: TypeAlias = Callable[[str], int]
"""How many tokens a text is."""
_OF_A_MESSAGE = 4
_OF_AN_IMAGE = 1_500
_CHARS_PER_TOKEN = 4


def by_characters(text: str) -> int:
    """A fourth of the characters, rounded up: near enough for most languages and models."""
    return -(-len(text) // _CHARS_PER_TOKEN)


class Sizes:
    """Sizes by one way of counting."""

    def __init__(self, count: Count) -> None:
        self._count = count

    def message(self, message: Message) -> int:
        """One message."""
        size = _OF_A_MESSAGE + self._count(message.text)
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                size += self._count(f"{call.name} {msgspec.json.encode(call.args).decode()}")
            for part in message.reasoning:
                size += self._count(part.text) + self._count(part.signature)
        elif isinstance(message, UserMessage):
            size += sum(self._attachment(each) for each in message.attachments)
        return size

    def messages(self, messages: Iterable[Message]) -> int:
        """Several."""
        return sum(map(self.message, messages))

    def fixed(self, request: InferenceRequest) -> int:
        """What is in every request whatever was said: the system prompt and the tools."""
        return self._count(request.system) + sum(map(self._tool, request.tools))

    def text(self, text: str) -> int:
        """A text by itself."""
        return self._count(text)

    def _tool(self, spec: ToolSpec) -> int:
        parameters = msgspec.json.encode(spec.parameters).decode()
        return self._count(f"{spec.name} {spec.description} {parameters}")

    def _attachment(self, attachment: Attachment) -> int:
        if attachment.is_image or not attachment.data:
            return _OF_AN_IMAGE
        if attachment.is_text:
            return self._count(attachment.text())
        return max(_OF_AN_IMAGE, len(attachment.data) * 3 // 4 // _CHARS_PER_TOKEN)
