from __future__ import annotations

from typing import Any

import pytest
from wrapping import Bench, first

from hookline import (
    Decision,
    HookOutcome,
    RunStatus,
    ToolCall,
    ToolResult,
)
from hookline.state import ResultStatus, check_transcript
from hookline.testing import FakeClock, call, say


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


async def test_call_next_without_a_context_goes_on_as_it_is(bench: Bench) -> None:
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
    """What it returns is what came of the call."""

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
    """Not dealt with, the refusal is what came of the call."""

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
