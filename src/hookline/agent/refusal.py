"""A call that a person or a hook does not let run: what the model reads instead of its result."""

from __future__ import annotations

from hookline.agent.flight import Flight
from hookline.agent.run import Run
from hookline.state import CallStage, Decision, ResultStatus, ToolResult

GONE = (
    "this call was not run: a secret in its arguments was redacted, and only a process that has ended had it in "
    "memory. To run it, make the call again; it is better to read the secret from the environment or a file."
)
_REDACTION = "redaction"


def deny(run: Run, flight: Flight, decision: Decision, asked_by: str) -> None:
    """The call does not run; the model reads why. Of one that had started nobody can say that it did not run."""
    call, reason = flight.call, decision.reason or "permission was not given"
    if had_started(run, flight):
        stay_in_doubt(flight, reason, asked_by)
        return
    flight.stage = CallStage.SETTLED
    denied = ResultStatus.DENIED
    flight.result = ToolResult(None, None, denied, call.id, call.name, reason, asked_by)


def is_gone(run: Run, flight: Flight) -> bool:
    """Whether a call cannot run: what was taken out of its arguments was in the memory of a process that has ended."""
    return flight.is_gone and run.source.runs_tools


def settle_gone(run: Run, flight: Flight) -> None:
    """Such a call is not run, and the model reads why."""
    if flight.started or flight.stage is CallStage.SUSPENDED or had_started(run, flight):
        stay_in_doubt(flight, f"{GONE} What it did before that is not known.", _REDACTION)
        return
    if flight.stage is CallStage.ADMITTED:
        run.ledger.add_tool_calls(-1)  # it was counted when it was cleared
    call, blocked = flight.call, ResultStatus.BLOCKED
    flight.result = ToolResult(None, None, blocked, call.id, call.name, GONE, _REDACTION)
    flight.stage = CallStage.SETTLED


def had_started(run: Run, flight: Flight) -> bool:
    """Whether a call had started in a process that died, and somebody was asked whether to run it again."""
    is_asked_again = flight.approval is not None and flight.approval.is_again
    return is_asked_again or run.source.was_in_doubt(run, flight.call.id)


def stay_in_doubt(flight: Flight, reason: str, decided_by: str = "") -> None:
    """A call in doubt is not run again, for this reason: what it did is as unknown as before."""
    call, in_doubt = flight.call, ResultStatus.IN_DOUBT
    flight.result = ToolResult(None, None, in_doubt, call.id, call.name, reason, decided_by)
    flight.stage = CallStage.SETTLED
    flight.is_refused = True  # it is no result of the tool, so only observers are shown it
