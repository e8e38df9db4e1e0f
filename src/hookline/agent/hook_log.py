"""The hook log of a run: what hooks said while they were asked, as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hookline.hooks import Answered, Entry, HookNames, Kind
from hookline.journal import HookRan, HooksPassed, Record
from hookline.lifecycle import AgentContext
from hookline.lifecycle.changes import describe_changes
from hookline.state import AgentState, ContinuationEvaluation, Decision, ErrorInfo, ToolCall

_WEIGHED = (Kind.ALLOW, Kind.ASK)
"""Whose hook it is matters: an allow lifts an ask of another capability."""


class RunHookLog:
    """The part of a run that knows the time, and puts on record what hooks say."""

    __slots__ = (
        "append",
        "at",
        "call_id",
        "evaluations",
        "monotonic",
        "next_seq",
        "now",
        "run_id",
        "state",
        "step_index",
        "wall",
    )

    append: Callable[[Record], None]
    at: float
    call_id: str
    evaluations: tuple[ContinuationEvaluation, ...]
    monotonic: Callable[[], float]
    next_seq: Callable[[], int]
    now: float
    run_id: str
    state: AgentState
    step_index: int | None
    wall: float

    def clock(self) -> float:
        """The run's monotonic clock."""
        monotonic = self.monotonic  # held in a slot: calling it there would look for a method first
        self.now = now = monotonic()
        self.at = self.wall + now
        return now

    def head(self) -> tuple[str, int, float]:
        """What every record begins with: run, number, time."""
        return self.run_id, self.next_seq(), self.at

    def passed(self, names: HookNames, readings: Sequence[float]) -> None:
        """Hooks ran and let things be."""
        self.now = now = readings[-1]
        self.at = at = self.wall + now
        if not names.hooks:
            return  # they gave their verdict in another process
        append, next_seq = self.append, self.next_seq
        append(
            HooksPassed(
                run_id=self.run_id,
                seq=next_seq(),
                at=at,
                point=names.point,
                hooks=names.hooks,
                readings=tuple(readings),
                step=self.step_index,
                call_id=self.call_id,
                tiers=names.tiers,
                externals=names.externals,
            )
        )

    def appended(self, entry: Entry, started: float, ctx: AgentContext) -> float:
        """A hook said whether to go on."""
        now = self.clock()
        self.append(
            HookRan(
                *self.head(),
                point=entry.point,
                hook=entry.name,
                duration=now - started,
                step=self.step_index,
                call_id=self.call_id,
                tier=entry.tier_name,
                evaluations=ctx.evaluations[-1:],
                external=entry.registration.external,
            )
        )
        return now

    def shown(self, call: ToolCall) -> ToolCall:
        """What is kept and told of a call."""
        return call

    def shown_decision(self, decision: Decision) -> Decision:
        """What is kept and told of an answer, which may change arguments."""
        return decision

    def left(self, ctx: AgentContext) -> None:
        """A hook failed: what those before it changed and said stays."""
        self.state = ctx.state
        self.evaluations = ctx.evaluations

    def judged(self, entry: Entry, started: float, answer: Answered) -> float:
        """A hook ran and said or changed something, or failed."""
        now = self.clock()
        if entry.is_recalled:
            return now
        error = None
        if answer.error is not None:
            error = ErrorInfo.from_exception(answer.error.__cause__ or answer.error, "hook")
        before: Any = answer.before
        after: Any = answer.after
        if getattr(after, "tool_call", None) is not getattr(before, "tool_call", None):
            after = msgspec.structs.replace(after, tool_call=self.shown(after.tool_call))
        self.append(
            HookRan(
                *self.head(),
                point=entry.point,
                hook=entry.name,
                duration=now - started,
                step=self.step_index,
                call_id=_call_id(before) or self.call_id,
                tier=entry.tier_name,
                verdict="failed" if error is not None else answer.kind.label,
                reason=answer.reason or (answer.error.problem if answer.error is not None else ""),
                changes=describe_changes(before, after),
                shadow=entry.shadow,
                error=error,
                evaluations=after.evaluations[len(before.evaluations) :],
                stop_reason=answer.stop_reason,
                decision=self.shown_decision(answer.answer)
                if isinstance(answer.answer, Decision)
                else None,
                source=entry.registration.source if answer.kind in _WEIGHED else None,
                external=entry.registration.external,
            )
        )
        return now


def _call_id(ctx: AgentContext) -> str:
    """The call a context is about. Around tools several are in progress at once, so the run cannot tell."""
    call = getattr(ctx, "tool_call", None)
    return call.id if call is not None else ""
