"""What a model is asked in one turn, what it answers, and what that has used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.state.calls import ToolCall
from hookline.state.frozen import EMPTY
from hookline.state.log import EMPTY_LOG
from hookline.state.messages import (
    AssistantMessage,
    Message,
    ProviderToolUse,
    Reasoning,
    ToolMessage,
)


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens, model calls and cost. A cost nobody knows is None, never zero."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    unpriced_requests: int = 0
    """Model calls in this sum whose price is unknown: `cost` does not cover them."""
    cache_read_tokens: int = 0
    """Of the input tokens: those the provider had in its cache."""
    cache_write_tokens: int = 0
    """Of the input tokens: those it put there."""

    @property
    def total_tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    @property
    def uncached_tokens(self) -> int:
        """Tokens in and out, without those the provider had in its cache: what the token limit counts."""
        return self.input_tokens + self.output_tokens - self.cache_read_tokens

    def problem(self) -> str:
        """What is wrong with it: tokens that are not a number, a cost below zero. Empty if nothing is."""
        for name in _COUNTS:
            count = getattr(self, name)
            if type(count) is not int or count < 0:
                return f"{name}={count!r}, which is not a whole number of at least zero"
        cost = self.cost
        is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if cost is not None and not (is_number and 0 <= cost < math.inf):
            return f"cost={cost!r}, which is not a finite number of at least zero"
        return ""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            requests=self.requests + other.requests,
            cost=other.cost if self.cost is None else self.cost + (other.cost or 0.0),
            unpriced_requests=self.unpriced_requests + other.unpriced_requests,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        """What was used since `other`, which is an earlier state of this sum."""
        return Usage(
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            requests=self.requests - other.requests,
            cost=None if self.cost is None else self.cost - (other.cost or 0.0),
            unpriced_requests=self.unpriced_requests - other.unpriced_requests,
            cache_read_tokens=self.cache_read_tokens - other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - other.cache_write_tokens,
        )


_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "cost")
NO_USAGE = Usage()


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
    provider_tools: tuple[str, ...] = ()
    """Tools that the provider may run itself, such as `web_search`. A hook can take names out, and add none."""

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

    def with_provider_tools(self, *names: str) -> InferenceRequest:
        """This request allowing the provider only these tools of its own. The options still have to name them."""
        return msgspec.structs.replace(self, provider_tools=names)

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
    provider_tool_uses: tuple[ProviderToolUse, ...] = ()
    """Tools that the provider ran itself."""

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
