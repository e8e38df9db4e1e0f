"""Who answers when a hook asks, what an answer is bound to, and what is remembered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from approving import Bench, statuses
from plain_store import PlainStore
from run_results import result_texts

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    RunResult,
    RunStatus,
    StopReason,
    ToolCall,
    ToolContext,
    replay,
    tool,
)
from hookline.errors import BuildError
from hookline.journal import ApprovalAnswered, ApprovalAsked, ChildFinished, MemoryJournal, fold
from hookline.state import PendingApproval, ResultStatus, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

# --- who answers --------------------------------------------------------------------------------------


async def test_without_anyone_to_ask_the_run_pauses(bench: Bench) -> None:
    """Nothing has run, the question is in the state, and the state is a valid conversation."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    result = await agent.run("go", run_id="r")
    assert (result.status, result.stop_reason) == (RunStatus.PAUSED, StopReason.APPROVAL_PENDING)
    assert bench.ran == []
    (question,) = result.pending
    assert question.id == "r/0/call_1_1"
    assert (question.tool_call.name, dict(question.tool_call.args)) == (
        "pay",
        {"amount": 5, "to": "kim"},
    )
    assert (question.reason, question.asked_by, question.run_id) == ("pay 5?", "cashier", "r")
    assert question.fingerprint == question.tool_call.fingerprint()
    assert [message.text for message in result.state.messages] == ["go"]
    assert result.state.step_count == 0
    assert (result.output, result.text) == (None, "")


@pytest.mark.parametrize("tier", ["hook", "policy"])
async def test_the_approver_answers_at_once(bench: Bench, tier: str) -> None:
    """A function, sync or async, that answers with a decision or a bool."""
    asked: list[PendingApproval] = []

    def approve(question: PendingApproval) -> bool:
        asked.append(question)
        return question.tool_call.args["amount"] < 10

    turns = (calls(call("pay", amount=5), call("pay", amount=50)), say("done"))
    agent = bench.asking(*turns, tier=tier).with_approver(approve).build()
    result = await agent.run("go")
    assert (result.status, bench.ran) == (RunStatus.COMPLETED, [("pay", 5, "kim")])
    assert [question.reason for question in asked] == ["pay 5?", "pay 50?"]
    assert statuses(result) == ["ok", "denied"]
    assert result.state.messages[3].text == "Denied: the approver said no"
    assert result.state.pending == ()


async def test_the_approver_may_be_async_and_answer_with_a_decision(bench: Bench) -> None:
    """Its reason is what the model reads."""

    async def approve(question: PendingApproval) -> Decision:
        await asyncio.sleep(0)
        return Decision.deny("not before Friday")

    result = (
        await bench.asking(call("pay", amount=5), say("ok"))
        .with_approver(approve)
        .build()
        .run("go")
    )
    assert result.state.messages[2].text == "Denied: not before Friday"
    assert result.steps[0].results[0].decided_by == "cashier"
    assert result.steps[0].results[0].is_blocked


async def test_the_record_of_an_answer_has_its_time(bench: Bench) -> None:
    """And so have the hooks after it, also in a replay."""
    clock, journal, seen = FakeClock(), MemoryJournal(), []

    def approve(question: PendingApproval) -> bool:
        clock.advance(60)
        return True

    def build() -> Agent:
        made = bench.asking(call("pay", amount=5), say("ok")).with_approver(approve)
        made.on_after_tool_use(lambda ctx: seen.append(ctx.now))
        return made.with_clock(clock).with_journal(journal).build()

    await build().run("go", run_id="r")
    records = await journal.read("r")
    (asked,) = [record for record in records if isinstance(record, ApprovalAsked)]
    (answered,) = [record for record in records if isinstance(record, ApprovalAnswered)]
    assert answered.at - asked.at == 60
    assert (await replay(journal, "r", build())).identical
    assert seen == [answered.at, answered.at]


async def test_deny_says_no_at_once(bench: Bench) -> None:
    """For runs nobody watches."""
    result = (
        await bench.asking(call("pay", amount=5), say("ok")).with_approver("deny").build().run("x")
    )
    assert (statuses(result), result.status) == (["denied"], RunStatus.COMPLETED)


@pytest.mark.parametrize("answer", ["yes", None, 1, 0])
async def test_an_answer_that_means_nothing_is_a_no(bench: Bench, answer: Any) -> None:
    """Only True and a decision are consent."""
    agent = bench.asking(call("pay", amount=5), say("ok")).with_approver(lambda _: answer)
    result = await agent.build().run("go")
    assert (statuses(result), bench.ran) == (["denied"], [])


@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_approver_that_crashes_says_no(
    bench: Bench, kind: type[BaseException], is_async: bool
) -> None:
    """Failing closed; the run continues. Nobody cancelled it, and it does not end the program."""

    def crash(question: PendingApproval) -> bool:
        raise kind("terminal gone")

    async def crash_later(question: PendingApproval) -> bool:
        raise kind("terminal gone")

    agent = bench.asking(call("pay", amount=5), say("ok"))
    result = await agent.with_approver(crash_later if is_async else crash).build().run("go")
    assert (statuses(result), result.status) == (["denied"], RunStatus.COMPLETED)
    assert "terminal gone" in result.state.messages[2].text


@pytest.mark.parametrize("of_task", [False, True])
async def test_a_run_is_cancelled_while_its_approver_thinks(bench: Bench, of_task: bool) -> None:
    """That is no crash of the approver's."""
    asked = asyncio.Event()

    async def think(question: PendingApproval) -> bool:
        asked.set()
        await asyncio.sleep(60)
        return True

    agent = bench.asking(call("pay", amount=5), say("ok")).with_approver(think).build()
    running = asyncio.create_task(agent.run("go", run_id="r"))
    await asked.wait()
    if of_task:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        agent.cancel("r")
        assert (await running).status is RunStatus.CANCELLED
    assert bench.ran == []


def test_what_cannot_answer_is_no_approver(bench: Bench) -> None:
    """It is refused when the agent is described."""
    with pytest.raises(BuildError, match="is not an approver"):
        bench.builder().with_approver("allow")  # type: ignore[arg-type]


# --- permission hooks ---------------------------------------------------------------------------------


async def test_permission_hooks_come_before_the_approver(bench: Bench) -> None:
    """The first to answer settles it, and a person is not bothered."""
    asked: list[Any] = []
    agent = bench.asking(call("pay", amount=5), say("done"))
    agent.on_permission_request(lambda ctx: Decision.allow("small"), name="small-change")
    result = (
        await agent.with_approver(lambda question: asked.append(question) or False)
        .build()
        .run("go")
    )
    assert (statuses(result), asked) == (["ok"], [])
    answered = [record for record in result.records if isinstance(record, ApprovalAnswered)]
    assert [record.decision for record in answered] == [Decision.allow("small")]


async def test_no_answer_of_a_permission_hook_is_no_opinion(bench: Bench) -> None:
    """It is never consent."""
    seen: list[Any] = []
    agent = bench.asking(call("pay", amount=5), say("done"))
    agent.on_permission_request(lambda ctx: seen.append((ctx.reason, ctx.asked_by)))
    result = await agent.build().run("go")
    assert (result.status, seen) == (RunStatus.PAUSED, [("pay 5?", "cashier")])


async def test_a_no_of_any_permission_hook_wins(bench: Bench) -> None:
    """The strictest answer, whatever the order."""
    for first in (True, False):
        agent = bench.asking(call("pay", amount=5), say("done"))
        agent.on_permission_request(lambda ctx: Decision.allow(), priority=int(first), name="yes")
        agent.on_permission_request(
            lambda ctx: Decision.deny("blocked account"), priority=int(not first), name="no"
        )
        result = await agent.build().run("go")
        assert (statuses(result), bench.ran) == (["denied"], [])
        assert result.state.messages[2].text == "Denied: blocked account"


@pytest.mark.parametrize("answer", [HookOutcome.allow("fine"), True, "yes", Decision])
async def test_a_permission_hook_that_answers_otherwise_fails_closed(
    bench: Bench, answer: Any
) -> None:
    """What is not a decision is an error of the hook's, and the call is denied."""
    agent = bench.asking(call("pay", amount=5), say("done"))
    result = await agent.on_permission_request(lambda ctx: answer, name="odd").build().run("go")
    assert (statuses(result), bench.ran) == (["denied"], [])
    assert "odd" in result.state.messages[2].text


async def test_a_block_of_a_permission_hook_denies(bench: Bench) -> None:
    """And a crash does too."""

    def crash(ctx: Any) -> None:
        raise RuntimeError("oops")

    for hook in (lambda ctx: HookOutcome.block("no"), crash):
        agent = bench.asking(call("pay", amount=5), say("done")).on_permission_request(hook)
        result = await agent.with_approver(lambda _: True).build().run("go")
        assert (statuses(result), bench.ran) == (["denied"], [])


async def test_a_permission_hook_may_stop_the_run(bench: Bench) -> None:
    """No call of the step runs, and nobody is asked anything."""
    agent = bench.asking(calls(call("look"), call("pay", amount=5), call("pay", amount=6)))
    agent.on_permission_request(lambda ctx: HookOutcome.stop("thief"))
    result = await agent.with_approver(lambda _: True).build().run("go")
    assert (result.status, bench.ran) == (RunStatus.STOPPED, [])
    assert statuses(result) == ["not_run"] * 3
    check_transcript(result.state.messages)


async def test_a_permission_hook_may_edit(bench: Bench) -> None:
    """The edited call is what runs, once it has been judged again."""
    agent = bench.asking(call("pay", amount=500), say("done"))
    agent.on_permission_request(
        lambda ctx: Decision.edit(amount=5) if ctx.tool_call.args["amount"] > 5 else None
    )
    result = await agent.build().run("go")
    assert (statuses(result), bench.ran) == (["ok"], [("pay", 5, "kim")])


# --- asking and the other verdicts --------------------------------------------------------------------


async def test_a_person_is_asked_only_about_what_nobody_forbids(bench: Bench) -> None:
    """An ask ends nothing: hooks and policies after it still judge, and a block wins."""
    asked: list[Any] = []
    agent = bench.asking(call("pay", amount=5), say("done"), tier="hook")
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("never"), tier="policy", name="law")
    result = (
        await agent.with_approver(lambda question: asked.append(question) or True).build().run("go")
    )
    assert (statuses(result), asked, bench.ran) == (["blocked"], [], [])
    assert result.steps[0].results[0].decided_by == "law"


@pytest.mark.parametrize(("tier", "status"), [("hook", "completed"), ("policy", "paused")])
async def test_allow_lifts_an_ask_of_a_hook_and_never_of_a_policy(
    bench: Bench, tier: str, status: str
) -> None:
    """It says only that nobody need be asked."""
    agent = bench.asking(call("pay", amount=5), say("done"), tier=tier)
    agent.on_before_tool_use(lambda ctx: HookOutcome.allow("trusted"))
    assert (await agent.build().run("go")).status == status


async def test_allow_does_not_lift_a_block(bench: Bench) -> None:
    """In either order."""
    for priority in (1, -1):
        agent = bench.builder(call("pay", amount=5), say("done"))
        agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"))
        agent.on_before_tool_use(lambda ctx: HookOutcome.allow(), priority=priority)
        assert statuses(await agent.build().run("go")) == ["blocked"]


async def test_a_stop_in_the_same_step_answers_open_questions(bench: Bench) -> None:
    """A stopped run does not also wait."""
    agent = bench.asking(calls(call("pay", amount=5), call("look")))
    agent.on_before_tool_use(lambda ctx: HookOutcome.stop("no looking"), matcher="look")
    result = await agent.build().run("go")
    assert (result.status, result.pending) == (RunStatus.STOPPED, [])
    assert statuses(result) == ["not_run", "not_run"]


# --- a tool that asks the person while it runs: `ToolContext.ask` -------------------------------


@tool
async def order(context: ToolContext) -> str:
    """Order something, if the person agrees to the price."""
    question = ToolCall("", "pay", {"price": 5})
    decision = await context.ask(question, "it costs something")
    return f"{decision.answer}: {decision.reason}"


def describe(*turns: Any) -> AgentBuilder:
    """An agent that makes these turns."""
    return AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(order)


async def test_the_approver_answers() -> None:
    """It sees the question as a call, and who asked; the journal has both the question and the answer."""
    asked: list[PendingApproval] = []

    def approver(approval: PendingApproval) -> Decision:
        asked.append(approval)
        return Decision.allow("it is cheap")

    result = await describe(call("order")).with_approver(approver).build().run("go")
    assert result_texts(result) == ["allow: it is cheap"]
    [approval] = asked
    assert (approval.tool_call.name, approval.tool_call.args) == ("pay", {"price": 5})
    assert (approval.reason, approval.asked_by) == ("it costs something", "order")
    kinds = [record.type for record in result.records]
    order_of = [
        kinds.index(kind) for kind in ("call", "approval_asked", "approval_answered", "tool_result")
    ]
    assert order_of == sorted(order_of)


async def test_with_nobody_there_the_answer_is_no() -> None:
    """The run does not pause in the middle of a tool."""
    result = await describe(call("order")).build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert result_texts(result) == ["deny: nobody can answer it now"]


async def test_permission_hooks_are_asked_first() -> None:
    """As they are when a hook asks."""
    builder = describe(call("order")).with_approver(lambda _: True)
    builder.on_permission_request(lambda ctx: Decision.deny(f"no {ctx.tool_call.name}ing"))
    assert result_texts(await builder.build().run("go")) == ["deny: no paying"]


async def test_every_question_has_an_id_of_its_own() -> None:
    """Also when two calls of a step ask at the same time."""
    asked: list[str] = []

    def approver(approval: PendingApproval) -> bool:
        asked.append(approval.id)
        return True

    turn = calls(call("order"), call("order"))
    await describe(turn).with_approver(approver).build().run("go")
    assert len(set(asked)) == 2
    assert all(each.endswith("/ask-1") for each in asked)


async def test_a_child_asks_the_approver_of_its_parent() -> None:
    """One person answers for the whole tree."""
    child = describe(call("order")).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Let another do it."""
        return result_texts(await context.spawn(child, "go"))[0]

    parent = describe(call("delegate")).with_tools(delegate).with_approver(lambda _: True)
    assert result_texts(await parent.build().run("go")) == ["allow: "]


@pytest.mark.parametrize("remember", [True, False])
async def test_an_answer_can_be_remembered(remember: bool) -> None:
    """The same question is not asked twice, then."""
    count = 0

    def approver(_: PendingApproval) -> Decision:
        nonlocal count
        count += 1
        return Decision.allow(remember=remember)

    await describe(call("order"), call("order")).with_approver(approver).build().run("go")
    assert count == (1 if remember else 2)


async def test_a_tool_in_a_thread_cannot_ask() -> None:
    """The error says how it could."""

    @tool
    def order_sync(context: ToolContext) -> str:
        """Order something."""
        import asyncio

        return str(asyncio.run(context.ask(ToolCall("", "pay"), "it costs something")))

    builder = describe(call("order_sync")).with_tools(order_sync).with_approver(lambda _: True)
    [text] = result_texts(await builder.build().run("go"))
    assert "Make the tool async" in text


# --- what an answer is good for: one call, edited or remembered, and on record ------------------


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
    """With the problem in the reason, and a limited number of times."""
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
    assert "the edited arguments do not fit" in result.state.messages[2].text


async def test_a_permission_hooks_edit_that_does_not_fit_is_an_invalid_call(bench: Bench) -> None:
    """No person is there to fix it: the model reads what is wrong."""
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


async def test_an_approver_that_edits_forever_is_refused_in_the_end(bench: Bench) -> None:
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


async def test_an_answer_is_not_remembered_by_default(bench: Bench) -> None:
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
    """It neither calls error hooks nor counts as an error."""
    heard: list[Any] = []
    agent = (
        bench.asking(call("pay", amount=5), say("ok")).with_approver("deny").on_error(heard.append)
    )
    result = await agent.build().run("go")
    assert (heard, result.state.counters.errors) == ([], 0)
    assert result.steps[0].results[0].status is ResultStatus.DENIED


# --- answers that hold for the session: in later runs, and in child runs at any depth -----------


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
    folded = fold(result.records)
    return dict(folded.state.remembered) == dict(result.state.remembered)


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
    assert result.steps[1].results[0].text == "Denied: never"


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


def test_a_run_that_is_resumed_remembers_what_its_children_were_answered(tree: Tree) -> None:
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
