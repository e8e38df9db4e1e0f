"""A paused run goes on with the answers it gets, in this process or another."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from approving import Bench, statuses

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    RunStatus,
)
from hookline.errors import UsageError
from hookline.state import check_transcript
from hookline.testing import ScriptedDriver, call, calls, say

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
