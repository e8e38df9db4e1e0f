"""A run that paused, or whose process died, continues: what is on record stands, and the rest happens now."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from approving import Bench, statuses
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lives import Case, Tape, TapeClaim, World, cases, children_of, cut, driven, story_of
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    HookPoint,
    RunResult,
    RunStatus,
    StopReason,
    ToolContext,
    tool,
)
from hookline.capabilities import Summarization
from hookline.definition import Doubt, InDoubt
from hookline.errors import JournalError, UnknownRunError, UsageError
from hookline.flow import ErrorAction
from hookline.hooks import Point
from hookline.journal import ChildFinished, HookRan, Record, RunStarted, RunTakenUp, fold, hooks_in
from hookline.playback import replay
from hookline.state import ResultStatus, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

NOTED_AND_WRAPPED = Case(
    script=(("look", "look", "unknown"), ("look", "fails", "unknown")),
    hooks=(
        ("before_step", "watch"),
        ("before_inference", "watch"),
        ("after_tool_use", "note"),
        ("should_continue", "watch"),
    ),
    on_error=ErrorAction.RETRY,
    around="note",
)


@settings(max_examples=150, deadline=None)
@given(case=cases, where=st.integers(0, 10_000))
@example(case=NOTED_AND_WRAPPED, where=17)
@example(case=NOTED_AND_WRAPPED, where=18)
def test_a_run_that_is_resumed_becomes_what_it_would_have_become(case: Case, where: int) -> None:
    """After any record: the same transcript, state and counts, and no hook that is on record runs again."""
    whole = World(case, Tape())
    expected = asyncio.run(driven(whole, whole.agent().run("go", run_id="run")))
    cuts = whole.tape.cuts()
    again = World(case, cut(whole.tape, cuts[where % len(cuts)]))
    known = {(ran.hook, ran.run_id, ran.step, ran.call_id) for ran in hooks_in(again.tape.written)}
    result = asyncio.run(driven(again, again.agent().resume("run")))
    assert story_of(result) == story_of(expected)
    assert children_of(again.tape) == children_of(whole.tape)
    assert fold(again.tape.records("run")).state == result.state
    numbers = [record.seq for record in again.tape.records("run")]
    assert numbers == list(range(len(numbers)))
    assert result.records == tuple(again.tape.records("run"))
    _check_not_repeated(case, again, known)
    replayed = asyncio.run(replay(again.tape, "run", World(case, Tape()).agent()))
    assert replayed.identical, replayed


_USUAL = Case((("look", "fails", "delegate"), ("look",)))
_WAYS_THERE: dict[str, Case] = {
    "before_compact": _USUAL._replace(script=(("look",),) * 6),
    "permission_request": Case((("look",),), (("before_tool_use", "policy ask"),)),
    "agent_failed": Case((("look", "fails"),), on_error=ErrorAction.STOP),
}
"""The points where the usual run of the next test does not come, and a run that does."""


class Compacting(World):
    """An agent with a small window, if a hook waits for a summary."""

    def agent(self) -> Any:
        builder = self.builder()
        if ("before_compact", "note") in self.case.hooks:
            model = ScriptedDriver([say("short")] * 9)
            builder.with_capability(Summarization(20, keep_messages=1, model=model))
        return builder.build()


@pytest.mark.parametrize(
    "point", [each for each in HookPoint if "state" in each.changes and not each.around], ids=str
)
def test_what_a_hook_changed_at_any_point_is_not_lost(point: Point[Any]) -> None:
    """Wherever the process dies, the run that is resumed has it, once."""
    case = _WAYS_THERE.get(point.value, _USUAL)
    case = case._replace(hooks=(*case.hooks, (point.value, "note")))
    whole = Compacting(case, Tape())
    expected = asyncio.run(driven(whole, whole.agent().run("go", run_id="run")))
    changed = [ran for ran in hooks_in(whole.tape.written) if ran.point == point and ran.changes]
    assert changed, f"no run here comes to {point.value}: add one to _WAYS_THERE"
    for at in whole.tape.cuts():
        again = Compacting(case, cut(whole.tape, at))
        result = asyncio.run(driven(again, again.agent().resume("run")))
        assert story_of(result) == story_of(expected), f"cut after {whole.tape.written[at - 1]}"


async def until_done(world: World, result: RunResult) -> list[RunResult]:
    """The result of each pause and of the end, if every question is answered with yes."""
    results = [result]
    while results[-1].pending:
        answers = dict.fromkeys((each.id for each in results[-1].pending), True)
        results.append(await driven(world, world.agent().resume("run", answers)))
    return results


@settings(max_examples=60, deadline=None)
@given(case=cases, where=st.integers(0, 10_000))
@example(case=Case((("look",),), (("before_inference", "say"),), around="note"), where=3)
@example(case=Case((("look",),), (("before_step", "say"),), around="note"), where=3)
def test_a_run_that_died_before_a_pause_waits_as_it_would_have_waited(
    case: Case, where: int
) -> None:
    """The same conversation at every pause and at the end, in the state and in the journal."""
    hooks = (*case.hooks[:3], ("before_tool_use", "policy ask"))
    around = "note" if case.around else ""
    case = case._replace(hooks=hooks, around=around, has_approver=False)

    async def main() -> None:
        whole = World(case, Tape())
        first = await driven(whole, whole.agent().run("go", run_id="run"))
        kinds = [record.type for record in whole.tape.written]
        paused = kinds.index("step_paused") if first.pending else len(kinds)
        cuts = [at for at in whole.tape.cuts() if at <= paused]
        again = World(case, cut(whole.tape, cuts[where % len(cuts)]))
        expected = await until_done(whole, first)
        results = await until_done(again, await driven(again, again.agent().resume("run")))
        for result in results:
            assert fold(result.records).state == result.state
        assert list(map(story_of, results)) == list(map(story_of, expected))

    asyncio.run(main())


def _check_not_repeated(case: Case, again: World, known: set[Any]) -> None:
    """Except for policies, a verdict on record is reused and its side effects are not repeated."""
    for entry in again.hooked:
        number, run_id, index, call_id = entry.split(" ")
        point, _ = case.hooks[int(number)]
        if point in (
            "before_inference",
            "before_step",
            "after_inference",
            "before_tool_use",
            "after_tool_use",
        ):
            assert (f"hook-{number}", run_id, int(index), call_id) not in known, entry


# --- calls in doubt -------------------------------------------------------------------------------------


async def died_in_the_call(script: tuple[tuple[str, ...], ...] = (("pay",),)) -> Tape:
    """What a process leaves behind that dies after a call has started."""
    world = World(Case(script, ()), Tape())
    await driven(world, world.agent().run("go", run_id="run"))
    at = next(i for i, record in enumerate(world.tape.written) if record.type == "call") + 1
    return cut(world.tape, at)


def agent_after_crash(tape: Tape, **options: Any) -> tuple[World, Any]:
    """An agent for that tape, with these options of the journal."""
    world = World(Case((("pay",),), ()), tape)
    agent = world._builder("agent", world.case.script).with_journal(tape, **options).build()
    return world, agent


async def test_a_call_that_must_run_once_is_in_doubt_and_the_model_reads_that() -> None:
    """It is not started again, whatever it did."""
    world, agent = agent_after_crash(await died_in_the_call())
    result = await agent.resume("run")
    (outcome,) = result.steps[0].results
    assert (outcome.status, world.used) == (ResultStatus.IN_DOUBT, [])
    assert result.state.messages[2].text.startswith("In doubt: the process died")
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("answer", "ran"), [(Decision.allow(), 1), (Decision.deny("I checked"), 0)]
)
async def test_a_person_may_be_asked_about_a_call_in_doubt(answer: Decision, ran: int) -> None:
    """The run pauses with the question; yes runs it again with the same key."""
    world, agent = agent_after_crash(await died_in_the_call(), on_in_doubt="ask")
    paused = await agent.resume("run")
    (pending,) = paused.pending
    assert (paused.status, pending.asked_by) == (RunStatus.PAUSED, "in-doubt")
    result = await agent.resume("run", {pending.id: answer})
    assert (result.status, len(world.used)) == (RunStatus.COMPLETED, ran)
    assert set(world.used) <= {"run/0/call_1_1"}


@pytest.mark.parametrize(
    ("found", "status", "ran"),
    [
        ("paid 5", ResultStatus.OK, 0),
        (Doubt.NOT_DONE, ResultStatus.OK, 1),
        (Doubt.UNKNOWN, ResultStatus.IN_DOUBT, 0),
        (ValueError("the bank is closed"), ResultStatus.IN_DOUBT, 0),
    ],
)
async def test_a_check_may_find_out_about_a_call_in_doubt(
    found: Any, status: Any, ran: int
) -> None:
    """It gets the call and its key, and returns the outcome; after a failed check the outcome stays unknown."""
    asked: list[InDoubt] = []

    async def check(doubt: InDoubt) -> Any:
        asked.append(doubt)
        if isinstance(found, Exception):
            raise found
        return found

    world, agent = agent_after_crash(await died_in_the_call(), on_in_doubt=check)
    result = await agent.resume("run")
    assert (result.steps[0].results[0].status, len(world.used)) == (status, ran)
    assert (asked[0].call.name, asked[0].idempotency_key) == ("pay", "run/0/call_1_1")


async def test_a_call_that_is_safe_to_repeat_runs_again() -> None:
    """Pure and idempotent tools are not in doubt."""
    world = World(Case((("look",),), ()), await died_in_the_call((("look",),)))
    result = await world.agent().resume("run")
    assert result.steps[0].results[0].result == "seen door"


# --- what can and what cannot be resumed ----------------------------------------------------------------


def wall(ctx: Any) -> Any:
    """A policy that asks about everything."""
    return HookOutcome.ask("sure?")


async def test_a_paused_run_continues_from_its_journal_in_another_process() -> None:
    """By its id alone, with the answers; partial answers are kept."""
    tape = Tape()

    def agent() -> Any:
        world = World(Case((("look", "look too"),), ()), tape)
        builder = world._builder("agent", world.case.script).with_journal(tape)
        return builder.on_before_tool_use(wall, tier="policy").build()

    paused = await agent().run("go", run_id="run")
    one, other = paused.pending
    still = await agent().resume("run", {one.id: True})
    assert [each.id for each in still.pending] == [other.id]
    result = await agent().resume("run", {other.id: Decision.deny("no")})
    assert [each.status.value for each in result.steps[0].results] == ["ok", "denied"]
    assert fold(tape.records("run")).state == result.state
    assert (await agent().resume("run", {one.id: True})).records == result.records
    with pytest.raises(UsageError, match=r"was answered already \(deny\) by resume: no"):
        await agent().resume("run", {other.id: True})


async def test_a_run_that_has_ended_gives_its_result_again() -> None:
    """Nothing is run, asked or written."""
    world = World(Case((("look",),), ()), Tape())
    first = await world.agent().run("go", run_id="run")
    written = len(world.tape.written)
    again = await world.agent().resume("run")
    assert (again.text, again.status, again.state) == (first.text, first.status, first.state)
    assert len(world.tape.written) == written


async def test_a_resumed_run_says_so_on_record() -> None:
    """For readers of the journal."""
    _, agent = agent_after_crash(await died_in_the_call())
    result = await agent.resume("run")
    assert len([record for record in result.records if isinstance(record, RunTakenUp)]) == 1


async def test_a_run_id_is_used_once() -> None:
    """The error about a second run of that id says how to resume the first."""
    world = World(Case((("look",),), ()), Tape())
    await world.agent().run("go", run_id="run")
    with pytest.raises(UsageError, match=r"is in the journal already.*agent.resume"):
        await world.agent().run("go", run_id="run")
    with pytest.raises(UnknownRunError, match="no run 'other'"):
        await world.agent().resume("other")
    assert not world.tape.claimed


class FullDisk(Tape):
    """A store on which nothing can be written after the first batch."""

    async def claim(self, run_id: str) -> Any:
        return FullClaim(self, run_id)


class FullClaim(TapeClaim):
    def write(self, records: Sequence[Record]) -> Future[None]:
        if not self.tape.written:
            return super().write(records)
        failed: Future[None] = Future()
        failed.set_exception(JournalError("the disk is full.", remedy="Make room."))
        return failed


async def test_a_run_whose_journal_cannot_be_written_fails_before_its_tools_run() -> None:
    """The intent must be safe first. What was written stays, and can be continued."""
    world = World(Case((("pay",),), ()), FullDisk())
    result = await world.agent().run("go", run_id="run")
    assert (result.status, world.used) == (RunStatus.FAILED, [])
    assert "the disk is full. Make room." in str(result.error)
    later = World(world.case, Tape(world.tape.written))
    assert (await later.agent().resume("run")).status is RunStatus.COMPLETED
    assert later.used == ["run/0/call_1_1"]


@pytest.mark.parametrize("wrong", [None, "path.db", Tape, object()])
def test_what_is_no_journal_is_refused_when_the_agent_is_built(wrong: Any) -> None:
    """With what to use instead."""
    with pytest.raises(Exception, match=r"is not a journal\. Use SQLiteJournal"):
        AgentBuilder().with_journal(wrong)


def test_what_to_do_in_doubt_must_mean_something() -> None:
    """One of the words, or a function."""
    with pytest.raises(Exception, match="says nothing"):
        AgentBuilder().with_journal(Tape(), on_in_doubt="retry")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["limit", "stop", "done"])
def test_a_run_that_has_ended_says_what_ended_it(kind: str) -> None:
    """Whatever decided it: the last step, or a guard or a hook since."""
    journal = PlainStore()
    builder = AgentBuilder().with_journal(journal).with_driver(ScriptedDriver([call("x")] * 3))
    if kind == "limit":
        builder.with_limits(steps=2)
    elif kind == "stop":
        builder.on_before_tool_use(lambda ctx: HookOutcome.stop("enough"), name="enough")
    else:
        builder.with_driver(ScriptedDriver([say("done")]))
    agent = builder.build()
    result = agent.run_sync("go", run_id="r")
    again = agent.resume_sync("r")
    assert again.outcome == result.outcome
    assert again.outcome is not None
    assert not again.outcome.should_continue


# --- a run resumed by an agent that has changed meanwhile: what is on record stands, and only what is new is judged


class Till:
    """Pays, and keeps count of it over all its lives."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.paid: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"receipt for {amount}"

        driver = ScriptedDriver([*turns] or [say("done")])
        return AgentBuilder().with_driver(driver).with_tools(pay).with_journal(self.tape)

    def die_after(self, kind: str) -> None:
        """The process died right after the first record of this kind."""
        at = next(i for i, record in enumerate(self.tape.written) if record.type == kind) + 1
        self.tape = cut(self.tape, at)


async def paid_and_died(after: str) -> Till:
    """A run whose process died in its one payment, or right after it."""
    till = Till()
    agent = till.builder(call("pay", amount=5), say("done")).build()
    await agent.run("go", run_id="run")
    till.die_after(after)
    return till


LATE = {
    "block": lambda _: HookOutcome.block("a new rule"),
    "ask": lambda _: HookOutcome.ask("a new rule"),
    "rewrite": lambda ctx: ctx.with_args(amount=7),
}


@pytest.mark.parametrize("tier", ["hook", "policy"])
@pytest.mark.parametrize("verdict", ["block", "ask"])
async def test_a_call_that_started_is_in_doubt_whatever_a_new_hook_thinks_of_it(
    tier: str, verdict: str
) -> None:
    """There is nothing left to judge, so nobody is asked and nothing is paid twice."""
    till = await paid_and_died("call")
    changed = till.builder().on_before_tool_use(LATE[verdict], name="late", tier=tier).build()
    result = await changed.resume("run")
    assert result.status is RunStatus.COMPLETED
    assert not result.pending
    assert result.steps[0].results[0].status is ResultStatus.IN_DOUBT
    assert till.paid == [5]


@pytest.mark.parametrize("verdict", LATE)
async def test_a_result_on_record_stands_whatever_a_new_hook_thinks_of_the_call(
    verdict: str,
) -> None:
    """Neither before the call nor after it."""
    till = await paid_and_died("tool_result")
    builder = till.builder().on_before_tool_use(LATE[verdict], name="late")
    builder.on_after_tool_use(lambda ctx: HookOutcome.block("withheld"), name="late too")
    result = await builder.build().resume("run")
    assert [outcome.text for outcome in result.steps[0].results] == ["receipt for 5"]
    assert result.steps[0].calls[0].args == {"amount": 5}
    assert till.paid == [5]


async def test_a_call_whose_tool_is_gone_is_in_doubt() -> None:
    """It had started, so the answer is not "there is no such tool", which would mean that it had not."""
    till = await paid_and_died("call")
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_journal(till.tape)
    result = await agent.build().resume("run")
    (outcome,) = result.steps[0].results
    assert outcome.status is ResultStatus.IN_DOUBT
    assert "no tool for this call any more" in outcome.text


async def test_a_tool_that_was_declared_harmless_since_is_not_run_again() -> None:
    """What it was when it started counts."""
    till = await paid_and_died("call")

    @tool(effect="pure")
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        return "again"

    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(pay)
    result = await agent.with_journal(till.tape).build().resume("run")
    assert result.steps[0].results[0].status is ResultStatus.IN_DOUBT
    assert till.paid == [5]


async def test_a_new_hook_is_not_asked_about_an_answer_that_was_given() -> None:
    """The model was asked, and what it said is on record."""
    till = await paid_and_died("call")
    asked: list[str] = []
    builder = till.builder()
    for point in ("before_step", "before_inference", "after_inference"):
        builder.add_hook(point, lambda ctx: asked.append(f"{ctx.point} {ctx.step_index}"))
    await builder.build().resume("run")
    assert asked == ["before_step 1", "before_inference 1", "after_inference 1"]


async def test_a_call_that_was_edited_is_resumed_as_it_ran() -> None:
    """A person changed the amount, a hook changed it again, the person said yes: that is the call in doubt."""
    till = Till()
    answers = iter((Decision.edit(amount=50), Decision.allow()))

    def cap(ctx: Any) -> Any:
        amount = ctx.tool_call.args["amount"]
        return ctx.with_args(amount=40) if amount == 50 else None

    def ask(ctx: Any) -> HookOutcome:
        return HookOutcome.ask("money")

    def with_hooks(builder: AgentBuilder) -> AgentBuilder:
        builder.on_before_tool_use(cap, name="cap")
        return builder.on_before_tool_use(ask, name="ask", tier="policy")

    builder = with_hooks(till.builder(call("pay", amount=100), say("done")))
    await builder.with_approver(lambda _: next(answers)).build().run("go", run_id="run")
    till.die_after("call")
    result = await with_hooks(till.builder()).build().resume("run")
    assert result.status is RunStatus.COMPLETED
    assert not result.pending
    assert result.steps[0].calls[0].args == {"amount": 40}
    assert till.paid == [40]


async def test_a_child_that_was_running_is_resumed() -> None:
    """Its start is committed before it begins, so that a resume of its parent finds it."""
    till = Till()

    def family(*child_turns: Any) -> AgentBuilder:
        inner = till.builder(*child_turns).with_id("child").build()

        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(inner, "task")).text

        driver = ScriptedDriver([call("delegate"), say("all done")])
        return AgentBuilder().with_driver(driver).with_tools(delegate).with_journal(till.tape)

    await family(call("pay", amount=1), say("child done")).build().run("go", run_id="run")
    kinds = [(record.run_id == "run", record.type) for record in till.tape.written]
    till.tape = cut(till.tape, kinds.index((False, "tool_result")) + 1)
    assert "child_started" in [record.type for record in till.tape.records("run")]
    again = family(say("child done")).with_driver(ScriptedDriver([say("all done")]))
    result = await again.build().resume("run")
    assert [outcome.text for outcome in result.steps[0].results] == ["child done"]
    assert till.paid == [1]


async def test_the_time_of_a_step_that_was_not_settled_counts() -> None:
    """What is on record of it, without the time between the two processes."""
    clock = FakeClock()
    till = Till()

    async def slow(_: Any) -> None:
        await clock.sleep(7)

    def builder(seconds: float, *turns: Any) -> AgentBuilder:
        limited = till.builder(*turns).with_limits(seconds=seconds).with_clock(clock)
        return limited.on_before_inference(slow, name="slow")

    await builder(30, call("pay", amount=5), say("done")).build().run("go", run_id="run")
    till.die_after("call")
    await clock.sleep(1000)
    result = await builder(5).build().resume("run")
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.state.counters.active_seconds == 7


# --- children of a run that died, or paused: they are sent back to work so often and no more, and none is forgotten


# --- sent back to work -----------------------------------------------------------------------------------


def never_content(world: World) -> Any:
    """An agent whose hook objects to whatever a child comes back with."""

    def object_always(ctx: Any) -> Any:
        world.hooked.append(ctx.result.text)
        return HookOutcome.block("go on")

    return world.builder().with_limits(objections=3).on_subagent_stop(object_always).build()


async def test_a_child_is_sent_back_as_often_over_all_processes() -> None:
    """After any record: the same objections, to the same results, and those on record are not made again."""
    case = Case((("delegate",),))
    whole = World(case, Tape())
    expected = await driven(whole, never_content(whole).run("go", run_id="run"))
    assert len(whole.hooked) == 4  # three objections, which is the limit, and the last result
    for at in whole.tape.cuts():
        again = World(case, cut(whole.tape, at))
        known = sum(_objects(record) for record in again.tape.written)
        result = await driven(again, never_content(again).resume("run"))
        assert story_of(result) == story_of(expected)
        assert children_of(again.tape) == children_of(whole.tape)
        assert known + len(again.hooked) == 4
        assert again.hooked == whole.hooked[4 - len(again.hooked) :]


async def test_objections_to_two_children_at_once_are_distinguished() -> None:
    """What a hook said of one child is not taken for what it said of the other."""
    case = Case((("delegate", "delegate"),), (("subagent_stop", "object"),))
    whole = World(case, Tape())
    expected = await driven(whole, whole.agent().run("go", run_id="run"))
    for at in whole.tape.cuts():
        again = World(case, cut(whole.tape, at))
        result = await driven(again, again.agent().resume("run"))
        assert story_of(result) == story_of(expected)
        assert children_of(again.tape) == children_of(whole.tape)


def _objects(record: Any) -> bool:
    return isinstance(record, HookRan) and record.point == "subagent_stop"


def waiting_child(replies: list[Any]) -> Any:
    """An agent that asks a person before it uses its tool."""

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    builder = AgentBuilder().with_id("child").with_driver(ScriptedDriver(replies)).with_tools(look)
    return builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), tier="policy").build()


@pytest.mark.parametrize("journalled", [False, True])
async def test_objections_count_over_a_pause(*, journalled: bool) -> None:
    """A child that was sent back twice and then waits for a person can be sent back once more."""
    replies = [say("a"), say("b"), call("look"), say("c"), say("d"), say("e"), say("f")]
    inner = waiting_child(replies)

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "task")).text

    builder = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("done")]))
    builder.with_tools(delegate).with_limits(objections=3)
    builder.on_subagent_stop(lambda ctx: HookOutcome.block("go on"))
    agent = (builder.with_journal(Tape()) if journalled else builder).build()
    paused = await agent.run("go", run_id="run")
    assert paused.status is RunStatus.PAUSED
    answers = {pending.id: True for pending in paused.pending}
    result = await agent.resume(paused, answers)
    assert result.steps[0].results[0].result == "d"


# --- none is forgotten -----------------------------------------------------------------------------------


def two_children(hook: Any = None) -> Any:
    """An agent with a tool that starts two children at once; one of them waits for a person."""
    waits = waiting_child([call("look"), say("never")])
    done = AgentBuilder().with_id("quick").with_driver(ScriptedDriver([say("quick")])).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on, twice."""
        both = await asyncio.gather(
            context.spawn(waits, "wait", name="slow"),
            context.spawn(done, "hurry"),
            return_exceptions=True,
        )
        return str(both)

    builder = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("done")]))
    builder.with_tools(delegate)
    return builder if hook is None else builder.on_subagent_stop(hook)


def ends_of(result: RunResult) -> dict[str, RunStatus]:
    """How the children of a run ended, by name."""
    found = [record for record in result.records if isinstance(record, ChildFinished)]
    return {record.name: record.status for record in found}


async def test_a_child_that_waits_ends_when_a_hook_fails_over_its_sibling() -> None:
    """The call has failed, nobody will take the child up, and its parent's record says so."""

    def crash(ctx: Any) -> Any:
        raise ValueError("no")

    result = await two_children(crash).build().run("go")
    assert result.steps[0].results[0].status is ResultStatus.ERROR
    assert ends_of(result) == {"slow": RunStatus.CANCELLED, "quick": RunStatus.COMPLETED}


async def test_a_child_that_waits_ends_when_a_hook_ends_the_run() -> None:
    """Its call did not end, and the child does not either."""
    stop = two_children(lambda ctx: ctx.forbid("enough"))
    stop.on_after_step(lambda ctx: None)
    paused = await stop.build().run("go")
    assert (paused.status, ends_of(paused)) == (RunStatus.PAUSED, {"quick": RunStatus.COMPLETED})
    agent = two_children(lambda ctx: HookOutcome.stop("enough")).build()
    result = await agent.run("go")
    assert result.status is RunStatus.STOPPED
    assert ends_of(result) == {"slow": RunStatus.CANCELLED, "quick": RunStatus.COMPLETED}


# --- a call that waited for its children, and had its result ---------------------------------------------


async def test_a_call_that_waited_and_has_its_result_on_record_does_not_run_again() -> None:
    """Not even the part of it after the child: that must happen once."""
    used: list[str] = []

    def agent(tape: Tape, *replies: Any) -> Any:
        inner = waiting_child([call("look"), say("fine")])

        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand it on, and pay for it."""
            used.append((await context.spawn(inner, "task")).text)
            return used[-1]

        builder = AgentBuilder().with_driver(ScriptedDriver(list(replies))).with_tools(delegate)
        return builder.with_journal(tape).build()

    tape = Tape()
    first = agent(tape, call("delegate"), say("done"))
    paused = await first.run("go", run_id="run")
    expected = await first.resume("run", {pending.id: True for pending in paused.pending})
    settled = [record.type == "tool_result" and record.run_id == "run" for record in tape.written]
    result = await agent(cut(tape, settled.index(True) + 1), say("done")).resume("run")
    assert used == ["fine"]
    assert story_of(result) == story_of(expected)


# --- a call that must run once ---------------------------------------------------------------------------


def paying(journal: Any, paid: list[str], **options: Any) -> Any:
    """An agent with a tool that has a child look, and then pays, once."""
    replies = [lambda state: say("all done") if state.steps else call("pay")] * 2
    child_replies = [lambda state: say("fine") if state.steps else call("look")] * 2

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    inner = AgentBuilder().with_id("child").with_driver(ScriptedDriver(child_replies))
    inner.with_tools(look)

    @tool
    async def pay(context: ToolContext) -> str:
        """Pay, once."""
        looked = await context.spawn(inner.build(), "look")
        paid.append(looked.text)
        return "paid"

    builder = AgentBuilder().with_driver(ScriptedDriver(replies)).with_tools(pay)
    return builder.with_journal(journal, **options).build()


async def test_a_call_that_must_run_once_is_in_doubt_when_its_children_were_done() -> None:
    """After the last of them it may have done what it must not do twice; in the middle of one it waited for it."""
    whole = Tape()
    expected = await paying(whole, []).run("go", run_id="run")
    types = [(record.run_id, record.type) for record in whole.written]
    begun, done = types.index(("run", "child_started")), types.index(("run", "child_finished"))
    settled = types.index(("run", "tool_result"))
    for at in (at for at in whole.cuts() if begun < at <= settled + 1):
        paid: list[str] = []
        result = await paying(Tape(whole.written[:at]), paid).resume("run")
        (outcome,) = result.steps[0].results
        if done < at <= settled:
            assert (outcome.status, paid) == (ResultStatus.IN_DOUBT, [])
        else:
            assert (outcome.status, paid) == (ResultStatus.OK, ["fine"] * (at <= done))
        assert result.state.counters.steps == expected.state.counters.steps


# --- a paused run continues with the answers it gets, in this process or another ------------------


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
    """The state carries all that is needed; its driver continues with the next turn."""
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


@pytest.mark.parametrize("dies", [False, True])
async def test_another_version_continues_a_run_and_says_so(
    dies: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The records name the version of each process; a warning in the log names both."""
    store = PlainStore()

    def agent(version: str, *turns: Any) -> Agent:
        asks = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(wait)
        asks.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), tier="policy", name="asks")
        return asks.with_version(version).with_journal(store).build()

    async def wait() -> str:
        """Wait."""
        return "waited"

    paused = await agent("1.0", call("wait")).run("go", run_id="run")
    versions = ["1.0", "2.0"]
    if dies:
        finished = next(
            at for at, (_, line) in enumerate(store.written) if b'"step_paused"' in line
        )
        store = store.cut(finished)
    later = agent("2.0", call("wait")) if dies else agent("2.0", say("done"))
    answers = {} if dies else {each.id: True for each in paused.pending}
    await later.resume("run", answers)
    assert (
        "run 'run' was last driven by version '1.0' of its agent, and is continued by version '2.0'"
        in caplog.text
    )
    starts = [each for each in await store.read("run") if isinstance(each, RunStarted | RunTakenUp)]
    assert [each.agent_version for each in starts] == versions


async def test_the_version_that_drove_a_run_last_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It need not be the one that started it."""
    store = PlainStore()
    for version in ("1.0", "2.0", "3.0"):
        made = AgentBuilder().with_driver(ScriptedDriver([say("a")])).with_version(version)
        agent = made.with_journal(store).build()
        await (agent.run("go", run_id="run") if version == "1.0" else agent.resume("run"))
        taken = next((at for at, (_, line) in enumerate(store.written) if b'"taken_up"' in line), 1)
        store = store.cut(taken + 1)
    assert "was last driven by version '2.0' of its agent, and is continued by version '3.0'" in (
        caplog.text
    )


async def test_the_same_version_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nor do agents without a version."""
    for version in ("", "1"):
        store = PlainStore()
        made = AgentBuilder().with_driver(ScriptedDriver([say("a")])).with_version(version)
        await made.with_journal(store).build().run("go", run_id="run")
        store = store.cut(2)
        made = AgentBuilder().with_driver(ScriptedDriver([say("a")])).with_version(version)
        result = await made.with_journal(store).build().resume("run")
        assert result.status is RunStatus.COMPLETED
    assert "continues it" not in caplog.text


async def test_many_runs_that_start_at_once_leave_room_for_others() -> None:
    """A few claim their runs in each round of the event loop."""
    rounds, claimed = 0, []

    class Counted(PlainStore):
        async def claim(self, run_id: str) -> Any:
            claimed.append(rounds)
            return await super().claim(run_id)

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    made = AgentBuilder().with_driver(ScriptedDriver([say("a")] * 20)).with_journal(Counted())
    agent = made.build()
    results = await asyncio.gather(*(agent.run("go") for _ in range(20)))
    counting.cancel()
    assert [result.status for result in results] == [RunStatus.COMPLETED] * 20
    assert max(Counter(claimed).values()) <= 8
