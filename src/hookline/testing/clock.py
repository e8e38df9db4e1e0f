"""A clock that moves only when a test moves it."""

from __future__ import annotations

import asyncio


class FakeClock:
    """Time for tests: `advance` moves it, and sleeping moves it at once. `slept` says how long runs slept."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self.time = start
        self.slept: list[float] = []

    def now(self) -> float:
        """Seconds since 1970."""
        return self.time

    def monotonic(self) -> float:
        """Seconds that only ever go up."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if not seconds >= 0:
            raise ValueError(
                f"time only moves forward, so it cannot advance by {seconds!r} seconds"
            )
        self.time += seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass without waiting for it. Others get their turn, as they do while one really sleeps."""
        self.slept.append(seconds)
        self.time += max(seconds, 0.0)
        await asyncio.sleep(0)
