"""A run that died after its question was answered: the answer stands, is kept, and cannot be given otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from plain_store import PlainStore

from hookline import Agent, AgentBuilder, Decision, HookOutcome, RunStatus, ToolContext, tool
from hookline.errors import SessionError, UsageError
from hookline.journal import decode
from hookline.sessions import Sessions
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, say

QUESTION = "run/0/call_1_1"


class Desk:
    """Payments that a policy asks about, by the run itself or by a child of it, over all processes."""

    def __init__(self, journal: PlainStore | None = None, effect: str = "idempotent") -> None:
        self.journal = journal or PlainStore()
        self.effect: Any = effect
        self.paid: list[int] = []

    def agent(self, *turns: Any, child: bool = False) -> Agent:
        """The agent as a new process builds it."""

        @tool(effect=self.effect)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            payer = AgentBuilder().with_id("payer").with_driver(ScriptedDriver([*turns]))
            return (await context.spawn(payer.with_tools(pay).build(), "pay")).text

        begins = not self.journal.written
        outer = [call("delegate") if begins else say("done")] if child else [*turns]
        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(outer))
            .with_tools(pay, delegate)
            .with_journal(self.journal)
            .on_before_tool_use(
                lambda ctx: HookOutcome.ask("money"),
                matcher="pay",
                name="cashier",
                tier="policy",
                scope="tree",
            )
            .build()
        )

    def killed_in_the_call(self) -> Desk:
        """The journal of a process that dies in the last call that started."""
        lines = [decode(line) for _, line in self.journal.written]
        starts = [at for at, record in enumerate(lines) if record.type == "call"]
        return Desk(self.journal.cut(starts[-1] + 1), self.effect)


PAY = call("pay", amount=5)


async def answered(decision: Decision | bool, *, child: bool = False) -> tuple[Desk, str]:
    """A desk that paused, was answered, and died in the call; and the question."""
    desk = Desk()
    paused = await desk.agent(PAY, child=child).run("go", run_id="run")
    (question,) = paused.pending
    await desk.agent(say("done"), child=child).resume("run", {question.id: decision})
    return desk.killed_in_the_call(), question.id


@pytest.mark.parametrize("child", [False, True])
@pytest.mark.parametrize("late", [Decision.deny("never"), Decision.edit(amount=0)])
async def test_another_answer_to_an_answered_question_is_refused(
    late: Decision, *, child: bool
) -> None:
    """It would be dropped without a word, and the call would run all the same."""
    desk, question = await answered(True, child=child)
    with pytest.raises(UsageError, match=r"was answered already \(allow\)"):
        await desk.agent(say("done"), child=child).resume("run", {question: late})
    assert desk.paid == []
    assert desk.journal.claimed == set()


@pytest.mark.parametrize("child", [False, True])
async def test_the_same_answer_may_be_given_again(*, child: bool) -> None:
    """A sender that gets no reply sends its answer again."""
    desk, question = await answered(True, child=child)
    result = await desk.agent(say("done"), child=child).resume("run", {question: True})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [5])


async def test_a_session_does_not_show_an_answered_question_as_pending() -> None:
    """Its run was left unfinished, and waits for nobody."""
    desk = Desk()
    session = await Sessions(desk.journal).create(id="s")
    paused = await session.run(desk.agent(PAY), "go")
    await session.resume_run(desk.agent(say("done")), {paused.pending[0].id: True})
    left = desk.killed_in_the_call()
    session = await Sessions(left.journal).get("s")
    assert (session.pending, session.unfinished) == ((), "s-1")
    with pytest.raises(SessionError, match="was left unfinished"):
        await session.run(left.agent(say("done")), "next")
    result = await session.resume_run(left.agent(say("done")))
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("child", [False, True])
async def test_an_answer_for_the_session_outlives_the_process_that_died_in_the_call(
    *, child: bool
) -> None:
    """The question was asked before the run paused, and its answer holds for the same call later on."""
    desk, _ = await answered(Decision.allow(remember=True), child=child)
    result = await desk.agent(PAY, say("done"), child=child).resume("run")
    assert result.status is RunStatus.COMPLETED
    assert desk.paid == [5, 5]
    assert result.state.remembered


# --- in doubt --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [HookOutcome.block("not any more"), HookOutcome.stop("enough")])
async def test_a_call_in_doubt_that_a_new_policy_refuses_stays_in_doubt(verdict: Any) -> None:
    """A person would run it again and a policy does not let them: it may have had its effect all the same."""
    journal = PlainStore()

    def builder(*turns: Any) -> AgentBuilder:
        @tool
        async def pay() -> str:
            """Pay."""
            return "paid"

        made = AgentBuilder().with_driver(ScriptedDriver([*turns])).with_tools(pay)
        return made.with_journal(journal, on_in_doubt="ask")

    await builder(call("pay"), say("done")).build().run("go", run_id="run")
    types = [decode(line).type for _, line in journal.written]
    journal = journal.cut(types.index("call") + 1)
    paused = await builder().build().resume("run")
    strict = builder(say("done")).on_before_tool_use(lambda ctx: verdict, tier="policy").build()
    result = await strict.resume("run", {paused.pending[0].id: True})
    (outcome,) = result.steps[0].results
    assert (outcome.status, outcome.reason) == (ResultStatus.IN_DOUBT, verdict.reason)


async def test_a_call_in_doubt_stays_in_doubt_when_the_run_is_cancelled() -> None:
    """That it did not run is not known."""
    journal = PlainStore()

    def agent(*turns: Any) -> Agent:
        @tool
        async def pay() -> str:
            """Pay."""
            return "paid"

        made = AgentBuilder().with_driver(ScriptedDriver([*turns])).with_tools(pay)
        return made.with_journal(journal, on_in_doubt="ask").build()

    await agent(call("pay"), say("done")).run("go", run_id="run")
    types = [decode(line).type for _, line in journal.written]
    journal = journal.cut(types.index("call") + 1)
    await agent().resume("run")
    cancelled = agent()
    cancelled.cancel("run", "enough")
    result = await cancelled.resume("run")
    assert result.status is RunStatus.CANCELLED
    assert result.steps[0].results[0].status is ResultStatus.IN_DOUBT
