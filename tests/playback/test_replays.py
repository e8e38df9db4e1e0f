"""Replay: the same run again, without a model, a tool or a trace."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lives
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from recorded_runs import Case, Tape, World, cases, recorded

import hookline
from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    ToolCall,
    ToolContext,
    backtest,
    tool,
)
from hookline.errors import HookError, ModelError, UnknownRunError, UsageError
from hookline.flow import ErrorAction
from hookline.journal import JournalStore, MemoryJournal, RunTakenUp, fold
from hookline.lifecycle import HookPoint
from hookline.playback import ReplayResult, replay
from hookline.playback.source import RecordedClock
from hookline.sessions import Sessions
from hookline.state import ResultStatus, StopReason
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


async def check_identical(case: Case, tape: Tape, *, children: bool = True) -> ReplayResult:
    """Replaying the case's run gives the same run, and nothing is used, asked, claimed or written."""
    before = {run_id: list(lines) for run_id, lines in tape.lines.items()}
    claims = tape.claims
    again = World(case)
    given = {"helper": again.child()} if children else {}
    replayed = await replay(tape, "run", again.agent(), children=given)
    assert replayed.identical, replayed
    assert (again.used, again.asked, tape.lines, tape.claims) == ([], 0, before, claims)
    return replayed


@settings(max_examples=50, deadline=None)
@given(case=cases, children=st.booleans())
def test_a_run_replayed_with_the_same_agent_is_identical(case: Case, children: bool) -> None:
    """Whatever the script, the hooks and the answers were, and whether or not its children's agents are given."""

    async def main() -> None:
        tape, _ = await recorded(case)
        replayed = await check_identical(case, tape, children=children)
        assert replayed.is_whole

    asyncio.run(main())


@settings(max_examples=30, deadline=None)
@given(case=cases, where=st.integers(0, 2))
def test_a_run_that_paused_is_followed_through_its_pauses(case: Case, where: int) -> None:
    """With the answers that were given, in the run and in its children."""
    asks = ("before_tool_use", "policy ask" if where else "ask")
    script = tuple(("delegate", *batch) for batch in case.script)
    case = case._replace(script=script, hooks=(*case.hooks[:2], asks), approver="nobody")
    if where == 2:
        case = case._replace(child_hooks=(*case.child_hooks[:2], asks))

    async def main() -> None:
        tape, _ = await recorded(case)
        await check_identical(case, tape, children=bool(where))

    asyncio.run(main())


SENT_BACK = Case((("delegate",),), (("subagent_stop", "object"),), (("busy",),), (), "edit")
"""A child that is sent back to work: its process may die before that is on record."""


@settings(max_examples=30, deadline=None)
@given(case=cases, where=st.integers(0, 10_000), resumes=st.booleans())
@example(case=SENT_BACK, where=5, resumes=False)
@example(case=SENT_BACK, where=6, resumes=False)
def test_a_run_that_died_is_followed_as_far_as_its_record_goes(
    case: Case, where: int, resumes: bool
) -> None:
    """And one that was resumed is followed to its end."""
    case = case._replace(approver="yes" if case.approver == "nobody" else case.approver)

    async def main() -> None:
        whole, _ = await recorded(case)
        tape = whole.cut(1 + where % len(whole.batches))
        if resumes:
            await World(case).agent(tape).resume("run")
        replayed = await check_identical(case, tape)
        assert replayed.is_whole is fold(tape.records("run")).is_finished

    asyncio.run(main())


async def test_what_fails_later_in_a_resumed_step_is_no_failure_of_the_model() -> None:
    """A hook had failed over the answer before the process died; another one fails after the step."""
    hooks = (("after_inference", "crash"), ("after_step", "crash"))
    case = lives.Case((("look",),), hooks, on_error=ErrorAction.RETRY)
    whole = lives.World(case, lives.Tape())
    await whole.agent().run("go", run_id="run")
    for at in whole.tape.cuts():
        again = lives.World(case, lives.cut(whole.tape, at))
        await again.agent().resume("run")
        tape: Any = again.tape
        replayed = await replay(tape, "run", lives.World(case, lives.Tape()).agent())
        assert replayed.identical, (at, replayed)


@pytest.mark.parametrize("hooks", [("crash",), ("object", "crash"), ("crash", "watch")])
@pytest.mark.parametrize("script", [(("delegate",),), (("delegate", "look"), ("delegate",))])
async def test_a_call_that_is_tried_again_takes_the_child_that_is_done(
    hooks: tuple[str, ...], script: tuple[tuple[str, ...], ...]
) -> None:
    """A hook failed at the end of the child; played, the child does not begin a second time either."""
    asked = tuple(("subagent_stop", action) for action in hooks)
    case = lives.Case(script, asked, on_error=ErrorAction.RETRY)
    whole = lives.World(case, lives.Tape())
    used = (await whole.agent().run("go", run_id="run")).usage
    for at in whole.tape.cuts():
        again = lives.World(case, lives.cut(whole.tape, at))
        assert (await again.agent().resume("run")).usage == used, at  # nor does it count twice
        tape: Any = again.tape
        replayed = await replay(tape, "run", lives.World(case, lives.Tape()).agent())
        assert replayed.identical, (at, replayed)


# --- one thing at a time --------------------------------------------------------------------------------


@tool
async def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def builder(turns: Any = (), **options: Any) -> AgentBuilder:
    """An agent with a shell that is not one."""
    return AgentBuilder().with_id("agent").with_driver(ScriptedDriver(turns)).with_tools(bash)


async def record(made: AgentBuilder) -> Tape:
    """A run of an agent, on tape."""
    tape = Tape()
    await made.with_journal(tape).build().run("go", run_id="run")
    return tape


def no_push(ctx: Any) -> HookOutcome | None:
    """A rule."""
    is_push = "push" in ctx.tool_call.args["command"]
    return HookOutcome.block("nobody pushes today") if is_push else None


TURNS = (call("bash", command="ls"), call("bash", command="git push"), say("Pushed."))


async def test_the_first_difference_is_shown_with_the_hook_that_makes_it() -> None:
    """The step, what was recorded, what came now, and why; what comes after it is not looked at."""
    tape = await record(builder(TURNS))
    replayed = await hookline.replay(
        tape, "run", builder().on_before_tool_use(no_push, name="no-push").build()
    )
    difference = replayed.difference
    assert difference is not None
    assert not replayed
    assert (difference.run, difference.step, difference.call_id) == ("run", 1, "call_2_1")
    assert difference.recorded == {"status": "ok", "result": "ran git push"}
    assert difference.now == {
        "status": "blocked",
        "reason": "nobody pushes today",
        "decided_by": "no-push",
    }
    assert str(replayed) == (
        "run 'run' is not the same (2 steps)\n"
        "step 2, the result of bash (call call_2_1):\n"
        "  - status: ok\n"
        "  - result: ran git push\n"
        "  + status: blocked\n"
        "  + reason: nobody pushes today\n"
        "  + decided_by: no-push\n"
        "  because hook 'no-push' at before_tool_use (call_2_1) says block (nobody pushes today); "
        "on record: nothing"
    )
    assert replayed.result.status is RunStatus.CANCELLED


async def test_a_call_that_was_blocked_then_and_is_not_now_has_no_result() -> None:
    """What it would have given nobody knows, and it is said so."""
    tape = await record(builder(TURNS).on_before_tool_use(no_push, name="no-push"))
    replayed = await replay(tape, "run", builder().build())
    assert replayed.difference is not None
    assert "is not known" in replayed.difference.now["reason"]
    assert replayed.difference.because == (
        "hook 'no-push' at before_tool_use (call_2_1) says nothing; on record: block (nobody pushes today)",
    )


async def test_a_changed_call_is_a_difference_although_its_result_is_the_same() -> None:
    """Results are given by call, so the call is looked at first."""
    tape = await record(builder(TURNS))
    rewriting = builder().on_before_tool_use(lambda ctx: ctx.with_args(command="ls -l"))
    replayed = await replay(tape, "run", rewriting.build())
    assert replayed.difference is not None
    assert replayed.difference.what == "the call of bash"
    assert replayed.difference.diff == "  tool: bash\n  args:\n-   command: ls\n+   command: ls -l"


@pytest.mark.parametrize(
    ("then", "now", "what"),
    [
        (lambda ctx: ctx.with_response("mine"), None, "the model is asked"),
        (None, lambda ctx: ctx.with_response("mine"), "+ nothing"),
        (None, lambda ctx: ctx.with_request(ctx.request.with_system("Be brief.")), "system"),
        (
            None,
            lambda ctx: HookOutcome.block("not now"),
            "hook 'hook' at before_inference says block",
        ),
        (None, lambda ctx: ctx.forbid("enough"), "+ nothing"),
    ],
)
async def test_a_difference_in_what_the_model_is_asked_is_found(
    then: Any, now: Any, what: str
) -> None:
    """Whether it is asked at all, what it is asked where hooks say so, and the outcome."""

    def hooked(hook: Any) -> AgentBuilder:
        made = builder(TURNS)
        return made if hook is None else made.on_before_inference(hook, name="hook")

    replayed = await replay(await record(hooked(then)), "run", hooked(now).build())
    assert what in str(replayed.difference)


async def test_an_end_that_comes_earlier_or_later_is_a_difference() -> None:
    """A run that continues where it ended then has no answer on record to continue with."""

    def once(ctx: Any) -> Any:
        return HookOutcome.block("go on") if ctx.state.step_count < 4 else None

    tape = await record(builder(TURNS))
    later = await replay(tape, "run", builder().on_stop(once, name="once").build())
    assert later.difference is not None
    assert later.difference.what == "the conversation"
    assert "go on" in str(later.difference)
    earlier = await replay(tape, "run", builder().with_limits(steps=1).build())
    assert earlier.difference is not None
    assert "step 2, what the model was asked" in str(earlier.difference)
    assert "step_limit" in str(earlier.difference)


async def test_hooks_that_changed_what_is_on_record_answer_from_it() -> None:
    """The journal keeps what they left. They are named, and the ones after them are asked."""
    asked: list[str] = []

    def loud(ctx: Any) -> Any:
        asked.append(ctx.execution.result)
        return ctx.with_result(ctx.execution.result.upper())

    def last(ctx: Any) -> None:
        asked.append(ctx.execution.result)

    def made(turns: Any = ()) -> AgentBuilder:
        return builder(turns).on_after_tool_use(loud, name="loud").on_after_tool_use(last)

    tape = await record(made(TURNS[:1] + TURNS[2:]))
    asked.clear()
    replayed = await replay(tape, "run", made().build())
    assert replayed.identical, replayed
    assert (replayed.from_record, asked) == (("loud",), ["RAN LS"])
    assert "answered from the record: loud" in str(replayed)
    gone = await replay(tape, "run", builder().on_after_tool_use(last).build())
    assert "there is no hook 'loud' at after_tool_use" in str(gone.difference)


async def test_hooks_around_an_action_are_not_called() -> None:
    """The action is not done; what came out of it, and of them, is on record."""

    async def shout(ctx: Any, call_next: Callable[..., Any]) -> Any:
        return (await call_next(ctx)).with_result("!")

    tape = await record(builder(TURNS).around_tool_use(shout))

    async def fail(ctx: Any, call_next: Callable[..., Any]) -> Any:
        raise AssertionError

    made = builder().around_tool_use(fail).around_inference(fail)
    assert await replay(tape, "run", made.build())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("withholds", [False, True])
async def test_a_hook_around_a_tool_fails_again(after: bool, withholds: bool) -> None:
    """The call has failed because of it, also where its words are withheld; error hooks see a failed hook."""
    seen: list[tuple[bool, bool]] = []

    async def fail(ctx: Any, call_next: Callable[..., Any]) -> Any:
        if after:
            await call_next(ctx)
        raise ValueError("broken")

    def look(ctx: Any) -> None:
        seen.append((isinstance(ctx.exception, HookError), ctx.can_rescue))

    def made(turns: Any = ()) -> AgentBuilder:
        failing = builder(turns).around_tool_use(fail).on_error(look)
        if withholds:
            failing.on_after_tool_use(lambda ctx: HookOutcome.block("secret"), name="hide")
        return failing

    tape = await record(made(TURNS))
    replayed = await replay(tape, "run", made().build())
    assert replayed.identical, replayed
    report = await backtest(tape, made().build())
    assert report.ok, str(report)
    assert set(seen) == {(True, True)}


class StrangeError(Exception):
    """An exception of a user."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")


@tool
def strange() -> str:
    """Fail in an own way."""
    raise StrangeError(7)


@tool
def several() -> str:
    """Fail in two ways."""
    raise ExceptionGroup("both", [ValueError("one"), StrangeError(7)])


async def test_error_hooks_see_the_type_of_the_exception() -> None:
    """If its module is there; what it is made of is not on record."""

    def made(*turns: Any) -> AgentBuilder:
        rescuing = builder(turns).with_tools(strange, several)
        return rescuing.on_error(
            lambda ctx: ctx.rescue("fine") if isinstance(ctx.exception, StrangeError) else None
        )

    tape = await record(made(call("strange"), call("several"), say("done")))
    replayed = await replay(tape, "run", made().build())
    assert replayed.identical, replayed
    report = await backtest(tape, made().build())
    assert report.ok, str(report)


def test_the_clock_leaves_out_the_time_without_a_process() -> None:
    """Each second once, where a run and its child were taken up one after the other."""
    clock = RecordedClock()
    assert [_time_at(clock, at) for at in (0, 5, 30)] == [0, 5, 30]
    for times in ((10, 20), (12, 25), (40, 35)):  # the last by a clock that was set back
        clock.leave_out_dead_time(RunTakenUp(run_id="run", seq=0, at=at) for at in times)
    assert [_time_at(clock, at) for at in (5, 10, 20, 25, 30)] == [5, 10, 10, 10, 15]
    clock.move_to(3)
    assert clock.now() == clock.monotonic() == 15


def test_the_clock_is_as_quick_for_a_run_that_was_taken_up_often() -> None:
    """A replay takes time for each record, not for each process beside it."""
    clock = RecordedClock()
    clock.leave_out_dead_time(RunTakenUp(run_id="run", seq=0, at=at) for at in range(10_000))
    started = time.process_time()
    for at in range(10_000):
        clock.move_to(at)
    assert (clock.now(), time.process_time() - started < 1) == (0, True)


def _time_at(clock: RecordedClock, at: float) -> float:
    clock.time = 0.0
    clock.move_to(at)
    return clock.now()


async def test_a_model_that_failed_fails_again_and_falls_back_again() -> None:
    """With exceptions of the same name, words and class, so that the policy decides the same."""

    class Flaky(ScriptedDriver):
        async def infer(self, request: Any, turn: Any) -> Any:
            if not self.requests:
                turn.record_fallback(ModelError("the first one is down"), "asking the second")
            return await super().infer(request, turn)

    seen: list[str] = []
    made = builder().with_driver(Flaky([hookline.errors.RateLimitError("slow"), say("done")]))
    tape = await record(made.with_clock(FakeClock()))
    again = builder().on_error(lambda ctx: seen.append(f"{ctx.error_type}: {ctx.error_message}"))
    replayed = await replay(tape, "run", again.build())
    assert replayed.identical, replayed
    assert seen == ["RateLimitError: slow"]
    actions = [each.action for each in replayed.result.records if each.type == "error"]
    assert actions == ["fallback", "retry"]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("where", ["model", "tool", "beside", "after the tool", "between steps"])
async def test_a_cancelled_run_is_cancelled_where_it_was(where: str, late: bool) -> None:
    """In the model, in a tool, in one of several, after it; the others have the result they had. Time limits, too."""
    agent: list[Agent] = []
    end = partial(_cancel, agent, out_of_time=late)

    async def cancel(*, waits: bool) -> None:
        asyncio.get_running_loop().call_soon(end)
        if waits:
            await asyncio.Event().wait()

    @tool
    async def wait(long: bool = True) -> str:
        """Wait."""
        if long and where in ("tool", "beside"):
            await asyncio.sleep(0)
            await cancel(waits=True)
        if where == "after the tool":
            end()
        return "waited"

    class Slow(ScriptedDriver):
        async def infer(self, request: Any, turn: Any) -> Any:
            if where == "model":
                await cancel(waits=True)
            return await super().infer(request, turn)

    def made() -> AgentBuilder:
        turn = calls(call("wait"), call("wait", long=False)) if where == "beside" else call("wait")
        return AgentBuilder().with_driver(Slow([turn, say("done")])).with_tools(wait)

    tape = Tape()
    first = made().on_before_step(
        lambda ctx: end() if where == "between steps" and ctx.step_index == 1 else None
    )
    agent.append(first.with_journal(tape).build())
    result = await agent[0].run("go", run_id="run")
    assert (result.status, result.stop_reason) == (
        (RunStatus.STOPPED, StopReason.TIME_LIMIT)
        if late
        else (RunStatus.CANCELLED, StopReason.CANCELLED)
    )
    replayed = await replay(tape, "run", made().build())
    assert replayed.identical, replayed
    assert replayed.result.explain() == result.explain()


def _cancel(agent: list[Agent], *, out_of_time: bool) -> None:
    agent[0].cancel("run", "it takes too long", out_of_time=out_of_time)


async def test_a_run_that_ran_out_of_time_runs_out_of_time() -> None:
    """Without waiting; and the time hooks read is the time it was."""
    clock = FakeClock()
    spent: list[float] = []

    @tool
    async def slow() -> str:
        """Take a minute."""
        clock.advance(60)
        return "done"

    def made(turns: Any = ()) -> AgentBuilder:
        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns))
            .with_tools(slow)
            .with_limits(seconds=100)
            .on_before_step(lambda ctx: spent.append(ctx.run.spent.seconds))
        )

    tape = await record(made([call("slow"), call("slow"), say("done")]).with_clock(clock))
    assert "time_limit" in fold(tape.records("run")).state.explain_stop()
    then = list(spent)
    spent.clear()
    replayed = await replay(tape, "run", made().build())
    assert replayed.identical, replayed
    assert spent == pytest.approx(then)


async def test_a_question_that_expired_expires_again() -> None:
    """At the time it was; and for a back-test it has, whatever the agent of now allows."""
    clock = FakeClock()

    def made(turns: Any = ()) -> AgentBuilder:
        asking = builder(turns).on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask")
        return asking.with_approval_expiry(60)

    tape = Tape()
    agent = made(TURNS[1:]).with_clock(clock).with_journal(tape).build()
    paused = await agent.run("go", run_id="run")
    clock.advance(3600)
    result = await agent.resume("run", {paused.pending[0].id: Decision.allow()})
    assert result.steps[0].results[0].reason == "the question expired"
    replayed = await replay(tape, "run", made().build())
    assert replayed.identical, replayed
    for unhurried in (made().with_approval_expiry(None), made()):
        report = await backtest(tape, unhurried.build())
        assert report.ok, str(report)


async def test_what_a_tool_asked_is_asked_again() -> None:
    """Its permission hooks are called, and the answer is the one on record."""
    tape = Tape()
    asked: list[str] = []

    @tool
    async def careful(context: ToolContext) -> str:
        """Ask first."""
        decision = await context.ask(ToolCall("", "format", {"disk": "C"}), "sure?")
        return decision.answer.value

    def made(turns: Any = ()) -> AgentBuilder:
        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns))
            .with_tools(careful)
            .on_permission_request(lambda ctx: asked.append(ctx.tool_call.name))
        )

    agent = made([call("careful"), say("done")]).with_approver(lambda _: Decision.deny("no"))
    await agent.with_journal(tape).build().run("go", run_id="run")
    replayed = await replay(tape, "run", made().build())
    assert (replayed.identical, asked) == (True, ["format", "format"])


async def test_a_call_in_doubt_is_what_it_became() -> None:
    """Whether the model got a message, or a person was asked and said no, or yes."""
    case = Case((("pay",),), approver="nobody")
    whole, _ = await recorded(case)
    died = next(
        at for at in range(1, len(whole.batches)) if whole.cut(at).records("run")[-1].type == "call"
    )
    outcomes = {
        None: ResultStatus.IN_DOUBT,
        Decision.allow(): ResultStatus.OK,
        Decision.deny("I have looked"): ResultStatus.IN_DOUBT,
    }
    for answer, expected in outcomes.items():
        tape = whole.cut(died)
        how: Any = "tell" if answer is None else "ask"
        agent = World(case).builder().with_journal(tape, on_in_doubt=how).build()
        result = await agent.resume("run")
        if answer is not None:
            result = await agent.resume("run", {result.pending[0].id: answer})
        assert result.steps[0].results[0].status is expected
        assert any(isinstance(record, RunTakenUp) for record in tape.records("run"))
        await check_identical(case, tape)


async def test_a_call_in_doubt_that_a_new_policy_does_not_let_run_again() -> None:
    """It had started, so it stays in doubt: then and when it is played."""
    case = Case((("pay",),), approver="nobody")
    whole, _ = await recorded(case)
    died = next(
        at for at in range(1, len(whole.batches)) if whole.cut(at).records("run")[-1].type == "call"
    )
    tape = whole.cut(died)

    def stricter() -> Agent:
        made = World(case).builder().with_journal(tape, on_in_doubt="ask")
        made.on_before_tool_use(
            lambda ctx: HookOutcome.block("no more"), matcher="pay", tier="policy", name="stricter"
        )
        return made.build()

    paused = await stricter().resume("run")
    result = await stricter().resume("run", {paused.pending[0].id: Decision.allow()})
    refused = result.steps[0].results[0]
    assert (refused.status, refused.decided_by) == (ResultStatus.IN_DOUBT, "stricter")
    replayed = await replay(tape, "run", stricter())
    assert replayed.identical, str(replayed)


# --- children -------------------------------------------------------------------------------------------


def parents(*, child_hook: Any = None, policy: Any = None) -> tuple[AgentBuilder, Agent]:
    """An agent that starts two children at once, and a child."""
    turns = [call("bash", command="git push"), say("I tried.")]
    child = AgentBuilder().with_id("child").with_tools(bash)
    if child_hook is not None:
        child.on_before_tool_use(child_hook, name="child's own")

    @tool
    async def both(context: ToolContext) -> str:
        """Start two at once."""
        agents = [child.with_driver(ScriptedDriver(turns)).build() for _ in range(2)]
        spawned = [context.spawn(each, "push", name=f"number-{n}") for n, each in enumerate(agents)]
        results = await asyncio.gather(*spawned)
        return " ".join(each.text for each in results)

    made = AgentBuilder().with_driver(ScriptedDriver([call("both"), say("done")])).with_tools(both)
    if policy is not None:
        made.on_before_tool_use(policy, name="policy", matcher="bash", tier="policy")
    return made, child.build(model=None)


async def test_children_are_played_too_and_policies_from_above_are_asked_in_them() -> None:
    """Without their agents being given; the first difference may be in a child."""
    tape = await record(parents()[0])
    same = await replay(tape, "run", parents()[0].build())
    assert same.identical, same
    assert same.runs == ("run", "run/0/call_1_1/1", "run/0/call_1_1/2")
    assert same.unknown == ("run/0/call_1_1/1", "run/0/call_1_1/2")
    assert "2 child runs" in str(same)
    replayed = await replay(tape, "run", parents(policy=no_push)[0].build())
    assert replayed.difference is not None
    assert replayed.difference.run == "run/0/call_1_1/1"
    assert "in 'run/0/call_1_1/1', step 1, the result of bash" in str(replayed)


async def test_the_own_hooks_of_a_child_are_asked_when_its_agent_is_given() -> None:
    """By the name it was started under, or by its agent's id."""
    tape = await record(parents()[0])
    agent, child = parents(child_hook=no_push)
    for known in ({"child": child}, {"number-0": child, "number-1": child}):
        replayed = await replay(tape, "run", agent.build(), children=known)
        assert replayed.difference is not None
        assert "child's own" in str(replayed)
    assert await replay(tape, "run", agent.build())


async def test_a_child_that_is_kept_from_starting_is_a_difference() -> None:
    """It was started then."""
    tape = await record(parents()[0])
    agent = parents()[0].on_subagent_start(lambda ctx: HookOutcome.block("no helpers")).build()
    replayed = await replay(tape, "run", agent)
    assert "no helpers" in str(replayed.difference)


async def test_a_child_that_is_not_in_the_journal_is_named() -> None:
    """What its call gave is taken as it is."""
    tape = await record(parents()[0])
    replayed = await replay(tape.records("run"), "run", parents()[0].build())
    assert replayed.identical, replayed
    assert replayed.missing == ("run/0/call_1_1/1", "run/0/call_1_1/2")
    assert "not in the journal: run/0/call_1_1/1" in str(replayed)


# --- what is given --------------------------------------------------------------------------------------


async def test_a_journal_on_disk_is_only_read(tmp_path: Path) -> None:
    """It may be one that cannot be written, or that another process is writing."""
    path = tmp_path / "journal.db"
    async with SQLiteJournal(path) as journal:
        await parents()[0].with_journal(journal).build().run("go", run_id="run")
        before = [(info, await journal.read(info.run_id)) for info in await journal.runs()]
        async with hold(journal, "run"):
            assert await replay(journal, "run", parents()[0].with_journal(journal).build())
        assert (await backtest(journal, parents()[0].build())).ok
        assert [(info, await journal.read(info.run_id)) for info in await journal.runs()] == before


@asynccontextmanager
async def hold(journal: JournalStore, run_id: str) -> AsyncIterator[None]:
    """Another driver of the run."""
    claim = await journal.claim(run_id)
    yield
    claim.give_back().result()


async def test_a_run_of_a_session_is_replayed_with_its_session(tmp_path: Path) -> None:
    """The hooks of the session are asked where they were asked then."""
    asked: list[str] = []

    def made(turns: Any = ()) -> AgentBuilder:
        return (
            builder(turns)
            .on_session_start(lambda ctx: asked.append(f"start {ctx.session_id}"))
            .on_session_end(lambda ctx: asked.append("end"))
        )

    async with SQLiteJournal(tmp_path / "journal.db") as journal:
        agent = made([say("Hello."), *TURNS]).with_journal(journal).build()
        session = await Sessions(journal).create(id="work")
        first = await session.run(agent, "Hi!")
        second = await session.run(agent, "Push.")
        then = list(asked)
        asked.clear()
        for run_id in (first.run_id, second.run_id):
            replayed = await replay(journal, run_id, made().build())
            assert replayed.identical, replayed
        assert asked == then == ["start work"]


async def test_records_in_hand_are_enough() -> None:
    """Those of a result, say."""
    result = await builder(TURNS).build().run("go", run_id="run")
    assert await replay(result.records, "run", builder().build())


async def test_a_conversation_that_continued_is_replayed_from_where_it_began() -> None:
    """The second run over a state has the first in its beginning."""
    tape = Tape()
    agent = builder([say("Hello."), *TURNS]).with_journal(tape).build()
    first = await agent.run("Hi!")
    await agent.run("Push.", state=first.state, run_id="run")
    replayed = await replay(tape, "run", builder().build())
    assert replayed.identical, replayed
    assert len(replayed.result.state.steps) == 4


async def test_wrong_use_is_refused_with_what_to_do() -> None:
    """What is no agent, no journal, no such run, or only a part of one."""
    tape = await record(parents()[0])
    agent = parents()[0].build()
    with pytest.raises(UnknownRunError, match="no run 'other'"):
        await replay(tape, "other", agent)
    with pytest.raises(UnknownRunError, match=r"no run 'other' among these.*There are: run"):
        await replay(tape.records("run"), "other", agent)
    with pytest.raises(UsageError, match="Replay 'run'"):
        await replay(tape, "run/0/call_1_1/1", agent)
    with pytest.raises(UsageError, match="takes an Agent"):
        await replay(tape, "run", parents()[0])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is not a journal"):
        await replay("journal.db", "run", agent)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="children= takes agents"):
        await replay(tape, "run", agent, children={"child": "agent"})  # type: ignore[dict-item]
    with pytest.raises(hookline.errors.JournalError, match="does not begin"):
        await replay(tape.records("run")[1:], "run", agent)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("limit", [{"tokens": 10}, {"seconds": 300.0}])
async def test_calls_that_limits_left_no_room_for_are_not_run_again(
    limit: dict[str, Any], watched: bool, tmp_path: Path
) -> None:
    """What the limits said before the calls of a turn they say again, also where it is about the time."""
    clock = FakeClock()

    def slow(state: object) -> Any:
        clock.advance(400)
        return call("act", n=1, tokens=20)

    def builder() -> AgentBuilder:
        @tool
        async def act(n: int) -> int:
            """Act."""
            return n

        made = AgentBuilder().with_driver(ScriptedDriver([slow, say("done")])).with_tools(act)
        made.with_id("agent").with_clock(clock).with_limits(**limit)
        return made.on_before_tool_use(lambda ctx: None, name="watch") if watched else made

    async with SQLiteJournal(tmp_path / "journal.db") as journal:
        ended = await builder().with_journal(journal).build().run("go", run_id="run")
        assert ended.steps[0].results[0].status is ResultStatus.NOT_RUN
        replayed = await replay(journal, "run", builder().build())
    assert replayed.identical, replayed


async def test_the_work_of_a_replay_grows_with_the_run_and_no_faster() -> None:
    """Four times the steps are four times the work, counted in lines of code that run."""

    @tool
    async def look(n: int) -> str:
        """Look."""
        return str(n)

    def make(steps: int) -> Agent:
        turns = [*(call("look", n=n) for n in range(steps - 1)), say("Done.")]
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(look)
        return builder.with_limits(steps=None).on_before_tool_use(lambda _: None).build()

    async def work(steps: int) -> int:
        result = await make(steps).run("Go.")
        agent, count = make(steps), 0

        def trace(_frame: Any, event: str, _arg: Any) -> Any:
            nonlocal count
            count += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            replayed = await replay(result.records, result.run_id, agent)
        finally:
            sys.settrace(before)
        assert replayed.identical, replayed
        return count

    assert await work(80) < 4.2 * await work(20)


# --- replay of runs that somebody outside wanted to end: the stop is taken for what it was ------------


def between(ctx: Any) -> Any:
    """Between steps, as an evaluation."""
    return ctx.forbid("interrupted", StopReason.CANCELLED)


def before(ctx: Any) -> HookOutcome | None:
    """Before the second step, as a verdict."""
    if not ctx.state.step_count:
        return None
    return HookOutcome.stop("interrupted", stop_reason=StopReason.CANCELLED)


def agent(journal: MemoryJournal | None, at: str, hook: Callable[[Any], Any] | None) -> Any:
    """An agent with a hook that reacts to a signal."""
    turns = [call("nap"), call("nap"), say("done")]
    builder = AgentBuilder().with_driver(ScriptedDriver(turns))
    if journal is not None:
        builder = builder.with_journal(journal)

    def nap() -> str:
        """Sleep."""
        return "slept"

    def interrupt(ctx: Any) -> Any:
        return hook(ctx) if hook is not None else None

    return getattr(builder.with_tools(nap), f"on_{at}")(interrupt, name="interrupt").build()


@pytest.mark.parametrize(("at", "hook"), [("should_continue", between), ("before_step", before)])
async def test_a_stop_from_outside_is_played_as_it_was(at: str, hook: Any) -> None:
    """Though nobody sends a signal now."""
    journal = MemoryJournal()
    result = await agent(journal, at, hook).run("go", run_id="run")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.CANCELLED)
    replayed = await replay(journal, "run", agent(None, at, None))
    assert replayed.identical, replayed
    assert replayed.result.stop_reason is StopReason.CANCELLED


async def test_a_stop_that_was_not_from_outside_is_judged_again() -> None:
    """A hook that no longer ends the run makes a difference."""
    journal = MemoryJournal()
    await agent(journal, "before_step", lambda ctx: HookOutcome.stop("no")).run("go", run_id="run")
    assert not (await replay(journal, "run", agent(None, "before_step", None))).identical


async def test_a_hook_sees_the_time_that_other_hooks_had_taken() -> None:
    """At every point the time is the one of then, also where a hook decides by it."""
    clock, seen = FakeClock(), list[tuple[str, float]]()

    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    def look(ctx: Any) -> HookOutcome | None:
        seen.append((ctx.point.value, ctx.now))
        clock.advance(1.5)
        steps = ctx.state.steps if ctx.point is HookPoint.BEFORE_INFERENCE else ()
        is_late = bool(steps) and ctx.now - steps[0].started_at > 20
        return HookOutcome.stop("too slow") if is_late else None

    def agent(journal: JournalStore | None) -> hookline.Agent:
        builder = AgentBuilder().with_tools(double).with_clock(clock)
        for point in HookPoint:
            if not point.around:
                builder.add_hook(point, look, name=f"look at {point.value}")
                builder.add_hook(point, lambda _: clock.advance(0.25), name=f"{point.value} too")
        if journal is None:
            return builder.build(model=None)
        turns = [call("double", n=2), call("double", n=3), say("Done.")]
        return builder.with_driver(ScriptedDriver(turns)).with_journal(journal).build()

    journal = MemoryJournal()
    result = await agent(journal).run("x", run_id="r")
    assert "too slow" in result.explain()
    then = seen.copy()
    seen.clear()
    replayed = await replay(journal, "r", agent(None))
    assert replayed.identical, replayed
    assert seen == then
