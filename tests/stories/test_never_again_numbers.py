"""What went wrong before must not happen again: durations, saved errors, limits, reasons, observers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from never_again import POINTS, Boom, add, assert_whole, builder, full_run, once

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunResult,
    RunStatus,
    StopHookContext,
    StopReason,
    ToolCall,
    ToolContext,
    tool,
)
from hookline.errors import ToolError
from hookline.state import InferenceRequest, InferenceResponse, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


async def slow(ctx: Any) -> None:
    """An observer that gives way to other tasks."""
    await asyncio.sleep(0)


# --- step durations include model and tools ---------------------------------------------------------


async def test_step_durations_include_model_tools_and_hooks() -> None:
    """Each takes its time on the run's clock, and the step's duration is their sum."""
    clock = FakeClock()

    @tool
    async def slow() -> str:
        """Take seven seconds."""
        clock.advance(7)
        return "slow"

    def thinks(turn: Any) -> Any:
        def play(_state: AgentState) -> Any:
            clock.advance(3)
            return turn

        return play

    agent = AgentBuilder().with_driver(ScriptedDriver([thinks(call("slow")), thinks(say("done"))]))
    agent.with_tools(slow).with_clock(clock)
    agent.on_before_tool_use(lambda ctx: clock.advance(0.25)).on_after_step(
        lambda ctx: clock.advance(0.5)
    )
    result = await agent.build().run("go")
    assert [step.duration for step in result.steps] == [10.75, 3.5]
    assert result.steps[0].results[0].duration == 7
    assert result.state.counters.active_seconds == 14.25


# --- tool errors survive serialisation --------------------------------------------------------------


def test_tool_errors_survive_serialisation() -> None:
    """Kind, words and class of an error, and why a call was blocked, are the same after a round trip."""
    agent = builder(
        calls(call("fail"), call("add", a="x", b=1), call("add", a=1, b=1)), say("done")
    )
    result = (
        agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"), matcher="add")
        .build()
        .run_sync("go")
    )
    restored = AgentState.from_json(result.state.to_json())
    assert restored == result.state
    failed, invalid, blocked = restored.steps[0].results
    assert failed.error is not None
    assert (failed.error.message, failed.error.error_class) == ("the disk is full", "tool")
    assert failed.error.type.endswith("ToolError")
    assert invalid.error is not None
    assert (invalid.status, invalid.error.error_class) == ("invalid", "validation")
    assert (blocked.status, blocked.reason) == ("blocked", "no")
    assert restored.steps[0].has_errors


@given(st.text(), st.sampled_from([ValueError, KeyError, ToolError, OSError, TimeoutError]))
def test_any_tool_error_survives_serialisation(words: str, kind: type[Exception]) -> None:
    """Whatever a tool raises, the state can be saved and says the same afterwards."""

    async def breaks() -> str:
        """Raise."""
        raise kind(words)

    result = builder(call("breaks"), say("done")).with_tools(breaks).build().run_sync("go")
    assert AgentState.from_json(result.state.to_json()) == result.state
    assert result.status is RunStatus.COMPLETED
    assert result.steps[0].results[0].status == "error"


# --- a limit that is configured is enforced ---------------------------------------------------------


class Costly:
    """A driver that calls `add` forever, and says what each turn costs."""

    def __init__(self, usage: Usage, clock: FakeClock) -> None:
        self.usage = usage
        self.clock = clock
        self.turns = 0

    async def infer(self, request: InferenceRequest, turn: Any) -> InferenceResponse:
        self.turns += 1
        self.clock.advance(10)
        return InferenceResponse(
            "", (ToolCall(f"c{self.turns}", "add", {"a": 1, "b": 1}),), self.usage
        )


@pytest.mark.parametrize(
    ("limit", "steps", "reason"),
    [
        ({"steps": 4}, 4, StopReason.STEP_LIMIT),
        ({"tokens": 250}, 3, StopReason.TOKEN_LIMIT),
        ({"seconds": 25}, 3, StopReason.TIME_LIMIT),
        ({"cost": 1.0}, 2, StopReason.COST_LIMIT),
        ({"tool_calls": 5}, 6, StopReason.TOOL_CALL_LIMIT),
    ],
)
def test_a_limit_that_is_configured_is_enforced(
    limit: dict[str, Any], steps: int, reason: StopReason
) -> None:
    """Each of them stops the run, and says which one it was."""
    clock = FakeClock()
    driver = Costly(Usage(input_tokens=90, output_tokens=10, requests=1, cost=0.5), clock)
    agent = AgentBuilder().with_driver(driver).with_tools(add).with_clock(clock)
    result = agent.with_limits(**limit).build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, reason)
    assert (driver.turns, result.state.step_count) == (steps, steps)
    assert "used" in result.explain()
    assert_whole(result)


def test_limits_are_checked_before_and_not_after() -> None:
    """An answer that is given in the last allowed step is a completed run."""
    result = builder(call("add", a=1, b=2), say("3")).with_limits(steps=2).build().run_sync("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "3")


@pytest.mark.parametrize("limit", [{"steps": 0}, {"tokens": 0}, {"cost": 0}])
def test_a_limit_of_zero_allows_nothing(limit: dict[str, Any]) -> None:
    """Zero is a limit and not the absence of one."""
    driver = ScriptedDriver([say("never")])
    result = AgentBuilder().with_driver(driver).with_limits(**limit).build().run_sync("go")
    assert (result.status, driver.requests) == (RunStatus.STOPPED, [])


def test_limits_hold_for_the_whole_tree() -> None:
    """What a child spends its parent has spent, and a child cannot continue when its parent may not."""
    child_driver = ScriptedDriver([lambda state: call("add", a=1, b=1, tokens=50)] * 9)
    child = AgentBuilder().with_driver(child_driver).with_tools(add).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Start a child."""
        return str((await context.spawn(child, "help")).text)

    agent = builder(call("delegate", tokens=10), say("never")).with_tools(delegate)
    result = agent.with_limits(tokens=100).build().run_sync("go")
    assert (result.stop_reason, len(child_driver.requests)) == (StopReason.TOKEN_LIMIT, 2)
    assert result.usage.output_tokens == 110


# --- a second blocker does not hide the first one's reason ------------------------------------------


def test_a_second_blocker_does_not_hide_the_first_ones_reason() -> None:
    """The model, the record and the observers get the first hook that blocked."""
    seen: list[Any] = []
    agent = (
        builder(call("add", a=1, b=2), say("done"))
        .on_before_tool_use(lambda ctx: HookOutcome.block("first"), name="one", priority=1)
        .on_before_tool_use(lambda ctx: HookOutcome.block("second"), name="two")
        .on_before_tool_use(lambda ctx: HookOutcome.block("third"), name="three", tier="policy")
        .on_before_tool_use(
            lambda ctx: seen.append((ctx.verdict.decided_by, ctx.verdict.reason)), tier="observer"
        )
        .build()
    )
    blocked = agent.run_sync("go").steps[0].results[0]
    assert (blocked.decided_by, blocked.reason) == ("one", "first")
    assert seen == [("one", "first")]


def test_middleware_around_a_blocker_does_not_hide_its_reason() -> None:
    """An outer hook that sees the block and blocks as well, or wants to proceed, changes nothing."""

    class BlocksToo:
        async def handle(self, ctx: Any, next: Any) -> HookOutcome:
            result = await next(ctx)
            return HookOutcome.block(f"outer, after {result.reason}")

    class Whitewashes:
        async def handle(self, ctx: Any, next: Any) -> HookOutcome:
            await next(ctx)
            return HookOutcome.proceed()

    for outer in (BlocksToo(), Whitewashes()):
        agent = builder(call("add", a=1, b=2), say("done")).on_before_tool_use(outer, priority=1)
        agent.on_before_tool_use(lambda ctx: HookOutcome.block("inner"), name="inner")
        blocked = agent.build().run_sync("go").steps[0].results[0]
        assert (blocked.decided_by, blocked.reason) == ("inner", "inner")


def test_a_second_objection_to_stopping_does_not_hide_the_first() -> None:
    """The model reads the reason of the hook that objected."""
    driver = ScriptedDriver([say("one"), say("two")])
    agent = AgentBuilder().with_driver(driver)
    agent.on_stop(once(lambda ctx: HookOutcome.block("tests fail")), name="tests", priority=1)
    agent.on_stop(once(lambda ctx: HookOutcome.block("docs missing")), name="docs")
    agent.build().run_sync("go")
    assert "tests fail" in str(driver.requests[1])


def test_a_stop_still_outranks_an_earlier_block() -> None:
    """The strictest wins; among equals the first."""

    class StopsAfterwards:
        async def handle(self, ctx: Any, next: Any) -> HookOutcome:
            await next(ctx)
            return HookOutcome.stop("that was the last straw")

    agent = builder(call("add", a=1, b=2), say("never")).on_before_tool_use(
        StopsAfterwards(), priority=1, name="straw"
    )
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("inner"), name="inner")
    result = agent.build().run_sync("go")
    assert (result.status, result.explain().split(", ")[-1]) == (
        RunStatus.STOPPED,
        "decided by 'straw'",
    )


# --- subscribing an observer never changes the result -----------------------------------------------


def outcome_of(result: RunResult) -> Any:
    """All of a result that does not depend on the clock or on random ids."""
    return (
        result.text,
        result.status,
        result.stop_reason,
        list(result.state.messages),
        result.state.metadata,
        result.usage,
        [(step.type, step.text, step.calls, step.errors, step.outcome) for step in result.steps],
        [
            [(r.status, r.result, r.error, r.reason, r.decided_by) for r in step.results]
            for step in result.steps
        ],
    )


def observed_run() -> AgentBuilder:
    """A run in which much happens: an ask, a block, an error, a child, an objection, a changed result."""
    return (
        full_run()
        .with_clock(FakeClock())
        .on_before_tool_use(lambda ctx: HookOutcome.block("not twice"), name="gate", matcher="fail")
        .on_after_tool_use(lambda ctx: ctx.with_metadata("last", ctx.tool_call.name))
        .on_stop(once(lambda ctx: HookOutcome.block("once more")), name="objects")
        .on_output(lambda ctx: ctx.with_output(ctx.output.upper()))
    )


def crashing(ctx: Any) -> None:
    """An observer that crashes."""
    raise Boom("observer")


OBSERVERS: dict[str, Callable[[Any], Any]] = {
    "watches": lambda ctx: None,
    "crashes": crashing,
    "yields": slow,
    "blocks": lambda ctx: HookOutcome.block("I would"),
    "stops": lambda ctx: HookOutcome.stop("I would"),
    "returns nonsense": lambda ctx: False,
    "forbids": lambda ctx: ctx.forbid("I would"),
    "writes": lambda ctx: ctx.with_metadata("observer", "was here"),
}


@pytest.mark.parametrize("what", OBSERVERS)
async def test_subscribing_an_observer_never_changes_the_result(what: str) -> None:
    """One observer at every point: it may watch, crash or return anything, without any effect."""
    plain = await observed_run().build().run("go")
    watched = observed_run()
    for point in POINTS:
        watched.add_hook(point, OBSERVERS[what], tier="observer", priority=5000)
    assert outcome_of(await watched.build().run("go")) == outcome_of(plain)
    assert plain.status is RunStatus.COMPLETED


async def test_listening_to_events_or_streaming_never_changes_the_result() -> None:
    """Every way of watching a run goes through the same loop."""
    plain = outcome_of(await observed_run().build().run("go"))
    heard: list[Any] = []
    listening = await observed_run().on_event(heard.append).build().run("go")
    stream = observed_run().build().stream("go")
    async for _ in stream:
        pass
    steps = observed_run().build().iterate("go")
    async for _ in steps:
        pass
    assert [outcome_of(each) for each in (listening, stream.result, steps.result)] == [plain] * 3
    assert heard


def test_an_observer_of_stops_does_not_count_as_an_objection() -> None:
    """Watching the stop point uses up nothing of the cap on objections."""
    agent = builder(say("done")).on_stop(lambda ctx: HookOutcome.block("no"), tier="observer")
    result = agent.with_limits(objections=0).build().run_sync("go")
    assert (result.status, result.state.counters.objections) == (RunStatus.COMPLETED, 0)


def test_stop_context_is_shown_to_observers_with_the_outcome() -> None:
    """What is about to happen is there to be seen, and only to be seen."""
    seen: list[Any] = []

    def watch(ctx: StopHookContext) -> None:
        seen.append((ctx.continuation.stop_reason, ctx.continuation.resolved_by))

    builder(say("done")).on_stop(watch, tier="observer").build().run_sync("go")
    assert seen == [(StopReason.COMPLETED, "tool-calls")]
