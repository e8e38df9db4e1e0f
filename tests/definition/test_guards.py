from __future__ import annotations

from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    RunStatus,
    StopReason,
    ToolCall,
    tool,
)
from hookline.state import InferenceResponse, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """An agent with one tool that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


async def run(agent: AgentBuilder) -> Any:
    """Build it and run it."""
    return await agent.build().run("go")


async def test_the_step_limit_stops_a_run_that_does_not_end() -> None:
    """Fifty by default, checked before a step."""
    result = await run(builder(*[call("add", a=1)] * 55))
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert result.state.step_count == 50
    assert "decided by 'limits'" in result.explain()
    assert result.steps[-1].outcome.should_continue
    assert (result.outcome.should_continue, result.outcome.resolved_by) == (False, "limits")


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_an_answer_in_the_last_allowed_step_is_a_completed_run(steps: int) -> None:
    """Limits are checked before, never after the fact."""
    turns = [*[call("add", a=1)] * (steps - 1), say("just in time")]
    result = await run(builder(*turns).with_limits(steps=steps))
    assert (result.status, result.text) == (RunStatus.COMPLETED, "just in time")


async def test_a_request_cannot_get_past_the_step_limit() -> None:
    """The guard wins, and the answer that was given is still the answer."""
    agent = builder(*[say("x")] * 5).with_limits(steps=2)
    result = await run(agent.on_should_continue(lambda ctx: ctx.request_continue("more")))
    assert (result.status, result.stop_reason, result.text) == (
        RunStatus.STOPPED,
        StopReason.STEP_LIMIT,
        "x",
    )


async def test_the_token_limit_is_enforced() -> None:
    """A run over its budget makes no other step; the step that went over is kept."""
    turns = [call("add", a=1, tokens=60), call("add", a=1, tokens=60), say("never")]
    result = await run(builder(*turns).with_limits(tokens=100))
    assert (result.stop_reason, result.state.step_count) == (StopReason.TOKEN_LIMIT, 2)
    assert result.usage.total_tokens == 120
    default = await run(builder(call("add", a=1, tokens=1_200_000), say("never")))
    assert default.stop_reason is StopReason.TOKEN_LIMIT


async def test_the_time_limit_counts_active_time() -> None:
    """Checked before a step, by the run's own clock."""
    clock = FakeClock()

    def think(state: AgentState) -> Any:
        clock.advance(40)
        return call("add", a=1)

    result = await run(builder(*[think] * 5).with_clock(clock).with_limits(seconds=100))
    assert (result.stop_reason, result.state.step_count) == (StopReason.TIME_LIMIT, 3)
    assert result.state.counters.active_seconds == 120


async def test_the_cost_limit_is_off_until_set() -> None:
    """Then it stops the run before the next step."""

    class Pricey:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            number = len(turn.state.steps)
            made = (ToolCall(f"c{number}", "add", {"a": 1}),) if number < 4 else ()
            return InferenceResponse("done", made, Usage(1, 1, 1, cost=0.4))

    for cost, steps in ((None, 5), (1.0, 3)):
        agent = AgentBuilder().with_driver(Pricey()).with_tools(add).with_limits(cost=cost)
        result = await run(agent)
        assert result.state.step_count == steps
        assert result.stop_reason is (
            StopReason.COMPLETED if cost is None else StopReason.COST_LIMIT
        )


async def test_a_limit_can_be_taken_away() -> None:
    """None means none; what is not named stays."""
    agent = builder(*[call("add", a=1)] * 25, say("at last")).with_limits(steps=None)
    result = await run(agent)
    assert (result.state.step_count, result.status) == (26, RunStatus.COMPLETED)


async def test_limits_are_per_run_and_start_again_with_the_next() -> None:
    """A conversation of many runs does not use up one run's limits."""
    agent = builder(*[say("x", tokens=80)] * 3).with_limits(steps=1, tokens=100).build()
    state = AgentState()
    for _ in range(3):
        result = await agent.run("go", state=state)
        assert result.status is RunStatus.COMPLETED
        state = result.state
    assert state.usage.total_tokens == 240


async def test_zero_is_a_limit() -> None:
    """No step, no tool call: what is configured is enforced."""
    none = await run(builder(say("x")).with_limits(steps=0))
    assert (none.stop_reason, none.state.step_count) == (StopReason.STEP_LIMIT, 0)
    no_tools = await run(builder(call("add", a=1)).with_limits(tool_calls=0))
    assert no_tools.stop_reason is StopReason.TOOL_CALL_LIMIT


async def test_the_batch_limit_counts_calls_of_earlier_steps() -> None:
    """Ten allowed, four a step: the third batch does not fit."""
    batch = calls(*[call("add", a=1)] * 4)
    result = await run(builder(batch, batch, batch, say("x")).with_limits(tool_calls=10))
    assert (result.stop_reason, result.state.counters.tool_calls) == (StopReason.TOOL_CALL_LIMIT, 8)
