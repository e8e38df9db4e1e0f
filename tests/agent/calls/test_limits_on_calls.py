"""What a turn has used up its calls cannot use any more: limits are checked before them too."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunResult,
    RunStatus,
    StopReason,
    ToolCall,
    tool,
)
from hookline.state import InferenceResponse, ResultStatus, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class Shop:
    """A tool that notes what it did, and a clock that turns may move."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.bought: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent with the tool."""

        @tool
        async def buy(n: int) -> int:
            """Buy."""
            self.bought.append(n)
            return n

        driver = ScriptedDriver([*turns, say("done")])
        return AgentBuilder().with_driver(driver).with_tools(buy).with_clock(self.clock)

    def slow(self, state: AgentState) -> Any:
        """A turn that takes its time."""
        self.clock.advance(400)
        return call("buy", n=1)


class Costly:
    """A model that has its price."""

    async def infer(self, request: object, turn: object) -> InferenceResponse:
        """The same call again and again."""
        return InferenceResponse("", (ToolCall("c", "buy", {"n": 1}),), Usage(5, 5, 1, 2.0))


NOTHING: dict[str, Any] = {}


def look(ctx: object) -> None:
    """A hook that says nothing."""


@pytest.mark.parametrize("more", [NOTHING, {"tool_calls": 50}])
@pytest.mark.parametrize("point", ["", "before_tool_use", "after_inference", "after_tool_use"])
@pytest.mark.parametrize(
    ("limit", "reason", "why"),
    [
        ({"tokens": 10}, StopReason.TOKEN_LIMIT, "tokens: 20 of 10 used"),
        ({"tokens": 20}, StopReason.TOKEN_LIMIT, "tokens: 20 of 20 used"),
        ({"seconds": 300}, StopReason.TIME_LIMIT, "seconds: 400 of 300 used"),
        ({"cost": 1.5}, StopReason.COST_LIMIT, "cost: 2 of 1.5 used"),
    ],
)
def test_a_turn_that_uses_up_a_limit_runs_no_calls(
    limit: dict[str, Any], reason: StopReason, why: str, point: str, more: dict[str, Any]
) -> None:
    """Whatever other limits and hooks there are: the call says why it was not run, and the run that it was stopped."""
    shop = Shop()
    turn = shop.slow if "seconds" in limit else call("buy", n=1, tokens=20)
    builder = shop.builder(turn).with_limits(**limit, **more)
    if "cost" in limit:
        builder.with_driver(Costly())
    if point:
        builder.add_hook(point, look)
    ended = builder.build().run_sync("go")
    (result,) = ended.steps[0].results
    assert shop.bought == []
    assert (result.status, result.reason) == (ResultStatus.NOT_RUN, why)
    assert (ended.status, ended.stop_reason) == (RunStatus.STOPPED, reason)
    assert ended.explain() == f"stopped after 1 step: {reason} ({why}), decided by 'limits'"
    assert ended.state.counters.tool_calls == 0


def test_none_of_a_batch_is_run() -> None:
    """Every call of the turn has its result, and none of them began."""
    shop = Shop()
    batch = calls(call("buy", n=1), call("buy", n=2), tokens=20)
    ended = shop.builder(batch).with_limits(tokens=20).build().run_sync("go")
    results = ended.steps[0].results
    assert (shop.bought, len(results)) == ([], 2)
    assert {each.status for each in results} == {ResultStatus.NOT_RUN}
    assert all("tokens: 20 of 20 used" in each.reason for each in results)


def test_an_answer_that_uses_up_a_limit_is_an_answer() -> None:
    """There is nothing left to keep it from."""
    shop = Shop()
    ended = shop.builder(say("bought", tokens=99)).with_limits(tokens=20).build().run_sync("go")
    assert (ended.status, ended.text) == (RunStatus.COMPLETED, "bought")


def test_the_last_step_may_use_its_tools() -> None:
    """Steps are counted as they begin: the calls of the last one that is allowed are run."""
    shop = Shop()
    ended = shop.builder(call("buy", n=1)).with_limits(steps=1).build().run_sync("go")
    assert (shop.bought, ended.stop_reason) == ([1], StopReason.STEP_LIMIT)


@pytest.mark.parametrize("way", ["left out", "replaced", "none"])
def test_who_takes_the_limits_away_takes_them_away_here_too(way: str) -> None:
    """The guard before a step is the one that is asked before its calls."""
    shop = Shop()
    builder = shop.builder(call("buy", n=1, tokens=20)).with_limits(tokens=20)
    if way == "left out":
        builder.without_default("limits")
    elif way == "replaced":
        builder.on_before_step(look, name="limits")
    else:
        builder.with_limits(tokens=None)
    assert builder.build().run_sync("go").text == "done"
    assert shop.bought == [1]


async def test_an_approved_call_is_not_run_when_a_limit_is_used_up_since() -> None:
    """A yes is no way around the limits of the agent that goes on."""
    shop = Shop()
    builder = shop.builder(call("buy", n=1, tokens=20))
    builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask")
    paused = await builder.with_limits(tokens=50).build().run("go")
    assert paused.status is RunStatus.PAUSED
    agent = builder.with_limits(tokens=20).build()
    ended: RunResult = await agent.resume(paused.state, {paused.state.pending[0].id: True})
    assert (shop.bought, ended.stop_reason) == ([], StopReason.TOKEN_LIMIT)


def test_it_is_on_record_as_what_the_hook_said_about_the_call() -> None:
    """As any other hook that stops a run before a call."""
    ended = (
        Shop().builder(call("buy", n=1, tokens=20)).with_limits(tokens=20).build().run_sync("go")
    )
    (said,) = [each for each in ended.records if each.type == "hook" and each.call_id]
    assert (said.point, said.hook, said.verdict) == ("before_tool_use", "limits", "stop")
    assert said.call_id == ended.steps[0].calls[0].id
