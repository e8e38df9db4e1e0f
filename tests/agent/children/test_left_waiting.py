"""Runs that are kept from going on: what was not taken up waits as before, and what is left behind is over."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    ToolContext,
    tool,
)
from hookline.state import StopReason
from hookline.testing import ScriptedDriver, call, say


class House:
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

    def statuses(self) -> dict[str, RunStatus]:
        return {info.run_id: info.status for info in self.journal.runs()}


@pytest.fixture
def house(tmp_path: Path) -> Any:
    """Nothing has run yet."""
    made = House(tmp_path)
    yield made
    made.journal.close()


async def paused(house: House, levels: int) -> str:
    """A run that waits; gives the question."""
    first = call("delegate") if levels else call("pay")
    result = await house.builder(first, levels=levels).build().run("go", run_id="run")
    return result.pending[0].id


@pytest.mark.parametrize("levels", [0, 1])
async def test_a_refused_resume_leaves_the_run_paused(house: House, levels: int) -> None:
    """It still waits: the journal says so, nobody prunes it, and it can be resumed again."""
    question = await paused(house, levels)
    strict = house.builder(levels=levels).on_execution_start(
        lambda ctx: HookOutcome.block("not now")
    )
    refused = await strict.build().resume("run", {question: True})
    assert (refused.status, refused.stop_reason) == (RunStatus.PAUSED, StopReason.RUN_REFUSED)
    assert [each.id for each in refused.pending] == [question]
    assert house.statuses()["run"] is RunStatus.PAUSED
    assert house.journal.prune(keep=0) == []
    done = await house.builder(say("done"), levels=levels).build().resume("run", {question: True})
    assert done.status is RunStatus.COMPLETED


@pytest.mark.parametrize("levels", [0, 1])
async def test_a_resume_that_is_cancelled_before_it_goes_on_leaves_the_run_paused(
    house: House, levels: int
) -> None:
    """Whoever gave up the task has not answered the question."""
    question = await paused(house, levels)

    async def wait(ctx: Any) -> None:
        await asyncio.sleep(0)

    agent = house.builder(say("done"), levels=levels).on_execution_start(wait).build()
    task = asyncio.create_task(agent.resume("run", {question: True}))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert house.statuses()["run"] is RunStatus.PAUSED
    assert house.journal.prune(keep=0) == []
    assert (await agent.resume("run", {question: True})).status is RunStatus.COMPLETED


async def test_a_resume_that_a_hook_fails_over_leaves_the_run_paused(house: House) -> None:
    """The error is told, and the run can be resumed when the hook is mended."""
    question = await paused(house, 0)

    def fails(ctx: Any) -> None:
        raise ValueError("no connection")

    broken = house.builder(levels=0).on_execution_start(fails, tier="policy").build()
    result = await broken.resume("run", {question: True})
    assert (result.status, house.statuses()["run"]) == (RunStatus.PAUSED, RunStatus.PAUSED)
    assert "no connection" in str(result.error)


def cancelled(house: House, levels: int) -> Agent:
    """An agent whose run ends as soon as it is resumed."""
    agent = house.builder(levels=levels).build()
    agent.cancel("run")
    return agent


def without_tool(house: House, levels: int) -> Agent:
    """An agent that has no tool any more to take the child up with."""
    return house.builder(say("done"), levels=levels, without=True).build()


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("agent", [cancelled, without_tool])
async def test_children_that_nobody_takes_up_any_more_are_over(
    house: House, agent: Any, levels: int
) -> None:
    """Their own records say that they were cancelled, down to the last, and the tree can be pruned."""
    await paused(house, levels)
    assert set(house.statuses().values()) == {RunStatus.PAUSED}
    result = await agent(house, levels).resume("run")
    assert result.pending == []
    statuses = house.statuses()
    assert statuses.pop("run") is result.status
    assert len(statuses) == levels
    assert set(statuses.values()) == {RunStatus.CANCELLED}
    assert house.journal.check().ok
    assert len(house.journal.prune(keep=0)) == levels + 1
