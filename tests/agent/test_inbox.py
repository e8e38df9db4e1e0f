"""Answers and cancellations that come through the inbox: to a run that waits, and to one that is driven."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    HookOutcome,
    RunStatus,
    StopReason,
    ToolContext,
    tool,
)
from hookline.agent import inbox
from hookline.errors import UsageError
from hookline.journal import (
    ApprovalAnswered,
    InboxAnswer,
    InboxCancel,
    MemoryJournal,
    Questions,
    SQLiteJournal,
    fold,
    post_answer,
    post_cancel,
)
from hookline.playback import replay
from hookline.sessions import Sessions
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, calls, say

PAY = call("pay", amount=5)
QUESTION = "run/0/call_1_1"


class Desk:
    """Payments that a policy asks about, by a run or by a child of it."""

    def __init__(self, journal: Any) -> None:
        self.journal = journal
        self.paid: list[int] = []
        self.asked = asyncio.Event()
        """An approver was asked, or a tool began."""

    def builder(self, *turns: Any, child: bool = False) -> AgentBuilder:
        """The agent as a new process builds it."""

        @tool(effect="idempotent")
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool(effect="idempotent")
        async def nap() -> str:
            """Wait for ever."""
            self.asked.set()
            await asyncio.Event().wait()
            return "never"

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            payer = AgentBuilder().with_id("payer").with_driver(ScriptedDriver([*turns]))
            return (await context.spawn(payer.with_tools(pay, nap).build(), "pay")).text

        def delegating(state: Any) -> Any:
            return say("done") if state.steps else call("delegate")

        outer = [delegating, delegating] if child else [*turns]
        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(outer))
            .with_tools(pay, nap, delegate)
            .with_journal(self.journal)
            .on_before_tool_use(
                lambda ctx: HookOutcome.ask("money"),
                matcher="pay",
                name="cashier",
                tier="policy",
                scope="tree",
            )
        )

    def agent(self, *turns: Any, child: bool = False) -> Agent:
        """Without an approver: a question pauses it."""
        return self.builder(*turns, child=child).build()

    async def never(self, _: PendingApproval) -> bool:
        """An approver who does not come back."""
        self.asked.set()
        await asyncio.Event().wait()
        return True


@pytest.fixture(params=["memory", "file", "plain"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with a store of each kind, whose inbox is read often."""
    monkeypatch.setattr(inbox, "SECONDS", 0.01)
    stores = {"memory": MemoryJournal, "plain": PlainStore}
    make = stores.get(request.param, lambda: SQLiteJournal(tmp_path / "journal.db"))
    return Desk(make())


def answers(records: Any) -> list[tuple[str, str]]:
    """The answers on record, and who gave them."""
    return [
        (each.decision.answer.value, each.by)
        for each in records
        if isinstance(each, ApprovalAnswered) and each.decision is not None
    ]


# --- a run that waits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("child", [False, True])
@pytest.mark.parametrize("decision", [Decision.allow(), Decision.deny("not today")])
async def test_a_paused_run_takes_its_answer_from_the_inbox(
    desk: Desk, decision: Decision, *, child: bool
) -> None:
    """The record says who answered, also in a child, and the run can be replayed."""
    paused = await desk.agent(PAY, child=child).run("go", run_id="run")
    (question,) = paused.pending
    await post_answer(desk.journal, "run", question.id, decision, by="ann@home")
    result = await desk.agent(say("done"), child=child).resume("run")
    assert result.status is RunStatus.COMPLETED
    assert desk.paid == ([5] if decision == Decision.allow() else [])
    records = await desk.journal.read(question.run_id)
    assert answers(records) == [(decision.answer.value, "inbox: ann@home")]
    assert (await replay(desk.journal, "run", desk.agent(say("x")))).identical


async def test_a_handed_answer_that_differs_is_refused_with_the_first(desk: Desk) -> None:
    """The one in the inbox came first; the same one is welcome."""
    await desk.agent(PAY).run("go", run_id="run")
    await post_answer(desk.journal, "run", QUESTION, Decision.deny("no"), by="ann")
    with pytest.raises(UsageError, match=r"was answered already \(deny\) by ann: no"):
        await desk.agent().resume("run", {QUESTION: True})
    result = await desk.agent(say("done")).resume("run", {QUESTION: Decision.deny("no")})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [])


@pytest.mark.parametrize("child", [False, True])
@pytest.mark.parametrize("decision", [Decision.allow(), Decision.deny("not today")])
async def test_the_record_names_who_answered_first(
    desk: Desk, decision: Decision, *, child: bool
) -> None:
    """Whoever resumes with the same answer only repeats it, also for a child."""
    paused = await desk.agent(PAY, child=child).run("go", run_id="run")
    (question,) = paused.pending
    await post_answer(desk.journal, "run", question.id, decision, by="ann")
    await desk.agent(say("done"), child=child).resume("run", {question.id: decision})
    records = await desk.journal.read(question.run_id)
    assert answers(records) == [(decision.answer.value, "inbox: ann")]
    with pytest.raises(UsageError, match=r"was answered already .* by ann"):
        await desk.agent(child=child).resume("run", {question.id: Decision.deny("never")})
    assert (await replay(desk.journal, "run", desk.agent(say("x")))).identical


async def test_a_handed_answer_counts_if_the_one_in_the_inbox_is_void(desk: Desk) -> None:
    """That one is about another call, so nobody has answered before."""
    paused = await desk.agent(PAY).run("go", run_id="run")
    void = InboxAnswer(
        run_id="run", question=QUESTION, fingerprint="x", decision=Decision.deny(), by="ann"
    )
    await desk.journal.post(void)
    result = await desk.agent(say("done")).resume("run", {paused.pending[0].id: True})
    assert (answers(result.records), desk.paid) == ([("allow", "resume")], [5])


async def test_a_late_answer_is_the_same_or_refused(desk: Desk) -> None:
    """Once the run has continued, the record is what an answer is compared with."""
    await desk.agent(PAY).run("go", run_id="run")
    done = await desk.agent(say("done")).resume("run", {QUESTION: True})
    assert await post_answer(desk.journal, "run", QUESTION, Decision.allow(), by="ann") is None
    with pytest.raises(UsageError, match=r"was answered already \(allow\) by resume"):
        await post_answer(desk.journal, "run", QUESTION, Decision.deny(), by="ann")
    assert await desk.journal.read("run") == list(done.records)


async def test_the_same_answer_is_posted_once(desk: Desk) -> None:
    """While the first one waits in the inbox, whoever gives it again learns that it is there already."""
    await desk.agent(PAY).run("go", run_id="run")
    first = await post_answer(desk.journal, "run", QUESTION, Decision.allow(), by="ann")
    assert [first] == await desk.journal.inbox("run")
    assert await post_answer(desk.journal, "run", QUESTION, Decision.allow(), by="bob") is None
    assert [first] == await desk.journal.inbox("run")


async def test_an_answer_to_nothing_is_refused(desk: Desk) -> None:
    """The error says what waits."""
    await desk.agent(PAY).run("go", run_id="run")
    with pytest.raises(UsageError, match=rf"no question with id 'other'.*Waiting: {QUESTION}"):
        await post_answer(desk.journal, "run", "other", Decision.allow(), by="ann")


async def test_an_answer_to_another_call_is_void(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the call that was shown. It is reported, and the question still waits."""
    paused = await desk.agent(PAY).run("go", run_id="run")
    shown = paused.pending[0]
    for question, fingerprint in ((shown.id, "another"), ("run/9/gone", shown.fingerprint)):
        message = InboxAnswer(
            run_id="run",
            question=question,
            fingerprint=fingerprint,
            decision=Decision.allow(),
            by="ann",
        )
        await desk.journal.post(message)
    again = await desk.agent(say("done")).resume("run")
    assert (again.status, desk.paid) == (RunStatus.PAUSED, [])
    said = [
        each.getMessage() for each in caplog.records if "is not valid any more" in each.getMessage()
    ]
    assert len(said) == 2
    assert any("no hook asks this any more" in each for each in said)
    assert any("its call has changed since" in each for each in said)


async def test_an_answer_to_a_call_that_has_changed_is_void(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """A hook of the process that resumes makes another call of it: that is another question."""
    await desk.agent(PAY).run("go", run_id="run")
    await post_answer(desk.journal, "run", QUESTION, Decision.allow(), by="ann")

    @tool(effect="idempotent")
    async def pay(amount: int, tip: int = 3) -> str:
        """Pay."""
        desk.paid.append(amount + tip)
        return "paid"

    asking = desk.agent().definition.registrations[-1]
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(pay)
    again = await builder.with_journal(desk.journal).with_hooks(asking).build().resume("run")
    assert (again.status, desk.paid) == (RunStatus.PAUSED, [])
    assert again.pending[0].id != QUESTION


@pytest.mark.parametrize("child", [False, True])
async def test_a_cancelled_run_that_waits_ends_when_it_is_resumed(
    desk: Desk, *, child: bool
) -> None:
    """With all below it, and none of its calls runs."""
    paused = await desk.agent(PAY, child=child).run("go", run_id="run")
    await post_cancel(desk.journal, "run", by="ann", reason="wrong")
    result = await desk.agent(say("x"), child=child).resume("run")
    assert (result.status, result.stop_reason) == (RunStatus.CANCELLED, StopReason.CANCELLED)
    assert (result.state.explain_stop().count("cancelled by ann: wrong"), desk.paid) == (1, [])
    for run_id in {"run", paused.pending[0].run_id}:
        assert fold(await desk.journal.read(run_id)).is_over
    with pytest.raises(UsageError, match=r"is over \(cancelled\)"):
        await post_cancel(desk.journal, "run", by="bob")


async def test_a_run_whose_process_died_ends_when_it_is_resumed() -> None:
    """Also where a child had begun."""
    desk = Desk(PlainStore())
    await desk.agent(PAY, child=True).run("go", run_id="run")
    ends = [at for at, (_, line) in enumerate(desk.journal.written) if b'"result"' in line]
    dead = Desk(desk.journal.cut(ends[0] - 2))
    await post_cancel(dead.journal, "run", by="ann")
    result = await dead.agent(PAY, child=True).resume("run")
    assert (result.status, dead.paid) == (RunStatus.CANCELLED, [])
    assert {info.status for info in await dead.journal.runs()} == {RunStatus.CANCELLED}


async def test_a_run_of_a_session_has_an_inbox_too(desk: Desk) -> None:
    """Its conversation begins in an earlier run, and it continues in its session."""
    session = await Sessions(desk.journal).create(id="s")
    await session.run(desk.agent(say("hello")), "hi")
    paused = await session.run(desk.agent(PAY), "go")
    await post_answer(desk.journal, paused.run_id, paused.pending[0].id, Decision.allow(), by="ann")
    result = await session.resume_run(desk.agent(say("done")))
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [5])
    paused = await session.run(desk.agent(PAY), "again")
    await post_cancel(desk.journal, paused.run_id, by="ann")
    result = await session.resume_run(desk.agent(say("done")))
    assert (result.status, desk.paid) == (RunStatus.CANCELLED, [5])
    assert (await session.run(desk.agent(say("fine")), "more")).text == "fine"


# --- a run that is driven ---------------------------------------------------------------------------------


@pytest.mark.parametrize("child", [False, True])
@pytest.mark.parametrize("allows", [True, False])
async def test_an_answer_counts_while_the_approver_is_asked(
    desk: Desk, *, child: bool, allows: bool
) -> None:
    """Whichever comes first. The question is found from outside, with its own id."""
    decision = Decision.allow() if allows else Decision.deny("no")
    agent = desk.builder(PAY, say("done"), child=child).with_approver(desk.never).build()
    driven = asyncio.create_task(agent.run("go", run_id="run"))
    await desk.asked.wait()
    (question,) = (await Questions.read(desk.journal, "run")).open
    assert question.run_id == ("run/0/call_1_1/1" if child else "run")
    await post_answer(desk.journal, question.run_id, question.id, decision, by="ann")
    result = await driven
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [5] if allows else [])
    records = await desk.journal.read(question.run_id)
    assert answers(records) == [(decision.answer.value, "inbox: ann")]
    assert (await replay(desk.journal, "run", agent)).identical


async def test_the_approver_who_is_first_counts(desk: Desk) -> None:
    """The inbox is not asked twice about it, and a later answer gets the error."""

    async def no(_: PendingApproval) -> bool:
        return False

    await desk.builder(PAY, say("done")).with_approver(no).build().run("go", run_id="run")
    with pytest.raises(UsageError, match=r"was answered already \(deny\) by approver"):
        await post_answer(desk.journal, "run", QUESTION, Decision.allow(), by="ann")
    assert desk.paid == []


async def test_an_approver_that_fails_is_still_a_no(desk: Desk) -> None:
    """Waiting for the inbox as well changes nothing about that."""

    async def fail(_: PendingApproval) -> bool:
        raise RuntimeError("lost")

    result = (
        await desk.builder(PAY, say("done")).with_approver(fail).build().run("go", run_id="run")
    )
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [])
    assert "the approver failed (RuntimeError: lost)" in result.steps[0].results[0].text


@pytest.mark.parametrize("child", [False, True])
async def test_a_cancellation_reaches_a_tool(desk: Desk, *, child: bool) -> None:
    """A run that waits for a tool, its own or that of a child, ends."""
    driven = asyncio.create_task(desk.agent(call("nap"), child=child).run("go", run_id="run"))
    await desk.asked.wait()
    await post_cancel(desk.journal, "run", by="ann", reason="enough")
    result = await driven
    assert (result.status, result.stop_reason) == (RunStatus.CANCELLED, StopReason.CANCELLED)
    assert "cancelled by ann: enough" in result.state.explain_stop()


async def test_a_cancellation_reaches_a_model_and_an_approver(desk: Desk) -> None:
    """Whatever the run waits for."""

    class Silent:
        async def infer(self, _request: Any, _turn: Any) -> Any:
            desk.asked.set()
            await asyncio.Event().wait()

    waits_for_model = desk.builder().with_driver(Silent()).build()
    waits_for_person = desk.builder(PAY).with_approver(desk.never).build()
    for number, agent in enumerate((waits_for_model, waits_for_person)):
        desk.asked.clear()
        driven = asyncio.create_task(agent.run("go", run_id=f"run-{number}"))
        await desk.asked.wait()
        await desk.journal.post(InboxCancel(run_id=f"run-{number}", by="ann"))
        assert (await driven).status is RunStatus.CANCELLED


async def test_two_questions_of_a_step_have_an_answer_each(desk: Desk) -> None:
    """An answer is for the question it names."""
    turn = calls(call("pay", amount=1), call("pay", amount=2))
    paused = await desk.agent(turn).run("go", run_id="run")
    first, second = (each.id for each in paused.pending)
    await post_answer(desk.journal, "run", second, Decision.allow(), by="ann")
    await post_answer(desk.journal, "run", first, Decision.deny("no"), by="bob")
    await desk.agent(say("done")).resume("run")
    assert desk.paid == [2]
    by = dict(answers(await desk.journal.read("run")))
    assert by == {"allow": "inbox: ann", "deny": "inbox: bob"}


async def test_nothing_is_watched_when_no_run_is_driven(desk: Desk) -> None:
    """The watch ends with the last run, and its timer with it."""
    agent = desk.builder(PAY, say("done")).with_approver(desk.never).build()
    driven = [asyncio.create_task(agent.run("go", run_id=f"run-{n}")) for n in range(3)]
    await desk.asked.wait()
    assert len(inbox._watches) == 1
    agent.cancel()
    await asyncio.gather(*driven)
    assert inbox._watches == {}


async def test_a_journal_that_cannot_be_read_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next look finds what was posted meanwhile."""
    monkeypatch.setattr(inbox, "SECONDS", 0.01)
    caplog.set_level(logging.DEBUG, "hookline")
    desk, failures = Desk(MemoryJournal()), [OSError("gone")]
    read = desk.journal.inbox

    def fail_once(*run_ids: str) -> Any:
        if failures:
            raise failures.pop()
        return read(*run_ids)

    monkeypatch.setattr(desk.journal, "inbox", fail_once)
    driven = asyncio.create_task(desk.agent(call("nap")).run("go", run_id="run"))
    await desk.asked.wait()
    await post_cancel(desk.journal, "run", by="ann")
    assert (await driven).status is RunStatus.CANCELLED
    assert "the inbox cannot be read: gone" in caplog.text
