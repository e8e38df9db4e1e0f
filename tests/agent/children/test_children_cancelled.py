from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tree import World

from hookline import (
    AgentBuilder,
    RunStatus,
    ToolContext,
    tool,
)
from hookline.journal import ChildFinished
from hookline.state import ResultStatus, check_transcript
from hookline.testing import call, calls, say

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
    result = await asyncio.wait_for(task, 5)
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


async def test_a_tool_that_runs_out_of_time_takes_its_child_with_it(world: World) -> None:
    """The child is cancelled and takes its way out; the parent's model reads of the time-out."""
    ends: list[str] = []

    class Hangs:
        async def infer(self, request: Any, turn: Any) -> Any:
            await asyncio.sleep(60)

    child = (
        AgentBuilder().with_driver(Hangs()).on_execution_end(lambda ctx: ends.append(ctx.status))
    )
    world.add("child", child)

    @tool(timeout=0.02)
    async def hurried(context: ToolContext) -> str:
        """Delegate in a hurry."""
        return (await context.spawn(world.agents["child"], "go")).text

    result = await world.builder(call("hurried"), say("ok")).with_tools(hurried).build().run("go")
    assert (ends, result.status) == ([RunStatus.CANCELLED], RunStatus.COMPLETED)
    assert "did not finish within" in str(result.steps[0].results[0].error)
