"""What a run has used."""

from __future__ import annotations

import math

import msgspec


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens, model calls and cost. A cost nobody knows is None, never zero."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    unpriced_requests: int = 0
    """Model calls in this sum whose price is unknown: `cost` does not cover them."""
    cache_read_tokens: int = 0
    """Of the input tokens: those the provider had in its cache."""
    cache_write_tokens: int = 0
    """Of the input tokens: those it put there."""

    @property
    def total_tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def problem(self) -> str:
        """What is wrong with it: tokens that are not a number, a cost below zero. Empty if nothing is."""
        for name in _COUNTS:
            count = getattr(self, name)
            if type(count) is not int or count < 0:
                return f"{name}={count!r}, which is not a whole number of at least zero"
        cost = self.cost
        is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if cost is not None and not (is_number and 0 <= cost < math.inf):
            return f"cost={cost!r}, which is not a finite number of at least zero"
        return ""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            requests=self.requests + other.requests,
            cost=other.cost if self.cost is None else self.cost + (other.cost or 0.0),
            unpriced_requests=self.unpriced_requests + other.unpriced_requests,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        """What was used since `other`, which is an earlier state of this sum."""
        return Usage(
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            requests=self.requests - other.requests,
            cost=None if self.cost is None else self.cost - (other.cost or 0.0),
            unpriced_requests=self.unpriced_requests - other.unpriced_requests,
            cache_read_tokens=self.cache_read_tokens - other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - other.cache_write_tokens,
        )


_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "cost")
NO_USAGE = Usage()
