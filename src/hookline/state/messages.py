"""The messages of a conversation; what a model is asked in one turn, what it answers, and what that has used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from hookline.errors import TranscriptError
from hookline.state.calls import (
    Attachment,
    ResultStatus,
    ToolCall,
    ToolResult,
    make_plain,
    result_text,
)
from hookline.state.frozen import EMPTY, EMPTY_LOG, FrozenDict, checked_text, freeze_dict

T = TypeVar("T")
_OK = ResultStatus.OK


class Reasoning(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a model's thinking, kept so that it can be sent back to the provider that needs it.

    `text` is what may be read; `signature` is the provider's own seal or its encrypted form, sent back as it came.
    """

    text: str = ""
    signature: str = ""
    provider: str = ""
    """Whose it is. Another provider is not sent it."""
    kind: str = ""
    """What the provider calls this part, where it has several kinds."""
    call_id: str = ""
    """The call this part belongs to, where a provider seals single calls."""


class ProviderToolUse(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a provider says of a tool that it ran itself within an answer: a call, a result, or both.

    It has run when the answer comes, so `before_tool_use` hooks do not see it.
    """

    name: str
    """As the agent allowed it: `web_search`."""
    data: dict[str, Any] = EMPTY
    """In the provider's own form. It is sent back to that provider with the conversation, as far as it takes it."""
    provider: str = ""

    def __post_init__(self) -> None:
        if type(self.data) is not FrozenDict:
            data = freeze_dict(self.data, f"what the provider says of '{self.name}'")
            msgspec.structs.force_setattr(self, "data", data)


class UserMessage(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="user"
):
    """What a person said, or what a hook says to the model (`by` is then the hook's name)."""

    text: str
    by: str = ""
    attachments: tuple[Attachment, ...] = ()

    def __post_init__(self) -> None:
        make_plain(self, ("text", "by"))

    @property
    def role(self) -> str:
        """Who speaks."""
        return "user"


class AssistantMessage(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"
):
    """What the model said and which tools it called."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    provider_tool_uses: tuple[ProviderToolUse, ...] = ()

    @property
    def role(self) -> str:
        """Who speaks."""
        return "assistant"


class ToolMessage(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="tool"
):
    """The one result of one call, as the model reads it."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()

    @property
    def role(self) -> str:
        """Who speaks."""
        return "tool"


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def tool_message(result: ToolResult, limit: int | None = None) -> ToolMessage:
    """The message for a result; text over `limit` characters is cut, and the note says what is missing."""
    value, status = result.result, result.status
    text = value if status is _OK and type(value) is str else result_text(result)
    if limit is not None and len(text) > limit:
        text = (
            f"{text[:limit]}\n[cut here: {limit:,} of {len(text):,} characters are shown; "
            f"the whole result of call {result.call_id} is in the run's journal]"
        )
    return ToolMessage(
        call_id=result.call_id,
        name=result.name,
        text=text,
        is_error=status is not _OK,
        attachments=result.attachments if status is _OK else (),
    )


def check_transcript(messages: Iterable[Message]) -> None:
    """Refuse a conversation with a call without its one result, a result without its call, or other parts."""
    open_calls: dict[str, str] = {}
    for message in messages:
        _check_parts(message)
        if isinstance(message, ToolMessage):
            if open_calls.pop(message.call_id, None) is None:
                raise TranscriptError(
                    f"the result of call '{message.call_id}' ({message.name}) does not follow its call, "
                    "or is its second result."
                )
            continue
        _refuse_open(open_calls)
        if isinstance(message, AssistantMessage):
            open_calls = {call.id: call.name for call in message.calls}
            if len(open_calls) != len(message.calls):
                raise TranscriptError("two calls of one message have the same id.")
    _refuse_open(open_calls)


def _check_parts(message: object) -> None:
    """Refuse what is not a message, and a message that could not be read back."""
    if isinstance(message, AssistantMessage):
        words: tuple[object, ...] = (message.text,)
        for call in _check_each(message.calls, ToolCall):
            words += (call.id, call.name, call.malformed)
        for part in _check_each(message.reasoning, Reasoning):
            words += (part.text, part.signature, part.provider, part.kind, part.call_id)
        for use in _check_each(message.provider_tool_uses, ProviderToolUse):
            words += (use.name, use.provider)
    elif isinstance(message, UserMessage):
        words = (message.text, message.by)
        _check_each(message.attachments, Attachment)
    elif isinstance(message, ToolMessage):
        words = (message.call_id, message.name, message.text)
        _check_each(message.attachments, Attachment)
        if type(message.is_error) is not bool:
            raise TranscriptError(
                f"is_error={message.is_error!r} of a message is neither True nor False."
            )
    else:
        raise TranscriptError(
            f"{message!r} is not a message.",
            remedy="A conversation consists of UserMessage, AssistantMessage and ToolMessage.",
        )
    for word in words:
        if not isinstance(word, str):
            raise TranscriptError(
                f"a message has {word!r} where there should be text: {message!r}."
            )
        if not word.isascii():
            checked_text(word, f"what a message of the {message.role} says")


def _check_each(parts: tuple[T, ...], kind: type[T]) -> tuple[T, ...]:
    """The parts of a message, if they are a tuple of this kind."""
    if not isinstance(parts, tuple) or not all(isinstance(part, kind) for part in parts):
        raise TranscriptError(
            f"a message has {parts!r} where there should be a tuple of {kind.__name__}."
        )
    return parts


def _refuse_open(open_calls: dict[str, str]) -> None:
    for call_id, name in open_calls.items():
        raise TranscriptError(
            f"call '{call_id}' ({name}) has no result.",
            remedy="Keep each call together with its result when you change messages.",
        )


# --- one turn with a model -------------------------------------------------------------------------


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
