"""Steps: how they pause and continue, and the times they have."""

from __future__ import annotations

from typing import Any

import pytest
from approving import Bench, statuses

from hookline import AgentBuilder, AgentState, ErrorPolicy, RunStatus, StopReason, tool
from hookline.errors import RateLimitError, UsageError
from hookline.state import InferenceResponse, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


async def test_no_call_of_the_step_runs_before_every_question_is_answered(bench: Bench) -> None:
    """Also those nobody asked about; those that are settled already are settled."""
    batch = calls(call("look", n=1), call("pay", amount=5), call("nope"), call("pay", amount=6))
    agent = bench.asking(batch, say("done")).build()
    paused = await agent.run("go")
    assert (paused.status, bench.ran) == (RunStatus.PAUSED, [])
    assert [question.tool_call.args["amount"] for question in paused.pending] == [5, 6]
    result = await agent.resume(paused, {question.id: True for question in paused.pending})
    assert bench.ran == [("look", 1), ("pay", 5, "kim"), ("pay", 6, "kim")]
    assert (result.text, statuses(result)) == ("done", ["ok", "ok", "invalid", "ok"])


async def test_the_hooks_on_the_way_out_run_when_a_run_pauses(bench: Bench) -> None:
    """execution_end sees that the run is paused; session_end and after_step wait for the real end."""
    seen: list[str] = []
    agent = bench.asking(call("pay", amount=5), say("done"))
    for point in ("execution_start", "before_step", "after_step", "execution_end", "session_end"):
        agent.add_hook(point, lambda ctx: seen.append(ctx.point.value), name="note")
    built = agent.on_execution_start(lambda ctx: seen.append(f"resumed={ctx.resumed}")).build()
    paused = await built.run("go")
    assert seen == ["execution_start", "resumed=False", "before_step", "execution_end"]
    seen.clear()
    await built.resume(paused, {paused.pending[0].id: True})
    assert seen == [
        *("execution_start", "resumed=True", "after_step"),
        *("before_step", "after_step", "execution_end", "session_end"),
    ]


@pytest.mark.parametrize("session", [None, "s"])
async def test_a_session_of_its_own_ends_with_the_run_and_another_does_not(
    bench: Bench, session: str | None
) -> None:
    """A pause changes nothing about that, also through JSON."""
    seen: list[str] = []
    agent = bench.asking(call("pay", amount=5), say("done"))
    agent.on_session_start(lambda ctx: seen.append("start"))
    built = agent.on_session_end(lambda ctx: seen.append("end")).build()
    paused = await built.run("go", session=session)
    state = AgentState.from_json(paused.state.to_json())
    await built.resume(state, {state.pending[0].id: True})
    assert seen == (["start", "end"] if session is None else ["start"])


async def test_a_paused_state_takes_no_new_prompt(bench: Bench) -> None:
    """It must be answered first, and the error says how."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go")
    with pytest.raises(UsageError, match="resume"):
        await agent.run("something else", state=paused.state)


async def test_metadata_and_evaluations_survive_the_pause(bench: Bench) -> None:
    """What hooks said and wrote before it holds after it, also through JSON."""
    agent = bench.asking(call("pay", amount=5), say("never"))
    agent.on_before_tool_use(
        lambda ctx: ctx.with_metadata("seen", 1).forbid("last one"), name="end"
    )
    built = agent.build()
    paused = await built.run("go")
    state = AgentState.from_json(paused.state.to_json())
    result = await built.resume(state, {state.pending[0].id: True})
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert result.state.metadata["seen"] == 1
    assert statuses(result) == ["ok"]


async def test_what_failed_before_the_pause_stays_in_the_errors_of_the_step(bench: Bench) -> None:
    """A run that paused has the errors of one whose approver answered at once."""

    def agent() -> AgentBuilder:
        return bench.asking(calls(call("nope"), call("pay", amount=5)), say("done"))

    at_once = await agent().with_approver(lambda _: True).build().run("go")
    waiting = agent().build()
    paused = await waiting.run("go")
    state = AgentState.from_json(paused.state.to_json())
    later = await waiting.resume(state, {state.pending[0].id: True})
    assert later.steps[0].errors == at_once.steps[0].errors
    assert [info.error_class for info in later.steps[0].errors] == ["validation"]


async def test_a_message_added_before_the_pause_stays_where_it_belongs(bench: Bench) -> None:
    """A run that paused has the conversation of one whose approver answered at once."""

    def agent() -> AgentBuilder:
        turns = (calls(call("look"), call("pay", amount=5)), say("done"))
        built = bench.asking(*turns)
        built.on_before_tool_use(
            lambda ctx: ctx.state.with_user_message(f"about {ctx.tool_call.name}")
        )
        return built.on_before_step(lambda ctx: ctx.state.with_user_message("hint"))

    at_once = await agent().with_approver(lambda _: True).build().run("go")
    waiting = agent().build()
    paused = await waiting.run("go")
    state = AgentState.from_json(paused.state.to_json())
    check_transcript(state.messages)
    later = await waiting.resume(state, {state.pending[0].id: True})
    assert list(later.state.messages) == list(at_once.state.messages)


async def test_time_spent_paused_does_not_count(bench: Bench) -> None:
    """Active time adds up over the pause, and neither step nor run counts the wait."""
    clock = FakeClock()

    def think(ctx: Any) -> None:
        clock.advance(10)

    agent = bench.asking(call("pay", amount=5), say("done")).with_clock(clock)
    agent.on_before_step(think).on_after_tool_use(think)
    built = agent.with_limits(seconds=100).build()
    paused = await built.run("go")
    clock.advance(100_000)
    result = await built.resume(paused, {paused.pending[0].id: True})
    assert (result.status, result.state.counters.active_seconds) == (RunStatus.COMPLETED, 30)
    assert [step.duration for step in result.steps] == [20, 10]


async def test_usage_and_counters_add_up_over_the_pause(bench: Bench) -> None:
    """Limits are for the run, however often it pauses."""
    pay = call("pay", amount=5, tokens=10)
    agent = bench.asking(pay, pay, pay, say("done", tokens=5)).with_limits(steps=3, tool_calls=5)
    built = agent.build()
    result = await built.run("go")
    for _ in range(3):
        state = AgentState.from_json(result.state.to_json())
        assert state.counters.steps == len(bench.ran)
        result = await built.resume(state, {state.pending[0].id: True})
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert (result.usage.total_tokens, result.state.counters.tool_calls) == (30, 3)
    assert len(bench.ran) == 3


async def test_a_call_limit_counts_each_call_once_over_a_pause(bench: Bench) -> None:
    """A call that was cleared before the pause is not counted again after it."""
    batch = calls(call("look"), call("pay", amount=5))
    built = bench.asking(batch, say("done")).with_limits(tool_calls=2).build()
    paused = await built.run("go")
    result = await built.resume(paused, {paused.pending[0].id: True})
    assert (result.status, result.state.counters.tool_calls) == (RunStatus.COMPLETED, 2)


# --- every record and every piece of text says when it was, and not when the one before it was --


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
def test_records_of_a_models_text_and_errors_have_the_time_at_which_they_came(
    points: tuple[str, ...],
) -> None:
    """Text comes piece by piece, an error when the model failed, and the next request after the wait."""
    clock = FakeClock()
    heard: list[Any] = []
    builder = AgentBuilder().with_driver(Slow(clock, 1)).with_clock(clock).on_event(heard.append)
    for point in points:
        builder.add_hook(point, look, tier="observer")
    assert builder.build().run_sync("go").text == "ab"
    began = heard[0].at
    types = ("request", "text_delta", "error", "response")
    assert [(each.type, each.at - began) for each in heard if each.type in types] == [
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
