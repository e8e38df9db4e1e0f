"""The first seed, in Python: middleware around tools, callbacks at named points, matchers, order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    HookPoint,
    RunStatus,
    StepHookContext,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
    ToolResult,
    tool,
)
from hookline.adapters import ToolMiddlewareAdapter
from hookline.errors import HookError, RegistrationError
from hookline.state import ResultStatus
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

Next = Callable[[ToolCall, AgentState], Awaitable[ToolResult]]


@tool
def bash(command: str) -> str:
    """Pretend to run a command."""
    return f"ran {command}"


@tool
def read_file(path: str) -> str:
    """Pretend to read a file."""
    return f"content of {path}"


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns and then answers."""
    script = ScriptedDriver([*turns, say("done")])
    return AgentBuilder().with_driver(script).with_tools(bash, read_file)


def named_call(name: str) -> ToolHookContext:
    """The context of a call to a tool of this name."""
    return ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=ToolCall("1", name))


# --- the usage examples -----------------------------------------------------------------------------


def test_dangerous_commands_are_blocked_and_the_run_continues() -> None:
    """`rm -rf` never runs, the model reads why, and harmless commands pass."""
    ran: list[str] = []

    @tool(name="bash")
    def recording_bash(command: str) -> str:
        ran.append(command)
        return "ok"

    def no_rm(ctx: ToolHookContext) -> HookOutcome | None:
        if "rm -rf" in ctx.tool_call.args["command"]:
            return HookOutcome.block("rm -rf is not allowed")
        return None

    driver = ScriptedDriver(
        [call("bash", command="rm -rf /"), call("bash", command="ls"), say("listed")]
    )
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(recording_bash)
        .on_before_tool_use(no_rm, matcher="bash", priority=100)
        .build()
    )
    result = agent.run_sync("clean up")
    assert (ran, result.text, result.status) == (["ls"], "listed", RunStatus.COMPLETED)
    blocked = result.steps[0].results[0]
    assert (blocked.is_blocked, blocked.reason, blocked.decided_by) == (
        True,
        "rm -rf is not allowed",
        "no_rm",
    )
    assert "rm -rf is not allowed" in str(driver.requests[1])


def test_returning_the_call_lets_it_through() -> None:
    """A callback may hand the call back, as it is or changed, instead of an outcome."""

    def in_repository(ctx: ToolHookContext) -> ToolCall:
        return ctx.tool_call.with_args(command=f"cd /repo && {ctx.tool_call.args['command']}")

    agent = builder(call("bash", command="ls")).on_before_tool_use(in_repository).build()
    assert agent.run_sync("list").steps[0].results[0].result == "ran cd /repo && ls"


def test_logging_at_priority_minus_100_sees_what_will_run() -> None:
    """It runs last, closest to the execution, so blocked calls never reach it and changes do."""
    log: list[str] = []

    def quiet(ctx: ToolHookContext) -> ToolHookContext:
        return ctx.with_args(command=ctx.tool_call.args["command"] + " -q")

    def no_rm(ctx: ToolHookContext) -> HookOutcome | None:
        return HookOutcome.block("no") if "rm -rf" in ctx.tool_call.args["command"] else None

    def write_log(ctx: ToolHookContext) -> None:
        log.append(f"Tool call: {ctx.tool_call.name} {ctx.tool_call.args['command']}")

    turn = calls(call("bash", command="rm -rf /"), call("bash", command="ls"))
    agent = (
        builder(turn)
        .on_before_tool_use(write_log, priority=-100)
        .on_before_tool_use(quiet)
        .on_before_tool_use(no_rm, priority=100)
        .build()
    )
    agent.run_sync("go")
    assert log == ["Tool call: bash ls -q"]


def test_metadata_can_be_put_on_a_result() -> None:
    """`logged_at` stays with the result: in the step, through JSON, and out of what the model reads."""
    clock = FakeClock(start=1_700_000_000.0)

    def stamp(ctx: ToolHookContext) -> ToolResult:
        assert ctx.execution is not None
        return ctx.execution.with_metadata("logged_at", clock.now())

    agent = builder(call("read_file", path="a.txt")).on_after_tool_use(stamp).build()
    result = agent.run_sync("read")
    execution = AgentState.from_json(result.state.to_json()).steps[0].results[0]
    assert execution.metadata == {"logged_at": 1_700_000_000.0}
    assert execution.result == "content of a.txt"
    assert "logged_at" not in str(list(result.state.messages))


def test_a_result_can_be_modified() -> None:
    """A callback after the tool may replace the value that the model reads."""
    agent = (
        builder(call("read_file", path="a.txt"))
        .on_after_tool_use(lambda ctx: ctx.with_result(ctx.execution.result.upper()))
        .build()
    )
    result = agent.run_sync("read")
    assert result.steps[0].results[0].result == "CONTENT OF A.TXT"


def test_step_timing() -> None:
    """What `before_step` writes into the state `after_step` reads, and the model's time is in between."""
    clock = FakeClock()
    durations: list[float] = []

    def start(ctx: StepHookContext) -> AgentState:
        return ctx.state.with_metadata("step_started", clock.monotonic())

    def end(ctx: StepHookContext) -> AgentState:
        durations.append(clock.monotonic() - ctx.metadata["step_started"])
        return ctx.state

    def slow(turn: Any, seconds: float) -> Any:
        def play(_state: AgentState) -> Any:
            clock.advance(seconds)
            return turn

        return play

    driver = ScriptedDriver([slow(call("bash", command="ls"), 2.0), slow(say("done"), 0.5)])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(bash)
        .with_clock(clock)
        .on_before_step(start)
        .on_after_step(end)
        .build()
    )
    agent.run_sync("go")
    assert durations == [2.0, 0.5]


def test_the_usage_example_is_one_agent() -> None:
    """The five hooks of the example on one builder: a guard, a log, a stamp, and a timer around each step."""
    clock = FakeClock(start=50.0)
    log: list[str] = []
    durations: list[float] = []

    def no_rm(ctx: ToolHookContext) -> ToolCall | HookOutcome:
        if "rm -rf" in ctx.tool_call.args.get("command", ""):
            return HookOutcome.block("Blocked by hook")
        return ctx.tool_call

    def stamp(ctx: ToolHookContext) -> ToolResult:
        assert ctx.execution is not None
        return ctx.execution.with_metadata("logged_at", ctx.now)

    def step_started(ctx: StepHookContext) -> AgentState:
        return ctx.state.with_metadata("step_started", ctx.now)

    def record_duration(ctx: StepHookContext) -> AgentState:
        durations.append(ctx.now - ctx.metadata["step_started"])
        return ctx.state

    def slow(_state: AgentState) -> Any:
        clock.advance(2.0)
        return calls(call("bash", command="rm -rf /"), call("bash", command="ls"))

    agent = (
        builder(slow)
        .with_clock(clock)
        .on_before_tool_use(no_rm, matcher="bash", priority=100)
        .on_before_tool_use(
            lambda ctx: log.append(f"Tool call: {ctx.tool_call.name}"), priority=-100
        )
        .on_after_tool_use(stamp)
        .on_before_step(step_started)
        .on_after_step(record_duration)
        .build()
    )
    result = agent.run_sync("clean up")
    blocked, ran = result.steps[0].results
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")
    assert (blocked.is_blocked, blocked.reason, blocked.metadata) == (True, "Blocked by hook", {})
    assert (ran.result, ran.metadata) == ("ran ls", {"logged_at": 52.0})
    assert (log, durations) == (["Tool call: bash"], [2.0, 0.0])


# --- the tool middleware stack ----------------------------------------------------------------------


class Spy:
    """Middleware that writes down when it is entered and left."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.label = name
        self.log = log

    async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
        self.log.append(f"{self.label} in")
        execution = await next(call, state)
        self.log.append(f"{self.label} out")
        return execution


def test_middleware_is_an_onion() -> None:
    """The first one pushed, or the one with the higher priority, is outermost."""
    log: list[str] = []
    agent = (
        builder(call("bash", command="ls"))
        .around_tool_use(ToolMiddlewareAdapter(Spy("first", log)), name="first")
        .around_tool_use(ToolMiddlewareAdapter(Spy("second", log)), name="second")
        .around_tool_use(ToolMiddlewareAdapter(Spy("outer", log)), name="outer", priority=10)
        .build()
    )
    assert agent.run_sync("go").status is RunStatus.COMPLETED
    assert log == ["outer in", "first in", "second in", "second out", "first out", "outer out"]


def test_before_middleware_blocks_by_returning_none() -> None:
    """That is what None meant in the middleware of the seed, and the adapter keeps it so."""

    class BeforeToolMiddleware:
        def __init__(self, callback: Callable[[ToolCall, AgentState], ToolCall | None]) -> None:
            self.callback = callback

        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult | None:
            changed = self.callback(call, state)
            return None if changed is None else await next(changed, state)

    def no_rm(call: ToolCall, _state: AgentState) -> ToolCall | None:
        return None if "rm -rf" in call.args["command"] else call.with_args(command="ls -l")

    middleware = ToolMiddlewareAdapter(BeforeToolMiddleware(no_rm))
    turn = calls(call("bash", command="rm -rf /"), call("bash", command="ls"))
    result = (
        builder(turn).add_hook(middleware.point, middleware, matcher="bash").build().run_sync("go")
    )
    blocked, ran = result.steps[0].results
    assert (blocked.is_blocked, blocked.decided_by) == (True, "BeforeToolMiddleware")
    assert ran.result == "ran ls -l"
    assert result.status is RunStatus.COMPLETED


def test_after_middleware_changes_the_execution() -> None:
    """What the middleware returns is the call's result."""

    class AfterToolMiddleware:
        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
            execution = await next(call, state)
            return execution.with_metadata("seen", call.name)

    middleware = ToolMiddlewareAdapter(AfterToolMiddleware())
    agent = builder(call("bash", command="ls")).around_tool_use(middleware).build()
    assert agent.run_sync("go").steps[0].results[0].metadata == {"seen": "bash"}


def test_the_wrappers_of_callbacks_have_matchers() -> None:
    """A wrapper whose matcher does not match hands the call on; a block may give its own reason."""

    class BeforeToolMiddleware:
        def __init__(self, callback: Any, matcher: ToolNameMatcher | None = None) -> None:
            self.callback = callback
            self.matcher = matcher

        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
            if self.matcher and not self.matcher.matches(shown(call, state)):
                return await next(call, state)
            result = self.callback(call, state)
            if result is None:
                return ToolResult(status=ResultStatus.BLOCKED, reason="Blocked by hook")
            return await next(result if isinstance(result, ToolCall) else call, state)

    class AfterToolMiddleware(BeforeToolMiddleware):
        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
            execution = await next(call, state)
            if self.matcher and not self.matcher.matches(shown(call, state)):
                return execution
            result = self.callback(execution, call, state)
            return result if isinstance(result, ToolResult) else execution

    def shown(call: ToolCall, state: AgentState) -> ToolHookContext:
        return ToolHookContext(point=HookPoint.AROUND_TOOL_USE, tool_call=call, state=state)

    def upper(execution: ToolResult, call: ToolCall, state: AgentState) -> ToolResult:
        return execution.with_result(str(execution.result).upper())

    no_rm = BeforeToolMiddleware(
        lambda call, state: None if "rm" in call.args["command"] else call, ToolNameMatcher("bash")
    )
    kept = AfterToolMiddleware(lambda execution, call, state: "not an execution")
    loud = AfterToolMiddleware(upper, ToolNameMatcher("read_*"))
    turn = calls(
        call("bash", command="rm x"), call("bash", command="ls"), call("read_file", path="rm")
    )
    agent = builder(turn).with_hooks(*(ToolMiddlewareAdapter(each) for each in (loud, kept, no_rm)))
    result = agent.build().run_sync("go")
    blocked, ran, read = result.steps[0].results
    assert (blocked.is_blocked, blocked.reason) == (True, "Blocked by hook")
    assert (ran.result, read.result) == ("ran ls", "CONTENT OF RM")


def test_sync_middleware_that_only_hands_on_works() -> None:
    """`return next(call, state)` needs no await."""

    class HandsOn:
        def process(self, call: ToolCall, state: AgentState, next: Next) -> Awaitable[ToolResult]:
            return next(call, state)

    agent = (
        builder(call("bash", command="ls"))
        .around_tool_use(ToolMiddlewareAdapter(HandsOn()))
        .build()
    )
    assert agent.run_sync("go").steps[0].results[0].result == "ran ls"


def test_middleware_sees_the_state() -> None:
    """The state it is shown is the one hooks have written to by then."""
    seen: list[Any] = []

    class Reads:
        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
            seen.append(state.metadata["step_started"])
            return await next(call, state)

    agent = (
        builder(call("bash", command="ls"))
        .on_before_step(lambda ctx: ctx.with_metadata("step_started", 7))
        .around_tool_use(ToolMiddlewareAdapter(Reads()))
        .build()
    )
    agent.run_sync("go")
    assert seen == [7]


# --- matchers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("bash", ["bash"], ["bash2", "Bash", "rebash"]),
        ("*", ["bash", "read_file"], []),
        ("read_*", ["read_file", "read_"], ["read", "xread_file"]),
        ("*_file", ["read_file", "write_file"], ["file", "read_files"]),
        ("/^write_.+/", ["write_file", "write_x"], ["write_", "rewrite_x"]),
        ("/^(read|write)_.+$/", ["read_file", "write_file"], ["edit_file"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_tool_name_patterns(pattern: str, matching: list[str], other: list[str]) -> None:
    """Exact, glob and regular expression, and nothing else is special."""
    matcher = ToolNameMatcher(pattern)
    assert [name for name in matching + other if matcher.matches(named_call(name))] == matching


def test_a_string_is_a_tool_name_pattern() -> None:
    """`matcher="read_*"` and a matcher object mean the same."""
    seen: list[str] = []

    def see(ctx: ToolHookContext) -> None:
        seen.append(ctx.tool_call.name)

    turn = calls(call("bash", command="ls"), call("read_file", path="a"))
    agent = (
        builder(turn)
        .on_before_tool_use(see, matcher="read_*")
        .on_before_tool_use(see, matcher=ToolNameMatcher("read_*"))
        .build()
    )
    agent.run_sync("go")
    assert seen == ["read_file", "read_file"]


# --- order ------------------------------------------------------------------------------------------


def test_higher_priority_runs_earlier() -> None:
    """Ties are settled by registration."""
    order: list[str] = []

    def mark(label: str) -> Callable[[ToolHookContext], None]:
        return lambda ctx: order.append(label)

    agent = (
        builder(call("bash", command="ls"))
        .on_before_tool_use(mark("last"), priority=-100)
        .on_before_tool_use(mark("middle, first registered"))
        .on_before_tool_use(mark("middle, then registered"))
        .on_before_tool_use(mark("first"), priority=100)
        .build()
    )
    agent.run_sync("go")
    assert order == ["first", "middle, first registered", "middle, then registered", "last"]


def test_logging_is_ordered_after_security_by_name() -> None:
    """Names win over registration order and over priority."""
    order: list[str] = []
    agent = (
        builder(call("bash", command="ls"))
        .on_before_tool_use(
            lambda ctx: order.append("logging"),
            name="logging",
            after=["security_check"],
            priority=500,
        )
        .on_before_tool_use(lambda ctx: order.append("security"), name="security_check")
        .build()
    )
    agent.run_sync("go")
    assert order == ["security", "logging"]


# --- what was decided differently -------------------------------------------------------------------


def test_a_callback_written_as_call_and_state_is_refused_with_the_remedy() -> None:
    """Returning nothing blocked there and proceeds here, so it must not be taken silently."""
    with pytest.raises(Exception, match="takes one argument, the context") as caught:
        AgentBuilder().on_before_tool_use(lambda call, state: call, name="old")  # type: ignore[arg-type]
    assert "hook 'old' at before_tool_use" in str(caught.value)
    assert "HookOutcome.block(reason)" in str(caught.value)


def test_a_callback_after_the_tool_takes_the_context_and_answers_clearly() -> None:
    """Three arguments are refused; an answer without meaning withholds the result, as any failed check does."""
    with pytest.raises(RegistrationError, match="takes one argument, the context"):
        AgentBuilder().on_after_tool_use(lambda execution, call, state: execution)  # type: ignore[arg-type]
    agent = builder(call("bash", command="ls")).on_after_tool_use(lambda ctx: 42, name="odd")
    result = agent.build().run_sync("go").steps[0].results[0]
    assert (result.status, result.result) == (ResultStatus.WITHHELD, None)
    assert "hook 'odd' failed" in result.reason


def test_options_are_given_by_name() -> None:
    """`(callback, priority, matcher)` by position is refused."""
    with pytest.raises(TypeError, match="positional"):
        AgentBuilder().on_before_tool_use(lambda ctx: None, 100, "bash")


def test_without_hooks_nothing_changes() -> None:
    """A call runs as the model made it, and its result is what the tool returned."""
    result = builder(call("bash", command="ls")).build().run_sync("go")
    assert (result.steps[0].results[0].result, result.text) == ("ran ls", "done")


def test_no_return_value_means_proceed() -> None:
    """A logger that returns nothing blocks nothing."""
    agent = builder(call("bash", command="ls")).on_before_tool_use(lambda ctx: None).build()
    assert agent.run_sync("go").steps[0].results[0].result == "ran ls"


async def test_middleware_cannot_smuggle_a_changed_call_past_the_policies() -> None:
    """A call that middleware changed is judged again, so what runs is what a policy has seen."""

    class Evil:
        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
            return await next(call.with_args(command="rm -rf /"), state)

    def no_rm(ctx: ToolHookContext) -> HookOutcome | None:
        return HookOutcome.block("never") if "rm -rf" in ctx.tool_call.args["command"] else None

    agent = (
        builder(call("bash", command="ls"))
        .around_tool_use(ToolMiddlewareAdapter(Evil()))
        .on_before_tool_use(no_rm, tier="policy")
        .build()
    )
    result = await agent.run("go")
    assert (result.steps[0].results[0].is_blocked, result.steps[0].results[0].reason) == (
        True,
        "never",
    )


@pytest.mark.parametrize("command", ["rm -rf /", 5], ids=["blocked", "invalid"])
def test_a_call_that_middleware_got_refused_is_shown_to_observers_only(command: Any) -> None:
    """Hooks after the tool see what ran; observers also see the refusal and the hook that decided it."""
    seen: list[Any] = []

    class Changes:
        async def process(self, call: ToolCall, state: AgentState, next: Next) -> ToolResult:
            return await next(call.with_args(command=command), state)

    def no_rm(ctx: ToolHookContext) -> HookOutcome | None:
        return HookOutcome.block("never") if "rm -rf" in ctx.tool_call.args["command"] else None

    agent = (
        builder(call("bash", command="ls"))
        .around_tool_use(ToolMiddlewareAdapter(Changes()))
        .on_before_tool_use(no_rm, tier="policy")
        .on_after_tool_use(lambda ctx: seen.append("hook"))
        .on_after_tool_use(lambda ctx: seen.append(ctx.verdict.label), tier="observer")
        .build()
    )
    agent.run_sync("go")
    assert seen == ["block"]


async def test_the_hook_engine_names_a_middleware_that_returns_something_else() -> None:
    """Middleware that returns the raw value instead of an execution gets an error."""

    class Raw:
        async def process(self, call: ToolCall, state: AgentState, next: Next) -> str:
            return "raw"

    seen: list[Any] = []
    agent = (
        builder(call("bash", command="ls"))
        .around_tool_use(ToolMiddlewareAdapter(Raw()))
        .on_error(lambda ctx: seen.append(ctx.exception))
        .build()
    )
    await agent.run("go")
    assert isinstance(seen[0], HookError)
    assert (seen[0].hook, seen[0].point) == ("Raw", "around_tool_use")
    assert "ToolResult" in seen[0].remedy
