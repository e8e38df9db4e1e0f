"""The fourth seed, in Python: hooks append evaluations, one place resolves them, stop hooks may object."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    AgentState,
    CompositeMatcher,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    ErrorPolicy,
    EventTypeMatcher,
    ExecutionHookContext,
    FailureHookContext,
    HookOutcome,
    HookPoint,
    HookStack,
    RunStatus,
    StepHookContext,
    StopHookContext,
    StopReason,
    ToolCall,
    ToolHookContext,
    ToolNameMatcher,
    ToolResult,
    tool,
)
from hookline.errors import BlockedCallError, ToolError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import StepFinished
from hookline.state import InferenceRequest, InferenceResponse, ResultStatus
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

FORBID = ContinuationDecision.FORBID_CONTINUATION
REQUEST = ContinuationDecision.REQUEST_CONTINUATION
ALLOW_STOP = ContinuationDecision.ALLOW_STOP
ALLOW_GO_ON = ContinuationDecision.ALLOW_CONTINUATION


@tool
def work(on: str = "it") -> str:
    """Work on something."""
    return f"worked on {on}"


@tool
def danger() -> str:
    """Do something dangerous."""
    return "boom"


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(work, danger)


# --- the hook signature: state mutation, and evaluations that accumulate ----------------------------


class MarksState:
    """State mutation only."""

    async def handle(self, ctx: StepHookContext, next: Any) -> Any:
        return await next(ctx.with_metadata("key", "value"))


class StepsLimitHook:
    """Flow control: append an evaluation and always call next."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def handle(self, ctx: StopHookContext, next: Any) -> Any:
        if ctx.state.step_count >= self.most:
            ctx = ctx.forbid(f"{self.most} steps are enough", StopReason.STEP_LIMIT)
        return await next(ctx)


def test_a_hook_changes_the_state_for_the_hooks_inside_it() -> None:
    """What is handed to next is what the rest of the chain sees, and what is kept."""
    seen: list[Any] = []
    agent = (
        builder(say("done"))
        .on_before_step(MarksState(), priority=10)
        .on_before_step(lambda ctx: seen.append(ctx.metadata["key"]))
        .build()
    )
    assert agent.run_sync("go").state.metadata == {"key": "value"}
    assert seen == ["value"]


def test_a_limit_hook_appends_an_evaluation_and_everyone_else_still_runs() -> None:
    """The step is kept, the run ends stopped, and the outcome names the hook and keeps every evaluation."""
    later: list[int] = []
    agent = (
        builder(*[call("work")] * 9)
        .on_should_continue(StepsLimitHook(3), priority=100, name="my-limit")
        .on_should_continue(lambda ctx: later.append(ctx.state.step_count))
        .build()
    )
    result = agent.run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert (result.state.step_count, later) == (3, [1, 2, 3])
    assert result.outcome is not None
    assert result.outcome.resolved_by == "my-limit"
    assert {said.source for said in result.outcome.evaluations} == {"my-limit", "tool-calls"}


def test_time_and_token_limit_hooks() -> None:
    """The other limit hooks of the document, written by a user against what the context shows."""
    clock = FakeClock()

    def slow(_state: AgentState) -> Any:
        clock.advance(10)
        return call("work", tokens=100)

    def time_limit(ctx: StopHookContext) -> Any:
        elapsed = clock.monotonic() - ctx.metadata["began"]
        return ctx.forbid("took too long", StopReason.TIME_LIMIT) if elapsed > 25 else None

    def token_limit(ctx: StopHookContext) -> Any:
        used = ctx.state.usage.total_tokens
        return ctx.forbid("too many tokens", StopReason.TOKEN_LIMIT) if used >= 200 else None

    def agent(limit: Any) -> AgentBuilder:
        return (
            builder(*[slow] * 9)
            .with_clock(clock)
            .on_execution_start(lambda ctx: ctx.with_metadata("began", clock.monotonic()))
            .on_should_continue(limit)
        )

    timed = agent(time_limit).build().run_sync("go")
    assert (timed.stop_reason, timed.state.step_count) == (StopReason.TIME_LIMIT, 3)
    counted = agent(token_limit).build().run_sync("go")
    assert (counted.stop_reason, counted.state.step_count) == (StopReason.TOKEN_LIMIT, 2)


def test_tool_call_presence_is_an_ordinary_hook_that_can_be_replaced() -> None:
    """A hook of the default's name stands in its place: here the run ends when a word is said."""

    def until_finished(ctx: StopHookContext) -> Any:
        done = "FINISHED" in ctx.step.text
        return ctx.allow_stop("said so") if done else ctx.allow_continue("not yet")

    agent = builder(
        say("thinking"), say("still"), say("FINISHED"), say("never")
    ).on_should_continue(until_finished, name="tool-calls")
    result = agent.build().run_sync("go")
    assert (result.text, result.state.step_count) == ("FINISHED", 3)
    assert result.explain().endswith("(said so), decided by 'tool-calls'")


def test_an_evaluation_may_be_returned_as_it_is() -> None:
    """A ContinuationEvaluation is an answer at every point, and names its own source."""

    def limit(ctx: StopHookContext) -> ContinuationEvaluation:
        return ContinuationEvaluation("custom-source", FORBID, "no more", StopReason.STEP_LIMIT)

    result = builder(call("work"), say("never")).on_should_continue(limit).build().run_sync("go")
    assert result.outcome is not None
    assert (result.outcome.resolved_by, result.stop_reason) == (
        "custom-source",
        StopReason.STEP_LIMIT,
    )


@pytest.mark.parametrize(
    "point",
    "after_inference before_tool_use after_tool_use after_step should_continue stop".split(),
)
def test_evaluations_can_be_appended_at_every_later_point_of_a_step(point: str) -> None:
    """Wherever a hook forbids continuing, the step is finished and then the run stops."""
    agent = builder(call("work"), call("work"), say("never"))
    agent.add_hook(point, lambda ctx: ctx.forbid("enough"), name="enough")
    if point == "stop":
        agent.on_should_continue(lambda ctx: ctx.allow_stop("done"))
    result = agent.build().run_sync("go")
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 1)
    assert result.steps[0].results[0].result == "worked on it"
    assert result.outcome is not None
    assert (result.outcome.resolved_by, result.outcome.reason) == ("enough", "enough")


# --- resolution -------------------------------------------------------------------------------------


PRECEDENCE = [
    ([FORBID, REQUEST, ALLOW_STOP, ALLOW_GO_ON], False, FORBID),
    ([REQUEST, ALLOW_STOP, ALLOW_GO_ON], True, REQUEST),
    ([ALLOW_STOP, ALLOW_GO_ON], False, ALLOW_STOP),
    ([ALLOW_GO_ON], True, ALLOW_GO_ON),
]


@pytest.mark.parametrize(("decisions", "goes_on", "dominating"), PRECEDENCE)
def test_resolution_follows_the_precedence_in_any_order(
    decisions: list[ContinuationDecision], goes_on: bool, dominating: ContinuationDecision
) -> None:
    """Forbid, Request, AllowStop, AllowContinuation: the strongest one decides and is named."""
    said = [ContinuationEvaluation(each.value, each, f"because {each.value}") for each in decisions]
    for order in itertools.permutations(said):
        outcome = ContinuationOutcome.from_evaluations(order)
        assert outcome.should_continue is goes_on
        assert outcome.resolved_by == dominating.value
        assert outcome.reason == f"because {dominating.value}"
        assert set(outcome.evaluations) == set(said)


def test_among_equals_the_smallest_name_decides() -> None:
    """Two hooks forbid: which of them is named does not depend on who came first."""
    said = [ContinuationEvaluation(name, FORBID, f"because of {name}") for name in ("b", "a")]
    for order in (said, said[::-1]):
        assert ContinuationOutcome.from_evaluations(order).resolved_by == "a"


def test_nothing_said_stops() -> None:
    """An empty outcome does not continue forever."""
    outcome = ContinuationOutcome.from_evaluations([])
    assert (outcome.should_continue, outcome.resolved_by) == (False, None)
    result = (
        builder(call("work"), say("never")).without_default("tool-calls").build().run_sync("go")
    )
    assert (result.state.step_count, result.stop_reason) == (1, StopReason.NO_DECISION)


def test_evaluations_of_different_phases_are_resolved_together() -> None:
    """A request made after the step and a forbid made in it meet in one outcome, and the forbid wins."""
    agent = (
        builder(say("one"), say("never"))
        .on_after_inference(lambda ctx: ctx.forbid("guard"), name="guard")
        .on_after_step(lambda ctx: ctx.request_continue("more"), name="eager")
        .build()
    )
    result = agent.run_sync("go")
    assert (result.status, result.text) == (RunStatus.STOPPED, "one")
    assert result.outcome is not None
    assert [said.source for said in result.outcome.evaluations] == ["guard", "eager", "tool-calls"]


# --- outcome clearing -------------------------------------------------------------------------------


def test_outcomes_are_cleared_at_the_start_of_each_step() -> None:
    """What was requested in one step is gone in the next, and each step keeps its own outcome."""
    seen: list[tuple[str, int]] = []

    def look(ctx: Any) -> None:
        seen.append((str(ctx.point), len(ctx.evaluations)))

    agent = (
        builder(say("one"), say("two"), say("never"))
        .on_before_step(look)
        .on_before_inference(look)
        .on_after_step(look)
        .on_after_step(lambda ctx: ctx.request_continue("again") if ctx.step_number == 1 else None)
        .build()
    )
    result = agent.run_sync("go")
    assert (result.text, result.state.step_count) == ("two", 2)
    assert all(count == 0 for _, count in seen)
    first, second = (step.outcome for step in result.steps)
    assert first is not None
    assert second is not None
    assert (first.should_continue, second.should_continue) == (True, False)
    assert REQUEST not in {said.decision for said in second.evaluations}


def test_a_stale_outcome_does_not_enter_the_next_run() -> None:
    """A state that was stopped by a guard can be run again with a new prompt."""
    agent = builder(say("one"), say("two")).on_before_step(
        lambda ctx: ctx.forbid("only once") if "hello" in str(ctx.state.messages[-1]) else None
    )
    built = agent.build()
    first = built.run_sync("hello")
    assert first.status is RunStatus.STOPPED
    second = built.run_sync("again", state=first.state)
    assert (second.status, second.text) == (RunStatus.COMPLETED, "one")


# --- what is in flight lives in the context ---------------------------------------------------------


def test_transient_data_is_in_the_context_and_never_in_the_state() -> None:
    """Call, execution, request and response are shown where they exist; no saved state has half a step."""
    seen: dict[str, Any] = {}

    def keep(ctx: Any) -> None:
        seen[str(ctx.point)] = ctx

    agent = builder(call("work", on="x"), say("done"))
    for point in HookPoint:
        if not point.around:
            agent.add_hook(point, keep)
    agent.build().run_sync("go")
    before, after = seen["before_tool_use"], seen["after_tool_use"]
    assert (before.tool_call.args, before.execution) == ({"on": "x"}, None)
    assert after.execution.result == "worked on x"
    assert seen["before_inference"].response is None
    assert seen["after_inference"].response.text == "done"
    for ctx in seen.values():
        assert AgentState.from_json(ctx.state.to_json()) == ctx.state
    assert len(before.state.messages) == 1  # the prompt: the call enters together with its result


# --- matchers ---------------------------------------------------------------------------------------


def tool_context(point: Any, name: str = "bash") -> ToolHookContext:
    """A context of a tool point."""
    return ToolHookContext(point=point, tool_call=ToolCall("1", name), execution=ToolResult("x"))


def test_a_tool_name_matcher_works_before_and_after_and_nowhere_else() -> None:
    """The contract: it never matches a point that has no tool."""
    matcher = ToolNameMatcher("*")
    assert matcher.matches(tool_context(HookPoint.BEFORE_TOOL_USE))
    assert matcher.matches(tool_context(HookPoint.AFTER_TOOL_USE))
    assert not matcher.matches(StepHookContext(point=HookPoint.BEFORE_STEP))
    assert not matcher.matches(ExecutionHookContext(point=HookPoint.EXECUTION_START))
    assert not matcher.matches(StopHookContext(point=HookPoint.STOP))
    assert not matcher.matches(FailureHookContext(point=HookPoint.AGENT_FAILED))


def test_an_event_matcher_and_another_matcher_compose() -> None:
    """EventTypeMatcher and an additional matcher, joined by and."""
    matcher = CompositeMatcher.all_of(EventTypeMatcher("PreToolUse"), ToolNameMatcher("bash"))
    assert matcher.matches(tool_context(HookPoint.BEFORE_TOOL_USE))
    assert not matcher.matches(tool_context(HookPoint.AFTER_TOOL_USE))
    assert not matcher.matches(tool_context(HookPoint.BEFORE_TOOL_USE, "work"))


async def test_the_stack_keeps_registration_order_among_equals() -> None:
    """Priority first, then first come first served, for any number of hooks."""
    order: list[int] = []
    stack = HookStack()
    for number, priority in enumerate([0, 5, 0, 5, 0, -5, 5]):
        stack = stack.with_hook(
            lambda ctx, *, number=number: order.append(number),
            HookPoint.BEFORE_STEP,
            priority=priority,
        )
    await stack.process(StepHookContext(point=HookPoint.BEFORE_STEP))
    assert order == [1, 3, 6, 0, 2, 4, 5]


# --- errors -----------------------------------------------------------------------------------------


@tool
def flaky() -> str:
    """Fail."""
    raise ToolError("the disk is full")


class ErrorPolicyHook:
    """The document's hook: after so many failures in a row it forbids continuing."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def handle(self, ctx: FailureHookContext, next: Any) -> Any:
        failures = ctx.get("failures", 0) + 1
        ctx = ctx.with_metadata("failures", failures)
        if failures >= self.most:
            ctx = ctx.forbid(f"{failures} failures: {ctx.error_message}", StopReason.ERROR)
        return await next(ctx)


def test_an_error_policy_hook_forbids_after_repeated_failures() -> None:
    """It sees the exception at OnError, and its evaluation outranks the policy that would continue."""
    agent = builder(*[call("flaky")] * 5).with_tools(flaky)
    agent.add_hook("OnError", ErrorPolicyHook(2), name="error-policy-hook")
    result = agent.build().run_sync("go")
    assert result.state.step_count == 2
    assert result.stop_reason is StopReason.ERROR
    assert result.state.metadata == {"failures": 2}


def test_an_error_policy_hook_asks_a_policy_of_its_own() -> None:
    """`policy->evaluate(context)`: the hook counts with the state and lets another policy decide, at OnError."""
    strict = ErrorPolicy(actions={ErrorClass.TOOL: ErrorAction.RETRY}, max_retries=1)

    class WithPolicy:
        def handle(self, ctx: FailureHookContext) -> Any:
            assert ctx.exception is not None
            counters = ctx.state.counters
            failures = counters.consecutive_errors.get(ctx.error_class, 0)
            decided = strict.decide(ctx.error_class, failures, counters.errors, ctx.exception)
            seen.append((failures, decided.action))
            if decided.action is ErrorAction.STOP:
                return ctx.forbid(decided.reason, StopReason.ERROR)
            return None

    seen: list[Any] = []
    agent = builder(*[call("flaky")] * 5).with_tools(flaky).on_error(WithPolicy())
    result = agent.build().run_sync("go")
    assert seen == [(1, ErrorAction.RETRY), (2, ErrorAction.STOP)]
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 2)
    assert "still failing after 1 retries" in result.explain()


def test_the_error_policy_decides_stop_retry_or_ignore() -> None:
    """The three decisions, by preset."""
    attempts: list[int] = []

    @tool(name="flaky", effect="idempotent")
    def fails_once() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ToolError("not yet")
        return "now"

    def run(policy: ErrorPolicy) -> Any:
        attempts.clear()
        agent = AgentBuilder().with_driver(ScriptedDriver([call("flaky"), say("done")]))
        return agent.with_tools(fails_once).with_error_policy(policy).build().run_sync("go")

    stopped = run(ErrorPolicy.stop_on_any_error())
    assert (stopped.status, str(stopped.error)) == (RunStatus.FAILED, "not yet")
    retried = run(ErrorPolicy.retry_tool_errors())
    assert (retried.status, retried.steps[0].results[0].result) == (RunStatus.COMPLETED, "now")
    ignored = run(ErrorPolicy.ignore_tool_errors())
    assert (ignored.status, ignored.steps[0].results[0].is_success) == (RunStatus.COMPLETED, False)


def test_the_error_policy_sees_errors_by_class() -> None:
    """A policy of one's own: rate limits stop at once, everything else is left to the model."""
    policy = ErrorPolicy(
        actions={ErrorClass.TOOL: ErrorAction.STOP}, otherwise=ErrorAction.IGNORE, max_errors=2
    )
    result = (
        builder(call("flaky")).with_tools(flaky).with_error_policy(policy).build().run_sync("go")
    )
    assert (result.status, result.stop_reason) == (RunStatus.FAILED, StopReason.ERROR)


def test_an_error_without_a_step_reaches_the_error_hooks() -> None:
    """The exception is in the context even though no step has been recorded yet."""
    boom = RuntimeError("no connection")
    seen: list[Any] = []

    def look(ctx: FailureHookContext) -> None:
        seen.append((ctx.exception, ctx.error_message, len(ctx.state.steps)))

    result = builder(boom).add_hook("on_error", look).build().run_sync("go")
    assert seen == [(boom, "no connection", 0)]
    assert (result.status, result.error) == (RunStatus.FAILED, boom)


def test_the_exception_is_cleared_after_the_error() -> None:
    """The step after a recovered error carries nothing of it but the record of the step before."""
    agent = builder(call("flaky"), say("never mind")).with_tools(flaky)
    result = agent.build().run_sync("go")
    first, second = result.steps
    assert (first.has_errors, second.has_errors) == (True, False)
    assert (result.status, result.error) == (RunStatus.COMPLETED, None)


# --- tool blocking ----------------------------------------------------------------------------------


class ToolBlockingHook:
    """Blocks tools by name."""

    def __init__(self, *blocked: str) -> None:
        self.blocked = blocked

    async def handle(self, ctx: ToolHookContext, next: Any) -> Any:
        if ctx.tool_call.name in self.blocked:
            return HookOutcome.block(f"Tool '{ctx.tool_call.name}' is blocked")
        return await next(ctx)


def test_a_blocked_tool_is_a_failed_execution_that_the_model_reads() -> None:
    """The tool does not run, the call still has its one result, and the run completes."""
    agent = builder(calls(call("danger"), call("work")), say("done"))
    result = agent.on_before_tool_use(ToolBlockingHook("danger")).build().run_sync("go")
    blocked, ran = result.steps[0].results
    assert (blocked.is_success, blocked.is_blocked) == (False, True)
    assert blocked.text == "Blocked: Tool 'danger' is blocked"
    assert ran.is_success
    assert result.status is RunStatus.COMPLETED


def test_blocked_tools_feed_the_error_policy_if_it_names_them() -> None:
    """By default a block is no error; a policy that names the class `blocked` retries, and then ends the run."""

    def run(policy: ErrorPolicy) -> Any:
        agent = builder(*[call("danger")] * 3, say("done")).with_error_policy(policy)
        return agent.on_before_tool_use(ToolBlockingHook("danger")).build().run_sync("go")

    assert run(ErrorPolicy()).status is RunStatus.COMPLETED
    patient = ErrorPolicy(actions={ErrorClass.BLOCKED: ErrorAction.RETRY}, max_retries=1)
    ended = run(patient)
    assert (ended.status, ended.state.step_count) == (RunStatus.FAILED, 2)
    assert isinstance(ended.error, BlockedCallError)
    assert run(ErrorPolicy.stop_on_any_error(blocked=True)).state.step_count == 1


def test_the_stack_serves_an_executor_of_ones_own() -> None:
    """`HookStackObserver`: before a tool the stack blocks or changes the call, after it the result."""
    stack = (
        HookStack()
        .with_hook(ToolBlockingHook("danger"), HookPoint.BEFORE_TOOL_USE, priority=100)
        .with_hook(lambda ctx: ctx.with_args(on="that"), HookPoint.BEFORE_TOOL_USE, matcher="work")
        .with_hook(
            lambda ctx: ctx.with_result(f"{ctx.execution.result}!"), HookPoint.AFTER_TOOL_USE
        )
    )

    def use_tool(made: ToolCall) -> ToolResult:
        before = stack.process_sync(
            ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=made)
        )
        if before.is_blocked:
            return ToolResult(status=ResultStatus.BLOCKED, reason=before.reason)
        made = before.context.tool_call
        tools = {"work": work, "danger": danger}
        ran = ToolResult(tools[made.name](**made.args))
        after = ToolHookContext(point=HookPoint.AFTER_TOOL_USE, tool_call=made, execution=ran)
        result = stack.process_sync(after).context.execution
        assert result is not None
        return result

    assert use_tool(ToolCall("1", "work", {"on": "this"})).result == "worked on that!"
    assert use_tool(ToolCall("2", "danger")).reason == "Tool 'danger' is blocked"


# --- the driver -------------------------------------------------------------------------------------


def test_hooks_are_around_every_driver() -> None:
    """A driver only infers; hooks before, around and after it are the loop's, and the loop runs the tools."""
    seen: list[str] = []

    class InferenceDriver:
        async def infer(self, request: InferenceRequest, turn: Any) -> InferenceResponse:
            seen.append(f"infer {request.messages[-1].text}")
            if request.messages[-1].role == "user":
                return InferenceResponse(calls=(ToolCall("1", "work", {"on": "it"}),))
            return InferenceResponse("done")

    async def timed(ctx: Any, call_next: Any) -> Any:
        seen.append("in")
        response = await call_next(ctx)
        seen.append("out")
        return response

    agent = (
        AgentBuilder()
        .with_driver(InferenceDriver())
        .with_tools(work)
        .on_before_inference(lambda ctx: seen.append("before"))
        .around_inference(timed)
        .on_after_inference(lambda ctx: seen.append("after"))
        .build()
    )
    result = agent.run_sync("go")
    assert (result.text, result.steps[0].results[0].result) == ("done", "worked on it")
    assert seen == [
        *("before", "in", "infer go", "out", "after"),
        *("before", "in", "infer worked on it", "out", "after"),
    ]


def test_an_executor_of_ones_own_stands_around_the_tools() -> None:
    """`ToolExecutionDriver`: a hook around all tools that does not call next runs them its own way."""

    async def elsewhere(ctx: ToolHookContext, call_next: Any) -> ToolResult:
        return ToolResult(f"{ctx.tool_call.name} ran elsewhere")

    agent = builder(calls(call("work"), call("danger")), say("done")).around_tool_use(elsewhere)
    results = agent.build().run_sync("go").steps[0].results
    assert [each.result for each in results] == ["work ran elsewhere", "danger ran elsewhere"]


# --- stop hooks -------------------------------------------------------------------------------------


def object_once(ctx: StopHookContext) -> Any:
    """Object to the first stop."""
    return ctx.request_continue("not yet") if ctx.state.step_count == 1 else None


def test_a_stop_hook_prevents_a_stop_that_was_only_allowed() -> None:
    """RequestContinuation overrides AllowStop; a block is the short way to say it."""
    by_evaluation = builder(say("one"), say("two")).on_stop(object_once).build().run_sync("go")
    assert by_evaluation.text == "two"
    by_block = (
        builder(say("one"), say("two"))
        .on_stop(lambda ctx: HookOutcome.block("not yet") if ctx.step.text == "one" else None)
        .build()
        .run_sync("go")
    )
    assert by_block.text == "two"


def test_a_stop_hook_cannot_prevent_a_stop_that_a_guard_forbade() -> None:
    """It is asked, for observation only: the guard's outcome stands."""
    asked: list[bool] = []

    def object_always(ctx: StopHookContext) -> HookOutcome:
        asked.append(ctx.continuation.is_forbidden)
        return HookOutcome.block("please go on")

    agent = (
        builder(call("work"), say("never"))
        .on_should_continue(lambda ctx: ctx.forbid("limit", StopReason.STEP_LIMIT), name="limit")
        .on_stop(object_always)
        .build()
    )
    result = agent.run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.STEP_LIMIT)
    assert (result.state.step_count, asked) == (1, [True])


def test_a_stop_that_nobody_asked_for_can_be_prevented() -> None:
    """Without any evaluation a run stops, and a stop hook may object to that as to any ordinary end."""
    agent = builder(say("one"), say("two")).without_default("tool-calls").on_stop(object_once)
    assert agent.build().run_sync("go").text == "two"


def test_stop_hooks_are_not_asked_about_a_failed_run() -> None:
    """A run that an error ended has no stop to judge: agent_failed and execution_end are called."""
    seen: list[str] = []
    agent = builder(RuntimeError("lost"))
    for point in ("stop", "agent_failed", "execution_end"):
        agent.add_hook(point, lambda ctx: seen.append(ctx.point.value))
    assert agent.build().run_sync("go").status is RunStatus.FAILED
    assert seen == ["agent_failed", "execution_end"]


def test_stop_hooks_are_asked_again_after_an_objection() -> None:
    """Each time the run is about to stop, and only then."""
    asked: list[int] = []

    def watch(ctx: StopHookContext) -> None:
        asked.append(ctx.state.step_count)

    agent = builder(call("work"), say("one"), say("two")).on_stop(watch, priority=10)
    agent.on_stop(lambda ctx: HookOutcome.block("more") if ctx.step.text == "one" else None)
    agent.build().run_sync("go")
    assert asked == [2, 3]


def test_objections_are_capped_with_an_honest_reason() -> None:
    """A stop hook that always objects cannot keep a run alive forever."""
    agent = builder(*[say("done")] * 9).with_limits(objections=3)
    agent.on_stop(lambda ctx: HookOutcome.block("never enough"), name="insatiable")
    result = agent.build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.OBJECTION_LIMIT)
    assert result.state.step_count == 4
    assert "never enough" in result.explain()


# --- the step recorder ------------------------------------------------------------------------------


def test_each_step_records_its_outcome_times_and_number() -> None:
    """What the recorder of the document wrote down, with the evaluations that led to the outcome."""
    clock = FakeClock(start=100.0)

    def slow(_state: AgentState) -> Any:
        clock.advance(3)
        return call("work")

    result = builder(slow, say("done")).with_clock(clock).build().run_sync("go")
    first, second = result.steps
    assert (first.number, first.started_at, first.duration) == (1, 100.0, 3.0)
    assert (first.ended_at, second.ended_at) == (103.0, 103.0)
    assert (second.number, second.started_at, second.duration) == (2, 103.0, 0.0)
    assert first.outcome is not None
    assert first.outcome.should_continue
    assert second.outcome == result.outcome
    kept = [record.step for record in result.records if isinstance(record, StepFinished)]
    assert [step.outcome for step in kept] == [first.outcome, second.outcome]
