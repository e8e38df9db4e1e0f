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
    ResponseReceived,
    StatusChanged,
    StepStarted,
    hooks_in,
)
from hookline.lifecycle import HookPoint
from hookline.lifecycle.changes import can_be_redone, redo_changes
from hookline.state import Decision, Ending, InferenceResponse, PendingApproval, ToolResult

_KINDS = {kind.label: kind for kind in Kind}
_ANSWERED = "approval_answered"


class Memory:
    """The records of the unsettled part of a run, to be gone through once more."""

    def __init__(self, tail: Iterable[Record]) -> None:
        records = tuple(tail)
        self._written = Counter(
            identity for record in records if (identity := _identity(record)) is not None
        )
        self._verdicts: dict[tuple[str, str, str], deque[HookRan]] = defaultdict(deque)
        for ran in hooks_in(records):
            self._verdicts[ran.point, ran.call_id, ran.hook].append(ran)
        self._responses = _by(records, ResponseReceived, lambda record: record.step)
        self._results = _by(records, CallSettled, lambda record: record.result.call_id)
        self._started = _by(records, CallAdmitted, lambda record: record.call.id)
        self._consulted = _by(
            records, ModelConsulted, lambda record: (record.step, record.name, record.number)
        )
        self._children = _by(records, ChildStarted, lambda record: record.call_id)
        self._finished = [record for record in records if isinstance(record, ChildFinished)]
        self._asked: dict[str, PendingApproval] = {}
        self._answers: dict[str, tuple[Decision | None, str]] = {}
        for record in records:
            if isinstance(record, ApprovalAsked) and record.approval is not None:
                self._asked[record.approval.id] = record.approval
            elif isinstance(record, ApprovalAnswered):
                asked = self._asked.get(record.approval_id)
                bound_to = asked.fingerprint if asked is not None else ""
                self._answers[record.approval_id] = record.decision, bound_to
        self._statuses = [record for record in records if isinstance(record, StatusChanged)]
        self._errors = [record for record in records if isinstance(record, ErrorRaised)]

    def is_written(self, record: Record) -> bool:
        """Whether this is on record already. Asked once for each time it is about to be written."""
        identity = _identity(record)
        if identity is None or not self._written[identity]:
            return False
        self._written[identity] -= 1
        return True

    def recalled(self, plan: Plan, ctx: Any) -> Plan:
        """The plan in which those who gave their verdict before give it again without being called."""
        call = getattr(ctx, "tool_call", None)
        call_id = call.id if call is not None else ""

        def recall(entry: Entry) -> Entry:
            ran = self._next_verdict(entry, call_id)
            if ran is None or not can_be_redone(ran.changes):
                return entry
            if self._must_judge_anew(entry, call_id):
                return entry
            return entry.recalling(answer_as_recorded(ran))

        return plan.recalling(recall)

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

    def is_in_doubt(self, call_id: str) -> bool:
        """The call had started, and nobody knows what came of it. One that has children can be taken up."""
        return call_id in self._started and call_id not in self._results

    def has_children(self, call_id: str) -> bool:
        """The call had started child runs, which have journals of their own."""
        return call_id in self._children

    def finished_children(self, call_id: str) -> list[ChildFinished]:
        """The children of a call that were done."""
        return [record for record in self._finished if record.call_id == call_id]

    def consultation(self, step: int | None, name: str, number: int) -> InferenceResponse | None:
        """What a model had answered a hook."""
        record = self._consulted.get((step, name, number))
        return record.response if record is not None else None

    def consultations(self) -> list[InferenceResponse]:
        """All of what models had answered hooks."""
        return [record.response for record in self._consulted.values()]

    def finished_asides(self) -> list[ChildFinished]:
        """The children that hooks had started and that were done: each is its own call."""
        return [each for each in self._finished if _key_in_step(each) == each.call_id]

    def asked(self, approval_id: str) -> PendingApproval | None:
        """A question as it was asked."""
        return self._asked.get(approval_id)

    def answer(self, approval: PendingApproval) -> Decision | None:
        """What was answered to a question; an answer that was given for another call is none, and is forgotten."""
        decision, bound_to = self._answers.get(approval.id, (None, ""))
        if bound_to in ("", approval.fingerprint):
            return decision
        del self._answers[approval.id]
        self._written[_ANSWERED, approval.id] -= 1
        return None

    def errors(self, call_id: str) -> list[ErrorRaised]:
        """What had failed, once: of a call, or of the model when there is no call."""
        found = [record for record in self._errors if record.call_id == call_id]
        self._errors = [record for record in self._errors if record.call_id != call_id]
        return found

    def ending(self) -> Ending | None:
        """How the run had ended, when only its way out is left to be taken."""
        if not self._statuses:
            return None
        last = self._statuses[-1]
        assert last.stop_reason is not None
        return Ending(last.status, last.stop_reason, last.reason, last.decided_by)


def _key_in_step(child: ChildFinished) -> str:
    """What tells a child from the others of its step: the end of its id."""
    return child.child_run_id.removeprefix(f"{child.run_id}/").partition("/")[2]


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
            return _ANSWERED, record.approval_id
        case Evaluated() if record.evaluation is not None:
            said = record.evaluation
            return record.type, record.point, said.source, said.decision.value, said.reason
        case ChildStarted() | ChildFinished():
            return record.type, record.child_run_id
        case StatusChanged():
            return record.type, record.status.value
        case _:
            return None


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
