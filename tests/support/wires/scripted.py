"""What the far ends over HTTP have in common: they play the turns of a test, one per request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeAlias, TypeVar

from hookline.providers import Provider
from hookline.state import InferenceRequest, UserMessage
from hookline.testing.wire import Failure, WireTurn
from wires.patience import timeout_for
from wires.server import Exchange, Server

FarEnd: TypeAlias = Callable[[Exchange], Awaitable[None]]
P = TypeVar("P", bound=Provider)


class HTTPWire(ABC, Generic[P]):
    """A far end on loopback for the conformance suite; see hookline.testing.wire.Wire."""

    model = ""
    marks_failed_calls = False
    failures = frozenset(Failure)

    def __init__(self, *, timeout: float = 600.0) -> None:
        self._timeout = timeout
        self._turns: Iterator[WireTurn] = iter(())
        self._server: Server | None = None

    @classmethod
    def asking(cls, text: str = "Hello.", **fields: Any) -> InferenceRequest:
        """A question for the model that the far end knows."""
        return InferenceRequest(messages=[UserMessage(text)], model=cls.model, **fields)

    @property
    def url(self) -> str:
        """Where the far end is, while a provider is connected to it."""
        assert self._server is not None
        return self._server.url

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        """The bodies that arrived."""
        return [request.json() for request in self._server.requests] if self._server else []

    @property
    def hung_up(self) -> bool:
        """Whether the provider left in mid-answer."""
        return self._server is not None and self._server.hung_up

    @asynccontextmanager
    async def provider(self, turns: Sequence[WireTurn]) -> AsyncIterator[P]:
        """A provider connected to a far end that plays these turns."""
        self._turns = iter(turns)
        async with Server(self._take) as self._server:
            provider = self._connect(self._server.url, timeout_for(turns, self._timeout))
            try:
                yield provider
            finally:
                await provider.aclose()

    @abstractmethod
    def _connect(self, url: str, timeout: float) -> P:
        """The provider for a far end at this address."""

    @abstractmethod
    async def _play(self, exchange: Exchange, turn: WireTurn) -> None:
        """Answer a request with a turn."""

    async def _take(self, exchange: Exchange) -> None:
        turn = next(self._turns, None)
        assert turn is not None, "the provider asked more often than the script has turns"
        await self._play(exchange, turn)


@asynccontextmanager
async def served(
    kind: Callable[..., P],
    far_end: FarEnd,
    *,
    path: str = "",
    **settings: Any,
) -> AsyncIterator[tuple[P, Server]]:
    """A provider with these settings whose far end is this function, and that far end."""
    async with Server(far_end) as server:
        provider = kind(**{"base_url": f"{server.url}{path}", **settings})
        try:
            yield provider, server
        finally:
            await provider.aclose()


def wait_header(turn: WireTurn) -> dict[str, str]:
    """The header that says how long to wait, where a turn says so."""
    return {} if turn.retry_after is None else {"retry-after": f"{turn.retry_after:g}"}


def pieces(text: str) -> Iterator[str]:
    """A text in a few parts, as a model writes it."""
    size = max(1, len(text) // 3)
    for start in range(0, len(text), size):
        yield text[start : start + size]
