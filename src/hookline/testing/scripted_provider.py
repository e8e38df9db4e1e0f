"""A provider that plays turns from a script, in memory: for tests of drivers, and the model of a wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hookline.errors import ModelError, OverloadedError, RateLimitError, ScriptExhaustedError
from hookline.providers import CallPiece, EndPiece, Feature, Piece, ReasoningPiece, TextPiece
from hookline.state import AssistantMessage, InferenceRequest, Message, Usage
from hookline.testing.wire import ERRORS, Failure, WireTurn

_MIDWAY = (Failure.CUT, Failure.MALFORMED)
"""Failures that show only when half of the answer is there."""
_LETTERS = 4
"""How much one piece of a streamed answer holds."""


class ScriptedProvider:
    """Plays one turn per question, and keeps every request in `requests`. It can do what `features` says."""

    def __init__(
        self,
        turns: Sequence[WireTurn],
        *,
        name: str = "scripted",
        features: frozenset[Feature] = frozenset(Feature),
    ) -> None:
        self.turns = list(turns)
        self.requests: list[InferenceRequest] = []
        self.hung_up = False
        """Whether an answer was left before its end."""
        self.is_closed = False
        self._name = name
        self._features = features

    @property
    def name(self) -> str:
        """The part before the colon."""
        return self._name

    @property
    def features(self) -> frozenset[Feature]:
        """What it can do."""
        return self._features

    async def ask(
        self, request: InferenceRequest, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        """Play the next turn."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self.turns):
            raise ScriptExhaustedError(
                f"the script has {len(self.turns)} turns, and turn {number + 1} was asked for.",
                remedy="Add a turn to the ScriptedProvider.",
            )
        turn = self.turns[number]
        whole = False
        try:
            async for piece in _played(turn, streamed=streamed):
                yield piece
            whole = True
            yield EndPiece(Usage(turn.input_tokens, turn.output_tokens, 1, 0.0), request.model)
        except ModelError:
            whole = True  # it ended, if badly: nobody hung up
            raise
        finally:
            self.hung_up = self.hung_up or not whole

    async def aclose(self) -> None:
        """There is nothing to give back."""
        self.is_closed = True


async def _played(turn: WireTurn, *, streamed: bool) -> AsyncIterator[Piece]:
    if turn.failure is Failure.SILENCE:
        await asyncio.Event().wait()
    error = _error(turn)
    if error is not None and turn.failure not in _MIDWAY:
        raise error
    pieces = list(_pieces(turn, _LETTERS if streamed else 0))
    for piece in pieces if error is None else pieces[: len(pieces) // 2]:
        await asyncio.sleep(0)
        yield piece
    if error is not None:
        raise error


def _pieces(turn: WireTurn, size: int) -> Iterator[Piece]:
    for text in _cut(turn.reasoning, size):
        yield ReasoningPiece(0, text)
    for text in _cut(turn.text, size):
        yield TextPiece(text)
    for index, call in enumerate(turn.calls):
        yield CallPiece(index, f"call_{index}", call.name)
        for text in _cut(call.raw or json.dumps(call.args), size):
            yield CallPiece(index, arguments=text)


def _cut(text: str, size: int) -> Iterator[str]:
    size = size or len(text) or 1
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _error(turn: WireTurn) -> ModelError | None:
    if turn.failure is None or turn.failure not in ERRORS:
        return None
    kind, words = ERRORS[turn.failure], f"scripted: {turn.failure.value.replace('_', ' ')}."
    if issubclass(kind, RateLimitError | OverloadedError):
        return kind(words, retry_after=turn.retry_after, remedy="Wait a little.")
    return kind(words, remedy="It is in the script.")


class ScriptedWire:
    """A wire without a server: its provider is the script itself. An example of a Wire, and a fast one."""

    failures = frozenset(Failure)
    model = "scripted-1"
    marks_failed_calls = True

    def __init__(self, features: frozenset[Feature] = frozenset(Feature)) -> None:
        self._features = features
        self._provider = ScriptedProvider([])

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The requests, as JSON. What other providers' models thought is not in them."""
        return [msgspec.to_builtins(_sent(one, self._provider)) for one in self._provider.requests]

    @property
    def hung_up(self) -> bool:
        """Whether an answer was left before its end."""
        return self._provider.hung_up

    @asynccontextmanager
    async def provider(self, turns: Sequence[WireTurn]) -> AsyncIterator[ScriptedProvider]:
        """A provider that plays these turns."""
        self._provider = ScriptedProvider(turns, features=self._features)
        yield self._provider
        await self._provider.aclose()


def _sent(request: InferenceRequest, provider: ScriptedProvider) -> InferenceRequest:
    def own(message: Message) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        kept = tuple(part for part in message.reasoning if part.provider == provider.name)
        return msgspec.structs.replace(message, reasoning=kept)

    return request.with_messages([own(message) for message in request.messages])
