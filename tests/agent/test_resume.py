"""Going on where a journal ends: whatever the last record is, the run becomes what it would have become."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline import (
    AgentBuilder,
    Decision,
    ErrorAction,
    ErrorClass,
    ErrorPolicy,
    HookOutcome,
    RunResult,
    RunStatus,
    ToolContext,
    tool,
)
from hookline.blueprint import Doubt, InDoubt
from hookline.errors import JournalError, UnknownRunError, UsageError
from hookline.journal import Record, RunTakenUp, fold, hooks_in
from hookline.state import ResultStatus, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


class Tape:
    """A store that remembers in which order everything was written, so that it can be cut anywhere."""

    def __init__(self, written: Sequence[Record] = ()) -> None:
        self.written = list(written)
        self.claimed: set[str] = set()

    def claim(self, run_id: str) -> Any:
        assert run_id not in self.claimed
        self.claimed.add(run_id)
        return TapeClaim(self, run_id)

    def read(self, run_id: str) -> list[Record]:
        found = [record for record in self.written if record.run_id == run_id]
        if not found:
            raise UnknownRunError(f"no run '{run_id}'.")
        return found

    def runs(self, **_: Any) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class TapeClaim(NamedTuple):
    tape: Tape
    run_id: str

    def write(self, records: Sequence[Record]) -> Future[None]:
        self.tape.written += records
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def give_back(self) -> None:
        self.tape.claimed.discard(self.run_id)


class Case(NamedTuple):
    """A script, by step; hooks, each a point and what it does."""

    script: tuple[tuple[str, ...], ...]
    hooks: tuple[tuple[str, str], ...]
    child: tuple[tuple[str, ...], ...] = (("look",), ())


class World:
    """An agent of a case. What its hooks and tools did is kept over all its lives."""

    def __init__(self, case: Case, tape: Tape) -> None:
        self.case = case
        self.tape = tape
        self.hooked: list[str] = []
        self.used: list[str] = []

    def agent(self) -> Any:
        """The agent as a new process would build it."""
        inner = self._builder("child", self.case.child).build()

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(inner, "task")).text

        builder = self._builder("agent", self.case.script).with_tools(delegate)
        builder.with_journal(self.tape).with_approver(lambda _: True)
        for number, (point, action) in enumerate(self.case.hooks):
            builder.add_hook(point, self._hook(number, point, action), name=f"hook-{number}")
        return builder.build()

    def _builder(self, name: str, script: tuple[tuple[str, ...], ...]) -> AgentBuilder:
        @tool(effect="pure")
        async def look(at: str = "") -> str:
            """Look."""
            return f"seen {at}"

        @tool(effect="pure")
        async def fails() -> str:
            """Fail."""
            raise ValueError("no such luck")

        @tool
        async def pay(context: ToolContext, amount: int) -> str:
            """Pay."""
            self.used.append(context.idempotency_key)
            return f"paid {amount}"

        policy = ErrorPolicy(actions=dict.fromkeys(ErrorClass, ErrorAction.IGNORE))
        return (
            AgentBuilder()
            .with_id(name)
            .with_driver(ByStep(script))
            .with_tools(look, fails, pay)
            .with_error_policy(policy)
            .with_clock(FakeClock())
        )

    def _hook(self, number: int, point: str, action: str) -> Any:
        def hook(ctx: Any) -> Any:
            made = getattr(ctx, "tool_call", None)
            index = getattr(ctx, "step_index", len(ctx.state.steps))
            self.hooked.append(f"{number} {ctx.state.run_id} {index} {made.id if made else ''}")
            return ACTIONS[action](ctx, number)

        return hook


class ByStep:
    """A model that answers by how far the conversation is, as a real one would."""

    def __init__(self, script: tuple[tuple[str, ...], ...]) -> None:
        self.script = script

    async def infer(self, request: Any, turn: Any) -> Any:
        index = turn.state.step_count
        names = self.script[index] if index < len(self.script) else ()
        made = [CALLS[name] for name in names]
        played = calls(*made) if made else say(f"answer {index}", tokens=3)
        return await ScriptedDriver([played]).infer(request, turn)


CALLS = {
    "look": call("look", at="door", tokens=2),
    "look too": call("look", at="window"),
    "fails": call("fails"),
    "unknown": call("nothing"),
    "delegate": call("delegate"),
    "pay": call("pay", amount=5),
}
ACTIONS: dict[str, Any] = {
    "watch": lambda ctx, number: None,
    "note": lambda ctx, number: ctx.with_metadata(f"note-{number}", len(ctx.state.metadata)),
    "say": lambda ctx, number: ctx.with_state(
        ctx.state.with_user_message("psst", by=f"hook-{number}")
    ),
    "block": lambda ctx, number: HookOutcome.block("not that") if _is_odd(ctx) else None,
    "ask": lambda ctx, number: HookOutcome.ask("sure?"),
    "forbid": lambda ctx, number: ctx.forbid("enough") if _is_odd(ctx) else None,
    "stop": lambda ctx, number: HookOutcome.stop("now") if _is_odd(ctx) else None,
    "rewrite": lambda ctx, number: (
        ctx.with_args(at="elsewhere") if ctx.tool_call.name == "look" else None
    ),
    "redact": lambda ctx, number: ctx.with_result("***") if ctx.execution.is_success else None,
    "crash": lambda ctx, number: 1 / 0,
}


def _is_odd(ctx: Any) -> bool:
    return bool(len(ctx.state.steps) % 2)


ANYWHERE = ("watch", "note", "forbid", "stop", "crash")
AT = {
    "before_step": ANYWHERE,
    "before_inference": (*ANYWHERE, "say", "block"),
    "after_inference": (*ANYWHERE, "block"),
    "before_tool_use": (*ANYWHERE, "block", "ask", "rewrite"),
    "permission_request": ("watch", "note"),
    "after_tool_use": (*ANYWHERE, "block", "redact", "say"),
    "after_step": ("watch", "note", "forbid", "crash"),
    "should_continue": ("watch", "note", "forbid"),
    "stop": ("watch", "note"),
    "execution_end": ("watch", "note"),
    "subagent_start": ("watch", "note"),
}
hooks = st.lists(
    st.sampled_from([(point, action) for point, actions in AT.items() for action in actions]),
    max_size=4,
).map(tuple)
batches = st.lists(
    st.lists(
        st.sampled_from(["look", "look too", "fails", "unknown", "delegate"]),
        min_size=1,
        max_size=3,
    ).map(tuple),
    min_size=1,
    max_size=3,
).map(tuple)
cases = st.builds(Case, batches, hooks)


def story_of(result: RunResult) -> Any:
    """What a run came to, without what only a clock or a count of processes would tell."""
    state = result.state
    steps = [
        (step.type, step.calls, [each.text() for each in step.results], step.outcome)
        for step in state.steps
    ]
    counted = (state.counters.steps, state.counters.tool_calls, state.counters.usage)
    return tuple(state.messages), dict(state.metadata), steps, state.ending, counted, result.text


def cut(tape: Tape, at: int) -> Tape:
    """The tape as a process that died there would have left it."""
    return Tape(tape.written[:at])


async def driven(world: World, run: Any) -> RunResult:
    """The result of a run, which is valid and has given its journal back."""
    result: RunResult = await run
    check_transcript(result.state.messages)
    assert not world.tape.claimed
    return result


@settings(max_examples=150, deadline=None)
@given(case=cases, where=st.integers(0, 10_000))
def test_a_run_that_is_taken_up_becomes_what_it_would_have_become(case: Case, where: int) -> None:
    """After any record: the same transcript, state and counts, and no hook that is on record runs again."""
    whole = World(case, Tape())
    expected = asyncio.run(driven(whole, whole.agent().run("go", run_id="run")))
    begun = next(i for i, record in enumerate(whole.tape.written) if record.type == "prompt") + 1
    at = begun + where % (len(whole.tape.written) - begun + 1)
    again = World(case, cut(whole.tape, at))
    known = {(ran.hook, ran.run_id, ran.step, ran.call_id) for ran in hooks_in(again.tape.written)}
    result = asyncio.run(driven(again, again.agent().resume("run")))
    assert story_of(result) == story_of(expected)
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
