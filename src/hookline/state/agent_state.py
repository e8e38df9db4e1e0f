"""The state of a run: its steps, and everything else that is settled. It never changes."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, get_args, get_origin

import msgspec

from hookline.errors import NotJSONError, StateVersionError, UsageError
from hookline.state.calls import Attachment, ErrorInfo, ToolCall, ToolResult
from hookline.state.continuation import ContinuationOutcome, RunStatus, StopReason
from hookline.state.frozen import (
    EMPTY,
    EMPTY_LOG,
    FrozenDict,
    Log,
    checked_text,
    freeze,
    freeze_dict,
    valid_text,
)
from hookline.state.messages import NO_USAGE, AssistantMessage, Message, Usage, UserMessage
from hookline.state.pending_step import Decision, PendingApproval, PendingStep


class StepType(enum.StrEnum):
    """What kind of step it was."""

    TOOL_USE = "tool_use"
    FINAL_RESPONSE = "final_response"
    INCOMPLETE = "incomplete"
    """No response was used: the inference was blocked, discarded, cancelled or failed."""


class Step(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What happened in one step. `calls` are the calls as they ran, after hooks changed them."""

    index: int
    type: StepType = StepType.INCOMPLETE
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    usage: Usage = NO_USAGE
    started_at: float = 0.0
    """When it began, by the run's clock: seconds since 1970."""
    duration: float = 0.0
    """Seconds, hooks, model and tools included; time spent waiting for approval is not."""
    errors: tuple[ErrorInfo, ...] = ()
    outcome: ContinuationOutcome | None = None

    @property
    def number(self) -> int:
        """The step's number, counted from one."""
        return self.index + 1

    @property
    def ended_at(self) -> float:
        """When it ended, by the run's clock: seconds since 1970. Time spent waiting for a person is left out."""
        return self.started_at + self.duration

    @property
    def is_final_response(self) -> bool:
        """The model answered without calling a tool."""
        return self.type is StepType.FINAL_RESPONSE

    @property
    def has_errors(self) -> bool:
        """Something failed in this step, whether or not the run recovered."""
        return bool(self.errors) or any(result.error is not None for result in self.results)


class Counters(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What limits and budgets count in the latest run, with children and model calls of hooks."""

    steps: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    active_seconds: float = 0.0
    errors: int = 0
    consecutive_errors: dict[str, int] = EMPTY
    """By error class. Reset by a success: of a call (tool, validation), of an answer (model), else of a step."""
    objections: int = 0


NO_COUNTERS = Counters()


class Ending(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How the latest run over a state ended."""

    status: RunStatus
    stop_reason: StopReason
    reason: str = ""
    decided_by: str = ""


class AgentState(msgspec.Struct, frozen=True, gc=False):
    """Immutable. `with_…` derives a changed state; appending to it costs the same at any length."""

    messages: Log[Message] = EMPTY_LOG
    metadata: dict[str, Any] = EMPTY
    steps: Log[Step] = EMPTY_LOG
    usage: Usage = NO_USAGE
    """Of the whole conversation; `counters.usage` is the latest run's."""
    counters: Counters = NO_COUNTERS
    agent_id: str = ""
    run_id: str = ""
    session_id: str = ""
    parent_agent_id: str | None = None
    parent_run_id: str | None = None
    ending: Ending | None = None
    pending_step: PendingStep | None = None
    remembered: dict[str, Decision] = EMPTY
    """Answers that are valid for the session: by fingerprint of the call or, for a rule, by asker and rule."""
    first_step: int = 0
    """Where the latest run begins in `steps`: a state keeps the steps of earlier runs."""

    @property
    def step_count(self) -> int:
        """How many steps the latest run has made."""
        return len(self.steps) - self.first_step

    @property
    def last_step(self) -> Step | None:
        """The latest step, if there is one."""
        return self.steps[-1] if self.steps else None

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The questions that wait for a person."""
        return self.pending_step.approvals() if self.pending_step is not None else ()

    @property
    def continuation(self) -> ContinuationOutcome | None:
        """The outcome of the latest step."""
        step = self.last_step
        return step.outcome if step is not None else None

    def get(self, key: str, default: Any = None) -> Any:
        """One entry of the metadata."""
        return self.metadata.get(key, default)

    def with_metadata(self, key: str, value: object) -> AgentState:
        """This state with one entry of metadata set. The value must be JSON, or declare how it becomes JSON."""
        frozen = freeze(value, f"metadata '{key}'")
        metadata = FrozenDict({**self.metadata, checked_text(key, "a metadata key"): frozen})
        return msgspec.structs.replace(self, metadata=metadata)

    def without_metadata(self, key: str) -> AgentState:
        """This state without one entry of metadata."""
        rest = {name: value for name, value in self.metadata.items() if name != key}
        return msgspec.structs.replace(self, metadata=FrozenDict(rest))

    def without_remembered(self, *names: str) -> AgentState:
        """This state without some of its remembered answers, by their names in `remembered`; without names, all."""
        kept = {
            name: decision
            for name, decision in self.remembered.items()
            if names and name not in names
        }
        return msgspec.structs.replace(self, remembered=FrozenDict(kept))

    def with_user_message(
        self, text: str, *, by: str = "", attachments: tuple[Attachment, ...] = ()
    ) -> AgentState:
        """This state with a message to the model appended."""
        by = checked_text(by, "who a user message is by")
        text = checked_text(text, "a user message")
        message = UserMessage(text=text, by=by, attachments=attachments)
        return self.with_messages(self.messages.append(message))

    def with_messages(self, messages: Iterable[Message]) -> AgentState:
        """This state with another conversation."""
        log = messages if isinstance(messages, Log) else Log(messages)
        return msgspec.structs.replace(self, messages=log)

    def freeze(self) -> AgentState:
        """This state with plain dicts and lists made immutable."""
        # Not in __post_init__, because states are derived many times at every step.
        counters = self.counters
        if type(counters.consecutive_errors) is not FrozenDict:
            errors = FrozenDict(counters.consecutive_errors)
            counters = msgspec.structs.replace(counters, consecutive_errors=errors)
        return msgspec.structs.replace(
            self,
            counters=counters,
            metadata=freeze_dict(self.metadata, "metadata") if self.metadata else EMPTY,
            messages=self.messages if type(self.messages) is Log else Log(self.messages),
            remembered=FrozenDict(self.remembered) if self.remembered else EMPTY,
        )

    def last_text(self) -> str:
        """What the model said last."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return message.text
        return ""

    def explain_stop(self) -> str:
        """Why did it stop, and who waits for which answer? One line."""
        ending = self.ending
        if ending is None:
            return "It has not stopped: no run over this state has ended yet."
        steps = f"{self.step_count} step{'' if self.step_count == 1 else 's'}"
        words = f"{ending.status.value} after {steps}: {ending.stop_reason.value}"
        if ending.reason:
            words += f" ({ending.reason})"
        if ending.decided_by:
            words += f", decided by '{ending.decided_by}'"
        return words + "".join(
            f"; {', '.join(map(repr, asked.askers))} asked about {asked.tool_call.name}: {asked.reason}"
            for asked in self.pending
        )

    def to_json(self) -> str:
        """This state as versioned JSON, without loss."""
        envelope = {"format": _FORMAT, "version": STATE_VERSION, "state": self}
        try:
            return _ENCODER.encode(envelope).decode()
        except UnicodeEncodeError:
            # Half of a surrogate pair in somebody's text is replaced: saving matters more.
            plain = msgspec.to_builtins(envelope, enc_hook=_encode_log)
            return _ENCODER.encode(valid_text(plain)).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> AgentState:
        """The state that `to_json` wrote."""
        try:
            envelope = msgspec.json.decode(text, type=_Envelope)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise StateVersionError(f"this is not a saved agent state: {error}.") from None
        if envelope.format != _FORMAT:
            raise StateVersionError(
                f"this is a saved {envelope.format!r}, not a saved agent state."
            )
        if envelope.version > STATE_VERSION:
            raise StateVersionError(
                f"this state was saved in format version {envelope.version}; "
                f"this Hookline reads up to version {STATE_VERSION}.",
                remedy="Upgrade hookline to read it.",
            )
        try:
            state = msgspec.json.decode(envelope.state, type=AgentState, dec_hook=_decode_log)
            return state.freeze()
        except (msgspec.DecodeError, NotJSONError, UsageError, RecursionError) as error:
            raise StateVersionError(f"this saved agent state is damaged: {error}.") from None


STATE_VERSION = 1
_FORMAT = "hookline.state"


class _Envelope(msgspec.Struct):
    format: str
    version: int
    state: msgspec.Raw


def _encode_log(value: object) -> object:
    if isinstance(value, Log):
        return list(value)
    if isinstance(value, str):
        return str.__str__(value)  # a subclass of str
    raise NotImplementedError(type(value).__qualname__)


def _decode_log(kind: Any, value: Any) -> Any:
    if get_origin(kind) is not Log:
        raise NotImplementedError(repr(kind))
    return Log(msgspec.convert(value, list[get_args(kind)[0]]))  # type: ignore[misc]


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_log)
