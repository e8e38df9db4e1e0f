"""Whether a run that is played is still the same run: what it comes to, as facts, beside those on record.

Left out is what no two drives share (times, durations, numbers of records) and what nobody reads in the transcript:
hooks that changed nothing, usage, metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from hookline.agent.approvals import without_misfit
from hookline.journal import (
    ApprovalAsked,
    PromptSubmitted,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    StepFinished,
)
from hookline.playback.recorded_run import RecordedRun
from hookline.state import PendingApproval, StopReason, ToolCall, ToolResult

_REWORDED = {"no tool was called": "the last answer calls no tool"}
"""Sentences of the default guards in earlier records, and what the guards say now: not a difference."""


class Fact(NamedTuple):
    """One thing that can be the same or not."""

    step: int | None
    """None before the first step and at the end."""
    what: str
    value: Any
    """JSON."""
    call_id: str = ""


class Facts(list[Fact]):
    """The facts of one run in the order a reader would want them, from its records."""

    def __init__(self, *, in_full: bool = True) -> None:
        super().__init__()
        self._in_full = in_full
        """Also what the model was asked, which is made of the agent's tools and system prompt."""
        self._asked: dict[int, Any] = {}
        self._response: dict[int, ResponseReceived] = {}
        self._questions: dict[str, list[PendingApproval]] = {}

    def hear(self, record: Record) -> None:
        """Take in the next record. A step adds its facts when it is settled."""
        match record:
            case PromptSubmitted():
                attached = [each.name for each in record.attachments]
                self.append(Fact(None, "the prompt", _json([record.text, *attached])))
            case RequestSent():
                altered = record.altered if self._in_full else None
                self._asked[record.step] = altered or "as the conversation stands"
            case ResponseReceived():
                self._response[record.step] = record
            case ApprovalAsked() if record.approval is not None:
                self._questions.setdefault(record.approval.tool_call.id, []).append(record.approval)
            case StepFinished():
                self.extend(self._of_step(record))
                self._questions.clear()
            case RunFinished():
                self.append(Fact(None, "the end", _end(record)))

    def _of_step(self, record: StepFinished) -> Iterator[Fact]:
        step = record.step
        index = step.index
        outcome, response = step.outcome, self._response.get(index)
        is_cancelled = outcome is not None and outcome.stop_reason is StopReason.CANCELLED
        if response is not None or not is_cancelled:
            asked = self._asked.get(index, "nothing")
            yield Fact(index, "what the model was asked", _json(asked))
        if response is not None:
            yield Fact(index, "the model's answer", _answer(response))
        for call, result in zip(step.calls, step.results, strict=True):
            for question in self._questions.get(call.id, ()):
                yield Fact(index, f"the question about {call.name}", _question(question), call.id)
            yield Fact(index, f"the call of {call.name}", _call(call), call.id)
            yield Fact(index, f"the result of {call.name}", _result(result), call.id)
        yield Fact(index, "what failed", sorted(error.type for error in step.errors))
        added = record.messages if record.replaced is None else record.replaced
        whole = "" if record.replaced is None else ", all of it"
        yield Fact(index, f"the conversation{whole}", _json(added))
        if outcome is not None and not is_cancelled:
            decided = (outcome.stop_reason, _current(outcome.reason), outcome.resolved_by)
            continues = "continues" if outcome.should_continue else "stops"
            yield Fact(index, "whether it continues", _json([continues, *decided]))


class Comparison:
    """The facts on record of one run, and those that have come so far."""

    def __init__(self, recording: RecordedRun, *, in_full: bool = True) -> None:
        self.recording = recording
        self.then, self.now = Facts(in_full=in_full), Facts(in_full=in_full)
        for record in recording.records:
            self.then.hear(record)
        self.heard: list[Record] = []
        """What was recorded while it was played. It is written nowhere."""
        self.same = 0
        """How many facts were the same."""

    def hear(self, record: Record) -> None:
        """Something has happened while it is played."""
        self.heard.append(record)
        self.now.hear(record)

    def first_difference(self) -> int | None:
        """The number of the first fact that is not as it was, among those that are known by now."""
        while self.same < len(self.now):
            at = self.same
            if at >= len(self.then):
                return at if self.recording.is_finished else None
            if self.then[at] != self.now[at]:
                return at
            self.same += 1
        return None

    @property
    def is_cut_short(self) -> bool:
        """Something that is on record has not come."""
        return self.recording.is_finished and self.same < len(self.then)


def _current(reason: str) -> str:
    return _REWORDED.get(reason, reason)


def _json(value: Any) -> Any:
    """A value as plain JSON, so that values compare whatever they were made of."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _answer(response: ResponseReceived) -> Any:
    said = {"text": response.text, "calls": [_call(call) for call in response.calls]}
    notes = {"discarded": response.discarded, "supplied by a hook": response.supplied}
    return {**said, **{note: True for note, holds in notes.items() if holds}}


def _call(call: ToolCall) -> Any:
    made = {"tool": call.name, "args": _json(call.args)}
    return {**made, "malformed": call.malformed} if call.malformed else made


def _question(approval: PendingApproval) -> Any:
    return {**_call(approval.tool_call), "reason": approval.reason, "asked by": approval.asked_by}


def _result(result: ToolResult) -> Any:
    plain = _json(msgspec.structs.replace(result, call_id="", name=""))
    plain.pop("duration", None)
    return {"status": result.status.value, **plain}


def _end(record: RunFinished) -> Any:
    error = f"{record.error.type}: {record.error.message}" if record.error is not None else None
    facts = {
        "status": record.status.value,
        "stop reason": record.stop_reason and record.stop_reason.value,
        "why": _current(record.reason),
        "decided by": record.decided_by,
        "text": record.text,
        "error": error,
        # How a child's call was edited that did not fit is not on record.
        "waits for": [_question(without_misfit(approval)) for approval in record.pending],
    }
    return {name: value for name, value in facts.items() if value}
