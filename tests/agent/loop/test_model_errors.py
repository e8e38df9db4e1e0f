from __future__ import annotations

import pytest

from hookline import AgentBuilder, ErrorPolicy, RunStatus
from hookline.drivers import ToolCallingDriver
from hookline.flow import ErrorClass
from hookline.journal import ErrorRaised
from hookline.testing import Failure, FakeClock, ScriptedProvider, WireTurn

CLASSES = {
    Failure.RATE_LIMIT: ErrorClass.RATE_LIMIT,
    Failure.OVERLOADED: ErrorClass.OVERLOADED,
    Failure.CUT: ErrorClass.CONNECTION,
    Failure.REFUSAL: ErrorClass.REFUSAL,
    Failure.CONTENT_FILTER: ErrorClass.CONTENT_FILTER,
    Failure.CONTEXT_OVERFLOW: ErrorClass.CONTEXT_OVERFLOW,
    Failure.BAD_KEY: ErrorClass.AUTHENTICATION,
    Failure.UNKNOWN_MODEL: ErrorClass.MODEL,
    Failure.SERVER_ERROR: ErrorClass.OVERLOADED,
    Failure.MALFORMED: ErrorClass.MODEL,
}
PASSES = {Failure.RATE_LIMIT, Failure.OVERLOADED, Failure.SERVER_ERROR, Failure.CUT}


def builder(*turns: WireTurn) -> tuple[AgentBuilder, FakeClock]:
    """An agent whose provider plays these turns, and its clock."""
    clock = FakeClock()
    driver = ToolCallingDriver("m", provider=ScriptedProvider(turns))
    return AgentBuilder().with_driver(driver).with_clock(clock), clock


@pytest.mark.parametrize("failure", CLASSES)
async def test_what_passes_is_tried_again_and_what_does_not_ends_the_run(failure: Failure) -> None:
    """Every failure has its class; by default only those that pass are worth another try."""
    made, _ = builder(WireTurn("half", failure=failure), WireTurn("hi"))
    result = await made.build().run("go")
    (error,) = (record for record in result.records if isinstance(record, ErrorRaised))
    assert error.error is not None
    assert error.error.error_class == CLASSES[failure]
    assert error.action == ("retry" if failure in PASSES else "stop")
    assert result.status is (RunStatus.COMPLETED if failure in PASSES else RunStatus.FAILED)


@pytest.mark.parametrize("failure", CLASSES)
async def test_failures_in_a_row_are_counted_until_the_model_answers(failure: Failure) -> None:
    """Whatever their class."""
    made, _ = builder(*[WireTurn(failure=failure)] * 2, WireTurn("hi"))
    result = await made.with_error_policy(ErrorPolicy.retry_all()).build().run("go")
    assert result.text == "hi"
    assert result.state.counters.errors == 2
    assert result.state.counters.consecutive_errors == {}


@pytest.mark.parametrize("failure", [Failure.RATE_LIMIT, Failure.OVERLOADED])
async def test_the_wait_is_as_long_as_the_provider_asks_for(failure: Failure) -> None:
    """Where it does not say, it grows with every failure."""
    turns = [
        WireTurn(failure=failure, retry_after=42.5),
        WireTurn(failure=failure),
        WireTurn(failure=failure),
    ]
    made, clock = builder(*turns, WireTurn("hi"))
    await made.build().run("go")
    assert clock.slept == [42.5, 1.0, 2.0]
