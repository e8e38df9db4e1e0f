"""Runs with children that waited when the process died: they are replayed as they ended."""

from __future__ import annotations

from typing import Any

import pytest
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    HookOutcome,
    RunResult,
    RunStatus,
    ToolContext,
    backtest,
    replay,
    tool,
)
from hookline.journal import RunFinished, decode
from hookline.testing import ScriptedDriver, call, calls, say


def by_step(*turns: Any) -> ScriptedDriver:
    """A model that answers by the step it is asked in, in whatever process."""
    return ScriptedDriver([lambda state: turns[len(state.steps)]] * 9)


def agent(journal: PlainStore, levels: int = 1) -> Agent:
    """An agent with two children that pay at the same time and may start others; a policy asks before each payment."""

    @tool(effect="idempotent")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def payer(amount: int, levels: int) -> AgentBuilder:
        @tool(effect="idempotent")
        async def delegate(amount: int, context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(payer(amount, levels - 1).build(), "pay")).text

        first = call("delegate" if levels else "pay", amount=amount)
        if not amount:
            first = calls(call("delegate", amount=1), call("delegate", amount=2))
        builder = AgentBuilder().with_id(f"payer-{amount}-{levels}")
        return builder.with_driver(by_step(first, say("done"))).with_tools(pay, delegate)

    root = payer(0, levels).with_journal(journal)
    asks = lambda ctx: HookOutcome.ask("money")  # noqa: E731 - it has no name of its own
    return root.on_before_tool_use(asks, matcher="pay", tier="policy", scope="tree").build()


async def answered_one_by_one(journal: PlainStore, levels: int) -> RunResult:
    """Resume the run and answer its questions, the oldest first."""
    result = await agent(journal, levels).resume("run")
    while result.pending:
        result = await agent(journal, levels).resume("run", {result.pending[0].id: True})
    return result


def pauses(journal: PlainStore) -> list[int]:
    """After how many records a run had just paused."""
    records = [decode(line) for _, line in journal.written]
    return [at + 1 for at, record in enumerate(records) if isinstance(record, RunFinished)]


@pytest.mark.parametrize("levels", [1, 2])
async def test_a_process_that_dies_while_a_child_waits_leaves_nothing_behind_in_a_replay(
    levels: int,
) -> None:
    """After any pause or end of any run of the tree, in the first process and in those that were answered."""
    whole = PlainStore()
    await agent(whole, levels).run("go", run_id="run")
    await answered_one_by_one(whole, levels)
    for at in pauses(whole):
        journal = whole.cut(at)
        result = await answered_one_by_one(journal, levels)
        assert result.status is RunStatus.COMPLETED
        replayed = await replay(journal, "run", agent(PlainStore(), levels))
        assert replayed.identical, f"{at}: {replayed}"
        assert len(replayed.result.steps) == 2
        tested = await backtest(journal, agent(PlainStore(), levels))
        assert tested.exit_code == 0, f"{at}: {tested}"


async def test_an_edit_of_a_childs_call_that_did_not_fit_does_not_change_the_run() -> None:
    """How it was edited is not on record, and the question waited as before."""
    journal = PlainStore()
    paused = await agent(journal).run("go", run_id="run")
    wrong = Decision.edit(amount="much")
    paused = await agent(journal).resume("run", {paused.pending[0].id: wrong})
    assert "cannot be edited" in paused.pending[0].reason
    await answered_one_by_one(journal, 1)
    replayed = await replay(journal, "run", agent(PlainStore()))
    assert replayed.identical, replayed
