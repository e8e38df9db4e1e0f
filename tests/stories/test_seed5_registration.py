"""The fifth seed, in Python: matchers, priorities, registration, the stack used alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from seed5 import builder

from hookline import (
    AgentState,
    CallableMatcher,
    CompositeMatcher,
    EventTypeMatcher,
    ExecutionHookContext,
    HookOutcome,
    HookPoint,
    HookStack,
    PromptHookContext,
    RunStatus,
    StepHookContext,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
)
from hookline.testing import FakeClock, call, calls, say

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
    texts = [each.text for step in result.steps for each in step.results]
    assert texts == ["ran one", "ran two", "Blocked: Rate limit exceeded", "ran four"]
    assert result.status is RunStatus.COMPLETED


# --- the stack, used directly -----------------------------------------------------------------------


class Named:
    """A hook that writes down that it ran and continues."""

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
