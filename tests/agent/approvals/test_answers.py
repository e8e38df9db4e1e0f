"""What an answer answers: exactly the question that was asked, whoever else asks, whatever became of the call."""

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
    RunStatus,
    ToolContext,
    tool,
)
from hookline.errors import UsageError
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, calls, say


class Desk:
    """Payments that a policy asks about, over all processes."""

    def __init__(self) -> None:
        self.journal = PlainStore()
        self.paid: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent as a new process builds it."""

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns or [say("done")]))
            .with_tools(pay)
            .with_journal(self.journal)
            .on_before_tool_use(lambda ctx: HookOutcome.ask("money"), name="cashier", tier="policy")
        )

    def agent(self, *turns: Any) -> Agent:
        return self.builder(*turns).build()


@pytest.fixture
def desk() -> Desk:
    """Nothing is paid yet."""
    return Desk()


PAY = call("pay", amount=5)


@pytest.mark.parametrize("way", ["resume", "approver", "permission hook"])
def test_a_no_in_plain_words_is_a_no(desk: Desk, way: str) -> None:
    """As a web page sends it: `Decision(**json)`."""
    no = Decision(answer="deny", reason="not today")  # type: ignore[arg-type]
    if way == "approver":
        result = desk.builder(PAY, say("done")).with_approver(lambda _: no).build().run_sync("go")
    elif way == "permission hook":
        builder = desk.builder(PAY, say("done")).on_permission_request(lambda _: no)
        result = builder.build().run_sync("go")
    else:
        paused = desk.agent(PAY).run_sync("go", run_id="r")
        result = desk.agent().resume_sync("r", {paused.pending[0].id: no})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [])
    assert result.steps[0].results[0].text() == "Denied: not today"


# --- a question for each call that is shown -----------------------------------------------------------


def rounded(ctx: Any) -> Any:
    """Nobody pays just below fifty."""
    return ctx.with_args(amount=40) if ctx.tool_call.args["amount"] == 50 else None


def test_an_answer_to_what_a_call_was_is_refused(desk: Desk) -> None:
    """Two people see a payment of 5; one edits it, a hook changes the edit, and the other says yes to 5."""

    def agent() -> Agent:
        return desk.builder(PAY).on_before_tool_use(rounded, name="rounded").build()

    (shown,) = agent().run_sync("go", run_id="r").pending
    (asked,) = agent().resume_sync("r", {shown.id: Decision.edit(amount=50)}).pending
    assert (dict(asked.tool_call.args), asked.id) == ({"amount": 40}, f"{shown.id}/question-2")
    with pytest.raises(UsageError, match=rf"no question with id '{shown.id}' .*{asked.id}"):
        agent().resume_sync("r", {shown.id: True})
    assert desk.paid == []
    assert desk.agent().resume_sync("r", {asked.id: True}).status is RunStatus.COMPLETED
    assert desk.paid == [40]


@pytest.mark.parametrize("rounds", [1, 2])
def test_no_two_questions_about_a_call_have_one_id(desk: Desk, rounds: int) -> None:
    """Not even when a call becomes again what it was before, over pauses."""

    def agent() -> Agent:
        asking = desk.builder(PAY).on_before_tool_use(
            lambda ctx: ctx.with_args(amount=ctx.tool_call.args["amount"] - 1), name="minus-one"
        )
        return asking.build()

    (first,) = agent().run_sync("go", run_id="r").pending
    seen = [first]
    for _ in range(rounds):
        for amount in (8, 5):
            edit = {seen[-1].id: Decision.edit(amount=amount)}
            seen += agent().resume_sync("r", edit).pending
    assert [question.tool_call.args["amount"] for question in seen] == [4, *[7, 4] * rounds]
    assert len({question.id for question in seen}) == len(seen)


def test_a_call_that_was_edited_and_approved_is_taken_up_as_it_was_approved(desk: Desk) -> None:
    """After every record: whatever a process dies of, nobody is asked twice and nothing else is paid."""
    asked: list[int] = []

    def approve(question: PendingApproval) -> Decision:
        asked.append(question.tool_call.args["amount"])
        return Decision.edit(amount=50) if asked[-1] == 5 else Decision.allow()

    def agent(*turns: Any) -> Agent:
        builder = desk.builder(*turns).on_before_tool_use(rounded, name="rounded")
        return builder.with_approver(approve).build()

    agent(PAY, say("done")).run_sync("go", run_id="r")
    assert (asked, desk.paid) == ([5, 40], [40])
    written = desk.journal.written
    kinds = [line.split(b'"type":"')[1].split(b'"')[0] for _, line in written]
    answered = [at for at, kind in enumerate(kinds) if kind == b"approval_answered"]
    for at in range(answered[0] + 1, kinds.index(b"step") + 1):
        desk.journal = PlainStore(written[:at])
        desk.paid.clear()
        asked.clear()
        result = agent(say("done")).resume_sync("r")
        assert asked == ([40] if at <= answered[1] else []), at
        has_started = b"call" in kinds[:at]
        assert desk.paid == ([] if has_started else [40]), at
        assert [dict(each.args) for each in result.steps[0].calls] == [{"amount": 40}]


# --- an answer for each that asks ---------------------------------------------------------------------


def sanctions(ctx: Any) -> Any:
    """A policy that is added while a run waits."""
    return HookOutcome.ask("look at the passport")


@pytest.mark.parametrize("answered", ["now", "before"])
def test_somebody_who_asks_since_has_a_question_of_their_own(desk: Desk, answered: str) -> None:
    """Whether the yes to the others comes with the resume, or came before, with the answer to another call missing."""

    def stricter() -> Agent:
        return desk.builder().on_before_tool_use(sanctions, name="new", tier="policy").build()

    both = calls(PAY, call("pay", amount=6))
    one, two = desk.agent(both).run_sync("go", run_id="r").pending
    if answered == "before":
        desk.agent().resume_sync("r", {one.id: True})
        again = stricter().resume_sync("r", {two.id: True})
    else:
        again = stricter().resume_sync("r", {one.id: True, two.id: True})
    assert (again.status, desk.paid) == (RunStatus.PAUSED, [])
    assert [question.reason for question in again.pending] == ["money; look at the passport"] * 2
    assert [question.askers for question in again.pending] == [("cashier", "new")] * 2
    assert {one.id, two.id}.isdisjoint(question.id for question in again.pending)
    yes = {question.id: True for question in again.pending}
    assert stricter().resume_sync("r", yes).status is RunStatus.COMPLETED
    assert desk.paid == [5, 6]


def test_a_question_shows_what_everybody_asks(desk: Desk) -> None:
    """A person says yes to all of it, and a resume by the same agent needs no other."""

    def agent(*turns: Any) -> Agent:
        builder = desk.builder(*turns).on_before_tool_use(sanctions, name="new", tier="policy")
        return builder.build()

    (question,) = agent(PAY).run_sync("go", run_id="r").pending
    assert (question.reason, question.askers) == (
        "money; look at the passport",
        ("cashier", "new"),
    )
    assert agent().resume_sync("r", {question.id: True}).status is RunStatus.COMPLETED
    assert desk.paid == [5]


def test_an_edit_is_no_answer_to_somebody_who_asks_about_the_edited_call(desk: Desk) -> None:
    """Only to those who asked about the call that was edited."""

    def agent() -> Agent:
        builder = desk.builder(PAY).on_before_tool_use(
            lambda ctx: sanctions(ctx) if ctx.tool_call.args["amount"] > 5 else None,
            name="new",
            tier="policy",
        )
        return builder.build()

    (small,) = agent().run_sync("go", run_id="r").pending
    again = agent().resume_sync("r", {small.id: Decision.edit(amount=6)})
    assert (again.status, desk.paid) == (RunStatus.PAUSED, [])
    assert [question.reason for question in again.pending] == ["money; look at the passport"]


def test_a_remembered_yes_is_for_those_who_had_asked(desk: Desk) -> None:
    """Somebody who asks since is not answered by it; a no holds whoever asks."""
    yes = desk.builder(PAY, say("done")).with_approver(lambda _: Decision.allow(remember=True))
    first = yes.build().run_sync("go").state
    assert desk.agent(PAY, say("done")).run_sync("go", state=first).status is RunStatus.COMPLETED
    stricter = desk.builder(PAY, say("done")).on_before_tool_use(
        sanctions, name="new", tier="policy"
    )
    paused = stricter.build().run_sync("go", state=first)
    assert (paused.status, desk.paid) == (RunStatus.PAUSED, [5, 5])
    no = desk.builder(PAY, say("done")).with_approver(lambda _: Decision.deny(remember=True))
    denied = no.build().run_sync("go", state=AgentState(messages=first.messages)).state
    stricter = desk.builder(PAY, say("done")).on_before_tool_use(
        sanctions, name="new", tier="policy"
    )
    result = stricter.build().run_sync("go", state=denied)
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [5, 5])


def test_permission_hooks_are_not_asked_about_what_was_answered_before_the_pause(
    desk: Desk,
) -> None:
    """Only about what still waits: they may have an opinion by now."""
    asked: list[int] = []

    def small(ctx: Any) -> Decision | None:
        asked.append(ctx.tool_call.args["amount"])
        return Decision.allow() if asked[-1] == 5 else None

    def agent(*turns: Any) -> Agent:
        return desk.builder(*turns).on_permission_request(small, name="small").build()

    (question,) = agent(calls(PAY, call("pay", amount=6))).run_sync("go", run_id="r").pending
    assert asked == [5, 6]
    result = agent().resume_sync("r", {question.id: True})
    assert (result.status, asked, desk.paid) == (RunStatus.COMPLETED, [5, 6, 6], [5, 6])


# --- an answer for each session, and for the whole tree of runs ---------------------------------------


def test_what_is_answered_for_a_session_holds_in_no_other(desk: Desk) -> None:
    """A state that is run in another session leaves it behind; without one it stays in its own."""
    yes = desk.builder(PAY, say("done")).with_approver(lambda _: Decision.allow(remember=True))
    state = yes.build().run_sync("go", session="A").state
    for session, status in (("B", RunStatus.PAUSED), ("A", RunStatus.COMPLETED)):
        agent = AgentBuilder().with_hooks(*desk.agent().definition.registrations)
        agent.with_driver(ScriptedDriver([PAY, say("done")]))
        agent.with_tools(*yes.build().definition.toolbox)
        result = agent.build().run_sync("go", state=state, session=session)
        assert result.status is status, session
        assert bool(result.state.remembered) is (session == "A")


def test_a_child_that_waits_is_resumed_with_the_run_it_is_a_part_of(desk: Desk) -> None:
    """Alone it would go on without the policies above it."""

    def child(*turns: Any) -> Agent:
        toolbox = desk.agent().definition.toolbox
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*toolbox)
        return builder.with_journal(desk.journal).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(child(*script), "pay")).text)

    def agent(*turns: Any) -> Agent:
        return desk.builder(*turns).with_tools(delegate).build()

    script = [PAY]
    outer = agent(call("delegate"), say("done")).run_sync("go", run_id="r")
    (question,) = agent().resume_sync("r", {outer.pending[0].id: True}).pending
    assert question.run_id != "r"
    with pytest.raises(UsageError, match=r"is a part of run 'r'.* agent.resume\('r'"):
        child(say("paid")).resume_sync(question.run_id, {question.id: True})
    assert desk.paid == []
    script = [say("paid")]
    assert agent(say("done")).resume_sync("r", {question.id: True}).status is RunStatus.COMPLETED
    assert desk.paid == [5]
    assert child().resume_sync(question.run_id).text == "paid"


# --- edits that cannot be taken -----------------------------------------------------------------------


def test_whoever_edits_a_call_so_that_it_does_not_fit_is_told(desk: Desk) -> None:
    """And the question goes on waiting: nothing is used up."""
    (question,) = desk.agent(PAY).run_sync("go", run_id="r").pending
    for edit in (Decision.edit(amount="lots"), Decision.edit(tip=1)):
        with pytest.raises(UsageError, match=r"r/0/call_1_1' cannot be edited like that.*waits"):
            desk.agent().resume_sync("r", {question.id: edit})
    result = desk.agent().resume_sync("r", {question.id: Decision.edit(amount=6)})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [6])


def test_a_question_of_a_child_goes_on_waiting_after_an_edit_that_does_not_fit(desk: Desk) -> None:
    """What its tools take is known only inside: the question says what was wrong when it is shown again."""
    script = [PAY]

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(desk.agent(*script), "pay")).text)

    def agent(*turns: Any) -> Agent:
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(delegate)
        return builder.with_journal(desk.journal).build()

    (question,) = agent(call("delegate")).run_sync("go", run_id="r").pending
    (again,) = agent().resume_sync("r", {question.id: Decision.edit(amount="lots")}).pending
    assert (again.id, desk.paid) == (question.id, [])
    assert "it cannot be edited as it was: the call to 'pay'" in again.reason
    script = [say("paid")]
    result = agent(say("done")).resume_sync("r", {again.id: Decision.edit(amount=6)})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [6])
