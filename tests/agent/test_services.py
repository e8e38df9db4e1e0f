"""What hooks do besides: models they ask and agents they run are on record, paid for, and not done twice."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from driven import lives
from lives import Tape, cut
from msgspec.structs import replace

from hookline import (
    AgentBuilder,
    ErrorPolicy,
    HookOutcome,
    HookPoint,
    RunStatus,
    SQLiteJournal,
    StopReason,
    ToolCall,
    ToolContext,
    tool,
)
from hookline import hook as make_hook
from hookline.agent.children import fail_idle
from hookline.agent.run_index import OUTSIDE_STEPS
from hookline.errors import ModelError, RateLimitError, UsageError
from hookline.journal import (
    EffectStarted,
    MemoryJournal,
    Record,
    RunQueued,
    fold,
    outermost,
    post_cancel,
    reopen,
    story_of,
)
from hookline.playback import backtest, replay
from hookline.sessions import Sessions
from hookline.state import InferenceRequest, InferenceResponse, Usage, UserMessage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

REQUEST = InferenceRequest((UserMessage("well?"),))


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def asking(asked: list[str], *, driver: Any = None, point: str = "after_step") -> Any:
    """A builder whose hook asks a model at a point, and notes what it said."""

    async def hook(ctx: Any) -> Any:
        answer = await ctx.run.ask_model(REQUEST, name="second", driver=driver)
        asked.append(answer.text)
        return ctx.with_metadata("second", [*(ctx.get("second") or []), answer.text])

    def turn(state: Any) -> Any:
        return [call("look", tokens=1), say("done", tokens=1)][state.step_count]

    builder = AgentBuilder().with_driver(ScriptedDriver([turn] * 9)).with_tools(look)
    return builder.add_hook(point, hook, name="second").with_clock(FakeClock())


def second(*words: Any) -> ScriptedDriver:
    """A model that says these."""
    return ScriptedDriver([say(w, tokens=100) if isinstance(w, str) else w for w in words])


def test_it_is_on_record_and_paid_for() -> None:
    """The answer has a record of its own, and its tokens count for the run and its limits."""
    result = asking([], driver=second("a", "b")).build().run_sync("go")
    progress = [
        (r.name, r.number, r.step, r.response.text) for r in result.records if r.type == "consulted"
    ]
    assert progress == [("second", 1, 0, "a"), ("second", 1, 1, "b")]
    assert result.usage.total_tokens == 202
    builder = asking([], driver=second("a", "b", "c")).with_limits(tokens=50)
    assert builder.build().run_sync("go").stop_reason is StopReason.TOKEN_LIMIT


def test_without_a_driver_the_agents_own_model_is_asked() -> None:
    """It sees what the hook asks and nothing else."""
    result = asking([], point="execution_end").build().run_sync("go")
    assert result.status is RunStatus.FAILED  # its script has no third step
    driver = ScriptedDriver([say("own"), say("done")])
    builder = asking([], point="execution_start").with_driver(driver)
    assert builder.build().run_sync("go").state.metadata == {"second": ["own"]}
    assert driver.requests[0] == REQUEST


def test_failures_are_tried_again_as_the_policy_says() -> None:
    """A rate limit is waited for; a final failure is the hook's own, and is not counted twice."""
    driver = second(RateLimitError("slow", retry_after=3), "a", "b")
    result = asking([], driver=driver).build().run_sync("go")
    assert (result.status, len(driver.requests)) == (RunStatus.COMPLETED, 3)
    lost = asking([], driver=second(ModelError("gone"))).build().run_sync("go")
    assert lost.status is RunStatus.FAILED
    assert "hook 'second' at after_step" in str(lost.error)
    stubborn = second(*[RateLimitError("slow") for _ in range(9)])
    builder = asking([], driver=stubborn).with_error_policy(ErrorPolicy(max_retries=2))
    builder.build().run_sync("go")
    assert len(stubborn.requests) == 3


@pytest.mark.parametrize("point", ["before_inference", "after_step", "should_continue"])
async def test_a_run_that_is_resumed_has_the_answer(point: str) -> None:
    """After any record: the model is not asked again for what is on record, and everything is counted once."""
    asked: list[list[str]] = []

    def build(journal: Any) -> Any:
        asked.append([])
        driver = ScriptedDriver([lambda state: say(f"at {state.step_count}", tokens=100)] * 9)
        return asking(asked[-1], driver=driver, point=point).with_journal(journal).build()

    whole, resumed = await lives(build)
    for result in resumed:
        assert result.state.metadata == whole.state.metadata
        assert result.usage == whole.usage
        consulted = [(r.step, r.number) for r in result.records if r.type == "consulted"]
        assert consulted == [(0, 1), (1, 1)]


def critic_run(journal: Any, inner: Any, heard: list[Any] | None = None) -> Any:
    """An agent whose hook runs another agent after each step."""

    async def hook(ctx: Any) -> Any:
        ctx, result = await ctx.run.spawn(ctx, inner, "judge", name="judge")
        return ctx.with_metadata("judged", [*(ctx.get("judged") or []), result.text])

    def turn(state: Any) -> Any:
        return [call("look", tokens=1), say("done", tokens=1)][state.step_count]

    builder = AgentBuilder().with_driver(ScriptedDriver([turn] * 9)).with_tools(look)
    builder.on_after_step(hook, name="judge")
    if journal is not None:
        builder.with_journal(journal)
    return builder


def judge() -> Any:
    """An agent that looks and then judges."""

    def turn(state: Any) -> Any:
        return [call("look", tokens=10), say("fine", tokens=10)][state.step_count]

    return AgentBuilder().with_driver(ScriptedDriver([turn] * 99)).with_tools(look)


async def test_an_agent_that_a_hook_runs_is_a_child() -> None:
    """It runs under the policies of the tree, and what it uses counts, in any process, once."""
    seen: list[str] = []

    def build(journal: Any) -> Any:
        builder = critic_run(journal, judge().build())
        return builder.on_before_tool_use(
            lambda ctx: seen.append(ctx.state.run_id), tier="policy", name="seen"
        ).build()

    whole, resumed = await lives(build)
    assert whole.state.metadata == {"judged": ["fine", "fine"]}
    assert whole.usage.total_tokens == 42
    places = {run_id.rsplit("/", 2)[0] for run_id in seen if run_id != "run"}
    assert places == {"run/0/judge", "run/1/judge"}
    for result in resumed:
        assert result.state.metadata == whole.state.metadata
        assert (result.usage, result.state.counters.steps) == (
            whole.usage,
            whole.state.counters.steps,
        )


async def test_children_of_calls_are_not_taken_for_those_of_hooks() -> None:
    """Whatever ids a provider gives its calls, what their children used is counted once."""

    class Numbering:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            if turn.state.step_count:
                return InferenceResponse("done")
            return InferenceResponse("", (ToolCall("1", "delegate"),))

    inner = judge().build()

    delegate = tool(_delegating(inner), name="delegate", effect="idempotent")

    def build(journal: Any) -> Any:
        builder = AgentBuilder().with_driver(Numbering()).with_tools(delegate)
        return builder.with_journal(journal).build()

    whole, resumed = await lives(build)
    assert whole.usage.total_tokens == 20
    assert {result.usage.total_tokens for result in resumed} == {20}


def _delegating(inner: Any) -> Any:
    async def delegate(context: ToolContext) -> str:
        """Hand on."""
        return str((await context.spawn(inner, "go")).text)

    return delegate


def test_what_hooks_around_the_child_say_counts() -> None:
    """A hook that forbids at the child's start ends the run it was said in."""
    builder = critic_run(None, judge().build())
    builder.on_subagent_start(lambda ctx: ctx.forbid("no judges"), name="none")
    result = builder.build().run_sync("go")
    assert (result.status, result.state.ending.reason) == (RunStatus.STOPPED, "no judges")


def test_a_child_of_a_hook_cannot_wait() -> None:
    """An approval that nobody gives is an error of the hook, with what to do."""
    inner = judge().on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask").build()
    result = critic_run(None, inner).build().run_sync("go")
    assert result.status is RunStatus.FAILED
    assert "a hook cannot wait" in str(result.error)


def test_it_must_be_said_on_whose_behalf() -> None:
    """Names keep the answers apart, so there must be one; and only an agent can be run."""

    async def nameless(ctx: Any) -> Any:
        await ctx.run.ask_model(REQUEST, name="")

    async def no_agent(ctx: Any) -> Any:
        await ctx.run.spawn(ctx, "agent", "x", name="x")

    for hook, words in ((nameless, "a text that is not empty"), (no_agent, "spawn takes an Agent")):
        builder = AgentBuilder().with_driver(ScriptedDriver([say("x")])).on_before_step(hook)
        error = builder.build().run_sync("go").error
        assert words in str(error)
        assert isinstance(error.__cause__, UsageError)


async def test_replay_gives_the_hook_the_recorded_answer() -> None:
    """A replayed run asks no model for a hook either. A hook that asks something new is a difference."""
    from hookline import replay

    tape = Tape()
    await asking([], driver=second("a", "b")).with_journal(tape).build().run("go", run_id="run")
    silent = second()
    again = await replay(tape, "run", asking([], driver=silent).build())
    assert again.identical, again
    assert silent.requests == []

    async def third(ctx: Any) -> None:
        await ctx.run.ask_model(REQUEST, name="third", driver=silent)

    more = asking([], driver=silent).on_after_step(third).build()
    assert "the answer of a model to 'third' is not on record here" in str(
        await replay(tape, "run", more)
    )


@pytest.mark.parametrize("children", [True, False])
async def test_replay_uses_no_tool_of_an_agent_that_a_hook_runs(children: bool) -> None:
    """Neither when that agent is known to the replay, nor when only its record is."""
    from hookline import replay

    used: list[str] = []

    @tool(effect="pure")
    def look() -> str:
        """Look, and leave a trace."""
        used.append("looked")
        return "seen"

    def turn(state: Any) -> Any:
        return [call("look"), say("fine")][state.step_count]

    inner = AgentBuilder().with_driver(ScriptedDriver([turn] * 99)).with_tools(look).build()
    tape = Tape()
    await critic_run(tape, inner).build().run("go", run_id="run")
    assert used == ["looked"] * 2
    again = await replay(
        tape, "run", critic_run(None, inner).build(), children={"judge": inner} if children else {}
    )
    assert again.identical, again
    assert used == ["looked"] * 2
    tape.written = [record for record in tape.written if record.run_id == "run"]
    lost = await replay(tape, "run", critic_run(None, inner).build())
    assert "is not on record" in str(lost)


def gated(judge: Any, journal: Any, **hooks: Any) -> AgentBuilder:
    """Two calls in a step, each judged by a model that is asked by a hook."""

    @tool(effect="pure")
    def shell(command: str) -> str:
        """Run it."""
        return f"ran {command}"

    async def second_opinion(ctx: Any) -> HookOutcome | None:
        question = f"Is this safe? {ctx.tool_call.args['command']}"
        request = InferenceRequest((UserMessage(question),))
        answer = await ctx.run.ask_model(request, name="second", driver=judge)
        return HookOutcome.block("a second model objects") if answer.text == "no" else None

    both = calls(call("shell", command="ls"), call("shell", command="rm -rf /"))
    driver = ScriptedDriver([lambda state: [both, say("done")][state.step_count]] * 2)
    builder = AgentBuilder().with_driver(driver).with_tools(shell).with_journal(journal)
    return builder.on_before_tool_use(second_opinion, name="second")


class Judge:
    """A model that knows what is safe, and whether it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def infer(self, request: Any, turn: Any) -> Any:
        question = request.messages[-1].text
        self.asked.append(question)
        return InferenceResponse("no" if "rm" in question else "yes", usage=Usage(1, 1, 1))


async def test_an_answer_about_one_call_is_never_taken_for_another() -> None:
    """Resumed after any record: hooks that gave their verdict do not ask again, and nobody gets their answers."""
    whole = Tape()
    first = await gated(Judge(), whole).build().run("go", run_id="run")
    assert [result.status for result in first.steps[0].results] == ["ok", "blocked"]
    for at in whole.cuts():
        judge = Judge()
        result = await gated(judge, cut(whole, at)).build().resume("run")
        assert [each.status for each in result.steps[0].results] == ["ok", "blocked"], at
        assert result.usage == first.usage, at


@pytest.mark.parametrize("point", ["session_start", "execution_start", "prompt_submit"])
async def test_a_run_that_has_not_begun_is_not_written_by_a_hook_that_asks_a_model(
    point: str,
) -> None:
    """There would be a run without its prompt, or one whose gate is not asked again."""
    tape, written = Tape(), []

    async def gate(ctx: Any) -> None:
        request = InferenceRequest((UserMessage("May it?"),))
        await ctx.run.ask_model(request, name="gate", driver=Judge())
        written.append(len(tape.written))

    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_journal(tape)
    result = await agent.add_hook(point, gate, name="gate").build().run("go", run_id="run")
    assert (result.text, written) == ("done", [0])
    assert "consulted" in [record.type for record in tape.written]


# --- what must not be done twice ----------------------------------------------------------------------


class Batches(Tape):
    """A store that knows where one batch ends: a process dies between two of them."""

    def __init__(self, written: Sequence[Record] = ()) -> None:
        super().__init__(written)
        self.ends: list[int] = []

    def write(self, records: Sequence[Record]) -> None:
        self.written += records
        self.ends.append(len(self.written))


SUBMITTED = RunQueued("run", 0, 1.0, agent_id="agent", prompt="go")


Done = list[tuple[int, str]]
"""What hooks did, with the number of records that were written by then."""


def careful(tape: Tape, done: Done, *points: str) -> Any:
    """An agent with a child, whose hooks at these points do something once; one of its calls waits for a person."""

    async def hook(ctx: Any, call_next: Any = None) -> Any:
        if await ctx.run.start_once(ctx, "mail"):
            call_id = getattr(getattr(ctx, "tool_call", None), "id", "")
            is_outside = ctx.point in OUTSIDE_STEPS
            step = "" if is_outside else getattr(ctx, "step_index", ctx.state.step_count)
            about = f"{call_id} {getattr(ctx, 'child_run_id', '')}"
            done.append((len(tape.written), f"{ctx.point.value} {ctx.run.run_id} {step} {about}"))
        return await call_next(ctx) if call_next is not None else None

    async def plain(ctx: Any) -> None:
        await hook(ctx)

    async def around(ctx: Any, call_next: Any) -> Any:
        return await hook(ctx, call_next)

    def turn(state: Any) -> Any:
        return [call("delegate"), calls(call("look"), call("pay")), say("done")][state.step_count]

    def inner_turn(state: Any) -> Any:
        return [call("look"), say("fine")][state.step_count]

    def hooked(builder: Any) -> Any:
        for point in points:
            hook_there = around if HookPoint(point).around else plain
            builder.add_hook(point, hook_there, name=f"once at {point}")
        return builder

    builder = AgentBuilder().with_id("child").with_driver(ScriptedDriver([inner_turn] * 99))
    inner = hooked(builder.with_tools(look)).build()

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "task")).text

    @tool(effect="idempotent")
    async def pay() -> str:
        """Pay."""
        return "paid"

    builder = AgentBuilder().with_id("agent").with_driver(ScriptedDriver([turn] * 99))
    builder.with_tools(look, delegate, pay).with_clock(FakeClock()).with_journal(tape)
    builder.on_before_tool_use(
        lambda ctx: HookOutcome.ask("sure?"), matcher="pay", tier="policy", name="asks"
    )
    return hooked(builder).build()


async def until_over(tape: Tape, agent: Any) -> Any:
    """The result of a submitted run whose questions are answered with yes."""
    pending = fold(tape.records("run")).settled.pending
    while True:
        result = await agent.resume("run", {each.id: True for each in pending})
        if not (pending := result.pending):
            return result


EVERYWHERE = tuple(point.value for point in HookPoint)


@pytest.mark.parametrize("points", [EVERYWHERE, *((each,) for each in EVERYWHERE)], ids=str)
async def test_what_is_started_once_is_not_started_again(points: tuple[str, ...]) -> None:
    """A process may die between any two commits, also before the run has begun, in a child, and around a pause."""
    whole, done = Batches([SUBMITTED]), Done()
    expected = await until_over(whole, careful(whole, done, *points))
    wanted = Counter(what for _, what in done)
    assert set(wanted.values()) <= {1}, wanted
    for at in whole.ends:
        again, now = Batches(whole.written[:at]), Done()
        result = await until_over(again, careful(again, now, *points))
        assert (result.text, result.status) == ("done", RunStatus.COMPLETED)
        assert result.state.messages == expected.state.messages
        before = [what for written, what in done if written <= at]
        both = Counter([*before, *(what for _, what in now)])
        assert not both - wanted, f"cut after {at}"
        # Nothing is lost. (With its answer the run may not ask for permission again.)
        lost = {what for what in wanted - both if not what.startswith("permission_request run ")}
        assert not lost, f"cut after {at}"


async def test_a_hook_around_a_step_that_makes_two_starts_something_once() -> None:
    """If the process dies in the second step, the hook begins again around that, and it is the same hook."""

    def build(tape: Tape, done: Done) -> Any:
        async def think_twice(ctx: Any, call_next: Any) -> Any:
            made = await call_next(ctx)
            if await ctx.run.start_once(ctx, "mail"):
                done.append((len(tape.written), "mail"))
            return await call_next(made)

        driver = ScriptedDriver([lambda state: say(f"answer {state.step_count}")] * 9)
        builder = AgentBuilder().with_id("agent").with_driver(driver).with_clock(FakeClock())
        return builder.with_journal(tape).around_step(think_twice, name="twice").build()

    whole, done = Batches([SUBMITTED]), Done()
    assert (await until_over(whole, build(whole, done))).text == "answer 1"
    assert len(done) == 1
    for at in whole.ends:
        again, now = Batches(whole.written[:at]), Done()
        await until_over(again, build(again, now))
        assert len([each for each in done if each[0] <= at] + now) == 1, f"cut after {at}"


async def test_steps_of_an_earlier_run_are_not_those_of_a_hook() -> None:
    """A session goes on with a state in which a hook wanted one more step: that was another hook call."""
    answers: list[tuple[int, bool]] = []

    async def think_twice(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx)
        answers.append((ctx.step_index, await ctx.run.start_once(ctx, "mail")))
        return await call_next(made) if made.step.text == "think" else made

    def build(*turns: Any) -> Any:
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(look)
        return builder.around_step(think_twice, name="twice").with_journal(journal).build()

    journal = MemoryJournal()
    session = await Sessions(journal).create(id="s")
    await session.run(build(call("look"), say("think"), say("done")), "one")
    assert answers == [(0, True), (1, True)]
    await session.rewind(to=2)
    answers.clear()
    await session.run(build(call("look"), call("look"), say("done")), "two")
    assert answers == [(0, True), (1, True), (2, True)]


async def test_a_run_that_ended_before_its_next_step_stays_outside_of_it() -> None:
    """A process died in a step, and the next one ended the run before it began the step again."""

    def build(tape: Tape, seen: list[int | None], fails: bool) -> Any:
        def refuse(ctx: Any) -> None:
            if fails:
                raise ValueError("no")

        async def page(ctx: Any) -> None:
            seen.append(ctx.step_index)
            await ctx.run.start_once(ctx, "page")

        asked = replace(make_hook("execution_start", refuse, name="refuses"), each_process=True)
        driver = ScriptedDriver([lambda state: call("look")] * 9)
        builder = AgentBuilder().with_id("agent").with_driver(driver).with_clock(FakeClock())
        builder.with_tools(look).with_journal(tape).with_limits(steps=3).with_hooks(asked)
        return builder.on_agent_failed(page, name="page").build()

    whole, unseen = Batches([SUBMITTED]), list[int | None]()
    await build(whole, unseen, False).resume("run")
    in_step = next(at for at in whole.ends if whole.written[at - 1].type == "call")
    died, first = Batches(whole.written[:in_step]), list[int | None]()
    await build(died, first, True).resume("run")
    again, second = Batches(died.written[: died.ends[-2]]), list[int | None]()
    await build(again, second, True).resume("run")
    assert (first, second) == ([None], [None])


async def test_hooks_on_the_way_out_see_the_same_step_after_a_crash() -> None:
    """What they start once may be named by it, and what they ask models is found by it."""

    def build(tape: Tape, seen: list[int | None]) -> Any:
        def fail(ctx: Any) -> None:
            if ctx.state.step_count:
                raise ValueError("no")

        async def page(ctx: Any) -> None:
            seen.append(ctx.step_index)
            await ctx.run.start_once(ctx, "page")

        driver = ScriptedDriver([lambda state: call("look")] * 9)
        builder = AgentBuilder().with_id("agent").with_driver(driver).with_clock(FakeClock())
        builder.with_tools(look).with_journal(tape).on_before_step(fail, name="fails")
        return builder.on_agent_failed(page, name="page").build()

    whole, seen = Batches([SUBMITTED]), list[int | None]()
    await build(whole, seen).resume("run")
    assert seen == [1]
    for at in whole.ends:
        again, now = Batches(whole.written[:at]), list[int | None]()
        await build(again, now).resume("run")
        assert now in ([1], []), f"cut after {at}"


@pytest.mark.parametrize("ends", ["cancel", "fail"])
async def test_a_run_can_be_ended_wherever_its_process_died(ends: str) -> None:
    """Also while a hook of a child that has not begun does something once: the child belongs to the run already."""
    whole = Batches([SUBMITTED])
    await until_over(whole, careful(whole, Done(), *EVERYWHERE))
    for at in whole.ends:
        again = Batches(whole.written[:at])
        ids = list(dict.fromkeys(record.run_id for record in again.written))
        assert {await outermost(again, each) for each in ids} == {"run"}
        if (await story_of(again.records("run"), again)).is_over:
            continue
        if ends == "cancel":
            await post_cancel(again, ids[-1], by="ann")
            await careful(again, Done(), *EVERYWHERE).resume("run")
        else:
            durable = await reopen(again, "run", ())
            await fail_idle(durable, 1.0, "too often")
            await durable.close()
        assert all(fold(again.records(each)).is_over for each in ids), f"cut after {at}"
        assert not again.claimed


async def test_a_child_that_has_not_begun_is_resumed_with_its_run() -> None:
    """Its hook does something once, and its process dies there: an error names the run to resume."""
    whole = Batches([SUBMITTED])
    await until_over(whole, careful(whole, Done(), "execution_start"))
    at = next(
        at for at in whole.ends
        if isinstance(last := whole.written[at - 1], EffectStarted) and "/" in last.run_id
    )  # fmt: skip
    again = Batches(whole.written[:at])
    with pytest.raises(UsageError, match="is a part of run 'run'"):
        await careful(again, Done()).resume(again.written[-1].run_id)


async def test_two_names_two_calls_and_two_steps_are_different() -> None:
    """The same name is started once for each call of each step, and again only under another name."""
    answers: list[tuple[str, bool]] = []

    async def hook(ctx: Any) -> None:
        for name in ("mail", "page", "mail"):
            answers.append((name, await ctx.run.start_once(ctx, name)))

    driver = ScriptedDriver([calls(call("look"), call("look")), call("look"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(look)
    result = await builder.on_before_tool_use(hook, name="once").build().run("go")
    assert answers == [("mail", True), ("page", True), ("mail", False)] * 3
    effects = [each for each in result.records if isinstance(each, EffectStarted)]
    assert [(each.step, each.name) for each in effects] == [
        (0, "mail"), (0, "page"), (0, "mail"), (0, "page"), (1, "mail"), (1, "page"),
    ]  # fmt: skip


async def test_a_replay_starts_nothing() -> None:
    """Neither does a back-test: what was done then is not done again."""
    tape, done = Batches([SUBMITTED]), Done()
    await until_over(tape, careful(tape, done, "before_step", "stop"))
    count = len(done)
    agent = careful(Batches(), done, "before_step", "stop")
    played = await replay(tape, "run", agent)
    assert played.identical, played
    tested = await backtest(tape.written, agent)
    assert len(done) == count, tested


async def test_a_new_run_is_not_written_before_it_begins() -> None:
    """Nobody would take it up: there is no prompt on record."""
    tape, written = Batches(), list[int]()

    async def hook(ctx: Any) -> None:
        assert await ctx.run.start_once(ctx, "mail")
        written.append(len(tape.written))

    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_journal(tape)
    await builder.on_execution_start(hook, name="once").build().run("go", run_id="run")
    assert written == [0]
    assert "effect" in [record.type for record in tape.written]


async def test_an_effect_needs_a_name() -> None:
    """Without one, two effects of a hook would be taken for each other."""

    async def hook(ctx: Any) -> None:
        await ctx.run.start_once(ctx, "")

    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    result = await builder.on_before_step(hook, name="once").build().run("go")
    assert "name= takes a text that is not empty" in str(result.error)


@pytest.mark.parametrize("asks", ["model", "agent", "effect"])
async def test_a_back_test_takes_hooks_before_and_after_such_work_for_one_round(asks: str) -> None:
    """One hook changes the call, the next one has something done and blocks: the same hooks decide the same."""
    tape = MemoryJournal()

    async def second_hook(ctx: Any) -> Any:
        if asks == "model":
            await ctx.run.ask_model(REQUEST, name="judge", driver=second("no"))
        elif asks == "agent":
            ctx, _ = await ctx.run.spawn(ctx, inner, "judge", name="judge")
        else:
            await ctx.run.start_once(ctx, "mail")
        return HookOutcome.block("no")

    @tool
    def shell(command: str) -> str:
        """Run."""
        return command

    inner = AgentBuilder().with_driver(ScriptedDriver([say("no")] * 9)).build()
    driver = ScriptedDriver([call("shell", command="x"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(shell).with_journal(tape)
    builder.on_before_tool_use(lambda ctx: ctx.with_args(command="y"), name="first")
    agent = builder.on_before_tool_use(second_hook, name="second").build()
    result = await agent.run("go", run_id="run")
    assert result.steps[0].results[0].reason == "no"
    played = await replay(tape, "run", agent)
    assert played.identical, played
    tested = await backtest(tape, agent)
    assert "no verdict would change" in str(tested)
    assert "could not be followed" not in str(tested)


@pytest.mark.parametrize("point", ["session_start", "execution_start", "prompt_submit"])
def test_a_run_that_died_before_it_began_waits_as_before(point: str, tmp_path: Path) -> None:
    """A queued one is queued, and one that had paused is paused: in the list, for its session, and for workers."""
    code = (
        "import os, sys\n"
        "from hookline import AgentBuilder, HookOutcome, SQLiteJournal\n"
        "from hookline.testing import ScriptedDriver, call, say\n"
        "def pay() -> str:\n"
        "    'Pay.'\n"
        "    return 'paid'\n"
        "async def dies(ctx):\n"
        "    if await ctx.run.start_once(ctx, 'mail'):\n"
        "        os._exit(9)\n"
        "journal = SQLiteJournal(sys.argv[1])\n"
        "driver = ScriptedDriver([call('pay'), say('done')][int(sys.argv[3]):])\n"
        "builder = AgentBuilder().with_driver(driver).with_tools(pay).with_journal(journal)\n"
        "builder.on_before_tool_use(lambda ctx: HookOutcome.ask('?'), tier='policy', name='asks')\n"
        "builder.add_hook(sys.argv[2], dies, name='dies')\n"
        "result = builder.build().resume_sync('run', {each: True for each in sys.argv[4:]})\n"
        "print(result.status.value, *(each.id for each in result.pending))\n"
    )

    def go(*words: str) -> str:
        argv = [sys.executable, "-c", code, str(tmp_path / "runs.db"), point, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 9), done.stderr
        return done.stdout.strip()

    def status() -> str:
        with SQLiteJournal(tmp_path / "runs.db") as journal:
            assert journal.check_sync().ok
            (info,) = journal.runs_sync()
            return info.status.value

    with SQLiteJournal(tmp_path / "runs.db") as journal:
        claim = journal.claim_sync("run")
        claim.write([SUBMITTED]).result()
        claim.give_back().result()
    assert (go("0"), status()) == ("", "queued")
    paused, question = go("0").split()
    assert (paused, status()) == ("paused", "paused")
    assert (go("1", question), status()) == ("completed", "completed")


@pytest.mark.parametrize("order", ["spawn", "start spawn", "spawn start", "spawn start spawn"])
@pytest.mark.parametrize("point", ["execution_start", "prompt_submit", "before_step"])
async def test_children_of_hooks_before_the_run_are_not_started_twice(
    point: str, order: str
) -> None:
    """Whatever is committed of the beginning, the child is found again; and the run has its prompt."""

    def build(tape: Tape, done: Done) -> Any:
        async def inner_hook(ctx: Any) -> None:
            if await ctx.run.start_once(ctx, "mail"):
                done.append((len(tape.written), f"inner {ctx.run.run_id}"))

        async def hook(ctx: Any) -> Any:
            for number, what in enumerate(order.split()):
                if what == "spawn":
                    ctx, _ = await ctx.run.spawn(ctx, inner, "judge it", name="judge")
                elif await ctx.run.start_once(ctx, f"mail {number}"):
                    done.append((len(tape.written), f"outer {number} {ctx.state.step_count}"))
            return ctx

        builder = AgentBuilder().with_id("inner").with_driver(ScriptedDriver([say("fine")] * 9))
        inner = builder.on_before_step(inner_hook, name="inner").build()
        driver = ScriptedDriver([lambda state: [call("look"), say("done")][state.step_count]] * 9)
        builder = AgentBuilder().with_id("agent").with_driver(driver).with_tools(look)
        return builder.with_journal(tape).add_hook(point, hook, name="hook").build()

    whole, done = Batches([SUBMITTED]), Done()
    expected = await build(whole, done).resume("run")
    assert expected.text == "done"
    for at in whole.ends:
        again, now = Batches(whole.written[:at]), Done()
        result = await build(again, now).resume("run")
        assert result.state.messages == expected.state.messages, f"cut after {at}"
        before = [what for written, what in done if written <= at]
        both = [*before, *(what for _, what in now)]
        assert sorted(both) == sorted(what for _, what in done), f"cut after {at}"
        played = await replay(again, "run", build(Batches(), Done()))
        assert played.identical, f"cut after {at}: {played}"


async def test_the_name_of_an_effect_may_be_redacted() -> None:
    """The record has the redacted name, and a process that finds it knows that it is the same."""

    def redact(value: Any) -> Any:
        text = json.dumps(value)
        return json.loads(text.replace("Visa", "***")) if "Visa" in text else value

    async def hook(ctx: Any) -> None:
        if await ctx.run.start_once(ctx, f"charge {ctx.prompt}"):
            done.append(ctx.prompt)

    def build(tape: Tape) -> Any:
        builder = AgentBuilder().with_driver(ScriptedDriver([say("ok")])).with_journal(tape)
        return builder.with_redaction(redact).on_prompt_submit(hook, name="once").build()

    done: list[str] = []
    queued = RunQueued("run", 0, 1.0, agent_id="agent", prompt="card Visa")
    whole = Batches([queued])
    await build(whole).resume("run")
    assert len(done) == 1
    at = next(at for at in whole.ends if isinstance(whole.written[at - 1], EffectStarted))
    await build(Batches(whole.written[:at])).resume("run")
    assert len(done) == 1


def test_it_must_be_awaited() -> None:
    """A hook that is not async would start it each time."""
    driver = ScriptedDriver([say("done")])

    def hook(ctx: Any) -> None:
        if ctx.run.start_once(ctx, "mail"):
            raise AssertionError

    result = AgentBuilder().with_driver(driver).on_before_step(hook).build().run_sync("go")
    assert "start_once was not awaited" in str(result.error)


def test_what_may_be_lost_is_not_started(tmp_path: Path) -> None:
    """The end of the journal was lost, and that was accepted: the step may have been made, and the effect with it."""
    started: list[int] = []

    async def hook(ctx: Any) -> None:
        if await ctx.run.start_once(ctx, "mail"):
            started.append(ctx.step_index)

    def turn(state: Any) -> Any:
        return [call("look"), call("look"), say("done")][state.step_count]

    def build(journal: SQLiteJournal) -> Any:
        builder = AgentBuilder().with_driver(ScriptedDriver([turn] * 9)).with_tools(look)
        return builder.with_journal(journal).on_before_step(hook, name="once").build()

    path, other = tmp_path / "runs.db", tmp_path / "cut.db"
    with SQLiteJournal(path) as journal:
        build(journal).run_sync("go", run_id="run")
        records = journal.read_sync("run")
    assert started == [0, 1, 2]
    with SQLiteJournal(other) as journal:
        claim = journal.claim_sync("run")
        first = next(each for each in records if each.type == "step")
        claim.write(records[: first.seq + 1]).result()
        claim.give_back().result()
    shutil.copyfile(f"{path}-commits", f"{other}-commits")
    with SQLiteJournal(other, accept_loss=True) as journal:
        assert build(journal).resume_sync("run").text == "done"
    assert started == [0, 1, 2]


async def test_hooks_around_calls_at_the_same_time_get_their_own_answers_again() -> None:
    """Each asks the same of a child and of a model, while hooks of the other call are asked. Nothing is made twice."""

    @tool(effect="idempotent")
    async def mark(n: int) -> str:
        """Mark."""
        await asyncio.sleep(0)
        return f"marked {n}"

    def build(tape: Tape, pairs: dict[str, str]) -> Any:
        async def wait(ctx: Any) -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        async def around(ctx: Any, call_next: Any) -> Any:
            if ctx.tool_call.args["n"] == 2:
                await asyncio.sleep(0)
            ctx, result = await ctx.run.spawn(ctx, critic, "check it", name="critic")
            answer = await ctx.run.ask_model(REQUEST, name="judge", driver=second("fine"))
            pairs[ctx.tool_call.id] = f"{result.state.run_id} {answer.text}"
            return await call_next(ctx)

        critic = AgentBuilder().with_driver(ScriptedDriver([say("yes")] * 9)).build()
        both = calls(call("mark", n=1), call("mark", n=2))
        driver = ScriptedDriver([lambda state: [both, say("done")][state.step_count]] * 9)
        builder = AgentBuilder().with_driver(driver).with_tools(mark).with_journal(tape)
        return builder.on_subagent_start(wait).around_tool_use(around).build()

    whole, pairs = Batches([SUBMITTED]), dict[str, str]()
    await build(whole, pairs).resume("run")
    assert len(set(pairs.values())) == 2
    for at in whole.ends:
        again, found = Batches(whole.written[:at]), dict[str, str]()
        assert (await build(again, found).resume("run")).text == "done"
        assert found.items() <= pairs.items(), f"cut after {at}"
        kinds = Counter(each.type for each in again.written if each.run_id == "run")
        assert (kinds["child_started"], kinds["consulted"]) == (2, 2), f"cut after {at}"


async def test_hooks_at_errors_of_two_calls_get_their_own_answers_again() -> None:
    """They ask the same, and the process dies after the first answer, or after both."""

    @tool(effect="idempotent")
    async def fail(n: int) -> str:
        """Fail."""
        raise ValueError(f"error {n}")

    def build(tape: Tape, answers: dict[str, str]) -> Any:
        async def judge(ctx: Any) -> None:
            call_id = ctx.tool_call.id
            driver = second(f"about {call_id}")
            answers[call_id] = (await ctx.run.ask_model(REQUEST, name="judge", driver=driver)).text

        both = calls(call("fail", n=1), call("fail", n=2))
        driver = ScriptedDriver([lambda state: [both, say("done")][state.step_count]] * 9)
        builder = AgentBuilder().with_driver(driver).with_tools(fail).with_journal(tape)
        return builder.on_error(judge).build()

    whole, answers = Batches([SUBMITTED]), dict[str, str]()
    await build(whole, answers).resume("run")
    assert answers == {each: f"about {each}" for each in answers}
    assert len(answers) == 2
    for at in range(1, len(whole.written)):
        found = dict[str, str]()
        await build(Batches(whole.written[:at]), found).resume("run")
        assert found.items() <= answers.items(), f"cut after {at}"
