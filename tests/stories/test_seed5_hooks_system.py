"""The fifth seed, in Python: quick start, spellings, outcomes, contexts."""

from __future__ import annotations

from typing import Any

import pytest
from seed5 import builder

from hookline import (
    AgentBuilder,
    EventTypeMatcher,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    HookPoint,
    RunStatus,
    StepHookContext,
    StopHookContext,
    StopReason,
    SubagentHookContext,
    ToolCall,
    ToolContext,
    ToolHookContext,
    hook,
    on,
    tool,
)
from hookline.testing import ScriptedDriver, call, calls, say

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


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, ["parent"]),
        ({"scope": "tree"}, ["parent", "child", "grandchild"]),
        ({"scope": "children"}, ["child", "grandchild"]),
        ({"tier": "policy"}, ["parent", "child", "grandchild"]),
    ],
    ids=str,
)
def test_quick_start_guard_and_subagents(options: Any, seen: list[str]) -> None:
    """A hook holds in its own run; as a policy, or with a scope, it holds in the runs below, at any depth."""
    judged: list[str] = []

    def guard(ctx: ToolHookContext) -> HookOutcome:
        judged.append(ctx.tool_call.args["command"])
        return HookOutcome.block("Dangerous command blocked")

    def agent_named(name: str, below: Any = None) -> AgentBuilder:
        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand the task on."""
            return str((await context.spawn(below, "do it")).text)

        turns = [call("bash", command=name), *([call("delegate")] if below else []), say("done")]
        return builder(*turns).with_tools(delegate)

    child = agent_named("child", agent_named("grandchild").build()).build()
    agent = agent_named("parent", child).on_before_tool_use(guard, matcher="bash", **options)
    assert agent.build().run_sync("go").status is RunStatus.COMPLETED
    assert judged == seen


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

    agent = AgentBuilder().add_hook(spelling, nothing).build(model=None)
    assert agent.definition.registrations[-1].point.value == point
    assert hook(spelling, nothing).point.value == point
    context = HookPoint(point).context(point=HookPoint(point))
    assert EventTypeMatcher(spelling).matches(context)
    if spelling.isidentifier():
        assert AgentBuilder().with_hooks(getattr(on, spelling)()(nothing)).build(model=None)


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
    """Block prevents one action and the run continues; stop halts the run, and the rest is not run."""

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
    assert [each.text for each in result.steps[0].results] == [
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
        assert ctx.tool_result is ctx.execution
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
    """It shows the continuation outcome, and a block forces the run to continue."""
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
