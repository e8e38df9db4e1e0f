"""What a run gives back: the answer, the state, and why it stopped (`RunResult.explain()`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.errors import PastError, RunNotCompletedError
from hookline.hooks import Plan
from hookline.journal import Evaluated, HookRan, Record, RunFinished, Story
from hookline.state import (
    AgentState,
    ContinuationEvaluation,
    ContinuationOutcome,
    ErrorInfo,
    JSONValue,
    PendingApproval,
    RunStatus,
    Step,
    StopReason,
    Usage,
    freeze,
)
from hookline.state.frozen import valid_text


class RunResult(msgspec.Struct, frozen=True):
    """The end of a run: the answer, how it ended and why, and everything that happened."""

    state: AgentState
    status: RunStatus
    stop_reason: StopReason
    output: Any = None
    """The answer: text, or a typed value where a hook made one."""
    outcome: ContinuationOutcome | None = None
    error: BaseException | None = None
    """For a failed run, and for a paused one that could not be resumed: the exception itself."""
    records: Sequence[Record] = ()
    """The run's journal."""
    said: str | None = None
    """The answer as text, where `output` no longer tells: that of a child run which ended before a pause."""

    def problem(self) -> str:
        """What is wrong with it, in words, if something is: hooks may hand on another result of a child."""
        for name, kind in (
            ("state", AgentState),
            ("status", RunStatus),
            ("stop_reason", StopReason),
        ):
            value = getattr(self, name)
            if type(value) is not kind:
                return f"{name} is {value!r}, which is not a {kind.__name__}"
        return ""

    @property
    def text(self) -> str:
        """The answer as text; empty when there is none."""
        return self.said if self.said is not None else as_text(self.output)

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
    def pending(self) -> list[PendingApproval]:
        """For a paused run: the questions that wait for an answer."""
        return list(self.state.pending)

    @property
    def is_completed(self) -> bool:
        """The run ended by itself, with an answer."""
        return self.status is RunStatus.COMPLETED

    def raise_for_status(self) -> RunResult:
        """The result itself if the run completed; raises `RunNotCompletedError` with the reason and the hook if not."""
        if self.is_completed:
            return self
        raise RunNotCompletedError(self, self.explain()) from self.error

    def __repr__(self) -> str:
        return f"<RunResult {self.explain()}; text={self.text!r}>"

    def explain(self) -> str:
        """Why did it stop, and who waits for which answer? One line."""
        return self.state.explain_stop()


def as_text(output: Any) -> str:
    """An answer as text: a typed one as JSON, if it can become JSON."""
    if output is None or isinstance(output, str):
        return output or ""
    try:
        return msgspec.json.encode(freeze(output)).decode()
    except Exception:  # the author's own type, which may do as it likes
        return str(output)


# --- a result that outlives its process ---------------------------------------------------------------


class _SavedResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a child's result while its parent waits. Records are not: they are in the child's journal."""

    state: str
    status: RunStatus
    stop_reason: StopReason
    text: str
    output: str
    """JSON text, like the state."""
    outcome: ContinuationOutcome | None = None
    error: ErrorInfo | None = None
    objections: int = 0
    """How often the parent's hooks had sent the child back to work."""


def save_child(result: RunResult, objections: int = 0) -> JSONValue:
    """A child's result as JSON."""
    error = result.error
    kept = _SavedResult(
        result.state.to_json(),
        result.status,
        result.stop_reason,
        result.text,
        _output(result),
        result.outcome,
        None if error is None else ErrorInfo.from_exception(error),
        objections,
    )
    return freeze(valid_text(msgspec.to_builtins(kept)))


def _output(result: RunResult) -> str:
    """The answer as JSON; one that cannot become JSON is kept as its text."""
    try:
        output = freeze(result.output)
    except Exception:
        output = valid_text(result.text)
    return msgspec.json.encode(output).decode()


def restore_child(data: JSONValue) -> RunResult:
    """The result that was saved, without its records, and with a PastError where it had an exception."""
    kept = msgspec.convert(data, _SavedResult)
    error = kept.error
    return RunResult(
        state=AgentState.from_json(kept.state),
        status=kept.status,
        stop_reason=kept.stop_reason,
        output=freeze(msgspec.json.decode(kept.output)),
        outcome=kept.outcome,
        error=None if error is None else PastError(error.type, error.message),
        said=kept.text,
    )


def objections_in(data: JSONValue) -> int:
    """How often hooks had objected to the ends of a child whose result was saved."""
    return msgspec.convert(data, _SavedResult).objections


def restore_result(story: Story, records: Sequence[Record], output: Plan | None) -> RunResult:
    """The result of a run that ended in another process, as its journal records it.

    The journal has the answer as text. An output hook that made it a value can have a method `restored(state)`, which
    makes that value again.
    """
    last = records[-1]
    assert isinstance(last, RunFinished)
    assert last.stop_reason is not None
    error = PastError(last.error.type, last.error.message) if last.error is not None else None
    answer: Any = None
    if last.status in (RunStatus.COMPLETED, RunStatus.STOPPED):
        answer = last.text
        for entry in output.judges if output is not None else ():
            restore = getattr(entry.registration.hook, "restore_output", None)
            if restore is not None and last.stop_reason is not StopReason.OUTPUT_WITHHELD:
                answer = restore(story.state)
    return RunResult(
        state=story.state,
        status=last.status,
        stop_reason=last.stop_reason,
        output=answer,
        outcome=_restore_outcome(story),
        error=error,
        records=tuple(records),
        said=None if isinstance(answer, str) else last.text,
    )


def _restore_outcome(story: Story) -> ContinuationOutcome | None:
    """What decided that the run ended: its last step, or what was said after it."""
    outcome = story.state.continuation if story.state.step_count else None
    if outcome is not None and not outcome.should_continue:
        return outcome
    said: list[ContinuationEvaluation] = []
    for record in story.tail:
        if isinstance(record, HookRan) and not record.shadow:
            said += record.evaluations
        elif isinstance(record, Evaluated) and record.evaluation is not None:
            said.append(record.evaluation)
    since = ContinuationOutcome.from_evaluations(said)
    return since if said and not since.should_continue else None
