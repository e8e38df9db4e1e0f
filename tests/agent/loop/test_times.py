"""Every record and every piece of text says when it was, and not when the one before it was."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, ErrorPolicy, tool
from hookline.errors import RateLimitError
from hookline.state import InferenceResponse
from hookline.testing import FakeClock, ScriptedDriver, call, say


class Slow:
    """A model that takes a second for each letter, and then fails so often."""

    def __init__(self, clock: FakeClock, failures: int) -> None:
        self.clock = clock
        self.failures = failures

    async def infer(self, request: object, turn: Any) -> InferenceResponse:
        """Say it letter by letter."""
        for letter in "ab":
            self.clock.advance(1)
            turn.emit_text(letter)
        self.clock.advance(1)
        self.failures -= 1
        if self.failures >= 0:
            raise RateLimitError("slow down", retry_after=10)
        return InferenceResponse("ab")


def look(ctx: object) -> None:
    """A hook that says nothing."""


@pytest.mark.parametrize("points", [(), ("error", "after_inference"), ("before_inference",)])
def test_what_a_model_says_and_how_it_fails_is_told_when_it_is(points: tuple[str, ...]) -> None:
    """Text comes piece by piece, an error when the model failed, and the next request after the wait."""
    clock = FakeClock()
    heard: list[Any] = []
    builder = AgentBuilder().with_driver(Slow(clock, 1)).with_clock(clock).on_event(heard.append)
    for point in points:
        builder.add_hook(point, look, tier="observer")
    assert builder.build().run_sync("go").text == "ab"
    began = heard[0].at
    told = ("request", "text_delta", "error", "response")
    assert [(each.type, each.at - began) for each in heard if each.type in told] == [
        ("request", 0),
        ("text_delta", 1),
        ("text_delta", 2),
        ("error", 3),
        ("request", 13),
        ("text_delta", 14),
        ("text_delta", 15),
        ("response", 16),
    ]


def test_a_call_that_is_tried_again_took_as_long_as_that_try() -> None:
    """The wait before it is not the tool's."""
    clock = FakeClock()
    tries: list[int] = []

    @tool(effect="pure")
    async def flaky() -> str:
        """Fail once, and take two seconds each time."""
        clock.advance(2)
        tries.append(1)
        if len(tries) < 2:
            raise OSError("down")
        return "up"

    driver = ScriptedDriver([call("flaky"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(flaky).with_clock(clock)
    builder.with_error_policy(ErrorPolicy.retry_tool_errors(first_delay=7))
    ended = builder.build().run_sync("go")
    assert clock.slept == [7]
    assert ended.steps[0].results[0].duration == 2
