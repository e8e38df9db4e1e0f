"""Who answers when a call is asked about, and what the answer means beside other verdicts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from approving import Bench, statuses

from hookline import Decision, HookOutcome, RunStatus, StopReason
from hookline.errors import BuildError
from hookline.journal import ApprovalAnswered
from hookline.state import PendingApproval, check_transcript
from hookline.testing import call, calls, say

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
    """Failing closed; the run goes on. Nobody cancelled it, and it does not end the program."""

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
