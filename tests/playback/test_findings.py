from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.playback.findings import HookCounts, Latency, latency
from hookline.state import Usage

times = st.lists(st.floats(0, 100), min_size=1)


@given(seconds=times)
def test_latencies_are_among_the_times_and_in_order(seconds: list[float]) -> None:
    """The percentiles are times that were measured; half, and 95 in a hundred, were no slower."""
    took = latency(seconds)
    assert took.p50 in seconds
    assert took.p95 in seconds
    assert min(seconds) <= took.p50 <= took.p95 <= took.max == max(seconds)
    assert took.mean == pytest.approx(sum(seconds) / len(seconds))
    for share, limit in ((0.5, took.p50), (0.95, took.p95)):
        assert sum(each <= limit for each in seconds) >= share * len(seconds)


def test_nothing_took_no_time() -> None:
    """A hook that was never asked has no latency."""
    assert latency([]) == Latency(0, 0, 0, 0)


def test_a_tally_adds_up() -> None:
    """Calls, verdicts and what was charged, by point and hook."""
    counts = HookCounts()
    counts.count(("stop", "a"), 1.0, "proceed", [Usage(output_tokens=1), Usage(input_tokens=2)])
    counts.count(("stop", "a"), 2.0, "block")
    counts.count(("output", "a"), 2.0, "block")
    counted = counts["stop", "a"]
    assert (counted.calls, dict(counted.verdicts)) == (2, {"proceed": 1, "block": 1})
    assert counted.usage.total_tokens == 3
