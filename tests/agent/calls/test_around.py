"""None"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from wrapping import Bench, first

from hookline import AgentBuilder, Decision, HookOutcome, RunStatus, ToolCall, ToolResult, tool
from hookline.errors import HookError, RateLimitError
from hookline.journal import HookRan, RequestSent
from hookline.state import InferenceResponse, Log, ResultStatus, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@pytest.fixture
def bench() -> Bench:
    """Tools that have not run yet."""
    return Bench()


# --- around a tool ------------------------------------------------------------------------------------


async def test_hooks_around_a_tool_may_time_it(bench: Bench) -> None:
    """They see the call before it runs and the execution after."""
    clock = FakeClock()
    seen: list[Any] = []

    async def timed(ctx: Any, call_next: Any) -> Any:
        started = clock.now()
        clock.advance(3)
        execution = await call_next(ctx)
        seen.append((ctx.tool_call.name, execution.result, clock.now() - started))
        return execution.with_metadata("took", clock.now() - started)

    agent = bench.builder(call("once", n=1), say("ok")).with_clock(clock).around_tool_use(timed)
    result = await agent.build().run("go")
    assert (seen, bench.ran) == ([("once", 1, 3)], [1])
    assert first(result).metadata == {"took": 3}


async def test_hooks_around_a_tool_nest_like_an_onion(bench: Bench) -> None:
    """The highest priority is outermost: first in, last out."""
    order: list[str] = []

    def layer(name: str) -> Any:
        async def around(ctx: Any, call_next: Any) -> Any:
            order.append(f"{name} in")
            execution = await call_next(ctx)
            order.append(f"{name} out")
            return execution

        return around

    agent = bench.builder(call("once", n=1), say("ok"))
    agent.around_tool_use(layer("inner"), name="inner")
    agent.around_tool_use(layer("outer"), name="outer", priority=5)
    await agent.build().run("go")
    assert order == ["outer in", "inner in", "inner out", "outer out"]


async def test_a_plain_function_may_wrap_too(bench: Bench) -> None:
    """It hands on what call_next gives."""
    agent = bench.builder(call("once", n=1), say("ok"))
    result = await agent.around_tool_use(lambda ctx, call_next: call_next(ctx)).build().run("go")
    assert first(result).result == 1


async def test_call_next_without_a_context_continues_unchanged(bench: Bench) -> None:
    """The common case needs no argument."""

    async def around(ctx: Any, call_next: Any) -> Any:
        return await call_next()

    result = (
        await bench.builder(call("once", n=1), say("ok")).around_tool_use(around).build().run("x")
    )
    assert first(result).result == 1


async def test_a_cache_does_not_call_the_tool_again(bench: Bench) -> None:
    """A hook that has the answer gives it; the hooks after see it as any other."""
    cache: dict[str, ToolResult] = {}
    after: list[Any] = []

    async def cached(ctx: Any, call_next: Any) -> Any:
        key = ctx.tool_call.fingerprint()
        if key not in cache:
            cache[key] = await call_next(ctx)
        return cache[key]

    agent = bench.builder(call("pure", n=1), call("pure", n=1), call("pure", n=2), say("ok"))
    agent.around_tool_use(cached).on_after_tool_use(lambda ctx: after.append(ctx.execution.result))
    result = await agent.build().run("go")
    assert (bench.ran, after) == ([1, 2], [1, 1, 2])
    check_transcript(result.state.messages)
    assert [step.results[0].call_id for step in result.steps[:3]] == [
        step.calls[0].id for step in result.steps[:3]
    ]


async def test_a_hook_may_replace_the_result_or_not_call_at_all(bench: Bench) -> None:
    """What it returns is the result of the call."""

    async def fake(ctx: Any, call_next: Any) -> Any:
        return ToolResult("made up")

    result = (
        await bench.builder(call("once", n=1), say("ok")).around_tool_use(fake).build().run("go")
    )
    assert (first(result).result, bench.ran) == ("made up", [])
    assert result.state.messages[2].text == "made up"


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_hook_may_retry_a_tool_that_is_safe_to_repeat(failures: int) -> None:
    """What the tool raises is an execution with an error; a success afterwards is a success."""
    bench = Bench(failures)

    async def retry(ctx: Any, call_next: Any) -> Any:
        execution = await call_next(ctx)
        while not execution.is_success:
            execution = await call_next(ctx)
        return execution

    heard: list[Any] = []
    agent = (
        bench.builder(call("flaky", n=1), say("ok")).around_tool_use(retry).on_error(heard.append)
    )
    result = await agent.build().run("go")
    assert (first(result).result, len(bench.ran)) == (1, failures + 1)
    assert (heard, result.state.counters.errors) == ([], 0)


async def test_an_error_no_hook_dealt_with_reaches_the_error_hooks() -> None:
    """With the exception itself."""
    bench = Bench(1)
    heard: list[Any] = []

    async def pass_on(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    agent = bench.builder(call("flaky", n=1), say("ok")).around_tool_use(pass_on)
    await agent.on_error(lambda ctx: heard.append(ctx.exception)).build().run("go")
    assert [type(error) for error in heard] == [ConnectionError]


async def test_a_tool_that_must_run_once_is_refused_a_second_time(bench: Bench) -> None:
    """The error says why and what to declare; the tool has run once."""
    refusals: list[str] = []

    async def twice(ctx: Any, call_next: Any) -> Any:
        execution = await call_next(ctx)
        try:
            return await call_next(ctx)
        except Exception as error:
            refusals.append(str(error))
            return execution

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(twice)
    result = await agent.build().run("go")
    assert (bench.ran, first(result).result) == ([1], 1)
    assert "its effect is 'once'" in refusals[0]


async def test_a_hook_that_insists_on_a_second_time_gets_an_error(bench: Bench) -> None:
    """If it is not handled, the refusal is the result of the call."""

    async def twice(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        return await call_next(ctx)

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(twice)
    result = await agent.build().run("go")
    assert (bench.ran, first(result).status) == ([1], ResultStatus.ERROR)


async def test_a_call_that_is_known_not_to_have_run_may_be_tried_again(bench: Bench) -> None:
    """A changed call that a policy refused did nothing, so the original may still run."""

    async def try_other(ctx: Any, call_next: Any) -> Any:
        execution = await call_next(ctx.with_args(n=13))
        return execution if execution.is_success else await call_next(ctx)

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(try_other)
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("unlucky") if ctx.tool_call.args["n"] == 13 else None,
        tier="policy",
    )
    result = await agent.build().run("go")
    assert (bench.ran, first(result).result) == ([1], 1)


# --- a changed call -----------------------------------------------------------------------------------


async def test_a_changed_call_is_validated_and_is_what_runs(bench: Bench) -> None:
    """Coerced like any other, and on record as it ran."""

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(n="7"))

    result = (
        await bench.builder(call("once", n=1), say("ok")).around_tool_use(change).build().run("go")
    )
    assert (bench.ran, first(result).result) == ([7], 7)
    assert result.steps[0].calls[0].args == {"n": 7}


async def test_a_changed_call_that_does_not_fit_never_runs(bench: Bench) -> None:
    """The model reads the problem."""

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(n="many"))

    result = (
        await bench.builder(call("once", n=1), say("ok")).around_tool_use(change).build().run("go")
    )
    assert (bench.ran, first(result).status) == ([], ResultStatus.INVALID)


@pytest.mark.parametrize("tries", [1, 2, 3])
async def test_a_changed_call_goes_back_to_the_policies_each_time(bench: Bench, tries: int) -> None:
    """What a policy refuses does not run, however often it is handed on."""

    async def change(ctx: Any, call_next: Any) -> Any:
        changed = ctx.with_args(n=13)
        for _ in range(tries):
            execution = await call_next(changed)
        return execution

    agent = bench.builder(call("pure", n=1), say("ok")).around_tool_use(change)
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("unlucky") if ctx.tool_call.args["n"] == 13 else None,
        tier="policy",
        name="luck",
    )
    result = await agent.build().run("go")
    assert (bench.ran, first(result).status, first(result).decided_by) == (
        [],
        ResultStatus.BLOCKED,
        "luck",
    )
    assert result.status is RunStatus.COMPLETED


async def test_a_policy_may_stop_the_run_over_a_changed_call(bench: Bench) -> None:
    """It does not run, and no other step is made."""

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(n=13))

    agent = bench.builder(call("once", n=1)).around_tool_use(change)
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.stop("unlucky") if ctx.tool_call.args["n"] == 13 else None,
        tier="policy",
    )
    result = await agent.build().run("go")
    assert (bench.ran, result.status) == ([], RunStatus.STOPPED)
    check_transcript(result.state.messages)


@pytest.mark.parametrize(
    ("approver", "status"),
    [(lambda q: True, "ok"), (lambda q: q.tool_call.args["n"] == 1, "denied"), (None, "denied")],
)
async def test_a_changed_call_needs_its_own_approval(
    bench: Bench, approver: Any, status: str
) -> None:
    """The approver is asked about the call as it is now; when nobody can answer, it is denied."""
    asked: list[int] = []

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(n=2))

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(change)
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] == 2 else None, tier="policy"
    )
    if approver is not None:
        agent.with_approver(lambda q: asked.append(q.tool_call.args["n"]) or approver(q))
    result = await agent.build().run("go")
    assert (first(result).status.value, bench.ran) == (status, [2] if status == "ok" else [])
    assert asked == ([2] if approver is not None else [])
    assert result.status is RunStatus.COMPLETED
    assert result.pending == []


async def test_a_permission_hook_may_clear_a_changed_call(bench: Bench) -> None:
    """The same order of answers as anywhere."""

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(n=2))

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(change)
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] == 2 else None, tier="policy"
    )
    agent.on_permission_request(lambda ctx: Decision.allow())
    assert first(await agent.build().run("go")).result == 2


@pytest.mark.parametrize("wrong", [ToolCall("other", "once", {"n": 1}), None, "once"])
async def test_a_hook_cannot_hand_on_another_call(bench: Bench, wrong: Any) -> None:
    """The call keeps its id, so that each call of the model's has its one result."""

    async def swap(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_tool_call(wrong))

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(swap, name="swapper")
    result = await agent.build().run("go")
    assert (bench.ran, first(result).status) == ([], ResultStatus.ERROR)
    assert "swapper" in str(first(result).error)
    check_transcript(result.state.messages)


@pytest.mark.parametrize(
    "change",
    [
        lambda ctx: ctx.with_metadata("x", 1),
        lambda ctx: ctx.forbid("x"),
        lambda ctx: ctx.with_result("x"),
        lambda ctx: "nonsense",
    ],
)
async def test_hooks_around_an_action_see_state_and_cannot_change_it(
    bench: Bench, change: Any
) -> None:
    """The error names the hook and the field."""

    async def meddle(ctx: Any, call_next: Any) -> Any:
        return await call_next(change(ctx))

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(meddle, name="meddler")
    result = await agent.build().run("go")
    assert bench.ran == []
    assert "meddler" in str(first(result).error)
    assert "x" not in result.state.metadata


# --- hooks around a tool that fail, and hooks around the model ----------------------------------


# --- failing ------------------------------------------------------------------------------------------


async def test_a_hook_that_never_awaits_the_rest_is_an_error(bench: Bench) -> None:
    """It did nothing, which its author did not mean; nothing has run."""

    async def forgetful(ctx: Any, call_next: Any) -> Any:
        call_next(ctx)
        return ToolResult("fine")

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(forgetful, name="forgetful")
    result = await agent.build().run("go")
    assert (bench.ran, first(result).status) == ([], ResultStatus.ERROR)
    assert "never awaited" in str(first(result).error)
    assert "forgetful" in str(first(result).error)


@pytest.mark.parametrize("answer", [None, "text", 5, {"result": 1}])
async def test_a_hook_that_gives_no_execution_is_an_error(bench: Bench, answer: Any) -> None:
    """Forgetting to return is not a result of None."""

    async def around(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        return answer

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(around, name="mute")
    result = await agent.build().run("go")
    assert first(result).status is ResultStatus.ERROR
    assert "mute" in str(first(result).error)
    assert "ToolResult" in str(first(result).error)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_closed_is_an_error_result_with_the_hooks_name(
    bench: Bench, moment: str
) -> None:
    """The model reads it; what has run has run, and is not run again."""

    async def crash(ctx: Any, call_next: Any) -> Any:
        if moment == "after":
            await call_next(ctx)
        raise RuntimeError("oops")

    agent = bench.builder(call("once", n=1), say("ok")).around_tool_use(crash, name="shaky")
    result = await agent.build().run("go")
    assert bench.ran == ([] if moment == "before" else [1])
    assert "hook 'shaky' at around_tool_use: RuntimeError: oops" in str(first(result).error)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", ["once", "pure"])
async def test_a_crash_open_is_recorded_and_the_tool_runs_once(
    bench: Bench, moment: str, name: str
) -> None:
    """As if the hook were not there."""

    async def crash(ctx: Any, call_next: Any) -> Any:
        if moment == "after":
            await call_next(ctx)
        raise RuntimeError("oops")

    agent = bench.builder(call(name, n=1), say("ok"))
    agent.around_tool_use(crash, name="shaky", on_failure="open")
    result = await agent.build().run("go")
    assert (bench.ran, first(result).result) == ([1], 1)
    failed = [r for r in result.records if isinstance(r, HookRan) and r.verdict == "failed"]
    assert [record.hook for record in failed] == ["shaky"]


async def test_a_hook_that_takes_too_long_is_interrupted_with_what_it_wraps(bench: Bench) -> None:
    """Its time limit covers the tool; that is a failure of the hook's."""

    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.sleep(60)
        return "never"

    async def pass_on(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    agent = bench.builder(call("hang"), say("ok")).with_tools(hang)
    agent.around_tool_use(pass_on, name="patience", timeout=0.01)
    result = await agent.build().run("go")
    assert "longer than 0.01 s" in str(first(result).error)
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("behaviour", ["replace", "skip", "change", "twice", "crash", "swallow"])
async def test_a_hook_in_shadow_enforces_nothing(behaviour: str) -> None:
    """It runs, and the call goes as if it were not there: once, unchanged."""
    bench = Bench(1 if behaviour == "swallow" else 0)

    async def around(ctx: Any, call_next: Any) -> Any:
        if behaviour == "skip":
            return ToolResult("skipped")
        if behaviour == "change":
            return await call_next(ctx.with_args(n=99))
        if behaviour == "twice":
            await call_next(ctx)
        if behaviour == "crash":
            raise RuntimeError("oops")
        await call_next(ctx)
        return ToolResult("replaced")

    name = "flaky" if behaviour == "swallow" else "pure"
    agent = bench.builder(call(name, n=1), say("ok"))
    result = await agent.around_tool_use(around, name="trial", shadow=True).build().run("go")
    assert bench.ran == [1]
    assert first(result).result == (None if behaviour == "swallow" else 1)
    shown = [record for record in result.records if isinstance(record, HookRan) and record.shadow]
    assert [record.hook for record in shown] == ["trial"]


async def test_hooks_around_tools_run_concurrently_and_match_by_name(bench: Bench) -> None:
    """Each call has its own onion; a matcher says whose."""
    gate = asyncio.Barrier(2)
    seen: list[int] = []

    async def meet(ctx: Any, call_next: Any) -> Any:
        await gate.wait()
        seen.append(ctx.tool_call.args["n"])
        return await call_next(ctx)

    batch = calls(call("pure", n=1), call("once", n=2), call("pure", n=3))
    agent = bench.builder(batch, say("ok")).around_tool_use(meet, matcher="pure")
    result = await asyncio.wait_for(agent.build().run("go"), 60)
    assert sorted(seen) == [1, 3]
    assert [each.result for each in result.steps[0].results] == [1, 2, 3]


async def test_blocked_calls_never_reach_the_hooks_around(bench: Bench) -> None:
    """There is nothing to wrap."""
    seen: list[Any] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.tool_call.name)
        return await call_next(ctx)

    agent = bench.builder(calls(call("once", n=1), call("pure", n=1)), say("ok"))
    agent.around_tool_use(watch).on_before_tool_use(
        lambda ctx: HookOutcome.block("no"), matcher="once"
    )
    await agent.build().run("go")
    assert seen == ["pure"]


# --- around the model ---------------------------------------------------------------------------------


async def test_hooks_around_the_model_may_time_and_change_the_answer() -> None:
    """They get the response and give one."""
    driver = ScriptedDriver([say("hello")])

    async def shout(ctx: Any, call_next: Any) -> Any:
        response = await call_next(ctx)
        return response.with_text(response.text.upper())

    result = await AgentBuilder().with_driver(driver).around_inference(shout).build().run("go")
    assert (result.text, result.state.last_text()) == ("HELLO", "HELLO")


async def test_a_hook_around_the_model_may_change_the_request() -> None:
    """Only for this turn."""
    driver = ScriptedDriver([say("hello")])

    async def smaller(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_request(ctx.request.with_model("small")))

    await AgentBuilder().with_driver(driver).around_inference(smaller).build().run("go")
    assert driver.requests[0].model == "small"


async def test_a_hook_around_the_model_may_answer_itself() -> None:
    """No model is asked."""
    driver = ScriptedDriver([])

    async def cached(ctx: Any, call_next: Any) -> Any:
        return InferenceResponse("cached")

    result = await AgentBuilder().with_driver(driver).around_inference(cached).build().run("go")
    assert (result.text, driver.requests) == ("cached", [])


async def test_a_hook_around_the_model_may_fall_back() -> None:
    """What the driver raises reaches it; usage of both calls would count."""
    driver = ScriptedDriver([RateLimitError("slow"), say("from the other", tokens=3)])

    async def fall_back(ctx: Any, call_next: Any) -> Any:
        try:
            return await call_next(ctx)
        except RateLimitError:
            return await call_next(ctx.with_request(ctx.request.with_model("other")))

    heard: list[Any] = []
    agent = AgentBuilder().with_driver(driver).around_inference(fall_back).on_error(heard.append)
    result = await agent.build().run("go")
    assert (result.text, heard, result.usage.total_tokens) == ("from the other", [], 3)
    assert [request.model for request in driver.requests] == ["", "other"]


async def test_an_error_the_hook_lets_pass_is_the_models_error() -> None:
    """It is classified and retried as such, not as a failure of the hook."""
    driver = ScriptedDriver([RateLimitError("slow"), say("ok")])
    clock = FakeClock()

    async def pass_on(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    agent = AgentBuilder().with_driver(driver).with_clock(clock).around_inference(pass_on)
    result = await agent.build().run("go")
    assert (result.text, clock.slept) == ("ok", [0.5])
    assert sum(isinstance(record, RequestSent) for record in result.records) == 2


@pytest.mark.parametrize("answer", [None, "text", ToolResult("x")])
async def test_a_hook_around_the_model_that_gives_no_response_fails_the_run(answer: Any) -> None:
    """Naming the hook and what it should return."""

    async def around(ctx: Any, call_next: Any) -> Any:
        return answer

    agent = AgentBuilder().with_driver(ScriptedDriver([])).around_inference(around, name="mute")
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, HookError)
    assert (result.error.hook, "InferenceResponse" in str(result.error)) == ("mute", True)


async def test_a_hook_around_the_model_cannot_show_it_a_broken_conversation() -> None:
    """The request is checked like one that a hook before the inference changed."""
    driver = ScriptedDriver([call("pure", n=1), say("never")])

    async def cut(ctx: Any, call_next: Any) -> Any:
        kept = [message for message in ctx.request.messages if message.role != "tool"]
        return await call_next(ctx.with_request(ctx.request.with_messages(Log(kept))))

    agent = AgentBuilder().with_driver(driver).with_tools(*Bench().tools)
    result = await agent.around_inference(cut, name="cutter").build().run("go")
    assert result.status is RunStatus.FAILED
    assert "cutter" in str(result.error)
    assert len(driver.requests) == 1


async def test_a_response_with_twin_calls_from_a_hook_is_refused() -> None:
    """Calls that cannot be distinguished cannot each have a result."""

    async def twins(ctx: Any, call_next: Any) -> Any:
        return InferenceResponse("", (ToolCall("x", "pure"), ToolCall("x", "pure")))

    agent = AgentBuilder().with_driver(ScriptedDriver([])).around_inference(twins)
    result = await agent.build().run("go")
    assert result.status is RunStatus.FAILED
    check_transcript(result.state.messages)


async def test_a_hook_around_the_model_that_fails_open_after_a_model_error_asks_once() -> None:
    """The model's own error is what happened; it is not asked again behind everyone's back."""
    driver = ScriptedDriver([ValueError("model down"), say("never")])

    async def clumsy(ctx: Any, call_next: Any) -> Any:
        try:
            return await call_next(ctx)
        except ValueError:
            raise RuntimeError("and I stumbled") from None

    agent = AgentBuilder().with_driver(driver).around_inference(clumsy, on_failure="open")
    result = await agent.build().run("go")
    assert len(driver.requests) == 1
    assert isinstance(result.error, ValueError)


async def test_usage_of_every_call_a_hook_makes_counts() -> None:
    """Asking twice costs twice."""
    driver = ScriptedDriver([say("a", tokens=5), say("b", tokens=7)])

    async def best_of_two(ctx: Any, call_next: Any) -> Any:
        one, two = await call_next(ctx), await call_next(ctx)
        return max(one, two, key=lambda response: response.text)

    result = (
        await AgentBuilder().with_driver(driver).around_inference(best_of_two).build().run("go")
    )
    assert (result.text, result.usage.total_tokens, result.usage.requests) == ("b", 12, 2)


async def test_a_shadow_around_the_model_changes_neither_question_nor_answer() -> None:
    """The model is asked once, as it would have been."""
    driver = ScriptedDriver([say("a")])

    async def meddle(ctx: Any, call_next: Any) -> Any:
        response = await call_next(ctx.with_request(ctx.request.with_model("other")))
        await call_next(ctx)
        return response.with_text("changed")

    agent = AgentBuilder().with_driver(driver).around_inference(meddle, shadow=True)
    result = await agent.build().run("go")
    assert (result.text, [request.model for request in driver.requests]) == ("a", [""])
