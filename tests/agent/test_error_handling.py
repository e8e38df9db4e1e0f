"""What an `error` hook may answer: try again, continue, or give what failed."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    ErrorPolicy,
    HookOutcome,
    RunStatus,
    StopReason,
    ToolCall,
    ToolResult,
    tool,
)
from hookline.errors import BlockedCallError, ModelTimeoutError, RateLimitError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import ErrorRaised, MemoryJournal, ResponseReceived, hooks_in
from hookline.playback import replay
from hookline.state import (
    ContinuationDecision,
    ContinuationEvaluation,
    InferenceResponse,
    ResultStatus,
)
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class Failing:
    """A tool that always fails, and counts."""

    def __init__(self, effect: str = "pure") -> None:
        self.runs = 0

        @tool(name="fetch", effect=effect)  # type: ignore[call-overload]
        async def fetch(url: str = "x") -> str:
            """Fetch a page."""
            self.runs += 1
            raise ConnectionError("no route")

        self.tool = fetch


def builder(*turns: Any, tools: tuple[Any, ...] = ()) -> AgentBuilder:
    """An agent that plays these turns on a clock that does not wait."""
    return (
        AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*tools).with_clock(FakeClock())
    )


def actions(result: Any) -> list[str]:
    """What was decided about each error."""
    return [record.action for record in result.records if isinstance(record, ErrorRaised)]


# --- what a hook answers counts ---------------------------------------------------------------------


async def test_a_hook_rescues_a_failed_call() -> None:
    """Its value is the result, the model reads it, and the hooks after the tool judge it."""
    failing, seen = Failing(), list[Any]()
    agent = builder(call("fetch"), say("ok"), tools=(failing.tool,))
    agent.on_error(lambda ctx: ctx.rescue("from the cache"), name="cache")
    agent.on_after_tool_use(lambda ctx: seen.append(ctx.execution.result))
    result = await agent.build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert (result.steps[0].results[0].result, seen) == ("from the cache", ["from the cache"])
    assert result.steps[0].results[0].is_success
    assert (actions(result), failing.runs) == (["rescue"], 1)


async def test_a_rescued_result_can_be_withheld() -> None:
    """A hook after the tool blocks it as it blocks any other result."""
    agent = builder(call("fetch"), say("ok"), tools=(Failing().tool,))
    agent.on_error(lambda ctx: ctx.rescue("secret"))
    agent.on_after_tool_use(lambda ctx: HookOutcome.block("not for you"))
    result = await agent.build().run("go")
    assert result.steps[0].results[0].status is ResultStatus.WITHHELD
    assert "secret" not in result.state.to_json()


async def test_a_hook_rescues_an_invalid_call() -> None:
    """A call of a tool that does not exist gets the result of the hook."""
    agent = builder(call("gone", a=1), say("ok"), tools=(Failing().tool,))
    agent.on_error(lambda ctx: ctx.rescue(ToolResult(result=7)))
    result = await agent.build().run("go")
    assert (result.status, result.steps[0].results[0].result) == (RunStatus.COMPLETED, 7)


async def test_a_hook_rescues_the_model() -> None:
    """Its text is the answer; the hooks after the inference see it, and it is on record as supplied."""
    seen = list[Any]()
    agent = builder(RuntimeError("down"))
    agent.on_error(lambda ctx: ctx.rescue("I am offline."))
    agent.on_after_inference(lambda ctx: seen.append(ctx.response.text))
    result = await agent.build().run("go")
    assert (result.status, result.text, seen) == (
        RunStatus.COMPLETED,
        "I am offline.",
        ["I am offline."],
    )
    assert [each.supplied for each in result.records if isinstance(each, ResponseReceived)] == [
        True
    ]


async def test_a_rescued_answer_may_call_tools() -> None:
    """They are judged like those of a model."""
    made = InferenceResponse(calls=(ToolCall("c1", "fetch", {"url": "bad"}),))
    agent = blocking(RuntimeError("down"), say("ok"))
    agent.on_error(lambda ctx: ctx.rescue(made))
    result = await agent.build().run("go")
    assert (result.text, result.steps[0].results[0].status) == ("ok", ResultStatus.BLOCKED)


async def test_a_hook_retries_what_the_policy_would_not() -> None:
    """The policy stops at an unknown error; the hook waits two seconds and tries again."""
    clock = FakeClock()
    agent = builder(RuntimeError("hiccup"), say("ok")).with_clock(clock)
    agent.on_error(lambda ctx: ctx.retry(2))
    result = await agent.build().run("go")
    assert (result.text, clock.slept, actions(result)) == ("ok", [2.0], ["retry"])


@pytest.mark.parametrize(
    ("named", "left", "slept", "status"),
    [
        (None, None, [60.0], RunStatus.COMPLETED),
        (1.0, None, [60.0], RunStatus.COMPLETED),
        (None, 50, [], RunStatus.FAILED),
        (1.0, 50, [], RunStatus.FAILED),
    ],
)
async def test_the_wait_of_a_hook_is_within_the_limits(
    named: float | None, left: float | None, slept: list[float], status: RunStatus
) -> None:
    """The policy's longest wait cuts it, and without time for it the run ends, whatever a provider names."""
    clock = FakeClock()
    agent = builder(RateLimitError("slow down", retry_after=named), say("ok")).with_clock(clock)
    agent.with_limits(seconds=left).on_error(lambda ctx: ctx.retry(1000))
    result = await agent.build().run("go")
    assert (result.status, clock.slept) == (status, slept)


async def test_a_hook_ignores_what_the_policy_would_stop_for() -> None:
    """The model gets another step."""
    agent = builder(RuntimeError("hiccup"), say("ok"))
    agent.on_error(lambda ctx: ctx.ignore())
    result = await agent.build().run("go")
    assert (result.text, result.state.step_count, actions(result)) == ("ok", 2, ["ignore"])


async def test_the_policy_is_the_default_and_the_last_answer_counts() -> None:
    """Each hook sees what is decided so far."""
    seen = list[Any]()

    def look(ctx: Any) -> None:
        seen.append(ctx.decision.action)

    agent = builder(RateLimitError("slow down"), say("ok"))
    agent.on_error(look, priority=3)
    agent.on_error(lambda ctx: ctx.ignore(), priority=2)
    agent.on_error(look, priority=1)
    agent.on_error(lambda ctx: ctx.rescue("spare"))
    result = await agent.build().run("go")
    assert seen == [ErrorAction.RETRY, ErrorAction.IGNORE]
    assert result.text == "spare"


@pytest.mark.parametrize("end", [HookOutcome.stop("enough"), None])
async def test_stop_and_forbid_beat_every_answer(end: HookOutcome | None) -> None:
    """Whatever another hook answers, the run ends."""
    agent = builder(RateLimitError("x"), say("never"))
    agent.on_error(lambda ctx: end or ctx.forbid("enough"), priority=1, name="guard")
    agent.on_error(lambda ctx: ctx.retry(0))
    result = await agent.build().run("go")
    assert result.status is RunStatus.STOPPED
    assert result.outcome is not None
    assert result.outcome.resolved_by == "guard"


ENDS = {
    "stop": lambda ctx: HookOutcome.stop("planned", stop_reason="maintenance"),
    "forbid": lambda ctx: ctx.forbid("planned", "maintenance"),
    "evaluation": lambda ctx: ContinuationEvaluation(
        "guard", ContinuationDecision.FORBID_CONTINUATION, "planned", StopReason("maintenance")
    ),
}


def _crash(*given: Any) -> None:
    raise RuntimeError("broken")


async def _crash_after(ctx: Any, call_next: Any) -> Any:
    await call_next(ctx)
    raise RuntimeError("broken")


FAILURES: dict[str, tuple[str, Any]] = {
    "model": ("", None),
    "execution_start": ("execution_start", _crash),
    "before_step": ("before_step", _crash),
    "around_step": ("around_step", lambda ctx, call_next: _crash()),
    "around_step, after": ("around_step", _crash_after),
    "before_tool_use": ("before_tool_use", lambda ctx: HookOutcome.block("no")),
    "after_tool_use": ("after_tool_use", _crash),
    "after_step": ("after_step", _crash),
}
"""Where something fails: the point of a hook, and the hook."""


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("where", FAILURES)
async def test_the_stop_of_a_hook_beats_the_policy(end: Any, where: str) -> None:
    """A policy that stops for every error makes the run fail only if no error hook ends it."""
    point, hook = FAILURES[where]
    turns = [call("fetch"), say("ok")] if point else [RuntimeError("x")]
    journal = MemoryJournal()
    agent = builder(*turns, tools=(Failing().tool,)).with_journal(journal)
    agent.with_error_policy(ErrorPolicy.stop_on_any_error(blocked=True))
    agent.on_error(end, name="guard")
    if point:
        agent.add_hook(point, hook)
    result = await agent.build().run("go", run_id="r1")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, "maintenance")
    assert "(planned), decided by 'guard'" in result.explain()
    assert (result.error, actions(result)[0]) == (None, "ignore")
    again = await replay(journal, "r1", agent.build())
    assert again.identical, again


async def test_what_was_forbidden_before_does_not_hide_a_failure() -> None:
    """The run fails if the policy says so and no hook at this error ended it."""
    agent = builder(call("fetch"), tools=(Failing().tool,))
    agent.with_error_policy(ErrorPolicy.stop_on_any_error())
    agent.on_before_tool_use(lambda ctx: ctx.forbid("the last one"))
    agent.on_error(lambda ctx: ctx.request_continue("please"))
    result = await agent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.FAILED, StopReason.ERROR)


# --- what holds whatever a hook answers ---------------------------------------------------------------


async def test_a_retry_is_within_the_budget() -> None:
    """A hook that always says retry ends with the policy's number of retries."""
    agent = builder(*[RuntimeError("x")] * 9).with_error_policy(ErrorPolicy(max_retries=2))
    agent.on_error(lambda ctx: ctx.retry(0))
    result = await agent.build().run("go")
    assert (result.status, actions(result)) == (RunStatus.FAILED, ["retry", "retry", "stop"])


async def test_max_errors_holds_for_ignore_and_rescue() -> None:
    """More errors than the policy allows end the run."""
    agent = builder(*[call("fetch", url=str(n)) for n in range(5)], tools=(Failing().tool,))
    agent.with_error_policy(ErrorPolicy(max_errors=2)).on_error(lambda ctx: ctx.rescue("x"))
    result = await agent.build().run("go")
    assert (result.status, actions(result)) == (RunStatus.FAILED, ["rescue", "rescue", "stop"])


async def test_a_tool_that_must_run_once_is_not_run_again() -> None:
    """The model reads the error instead."""
    failing = Failing("once")
    agent = builder(call("fetch"), say("ok"), tools=(failing.tool,))
    agent.on_error(lambda ctx: ctx.retry(0))
    result = await agent.build().run("go")
    assert (failing.runs, result.text) == (1, "ok")


async def test_the_failure_of_a_hook_cannot_be_rescued() -> None:
    """A guard that crashed must not be talked over: the error hook fails, and the run with it."""

    def crash(ctx: Any) -> None:
        raise RuntimeError("broken guard")

    agent = builder(say("hi")).on_before_step(crash, name="guard")
    agent.on_error(lambda ctx: ctx.rescue("fine"), name="optimist")
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    failed = [ran for ran in hooks_in(result.records) if ran.hook == "optimist"]
    assert "nothing can be rescued" in failed[0].reason


@pytest.mark.parametrize("delay", [-1, "soon", True, float("inf")])
async def test_a_wait_is_a_number_of_seconds(delay: Any) -> None:
    """Anything else is a failure of the hook, and the run ends."""
    agent = builder(RuntimeError("x"), say("never")).on_error(lambda ctx: ctx.retry(delay))
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED


# --- budgets of one class ------------------------------------------------------------------------------


async def test_errors_of_another_class_do_not_use_up_retries() -> None:
    """Timeout, rate limit, timeout, rate limit under three retries continues."""
    slow, busy = ModelTimeoutError("slow"), RateLimitError("busy")
    agent = builder(slow, busy, slow, busy, slow, busy, say("ok"))
    result = await agent.with_error_policy(ErrorPolicy(max_retries=3)).build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "ok")


async def test_the_fourth_error_of_a_class_ends_the_run() -> None:
    """An error of another class in between does not reset the count."""
    slow, busy = ModelTimeoutError("slow"), RateLimitError("busy")
    agent = builder(slow, busy, slow, slow, busy, slow, say("never"))
    result = await agent.with_error_policy(ErrorPolicy(max_retries=3)).build().run("go")
    assert (result.status, actions(result)[-1]) == (RunStatus.FAILED, "stop")
    assert isinstance(result.error, ModelTimeoutError)


async def test_only_an_answer_resets_the_unknown_errors_of_a_model() -> None:
    """A step in which the model fails in another way is no success."""
    lost, busy = RuntimeError("lost"), RateLimitError("busy")
    policy = ErrorPolicy(
        actions={ErrorClass.UNKNOWN: ErrorAction.RETRY}, otherwise=ErrorAction.IGNORE, max_retries=1
    )
    agent = builder(lost, busy, busy, lost, say("never")).with_error_policy(policy)
    result = await agent.build().run("go")
    assert (result.status, result.error) == (RunStatus.FAILED, lost)


# --- blocked calls as errors ---------------------------------------------------------------------------


def blocking(*turns: Any, policy: ErrorPolicy | None = None) -> AgentBuilder:
    """An agent whose guard blocks every call with a secret."""
    agent = builder(*turns, tools=(Failing().tool,))
    if policy is not None:
        agent.with_error_policy(policy)
    return agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("no") if ctx.tool_call.args["url"] == "bad" else None,
        name="guard",
    )


async def test_a_block_is_no_error_by_default() -> None:
    """The model reads the reason, and `error` hooks hear nothing."""
    heard = list[Any]()
    agent = blocking(call("fetch", url="bad"), say("ok")).on_error(heard.append)
    result = await agent.build().run("go")
    assert (result.status, heard, result.steps[0].errors) == (RunStatus.COMPLETED, [], ())
    policy = ErrorPolicy.stop_on_any_error()
    result = await blocking(call("fetch", url="bad"), say("ok"), policy=policy).build().run("go")
    assert result.status is RunStatus.COMPLETED


async def test_a_block_ends_the_run_if_the_policy_says_so() -> None:
    """No other call of the step runs, and the error has a class of its own."""
    policy = ErrorPolicy.stop_on_any_error(blocked=True)
    agent = blocking(calls(call("fetch", url="bad"), call("fetch", url="good")), policy=policy)
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, BlockedCallError)
    assert [error.error_class for error in result.steps[0].errors] == ["blocked"]
    statuses = [each.status for each in result.steps[0].results]
    assert statuses == [ResultStatus.BLOCKED, ResultStatus.NOT_RUN]


async def test_blocks_have_a_budget() -> None:
    """The model may try again so often; a call that is not blocked resets the count."""
    policy = ErrorPolicy(
        actions={ErrorClass.BLOCKED: ErrorAction.RETRY, ErrorClass.TOOL: ErrorAction.IGNORE},
        max_retries=1,
    )
    bad, good = call("fetch", url="bad"), call("fetch", url="good")
    result = await blocking(bad, good, bad, say("ok"), policy=policy).build().run("go")
    assert result.status is RunStatus.COMPLETED
    result = await blocking(bad, bad, say("never"), policy=policy).build().run("go")
    assert result.status is RunStatus.FAILED


@pytest.mark.parametrize("between", [call("gone"), say("hm")])
async def test_only_a_call_that_is_let_through_resets_the_blocks(between: Any) -> None:
    """Neither a call that is invalid nor an answer of the model does."""
    policy = ErrorPolicy(
        actions={ErrorClass.BLOCKED: ErrorAction.RETRY},
        otherwise=ErrorAction.IGNORE,
        max_retries=1,
    )
    bad = call("fetch", url="bad")
    agent = blocking(bad, between, bad, say("never"), policy=policy)
    agent.on_should_continue(lambda ctx: ctx.request_continue("more"))
    result = await agent.build().run("go")
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 3)


async def test_a_blocked_call_cannot_be_rescued() -> None:
    """A hook cannot give a result in the place of a call that a guard refused."""
    policy = ErrorPolicy(actions={ErrorClass.BLOCKED: ErrorAction.IGNORE})
    agent = blocking(call("fetch", url="bad"), say("ok"), policy=policy)
    agent.on_error(lambda ctx: ctx.rescue("smuggled"))
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert "smuggled" not in result.state.to_json()


# --- the record ----------------------------------------------------------------------------------------


def rescuing(turns: list[Any], journal: MemoryJournal | None, answer: Any) -> Any:
    """An agent that rescues a failed call and a failed model."""
    agent = builder(*turns, tools=(Failing().tool,)).on_error(answer, name="rescue")
    if journal is not None:
        agent.with_journal(journal)
    return agent.build()


async def test_a_rescued_run_is_replayed_as_it_was() -> None:
    """With the same hook there is no difference; without it there is one, at the error."""

    def answer(ctx: Any) -> Any:
        return ctx.rescue("spare")

    journal = MemoryJournal()
    turns = [call("fetch"), call("gone"), RuntimeError("down")]
    result = await rescuing(turns, journal, answer).run("go", run_id="r1")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "spare")
    again = await replay(journal, "r1", rescuing([], None, answer))
    assert again.identical, again
    other = await replay(journal, "r1", rescuing([], None, lambda ctx: None))
    assert not other.identical


# --- stop reasons --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hook",
    [
        lambda ctx: HookOutcome.stop("no", stop_reason="bored"),
        lambda ctx: ctx.forbid("no", "bored"),
        lambda ctx: ctx.forbid("no", StopReason("bored")),
    ],
)
@pytest.mark.parametrize("point", ["execution_start", "before_step", "after_step", "stop", "error"])
async def test_a_custom_stop_reason_is_kept(hook: Any, point: str) -> None:
    """Whichever way it is given; it is equal to its text and is read back from JSON."""
    turns = [RateLimitError("x")] if point == "error" else [say("hi")]
    result = await builder(*turns).add_hook(point, hook).build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, "bored")
    assert type(result.state).from_json(result.state.to_json()).ending.stop_reason == "bored"


@pytest.mark.parametrize(
    "point", ["execution_start", "prompt_submit", "before_step", "before_inference"]
)
async def test_a_custom_stop_reason_of_a_refusal_is_kept(point: str) -> None:
    """A hook that blocks and forbids gives the reason with the forbid."""
    agent = builder(say("hi"))
    agent.add_hook(
        point, lambda ctx: HookOutcome.block("no", ctx.forbid("no", "bored")), name="guard"
    )
    result = await agent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, "bored")
    assert "(no), decided by 'guard'" in result.explain()


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("execution_start", StopReason.RUN_REFUSED),
        ("prompt_submit", StopReason.PROMPT_REFUSED),
        ("before_step", StopReason.STEP_REFUSED),
    ],
)
async def test_a_refusal_without_a_reason_of_its_own_has_ours(point: str, reason: Any) -> None:
    """Also if the hook forbids to continue: it says no reason to stop."""
    agent = builder(say("hi"))
    agent.add_hook(point, lambda ctx: HookOutcome.block("no", ctx.forbid("no")))
    result = await agent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, reason)
