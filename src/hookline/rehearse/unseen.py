"""Records of a child run without the pauses that the run above it did not live to see."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.journal import Record, RunFinished, RunStarted, StepPaused
from hookline.state import RunStatus


def pauses_for(child_id: str, finished: Sequence[RunFinished | None]) -> list[set[str]]:
    """What a run waited for, each time it paused, as far as one of its children and those below that are concerned."""
    below = f"{child_id}/"
    asked = [
        {each.id for each in end.pending if f"{each.run_id}/".startswith(below)}
        for end in finished
        if end is not None and end.status is RunStatus.PAUSED
    ]
    return [questions for questions in asked if questions]


def without_unseen(records: Sequence[Record], seen: Sequence[set[str]]) -> list[Record]:
    """The records without the pauses that are not among those the run above paused with too, in order.

    When a process dies while a child waits, the child is taken up with the run above and waits again. Played, nothing
    dies, and the child is driven once where it was driven twice.
    """
    kept: list[Record] = []
    left = list(seen)
    skips = False
    for place, record in enumerate(records):
        if skips and isinstance(record, RunStarted):
            skips = False
            continue
        kept.append(record)
        if not isinstance(record, RunFinished) or record.status is not RunStatus.PAUSED:
            continue
        questions = {each.id for each in record.pending}
        if questions in left:
            left = left[left.index(questions) + 1 :]
        elif any(isinstance(later, RunStarted) for later in records[place + 1 :]):
            skips = True
            _drop_pause(kept)
    return kept


def _drop_pause(kept: list[Record]) -> None:
    """Take off the end what was recorded since the step began to wait."""
    for place in reversed(range(len(kept))):
        if isinstance(kept[place], StepPaused):
            del kept[place:]
            return
        if isinstance(kept[place], RunStarted):
            kept.pop()  # it was not taken up at all
            return
