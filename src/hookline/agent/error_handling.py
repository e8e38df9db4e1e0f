"""When a tool raises, or a model or a hook fails: the error policy decides, and error hooks may decide otherwise.

By default the model reads the error of a tool, and the run continues; `flow/error_policy.py` has the defaults. A tool
that raises is caught in `calls/execution.py` (`execute_call`, `_after_failure`), a model that fails in `loop/turn.py`.
"""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import msgspec

from hookline.agent.run import Run
from hookline.agent.run_index import restore_exception
from hookline.definition.guards import LimitsGuard
from hookline.errors import HookError, JournalError, in_words
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision, classify
from hookline.flow.error_policy import retry_delay
from hookline.hooks import Plan, Point, Result
from hookline.hooks.outcome import CRASHES
from hookline.journal import ErrorRaised
from hookline.lifecycle import AgentContext, FailureHookContext, HookPoint
from hookline.state import ContinuationOutcome, ErrorInfo, FrozenDict, ToolCall

C = TypeVar("C", bound=AgentContext)
_OF_OTHERS = (ErrorClass.TOOL, ErrorClass.VALIDATION, ErrorClass.BLOCKED, ErrorClass.HOOK)
_OF_MODELS = tuple(each for each in ErrorClass if each not in _OF_OTHERS)


class UnrecoveredError(Exception):
    """An error that the policy has seen and that ends the step."""

    def __init__(self, exception: BaseException, action: ErrorAction) -> None:
        self.exception = exception
        self.action = action
        super().__init__(in_words(exception))


async def on_error(
    run: Run,
    exception: BaseException,
    error_class: ErrorClass,
    *,
    attempt: int | None = None,
    call: ToolCall | None = None,
    can_rescue: bool = False,
    is_lost: bool = False,
) -> ErrorDecision:
    """Ask the error policy, then the error hooks: stop, retry, continue, or continue with what a hook gives.

    `attempt` counts tries of the same call; without it, failures of the class count. `is_lost` says that there is
    nothing to decide: it happened outside a step, and the run cannot continue. A hook that stops or forbids ends the
    run whatever the policy says: it is stopped, not lost.
    """
    run.check_claim()
    since_success = _count(run, error_class)
    failures = attempt or since_success
    call_id = call.id if call is not None else ""
    decision = ask_policy(run, exception, error_class, failures, call_id)
    asked = _failure_context(
        run, HookPoint.ERROR, exception, error_class, call,
        decision=decision, can_rescue=can_rescue,
    )  # fmt: skip
    try:
        decision = _answer(run, await _ask(run, asked), failures)
    except HookError as failed:
        decision = ErrorDecision(ErrorAction.STOP, 0.0, str(failed))
    said = run.evaluations[len(asked.evaluations) :]
    is_ended = ContinuationOutcome.from_evaluations(said).is_forbidden
    if isinstance(exception, JournalError):
        decision = ErrorDecision(ErrorAction.STOP)
    elif is_ended and (is_lost or decision.action is ErrorAction.STOP):
        decision = ErrorDecision(ErrorAction.IGNORE)
    elif is_lost:
        decision = ErrorDecision(ErrorAction.STOP)
    elif decision.action is ErrorAction.RETRY and run.is_forbidden:
        decision = ErrorDecision(ErrorAction.IGNORE)
    elif decision.action is ErrorAction.RETRY:
        decision = stop_if_too_late(run, exception, decision)
    info = ErrorInfo.from_exception(exception, error_class)
    run.step.add_error(info)
    run.clock()
    run.append(
        ErrorRaised(
            *run.record_head(),
            error=_as_recorded(run, info) if call is not None else info,
            action=decision.action.value,
            delay=decision.delay,
            step=run.step_index,
            call_id=call_id,
            reason=decision.reason,
        )
    )
    return decision


async def ask_in_step(run: Run, plan: Plan, ctx: C) -> Result[C] | None:
    """Ask the hooks of a point inside a step. None if one of them failed and the error policy ignores that."""
    try:
        return await run.ask(plan, ctx)
    except HookError as error:
        decision = await on_error(run, error, classify(error))
        if decision.action is ErrorAction.STOP:
            raise UnrecoveredError(error, decision.action) from error
        return None


def _answer(run: Run, left: FailureHookContext, failures: int) -> ErrorDecision:
    """What the last hook decided, within the budgets and the longest wait of the error policy."""
    decision, policy = left.decision, run.setup.definition.error_policy
    exceeded = policy.exceeded_budget(decision.action, failures, run.state.counters.errors)
    if exceeded:
        return ErrorDecision(ErrorAction.STOP, 0.0, exceeded)
    if decision.delay > policy.max_delay:
        decision = msgspec.structs.replace(decision, delay=policy.max_delay)
    if decision.action is not ErrorAction.RESCUE or decision.value is not None:
        return decision
    return msgspec.structs.replace(decision, value=left.execution or left.response)


def _as_recorded(run: Run, info: ErrorInfo) -> ErrorInfo:
    """A failed call as it is written down at once: its words may still be withheld by the hooks after the tool.

    When they are let through they are in the result of the call, and in the errors of the step.
    """
    plan = run.plans.after_tool_use
    if plan is None or not plan.can_decide or info.error_class != ErrorClass.TOOL:
        return info
    return without_message(info)


def without_message(info: ErrorInfo) -> ErrorInfo:
    """The error without its message."""
    return msgspec.structs.replace(info, message="")


def ask_policy(
    run: Run, exception: BaseException, error_class: ErrorClass, failures: int, call_id: str
) -> ErrorDecision:
    """What the policy says; one that fails itself has nobody else to ask, so it says stop."""
    try:
        return run.source.decide(run, exception, error_class, failures, call_id)
    except CRASHES as error:
        return ErrorDecision(ErrorAction.STOP, 0.0, f"the error policy failed ({in_words(error)})")


def stop_if_too_late(run: Run, exception: BaseException, decision: ErrorDecision) -> ErrorDecision:
    """The decision to retry, unless the run's time is over before it would make sense."""
    wait = max(
        decision.delay, retry_delay(exception) or 0.0
    )  # a provider may name more than the longest wait
    run.clock()
    guards = (one.hook for one in (*run.setup.inherited, *run.setup.definition.registrations))
    left = min(
        (one.seconds_left(run) for one in guards if isinstance(one, LimitsGuard)), default=wait
    )
    if wait <= max(left, 0.0):
        return decision
    reason = f"the wait is {wait:,.10g} s, and the run has {left:,.1f} s left"
    return ErrorDecision(ErrorAction.STOP, 0.0, reason)


async def repeat_recorded_failure(
    run: Run, known: ErrorRaised, info: ErrorInfo, call: ToolCall | None = None
) -> None:
    """Go once more through a failure that is on record: it counts, and what was decided about it stands."""
    if known.action != "fallback":  # of which only the driver knows
        error_class = ErrorClass(info.error_class)
        _count(run, error_class)
        failure = restore_exception(info)
        with contextlib.suppress(HookError):
            await _ask(run, _failure_context(run, HookPoint.ERROR, failure, error_class, call))
    run.step.add_error(info)


def on_success(run: Run, *error_classes: ErrorClass) -> None:
    """Something of these classes worked: failures in a row start from zero."""
    counters = run.state.counters
    rest = {
        name: count
        for name, count in counters.consecutive_errors.items()
        if name not in error_classes
    }
    if len(rest) < len(counters.consecutive_errors):
        counters = msgspec.structs.replace(counters, consecutive_errors=FrozenDict(rest))
        run.set_state(msgspec.structs.replace(run.state, counters=counters))


def on_step_end(run: Run) -> None:
    """A step is over: failures in a row start from zero for what worked in it. Tools were counted when they ran."""
    failed = {info.error_class for info in run.step.errors}
    worked = [ErrorClass.HOOK]
    if run.step.response is not None:
        worked += _OF_MODELS
    on_success(run, *(error_class for error_class in worked if error_class not in failed))
    if run.step.calls and not run.step.calls[-1].is_invalid:
        on_success(run, ErrorClass.VALIDATION)


async def on_lost(run: Run, exception: BaseException, error_class: ErrorClass) -> None:
    """The run has failed: ask the agent_failed hooks."""
    with contextlib.suppress(HookError):
        await _ask(run, _failure_context(run, HookPoint.AGENT_FAILED, exception, error_class))


def _count(run: Run, error_class: ErrorClass) -> int:
    counters = run.state.counters
    in_a_row = counters.consecutive_errors.get(error_class.value, 0) + 1
    consecutive = FrozenDict({**counters.consecutive_errors, error_class.value: in_a_row})
    counters = msgspec.structs.replace(
        counters, errors=counters.errors + 1, consecutive_errors=consecutive
    )
    run.set_state(msgspec.structs.replace(run.state, counters=counters))
    return in_a_row


def _failure_context(
    run: Run,
    point: Point[FailureHookContext],
    exception: BaseException,
    error_class: ErrorClass,
    call: ToolCall | None = None,
    **fields: Any,
) -> FailureHookContext:
    return run.context(
        point,
        exception=exception,
        error_class=error_class,
        tool_call=call,
        step_index=run.step_index,
        **fields,
    )


async def _ask(run: Run, ctx: FailureHookContext) -> FailureHookContext:
    """Ask hooks about a failure; gives the context they leave. One that fails does not start another round of this."""
    plan = run.plans.of(ctx.point)
    if plan is None:
        return ctx
    about = "" if ctx.tool_call is None else ctx.tool_call.id
    return (await run.ask(plan, ctx, about=about)).context
