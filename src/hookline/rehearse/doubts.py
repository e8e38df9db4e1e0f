"""Records without what is not played: pauses over a call in doubt, the end of a child that nobody took up again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hookline.journal import ApprovalAsked, Record, RunFinished, RunStarted, StepPaused
from hookline.state import PendingApproval


class Driven:
    """Tells what was recorded while a run was driven from what was written about it afterwards.

    A child that waits when its run goes on without it ends by its record alone.
    """

    def __init__(self) -> None:
        self._is_going = True

    def has(self, record: Record) -> bool:
        """Whether this record, the next one of the run, is of a drive."""
        was_going = self._is_going or isinstance(record, RunStarted)
        self._is_going = was_going and not isinstance(record, RunFinished)
        return was_going


def without_doubts(records: Iterable[Record]) -> Iterator[Record]:
    """The records without pauses in which only a call in doubt was asked about: played again, nothing is in doubt."""
    held: list[Record] = []
    skips = False
    for record in records:
        if isinstance(record, ApprovalAsked) and _is_doubt(record.approval):
            continue
        if isinstance(record, StepPaused):
            held = [record]
        elif held:
            held.append(record)
            if isinstance(record, RunFinished):
                skips = all(map(_is_doubt, record.pending))
                yield from () if skips else held
                held = []
        elif not (skips and isinstance(record, RunStarted)):
            yield record
            skips = False
        else:
            skips = False
    yield from held


def _is_doubt(approval: PendingApproval | None) -> bool:
    return approval is not None and approval.is_again
