"""The fifth seed, in Python: adapters and common patterns."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from seed5 import builder

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    RunStatus,
    StepHookContext,
    StopHookContext,
    ToolCall,
    ToolHookContext,
    ToolResult,
)
from hookline.adapters import (
    ContinuationCriterionAdapter,
    StateProcessorAdapter,
    ToolMiddlewareAdapter,
)
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

# --- adapters ---------------------------------------------------------------------------------------


class CountingProcessor:
    """A state processor: takes a state, gives a state."""

    def __init__(self, key: str) -> None:
        self.key = key

    def process(self, state: AgentState) -> AgentState:
        return state.with_metadata(self.key, state.metadata.get(self.key, 0) + 1)


def test_state_processor_adapter_before_and_after() -> None:
    """`position` says on which side of the step it runs, and its state is kept."""
    seen: list[Any] = []
    before = StateProcessorAdapter(CountingProcessor("before"), position="before")
    after = StateProcessorAdapter(CountingProcessor("after"), position="after")

    def look(ctx: Any) -> None:
        seen.append((ctx.metadata.get("before", 0), ctx.metadata.get("after", 0)))

    agent = (
        builder(call("bash", command="ls"), say("done"))
        .add_hook(before.point, before)
        .add_hook(after.point, after)
        .on_before_inference(look)
        .build()
    )
    result = agent.run_sync("go")
    assert seen == [(1, 0), (2, 1)]
    assert result.state.metadata == {"before": 2, "after": 2}


async def test_state_processor_adapter_takes_middleware_style_and_async_processors() -> None:
    """`process(state, next)` and `async def process(state)` are processors too; None leaves the state."""

    class Onion:
        def process(
            self, state: AgentState, next: Callable[[AgentState], AgentState]
        ) -> AgentState:
            return next(state.with_metadata("onion", True))

    class Later:
        async def process(self, state: AgentState) -> AgentState:
            return state.with_metadata("later", True)

    class Reads:
        def process(self, state: AgentState) -> None:
            return None

    agent = builder(say("done"))
    for processor in (Onion(), Later(), Reads()):
        adapter = StateProcessorAdapter(processor)
        agent.add_hook(adapter.point, adapter)
    result = await agent.build().run("go")
    assert result.state.metadata == {"onion": True, "later": True}


def test_state_processor_adapter_is_named_after_the_processor() -> None:
    """So that plans, journals and errors say which processor it was."""

    class Breaks:
        def process(self, state: AgentState) -> AgentState:
            raise ValueError("no")

    adapter = StateProcessorAdapter(Breaks(), position="before")
    result = builder(say("done")).add_hook(adapter.point, adapter).build().run_sync("go")
    assert "hook 'Breaks' at before_step" in str(result.error)


class MostSteps:
    """A continuation criterion: says so when there were enough steps."""

    def __init__(self, most: int) -> None:
        self.most = most

    def evaluate(self, state: AgentState) -> ContinuationDecision:
        if state.step_count >= self.most:
            return ContinuationDecision.FORBID_CONTINUATION
        return ContinuationDecision.ALLOW_CONTINUATION


def test_continuation_criterion_adapter() -> None:
    """A criterion's decision is an evaluation under its name."""
    criterion = ContinuationCriterionAdapter(MostSteps(2))
    agent = builder(*[call("bash", command="ls")] * 5).add_hook(criterion.point, criterion)
    result = agent.build().run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 2)
    assert result.outcome is not None
    assert result.outcome.resolved_by == "MostSteps"


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        (True, 1),
        (False, 1),
        (ContinuationDecision.REQUEST_CONTINUATION, 2),
        (ContinuationEvaluation("me", ContinuationDecision.REQUEST_CONTINUATION, "more"), 2),
        (None, 1),
    ],
)
def test_continuation_criterion_adapter_takes_every_kind_of_answer(answer: Any, steps: int) -> None:
    """A bool, a decision, an evaluation, or no opinion; a bool allows and never requests."""

    def criterion(state: AgentState) -> Any:
        return answer if state.step_count == 1 else None

    adapter = ContinuationCriterionAdapter(criterion)
    result = builder(say("one"), say("two")).on_should_continue(adapter).build().run_sync("go")
    assert result.state.step_count == steps


def test_tool_middleware_adapter() -> None:
    """The middleware of the first document still works, beside the hooks that replaced it."""
    log: list[str] = []

    class Timing:
        async def process(
            self,
            call: ToolCall,
            state: AgentState,
            next: Callable[[ToolCall, AgentState], Awaitable[ToolResult]],
        ) -> ToolResult:
            log.append("around in")
            execution = await next(call, state)
            log.append("around out")
            return execution

    agent = (
        builder(call("bash", command="ls"), say("done"))
        .around_tool_use(ToolMiddlewareAdapter(Timing()), matcher="bash")
        .on_before_tool_use(lambda ctx: log.append("before"))
        .on_after_tool_use(lambda ctx: log.append("after"))
        .build()
    )
    agent.run_sync("go")
    assert log == ["before", "around in", "around out", "after"]


# --- common patterns --------------------------------------------------------------------------------


def test_security_validation() -> None:
    """A list of dangerous patterns, each named in the reason."""

    def validate(ctx: ToolHookContext) -> HookOutcome:
        command = ctx.tool_call.args.get("command", "")
        for pattern in ("rm -rf", "sudo", "> /dev/", "mkfs"):
            if pattern in command:
                return HookOutcome.block(f"Dangerous command blocked: {pattern}")
        return HookOutcome.proceed()

    commands = ["rm -rf /", "sudo ls", "echo > /dev/sda", "mkfs x", "ls"]
    agent = builder(calls(*(call("bash", command=each) for each in commands)), say("done"))
    result = agent.on_before_tool_use(validate, priority=100, matcher="bash").build().run_sync("go")
    reasons = [each.reason for each in result.steps[0].results]
    assert reasons == [
        "Dangerous command blocked: rm -rf",
        "Dangerous command blocked: sudo",
        "Dangerous command blocked: > /dev/",
        "Dangerous command blocked: mkfs",
        "",
    ]


def test_execution_timing() -> None:
    """What execution_start stores execution_end reads, through steps, tools and other hooks."""
    clock = FakeClock()
    recorded: dict[str, float] = {}

    def slow(turn: Any) -> Any:
        def play(_state: AgentState) -> Any:
            clock.advance(1.25)
            return turn

        return play

    def start(ctx: ExecutionHookContext) -> HookOutcome:
        return HookOutcome.proceed(ctx.with_metadata("started_at", clock.monotonic()))

    def end(ctx: ExecutionHookContext) -> None:
        started = ctx.get("started_at")
        recorded["execution_duration"] = clock.monotonic() - started

    agent = builder(slow(call("bash", command="ls")), slow(say("done"))).with_clock(clock)
    agent.on_execution_start(start).on_execution_end(end).build().run_sync("go")
    assert recorded == {"execution_duration": 2.5}


def test_execution_timing_also_when_the_run_fails() -> None:
    """execution_end runs on every path out, so the duration of a failed run is recorded too."""
    recorded: list[Any] = []
    agent = builder(RuntimeError("lost"))
    agent.on_execution_start(lambda ctx: ctx.with_metadata("started_at", 1.0))
    agent.on_execution_end(lambda ctx: recorded.append((ctx.get("started_at"), ctx.status)))
    agent.build().run_sync("go")
    assert recorded == [(1.0, RunStatus.FAILED)]


def conditional(driver: ScriptedDriver) -> Agent:
    """The pattern: pending tasks and a quality threshold must be met before the run may stop."""

    def may_stop(ctx: StopHookContext) -> HookOutcome:
        tasks = ctx.state.metadata.get("pending_tasks", [])
        if len(tasks) > 0:
            return HookOutcome.block(f"Tasks remaining: {len(tasks)}")
        if ctx.state.metadata.get("output_quality", 1.0) < 0.8:
            return HookOutcome.block("Quality below threshold")
        return HookOutcome.proceed()

    def work_off(ctx: StepHookContext) -> AgentState:
        assert ctx.step is not None
        tasks = ctx.metadata.get("pending_tasks", [])
        quality = 0.9 if "polished" in ctx.step.text else 0.5
        return ctx.state.with_metadata("pending_tasks", tasks[1:]).with_metadata(
            "output_quality", quality
        )

    agent = AgentBuilder().with_driver(driver)
    return agent.on_stop(may_stop).on_after_step(work_off).build()


def test_conditional_continuation() -> None:
    """Two open tasks, then a draft that is not good enough, then one that is."""
    driver = ScriptedDriver([say("a"), say("b"), say("polished"), say("never")])
    state = AgentState().with_metadata("pending_tasks", ["one", "two"])
    result = conditional(driver).run_sync("go", state=state)
    assert (result.text, result.status) == ("polished", RunStatus.COMPLETED)
    reasons = [
        said.reason
        for step in result.steps
        if step.outcome is not None
        for said in step.outcome.evaluations
        if said.decision is ContinuationDecision.REQUEST_CONTINUATION
    ]
    assert reasons == ["Tasks remaining: 1", "Quality below threshold"]
    assert "user: Quality below threshold" in str(driver.requests[2])


def test_conditional_continuation_lets_a_good_answer_go() -> None:
    """Nothing pending and the quality reached: the first answer is the last."""
    result = conditional(ScriptedDriver([say("polished"), say("never")])).run_sync("go")
    assert (result.text, result.state.step_count) == ("polished", 1)


class CriticalError(Exception):
    """Something that deserves an alert."""


def test_error_recovery_logging() -> None:
    """The failure is logged with full context, last tool included, and critical errors raise an alert."""
    boom = CriticalError("provider exploded")
    log: list[dict[str, Any]] = []
    alerts: list[BaseException] = []

    def log_failure(ctx: FailureHookContext) -> None:
        assert ctx.exception is not None
        used = [used for step in ctx.state.steps for used in step.calls]
        log.append(
            {
                "agent_id": ctx.state.agent_id,
                "parent_id": ctx.state.parent_agent_id,
                "steps_completed": ctx.state.step_count,
                "error_class": ctx.error_type,
                "error_message": ctx.error_message,
                "stack_trace": "".join(traceback.format_exception(ctx.exception)),
                "last_tool": used[-1].name if used else None,
            }
        )
        if isinstance(ctx.exception, CriticalError):
            alerts.append(ctx.exception)

    agent = builder(call("bash", command="ls"), call("read_file", path="a"), boom).with_id(
        "agent-7"
    )
    result = agent.on_agent_failed(log_failure).build().run_sync("go")
    assert (result.status, result.error, alerts) == (RunStatus.FAILED, boom, [boom])
    (entry,) = log
    assert "provider exploded" in entry.pop("stack_trace")
    assert entry == {
        "agent_id": "agent-7",
        "parent_id": None,
        "steps_completed": 3,
        "error_class": "CriticalError",
        "error_message": "provider exploded",
        "last_tool": "read_file",
    }
