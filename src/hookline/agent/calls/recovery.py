"""Calls of a step whose process died: what is on record of them stands, and what is in doubt is decided."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from hookline.agent.approvals import Ask, ask_person
from hookline.agent.calls.admission import (
    GONE,
    clear,
    has_lost_arguments,
    intend,
    prepare,
    stay_in_doubt,
)
from hookline.agent.children import recount_children
from hookline.agent.failure import on_success, repeat_recorded_failure
from hookline.agent.in_progress import CallInProgress
from hookline.agent.records import RecordedCall, RunIndex, recorded_exception
from hookline.agent.run import Run
from hookline.definition import Doubt, InDoubt, OnInDoubt
from hookline.errors import in_words
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import ErrorRaised, with_changes, with_remembered
from hookline.state import (
    Answer,
    CallStage,
    Decision,
    PendingApproval,
    ResultStatus,
    ToolCall,
    ToolResult,
    to_remember,
)
from hookline.tools import Effect

_SETTLED = CallStage.SETTLED
_UNKNOWN = "the process died while this call was running; what it did is not known"
_AGAIN = "it had started when the process died, and what it did is not known: run it again?"


def readmit(run: Run, current: CallInProgress) -> bool:
    """Stand by the record of a call that had started; says whether there is one.

    What hooks noted about it is noted again, and nobody is asked: there is nothing left to judge.
    """
    source, call_id = run.source, current.made.id
    known = source.known.call(run.step_index or 0, call_id)
    intent = known.intent
    if intent is None:
        return False
    for ran in source.answers_about(call_id):
        run.become(with_changes(run.state, (ran.changes or {}).get("state")))
        run.replace_evaluations((*run.evaluations, *ran.evaluations))
    asked = list(known.asked.values())
    # What the run had paused for was asked before, and answered since.
    waited_for = [] if current.approval is None else [current.approval]
    for approval in waited_for + asked:
        decision = source.known.answers.get(approval.id)
        if decision is not None and decision.remember:
            run.become(with_remembered(run.state, to_remember(approval, decision)))
    _stand_by_answers(current, asked, intent.call)
    if prepare(run, current, intent.call) is not None:  # another tool has the name now, or none
        current.call, current.tool = intent.call, None
    clear(run, current)
    return True


def _stand_by_answers(
    current: CallInProgress, asked: list[PendingApproval], started: ToolCall
) -> None:
    """A call that had started was approved as it started: nobody is asked that again, should the run pause."""
    current.questions += sum(not question.is_again for question in asked)
    approval = asked[-1] if asked else current.approval
    if approval is not None:
        current.decision = Decision.allow()
        current.approval = msgspec.structs.replace(
            approval, tool_call=started, fingerprint=started.fingerprint()
        )


async def recall_calls(run: Run, index: RunIndex) -> None:
    """Settle the calls that had run, or had started, before the process died."""
    recalled: list[tuple[CallInProgress, RecordedCall]] = []
    for current in run.step.calls:
        if current.stage not in (CallStage.ADMITTED, CallStage.SUSPENDED):
            continue
        known = index.call(run.step_index or 0, current.call.id)
        result = known.result
        if current.stage is CallStage.SUSPENDED and result is None:
            continue  # it had started before the run paused, and continues
        if result is not None and not (current.started or known.intent is not None):
            run.ledger.add_tool_calls(-1)
            current.result, current.stage, current.is_refused = result, CallStage.SETTLED, True
        elif result is not None:
            intend(run, current)
            current.result, current.stage = result, CallStage.SETTLED
            current.is_refused = result.status is ResultStatus.IN_DOUBT
            recalled.append((current, known))
            recount_children(run, current, known)
        elif known.is_in_doubt and (
            _must_not_repeat(current, known) or has_lost_arguments(run, current)
        ):
            intend(run, current)
            settled = await settle_doubt(run, current, run.setup.definition.on_in_doubt)
            if not settled:
                recalled.append((current, known))
            elif current.stage is _SETTLED:
                recount_children(run, current, known)
    await _recall_failures(run, recalled)


def _must_not_repeat(current: CallInProgress, known: RecordedCall) -> bool:
    """Whether a call may have had its effect and must not have it twice: as its tool is now, or as it was then."""
    tool, intent = current.tool, known.intent
    if known.open_children:
        return tool is None  # they have journals of their own, and are taken up
    was_once = intent is not None and intent.effect == Effect.ONCE
    return was_once or tool is None or tool.effect is Effect.ONCE


async def _recall_failures(run: Run, calls: list[tuple[CallInProgress, RecordedCall]]) -> None:
    """Fail these calls again as often as they had failed, with the error policy's recorded answers."""
    tries = [(current, known.failures) for current, known in calls]
    for number in range(max((len(failed) for _, failed in tries), default=0) + 1):
        for current, failed in tries:
            if number < len(failed):
                await _fail_again(run, current, failed[number])
            elif number == len(failed) and current.result is not None and current.result.is_success:
                on_success(run, ErrorClass.TOOL)


async def _fail_again(run: Run, current: CallInProgress, known: ErrorRaised) -> None:
    info, result = known.error, current.result
    assert info is not None
    reported = result.error if result is not None else None
    if not info.message and reported is not None and reported.type == info.type:
        info = reported  # its words were not on record as long as hooks might have withheld them
    await repeat_recorded_failure(run, known, info, current.call)
    current.errors = (*current.errors, info)
    if known.action == ErrorAction.STOP:
        current.failure = recorded_exception(info)


def fail_as_before(run: Run) -> None:
    """A call on record had ended the run: only now, because those beside it had started too."""
    failures = [current.failure for current in run.step.calls if current.failure is not None]
    if failures and (
        run.step.failing is None or any(run.step.failing is each for each in failures)
    ):
        run.step.fail(failures[0])


# --- a call in doubt ----------------------------------------------------------------------------------


async def settle_doubt(run: Run, current: CallInProgress, how: OnInDoubt) -> bool:
    """Decide about a call in doubt. True: it is settled, or waits for a person. False: it is to run."""
    if current.tool is None:
        stay_in_doubt(current, f"{_UNKNOWN}, and no tool of today takes this call")
        return True
    if how == "ask" and not has_lost_arguments(run, current):
        return await _ask(run, current)
    if how == "ask":
        stay_in_doubt(current, f"{_UNKNOWN}; {GONE}")
        return True
    if how != "tell":
        return await _check(run, current, how)
    stay_in_doubt(current, _UNKNOWN)
    return True


async def _ask(run: Run, current: CallInProgress) -> bool:
    # An answer to the call itself is used up: the call may have run with it.
    decision = await ask_person(run, current, Ask(_AGAIN, ("in-doubt",)), again=True)
    if decision is None:
        current.stage = CallStage.ASKED
        return True
    if decision.answer is Answer.ALLOW:
        return False
    stay_in_doubt(current, decision.reason or _UNKNOWN)
    return True


async def _check(run: Run, current: CallInProgress, check: Callable[[InDoubt], Any]) -> bool:
    call = current.call
    asked = InDoubt(call, f"{run.run_id}/{run.step_index}/{call.id}")
    try:
        found = check(asked)
        if inspect.isawaitable(found):
            found = await found
        if found is Doubt.NOT_DONE:
            return False
        if found is not Doubt.UNKNOWN:
            value = found.result if isinstance(found, ToolResult) else found
            current.result = ToolResult(value, call_id=call.id, name=call.name)
            current.stage = CallStage.SETTLED
            return True
    except Exception as error:
        stay_in_doubt(current, f"{_UNKNOWN} (and the check failed: {in_words(error)})")
        return True
    stay_in_doubt(current, _UNKNOWN)
    return True
