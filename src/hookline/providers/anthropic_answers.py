"""An answer of the messages API, read into pieces as it arrives."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.errors import ContextOverflowError, RefusalError
from hookline.providers.anthropic_events import (
    AnyBlock,
    BlockDelta,
    BlockStart,
    CallBlock,
    CitationDelta,
    InputDelta,
    Message,
    MessageDelta,
    MessageStart,
    MessageStop,
    RedactedBlock,
    Stop,
    StopDetails,
    TextBlock,
    ThinkingBlock,
    Tokens,
    decoded,
    malformed,
    read_block,
    read_delta,
    read_event,
    read_message,
)
from hookline.providers.anthropic_messages import REDACTED, Block
from hookline.providers.base import CallPiece, Piece, ReasoningPiece, TextPiece
from hookline.providers.failures import said
from hookline.state import Usage


class _Part:
    """A block while it arrives: as it began, and what was added to it since."""

    def __init__(self, raw: Block) -> None:
        self.raw = raw
        self.block: AnyBlock | None = read_block(raw)
        self.added: list[TextBlock | ThinkingBlock | InputDelta | CitationDelta] = []

    def takes(self, delta: object) -> bool:
        """Whether a delta fits here. Tools that the far end runs itself are not known, and stream their input too."""
        if isinstance(delta, InputDelta):
            return self.block is None or isinstance(self.block, CallBlock)
        if isinstance(delta, CitationDelta):
            return isinstance(self.block, TextBlock)
        return delta is not None and type(delta) is type(self.block)

    def whole(self) -> Block:
        """The block as it would have come in one piece."""
        block: dict[str, Any] = dict(self.raw)
        inputs = []
        for delta in self.added:
            match delta:
                case InputDelta(partial_json=text):
                    inputs.append(text)
                case CitationDelta(citation=citation):
                    block["citations"] = [*(block.get("citations") or ()), citation]
                case TextBlock(text=text):
                    block["text"] += text
                case ThinkingBlock(thinking=text, signature=signature):
                    block["thinking"] = block.get("thinking", "") + text
                    block["signature"] = signature or block.get("signature", "")
        if inputs:
            block["input"] = decoded("".join(inputs) or "{}", dict[str, Any])
        return block


class Answer:
    """One answer while it arrives. `first` is the index its first block gets among the pieces."""

    def __init__(self, first: int = 0) -> None:
        self.model = ""
        self.stop = Stop()
        self.is_over = False
        self._first = first
        self._parts: dict[int, _Part] = {}
        self._counts: dict[str, int] = {}
        self._has_spoken = False
        self._late_thoughts: list[int] = []

    @property
    def next_index(self) -> int:
        """The index after its last block."""
        return self._first + max(self._parts, default=-1) + 1

    @property
    def is_paused(self) -> bool:
        """Whether the far end wants to go on from here: it does while it runs tools of its own."""
        return self.stop.stop_reason == "pause_turn" and bool(self._parts)

    @property
    def finish(self) -> str:
        """Why the model stopped, when that is not plain."""
        return {"max_tokens": "length", "pause_turn": "pause"}.get(self.stop.stop_reason or "", "")

    def read(self, content: bytes) -> list[Piece]:
        """The pieces of an answer that came whole."""
        message = read_message(content)
        self._open(message)
        self.is_over = True
        starts = (BlockStart(index, block) for index, block in enumerate(message.content))
        return [piece for start in starts for piece in self._begin(start)]

    def read_event(self, event: object) -> list[Piece]:
        """The pieces in the next event of a stream."""
        match read_event(event):
            case MessageStart(message=message):
                self._open(message)
            case BlockStart() as start:
                return self._begin(start)
            case BlockDelta() as more:
                return self._add(more)
            case MessageDelta(delta=stop, usage=tokens):
                self.stop = stop
                self._count(tokens)
            case MessageStop():
                self.is_over = True
        return []

    @property
    def is_counted(self) -> bool:
        """Whether the far end has said what it uses."""
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
        if self.stop.stop_reason == "refusal":
            details = self.stop.stop_details or StopDetails()
            reasons = (reason for reason in (details.category, details.explanation) if reason)
            why = said(": ".join(reasons)) or "it gave no reason"
            raise RefusalError(
                f"anthropic: {self.model} declined to answer ({why}).",
                remedy="Ask in other words, leave out what was refused, or use another model.",
            )
        if self.stop.stop_reason == "model_context_window_exceeded":
            raise ContextOverflowError(
                f"anthropic: the conversation and its answer are longer than {self.model} can hold.",
                remedy="Shorten the conversation, or have it summarised.",
            )

    def blocks(self) -> list[Block]:
        """Its blocks, to be sent back when the far end wants to go on from there. Empty text is refused."""
        whole = (part.whole() for _, part in sorted(self._parts.items()))
        return [block for block in whole if block.get("text") != ""]

    def _open(self, message: Message) -> None:
        self.model = message.model
        self.stop = message
        self._count(message.usage)

    def _count(self, tokens: Tokens) -> None:
        counts = msgspec.structs.asdict(tokens)
        self._counts |= {name: count for name, count in counts.items() if count is not None}

    def _begin(self, start: BlockStart) -> list[Piece]:
        part = self._parts[start.index] = _Part(start.content_block)
        index = self._first + start.index
        match part.block:
            case TextBlock(text=text):
                self._late_thoughts.clear()
                self._has_spoken = True
                return [TextPiece(text)] if text else []
            case ThinkingBlock(thinking=text, signature=signature):
                self._think(index)
                return [ReasoningPiece(index, text, signature, "thinking")]
            case RedactedBlock(data=data):
                self._think(index)
                return [ReasoningPiece(index, "", data, REDACTED)]
            case CallBlock(id=call_id, name=name) as call:
                led_here = [ReasoningPiece(late, call_id=call_id) for late in self._late_thoughts]
                self._late_thoughts.clear()
                self._has_spoken = True
                return [*led_here, CallPiece(index, call_id, name, call.arguments())]
        return []

    def _think(self, index: int) -> None:
        """Thinking after text or a call belongs to the call that follows, so that it can go back to its place."""
        if self._has_spoken:
            self._late_thoughts.append(index)

    def _add(self, more: BlockDelta) -> list[Piece]:
        part = self._parts.get(more.index)
        if part is None:
            raise malformed(f"block {more.index} goes on before it began")
        delta = read_delta(more.delta)
        if delta is None or not part.takes(delta):
            return []
        part.added.append(delta)
        index = self._first + more.index
        match delta:
            case TextBlock(text=text):
                return [TextPiece(text)] if text else []
            case ThinkingBlock(thinking=text, signature=signature):
                return [ReasoningPiece(index, text, signature)]
            case InputDelta(partial_json=text):
                return [CallPiece(index, arguments=text)] if text and part.block else []
        return []
