"""When a hook asks: permission hooks, remembered answers, answers handed to `resume`, the approver; else wait."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from hookline._aio import is_being_cancelled
from hookline.agent.run import Flight, Run
from hookline.errors import UsageError, in_words
from hookline.hooks import CRASHES
from hookline.journal import ApprovalAnswered, ApprovalAsked, with_remembered
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.permissions import Rule
from hookline.state import (
    Answer,
    CallStage,
    Decision,
    PendingApproval,
    ResultStatus,
    ToolCall,
    ToolResult,
    rule_key,
)

_EXPIRED = Decision.deny("the question expired")


async def ask_person(
    run: Run, flight: Flight, reason: str, askers: tuple[str, ...], *, again: bool = False
) -> Decision | None:
    """The answer to an asked call; None when there is none yet, or when the run was stopped instead.

    `again` asks about a call that had its answer and has used it up: this is a question of its own.
    """
    approval = question(run, flight.call, reason, askers, again=again)
    if flight.approval is not None and flight.approval.fingerprint != approval.fingerprint:
        flight.decision = None  # the call is not the one the answer was given for
        flight.is_changed = True
    elif again:
        flight.decision = None
    else:
        approval = _as_it_was_asked(run, approval, flight.approval)
    was_asked = flight.approval == approval
    flight.approval = approval
    if not was_asked:
        run.append(ApprovalAsked(*run.head(), run.step_index or 0, approval))
    decision, by = await _from_hooks(run, flight, approval)
    if decision is None and not run.stopping and not flight.is_changed:
        # An answer to this very question goes before one that was remembered from another.
        known = run.memory.answer(approval) if run.memory is not None else None
        decision = known or flight.decision or await _handed_over(run, approval)
        by = "resume"
    if decision is None and not run.stopping:
        decision, by = _remembered(run, approval), "a remembered answer"
    if decision is None and not run.stopping:
        if run.commit is not None:
            run.durable.flush()
        decision, by = await _answered_in_time(run, approval)
    if decision is not None:
        decision = _note(run, flight, approval, decision, by)
    return decision


async def ask_while_running(run: Run, call: ToolCall, reason: str, asked_by: str) -> Decision:
    """The answer to what a running tool asks. The run cannot pause here: without an answer at once, it is no."""
    flight = Flight(call, call)
    async with run.hook_lock:  # other calls are running, and their hooks may be asked too
        decision = await ask_person(run, flight, reason, (asked_by,))
        if decision is None:
            decision = Decision.deny("nobody is there to answer it now")
            assert flight.approval is not None
            _note(run, flight, flight.approval, decision, "")
    return decision


def question(
    run: Run, call: ToolCall, reason: str, askers: tuple[str, ...], *, again: bool = False
) -> PendingApproval:
    """The question about a call; its id is the same in every process that drives the run."""
    where = _place(run, call)
    if again:
        where = f"{where}/again-{len(run.durable.records)}"
    asked_by, *others = askers
    return PendingApproval(
        where,
        call,
        reason,
        asked_by,
        call.fingerprint(),
        run.run_id,
        _deadline(run),
        tuple(others),
    )


def _place(run: Run, call: ToolCall) -> str:
    return f"{run.run_id}/{run.step_index}/{call.id}"


def _deadline(run: Run) -> float | None:
    """Until when a question that is asked now can be answered: what is set for the run, or for one above it."""
    above: Run | None = run
    set_for = []
    while above is not None:
        if above.definition.expire_after is not None:
            set_for.append(above.definition.expire_after)
        above = above.parent
    if not set_for:
        return None
    run.clock()
    return run.at + min(set_for)


def _as_it_was_asked(
    run: Run, approval: PendingApproval, before: PendingApproval | None
) -> PendingApproval:
    """The question with the id and the deadline it had when it was first asked, in this process or another."""
    if before is None and run.memory is not None:
        before = run.memory.asked(approval.id)
    if before is None or before.fingerprint != approval.fingerprint:
        return approval
    same = before.asked_by == approval.asked_by
    return msgspec.structs.replace(
        approval, id=before.id if same else approval.id, expires_at=before.expires_at
    )


def _is_expired(run: Run, approval: PendingApproval) -> bool:
    if approval.expires_at is None:
        return False
    run.clock()
    return approval.is_expired(run.at)


async def _handed_over(run: Run, approval: PendingApproval) -> Decision | None:
    """The answer that was handed to `resume`, unless it comes too late."""
    decision = await run.durable.wait(approval.id)
    return None if decision is None or _is_expired(run, approval) else decision


async def _answered_in_time(run: Run, approval: PendingApproval) -> tuple[Decision | None, str]:
    """What the approver says, as long as the question can be answered."""
    if _is_expired(run, approval):
        return _EXPIRED, "expiry"
    decision = await _from_approver(run, approval)
    if decision is _EXPIRED or (decision is not None and _is_expired(run, approval)):
        return _EXPIRED, "expiry"
    return decision, "approver"


async def _from_hooks(
    run: Run, flight: Flight, approval: PendingApproval
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
        reason=approval.reason,
        asked_by=approval.asked_by,
        also_asked_by=approval.also_asked_by,
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
    """What was answered for the session: in this run, or in one above it."""
    if _is_again(run, approval):
        return None
    above: Run | None = run
    while above is not None:
        remembered = above.state.remembered
        known = remembered.get(approval.fingerprint) or _by_rule(remembered, approval)
        if known is not None:
            return known
        above = above.parent
    return None


def _by_rule(remembered: Mapping[str, Decision], approval: PendingApproval) -> Decision | None:
    """What was answered for a rule that is about this call, if it was answered to everyone who asks now."""
    given = dict.fromkeys(decision.rule for decision in remembered.values() if decision.rule)
    for text in given:
        answers = [remembered.get(rule_key(text, asker)) for asker in approval.askers]
        decision = answers[0]
        if decision is None or any(each != decision for each in answers):
            continue
        rule, call = Rule.parse(text), approval.tool_call
        if rule.covers(call) if decision.answer is Answer.ALLOW else rule.touches(call):
            return decision
    return None


def _is_again(run: Run, approval: PendingApproval) -> bool:
    """Whether it asks about running a call a second time: what is remembered of the call is no answer to that."""
    return approval.id != _place(run, approval.tool_call)


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
            answer = await _until_expired(run, approval, answer)
    except CRASHES as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        return Decision.deny(f"the approver failed ({type(error).__name__}: {in_words(error)})")
    return _as_decision(answer)


async def _until_expired(run: Run, approval: PendingApproval, answer: Awaitable[Any]) -> Any:
    """Wait for an approver, and not longer than its answer is good for anything."""
    if approval.expires_at is None:
        return await answer
    timer = asyncio.timeout(approval.expires_at - run.at)
    try:
        async with timer:
            return await answer
    except TimeoutError:
        if timer.expired():
            return _EXPIRED
        raise


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


def _note(
    run: Run, flight: Flight, approval: PendingApproval, decision: Decision, by: str
) -> Decision:
    if decision.remember and _is_again(run, approval):
        decision = msgspec.structs.replace(decision, remember=False, rule="")
    decision = _with_valid_rule(decision)
    flight.decision = decision
    run.append(ApprovalAnswered(*run.head(), run.step_index or 0, approval.id, decision, by))
    run.state = with_remembered(run.state, approval.remembering(decision))
    return decision


def _with_valid_rule(decision: Decision) -> Decision:
    """A decision whose rule can be understood; one whose rule cannot is a no, and says why."""
    if not decision.rule:
        return decision
    try:
        Rule.parse(decision.rule)
    except UsageError as error:
        return Decision.deny(f"the answer came with a rule that is none: {in_words(error)}")
    return decision


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
