from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from hookline import AgentBuilder, AgentState, HookOutcome, RunStatus, ToolCall, ToolContext, tool
from hookline.agent.run import Run
from hookline.drivers import Turn
from hookline.errors import HookError
from hookline.journal import RequestSent, ResponseReceived
from hookline.state import (
    NO_USAGE,
    InferenceRequest,
    InferenceResponse,
    Log,
    StepType,
    Usage,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, say


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def builder(driver: Any) -> AgentBuilder:
    """An agent with one tool and this driver."""
    return AgentBuilder().with_driver(driver).with_tools(add)


class Plays:
    """A driver that answers with what it is given."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[InferenceRequest] = []

    async def infer(self, request: InferenceRequest, turn: Turn) -> Any:
        self.requests.append(request)
        return self.answers.pop(0)


# --- before -------------------------------------------------------------------------------------------


async def test_the_request_is_what_the_state_adds_up_to() -> None:
    """System prompt, conversation and tools, and its record needs no copy of them."""
    driver = ScriptedDriver([say("hi")])
    result = await builder(driver).with_system_prompt("be brief").build().run("hello")
    request = driver.requests[0]
    assert (request.system, [spec.name for spec in request.tools]) == ("be brief", ["add"])
    assert str(request) == "system: be brief\nuser: hello"
    sent = next(record for record in result.records if isinstance(record, RequestSent))
    assert (sent.messages, sent.attempt, sent.altered) == (1, 1, None)


async def test_a_hook_may_change_the_request_and_state_keeps_its_own() -> None:
    """What only the model is shown is not in the conversation; the record has the request that was sent."""
    driver = ScriptedDriver([say("hi")])

    def shorten(ctx: Any) -> Any:
        request = ctx.request.with_messages(Log([UserMessage("only this")])).with_model("small")
        return request.with_system("hurry").with_tools(()).with_options(temperature=0)

    result = await builder(driver).on_before_inference(shorten).build().run("hello")
    sent = driver.requests[0]
    assert (str(sent), sent.model, sent.tools) == ("system: hurry\nuser: only this", "small", ())
    assert sent.options == {"temperature": 0}
    assert [message.text for message in result.state.messages] == ["hello", "hi"]
    record = next(record for record in result.records if isinstance(record, RequestSent))
    assert record.altered is not None
    assert record.altered["messages"] == [{"role": "user", "text": "only this"}]


async def test_changes_of_several_hooks_fold_in_order() -> None:
    """Each hook sees what the one before it made of the request."""
    driver = ScriptedDriver([say("hi")])
    agent = builder(driver)
    for word in ("a", "b", "c"):
        agent.on_before_inference(
            lambda ctx, *, word=word: ctx.request.with_system(ctx.request.system + word), name=word
        )
    await agent.build().run("go")
    assert driver.requests[0].system == "abc"


async def test_a_request_with_a_broken_conversation_is_never_sent() -> None:
    """A call without its result is refused, naming the hook."""
    driver = ScriptedDriver([call("add", a=1, b=1), say("2")])

    def cut(ctx: Any) -> Any:
        return ctx.request.with_messages(ctx.request.messages[:2])

    result = await builder(driver).on_before_inference(cut, name="cutter").build().run("go")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert "cutter" in str(result.error)
    assert len(driver.requests) == 1


@pytest.mark.parametrize("wrong", ["a text", None, 5])
async def test_an_invalid_request_is_the_hooks_failure(wrong: Any) -> None:
    """The run fails before a model is asked anything."""
    driver = ScriptedDriver([say("hi")])
    agent = builder(driver).on_before_inference(lambda ctx: ctx.with_request(wrong), name="wrong")
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert "wrong" in str(result.error)
    assert driver.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda ctx: ctx.with_response("from the cache"),
        lambda ctx: InferenceResponse("from the cache"),
        lambda ctx: HookOutcome.proceed(ctx.with_response(InferenceResponse("from the cache"))),
    ],
)
async def test_a_hook_may_answer_instead_of_the_model(answer: Any) -> None:
    """No model is called, later hooks see the answer, and the record says it was supplied."""
    driver = ScriptedDriver([])
    seen: list[str] = []
    result = await (
        builder(driver)
        .on_before_inference(answer)
        .on_after_inference(lambda ctx: seen.append(ctx.response.text))
        .build()
        .run("go")
    )
    assert (result.text, driver.requests, seen) == ("from the cache", [], ["from the cache"])
    received = next(record for record in result.records if isinstance(record, ResponseReceived))
    assert received.supplied
    assert not any(isinstance(record, RequestSent) for record in result.records)


async def test_a_supplied_answer_may_call_tools() -> None:
    """They run like calls of a model's."""
    response = InferenceResponse("", (ToolCall("mine", "add", {"a": 2, "b": 2}),))
    driver = ScriptedDriver([say("4")])
    result = await (
        builder(driver)
        .on_before_inference(lambda ctx: response if not ctx.state.steps else None)
        .build()
        .run("go")
    )
    assert (result.text, result.steps[0].results[0].result) == ("4", 4)


async def test_a_blocked_inference_is_explained_in_the_next_step() -> None:
    """The model is not called; the reason is a message of the hook's, and the run continues."""
    driver = ScriptedDriver([say("hi")])
    result = await (
        builder(driver)
        .on_before_inference(
            lambda ctx: HookOutcome.block("think first") if not ctx.state.steps else None,
            name="coach",
        )
        .build()
        .run("hello")
    )
    assert (result.text, result.status, result.state.step_count) == ("hi", RunStatus.COMPLETED, 2)
    assert result.steps[0].type is StepType.INCOMPLETE
    assert str(driver.requests[0]) == "user: hello\nuser: think first"
    assert result.state.messages[1].by == "coach"


async def test_an_inference_that_is_always_blocked_ends_at_the_step_limit() -> None:
    """A block is no way around a guard."""
    driver = ScriptedDriver([])
    agent = builder(driver).on_before_inference(lambda ctx: HookOutcome.block("no"))
    result = await agent.with_limits(steps=3).build().run("hello")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 3)
    assert result.stop_reason == "step_limit"


@pytest.mark.parametrize("point", ["before_inference", "after_inference"])
async def test_a_stop_around_the_model_ends_the_run(point: str) -> None:
    """Before: the model is not asked. After: its calls get results that say they were not run."""
    ran: list[int] = []

    def count(n: int) -> int:
        """Count."""
        ran.append(n)
        return n

    driver = ScriptedDriver([call("count", n=1), say("x")])
    agent = AgentBuilder().with_driver(driver).with_tools(count)
    result = await agent.add_hook(point, lambda ctx: HookOutcome.stop("no more")).build().run("go")
    assert (result.status, ran) == (RunStatus.STOPPED, [])
    assert len(driver.requests) == (0 if point == "before_inference" else 1)
    assert [each.status for each in result.steps[0].results] == (
        [] if point == "before_inference" else ["not_run"]
    )


# --- after --------------------------------------------------------------------------------------------


async def test_a_hook_may_change_the_response() -> None:
    """What enters the conversation is what the hooks made of it."""
    driver = ScriptedDriver([call("add", a=1, b=1), say("my password is hunter2")])

    def redact(ctx: Any) -> Any:
        return ctx.response.with_text(ctx.response.text.replace("hunter2", "***"))

    result = await builder(driver).on_after_inference(redact).build().run("go")
    assert result.text == "my password is ***"
    assert "hunter2" not in result.state.to_json()


async def test_a_hook_may_take_calls_away() -> None:
    """A response without calls is a final answer."""
    driver = ScriptedDriver([call("add", a=1, b=1)])
    agent = builder(driver).on_after_inference(
        lambda ctx: ctx.response.with_calls().with_text("no")
    )
    result = await agent.build().run("go")
    assert (result.text, result.steps[0].calls) == ("no", ())


async def test_a_discarded_response_leaves_only_the_reason() -> None:
    """Neither conversation nor journal keep what it said, and its usage counts all the same."""
    driver = ScriptedDriver([say("the secret is xyzzy", tokens=7), say("sorry", tokens=5)])

    def no_secrets(ctx: Any) -> Any:
        return HookOutcome.block("do not tell secrets") if "secret" in ctx.response.text else None

    result = await builder(driver).on_after_inference(no_secrets).build().run("tell me")
    assert (result.text, result.status) == ("sorry", RunStatus.COMPLETED)
    assert result.usage.total_tokens == 12
    assert str(driver.requests[1]) == "user: tell me\nuser: do not tell secrets"
    assert "xyzzy" not in result.state.to_json()
    received = [record for record in result.records if isinstance(record, ResponseReceived)]
    assert [(each.discarded, each.text, each.usage.total_tokens) for each in received] == [
        (True, "", 7),
        (False, "sorry", 5),
    ]


async def test_calls_of_a_discarded_response_are_not_run() -> None:
    """They never enter the conversation, so they need no result."""
    driver = ScriptedDriver([call("add", a=1, b=1), say("ok")])
    agent = builder(driver).on_after_inference(
        lambda ctx: HookOutcome.block("no tools") if ctx.response.calls else None
    )
    result = await agent.build().run("go")
    assert [message.role for message in result.state.messages] == ["user", "user", "assistant"]
    assert result.state.counters.tool_calls == 0


@pytest.mark.parametrize("wrong", ["None", "twins", "nameless", "surrogate", "number"])
@pytest.mark.parametrize("point", ["before_inference", "after_inference"])
async def test_a_response_no_conversation_can_hold_is_the_hooks_failure(
    wrong: str, point: str
) -> None:
    """It names the hook, and the state can still be saved."""
    made: Any = {
        "None": None,
        "number": 5,
        "twins": InferenceResponse("", (ToolCall("x", "add"), ToolCall("x", "add"))),
        "nameless": InferenceResponse("", (ToolCall("", "add"),)),
        "surrogate": InferenceResponse("\ud800"),
    }[wrong]
    if wrong == "None" and point == "before_inference":
        made = 5  # there None is no change
    driver = ScriptedDriver([say("hi")])

    def change(ctx: Any) -> Any:
        return msgspec.structs.replace(ctx, response=made)

    result = await builder(driver).add_hook(point, change, name="odd").build().run("go")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert result.error.hook == "odd"
    assert AgentState.from_json(result.state.to_json()) == result.state


@pytest.mark.parametrize(
    "wrong",
    [
        "just text",
        None,
        InferenceResponse("", (ToolCall("x", "add"), ToolCall("x", "add"))),
        InferenceResponse("", (ToolCall("", "add"),)),
        InferenceResponse("\ud800"),
    ],
)
async def test_a_driver_that_answers_nonsense_fails_the_run(wrong: Any) -> None:
    """What it gave never enters the conversation."""
    result = await builder(Plays(wrong)).build().run("go")
    assert result.status is RunStatus.FAILED
    assert [message.text for message in result.state.messages] == ["go"]
    assert AgentState.from_json(result.state.to_json()) == result.state


async def test_usage_adds_up_over_steps_and_keeps_cost_apart_from_nothing() -> None:
    """An unknown cost is None; known costs are summed."""
    priced = InferenceResponse(
        "", (ToolCall("1", "add", {"a": 1, "b": 1}),), Usage(10, 5, 1, cost=0.25)
    )
    result = (
        await builder(Plays(priced, InferenceResponse("2", (), Usage(3, 2, 1)))).build().run("go")
    )
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.requests) == (
        13,
        7,
        2,
    )
    assert result.usage.cost == 0.25
    assert [step.usage.total_tokens for step in result.steps] == [15, 5]
    free = await builder(ScriptedDriver([say("hi", tokens=3)])).build().run("go")
    assert free.usage.cost is None


async def test_model_calls_of_hooks_count_too() -> None:
    """A critic's tokens are the run's tokens, and the limit sees them."""

    def critic(ctx: Any) -> None:
        ctx.run.charge(Usage(input_tokens=100, requests=1))

    driver = ScriptedDriver([call("add", a=1, b=1, tokens=1), say("2", tokens=1), say("x")])
    agent = builder(driver).on_after_step(critic)
    result = await agent.build().run("go")
    assert result.usage.total_tokens == 202
    limited = (
        await builder(ScriptedDriver([call("add", a=1, b=1), say("2")]))
        .on_after_inference(critic)
        .with_limits(tokens=50)
        .build()
        .run("go")
    )
    assert (limited.status, limited.stop_reason) == (RunStatus.STOPPED, "token_limit")


async def test_observers_see_an_inference_that_failed() -> None:
    """It has an end too, without a response."""
    seen: list[Any] = []
    driver = ScriptedDriver([RuntimeError("model down")])
    agent = builder(driver).on_after_inference(
        lambda ctx: seen.append(ctx.response), tier="observer"
    )
    result = await agent.build().run("go")
    assert (result.status, seen) == (RunStatus.FAILED, [None])


@tool(effect="pure")
async def words(text: str = "hello") -> str:
    """Give some text."""
    return text


@pytest.mark.parametrize(
    "point", ["before_inference", "after_inference", "before_tool_use", "after_tool_use", "output"]
)
async def test_a_single_hook_at_any_point_of_a_turn_is_called(point: str) -> None:
    """One hook at any point of a turn is enough for it to be asked."""
    seen: list[str] = []
    agent = AgentBuilder().with_driver(ScriptedDriver([call("words"), say("done")]))
    agent.with_tools(words).add_hook(point, lambda ctx: seen.append(ctx.point.value))
    assert (await agent.build().run("go")).text == "done"
    assert seen == [point] * (2 if "inference" in point else 1)


async def test_what_it_costs_is_counted_up_the_tree() -> None:
    """The calls, steps and tokens of a child that nobody watches are its parent's too."""
    inner = AgentBuilder().with_tools(words).with_limits(steps=4)
    inner.with_driver(ScriptedDriver([call("words", text="a"), say("inner", tokens=5)]))
    child = inner.build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(child, "task")).text

    outer = AgentBuilder().with_tools(delegate)
    outer.with_driver(ScriptedDriver([call("delegate"), say("outer")]))
    ended = await outer.build().run("go")
    counters = ended.state.counters
    assert (counters.steps, counters.tool_calls) == (4, 2)
    assert counters.usage != NO_USAGE


async def test_a_run_leaves_nothing_for_the_garbage_collector() -> None:
    """A run that is over is gone with its result: a server that makes many does not pile them up."""
    driver = ScriptedDriver([call("words"), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(words).build()
    gc.collect()
    gc.disable()
    try:
        await agent.run("go")
        left = [each for each in gc.get_objects() if isinstance(each, Run)]
        assert [run for run in left if run.definition is agent.definition] == []
    finally:
        gc.enable()
