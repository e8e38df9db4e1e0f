"""One step of a run: a turn of the model, and the tool calls it made."""

from __future__ import annotations

import enum

import msgspec

from hookline.state.calls import ErrorInfo, ToolCall, ToolResult
from hookline.state.continuation import ContinuationOutcome
from hookline.state.inference import NO_USAGE, Usage


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
