from __future__ import annotations

import asyncio

import pytest

from hookline import AgentBuilder, ErrorPolicy
from hookline.errors import RateLimitError
from hookline.testing import FakeClock, ScriptedDriver, say


def test_time_stands_still_until_it_is_moved() -> None:
    """Both readings of the clock move by what it is advanced, and by nothing else."""
    clock = FakeClock(10.0)
    assert (clock.now(), clock.monotonic()) == (10.0, 10.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (12.5, 12.5)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_time_only_goes_forward(seconds: float) -> None:
    """A test that moves time backwards gets an error."""
    with pytest.raises(ValueError, match="only moves forward"):
        FakeClock().advance(seconds)


async def test_sleeping_moves_time_and_lets_others_work() -> None:
    """A sleep takes no time, is remembered, and is a place where other tasks continue."""
    clock = FakeClock(0.0)
    seen: list[str] = []

    async def note() -> None:
        seen.append("other")

    task = asyncio.create_task(note())
    await clock.sleep(30)
    assert seen == ["other"]
    assert (clock.time, clock.slept) == (30.0, [30])
    await task


def test_a_run_on_a_fake_clock_never_waits() -> None:
    """Back-off moves the clock instead of the test."""
    clock = FakeClock()
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([RateLimitError("slow down", retry_after=20), say("done")]))
        .with_clock(clock)
        .with_error_policy(ErrorPolicy.retry_all())
        .build()
    )
    result = agent.run_sync("go")
    assert (result.text, clock.slept) == ("done", [20])
    assert result.steps[0].duration == 20
