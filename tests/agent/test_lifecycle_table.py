"""The two tables of the lifecycle, row by row: what hooks are shown and may change, and what their words mean."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest

from hookline import (
    AfterStepHookContext,
    AfterToolHookContext,
    AgentBuilder,
    CompactHookContext,
    ContinuationOutcome,
    Decision,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    HookPoint,
    HookStack,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    RunResult,
    RunStatus,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    StopReason,
    SubagentHookContext,
    ToolCall,
    ToolContext,
    ToolHookContext,
    ToolResult,
    tool,
)
from hookline.errors import HookError, ModelError
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision
from hookline.hooks import Verdict
from hookline.journal import HookRan, hooks_in
from hookline.state import InferenceResponse, Step, check_transcript
from hookline.testing import ScriptedDriver, call, say


class Row(NamedTuple):
    """One row of both tables."""

    context: type
    changes: str
    """What `proceed(changed context)` may change; evaluations can be appended everywhere."""
    blocked: tuple[RunStatus, StopReason] | None
    """How a run whose hook blocks here ends; None where nothing can be blocked."""
    failing: str
    """What a failing hook is: `block` or `error`."""


GOES_ON = (RunStatus.COMPLETED, StopReason.COMPLETED)

TABLE: dict[str, Row] = {
    "session_start": Row(SessionHookContext, "state", None, "error"),
    "execution_start": Row(
        ExecutionHookContext, "state", (RunStatus.STOPPED, StopReason.RUN_REFUSED), "error"
    ),
    "prompt_submit": Row(
        PromptHookContext, "state prompt", (RunStatus.STOPPED, StopReason.PROMPT_REFUSED), "block"
    ),
    "before_step": Row(
        StepHookContext, "state", (RunStatus.STOPPED, StopReason.STEP_REFUSED), "error"
    ),
    "before_inference": Row(InferenceHookContext, "state request response", GOES_ON, "error"),
    "after_inference": Row(InferenceHookContext, "state response", GOES_ON, "error"),
    "before_tool_use": Row(ToolHookContext, "state tool_call execution", GOES_ON, "block"),
    "permission_request": Row(ToolHookContext, "state", GOES_ON, "block"),
    "after_tool_use": Row(AfterToolHookContext, "state execution", GOES_ON, "block"),
    "after_step": Row(AfterStepHookContext, "state", None, "error"),
    "should_continue": Row(StopHookContext, "state", None, "error"),
    "stop": Row(StopHookContext, "state", GOES_ON, "error"),
    "output": Row(
        OutputHookContext, "state output", (RunStatus.STOPPED, StopReason.OUTPUT_WITHHELD), "block"
    ),
    "execution_end": Row(ExecutionHookContext, "state", None, "error"),
    "error": Row(FailureHookContext, "state decision execution response", None, "error"),
    "agent_failed": Row(FailureHookContext, "state", None, "error"),
    "subagent_start": Row(SubagentHookContext, "prompt", GOES_ON, "block"),
    "subagent_stop": Row(SubagentHookContext, "result", GOES_ON, "error"),
    "before_compact": Row(CompactHookContext, "state instructions", GOES_ON, "block"),
    "session_end": Row(SessionHookContext, "state", None, "error"),
}

# No run in this file summarises its history, so that point is asked through a stack of its own.
REACHED = [name for name in TABLE if name != "before_compact"]
OVER = ("execution_end", "agent_failed", "session_end")
"""The run has ended: a verdict is an error of the hook, and changes nothing."""
LENIENT = ("session_start", "after_step", *OVER)
"""A value that is no answer is ignored."""
TOO_LATE = ("output", *OVER)
"""An evaluation is ignored."""


@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    TRIALS[-1].ran.append(a)
    if TRIALS[-1].point == "error":
        raise ValueError("tool down")
    return a + b


@tool
async def delegate(context: ToolContext) -> str:
    """Delegate."""
    return str((await context.spawn(TRIALS[-1].child, "task")).text)


TRIALS: list[Trial] = []
"""The latest is the one that is running: tools are made once, because making them is slow."""


class Trial:
    """A run that comes past every point of the lifecycle, and how often its tools ran."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.point = ""
        self.child = AgentBuilder().with_driver(ScriptedDriver([say("child")] * 20)).build()
        TRIALS[:] = [self]

    def builder(self, point: str) -> AgentBuilder:
        self.point = point
        name = "delegate" if point.startswith("subagent") else "add"
        first = call(name) if name == "delegate" else call("add", a=1)
        turns = [ModelError("down")] if point == "agent_failed" else [first, *[say("done")] * 20]
        agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add, delegate)
        if point == "permission_request":
            agent.on_before_tool_use(lambda ctx: HookOutcome.ask("?"), name="asker")
            agent.with_approver(lambda _: True)
        return agent


async def run(point: str, hook: Any, **options: Any) -> tuple[RunResult, list[HookRan], Trial]:
    """A run with this hook at this point, and what the journal says of the hook."""
    trial = Trial()
    agent = trial.builder(point).add_hook(point, hook, name="probe", **options).build()
    result = await agent.run("go")
    check_transcript(result.state.messages)
    ran = [each for each in hooks_in(result.records) if each.hook == "probe"]
    return result, ran, trial


def first_time(hook: Any) -> Any:
    """The hook, the first time it is asked; after that it lets things be."""
    asked: list[Any] = []

    def once(ctx: Any) -> Any:
        asked.append(ctx)
        return hook(ctx) if len(asked) == 1 else None

    return once


# --- what hooks are shown -----------------------------------------------------------------------------


def test_the_tables_have_a_row_for_every_point() -> None:
    """Besides the three that wrap an action."""
    points = {point.value for point in HookPoint if not point.around}
    assert set(TABLE) == points, "add a Row to TABLE"
    assert set(CARRIES) == set(REACHED), "add what its context carries to CARRIES"


@pytest.mark.parametrize("point", REACHED)
async def test_a_hook_is_shown_its_own_kind_of_context(point: str) -> None:
    """Frozen, with the point, the state and the run."""
    seen: list[Any] = []
    await run(point, seen.append)
    assert seen
    for ctx in seen:
        assert type(ctx) is TABLE[point].context
        assert ctx.point == point
        assert ctx.state.run_id
        assert ctx.has_run
        assert ctx.run.run_id == ctx.state.run_id
        with pytest.raises(AttributeError):
            ctx.state = None


CARRIES: dict[str, Any] = {
    "session_start": lambda ctx: ctx.session_id and ctx.source == "startup",
    "execution_start": lambda ctx: ctx.status is RunStatus.RUNNING and ctx.is_start,
    "prompt_submit": lambda ctx: ctx.prompt == "go" and not ctx.state.messages,
    "before_step": lambda ctx: (ctx.step_index, ctx.step_number, ctx.step) == (0, 1, None),
    "before_inference": lambda ctx: str(ctx.request) == "user: go" and ctx.response is None,
    "after_inference": lambda ctx: ctx.response.calls[0].name == "add" and str(ctx.request),
    "before_tool_use": lambda ctx: (
        ctx.tool_call.name == "add"
        and ctx.tool_call.args == {"a": 1, "b": 1}
        and ctx.tool_call.id
        and ctx.execution is None
        and ctx.is_before_tool
    ),
    "permission_request": lambda ctx: (ctx.reason, ctx.asked_by) == ("?", "asker"),
    "after_tool_use": lambda ctx: (
        ctx.execution.result == 2
        and ctx.execution.is_success
        and not ctx.execution.is_blocked
        and ctx.execution.duration >= 0
        and ctx.execution.error is None
    ),
    "after_step": lambda ctx: ctx.step.results[0].result == 2 and ctx.step_number == 1,
    "should_continue": lambda ctx: ctx.continuation is not None and ctx.step.calls,
    "stop": lambda ctx: ctx.continuation.resolved_by == "tool-calls" and ctx.step.text == "done",
    "output": lambda ctx: ctx.output == "done",
    "execution_end": lambda ctx: (
        ctx.status is RunStatus.COMPLETED and ctx.outcome.resolved_by == "tool-calls"
    ),
    "error": lambda ctx: (
        isinstance(ctx.exception, ValueError)
        and ctx.error_class is ErrorClass.TOOL
        and ctx.error_message == "tool down"
        and ctx.tool_call.name == "add"
    ),
    "agent_failed": lambda ctx: (
        isinstance(ctx.exception, ModelError) and ctx.error_class == "model"
    ),
    "subagent_start": lambda ctx: ctx.prompt == "task" and ctx.child_run_id and ctx.result is None,
    "subagent_stop": lambda ctx: (
        ctx.result.text == "child" and not ctx.continuation.should_continue
    ),
    "session_end": lambda ctx: ctx.session_id,
}


@pytest.mark.parametrize("point", REACHED)
async def test_a_context_carries_what_is_in_flight(point: str) -> None:
    """What the table says, and nowhere else."""
    seen: list[Any] = []
    await run(point, seen.append)
    assert CARRIES[point](seen[0])


# --- what hooks may change ----------------------------------------------------------------------------

CHANGED: dict[str, Any] = {
    "point": lambda ctx: HookPoint.STOP if ctx.point != "stop" else HookPoint.OUTPUT,
    "state": lambda ctx: ctx.state.with_metadata("changed", True),
    "evaluations": lambda ctx: ctx.allow_continue("changed").evaluations,
    "decided": lambda ctx: Verdict(),
    "live": lambda ctx: object(),
    "session_id": lambda ctx: "changed",
    "source": lambda ctx: "changed",
    "prompt": lambda ctx: "changed",
    "status": lambda ctx: RunStatus.PAUSED,
    "stop_reason": lambda ctx: StopReason.COST_LIMIT,
    "outcome": lambda ctx: ContinuationOutcome(True),
    "resumed": lambda ctx: True,
    "step_index": lambda ctx: 99,
    "step": lambda ctx: Step(99),
    "request": lambda ctx: ctx.request.with_system("changed"),
    "response": lambda ctx: InferenceResponse("changed"),
    "tool_call": lambda ctx: (ctx.tool_call or ToolCall("x", "add")).with_args(a=5),
    "execution": lambda ctx: ToolResult("changed"),
    "reason": lambda ctx: "changed",
    "asked_by": lambda ctx: "changed",
    "output": lambda ctx: "changed",
    "continuation": lambda ctx: ContinuationOutcome(True),
    "name": lambda ctx: "changed",
    "child_agent_id": lambda ctx: "changed",
    "child_run_id": lambda ctx: "changed",
    "result": lambda ctx: msgspec.structs.replace(ctx.result, output="x") if ctx.result else "x",
    "messages": lambda ctx: ("changed",),
    "instructions": lambda ctx: "changed",
    "exception": lambda ctx: KeyError("changed"),
    "error_class": lambda ctx: ErrorClass.RATE_LIMIT,
    "decision": lambda ctx: ErrorDecision(ErrorAction.IGNORE),
    "can_rescue": lambda ctx: not ctx.can_rescue,
}

FIELDS = [(point, field) for point in REACHED for field in TABLE[point].context.__struct_fields__]


@pytest.mark.parametrize(("point", "field"), FIELDS)
async def test_what_may_be_changed_is_changed_and_the_rest_is_an_error(
    point: str, field: str
) -> None:
    """The error names hook, field and point; a change that is allowed is on record."""
    allowed = field in {*TABLE[point].changes.split(), "evaluations"}

    def change(ctx: Any) -> Any:
        return msgspec.structs.replace(ctx, **{field: CHANGED[field](ctx)})

    _, ran, _ = await run(point, first_time(change))
    record = ran[0]
    assert record.verdict == ("proceed" if allowed else "failed")
    if field == "evaluations" and point in TOO_LATE:
        assert (record.changes, record.reason.startswith("ignored: ")) == (None, True)
    elif allowed:
        assert record.changes is not None
        assert field in record.changes
    else:
        assert f"'{field}'" in record.reason
        assert (record.hook, record.point) == ("probe", point)
        assert record.changes is None


@pytest.mark.parametrize(("point", "field"), FIELDS)
async def test_a_policy_may_change_nothing_at_all(point: str, field: str) -> None:
    """It judges; what it would change is a failure that says so."""

    def change(ctx: Any) -> Any:
        return msgspec.structs.replace(ctx, **{field: CHANGED[field](ctx)})

    _, ran, _ = await run(point, first_time(change), tier="policy")
    assert ran[0].verdict == "failed"
    assert ran[0].changes is None


async def test_before_compact_lets_instructions_and_state_be_changed() -> None:
    """Asked through a stack of its own, as the capability that compacts will."""
    ctx = CompactHookContext(point=HookPoint.BEFORE_COMPACT, instructions="keep it short")
    row = TABLE["before_compact"]
    for field in CompactHookContext.__struct_fields__:
        changed = msgspec.structs.replace(ctx, **{field: CHANGED[field](ctx)})
        stack = HookStack().with_hook(
            lambda _, *, changed=changed: changed, HookPoint.BEFORE_COMPACT
        )
        result = await stack.process(ctx)
        allowed = field in {*row.changes.split(), "evaluations"}
        assert result.is_blocked is not allowed
        assert result.context == (changed if allowed else ctx)
    texted = HookStack().with_hook(lambda _: "in verse", HookPoint.BEFORE_COMPACT)
    assert (await texted.process(ctx)).context.instructions == "in verse"
    skipped = HookStack().with_hook(lambda _: HookOutcome.block("no"), HookPoint.BEFORE_COMPACT)
    assert (await skipped.process(ctx)).is_blocked


# --- what a block means -------------------------------------------------------------------------------


@pytest.mark.parametrize("point", REACHED)
async def test_a_block_means_what_the_table_says(point: str) -> None:
    """Where nothing can be blocked it is an error that says so."""
    result, ran, _ = await run(point, first_time(lambda ctx: HookOutcome.block("not this")))
    blocked = TABLE[point].blocked
    if blocked is None:
        assert ran[0].verdict == "failed"
        assert (result.status is RunStatus.FAILED) is (
            point not in ("execution_end", "session_end")
        )
        assert "nothing can be blocked here" in ran[0].reason
    else:
        assert (ran[0].verdict, ran[0].reason) == ("block", "not this")
        assert (result.status, result.stop_reason) == blocked


BLOCKS: dict[str, Any] = {
    "execution_start": lambda result, trial: (
        result.state.step_count == 0 and not result.state.messages
    ),
    "prompt_submit": lambda result, trial: (
        result.state.step_count == 0 and not result.state.messages
    ),
    "before_step": lambda result, trial: result.state.step_count == 0 and result.state.messages,
    "before_inference": lambda result, trial: (
        result.steps[0].text == "" and result.state.messages[1].text == "not this" and trial.ran
    ),
    "after_inference": lambda result, trial: (
        not trial.ran and result.state.messages[1].text == "not this"
    ),
    "before_tool_use": lambda result, trial: (
        not trial.ran and result.state.messages[2].text == "Blocked: not this"
    ),
    "permission_request": lambda result, trial: (
        not trial.ran and result.state.messages[2].text == "Denied: not this"
    ),
    "after_tool_use": lambda result, trial: (
        trial.ran and result.state.messages[2].text == "Result withheld: not this"
    ),
    "stop": lambda result, trial: (
        result.state.step_count == 3 and "not this" in [m.text for m in result.state.messages]
    ),
    "output": lambda result, trial: result.output is None and result.state.last_text() == "done",
    "subagent_start": lambda result, trial: (
        "not this" in result.state.messages[2].text and not trial.child.definition.driver.requests
    ),
    "subagent_stop": lambda result, trial: (
        "not this" in str(trial.child.definition.driver.requests[1])
    ),
}


@pytest.mark.parametrize("point", BLOCKS)
async def test_a_block_prevents_this_one_thing(point: str) -> None:
    """And the model, the child or the caller learns why."""
    result, _, trial = await run(point, first_time(lambda ctx: HookOutcome.block("not this")))
    assert BLOCKS[point](result, trial)


def test_every_point_that_can_block_has_its_meaning_tested() -> None:
    """The two lists agree with the table, and the points say in words what a block prevents."""
    assert set(BLOCKS) == {point for point in REACHED if TABLE[point].blocked is not None}
    for point in HookPoint:
        if not point.around:
            assert (point.blocks is not None) is (TABLE[point.value].blocked is not None)


@pytest.mark.parametrize("point", REACHED)
async def test_a_stop_ends_the_run_now(point: str) -> None:
    """As stopped by that hook; where the run is over already it is an error."""
    result, ran, trial = await run(point, first_time(lambda ctx: HookOutcome.stop("all of it")))
    if point in OVER:
        status = RunStatus.FAILED if point == "agent_failed" else RunStatus.COMPLETED
        assert (ran[0].verdict, result.status) == ("failed", status)
        return
    assert ran[0].verdict == "stop"
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert result.state.ending is not None
    assert (result.state.ending.reason, result.state.ending.decided_by) == ("all of it", "probe")
    late = ("after_tool_use", "after_step", "should_continue", "stop", "output", "error")
    assert bool(trial.ran) is (point in late)


@pytest.mark.parametrize("point", REACHED)
async def test_asking_means_something_only_before_a_tool_is_used(point: str) -> None:
    """Anywhere else it is an error, and so is allowing."""
    _, asked, _ = await run(point, first_time(lambda ctx: HookOutcome.ask("may I?")))
    _, allowed, _ = await run(point, first_time(lambda ctx: HookOutcome.allow("sure")))
    expected = ("ask", "allow") if point == "before_tool_use" else ("failed", "failed")
    assert (asked[0].verdict, allowed[0].verdict) == expected


# --- what a failing hook is ---------------------------------------------------------------------------


def _crash(ctx: Any) -> Any:
    raise RuntimeError("crashed")


async def _slow(ctx: Any) -> Any:
    await asyncio.sleep(60)


FAILURES: dict[str, tuple[Any, dict[str, Any]]] = {
    "crash": (_crash, {}),
    "time-out": (_slow, {"timeout": 0.001}),
    "meaningless": (lambda ctx: False, {}),
    "wrong context": (lambda ctx: CompactHookContext(point=HookPoint.BEFORE_COMPACT), {}),
    "wrong type": (lambda ctx: object(), {}),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("point", REACHED)
async def test_a_hook_that_fails_closed_is_what_the_table_says(point: str, failure: str) -> None:
    """A block where a block protects, else an error; it is on record, and never raises out of the run."""
    hook, options = FAILURES[failure]
    options = {**options, "on_failure": "closed"}
    result, ran, trial = await run(point, hook, **options)
    if point in LENIENT and failure in ("meaningless", "wrong type"):
        assert (ran[0].verdict, ran[0].reason.startswith("ignored: ")) == ("proceed", True)
        assert result.status is (
            RunStatus.FAILED if point == "agent_failed" else RunStatus.COMPLETED
        )
        return
    assert ran[0].verdict == "failed"
    assert ran[0].error is not None
    if TABLE[point].failing == "error":
        assert result.status is RunStatus.FAILED
        if point not in ("agent_failed", "error"):  # there the first error stays the reason
            assert isinstance(result.error, HookError)
            assert (result.error.hook, result.error.point) == ("probe", point)
    else:
        assert (result.status, result.stop_reason) == TABLE[point].blocked
        assert not trial.ran or point in ("after_tool_use", "output")


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("point", REACHED)
async def test_a_hook_that_fails_open_is_recorded_and_skipped(point: str, failure: str) -> None:
    """The run ends as it would have without it."""
    hook, options = FAILURES[failure]
    result, ran, _ = await run(point, hook, **options, on_failure="open")
    is_ignored = point in LENIENT and failure in ("meaningless", "wrong type")
    assert ran[0].verdict == ("proceed" if is_ignored else "failed")
    expected = RunStatus.FAILED if point == "agent_failed" else RunStatus.COMPLETED
    assert result.status is expected


@pytest.mark.parametrize("failure", ["crash", "meaningless"])
@pytest.mark.parametrize("point", REACHED)
async def test_an_observer_that_fails_never_reaches_the_run(point: str, failure: str) -> None:
    """Nor does what it returns."""
    hook, _ = FAILURES[failure]
    result, ran, _ = await run(point, hook, tier="observer")
    assert [record.verdict for record in ran][:1] == (
        ["failed"] if failure == "crash" else ["proceed"]
    )
    expected = RunStatus.FAILED if point == "agent_failed" else RunStatus.COMPLETED
    assert result.status is expected


@pytest.mark.parametrize("point", REACHED)
async def test_the_error_about_a_meaningless_answer_lists_the_valid_ones(point: str) -> None:
    """The error names the hook, what it returned and what it may return."""
    errors: list[Any] = []
    trial = Trial()
    agent = trial.builder(point).add_hook(point, lambda ctx: False, name="probe")
    agent.on_event(lambda record: errors.append(record) if record.type == "hook" else None)
    await agent.build().run("go")
    (record, *_) = [each for each in errors if each.hook == "probe"]
    assert "False (bool), which has no meaning here" in record.reason


@pytest.mark.parametrize("point", REACHED)
async def test_no_return_value_means_proceed_everywhere(point: str) -> None:
    """Sync or async, as a function or as an object with a handle method."""

    async def coroutine(ctx: Any) -> None:
        return None

    class Handler:
        def handle(self, ctx: Any) -> None:
            return None

    plain, _, _ = await run(point, lambda ctx: None, tier="observer")
    for hook in (lambda ctx: None, coroutine, Handler(), lambda ctx: HookOutcome.proceed()):
        result, ran, _ = await run(point, hook)
        assert (result.status, result.text) == (plain.status, plain.text)
        assert {record.verdict for record in ran} == {"proceed"}


@pytest.mark.parametrize("point", REACHED)
async def test_observers_are_shown_what_was_decided_and_by_whom(point: str) -> None:
    """Also that nothing was."""
    seen: list[Any] = []
    trial = Trial()
    agent = trial.builder(point).add_hook(
        point, lambda ctx: seen.append(ctx.verdict), name="watch", tier="observer"
    )
    if TABLE[point].blocked is not None:
        agent.add_hook(point, first_time(lambda ctx: HookOutcome.block("not this")), name="probe")
    await agent.build().run("go")
    expected = ("block", "not this", "probe") if TABLE[point].blocked else ("proceed", "", "")
    assert (seen[0].label, seen[0].reason, seen[0].decided_by) == expected


@pytest.mark.parametrize("point", REACHED)
async def test_a_verdict_composes_with_a_change(point: str) -> None:
    """`block(reason, ctx.with_metadata(...))` does both, where state can be changed at all."""
    if "state" not in TABLE[point].changes or TABLE[point].blocked is None:
        word = HookOutcome.proceed
    else:

        def word(ctx: Any) -> HookOutcome:
            return HookOutcome.block("not this", ctx)

    def both(ctx: Any) -> Any:
        return word(ctx.with_metadata("noted", ctx.point.value))

    result, ran, _ = await run(point, first_time(both))
    if "state" in TABLE[point].changes:
        assert result.state.metadata["noted"] == point
    else:
        assert ran[0].verdict == "failed"


async def test_permission_hooks_answer_with_a_decision() -> None:
    """Allow, deny, edit: the only words that mean something there besides block and stop."""
    for decision, ran in (
        (Decision.allow(), [1]),
        (Decision.deny("no"), []),
        (Decision.edit(a=7), [7]),
    ):
        _, records, trial = await run(
            "permission_request", first_time(lambda ctx, *, d=decision: d)
        )
        assert trial.ran == ran
        assert records[0].verdict == ("block" if decision.answer == "deny" else "allow")
