"""Child runs as tools start them: what they ask, and what hooks say when they start and stop."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tree import World, blocks

from hookline import (
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    Decision,
    ErrorPolicy,
    HookOutcome,
    RunResult,
    RunStatus,
    StopReason,
    ToolContext,
    tool,
)
from hookline.errors import HookError, PastError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import ChildFinished, ChildStarted, MemoryJournal
from hookline.state import Usage, check_transcript
from hookline.testing import ScriptedDriver, call, calls, say

# --- asking -------------------------------------------------------------------------------------------


def asks(agent: AgentBuilder) -> AgentBuilder:
    """The builder with a policy that asks about work, in the whole tree."""
    return agent.on_before_tool_use(
        lambda ctx: HookOutcome.ask(f"work on {ctx.tool_call.args['n']}?"),
        matcher="work",
        tier="policy",
        name="boss",
    )


async def test_the_parents_approver_answers_for_its_children(world: World) -> None:
    """At any depth, unless a child has one of its own."""
    asked: list[str] = []
    parent = asks(world.chain(call("work", n=1), say("x")))
    parent.with_approver(lambda question: asked.append(question.run_id) or True)
    result = await parent.build().run("go", run_id="r")
    assert (world.ran, result.status) == ([1], RunStatus.COMPLETED)
    assert [run.count("/") for run in asked] == [6]
    world.add("child", world.builder(call("work", n=2), say("x")).with_approver("deny"))
    own = asks(world.builder(call("delegate", to="child"), say("ok"))).with_approver(lambda _: True)
    await own.build().run("go")
    assert world.ran == [1]


@pytest.mark.parametrize("through_json", [False, True])
async def test_a_question_in_a_grandchild_surfaces_and_is_answered_at_the_top(
    world: World, through_json: bool
) -> None:
    """The outer run pauses with the question; its answer reaches the grandchild, whose call runs once."""
    parent = asks(world.chain(call("work", n=1), say("grandchild done"))).build()
    paused = await parent.run("go", run_id="r")
    assert (paused.status, world.ran) == (RunStatus.PAUSED, [])
    (question,) = paused.pending
    assert (question.tool_call.name, question.asked_by) == ("work", "boss")
    assert question.id == "r/0/call_1_1/1/0/call_1_1/1/0/call_1_1"
    check_transcript(paused.state.messages)
    state = AgentState.from_json(paused.state.to_json()) if through_json else paused.state
    result = await parent.resume(state, {question.id: True})
    assert (result.text, world.ran) == ("parent done", [1])
    assert [each.text for each in world.results] == ["grandchild done", "child done"]
    assert (result.state.counters.steps, result.usage.requests) == (6, 6)


@pytest.mark.parametrize("decision", [Decision.deny("no"), Decision.edit(n=5)])
async def test_an_answer_for_a_child_may_be_any_answer(world: World, decision: Decision) -> None:
    """No, or with other arguments."""
    world.add("child", world.builder(call("work", n=1), say("x")))
    parent = asks(world.builder(call("delegate", to="child"), say("ok"))).build()
    paused = await parent.run("go")
    result = await parent.resume(
        AgentState.from_json(paused.state.to_json()), {paused.pending[0].id: decision}
    )
    assert (result.status, world.ran) == (RunStatus.COMPLETED, [5] if decision.args else [])


async def test_questions_of_parallel_children_never_share_an_answer(world: World) -> None:
    """The same call in two children is two questions; each gets its own answer, one at a time."""
    for name in "ab":
        world.add(name, world.builder(call("work", n=1), say(f"{name} done")))
    batch = calls(call("delegate", to="a"), call("work", n=9), call("delegate", to="b"))
    parent = world.builder(batch, say("ok"))
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.run.depth else None, matcher="work", tier="policy"
    )
    agent = parent.build()
    paused = await agent.run("go", run_id="r")
    one, two = (question.id for question in paused.pending)
    assert (one, two) == ("r/0/call_1_1/1/0/call_1_1", "r/0/call_1_3/1/0/call_1_1")
    assert world.ran == [9]  # nobody asked about this one, and it was not of the same run
    partly = await agent.resume(AgentState.from_json(paused.state.to_json()), {two: True})
    assert (partly.status, [q.id for q in partly.pending]) == (RunStatus.PAUSED, [one])
    assert world.ran == [9, 1]
    result = await agent.resume(AgentState.from_json(partly.state.to_json()), {one: False})
    assert (result.status, world.ran) == (RunStatus.COMPLETED, [9, 1])
    assert [each.result for each in result.steps[0].results] == ["a done", 9, "b done"]
    assert result.state.counters.tool_calls == 4
    check_transcript(result.state.messages)


@pytest.mark.parametrize("style", ["gather", "group", "swallow", "sequence"])
async def test_a_tool_with_several_children_waits_for_all_of_them(world: World, style: str) -> None:
    """However the tool waits for them, every question surfaces, no child is left running, none runs twice."""
    finished: list[str] = []

    @tool
    async def team(context: ToolContext) -> list[str]:
        """Ask a team."""

        async def ask(name: str) -> str:
            result = await context.spawn(world.agents[name], "go", name=name)
            return str(result.text)

        if style == "gather":
            return list(await asyncio.gather(*map(ask, "abc")))
        if style == "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(name)) for name in "abc"]
            return [task.result() for task in tasks]
        answers = []
        for name in "abc":
            try:
                answers.append(await ask(name))
            except Exception:
                if style == "sequence":
                    raise
                answers.append("swallowed")
        return answers

    for name, n in (("a", 1), ("b", 0), ("c", 3)):
        child = world.builder(call("work", n=n), say(name))
        world.add(name, child.on_execution_end(lambda ctx: finished.append(ctx.status.value)))
    parent = world.builder(call("team"), say("ok")).with_tools(team)
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] else None,
        matcher="work",
        tier="policy",
    )
    agent = parent.build()
    result = await agent.run("go")
    rounds = 0
    while result.status is RunStatus.PAUSED:
        assert "running" not in finished
        rounds += 1
        state = AgentState.from_json(result.state.to_json())
        result = await agent.resume(state, {question.id: True for question in state.pending})
    assert (result.status, sorted(world.ran)) == (RunStatus.COMPLETED, [0, 1, 3])
    assert result.steps[0].results[0].result == ["a", "b", "c"]
    assert rounds == (2 if style == "sequence" else 1)


async def test_a_child_that_was_done_before_the_pause_is_not_run_again(world: World) -> None:
    """Its result is handed to the tool as it was, and its usage counts once."""
    world.add("first", world.builder(call("work", n=0, tokens=10), say("first done", tokens=5)))
    world.add("second", world.builder(call("work", n=1, tokens=100), say("second done")))

    @tool
    async def both(context: ToolContext) -> str:
        """Ask both."""
        one = await context.spawn(world.agents["first"], "go")
        two = await context.spawn(world.agents["second"], "go")
        return f"{one.text}, {two.text}"

    parent = world.builder(call("both"), say("ok")).with_tools(both)
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] else None,
        matcher="work",
        tier="policy",
    )
    agent = parent.build()
    paused = await agent.run("go")
    result = await agent.resume(
        AgentState.from_json(paused.state.to_json()), {paused.pending[0].id: True}
    )
    assert result.steps[0].results[0].result == "first done, second done"
    assert (world.ran, result.usage.total_tokens) == ([0, 1], 115)
    assert result.state.counters.tool_calls == 3


class Size(msgspec.Struct):
    n: int


class Secretive:
    def __str__(self) -> str:
        return "a secret"


def too_deep() -> Any:
    """JSON that is nested as deep as it may be."""
    value: Any = 1
    for _ in range(127):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        ("text", "text"),
        ({"n": 5, "of": [1, 2.5, None, {"x": "ü"}]}, {"n": 5, "of": [1, 2.5, None, {"x": "ü"}]}),
        ([1, "two"], [1, "two"]),
        (7, 7),
        (False, False),
        (None, None),
        ("half \ud800", "half ?"),
        ((1, 2), [1, 2]),
        (Size(3), {"n": 3}),
        (Secretive(), "a secret"),
        (too_deep(), too_deep()),
    ],
)
async def test_a_typed_answer_of_a_child_outlives_a_pause(
    world: World, output: Any, kept: Any
) -> None:
    """As JSON, or else as text; the answer as text is what it was."""
    first = world.builder(say("x")).on_output(
        lambda ctx: HookOutcome.proceed(ctx.with_output(output))
    )
    before, after = await around_a_pause(world, first)
    assert (before.output, after.output) == (output, kept)
    assert after.text == before.text.replace("\ud800", "?")


async def test_how_a_child_ended_outlives_a_pause(world: World) -> None:
    """Status, reason and outcome, and the words of what it failed of."""
    failed = world.builder(say("x")).on_before_inference(guard, name="crashes")
    before, after = await around_a_pause(world, failed)
    assert after.status is before.status is RunStatus.FAILED
    assert isinstance(before.error, HookError)
    assert isinstance(after.error, PastError)
    assert (str(after.error), after.error.kind) == (str(before.error), "hookline.errors.HookError")
    assert (after.explain(), after.records) == (before.explain(), ())

    stopped = world.builder(call("work", n=0), say("x")).with_limits(steps=1)
    before, after = await around_a_pause(world, stopped)
    assert (after.status, after.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert (after.outcome, after.steps, after.usage, after.error) == (
        before.outcome,
        before.steps,
        before.usage,
        None,
    )


def guard(ctx: Any) -> None:
    """Crash."""
    raise ValueError("no entry")


async def around_a_pause(world: World, first: AgentBuilder) -> tuple[RunResult, RunResult]:
    """What a tool is given for its first child, before and after its second child paused, through JSON."""
    given: list[RunResult] = []
    world.add("first", first)
    world.add("second", world.builder(call("work", n=1), say("done")))

    @tool
    async def both(context: ToolContext) -> str:
        """Ask both."""
        given.append(await context.spawn(world.agents["first"], "go"))
        await context.spawn(world.agents["second"], "go")
        return "ok"

    parent = world.builder(call("both"), say("ok")).with_tools(both).with_limits(steps=50)
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] else None,
        matcher="work",
        tier="policy",
    )
    agent = parent.build()
    paused = await agent.run("go")
    state = AgentState.from_json(paused.state.to_json())
    assert AgentState.from_json(state.to_json()) == state
    result = await agent.resume(state, {paused.pending[0].id: True})
    assert result.status is RunStatus.COMPLETED
    return given[0], given[1]


async def test_what_a_call_failed_of_before_a_pause_can_be_withheld_after_it(world: World) -> None:
    """The errors of its failed attempts are its own over the pause: when hooks withhold them, nothing is kept."""
    world.add("child", world.builder(call("work", n=1), say("done")))
    attempts: list[str] = []

    @tool(effect="pure")
    async def retried(context: ToolContext) -> str:
        """Fail once, and then ask."""
        attempts.append("")
        if len(attempts) == 1:
            raise OSError("SECRET host is down")
        return (await context.spawn(world.agents["child"], "go")).text

    parent = asks(world.builder(calls(call("nope"), call("retried")), say("ok")))
    parent.with_tools(retried).on_after_tool_use(
        lambda ctx: ctx.with_result("redacted"), matcher="retried"
    )
    agent = parent.with_error_policy(ErrorPolicy.retry_tool_errors(first_delay=0)).build()
    paused = await agent.run("go")
    state = AgentState.from_json(paused.state.to_json())
    result = await agent.resume(state, {state.pending[0].id: True})
    assert (result.status, len(attempts)) == (RunStatus.COMPLETED, 3)
    assert [info.error_class for info in result.steps[0].errors] == ["validation"]
    assert "SECRET" not in result.state.to_json()


async def test_limits_hold_over_a_pause_in_a_child(world: World) -> None:
    """What the child spent before it is not forgotten."""
    world.add("child", world.builder(*[call("work", n=1, tokens=40)] * 9))
    agent = (
        asks(world.builder(call("delegate", to="child"), say("x"))).with_limits(tokens=100).build()
    )
    result = await agent.run("go")
    while result.status is RunStatus.PAUSED:
        state = AgentState.from_json(result.state.to_json())
        result = await agent.resume(state, {state.pending[0].id: True})
    assert (len(world.ran), result.stop_reason) == (2, StopReason.TOKEN_LIMIT)
    assert result.usage.total_tokens == 120


async def test_a_paused_run_has_used_what_its_waiting_child_has_used(world: World) -> None:
    """The usage of a paused result is that of the tree so far."""
    world.add("child", world.builder(call("work", n=1, tokens=40), say("x")))
    paused = await asks(world.builder(call("delegate", to="child", tokens=2))).build().run("go")
    assert paused.usage.total_tokens == 42
    assert (paused.state.counters.steps, paused.state.counters.tool_calls) == (0, 1)


async def test_what_a_child_used_before_a_pause_is_counted_once(world: World) -> None:
    """Over two pauses and a JSON file: each token, step and call of the tree, in the usage and for the limits."""
    child = world.builder(
        call("work", n=1, tokens=40), call("work", n=2, tokens=5), say("x", tokens=3)
    )
    world.add("child", child)
    parent = world.builder(call("delegate", to="child", tokens=2), say("ok", tokens=1))
    seen: list[int] = []
    parent.on_before_step(
        lambda ctx: seen.append(ctx.run.spent.tokens) if not ctx.run.depth else None
    )
    agent = asks(parent).build()
    result = await agent.run("go")
    for so_far in (42, 47):
        assert (result.status, result.usage.total_tokens) == (RunStatus.PAUSED, so_far)
        again = AgentState.from_json(result.state.to_json())
        result = await agent.resume(again, {result.pending[0].id: True})
    assert (result.status, result.usage.total_tokens, seen) == (RunStatus.COMPLETED, 51, [0, 50])
    assert (result.state.counters.steps, result.state.counters.tool_calls) == (5, 3)


async def test_policies_of_now_judge_a_childs_call_after_a_resume(world: World) -> None:
    """A rule the parent has made since holds in the child."""
    world.add("child", world.builder(call("work", n=1), say("x")))
    paused = await asks(world.builder(call("delegate", to="child"))).build().run("go")
    stricter = asks(world.builder(say("ok")))
    stricter.on_before_tool_use(blocks(1), matcher="work", tier="policy", name="new")
    result = await stricter.build().resume(paused.state, {paused.pending[0].id: True})
    assert (world.ran, result.status) == ([], RunStatus.COMPLETED)


async def test_siblings_of_a_waiting_child_are_not_run_again(world: World) -> None:
    """A call that has run keeps its result over the pause; its hooks after saw it once."""
    after: list[str] = []
    world.add("child", world.builder(call("work", n=1), say("child done")))
    parent = world.builder(calls(call("work", n=7), call("delegate", to="child")), say("ok"))
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.run.depth else None, matcher="work", tier="policy"
    )
    agent = parent.on_after_tool_use(lambda ctx: after.append(ctx.tool_call.name)).build()
    paused = await agent.run("go")
    assert world.ran == [7]
    result = await agent.resume(
        AgentState.from_json(paused.state.to_json()), {paused.pending[0].id: True}
    )
    assert (world.ran, after) == ([7, 1], ["work", "delegate"])
    assert [each.result for each in result.steps[0].results] == [7, "child done"]


async def test_cancelling_after_a_resume_settles_the_waiting_call(world: World) -> None:
    """The outer conversation is valid however the child ends."""
    world.add("child", world.builder(call("work", n=1), say("x")))
    agent = asks(world.builder(call("delegate", to="child"), say("never"))).build()
    paused = await agent.run("go", run_id="r")
    coroutine = agent.resume(paused, {paused.pending[0].id: True})
    agent.cancel("r")
    result = await coroutine
    assert (result.status, world.ran) == (RunStatus.CANCELLED, [])
    check_transcript(result.state.messages)
    assert AgentState.from_json(result.state.to_json()) == result.state


async def test_a_stop_is_stronger_than_a_question_in_another_branch(world: World) -> None:
    """The run is stopped, not paused, and every call has its result."""
    for name in "ab":
        world.add(name, world.builder(call("work", n=1), say(name)))
    parent = asks(world.builder(calls(call("delegate", to="a"), call("delegate", to="b"))))

    async def stop_b(ctx: Any) -> Any:
        await asyncio.sleep(0.001)
        return HookOutcome.stop("not b") if ctx.name == "b" else None

    result = await parent.on_subagent_start(stop_b).build().run("go")
    assert (result.status, result.pending, world.ran) == (RunStatus.STOPPED, [], [])
    check_transcript(result.state.messages)


async def test_a_waiting_call_whose_tool_is_gone_is_an_invalid_call(world: World) -> None:
    """The others of its step continue."""
    world.add("child", world.builder(call("work", n=1), say("x")))
    agent = asks(world.builder(calls(call("delegate", to="child"), call("unknown"))))
    paused = await agent.build().run("go")
    other = AgentBuilder().with_driver(ScriptedDriver([say("pity")])).with_tools(world.tools[0])
    result = await other.build().resume(paused.state, {paused.pending[0].id: True})
    assert [each.status.value for each in result.steps[0].results] == ["invalid", "invalid"]
    assert (result.text, world.ran) == ("pity", [])


async def test_a_denied_change_around_one_call_is_no_question_while_another_waits(
    world: World,
) -> None:
    """Only what waits is pending: a call that has its result does not."""

    async def change(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_args(n=99)) if not ctx.run.depth else await call_next(ctx)

    world.add("child", world.builder(call("work", n=1), say("child done")))
    batch = calls(call("work", n=2), call("delegate", to="child"))
    parent = world.builder(batch, say("ok")).around_tool_use(change, matcher="work")
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args["n"] in (1, 99) else None,
        matcher="work",
        tier="policy",
    )
    agent = parent.build()
    paused = await agent.run("go")
    assert [question.tool_call.args["n"] for question in paused.pending] == [1]
    result = await agent.resume(paused, {paused.pending[0].id: True})
    assert [each.status.value for each in result.steps[0].results] == ["denied", "ok"]


async def test_the_work_of_hooks_in_a_child_counts_for_the_tree(world: World) -> None:
    """A critic in the child uses up the parent's tokens."""
    child = world.builder(say("x", tokens=1))
    world.add("child", child.on_after_step(lambda ctx: ctx.run.charge(Usage(input_tokens=50))))
    result = await world.builder(call("delegate", to="child"), say("ok")).build().run("go")
    assert (world.results[0].usage.total_tokens, result.usage.total_tokens) == (51, 51)


# --- subagent hooks -----------------------------------------------------------------------------


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


@pytest.mark.parametrize("point", ["subagent_start", "subagent_stop"])
async def test_a_returned_evaluation_counts_like_an_appended_one(world: World, point: str) -> None:
    """The child finishes, and the parent ends after the step."""
    said = ContinuationEvaluation("", ContinuationDecision.FORBID_CONTINUATION, "one child")
    world.add("child", world.builder(say("done")))
    parent = world.builder(call("delegate", to="child"), say("never"))
    result = await parent.add_hook(point, lambda ctx: said, name="brake").build().run("go")
    assert (result.status, result.outcome.resolved_by) == (RunStatus.STOPPED, "brake")


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
    """It continues with its own conversation, and reads why."""
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
async def test_an_invalid_result_is_the_hooks_failure(world: World, wrong: Any) -> None:
    """At subagent_stop that is an error: the run fails, naming the hook."""
    world.add("child", world.builder(say("x")))
    parent = world.builder(call("delegate", to="child"), say("never"))
    parent.on_subagent_stop(lambda ctx: ctx.with_result(wrong), name="odd")
    result = await parent.build().run("go")
    assert result.status is RunStatus.FAILED
    assert "odd" in str(result.error)
    check_transcript(result.state.messages)


async def test_a_child_counts_once_though_its_call_is_tried_again() -> None:
    """A hook fails at its end, and the call is made again: the child is done, and has used what it has used."""
    child = AgentBuilder().with_id("child").with_driver(ScriptedDriver([say("x", tokens=10)]))
    failures = iter([RuntimeError("oops")])

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Delegate."""
        return str((await context.spawn(child.build(), "go")).text)

    def crash_once(ctx: Any) -> None:
        for failure in failures:
            raise failure

    parent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("delegate"), say("ok", tokens=1)]))
        .with_tools(delegate)
        .with_journal(MemoryJournal())
        .on_subagent_stop(crash_once)
        .on_error(lambda ctx: ctx.retry(0))
    )
    result = await parent.build().run("go")
    assert (result.status, result.usage.output_tokens) == (RunStatus.COMPLETED, 11)


async def test_a_crash_at_subagent_stop_is_an_error(world: World) -> None:
    """The run fails by default; an option changes that."""

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
    """The run fails, or continues, as the error policy says; the child that ended is on record."""

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
    """With scope=tree the parent's hooks are called at every point of the child."""
    seen: list[str] = []
    parent = world.chain(say("x"))
    parent.on_subagent_start(lambda ctx: seen.append(ctx.name), scope="tree")
    await parent.build().run("go")
    assert seen == ["child", "grandchild"]
