"""The server of a provider, scripted: what a provider's author supplies to the conformance suite.

`ScriptedProvider` is such a provider without a server, in memory. To test an agent, use `ScriptedDriver`.
"""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import msgspec

from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    ContentFilterError,
    ContextOverflowError,
    MalformedResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    RefusalError,
    ScriptExhaustedError,
)
from hookline.providers import (
    CallPiece,
    EndPiece,
    Feature,
    Piece,
    Provider,
    ReasoningPiece,
    TextPiece,
)
from hookline.state import EMPTY, AssistantMessage, InferenceRequest, Message, Usage


class Failure(enum.StrEnum):
    """A way for the server to fail, in the provider's own terms: its status codes, its error bodies."""

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"
    BAD_KEY = "bad_key"
    UNKNOWN_MODEL = "unknown_model"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    """The answer takes longer than the provider waits: such a turn is played to a provider with a short timeout."""
    CUT = "cut"
    """The connection is closed in the middle of the answer."""
    MALFORMED = "malformed"
    """A chunk (or the whole body) is not what the protocol says."""
    SILENCE = "silence"
    """The request is taken and no answer comes, until the other side hangs up."""


ERRORS: dict[Failure, type[ModelError]] = {
    Failure.RATE_LIMIT: RateLimitError,
    Failure.OVERLOADED: OverloadedError,
    Failure.REFUSAL: RefusalError,
    Failure.CONTENT_FILTER: ContentFilterError,
    Failure.CONTEXT_OVERFLOW: ContextOverflowError,
    Failure.BAD_KEY: AuthenticationError,
    Failure.UNKNOWN_MODEL: ModelNotFoundError,
    Failure.SERVER_ERROR: OverloadedError,
    Failure.TIMEOUT: ModelTimeoutError,
    Failure.CUT: ConnectionLostError,
    Failure.MALFORMED: MalformedResponseError,
}
"""The class that each failure of a server must be raised as; SILENCE is for the cases that cancel."""


class WireCall(msgspec.Struct, frozen=True):
    """A tool call in the scripted answer. `raw` is sent instead of `args` where a model writes broken JSON."""

    name: str
    args: dict[str, Any] = EMPTY
    raw: str = ""


class WireTurn(msgspec.Struct, frozen=True):
    """One answer of the server. In a stream, text and arguments come in several chunks."""

    text: str = ""
    calls: tuple[WireCall, ...] = ()
    reasoning: str = ""
    input_tokens: int = 10
    output_tokens: int = 5
    failure: Failure | None = None
    retry_after: float | None = None


class Wire(Protocol):
    """How a provider is tested: its server plays turns, and keeps what it was sent.

    `provider(turns)` starts the server and gives a provider that talks to it; afterwards both are closed.
    """

    @property
    def failures(self) -> frozenset[Failure]:
        """The failures this protocol knows. The suite tests those."""
        ...

    @property
    def model(self) -> str:
        """A model name the server knows."""
        ...

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The bodies of the requests that arrived, decoded, in order; with the model, wherever it was named."""
        ...

    @property
    def marks_failed_calls(self) -> bool:
        """Whether this protocol has a mark for the result of a call that failed. If not, its text has to do."""
        ...

    @property
    def hung_up(self) -> bool:
        """Whether the provider closed a connection before its answer was over."""
        ...

    def provider(self, turns: Sequence[WireTurn]) -> AbstractAsyncContextManager[Provider]:
        """A provider connected to a server that plays these turns."""
        ...


# --- a provider without a server -------------------------------------------------------------------


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
            async for piece in _play(turn, streamed=streamed):
                yield piece
            whole = True
            yield EndPiece(
                Usage(
                    input_tokens=turn.input_tokens,
                    output_tokens=turn.output_tokens,
                    requests=1,
                    cost=0.0,
                ),
                request.model,
            )
        except ModelError:
            whole = True  # it ended, if badly: nobody hung up
            raise
        finally:
            self.hung_up = self.hung_up or not whole

    async def aclose(self) -> None:
        """There is nothing to give back."""
        self.is_closed = True


async def _play(turn: WireTurn, *, streamed: bool) -> AsyncIterator[Piece]:
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
        return [
            msgspec.to_builtins(_sent_request(one, self._provider))
            for one in self._provider.requests
        ]

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


def _sent_request(request: InferenceRequest, provider: ScriptedProvider) -> InferenceRequest:
    def own(message: Message) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        kept = tuple(part for part in message.reasoning if part.provider == provider.name)
        return msgspec.structs.replace(message, reasoning=kept)

    return request.with_messages([own(message) for message in request.messages])
