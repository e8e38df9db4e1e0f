"""What went wrong in the system the seeds grew into. Each failure has its test here, so that it stays away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ErrorPolicy,
    FailureHookContext,
    HookError,
    HookOutcome,
    HookPoint,
    InferenceRequest,
    InferenceResponse,
    RunResult,
    RunStatus,
    StopHookContext,
    StopReason,
    ToolCall,
    ToolContext,
    ToolError,
    ToolHookContext,
    Usage,
    tool,
)
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(words: str = "the disk is full") -> str:
    """Fail."""
    raise ToolError(words)


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add, fail)


POINTS = [point.value for point in HookPoint if not point.around]


# --- state written by a tool hook is kept -----------------------------------------------------------


@pytest.mark.parametrize("point", ["before_tool_use", "after_tool_use"])
def test_state_written_by_a_tool_hook_is_kept(point: str) -> None:
    """Later hooks, the next step, the result and a saved copy all have it."""
    seen: list[Any] = []
    agent = builder(call("add", a=1, b=2), say("3"))
    agent.add_hook(point, lambda ctx: ctx.state.with_metadata("used", ctx.tool_call.name))
    agent.on_after_step(lambda ctx: seen.append(ctx.metadata.get("used")))
    result = agent.build().run_sync("go")
    assert seen == ["add", "add"]
    assert AgentState.from_json(result.state.to_json()).metadata == {"used": "add"}


def test_state_written_for_parallel_calls_adds_up() -> None:
    """Tools run at the same time and their hooks do not, so no count is lost."""

    def count(key: str) -> Callable[[ToolHookContext], AgentState]:
        return lambda ctx: ctx.state.with_metadata(key, ctx.metadata.get(key, 0) + 1)

    agent = builder(calls(*(call("add", a=n, b=n) for n in range(10))), say("done"))
    agent.on_before_tool_use(count("before")).on_after_tool_use(count("after"))
    assert agent.build().run_sync("go").state.metadata == {"before": 10, "after": 10}


def test_state_written_by_a_hook_that_blocks_is_kept() -> None:
    """The verdict does not throw away what came with it, nor what was written before it."""

    def strike(ctx: ToolHookContext) -> HookOutcome:
        return HookOutcome.block("no", ctx.with_metadata("strikes", ctx.get("strikes", 0) + 1))

    agent = builder(calls(call("add", a=1, b=1), call("add", a=2, b=2)), say("done"))
    agent.on_before_tool_use(lambda ctx: ctx.with_metadata("seen", True), priority=1)
    result = agent.on_before_tool_use(strike).build().run_sync("go")
    assert result.state.metadata == {"seen": True, "strikes": 2}


def test_messages_written_by_a_tool_hook_follow_the_results() -> None:
    """A note to the model is kept, and never comes between a call and its result."""
    driver = ScriptedDriver([calls(call("add", a=1, b=2), call("add", a=3, b=4)), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(add)
    agent.on_before_tool_use(
        lambda ctx: ctx.state.with_user_message(f"note {ctx.tool_call.args['a']}")
    )
    agent.build().run_sync("go")
    lines = str(driver.requests[1]).splitlines()
    assert lines[2:] == ["tool add: 3", "tool add: 7", "user: note 1", "user: note 3"]


# --- a recovered tool error or block does not make the run failed -----------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        call("fail"),
        call("add", a="not a number", b=1),
        call("nothing_of_that_name"),
        calls(call("fail"), call("add", a=1, b=2)),
        call("add", a=99, b=1),
    ],
    ids=["error", "invalid", "unknown", "beside a success", "blocked"],
)
def test_a_recovered_error_or_block_ends_completed(turn: Any) -> None:
    """The model reads what went wrong and answers: that is a completed run without an error."""
    agent = builder(turn, say("never mind")).on_before_tool_use(
        lambda ctx: HookOutcome.block("too big") if ctx.tool_call.args.get("a") == 99 else None
    )
    failed: list[Any] = []
    result = agent.on_agent_failed(lambda ctx: failed.append(ctx)).build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.COMPLETED, StopReason.COMPLETED)
    assert (result.error, result.text, failed) == (None, "never mind", [])
    assert not result.steps[0].results[0].is_success


async def test_a_recovered_model_error_ends_completed() -> None:
    """A lost connection is tried again, and what worked in the end is all that counts."""
    agent = builder(ConnectionError("gone"), TimeoutError("slow"), say("here I am"))
    result = await agent.with_clock(FakeClock()).build().run("go")
    assert (result.status, result.error, result.text) == (RunStatus.COMPLETED, None, "here I am")
    assert result.state.step_count == 1


# --- a block is an event and names the hook ---------------------------------------------------------


async def test_a_block_is_an_event_and_names_the_hook() -> None:
    """Listeners hear it, the stream yields it, the result and the observers know who it was."""
    heard: list[Any] = []
    observed: list[Any] = []
    agent = builder(call("add", a=99, b=1), say("done"))
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("too big"), name="size")
    agent.on_after_tool_use(
        lambda ctx: observed.append(
            (ctx.verdict.label, ctx.verdict.decided_by, ctx.verdict.reason)
        ),
        tier="observer",
    )
    stream = agent.on_event(heard.append).build().stream("go")
    streamed = [event async for event in stream]

    def blocks(events: list[Any]) -> list[Any]:
        return [
            (event.hook, event.point, event.reason, event.call_id)
            for event in events
            if event.type == "hook" and event.verdict == "block"
        ]

    expected = [("size", "before_tool_use", "too big", "call_1_1")]
    assert blocks(heard) == blocks(streamed) == blocks(list(stream.result.records)) == expected
    settled = [event.result for event in streamed if event.type == "tool_result"]
    assert [(each.decided_by, each.reason) for each in settled] == [("size", "too big")]
    assert observed == [("block", "size", "too big")]


@pytest.mark.parametrize(
    "point",
    "execution_start prompt_submit before_step before_inference after_inference before_tool_use "
    "after_tool_use stop output".split(),
)
def test_a_block_anywhere_is_an_event_and_names_the_hook(point: str) -> None:
    """Not only blocked tools: whatever can be blocked says who blocked it and why."""
    agent = builder(call("add", a=1, b=2), say("one"), say("two"), say("three"))
    agent.add_hook(point, once(lambda ctx: HookOutcome.block("not this time")), name="gate")
    result = agent.build().run_sync("go")
    blocks = [
        (record.hook, record.point, record.reason)  # type: ignore[attr-defined]
        for record in result.records
        if record.type == "hook" and record.verdict == "block"  # type: ignore[attr-defined]
    ]
    assert blocks == [("gate", point, "not this time")]
    if result.status is RunStatus.STOPPED:
        assert result.explain().endswith("(not this time), decided by 'gate'")


def once(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook that answers the first time and then has no opinion."""
    asked: list[Any] = []

    def hook(ctx: Any) -> Any:
        asked.append(ctx)
        return answer(ctx) if len(asked) == 1 else None

    return hook


# --- error hooks get the real exception even when no step exists ------------------------------------


def test_error_hooks_get_the_real_exception_before_any_step_is_recorded() -> None:
    """The very object that was raised, with its traceback, at `error` and at `agent_failed`."""
    boom = RuntimeError("the model is gone")
    seen: list[Any] = []

    def look(ctx: FailureHookContext) -> None:
        seen.append((str(ctx.point), ctx.exception, ctx.state.step_count))

    result = builder(boom).on_error(look).on_agent_failed(look).build().run_sync("go")
    assert seen == [("error", boom, 0), ("agent_failed", boom, 1)]
    assert result.error is boom
    assert boom.__traceback__ is not None


@pytest.mark.parametrize("point", ["session_start", "execution_start", "before_step"])
def test_error_hooks_get_the_crash_of_a_hook_that_ran_before_any_step(point: str) -> None:
    """The error names the hook, and what the hook raised is its cause."""
    boom = KeyError("oops")
    seen: list[Any] = []

    def crash(ctx: Any) -> None:
        raise boom

    agent = builder(say("never")).add_hook(point, crash)
    agent.on_error(lambda ctx: seen.append(ctx.exception))
    result = agent.on_agent_failed(lambda ctx: seen.append(ctx.exception)).build().run_sync("go")
    assert len(seen) == 2
    assert all(isinstance(each, HookError) and each.__cause__ is boom for each in seen)
    assert (result.status, result.state.step_count) == (RunStatus.FAILED, 0)


def test_error_hooks_get_what_a_tool_raised() -> None:
    """Also an exception that is no ToolError, together with the call that failed."""
    boom = ZeroDivisionError("by zero")
    seen: list[Any] = []

    @tool
    def divide() -> float:
        """Divide."""
        raise boom

    agent = builder(call("divide"), say("done")).with_tools(divide)
    agent.on_error(lambda ctx: seen.append((ctx.exception, ctx.error_class, ctx.tool_call.name)))
    agent.build().run_sync("go")
    assert seen == [(boom, "tool", "divide")]


# --- a continuation request never overrides a guard or a cancel -------------------------------------


EAGER = [
    ("before_step", lambda ctx: ctx.request_continue("more")),
    ("after_step", lambda ctx: ctx.request_continue("more")),
    ("should_continue", lambda ctx: ctx.request_continue("more")),
    ("stop", lambda ctx: ctx.request_continue("more")),
    ("stop", lambda ctx: HookOutcome.block("more")),
]


def eager(agent: AgentBuilder) -> AgentBuilder:
    """This builder with hooks that want to go on, everywhere."""
    for number, (point, hook) in enumerate(EAGER):
        agent.add_hook(point, hook, name=f"eager-{number}", priority=-1000)
    return agent


def test_a_continuation_request_does_not_override_a_limit() -> None:
    """Hooks that want to go on at every point still end at the step limit."""
    agent = eager(builder(*[say("again")] * 9)).with_limits(steps=3, objections=100)
    result = agent.build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert result.state.step_count == 3


def test_a_continuation_request_does_not_override_a_hook_that_forbids_or_stops() -> None:
    """Neither the gentle way to end a run nor the immediate one."""
    forbids = eager(builder(*[say("again")] * 9)).on_before_step(lambda ctx: ctx.forbid("enough"))
    assert forbids.build().run_sync("go").state.step_count == 1
    stops = eager(builder(*[say("again")] * 9)).on_after_step(lambda ctx: HookOutcome.stop("now"))
    result = stops.build().run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 1)


@pytest.mark.parametrize(
    "point", "before_step before_inference before_tool_use after_step should_continue stop".split()
)
def test_a_continuation_request_does_not_override_a_cancel(point: str) -> None:
    """Cancelled is cancelled, wherever in the step it happened."""
    agents: list[Agent] = []

    def cancel(ctx: Any) -> None:
        agents[0].cancel(reason="enough of this")

    driver = ScriptedDriver([call("add", a=1, b=2), say("one"), say("never")])
    agent = AgentBuilder().with_driver(driver).with_tools(add)
    agent.add_hook(point, cancel, priority=9, name="canceller")
    for number, (where, hook) in enumerate(EAGER):
        if where == "stop" or point != "stop":
            agent.add_hook(where, hook, name=f"eager-{number}", priority=-1000)
    agents.append(agent.build())
    result = agents[0].run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.CANCELLED, StopReason.CANCELLED)
    assert len(driver.requests) == {"before_step": 0, "before_inference": 0, "stop": 2}.get(
        point, 1
    )
    assert "enough of this" in result.explain()
    assert_whole(result)


async def test_a_continuation_request_does_not_override_a_cancel_during_a_model_call() -> None:
    """The model is interrupted and no stop hook brings the run back."""
    asked = asyncio.Event()

    class Hangs:
        async def infer(self, request: InferenceRequest, turn: Any) -> InferenceResponse:
            asked.set()
            await asyncio.sleep(60)
            raise AssertionError("never gets here")

    agent = eager(AgentBuilder().with_driver(Hangs())).build()
    running = asyncio.create_task(agent.run("go"))
    await asked.wait()
    agent.cancel(reason="changed my mind")
    result = await running
    assert (result.status, result.stop_reason) == (RunStatus.CANCELLED, StopReason.CANCELLED)
    assert "changed my mind" in result.explain()


def test_a_continuation_request_does_not_override_the_error_policy() -> None:
    """A run that is lost stays lost."""
    result = eager(builder(RuntimeError("gone"), say("never"))).build().run_sync("go")
    assert (result.status, result.text) == (RunStatus.FAILED, "")


# --- evaluations never go stale across steps --------------------------------------------------------


@pytest.mark.parametrize(
    "point", [*POINTS[1:4], "before_inference", "after_inference", "after_step"]
)
def test_evaluations_never_go_stale_across_steps(point: str) -> None:
    """What is requested once is honoured once: the next step begins with nothing said."""
    agent = builder(say("one"), say("two"), say("three"))
    agent.add_hook(point, once(lambda ctx: ctx.request_continue("again")), name="once")
    fresh: list[Any] = []
    agent.add_hook("before_step", lambda ctx: fresh.append(ctx.evaluations), priority=2000)
    result = agent.build().run_sync("go")
    assert all(said == () for said in fresh)
    requested = [
        step.index
        for step in result.steps
        for said in (step.outcome.evaluations if step.outcome is not None else ())
        if said.decision is ContinuationDecision.REQUEST_CONTINUATION
    ]
    assert requested in ([], [0])
    assert result.state.step_count == 1 + len(requested)


def test_evaluations_do_not_leak_from_one_run_into_the_next() -> None:
    """A stopped conversation goes on with a new prompt, on the same agent and the same state."""
    agent = builder(say("one"), say("two"))
    built = agent.on_after_step(once(lambda ctx: ctx.forbid("enough"))).build()
    first = built.run_sync("go")
    second = built.run_sync("go on", state=first.state)
    assert (first.status, second.status) == (RunStatus.STOPPED, RunStatus.COMPLETED)


# --- a crashing hook never escapes the run ----------------------------------------------------------


class Boom(Exception):
    """What the hooks here raise."""


def everywhere(agent: AgentBuilder, child: AgentBuilder) -> AgentBuilder:
    """A builder whose run passes every point: an ask, an error, a child."""
    built = child.build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Start a child."""
        return str((await context.spawn(built, "help", name="helper")).text)

    return (
        agent.with_tools(delegate)
        .with_approver(lambda pending: True)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask", matcher="add")
    )


def full_run() -> AgentBuilder:
    """A builder whose run calls tools, fails at one, asks, and starts a child."""
    turns = [calls(call("add", a=1, b=2), call("fail"), call("delegate")), say("done"), say("done")]
    return everywhere(builder(*turns), builder(say("child"), say("child")))


CRASHES: dict[str, Callable[[], Exception | BaseException]] = {
    "an exception": lambda: Boom("crash"),
    "a cancelled error": lambda: asyncio.CancelledError(),
    "a stop iteration": lambda: StopIteration("crash"),
    "a group": lambda: ExceptionGroup("crash", [Boom("one"), Boom("two")]),
}


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("tier", ["hook", "observer"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_crashing_hook_never_escapes_the_run(point: str, tier: str, crash: str) -> None:
    """At every point, in every tier: the run gives a result, execution_end is reached, the state is whole."""
    ended: list[str] = []

    def broken(ctx: Any) -> None:
        raise CRASHES[crash]()

    agent = full_run().add_hook(point, broken, name="broken", tier=tier)
    agent.on_execution_end(lambda ctx: ended.append(ctx.status.value), tier="observer", name="end")
    if point == "agent_failed":
        agent.with_error_policy(ErrorPolicy.stop_on_any_error())
    result = await agent.build().run("go")
    assert isinstance(result, RunResult)
    assert ended
    assert AgentState.from_json(result.state.to_json()) == result.state
    assert_whole(result)
    reached = [
        record
        for record in result.records
        if record.type == "hook" and record.hook == "broken"  # type: ignore[attr-defined]
    ]
    if point not in ("before_compact",) and not (point == "agent_failed" and tier == "observer"):
        assert reached
        assert {record.verdict for record in reached} == {"failed"}  # type: ignore[attr-defined]
    if tier == "observer" and point != "agent_failed":
        assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


@pytest.mark.parametrize("point", POINTS)
async def test_a_hook_that_fails_open_never_changes_the_result(point: str) -> None:
    """Recorded and skipped, at every point."""

    def broken(ctx: Any) -> None:
        raise Boom("crash")

    agent = full_run().add_hook(point, broken, on_failure="open")
    result = await agent.build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


@pytest.mark.parametrize("point", ["around_tool_use", "around_inference"])
async def test_a_crash_around_an_action_never_escapes_the_run(point: str) -> None:
    """Before the action, after it, and instead of it."""

    async def before(ctx: Any, call_next: Any) -> Any:
        raise Boom("before")

    async def after(ctx: Any, call_next: Any) -> Any:
        await call_next(ctx)
        raise Boom("after")

    async def instead(ctx: Any, call_next: Any) -> Any:
        return "not a result"

    for hook in (before, after, instead):
        result = (
            await builder(call("add", a=1, b=2), say("done"))
            .add_hook(point, hook)
            .build()
            .run("go")
        )
        assert isinstance(result, RunResult)
        assert_whole(result)
        failed = [each for each in result.records if getattr(each, "verdict", "") == "failed"]
        assert failed[0].hook == hook.__name__  # type: ignore[attr-defined]


async def test_a_crashing_matcher_listener_approver_or_driver_never_escapes_the_run() -> None:
    """Whatever else a user hands in is code that may be wrong, too."""

    def crash(*_: Any) -> Any:
        raise Boom("crash")

    class Driver:
        async def infer(self, request: Any, turn: Any) -> Any:
            raise Boom("crash")

    turns = call("add", a=1, b=2), say("done")
    matched = (
        await builder(*turns).on_before_tool_use(lambda ctx: None, matcher=crash).build().run("go")
    )
    assert (matched.status, matched.steps[0].results[0].is_blocked) == (RunStatus.COMPLETED, True)
    asked = (
        builder(*turns).on_before_tool_use(lambda ctx: HookOutcome.ask("?")).with_approver(crash)
    )
    assert (await asked.build().run("go")).steps[0].results[0].status == "denied"
    assert (await AgentBuilder().with_driver(Driver()).build().run("go")).status is RunStatus.FAILED


def test_a_crashing_listener_never_escapes_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the run goes on."""

    def crash(record: Any) -> None:
        raise Boom("crash")

    result = builder(say("done")).on_event(crash).build().run_sync("go")
    assert result.status is RunStatus.COMPLETED
    assert "listener failed" in caplog.text


def assert_whole(result: RunResult) -> None:
    """Every call has exactly one result, right after it."""
    open_calls: list[str] = []
    for message in result.state.messages:
        if message.role == "tool":
            open_calls.remove(message.call_id)  # type: ignore[union-attr]
            continue
        assert open_calls == []
        open_calls = [call.id for call in getattr(message, "calls", ())]
    assert open_calls == []
    for step in result.steps:
        assert [each.call_id for each in step.results] == [each.id for each in step.calls]


# --- step durations include model and tools ---------------------------------------------------------


async def test_step_durations_include_model_tools_and_hooks() -> None:
    """Each takes its time on the run's clock, and the step's duration is their sum."""
    clock = FakeClock()

    @tool
    async def slow() -> str:
        """Take seven seconds."""
        clock.advance(7)
        return "slow"

    def thinks(turn: Any) -> Any:
        def play(_state: AgentState) -> Any:
            clock.advance(3)
            return turn

        return play

    agent = AgentBuilder().with_driver(ScriptedDriver([thinks(call("slow")), thinks(say("done"))]))
    agent.with_tools(slow).with_clock(clock)
    agent.on_before_tool_use(lambda ctx: clock.advance(0.25)).on_after_step(
        lambda ctx: clock.advance(0.5)
    )
    result = await agent.build().run("go")
    assert [step.duration for step in result.steps] == [10.75, 3.5]
    assert result.steps[0].results[0].duration == 7
    assert result.state.counters.active_seconds == 14.25


# --- tool errors survive serialisation --------------------------------------------------------------


def test_tool_errors_survive_serialisation() -> None:
    """Kind, words and class of an error, and why a call was blocked, are the same after a round trip."""
    agent = builder(
        calls(call("fail"), call("add", a="x", b=1), call("add", a=1, b=1)), say("done")
    )
    result = (
        agent.on_before_tool_use(lambda ctx: HookOutcome.block("no"), matcher="add")
        .build()
        .run_sync("go")
    )
    restored = AgentState.from_json(result.state.to_json())
    assert restored == result.state
    failed, invalid, blocked = restored.steps[0].results
    assert failed.error is not None
    assert (failed.error.message, failed.error.error_class) == ("the disk is full", "tool")
    assert failed.error.type.endswith("ToolError")
    assert invalid.error is not None
    assert (invalid.status, invalid.error.error_class) == ("invalid", "validation")
    assert (blocked.status, blocked.reason) == ("blocked", "no")
    assert restored.steps[0].has_errors


@given(st.text(), st.sampled_from([ValueError, KeyError, ToolError, OSError, TimeoutError]))
def test_any_tool_error_survives_serialisation(words: str, kind: type[Exception]) -> None:
    """Whatever a tool raises, the state can be saved and says the same afterwards."""

    async def breaks() -> str:
        """Raise."""
        raise kind(words)

    result = builder(call("breaks"), say("done")).with_tools(breaks).build().run_sync("go")
    assert AgentState.from_json(result.state.to_json()) == result.state
    assert result.status is RunStatus.COMPLETED
    assert result.steps[0].results[0].status == "error"


# --- a limit that is configured is enforced ---------------------------------------------------------


class Costly:
    """A driver that calls `add` for ever, and says what each turn costs."""

    def __init__(self, usage: Usage, clock: FakeClock) -> None:
        self.usage = usage
        self.clock = clock
        self.turns = 0

    async def infer(self, request: InferenceRequest, turn: Any) -> InferenceResponse:
        self.turns += 1
        self.clock.advance(10)
        return InferenceResponse(
            "", (ToolCall(f"c{self.turns}", "add", {"a": 1, "b": 1}),), self.usage
        )


@pytest.mark.parametrize(
    ("limit", "steps", "reason"),
    [
        ({"steps": 4}, 4, StopReason.STEP_LIMIT),
        ({"tokens": 250}, 3, StopReason.TOKEN_LIMIT),
        ({"seconds": 25}, 3, StopReason.TIME_LIMIT),
        ({"cost": 1.0}, 2, StopReason.COST_LIMIT),
        ({"tool_calls": 5}, 6, StopReason.TOOL_CALL_LIMIT),
    ],
)
def test_a_limit_that_is_configured_is_enforced(
    limit: dict[str, Any], steps: int, reason: StopReason
) -> None:
    """Each of them stops the run, and says which one it was."""
    clock = FakeClock()
    driver = Costly(Usage(input_tokens=90, output_tokens=10, requests=1, cost=0.5), clock)
    agent = AgentBuilder().with_driver(driver).with_tools(add).with_clock(clock)
    result = agent.with_limits(**limit).build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, reason)
    assert (driver.turns, result.state.step_count) == (steps, steps)
    assert "used" in result.explain()
    assert_whole(result)


def test_limits_are_checked_before_and_not_after() -> None:
    """An answer that is given in the last allowed step is a completed run."""
    result = builder(call("add", a=1, b=2), say("3")).with_limits(steps=2).build().run_sync("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "3")


@pytest.mark.parametrize("limit", [{"steps": 0}, {"tokens": 0}, {"cost": 0}])
def test_a_limit_of_zero_allows_nothing(limit: dict[str, Any]) -> None:
    """Zero is a limit and not the absence of one."""
    driver = ScriptedDriver([say("never")])
    result = AgentBuilder().with_driver(driver).with_limits(**limit).build().run_sync("go")
    assert (result.status, driver.requests) == (RunStatus.STOPPED, [])


def test_limits_hold_for_the_whole_tree() -> None:
    """What a child spends its parent has spent, and a child cannot go on when its parent may not."""
    child_driver = ScriptedDriver([lambda state: call("add", a=1, b=1, tokens=50)] * 9)
    child = AgentBuilder().with_driver(child_driver).with_tools(add).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Start a child."""
        return str((await context.spawn(child, "help")).text)

    agent = builder(call("delegate", tokens=10), say("never")).with_tools(delegate)
    result = agent.with_limits(tokens=100).build().run_sync("go")
    assert (result.stop_reason, len(child_driver.requests)) == (StopReason.TOKEN_LIMIT, 2)
    assert result.usage.output_tokens == 110


# --- a second blocker does not hide the first one's reason ------------------------------------------


def test_a_second_blocker_does_not_hide_the_first_ones_reason() -> None:
    """The first to block is the one the model, the record and the observers hear of."""
    seen: list[Any] = []
    agent = (
        builder(call("add", a=1, b=2), say("done"))
        .on_before_tool_use(lambda ctx: HookOutcome.block("first"), name="one", priority=1)
        .on_before_tool_use(lambda ctx: HookOutcome.block("second"), name="two")
        .on_before_tool_use(lambda ctx: HookOutcome.block("third"), name="three", tier="policy")
        .on_before_tool_use(
            lambda ctx: seen.append((ctx.verdict.decided_by, ctx.verdict.reason)), tier="observer"
        )
        .build()
    )
    blocked = agent.run_sync("go").steps[0].results[0]
    assert (blocked.decided_by, blocked.reason) == ("one", "first")
    assert seen == [("one", "first")]


def test_middleware_around_a_blocker_does_not_hide_its_reason() -> None:
    """An outer hook that sees the block and blocks as well, or wants to proceed, changes nothing."""

    class BlocksToo:
        async def handle(self, ctx: Any, next: Any) -> HookOutcome:
            result = await next(ctx)
            return HookOutcome.block(f"outer, after {result.reason}")

    class Whitewashes:
        async def handle(self, ctx: Any, next: Any) -> HookOutcome:
            await next(ctx)
            return HookOutcome.proceed()

    for outer in (BlocksToo(), Whitewashes()):
        agent = builder(call("add", a=1, b=2), say("done")).on_before_tool_use(outer, priority=1)
        agent.on_before_tool_use(lambda ctx: HookOutcome.block("inner"), name="inner")
        blocked = agent.build().run_sync("go").steps[0].results[0]
        assert (blocked.decided_by, blocked.reason) == ("inner", "inner")


def test_a_second_objection_to_stopping_does_not_hide_the_first() -> None:
    """The model reads the reason of the hook that objected."""
    driver = ScriptedDriver([say("one"), say("two")])
    agent = AgentBuilder().with_driver(driver)
    agent.on_stop(once(lambda ctx: HookOutcome.block("tests fail")), name="tests", priority=1)
    agent.on_stop(once(lambda ctx: HookOutcome.block("docs missing")), name="docs")
    agent.build().run_sync("go")
    assert "tests fail" in str(driver.requests[1])


def test_a_stop_still_outranks_an_earlier_block() -> None:
    """The strictest wins; among equals the first."""

    class StopsAfterwards:
        async def handle(self, ctx: Any, next: Any) -> HookOutcome:
            await next(ctx)
            return HookOutcome.stop("that was the last straw")

    agent = builder(call("add", a=1, b=2), say("never")).on_before_tool_use(
        StopsAfterwards(), priority=1, name="straw"
    )
    agent.on_before_tool_use(lambda ctx: HookOutcome.block("inner"), name="inner")
    result = agent.build().run_sync("go")
    assert (result.status, result.explain().split(", ")[-1]) == (
        RunStatus.STOPPED,
        "decided by 'straw'",
    )


# --- subscribing an observer never changes the result -----------------------------------------------


def outcome_of(result: RunResult) -> Any:
    """All of a result that does not depend on the clock or on random ids."""
    return (
        result.text,
        result.status,
        result.stop_reason,
        list(result.state.messages),
        result.state.metadata,
        result.usage,
        [(step.type, step.text, step.calls, step.errors, step.outcome) for step in result.steps],
        [
            [(r.status, r.result, r.error, r.reason, r.decided_by) for r in step.results]
            for step in result.steps
        ],
    )


def observed_run() -> AgentBuilder:
    """A run in which much happens: an ask, a block, an error, a child, an objection, a changed result."""
    return (
        full_run()
        .with_clock(FakeClock())
        .on_before_tool_use(lambda ctx: HookOutcome.block("not twice"), name="gate", matcher="fail")
        .on_after_tool_use(lambda ctx: ctx.with_metadata("last", ctx.tool_call.name))
        .on_stop(once(lambda ctx: HookOutcome.block("once more")), name="objects")
        .on_output(lambda ctx: ctx.with_output(ctx.output.upper()))
    )


def crashing(ctx: Any) -> None:
    """An observer that crashes."""
    raise Boom("observer")


async def slow(ctx: Any) -> None:
    """An observer that gives way to other tasks."""
    await asyncio.sleep(0)


OBSERVERS: dict[str, Callable[[Any], Any]] = {
    "watches": lambda ctx: None,
    "crashes": crashing,
    "yields": slow,
    "blocks": lambda ctx: HookOutcome.block("I would"),
    "stops": lambda ctx: HookOutcome.stop("I would"),
    "returns nonsense": lambda ctx: False,
    "forbids": lambda ctx: ctx.forbid("I would"),
    "writes": lambda ctx: ctx.with_metadata("observer", "was here"),
}


@pytest.mark.parametrize("what", OBSERVERS)
async def test_subscribing_an_observer_never_changes_the_result(what: str) -> None:
    """One observer at every point: it may watch, crash, return anything, and nothing comes of it."""
    plain = await observed_run().build().run("go")
    watched = observed_run()
    for point in POINTS:
        watched.add_hook(point, OBSERVERS[what], tier="observer", priority=5000)
    assert outcome_of(await watched.build().run("go")) == outcome_of(plain)
    assert plain.status is RunStatus.COMPLETED


async def test_listening_to_events_or_streaming_never_changes_the_result() -> None:
    """Every way of watching a run goes through the same loop."""
    plain = outcome_of(await observed_run().build().run("go"))
    heard: list[Any] = []
    listening = await observed_run().on_event(heard.append).build().run("go")
    stream = observed_run().build().stream("go")
    async for _ in stream:
        pass
    steps = observed_run().build().iterate("go")
    async for _ in steps:
        pass
    assert [outcome_of(each) for each in (listening, stream.result, steps.result)] == [plain] * 3
    assert heard


def test_an_observer_of_stops_does_not_count_as_an_objection() -> None:
    """Watching the stop point uses up nothing of the cap on objections."""
    agent = builder(say("done")).on_stop(lambda ctx: HookOutcome.block("no"), tier="observer")
    result = agent.with_limits(objections=0).build().run_sync("go")
    assert (result.status, result.state.counters.objections) == (RunStatus.COMPLETED, 0)


def test_stop_context_is_shown_to_observers_with_the_outcome() -> None:
    """What is about to happen is there to be seen, and only to be seen."""
    seen: list[Any] = []

    def watch(ctx: StopHookContext) -> None:
        seen.append((ctx.continuation.stop_reason, ctx.continuation.resolved_by))

    builder(say("done")).on_stop(watch, tier="observer").build().run_sync("go")
    assert seen == [(StopReason.COMPLETED, "tool-calls")]
