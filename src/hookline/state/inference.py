"""What a model is asked in one turn, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.state.calls import ToolCall
from hookline.state.frozen import EMPTY
from hookline.state.log import EMPTY_LOG
from hookline.state.messages import AssistantMessage, Message, Reasoning, ToolMessage
from hookline.state.usage import NO_USAGE, Usage


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments."""


class InferenceRequest(msgspec.Struct, frozen=True):
    """One question to a model. `str(request)` shows the text of its messages."""

    messages: Sequence[Message] = EMPTY_LOG
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    model: str = ""
    """Overrides the driver's model for this turn."""
    options: dict[str, Any] = EMPTY
    """Settings for the provider, such as temperature."""
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or the name of the one tool that must be called."""
    output_schema: dict[str, Any] | None = None
    """JSON schema of the answer, where text is not enough; needs a provider with structured output."""

    def with_messages(self, messages: Sequence[Message]) -> InferenceRequest:
        """This request with another conversation; state keeps its own."""
        return msgspec.structs.replace(self, messages=messages)

    def with_system(self, system: str) -> InferenceRequest:
        """This request with another system prompt."""
        return msgspec.structs.replace(self, system=system)

    def with_tools(self, tools: tuple[ToolSpec, ...]) -> InferenceRequest:
        """This request offering other tools."""
        return msgspec.structs.replace(self, tools=tools)

    def with_model(self, model: str) -> InferenceRequest:
        """This request to another model."""
        return msgspec.structs.replace(self, model=model)

    def with_tool_choice(self, tool_choice: str) -> InferenceRequest:
        """This request demanding a tool: `required`, or a tool's name; `none` demands that none is called."""
        return msgspec.structs.replace(self, tool_choice=tool_choice)

    def with_output_schema(self, schema: dict[str, Any] | None) -> InferenceRequest:
        """This request with another form of the answer."""
        return msgspec.structs.replace(self, output_schema=schema)

    def with_options(self, **options: Any) -> InferenceRequest:
        """This request with some provider settings changed."""
        return msgspec.structs.replace(self, options={**self.options, **options})

    def __str__(self) -> str:
        lines = [f"system: {self.system}"] if self.system else []
        return "\n".join([*lines, *(_line(message) for message in self.messages)])


class InferenceResponse(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A model's answer: text, tool calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    model: str = ""
    reasoning: tuple[Reasoning, ...] = ()
    finish: str = ""
    """Why the model stopped, when that is not obvious: `length` when it ran out of tokens."""

    def with_text(self, text: str) -> InferenceResponse:
        """This response saying something else."""
        return msgspec.structs.replace(self, text=text)

    def with_calls(self, *calls: ToolCall) -> InferenceResponse:
        """This response calling other tools."""
        return msgspec.structs.replace(self, calls=calls)


def _line(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        calls = " ".join(
            f"{call.name}({msgspec.json.encode(call.args).decode()})" for call in message.calls
        )
        return f"assistant: {' '.join(part for part in (message.text, calls) if part)}"
    if isinstance(message, ToolMessage):
        return f"tool {message.name}: {message.text}"
    return f"user: {message.text}"
