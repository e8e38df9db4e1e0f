"""A recorded run, read so that it can be played again: its parts, its answers, its results, its verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

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
    ModelConsulted,
    PromptSubmitted,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
    hooks_in,
)
from hookline.rehearse.doubts import Driven, without_doubts
from hookline.rehearse.occasions import Occasion, Occasions, Place
from hookline.rehearse.unseen import pauses_for, without_unseen
from hookline.state import (
    AgentState,
    Decision,
    ErrorInfo,
    PendingApproval,
    ResultStatus,
    RunStatus,
    StopReason,
    ToolCall,
    ToolResult,
)

CallKey: TypeAlias = tuple[int, str]
"""A call: the step it was made in, and its id."""


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

    def __init__(self, records: Iterable[Record], above: Recording | None = None) -> None:
        told = list(without_doubts(filter(Driven().has, records)))
        if above is not None and told:
            ends = [part.finished for part in above.parts]
            told = without_unseen(told, pauses_for(told[0].run_id, ends))
        self.records: Sequence[Record] = tuple(told)
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
        self.consulted: list[ModelConsulted] = []
        """What models answered hooks, by step, name and number."""
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

    def tells_end_of(self, child_run_id: str) -> bool:
        """Whether it is known how a child run came back: from its own end, or because the whole run has ended."""
        return self.is_finished or any(
            isinstance(record, ChildFinished) and record.child_run_id == child_run_id
            for record in self.records
        )

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

    def _results(self, step: int) -> list[ToolResult]:
        """What came of the calls of a step that were started."""
        uses = [use for (index, _), use in self.uses.items() if index == step]
        return [use.result for use in uses if use.intent is not None and use.result is not None]

    def settled(self, step: int) -> int:
        """How many calls of a step had come to their end when it ended."""
        cut_short = (ResultStatus.CANCELLED, ResultStatus.NOT_RUN)
        return sum(result.status not in cut_short for result in self._results(step))

    def is_cancelled_in(self, step: int) -> bool:
        """Whether the run was cancelled in a step, and not while one of its calls was running."""
        settled = self.steps.get(step)
        outcome = settled.step.outcome if settled is not None else None
        is_cut_short = any(each.status is ResultStatus.CANCELLED for each in self._results(step))
        is_cancelled = outcome is not None and outcome.stop_reason is StopReason.CANCELLED
        by_hook = outcome is not None and outcome.resolved_by is not None  # which says so again
        return is_cancelled and not by_hook and not is_cut_short

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

    def goes_beyond(self, place: Place, occasion: Occasion) -> bool:
        """Whether it is certain that nobody else was asked there: a process may have died in the middle of it."""
        if self.is_finished:
            return True
        if occasion:
            return occasion[-1].seq < self.records[-1].seq
        point, step, _ = place
        is_on_the_way_out = point in ("output", "execution_end", "session_end", "agent_failed")
        if is_on_the_way_out:
            return False
        return step is None or step in self.steps or self._is_past(place)

    def _is_past(self, place: Place) -> bool:
        """Whether a step that was not settled has come to what follows the asking."""
        point, step, call_id = place
        turn = self.turns.get(step) if step is not None else None
        use = self.uses.get((step, call_id)) if step is not None else None
        if point in ("before_tool_use", "permission_request"):
            return use is not None and (use.intent is not None or use.result is not None)
        if point == "after_tool_use":
            return use is not None and use.result is not None
        if point in ("before_step", "before_inference"):
            return turn is not None and turn.is_asked
        return point == "after_inference" and turn is not None and turn.response is not None

    def hooks(self) -> list[HookRan]:
        """Every hook that was asked for its verdict, each time it was."""
        return [
            ran
            for ran in hooks_in(self.records)
            if ran.tier != "observer" and not ran.point.startswith("around_")
        ]

    def first_state(self) -> AgentState:
        """The state the run began with."""
        started = self.parts[0].started
        if started.initial is not None:
            return AgentState.from_json(msgspec.json.encode(started.initial))
        return AgentState(
            agent_id=started.agent_id,
            run_id=started.run_id,
            session_id=started.session_id,
            parent_run_id=started.parent_run_id,
            parent_agent_id=started.parent_agent_id,
        )

    def verdicts_on(self, step: int, call_id: str) -> list[HookRan]:
        """What was said before a call ran, over all parts of the run."""
        place = ("before_tool_use", step, call_id)
        return [ran for part in self.parts for ran in part.occasions.all_at(place)]

    def in_full(self, error: ErrorInfo, step: int, use: Use) -> ErrorInfo:
        """What a call failed of, in its words. They are not in its own record where a hook might withhold them."""
        settled = self.steps.get(step)
        told = [use.result.error if use.result is not None else None]
        if settled is not None:
            outcome = settled.step.outcome
            told += settled.step.errors
            if outcome is not None and outcome.stop_reason is StopReason.ERROR:
                told += [msgspec.structs.replace(error, message=outcome.reason)]
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
            case ModelConsulted():
                into.consulted.append(record)
            case StepFinished():
                self._settle(record)
            case StatusChanged():
                into.status = record
                into.reasons.add(record.reason)
            case RunFinished():
                part.finished = record
            case RunTakenUp():
                self._take_up()
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

    def _take_up(self) -> None:
        """A process died: what had failed in its last step fails again, unless it had come to something by then."""
        self.waits = False
        if self.step in self.into.steps:
            return
        turn = self.into.turns[self.step]
        turn.errors = kept = turn.errors if turn.response is not None else []
        for (step, _), use in self.into.uses.items():
            if step == self.step:
                use.errors = use.errors if use.result is not None else []
                kept = [*kept, *use.errors]
        others = [error for error in self.into.errors if error.step != self.step]
        self.into.errors = [*others, *kept]

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
