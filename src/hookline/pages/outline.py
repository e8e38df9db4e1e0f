"""What happened in a run, in the order in which it is read: steps, in each its hooks, its answers and its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    HookRan,
    HooksPassed,
    ModelConsulted,
    PromptSubmitted,
    Record,
    ResponseReceived,
    RunFinished,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
    StepPaused,
    StepStarted,
    hooks_in,
)
from hookline.state import NO_USAGE, ToolCall, ToolResult, Usage

COMMON_CHANGES = frozenset({"state", "evaluations", "request"})
"""Changes that hooks make all the time."""


class CallOutline:
    """One call: what was asked about it, and what came of it."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.started_at: float | None = None
        self.settled_at: float | None = None
        self.result: ToolResult | None = None
        self.hooks: list[HookRan] = []
        self.questions: list[ApprovalAsked] = []
        self.answers: list[ApprovalAnswered] = []
        self.children: list[ChildStarted] = []
        self.errors: list[ErrorRaised] = []

    @property
    def has_run(self) -> bool:
        """The tool was started."""
        return self.started_at is not None

    @property
    def status(self) -> str:
        """What came of it, in a word."""
        if self.result is not None:
            return self.result.status.value.replace("_", " ")
        if len(self.questions) > len(self.answers):
            return "waits"
        return "started" if self.has_run else "not started"

    @property
    def is_kept_back(self) -> bool:
        """A hook or a person blocked it, or withheld its result."""
        return self.result is not None and self.result.is_blocked

    @property
    def is_bad(self) -> bool:
        """It did not give a value."""
        return self.result is not None and not self.result.is_success

    @property
    def seconds(self) -> float:
        """How long the tool ran."""
        if self.result is not None and self.result.duration:
            return self.result.duration
        if self.started_at is None or self.settled_at is None:
            return 0.0
        return self.settled_at - self.started_at


class StepOutline:
    """One step."""

    def __init__(self, index: int, at: float) -> None:
        self.index = index
        self.started_at = self.ended_at = at
        self.finished: StepFinished | None = None
        self.hooks: list[HookRan] = []
        """Those that are not about a call."""
        self.answers: list[ResponseReceived] = []
        self.errors: list[ErrorRaised] = []
        self.consulted: list[ModelConsulted] = []
        self.calls: dict[str, CallOutline] = {}
        self.events: list[Record] = []
        """Everything, in order. Hooks that passed are one record each."""

    @property
    def usage(self) -> Usage:
        """What its models used."""
        used = NO_USAGE
        for answer in self.answers:
            used = used + answer.usage
        for asked in self.consulted:
            used = used + asked.response.usage
        return used

    @property
    def seconds(self) -> float:
        """How long it took, without the time that it waited for a person."""
        return self.finished.step.duration if self.finished else self.ended_at - self.started_at

    def call(self, call_id: str, name: str = "") -> CallOutline:
        """The call with this id."""
        if call_id not in self.calls:
            self.calls[call_id] = CallOutline(ToolCall(call_id, name))
        return self.calls[call_id]


class Outline:
    """A run: what it was given, its steps, and its end."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.steps: dict[int, StepOutline] = {}
        self.before: list[HookRan] = []
        """Hooks before the first step."""
        self.after: list[HookRan] = []
        """Hooks after the last step, and other ones outside of steps."""
        self.prompts: list[PromptSubmitted] = []
        self.started: RunStarted | None = None
        self.status: StatusChanged | None = None
        self.result: RunFinished | None = None
        self.children: list[ChildFinished] = []
        self.errors: list[ErrorRaised] = []
        self.first_at = self.last_at = 0.0
        self.run_id = ""
        self._current: StepOutline | None = None
        for record in records:
            self._add(record)

    # --- what a reader asks ---------------------------------------------------------------------------

    @property
    def prompt(self) -> str:
        """What the run was asked first."""
        return self.prompts[0].text if self.prompts else ""

    @property
    def end(self) -> str:
        """Its status, in a word."""
        if self.result is not None:
            return self.result.status.value
        return "running" if self.started is not None else "queued"

    @property
    def usage(self) -> Usage:
        """What the run used, with its children."""
        if self.status is not None:
            return self.status.counters.usage
        used = NO_USAGE
        for step in self.steps.values():
            used = used + step.usage
        for child in self.children:
            used = used + child.usage
        return used

    def calls(self) -> Iterator[tuple[StepOutline, CallOutline]]:
        """Every call, with its step."""
        for step in self.steps.values():
            for call in step.calls.values():
                yield step, call

    def hooks(self) -> Iterator[tuple[StepOutline | None, CallOutline | None, HookRan]]:
        """Every hook that ran, with its step and its call."""
        yield from ((None, None, hook) for hook in self.before)
        for step in self.steps.values():
            yield from ((step, None, hook) for hook in step.hooks)
            for call in step.calls.values():
                yield from ((step, call, hook) for hook in call.hooks)
        yield from ((None, None, hook) for hook in self.after)

    # --- records --------------------------------------------------------------------------------------

    def _add(self, record: Record) -> None:
        self.first_at = self.first_at or record.at
        self.last_at, self.run_id = record.at, record.run_id
        if isinstance(record, StepStarted):
            self._step(record.step, record.at)
        for hook in hooks_in([record]):
            self._add_hook(hook)
        if isinstance(record, HookRan | HooksPassed):
            return
        if isinstance(record, RunStarted | RunTakenUp):  # what was said about its end is past
            self.status = self.result = None
        if isinstance(record, RunStarted):
            self.started = self.started or record
        elif isinstance(record, PromptSubmitted):
            self.prompts.append(record)
        elif isinstance(record, StatusChanged):
            self.status, self._current = record, None
        elif isinstance(record, RunFinished):
            self.result = record
        elif isinstance(record, ChildFinished):
            self.children.append(record)
        else:
            self._add_to_step(record)

    def _step(self, index: int, at: float) -> StepOutline:
        step = self.steps.setdefault(index, StepOutline(index, at))
        step.ended_at = at
        self._current = step
        return step

    def _add_hook(self, hook: HookRan) -> None:
        if hook.step is None:
            (self.after if self.steps else self.before).append(hook)
            return
        step = self._step(hook.step, hook.at)
        step.events.append(hook)
        (step.call(hook.call_id).hooks if hook.call_id else step.hooks).append(hook)

    def _add_to_step(self, record: Record) -> None:
        index = _step_of(record)
        if index is None:
            index = self._current.index if self._current is not None else None
        if index is None:
            if isinstance(record, ErrorRaised):
                self.errors.append(record)
            return
        step = self._step(index, record.at)
        step.events.append(record)
        if isinstance(record, ResponseReceived):
            step.answers.append(record)
            for call in record.calls:
                step.calls.setdefault(call.id, CallOutline(call)).call = call
        elif isinstance(record, ModelConsulted):
            step.consulted.append(record)
        elif isinstance(record, StepFinished):
            step.finished, self._current = record, None
        elif isinstance(record, ErrorRaised):
            (step.call(record.call_id).errors if record.call_id else step.errors).append(record)
        else:
            _add_to_call(step, record)


def _step_of(record: Record) -> int | None:
    """The step that a record belongs to, as far as it says so itself."""
    if isinstance(record, StepFinished):
        return record.step.index
    if isinstance(record, StepPaused):
        return record.pending.index if record.pending else None
    index = getattr(record, "step", None)
    return index if isinstance(index, int) else None


def _add_to_call(step: StepOutline, record: Record) -> None:
    if isinstance(record, CallAdmitted):
        call = step.call(record.call.id)
        call.call, call.started_at = record.call, record.at
    elif isinstance(record, CallSettled):
        call = step.call(record.result.call_id, record.result.name)
        call.result, call.settled_at = record.result, record.at
    elif isinstance(record, ApprovalAsked) and record.approval is not None:
        step.call(record.approval.tool_call.id).questions.append(record)
    elif isinstance(record, ApprovalAnswered):
        for asked in step.calls.values():
            if record.approval_id in {
                each.approval.id for each in asked.questions if each.approval
            }:
                asked.answers.append(record)
    elif isinstance(record, ChildStarted) and record.call_id:
        step.call(record.call_id).children.append(record)


def kind_of(hook: HookRan) -> str:
    """What a hook did: `passed`, `changed`, `asked`, `allowed`, `blocked`, `failed`; `shadow` without effect."""
    if hook.shadow and hook.verdict != "proceed":
        return "shadow"
    if hook.verdict != "proceed":
        return {"stop": "blocked", "block": "blocked", "ask": "asked", "allow": "allowed"}.get(
            hook.verdict, "failed"
        )
    return "changed" if (hook.changes or {}).keys() - COMMON_CHANGES else "passed"
