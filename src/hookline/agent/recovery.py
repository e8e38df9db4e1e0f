"""Crash recovery: the source of a run whose process died. First what is on record, then what happens now.

The run goes through its last step again. Hooks that gave their verdict then are not called again, answers of the model
and results of tools are not asked for again, and nothing is written twice. Once the step is settled, the source is the
live one. Policies of now judge every call that has not started.

`resume_after_crash` in `loop/drive.py` begins it, `journal/fold.py` gives the settled state, and `decide_doubt` in
`calls/admission.py` decides about calls that had started.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hookline.agent.run import AnswerSource, Run
from hookline.agent.run_index import ABOUT_CALLS, BEFORE_CALLS, RunIndex, hook_error_class
from hookline.flow import ErrorClass
from hookline.hooks import Entry, HookOutcome, Kind, Plan
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    Durable,
    ErrorRaised,
    Evaluated,
    HookRan,
    Record,
    ResponseReceived,
    StatusChanged,
    StepStarted,
)
from hookline.lifecycle import AgentContext, HookPoint
from hookline.lifecycle.recorded_changes import can_be_redone, redo_changes
from hookline.state import InferenceResponse

_KINDS = {kind.label: kind for kind in Kind}
_FAILS_AGAIN = (ErrorClass.HOOK, ErrorClass.VALIDATION)
"""What fails again when a step is gone through again: hooks that say so again, calls that are still invalid."""


class ResumeSource(AnswerSource):
    """What is on record of the step that was not settled, and then what happens now."""

    is_after_crash = True

    def __init__(self, tail: Iterable[Record], active_seconds: float = 0.0) -> None:
        super().__init__(RunIndex(tail))
        known = self.known
        self.active_seconds = active_seconds
        retried = [each for turn in known.turns.values() for each in (*turn.errors, turn.failed)]
        for calls in known.calls.values():
            retried += [each for call in calls.values() for each in call.failures]
        again = set(map(id, retried))  # when the same fails again, that is something new
        kept = (record for record in known.records if id(record) not in again)
        self._written = Counter(
            identity for record in kept if (identity := _identity(record)) is not None
        )
        self._read_already: Counter[Any] = Counter()
        """How often something was read that is on record more than once."""

    # --- the record ---------------------------------------------------------------------------------

    def append(self, durable: Durable) -> Callable[[Record], None]:
        """Writes what is not on record yet."""

        def append(record: Record) -> None:
            identity = _identity(record)
            if identity is not None and self._written[identity]:
                self._written[identity] -= 1
                return
            durable.append(msgspec.structs.replace(record, seq=len(durable.records)))

        return append

    def settle(self, run: Run) -> None:
        """Everything on record is dealt with: from here on the run takes what happens now."""
        run.source = AnswerSource()
        run.append = run.durable.append
        run.numbers = itertools.count(len(run.durable.records))

    def _next(self, key: Any, of: int) -> int | None:
        """The number of the next one of so many under a key; None when all were read."""
        number = self._read_already[key]
        if number >= of:
            return None
        self._read_already[key] = number + 1
        return number

    # --- hooks --------------------------------------------------------------------------------------

    def hooks(self, run: Run, plan: Plan, ctx: AgentContext) -> Plan:
        """The plan in which those who gave their verdict before give it again without being called."""
        call = getattr(ctx, "tool_call", None)
        call_id = call.id if call is not None else run.call_id
        is_past = self._is_past(plan.point.value, call_id, run.step_index or 0)

        def recall(entry: Entry) -> Entry:
            ran = self._next_verdict(entry, call_id)
            if ran is None or not can_be_redone(ran.changes):
                return entry.with_answer(answer_nothing) if is_past else entry
            if self._must_judge_anew(entry, run.step_index or 0, call_id):
                return entry
            return entry.with_answer(answer_as_recorded(ran))

        return plan.map_entries(recall)

    def _is_past(self, point: str, call_id: str, step: int) -> bool:
        """Whether what a point asks about has happened: a hook that was not asked then cannot change it now."""
        if point == HookPoint.BEFORE_STEP:
            return step in self.known.begun
        if point in (HookPoint.BEFORE_INFERENCE, HookPoint.AFTER_INFERENCE):
            turn = self.known.turn(step)
            return turn is not None and turn.answer is not None
        return point in ABOUT_CALLS and self.known.call(step, call_id).result is not None

    def _next_verdict(self, entry: Entry, call_id: str) -> HookRan | None:
        for key in ((entry.point, call_id, entry.name), (entry.point, "", entry.name)):
            verdicts = self.known.verdicts.get(key, ())
            number = self._next(key, len(verdicts))
            if number is not None:
                return verdicts[number]
        return None

    def _must_judge_anew(self, entry: Entry, step: int, call_id: str) -> bool:
        """Whether a policy judges this call again: a recorded answer does not count for a call that has not started."""
        if not entry.is_policy or entry.point != HookPoint.BEFORE_TOOL_USE:
            return False
        call = self.known.call(step, call_id)
        return call.intent is None and call.result is None

    def answers_about(self, call_id: str) -> list[HookRan]:
        """What hooks said about a call before it ran."""
        found: list[HookRan] = []
        for key, verdicts in self.known.verdicts.items():
            if key[0] in BEFORE_CALLS and key[1] == call_id:
                found += verdicts[self._read_already[key] :]
                self._read_already[key] = len(verdicts)
        return sorted((ran for ran in found if not ran.shadow), key=lambda ran: ran.seq)

    # --- what hooks had others do -------------------------------------------------------------------

    async def consultation(self, run: Run, name: str, digest: str) -> InferenceResponse | None:
        """What a model had answered a hook that asked the same, once for each time it was asked."""
        then = self.known.consultations.get((run.step_index, name), ())
        same = [each for each in then if each.digest == digest]
        number = self._next(("consulted", run.step_index, name, digest), len(same))
        return None if number is None else same[number].response

    def child_key(self, run: Run, asked: str) -> str:
        """The key of a child that a hook had started to ask this, or else of a new one."""
        keys = self.known.hook_children.get((run.step_index or 0, asked), ())
        number = self._next(("child", run.step_index, asked), len(keys))
        return super().child_key(run, asked) if number is None else keys[number]


def _identity(record: Record) -> tuple[Any, ...] | None:
    """What makes two records the same; None for what is written whenever it happens."""
    match record:
        case StepStarted() | ResponseReceived():
            return record.type, record.step
        case CallAdmitted():
            return record.type, record.call.id
        case CallSettled():
            return record.type, record.result.call_id
        case ApprovalAsked() if record.approval is not None:
            return record.type, record.approval.id, record.approval.fingerprint
        case ApprovalAnswered():
            return record.type, record.approval_id
        case ErrorRaised() if record.error is not None and record.error.error_class in _FAILS_AGAIN:
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


def answer_nothing(_: Any) -> None:
    """The answer of a hook that comes too late, or that nobody knows."""


def answer_as_recorded(ran: HookRan) -> Callable[[Any], Any]:
    """A hook that says what is on record."""

    def answer(ctx: AgentContext) -> Any:
        if ran.shadow:
            return None
        if ran.verdict == "failed":
            words = ran.error.message if ran.error is not None else ""
            remedy = words.partition(ran.reason)[2].strip() if ran.reason else ""
            return hook_error_class(ran.error)(ran.hook, ctx.point, ran.reason, remedy=remedy)
        after = redo_changes(ctx, ran.changes)
        if ran.evaluations:
            after = msgspec.structs.replace(after, evaluations=(*ctx.evaluations, *ran.evaluations))
        kind = _KINDS[ran.verdict]
        if kind is Kind.PROCEED and ran.decision is None:
            return after
        changed = after if after is not ctx else None
        return HookOutcome(
            kind=kind,
            reason=ran.reason,
            context=changed,
            stop_reason=ran.stop_reason,
            answer=ran.decision,
        )

    return answer
