"""How often hooks were asked, what they said, and what that took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from hookline.state import NO_USAGE, Usage

HookKey: TypeAlias = tuple[str, str]
"""The point, and the hook's name."""


class Latency(msgspec.Struct, frozen=True):
    """How long a hook took, in seconds."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Tally:
    """One hook."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.verdicts: Counter[str] = Counter()
        self.usage = NO_USAGE

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.seconds)


class Tallies(defaultdict[HookKey, Tally]):
    """Many hooks."""

    def __init__(self) -> None:
        super().__init__(Tally)

    def count(
        self, key: HookKey, seconds: float, verdict: str, charged: Iterable[Usage] = ()
    ) -> None:
        """A hook was asked."""
        tally = self[key]
        tally.seconds.append(seconds)
        tally.verdicts[verdict] += 1
        for usage in charged:
            tally.usage = tally.usage + usage


def latency(seconds: Sequence[float]) -> Latency:
    """Mean, median, 95th percentile and the worst, by the nearest-rank method."""
    if not seconds:
        return Latency()
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Latency(sum(ordered) / len(ordered), rank(0.5), rank(0.95), ordered[-1])
