"""Limits (max steps, tokens, cost, time, calls), and what a run and its children have spent of them.

`AgentBuilder.with_limits` and `capabilities/limits.py` set them; `LimitsGuard` in `definition/guards.py` enforces them.
"""

from __future__ import annotations

import msgspec

from hookline.errors import BuildError
from hookline.state import AgentState, Counters, StopReason, Usage


class RunLimits(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a run, with all its children, may spend. None means no limit."""

    steps: int | None = 50
    tokens: int | None = 1_000_000
    """In and out, without input that the provider had in its cache."""
    seconds: float | None = 1800.0
    """Active time: time a run spends paused, or waiting for the caller between steps, does not count."""
    cost: float | None = None
    tool_calls: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            wrong = isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0
            if value is not None and wrong:
                raise BuildError(
                    f"limit {name}={value!r} is not a number of at least zero.",
                    remedy="Use None for no limit.",
                )


class Ledger:
    """What a run and everything below it has spent so far. Shared by the whole tree, so it is not a value."""

    __slots__ = ("cost", "parent", "seconds_before", "started", "steps", "tokens", "tool_calls")

    def __init__(
        self, state: AgentState, started: float, parent: Ledger | None = None, seconds: float = 0.0
    ) -> None:
        """`seconds` is active time that the state does not know of."""
        self.parent = parent
        counters = state.counters
        self.seconds_before = counters.active_seconds + seconds
        self.start(started)
        self.steps = counters.steps
        self.tool_calls = counters.tool_calls
        self.tokens = counters.usage.uncached_tokens
        self.cost = counters.usage.cost or 0.0

    def add_usage(self, usage: Usage) -> None:
        """Count a model call here and in every run above."""
        self.tokens += usage.uncached_tokens
        if usage.cost:
            self.cost += usage.cost
        if self.parent is not None:
            self.parent.add_usage(usage)

    def add_step(self) -> None:
        """Count a step here and in every run above."""
        self.steps += 1
        if self.parent is not None:
            self.parent.add_step()

    def add_tool_calls(self, count: int) -> None:
        """Count calls that are about to run, here and in every run above."""
        self.tool_calls += count
        if self.parent is not None:
            self.parent.add_tool_calls(count)

    def carry(self, counters: Counters, counted: Counters) -> None:
        """Count what a child used in a process that died: `counters`, less what is `counted` already."""
        self.add_usage(counters.usage - counted.usage)
        self.add_tool_calls(counters.tool_calls - counted.tool_calls)
        for _ in range(counters.steps - counted.steps):
            self.add_step()

    def start(self, now: float) -> None:
        """Start to count active time. The time until now was spent waiting."""
        self.set_seconds(self.seconds_before, now)

    def set_seconds(self, seconds: float, now: float) -> None:
        """Set the active time so far."""
        self.started = now - seconds
        """The beginning of the run, moved by the time it has waited."""

    def leave_out(self, seconds: float) -> None:
        """Leave out time that the run spent waiting."""
        self.started += seconds

    def seconds(self, now: float) -> float:
        """Active time so far."""
        return now - self.started

    def above(self, levels: int) -> Ledger:
        """The ledger of the run that many levels up."""
        ledger = self
        for _ in range(levels):
            # An inherited guard is only ever given the levels that exist.
            assert ledger.parent is not None
            ledger = ledger.parent
        return ledger


STOP_REASONS = {
    "steps": StopReason.STEP_LIMIT,
    "tokens": StopReason.TOKEN_LIMIT,
    "seconds": StopReason.TIME_LIMIT,
    "cost": StopReason.COST_LIMIT,
    "tool_calls": StopReason.TOOL_CALL_LIMIT,
}
