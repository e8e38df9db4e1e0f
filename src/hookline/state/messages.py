"""The messages of a conversation."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import msgspec

from hookline.errors import TranscriptError, UsageError
from hookline.state.calls import ResultStatus, ToolCall, ToolResult
from hookline.state.frozen import checked_text, valid_text

T = TypeVar("T")
_OK = ResultStatus.OK
_TEXTS = ("application/json", "application/xml", "application/yaml", "application/toml")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class Attachment(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An image or a document that goes with a message: its bytes (as base64), or where they are."""

    media_type: str
    data: str = ""
    """The content as base64. Empty when there is a `url`."""
    url: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _make_plain(self, self.__struct_fields__)
        problem = _problem(self)
        if problem:
            raise UsageError(
                f"the attachment '{self.name or self.media_type}' {problem}.",
                remedy="Make it with Attachment.from_bytes(content, media_type), or give its url.",
            )

    @classmethod
    def from_bytes(cls, content: bytes, media_type: str, name: str = "") -> Attachment:
        """An attachment that carries its content."""
        data = base64.b64encode(content).decode()
        return cls(media_type=media_type, data=data, name=name)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Attachment:
        """The content of a file. The media type is guessed from its name."""
        from mimetypes import guess_type  # reads tables of the system: only when somebody asks

        media_type, _ = guess_type(os.fspath(path))
        if media_type is None:
            raise UsageError(
                f"the media type of '{os.fspath(path)}' cannot be guessed from its name.",
                remedy="Use Attachment.from_bytes(content, media_type).",
            )
        with open(path, "rb") as file:
            name = valid_text(os.path.basename(path))  # a file's name may be any bytes
            return cls.from_bytes(file.read(), media_type, name)

    @property
    def is_image(self) -> bool:
        """Whether it is a picture; everything else is a document."""
        return self.media_type.startswith("image/")

    @property
    def is_text(self) -> bool:
        """Whether it is a document of plain text, however that is marked up."""
        return self.media_type.startswith("text/") or self.media_type in _TEXTS

    def content(self) -> bytes:
        """The bytes it carries."""
        return base64.b64decode(self.data)

    def text(self) -> str:
        """The bytes it carries, read as UTF-8; invalid bytes are replaced."""
        return self.content().decode(errors="replace")


def _make_plain(part: msgspec.Struct, names: tuple[str, ...]) -> None:
    """Make subclasses of str (markup, for example) plain text, which can be sent and saved."""
    for name in names:
        value = getattr(part, name)
        if type(value) is not str and isinstance(value, str):
            msgspec.structs.force_setattr(part, name, str.__str__(value))


def _problem(attachment: Attachment) -> str:
    """What is wrong with an attachment that no model could be given."""
    for name in attachment.__struct_fields__:
        if not isinstance(getattr(attachment, name), str):
            return f"has a {name} that is not text"
        if not getattr(attachment, name).isascii():
            checked_text(getattr(attachment, name), f"the {name} of an attachment")
    if not attachment.media_type:
        return "does not say of what type it is"
    if not attachment.data and not attachment.url:
        return "has neither content nor an address"
    if len(attachment.data) % 4 or not _BASE64.fullmatch(attachment.data):
        return "has data that is not base64"
    return ""


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


class UserMessage(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="user"
):
    """What a person said, or what a hook says to the model (`by` is then the hook's name)."""

    text: str
    by: str = ""
    attachments: tuple[Attachment, ...] = ()

    def __post_init__(self) -> None:
        _make_plain(self, ("text", "by"))

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

    @property
    def role(self) -> str:
        """Who speaks."""
        return "tool"


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def tool_message(result: ToolResult, limit: int | None = None) -> ToolMessage:
    """The message for a result; text over `limit` characters is cut, and the note says what is missing."""
    value, status = result.result, result.status
    text = value if status is _OK and type(value) is str else result.text()
    if limit is not None and len(text) > limit:
        text = (
            f"{text[:limit]}\n[cut here: {limit:,} of {len(text):,} characters are shown; "
            f"the whole result of call {result.call_id} is in the run's journal]"
        )
    return ToolMessage(
        call_id=result.call_id, name=result.name, text=text, is_error=status is not _OK
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
    elif isinstance(message, UserMessage):
        words = (message.text, message.by)
        _check_each(message.attachments, Attachment)
    elif isinstance(message, ToolMessage):
        words = (message.call_id, message.name, message.text)
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
