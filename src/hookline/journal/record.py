"""Everything that happens, as typed records. They are the journal, and they are the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hookline.state import (
    EMPTY,
    NO_COUNTERS,
    NO_USAGE,
    Attachment,
    ContinuationEvaluation,
    Counters,
    Decision,
    ErrorInfo,
    InferenceResponse,
    Message,
    PendingApproval,
    PendingStep,
    ProviderToolUse,
    Reasoning,
    RunStatus,
    Step,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)

RECORD_VERSION = 2
"""Version 1 repeats the state of the earlier run in each run of a session, and the result of a call in its step."""


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """One thing that happened in a run. `seq` counts a run's records from zero; `at` is seconds since 1970."""

    run_id: str
    seq: int
    at: float

    @property
    def type(self) -> str:
        """The record's kind, as it stands in JSON."""
        return str(self.__struct_config__.tag)


class EarlierRun(msgspec.Struct, frozen=True, gc=False):
    """The beginning of another run, or all of it, which a run continues."""

    run_id: str
    records: int
    """How many of its records count."""
    head: str
    """The link of the last of them: it depends on all before it, and on the runs that they continue."""


class RunQueued(Record, frozen=True, gc=False, omit_defaults=True, tag="run_queued"):
    """A run was submitted. The process that takes it up begins it with this prompt."""

    agent_id: str = ""
    """The name by which workers know the agent."""
    prompt: str = ""
    queue: str = ""
    """Where it waits, also when it continues after a pause. Empty: an engine outside the database has it."""
    agent_version: str = ""
    """The version of the agent that was asked for. Without one, the worker that begins the run decides."""
    session: str = ""
    """The session whose conversation it continues. Empty: the run has one of its own."""
    traceparent: str = ""
    """The span of whoever submitted it, as W3C Trace Context writes it. Empty: there was none."""

    @property
    def session_id(self) -> str:
        """The session that it belongs to. A run without one is its own."""
        return self.session or self.run_id


class RunStarted(Record, frozen=True, gc=False, omit_defaults=True, tag="run_started"):
    """A run began, or continued after a pause."""

    agent_id: str = ""
    session_id: str = ""
    parent_run_id: str | None = None
    resumed: bool = False
    initial: dict[str, Any] | None = None
    """The state the run began with, when there was something in it."""
    version: int = 1
    """The version of the records. It is not written for version 1."""
    parent_agent_id: str | None = None
    continues: EarlierRun | None = None
    """The run whose conversation it continues, instead of `initial`."""
    changes: tuple[dict[str, Any], ...] = ()
    """What was changed in the state between that run and this one: as `state` in the changes of a hook."""
    agent_version: str = ""
    """The version of the agent, as its builder was given it."""


class RunTakenUp(Record, frozen=True, gc=False, omit_defaults=True, tag="taken_up"):
    """A run whose process died continues where its journal ended. Or a process is about to begin a queued one."""

    after_loss: bool = False
    """The end of the journal was lost, and somebody accepted that: what is not on record may have happened."""
    agent_version: str = ""
    """The version of the agent that continues it."""


class RunReopened(Record, frozen=True, gc=False, omit_defaults=True, tag="run_reopened"):
    """A run that had failed because no process made a step of it may be taken up again."""

    records: int = 0
    """How many of its records count. Those between them and this one said how it ended."""
    status: RunStatus = RunStatus.RUNNING
    """What it is now, as before its end."""


class PromptSubmitted(Record, frozen=True, gc=False, omit_defaults=True, tag="prompt"):
    """A prompt entered the conversation."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()


class StepStarted(Record, frozen=True, gc=False, omit_defaults=True, tag="step_started"):
    """A step began. `guard` is the default guard that had nothing against it, where no other hook was asked."""

    step: int = 0
    guard: str = ""


class HookRan(Record, frozen=True, gc=False, omit_defaults=True, tag="hook"):
    """A hook gave its verdict."""

    point: str = ""
    hook: str = ""
    duration: float = 0.0
    step: int | None = None
    call_id: str = ""
    tier: str = "hook"
    verdict: str = "proceed"
    """`proceed`, `allow`, `ask`, `block`, `stop`, or `failed`."""
    reason: str = ""
    changes: dict[str, Any] | None = None
    """What it changed, by field of the context."""
    shadow: bool = False
    """The verdict was not enforced: it says what would have happened."""
    error: ErrorInfo | None = None
    evaluations: tuple[ContinuationEvaluation, ...] = ()
    """What it said about whether to continue."""
    stop_reason: str | None = None
    """For a stop: the reason it gave the run."""
    decision: Decision | None = None
    """At permission_request: its answer."""
    source: str | None = None
    """Of a hook that allows or asks: the capability it came from, empty for the user's own. Older records have none."""
    external: str = ""
    """Of a command, an address or a model: the digest of its definition and script."""
    traceback: str = ""
    """Of a hook in Python that crashed: file, line and code of each frame."""
    is_made: bool = False
    """At around_step: the step had been made by then."""
    message: str = ""
    """Words for the user beside the reason."""


class HooksPassed(Record, frozen=True, gc=False, omit_defaults=True, tag="hooks"):
    """Hooks that ran one after the other and had no objection. One in shadow has a record of its own."""

    point: str = ""
    hooks: tuple[str, ...] = ()
    readings: tuple[float, ...] = ()
    """The run's clock, in seconds: before the first hook, and after each."""
    step: int | None = None
    call_id: str = ""
    tiers: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    """The digest of each, where one of them is a command, an address or a model."""

    def each(self) -> Iterator[HookRan]:
        """One record for each of the hooks."""
        began = self.readings
        for position, (hook, tier) in enumerate(zip(self.hooks, self.tiers, strict=True)):
            took = began[position + 1] - began[position]
            at = self.at - (began[-1] - began[position + 1])
            yield HookRan(
                run_id=self.run_id,
                seq=self.seq,
                at=at,
                point=self.point,
                hook=hook,
                duration=took,
                step=self.step,
                call_id=self.call_id,
                tier=tier,
                external=self.externals[position] if self.externals else "",
            )


class RequestSent(Record, frozen=True, gc=False, omit_defaults=True, tag="request"):
    """A model was asked."""

    step: int = 0
    messages: int = 0
    """How many messages of the conversation it was shown."""
    attempt: int = 1
    model: str = ""
    altered: dict[str, Any] | None = None
    """The fields in which hooks made the request differ from what the state adds up to; of messages, what was added."""


class ResponseReceived(Record, frozen=True, gc=False, omit_defaults=True, tag="response"):
    """A model's answer, after the hooks."""

    step: int = 0
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    model: str = ""
    discarded: bool = False
    """A hook discarded it: its text and calls are not kept."""
    supplied: bool = False
    """A hook gave this answer; no model was called."""
    reasoning: tuple[Reasoning, ...] = ()
    finish: str = ""
    provider_tool_uses: tuple[ProviderToolUse, ...] = ()
    truncated: bool = False
    """The provider cut it off, and that ended the run. In older records it did not."""
    withdrawn: tuple[str, ...] = ()
    """Tools that hooks around the inference had taken out of the request: calls of them do not run."""


class ModelConsulted(Record, frozen=True, gc=False, omit_defaults=True, tag="consulted"):
    """A hook asked a model itself (a critic, a summariser), and the run paid for it."""

    name: str = ""
    """On whose behalf."""
    number: int = 1
    """Counts the questions under that name in this step, in the process that asked."""
    response: InferenceResponse = InferenceResponse()
    step: int | None = None
    digest: str = ""
    """Of what was asked: the answer is one to that question alone."""


class EffectStarted(Record, frozen=True, gc=False, omit_defaults=True, tag="effect"):
    """A hook is about to do something that must not be done twice (`ctx.run.start_once`). Nobody starts it again."""

    point: str = ""
    name: str = ""
    step: int | None = None
    call_id: str = ""
    status_before: RunStatus | None = None
    """The status of a run that has not begun yet. If its process dies now, it has this status, and begins anew."""


class CallAdmitted(Record, frozen=True, gc=False, omit_defaults=True, tag="call"):
    """The intent to run a call, written before it starts. Without a result after it, the call is in doubt."""

    step: int = 0
    call: ToolCall = ToolCall("", "")
    effect: str = "once"

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call, in any process."""
        return f"{self.run_id}/{self.step}/{self.call.id}"


class CallSettled(Record, frozen=True, gc=False, omit_defaults=True, tag="tool_result"):
    """The result of a call, after the hooks."""

    step: int = 0
    result: ToolResult = ToolResult()
    is_of_hook: bool = False
    """Only in a store: the result is what the last hook that changed it made of it."""
    error_of: int | None = None
    """Only in a store: the error of the result is that of the record with this number."""


class ApprovalAsked(Record, frozen=True, gc=False, omit_defaults=True, tag="approval_asked"):
    """A call waits for a person."""

    step: int = 0
    approval: PendingApproval | None = None


class ApprovalAnswered(Record, frozen=True, gc=False, omit_defaults=True, tag="approval_answered"):
    """A person, a hook or a remembered answer settled a question."""

    step: int = 0
    approval_id: str = ""
    decision: Decision | None = None
    by: str = ""


class Evaluated(Record, frozen=True, gc=False, omit_defaults=True, tag="evaluation"):
    """The runtime itself said whether the run should continue: a stop, an objection, an error that was overcome."""

    point: str = ""
    evaluation: ContinuationEvaluation | None = None
    step: int | None = None


class ErrorRaised(Record, frozen=True, gc=False, omit_defaults=True, tag="error"):
    """Something failed, and what the error policy made of it.

    With the action `retry` or `fallback` the model is asked again: what the step has streamed so far is void.
    """

    error: ErrorInfo | None = None
    action: str = "stop"
    delay: float = 0.0
    step: int | None = None
    call_id: str = ""
    reason: str = ""
    """Why the policy decides so, where that is not plain: a budget that is used up, say."""


class StepFinished(Record, frozen=True, gc=False, omit_defaults=True, tag="step"):
    """A step is settled: what it was, and what it added to the conversation."""

    step: Step = Step(0)
    messages: tuple[Message, ...] = ()
    replaced: tuple[Message, ...] | None = None
    """The whole conversation, when hooks rewrote it instead of adding to it."""
    metadata: dict[str, Any] | None = None
    """The metadata, when it changed."""
    usage: Usage = NO_USAGE
    """What the whole conversation has used by now."""
    counters: Counters = NO_COUNTERS
    guard: str = ""
    """The default guard that alone decided whether there is another step."""
    cuts: dict[str, int] | None = None
    """Only in a store: results and messages that have nothing but the id of a call are those of the `tool_result`
    records. The numbers say where the text of a message was cut, by call id."""
    errors_of: tuple[int, ...] = ()
    """Only in a store: the errors of the step are those of the records with these numbers."""


class StepPaused(Record, frozen=True, gc=False, omit_defaults=True, tag="step_paused"):
    """A step waits for a person: all that it needs to continue, in any process."""

    pending: PendingStep | None = None
    usage: Usage = NO_USAGE
    counters: Counters = NO_COUNTERS
    is_short: bool = False
    """Only in a store: results that have nothing but the id of a call are those of the `tool_result` records."""
    errors_of: tuple[int, ...] = ()
    """Only in a store: the errors of the step so far are those of the records with these numbers."""
    child_changes: dict[str, Any] | None = None
    """Only in a store: what has changed in the children of each call since the record of the last pause of the step."""


class ChildStarted(Record, frozen=True, gc=False, omit_defaults=True, tag="child_started"):
    """A child run began."""

    child_run_id: str = ""
    name: str = ""
    call_id: str = ""


class ChildFinished(Record, frozen=True, gc=False, omit_defaults=True, tag="child_finished"):
    """A child run ended."""

    child_run_id: str = ""
    name: str = ""
    call_id: str = ""
    status: RunStatus = RunStatus.COMPLETED
    text: str = ""
    counters: Counters = NO_COUNTERS
    remembered: dict[str, Decision] = EMPTY
    """What was answered in it for the rest of the session, by the fingerprint of the call."""

    @property
    def usage(self) -> Usage:
        """What it used, with its own children."""
        return self.counters.usage


class StatusChanged(Record, frozen=True, gc=False, omit_defaults=True, tag="status"):
    """The run ended, or paused; hooks at the end still run after this."""

    status: RunStatus = RunStatus.RUNNING
    stop_reason: StopReason | None = None
    reason: str = ""
    decided_by: str = ""
    usage: Usage = NO_USAGE
    """What the whole conversation has used by now."""
    counters: Counters = NO_COUNTERS


class RunFinished(Record, frozen=True, gc=False, omit_defaults=False, tag="result"):
    """The last record: the result as the caller gets it. Its JSON names every field, for those who only read this."""

    text: str = ""
    status: RunStatus = RunStatus.COMPLETED
    stop_reason: StopReason | None = None
    usage: Usage = NO_USAGE
    steps: int = 0
    reason: str = ""
    decided_by: str = ""
    error: ErrorInfo | None = None
    pending: tuple[PendingApproval, ...] = ()


class TextDelta(Record, frozen=True, gc=False, omit_defaults=True, tag="text_delta"):
    """A piece of the model's text as it comes. Not journalled."""

    text: str = ""
    step: int = 0


class ReasoningDelta(Record, frozen=True, gc=False, omit_defaults=True, tag="reasoning_delta"):
    """A piece of the model's thinking as it comes. Not journalled."""

    text: str = ""
    step: int = 0


class CallDelta(Record, frozen=True, gc=False, omit_defaults=True, tag="call_delta"):
    """A piece of the arguments of a call as the model writes it. Not journalled."""

    call_id: str = ""
    name: str = ""
    arguments: str = ""
    """The next piece of the JSON text."""
    step: int = 0


class ToolProgress(Record, frozen=True, gc=False, omit_defaults=True, tag="progress"):
    """What a running tool reports. Not journalled."""

    call_id: str = ""
    name: str = ""
    message: Any = None
    step: int = 0


class RunHandedOver(Record, frozen=True, gc=False, omit_defaults=True, tag="handed_over"):
    """This process drives the run no more, and another continues it. Not journalled."""


def start_of(records: Iterable[Record]) -> RunStarted | None:
    """The record with which a run began; None while it is queued. Usually it is the first one."""
    counted = (record for record in counted_records(records) if isinstance(record, RunStarted))
    return next(counted, None)


def parent_of(records: Iterable[Record]) -> str | None:
    """The run that a run is a child of, if it is one. A child has its parent before it has begun."""
    started = next((record for record in records if isinstance(record, RunStarted)), None)
    return started.parent_run_id if started is not None else None


def counted_records(records: Iterable[Record]) -> list[Record]:
    """The records that count: without ends after which a run was opened again, and starts after which no run began.

    A run is written when it has begun. Before that only the start of an effect is written, with what led to it; if the
    process dies then, the run begins again.
    """
    kept: list[Record] = []
    for record in records:
        if isinstance(record, RunReopened):
            while kept and kept[-1].seq >= record.records:
                kept.pop()
            continue
        if isinstance(record, RunStarted):
            _drop_unfinished_start(kept)
        kept.append(record)
    _drop_unfinished_start(kept)
    return kept


def _drop_unfinished_start(records: list[Record]) -> None:
    """Remove the last start of a run, and what follows it, if its process died before the run had begun."""
    latest = (record for record in reversed(records) if not isinstance(record, RunTakenUp))
    last = next(latest, None)
    if isinstance(last, EffectStarted) and last.status_before is not None:
        while records and not isinstance(records.pop(), RunStarted):
            pass


def hooks_in(records: Iterable[Record]) -> Iterator[HookRan]:
    """Every hook that ran, one record each."""
    for record in records:
        if isinstance(record, HooksPassed):
            yield from record.each()
        elif isinstance(record, HookRan):
            yield record
        elif isinstance(record, StepStarted | StepFinished) and record.guard:
            yield _guard(record)


def _guard(record: StepStarted | StepFinished) -> HookRan:
    """The default guard that was the only hook at its point: it has no record of its own."""
    if isinstance(record, StepStarted):
        point, step, outcome = "before_step", record.step, None
    else:
        point, step, outcome = "should_continue", record.step.index, record.step.outcome
    return HookRan(
        run_id=record.run_id,
        seq=record.seq,
        at=record.at,
        point=point,
        hook=record.guard,
        step=step,
        evaluations=outcome.evaluations if outcome is not None else (),
    )
