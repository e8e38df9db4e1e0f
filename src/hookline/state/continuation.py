"""Continue or stop: the decisions that hooks append, and the outcome they add up to."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec


class RunStatus(enum.StrEnum):
    """The status of a run."""

    QUEUED = "queued"
    """It was submitted, and no process has begun it."""
    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StopReason(enum.StrEnum):
    """Why a run does not continue. `StopReason("text")` is a reason of one's own; it is equal to its text."""

    COMPLETED = "completed"
    EMPTY_ANSWER = "empty_answer"
    """It completed, and the model's answer has no text."""
    TRUNCATED = "truncated"
    """The provider cut off the answer. Calls in it were not run."""
    NO_DECISION = "no_decision"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    TOOL_CALL_LIMIT = "tool_call_limit"
    OBJECTION_LIMIT = "objection_limit"
    HOOK = "stopped_by_hook"
    RUN_REFUSED = "run_refused"
    PROMPT_REFUSED = "prompt_refused"
    STEP_REFUSED = "step_refused"
    OUTPUT_WITHHELD = "output_withheld"
    OUTPUT_INVALID = "output_invalid"
    """The model did not give the output it was asked for, in as many attempts as it had."""
    TASKS_OPEN = "tasks_open"
    """The model wanted to end with open tasks, as often as it may be sent back to them."""
    NOT_APPROVED = "not_approved"
    """The critic did not approve of the answer, in as many rounds as there were."""
    APPROVAL_PENDING = "approval_pending"
    CANCELLED = "cancelled"
    ATTEMPTS = "attempts"
    """Process after process took the run up, and none of them finished a step."""
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> StopReason | None:
        # A union of this enum and `str` was rejected: msgspec decodes no such union, and every reader would have to
        # tell the two apart.
        if not isinstance(value, str) or not value:
            return None
        own = str.__new__(cls, value)
        own._name_ = own._value_ = value
        return own


class ContinuationDecision(enum.StrEnum):
    """What one hook decides about the next step. Strongest first."""

    FORBID_CONTINUATION = "forbid_continuation"
    REQUEST_CONTINUATION = "request_continuation"
    ALLOW_STOP = "allow_stop"
    ALLOW_CONTINUATION = "allow_continuation"


class ContinuationEvaluation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One hook's decision whether the run continues."""

    source: str
    decision: ContinuationDecision
    reason: str = ""
    stop_reason: StopReason | None = None
    """One of ours, or one of the hook's own: `StopReason("out of budget")`."""

    def problem(self) -> str:
        """What is wrong with it: no valid decision, a reason that is not text. Empty if nothing is."""
        if type(self.decision) is not ContinuationDecision:
            return f"it decides {self.decision!r}, which is not a ContinuationDecision"
        if self.stop_reason is not None and not (
            isinstance(self.stop_reason, str) and self.stop_reason
        ):
            return f"its stop reason is {self.stop_reason!r}, which is not a text"
        if not isinstance(self.source, str) or not isinstance(self.reason, str):
            return f"its source or its reason is not text ({self.source!r}, {self.reason!r})"
        return ""


_REQUEST = ContinuationDecision.REQUEST_CONTINUATION
_CONTINUE = ContinuationDecision.ALLOW_CONTINUATION
_STRENGTH = {decision: -position for position, decision in enumerate(ContinuationDecision)}
_DEFAULT_REASON = {
    ContinuationDecision.FORBID_CONTINUATION: StopReason.HOOK,
    ContinuationDecision.ALLOW_STOP: StopReason.COMPLETED,
}


class ContinuationOutcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of all evaluations of a phase. Their order does not matter."""

    should_continue: bool = False
    stop_reason: StopReason | None = None
    resolved_by: str | None = None
    reason: str = ""
    evaluations: tuple[ContinuationEvaluation, ...] = ()

    @classmethod
    def from_evaluations(cls, evaluations: Iterable[ContinuationEvaluation]) -> ContinuationOutcome:
        """Any Forbid stops; else any Request continues; else any AllowStop stops; else AllowContinuation continues."""
        given = tuple(evaluations)
        if not given:
            return _NOTHING_SAID  # the most frequent case
        deciding = given[0] if len(given) == 1 else _strongest(given)
        decision = deciding.decision
        continues = decision is _CONTINUE or decision is _REQUEST
        stop_reason = (
            None if continues else StopReason(deciding.stop_reason or _DEFAULT_REASON[decision])
        )
        return cls(
            should_continue=continues,
            stop_reason=stop_reason,
            resolved_by=deciding.source,
            reason=deciding.reason,
            evaluations=given,
        )

    @property
    def is_forbidden(self) -> bool:
        """A guard forbade another step: no stop hook can object."""
        forbid = ContinuationDecision.FORBID_CONTINUATION
        return any(evaluation.decision is forbid for evaluation in self.evaluations)


def _strongest(evaluations: tuple[ContinuationEvaluation, ...]) -> ContinuationEvaluation:
    """The deciding evaluation. Among equals the order must not matter either, so their text decides."""
    top = max(_STRENGTH[evaluation.decision] for evaluation in evaluations)
    equals = [evaluation for evaluation in evaluations if _STRENGTH[evaluation.decision] == top]
    if len(equals) == 1:
        return equals[0]
    return min(
        equals,
        key=lambda evaluation: (evaluation.source, evaluation.reason, evaluation.stop_reason or ""),
    )


_NOTHING_SAID = ContinuationOutcome(False, StopReason.NO_DECISION)
