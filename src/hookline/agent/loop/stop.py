"""Decides after each step whether another one follows, and ends the run if none does.

The evaluations (votes) of the hooks are resolved in `state/continuation.py`, which also has the reasons to stop. The
default vote is `ToolCallPresence` in `definition/guards.py`. A run ends with output, agent_failed, execution_end,
session_end and its result; `RunResult.explain()` says in words why it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from hookline._aio import is_being_cancelled
from hookline.agent.error_handling import ask_in_step, on_error, on_lost
from hookline.agent.loop.step import count_usage, finish_step
from hookline.agent.result import RunResult, as_text
from hookline.agent.run import Run
from hookline.agent.services import provide_services
from hookline.errors import HookAnswerError, HookError, JournalError, in_words
from hookline.flow import ErrorClass, classify
from hookline.hooks import Plan, Point, Result
from hookline.journal import RunFinished, StatusChanged
from hookline.journal.fold import add_record_count
from hookline.lifecycle import AgentContext, HookPoint, SessionHookContext, StopHookContext
from hookline.state import (
    NO_USAGE,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Ending,
    ErrorInfo,
    InferenceResponse,
    RunStatus,
    Step,
    StopReason,
    UserMessage,
)

T = TypeVar("T")
_OTHER = "other"
"""Why a session is over that ends with its only run."""
_ANSWERS = (RunStatus.COMPLETED, RunStatus.STOPPED)
_COMPLETED = StopReason.COMPLETED


# --- whether there is another step ------------------------------------------------------------------


async def conclude(run: Run, step: Step | None) -> Ending | None:
    """Ask should_continue, resolve everything hooks have said, and ask the stop hooks if that means stopping."""
    plan = run.plans.should_continue
    if plan is not None and step is not None:
        await ask_in_step(run, plan, _stop_context(run, HookPoint.SHOULD_CONTINUE, step))
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    if not outcome.should_continue and run.plans.stop is not None:
        outcome = await _ask_to_stop(run, run.plans.stop, step, outcome)
    if step is not None:
        if outcome.should_continue and step.is_final_response:
            _tell_model_why(run, outcome)
        finish_step(run, step, outcome)
    return None if outcome.should_continue else outcome_ending(outcome)


def _stop_context(run: Run, point: Point[StopHookContext], step: Step | None) -> StopHookContext:
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    shown = Step(run.step_index or 0) if step is None else step
    return run.context(point, continuation=outcome, step=shown)


async def _ask_to_stop(
    run: Run, plan: Plan, step: Step | None, outcome: ContinuationOutcome
) -> ContinuationOutcome:
    """Ask the stop hooks. They may object up to `max_objections` times, and never if another step was forbidden."""
    result = await ask_in_step(run, plan, _stop_context(run, HookPoint.STOP, step))
    if result is not None and result.is_blocked:
        run.evaluate(
            ContinuationEvaluation(
                source=result.decided_by,
                decision=ContinuationDecision.REQUEST_CONTINUATION,
                reason=result.reason,
            ),
            HookPoint.STOP.value,
        )
    revised = ContinuationOutcome.from_evaluations(run.evaluations)
    if outcome.is_forbidden or not revised.should_continue:
        return revised if revised.is_forbidden else outcome
    counters = run.state.counters
    if counters.objections >= run.setup.definition.max_objections:
        cap = f"stop hooks objected {counters.objections} times, which is the limit; the last: {revised.reason}"
        forbid = ContinuationEvaluation(
            source="objections",
            decision=ContinuationDecision.FORBID_CONTINUATION,
            reason=cap,
            stop_reason=StopReason.OBJECTION_LIMIT,
        )
        run.evaluate(forbid, HookPoint.STOP.value)
        return ContinuationOutcome.from_evaluations(run.evaluations)
    counters = msgspec.structs.replace(counters, objections=counters.objections + 1)
    run.set_state(msgspec.structs.replace(run.state, counters=counters))
    return revised


def _tell_model_why(run: Run, outcome: ContinuationOutcome) -> None:
    """When the model was done and a hook wants more, the model reads why."""
    request = ContinuationDecision.REQUEST_CONTINUATION
    reasons = dict.fromkeys(
        (said.reason, said.source) for said in outcome.evaluations if said.decision is request
    )
    notes = tuple(UserMessage(reason, source) for reason, source in reasons if reason)
    run.set_state(run.state.with_messages(run.state.messages.extend(notes)))


def check_early_forbid(run: Run) -> Ending | None:
    """What hooks said before the first step is resolved before it: there is no step to let finish."""
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    return outcome_ending(outcome) if outcome.is_forbidden else None


# --- the ending: a status and a reason ---------------------------------------------------------------


def stop_ending(result: Result[Any], reason: StopReason) -> Ending:
    """How a run ends that its hooks do not let continue."""
    return Ending(
        status=RunStatus.STOPPED,
        stop_reason=reason,
        reason=result.reason,
        decided_by=result.decided_by,
    )


def refusal_ending(run: Run, result: Result[Any], reason: StopReason) -> Ending:
    """How a run ends whose hooks block it; with the reason that one of them gave with a forbid, if one did."""
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    is_given = outcome.is_forbidden and outcome.stop_reason is not StopReason.HOOK
    return outcome_ending(outcome) if is_given else stop_ending(result, reason)


def outcome_ending(outcome: ContinuationOutcome) -> Ending:
    """How a run ends that its hooks let end, or made end."""
    status = RunStatus.STOPPED if outcome.is_forbidden else RunStatus.COMPLETED
    reason = outcome.stop_reason or StopReason.COMPLETED
    return Ending(
        status=status,
        stop_reason=reason,
        reason=outcome.reason,
        decided_by=outcome.resolved_by or "",
    )


def failure_ending(run: Run, error: BaseException) -> Ending:
    """How a run ends that is lost."""
    run.set_error(error)
    decided_by = error.hook if isinstance(error, HookError) else ""
    return Ending(
        status=RunStatus.FAILED,
        stop_reason=StopReason.ERROR,
        reason=in_words(error) or type(error).__name__,
        decided_by=decided_by,
    )


def cancel_ending(run: Run) -> Ending:
    """How a cancelled run ends. If its time was over, it has reached the time limit."""
    if run.token.is_out_of_time:
        return Ending(RunStatus.STOPPED, StopReason.TIME_LIMIT, run.token.why)
    return Ending(RunStatus.CANCELLED, StopReason.CANCELLED, run.token.why)


# --- the end of every run: its last hooks and its result ----------------------------------------------


async def finish(run: Run, ending: Ending, output: Any) -> RunResult:
    """End a run: ask the last hooks and make the result. All of it is done even if the task is cancelled."""
    cancelled: list[asyncio.CancelledError] = []
    answer = (
        output if ending.status in _ANSWERS else None
    )  # given; hooks that fail from here on cannot take it back
    run.durable.release(as_text(output))
    _store_ending(run, ending)
    if run.error is not None:
        await _await_despite_cancel(on_lost(run, run.error, classify(run.error)), cancelled)
    ctx = run.context(
        HookPoint.EXECUTION_END,
        status=ending.status,
        stop_reason=ending.stop_reason,
        outcome=ContinuationOutcome.from_evaluations(run.evaluations),
        resumed=run.is_resumed,
    )
    ending = await _await_despite_cancel(_ask_at_end(run, ctx, ending), cancelled) or ending
    if run.setup.session.ends and ending.status is not RunStatus.PAUSED:
        leaving = _ask_at_end(run, _end_of_session(run), ending)
        ending = await _await_despite_cancel(leaving, cancelled) or ending
    result = _result(run, ending, answer)
    if run.commit is not None:
        result = await _await_despite_cancel(_commit_result(run, result), cancelled) or result
    if cancelled:
        raise cancelled[0]
    return result


async def _await_despite_cancel(
    work: Awaitable[T], cancelled: list[asyncio.CancelledError]
) -> T | None:
    """Do a part of the end. If the task is cancelled during it, keep the error and let the next part begin."""
    try:
        return await work
    except asyncio.CancelledError as error:
        if is_being_cancelled():  # otherwise a hook of a cancelled run raised it
            cancelled.append(error)
        return None


async def give_output(run: Run, ending: Ending) -> tuple[Any, Ending]:
    """The final answer, after the output hooks: they may change it, or withhold it."""
    if ending.status not in _ANSWERS:
        return None, ending
    if run.token.is_cancelled:
        raise asyncio.CancelledError
    last = run.state.last_step if run.state.step_count else None
    output: Any = last.text if last is not None else ""
    plan = run.plans.output
    if plan is None or last is None:
        return output, _mark_empty(ending, output)
    result = await run.ask(plan, run.context(HookPoint.OUTPUT, output=output))
    run.token.close()  # the answer is given
    if run.token.is_cancelled:
        raise asyncio.CancelledError
    if result.is_blocked or result.is_stopped:
        run.drop_deltas()
        given = StopReason(result.stop_reason or StopReason.HOOK)
        return None, stop_ending(result, StopReason.OUTPUT_WITHHELD if result.is_blocked else given)
    output = result.context.output
    run.release_deltas(_final_response(run.step.response, output))
    return output, _mark_empty(ending, output)


def _mark_empty(ending: Ending, output: Any) -> Ending:
    """The ending, with the reason `empty_answer` if a completed run has no text. Structured output is not checked."""
    if isinstance(output, str) and not output.strip() and ending.stop_reason is _COMPLETED:
        return msgspec.structs.replace(ending, stop_reason=StopReason.EMPTY_ANSWER)
    return ending


def _final_response(response: InferenceResponse | None, output: Any) -> InferenceResponse:
    """The answer as the output hooks left it. If they changed it, its reasoning is dropped, which may repeat it."""
    text = as_text(output)
    return response if response is not None and response.text == text else InferenceResponse(text)


async def _commit_result(run: Run, result: RunResult) -> RunResult:
    """The result, once everything is safe; a run whose journal cannot be written has failed, whatever it did.

    Listeners hear the end now: if another process has the run, its end is the one that counts.
    """
    assert run.commit is not None
    try:
        await run.commit()
    except JournalError as error:
        run.check_claim()
        if result.status is not RunStatus.FAILED:
            result = _unwritten(result, error)
            ending = result.state.ending
            assert ending is not None
            run.durable.drop_held()
            run.durable.tell(_finish(run, result, ending, run.durable.records[-1].seq))
    except BaseException:  # cancelled, say: it is written all the same
        if not run.durable.is_lost:
            run.durable.release()
        raise
    run.durable.release()
    return result


def _unwritten(result: RunResult, error: JournalError) -> RunResult:
    ending = Ending(RunStatus.FAILED, StopReason.ERROR, in_words(error))
    return msgspec.structs.replace(
        result,
        state=msgspec.structs.replace(result.state, ending=ending),
        status=ending.status,
        stop_reason=ending.stop_reason,
        error=error,
    )


def _store_ending(run: Run, ending: Ending) -> None:
    """Store the ending and the active time in the state, and record them."""
    active = run.ledger.seconds(run.clock())
    usage, counters = count_usage(run)
    counters = msgspec.structs.replace(counters, active_seconds=active)
    run.set_state(msgspec.structs.replace(run.state, ending=ending, usage=usage, counters=counters))
    run.noted = counters
    run.append(
        StatusChanged(
            *run.record_head(),
            status=ending.status,
            stop_reason=ending.stop_reason,
            reason=ending.reason,
            decided_by=ending.decided_by,
            usage=usage,
            counters=counters,
        )
    )


async def _ask_at_end(run: Run, ctx: AgentContext, ending: Ending) -> Ending:
    """Ask the hooks of one point at the end. A hook that fails closed fails the run; a wrong answer does not."""
    plan = run.plans.of(ctx.point)
    if plan is None:
        return ending
    try:
        await run.ask(plan, ctx)
    except HookError as error:
        await on_error(run, error, ErrorClass.HOOK)
        is_lost = not isinstance(error, HookAnswerError)
        if is_lost and run.error is None and ending.status is not RunStatus.PAUSED:
            run.set_error(error)
            ending = Ending(
                status=RunStatus.FAILED,
                stop_reason=StopReason.ERROR,
                reason=str(error),
                decided_by=error.hook,
            )
            _store_ending(run, ending)
            await on_lost(run, error, ErrorClass.HOOK)
    return ending


async def end_session(run: Run, reason: str = _OTHER) -> HookError | None:
    """Ask the session_end hooks of a session that is closed between its runs; gives the failure of one that fails."""
    plan = run.plans.session_end
    if plan is None:
        return None
    provide_services(run)
    try:
        await run.ask(plan, _end_of_session(run, reason))
    except HookError as error:
        await on_error(run, error, ErrorClass.HOOK, is_lost=True)
        return error
    return None


def _end_of_session(run: Run, reason: str = _OTHER) -> SessionHookContext:
    return run.context(HookPoint.SESSION_END, session_id=run.state.session_id, source=reason)


def _result(run: Run, ending: Ending, output: Any) -> RunResult:
    if run.uncounted.usage is not NO_USAGE or run.state.counters is not run.noted:
        _store_ending(run, ending)  # hooks at the end asked a model, or failed
    state = run.state
    outcome = state.continuation if state.step_count else None
    if outcome is None or outcome.should_continue:
        # It ended before another step: what was said since decided that, and not the last step.
        since = ContinuationOutcome.from_evaluations(run.evaluations)
        outcome = since if since.evaluations and not since.should_continue else None
    result = RunResult(
        state=state,
        status=ending.status,
        stop_reason=ending.stop_reason,
        output=output,
        outcome=outcome,
        error=run.error,
    )
    finished = _finish(run, result, ending, next(run.numbers))
    if run.commit is not None:
        run.durable.hold()
    run.append(finished)
    return msgspec.structs.replace(
        result, state=add_record_count(state, finished), records=tuple(run.durable.records)
    )


def _finish(run: Run, result: RunResult, ending: Ending, seq: int) -> RunFinished:
    """The last record: it says what the caller gets."""
    state, error = result.state, result.error
    return RunFinished(
        run.run_id,
        seq,
        run.at,
        text=result.text,
        status=result.status,
        stop_reason=result.stop_reason,
        usage=result.usage,
        steps=state.step_count,
        reason=ending.reason,
        decided_by=ending.decided_by,
        error=None if error is None else ErrorInfo.from_exception(error, classify(error)),
        pending=state.pending,
    )
