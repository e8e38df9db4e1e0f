from __future__ import annotations

from typing import Any

import msgspec
import pytest

import hookline
from hookline import (
    AfterStepHookContext,
    AfterToolHookContext,
    AgentBuilder,
    AgentState,
    CompactHookContext,
    ContinuationDecision,
    ContinuationOutcome,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    RunStatus,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    StopReason,
    SubagentHookContext,
    ToolCall,
    ToolHookContext,
    ToolResult,
)
from hookline.errors import NotJSONError, UsageError
from hookline.flow import ErrorClass
from hookline.hooks import Point
from hookline.lifecycle import AgentContext
from hookline.state import ErrorInfo, InferenceRequest, InferenceResponse, ResultStatus, Step
from hookline.testing import ScriptedDriver, call, say

CALL = ToolCall("1", "add", {"a": 1, "b": 2})
CONTEXTS: list[AgentContext] = [
    SessionHookContext(point=HookPoint.SESSION_START, session_id="s"),
    PromptHookContext(point=HookPoint.PROMPT_SUBMIT, prompt="hi"),
    ExecutionHookContext(point=HookPoint.EXECUTION_START),
    StepHookContext(point=HookPoint.BEFORE_STEP, step_index=2),
    InferenceHookContext(point=HookPoint.BEFORE_INFERENCE),
    ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=CALL),
    AfterStepHookContext(point=HookPoint.AFTER_STEP, step=Step(2)),
    AfterToolHookContext(point=HookPoint.AFTER_TOOL_USE, tool_call=CALL),
    OutputHookContext(point=HookPoint.OUTPUT, output="5"),
    StopHookContext(point=HookPoint.STOP),
    SubagentHookContext(point=HookPoint.SUBAGENT_START, name="helper"),
    CompactHookContext(point=HookPoint.BEFORE_COMPACT),
    FailureHookContext(point=HookPoint.ERROR, exception=ValueError("bad")),
]


@pytest.mark.parametrize("point", list(HookPoint), ids=str)
def test_a_context_names_what_hooks_may_change(point: Point[AgentContext]) -> None:
    """Whoever reads the class need not look up the points."""
    own = point.changes - {"state", "evaluations"}
    described = "".join(each.__doc__ or "" for each in point.context.__mro__[:2])
    assert [name for name in own if f"`{name}`" not in described] == []


@pytest.fixture(params=CONTEXTS, ids=lambda ctx: type(ctx).__name__)
def ctx(request: pytest.FixtureRequest) -> AgentContext:
    """Each kind of context."""
    context: AgentContext = request.param
    return context


# --- what every context has ---------------------------------------------------------------------------


def test_every_kind_of_context_is_public() -> None:
    """People annotate their hooks with them."""
    assert {type(ctx) for ctx in CONTEXTS} == {point.context for point in HookPoint}
    for ctx in CONTEXTS:
        assert getattr(hookline, type(ctx).__name__) is type(ctx)


def test_no_field_of_a_context_can_be_set(ctx: AgentContext) -> None:
    """Nothing is mutated in place."""
    for name in ctx.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(ctx, name, None)
    with pytest.raises(AttributeError):
        ctx.extra = 1  # type: ignore[attr-defined]


def test_a_changed_context_is_another_of_the_same_kind(ctx: AgentContext) -> None:
    """State and metadata are derived, and the first context stays as it was."""
    changed = ctx.with_metadata("seen", [1]).with_metadata("more", 2)
    assert type(changed) is type(ctx)
    assert changed.metadata == changed.state.metadata == {"seen": [1], "more": 2}
    assert (changed.get("seen"), changed.get("missing"), changed.get("missing", 3)) == (
        [1],
        None,
        3,
    )
    assert ctx.metadata == {}
    state = AgentState(run_id="other")
    assert ctx.with_state(state).state is state
    assert changed.point is ctx.point


def test_metadata_that_is_not_json_is_refused(ctx: AgentContext) -> None:
    """At once, by its key."""
    with pytest.raises(NotJSONError, match="metadata 'socket'"):
        ctx.with_metadata("socket", object())


@pytest.mark.parametrize(
    ("method", "decision"),
    [
        ("forbid", ContinuationDecision.FORBID_CONTINUATION),
        ("request_continue", ContinuationDecision.REQUEST_CONTINUATION),
        ("allow_stop", ContinuationDecision.ALLOW_STOP),
        ("allow_continue", ContinuationDecision.ALLOW_CONTINUATION),
    ],
)
def test_a_word_about_continuing_can_be_said_anywhere(
    ctx: AgentContext, method: str, decision: ContinuationDecision
) -> None:
    """Each appends one evaluation and returns a changed context."""
    changed = getattr(ctx, method)("because").forbid("enough", StopReason.COST_LIMIT)
    assert [(said.decision, said.reason) for said in changed.evaluations] == [
        (decision, "because"),
        (ContinuationDecision.FORBID_CONTINUATION, "enough"),
    ]
    assert changed.evaluations[1].stop_reason is StopReason.COST_LIMIT
    assert ctx.evaluations == ()
    with pytest.raises(NotJSONError, match="a reason"):
        ctx.forbid("half \ud800")


# --- what each has besides ----------------------------------------------------------------------------


def test_steps_are_counted_from_zero_and_from_one() -> None:
    """The index is for machines, the number for people."""
    ctx = StepHookContext(point=HookPoint.AFTER_STEP, step_index=2, step=Step(2))
    assert (ctx.step_index, ctx.step_number, ctx.step) == (2, 3, Step(2))


def test_a_prompt_can_be_replaced() -> None:
    """By text that can be saved."""
    ctx = PromptHookContext(point=HookPoint.PROMPT_SUBMIT, prompt="hi")
    assert ctx.with_prompt("hello").prompt == "hello"
    for wrong in ("\ud800", b"hi", None):
        with pytest.raises(NotJSONError, match="the prompt"):
            ctx.with_prompt(wrong)  # type: ignore[arg-type]


def test_an_execution_knows_whether_it_starts() -> None:
    """And at the end, how it ended."""
    start = ExecutionHookContext(point=HookPoint.EXECUTION_START)
    end = ExecutionHookContext(point=HookPoint.EXECUTION_END, status=RunStatus.COMPLETED)
    assert (start.is_start, end.is_start) == (True, False)
    assert (start.status, end.status) == (RunStatus.RUNNING, RunStatus.COMPLETED)


def test_a_request_and_a_response_can_be_replaced() -> None:
    """Text is short for a response that says it."""
    ctx = InferenceHookContext(point=HookPoint.BEFORE_INFERENCE)
    request = InferenceRequest(system="Be brief.")
    assert ctx.with_request(request).request is request
    assert ctx.with_response("no need to ask").response == InferenceResponse("no need to ask")
    response = InferenceResponse("x", (CALL,))
    assert ctx.with_response(response).response is response


def test_a_call_can_be_changed() -> None:
    """Argument by argument, or as a whole; before the tool it is known that it has not run."""
    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=CALL)
    assert ctx.is_before_tool
    assert ctx.with_args(b=3).tool_call.args == {"a": 1, "b": 3}
    other = ToolCall("1", "sub")
    assert ctx.with_tool_call(other).tool_call is other
    assert ctx.tool_call is CALL
    with pytest.raises(TypeError, match="read-only"):
        ctx.tool_call.args["a"] = 9
    with pytest.raises(NotJSONError, match="call to 'add'"):
        ctx.with_args(a=object())


def test_the_tool_has_not_run_at_any_point_before_its_result() -> None:
    """Also when a person is asked, and inside the hooks around it."""
    points = [each for each in HookPoint if each.is_tool_event]
    after = [each for each in points if not ToolHookContext(point=each).is_before_tool]
    assert after == [HookPoint.AFTER_TOOL_USE]


def test_a_result_can_be_supplied_before_the_call() -> None:
    """As a value, None included; it belongs to the call."""
    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=CALL)
    assert ctx.execution is None
    supplied = ctx.with_result(None).execution
    assert supplied == ToolResult(None, call_id="1", name="add")


def test_a_result_can_be_replaced_after_the_call() -> None:
    """Keeping how long it took; a failure becomes a success."""
    failed = ToolResult(
        None, ErrorInfo("ValueError", "x"), ResultStatus.ERROR, "1", "add", duration=2
    )
    ctx = ToolHookContext(point=HookPoint.AFTER_TOOL_USE, tool_call=CALL, execution=failed)
    assert not ctx.is_before_tool
    replaced = ctx.with_result({"ok": True}).execution
    assert replaced is not None
    assert (replaced.result, replaced.is_success, replaced.duration) == ({"ok": True}, True, 2)
    noted = ctx.with_execution(failed.with_metadata("cached", True))
    assert noted.execution is not None
    assert noted.execution.metadata == {"cached": True}


def test_an_answer_can_be_replaced_by_anything() -> None:
    """It is the caller's, not the state's."""
    ctx = OutputHookContext(point=HookPoint.OUTPUT, output="5")
    assert ctx.with_output(5).output == 5


def test_the_task_and_the_result_of_a_child_can_be_replaced() -> None:
    """Its prompt before it starts, what it gave when it stops."""
    ctx = SubagentHookContext(point=HookPoint.SUBAGENT_START, prompt="task", name="helper")
    assert ctx.with_prompt("another").prompt == "another"
    assert ctx.with_result("x").result == "x"


def test_instructions_for_a_summary_can_be_replaced() -> None:
    """By text."""
    ctx = CompactHookContext(point=HookPoint.BEFORE_COMPACT)
    assert ctx.with_instructions("keep the numbers").instructions == "keep the numbers"


def test_a_failure_is_shown_as_the_exception_it_is() -> None:
    """With its words and the name of its class; an exception without words is named."""
    error = ValueError("bad")
    ctx = FailureHookContext(
        point=HookPoint.ERROR, exception=error, error_class=ErrorClass.TOOL, tool_call=CALL
    )
    assert ctx.exception is error
    assert (ctx.error_message, ctx.error_type, ctx.error_class) == ("bad", "ValueError", "tool")
    assert (
        FailureHookContext(point=HookPoint.ERROR, exception=KeyError()).error_message == "KeyError"
    )


def test_stop_hooks_are_shown_the_outcome_so_far() -> None:
    """And the step that was just made."""
    ctx = StopHookContext(point=HookPoint.STOP, step=Step(0))
    assert ctx.continuation == ContinuationOutcome()
    assert ctx.step == Step(0)


# --- the rules, in a run ------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def run(point: str, hook: Any) -> Any:
    """One run with one hook."""
    driver = ScriptedDriver([call("add", a=1, b=2), say("3")])
    builder = AgentBuilder().with_driver(driver).with_tools(add)
    return builder.add_hook(point, hook, name="odd").build().run_sync("1+2?")


FORBIDDEN: list[tuple[str, str, Any]] = [
    ("session_start", "session_id", "other"),
    ("execution_start", "status", RunStatus.FAILED),
    ("prompt_submit", "live", None),
    ("before_step", "step_index", 7),
    ("before_inference", "step_index", 7),
    ("after_inference", "request", InferenceRequest()),
    ("before_tool_use", "response", None),
    ("after_tool_use", "tool_call", CALL),
    ("after_step", "step", Step(9)),
    ("should_continue", "continuation", ContinuationOutcome(True)),
    ("stop", "step", None),
    ("output", "decided", "x"),
    ("execution_end", "status", RunStatus.COMPLETED.value),
]


@pytest.mark.parametrize(("point", "field", "value"), FORBIDDEN)
def test_changing_what_a_point_does_not_allow_is_an_error_that_names_it(
    point: str, field: str, value: Any
) -> None:
    """Hook, field and point are named, and the run continues as the point says about failures."""
    result = run(point, lambda ctx: msgspec.structs.replace(ctx, **{field: value}))
    [ran] = {
        (record.verdict, record.point, record.reason)
        for record in result.records
        if record.type == "hook" and record.hook == "odd"
    }
    assert ran == ("failed", point, f"it changed '{field}', which cannot be changed at {point}.")
    assert (result.status is RunStatus.FAILED) is (not HookPoint(point).failure_blocks)


def test_metadata_lives_for_the_whole_run() -> None:
    """What execution_start stores execution_end can read, and every point between."""
    seen: list[Any] = []
    driver = ScriptedDriver([call("add", a=1, b=2), say("3")])
    builder = AgentBuilder().with_driver(driver).with_tools(add)
    builder.on_execution_start(lambda ctx: ctx.with_metadata("started", 7))
    for point in ("before_step", "before_tool_use", "after_tool_use", "stop", "execution_end"):
        builder.add_hook(point, lambda ctx: seen.append(ctx.get("started")), name=f"see {point}")
    result = builder.build().run_sync("go")
    assert seen == [7] * 6
    assert result.state.metadata == {"started": 7}


@pytest.mark.parametrize(
    "forge",
    [
        lambda ctx: msgspec.structs.replace(ctx.state, metadata={"socket": object()}),
        lambda ctx: HookOutcome.proceed(ctx.with_state(AgentState(metadata={"n": float("nan")}))),
    ],
)
def test_metadata_that_is_not_json_cannot_be_slipped_in_with_a_state(forge: Any) -> None:
    """The hook is named, and what it left behind does not enter the state."""
    result = run("before_step", forge)
    assert result.status is RunStatus.FAILED
    assert "hook 'odd' at before_step: metadata is " in str(result.error)
    assert result.state.metadata == {}
    assert AgentState.from_json(result.state.to_json()) == result.state


def test_metadata_handed_in_plain_with_a_state_is_made_immutable() -> None:
    """Later hooks cannot change it in place."""
    seen: list[Any] = []
    driver = ScriptedDriver([say("3")])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .on_before_step(lambda ctx: msgspec.structs.replace(ctx.state, metadata={"a": [1]}))
        .on_after_step(lambda ctx: seen.append(ctx.metadata))
        .build()
    )
    result = agent.run_sync("go")
    assert result.state.metadata == {"a": [1]}
    with pytest.raises(TypeError, match="read-only"):
        seen[0]["a"].append(2)


def test_a_context_without_a_run_says_so() -> None:
    """Where a hook is asked without an agent, there is no run to ask."""
    ctx = StopHookContext(point=HookPoint.STOP)
    assert not ctx.has_run
    with pytest.raises(UsageError, match=r"belongs to no run.*ctx\.has_run"):
        _ = ctx.run
