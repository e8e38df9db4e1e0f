from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tree import World

from hookline import ErrorPolicy, HookOutcome, RunResult, RunStatus, StopReason, ToolContext, tool
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import ChildFinished, ChildStarted
from hookline.state import check_transcript
from hookline.testing import call, calls, say

# --- subagent hooks -----------------------------------------------------------------------------------


async def test_subagent_hooks_are_the_parents_and_see_the_child(world: World) -> None:
    """Start: name, ids and task. Stop: the result and why it stopped."""
    seen: list[Any] = []
    world.add("child", world.builder(say("answer")))
    parent = world.builder(call("delegate", to="child", task="the task"), say("ok"))
    parent.on_subagent_start(lambda ctx: seen.append((ctx.name, ctx.child_agent_id, ctx.prompt)))
    parent.on_subagent_stop(
        lambda ctx: seen.append((ctx.result.text, ctx.continuation.stop_reason, ctx.child_run_id))
    )
    await parent.build().run("go", run_id="r")
    assert seen == [
        ("child", "child", "the task"),
        ("answer", StopReason.COMPLETED, "r/0/call_1_1/1"),
    ]


@pytest.mark.parametrize("spelling", ["text", "context"])
async def test_subagent_start_may_change_the_task(world: World, spelling: str) -> None:
    """By a changed context, or by just returning the text."""
    child = world.add("child", world.builder(say("x")))
    parent = world.builder(call("delegate", to="child", task="rm -rf"), say("ok"))
    parent.on_subagent_start(
        lambda ctx: "be careful" if spelling == "text" else ctx.with_prompt("be careful")
    )
    await parent.build().run("go")
    driver: Any = child.definition.driver
    assert str(driver.requests[0]) == "user: be careful"


async def test_subagent_start_may_block_and_the_parents_model_reads_why(world: World) -> None:
    """The child never exists."""
    child = world.add("child", world.builder())
    parent = world.builder(call("delegate", to="child"), say("then not"))
    parent.on_subagent_start(lambda ctx: HookOutcome.block("no helpers today"))
    result = await parent.build().run("go")
    assert (result.text, result.status) == ("then not", RunStatus.COMPLETED)
    assert "no helpers today" in result.state.messages[2].text
    driver: Any = child.definition.driver
    assert driver.requests == []
    assert not any(isinstance(record, ChildStarted) for record in result.records)


async def test_subagent_start_may_stop_the_parent(world: World) -> None:
    """Stopped by the hook, not failed."""
    world.add("child", world.builder())
    parent = world.builder(call("delegate", to="child"), say("never"))
    parent.on_subagent_start(lambda ctx: HookOutcome.stop("all of it"), name="brake")
    result = await parent.build().run("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert "decided by 'brake'" in result.explain()


async def test_a_crash_at_subagent_start_is_a_block(world: World) -> None:
    """Failing closed: the child is not started."""

    def crash(ctx: Any) -> None:
        raise RuntimeError("oops")

    world.add("child", world.builder())
    parent = world.builder(call("delegate", to="child"), say("ok")).on_subagent_start(crash)
    result = await parent.build().run("go")
    assert (world.results, result.status) == ([], RunStatus.COMPLETED)
    assert "oops" in result.state.messages[2].text


async def test_subagent_stop_may_send_the_child_back_to_work(world: World) -> None:
    """It goes on with its own conversation, and reads why."""
    child = world.add(
        "child", world.builder(say("short", tokens=5), say("a long answer", tokens=7))
    )
    parent = world.builder(call("delegate", to="child"), say("ok"))
    parent.on_subagent_stop(
        lambda ctx: HookOutcome.block("more detail") if len(ctx.result.text) < 10 else None
    )
    result = await parent.build().run("go")
    assert (world.results[0].text, result.usage.total_tokens) == ("a long answer", 12)
    driver: Any = child.definition.driver
    assert str(driver.requests[1]) == "user: do it\nassistant: short\nuser: more detail"
    assert result.state.counters.steps == 4


@pytest.mark.parametrize("cap", [0, 1, 3])
async def test_sending_back_is_capped(world: World, cap: int) -> None:
    """The hook sees every result, the last one too; then the child was stopped, and that is no good end."""
    seen: list[str] = []
    world.add("child", world.builder(*[say(str(n)) for n in range(9)]))
    parent = world.builder(call("delegate", to="child"), say("ok")).with_limits(objections=cap)

    def never_happy(ctx: Any) -> Any:
        seen.append(ctx.result.text)
        return HookOutcome.block("again")

    result = await parent.on_subagent_stop(never_happy).build().run("go")
    assert seen == [str(n) for n in range(cap + 1)]
    assert (world.results[0].text, result.status) == (str(cap), RunStatus.COMPLETED)
    ended = world.results[0]
    assert (ended.status, ended.stop_reason) == (RunStatus.STOPPED, StopReason.OBJECTION_LIMIT)
    times = f"subagent_stop hooks objected {cap} times, which is the limit; the last: again"
    assert f"objection_limit ({times}), decided by 'never_happy'" in ended.explain()
    assert children_ended(result) == [(RunStatus.STOPPED, str(cap))]


async def test_a_child_that_a_guard_stopped_is_not_sent_back(world: World) -> None:
    """Nor one that failed: nothing overrides a guard."""
    seen: list[Any] = []
    world.add("limited", world.builder(*[call("work", n=1)] * 9).with_limits(steps=1))
    world.add("broken", world.builder(ValueError("down"), say("never")))
    batch = calls(call("delegate", to="limited"), call("delegate", to="broken"))
    parent = world.builder(batch, say("ok"))

    def again(ctx: Any) -> Any:
        seen.append(ctx.result.status)
        return HookOutcome.block("again")

    await parent.on_subagent_stop(again).build().run("go")
    assert sorted(seen) == [RunStatus.FAILED, RunStatus.STOPPED]
    assert world.ran == [1]


async def test_subagent_stop_may_change_the_result(world: World) -> None:
    """Redacting it, say; the tool gets the changed one, also when the cap was reached."""
    world.add("child", world.builder(say("hunter2"), say("hunter2")))
    parent = world.builder(call("delegate", to="child"), say("ok")).with_limits(objections=1)
    parent.on_subagent_stop(
        lambda ctx: HookOutcome.block(
            "try again", ctx.with_result(msgspec.structs.replace(ctx.result, output="***"))
        )
    )
    result = await parent.build().run("go")
    assert world.results[0].text == "***"
    assert "hunter2" not in result.state.to_json()


@pytest.mark.parametrize("wrong", ["text", None, 5])
async def test_a_result_that_is_none_is_the_hooks_failure(world: World, wrong: Any) -> None:
    """At subagent_stop that is an error: the run fails, naming the hook."""
    world.add("child", world.builder(say("x")))
    parent = world.builder(call("delegate", to="child"), say("never"))
    parent.on_subagent_stop(lambda ctx: ctx.with_result(wrong), name="odd")
    result = await parent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert "odd" in str(result.error)
    check_transcript(result.state.messages)


async def test_a_crash_at_subagent_stop_is_an_error(world: World) -> None:
    """The run fails by default, and can be told not to."""

    def crash(ctx: Any) -> None:
        raise RuntimeError("oops")

    for policy, status in (
        (ErrorPolicy(), RunStatus.FAILED),
        (ErrorPolicy(actions={ErrorClass.HOOK: ErrorAction.IGNORE}), RunStatus.COMPLETED),
    ):
        world.add("child", world.builder(say("x")))
        parent = world.builder(call("delegate", to="child"), say("ok")).with_error_policy(policy)
        result = await parent.on_subagent_stop(crash, name="shaky").build().run("go")
        assert result.status is status
        assert "shaky" in str(result.steps[0].results[0].error)
        check_transcript(result.state.messages)


@pytest.mark.parametrize("catches", ["tool", "around"])
@pytest.mark.parametrize("how", ["crash", "time-out"])
@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_nobody_inside_the_call_can_swallow_a_failure_at_subagent_stop(
    world: World, catches: str, how: str, tier: str
) -> None:
    """The run fails, or goes on, as the error policy says; the child that ended is on record."""

    async def fail(ctx: Any) -> None:
        if how == "crash":
            raise RuntimeError("oops")
        await asyncio.sleep(60)

    @tool
    async def swallow(context: ToolContext) -> str:
        """Delegate, and take whatever comes."""
        try:
            return (await context.spawn(world.agents["child"], "go")).text
        except Exception:
            if catches == "around":
                raise
            return "all is well"

    async def rescue(ctx: Any, call_next: Any) -> Any:
        execution = await call_next(ctx)
        return execution if execution.is_success else execution.with_result("all is well")

    for policy, status in (
        (ErrorPolicy(), RunStatus.FAILED),
        (ErrorPolicy(actions={ErrorClass.HOOK: ErrorAction.IGNORE}), RunStatus.COMPLETED),
    ):
        world.add("child", world.builder(say("SECRET")))
        parent = world.builder(call("swallow"), say("ok")).with_tools(swallow)
        parent.on_subagent_stop(fail, name="shaky", tier=tier, timeout=0.01)
        if catches == "around":
            parent.around_tool_use(rescue)
        result = await parent.with_error_policy(policy).build().run("go")
        assert result.status is status
        assert [info.error_class for info in result.steps[0].errors] == ["hook"]
        assert "SECRET" not in result.state.to_json()
        assert children_ended(result) == [(RunStatus.COMPLETED, "")]


async def test_a_child_whose_stop_hook_is_cancelled_is_on_record(world: World) -> None:
    """It had ended when the run was cancelled."""
    asked = asyncio.Event()

    async def slow(ctx: Any) -> None:
        asked.set()
        await asyncio.sleep(60)

    world.add("child", world.builder(say("x")))
    parent = world.builder(call("delegate", to="child"), say("never")).on_subagent_stop(slow)
    agent = parent.build()
    running = asyncio.create_task(agent.run("go"))
    await asked.wait()
    agent.cancel()
    result = await running
    assert result.status is RunStatus.CANCELLED
    assert children_ended(result) == [(RunStatus.COMPLETED, "")]


def children_ended(result: RunResult) -> list[tuple[RunStatus, str]]:
    """Status and text of each child that ended, as recorded."""
    return [
        (record.status, record.text)
        for record in result.records
        if isinstance(record, ChildFinished)
    ]


async def test_what_subagent_hooks_of_parallel_calls_say_adds_up(world: World) -> None:
    """They wait for each other, so a word of one is not lost to another."""

    async def note(ctx: Any) -> Any:
        await asyncio.sleep(0.001)
        return ctx.request_continue(f"{ctx.point.value} {ctx.name}")

    for name in "abc":
        world.add(name, world.builder(say(name)))
    batch = calls(*(call("delegate", to=name) for name in "abc"))
    parent = world.builder(batch, say("ok")).on_subagent_start(note).on_subagent_stop(note)
    result = await parent.build().run("go")
    said = {each.reason for each in result.steps[0].outcome.evaluations if each.reason[:3] == "sub"}
    assert said == {f"subagent_{point} {name}" for name in "abc" for point in ("start", "stop")}


async def test_a_forbid_of_one_branch_is_not_lost_to_another(world: World) -> None:
    """The step finishes, and then the run stops."""

    async def first_forbids(ctx: Any) -> Any:
        await asyncio.sleep(0.001)
        return ctx.forbid("enough helpers") if ctx.name == "a" else ctx.allow_continue("fine")

    for name in "ab":
        world.add(name, world.builder(say(name)))
    parent = world.builder(calls(call("delegate", to="a"), call("delegate", to="b")), say("never"))
    result = await parent.on_subagent_start(first_forbids).build().run("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 1)


async def test_subagent_hooks_of_the_tree_see_grandchildren(world: World) -> None:
    """With scope=tree the parent's hooks stand at every door."""
    seen: list[str] = []
    parent = world.chain(say("x"))
    parent.on_subagent_start(lambda ctx: seen.append(ctx.name), scope="tree")
    await parent.build().run("go")
    assert seen == ["child", "grandchild"]
