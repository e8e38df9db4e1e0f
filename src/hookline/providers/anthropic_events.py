"""The forms in which the messages API answers: as much of them as is used, checked as they come in.

The client builds its own objects without checking them. Kinds of blocks, deltas and events that are not known
here are passed over, as the protocol asks.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias, TypeVar

import msgspec

from hookline.errors import MalformedResponseError
from hookline.providers.anthropic_messages import REDACTED, Block

T = TypeVar("T")


class TextBlock(msgspec.Struct):
    """Text, or the next piece of it."""

    text: str


class ThinkingBlock(msgspec.Struct):
    """Thinking and its seal, or the next piece of either."""

    thinking: str = ""
    signature: str = ""


class RedactedBlock(msgspec.Struct):
    """Thinking that only the provider can read."""

    data: str


class CallBlock(msgspec.Struct):
    """A call. In a stream it begins with an empty input; some servers hand over what the model wrote, as text."""

    id: str
    name: str
    input: Any = None

    def arguments(self) -> str:
        """The input as JSON text."""
        if isinstance(self.input, str):
            return self.input
        return json.dumps(self.input) if self.input else ""


class InputDelta(msgspec.Struct):
    """The next piece of a call's input."""

    partial_json: str


class CitationDelta(msgspec.Struct):
    """A source of the text so far."""

    citation: Block


class Tokens(msgspec.Struct):
    """Counts as they stand now; what is left out stands as it was."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class StopDetails(msgspec.Struct):
    """Why an answer was refused."""

    category: str | None = None
    explanation: str | None = None


class Stop(msgspec.Struct):
    """Why the model stopped."""

    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class Message(Stop, kw_only=True):
    """A whole answer, or the empty one that a stream begins with."""

    model: str
    content: list[Block]
    usage: Tokens = msgspec.field(default_factory=Tokens)


class MessageStart(msgspec.Struct):
    """The first event of a stream."""

    message: Message


class BlockStart(msgspec.Struct):
    """A block begins."""

    index: int
    content_block: Block


class BlockDelta(msgspec.Struct):
    """A block goes on."""

    index: int
    delta: Block


class MessageDelta(msgspec.Struct):
    """The answer's end is known."""

    delta: Stop
    usage: Tokens = msgspec.field(default_factory=Tokens)


class MessageStop(msgspec.Struct):
    """The last event."""


AnyBlock: TypeAlias = TextBlock | ThinkingBlock | RedactedBlock | CallBlock
AnyDelta: TypeAlias = TextBlock | ThinkingBlock | InputDelta | CitationDelta
AnyEvent: TypeAlias = MessageStart | BlockStart | BlockDelta | MessageDelta | MessageStop

_BLOCKS: dict[str, type[AnyBlock]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    REDACTED: RedactedBlock,
    "tool_use": CallBlock,
}
_DELTAS: dict[str, type[AnyDelta]] = {
    "text_delta": TextBlock,
    "thinking_delta": ThinkingBlock,
    "signature_delta": ThinkingBlock,
    "input_json_delta": InputDelta,
    "citations_delta": CitationDelta,
}
_EVENTS: dict[str, type[AnyEvent]] = {
    "message_start": MessageStart,
    "content_block_start": BlockStart,
    "content_block_delta": BlockDelta,
    "message_delta": MessageDelta,
    "message_stop": MessageStop,
}


def read_message(content: bytes) -> Message:
    """An answer that came whole."""
    return decoded(content, Message)


def read_event(event: object) -> AnyEvent | None:
    """An event of a stream; None when its kind is not known."""
    return _converted(event, _EVENTS)


def read_block(block: Block) -> AnyBlock | None:
    """A block as it begins; None when its kind is not known."""
    return _converted(block, _BLOCKS)


def read_delta(delta: Block) -> AnyDelta | None:
    """A piece of a block; None when its kind is not known."""
    return _converted(delta, _DELTAS)


def decoded(content: str | bytes, form: type[T]) -> T:
    """JSON in this form, or an error that says where it departs from it."""
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = str(error)
    raise malformed(problem)


def _converted(part: object, forms: dict[str, type[T]]) -> T | None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise malformed("a part of it does not say what it is")
    form = forms.get(kind)
    if form is None:
        return None
    try:
        return msgspec.convert(part, form)
    except msgspec.MsgspecError as error:
        problem = f"{kind}: {error}"
    raise malformed(problem)


def malformed(problem: str) -> MalformedResponseError:
    """The error for an answer that is not in form."""
    return MalformedResponseError(
        f"anthropic: the answer is not what the protocol says: {problem}.",
        remedy="Try again, and check that base_url is a messages API.",
    )
