"""Child runs that nobody takes up any more: the run above them went on without them, and their record says so."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from hookline.agent.result import restored
from hookline.journal import (
    ChildFinished,
    ChildStarted,
    Durable,
    Record,
    RunFinished,
    StatusChanged,
    fold,
)
from hookline.state import AgentState, RunStatus, StopReason

_WHY = "the run it is a part of went on without it"
_CANCELLED = RunStatus.CANCELLED


def end_child(above: Durable, state: AgentState, at: float) -> None:
    """End a child that paused, in its own record; `above` is the record of the run it is a part of."""
    durable = above.for_child(state.run_id, ())
    try:
        if not (durable.records and fold(durable.records).is_over):
            end_paused(durable, state, at)
    finally:
        durable.close()


def end_paused(durable: Durable, state: AgentState, at: float) -> None:
    """End a run that paused, and all below it. There is no agent to drive it with, so no hook is asked."""
    step = state.pending_step
    assert step is not None
    first = len(durable.records) or step.records
    run_id, ended = state.run_id, []
    for call in step.calls:
        for saved in (call.children or {}).values():
            child = restored(saved)
            if child.status is RunStatus.PAUSED:
                ended.append((call.call.id, child.state))
    records: list[Record] = [
        ChildFinished(
            *(run_id, 0, at, child.run_id, child_name(durable.records, child), call_id),
            *(_CANCELLED, "", child.counters, child.remembered),
        )
        for call_id, child in ended
    ]
    why = (_CANCELLED, StopReason.CANCELLED)
    usage, counters = state.usage, state.counters
    records.append(StatusChanged(run_id, 0, at, *why, _WHY, "", usage, counters))
    records.append(RunFinished(run_id, 0, at, "", *why, counters.usage, state.step_count, _WHY))
    for number, record in enumerate(records, first):
        durable.append(replace(record, seq=number))
    durable.flush()
    for _, each in ended:
        end_child(durable, each, at)


def child_name(records: Iterable[Record], child: AgentState) -> str:
    """What a child was called when it was started."""
    names = (
        record.name
        for record in records
        if isinstance(record, ChildStarted) and record.child_run_id == child.run_id
    )
    return next(names, child.agent_id)
