"""The hook contracts of the seeds, as they are written there: hooks that describe themselves, and stacks used alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from seed5 import builder

from hookline import (
    AgentState,
    CompositeMatcher,
    ContinuationDecision,
    ExecutionHookContext,
    HookOutcome,
    HookPoint,
    HookStack,
    RunStatus,
    StepHookContext,
    StopHookContext,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
    ToolResult,
    tool,
)
from hookline.adapters import (
    ContinuationCriteriaAdapter,
    StateProcessorAdapter,
    ToolMiddlewareAdapter,
)
from hookline.errors import RegistrationError
from hookline.testing import call, calls, say

DANGEROUS = calls(call("bash", command="ls"), call("bash", command="rm -rf /"))


def texts(made: Any) -> list[str]:
    """What became of each call."""
    result = made.build().run_sync("go")
    assert result.status is RunStatus.COMPLETED
    return [each.text for step in result.steps for each in step.results]


# --- the first seed: a middleware stack without an agent -----------------------------------------------


class Logged:
    """`ToolMiddleware` of the document: process(call, state, next)."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.label = name
        self.log = log

    async def process(self, call: ToolCall, state: AgentState, next: Any) -> ToolResult:
        self.log.append(f"{self.label} in")
        execution: ToolResult = await next(call, state)
        self.log.append(f"{self.label} out")
        return execution


class BeforeToolMiddleware:
    """Returning nothing blocks, as it does there."""

    def process(self, call: ToolCall, state: AgentState, next: Any) -> Any:
        return None if "rm" in call.args["command"] else next(call, state)


def test_the_middleware_stack_is_used_and_tested_without_an_agent() -> None:
    """Pushed in order, processed with an executor; the first one pushed is outermost."""
    log: list[str] = []

    def execute_directly(ctx: ToolHookContext) -> ToolResult:
        log.append(f"run {ctx.tool_call.args['command']} in step {ctx.state.step_count}")
        return ToolResult("ran")

    stack = (
        HookStack()
        .with_hook(ToolMiddlewareAdapter(Logged("first", log)))
        .with_hook(ToolMiddlewareAdapter(Logged("second", log)))
        .with_hook(ToolMiddlewareAdapter(BeforeToolMiddleware()))
    )

    def process(command: str) -> ToolResult:
        ctx = ToolHookContext(
            point=HookPoint.AROUND_TOOL_USE,
            tool_call=ToolCall("1", "bash", {"command": command}),
            state=AgentState(),
        )
        answer: ToolResult = stack.process_sync(ctx, execute_directly).answer
        return answer

    assert process("ls").result == "ran"
    assert log == ["first in", "second in", "run ls in step 0", "second out", "first out"]
    assert process("rm x").is_blocked
    assert "run rm x in step 0" not in log


def test_a_matcher_implements_an_interface_and_extends_nothing() -> None:
    """`HookMatcher` of the document is `Matcher`: any object with matches(ctx)."""

    class DangerousCommand:
        def matches(self, ctx: ToolHookContext) -> bool:
            return "rm -rf" in ctx.tool_call.args["command"]

    class OfTheDocument:
        def matches(self, call: ToolCall, state: AgentState) -> bool:
            return True

    def refuse(ctx: ToolHookContext) -> HookOutcome:
        return HookOutcome.block("dangerous")

    made = builder(DANGEROUS, say("ok")).on_before_tool_use(refuse, matcher=DangerousCommand())
    assert texts(made) == ["ran ls", "Blocked: dangerous"]
    with pytest.raises(RegistrationError, match=r"Read ctx\.tool_call and ctx\.state"):
        builder().on_before_tool_use(refuse, matcher=OfTheDocument())


# --- the second seed: event(), matches(), handle() -------------------------------------------------------


class InsideBaseDir:
    """`Hook` of the document: it names its event, says whether it matches, and handles."""

    def event(self) -> Any:
        return HookPoint("PreToolUse")

    def matches(self, context: ToolHookContext) -> bool:
        return context.tool_call.name == "bash"

    def handle(self, context: ToolHookContext) -> HookOutcome:
        if "rm" in context.tool_call.args["command"]:
            return HookOutcome.block("outside the base directory")
        return HookOutcome.proceed()


def test_a_hook_names_its_event_and_matches_itself() -> None:
    """It is given to the builder as it is, alone or in a bundle."""
    assert texts(builder(DANGEROUS, say("ok")).with_hook(InsideBaseDir())) == [
        "ran ls",
        "Blocked: outside the base directory",
    ]
    assert texts(builder(DANGEROUS, say("ok")).with_hooks(InsideBaseDir()))[0] == "ran ls"


def test_the_extension_points_of_the_builder() -> None:
    """addPreProcessor, addProcessor and addContinuationCriteria take what they took."""
    order: list[str] = []

    class Note:
        def __init__(self, label: str) -> None:
            self.label = label

        def process(
            self, state: AgentState, next: Callable[[AgentState], AgentState]
        ) -> AgentState:
            order.append(f"{self.label} {state.step_count}")
            made = next(state)
            order.append(f"{self.label} {made.step_count}")
            return made

    class AtMostOne:
        def evaluate(self, state: AgentState) -> ContinuationDecision:
            if state.step_count >= 1:
                return ContinuationDecision.FORBID_CONTINUATION
            return ContinuationDecision.ALLOW_CONTINUATION

    made = (
        builder(call("bash", command="ls"), say("never said"))
        .add_pre_processor(Note("before"))
        .add_processor(Note("after"))
        .add_continuation_criteria(AtMostOne())
    )
    result = made.build().run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 1)
    assert result.outcome is not None
    assert result.outcome.resolved_by == "AtMostOne"
    assert order == ["before 0", "after 0", "after 1", "before 1"]


def test_the_events_are_an_enumeration() -> None:
    """Listed, found by value and by name, and each has a name and a value."""
    assert HookPoint["BEFORE_STEP"] is HookPoint("BeforeStep") is HookPoint.BEFORE_STEP
    assert (HookPoint.BEFORE_STEP.name, HookPoint.BEFORE_STEP.value) == (
        "BEFORE_STEP",
        "before_step",
    )
    assert {point.name for point in HookPoint} >= {"EXECUTION_START", "AFTER_STEP", "AGENT_FAILED"}


# --- the third seed: points(), matcher(), handle(), and providers of such hooks -------------------------


class BashPolicy:
    """Which commands may run."""

    def is_allowed(self, command: str) -> bool:
        return command.startswith("ls")


class EnforcePolicy:
    """The anonymous class of the document's BashProvider."""

    def __init__(self, policy: BashPolicy) -> None:
        self.policy = policy

    def points(self) -> list[Any]:
        return [HookPoint.BEFORE_TOOL_USE]

    def matcher(self) -> ToolNameMatcher | None:
        return ToolNameMatcher("bash")

    def handle(self, ctx: ToolHookContext) -> HookOutcome:
        if not self.policy.is_allowed(ctx.tool_call.args.get("command", "")):
            return HookOutcome.block("Command blocked by policy")
        return HookOutcome.proceed()


class BashProvider:
    """`hooks()` yields hooks as they are, and `tools()` the tool."""

    def __init__(self, policy: BashPolicy) -> None:
        self.policy = policy

    def hooks(self) -> Iterable[Any]:
        yield EnforcePolicy(self.policy)

    def tools(self) -> Iterable[Any]:
        @tool(name="run")
        def run(command: str) -> str:
            """Another tool, so that the policy's matcher has something to leave alone."""
            return f"also ran {command}"

        yield run


class CustomLoggingHook:
    """Runs at all points, as an empty list says."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def points(self) -> list[Any]:
        return []

    def matcher(self) -> None:
        return None

    def handle(self, ctx: Any) -> HookOutcome:
        self.log.append(ctx.point.value)
        return HookOutcome.proceed()


class SecurityAuditHook:
    """Middleware at two points."""

    def __init__(self) -> None:
        self.audit: list[tuple[str, bool]] = []

    def points(self) -> list[Any]:
        return [HookPoint.BEFORE_TOOL_USE, HookPoint.AFTER_TOOL_USE]

    async def handle(self, ctx: ToolHookContext, next: Any) -> Any:
        result = await next(ctx)
        self.audit.append((ctx.point.value, result.is_blocked))
        return result


def test_providers_and_hooks_of_the_usage_example() -> None:
    """with(provider), withHook(hook), withHook(hook), build: everything describes itself."""
    logging, audit = CustomLoggingHook(), SecurityAuditHook()
    made = (
        builder(DANGEROUS, call("run", command="rm"), say("ok"))
        .with_capability(BashProvider(BashPolicy()))
        .with_hook(logging)
        .with_hook(audit, priority=100)
    )
    assert texts(made) == ["ran ls", "Blocked: Command blocked by policy", "also ran rm"]
    assert audit.audit == [
        ("before_tool_use", False),
        ("before_tool_use", True),
        ("after_tool_use", False),
        ("before_tool_use", False),
        ("after_tool_use", False),
    ]
    assert logging.log[:2] == ["session_start", "execution_start"]
    assert {"before_step", "after_inference", "should_continue", "execution_end"} <= {*logging.log}
    assert "around_tool_use" not in logging.log


async def test_the_hook_engine_registers_and_runs() -> None:
    """`HookEngine.register(hook)` and `run(point, context)`: a terminal decision ends the chain."""
    later = CustomLoggingHook()
    engine = HookStack().with_hook(EnforcePolicy(BashPolicy()), priority=1).with_hook(later)
    call_of = ToolCall("1", "bash", {"command": "rm"})
    result = await engine.process(
        ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=call_of)
    )
    assert (result.is_blocked, result.decided_by) == (True, "EnforcePolicy")
    assert later.log == []
    await engine.process(StepHookContext(point=HookPoint.BEFORE_STEP))
    assert later.log == ["before_step"]


def test_asking_where_nobody_can_be_asked_is_known_before_the_run() -> None:
    """askUser works before a tool; elsewhere it is refused, and the remedy says where it works."""
    with pytest.raises(RegistrationError, match=r"at before_step.*Register it at before_tool_use"):
        builder().on_before_step(lambda ctx: HookOutcome.ask("go on?"))


# --- the fourth seed ------------------------------------------------------------------------------------


def test_a_tool_event_is_known_by_its_point() -> None:
    """`HookType::isToolEvent()`: what a tool-name matcher of one's own asks first."""

    class Named:
        def matches(self, ctx: Any) -> bool:
            return ctx.point.is_tool_event and ctx.tool_call.name == "bash"

    seen: list[str] = []

    class Watch(CustomLoggingHook):
        def matcher(self) -> Any:
            return Named()

        def handle(self, ctx: Any) -> HookOutcome:
            seen.append(ctx.point.value)
            return HookOutcome.proceed()

    builder(call("bash", command="ls"), say("ok")).with_hook(Watch()).build().run_sync("go")
    assert seen == ["before_tool_use", "after_tool_use"]


async def test_where_nothing_matches_the_same_comes_back() -> None:
    """`process(type, state)` of an empty stack, and of one whose hooks are for something else."""
    context = StepHookContext(point=HookPoint.BEFORE_STEP)
    for stack in (HookStack(), HookStack().with_hook(EnforcePolicy(BashPolicy()))):
        assert (await stack.process(context)).context is context


# --- the fifth seed ------------------------------------------------------------------------------------


class Hook:
    """A hook of the document: `handle(context, next)` and nothing else."""

    def __init__(self, label: str, log: list[str], answer: HookOutcome | None = None) -> None:
        self.label = label
        self.log = log
        self.answer = answer

    def handle(self, context: Any, next: Any) -> Any:
        self.log.append(self.label)
        return self.answer or next(context)


@pytest.mark.parametrize(
    ("answer", "state", "order"),
    [
        (None, "went on", ["security", "metrics", "logging", "terminal"]),
        (HookOutcome.block("no"), "blocked", ["security", "metrics"]),
        (HookOutcome.stop("no"), "stopped", ["security", "metrics"]),
    ],
)
def test_the_stack_is_used_directly(
    answer: HookOutcome | None, state: str, order: list[str]
) -> None:
    """Hooks without an event, a context, a terminal, and no async: the example as it stands."""
    log: list[str] = []
    stack = (
        HookStack()
        .with_hook(Hook("security", log), priority=100)
        .with_hook(Hook("logging", log), priority=-100)
        .with_hook(Hook("metrics", log, answer))
    )

    def terminal(ctx: ExecutionHookContext) -> HookOutcome:
        log.append("terminal")
        return HookOutcome.proceed(ctx)

    context = ExecutionHookContext(point=HookPoint.EXECUTION_START, state=AgentState())
    outcome = stack.process_sync(context, terminal)
    if outcome.is_blocked:
        decided = "blocked"
    elif outcome.is_stopped:
        decided = "stopped"
    else:
        decided = "went on"
    assert (decided, log) == (state, order)


def test_composite_matchers_by_the_names_of_the_document() -> None:
    """`CompositeMatcher::and` and `::or`, nested, with functions and objects."""
    matcher = CompositeMatcher.and_(
        CompositeMatcher.or_(ToolNameMatcher("bash"), ToolNameMatcher("shell")),
        lambda ctx: ctx.state.metadata.get("safe_mode"),
    )
    safe = AgentState(metadata={"safe_mode": True})
    call_of = ToolCall("1", "shell")
    point = HookPoint.BEFORE_TOOL_USE
    assert matcher.matches(ToolHookContext(point=point, tool_call=call_of, state=safe))
    assert not matcher.matches(ToolHookContext(point=point, tool_call=call_of))


def test_unified_registration_with_an_event() -> None:
    """`addHook(event:, hook:, priority:)` with a `CallableHook` of a callback and a matcher."""

    class CallableHook:
        def __init__(self, callback: Callable[[Any], Any], matcher: Any) -> None:
            self.callback = callback
            self._matcher = matcher

        def matcher(self) -> Any:
            return self._matcher

        def handle(self, ctx: Any) -> Any:
            return self.callback(ctx)

    refuse = CallableHook(lambda ctx: HookOutcome.block("no"), ToolNameMatcher("bash"))
    made = builder(calls(call("bash", command="ls"), call("read_file", path="a")), say("ok"))
    made.add_hook(event=HookPoint("PreToolUse"), hook=refuse, priority=100)
    assert texts(made)[0] == "Blocked: no"
    assert not texts(made_for_reading(refuse))[0].startswith("Blocked")


def made_for_reading(refuse: Any) -> Any:
    """The same hook, and a call that its matcher does not match."""
    return builder(call("read_file", path="a"), say("ok")).add_hook(event="PreToolUse", hook=refuse)


def test_adapters_are_hooks() -> None:
    """`$hook = new StateProcessorAdapter(...)`, `new ContinuationCriteriaAdapter(...)`: they need no event."""

    class YourStateProcessor:
        def process(self, state: AgentState) -> AgentState:
            return state.with_metadata("processed", state.step_count)

    class YourContinuationCriterion:
        def evaluate(self, state: AgentState) -> ContinuationDecision:
            return ContinuationDecision.ALLOW_STOP

    def watched(ctx: StopHookContext, next: Any) -> Any:
        return next(ctx)

    result = (
        builder(call("bash", command="ls"), say("never said"))
        .with_hooks(
            StateProcessorAdapter(YourStateProcessor(), position="after"),
            ContinuationCriteriaAdapter(YourContinuationCriterion()),
        )
        .on_should_continue(watched)
        .build()
        .run_sync("go")
    )
    assert (result.state.metadata["processed"], result.state.step_count) == (1, 1)
