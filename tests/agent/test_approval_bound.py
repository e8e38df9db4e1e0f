"""An approval is good for one call, once, in whichever process: the journal knows."""

from __future__ import annotations

from typing import Any

import pytest
from plain_store import PlainStore

from hookline import Agent, AgentBuilder, Decision, HookOutcome, RunStatus, tool
from hookline.errors import UsageError
from hookline.journal import ApprovalAnswered, ApprovalAsked, CallAdmitted
from hookline.state import PendingApproval, ResultStatus
from hookline.testing import ScriptedDriver, call, calls, say

QUESTION = "r/0/call_1_1"


class Died(BaseException):
    """The process is gone in the middle of something."""


class Till:
    """What was paid, over all processes."""

    def __init__(self) -> None:
        self.journal = PlainStore()
        self.paid: list[int] = []
        self.booked: list[int] = []
        self.dies = False
        self.asked: list[PendingApproval] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent as a new process builds it; it asks before it pays."""

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            if self.dies:
                raise Died
            return f"paid {amount}"

        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns or [say("done")]))
            .with_tools(pay)
            .with_journal(self.journal)
            .on_before_tool_use(
                lambda ctx: HookOutcome.ask("sure?"), matcher="pay", name="cashier", tier="policy"
            )
        )

    def agent(self, *turns: Any) -> Agent:
        return self.builder(*turns).build()

    def say_yes(self, question: PendingApproval) -> Decision:
        self.asked.append(question)
        return Decision.allow()

    def die_after(self, kind: type) -> None:
        """The journal as a process left it that died after its last record of a kind."""
        written = self.journal.read_sync("r")
        last = max(record.seq for record in written if isinstance(record, kind))
        places = [number for number, (name, _) in enumerate(self.journal.written) if name == "r"]
        self.journal = self.journal.cut(places[last] + 1)


@pytest.fixture
def till() -> Till:
    """A till, and a run `r` that waits for a yes to a payment of 5."""
    till = Till()
    paused = till.agent(call("pay", amount=5), say("done")).run_sync("go", run_id="r")
    assert (paused.status, paused.pending[0].id) == (RunStatus.PAUSED, QUESTION)
    return till


def test_an_answer_is_used_once(till: Till) -> None:
    """The same answer again changes nothing, and another one is refused with the first."""
    done = till.agent().resume_sync("r", {QUESTION: True})
    again = till.agent().resume_sync("r", {QUESTION: True})
    assert (again.text, again.records, till.paid) == ("done", done.records, [5])
    with pytest.raises(UsageError, match=rf"'{QUESTION}' was answered already \(allow\) by resume"):
        till.agent().resume_sync("r", {QUESTION: False})
    assert till.paid == [5]


def test_a_saved_state_cannot_bring_a_used_answer_back(till: Till) -> None:
    """With a journal, it is the journal that says what the run waits for."""
    saved = till.agent().resume_sync("r").state
    till.agent().resume_sync("r", {QUESTION: True})
    assert till.agent().resume_sync(saved, {QUESTION: True}).text == "done"
    assert till.paid == [5]


def test_an_answer_is_for_its_own_run(till: Till) -> None:
    """The same call in another run has a question of its own."""
    till.agent(call("pay", amount=5), say("done")).run_sync("go", run_id="s")
    with pytest.raises(UsageError, match=r"Waiting: s/0/call_1_1"):
        till.agent().resume_sync("s", {QUESTION: True})
    till.agent().resume_sync("r", {QUESTION: True})
    assert till.agent().resume_sync("s").status is RunStatus.PAUSED
    assert till.paid == [5]


def test_an_answer_is_for_the_call_as_it_was_shown(till: Till) -> None:
    """When the tool of the other process makes another call of it, somebody has to say yes to that one."""

    @tool
    async def pay(amount: int, tip: int = 3) -> str:
        """Pay."""
        till.paid.append(amount + tip)
        return "paid"

    def changed() -> Agent:
        asking = till.agent().definition.registrations[-1]
        builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(pay)
        return builder.with_journal(till.journal).with_hooks(asking).build()

    again = changed().resume_sync("r", {QUESTION: True})
    assert (again.status, till.paid) == (RunStatus.PAUSED, [])
    assert dict(again.pending[0].tool_call.args) == {"amount": 5, "tip": 3}
    with pytest.raises(UsageError, match=rf"no question with id '{QUESTION}'"):
        changed().resume_sync("r", {QUESTION: True})
    assert changed().resume_sync("r", {again.pending[0].id: True}).status is RunStatus.COMPLETED
    assert till.paid == [8]


def test_an_answer_on_record_is_for_the_call_it_was_given_for(till: Till) -> None:
    """A process dies between a yes and the call; in the next one the call has become another."""

    @tool
    async def pay(amount: int, tip: int = 3) -> str:
        """Pay."""
        till.paid.append(amount + tip)
        return "paid"

    till.journal = PlainStore()
    turns = call("pay", amount=5), say("done")
    till.builder(*turns).with_approver(till.say_yes).build().run_sync("go", run_id="r")
    till.paid.clear()
    till.die_after(ApprovalAnswered)
    asking = till.agent().definition.registrations[-1]
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(pay)
    builder.with_journal(till.journal).with_hooks(asking).with_approver(till.say_yes)
    result = builder.build().resume_sync("r")
    assert [dict(question.tool_call.args) for question in till.asked] == [
        {"amount": 5},
        {"amount": 5, "tip": 3},
    ]
    assert till.paid == [8]
    answers = [record for record in result.records if isinstance(record, ApprovalAnswered)]
    assert len(answers) == 2


def test_a_no_that_comes_second_does_not_undo_a_yes_that_was_used(till: Till) -> None:
    """What is on record counts: the call may have run, and a later "no" gets an error that says so."""
    till.dies = True
    with pytest.raises(Died):
        till.agent().resume_sync("r", {QUESTION: True})
    till.die_after(CallAdmitted)
    till.dies = False
    with pytest.raises(UsageError, match="was answered already"):
        till.agent().resume_sync("r", {QUESTION: Decision.deny("no")})
    result = till.agent().resume_sync("r")
    assert till.paid == [5]
    assert result.steps[0].results[0].status is ResultStatus.IN_DOUBT


def test_a_yes_is_used_up_when_its_call_started(till: Till) -> None:
    """Whether to run it again is a question of its own, each time, however the first was answered."""
    till.dies = True
    given = Decision.allow(remember=True)
    with pytest.raises(Died):
        till.agent().resume_sync("r", {QUESTION: given})
    for lives in range(1, 3):
        till.die_after(CallAdmitted if lives == 1 else ApprovalAnswered)
        builder = till.builder().with_journal(till.journal, on_in_doubt="ask")
        with pytest.raises(Died):
            builder.with_approver(till.say_yes).build().resume_sync("r", {QUESTION: given})
        assert (till.paid, len(till.asked)) == ([5] * (lives + 1), lives)
    assert len({question.id for question in till.asked} - {QUESTION}) == 2
    assert {question.asked_by for question in till.asked} == {"in-doubt"}


def test_whether_to_run_a_call_again_can_be_answered_in_another_process(till: Till) -> None:
    """The run pauses with that question, and an answer to the first question does not answer it."""
    till.dies = True
    with pytest.raises(Died):
        till.agent().resume_sync("r", {QUESTION: Decision.allow(remember=True)})
    till.die_after(CallAdmitted)
    till.dies = False
    paused = till.builder().with_journal(till.journal, on_in_doubt="ask").build().resume_sync("r")
    assert (paused.status, till.paid) == (RunStatus.PAUSED, [5])
    (again,) = paused.pending
    assert again.id != QUESTION
    with pytest.raises(UsageError, match="was answered already"):
        till.agent().resume_sync("r", {QUESTION: True})
    done = till.agent().resume_sync("r", {again.id: Decision.allow(remember=True)})
    assert (done.status, till.paid) == (RunStatus.COMPLETED, [5, 5])
    questions = [record for record in done.records if isinstance(record, ApprovalAsked)]
    assert [each.approval.id for each in questions if each.approval] == [QUESTION, again.id]


def in_doubt(till: Till) -> AgentBuilder:
    """An agent that asks whether to run the payment again which a process died of."""
    till.dies = True
    with pytest.raises(Died):
        till.agent().resume_sync("r", {QUESTION: True})
    till.die_after(CallAdmitted)
    till.dies = False
    return till.builder().with_journal(till.journal, on_in_doubt="ask")


def test_a_call_in_doubt_is_run_again_as_it_was_or_not_at_all(till: Till) -> None:
    """Its key belongs to its arguments: an edit is an error, and the question keeps waiting."""
    agent = in_doubt(till).build()
    (again,) = agent.resume_sync("r").pending
    with pytest.raises(UsageError, match="run again unchanged, or not at all"):
        agent.resume_sync("r", {again.id: Decision.edit(amount=7)})
    done = agent.resume_sync("r", {again.id: Decision.deny("leave it")})
    assert till.paid == [5]
    (settled,) = done.steps[0].results
    assert (settled.status, settled.reason) == (ResultStatus.IN_DOUBT, "leave it")


def test_an_approver_that_edits_a_call_in_doubt_is_reported(till: Till) -> None:
    """It is asked again, with what is wrong; and a permission hook that edits it has said no."""

    def approve(question: PendingApproval) -> Decision:
        till.asked.append(question)
        return Decision.edit(amount=7) if len(till.asked) == 1 else Decision.allow()

    builder = in_doubt(till).with_approver(approve)
    assert builder.build().resume_sync("r").status is RunStatus.COMPLETED
    assert till.paid == [5, 5]
    assert "run again unchanged, or not at all" in till.asked[1].reason


def test_a_permission_hook_cannot_edit_a_call_in_doubt(till: Till) -> None:
    """That is a no, and the model reads that the outcome is not known."""
    builder = in_doubt(till).on_permission_request(lambda ctx: Decision.edit(amount=7))
    done = builder.build().resume_sync("r")
    assert till.paid == [5]
    assert done.steps[0].results[0].status is ResultStatus.IN_DOUBT


def test_a_call_that_had_started_is_not_asked_about_when_the_run_pauses_for_another(
    till: Till,
) -> None:
    """One that is safe to repeat runs again with its yes, once it is known what to do with the one that is not."""

    @tool(effect="idempotent")
    async def book(amount: int) -> str:
        """Book."""
        till.booked.append(amount)
        return "booked"

    def builder(*turns: Any) -> AgentBuilder:
        built = till.builder(*turns).with_tools(book).with_journal(till.journal, on_in_doubt="ask")
        return built.on_before_tool_use(
            lambda ctx: HookOutcome.ask("sure?"), matcher="book", name="clerk", tier="policy"
        )

    till.journal = PlainStore()
    both = calls(call("book", amount=1), call("pay", amount=5))
    approved = builder(both, say("done")).with_approver(lambda question: Decision.edit(amount=2))
    approved.build().run_sync("go", run_id="r")
    till.die_after(CallAdmitted)
    (again,) = builder().build().resume_sync("r").pending
    assert (again.tool_call.name, again.is_again) == ("pay", True)
    till.paid.clear()
    till.booked.clear()
    result = builder().build().resume_sync("r", {again.id: True})
    assert (result.status, till.booked, till.paid) == (RunStatus.COMPLETED, [2], [2])
