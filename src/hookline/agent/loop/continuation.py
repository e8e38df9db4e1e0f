"""Whether there is another step: what hooks have said is resolved, and the stop hooks may object."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hookline.agent.failure import on_error
from hookline.agent.loop.end import ended
from hookline.agent.loop.step import finish_step
from hookline.agent.loop.turn import Unrecovered
from hookline.agent.run import Run
from hookline.errors import HookError
from hookline.flow import ErrorAction, classify
from hookline.hooks import Plan, Point, Result
from hookline.lifecycle import AgentContext, HookPoint, StopHookContext
from hookline.state import (
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Ending,
    Step,
    StopReason,
    UserMessage,
)

C = TypeVar("C", bound=AgentContext)


async def ask_in_step(run: Run, plan: Plan, ctx: C) -> Result[C] | None:
    """Ask the hooks of a point inside a step. None if one of them failed and the error policy ignores that."""
    try:
        return await run.ask(plan, ctx)
    except HookError as error:
        decision = await on_error(run, error, classify(error))
        if decision.action is ErrorAction.STOP:
            raise Unrecovered(error, decision.action) from error
        return None


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
    return None if outcome.should_continue else ended(outcome)


def _stop_context(run: Run, point: Point[StopHookContext], step: Step | None) -> StopHookContext:
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    return run.context(point, continuation=outcome, step=step)


async def _ask_to_stop(
    run: Run, plan: Plan, step: Step | None, outcome: ContinuationOutcome
) -> ContinuationOutcome:
    """The stop hooks: they may object to an ordinary end, so often and no more, and never to a guard's."""
    result = await ask_in_step(run, plan, _stop_context(run, HookPoint.STOP, step))
    if result is not None and result.is_blocked:
        run.evaluate(
            ContinuationEvaluation(
                result.decided_by, ContinuationDecision.REQUEST_CONTINUATION, result.reason
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
    run.become(msgspec.structs.replace(run.state, counters=counters))
    return revised


def _tell_model_why(run: Run, outcome: ContinuationOutcome) -> None:
    """When the model was done and a hook wants more, the model reads why."""
    request = ContinuationDecision.REQUEST_CONTINUATION
    reasons = dict.fromkeys(
        (said.reason, said.source) for said in outcome.evaluations if said.decision is request
    )
    notes = tuple(UserMessage(reason, source) for reason, source in reasons if reason)
    run.become(run.state.with_messages(run.state.messages.extend(notes)))
