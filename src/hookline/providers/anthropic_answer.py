"""An answer of the messages API, read into pieces as it arrives.

As much of the protocol as is used is checked here: the client builds its own objects without checking them. Kinds of
blocks, deltas and events that are not known here are ignored, as the protocol asks.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from hookline.errors import ContextOverflowError, MalformedResponseError, RefusalError
from hookline.providers.anthropic_request import REDACTED, Block
from hookline.providers.base import CallPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.failures import clean_text
from hookline.state import Usage

T = TypeVar("T")
_KIND_OF_DELTA = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""The kind of block that a delta belongs to."""
_REQUIRED = {
    "text": ("text",),
    REDACTED: ("data",),
    "tool_use": ("id", "name"),
    "text_delta": ("text",),
    "citations_delta": ("citation",),
    "input_json_delta": ("partial_json",),
    "message_start": ("message",),
    "content_block_start": ("content_block",),
    "content_block_delta": ("delta",),
    "message_delta": ("delta",),
}
"""The fields that a part of each kind must have."""


class _Content(msgspec.Struct):
    """A block, or a delta that adds to it."""

    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    partial_json: str = ""
    citation: Block | None = None

    @property
    def arguments(self) -> str:
        """The input as JSON text. Some servers send the text that the model wrote."""
        if isinstance(self.input, str):
            return self.input
        return json.dumps(self.input) if self.input else ""


class _Tokens(msgspec.Struct):
    """Counts as they are now; one that is missing is as it was."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class _Stop(msgspec.Struct):
    """Why the model stopped."""

    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Message(_Stop, kw_only=True):
    """A whole answer, or the empty one that a stream starts with."""

    model: str
    content: list[Block]
    usage: _Tokens = msgspec.field(default_factory=_Tokens)


class _Event(msgspec.Struct):
    """An event of a stream."""

    type: str
    index: int = 0
    message: _Message | None = None
    content_block: Block = {}
    delta: Block = {}
    usage: _Tokens = msgspec.field(default_factory=_Tokens)


class _BlockInParts:
    """A block while it arrives: as it started, and what was added to it since."""

    def __init__(self, raw: Block) -> None:
        self._raw = raw
        self.block = _convert(raw, _Content)
        self._added: list[_Content] = []

    def add(self, raw: Block) -> _Content | None:
        """A delta, if it fits here. Tools that the server runs itself are not known, and stream their input too."""
        delta = _convert(raw, _Content)
        kind = _KIND_OF_DELTA.get(delta.type)
        is_unknown = self.block.type not in ("text", "thinking", REDACTED, "tool_use")
        if kind == self.block.type or (kind == "tool_use" and is_unknown):
            self._added.append(delta)
            return delta
        return None

    def whole(self) -> Block:
        """The block as it would have come in one piece."""
        block: dict[str, Any] = dict(self._raw)
        inputs = []
        for delta in self._added:
            if delta.type == "input_json_delta":
                inputs.append(delta.partial_json)
            elif delta.type == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta.citation]
            elif delta.type == "text_delta":
                block["text"] += delta.text
            else:
                block["thinking"] = block.get("thinking", "") + delta.thinking
                block["signature"] = delta.signature or block.get("signature", "")
        if inputs:
            block["input"] = _decode("".join(inputs) or "{}", dict[str, Any])
        return block


class AnthropicAnswer:
    """One answer while it arrives. `first` is the index of its first block among the pieces."""

    def __init__(self, first: int = 0) -> None:
        self.model = ""
        self.is_over = False
        self._stop = _Stop()
        self._first = first
        self._blocks: dict[int, _BlockInParts] = {}
        self._counts: dict[str, int] = {}
        self._has_spoken = False
        self._late_thoughts: list[int] = []

    @property
    def next_index(self) -> int:
        """The index after its last block."""
        return self._first + max(self._blocks, default=-1) + 1

    @property
    def is_paused(self) -> bool:
        """Whether the server wants to continue from here: it does while it runs tools of its own."""
        return self._stop.stop_reason == "pause_turn" and bool(self._blocks)

    @property
    def finish(self) -> str:
        """Why the model stopped, unless it was done."""
        return {"max_tokens": "length", "pause_turn": "pause"}.get(self._stop.stop_reason or "", "")

    def read(self, content: bytes) -> list[Piece]:
        """The pieces of an answer that came whole."""
        message = _decode(content, _Message)
        self._open(message)
        self.is_over = True
        blocks = enumerate(message.content)
        return [piece for index, block in blocks for piece in self._begin(index, block)]

    def read_event(self, raw: object) -> list[Piece]:
        """The pieces in the next event of a stream."""
        event = _convert(raw, _Event)
        if event.message is not None and event.type == "message_start":
            self._open(event.message)
        elif event.type == "content_block_start":
            return self._begin(event.index, event.content_block)
        elif event.type == "content_block_delta":
            return self._add(event.index, event.delta)
        elif event.type == "message_delta":
            self._stop = _convert({"type": "stop", **event.delta}, _Stop)
            self._count(event.usage)
        elif event.type == "message_stop":
            self.is_over = True
        return []

    @property
    def is_counted(self) -> bool:
        """Whether the server has said what it uses."""
        return bool(self._counts)

    def usage(self) -> Usage:
        """What it used; input counts all that was read, cached or not."""
        written = self._counts.get("cache_creation_input_tokens", 0)
        read = self._counts.get("cache_read_input_tokens", 0)
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0) + written + read,
            output_tokens=self._counts.get("output_tokens", 0),
            requests=1,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )

    def check(self) -> None:
        """Refuse an answer that is none."""
        if self._stop.stop_reason == "refusal":
            details = self._stop.stop_details or _StopDetails()
            reasons = (reason for reason in (details.category, details.explanation) if reason)
            why = clean_text(": ".join(reasons)) or "it gave no reason"
            raise RefusalError(
                f"anthropic: {self.model} declined to answer ({why}).",
                remedy="Ask in other words, leave out what was refused, or use another model.",
            )
        if self._stop.stop_reason == "model_context_window_exceeded":
            raise ContextOverflowError(
                f"anthropic: the conversation and its answer are longer than {self.model} can hold.",
                remedy="Shorten the conversation, or have it summarised.",
            )

    def blocks(self) -> list[Block]:
        """Its blocks, to be sent back when the server wants to continue. Empty text would be refused."""
        whole = (block.whole() for _, block in sorted(self._blocks.items()))
        return [block for block in whole if block.get("text") != ""]

    def _open(self, message: _Message) -> None:
        self.model = message.model
        self._stop = message
        self._count(message.usage)

    def _count(self, tokens: _Tokens) -> None:
        counts = msgspec.structs.asdict(tokens)
        self._counts |= {name: count for name, count in counts.items() if count is not None}

    def _begin(self, position: int, raw: Block) -> list[Piece]:
        self._blocks[position] = _BlockInParts(raw)
        block, index = self._blocks[position].block, self._first + position
        if block.type in ("thinking", REDACTED):
            # Thinking after text or a call belongs to the call that follows, so that it can go back to its place.
            if self._has_spoken:
                self._late_thoughts.append(index)
            return [
                ReasoningPiece(index, block.thinking, block.signature or block.data, block.type)
            ]
        if block.type not in ("text", "tool_use"):
            return []
        self._has_spoken = True
        thoughts, self._late_thoughts = self._late_thoughts, []
        if block.type == "text":
            return [TextPiece(block.text)] if block.text else []
        led_here = [ReasoningPiece(thought, call_id=block.id) for thought in thoughts]
        return [*led_here, CallPiece(index, block.id, block.name, block.arguments)]

    def _add(self, position: int, raw: Block) -> list[Piece]:
        parts = self._blocks.get(position)
        if parts is None:
            raise _malformed(f"block {position} continues before it started")
        delta = parts.add(raw)
        if delta is None:
            return []
        index = self._first + position
        if delta.type in ("thinking_delta", "signature_delta"):
            return [ReasoningPiece(index, delta.thinking, delta.signature)]
        if delta.partial_json and parts.block.type == "tool_use":
            return [CallPiece(index, arguments=delta.partial_json)]
        return [TextPiece(delta.text)] if delta.text else []


def _decode(content: str | bytes, form: type[T]) -> T:
    """JSON in this form, or an error that says where it differs."""
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = str(error)
    raise _malformed(problem)


def _convert(part: object, form: type[T]) -> T:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise _malformed("a part of it does not say what it is")
    missing = [name for name in _REQUIRED.get(kind, ()) if name not in part]
    try:
        if not missing:
            # Of a kind that is not known, nothing is known about its fields.
            known = part if kind in _KINDS else {"type": kind}
            return msgspec.convert(known, form)
        problem = f"{kind} has no {missing[0]}"
    except msgspec.MsgspecError as error:
        problem = f"{kind}: {error}"
    raise _malformed(problem)


_KINDS = {*_REQUIRED, *_KIND_OF_DELTA, "thinking", "message_stop", "stop"}


def _malformed(problem: str) -> MalformedResponseError:
    return MalformedResponseError(
        f"anthropic: the answer is not what the protocol says: {clean_text(problem)}.",
        remedy="Try again, and check that base_url is a messages API.",
    )
