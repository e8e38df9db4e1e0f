"""Going on where a journal ends: whatever the last record is, the run becomes what it would have become."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lives import Case, Tape, TapeClaim, World, cases, children_of, cut, driven, story_of
from plain_store import PlainStore

from hookline import AgentBuilder, Decision, HookOutcome, RunStatus
from hookline.definition import Doubt, InDoubt
from hookline.errors import JournalError, UnknownRunError, UsageError
from hookline.journal import Record, RunTakenUp, fold, hooks_in
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, say


@settings(max_examples=150, deadline=None)
@given(case=cases, where=st.integers(0, 10_000))
def test_a_run_that_is_taken_up_becomes_what_it_would_have_become(case: Case, where: int) -> None:
    """After any record: the same transcript, state and counts, and no hook that is on record runs again."""
    whole = World(case, Tape())
    expected = asyncio.run(driven(whole, whole.agent().run("go", run_id="run")))
    cuts = whole.tape.cuts()
    again = World(case, cut(whole.tape, cuts[where % len(cuts)]))
    known = {(ran.hook, ran.run_id, ran.step, ran.call_id) for ran in hooks_in(again.tape.written)}
    result = asyncio.run(driven(again, again.agent().resume("run")))
    assert story_of(result) == story_of(expected)
    assert children_of(again.tape) == children_of(whole.tape)
    assert fold(again.tape.read("run")).state == result.state
    numbers = [record.seq for record in again.tape.read("run")]
    assert numbers == list(range(len(numbers)))
    assert result.records == tuple(again.tape.read("run"))
    _check_not_repeated(case, again, known)


def _check_not_repeated(case: Case, again: World, known: set[Any]) -> None:
    """Policies aside, a verdict on record is reused and its side effects are not repeated."""
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


def taken_up(tape: Tape, **options: Any) -> tuple[World, Any]:
    """An agent for that tape, with these options of the journal."""
    world = World(Case((("pay",),), ()), tape)
    agent = world._builder("agent", world.case.script).with_journal(tape, **options).build()
    return world, agent


async def test_a_call_that_must_run_once_is_in_doubt_and_the_model_reads_that() -> None:
    """It is not started again, whatever it did."""
    world, agent = taken_up(await died_in_the_call())
    result = await agent.resume("run")
    (told,) = result.steps[0].results
    assert (told.status, world.used) == (ResultStatus.IN_DOUBT, [])
    assert result.state.messages[2].text.startswith("In doubt: the process died")
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("answer", "ran"), [(Decision.allow(), 1), (Decision.deny("I checked"), 0)]
)
async def test_a_person_may_be_asked_about_a_call_in_doubt(answer: Decision, ran: int) -> None:
    """The run pauses with the question; yes runs it again with the same key."""
    world, agent = taken_up(await died_in_the_call(), on_in_doubt="ask")
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
    """It is given the call and its key, and says what came of it; a check that fails finds out nothing."""
    asked: list[InDoubt] = []

    async def check(doubt: InDoubt) -> Any:
        asked.append(doubt)
        if isinstance(found, Exception):
            raise found
        return found

    world, agent = taken_up(await died_in_the_call(), on_in_doubt=check)
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


async def test_a_paused_run_goes_on_from_its_journal_in_another_process() -> None:
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
    assert fold(tape.read("run")).state == result.state
    with pytest.raises(UsageError, match="no question with id"):
        await agent().resume("run", {one.id: True})


async def test_a_run_that_has_ended_gives_its_result_again() -> None:
    """Nothing is run, asked or written."""
    world = World(Case((("look",),), ()), Tape())
    first = await world.agent().run("go", run_id="run")
    written = len(world.tape.written)
    again = await world.agent().resume("run")
    assert (again.text, again.status, again.state) == (first.text, first.status, first.state)
    assert len(world.tape.written) == written


async def test_a_taken_up_run_says_so_on_record() -> None:
    """For whoever reads the journal."""
    _, agent = taken_up(await died_in_the_call())
    result = await agent.resume("run")
    assert len([record for record in result.records if isinstance(record, RunTakenUp)]) == 1


async def test_a_run_id_is_used_once() -> None:
    """A second run of that id is told how to go on with the first."""
    world = World(Case((("look",),), ()), Tape())
    await world.agent().run("go", run_id="run")
    with pytest.raises(UsageError, match=r"is in the journal already.*agent.resume"):
        world.agent().run("go", run_id="run")
    with pytest.raises(UnknownRunError, match="no run 'other'"):
        world.agent().resume("other")
    assert not world.tape.claimed


class FullDisk(Tape):
    """A store on which nothing can be written after the first batch."""

    def claim(self, run_id: str) -> Any:
        return FullClaim(self, run_id)


class FullClaim(TapeClaim):
    def write(self, records: Sequence[Record]) -> Future[None]:
        if not self.tape.written:
            return super().write(records)
        failed: Future[None] = Future()
        failed.set_exception(JournalError("the disk is full.", remedy="Make room."))
        return failed


async def test_a_run_whose_journal_cannot_be_written_fails_before_its_tools_run() -> None:
    """The intent must be safe first. What was written stays, and can be gone on from."""
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
