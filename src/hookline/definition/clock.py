"""The clock a run reads, so that tests can hold it still."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, a monotonic clock, and a way to wait."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever go up."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()
    now = staticmethod(time.time)
    monotonic = staticmethod(time.perf_counter)
    sleep = staticmethod(asyncio.sleep)


SYSTEM_CLOCK: Clock = SystemClock()
