"""A call that had started when its process died: what it did is not known, and somebody has to say what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hookline.agent.approvals.questions import Ask, ask_person
from hookline.agent.call_in_progress import CallInProgress
from hookline.agent.calls.refusal import GONE, is_gone, stay_in_doubt
from hookline.agent.run import Run
from hookline.definition import Doubt, InDoubt, OnInDoubt
from hookline.errors import in_words
from hookline.state import Answer, CallStage, ToolResult

_UNKNOWN = "the process died while this call was running; what it did is not known"
_AGAIN = "it had started when the process died, and what it did is not known: run it again?"


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
