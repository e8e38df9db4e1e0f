"""A call that a person or a hook does not let run: what the model reads instead of its result."""

from __future__ import annotations

from hookline.agent.call_in_progress import CallInProgress
from hookline.agent.run import Run
from hookline.state import CallStage, Decision, ResultStatus

GONE = (
    "this call was not run: a secret in its arguments was redacted, and only a process that has ended had it in "
    "memory. To run it, make the call again; it is better to read the secret from the environment or a file."
)
_REDACTION = "redaction"


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
