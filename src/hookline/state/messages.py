"""The messages of a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

import msgspec

from hookline.errors import TranscriptError
from hookline.state.attachments import Attachment, make_plain
from hookline.state.calls import ResultStatus, ToolCall, ToolResult, result_text
from hookline.state.frozen import EMPTY, FrozenDict, checked_text, freeze_dict

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
