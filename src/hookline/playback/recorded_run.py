"""A recorded run, as it can be played: without what is not gone through again when nothing dies or is in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from hookline.agent.run_index import (
    AT_THE_END,
    BEFORE_CALLS,
    Place,
    RecordedCall,
    Round,
    RunIndex,
    RunPart,
)
from hookline.errors import JournalError
from hookline.journal import (
    ApprovalAsked,
    HookRan,
    Record,
    RunFinished,
    RunQueued,
    RunStarted,
    StatusChanged,
    StepFinished,
    StepPaused,
    hooks_in,
)
from hookline.journal.record import counted_records
from hookline.state import (
    ErrorInfo,
    PendingApproval,
    ResultStatus,
    RunStatus,
    StopReason,
    Usage,
)


class RecordedRun(RunIndex):
    """One run's records, by key, and what can be known from them about how it went."""

    def __init__(self, records: Iterable[Record], above: RecordedRun | None = None) -> None:
        kept = list(without_doubts(select_driven_records(records)))
        if above is not None and kept:
            ends = [part.finished for part in above.parts]
            kept = without_unseen(kept, pauses_for(kept[0].run_id, ends))
        if not kept or not isinstance(kept[0], RunStarted):
            raise JournalError(
                "this journal does not begin with the start of a run.",
                remedy="Pass all records of the run, in order.",
            )
        super().__init__(kept)
        self.started: RunStarted = kept[0]
        self.run_id = kept[0].run_id
        self._closed: dict[tuple[str, str], bool] = {}

    @property
    def is_finished(self) -> bool:
        """The run ended, or paused, and said so."""
        return self.parts[-1].finished is not None

    def has_end_of(self, child_run_id: str) -> bool:
        """Whether it is known how a child run came back: from its own end, or because the whole run has ended."""
        return self.is_finished or child_run_id in self.ended_children

    @property
    def is_cancelled(self) -> bool:
        """Somebody cancelled it, or its time was over in the middle of a step."""
        if self.status is None:
            return False
        return self.status.status is RunStatus.CANCELLED or self.is_out_of_time

    @property
    def is_out_of_time(self) -> bool:
        """Its time was over, and not found to be so by a guard between two steps."""
        status = self.status
        return (
            status is not None
            and status.stop_reason is StopReason.TIME_LIMIT
            and not status.decided_by
        )

    def is_cancelled_in(self, step: int) -> bool:
        """Whether the run was cancelled in a step, and not while one of its calls was running."""
        settled = self.steps.get(step)
        outcome = settled.step.outcome if settled is not None else None
        is_cut_short = any(each.status is ResultStatus.CANCELLED for each in self.results(step))
        is_cancelled = outcome is not None and outcome.stop_reason is StopReason.CANCELLED
        by_hook = outcome is not None and outcome.resolved_by is not None  # which says so again
        return is_cancelled and not by_hook and not is_cut_short

    def has_inputs(self, part: RunPart, place: Place) -> bool:
        """Whether what hooks were shown at a place is on record, as they left it."""
        point, step, call_id = place
        if point == "prompt_submit":
            return part.prompt is not None
        if point == "after_inference":
            turn = self.turn(step or 0)
            return turn is not None and turn.answer is not None and not turn.answer.discarded
        if point == "after_tool_use":
            result = self.call(step or 0, call_id).result
            return result is not None and result.status != "withheld"
        return True

    def has_decision(self, place: Place, round_: Round) -> bool:
        """Whether it is certain what was decided there: a process may have died in the middle of it."""
        if self.is_finished:
            return True
        point, step, _ = place
        if round_:
            # What a failure counted as is on record with what came of it, at the latest when the step is settled.
            is_known = step is None or step in self.steps
            failures = () if is_known else (ran for ran in round_ if ran.verdict == "failed")
            return round_[-1].seq < self.records[-1].seq and all(
                self.has_failed_closed(ran.hook, point) for ran in failures
            )
        if point in AT_THE_END:
            return False
        return step is None or step in self.steps or self._is_past(place)

    def _is_past(self, place: Place) -> bool:
        """Whether a step that was not settled has come to what follows the asking."""
        point, step, call_id = place
        turn = self.turns.get(step) if step is not None else None
        call = self.call(-1 if step is None else step, call_id)
        if point in BEFORE_CALLS:
            return call.intent is not None or call.result is not None
        if point == "after_tool_use":
            return call.result is not None
        if point in ("before_step", "before_inference"):
            return turn is not None and turn.is_asked
        return point == "after_inference" and turn is not None and turn.answer is not None

    @cached_property
    def hooks(self) -> list[HookRan]:
        """Every hook that was asked for its verdict, each time it was."""
        return [
            ran
            for ran in hooks_in(self.records)
            if ran.tier != "observer" and not ran.point.startswith("around_")
        ]

    @cached_property
    def externals(self) -> dict[str, str]:
        """The digests of the commands, addresses and models that were asked, by name."""
        return {ran.hook: ran.external for ran in self.hooks if ran.external}

    @cached_property
    def hook_names(self) -> frozenset[tuple[str, str]]:
        """The point and the name of each."""
        return frozenset((ran.point, ran.hook) for ran in self.hooks)

    def usage_after(self, ran: HookRan) -> Usage | None:
        """What the run had used when it was next counted after a verdict; None where the record ends before that."""
        counted = (StepFinished, StepPaused, StatusChanged)
        later = (each for each in self.records if each.seq > ran.seq and isinstance(each, counted))
        following = next(later, None)
        return following.counters.usage if following is not None else None

    def verdicts_on(self, step: int, call_id: str) -> list[HookRan]:
        """What was said before a call ran, over all parts of the run."""
        place = ("before_tool_use", step, call_id)
        return [ran for part in self.parts for ran in part.rounds.all_at(place)]

    def in_full(self, error: ErrorInfo, step: int, call: RecordedCall) -> ErrorInfo:
        """What a call failed of, in its words. They are not in its own record where a hook might withhold them."""
        settled = self.steps.get(step)
        errors = [call.result.error if call.result is not None else None]
        if settled is not None:
            outcome = settled.step.outcome
            errors += settled.step.errors
            if outcome is not None and outcome.stop_reason is StopReason.ERROR:
                errors += [msgspec.structs.replace(error, message=outcome.reason)]
        for info in errors:
            if info is not None and msgspec.structs.replace(info, message="") == error:
                return info
        return error

    def has_failed_closed(self, hook: str, point: str) -> bool:
        """Whether the failure of a hook kept something from happening."""
        key = (hook, point)
        if key not in self._closed:
            begins = (
                f"hook '{hook}' failed, so this is not let through: ",
                f"hook '{hook}' at {point}: ",
            )
            self._closed[key] = any(reason.startswith(begins) for reason in self.reasons)
        return self._closed[key]


# --- records of what is not played ------------------------------------------------------------------


def select_driven_records(records: Iterable[Record]) -> Iterator[Record]:
    """What was recorded while a run was driven, without what was written about it afterwards.

    A child that waits when its run continues without it ends by its record alone.
    """
    is_going = True
    for record in counted_records(records):
        is_going = isinstance(record, RunStarted) or (
            is_going and not isinstance(record, RunQueued)
        )
        if is_going:
            yield record
        is_going = is_going and not isinstance(record, RunFinished)


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

    When a process dies while a child waits, the child is resumed with the run above and waits again. Played, nothing
    dies, and the child is driven once where it was driven twice.
    """
    kept: list[Record] = []
    left = list(seen)
    last = max(place for place, record in enumerate(records) if isinstance(record, RunStarted))
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
        elif place < last:
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
            kept.pop()  # it was not resumed at all
            return
