"""Where the samples of a run are kept: one series for each candidate and measurement."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from remote import Failed


@dataclass(frozen=True)
class Series:
    """The samples of one measurement, one for each round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles: half of the rounds lie between them."""
        if len(self.values) < 2:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    def to_json(self) -> dict[str, object]:
        """For `--json`."""
        low, high = self.spread
        return {"median": self.median, "low": low, "high": high, "values": list(self.values)}


@dataclass
class Book:
    """All samples so far, and what went wrong."""

    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, candidate: str, measurement: str, value: float) -> None:
        """One more sample."""
        self.samples.setdefault((candidate, measurement), []).append(value)

    def series(self, candidate: str, measurement: str) -> Series | None:
        """What was measured, or None."""
        values = self.samples.get((candidate, measurement))
        return Series(tuple(values)) if values else None

    def median(self, candidate: str, measurement: str) -> float | None:
        """The number for the table, or None."""
        series = self.series(candidate, measurement)
        return series.median if series else None

    @contextmanager
    def guard(self, candidate: str, part: str) -> Iterator[None]:
        """A candidate that fails is noted once and does not end the benchmark."""
        try:
            yield
        except Failed as failure:
            self.failures.setdefault((candidate, part), str(failure))

    def failed(self, candidate: str, part: str) -> bool:
        """Whether to leave the candidate out of the remaining rounds."""
        return (candidate, part) in self.failures

    def to_json(self) -> dict[str, dict[str, object]]:
        """For `--json`."""
        out: dict[str, dict[str, object]] = {}
        for (candidate, measurement), values in self.samples.items():
            out.setdefault(candidate, {})[measurement] = Series(tuple(values)).to_json()
        for (candidate, part), text in self.failures.items():
            out.setdefault(candidate, {})[f"{part}_failure"] = text
        return out
