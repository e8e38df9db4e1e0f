"""How far a recorded run has been played, and whether it is still the same run."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hookline.agent.records.index import RunPart
from hookline.agent.records.rounds import Place, Round, place_of
from hookline.agent.run import Run
from hookline.errors import UsageError
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision
from hookline.journal import (
    Durable,
    ErrorRaised,
    Listener,
    ModelConsulted,
    Record,
    RunTakenUp,
    StepFinished,
)
from hookline.lifecycle import AgentContext
from hookline.playback.facts import Facts
from hookline.playback.recording import Driven, Recording
from hookline.state import Decision, PendingApproval


class RecordedClock:
    """Shows the time it was, less the time for which the run's process was dead. Nobody waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self._dead: list[tuple[float, float]] = []
        """When no process drove the run, in order. A replay is one process: limits on time must not count this."""

    def leave_out_dead_time(self, records: Iterable[Record]) -> None:
        """Leave out the time between the last record of a process and the one that took the run up."""
        before: Record | None = None
        for record in records:
            if isinstance(record, RunTakenUp) and before is not None:
                self._dead.append((before.at, record.at))
            before = record
        self._dead.sort()

    def now(self) -> float:
        """Seconds since 1970."""
        return self.time

    def monotonic(self) -> float:
        """The same: it only ever goes up."""
        return self.time

    def move_to(self, at: float) -> None:
        """It is this late now."""
        dead, until = 0.0, 0.0
        for start, end in self._dead:  # those of a run and of its children overlap
            if end <= at:
                dead += max(0.0, end - max(start, until))
                until = max(until, end)
        self.time = max(self.time, at - dead)

    async def sleep(self, seconds: float) -> None:
        """Let time pass without waiting for it."""
        self.time += max(seconds, 0.0)


class Progress:
    """One run: its recording, and what has come of playing it so far."""

    def __init__(self, recording: Recording, clock: RecordedClock) -> None:
        self.recording = recording
        self.clock = clock
        clock.leave_out_dead_time(recording.records)
        self.then = Facts()
        self.now = Facts()
        self.compare()
        self.heard: list[Record] = []
        """What was recorded while it was played. It is written nowhere."""
        self.run: Run | None = None
        self._decisions: dict[str, deque[ErrorRaised]] = defaultdict(deque)
        for failed in recording.errors:
            if failed.error is not None:
                self._decisions[failed.error.error_class].append(failed)
        self.consultations: dict[tuple[int | None, str], list[ModelConsulted]] = {}
        """What is left of what models answered hooks."""
        self.tries: Counter[Any] = Counter()
        """How often something was asked for that may be asked for more than once."""
        self._drives = 0
        self._driven = Driven()
        self._compared = 0

    def compare(self, *, in_full: bool = True) -> None:
        """What it will be compared by: without what the model was asked, unless it is played by the same agent."""
        self.then, self.now = Facts(in_full=in_full), Facts(in_full=in_full)
        for record in self.recording.records:
            self.then.hear(record)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.recording.run_id

    # --- the parts --------------------------------------------------------------------------------

    @property
    def part(self) -> RunPart:
        """The part that is being played."""
        return self.recording.parts[self._drives - 1]

    def next_part(self) -> RunPart | None:
        """Go on to the next part; None when there is no other on record."""
        if self._drives == len(self.recording.parts):
            return None
        self._drives += 1
        return self.part

    @property
    def step(self) -> int:
        """The step that is being made."""
        return (self.run.step_index if self.run is not None else None) or 0

    # --- what is on record ------------------------------------------------------------------------

    def round_of(self, ctx: AgentContext) -> tuple[Place, Round]:
        """What hooks said when they were asked about this, the next time that is on record."""
        assert self.run is not None
        call = getattr(ctx, "tool_call", None)
        place = place_of(ctx.point.value, self.run.step_index, call.id if call is not None else "")
        number = self.tries[self._drives, place]
        round_ = self.part.rounds.at(place, number)
        if _is_judged_anew(self.run) and any(ran.tier != "policy" for ran in round_):
            return place, ()  # no policy was asked then; what is on record was said of it later
        self.tries[self._drives, place] += 1
        return place, round_

    def answer(self, question: str) -> Decision | None:
        """What was handed to `resume`, in this part."""
        return self.part.handed_over.get(question)

    def approve(self, approval: PendingApproval) -> Decision:
        """What the approver said, in this part."""
        number = self.tries["approver", approval.id]
        self.tries["approver", approval.id] += 1
        answers = self.part.approved.get(approval.id, [])
        if number >= len(answers):
            raise UsageError("no answer to this is on record.")
        return answers[number]

    def decide(self, error_class: ErrorClass) -> ErrorDecision:
        """The next decision on record about an error of this class."""
        left = self._decisions[error_class]
        if not left:
            return ErrorDecision(ErrorAction.STOP)
        record = left.popleft()
        return ErrorDecision(ErrorAction(record.action), record.delay, record.reason)

    # --- what comes now ---------------------------------------------------------------------------

    def hear(self, record: Record) -> None:
        """Something has happened while it is played."""
        if not self._driven.has(record):
            return
        self.heard.append(record)
        self.now.hear(record)
        if isinstance(record, StepFinished):
            then = self.recording.steps.get(record.step.index)
            self.clock.move_to(then.at if then is not None else 0.0)

    def first_difference(self) -> int | None:
        """The number of the first fact that is not as it was, among those that are known by now."""
        while self._compared < len(self.now):
            at = self._compared
            if at >= len(self.then):
                return at if self.recording.is_finished else None
            if self.then[at] != self.now[at]:
                return at
            self._compared += 1
        return None

    @property
    def is_cut_short(self) -> bool:
        """Something that is on record has not come."""
        return self.recording.is_finished and self._compared < len(self.then)

    @property
    def compared(self) -> int:
        """How many facts were the same."""
        return self._compared


def _is_judged_anew(run: Run) -> bool:
    """Whether only policies are asked, about a call that was judged before the run paused."""
    current = run.current
    return current is not None and current.stage is not None and not current.is_changed


class PlaybackLog(Durable):
    """The record of a run that is played: in memory, and compared with what is on record."""

    __slots__ = ("_hear", "_log_of")

    def __init__(
        self, hear: Callable[[Record], None], log_of: Callable[[str], PlaybackLog]
    ) -> None:
        super().__init__()
        self._hear = hear
        self._log_of = log_of
        self.append = self._append

    def _append(self, record: Record) -> None:
        self.records.append(record)
        self._hear(record)

    def _make_child(self, run_id: str, listeners: Sequence[Listener]) -> PlaybackLog:  # noqa: ARG002 - nobody is told
        return self._log_of(run_id)
