"""Calls that do not run: denied, without their arguments, or in doubt because they had started when a process died."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hookline.agent.approvals.questions import Ask, ask_person
from hookline.agent.in_progress import CallInProgress
from hookline.agent.run import Run
from hookline.definition import Doubt, InDoubt, OnInDoubt
from hookline.errors import in_words
from hookline.state import Answer, CallStage, Decision, ResultStatus, ToolResult

GONE = (
    "this call was not run: a secret in its arguments was redacted, and only a process that has ended had it in "
    "memory. To run it, make the call again; it is better to read the secret from the environment or a file."
)
_REDACTION = "redaction"
_UNKNOWN = "the process died while this call was running; what it did is not known"
_AGAIN = "it had started when the process died, and what it did is not known: run it again?"


def deny(run: Run, current: CallInProgress, decision: Decision, asked_by: str) -> None:
    """The call does not run; the model reads why. Of one that had started nobody can say that it did not run."""
    reason = decision.reason or "permission was not given"
    if had_started(run, current):
        stay_in_doubt(current, reason, asked_by)
    else:
        current.settle(ResultStatus.DENIED, reason, asked_by)


def is_gone(run: Run, current: CallInProgress) -> bool:
    """Whether a call cannot run: what was taken out of its arguments was in the memory of a process that has ended."""
    return current.is_gone and run.source.runs_tools


def settle_gone(run: Run, current: CallInProgress) -> None:
    """Such a call is not run, and the model reads why."""
    if current.started or current.stage is CallStage.SUSPENDED or had_started(run, current):
        stay_in_doubt(current, f"{GONE} What it did before that is not known.", _REDACTION)
        return
    if current.stage is CallStage.ADMITTED:
        run.ledger.add_tool_calls(-1)  # it was counted when it was cleared
    current.settle(ResultStatus.BLOCKED, GONE, _REDACTION)


def had_started(run: Run, current: CallInProgress) -> bool:
    """Whether a call had started in a process that died, and somebody was asked whether to run it again."""
    is_asked_again = current.approval is not None and current.approval.is_again
    return is_asked_again or run.source.was_in_doubt(run, current.call.id)


def stay_in_doubt(current: CallInProgress, reason: str, decided_by: str = "") -> None:
    """A call in doubt is not run again, for this reason: what it did is as unknown as before."""
    current.settle(ResultStatus.IN_DOUBT, reason, decided_by)
    current.is_refused = True  # it is no result of the tool, so only observers are shown it


# --- a call in doubt ----------------------------------------------------------------------------------


async def settle_doubt(run: Run, current: CallInProgress, how: OnInDoubt) -> bool:
    """Decide about a call in doubt. True: it is settled, or waits for a person. False: it is to run."""
    if current.tool is None:
        stay_in_doubt(current, f"{_UNKNOWN}, and no tool of today takes this call")
        return True
    if how == "ask" and not is_gone(run, current):
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
        found = run.source.check_doubt(check, asked)
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
