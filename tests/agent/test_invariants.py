"""What holds whatever hooks, tools and models do: random scripts, random hooks, every way of driving a run."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    ErrorPolicy,
    HookOutcome,
    HookPoint,
    RunResult,
    RunStatus,
    ToolContext,
    ToolResult,
    tool,
)
from hookline.errors import ModelError, RateLimitError
from hookline.journal import RunFinished, StatusChanged, decode, encode, fold
from hookline.state import Log, StepType, check_transcript
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

# --- what can happen ----------------------------------------------------------------------------------

CALLS = {
    "fine": call("fine", n=1),
    "other": call("fine", n=2),
    "fails": call("fails", n=1),
    "flaky": call("flaky", n=1),
    "hangs": call("hangs", n=1),
    "odd": call("odd", n=1),
    "unknown": call("unknown", n=1),
    "wrong": call("fine", n="many"),
    "child": call("child", n=1),
}
TURNS: dict[str, Any] = {
    "text": say("hm", tokens=3),
    "down": ModelError("down"),
    "slow": RateLimitError("slow"),
}
POINTS = [point.value for point in HookPoint if point != "before_compact"]
ACTIONS = (
    "block stop ask allow crash cancelled timeout cancel false metadata message forbid request "
    "rewrite misfit supply yes no edit drop respond unspeakable"
).split()
# No time limit around an action: whether what it wraps makes it in time is up to the machine.
AROUND_ACTIONS = "pass crash cancelled cancel skip twice change nothing".split()


class Hook(NamedTuple):
    """What a hook does, the how-manyth time it is asked."""

    point: str
    action: str
    nth: int
    tier: str
    on_failure: str
    scope: str


class Case(NamedTuple):
    """One random run."""

    script: tuple[Any, ...]
    hooks: tuple[Hook, ...]
    approver: str
    answers: tuple[str, ...]
    cancel_at: int | None = None
    policy: str = "default"
    asking: str = ""
    """The tier of a hook that asks about every call of one tool; empty for none."""


batches = st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=3).map(tuple)
turns = st.one_of(batches, batches, st.sampled_from(list(TURNS)))
OFTEN = ["before_tool_use", "before_tool_use", "after_tool_use", "permission_request"]


@st.composite
def hooks(draw: st.DrawFn) -> Hook:
    """A hook that can be registered."""
    point = draw(st.sampled_from([*POINTS, *OFTEN, *OFTEN]))
    around = point.startswith("around")
    action = draw(st.sampled_from(AROUND_ACTIONS if around else ACTIONS))
    tier = "hook" if around else draw(st.sampled_from(["hook", "hook", "policy", "observer"]))
    on_failure = "closed" if tier == "policy" else draw(st.sampled_from(["closed", "open"]))
    scope = draw(st.sampled_from(["self", "tree"]))
    return Hook(point, action, draw(st.integers(0, 2)), tier, on_failure, scope)


cases = st.builds(
    Case,
    script=st.lists(turns, min_size=1, max_size=4).map(tuple),
    hooks=st.lists(hooks(), max_size=4).map(tuple),
    approver=st.sampled_from(["none", "none", "yes", "deny"]),
    answers=st.lists(st.sampled_from(["yes", "no", "edit", "later"]), min_size=1, max_size=4).map(
        tuple
    ),
    cancel_at=st.one_of(st.none(), st.none(), st.integers(0, 40)),
    policy=st.sampled_from(["default", "default", "stop", "retry_tools", "retry_all"]),
    asking=st.sampled_from(["", "hook", "policy"]),
)

POLICIES = {
    "default": ErrorPolicy(),
    "stop": ErrorPolicy.stop_on_any_error(),
    "retry_tools": ErrorPolicy.retry_tool_errors(1),
    "retry_all": ErrorPolicy.retry_all(1),
}
DECISIONS = {"yes": Decision.allow(), "no": Decision.deny("no"), "edit": Decision.edit(n=5)}


# --- doing it -----------------------------------------------------------------------------------------


class Checked(ScriptedDriver):
    """A scripted driver that notes every conversation it is shown, and never runs out of things to say."""

    def __init__(self, turns: list[Any], world: World) -> None:
        super().__init__(turns)
        self.world = world

    async def infer(self, request: Any, turn: Any) -> Any:
        self.world.shown.append(tuple(request.messages))
        if len(self.requests) >= len(self.turns):
            self.turns.append(say("that is all"))
        return await super().infer(request, turn)


# Making tools is slow, so they are made once and look for the world they are in.


def note(context: ToolContext) -> World:
    """A tool ran; gives the world it ran in."""
    WORLDS[-1].ran.append(context.idempotency_key)
    return WORLDS[-1]


@tool
async def fine(n: int, context: ToolContext) -> int:
    """Work."""
    note(context)
    await asyncio.sleep(0)
    return n


@tool
async def fails(n: int, context: ToolContext) -> int:
    """Fail."""
    note(context)
    raise ValueError("failed")


@tool(effect="pure")
async def flaky(n: int) -> int:
    """Fail, and be safe to run again."""
    raise ConnectionError("again")


@tool(timeout=0.001)
async def hangs(n: int, context: ToolContext) -> int:
    """Hang."""
    note(context)
    await asyncio.sleep(60)
    return n


@tool
async def odd(n: int, context: ToolContext) -> Any:
    """Give what is not JSON."""
    note(context)
    return object()


@tool
async def child(n: int, context: ToolContext) -> str:
    """Delegate."""
    world = WORLDS[-1]
    result = await context.spawn(world.child, "help")
    world.shown.append(tuple(result.state.messages))
    return str(result.status.value)


WORLDS: list[World] = []
"""The latest is the one that is running."""


class World:
    """An agent made of a case, and everything that is seen of its runs."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.ran: list[str] = []
        self.entered: list[str] = []
        self.shown: list[
            tuple[Any, ...]
        ] = []  # checked in the end: in here an error would be theirs
        self.heard = 0
        self.agent: Agent = self._build()
        WORLDS[:] = [self]

    def _child(self) -> Agent:
        return (
            AgentBuilder()
            .with_driver(Checked([calls(CALLS["fine"], CALLS["other"])] * 9, self))
            .with_tools(fine)
            .with_clock(self.clock)
            .with_id("child")
            .with_limits(steps=2)
            .build()
        )

    def _build(self) -> Agent:
        case = self.case
        self.clock = FakeClock()
        self.child = self._child()
        script = [
            TURNS[turn] if isinstance(turn, str) else calls(*(CALLS[name] for name in turn))
            for turn in case.script
        ]
        agent = (
            AgentBuilder()
            .with_driver(Checked(script, self))
            .with_tools(fine, fails, flaky, hangs, odd, child)
            .with_clock(self.clock)
            .with_id("agent")
            .with_limits(steps=6, objections=2)
            .with_error_policy(POLICIES[case.policy])
            .on_event(self.listen)
        )
        if case.approver != "none":
            agent.with_approver("deny" if case.approver == "deny" else (lambda _: True))
        for point in ("execution_start", "execution_end", "after_step"):
            agent.add_hook(point, self.enter, priority=10_000, name="enter")
        if case.asking:
            agent.on_before_tool_use(
                lambda ctx: HookOutcome.ask("?"),
                matcher="fine",
                tier=case.asking,
                scope="tree",
                name="ask",
            )
        for number, each in enumerate(case.hooks):
            agent.add_hook(
                each.point,
                self.around(each) if each.point.startswith("around") else self.hook(each),
                name=f"hook-{number}",
                tier=each.tier,
                on_failure=each.on_failure,
                scope=each.scope,
                timeout=0.001 if each.action == "timeout" else None,
            )
        return agent.build()

    def enter(self, ctx: Any) -> None:
        """Asked first at the points that must pair up."""
        self.entered.append(ctx.point.value)

    def listen(self, record: Any) -> None:
        """Cancels the run at some record."""
        self.heard += 1
        if self.heard == self.case.cancel_at:
            self.agent.cancel("run", "from a listener")

    def hook(self, each: Hook) -> Any:
        """A hook that does its one thing once."""
        asked = itertools.count()

        async def act(ctx: Any) -> Any:
            self.shown.append(tuple(ctx.state.messages))
            if each.action != "timeout":  # one that has a time limit never waits, unless forever
                await asyncio.sleep(0)  # somewhere to be interrupted
            return await self.act(each.action, ctx) if next(asked) == each.nth else None

        return act

    async def act(self, action: str, ctx: Any) -> Any:
        """One thing a hook may do, sensible at its point or not."""
        if action in ("block", "stop", "ask", "allow"):
            return getattr(HookOutcome, action)(f"{action} at {ctx.point}")
        if action in ("forbid", "request"):
            return ctx.forbid("enough") if action == "forbid" else ctx.request_continue("more")
        match action:
            case "crash":
                raise RuntimeError("crash")
            case "cancelled":
                raise asyncio.CancelledError
            case "timeout":
                await asyncio.sleep(60)
            case "cancel":
                self.agent.cancel("run", "from a hook")
            case "false":
                return False
            case "unspeakable":
                return HookOutcome.block("\ud800")
            case "metadata":
                return ctx.with_metadata("seen", ctx.point.value)
            case "message":
                return ctx.state.with_user_message("a note")
            case "drop":
                kept = [message for message in ctx.state.messages if message.role != "tool"]
                return ctx.state.with_messages(Log(kept))
            case "rewrite" | "misfit":
                value = 7 if action == "rewrite" else "many"
                return ctx.with_args(n=value) if hasattr(ctx, "with_args") else None
            case "supply":
                return ctx.with_result("supplied") if hasattr(ctx, "with_result") else None
            case "respond":
                return ctx.with_response("supplied") if hasattr(ctx, "with_response") else None
            case "yes" | "no" | "edit":
                return DECISIONS[action]
        return None

    def around(self, each: Hook) -> Any:
        """A hook around an action that does its one thing once."""
        asked = itertools.count()

        async def act(ctx: Any, call_next: Any) -> Any:
            action = each.action if next(asked) == each.nth else "pass"
            tools = ctx.point == "around_tool_use"
            if action == "crash":
                raise RuntimeError("crash")
            if action == "cancelled":
                raise asyncio.CancelledError
            if action == "cancel":
                self.agent.cancel("run", "from a hook around")
            if action == "skip":
                return ToolResult("skipped") if tools else None
            if action == "nothing":
                return None
            if action == "change" and tools:
                return await call_next(ctx.with_args(n=8))
            result = await call_next(ctx)
            return await call_next(ctx) if action == "twice" else result

        return act

    # --- driving ------------------------------------------------------------------------------------

    async def drive(self, way: str) -> list[RunResult]:
        """The run and its resumptions, as far as the answers go."""
        if way == "run":
            result = await self.agent.run("go", run_id="run")
        else:
            stream = getattr(self.agent, way)("go", run_id="run")
            async for item in stream:
                if isinstance(item, AgentState):
                    check_state(item)
            result = stream.result
        results = [result]
        for answer in self.case.answers * 3:
            if results[-1].status is not RunStatus.PAUSED:
                break
            state = AgentState.from_json(results[-1].state.to_json())
            results.append(await self.agent.resume(state, answered(state, answer)))
        return results


def answered(state: AgentState, answer: str) -> dict[str, Decision]:
    """Answers to the questions of a state: all of them, or only the first, or none."""
    if answer == "later":
        return {}
    questions = state.pending[:1] if answer == "no" else state.pending
    return {question.id: DECISIONS[answer] for question in questions}


# --- what must hold -----------------------------------------------------------------------------------


def check_state(state: AgentState) -> None:
    """A valid conversation, one result per call, and JSON without loss."""
    check_transcript(state.messages)
    assert AgentState.from_json(state.to_json()) == state
    for step in state.steps:
        if step.type is StepType.TOOL_USE:
            assert [each.id for each in step.calls] == [each.call_id for each in step.results]


def check_run(world: World, results: list[RunResult]) -> None:
    """What holds for a run and its resumptions together."""
    for messages in world.shown:
        check_transcript(messages)
    kinds: list[str] = []
    counted = 0
    for result in results:
        check_state(result.state)
        assert result.status is not RunStatus.RUNNING
        # A resume that fails leaves the run paused, and says of what it failed.
        with_error = (RunStatus.FAILED, RunStatus.PAUSED)
        assert (result.status is RunStatus.FAILED) <= (result.error is not None)
        assert (result.error is not None) <= (result.status in with_error)
        assert (result.status is RunStatus.PAUSED) <= bool(result.pending)
        records = list(result.records)
        first = records[0].seq
        assert [record.seq for record in records] == list(range(first, first + len(records)))
        assert first == counted  # a resumed run continues counting
        counted += len(records)
        assert isinstance(records[-1], RunFinished)
        assert records[-1].status is result.status
        assert any(isinstance(record, StatusChanged) for record in records)
        read = fold(decode(encode(record)) for record in records)
        assert (read.state, read.is_finished) == (result.state, True)
        kinds += [record.type for record in records]
    # Every way in has its way out, and every step that began ends, or waits.
    assert world.entered.count("execution_end") == len(results)
    waiting = results[-1].state.pending_step is not None
    assert kinds.count("step_started") == kinds.count("step") + waiting
    assert world.entered.count("after_step") == kinds.count("step")
    # What must run once ran once, and what was kept from running did not run.
    assert len(world.ran) == len(set(world.ran))
    for step in results[-1].steps:
        for each in step.results:
            if each.status.value in ("blocked", "denied", "invalid", "not_run"):
                assert f"run/{step.index}/{each.call_id}" not in world.ran


def transcript(results: list[RunResult]) -> list[str]:
    """The outcome of a run, as text that can be compared."""
    return [result.state.to_json() for result in results]


@settings(max_examples=300)
@given(case=cases)
@example(Case((("fine", "other"),), (), "none", ("yes",)))
def test_whatever_happens_a_run_ends_well(case: Case) -> None:
    """It never raises, and every state and every request on the way is a valid conversation."""
    world = World(case)
    check_run(world, asyncio.run(world.drive("run")))


def is_timed(case: Case) -> bool:
    """Whether the clock has a say: what comes first then depends on how busy the machine is."""
    hangs = any("hangs" in turn for turn in case.script if isinstance(turn, tuple))
    return hangs or any(each.action == "timeout" for each in case.hooks)


@settings(max_examples=100)
@given(case=cases.filter(lambda case: not is_timed(case)))
def test_the_same_script_and_hooks_give_the_same_transcript(case: Case) -> None:
    """Twice, and under every way of driving it."""
    seen = []
    for way in ("run", "run", "stream", "iterate"):
        world = World(case)
        results = asyncio.run(world.drive(way))
        check_run(world, results)
        seen.append(transcript(results))
    assert all(each == seen[0] for each in seen)


@settings(max_examples=120)
@given(
    batch=st.lists(
        st.sampled_from(["fine", "other", "unknown", "wrong", "child"]), min_size=1, max_size=4
    ).map(tuple),
    asking=st.sampled_from(["hook", "policy"]),
    answers=st.lists(st.sampled_from(["yes", "no", "edit", "later"]), max_size=4).map(tuple),
)
def test_however_questions_are_answered_no_call_runs_twice(
    batch: tuple[str, ...], asking: str, answers: tuple[str, ...]
) -> None:
    """Through JSON at every pause; refused calls never run, and nothing runs before the last answer."""
    world = World(Case((batch,), (), "none", (*answers, *["yes"] * 6), asking=asking))

    async def drive() -> list[RunResult]:
        results = [await world.agent.run("go", run_id="run")]
        for answer in world.case.answers:
            paused = results[-1]
            if paused.status is not RunStatus.PAUSED:
                break
            if any(question.run_id == "run" for question in paused.pending):
                assert world.ran == []
            state = AgentState.from_json(paused.state.to_json())
            results.append(await world.agent.resume(state, answered(state, answer)))
        return results

    results = asyncio.run(drive())
    check_run(world, results)
    assert results[-1].status in (RunStatus.COMPLETED, RunStatus.STOPPED)  # the limit is the tree's
    for each in results[-1].steps[0].results:
        if each.name == "fine":
            assert (f"run/0/{each.call_id}" in world.ran) is each.is_success


@settings(max_examples=100)
@given(case=cases, at=st.integers(0, 60))
def test_leaving_a_stream_anywhere_ends_the_run_well(case: Case, at: int) -> None:
    """After any record: the run is over, its way out was taken, and its state is valid."""
    world = World(case)

    async def drive() -> RunResult:
        stream = world.agent.stream("go", run_id="run")
        number = 0
        async for _ in stream:
            number += 1
            if number > at:
                break
        await stream.aclose()
        return stream.result

    result = asyncio.run(drive())
    check_state(result.state)
    assert world.entered.count("execution_end") == 1


@settings(max_examples=120)
@given(case=cases, ticks=st.integers(0, 40), task_too=st.booleans())
def test_cancelling_at_any_moment_ends_the_run_well(case: Case, ticks: int, task_too: bool) -> None:
    """From outside, the run or the task around it: the way out is taken, once, and the state is valid."""
    world = World(case)

    async def drive() -> RunResult | None:
        task = asyncio.create_task(world.agent.run("go", run_id="run"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if not (task_too and world.entered and task.cancel()):
            world.agent.cancel("run", "from outside")
        try:
            return await task
        except asyncio.CancelledError:
            return None

    result = asyncio.run(drive())
    if result is not None:
        check_run(world, [result])
    else:
        assert task_too
    for messages in world.shown:
        check_transcript(messages)
    assert world.entered.count("execution_end") == 1


@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("around")])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_at_every_point_ends_well(point: str, action: str) -> None:
    """The whole grid, once, with calls beside each other."""
    hooks = (
        Hook(point, action, 0, "hook", "closed", "tree"),
        Hook("before_tool_use", "ask", 1, "policy", "closed", "tree"),
    )
    script = (("fine", "child", "fails"), "slow", ("other", "wrong"), "text")
    world = World(Case(script, hooks, "none", ("yes", "edit")))
    check_run(world, asyncio.run(world.drive("run")))
