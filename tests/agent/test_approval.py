from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    PendingApproval,
    RunStatus,
    StopReason,
    ToolCall,
    tool,
)
from hookline.errors import BuildError, UsageError
from hookline.journal import ApprovalAnswered, ApprovalAsked
from hookline.state import ResultStatus, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class Bench:
    """Tools that note when they run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @tool
        async def pay(amount: int, to: str = "kim") -> str:
            """Pay."""
            self.ran.append(("pay", amount, to))
            return f"paid {amount}"

        @tool
        async def look(n: int = 0) -> str:
            """Look."""
            self.ran.append(("look", n))
            return "seen"

        self.tools = (pay, look)

    def builder(self, *turns: Any) -> AgentBuilder:
        return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*self.tools)

    def asking(self, *turns: Any, tier: str = "policy") -> AgentBuilder:
        """A builder whose agent asks before every payment."""
        return self.builder(*turns).on_before_tool_use(
            lambda ctx: HookOutcome.ask(f"pay {ctx.tool_call.args['amount']}?"),
            matcher="pay",
            name="cashier",
            tier=tier,
        )


@pytest.fixture
def bench() -> Bench:
    """Tools that have not run yet."""
    return Bench()


def statuses(result: Any, step: int = 0) -> list[str]:
    """What came of the calls of a step."""
    return [each.status.value for each in result.steps[step].results]


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


# --- pausing ------------------------------------------------------------------------------------------


async def test_no_call_of_the_step_runs_before_every_question_is_answered(bench: Bench) -> None:
    """Also those nobody asked about; those that are settled already are settled."""
    batch = calls(call("look", n=1), call("pay", amount=5), call("nope"), call("pay", amount=6))
    agent = bench.asking(batch, say("done")).build()
    paused = await agent.run("go")
    assert (paused.status, bench.ran) == (RunStatus.PAUSED, [])
    assert [question.tool_call.args["amount"] for question in paused.pending] == [5, 6]
    result = await agent.resume(paused, {question.id: True for question in paused.pending})
    assert bench.ran == [("look", 1), ("pay", 5, "kim"), ("pay", 6, "kim")]
    assert (result.text, statuses(result)) == ("done", ["ok", "ok", "invalid", "ok"])


async def test_the_hooks_on_the_way_out_run_when_a_run_pauses(bench: Bench) -> None:
    """execution_end hears that it is paused; session_end and after_step wait for the real end."""
    seen: list[str] = []
    agent = bench.asking(call("pay", amount=5), say("done"))
    for point in ("execution_start", "before_step", "after_step", "execution_end", "session_end"):
        agent.add_hook(point, lambda ctx: seen.append(ctx.point.value), name="note")
    built = agent.on_execution_start(lambda ctx: seen.append(f"resumed={ctx.resumed}")).build()
    paused = await built.run("go")
    assert seen == ["execution_start", "resumed=False", "before_step", "execution_end"]
    seen.clear()
    await built.resume(paused, {paused.pending[0].id: True})
    assert seen == [
        *("execution_start", "resumed=True", "after_step"),
        *("before_step", "after_step", "execution_end", "session_end"),
    ]


@pytest.mark.parametrize("session", [None, "s"])
async def test_a_session_of_its_own_ends_with_the_run_and_another_does_not(
    bench: Bench, session: str | None
) -> None:
    """A pause changes nothing about that, also through JSON."""
    seen: list[str] = []
    agent = bench.asking(call("pay", amount=5), say("done"))
    agent.on_session_start(lambda ctx: seen.append("start"))
    built = agent.on_session_end(lambda ctx: seen.append("end")).build()
    paused = await built.run("go", session=session)
    state = AgentState.from_json(paused.state.to_json())
    await built.resume(state, {state.pending[0].id: True})
    assert seen == (["start", "end"] if session is None else ["start"])


async def test_a_paused_state_takes_no_new_prompt(bench: Bench) -> None:
    """It must be answered first, and the error says how."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go")
    with pytest.raises(UsageError, match="resume"):
        await agent.run("something else", state=paused.state)


async def test_metadata_and_evaluations_survive_the_pause(bench: Bench) -> None:
    """What hooks said and wrote before it holds after it, also through JSON."""
    agent = bench.asking(call("pay", amount=5), say("never"))
    agent.on_before_tool_use(
        lambda ctx: ctx.with_metadata("seen", 1).forbid("last one"), name="end"
    )
    built = agent.build()
    paused = await built.run("go")
    state = AgentState.from_json(paused.state.to_json())
    result = await built.resume(state, {state.pending[0].id: True})
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert result.state.metadata["seen"] == 1
    assert statuses(result) == ["ok"]


async def test_what_failed_before_the_pause_stays_in_the_errors_of_the_step(bench: Bench) -> None:
    """A run that paused has the errors of one whose approver answered at once."""

    def agent() -> AgentBuilder:
        return bench.asking(calls(call("nope"), call("pay", amount=5)), say("done"))

    at_once = await agent().with_approver(lambda _: True).build().run("go")
    waiting = agent().build()
    paused = await waiting.run("go")
    state = AgentState.from_json(paused.state.to_json())
    later = await waiting.resume(state, {state.pending[0].id: True})
    assert later.steps[0].errors == at_once.steps[0].errors
    assert [info.error_class for info in later.steps[0].errors] == ["validation"]


async def test_a_message_added_before_the_pause_stays_where_it_belongs(bench: Bench) -> None:
    """A run that paused has the conversation of one whose approver answered at once."""

    def agent() -> AgentBuilder:
        turns = (calls(call("look"), call("pay", amount=5)), say("done"))
        built = bench.asking(*turns)
        built.on_before_tool_use(
            lambda ctx: ctx.state.with_user_message(f"about {ctx.tool_call.name}")
        )
        return built.on_before_step(lambda ctx: ctx.state.with_user_message("hint"))

    at_once = await agent().with_approver(lambda _: True).build().run("go")
    waiting = agent().build()
    paused = await waiting.run("go")
    state = AgentState.from_json(paused.state.to_json())
    check_transcript(state.messages)
    later = await waiting.resume(state, {state.pending[0].id: True})
    assert list(later.state.messages) == list(at_once.state.messages)


async def test_time_spent_paused_does_not_count(bench: Bench) -> None:
    """Active time adds up over the pause, and neither step nor run counts the wait."""
    clock = FakeClock()

    def think(ctx: Any) -> None:
        clock.advance(10)

    agent = bench.asking(call("pay", amount=5), say("done")).with_clock(clock)
    agent.on_before_step(think).on_after_tool_use(think)
    built = agent.with_limits(seconds=100).build()
    paused = await built.run("go")
    clock.advance(100_000)
    result = await built.resume(paused, {paused.pending[0].id: True})
    assert (result.status, result.state.counters.active_seconds) == (RunStatus.COMPLETED, 30)
    assert [step.duration for step in result.steps] == [20, 10]


async def test_usage_and_counters_add_up_over_the_pause(bench: Bench) -> None:
    """Limits are for the run, however often it pauses."""
    pay = call("pay", amount=5, tokens=10)
    agent = bench.asking(pay, pay, pay, say("done", tokens=5)).with_limits(steps=3, tool_calls=5)
    built = agent.build()
    result = await built.run("go")
    for _ in range(3):
        state = AgentState.from_json(result.state.to_json())
        assert state.counters.steps == len(bench.ran)
        result = await built.resume(state, {state.pending[0].id: True})
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert (result.usage.total_tokens, result.state.counters.tool_calls) == (30, 3)
    assert len(bench.ran) == 3


async def test_a_call_limit_counts_each_call_once_over_a_pause(bench: Bench) -> None:
    """A call that was cleared before the pause is not counted again after it."""
    batch = calls(call("look"), call("pay", amount=5))
    built = bench.asking(batch, say("done")).with_limits(tool_calls=2).build()
    paused = await built.run("go")
    result = await built.resume(paused, {paused.pending[0].id: True})
    assert (result.status, result.state.counters.tool_calls) == (RunStatus.COMPLETED, 2)


# --- resuming -----------------------------------------------------------------------------------------

How = Callable[[Agent, Any], Any]
HOWS: dict[str, How] = {
    "by run id": lambda agent, paused: paused.run_id,
    "from the result": lambda agent, paused: paused,
    "from the state": lambda agent, paused: paused.state,
    "from JSON": lambda agent, paused: AgentState.from_json(paused.state.to_json()),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("decision", [True, Decision.allow(), False, Decision.deny("no")])
async def test_a_run_is_resumed_with_answers_by_id(bench: Bench, how: str, decision: Any) -> None:
    """In the same process, four ways; the call runs once, or not at all."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go")
    answers = {paused.pending[0].id: decision}
    result = await agent.resume(HOWS[how](agent, paused), answers)
    yes = decision is True or getattr(decision, "answer", "") == "allow"
    assert (result.text, result.status) == ("done", RunStatus.COMPLETED)
    assert (bench.ran, statuses(result)) == (
        ([("pay", 5, "kim")], ["ok"]) if yes else ([], ["denied"])
    )
    assert result.run_id == paused.run_id
    assert (result.state.pending, result.state.pending_step) == ((), None)
    check_transcript(result.state.messages)


async def test_another_agent_of_the_same_make_may_resume(bench: Bench) -> None:
    """The state carries all that is needed; its driver goes on with the next turn."""
    paused = await bench.asking(call("pay", amount=5)).build().run("go")
    other = bench.asking(say("done by another")).build()
    result = await other.resume(paused.state, {paused.pending[0].id: True})
    assert (result.text, bench.ran) == ("done by another", [("pay", 5, "kim")])


PROGRAM = """
import sys
from pathlib import Path
from hookline import AgentBuilder, AgentState, Decision, HookOutcome, tool
from hookline.testing import ScriptedDriver, call, calls, say

work = Path(sys.argv[2])

@tool
def pay(amount: int) -> str:
    '''Pay.'''
    with (work / "ledger").open("a") as ledger:
        ledger.write(f"{amount}\\n")
    return f"paid {amount}"

@tool
def look() -> str:
    '''Look.'''
    with (work / "ledger").open("a") as ledger:
        ledger.write("look\\n")
    return "seen"

first = calls(call("look"), call("pay", amount=5), call("pay", amount=7))
agent = (
    AgentBuilder()
    .with_driver(ScriptedDriver([first] if sys.argv[1] == "start" else [say("done")]))
    .with_tools(pay, look)
    .on_before_tool_use(lambda ctx: HookOutcome.ask("pay?"), matcher="pay", tier="policy", name="cashier")
    .build()
)
if sys.argv[1] == "start":
    result = agent.run_sync("go", run_id="r-1")
else:
    state = AgentState.from_json((work / "state.json").read_text())
    answers = {}
    for word in sys.argv[3:]:
        amount, answer = word.split("=")
        question = next(q for q in state.pending if q.tool_call.args["amount"] == int(amount))
        answers[question.id] = Decision.edit(amount=int(answer)) if answer.isdigit() else answer == "yes"
    result = agent.resume_sync(state, answers)
(work / "state.json").write_text(result.state.to_json())
print(result.status.value, len(result.pending), result.text)
"""


def process(tmp_path: Path, *words: str) -> str:
    """Run the program in a process of its own."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    source = Path(__import__("hookline").__file__).parent.parent
    done = subprocess.run(
        [sys.executable, str(program), words[0], str(tmp_path), *words[1:]],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_a_run_is_resumed_in_another_process(tmp_path: Path) -> None:
    """One process asks and exits, another takes one answer, a third the other: each call runs once."""
    ledger = tmp_path / "ledger"
    assert process(tmp_path, "start") == "paused 2"
    assert process(tmp_path, "resume", "5=yes") == "paused 1"
    assert not ledger.exists()
    assert process(tmp_path, "resume", "7=6") == "completed 0 done"
    assert sorted(ledger.read_text().split()) == ["5", "6", "look"]
    state = AgentState.from_json((tmp_path / "state.json").read_text())
    check_transcript(state.messages)
    assert [message.text for message in state.messages[2:5]] == ["seen", "paid 5", "paid 6"]
    assert state.pending == ()


async def test_partial_answers_are_kept(bench: Bench) -> None:
    """The run stays paused for the rest, and nothing runs until the last answer is in."""
    batch = calls(*(call("pay", amount=n) for n in (1, 2, 3)))
    agent = bench.asking(batch, say("done")).build()
    result = await agent.run("go")
    one, two, three = (question.id for question in result.pending)
    result = await agent.resume(AgentState.from_json(result.state.to_json()), {two: False})
    assert (result.status, [q.id for q in result.pending], bench.ran) == (
        RunStatus.PAUSED,
        [one, three],
        [],
    )
    result = await agent.resume(AgentState.from_json(result.state.to_json()), {three: True})
    assert [question.id for question in result.pending] == [one]
    result = await agent.resume(AgentState.from_json(result.state.to_json()), {one: True})
    assert bench.ran == [("pay", 1, "kim"), ("pay", 3, "kim")]
    assert statuses(result) == ["ok", "denied", "ok"]


async def test_resuming_without_answers_stays_paused(bench: Bench) -> None:
    """Nothing is lost and nothing is run."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go")
    again = await agent.resume(paused)
    assert (again.status, again.pending, bench.ran) == (RunStatus.PAUSED, paused.pending, [])
    assert (await agent.resume(again, {again.pending[0].id: True})).text == "done"


async def test_a_second_resume_of_the_same_pause_is_the_callers_own_doing_but_not_by_run_id(
    bench: Bench,
) -> None:
    """By its id a run can be resumed once: what is done is done."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    paused = await agent.run("go", run_id="r")
    await agent.resume("r", {paused.pending[0].id: True})
    with pytest.raises(UsageError, match="no paused run 'r'"):
        await agent.resume("r", {paused.pending[0].id: True})
    assert len(bench.ran) == 1


@pytest.mark.parametrize(
    ("answers", "words"),
    [({"nope": True}, "no question with id 'nope'"), ({"r/0/call_1_1": "yes"}, "Decision.allow")],
)
async def test_wrong_answers_are_refused_and_nothing_is_lost(
    bench: Bench, answers: dict[str, Any], words: str
) -> None:
    """The error names what waits, and the right answer can still be given."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    await agent.run("go", run_id="r")
    with pytest.raises(UsageError, match=words):
        await agent.resume("r", answers)
    assert (await agent.resume("r", {"r/0/call_1_1": True})).text == "done"


async def test_only_what_waits_can_be_resumed(bench: Bench) -> None:
    """A finished state, or a run nobody knows, is refused with the remedy."""
    agent = bench.builder(say("hi")).build()
    result = await agent.run("go")
    with pytest.raises(UsageError, match="does not wait"):
        await agent.resume(result)
    with pytest.raises(UsageError, match="from_json"):
        await agent.resume("unknown")


@pytest.mark.parametrize("way", ["stream", "iterate"])
async def test_a_run_that_paused_under_another_way_of_driving_is_resumed_the_same(
    bench: Bench, way: str
) -> None:
    """Streamed or step by step, its run id is all that is needed."""
    agent = bench.asking(call("pay", amount=5), say("done")).build()
    stream = getattr(agent, way)("go", run_id="r")
    async for _ in stream:
        pass
    assert stream.result.status is RunStatus.PAUSED
    result = await agent.resume("r", {"r/0/call_1_1": True})
    assert (result.text, bench.ran) == ("done", [("pay", 5, "kim")])


# --- judged again -------------------------------------------------------------------------------------


async def test_policies_of_now_judge_again_after_a_resume(bench: Bench) -> None:
    """An approval does not outlive a rule made since; siblings that nobody asked about are judged too."""
    batch = calls(call("look"), call("pay", amount=5))
    paused = await bench.asking(batch).build().run("go")
    stricter = bench.asking(say("then not"))
    stricter.on_before_tool_use(
        lambda ctx: HookOutcome.block("closed"), tier="policy", name="curfew"
    )
    result = await stricter.build().resume(paused.state, {paused.pending[0].id: True})
    assert (bench.ran, statuses(result)) == ([], ["blocked", "blocked"])
    assert result.text == "then not"


async def test_hooks_are_not_asked_again_after_a_resume(bench: Bench) -> None:
    """What they made of the call stands: a rewrite is not made twice, a side effect not repeated."""
    asked: list[int] = []

    def surcharge(ctx: Any) -> Any:
        asked.append(1)
        return ctx.with_args(amount=ctx.tool_call.args["amount"] + 1)

    agent = bench.asking(call("pay", amount=5), say("done"))
    built = agent.on_before_tool_use(surcharge, matcher="pay", name="fee").build()
    paused = await built.run("go")
    assert paused.pending[0].tool_call.args["amount"] == 6
    result = await built.resume(paused, {paused.pending[0].id: True})
    assert (asked, bench.ran) == ([1], [("pay", 6, "kim")])
    assert result.status is RunStatus.COMPLETED


async def test_a_policy_made_since_may_ask_about_what_nobody_had_asked_about(bench: Bench) -> None:
    """The run pauses again, for that."""
    batch = calls(call("look"), call("pay", amount=5))
    paused = await bench.asking(batch).build().run("go")
    curious = bench.asking(say("done"))
    curious.on_before_tool_use(
        lambda ctx: HookOutcome.ask("look?"), matcher="look", tier="policy", name="curtain"
    )
    built = curious.build()
    again = await built.resume(paused.state, {paused.pending[0].id: True})
    assert (again.status, [q.reason for q in again.pending]) == (RunStatus.PAUSED, ["look?"])
    result = await built.resume(again, {again.pending[0].id: True})
    assert sorted(bench.ran) == [("look", 0), ("pay", 5, "kim")]
    assert result.status is RunStatus.COMPLETED


async def test_a_policy_may_stop_a_resumed_run(bench: Bench) -> None:
    """Nothing of the step runs."""
    batch = calls(call("pay", amount=5), call("look"))
    paused = await bench.asking(batch).build().run("go")
    stopping = bench.asking()
    stopping.on_before_tool_use(
        lambda ctx: HookOutcome.stop("audit"), matcher="look", tier="policy"
    )
    result = await stopping.build().resume(paused.state, {paused.pending[0].id: True})
    assert (result.status, bench.ran) == (RunStatus.STOPPED, [])
    check_transcript(result.state.messages)


async def test_a_tool_that_is_gone_is_an_invalid_call_after_a_resume(bench: Bench) -> None:
    """The model reads that there is no such tool."""
    paused = await bench.asking(call("pay", amount=5)).build().run("go")
    other = AgentBuilder().with_driver(ScriptedDriver([say("pity")])).build()
    result = await other.resume(paused.state, {paused.pending[0].id: True})
    assert (result.text, statuses(result)) == ("pity", ["invalid"])


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
