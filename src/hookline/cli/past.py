"""What recorded runs have left: a conversation to go on with, as it was at the end or after a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hookline.errors import UsageError
from hookline.journal import Record, StepFinished, fold
from hookline.state import AgentState, AssistantMessage, StopReason

if TYPE_CHECKING:
    from hookline.journal import JournalStore


def conversation(journal: JournalStore, run_id: str, *, after: int | None = None) -> AgentState:
    """The state after a run, or after one of its steps, as another run can begin with it.

    Answers that were given for one conversation hold in what goes on from its end, and not in what branches off.
    """
    records = journal.read(run_id)
    story = fold(records if after is None else _until(records, run_id, after))
    state = story.settled if after is not None or not story.is_finished else story.state
    if state.pending_step is not None:
        raise UsageError(
            f"run '{run_id}' waits for an answer.",
            remedy=f"Give it first: hookline resume {run_id}.",
        )
    if after is None:
        return state
    return msgspec.structs.replace(state, remembered=type(state.remembered)(), session_id="")


def _until(records: list[Record], run_id: str, after: int) -> list[Record]:
    ends = [position for position, record in enumerate(records) if isinstance(record, StepFinished)]
    if not 1 <= after <= len(ends):
        raise UsageError(
            f"run '{run_id}' has no step {after}.",
            remedy=f"It has {len(ends)}: give a number from 1 to {len(ends)}."
            if ends
            else "It has none.",
        )
    return records[: ends[after - 1] + 1]


_LIMITS = {
    StopReason.STEP_LIMIT: "steps",
    StopReason.TOKEN_LIMIT: "tokens",
    StopReason.TIME_LIMIT: "seconds",
    StopReason.COST_LIMIT: "cost",
    StopReason.TOOL_CALL_LIMIT: "tool_calls",
}


def is_cut_off(stop_reason: StopReason | None, state: AgentState) -> bool:
    """Whether a run that ended like this was interrupted before there was an answer: no prompt is needed to go on."""
    return stop_reason is StopReason.CANCELLED and not _is_answered(state)


def limit_reached(stop_reason: StopReason | None, state: AgentState) -> str:
    """The limit that ended a run before there was an answer, as it is set; empty if none did."""
    if stop_reason is None or _is_answered(state):
        return ""
    return _LIMITS.get(stop_reason, "")


def _is_answered(state: AgentState) -> bool:
    return bool(state.messages) and isinstance(state.messages[-1], AssistantMessage)


def steps_of(journal: JournalStore, run_id: str) -> int:
    """How many steps a run has made."""
    return sum(isinstance(record, StepFinished) for record in journal.read(run_id))
