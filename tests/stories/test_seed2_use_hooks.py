"""The second seed, in Python: a set of hooks as one capability, installed by name and at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    PromptHookContext,
    RunStatus,
    StepHookContext,
    StopHookContext,
    ToolHookContext,
    hook,
    on,
    replay,
    tool,
)
from hookline.errors import BuildError, HookError
from hookline.hooks import MetadataMatcher, StepTypeMatcher
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
def bash(command: str, directory: str = "/base") -> str:
    """Pretend to run a command."""
    return f"{directory}$ {command}"


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns and then answers."""
    return AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(bash)


class UseHooks:
    """Any set of hooks, bundled under one name."""

    def __init__(self, name: str, *hooks: Any) -> None:
        self.name = name
        self._hooks = hooks

    def hooks(self) -> Iterable[Any]:
        return self._hooks


# --- the example at the end of the document ---------------------------------------------------------


def test_the_bundle_of_the_example() -> None:
    """A guard on the base directory, output copied into metadata, and a step's duration as telemetry."""
    clock = FakeClock()
    telemetry: list[tuple[int, float]] = []

    def inside_base(ctx: ToolHookContext) -> HookOutcome | None:
        if not ctx.tool_call.args["directory"].startswith("/base"):
            return HookOutcome.block("outside the base directory")
        return None

    def copy_output(ctx: ToolHookContext) -> AgentState:
        assert ctx.execution is not None
        return ctx.state.with_metadata("last_output", ctx.execution.result)

    def emit(ctx: StepHookContext) -> None:
        assert ctx.step is not None
        telemetry.append((ctx.step_number, ctx.step.duration))

    def slow(state: AgentState) -> Any:
        clock.advance(1.5)
        return calls(
            call("bash", command="ls", directory="/etc"),
            call("bash", command="ls", directory="/base/a"),
        )

    bundle = UseHooks(
        "house-rules",
        hook("PreToolUse", inside_base, matcher="bash", priority=100),
        hook("PostToolUse", copy_output, matcher="bash"),
        hook("StepEnd", emit),
    )
    agent = builder(slow).with_clock(clock).with_capability(bundle).build()
    result = agent.run_sync("look around")
    outside, inside = result.steps[0].results
    assert (outside.is_blocked, outside.reason) == (True, "outside the base directory")
    assert inside.result == "/base/a$ ls"
    assert result.state.metadata == {"last_output": "/base/a$ ls"}
    assert telemetry == [(1, 1.5), (2, 0.0)]
    assert result.status is RunStatus.COMPLETED


def test_a_bundle_is_installed_once() -> None:
    """The same name twice is a mistake, and two names are two bundles."""
    agent = builder().with_capability(UseHooks("a", hook("stop", lambda ctx: None)))
    with pytest.raises(Exception, match="capability 'a' is installed already"):
        agent.with_capability(UseHooks("a"))
    agent.with_capability(UseHooks("b")).build()


def test_bundles_compose_with_each_other_and_with_own_hooks() -> None:
    """Priorities and names order all of them together, wherever they came from."""
    order: list[str] = []

    def mark(label: str) -> Any:
        return lambda ctx: order.append(label)

    first = UseHooks("first", hook("pre_tool_use", mark("late"), name="late", after="middle"))
    second = UseHooks("second", hook("PreToolUse", mark("early"), name="early", priority=10))
    agent = (
        builder(call("bash", command="ls"))
        .with_capability(first)
        .with_capability(second)
        .on_before_tool_use(mark("middle"), name="middle")
        .build()
    )
    agent.run_sync("go")
    assert order == ["early", "middle", "late"]


def test_a_bundle_may_be_an_object_with_decorated_methods() -> None:
    """Hooks that share something live on one object; the decorators say where each goes."""

    class Audit:
        def __init__(self) -> None:
            self.trail: list[str] = []

        @on.execution_start()
        def started(self, ctx: ExecutionHookContext) -> None:
            self.trail.append("started")

        @on.PreToolUse(matcher="bash", priority=-100)
        def using(self, ctx: ToolHookContext) -> None:
            self.trail.append(ctx.tool_call.name)

        @on.execution_end()
        def ended(self, ctx: ExecutionHookContext) -> None:
            self.trail.append(ctx.status.value)

    audit = Audit()
    builder(call("bash", command="ls")).with_hooks(audit).build().run_sync("go")
    assert audit.trail == ["started", "bash", "completed"]


# --- the extension points that capabilities used ----------------------------------------------------


def test_on_build_gets_the_agent_and_may_give_another() -> None:
    """It is called with each agent that is built; a capability is refused, as it could replace the guards."""
    seen: list[Agent] = []
    other = AgentBuilder().with_driver(ScriptedDriver([say("from the other")])).build()
    agent = builder().on_build(lambda built: seen.append(built)).build()
    assert seen == [agent]
    assert builder().on_build(lambda built: other).build().run_sync("go").text == "from the other"

    class Replaces:
        name = "replaces"

        def configure(self, builder: AgentBuilder) -> None:
            builder.on_build(lambda built: other)

    with pytest.raises(BuildError, match="capability 'replaces' cannot replace the agent"):
        builder().with_capability(Replaces())


def test_the_event_bus_has_a_record_for_each_event() -> None:
    """ToolCallStarted, ToolCallCompleted, AgentStepStarted, AgentStepCompleted, AgentFinished, AgentFailed."""
    heard: list[str] = []
    builder(call("bash", command="ls")).on_event(
        lambda record: heard.append(record.type)
    ).build().run_sync("go")
    wanted = ["step_started", "call", "tool_result", "step", "step_started", "step", "result"]
    assert [each for each in heard if each in wanted] == wanted
    failed = AgentBuilder().with_driver(ScriptedDriver([RuntimeError("lost")])).build()
    records = failed.run_sync("go").records
    assert [each.type for each in records if each.type in ("error", "status")] == [
        "error",
        "status",
    ]


# --- the events, in the order of the pipeline -------------------------------------------------------


def test_every_event_of_the_document_happens_where_it_says() -> None:
    """ExecutionStart once, StepStart and StepEnd around each step, tools inside, Stop at the end."""
    seen: list[str] = []
    agent = builder(call("bash", command="ls"))
    for event in (
        "UserPromptSubmit ExecutionStart StepStart PreToolUse PostToolUse StepEnd Stop "
        "AgentFailed SessionStart SessionEnd"
    ).split():
        agent.add_hook(event, lambda ctx, *, event=event: seen.append(event), name=event)
    agent.build().run_sync("go")
    assert (
        seen
        == (
            "SessionStart ExecutionStart UserPromptSubmit "
            "StepStart PreToolUse PostToolUse StepEnd "
            "StepStart StepEnd Stop SessionEnd"
        ).split()
    )


def test_agent_failed_is_called_for_cleanup() -> None:
    """The failure context carries the state and the exception itself."""
    boom = RuntimeError("no model")
    heard: list[tuple[Any, int]] = []

    def clean_up(ctx: FailureHookContext) -> None:
        heard.append((ctx.exception, ctx.state.step_count))

    agent = AgentBuilder().with_driver(ScriptedDriver([boom]))
    result = agent.add_hook("AgentFailed", clean_up).build().run_sync("go")
    assert heard == [(boom, 1)]
    assert (result.status, result.error) == (RunStatus.FAILED, boom)


def test_a_prompt_hook_changes_or_refuses_the_input() -> None:
    """What the runtime of the seed lacked: the user's text passes a hook before it enters the conversation."""

    def tidy(ctx: PromptHookContext) -> Any:
        if "password" in ctx.prompt:
            return HookOutcome.block("no secrets, please")
        return ctx.with_prompt(ctx.prompt.strip())

    driver = ScriptedDriver([say("hello")])
    agent = AgentBuilder().with_driver(driver).add_hook("UserPromptSubmit", tidy).build()
    refused = agent.run_sync("my password is x")
    assert (refused.status, driver.requests) == (RunStatus.STOPPED, [])
    assert "no secrets, please" in refused.explain()
    assert agent.run_sync("  hi  ").text == "hello"
    assert str(driver.requests[0]) == "user: hi"


def test_contexts_describe_the_agent() -> None:
    """The id is in the state; model, tools and system prompt are those of the run."""
    seen: list[Any] = []

    def describe(ctx: ExecutionHookContext) -> None:
        seen.append((ctx.state.agent_id, ctx.run.model, ctx.run.system_prompt))
        seen.append([each.name for each in ctx.run.tools])

    agent = builder().with_id("clerk").with_system_prompt("Be brief.").on_execution_start(describe)
    agent.build().run_sync("go")
    assert seen == [("clerk", "scripted", "Be brief."), ["bash"]]


async def test_contexts_have_the_time_of_the_run() -> None:
    """`ctx.now` is the run's clock at each point, so durations can be taken, and a replay sees the same."""
    clock = FakeClock(start=1_000.0)
    seen: list[tuple[str, float]] = []

    def slow(_state: AgentState) -> Any:
        clock.advance(3.0)
        return call("bash", command="ls")

    bundle = UseHooks(
        "times",
        *(
            hook(point, lambda ctx: seen.append((ctx.point.value, ctx.now)), name="times")
            for point in ("execution_start", "before_inference", "after_inference", "after_step")
        ),
    )
    agent = builder(slow).with_clock(clock).with_capability(bundle).build()
    result = await agent.run("go")
    assert seen[:4] == [
        ("execution_start", 1_000.0),
        ("before_inference", 1_000.0),
        ("after_inference", 1_003.0),
        ("after_step", 1_003.0),
    ]
    live = seen.copy()
    seen.clear()
    assert (await replay(result.records, result.run_id, agent)).identical
    assert seen == live


# --- outcomes ---------------------------------------------------------------------------------------


def test_first_deny_wins_and_allow_may_modify_arguments() -> None:
    """Changes are applied in order until a hook denies; later hooks are not called."""
    asked: list[str] = []

    def to_tmp(ctx: ToolHookContext) -> ToolHookContext:
        return ctx.with_args(directory="/tmp")

    def deny_tmp(ctx: ToolHookContext) -> HookOutcome | None:
        return (
            HookOutcome.block("not in /tmp") if ctx.tool_call.args["directory"] == "/tmp" else None
        )

    agent = (
        builder(call("bash", command="ls"))
        .on_before_tool_use(to_tmp, priority=2)
        .on_before_tool_use(deny_tmp, priority=1)
        .on_before_tool_use(lambda ctx: asked.append("later"))
        .build()
    )
    blocked = agent.run_sync("go").steps[0].results[0]
    assert (blocked.reason, blocked.decided_by, asked) == ("not in /tmp", "deny_tmp", [])


def test_a_stop_decision_ends_the_run() -> None:
    """First stop wins: nothing of the step that has not run yet runs."""
    agent = (
        builder(calls(call("bash", command="one"), call("bash", command="two")))
        .on_before_tool_use(lambda ctx: HookOutcome.stop("enough"), name="enough")
        .build()
    )
    result = agent.run_sync("go")
    assert result.status is RunStatus.STOPPED
    assert [each.status for each in result.steps[0].results] == ["not_run", "not_run"]
    assert "enough" in result.explain()


def test_a_stop_hook_can_make_the_run_continue() -> None:
    """The continue decision of the seed is an objection here, and the model reads it."""
    driver = ScriptedDriver([say("half"), say("whole")])

    def unfinished(ctx: StopHookContext) -> HookOutcome | None:
        assert ctx.step is not None
        return HookOutcome.block("the other half is missing") if ctx.step.text == "half" else None

    result = AgentBuilder().with_driver(driver).on_stop(unfinished).build().run_sync("go")
    assert (result.text, result.state.step_count) == ("whole", 2)
    assert "the other half is missing" in str(driver.requests[1])


def test_a_criterion_allows_and_a_hook_may_also_insist() -> None:
    """AllowStop and AllowContinuation of the document are the weak words; forbid and request are the strong ones."""

    def steps(*said: Any) -> int:
        agent = builder(call("bash", command="ls"))
        for each in said:
            agent.on_should_continue(each)
        return agent.build().run_sync("go").state.step_count

    def stop(ctx: StopHookContext) -> Any:
        return ctx.allow_stop("a hook signals stop")

    def more(ctx: StopHookContext) -> Any:
        return ctx.request_continue("there is more") if ctx.state.step_count == 1 else None

    assert steps() == 2
    assert steps(stop) == 1
    assert steps(stop, more) == 2
    assert steps(stop, more, lambda ctx: ctx.forbid("that is all")) == 1


def test_observing_comes_first_and_changes_nothing() -> None:
    """The first phase of the document: hooks that only record, and neither block nor change."""
    log: list[Any] = []

    def observe(ctx: ToolHookContext) -> HookOutcome:
        log.append((ctx.tool_call.name, ctx.verdict.label))
        return HookOutcome.block("not heard")

    agent = builder(call("bash", command="ls")).on_before_tool_use(observe, tier="observer").build()
    assert agent.run_sync("go").steps[0].results[0].result == "/base$ ls"
    assert log == [("bash", "proceed")]


# --- matching ---------------------------------------------------------------------------------------


def test_step_type_and_metadata_matchers_are_value_objects() -> None:
    """Final responses and tool steps are distinguished, and a metadata key selects."""
    seen: list[str] = []
    agent = (
        builder(call("bash", command="ls"))
        .on_after_step(
            lambda ctx: seen.append(f"tool {ctx.step_number}"), matcher=StepTypeMatcher("tool_use")
        )
        .on_after_step(
            lambda ctx: seen.append(f"final {ctx.step_number}"),
            matcher=StepTypeMatcher("final_response"),
        )
        .on_after_tool_use(lambda ctx: ctx.with_metadata("used", ctx.tool_call.name))
        .on_before_step(
            lambda ctx: seen.append(f"used bash before {ctx.step_number}"),
            matcher=MetadataMatcher("used", "bash"),
        )
        .on_before_step(lambda ctx: seen.append("never"), matcher=MetadataMatcher("unused"))
        .build()
    )
    agent.run_sync("go")
    assert seen == ["tool 1", "used bash before 2", "final 2"]
    assert MetadataMatcher("used", "bash") == MetadataMatcher("used", "bash")
    assert hash(StepTypeMatcher("tool_use")) == hash(StepTypeMatcher("tool_use"))


# --- failures ---------------------------------------------------------------------------------------


def test_a_failing_hook_fails_closed_or_open() -> None:
    """Closed denies the tool, which is the default; open continues as if the hook had said nothing."""

    def broken(ctx: ToolHookContext) -> None:
        raise KeyError("oops")

    turn = call("bash", command="ls")
    closed = builder(turn).on_before_tool_use(broken).build().run_sync("go")
    assert closed.steps[0].results[0].is_blocked
    assert "broken" in closed.steps[0].results[0].reason
    assert closed.status is RunStatus.COMPLETED
    opened = builder(turn).on_before_tool_use(broken, on_failure="open").build().run_sync("go")
    assert opened.steps[0].results[0].result == "/base$ ls"


def test_a_failing_step_hook_fails_closed_or_open() -> None:
    """At a point where nothing can be blocked, closed means that the run fails, with the hook's name."""

    def broken(ctx: StepHookContext) -> None:
        raise KeyError("oops")

    closed = builder().on_after_step(broken).build().run_sync("go")
    assert closed.status is RunStatus.FAILED
    assert isinstance(closed.error, HookError)
    assert (closed.error.hook, closed.error.point) == ("broken", "after_step")
    opened = builder().on_after_step(broken, on_failure="open").build().run_sync("go")
    assert opened.status is RunStatus.COMPLETED


def test_hooks_do_not_mutate_state_in_place() -> None:
    """Writing into what a hook is shown is refused, naming the hook; nothing has changed."""

    def mutate(ctx: ToolHookContext) -> None:
        ctx.metadata["sneaky"] = True

    result = builder(call("bash", command="ls")).on_before_tool_use(mutate).build().run_sync("go")
    assert result.state.metadata == {}
    assert "read-only" in result.steps[0].results[0].reason
