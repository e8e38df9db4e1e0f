"""One child run: started, cancelled with its parent, resumed, or left waiting."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from tree import World, blocks

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    StopReason,
    ToolContext,
    tool,
)
from hookline.journal import (
    ChildFinished,
    ChildStarted,
    MemoryJournal,
    Record,
    RunStarted,
    TextDelta,
)
from hookline.state import ResultStatus, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

# --- a child is a run ---------------------------------------------------------------------------------


async def test_a_tool_may_run_another_agent_and_gets_its_result(world: World) -> None:
    """It goes through the same loop, and knows where it came from."""
    world.add("helper", world.builder(call("work", n=1), say("helped")))
    parent = world.builder(call("delegate", to="helper", task="help me"), say("done"))
    result = await parent.with_id("boss").build().run("go", run_id="r", session="s")
    (child,) = world.results
    assert (result.text, child.text, child.status) == ("done", "helped", RunStatus.COMPLETED)
    assert result.steps[0].results[0].result == "helped"
    state = child.state
    assert (state.agent_id, state.parent_agent_id, state.parent_run_id) == ("helper", "boss", "r")
    assert (state.run_id, state.session_id) == ("r/0/call_1_1/1", "s")
    assert state.messages[0].text == "help me"
    started = [record for record in result.records if isinstance(record, ChildStarted)]
    assert [(each.child_run_id, each.name) for each in started] == [("r/0/call_1_1/1", "helper")]
    finished = [record for record in result.records if isinstance(record, ChildFinished)]
    assert [(each.status, each.text) for each in finished] == [(RunStatus.COMPLETED, "helped")]


@pytest.mark.parametrize("above", [None, "other"])
async def test_a_run_that_has_the_id_of_a_child_is_not_taken_for_it(
    world: World, above: str | None
) -> None:
    """Its result is no answer to this call, and it stays as it is."""
    journal = MemoryJournal()
    claim = await journal.claim("r/0/call_1_1/1")
    head = (claim.run_id, 0, 0.0)
    claim.write([RunStarted(*head, agent_id="evil", session_id="x", parent_run_id=above)]).result()
    claim.give_back().result()
    stranger = await journal.read(claim.run_id)
    world.add("helper", world.builder(call("work", n=1), say("helped")))
    parent = world.builder(call("delegate", to="helper", task="help me"), say("done"))
    result = await parent.with_journal(journal).build().run("go", run_id="r")
    refused = "run 'r' cannot have a child with the id 'r/0/call_1_1/1': another run has it"
    assert refused in str(result.steps[0].results[0].error)
    assert world.results == []
    assert not [each for each in result.records if isinstance(each, ChildStarted)]
    assert await journal.read(claim.run_id) == stranger


async def test_only_an_agent_can_be_spawned(world: World) -> None:
    """Anything else is a tool error with the remedy."""

    @tool
    async def wrong(context: ToolContext) -> str:
        """Spawn nonsense."""
        await context.spawn("helper", "go")
        return "never"

    result = await world.builder(call("wrong"), say("ok")).with_tools(wrong).build().run("go")
    assert "spawn takes an Agent" in str(result.steps[0].results[0].error)


async def test_several_children_of_one_call_have_keys_of_their_own(world: World) -> None:
    """One after the other, or side by side."""
    world.add("helper", world.builder(*[say("a")] * 4))

    @tool
    async def team(context: ToolContext) -> list[str]:
        """Ask several."""
        helper = world.agents["helper"]
        first = await context.spawn(helper, "one")
        others = await asyncio.gather(*(context.spawn(helper, text) for text in ("two", "three")))
        return [each.run_id for each in (first, *others)]

    agent = world.builder(call("team"), say("ok")).with_tools(team).build()
    result = await agent.run("go", run_id="r")
    assert result.steps[0].results[0].result == [f"r/0/call_1_1/{n}" for n in (1, 2, 3)]


async def test_hooks_of_the_session_are_the_parents(world: World) -> None:
    """A child neither starts nor ends a session; its own execution hooks run."""
    seen: list[str] = []
    child = world.builder(say("x"))
    for point in ("session_start", "execution_start", "execution_end", "session_end"):
        child.add_hook(point, lambda ctx: seen.append(ctx.point.value))
    world.add("child", child)
    await world.builder(call("delegate", to="child"), say("ok")).build().run("go")
    assert seen == ["execution_start", "execution_end"]


async def test_listeners_of_the_parent_get_the_childs_records(world: World) -> None:
    """Each record carries the run it belongs to, and each run numbers its own."""
    heard: list[Record] = []
    parent = world.chain(call("work", n=1), say("x")).on_event(heard.append)
    await parent.build().run("go", run_id="r")
    by_run: dict[str, list[int]] = {}
    for record in heard:
        if not isinstance(record, TextDelta):
            by_run.setdefault(record.run_id, []).append(record.seq)
    assert [run.count("/") for run in by_run] == [0, 3, 6]
    assert all(seqs == list(range(len(seqs))) for seqs in by_run.values())


# --- what holds for the tree --------------------------------------------------------------------------


async def test_policies_hold_at_any_depth(world: World) -> None:
    """A policy of the parent's judges its grandchild's calls."""
    parent = world.chain(calls(call("work", n=1), call("work", n=13)), say("grandchild done"))
    parent.on_before_tool_use(blocks(13), matcher="work", tier="policy", name="law")
    result = await parent.build().run("go")
    assert (world.ran, result.text) == ([1], "parent done")
    (blocked,) = [r for r in world.results[0].steps[0].results if r.status is ResultStatus.BLOCKED]
    assert (blocked.decided_by, blocked.reason) == ("law", "forbidden")


@pytest.mark.parametrize(("scope", "ran"), [("self", [1, 13]), ("tree", [1])])
async def test_a_hook_says_whether_it_holds_for_the_tree(
    world: World, scope: str, ran: list[int]
) -> None:
    """By default policies apply to children and other hooks do not."""
    for tier in ("hook", "policy"):
        world.ran.clear()
        parent = world.chain(calls(call("work", n=1), call("work", n=13)), say("x"))
        parent.on_before_tool_use(blocks(13), matcher="work", tier=tier, scope=scope)
        await parent.build().run("go")
        assert sorted(world.ran) == ran


async def test_a_policy_holds_in_parallel_branches(world: World) -> None:
    """Each branch is judged, and each gets its own verdict."""
    for name, n in (("a", 1), ("b", 13), ("c", 3)):
        world.add(name, world.builder(call("work", n=n), say(name)))
    batch = calls(*(call("delegate", to=name) for name in "abc"))
    parent = world.builder(batch, say("done"))
    parent.on_before_tool_use(blocks(13), matcher="work", tier="policy")
    result = await parent.build().run("go")
    assert sorted(world.ran) == [1, 3]
    assert [each.result for each in result.steps[0].results] == ["a", "b", "c"]


async def test_the_childs_own_hooks_are_its_own(world: World) -> None:
    """They are asked besides those of the tree, and only there."""
    seen: list[str] = []
    world.add(
        "child",
        world.builder(call("work", n=1), say("x")).on_before_tool_use(
            lambda ctx: seen.append(f"child {ctx.tool_call.name}")
        ),
    )
    parent = world.builder(call("delegate", to="child"), say("ok"))
    parent.on_before_tool_use(
        lambda ctx: seen.append(f"parent {ctx.tool_call.name}"), scope="tree", name="watch"
    )
    await parent.build().run("go")
    assert seen == ["parent delegate", "parent work", "child work"]


async def test_observers_of_the_tree_see_the_childs_points(world: World) -> None:
    """Once each, with the run they are in."""
    seen: list[tuple[int, str]] = []
    parent = world.chain(call("work", n=1), say("x"))
    parent.on_after_step(
        lambda ctx: seen.append((ctx.run.depth, ctx.step.type.value)), tier="observer", scope="tree"
    )
    await parent.build().run("go")
    assert seen == [
        *((2, "tool_use"), (2, "final_response")),
        *((1, "tool_use"), (1, "final_response")),
        *((0, "tool_use"), (0, "final_response")),
    ]


async def test_a_stop_in_a_child_ends_the_child(world: World) -> None:
    """The parent reads its result and continues."""
    world.add("child", world.builder(call("work", n=13), say("never")))
    parent = world.builder(call("delegate", to="child"), say("noted"))
    parent.on_before_tool_use(
        lambda ctx: HookOutcome.stop("no") if ctx.tool_call.name == "work" else None, tier="policy"
    )
    result = await parent.build().run("go")
    assert (world.results[0].status, result.text) == (RunStatus.STOPPED, "noted")
    assert world.ran == []


# --- limits -------------------------------------------------------------------------------------------


async def test_steps_are_limited_over_the_tree(world: World) -> None:
    """A grandchild that would continue forever is stopped by the limit of the run at the top."""
    parent = world.chain(*[call("work", n=1)] * 30).with_limits(steps=6)
    result = await parent.build().run("go")
    assert len(world.ran) == 4  # two steps were the parent's and the child's own
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert world.results[0].stop_reason is StopReason.STEP_LIMIT
    assert "by this run and its children" in world.results[0].explain()
    assert result.state.counters.steps == 6


async def test_tokens_are_limited_over_parallel_branches(world: World) -> None:
    """What one branch uses, the other no longer has."""
    for name in "ab":
        world.add(name, world.builder(*[call("work", n=1, tokens=40)] * 9))
    parent = world.builder(calls(call("delegate", to="a"), call("delegate", to="b")), say("never"))
    result = await parent.with_limits(tokens=100).build().run("go")
    assert result.stop_reason is StopReason.TOKEN_LIMIT
    assert [child.stop_reason for child in world.results] == [StopReason.TOKEN_LIMIT] * 2
    assert 100 <= result.usage.total_tokens <= 160
    assert result.usage.total_tokens == sum(child.usage.total_tokens for child in world.results)


async def test_tool_calls_are_limited_over_the_tree(world: World) -> None:
    """The calls that start children count too."""
    parent = world.chain(*[call("work", n=1)] * 9).with_limits(tool_calls=4)
    result = await parent.build().run("go")
    assert len(world.ran) == 2
    assert world.results[0].stop_reason is StopReason.TOOL_CALL_LIMIT
    assert result.state.counters.tool_calls == 4


async def test_time_is_limited_over_the_tree(world: World) -> None:
    """A child's time is its parent's time."""
    clock = FakeClock()

    def slow(state: AgentState) -> Any:
        clock.advance(40)
        return call("work", n=1)

    world.add("child", world.builder(*[slow] * 9).with_clock(clock).with_limits(seconds=None))
    parent = world.builder(call("delegate", to="child"), say("never")).with_clock(clock)
    result = await parent.with_limits(seconds=100).build().run("go")
    assert (len(world.ran), result.stop_reason) == (2, StopReason.TIME_LIMIT)


async def test_a_child_may_have_tighter_limits_of_its_own(world: World) -> None:
    """They end the child and not the parent."""
    world.add("child", world.builder(*[call("work", n=1)] * 9).with_limits(steps=2))
    result = await world.builder(call("delegate", to="child"), say("done")).build().run("go")
    assert (world.results[0].stop_reason, result.text) == (StopReason.STEP_LIMIT, "done")
    assert len(world.ran) == 2


async def test_usage_is_rolled_up(world: World) -> None:
    """The parent's usage and counters are those of the tree; the child's are its own."""
    world.add("grandchild", world.builder(call("work", n=1, tokens=1), say("x", tokens=2)))
    world.add(
        "child", world.builder(call("delegate", to="grandchild", tokens=10), say("y", tokens=20))
    )
    parent = world.builder(call("delegate", to="child", tokens=100), say("z", tokens=200))
    result = await parent.build().run("go")
    assert [each.usage.total_tokens for each in (*world.results, result)] == [3, 33, 333]
    assert (result.state.counters.steps, result.state.counters.tool_calls) == (6, 3)
    assert (result.state.step_count, result.usage.requests) == (2, 6)


# --- failing ------------------------------------------------------------------------------------------


async def test_a_childs_failure_is_a_result(world: World) -> None:
    """The tool sees it and says what it makes of it; the parent's run is not lost."""
    heard: list[str] = []
    child = world.builder(ValueError("child model down"))
    world.add("child", child.on_agent_failed(lambda ctx: heard.append(ctx.error_message)))
    parent = world.builder(call("delegate", to="child"), say("I will do it myself"))
    parent.on_error(lambda ctx: heard.append("parent heard"))
    result = await parent.build().run("go")
    assert (world.results[0].status, str(world.results[0].error)) == (
        RunStatus.FAILED,
        "child model down",
    )
    assert (result.text, result.status) == ("I will do it myself", RunStatus.COMPLETED)
    assert heard == ["child model down"]


async def test_a_child_that_was_used_before_the_tool_failed_still_counts(world: World) -> None:
    """What it cost was spent."""

    @tool
    async def careless(context: ToolContext) -> str:
        """Delegate and stumble."""
        await context.spawn(world.agents["child"], "go")
        raise RuntimeError("stumbled")

    world.add("child", world.builder(say("x", tokens=50)))
    agent = world.builder(call("careless"), say("ok")).with_tools(careless)
    assert (await agent.build().run("go")).usage.total_tokens == 50


# --- children cancelled -------------------------------------------------------------------------


# --- cancelling ---------------------------------------------------------------------------------------


async def hanging(world: World, parallel: bool) -> tuple[AgentBuilder, asyncio.Event, list[str]]:
    """A parent whose children, one or two, hang at depth two; the event is set when they do."""
    started = asyncio.Event()
    log: list[str] = []
    count = 2 if parallel else 1

    @tool
    async def hang(n: int) -> str:
        """Hang."""
        log.append(f"hang {n}")
        if sum(line.startswith("hang") for line in log) == count:
            started.set()
        await asyncio.sleep(60)
        return "never"

    batch = []
    for n in range(count):
        deep = world.builder(call("hang", n=n)).with_tools(hang)
        deep.on_after_step(lambda ctx: log.append("after_step deep"))
        world.add(
            f"deep{n}",
            deep.on_execution_end(lambda ctx: log.append(f"end deep {ctx.status.value}")),
        )
        mid = world.builder(call("delegate", to=f"deep{n}", tokens=7), say("never"))
        world.add(
            f"mid{n}", mid.on_execution_end(lambda ctx: log.append(f"end mid {ctx.status.value}"))
        )
        batch.append(call("delegate", to=f"mid{n}"))
    parent = world.builder(calls(*batch), say("never"))
    parent.on_execution_end(lambda ctx: log.append(f"end parent {ctx.status.value}"))
    return parent, started, log


@pytest.mark.parametrize("parallel", [False, True])
async def test_cancelling_the_parent_cancels_its_children(world: World, parallel: bool) -> None:
    """At any depth and in every branch, each takes its own way out first."""
    parent, started, log = await hanging(world, parallel)
    agent = parent.build()
    task = asyncio.create_task(agent.run("go", run_id="r"))
    await started.wait()
    agent.cancel("r", "home time")
    result = await asyncio.wait_for(task, 60)
    count = 2 if parallel else 1
    assert result.status is RunStatus.CANCELLED
    for line in ("after_step deep", "end deep cancelled", "end mid cancelled"):
        assert log.count(line) == count
    assert log[-1] == "end parent cancelled"
    assert [each.status for each in result.steps[0].results] == [ResultStatus.CANCELLED] * count
    assert result.usage.total_tokens == 7 * count
    finished = [record for record in result.records if isinstance(record, ChildFinished)]
    assert [each.status for each in finished] == [RunStatus.CANCELLED] * count
    check_transcript(result.state.messages)


async def test_cancelling_the_task_around_the_parent_does_the_same(world: World) -> None:
    """And the CancelledError is passed on."""
    parent, started, log = await hanging(world, True)
    task = asyncio.create_task(parent.build().run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.count("end deep cancelled") == 2
    assert log[-1] == "end parent cancelled"


async def test_a_hook_in_the_child_may_cancel_the_parent(world: World) -> None:
    """The child ends first, then the parent."""
    log: list[str] = []
    child = world.builder(call("work", n=1), say("never"))
    child.on_before_tool_use(lambda ctx: boss.cancel("r") and None)
    child.on_execution_end(lambda ctx: log.append(f"child {ctx.status.value}"))
    world.add("child", child)
    parent = world.builder(call("delegate", to="child"), say("never"))
    boss = parent.on_execution_end(lambda ctx: log.append(f"parent {ctx.status.value}")).build()
    result = await boss.run("go", run_id="r")
    assert (log, world.ran) == (["child cancelled", "parent cancelled"], [])
    assert (result.status, result.steps[0].results[0].status) == (
        RunStatus.CANCELLED,
        ResultStatus.CANCELLED,
    )
    assert result.state.counters.errors == 0


async def test_a_tool_that_runs_out_of_time_takes_its_child_with_it(
    world: World, skip_time: Any
) -> None:
    """The child is cancelled and takes its way out; the parent's model reads of the time-out."""
    ends: list[str] = []
    hangs = asyncio.Event()

    class Hangs:
        async def infer(self, request: Any, turn: Any) -> Any:
            hangs.set()
            await asyncio.Event().wait()

    child = (
        AgentBuilder().with_driver(Hangs()).on_execution_end(lambda ctx: ends.append(ctx.status))
    )
    world.add("child", child)

    @tool(timeout=60)
    async def hurried(context: ToolContext) -> str:
        """Delegate in a hurry."""
        return (await context.spawn(world.agents["child"], "go")).text

    skipped = skip_time(60, hangs.is_set)
    result = await world.builder(call("hurried"), say("ok")).with_tools(hurried).build().run("go")
    await skipped
    assert (ends, result.status) == ([RunStatus.CANCELLED], RunStatus.COMPLETED)
    assert "did not finish within" in str(result.steps[0].results[0].error)


# --- runs that cannot continue: what was not resumed stays paused, and the rest is over


class PayingAgents:
    """An agent that has others pay, so many levels down; a policy asks before anybody pays."""

    def __init__(self, path: Path) -> None:
        self.journal = SQLiteJournal(path / "journal.db")

    def builder(self, *turns: Any, levels: int = 1, without: bool = False) -> AgentBuilder:
        """The agent; `without` the tool that starts the child."""
        builder = self._payer(*turns, levels=levels, without=without)
        builder.with_journal(self.journal)
        return builder.on_before_tool_use(
            lambda ctx: HookOutcome.ask("money"), matcher="pay", tier="policy", scope="tree"
        )

    def _payer(self, *turns: Any, levels: int, without: bool = False) -> AgentBuilder:
        @tool(effect="idempotent")
        async def pay() -> str:
            """Pay."""
            return "paid"

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            below = call("delegate") if levels > 1 else call("pay")

            def turn(state: Any) -> Any:
                return say("done") if state.steps else below

            child = self._payer(turn, turn, levels=levels - 1).build()
            return (await context.spawn(child, "pay")).text

        builder = AgentBuilder().with_id(f"level-{levels}").with_driver(ScriptedDriver([*turns]))
        return builder.with_tools(*([pay] if without else [pay, delegate]))

    async def statuses(self) -> dict[str, RunStatus]:
        return {info.run_id: info.status for info in await self.journal.runs()}


@pytest.fixture
def agents(tmp_path: Path) -> Any:
    """Nothing has run yet."""
    made = PayingAgents(tmp_path)
    yield made
    made.journal.close_sync()


async def paused(agents: PayingAgents, levels: int) -> str:
    """A run that waits; gives the question."""
    first = call("delegate") if levels else call("pay")
    result = await agents.builder(first, levels=levels).build().run("go", run_id="run")
    return result.pending[0].id


@pytest.mark.parametrize("levels", [0, 1])
async def test_a_refused_resume_leaves_the_run_paused(agents: PayingAgents, levels: int) -> None:
    """It still waits: the journal says so, nobody prunes it, and it can be resumed again."""
    question = await paused(agents, levels)
    strict = agents.builder(levels=levels).on_execution_start(
        lambda ctx: HookOutcome.block("not now")
    )
    refused = await strict.build().resume("run", {question: True})
    assert (refused.status, refused.stop_reason) == (RunStatus.PAUSED, StopReason.RUN_REFUSED)
    assert [each.id for each in refused.pending] == [question]
    assert (await agents.statuses())["run"] is RunStatus.PAUSED
    assert await agents.journal.prune(keep=0) == []
    done = await agents.builder(say("done"), levels=levels).build().resume("run", {question: True})
    assert done.status is RunStatus.COMPLETED


@pytest.mark.parametrize("levels", [0, 1])
async def test_a_resume_that_is_cancelled_before_it_continues_leaves_the_run_paused(
    agents: PayingAgents, levels: int
) -> None:
    """Whoever gave up the task has not answered the question."""
    question = await paused(agents, levels)

    async def wait(ctx: Any) -> None:
        await asyncio.sleep(0)

    agent = agents.builder(say("done"), levels=levels).on_execution_start(wait).build()
    task = asyncio.create_task(agent.resume("run", {question: True}))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert (await agents.statuses())["run"] is RunStatus.PAUSED
    assert await agents.journal.prune(keep=0) == []
    assert (await agent.resume("run", {question: True})).status is RunStatus.COMPLETED


async def test_a_resume_that_a_hook_fails_over_leaves_the_run_paused(agents: PayingAgents) -> None:
    """The error is reported, and the run can be resumed when the hook is fixed."""
    question = await paused(agents, 0)

    def fails(ctx: Any) -> None:
        raise ValueError("no connection")

    broken = agents.builder(levels=0).on_execution_start(fails, tier="policy").build()
    result = await broken.resume("run", {question: True})
    assert (result.status, (await agents.statuses())["run"]) == (RunStatus.PAUSED, RunStatus.PAUSED)
    assert "no connection" in str(result.error)


def cancelled(agents: PayingAgents, levels: int) -> Agent:
    """An agent whose run ends as soon as it is resumed."""
    agent = agents.builder(levels=levels).build()
    agent.cancel("run")
    return agent


def without_tool(agents: PayingAgents, levels: int) -> Agent:
    """An agent that has no tool any more to take the child up with."""
    return agents.builder(say("done"), levels=levels, without=True).build()


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("agent", [cancelled, without_tool])
async def test_children_that_are_never_resumed_end(
    agents: PayingAgents, agent: Any, levels: int
) -> None:
    """Their own records say that they were cancelled, down to the last, and the tree can be pruned."""
    await paused(agents, levels)
    assert set((await agents.statuses()).values()) == {RunStatus.PAUSED}
    result = await agent(agents, levels).resume("run")
    assert result.pending == []
    statuses = await agents.statuses()
    assert statuses.pop("run") is result.status
    assert len(statuses) == levels
    assert set(statuses.values()) == {RunStatus.CANCELLED}
    assert (await agents.journal.check()).ok
    assert len(await agents.journal.prune(keep=0)) == levels + 1
