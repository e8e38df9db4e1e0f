"""Answers that hold for the session: in later runs, and in child runs at any depth."""

from __future__ import annotations

from typing import Any

import pytest
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    RunResult,
    RunStatus,
    ToolContext,
    tool,
)
from hookline.journal import ChildFinished, fold
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, calls, say


class ByStep:
    """A model that answers by how far its run is, in whichever process."""

    def __init__(self, turns: tuple[Any, ...]) -> None:
        self.turns = turns

    async def infer(self, request: Any, turn: Any) -> Any:
        played = self.turns[turn.state.step_count]
        return await ScriptedDriver([played]).infer(request, turn)


class Tree:
    """Agents that ask before they pay, each of which may hand on to the next."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.paid: list[int] = []
        self.answer = Decision.allow(remember=True)
        self.journal: PlainStore | None = None

    def builder(self, *turns: Any, child: Agent | None = None) -> AgentBuilder:
        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            assert child is not None
            return (await context.spawn(child, "pay")).text

        builder = AgentBuilder().with_driver(ByStep(turns)).with_tools(pay, delegate)
        if self.journal is not None:
            builder.with_journal(self.journal)
        return builder.on_before_tool_use(
            lambda ctx: HookOutcome.ask("sure?"),
            matcher="pay",
            name="cashier",
            tier="policy",
            scope="self",
        )

    def approve(self, question: PendingApproval) -> Decision:
        self.asked.append(question.run_id)
        return self.answer


@pytest.fixture
def tree() -> Tree:
    """Nobody was asked yet."""
    return Tree()


def adds_up(result: RunResult) -> bool:
    """Whether the journal says that the run remembers what its state says it remembers."""
    told = fold(result.records)
    return dict(told.state.remembered) == dict(result.state.remembered)


PAY = call("pay", amount=5)


def test_a_child_is_not_asked_what_was_answered_above_it(tree: Tree) -> None:
    """Neither is its own child."""
    leaf = tree.builder(PAY, say("paid")).build()
    child = tree.builder(PAY, call("delegate"), say("done"), child=leaf).build()
    root = tree.builder(PAY, call("delegate"), say("all done"), child=child)
    result = root.with_approver(tree.approve).build().run_sync("go", run_id="r")
    assert (result.text, tree.asked, tree.paid) == ("all done", ["r"], [5, 5, 5])
    assert adds_up(result)


def test_what_is_answered_in_a_child_holds_above_it_and_beside_it(tree: Tree) -> None:
    """From when the child is done."""
    child = tree.builder(PAY, say("done")).build()
    turns = call("delegate"), call("delegate"), PAY, say("all done")
    root = tree.builder(*turns, child=child).with_approver(tree.approve).build()
    result = root.run_sync("go", run_id="r")
    assert (tree.asked, tree.paid) == (["r/0/call_1_1/1"], [5, 5, 5])
    (first, _) = [record for record in result.records if isinstance(record, ChildFinished)]
    assert dict(first.remembered) == dict(result.state.remembered)
    assert adds_up(result)


def test_what_is_answered_in_a_child_holds_in_the_next_run(tree: Tree) -> None:
    """The state carries it, saved or not."""
    leaf = tree.builder(PAY, say("paid")).build()
    child = tree.builder(call("delegate"), say("done"), child=leaf).build()
    root = tree.builder(call("delegate"), say("first"), child=child)
    first = root.with_approver(tree.approve).build().run_sync("go")
    state = AgentState.from_json(first.state.to_json())
    later = tree.builder(PAY, say("second")).with_approver(tree.approve).build()
    later.run_sync("again", state=state)
    assert (len(tree.asked), tree.paid) == (1, [5, 5])


def test_a_no_is_remembered_too(tree: Tree) -> None:
    """And so is one that a child was given."""
    tree.answer = Decision.deny("never", remember=True)
    child = tree.builder(PAY, say("done")).build()
    turns = call("delegate"), PAY, say("all done")
    root = tree.builder(*turns, child=child).with_approver(tree.approve).build()
    result = root.run_sync("go")
    assert (len(tree.asked), tree.paid) == (1, [])
    assert result.steps[1].results[0].text() == "Denied: never"


def test_an_answer_for_once_is_not_remembered_anywhere(tree: Tree) -> None:
    """Each call asks."""
    tree.answer = Decision.allow()
    child = tree.builder(PAY, say("done")).build()
    turns = PAY, call("delegate"), PAY, say("all done")
    tree.builder(*turns, child=child).with_approver(tree.approve).build().run_sync("go")
    assert len(tree.asked) == 3


def test_an_answer_that_a_paused_child_gets_holds_afterwards(tree: Tree) -> None:
    """The question surfaced on the outer run, and so does the answer."""
    child = tree.builder(PAY, say("done")).build()
    root = tree.builder(call("delegate"), PAY, say("all done"), child=child).build()
    paused = root.run_sync("go")
    result = root.resume_sync(paused, {paused.pending[0].id: Decision.allow(remember=True)})
    assert (result.status, tree.paid) == (RunStatus.COMPLETED, [5, 5])
    assert adds_up(result)


def test_a_run_that_is_taken_up_remembers_what_its_children_were_answered(tree: Tree) -> None:
    """After every record: the answer is asked for again, or known; and the same is remembered in the end."""
    tree.journal = PlainStore()

    def root() -> Agent:
        child = tree.builder(PAY, say("done")).build()
        both = calls(call("delegate"), PAY)
        script = tree.builder(both, say("all done"), child=child)
        return script.with_approver(tree.approve).build()

    whole = root().run_sync("go", run_id="r")
    written = tree.journal.written
    remembered = dict(whole.state.remembered)
    assert remembered
    begun = next(n for n, (_, line) in enumerate(written) if b'"type":"prompt"' in line) + 1
    for at in range(begun, len(written) + 1):
        tree.journal = PlainStore(written[:at])
        result = root().resume_sync("r")
        assert dict(result.state.remembered) == remembered, at
        assert adds_up(result), at
