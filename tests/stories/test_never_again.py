"""What went wrong before must not happen again: state, errors and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from never_again import (
    add,
    builder,
    once,
)

from hookline import (
    AgentBuilder,
    AgentState,
    FailureHookContext,
    HookOutcome,
    RunStatus,
    StopReason,
    ToolHookContext,
    tool,
)
from hookline.errors import HookError
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

# --- state written by a tool hook is kept -----------------------------------------------------------


@pytest.mark.parametrize("point", ["before_tool_use", "after_tool_use"])
def test_state_written_by_a_tool_hook_is_kept(point: str) -> None:
    """Later hooks, the next step, the result and a saved copy all have it."""
    seen: list[Any] = []
    agent = builder(call("add", a=1, b=2), say("3"))
    agent.add_hook(point, lambda ctx: ctx.state.with_metadata("used", ctx.tool_call.name))
    agent.on_after_step(lambda ctx: seen.append(ctx.metadata.get("used")))
    result = agent.build().run_sync("go")
    assert seen == ["add", "add"]
    assert AgentState.from_json(result.state.to_json()).metadata == {"used": "add"}


def test_state_written_for_parallel_calls_adds_up() -> None:
    """Tools run at the same time and their hooks do not, so no count is lost."""

    def count(key: str) -> Callable[[ToolHookContext], AgentState]:
        return lambda ctx: ctx.state.with_metadata(key, ctx.metadata.get(key, 0) + 1)

    agent = builder(calls(*(call("add", a=n, b=n) for n in range(10))), say("done"))
    agent.on_before_tool_use(count("before")).on_after_tool_use(count("after"))
    assert agent.build().run_sync("go").state.metadata == {"before": 10, "after": 10}


def test_state_written_by_a_hook_that_blocks_is_kept() -> None:
    """The verdict does not throw away what came with it, nor what was written before it."""

    def strike(ctx: ToolHookContext) -> HookOutcome:
        return HookOutcome.block("no", ctx.with_metadata("strikes", ctx.get("strikes", 0) + 1))

    agent = builder(calls(call("add", a=1, b=1), call("add", a=2, b=2)), say("done"))
    agent.on_before_tool_use(lambda ctx: ctx.with_metadata("seen", True), priority=1)
    result = agent.on_before_tool_use(strike).build().run_sync("go")
    assert result.state.metadata == {"seen": True, "strikes": 2}


def test_messages_written_by_a_tool_hook_follow_the_results() -> None:
    """A note to the model is kept, and never comes between a call and its result."""
    driver = ScriptedDriver([calls(call("add", a=1, b=2), call("add", a=3, b=4)), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(add)
    agent.on_before_tool_use(
        lambda ctx: ctx.state.with_user_message(f"note {ctx.tool_call.args['a']}")
    )
    agent.build().run_sync("go")
    lines = str(driver.requests[1]).splitlines()
    assert lines[2:] == ["tool add: 3", "tool add: 7", "user: note 1", "user: note 3"]


# --- a recovered tool error or block does not make the run failed -----------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        call("fail"),
        call("add", a="not a number", b=1),
        call("nothing_of_that_name"),
        calls(call("fail"), call("add", a=1, b=2)),
        call("add", a=99, b=1),
    ],
    ids=["error", "invalid", "unknown", "beside a success", "blocked"],
)
def test_a_recovered_error_or_block_ends_completed(turn: Any) -> None:
    """The model reads what went wrong and answers: that is a completed run without an error."""
    agent = builder(turn, say("never mind")).on_before_tool_use(
        lambda ctx: HookOutcome.block("too big") if ctx.tool_call.args.get("a") == 99 else None
    )
    failed: list[Any] = []
    result = agent.on_agent_failed(lambda ctx: failed.append(ctx)).build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.COMPLETED, StopReason.COMPLETED)
    assert (result.error, result.text, failed) == (None, "never mind", [])
    assert not result.steps[0].results[0].is_success


async def test_a_recovered_model_error_ends_completed() -> None:
    """A lost connection is tried again, and what worked in the end is all that counts."""
    agent = builder(ConnectionError("gone"), TimeoutError("slow"), say("here I am"))
    result = await agent.with_clock(FakeClock()).build().run("go")
    assert (result.status, result.error, result.text) == (RunStatus.COMPLETED, None, "here I am")
    assert result.state.step_count == 1


# --- a block is an event and names the hook ---------------------------------------------------------


async def test_a_block_is_an_event_and_names_the_hook() -> None:
    """Listeners get it, the stream yields it, the result and the observers name the hook."""
    heard: list[Any] = []
    observed: list[Any] = []
    agent = builder(call("add", a=99, b=1), say("done"))
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("too big"), name="size")
    agent.on_after_tool_use(
        lambda ctx: observed.append(
            (ctx.verdict.label, ctx.verdict.decided_by, ctx.verdict.reason)
        ),
        tier="observer",
    )
    stream = agent.on_event(heard.append).build().stream("go")
    streamed = [event async for event in stream]

    def blocks(events: list[Any]) -> list[Any]:
        return [
            (event.hook, event.point, event.reason, event.call_id)
            for event in events
            if event.type == "hook" and event.verdict == "block"
        ]

    expected = [("size", "before_tool_use", "too big", "call_1_1")]
    assert blocks(heard) == blocks(streamed) == blocks(list(stream.result.records)) == expected
    settled = [event.result for event in streamed if event.type == "tool_result"]
    assert [(each.decided_by, each.reason) for each in settled] == [("size", "too big")]
    assert observed == [("block", "size", "too big")]


@pytest.mark.parametrize(
    "point",
    "execution_start prompt_submit before_step before_inference after_inference before_tool_use "
    "after_tool_use stop output".split(),
)
def test_a_block_anywhere_is_an_event_and_names_the_hook(point: str) -> None:
    """Not only blocked tools: every block names its hook and its reason."""
    agent = builder(call("add", a=1, b=2), say("one"), say("two"), say("three"))
    agent.add_hook(point, once(lambda ctx: HookOutcome.block("not this time")), name="gate")
    result = agent.build().run_sync("go")
    blocks = [
        (record.hook, record.point, record.reason)  # type: ignore[attr-defined]
        for record in result.records
        if record.type == "hook" and record.verdict == "block"  # type: ignore[attr-defined]
    ]
    assert blocks == [("gate", point, "not this time")]
    if result.status is RunStatus.STOPPED:
        assert result.explain().endswith("(not this time), decided by 'gate'")


# --- error hooks get the real exception even when no step exists ------------------------------------


def test_error_hooks_get_the_real_exception_before_any_step_is_recorded() -> None:
    """The very object that was raised, with its traceback, at `error` and at `agent_failed`."""
    boom = RuntimeError("the model is gone")
    seen: list[Any] = []

    def look(ctx: FailureHookContext) -> None:
        seen.append((str(ctx.point), ctx.exception, ctx.state.step_count))

    result = builder(boom).on_error(look).on_agent_failed(look).build().run_sync("go")
    assert seen == [("error", boom, 0), ("agent_failed", boom, 1)]
    assert result.error is boom
    assert boom.__traceback__ is not None


@pytest.mark.parametrize("point", ["session_start", "execution_start", "before_step"])
def test_error_hooks_get_the_crash_of_a_hook_that_ran_before_any_step(point: str) -> None:
    """The error names the hook, and what the hook raised is its cause."""
    boom = KeyError("oops")
    seen: list[Any] = []

    def crash(ctx: Any) -> None:
        raise boom

    agent = builder(say("never")).add_hook(point, crash)
    agent.on_error(lambda ctx: seen.append(ctx.exception))
    result = agent.on_agent_failed(lambda ctx: seen.append(ctx.exception)).build().run_sync("go")
    assert len(seen) == 2
    assert all(isinstance(each, HookError) and each.__cause__ is boom for each in seen)
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 0)


def test_error_hooks_get_what_a_tool_raised() -> None:
    """Also an exception that is no ToolError, together with the call that failed."""
    boom = ZeroDivisionError("by zero")
    seen: list[Any] = []

    @tool
    def divide() -> float:
        """Divide."""
        raise boom

    agent = builder(call("divide"), say("done")).with_tools(divide)
    agent.on_error(lambda ctx: seen.append((ctx.exception, ctx.error_class, ctx.tool_call.name)))
    agent.build().run_sync("go")
    assert seen == [(boom, "tool", "divide")]
