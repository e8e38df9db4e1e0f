from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, ErrorPolicy, HookOutcome, RunStatus
from hookline.drivers import FallbackDriver, ReActDriver, ScriptedDriver, ToolCallingDriver
from hookline.errors import (
    AuthenticationError,
    BuildError,
    ContextOverflowError,
    OverloadedError,
    RateLimitError,
)
from hookline.flow import ErrorClass
from hookline.journal import ErrorRaised, Record, ResponseReceived, TextDelta
from hookline.testing import Failure, FakeClock, ScriptedProvider, WireTurn, say

BUSY = WireTurn(failure=Failure.OVERLOADED)
CUT = WireTurn("a long beginning", failure=Failure.CUT)


def model(name: str, *turns: WireTurn) -> tuple[ToolCallingDriver, ScriptedProvider]:
    """A driver, and the provider it asks."""
    provider = ScriptedProvider(turns, name=name)
    return ToolCallingDriver("m", provider=provider), provider


def builder(*drivers: Any, **options: Any) -> AgentBuilder:
    """An agent that asks these, on a clock that stands still."""
    return AgentBuilder().with_driver(FallbackDriver(*drivers, **options)).with_clock(FakeClock())


def errors(records: Any) -> list[tuple[str, str]]:
    """What failed and what was done about it."""
    return [(record.action, record.reason) for record in records if isinstance(record, ErrorRaised)]


async def test_the_next_model_is_asked_when_one_fails() -> None:
    """The answer names its model, and the record those that failed; every turn begins with the first again."""
    first, one = model("one", BUSY, WireTurn("hi again"))
    second, two = model("two", WireTurn("hi"))
    agent = builder(first, second).build()
    result = await agent.run("go")
    assert (result.text, result.status) == ("hi", RunStatus.COMPLETED)
    assert errors(result.records) == [("fallback", "one:m failed; asking two:m")]
    assert result.steps[0].errors[0].error_class == "overloaded"
    answered = [one.model for one in result.records if isinstance(one, ResponseReceived)]
    assert answered == ["two:m"]
    assert (await agent.run("more", state=result.state)).text == "hi again"
    assert (len(one.requests), len(two.requests)) == (2, 1)


async def test_drivers_of_every_kind_can_stand_in_for_each_other() -> None:
    """A native one, a text protocol, a script."""
    first, _ = model("one", BUSY)
    second = ReActDriver("m", provider=ScriptedProvider([BUSY], name="two"))
    agent = builder(first, second, ScriptedDriver([say("hi")])).build()
    result = await agent.run("go")
    assert result.text == "hi"
    assert errors(result.records) == [
        ("fallback", "one:m failed; asking two:m"),
        ("fallback", "two:m failed; asking scripted"),
    ]


async def test_when_all_fail_the_error_policy_decides() -> None:
    """It retries the whole list, after the delay that was asked for."""
    limited = WireTurn(failure=Failure.RATE_LIMIT, retry_after=9.0)
    first, _ = model("one", BUSY, BUSY)
    second, _ = model("two", limited, WireTurn("hi"))
    clock = FakeClock()
    result = await builder(first, second).with_clock(clock).build().run("go")
    assert result.text == "hi"
    assert [action for action, _ in errors(result.records)] == ["fallback", "retry", "fallback"]
    assert clock.slept == [9.0]
    first, _ = model("one", BUSY)
    second, _ = model("two", limited)
    policy = ErrorPolicy.stop_on_any_error()
    result = await builder(first, second).with_error_policy(policy).build().run("go")
    assert isinstance(result.error, RateLimitError)


async def test_a_retry_waits_as_long_as_any_of_them_asked_for() -> None:
    """It begins with the first again, which may have asked for longer than the last."""
    first, _ = model("one", WireTurn(failure=Failure.RATE_LIMIT, retry_after=40.0), WireTurn("hi"))
    second, _ = model("two", BUSY)
    clock = FakeClock()
    result = await builder(first, second).with_clock(clock).build().run("go")
    assert (result.text, clock.slept) == ("hi", [40.0])


async def test_what_will_not_pass_is_not_hidden_behind_another_model() -> None:
    """A wrong key stays an error, unless it is chosen."""
    wrong = WireTurn(failure=Failure.BAD_KEY)
    second, two = model("two", WireTurn("hi"))
    result = await builder(model("one", wrong)[0], second).build().run("go")
    assert isinstance(result.error, AuthenticationError)
    assert two.requests == []
    chosen = builder(model("one", wrong)[0], second, on=["authentication"])
    assert (await chosen.build().run("go")).text == "hi"


async def test_a_longer_memory_can_be_fallen_back_on() -> None:
    """By naming the class."""
    full = WireTurn(failure=Failure.CONTEXT_OVERFLOW)
    first, second = model("one", full)[0], model("two", WireTurn("hi"))[0]
    result = await builder(first, second).build().run("go")
    assert isinstance(result.error, ContextOverflowError)
    first, second = model("one", full)[0], model("two", WireTurn("hi"))[0]
    result = await builder(first, second, on=[ErrorClass.CONTEXT_OVERFLOW]).build().run("go")
    assert result.text == "hi"


def shown(records: list[Record]) -> str:
    """The text as a correct reader shows it: what came before an error is dropped."""
    text = ""
    for record in records:
        if isinstance(record, TextDelta):
            text += record.text
        elif isinstance(record, ErrorRaised):
            text = ""
    return text


@pytest.mark.parametrize("held", [False, True])
async def test_nothing_of_a_failed_model_remains(held: bool) -> None:
    """A reader of the stream drops it; where text is held back, it never gets out."""
    first, second = model("one", CUT)[0], model("two", WireTurn("the answer"))[0]
    agent = builder(first, second)
    if held:
        agent.on_after_inference(lambda ctx: HookOutcome.proceed())
    stream = agent.build().stream("go")
    records = [record async for record in stream]
    assert stream.result.text == shown(records) == "the answer"
    texts = "".join(record.text for record in records if isinstance(record, TextDelta))
    assert (texts == "the answer") is held


async def test_a_model_that_a_hook_names_takes_the_first_place() -> None:
    """When it fails, the others of the list are asked as they are."""
    first, one = model("one", BUSY)
    second, two = model("two", WireTurn("hi"))
    agent = builder(first, second).on_before_inference(
        lambda ctx: ctx.with_request(ctx.request.with_model("special"))
    )
    result = await agent.build().run("go")
    assert [request.model for request in (*one.requests, *two.requests)] == ["special", "m"]
    assert errors(result.records) == [("fallback", "special failed; asking two:m")]


@pytest.mark.parametrize("nested", [False, True])
async def test_a_named_model_goes_to_the_provider_that_is_configured_for_it(
    monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    """Not to one made from defaults, elsewhere and with another key; when it fails, the others are asked."""
    monkeypatch.setattr("hookline.drivers.model.provider_names", lambda: ["one", "two", "three"])
    monkeypatch.setattr("hookline.drivers.model.make_provider", lambda name: pytest.fail(name))
    first, one = model("one", WireTurn("from one"))
    second, two = model("two", WireTurn("from two"), BUSY)
    agent = (
        builder(first, FallbackDriver(second, model("three")[0]) if nested else second)
        .on_before_inference(lambda ctx: ctx.with_request(ctx.request.with_model("two:llama")))
        .build()
    )
    assert (await agent.run("go")).text == "from two"
    assert one.requests == []
    if not nested:
        assert (await agent.run("go")).text == "from one"
    assert {request.model for request in two.requests} == {"llama"}


async def test_of_two_drivers_of_one_provider_the_one_of_that_model_is_asked() -> None:
    """One name, two addresses: whose own model it is comes first."""
    default, one = model("openai")
    second = ScriptedProvider([WireTurn("hi")], name="openai")
    agent = builder(default, ToolCallingDriver("llama", provider=second)).on_before_inference(
        lambda ctx: ctx.with_request(ctx.request.with_model("openai:llama"))
    )
    assert (await agent.build().run("go")).text == "hi"
    assert one.requests == []


async def test_options_cross_to_another_provider_only_where_it_has_them() -> None:
    """A driver's and a hook's: the portable ones, in its own words; the same provider gets them all."""
    options = {"max_tokens": 5, "thinking": {"type": "enabled"}}
    one = ScriptedProvider([BUSY], name="anthropic")
    two = ScriptedProvider([BUSY], name="anthropic")
    three = ScriptedProvider([WireTurn("hi")], name="google")
    agent = builder(
        ToolCallingDriver("a", provider=one, options=options),
        ToolCallingDriver("b", provider=two),
        ToolCallingDriver("c", provider=three, options={"top_k": 2}),
    ).on_before_inference(
        lambda ctx: ctx.with_request(ctx.request.with_options(stop="END", service_tier="auto"))
    )
    assert (await agent.build().run("go")).text == "hi"
    hooks = {"stop_sequences": ["END"], "service_tier": "auto"}
    assert dict(one.requests[0].options) == {**options, **hooks}
    assert dict(two.requests[0].options) == hooks
    assert dict(three.requests[0].options) == {"top_k": 2, "stop_sequences": ["END"]}


async def test_a_drivers_own_options_stay_with_its_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hook that names a model of another provider takes along the portable ones alone."""
    google = ScriptedProvider([WireTurn("hi")], name="google")
    monkeypatch.setattr("hookline.drivers.model.make_provider", lambda name: google)
    options = {"max_tokens": 5, "thinking": {"type": "enabled"}}
    anthropic = ScriptedProvider([], name="anthropic")
    agent = (
        AgentBuilder()
        .with_driver(ToolCallingDriver("a", provider=anthropic, options=options))
        .on_before_inference(lambda ctx: ctx.with_request(ctx.request.with_model("google:g")))
    )
    assert (await agent.build().run("go")).text == "hi"
    assert dict(google.requests[0].options) == {"max_output_tokens": 5}


async def test_all_of_them_are_closed() -> None:
    """Those that can be."""
    first, one = model("one")
    second, two = model("two")
    await FallbackDriver(first, second, ScriptedDriver([])).aclose()
    assert one.is_closed
    assert two.is_closed


def test_it_says_what_it_asks() -> None:
    """In explain too."""
    made = FallbackDriver(model("one")[0], ScriptedDriver([]))
    assert made.model == "one:m, then scripted"
    assert "FallbackDriver: one:m, then scripted" in (
        AgentBuilder().with_driver(made).build().explain()
    )


def test_wrong_use_is_refused() -> None:
    """No models, or classes that do not exist."""
    with pytest.raises(BuildError, match="no model to ask"):
        FallbackDriver()
    with pytest.raises(BuildError, match="'busy' is not a valid ErrorClass"):
        FallbackDriver(ScriptedDriver([]), on=["busy"])


async def test_an_error_of_a_class_is_enough(turn: Any) -> None:
    """Also one that a driver of somebody else's raises."""
    driver = FallbackDriver(ScriptedDriver([OverloadedError("busy")]), ScriptedDriver([say("hi")]))
    result = await AgentBuilder().with_driver(driver).build().run("go")
    assert result.text == "hi"
