"""A scripted completion engine under the local provider: it writes what a model would, without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hookline.errors import (
    ContextOverflowError,
    ModelError,
    ModelNotFoundError,
    OverloadedError,
)
from hookline.providers.local import Chunk, Completion, Done, LocalProvider
from hookline.providers.local.engine import CompletionEngine
from hookline.testing.wire import Failure, WireCall, WireTurn

_RAISED: dict[Failure, ModelError] = {
    Failure.CONTEXT_OVERFLOW: ContextOverflowError("too long.", remedy="Shorten it."),
    Failure.UNKNOWN_MODEL: ModelNotFoundError("there is no such file.", remedy="Give another."),
    Failure.SERVER_ERROR: OverloadedError("the model failed.", remedy="Try again."),
}
_LETTERS = 3
"""How much one chunk holds."""


class ScriptedEngine:
    """Plays one turn per completion, in the form that the grammar asks for."""

    def __init__(self, turns: Sequence[WireTurn] = ()) -> None:
        self.completions: list[Completion] = []
        self.hung_up = False
        self._turns = iter(turns)

    async def complete(self, completion: Completion) -> AsyncGenerator[Chunk | Done, None]:
        """Play the next turn."""
        self.completions.append(completion)
        turn = next(self._turns, None)
        assert turn is not None, "the provider asked more often than the script has turns"
        if turn.failure in _RAISED:
            raise _RAISED[turn.failure]
        is_over = False
        try:
            if turn.failure is Failure.SILENCE:
                await asyncio.Event().wait()
            for piece in pieces(written(turn, completion)):
                yield Chunk(piece)
            is_over = True
            yield Done(turn.input_tokens, turn.output_tokens)
        finally:
            self.hung_up = self.hung_up or not is_over

    async def aclose(self) -> None:
        """There is nothing to give back."""


class _Overheard(LocalProvider):
    """Writes down which model an engine was wanted for: there is one engine for all."""

    def __init__(self, engine: ScriptedEngine, models: list[str]) -> None:
        super().__init__(engine=engine)
        self._models = models

    async def _engine_for(self, model: str) -> CompletionEngine:
        self._models.append(model)
        return await super()._engine_for(model)


class LocalWire:
    """The local model's far end for the conformance suite; see hookline.testing.wire.Wire."""

    def __init__(self) -> None:
        self._engine = ScriptedEngine()
        self._models: list[str] = []

    @property
    def failures(self) -> frozenset[Failure]:
        """What can go wrong without a network."""
        return frozenset({*_RAISED, Failure.MALFORMED, Failure.SILENCE})

    @property
    def marks_failed_calls(self) -> bool:
        """It reads only words."""
        return False

    @property
    def model(self) -> str:
        """The default model's name."""
        return "smollm2"

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The completions that were asked for, and the models that were asked for them."""
        asked = zip(self._models, self._engine.completions, strict=False)
        return [{"model": model, **msgspec.to_builtins(one)} for model, one in asked]

    @property
    def hung_up(self) -> bool:
        """Whether a completion was closed before its end."""
        return self._engine.hung_up

    @asynccontextmanager
    async def provider(self, turns: Sequence[WireTurn]) -> AsyncIterator[LocalProvider]:
        """A provider over an engine that plays these turns."""
        self._engine, self._models = ScriptedEngine(turns), []
        provider = _Overheard(self._engine, self._models)
        try:
            yield provider
        finally:
            await provider.aclose()


def written(turn: WireTurn, completion: Completion) -> str:
    """A turn as the model writes it: as an object that names a tool, where it was offered some."""
    if turn.failure is Failure.MALFORMED:
        return "I would rather not say."
    if "You are an agent." not in completion.prompt:
        return turn.text
    if turn.calls:
        return _call(turn.calls[0])  # it can make one call at a time, and say nothing beside it
    return f'{{"tool": "final_answer", "answer": {_answer(turn.text, completion)}}}'


def _answer(text: str, completion: Completion) -> str:
    is_text = "The answer is JSON" not in completion.prompt
    return json.dumps(text) if is_text else text


def _call(call: WireCall) -> str:
    arguments = call.raw or json.dumps(call.args)
    head = json.dumps({"tool": call.name})[:-1]
    return f"{head}}}" if arguments == "{}" else f"{head}, {arguments[1:]}"


def pieces(text: str) -> Iterator[str]:
    """A text in small parts, as a model writes it."""
    for start in range(0, len(text), _LETTERS):
        yield text[start : start + _LETTERS]
