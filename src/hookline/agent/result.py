"""What a run gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.errors import HooklineError
from hookline.journal import Record, RunFinished, Story
from hookline.state import (
    AgentState,
    ContinuationOutcome,
    PendingApproval,
    RunStatus,
    Step,
    StopReason,
    Usage,
)


class RunResult(msgspec.Struct, frozen=True):
    """The end of a run: the answer, how it ended and why, and everything that happened."""

    state: AgentState
    status: RunStatus
    stop_reason: StopReason
    output: Any = None
    """The answer: text, or a typed value where a hook made one."""
    outcome: ContinuationOutcome | None = None
    error: BaseException | None = None
    """For a failed run: the exception itself."""
    records: Sequence[Record] = ()
    """The run's journal."""

    @property
    def text(self) -> str:
        """The answer as text; empty when there is none."""
        return (
            self.output
            if isinstance(self.output, str)
            else ""
            if self.output is None
            else str(self.output)
        )

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.state.run_id

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of this run."""
        return self.state.steps[self.state.first_step :]

    @property
    def usage(self) -> Usage:
        """What this run used, children included."""
        return self.state.counters.usage

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """For a paused run: the questions that wait for an answer."""
        return self.state.pending

    @property
    def is_completed(self) -> bool:
        """The run ended by itself, with an answer."""
        return self.status is RunStatus.COMPLETED

    def __repr__(self) -> str:
        return f"<RunResult {self.explain()}; text={self.text!r}>"

    def explain(self) -> str:
        """Why did it stop? One line."""
        return self.state.explain_stop()


def recorded_result(story: Story, records: Sequence[Record]) -> RunResult:
    """The result of a run that ended in another process, as its journal tells it."""
    last = records[-1]
    assert isinstance(last, RunFinished)
    assert last.stop_reason is not None
    error = HooklineError(str(last.error)) if last.error is not None else None
    answered = last.status in (RunStatus.COMPLETED, RunStatus.STOPPED)
    return RunResult(
        story.state,
        last.status,
        last.stop_reason,
        last.text if answered else None,
        story.state.continuation,
        error,
        tuple(records),
    )
