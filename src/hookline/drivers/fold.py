"""The pieces of an answer, folded into the answer, and handed on as they come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from hookline.drivers.base import Turn
from hookline.errors import ConnectionLostError, ModelError
from hookline.providers import CallPiece, EndPiece, Piece, Provider, ReasoningPiece, TextPiece
from hookline.state import InferenceRequest, InferenceResponse, Reasoning, ToolCall, Usage


async def ask(
    provider: Provider,
    request: InferenceRequest,
    turn: Turn,
    hear_text: Callable[[str], None] | None = None,
) -> InferenceResponse:
    """Ask a model and give its whole answer. `hear_text` takes the text as it comes; the turn does otherwise.

    Whatever ends this, the generator is closed, and with it the connection.
    """
    fold = Fold(turn, provider.name, hear_text or turn.emit_text)
    try:
        async with aclosing(provider.ask(request, streamed=turn.is_streamed)) as pieces:
            async for piece in pieces:
                fold.add(piece)
                await turn.keep_pace()
    except ModelError as error:
        if isinstance(error.usage, Usage):
            turn.charge(error.usage)
        raise
    return fold.response(request.model)


class Fold:
    """An answer in the making."""

    def __init__(self, turn: Turn, provider: str, hear_text: Callable[[str], None]) -> None:
        self._turn = turn
        self._provider = provider
        self._text = Letters(hear_text)
        self._reasoning: dict[int, _Thinking] = {}
        self._calls: dict[int, _Call] = {}
        self._end: EndPiece | None = None

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        if isinstance(piece, TextPiece):
            self._text.add(piece.text)
        elif isinstance(piece, CallPiece):
            self._add_call(piece)
        elif isinstance(piece, ReasoningPiece):
            self._add_reasoning(piece)
        else:
            self._end = piece

    def _add_call(self, piece: CallPiece) -> None:
        call = self._calls.get(piece.index)
        if call is None:
            call = self._calls[piece.index] = _Call(self._new_id(piece.id), piece.name)
        elif not call.name:
            call.name = piece.name
        call.arguments.append(piece.arguments)
        self._turn.emit_call(call.id, call.name, piece.arguments)

    def _new_id(self, given: str) -> str:
        """The id from the wire, or one of our own: a call without an id of its own cannot be answered."""
        taken = {call.id for call in self._calls.values()}
        if given and given not in taken:
            return given
        position = len(taken) + 1
        while (made := f"call_{len(self._turn.state.steps) + 1}_{position}") in taken:
            position += 1
        return made

    def _add_reasoning(self, piece: ReasoningPiece) -> None:
        part = self._reasoning.get(piece.index)
        if part is None:
            part = self._reasoning[piece.index] = _Thinking(self._turn.emit_reasoning)
        part.text.add(piece.text)
        part.signature += piece.signature
        part.kind = piece.kind or part.kind
        part.call_id = piece.call_id or part.call_id

    def response(self, model: str) -> InferenceResponse:
        """The whole answer. One that has no end was cut off."""
        if self._end is None:
            raise ConnectionLostError(
                f"the answer of '{self._provider}' broke off before its end.",
                remedy="Try again; the default error policy does so.",
            )
        return InferenceResponse(
            self._text.whole(),
            tuple(call.made() for call in self._calls.values()),
            self._end.usage,
            f"{self._provider}:{self._end.model or model}",
            tuple(part.made(self._provider) for part in self._reasoning.values()),
            self._end.finish,
        )


class _Call:
    """A call in the making."""

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.arguments: list[str] = []

    def made(self) -> ToolCall:
        return ToolCall.from_json(self.id, self.name, mended("".join(self.arguments)))


class _Thinking:
    """A part of the model's thinking in the making."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self.text = Letters(hear)
        self.signature = self.kind = self.call_id = ""

    def made(self, provider: str) -> Reasoning:
        return Reasoning(self.text.whole(), self.signature, provider, self.kind, self.call_id)


class Letters:
    """Text that comes in pieces, handed on in whole letters.

    JSON writes a letter beyond the first 65,536 as two halves, and a server may send them in two chunks.
    """

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._heard: list[str] = []
        self._half = ""

    def add(self, text: str) -> None:
        """Take more text; a half letter at its end waits for its other half."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        self._hand_on(text)

    def whole(self) -> str:
        """All of the text; nothing waits any more."""
        half, self._half = self._half, ""
        self._hand_on(half)
        return "".join(self._heard)

    def _hand_on(self, text: str) -> None:
        if text:
            text = mended(text)
            self._heard.append(text)
            self._hear(text)


def mended(text: str) -> str:
    """Text that UTF-8 can hold: halves of a letter are put together, and a half that is alone is replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
