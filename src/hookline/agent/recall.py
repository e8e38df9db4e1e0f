"""What the journal knows of a step, or an end, that a process did not live to settle.

A run that is taken up goes through its last step again. Hooks that gave their verdict then are not called again,
answers of the model and results of tools are not asked for again, and nothing is written a second time.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hookline.errors import HookError
from hookline.flow import ErrorClass
from hookline.hooks import Entry, HookOutcome, Kind, Plan
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    Evaluated,
    HookRan,
    ModelConsulted,
    Record,
    RequestSent,
    ResponseReceived,
    RunTakenUp,
    StatusChanged,
    StepStarted,
    hooks_in,
)
from hookline.lifecycle import HookPoint
from hookline.lifecycle.changes import can_be_redone, redo_changes
from hookline.state import (
    Decision,
    Ending,
    ErrorInfo,
    InferenceResponse,
    PendingApproval,
    ToolResult,
    to_remember,
)
from hookline.tools import Effect

_KINDS = {kind.label: kind for kind in Kind}
_BEFORE_A_CALL = (HookPoint.BEFORE_TOOL_USE.value, HookPoint.PERMISSION_REQUEST.value)
_TOLD_AGAIN = (ErrorClass.HOOK, ErrorClass.VALIDATION)
"""What fails once more when a step is gone through once more: hooks that say so again, calls that are still invalid."""


class Memory:
    """The records of the unsettled part of a run, to be gone through once more."""

    def __init__(self, tail: Iterable[Record], seconds: float = 0.0) -> None:
        records = tuple(tail)
        self.seconds = seconds
        """Active time that went into them."""
        self._attempts = _Attempts(records)
        told = (record for record in records if not self._attempts.has(record))
        self._written = Counter(
            identity for record in told if (identity := _identity(record)) is not None
        )
        self._verdicts: dict[tuple[str, str, str], deque[HookRan]] = defaultdict(deque)
        for ran in hooks_in(records):
            self._verdicts[ran.point, ran.call_id, ran.hook].append(ran)
        self._steps = _by(records, StepStarted, lambda record: record.step)
        self._responses = _by(records, ResponseReceived, lambda record: record.step)
        self._results = _by(records, CallSettled, lambda record: record.result.call_id)
        self._started = _by(records, CallAdmitted, lambda record: record.call.id)
        self._consulted: dict[tuple[int | None, str, str], deque[ModelConsulted]] = defaultdict(
            deque
        )
        for record in records:
            if isinstance(record, ModelConsulted):
                self._consulted[record.step, record.name, record.digest].append(record)
        self._asides = deque(
            key
            for record in records
            if isinstance(record, ChildStarted) and (key := _key_in_step(record)) == record.call_id
        )
        self._open = _open_children(records)
        self._finished = [record for record in records if isinstance(record, ChildFinished)]
        self._asked: dict[str, PendingApproval] = {}
        self._answers: dict[str, Decision | None] = {}
        for record in records:
            if isinstance(record, ApprovalAsked) and record.approval is not None:
                self._asked[record.approval.id] = record.approval
            elif isinstance(record, ApprovalAnswered):
                self._answers[record.approval_id] = record.decision
        self._statuses = [record for record in records if isinstance(record, StatusChanged)]
        self._errors = [record for record in records if isinstance(record, ErrorRaised)]

    def is_written(self, record: Record) -> bool:
        """Whether this is on record already. Asked once for each time it is about to be written."""
        identity = _identity(record)
        if identity is None or not self._written[identity]:
            return False
        self._written[identity] -= 1
        return True

    def recalled(self, plan: Plan, ctx: Any, about: str = "") -> Plan:
        """The plan in which those who gave their verdict before give it again without being called.

        `about` is the call or the child it is about, where the context does not say so.
        """
        call = getattr(ctx, "tool_call", None)
        call_id = call.id if call is not None else about
        is_past = self._is_past(plan.point.value, call_id, getattr(ctx, "step_index", None))

        def recall(entry: Entry) -> Entry:
            ran = self._next_verdict(entry, call_id)
            if ran is None or not can_be_redone(ran.changes):
                return entry.recalling(_let_be) if is_past else entry
            if self._must_judge_anew(entry, call_id):
                return entry
            return entry.recalling(answer_as_recorded(ran))

        return plan.recalling(recall)

    def _is_past(self, point: str, call_id: str, step: int | None) -> bool:
        """Whether what a point asks about has happened: a hook that was not asked then cannot change it now."""
        if point == HookPoint.BEFORE_STEP:
            return step in self._steps
        if point in (HookPoint.BEFORE_INFERENCE, HookPoint.AFTER_INFERENCE):
            return step in self._responses
        about_a_call = point in _BEFORE_A_CALL or point == HookPoint.AFTER_TOOL_USE
        return about_a_call and call_id in self._results

    def _next_verdict(self, entry: Entry, call_id: str) -> HookRan | None:
        for key in ((entry.point, call_id, entry.name), (entry.point, "", entry.name)):
            verdicts = self._verdicts.get(key)
            if verdicts:
                return verdicts.popleft()
        return None

    def _must_judge_anew(self, entry: Entry, call_id: str) -> bool:
        """Policies of now judge whatever has not started yet."""
        at_the_door = entry.is_policy and entry.point == HookPoint.BEFORE_TOOL_USE
        return at_the_door and call_id not in self._started and call_id not in self._results

    def response(self, step: int) -> InferenceResponse | None:
        """The model's answer in that step, as the hooks left it."""
        record = self._responses.get(step)
        if record is None:
            return None
        return InferenceResponse(
            record.text,
            record.calls,
            record.usage,
            record.model,
            record.reasoning,
            record.finish,
        )

    def result(self, call_id: str) -> ToolResult | None:
        """The result of a call, as the hooks left it."""
        record = self._results.get(call_id)
        return record.result if record is not None else None

    def had_started(self, call_id: str) -> bool:
        """The intent to run the call is on record."""
        return call_id in self._started

    def intent(self, call_id: str) -> CallAdmitted | None:
        """The call as it was about to run, if it was."""
        return self._started.get(call_id)

    def said_about(self, call_id: str) -> list[HookRan]:
        """What hooks said about a call before it ran, once."""
        keys = [key for key in self._verdicts if key[0] in _BEFORE_A_CALL and key[1] == call_id]
        said = [ran for key in keys for ran in self._verdicts.pop(key)]
        return sorted((ran for ran in said if not ran.shadow), key=lambda ran: ran.seq)

    def remembered(
        self, call_id: str, waited_for: PendingApproval | None = None
    ) -> dict[str, Decision]:
        """What was answered about a call for the rest of the session.

        `waited_for` is what the run had paused for: that was asked before, and answered in here.
        """
        remembered: dict[str, Decision] = {}
        before = () if waited_for is None else (waited_for,)
        for approval in (*before, *self.questions(call_id)):
            decision = self._answers.get(approval.id)
            if decision is not None and decision.remember:
                remembered |= to_remember(approval, decision)
        return remembered

    def questions(self, call_id: str) -> list[PendingApproval]:
        """All that was asked about a call, in order."""
        return [asked for asked in self._asked.values() if asked.tool_call.id == call_id]

    def is_in_doubt(self, call_id: str) -> bool:
        """The call had started, and nobody knows what came of it. One that has children can be taken up."""
        return call_id in self._started and call_id not in self._results

    def has_open_children(self, call_id: str) -> bool:
        """The call had started child runs that were not done, and waited for them: they have journals of their own."""
        return bool(self._open.get(call_id))

    def finished_children(self, call_id: str) -> list[ChildFinished]:
        """The children of a call that were done."""
        return [record for record in self._finished if record.call_id == call_id]

    def consultation(self, step: int | None, name: str, digest: str) -> InferenceResponse | None:
        """What a model had answered a hook that asked the very same, once for each time it was asked."""
        records = self._consulted.get((step, name, digest))
        return records.popleft().response if records else None

    def consultations(self) -> list[InferenceResponse]:
        """All of what models had answered hooks."""
        return [record.response for records in self._consulted.values() for record in records]

    def started_aside(self, asked: str) -> str | None:
        """The key of a child that a hook had started to ask this, once."""
        found = next((key for key in self._asides if key.rpartition("/")[0] == asked), None)
        if found is not None:
            self._asides.remove(found)
        return found

    def finished_asides(self) -> list[ChildFinished]:
        """The children that hooks had started and that were done: each is its own call."""
        return [each for each in self._finished if _key_in_step(each) == each.call_id]

    def asked(self, approval_id: str) -> PendingApproval | None:
        """A question as it was asked."""
        return self._asked.get(approval_id)

    def answer(self, approval: PendingApproval) -> Decision | None:
        """What was answered to a question."""
        return self._answers.get(approval.id)

    def failed_answers(self, step: int) -> list[ErrorRaised]:
        """What had failed before the model answered in that step."""
        return self._attempts.of_model.get(step, [])

    def failed_calls(self, call_id: str) -> list[ErrorRaised]:
        """What had failed of a call, in the process that came to its result."""
        return self._attempts.of_calls.get(call_id, [])

    def errors(self) -> list[ErrorInfo]:
        """Everything that had failed, the last first."""
        return [record.error for record in reversed(self._errors) if record.error is not None]

    def ending(self) -> Ending | None:
        """How the run had ended, when only its way out is left to be taken."""
        if not self._statuses:
            return None
        last = self._statuses[-1]
        assert last.stop_reason is not None
        return Ending(last.status, last.stop_reason, last.reason, last.decided_by)


def _open_children(records: Iterable[Record]) -> dict[str, set[str]]:
    """The children that were started and not done, by the call that started them."""
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if isinstance(record, ChildStarted):
            found[record.call_id].add(record.child_run_id)
        elif isinstance(record, ChildFinished):
            found[record.call_id].discard(record.child_run_id)
    return found


def _key_in_step(child: ChildStarted | ChildFinished) -> str:
    """What tells a child from the others of its step: the end of its id."""
    return child.child_run_id.removeprefix(f"{child.run_id}/").partition("/")[2]


class _Attempts:
    """What failed on the way to an answer of the model, by step, and to the result of a call, by its id."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.of_model: dict[int, list[ErrorRaised]] = {}
        self.of_calls: dict[str, list[ErrorRaised]] = {}
        self._failed: ErrorRaised | None = None
        self._started: dict[str, str] = {}
        self._settled: set[str] = set()
        for record in records:
            self._read(record)

    def has(self, record: Record) -> bool:
        """Whether it is one of them: when the same fails again, that is something new."""
        if not isinstance(record, ErrorRaised):
            return False
        known = self.of_calls.get(record.call_id, [])
        known = known if record.call_id else self.of_model.get(record.step or 0, [])
        return any(record is each for each in known)

    def _read(self, record: Record) -> None:
        match record:
            case RequestSent(attempt=1):
                self.of_model[record.step] = []
                self._failed = None
            case RequestSent() if self._failed is not None:
                self.of_model[record.step].append(self._failed)
                self._failed = None
            case CallAdmitted():
                self._started[record.call.id] = record.effect
            case CallSettled():
                self._settled.add(record.result.call_id)
            case ErrorRaised():
                self._fail(record)
            case RunTakenUp():
                self._begin_again()

    def _fail(self, record: ErrorRaised) -> None:
        assert record.error is not None
        call_id, is_new = record.call_id, record.error.error_class == ErrorClass.VALIDATION
        if record.action == "fallback":
            self.of_model.setdefault(record.step or 0, []).append(record)
        elif not call_id:
            self._failed = record  # of the model only if that is asked again
        elif call_id in self._started or not is_new:
            self.of_calls.setdefault(call_id, []).append(record)

    def _begin_again(self) -> None:
        """A process went on: what had come to no result by then, and is safe to repeat, was begun anew."""
        for call_id in self.of_calls.keys() - self._settled:
            if self._started.get(call_id) != Effect.ONCE:
                del self.of_calls[call_id]


def _by(records: Iterable[Record], kind: type[Any], key: Callable[[Any], Any]) -> dict[Any, Any]:
    return {key(record): record for record in records if isinstance(record, kind)}


def _identity(record: Record) -> tuple[Any, ...] | None:
    """What tells that two records tell the same; None for what is written again whenever it happens again."""
    match record:
        case StepStarted():
            return record.type, record.step
        case ResponseReceived():
            return record.type, record.step
        case CallAdmitted():
            return record.type, record.call.id
        case CallSettled():
            return record.type, record.result.call_id
        case ApprovalAsked() if record.approval is not None:
            return record.type, record.approval.id, record.approval.fingerprint
        case ApprovalAnswered():
            return record.type, record.approval_id
        case ErrorRaised() if record.error is not None and record.error.error_class in _TOLD_AGAIN:
            error = record.error
            return record.type, record.step, record.call_id, error.type, error.message
        case Evaluated() if record.evaluation is not None:
            said = record.evaluation
            return record.type, record.point, said.source, said.decision.value, said.reason
        case ChildStarted() | ChildFinished():
            return record.type, record.child_run_id
        case StatusChanged():
            return record.type, record.status.value, record.counters.errors
        case _:
            return None


def _let_be(_: Any) -> None:
    """The answer of a hook that comes too late."""


def answer_as_recorded(ran: HookRan) -> Callable[[Any], Any]:
    """What a hook answered, from its record: a hook that says the same again."""

    def answer(ctx: Any) -> Any:
        if ran.shadow:
            return None
        if ran.verdict == "failed":
            words = ran.error.message if ran.error is not None else ""
            remedy = words.partition(ran.reason)[2].strip() if ran.reason else ""
            return HookError(ran.hook, ctx.point, ran.reason, remedy=remedy)
        after = redo_changes(ctx, ran.changes)
        if ran.evaluations:
            after = msgspec.structs.replace(after, evaluations=(*ctx.evaluations, *ran.evaluations))
        kind = _KINDS[ran.verdict]
        if kind is Kind.PROCEED and ran.decision is None:
            return after
        changed = after if after is not ctx else None
        return HookOutcome(kind, ran.reason, changed, ran.stop_reason, ran.decision)

    return answer
