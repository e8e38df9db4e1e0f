"""The fifth seed, in Python: contexts, outcomes, matchers, the stack used alone, adapters, common patterns."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    CallableMatcher,
    CompositeMatcher,
    ContinuationCriterionAdapter,
    ContinuationDecision,
    ContinuationEvaluation,
    EventTypeMatcher,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    HookPoint,
    HookStack,
    PromptHookContext,
    RunStatus,
    StateProcessorAdapter,
    StepHookContext,
    StopHookContext,
    StopReason,
    SubagentHookContext,
    ToolCall,
    ToolContext,
    ToolHookContext,
    ToolMiddlewareAdapter,
    ToolNameMatcher,
    ToolResult,
    hook,
    on,
    tool,
)
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
def bash(command: str) -> str:
    """Pretend to run a command."""
    return f"ran {command}"


@tool
def shell(command: str) -> str:
    """Pretend to run a command in another way."""
    return f"shell ran {command}"


@tool
def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"content of {path}"


@tool
def write_file(path: str) -> str:
    """Pretend to write a file."""
    return f"wrote {path}"


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns."""
    driver = ScriptedDriver(turns)
    return AgentBuilder().with_driver(driver).with_tools(bash, shell, read_file, write_file)


# --- quick start ------------------------------------------------------------------------------------


def test_quick_start() -> None:
    """A dangerous command is blocked, the start is logged with the agent's id, and nobody is alarmed."""
    log: list[str] = []
    alerts: list[str] = []

    def no_rm(ctx: ToolHookContext) -> HookOutcome:
        command = ctx.tool_call.args.get("command", "")
        if "rm -rf" in command:
            return HookOutcome.block("Dangerous command blocked")
        return HookOutcome.proceed()

    def started(ctx: ExecutionHookContext) -> HookOutcome:
        log.append(f"Agent started: {ctx.state.agent_id}")
        return HookOutcome.proceed()

    agent = (
        builder(call("bash", command="rm -rf /"), say("I may not"))
        .with_id("cleaner")
        .on_before_tool_use(no_rm, priority=100, matcher="bash")
        .on_execution_start(started)
        .on_agent_failed(lambda ctx: alerts.append(f"Agent failed: {ctx.error_message}"))
        .build()
    )
    result = agent.run_sync("clean")
    assert result.steps[0].results[0].reason == "Dangerous command blocked"
    assert (log, alerts) == (["Agent started: cleaner"], [])


def test_quick_start_failure_is_alerted() -> None:
    """When the run is lost, the failure hook sends the message."""
    alerts: list[str] = []
    agent = builder(RuntimeError("model is gone"))
    agent.on_agent_failed(lambda ctx: alerts.append(f"Agent failed: {ctx.error_message}"))
    assert agent.build().run_sync("go").status is RunStatus.FAILED
    assert alerts == ["Agent failed: model is gone"]


# --- every spelling of the points -------------------------------------------------------------------


SPELLINGS = {
    "before_tool_use": "PreToolUse pre_tool_use preToolUse PRE_TOOL_USE BeforeToolUse before_tool_use "
    "onBeforeToolUse on_before_tool_use onBeforeToolCall pre-tool-use",
    "after_tool_use": "PostToolUse post_tool_use AfterToolUse after_tool_use onAfterToolUse",
    "before_step": "BeforeStep before_step StepStart step_start onBeforeStep",
    "after_step": "AfterStep after_step StepEnd step_end onAfterStep",
    "execution_start": "ExecutionStart execution_start onExecutionStart",
    "execution_end": "ExecutionEnd execution_end onExecutionEnd",
    "before_inference": "BeforeInference before_inference",
    "after_inference": "AfterInference after_inference",
    "should_continue": "ShouldContinue should_continue onShouldContinue",
    "stop": "Stop stop onStop",
    "subagent_stop": "SubagentStop subagent_stop onSubagentStop",
    "subagent_start": "SubagentStart subagent_start",
    "error": "OnError on_error error onError",
    "agent_failed": "AgentFailed agent_failed onAgentFailed",
    "prompt_submit": "UserPromptSubmit user_prompt_submit PromptSubmit prompt_submit InputSubmitted",
    "permission_request": "PermissionRequest permission_request",
    "session_start": "SessionStart session_start",
    "session_end": "SessionEnd session_end",
    "before_compact": "PreCompact BeforeCompact before_compact",
    "output": "Output output onOutput",
}
EACH_SPELLING = [(point, each) for point, names in SPELLINGS.items() for each in names.split()]


def test_the_table_of_spellings_covers_every_point() -> None:
    """A new point must say how it is spelled."""
    assert set(SPELLINGS) == {point.value for point in HookPoint if not point.around}


@pytest.mark.parametrize(("point", "spelling"), EACH_SPELLING)
def test_a_point_is_found_by_every_spelling(point: str, spelling: str) -> None:
    """`HookPoint(...)`, `add_hook`, `hook`, the decorators and the event matcher all read them alike."""
    assert HookPoint(spelling).value == point

    def nothing(ctx: Any) -> None:
        return None

    agent = AgentBuilder().add_hook(spelling, nothing).build()
    assert agent.definition.registrations[-1].point.value == point
    assert hook(spelling, nothing).point.value == point
    context = HookPoint(point).context(point=HookPoint(point))
    assert EventTypeMatcher(spelling).matches(context)
    if spelling.isidentifier():
        assert AgentBuilder().with_hooks(getattr(on, spelling)()(nothing)).build()


@pytest.mark.parametrize(("point", "spelling"), EACH_SPELLING)
def test_an_event_matcher_of_any_spelling_passes_the_builder_and_selects(
    point: str, spelling: str
) -> None:
    """What the builder accepts as a name is what matches while running, and no other point does."""
    matcher = EventTypeMatcher(spelling)
    AgentBuilder().add_hook(point, lambda ctx: None, matcher=matcher)
    others = [each for each in HookPoint if each.value != point]
    assert not any(matcher.matches(each.context(point=each)) for each in others)


async def test_hooks_registered_under_two_spellings_run_at_one_point() -> None:
    """The spelling is only a name: order and options are the same."""
    order: list[str] = []
    agent = (
        builder(call("bash", command="ls"), say("done"))
        .add_hook("PreToolUse", lambda ctx: order.append("second"))
        .add_hook("before_tool_use", lambda ctx: order.append("first"), priority=1)
        .on_before_tool_use(lambda ctx: order.append("third"))
        .build()
    )
    await agent.run("go")
    assert order == ["first", "second", "third"]


# --- outcomes ---------------------------------------------------------------------------------------


def test_proceed_block_and_stop_differ() -> None:
    """Block prevents one action and the run goes on; stop halts the run, and the rest is not run."""

    def judge(ctx: ToolHookContext) -> HookOutcome:
        return {
            "fine": HookOutcome.proceed(),
            "changed": HookOutcome.proceed(ctx.with_args(command="different")),
            "dangerous": HookOutcome.block("Dangerous command detected"),
            "expensive": HookOutcome.stop("Budget exceeded"),
        }[ctx.tool_call.args["command"]]

    words = ["fine", "changed", "dangerous"]
    agent = builder(
        calls(*(call("bash", command=word) for word in words)),
        calls(call("bash", command="expensive"), call("bash", command="fine")),
        say("never"),
    )
    result = agent.on_before_tool_use(judge, name="judge").build().run_sync("go")
    assert [each.text() for each in result.steps[0].results] == [
        "ran fine",
        "ran different",
        "Blocked: Dangerous command detected",
    ]
    assert [each.status for each in result.steps[1].results] == ["not_run", "not_run"]
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert result.explain() == (
        "stopped after 2 steps: stopped_by_hook (Budget exceeded), decided by 'judge'"
    )


# --- contexts ---------------------------------------------------------------------------------------


def test_the_tool_context() -> None:
    """Before: the call, the state, and a changed call. After: the execution."""
    seen: list[Any] = []

    def before_tool(ctx: ToolHookContext) -> HookOutcome:
        assert ctx.is_before_tool
        seen.append((ctx.tool_call.name, dict(ctx.tool_call.args), ctx.state.step_count))
        modified = ToolCall(ctx.tool_call.id, "shell", {"command": "pwd"})
        return HookOutcome.proceed(ctx.with_tool_call(modified))

    def after_tool(ctx: ToolHookContext) -> HookOutcome:
        assert not ctx.is_before_tool
        assert ctx.execution is not None
        seen.append((ctx.tool_call.name, ctx.execution.is_success, ctx.execution.result))
        return HookOutcome.proceed()

    agent = builder(call("bash", command="ls"), say("done"))
    agent.on_before_tool_use(before_tool).on_after_tool_use(after_tool).build().run_sync("go")
    assert seen == [("bash", {"command": "ls"}, 0), ("shell", True, "shell ran pwd")]


def test_the_step_context() -> None:
    """The index counts from zero, the number from one, and the step is there after it was made."""
    seen: list[Any] = []

    @tool
    def broken() -> str:
        """Fail."""
        raise ValueError("broken")

    def on_step(ctx: StepHookContext) -> HookOutcome:
        errors = ctx.step.has_errors if ctx.step is not None else None
        seen.append((str(ctx.point), ctx.step_index, ctx.step_number, errors))
        return HookOutcome.proceed()

    agent = builder(call("broken"), say("done")).with_tools(broken)
    agent.on_before_step(on_step).on_after_step(on_step).build().run_sync("go")
    assert seen == [
        ("before_step", 0, 1, None),
        ("after_step", 0, 1, True),
        ("before_step", 1, 2, None),
        ("after_step", 1, 2, False),
    ]


def test_the_stop_context() -> None:
    """It shows the continuation outcome, and a block forces the run to go on."""
    reasons: list[Any] = []

    def on_stop(ctx: StopHookContext) -> HookOutcome:
        reasons.append(ctx.continuation.stop_reason)
        if ctx.metadata.get("unfinished", True):
            return HookOutcome.block("Work remaining", ctx.with_metadata("unfinished", False))
        return HookOutcome.proceed()

    driver = ScriptedDriver([say("one"), say("two")])
    result = AgentBuilder().with_driver(driver).on_stop(on_stop).build().run_sync("go")
    assert (result.text, reasons) == ("two", [StopReason.COMPLETED] * 2)
    assert "Work remaining" in str(driver.requests[1])


def test_the_execution_context() -> None:
    """One function may serve both ends, and at the end it knows how it ended."""
    seen: list[Any] = []

    def on_execution(ctx: ExecutionHookContext) -> HookOutcome:
        seen.append("start" if ctx.is_start else (ctx.status, ctx.stop_reason))
        return HookOutcome.proceed()

    agent = builder(say("done"))
    agent.on_execution_start(on_execution).on_execution_end(on_execution).build().run_sync("go")
    assert seen == ["start", (RunStatus.COMPLETED, StopReason.COMPLETED)]


def test_the_failure_context() -> None:
    """The exception itself, its words, its class and its type."""
    boom = RuntimeError("lost")
    seen: list[Any] = []

    def on_failure(ctx: FailureHookContext) -> HookOutcome:
        seen.append((ctx.exception, ctx.error_message, ctx.error_class, ctx.error_type))
        return HookOutcome.proceed()

    builder(boom).on_agent_failed(on_failure).build().run_sync("go")
    assert seen == [(boom, "lost", "unknown", "RuntimeError")]


def test_the_subagent_stop_context() -> None:
    """The parent sees which child is about to stop, with what, and why."""
    seen: list[Any] = []
    child = AgentBuilder().with_driver(ScriptedDriver([say("child done")])).with_id("child").build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand the task on."""
        result = await context.spawn(child, "do it", name="helper")
        return str(result.text)

    def on_subagent_stop(ctx: SubagentHookContext) -> HookOutcome:
        assert ctx.continuation is not None
        seen.append((ctx.name, ctx.child_agent_id, ctx.result.text, ctx.continuation.stop_reason))
        seen.append(ctx.result.state.parent_agent_id == ctx.state.agent_id)
        return HookOutcome.proceed()

    agent = builder(call("delegate"), say("done")).with_tools(delegate)
    agent.on_subagent_stop(on_subagent_stop).build().run_sync("go")
    assert seen == [("helper", "child", "child done", StopReason.COMPLETED), True]


# --- matchers ---------------------------------------------------------------------------------------


ALL_TOOLS = calls(
    call("bash", command="ls"),
    call("shell", command="ls"),
    call("read_file", path="a"),
    call("write_file", path="b"),
)


def matched(matcher: Any, **metadata: Any) -> list[str]:
    """The tools for which a hook with this matcher runs."""
    seen: list[str] = []
    agent = builder(ALL_TOOLS, say("done")).on_before_tool_use(
        lambda ctx: seen.append(ctx.tool_call.name), matcher=matcher
    )
    agent.build().run_sync("go", state=AgentState(metadata=metadata))
    return seen


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("bash", ["bash"]),
        ("read_*", ["read_file"]),
        ("*_file", ["read_file", "write_file"]),
        ("*", ["bash", "shell", "read_file", "write_file"]),
        ("/^(read|write)_.+$/", ["read_file", "write_file"]),
        ("none", []),
    ],
)
def test_tool_name_matcher(pattern: str, expected: list[str]) -> None:
    """Exact, wildcards and regular expressions, as an object and as a string."""
    assert matched(ToolNameMatcher(pattern)) == matched(pattern) == expected


def test_event_type_matcher() -> None:
    """One event, or several; a matcher for other events keeps a hook silent."""
    both = EventTypeMatcher(HookPoint.BEFORE_STEP, HookPoint.AFTER_STEP)
    assert both.matches(StepHookContext(point=HookPoint.AFTER_STEP))
    assert not both.matches(ToolHookContext(point=HookPoint.BEFORE_TOOL_USE))
    assert matched(EventTypeMatcher("PreToolUse")) == ["bash", "shell", "read_file", "write_file"]
    assert matched(EventTypeMatcher("PostToolUse")) == []


def test_composite_matchers() -> None:
    """And, or, and what the operators say in one character."""
    early = CallableMatcher(lambda ctx: ctx.state.step_count < 5)
    assert matched(CompositeMatcher.all_of(ToolNameMatcher("bash"), early)) == ["bash"]
    files = CompositeMatcher.any_of(ToolNameMatcher("read_*"), ToolNameMatcher("write_*"))
    assert matched(files) == ["read_file", "write_file"]
    assert matched(~files) == ["bash", "shell"]
    assert matched(~files & ToolNameMatcher("b*")) == ["bash"]
    assert matched(files | ToolNameMatcher("bash")) == ["bash", "read_file", "write_file"]


def test_nested_composite_matchers() -> None:
    """(bash or shell) and safe mode, the two ways to write it."""
    safe = CallableMatcher(lambda ctx: ctx.state.metadata.get("safe_mode"))
    nested = CompositeMatcher.all_of(
        CompositeMatcher.any_of(ToolNameMatcher("bash"), ToolNameMatcher("shell")), safe
    )
    assert matched(nested, safe_mode=True) == ["bash", "shell"]
    assert matched(nested, safe_mode=False) == matched(nested) == []
    operators = (ToolNameMatcher("bash") | ToolNameMatcher("shell")) & safe
    assert matched(operators, safe_mode=True) == ["bash", "shell"]
    assert matched(operators) == []


def test_callable_matcher() -> None:
    """Any function of the context, wrapped or bare."""
    high = CallableMatcher(lambda ctx: ctx.state.metadata.get("priority") == "high")
    assert matched(high, priority="high") != []
    assert matched(high, priority="low") == []
    assert matched(lambda ctx: ctx.tool_call.name == "shell") == ["shell"]


# --- priority ---------------------------------------------------------------------------------------


def test_priorities_as_the_guidelines_say() -> None:
    """Security first, normal hooks next, logging last and on the final state."""
    order: list[str] = []

    def security(ctx: ToolHookContext) -> None:
        order.append(f"security sees {ctx.tool_call.args['command']}")

    def normal(ctx: ToolHookContext) -> ToolHookContext:
        order.append("normal")
        return ctx.with_args(command="ls -l")

    def logger(ctx: ToolHookContext) -> None:
        order.append(f"logger sees {ctx.tool_call.args['command']}")

    agent = (
        builder(call("bash", command="ls"), say("done"))
        .on_before_tool_use(logger, priority=-100)
        .on_before_tool_use(normal, priority=0)
        .on_before_tool_use(security, priority=100)
        .build()
    )
    agent.run_sync("go")
    assert order == ["security sees ls", "normal", "logger sees ls -l"]


# --- unified registration and custom hooks ----------------------------------------------------------


def test_add_hook_with_a_reusable_hook_object() -> None:
    """The unified method takes a point, an object, a matcher and a priority."""

    class CallableHook:
        def __init__(self, callback: Callable[[Any], Any]) -> None:
            self.callback = callback

        async def handle(self, ctx: Any, next: Any) -> Any:
            self.callback(ctx)
            return await next(ctx)

    seen: list[str] = []
    agent = builder(say("done")).add_hook(
        HookPoint.EXECUTION_START,
        CallableHook(lambda ctx: seen.append(str(ctx.point))),
        priority=100,
        matcher=EventTypeMatcher("ExecutionStart"),
    )
    agent.build().run_sync("go")
    assert seen == ["execution_start"]


class RateLimiter:
    """Counts calls in a minute of the clock it is given."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.times: list[float] = []

    def check(self, most: int) -> bool:
        self.times = [each for each in self.times if each > self.clock.now() - 60]
        return len(self.times) < most

    def increment(self) -> None:
        self.times.append(self.clock.now())


class RateLimitHook:
    """Blocks what comes too fast."""

    def __init__(self, limiter: RateLimiter, max_calls_per_minute: int) -> None:
        self.limiter = limiter
        self.most = max_calls_per_minute

    async def handle(self, ctx: ToolHookContext, next: Any) -> Any:
        if not self.limiter.check(self.most):
            return HookOutcome.block("Rate limit exceeded")
        self.limiter.increment()
        return await next(ctx)


def test_rate_limiting() -> None:
    """Two calls a minute pass, the third is blocked, and after a minute calls pass again."""
    clock = FakeClock()

    def a_minute_later(_state: AgentState) -> Any:
        clock.advance(61)
        return call("bash", command="four")

    agent = builder(
        calls(*(call("bash", command=word) for word in ("one", "two", "three"))),
        a_minute_later,
        say("done"),
    ).on_before_tool_use(RateLimitHook(RateLimiter(clock), 2))
    result = agent.build().run_sync("go")
    texts = [each.text() for step in result.steps for each in step.results]
    assert texts == ["ran one", "ran two", "Blocked: Rate limit exceeded", "ran four"]
    assert result.status is RunStatus.COMPLETED


# --- the stack, used directly -----------------------------------------------------------------------


class Named:
    """A hook that writes down that it ran and goes on."""

    def __init__(self, log: list[str], label: str) -> None:
        self.log = log
        self.label = label

    async def handle(self, ctx: Any, next: Any) -> Any:
        self.log.append(self.label)
        return await next(ctx)


async def test_hook_stack_runs_by_priority() -> None:
    """Security, then metrics, then logging, then the end of the chain."""
    log: list[str] = []
    stack = (
        HookStack()
        .with_hook(Named(log, "security"), HookPoint.EXECUTION_START, priority=100)
        .with_hook(Named(log, "logging"), HookPoint.EXECUTION_START, priority=-100)
        .with_hook(Named(log, "metrics"), HookPoint.EXECUTION_START)
    )
    context = ExecutionHookContext(point=HookPoint.EXECUTION_START, state=AgentState())
    outcome = await stack.process(context)
    assert log == ["security", "metrics", "logging"]
    assert (outcome.is_blocked, outcome.is_stopped, outcome.is_asking) == (False, False, False)
    assert outcome.context is context


@pytest.mark.parametrize(
    ("answer", "blocked", "stopped", "asking"),
    [
        (HookOutcome.block("why"), True, False, False),
        (HookOutcome.stop("why"), False, True, False),
        (HookOutcome.ask("why"), False, False, True),
    ],
)
async def test_hook_stack_says_what_was_decided_and_by_whom(
    answer: HookOutcome, blocked: bool, stopped: bool, asking: bool
) -> None:
    """A block or a stop ends the chain, an ask does not; reason and hook are kept."""
    later: list[str] = []
    stack = (
        HookStack()
        .with_hook(lambda ctx: answer, HookPoint.BEFORE_TOOL_USE, name="gate", priority=1)
        .with_hook(lambda ctx: later.append("ran"), HookPoint.BEFORE_TOOL_USE)
    )
    context = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", "bash"))
    outcome = await stack.process(context)
    assert (outcome.is_blocked, outcome.is_stopped, outcome.is_asking) == (blocked, stopped, asking)
    assert (outcome.reason, outcome.decided_by) == ("why", "gate")
    assert later == (["ran"] if asking else [])


async def test_hook_stack_threads_the_context_through() -> None:
    """Each hook sees what the one before it made of the context, and the caller gets the last one."""
    stack = (
        HookStack()
        .with_hook(lambda ctx: ctx.with_prompt(ctx.prompt + "b"), HookPoint.PROMPT_SUBMIT)
        .with_hook(lambda ctx: ctx.prompt + "c", HookPoint.PROMPT_SUBMIT)
        .with_hook(lambda ctx: ctx.with_prompt("other point"), HookPoint.SUBAGENT_START)
    )
    outcome = await stack.process(PromptHookContext(point=HookPoint.PROMPT_SUBMIT, prompt="a"))
    assert outcome.context.prompt == "abc"


async def test_a_hook_stack_is_a_value() -> None:
    """Adding a hook gives another stack and leaves the first as it was."""
    empty = HookStack()
    one = empty.with_hook(lambda ctx: HookOutcome.block("no"), HookPoint.BEFORE_STEP)
    context = StepHookContext(point=HookPoint.BEFORE_STEP)
    assert not (await empty.process(context)).is_blocked
    assert (await one.process(context)).is_blocked


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
