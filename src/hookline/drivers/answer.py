"""The pieces of an answer, put together, and passed on as they come."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import aclosing, suppress

from hookline.drivers.base import Turn
from hookline.errors import ConnectionLostError, ModelError, ProviderToolError
from hookline.providers import (
    CallPiece,
    EndPiece,
    Piece,
    Provider,
    ProviderToolPiece,
    ReasoningPiece,
    TextPiece,
)
from hookline.providers.json_text import LetterStream, join_halves
from hookline.state import (
    InferenceRequest,
    InferenceResponse,
    ProviderToolUse,
    Reasoning,
    ToolCall,
    Usage,
)


async def ask(
    provider: Provider,
    request: InferenceRequest,
    turn: Turn,
    emit_text: Callable[[str], None] | None = None,
) -> InferenceResponse:
    """Ask a model; its whole answer. `emit_text` takes the text as it comes, in place of the turn.

    Whatever ends this, the generator is closed, and with it the connection.
    """
    builder = _AnswerBuilder(turn, provider.name, request, emit_text or turn.emit_text)
    try:
        async with aclosing(provider.ask(request, streamed=turn.is_streamed)) as pieces:
            async for piece in pieces:
                try:
                    builder.add(piece)
                    await turn.keep_pace()
                except (ModelError, CancelledError) as error:
                    with suppress(StopAsyncIteration):
                        await pieces.athrow(error)  # closing it would not say what it has used
                    raise
    except (ModelError, CancelledError) as error:
        usage = getattr(error, "usage", None)
        if isinstance(usage, Usage):
            turn.charge(usage)
        elif isinstance(error, CancelledError):
            turn.charge(Usage(requests=1, unpriced_requests=1))  # nobody said what it costs
        raise
    return builder.response(request.model)


class _AnswerBuilder:
    def __init__(
        self,
        turn: Turn,
        provider: str,
        request: InferenceRequest,
        emit_text: Callable[[str], None],
    ) -> None:
        self._turn = turn
        self._allowed = request.provider_tools
        self._provider_tools: dict[int, ProviderToolUse] = {}
        self._provider = provider
        self._text = LetterStream(emit_text)
        self._reasoning: dict[int, _ReasoningBuilder] = {}
        self._calls: dict[int, _CallBuilder] = {}
        self._end: EndPiece | None = None

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        if isinstance(piece, TextPiece):
            self._text.add(piece.text)
        elif isinstance(piece, CallPiece):
            self._add_call(piece)
        elif isinstance(piece, ReasoningPiece):
            self._add_reasoning(piece)
        elif isinstance(piece, ProviderToolPiece):
            if piece.name not in self._allowed:
                problem = "the answer has used"
                raise ProviderToolError(self._provider, piece.name, problem, self._allowed)
            use = ProviderToolUse(name=piece.name, data=piece.data, provider=self._provider)
            self._provider_tools[piece.index] = use
        else:
            self._end = piece

    def _add_call(self, piece: CallPiece) -> None:
        call = self._calls.get(piece.index)
        if call is None:
            call = self._calls[piece.index] = _CallBuilder(self._new_id(piece.id), piece.name)
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
            part = self._reasoning[piece.index] = _ReasoningBuilder(self._turn.emit_reasoning)
        part.text.add(piece.text)
        part.signature += piece.signature
        part.kind = piece.kind or part.kind
        part.call_id = piece.call_id or part.call_id

    def response(self, model: str) -> InferenceResponse:
        """The whole answer. One that has no end was cut off."""
        if self._end is None:
            raise ConnectionLostError(
                f"the answer of '{self._provider}' ended too early.",
                remedy="Try again; the default error policy does so.",
            )
        return InferenceResponse(
            text=self._text.finish(),
            calls=tuple(call.build() for call in self._calls.values()),
            usage=self._end.usage,
            model=f"{self._provider}:{self._end.model or model}",
            reasoning=tuple(part.build(self._provider) for part in self._reasoning.values()),
            finish=self._end.finish,
            provider_tool_uses=tuple(self._provider_tools.values()),
        )


class _CallBuilder:
    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.arguments: list[str] = []

    def build(self) -> ToolCall:
        return ToolCall.from_json(self.id, self.name, join_halves("".join(self.arguments)))


class _ReasoningBuilder:
    def __init__(self, emit: Callable[[str], None]) -> None:
        self.text = LetterStream(emit)
        self.signature = self.kind = self.call_id = ""

    def build(self, provider: str) -> Reasoning:
        return Reasoning(
            text=self.text.finish(),
            signature=self.signature,
            provider=provider,
            kind=self.kind,
            call_id=self.call_id,
        )
