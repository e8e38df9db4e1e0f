"""When a hook asks: permission hooks, remembered answers, answers handed to `resume`, the approver; else wait."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import msgspec

from hookline._aio import is_being_cancelled
from hookline.agent.run import Flight, Run
from hookline.errors import in_words
from hookline.hooks import CRASHES
from hookline.journal import ApprovalAnswered, ApprovalAsked
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.state import (
    CallStage,
    Decision,
    FrozenDict,
    PendingApproval,
    ResultStatus,
    ToolCall,
    ToolResult,
)


async def ask_person(run: Run, flight: Flight, reason: str, asked_by: str) -> Decision | None:
    """The answer to an asked call; None when there is none yet, or when the run was stopped instead."""
    approval = question(run, flight.call, reason, asked_by)
    if flight.approval is not None and flight.approval.fingerprint != approval.fingerprint:
        flight.decision = None  # the call is not the one the answer was given for
        flight.is_changed = True
    was_asked = flight.approval == approval
    flight.approval = approval
    if not was_asked:
        run.append(ApprovalAsked(*run.head(), run.step_index or 0, approval))
    decision, by = await _from_hooks(run, flight, reason, asked_by)
    if decision is None and not run.stopping and not flight.is_changed:
        # An answer to this very question goes before one that was remembered from another.
        known = run.memory.answer(approval.id) if run.memory is not None else None
        decision = known or flight.decision or await run.durable.wait(approval.id)
        by = "resume"
    if decision is None and not run.stopping:
        decision, by = _remembered(run, approval), "a remembered answer"
    if decision is None and not run.stopping:
        if run.commit is not None:
            run.durable.flush()
        decision, by = await _from_approver(run, approval), "approver"
    if decision is not None:
        _note(run, flight, approval, decision, by)
    return decision


async def ask_while_running(run: Run, call: ToolCall, reason: str, asked_by: str) -> Decision:
    """The answer to what a running tool asks. The run cannot pause here: without an answer at once, it is no."""
    flight = Flight(call, call)
    async with run.hook_lock:  # other calls are running, and their hooks may be asked too
        decision = await ask_person(run, flight, reason, asked_by)
        if decision is None:
            decision = Decision.deny("nobody is there to answer it now")
            assert flight.approval is not None
            _note(run, flight, flight.approval, decision, "")
    return decision


def question(run: Run, call: ToolCall, reason: str, asked_by: str) -> PendingApproval:
    """The question about a call; its id is the same in every process that drives the run."""
    where = f"{run.run_id}/{run.step_index}/{call.id}"
    return PendingApproval(where, call, reason, asked_by, call.fingerprint(), run.run_id)


async def _from_hooks(
    run: Run, flight: Flight, reason: str, asked_by: str
) -> tuple[Decision | None, str]:
    plan = run.plans.permission_request
    if plan is None:
        return None, ""
    ctx = ToolHookContext(
        point=HookPoint.PERMISSION_REQUEST,
        state=run.state,
        evaluations=run.evaluations,
        live=run,
        tool_call=flight.call,
        response=run.response,
        step_index=run.step_index or 0,
        reason=reason,
        asked_by=asked_by,
    )
    run.call_id = flight.call.id
    try:
        result = await run.ask(plan, ctx)
    finally:
        run.call_id = ""
    if result.is_blocked:
        denied = (
            result.answer
            if isinstance(result.answer, Decision) and result.answer.answer == "deny"
            else None
        )
        return denied or Decision.deny(result.reason), result.decided_by
    return result.answer, "a permission hook"


def _remembered(run: Run, approval: PendingApproval) -> Decision | None:
    return run.state.remembered.get(approval.fingerprint)


async def _from_approver(run: Run, approval: PendingApproval) -> Decision | None:
    approver = run.definition.approver
    above = run.parent
    while approver is None and above is not None:
        approver, above = above.definition.approver, above.parent
    if approver is None:
        return None
    if approver == "deny":
        return Decision.deny("nobody is there to approve it")
    try:
        answer: Any = approver(approval)
        if inspect.isawaitable(answer):
            answer = await answer
    except CRASHES as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        return Decision.deny(f"the approver failed ({type(error).__name__}: {in_words(error)})")
    return _as_decision(answer)


def _as_decision(answer: object) -> Decision:
    if isinstance(answer, Decision):
        return answer
    if answer is True:
        return Decision.allow()
    if answer is False:
        return Decision.deny("the approver said no")
    return Decision.deny(
        f"the approver answered {answer!r}, which is neither a Decision nor a bool"
    )


def _note(run: Run, flight: Flight, approval: PendingApproval, decision: Decision, by: str) -> None:
    flight.decision = decision
    run.append(ApprovalAnswered(*run.head(), run.step_index or 0, approval.id, decision, by))
    if decision.remember:
        remembered = FrozenDict({**run.state.remembered, approval.fingerprint: decision})
        run.state = msgspec.structs.replace(run.state, remembered=remembered)


def deny(flight: Flight, decision: Decision, asked_by: str) -> None:
    """The call does not run; the model reads why."""
    call = flight.call
    flight.stage = CallStage.SETTLED
    flight.result = ToolResult(
        None,
        None,
        ResultStatus.DENIED,
        call.id,
        call.name,
        decision.reason or "permission was not given",
        asked_by,
    )
