from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline import AgentBuilder, AgentState, ErrorPolicy, HookOutcome, RunStatus, StopReason, tool
from hookline.drivers import ToolCallingDriver
from hookline.errors import (
    ConnectionLostError,
    HookError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
)
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import ErrorRaised, RequestSent
from hookline.state import ResultStatus, check_transcript
from hookline.testing import (
    Failure,
    FakeClock,
    ScriptedDriver,
    ScriptedProvider,
    WireTurn,
    call,
    calls,
    say,
)


class Flaky:
    """A tool that fails the first few times."""

    def __init__(self, failures: int, effect: str = "pure") -> None:
        self.left = failures
        self.runs = 0

        @tool(name="flaky", effect=effect)  # type: ignore[call-overload]
        async def flaky() -> str:
            """Work, sooner or later."""
            self.runs += 1
            if self.left:
                self.left -= 1
                raise ConnectionError("try again")
            return "done"

        self.tool = flaky


def builder(*turns: Any, tools: tuple[Any, ...] = ()) -> AgentBuilder:
    """An agent that plays these turns on a clock that does not wait."""
    return (
        AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*tools).with_clock(FakeClock())
    )


def seen(heard: list[Any]) -> list[tuple[str, str]]:
    """The class and message that each error hook got."""
    return [(ctx.error_class.value, ctx.error_message) for ctx in heard]


# --- the model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (RateLimitError("slow down"), "rate_limit"),
        (ModelTimeoutError("too slow"), "timeout"),
        (ConnectionLostError("gone"), "connection"),
        (TimeoutError("too slow"), "timeout"),
        (ConnectionResetError("gone"), "connection"),
    ],
)
async def test_what_may_pass_by_itself_is_tried_again(error: Exception, error_class: str) -> None:
    """Rate limits, time-outs and lost connections, with back-off, and the error hooks are called for each."""
    heard: list[Any] = []
    clock = FakeClock()
    agent = builder(error, error, say("at last")).with_clock(clock).on_error(heard.append)
    result = await agent.build().run("go")
    assert (result.text, result.status, result.state.step_count) == (
        "at last",
        RunStatus.COMPLETED,
        1,
    )
    assert seen(heard) == [(error_class, str(error))] * 2
    assert clock.slept == [0.5, 1.0]
    assert [ctx.exception for ctx in heard] == [error, error]
    attempts = [record.attempt for record in result.records if isinstance(record, RequestSent)]
    assert attempts == [1, 2, 3]


async def test_the_provider_says_how_long_to_wait() -> None:
    """Its word goes before our back-off."""
    clock = FakeClock()
    agent = builder(RateLimitError("slow", retry_after=7), say("ok")).with_clock(clock)
    await agent.build().run("go")
    assert clock.slept == [7.0]


@pytest.mark.parametrize(
    ("asked", "seconds", "slept", "status"),
    [
        (86_400, 300, [], RunStatus.FAILED),
        (86_400, None, [60.0], RunStatus.COMPLETED),
        (120, 300, [60.0], RunStatus.COMPLETED),
        (None, 0.25, [], RunStatus.FAILED),
    ],
)
async def test_a_wait_does_not_outlast_the_run(
    asked: float | None, seconds: float | None, slept: list[float], status: RunStatus
) -> None:
    """Who asks for longer than the run may take has ended it, and the record says so."""
    clock = FakeClock()
    agent = builder(RateLimitError("slow", retry_after=asked), say("ok")).with_clock(clock)
    result = await agent.with_limits(seconds=seconds).build().run("go")
    assert (clock.slept, result.status) == (slept, status)
    if status is RunStatus.FAILED:
        assert isinstance(result.error, RateLimitError)
        [raised] = [record for record in result.records if isinstance(record, ErrorRaised)]
        wait = 0.5 if asked is None else asked
        assert raised.reason == f"the wait is {wait:,} s, and the run has {seconds:,.1f} s left"


async def test_retries_have_a_budget() -> None:
    """One failure more than the retries allowed, and the run is lost."""
    lost: list[Any] = []
    agent = builder(*[RateLimitError("slow")] * 9).on_agent_failed(lost.append)
    result = await agent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.FAILED, StopReason.ERROR)
    assert sum(isinstance(record, RequestSent) for record in result.records) == 4
    assert isinstance(result.error, RateLimitError)
    assert [ctx.exception for ctx in lost] == [result.error]


async def test_success_gives_the_budget_back() -> None:
    """Failures are counted in a row."""
    slow = RateLimitError("slow")
    (use,) = (call("flaky"),)
    turns = [slow, slow, slow, use, slow, slow, slow, say("ok")]
    result = await builder(*turns, tools=(Flaky(0).tool,)).build().run("go")
    assert (result.status, result.state.counters.errors) == (RunStatus.COMPLETED, 6)
    assert result.state.counters.consecutive_errors == {}


@pytest.mark.parametrize(
    ("turns", "status"),
    [
        ([call("nope"), call("flaky")] * 4, RunStatus.COMPLETED),
        ([calls(call("nope"), call("flaky"))] * 4, RunStatus.COMPLETED),
        ([calls(call("flaky"), call("nope"))] * 4, RunStatus.COMPLETED),
        ([calls(call("nope"), call("flaky"), call("nope"), call("nope"))], RunStatus.COMPLETED),
        ([call("nope"), call("nope"), call("nope")], RunStatus.FAILED),
        ([calls(call("flaky"), call("nope")), call("nope"), call("nope")], RunStatus.FAILED),
        ([calls(call("nope"), call("nope"), call("nope"))], RunStatus.FAILED),
    ],
)
@pytest.mark.parametrize("is_judged", [False, True])
async def test_a_valid_call_ends_a_row_of_invalid_ones(
    turns: list[Any], status: RunStatus, is_judged: bool
) -> None:
    """In call order, across steps and within them, whether or not hooks judge the calls."""
    agent = builder(*turns, say("ok"), tools=(Flaky(0).tool,))
    agent.with_error_policy(ErrorPolicy.retry_tool_errors(2))
    if is_judged:
        agent.on_before_tool_use(lambda ctx: None)
    result = await agent.build().run("go")
    assert result.status is status
    if status is RunStatus.FAILED:
        assert result.state.counters.consecutive_errors == {"validation": 3}


@pytest.mark.parametrize(
    "point", "before_step before_inference after_inference after_step should_continue".split()
)
@pytest.mark.parametrize(("every", "status"), [(2, RunStatus.COMPLETED), (1, RunStatus.FAILED)])
async def test_a_step_whose_hooks_all_worked_ends_a_row_of_hook_errors(
    point: str, every: int, status: RunStatus
) -> None:
    """A hook that fails now and then is no hook that keeps failing."""
    asked = iter(range(99))

    def shaky(ctx: Any) -> None:
        if next(asked) % every == 0:
            raise ValueError("oops")

    turns = [call("flaky")] * 5 + [say("ok")]
    agent = builder(*turns, tools=(Flaky(0).tool,)).add_hook(point, shaky)
    result = await agent.with_error_policy(ErrorPolicy.retry_all(2)).build().run("go")
    assert result.status is status
    assert result.state.counters.consecutive_errors == ({"hook": 3} if every == 1 else {})


async def test_an_answer_ends_a_row_of_any_errors_of_the_model() -> None:
    """Also of those that have no class of their own."""
    turns = [KeyError("a"), call("flaky"), KeyError("b"), call("flaky"), KeyError("c"), say("ok")]
    agent = builder(*turns, tools=(Flaky(0).tool,)).with_error_policy(ErrorPolicy.retry_all(1))
    result = await agent.build().run("go")
    assert (result.text, result.state.counters.consecutive_errors) == ("ok", {})


@pytest.mark.parametrize("error", [ModelError("bad request"), ValueError("what?")])
async def test_other_errors_of_the_model_end_the_run(error: Exception) -> None:
    """Failed, with the exception itself in the result and its words in the state."""
    result = await builder(error, say("never")).build().run("go")
    assert (result.status, result.error) == (RunStatus.FAILED, error)
    assert str(error) in result.explain()
    assert result.steps[0].errors[0].message == str(error)
    assert [message.text for message in result.state.messages] == ["go"]


async def test_a_failed_state_can_be_run_again() -> None:
    """The conversation is valid, so another try can continue from it."""
    agent = builder(ModelError("down"), say("back")).build()
    first = await agent.run("go")
    again = await agent.run(state=AgentState.from_json(first.state.to_json()))
    assert (first.status, again.text, again.status) == (
        RunStatus.FAILED,
        "back",
        RunStatus.COMPLETED,
    )


async def test_ignoring_model_errors_gives_the_model_another_step() -> None:
    """The step is lost, the run is not; the step limit still holds."""
    policy = ErrorPolicy(actions={ErrorClass.MODEL: ErrorAction.IGNORE})
    result = await builder(ModelError("x"), say("ok")).with_error_policy(policy).build().run("go")
    assert (result.text, result.state.step_count) == ("ok", 2)
    endless = builder(*[ModelError("x")] * 9).with_error_policy(policy).with_limits(steps=4)
    assert (await endless.build().run("go")).stop_reason is StopReason.STEP_LIMIT


async def test_error_hooks_get_the_real_exception_when_no_step_exists() -> None:
    """Also from execution_start, where nothing has begun yet."""
    heard: list[Any] = []

    def crash(ctx: Any) -> None:
        raise KeyError("no config")

    agent = builder(say("x")).on_execution_start(crash, name="config").on_error(heard.append)
    result = await agent.build().run("go")
    (ctx,) = heard
    assert isinstance(ctx.exception, HookError)
    assert isinstance(ctx.exception.__cause__, KeyError)
    assert (ctx.step_index, ctx.tool_call) == (None, None)
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 0)


# --- tools --------------------------------------------------------------------------------------------


async def test_error_hooks_get_tool_errors_with_the_call() -> None:
    """Logging an error with the last tool is one hook."""
    heard: list[Any] = []
    agent = builder(call("flaky"), say("ok"), tools=(Flaky(9, "once").tool,)).on_error(heard.append)
    result = await agent.build().run("go")
    (ctx,) = heard
    assert (ctx.tool_call.name, ctx.error_class, ctx.error_type) == (
        "flaky",
        ErrorClass.TOOL,
        "ConnectionError",
    )
    assert (ctx.step_index, result.status) == (0, RunStatus.COMPLETED)
    assert result.steps[0].has_errors


async def test_error_hooks_get_validation_errors_too() -> None:
    """Unknown tools and wrong arguments have a class of their own."""
    heard: list[Any] = []
    result = await builder(call("nope"), say("ok")).on_error(heard.append).build().run("go")
    assert [ctx.error_class for ctx in heard] == [ErrorClass.VALIDATION]
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_safe_tool_is_run_again_when_the_policy_says_so(effect: str) -> None:
    """Until it works, within the budget; the model reads only the result."""
    flaky = Flaky(2, effect)
    agent = builder(call("flaky"), say("ok"), tools=(flaky.tool,))
    result = await agent.with_error_policy(ErrorPolicy.retry_tool_errors(3)).build().run("go")
    assert (flaky.runs, result.steps[0].results[0].result) == (3, "done")
    assert result.status is RunStatus.COMPLETED
    assert result.state.counters.tool_calls == 1


async def test_a_tool_that_must_run_once_is_never_run_again() -> None:
    """The model reads the error and decides."""
    flaky = Flaky(1, "once")
    agent = builder(call("flaky"), say("ok"), tools=(flaky.tool,))
    result = await agent.with_error_policy(ErrorPolicy.retry_tool_errors(3)).build().run("go")
    assert (flaky.runs, result.status) == (1, RunStatus.COMPLETED)
    assert result.steps[0].results[0].status is ResultStatus.ERROR


async def test_a_tool_that_keeps_failing_uses_up_its_retries() -> None:
    """Then the run is failed, and every call has its one result."""
    flaky = Flaky(99)
    agent = builder(call("flaky"), say("never"), tools=(flaky.tool,))
    result = await agent.with_error_policy(ErrorPolicy.retry_tool_errors(2)).build().run("go")
    assert (flaky.runs, result.status) == (3, RunStatus.FAILED)
    assert isinstance(result.error, ConnectionError)
    check_transcript(result.state.messages)


async def test_only_the_call_that_failed_is_run_again() -> None:
    """Its neighbours have run and keep their results."""
    flaky = Flaky(1)
    steady = Flaky(0)
    other = tool(steady.tool.function, name="steady", effect="pure")
    agent = builder(calls(call("steady"), call("flaky")), say("ok"), tools=(flaky.tool, other))
    result = await agent.with_error_policy(ErrorPolicy.retry_tool_errors()).build().run("go")
    assert (steady.runs, flaky.runs) == (1, 2)
    assert [each.result for each in result.steps[0].results] == ["done", "done"]


async def test_back_off_grows_and_is_capped() -> None:
    """By a factor, up to the longest delay."""
    clock = FakeClock()
    policy = ErrorPolicy(
        actions={ErrorClass.TOOL: ErrorAction.RETRY},
        max_retries=4,
        first_delay=1,
        factor=10,
        max_delay=50,
    )
    agent = builder(call("flaky"), say("ok"), tools=(Flaky(4).tool,)).with_clock(clock)
    result = await agent.with_limits(seconds=None).with_error_policy(policy).build().run("go")
    assert (clock.slept, result.status) == ([1, 10, 50, 50], RunStatus.COMPLETED)


async def test_stop_on_any_error_means_any() -> None:
    """The first tool error, and the first wrong argument, end the run."""
    policy = ErrorPolicy.stop_on_any_error()
    for turn in (call("flaky"), call("nope")):
        agent = builder(turn, say("never"), tools=(Flaky(1, "once").tool,)).with_error_policy(
            policy
        )
        result = await agent.build().run("go")
        assert (result.status, result.state.step_count) == (RunStatus.FAILED, 1)
        check_transcript(result.state.messages)


async def test_stop_on_any_error_includes_hooks_around_tools() -> None:
    """A hook around a tool is part of the call: when it fails, the call has failed."""

    async def crash(ctx: Any, call_next: Any) -> Any:
        raise RuntimeError("oops")

    agent = builder(call("flaky"), say("never"), tools=(Flaky(0).tool,)).around_tool_use(crash)
    result = await agent.with_error_policy(ErrorPolicy.stop_on_any_error()).build().run("go")
    assert result.status is RunStatus.FAILED


async def test_when_one_call_ends_the_run_its_neighbours_are_settled_too() -> None:
    """A wrong call before them: they do not run. A failing call beside them: they have run."""
    policy = ErrorPolicy.stop_on_any_error()
    steady = Flaky(0)
    agent = builder(calls(call("nope"), call("flaky")), tools=(steady.tool,)).with_error_policy(
        policy
    )
    result = await agent.build().run("go")
    assert steady.runs == 0
    assert [each.status.value for each in result.steps[0].results] == ["invalid", "not_run"]
    check_transcript(result.state.messages)


async def test_retry_all_tries_everything_again() -> None:
    """Also errors that would otherwise end the run."""
    agent = builder(ValueError("odd"), say("ok")).with_error_policy(ErrorPolicy.retry_all(2))
    assert (await agent.build().run("go")).text == "ok"


async def test_a_budget_caps_all_errors_of_a_run() -> None:
    """Whatever their class, and whatever the policy says about each."""
    policy = ErrorPolicy(max_errors=2)
    turns = [call("flaky")] * 5
    agent = builder(*turns, tools=(Flaky(99, "once").tool,)).with_error_policy(policy)
    result = await agent.build().run("go")
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 3)
    actions = [record.action for record in result.records if isinstance(record, ErrorRaised)]
    assert actions == ["ignore", "ignore", "stop"]


# --- hooks --------------------------------------------------------------------------------------------


async def test_a_crashing_hook_never_escapes_the_run() -> None:
    """It becomes an error with the hook's name, the point, and the crash as its cause."""

    def crash(ctx: Any) -> None:
        raise ZeroDivisionError("oops")

    result = await builder(say("x")).on_before_step(crash, name="shaky").build().run("go")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert (result.error.hook, result.error.point) == ("shaky", "before_step")
    assert isinstance(result.error.__cause__, ZeroDivisionError)


async def test_an_error_policy_can_let_a_run_survive_a_crashing_inference_hook() -> None:
    """The step is lost and the model gets another."""
    crashes = [True]

    def crash(ctx: Any) -> None:
        if crashes:
            crashes.pop()
            raise RuntimeError("oops")

    policy = ErrorPolicy(actions={ErrorClass.HOOK: ErrorAction.IGNORE})
    agent = builder(say("lost"), say("ok")).on_after_inference(crash).with_error_policy(policy)
    result = await agent.build().run("go")
    assert (result.text, result.status, result.state.step_count) == ("ok", RunStatus.COMPLETED, 2)


async def test_a_crashing_error_hook_does_not_start_another_round() -> None:
    """Every error hook is called once. The run ends, and the first error stays the reason."""
    heard: list[str] = []

    def crash(ctx: Any) -> None:
        heard.append("crash")
        raise RuntimeError("logger down")

    agent = builder(call("flaky"), say("never"), tools=(Flaky(1, "once").tool,))
    agent.on_error(crash, priority=1).on_error(lambda ctx: heard.append(ctx.error_type))
    result = await agent.build().run("go")
    assert heard == ["crash", "ConnectionError"]
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, ConnectionError)


async def test_an_error_hook_may_stop_the_run() -> None:
    """Then nothing is tried again: the run is stopped by that hook, not lost."""
    agent = builder(RateLimitError("slow"), say("never"))
    agent.on_error(lambda ctx: HookOutcome.stop("do not wait"), name="impatient")
    result = await agent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert "do not wait" in result.explain()
    assert sum(isinstance(record, RequestSent) for record in result.records) == 1


async def test_an_error_hook_may_forbid_continuing() -> None:
    """A tool error after which the step finishes and the run stops."""
    agent = builder(call("flaky"), say("never"), tools=(Flaky(1, "once").tool,))
    result = await agent.on_error(lambda ctx: ctx.forbid("one is too many")).build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert result.steps[0].results[0].status is ResultStatus.ERROR


async def test_the_hooks_of_a_lost_run_are_called_in_order() -> None:
    """error, then agent_failed, then execution_end; none of them is skipped."""
    order: list[str] = []
    agent = builder(ModelError("down"))
    for point in ("error", "agent_failed", "execution_end", "session_end", "after_step", "output"):
        agent.add_hook(point, lambda ctx: order.append(ctx.point.value))
    await agent.build().run("go")
    assert order == ["error", "after_step", "agent_failed", "execution_end", "session_end"]


async def test_a_crash_in_agent_failed_changes_nothing() -> None:
    """The run is lost already, for the first reason."""

    def crash(ctx: Any) -> None:
        raise RuntimeError("pager down")

    agent = builder(ModelError("down")).on_agent_failed(crash).on_execution_end(lambda ctx: None)
    result = await agent.build().run("go")
    assert isinstance(result.error, ModelError)


async def test_errors_are_on_record_with_what_was_decided() -> None:
    """Class, words, action and delay."""
    result = await builder(RateLimitError("slow"), say("ok")).build().run("go")
    (raised,) = [record for record in result.records if isinstance(record, ErrorRaised)]
    assert raised.error is not None
    assert (raised.error.error_class, raised.action, raised.delay, raised.step) == (
        "rate_limit",
        "retry",
        0.5,
        0,
    )


@pytest.mark.parametrize("kind", [KeyError, asyncio.CancelledError, SystemExit])
async def test_a_policy_that_fails_itself_ends_the_run(kind: type[BaseException]) -> None:
    """There is nobody else to ask, and nothing escapes the run."""

    class Broken(ErrorPolicy, frozen=True):
        def decide(self, *_: Any) -> Any:
            raise kind("no rule")

    agent = builder(ModelError("down")).with_error_policy(Broken()).build()
    result = await agent.run("go")
    assert (result.status, str(result.error)) == (RunStatus.FAILED, "down")
    (raised,) = [record for record in result.records if isinstance(record, ErrorRaised)]
    assert raised.action == "stop"
    assert "the error policy failed" in raised.reason


# --- failures of providers: which are tried again, and which end the run ------------------------------


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
    Failure.MALFORMED: ErrorClass.MALFORMED,
}
PASSES = {
    Failure.RATE_LIMIT,
    Failure.OVERLOADED,
    Failure.SERVER_ERROR,
    Failure.CUT,
    Failure.MALFORMED,
}


def provider_agent(*turns: WireTurn) -> tuple[AgentBuilder, FakeClock]:
    """An agent whose provider plays these turns, and its clock."""
    clock = FakeClock()
    driver = ToolCallingDriver("m", provider=ScriptedProvider(turns))
    return AgentBuilder().with_driver(driver).with_clock(clock), clock


@pytest.mark.parametrize("failure", CLASSES)
async def test_what_passes_is_tried_again_and_what_does_not_ends_the_run(failure: Failure) -> None:
    """Every failure has its class; by default only those that pass are worth another try."""
    made, _ = provider_agent(WireTurn("half", failure=failure), WireTurn("hi"))
    result = await made.build().run("go")
    (error,) = (record for record in result.records if isinstance(record, ErrorRaised))
    assert error.error is not None
    assert error.error.error_class == CLASSES[failure]
    assert error.action == ("retry" if failure in PASSES else "stop")
    assert result.status is (RunStatus.COMPLETED if failure in PASSES else RunStatus.FAILED)


@pytest.mark.parametrize("failure", CLASSES)
async def test_failures_in_a_row_are_counted_until_the_model_answers(failure: Failure) -> None:
    """Whatever their class."""
    made, _ = provider_agent(*[WireTurn(failure=failure)] * 2, WireTurn("hi"))
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
    made, clock = provider_agent(*turns, WireTurn("hi"))
    await made.build().run("go")
    assert clock.slept == [42.5, 1.0, 2.0]
