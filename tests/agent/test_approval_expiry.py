"""Questions that can be answered for a while, and no longer."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from plain_store import PlainStore
from run_results import result_texts

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    RunStatus,
    ToolContext,
    tool,
)
from hookline.errors import BuildError
from hookline.journal import ApprovalAnswered, ApprovalAsked
from hookline.state import PendingApproval
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

START = 1_000_000.0
LATE = "Denied: the question expired"


class Till:
    """An agent that asks before it pays, and whose questions expire after a minute."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.paid: list[int] = []
        self.journal = PlainStore()

    def builder(self, *turns: Any) -> AgentBuilder:
        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns or [call("pay", amount=5), say("done")]))
            .with_tools(pay)
            .with_clock(self.clock)
            .with_approval_expiry(60)
            .on_before_tool_use(
                lambda ctx: HookOutcome.ask("sure?"), matcher="pay", name="cashier", tier="policy"
            )
        )

    def paused(self, *turns: Any) -> tuple[Agent, AgentState]:
        """An agent, and the state of its run that waits."""
        agent = self.builder(*turns).build()
        return agent, agent.run_sync("go", run_id="r").state


@pytest.fixture
def till() -> Till:
    """A till that nobody has paid from."""
    return Till()


def test_a_question_says_until_when_it_can_be_answered(till: Till) -> None:
    """In seconds since 1970, on the run's clock, and it is saved with the state."""
    _, state = till.paused()
    (question,) = AgentState.from_json(state.to_json()).pending
    assert question.expires_at == START + 60
    assert (question.is_expired(START + 60), question.is_expired(START + 60.5)) == (False, True)


def test_without_an_expiry_a_question_waits_forever(till: Till) -> None:
    """That is the default, and what None says."""
    agent = till.builder().with_approval_expiry(None).build()
    (question,) = agent.run_sync("go").pending
    assert (question.expires_at, question.is_expired(math.inf)) == (None, False)


@pytest.mark.parametrize(("after", "paid"), [(59.0, [5]), (61.0, [])])
def test_an_answer_that_comes_too_late_is_a_no(till: Till, after: float, paid: list[int]) -> None:
    """The call does not run; the model reads why; who answered is on record."""
    agent, state = till.paused()
    till.clock.advance(after)
    result = agent.resume_sync(state, {state.pending[0].id: Decision.allow()})
    assert (result.status, till.paid) == (RunStatus.COMPLETED, paid)
    assert result_texts(result) == (["paid 5"] if paid else [LATE])
    (answered,) = [record for record in result.records if isinstance(record, ApprovalAnswered)]
    assert answered.by == ("resume" if paid else "expiry")


def test_nobody_has_to_answer_an_expired_question(till: Till) -> None:
    """Resumed without an answer, the run continues."""
    agent, state = till.paused()
    till.clock.advance(61)
    assert result_texts(agent.resume_sync(state)) == [LATE]


def test_resuming_too_early_does_not_make_it_last_longer(till: Till) -> None:
    """The time counts from when the question was first asked."""
    agent, state = till.paused()
    till.clock.advance(50)
    again = agent.resume_sync(state)
    assert again.status is RunStatus.PAUSED
    assert again.state.pending == state.pending
    till.clock.advance(20)
    assert result_texts(agent.resume_sync(again, {state.pending[0].id: True})) == [LATE]


def test_an_answer_that_was_given_in_time_stays_good(till: Till) -> None:
    """While the other question of the step waits, and expires."""
    two = calls(call("pay", amount=1), call("pay", amount=2))
    agent, state = till.paused(two, say("done"))
    first, second = state.pending
    till.clock.advance(50)
    partly = agent.resume_sync(state, {first.id: True})
    assert [question.id for question in partly.pending] == [second.id]
    till.clock.advance(50)
    result = agent.resume_sync(partly, {second.id: True})
    assert (result_texts(result), till.paid) == (["paid 1", LATE], [1])


def test_an_expired_no_is_not_remembered(till: Till) -> None:
    """The next call asks again, even when the late answer was for the session."""
    agent, state = till.paused(call("pay", amount=5), call("pay", amount=5), say("done"))
    till.clock.advance(61)
    again = agent.resume_sync(state, {state.pending[0].id: Decision.allow(remember=True)})
    assert (again.status, again.state.remembered) == (RunStatus.PAUSED, {})
    assert again.pending[0].expires_at == START + 61 + 60


def test_a_changed_call_is_a_new_question(till: Till) -> None:
    """With a time of its own."""
    agent = till.builder().build()
    state = agent.run_sync("go", run_id="r").state

    @tool
    async def pay(amount: int, to: str = "kim") -> str:
        """Pay."""
        return "paid"

    till.clock.advance(30)
    changed = till.builder().build().definition.registrations[-1]
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(pay)
    builder.with_clock(till.clock).with_approval_expiry(60).with_hooks(changed)
    again = builder.build().resume_sync(state, {state.pending[0].id: True})
    assert again.status is RunStatus.PAUSED
    assert again.pending[0].expires_at == START + 30 + 60


@pytest.mark.parametrize("after", [59, 61])
def test_an_approver_that_takes_too_long_has_said_no(till: Till, after: float) -> None:
    """Whatever it says in the end."""

    def approve(question: PendingApproval) -> bool:
        till.clock.advance(after)
        return True

    result = till.builder().with_approver(approve).build().run_sync("go")
    assert result_texts(result) == (["paid 5"] if after == 59 else [LATE])


async def test_an_approver_that_never_answers_is_not_waited_for(till: Till) -> None:
    """It is cancelled when the question expires."""
    ended: list[str] = []

    async def approve(question: PendingApproval) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return True

    agent = till.builder().with_approval_expiry(0.01).with_approver(approve).build()
    result = await agent.run("go")
    assert (result_texts(result), ended) == ([LATE], ["cancelled"])


async def test_a_time_out_of_the_approvers_own_is_its_failure(till: Till) -> None:
    """It is not taken for an expiry."""

    async def approve(question: PendingApproval) -> bool:
        raise TimeoutError("no connection")

    result = await till.builder().with_approver(approve).build().run("go")
    assert result_texts(result) == ["Denied: the approver failed (TimeoutError: no connection)"]


def test_hooks_and_remembered_answers_are_never_late(till: Till) -> None:
    """They are answers of now, or to an earlier question."""
    _, state = till.paused()
    till.clock.advance(61)
    hooked = till.builder(say("done")).on_permission_request(lambda ctx: Decision.allow())
    assert result_texts(hooked.build().resume_sync(state)) == ["paid 5"]
    approved = till.builder(call("pay", amount=7), say("done"))
    approved.with_approver(lambda question: Decision.allow(remember=True))
    known = approved.build().run_sync("go").state
    till.clock.advance(1000)
    later = till.builder(call("pay", amount=7), say("done")).build().run_sync("go", state=known)
    assert result_texts(later) == ["paid 7"]


def test_a_child_cannot_wait_longer_than_its_parent(till: Till) -> None:
    """The shortest time of the tree holds."""
    child = till.builder().with_approval_expiry(500).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(child, "pay")).text

    parent = till.builder(call("delegate"), say("all done")).with_tools(delegate).build()
    state = parent.run_sync("go").state
    assert state.pending[0].expires_at == START + 60
    till.clock.advance(61)
    result = parent.resume_sync(state, {state.pending[0].id: True})
    assert (result.text, till.paid) == ("all done", [])


def test_a_late_answer_is_refused_in_another_process_too(till: Till) -> None:
    """The time is in the journal."""
    till.builder().with_journal(till.journal).build().run_sync("go", run_id="r")
    till.clock.advance(61)
    agent = till.builder(say("done")).with_journal(till.journal).build()
    result = agent.resume_sync("r", {"r/0/call_1_1": True})
    assert (result_texts(result), till.paid) == ([LATE], [])


def test_a_question_that_a_dead_process_asked_expires_too(till: Till) -> None:
    """Resumed later, the run asks the same question, with the time it had."""

    class Died(BaseException):
        """What ends the process."""

    def approve(question: PendingApproval) -> bool:
        raise Died

    agent = till.builder().with_journal(till.journal).with_approver(approve).build()
    with pytest.raises(Died):
        agent.run_sync("go", run_id="r")
    asked = [record.type for record in till.journal.read_sync("r")].index("approval_asked")
    begun = [number for number, (name, _) in enumerate(till.journal.written) if name == "r"]
    till.journal = till.journal.cut(begun[asked] + 1)
    till.clock.advance(61)
    result = till.builder(say("done")).with_journal(till.journal).build().resume_sync("r")
    assert (result_texts(result), till.paid) == ([LATE], [])
    questions = [record for record in result.records if isinstance(record, ApprovalAsked)]
    assert len(questions) == 1


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, True, "60"])
def test_an_expiry_is_a_number_of_seconds(seconds: Any) -> None:
    """Anything else is refused when the agent is built."""
    with pytest.raises(BuildError, match="Give a number above zero, or None"):
        AgentBuilder().with_approval_expiry(seconds)


def test_a_capability_cannot_make_questions_last_longer() -> None:
    """It may only let them expire sooner."""

    class Patience:
        def __init__(self, seconds: float | None) -> None:
            self.seconds = seconds

        def configure(self, builder: AgentBuilder) -> None:
            builder.with_approval_expiry(self.seconds)

    builder = AgentBuilder().with_approval_expiry(60)
    for seconds in (61, None):
        with pytest.raises(BuildError, match="'Patience' can only make approvals expire sooner"):
            builder.with_capability(Patience(seconds))
    agent = builder.with_driver(ScriptedDriver([])).with_capability(Patience(30)).build()
    assert agent.definition.expire_after == 30
