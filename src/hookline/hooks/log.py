"""The hook log: which hooks had no objection, which answered what, which failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from hookline.errors import HookError
from hookline.hooks.plan import Entry, HookNames
from hookline.hooks.point import C, Context
from hookline.hooks.verdict import Kind

Shown = TypeVar("Shown", bound=Context, contravariant=True)


class HookLog(Protocol[Shown]):
    """Where the engine reports which hooks ran, in the order they ran."""

    @property
    def monotonic(self) -> Callable[[], float]:
        """The clock, in seconds. It is read once for every hook."""
        ...

    def passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """These hooks ran and had no objection. `readings` are the clock before the first and after each."""
        ...

    def left(self, ctx: Shown) -> None:
        """A hook failed or was cancelled: `ctx` is what the hooks before it left."""
        ...

    def appended(self, entry: Entry, started: float, ctx: Shown) -> float:
        """A hook only appended a value to its context. Returns the time the next one starts."""
        ...

    def judged(self, entry: Entry, started: float, answer: Answered[Any]) -> float:
        """A hook answered, changed something, or failed. Returns the time the next one starts."""
        ...


class Answered(msgspec.Struct, Generic[C], frozen=True):
    """One hook's answer, understood."""

    before: C
    after: C
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

    def left(self, ctx: Context) -> None:
        """Not kept."""

    def appended(self, entry: Entry, started: float, ctx: Context) -> float:  # noqa: ARG002 - the protocol's signature
        """Not kept."""
        return started

    def judged(self, entry: Entry, started: float, answer: Answered[Any]) -> float:  # noqa: ARG002 - as above
        """Not kept."""
        return started


NO_LOG = NoLog()
