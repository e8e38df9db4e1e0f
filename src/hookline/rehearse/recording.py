"""A recorded run, read so that it can be played again: its parts, its answers, its results, its verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from hookline.errors import JournalError
from hookline.flow import ErrorClass
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    HookRan,
    PromptSubmitted,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunStarted,
    StatusChanged,
    StepFinished,
    StepPaused,
)
from hookline.rehearse.occasions import Occasions, Place
from hookline.state import Decision, ErrorInfo, PendingApproval, RunStatus, ToolCall, ToolResult

CallKey: TypeAlias = tuple[int, str]
"""A call: the step it was made in, and its id."""
IN_DOUBT = "in-doubt"
"""Who asks about a call that had started when its process died."""


class Turn(msgspec.Struct):
    """What came of asking the model in one step."""

    errors: list[ErrorRaised] = msgspec.field(default_factory=list)
    """What failed before it answered, with what the policy made of it."""
    response: ResponseReceived | None = None
    is_asked: bool = False
    is_lost: bool = False
    """It answered, and a hook failed over the answer, which is not on record then."""


class Use(msgspec.Struct):
    """What came of one tool call."""

    intent: CallAdmitted | None = None
    result: ToolResult | None = None
    at: float = 0.0
    errors: list[ErrorRaised] = msgspec.field(default_factory=list)
    children: list[list[ChildStarted]] = msgspec.field(default_factory=list)
    """The children it started; those in one list were there at the same time."""
    questions: list[PendingApproval] = msgspec.field(default_factory=list)
    """What the tool itself asked whoever approves."""
    versions: list[ToolCall] = msgspec.field(default_factory=list)
    """The call as it was judged, asked about and run."""


class Part(msgspec.Struct):
    """One drive of a run: from its start, or from a resume, to its end or to a pause."""

    started: RunStarted
    prompt: PromptSubmitted | None = None
    handed_over: dict[str, Decision] = msgspec.field(default_factory=dict)
    """The answers that were given to `resume`, by question."""
    approved: dict[str, list[Decision]] = msgspec.field(default_factory=dict)
    """Those of an approver."""
    occasions: Occasions = msgspec.field(default_factory=Occasions)
    finished: RunFinished | None = None


class Recording:
    """One run's records. Nothing in here changes while it is played."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records: Sequence[Record] = tuple(without_doubts(records))
        if not self.records or not isinstance(self.records[0], RunStarted):
            raise JournalError(
                "this journal does not begin with the start of a run.",
                remedy="Pass all records of the run, in order.",
            )
        self.run_id = self.records[0].run_id
        self.parts: list[Part] = []
        self.turns: dict[int, Turn] = defaultdict(Turn)
        self.uses: dict[CallKey, Use] = defaultdict(Use)
        self.steps: dict[int, StepFinished] = {}
        self.errors: list[ErrorRaised] = []
        """What failed, in order, where the error policy had a say."""
        self.status: StatusChanged | None = None
        self.reasons: set[str] = set()
        """All words that were given for something that was not let through, or failed."""
        reader = _Reader(self)
        for record in self.records:
            reader.read(record)

    @property
    def is_finished(self) -> bool:
        """The run ended, or paused, and said so."""
        return self.parts[-1].finished is not None

    @property
    def is_cancelled(self) -> bool:
        """Somebody cancelled it."""
        return self.status is not None and self.status.status is RunStatus.CANCELLED

    def keeps(self, part: Part, place: Place) -> bool:
        """Whether what hooks were shown at a place is on record, as they left it."""
        point, step, call_id = place
        if point == "prompt_submit":
            return part.prompt is not None
        if point == "after_inference":
            response = self.turns[step or 0].response
            return response is not None and not response.discarded
        if point == "after_tool_use":
            result = self.uses[step or 0, call_id].result
            return result is not None and result.status != "withheld"
        return True

    def verdicts_on(self, step: int, call_id: str) -> list[HookRan]:
        """What was said before a call ran, over all parts of the run."""
        place = ("before_tool_use", step, call_id)
        return [ran for part in self.parts for ran in part.occasions.all_at(place)]

    def in_full(self, error: ErrorInfo, step: int, use: Use) -> ErrorInfo:
        """What a call failed of, in its words. They are not in its own record where a hook might withhold them."""
        settled, last = self.steps.get(step), self.parts[-1].finished
        told = [use.result.error if use.result is not None else None]
        told += settled.step.errors if settled is not None else ()
        told += [last.error if last is not None else None]
        for info in told:
            if not error.message and info is not None and info.type == error.type:
                return msgspec.structs.replace(error, message=info.message)
        return error

    def failed_closed(self, hook: str, point: str) -> bool:
        """Whether the failure of a hook kept something from happening."""
        begins = (
            f"hook '{hook}' failed, so this is not let through: ",
            f"hook '{hook}' at {point}: ",
        )
        return any(reason.startswith(begins) for reason in self.reasons)


class _Reader:
    """Goes through the records of a run, once."""

    def __init__(self, into: Recording) -> None:
        self.into = into
        self.waits = False
        """The model was asked, and has not answered."""
        self.open_children: dict[CallKey, set[str]] = defaultdict(set)
        self.step = 0

    def read(self, record: Record) -> None:
        into = self.into
        if isinstance(record, RunStarted):
            into.parts.append(Part(record))
        part = into.parts[-1]
        part.occasions.hear(record)
        step = getattr(record, "step", None)
        self.step = step if isinstance(step, int) else self.step
        match record:
            case PromptSubmitted():
                part.prompt = record
            case RequestSent():
                into.turns[record.step].is_asked = self.waits = True
            case ResponseReceived():
                into.turns[record.step].response = record
                self.waits = False
            case StepFinished():
                self._settle(record)
            case StatusChanged():
                into.status = record
                into.reasons.add(record.reason)
            case RunFinished():
                part.finished = record
            case ErrorRaised():
                self._fail(record)
            case ChildStarted() | ChildFinished():
                self._note_child(record)
            case _:
                self._read_call(part, record)

    def _read_call(self, part: Part, record: Record) -> None:
        match record:
            case CallAdmitted():
                use = self.into.uses[record.step, record.call.id]
                use.intent = record
                use.versions.append(record.call)
            case CallSettled():
                use = self.into.uses[record.step, record.result.call_id]
                use.result, use.at = record.result, record.at
                self.into.reasons.add(record.result.reason)
            case ApprovalAsked() if record.approval is not None:
                self._ask(record.step, record.approval)
            case ApprovalAnswered() if record.decision is not None:
                self.into.reasons.add(record.decision.reason)
                if record.by == "resume":
                    part.handed_over[record.approval_id] = record.decision
                elif record.by in ("approver", "expiry"):
                    part.approved.setdefault(record.approval_id, []).append(record.decision)

    def _settle(self, record: StepFinished) -> None:
        self.into.steps[record.step.index] = record
        self.waits = False
        for call in record.step.calls:
            self.into.uses[record.step.index, call.id].versions.append(call)

    def _fail(self, record: ErrorRaised) -> None:
        info = record.error
        assert info is not None
        self.into.reasons.add(info.message)
        if record.action != "fallback":
            self.into.errors.append(record)
        step = record.step or 0
        if record.call_id and info.error_class == ErrorClass.TOOL:
            self.into.uses[step, record.call_id].errors.append(record)
        elif self.waits and not record.call_id:
            turn = self.into.turns[step]
            self.waits = record.action == "fallback"
            if info.error_class == ErrorClass.HOOK and " at after_inference: " in info.message:
                turn.is_lost = True
            else:
                turn.errors.append(record)

    def _ask(self, step: int, approval: PendingApproval) -> None:
        call_id, is_of_tool, _ = approval.tool_call.id.partition("/ask-")
        use = self.into.uses[step, call_id]
        if is_of_tool:
            use.questions.append(approval)
        else:
            use.versions.append(approval.tool_call)

    def _note_child(self, record: ChildStarted | ChildFinished) -> None:
        # The step is not in the record, and is in the child's id: run, step, call, number.
        step = int(record.child_run_id.removeprefix(f"{self.into.run_id}/").partition("/")[0])
        key = (step, record.call_id)
        running = self.open_children[key]
        if isinstance(record, ChildFinished):
            running.discard(record.child_run_id)
            return
        children = self.into.uses[key].children
        if not running:
            children.append([])
        running.add(record.child_run_id)
        children[-1].append(record)


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


def _is_doubt(approval: Any) -> bool:
    return approval is not None and approval.asked_by == IN_DOUBT
