"""Text is streamed as it comes. Text that a hook may withhold is held back."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from streaming import add, deltas, read

from hookline import AgentBuilder, HookOutcome, ToolCall, ToolContext
from hookline.errors import RateLimitError
from hookline.journal import (
    CallDelta,
    ReasoningDelta,
    Record,
    TextDelta,
    ToolProgress,
)
from hookline.state import InferenceResponse, Reasoning
from hookline.testing import FakeClock, ScriptedDriver, call, say


async def pieces(agent: AgentBuilder) -> list[str]:
    """What is streamed, piece by piece, with its kind."""
    found = []
    for record in await read(agent.build().stream("go")):
        if isinstance(record, TextDelta | ReasoningDelta):
            found.append(f"{record.type[0]}:{record.text}")
        elif isinstance(record, CallDelta):
            found.append(f"{record.call_id}:{record.arguments}")
    return found


class Speaks:
    """A driver that streams its answer in pieces."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def infer(self, request: Any, turn: Any) -> InferenceResponse:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            turn.emit_text("half an ans")
            raise answer
        for word in answer.split(" "):
            turn.emit_text(word + " ")
            await asyncio.sleep(0)
        return InferenceResponse(answer)


async def test_text_is_streamed_as_it_comes() -> None:
    """Without a hook that might withhold it, nothing is held back, and nothing of it is journalled."""
    agent = AgentBuilder().with_driver(Speaks("one two three")).build()
    stream = agent.stream("go")
    records = await read(stream)
    assert deltas(records) == ["one ", "two ", "three "]
    assert not any(isinstance(record, TextDelta) for record in stream.result.records)
    position = [record.type for record in records].index("response")
    assert all(isinstance(record, TextDelta) for record in records[position - 3 : position])


@pytest.mark.parametrize("point", ["after_inference", "output"])
async def test_text_is_held_back_while_a_hook_may_withhold_it(point: str) -> None:
    """Then it comes in one piece, as the hooks left it."""
    agent = AgentBuilder().with_driver(Speaks("the password is hunter2"))

    def redact(ctx: Any) -> Any:
        if point == "output":
            return ctx.output.replace("hunter2", "***")
        return ctx.response.with_text(ctx.response.text.replace("hunter2", "***"))

    agent.add_hook(point, redact)
    stream = agent.build().stream("go")
    assert deltas(await read(stream)) == ["the password is ***"]
    assert stream.result.text == "the password is ***"


@pytest.mark.parametrize("point", ["after_inference", "output"])
@pytest.mark.parametrize("verdict", ["block", "crash"])
async def test_text_that_was_withheld_never_leaks(point: str, verdict: str) -> None:
    """Neither as a delta nor in any record that the stream yields."""

    def withhold(ctx: Any) -> Any:
        if ctx.state.step_count and point == "after_inference":
            return None
        if verdict == "crash":
            raise RuntimeError("oops")
        return HookOutcome.block("not that")

    agent = AgentBuilder().with_driver(Speaks("the password is hunter2", "sorry"))
    stream = agent.add_hook(point, withhold).build().stream("go")
    records = await read(stream)
    text = "".join(deltas(records))
    assert "hunter2" not in repr(records)
    assert "hunter2" not in stream.result.text
    assert [record.seq for record in records if record.type != "text_delta"] == [
        record.seq for record in stream.result.records
    ]
    if point == "after_inference" and verdict == "block":
        assert text == "sorry"


async def test_listeners_get_the_answer_as_the_output_hooks_left_it() -> None:
    """In every record that has it; an answer that was sent back to work does not reach them."""
    heard: list[Record] = []
    agent = (
        AgentBuilder()
        .with_driver(Speaks("hunter1", "hunter2"))
        .on_stop(lambda ctx: HookOutcome.block("go on") if ctx.state.step_count < 2 else None)
        .on_output(lambda ctx: ctx.with_output("***"))
        .on_event(heard.append)
    )
    result = await agent.build().run("go")
    assert result.text == "***"
    assert "hunter" not in repr(heard)
    assert [record.text for record in heard if record.type == "response"] == ["", "***"]  # type: ignore[attr-defined]
    assert [record.seq for record in heard if record.type != "text_delta"] == [
        record.seq for record in result.records
    ]
    assert [step.text for step in result.steps] == [
        "hunter1",
        "hunter2",
    ]  # what the model said stays known


async def test_text_that_a_hook_around_the_inference_replaces_never_leaks() -> None:
    """What was streamed is what the model was let say."""

    async def redact(ctx: Any, call_next: Any) -> Any:
        response = await call_next(ctx)
        return response.with_text("***")

    agent = AgentBuilder().with_driver(Speaks("hunter2")).around_inference(redact)
    assert "hunter2" not in "".join(deltas(await read(agent.build().stream("go"))))


async def test_text_before_tool_calls_is_released_when_the_step_continues() -> None:
    """Output hooks judge the final answer; what is said on the way is not it."""
    response = InferenceResponse("let me see")

    class Driver:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            if len(turn.state.steps):
                turn.emit_text("42")
                return InferenceResponse("42")
            turn.emit_text("let me see")
            return response.with_calls(ToolCall("c", "add", {"a": 41}))

    agent = AgentBuilder().with_driver(Driver()).with_tools(add).on_output(lambda ctx: None)
    assert deltas(await read(agent.build().stream("go"))) == ["let me see", "42"]


async def test_text_of_an_answer_that_was_sent_back_is_not_the_answer() -> None:
    """With output hooks present, only what the caller gets is streamed."""
    agent = AgentBuilder().with_driver(Speaks("draft", "final"))
    agent.on_output(lambda ctx: ctx.output.upper())
    agent.on_stop(lambda ctx: HookOutcome.block("again") if ctx.state.step_count < 2 else None)
    assert deltas(await read(agent.build().stream("go"))) == ["FINAL"]


THOUGHT = (Reasoning("hmm, yes"),)


class Thinks:
    """A driver that streams thinking, text and two calls at once, and then answers."""

    async def infer(self, request: Any, turn: Any) -> InferenceResponse:
        turn.emit_reasoning("hmm, ")
        turn.emit_reasoning("yes")
        turn.emit_text("let me ")
        if turn.state.step_count:
            turn.emit_text("tell")
            return InferenceResponse("let me tell", reasoning=THOUGHT)
        turn.emit_call("x", "add", '{"a": ')
        turn.emit_call("y", "add", '{"a": 2}')
        turn.emit_text("see")
        turn.emit_call("x", "add", "1}")
        calls = ToolCall("x", "add", {"a": 1}), ToolCall("y", "add", {"a": 2})
        return InferenceResponse("let me see", calls, reasoning=THOUGHT)


def thinking(point: str = "", hook: Any = None, **options: Any) -> AgentBuilder:
    """An agent that thinks aloud, and a hook that may withhold it."""
    agent = AgentBuilder().with_driver(Thinks()).with_tools(add)
    return agent.add_hook(point, hook, **options) if point else agent


FIRST = ["r:hmm, ", "r:yes", "t:let me ", 'x:{"a": ', 'y:{"a": 2}', "t:see", "x:1}"]


SECOND = ["r:hmm, ", "r:yes", "t:let me ", "t:tell"]


FIRST_WHOLE = ["r:hmm, yes", "t:let me see", 'x:{"a":1}', 'y:{"a":2}']


SECOND_WHOLE = ["r:hmm, yes", "t:let me tell"]


@pytest.mark.parametrize("point", ["", "after_inference", "output"])
async def test_what_was_held_back_comes_as_the_model_said_it(point: str) -> None:
    """Thinking and calls like text, in the same order and each in one piece, once the hooks let it through."""
    said = await pieces(thinking(point, lambda ctx: None))
    assert said == ([*FIRST_WHOLE, *SECOND_WHOLE] if point else [*FIRST, *SECOND])


async def test_of_what_was_held_back_only_that_comes_which_still_holds() -> None:
    """A removed call is not streamed, and a changed one is streamed as changed."""

    def change(ctx: Any) -> Any:
        if not ctx.response.calls:
            return HookOutcome.block("no") if ctx.state.step_count < 2 else None
        changed = ctx.response.with_calls(ToolCall("x", "add", {"a": 7}))
        return msgspec.structs.replace(changed, reasoning=(Reasoning("***"),))

    agent = thinking("after_inference", change).with_limits(steps=2)
    assert await pieces(agent) == ["r:***", "t:let me see", 'x:{"a":7}']


async def test_the_thinking_of_an_answer_that_an_output_hook_changed_is_not_streamed() -> None:
    """It may say what the answer was."""
    assert await pieces(thinking("output", lambda ctx: "***")) == [*FIRST_WHOLE, "t:***"]


@pytest.mark.parametrize("point", ["after_inference", "output"])
async def test_a_hook_in_shadow_holds_nothing_back(point: str) -> None:
    """It cannot withhold: what it would do is on record, and the text flows."""
    agent = AgentBuilder().with_driver(Speaks("one two"))
    agent.add_hook(point, lambda ctx: HookOutcome.block("no"), shadow=True)
    records = await read(agent.build().stream("go"))
    assert deltas(records) == ["one ", "two "]
    types = [record.type for record in records]
    assert types.index("text_delta") < types.index("response")


async def test_an_observer_holds_nothing_back() -> None:
    """It cannot withhold, so the text flows."""
    agent = AgentBuilder().with_driver(Speaks("one two"))
    agent.on_after_inference(lambda ctx: None, tier="observer").on_output(
        lambda ctx: None, tier="observer"
    )
    assert deltas(await read(agent.build().stream("go"))) == ["one ", "two "]


async def test_text_of_an_attempt_that_failed_is_dropped_when_it_was_held() -> None:
    """Only what the successful attempt said comes out."""
    agent = AgentBuilder().with_driver(Speaks(RateLimitError("slow"), "whole answer"))
    agent.with_clock(FakeClock()).on_after_inference(lambda ctx: None)
    assert deltas(await read(agent.build().stream("go"))) == ["whole answer"]


async def test_a_policy_of_the_tree_holds_back_a_childs_text() -> None:
    """Listeners of the parent also get the child's records, so the same must hold there."""
    child = AgentBuilder().with_driver(Speaks("hunter2")).build()

    async def delegate(context: ToolContext) -> str:
        """Delegate."""
        return (await context.spawn(child, "go")).text

    agent = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("ok")]))
    agent.with_tools(delegate)
    agent.on_after_inference(
        lambda ctx: HookOutcome.block("no") if "hunter2" in ctx.response.text else None,
        scope="tree",
        tier="policy",
    )
    agent.with_limits(steps=4)
    assert "hunter2" not in "".join(deltas(await read(agent.build().stream("go"))))


async def test_progress_is_streamed_as_it_happens() -> None:
    """Between the call and its result."""

    async def work(context: ToolContext) -> str:
        """Work."""
        for part in (1, 2):
            context.progress(part)
            await asyncio.sleep(0)
        return "done"

    agent = AgentBuilder().with_driver(ScriptedDriver([call("work"), say("ok")])).with_tools(work)
    records = await read(agent.build().stream("go"))
    kinds = [record.type for record in records]
    progress = [record for record in records if isinstance(record, ToolProgress)]
    assert [record.message for record in progress] == [1, 2]
    assert kinds.index("call") < kinds.index("progress") < kinds.index("tool_result")


async def test_progress_that_is_not_json_is_the_tools_error() -> None:
    """Nothing unspeakable goes out to listeners."""

    async def work(context: ToolContext) -> str:
        """Work."""
        context.progress(object())
        return "done"

    agent = AgentBuilder().with_driver(ScriptedDriver([call("work"), say("ok")])).with_tools(work)
    result = await agent.build().run("go")
    assert "progress message" in str(result.steps[0].results[0].error)
