"""A client of a provider's library, one for each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from hookline.providers.carriers import Carrier, carrier_in_force

T = TypeVar("T")

_Place: TypeAlias = tuple[asyncio.AbstractEventLoop, Carrier | None]


class _Kept(NamedTuple, Generic[T]):
    client: T
    guard: AsyncGenerator[None, None]


class PerLoop(Generic[T]):
    """The client for the event loop we are in, made when it is first wanted there.

    A connection belongs to the loop it was opened in, and every `run_sync` starts a loop of its own: with one client
    for all of them, the second run would find the dead connections of the first.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._kept: dict[_Place, _Kept[T]] = {}

    async def get(self) -> T:
        """The client of this loop. It is closed when the loop ends, if `aclose` does not come first."""
        place = (asyncio.get_running_loop(), carrier_in_force())
        kept = self._kept.get(place)
        if kept is None:
            for ended in [other for other in tuple(self._kept) if other[0].is_closed()]:
                self._kept.pop(ended, None)
            client = self._make()
            kept = self._kept[place] = _Kept(client, self._guard(client))
            await anext(kept.guard)
        return kept.client

    async def aclose(self) -> None:
        """Close the client of this loop. Those of other loops are closed when their loops end."""
        loop = asyncio.get_running_loop()
        for place in [each for each in tuple(self._kept) if each[0] is loop]:
            kept = self._kept.pop(place, None)
            if kept is not None:
                await kept.guard.aclose()

    async def _guard(self, client: T) -> AsyncGenerator[None, None]:
        # A loop tells nobody that it ends, except the generators that were begun in it: it closes those.
        try:
            yield
        finally:
            await self._close(client)
