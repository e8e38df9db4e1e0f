"""What carries a provider's requests: the network, or a recording; and one client for each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import httpx2

from hookline.errors import BuildError

T = TypeVar("T")


@runtime_checkable
class TransportSource(Protocol):
    """Makes transports that carry requests in place of the network, or on the way to it. A cassette is one."""

    @property
    def needs_key(self) -> bool:
        """Whether requests reach a server that wants to see a key."""
        ...

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A transport for a new client, which will close it."""
        ...


_sources: list[TransportSource] = []
# Not a ContextVar: what a test sets up in a fixture must hold in the task and the threads that the test runs in.


@contextmanager
def use_source(source: TransportSource) -> Iterator[None]:
    """In the block all providers of this process send through the source, unless they have their own."""
    _sources.append(source)
    try:
        yield
    finally:
        _sources.remove(source)


def current_source(own: TransportSource | None = None) -> TransportSource | None:
    """A provider's own source, else that of the innermost block; None is the network."""
    return own or (_sources[-1] if _sources else None)


def check_source(source: TransportSource | None) -> TransportSource | None:
    """Refuse what cannot make transports."""
    is_source = isinstance(source, TransportSource) and not isinstance(source, type)
    if source is not None and not is_source:
        raise BuildError(
            f"{source!r} is not a cassette.", remedy="Pass hookline.testing.Cassette(FILE)."
        )
    return source


class _Held(NamedTuple, Generic[T]):
    client: T
    guard: AsyncGenerator[None, None]


class LoopClients(Generic[T]):
    """The client for the running event loop, made when it is first needed there.

    A connection belongs to the loop it was opened in, and every `run_sync` starts a loop of its own: with one client
    for all of them, the second run would find the dead connections of the first.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._held: dict[tuple[asyncio.AbstractEventLoop, TransportSource | None], _Held[T]] = {}

    async def get(self) -> T:
        """The client of this loop. It is closed when the loop ends, or by `aclose` before that."""
        key = (asyncio.get_running_loop(), current_source())
        held = self._held.get(key)
        if held is None:
            for ended in [other for other in tuple(self._held) if other[0].is_closed()]:
                self._held.pop(ended, None)
            client = self._make()
            held = self._held[key] = _Held(client, self._guard(client))
            await anext(held.guard)
        return held.client

    async def aclose(self) -> None:
        """Close the client of this loop. Those of other loops are closed when their loops end."""
        loop = asyncio.get_running_loop()
        for key in [each for each in tuple(self._held) if each[0] is loop]:
            held = self._held.pop(key, None)
            if held is not None:
                await held.guard.aclose()

    async def _guard(self, client: T) -> AsyncGenerator[None, None]:
        # A loop announces its end to nobody, except the generators that were started in it: it closes those.
        try:
            yield
        finally:
            await self._close(client)
