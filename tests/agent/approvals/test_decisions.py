"""What an answer is good for: one call, edited or remembered, and on record."""

from __future__ import annotations

import json
from typing import Any

from approving import Bench, statuses

from hookline import AgentBuilder, AgentState, Decision, HookOutcome, RunStatus, ToolCall
from hookline.journal import ApprovalAnswered, ApprovalAsked
from hookline.state import PendingApproval, ResultStatus
from hookline.testing import ScriptedDriver, call, calls, say

# --- an answer holds for exactly one call -------------------------------------------------------------


def tampered(state: AgentState, **changes: Any) -> AgentState:
    """The saved state with other arguments in the call that waits."""
    data = json.loads(state.to_json())
    data["state"]["pending_step"]["calls"][0]["call"]["args"].update(changes)
    return AgentState.from_json(json.dumps(data))


async def test_an_answer_is_void_when_the_call_was_changed(bench: Bench) -> None:
    """Somebody edits the saved state: the question is asked again, about the call as it is now."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go")
    answers = {paused.pending[0].id: Decision.allow()}
    again = await agent.resume(tampered(paused.state, amount=5_000_000), answers)
    assert (again.status, bench.ran) == (RunStatus.PAUSED, [])
    assert again.pending[0].tool_call.args["amount"] == 5_000_000
    result = await agent.resume(again, {again.pending[0].id: Decision.deny("no")})
    assert (statuses(result), bench.ran) == (["denied"], [])


async def test_a_kept_answer_is_void_when_the_call_was_changed(bench: Bench) -> None:
    """The same for an answer that waits for its sibling's."""
    batch = calls(call("pay", amount=5), call("pay", amount=6))
    agent = bench.asking(batch, say("done")).build()
    paused = await agent.run("go")
    one, two = (question.id for question in paused.pending)
    partly = await agent.resume(paused, {one: True})
    again = await agent.resume(tampered(partly.state, amount=99), {two: True})
    assert (again.status, bench.ran) == (RunStatus.PAUSED, [])
    assert [question.id for question in again.pending] == [f"{one}/question-2"]


async def test_an_answer_is_void_when_the_tool_fills_in_other_defaults(bench: Bench) -> None:
    """A new version of a tool may mean something else by the same call."""
    paused = await bench.asking(call("pay", amount=5)).build().run("go")
    data = json.loads(paused.state.to_json())
    del data["state"]["pending_step"]["calls"][0]["call"]["args"]["to"]
    state = AgentState.from_json(json.dumps(data))
    ran: list[Any] = []

    async def pay(amount: int, to: str = "mallory") -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    newer = (
        AgentBuilder()
        .with_driver(ScriptedDriver([say("done")]))
        .with_tools(pay)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("?"), tier="policy")
        .build()
    )
    result = await newer.resume(state, {paused.pending[0].id: True})
    assert (result.status, ran) == (RunStatus.PAUSED, [])


async def test_questions_of_different_runs_and_steps_never_share_an_id(bench: Bench) -> None:
    """Run, step and call make it."""
    pay = call("pay", amount=5)
    agent = bench.asking(pay, pay, pay, say("x")).build()
    ids = []
    first = await agent.run("go", run_id="a")
    ids += [question.id for question in first.pending]
    second = await agent.resume(first, {first.pending[0].id: True})
    ids += [question.id for question in second.pending]
    other = await agent.run("go", run_id="b")
    ids += [question.id for question in other.pending]
    assert ids == ["a/0/call_1_1", "a/1/call_2_1", "b/0/call_1_1"]


# --- editing ------------------------------------------------------------------------------------------


async def test_an_edit_is_a_yes_to_exactly_the_edited_call(bench: Bench) -> None:
    """It is validated and judged again, and the person is not asked a second time."""
    judged: list[int] = []
    agent = bench.asking(call("pay", amount=500), say("done"))
    agent.on_before_tool_use(
        lambda ctx: judged.append(ctx.tool_call.args["amount"]), tier="policy", name="watch"
    )
    built = agent.build()
    paused = await built.run("go")
    result = await built.resume(paused, {paused.pending[0].id: Decision.edit(amount="5")})
    assert (bench.ran, result.status) == ([("pay", 5, "kim")], RunStatus.COMPLETED)
    assert judged == [500, 500, 5]
    assert result.steps[0].calls[0].args == {"amount": 5, "to": "kim"}
    assert result.state.messages[1].calls[0].args == {"amount": 500}  # what the model had asked for


async def test_an_edit_does_not_get_past_a_policy(bench: Bench) -> None:
    """A person may change the call and not the rules."""
    agent = bench.asking(call("pay", amount=5), say("done"))
    agent.on_before_tool_use(
        lambda ctx: HookOutcome.block("too much") if ctx.tool_call.args["amount"] > 100 else None,
        matcher="pay",
        tier="policy",
        name="ceiling",
    )
    result = await agent.with_approver(lambda _: Decision.edit(amount=1000)).build().run("go")
    assert (statuses(result), bench.ran) == (["blocked"], [])


async def test_an_approver_whose_edit_does_not_fit_the_tool_is_asked_again(bench: Bench) -> None:
    """With what was wrong about it, and not for ever."""
    shown: list[str] = []

    def approve(question: PendingApproval) -> Decision:
        shown.append(question.reason)
        return Decision.edit(amount="lots" if len(shown) == 1 else 6)

    agent = bench.asking(call("pay", amount=5), say("done")).with_approver(approve)
    assert statuses(await agent.build().run("go")) == ["ok"]
    assert bench.ran == [("pay", 6, "kim")]
    assert shown[0] == "pay 5?"
    assert shown[1].startswith("pay 5? (it cannot be edited as it was: the call to 'pay'")
    agent.with_driver(ScriptedDriver([call("pay", amount=5), say("done")]))
    stubborn = agent.with_approver(lambda _: Decision.edit(amount="lots")).build()
    result = await stubborn.run("go")
    assert statuses(result) == ["denied"]
    assert "edited in ways that do not fit" in result.state.messages[2].text


async def test_a_permission_hooks_edit_that_does_not_fit_is_an_invalid_call(bench: Bench) -> None:
    """No person is there to mend it: the model reads what is wrong."""
    agent = bench.asking(call("pay", amount=5), say("done"))
    agent.on_permission_request(lambda _: Decision.edit(amount="lots"))
    result = await agent.build().run("go")
    assert (statuses(result), bench.ran) == (["invalid"], [])


async def test_an_edit_given_in_part_is_kept_and_not_asked_about_again(bench: Bench) -> None:
    """It waits for the sibling's answer, through JSON, and then runs as edited."""
    agent = bench.asking(calls(call("pay", amount=5), call("pay", amount=6)), say("done")).build()
    paused = await agent.run("go")
    one, two = (question.id for question in paused.pending)
    partly = await agent.resume(paused, {one: Decision.edit(amount=1)})
    assert [question.id for question in partly.pending] == [two]
    state = AgentState.from_json(partly.state.to_json())
    result = await agent.resume(state, {two: True})
    assert (result.status, bench.ran) == (
        RunStatus.COMPLETED,
        [("pay", 1, "kim"), ("pay", 6, "kim")],
    )


async def test_when_a_hook_changes_an_edited_call_a_person_is_asked_again(bench: Bench) -> None:
    """The yes was to what the person wrote; the question that comes back is about the other call."""
    agent = bench.asking(call("pay", amount=50), say("done"))
    agent.on_before_tool_use(
        lambda ctx: ctx.with_args(amount=ctx.tool_call.args["amount"] * 10),
        matcher="pay",
        name="x10",
    )
    built = agent.build()
    paused = await built.run("go")
    assert paused.pending[0].tool_call.args["amount"] == 500
    again = await built.resume(paused, {paused.pending[0].id: Decision.edit(amount=1)})
    assert (again.status, bench.ran) == (RunStatus.PAUSED, [])
    assert again.pending[0].tool_call.args["amount"] == 10
    result = await built.resume(again, {again.pending[0].id: True})
    assert (result.status, bench.ran) == (RunStatus.COMPLETED, [("pay", 10, "kim")])


async def test_an_approver_that_edits_for_ever_is_refused_in_the_end(bench: Bench) -> None:
    """When hooks undo each edit, somebody has to give up."""
    agent = bench.asking(call("pay", amount=50), say("done"))
    agent.on_before_tool_use(lambda ctx: ctx.with_args(amount=50), matcher="pay", name="stubborn")
    result = await agent.with_approver(lambda _: Decision.edit(amount=1)).build().run("go")
    assert (statuses(result), bench.ran, result.status) == (["denied"], [], RunStatus.COMPLETED)


# --- remembering --------------------------------------------------------------------------------------


async def test_a_remembered_yes_holds_for_the_same_call_for_the_session(bench: Bench) -> None:
    """Later steps and later runs do not ask again; other arguments do."""
    pay = call("pay", amount=5)
    agent = bench.asking(pay, pay, say("done"), pay, call("pay", amount=6), say("x")).build()
    paused = await agent.run("go")
    result = await agent.resume(
        AgentState.from_json(paused.state.to_json()),
        {paused.pending[0].id: Decision.allow(remember=True)},
    )
    assert (result.text, len(bench.ran)) == ("done", 2)
    again = await agent.run("more", state=AgentState.from_json(result.state.to_json()))
    assert (again.status, len(bench.ran)) == (RunStatus.PAUSED, 3)
    assert again.pending[0].tool_call.args["amount"] == 6


async def test_an_answer_is_not_remembered_unless_told(bench: Bench) -> None:
    """Once means once."""
    pay = call("pay", amount=5)
    agent = bench.asking(pay, pay, say("done")).build()
    paused = await agent.run("go")
    again = await agent.resume(paused, {paused.pending[0].id: True})
    assert (again.status, len(bench.ran)) == (RunStatus.PAUSED, 1)


async def test_a_remembered_no_holds_too(bench: Bench) -> None:
    """Never means never, and the approver is not asked again."""
    asked: list[Any] = []
    pay = call("pay", amount=5)

    def approve(question: PendingApproval) -> Decision:
        asked.append(question)
        return Decision.deny("never", remember=True)

    result = await bench.asking(pay, pay, say("ok")).with_approver(approve).build().run("go")
    assert (statuses(result, 0), statuses(result, 1), len(asked)) == (["denied"], ["denied"], 1)


async def test_a_remembered_yes_does_not_get_past_a_policy(bench: Bench) -> None:
    """It answers a question; it does not lift a block."""
    pay = call("pay", amount=5)
    agent = bench.asking(pay, say("done")).with_approver(lambda _: Decision.allow(remember=True))
    first = await agent.build().run("go")
    stricter = bench.asking(pay, say("done"))
    stricter.on_before_tool_use(lambda ctx: HookOutcome.block("no"), tier="policy", name="law")
    second = await stricter.build().run("more", state=first.state)
    assert (statuses(second), len(bench.ran)) == (["blocked"], 1)


async def test_an_answer_to_this_very_question_goes_before_a_remembered_one(bench: Bench) -> None:
    """Twice the same call: a yes to remember for the first is no yes to a second that was refused."""
    pay = call("pay", amount=5)
    agent = bench.asking(calls(pay, pay), say("done")).build()
    paused = await agent.run("go")
    one, two = (question.id for question in paused.pending)
    answers = {one: Decision.allow(remember=True), two: Decision.deny("once is enough")}
    result = await agent.resume(paused, answers)
    assert (statuses(result), len(bench.ran)) == (["ok", "denied"], 1)


# --- the record ---------------------------------------------------------------------------------------


async def test_questions_and_answers_are_on_record(bench: Bench) -> None:
    """Who asked what, and who answered."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go", run_id="r")
    asked = [record for record in paused.records if isinstance(record, ApprovalAsked)]
    assert [record.approval for record in asked] == list(paused.pending)
    result = await agent.resume(paused, {paused.pending[0].id: Decision.allow("fine")})
    (answered,) = [record for record in result.records if isinstance(record, ApprovalAnswered)]
    assert (answered.approval_id, answered.decision, answered.by) == (
        "r/0/call_1_1",
        Decision.allow("fine"),
        "resume",
    )


async def test_a_changed_call_behind_an_around_hook_needs_an_approval_of_its_own(
    bench: Bench,
) -> None:
    """The yes to one call is not a yes to what a hook around it makes of it, however often it tries."""

    async def inflate(ctx: Any, call_next: Any) -> Any:
        changed = ctx.with_args(amount=5_000_000)
        first = await call_next(changed)
        return first if first.is_success else await call_next(changed)

    agent = bench.asking(call("pay", amount=5), say("done"))
    built = agent.around_tool_use(inflate, matcher="pay").build()
    paused = await built.run("go")
    result = await built.resume(paused, {paused.pending[0].id: True})
    assert (statuses(result), bench.ran) == (["denied"], [])


def test_a_question_is_bound_to_tool_and_arguments() -> None:
    """The id of a call does not matter, its name and arguments do, their order does not."""
    base = ToolCall("1", "pay", {"amount": 5, "to": "kim"})
    same = ToolCall("2", "pay", {"to": "kim", "amount": 5})
    assert base.fingerprint() == same.fingerprint()
    assert base.fingerprint() != ToolCall("1", "give", {"amount": 5, "to": "kim"}).fingerprint()
    assert base.fingerprint() != base.with_args(amount=6).fingerprint()


async def test_a_denied_call_is_no_error(bench: Bench) -> None:
    """Neither error hooks nor error budgets hear of it."""
    heard: list[Any] = []
    agent = (
        bench.asking(call("pay", amount=5), say("ok")).with_approver("deny").on_error(heard.append)
    )
    result = await agent.build().run("go")
    assert (heard, result.state.counters.errors) == ([], 0)
    assert result.steps[0].results[0].status is ResultStatus.DENIED
