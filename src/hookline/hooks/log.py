"""What is heard of hooks as they run: who let things be, who said what, who failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from hookline.errors import HookError
from hookline.hooks.outcome import Kind
from hookline.hooks.plan import Entry, HookNames
from hookline.hooks.point import Context


class HookLog(Protocol):
    """Where the engine reports which hooks ran, in the order they ran."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """The clock, in seconds. It is read once for every hook."""
        ...

    def passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """These hooks ran and let things be. The readings are the clock's before the first and after each."""
        ...

    def left(self, ctx: Any) -> None:
        """A hook failed, or was cancelled: this is the context that those before it leave behind."""
        ...

    def appended(self, entry: Entry, started: float, ctx: Any) -> float:
        """A hook ran and appended a value to its context, which is all it did. Gives the time the next one starts."""
        ...

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:
        """A hook ran and said or changed something, or failed. Gives the time the next one starts."""
        ...


class Answered(msgspec.Struct, frozen=True):
    """One hook's answer, understood."""

    before: Context
    after: Context
    kind: Kind = Kind.PROCEED
    reason: str = ""
    stop_reason: str | None = None
    answer: Any = None
    error: HookError | None = None


class NoLog:
    """Reports to nobody: for a stack that is used alone."""

    monotonic = staticmethod(time.perf_counter)

    def passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """Not kept."""

    def left(self, ctx: Any) -> None:
        """Not kept."""

    def appended(self, entry: Entry, started: float, ctx: Any) -> float:  # noqa: ARG002 - the protocol's signature
        """Not kept."""
        return started

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:  # noqa: ARG002 - as above
        """Not kept."""
        return started


NO_LOG = NoLog()
