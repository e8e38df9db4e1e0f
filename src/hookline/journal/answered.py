"""What a run that died had been answered: a question whose answer is on record does not wait any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from hookline.errors import UnknownRunError
from hookline.journal.record import ApprovalAnswered, Record
from hookline.journal.store import JournalStore
from hookline.state import AgentState, CallStage, Decision, PendingCall


def answers_on_record(
    journal: JournalStore, state: AgentState, records: Iterable[Record]
) -> dict[str, Decision]:
    """The answers to what a run had paused for, by question: in its own records, or in those of its children."""
    questions = state.pending
    found = _answers(records) if questions else {}
    for child in {each.run_id for each in questions} - {state.run_id, ""}:
        with suppress(UnknownRunError):
            found |= _answers(journal.read(child))
    asked = {each.id for each in questions}
    return {id: decision for id, decision in found.items() if id in asked}


def _answers(records: Iterable[Record]) -> dict[str, Decision]:
    return {
        record.approval_id: record.decision
        for record in records
        if isinstance(record, ApprovalAnswered) and record.decision is not None
    }


def still_waiting(state: AgentState, answers: Mapping[str, Decision]) -> AgentState:
    """The state of a paused run in which these questions do not wait any more."""
    step = state.pending_step
    if step is None or not answers:
        return state
    calls = tuple(_answered(call, answers) for call in step.calls)
    return replace(state, pending_step=replace(step, calls=calls))


def _answered(call: PendingCall, answers: Mapping[str, Decision]) -> PendingCall:
    children = tuple(each for each in call.child_approvals if each.id not in answers)
    call = replace(call, child_approvals=children)
    if call.stage is not CallStage.ASKED or call.approval is None:
        return call
    decision = answers.get(call.approval.id)
    return call if decision is None else replace(call, stage=CallStage.ADMITTED, decision=decision)
