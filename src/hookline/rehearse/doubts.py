"""Records without the pauses in which only a call in doubt was asked about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hookline.journal import ApprovalAsked, Record, RunFinished, RunStarted, StepPaused
from hookline.state import PendingApproval


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
