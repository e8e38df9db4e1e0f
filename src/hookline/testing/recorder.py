"""A recorder: what a run visited, which hooks ran, what they said, and the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from hookline.agent import AgentBuilder, hook
from hookline.hooks import Kind, Registration, Verdict
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    HookRan,
    HooksPassed,
    Record,
    RunFinished,
    RunStarted,
    hooks_in,
)
from hookline.lifecycle import AgentContext, HookPoint, ToolHookContext
from hookline.state import (
    AgentState,
    Answer,
    AssistantMessage,
    Message,
    ResultStatus,
    ToolCall,
    ToolMessage,
    thaw,
)

_LAST = -(2**31)
"""The recorder's priority: it stands behind every other observer."""
_AROUND = tuple(point for point in HookPoint if point.around)
_RAN = (ResultStatus.OK, ResultStatus.ERROR)


class Visit(msgspec.Struct, frozen=True):
    """A run reached a hook point: which hooks ran there, and what they decided together."""

    point: str
    run_id: str
    tool: str = ""
    """At a point that has a tool call: the tool's name."""
    verdict: str = "proceed"
    decided_by: str = ""
    reason: str = ""
    hooks: tuple[HookRan, ...] = ()


class BlockedAction(msgspec.Struct, frozen=True):
    """Something that was prevented, by whom and why."""

    point: str
    by: str
    reason: str
    tool: str = ""
    verdict: str = "block"
    """`block`, `stop`, or `deny` when it was asked about and the answer was no."""


class Recorder:
    """Sees everything and changes nothing: `builder.with_capability(recorder)`, run, then ask the recorder.

    Child runs are seen too. `records` holds what `on_event` listeners get: every record and every delta.
    """

    def __init__(self, name: str = "recorder") -> None:
        self.name = name
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.records: list[Record] = []
        self._visits: list[Visit] = []
        self._blocked: list[BlockedAction] = []
        self._outer: list[str] = []
        self._states: dict[str, AgentState] = {}
        self._at_point: dict[str, list[HookRan]] = {}
        self._asked: dict[str, ToolCall] = {}
        self._latest: dict[str, object] = {}

    # --- what a test asks ---------------------------------------------------------------------------

    @property
    def visits(self) -> tuple[Visit, ...]:
        """Every point that was visited, in order. An around point is there when a hook stood at it."""
        return tuple(self._visits)

    @property
    def points(self) -> list[str]:
        """The names of the points, in the order they were visited."""
        return [visit.point for visit in self._visits]

    @property
    def ran(self) -> list[HookRan]:
        """Every hook that ran, with its verdict and duration; the recorder itself is left out."""
        return [ran for ran in hooks_in(self.records) if ran.hook != self.name]

    def verdicts(self, hook: str) -> list[tuple[str, str]]:
        """What one hook said each time it ran, as (point, verdict)."""
        return [(record.point, record.verdict) for record in self.ran if record.hook == hook]

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The tool calls that ran, as (tool, arguments). What hooks kept from running is not among them."""
        ran = (record.call for record in self.records if isinstance(record, CallAdmitted))
        return [(call.name, thaw(call.args)) for call in ran]

    @property
    def blocked(self) -> tuple[BlockedAction, ...]:
        """What was prevented, by whom and why."""
        return tuple(self._blocked)

    def transcript(self, run_id: str | None = None) -> list[Line]:
        """The conversation as tuples: of one run, or of the latest that is not a child."""
        if run_id is None:
            run_id = self._outer[-1] if self._outer else ""
        state = self._states.get(run_id)
        return [] if state is None else transcript(state.messages)

    def __str__(self) -> str:
        lines: list[str] = []
        current = ""
        for visit in self._visits:
            if visit.run_id != current:
                current = visit.run_id
                lines.append(f"run {current}")
            decided = _decision(visit.verdict, visit.decided_by, visit.reason)
            lines.append(f"  {visit.point:<20}{visit.tool:<12}{decided}".rstrip())
            lines += [f"      {line}" for line in _who_ran(visit.hooks)]
        for record in self.records:
            if isinstance(record, RunFinished):
                lines.append(f"run {record.run_id} ended {record.status}: {record.stop_reason}")
        return "\n".join(lines) or "nothing was recorded"

    # --- what the builder asks ----------------------------------------------------------------------

    def hooks(self) -> list[Registration]:
        """An observer at every point; around an action nobody can merely observe."""
        return [
            hook(point, self._see, name=self.name, tier="observer", scope="tree", priority=_LAST)
            for point in HookPoint
            if not point.around
        ]

    def configure(self, builder: AgentBuilder) -> None:
        """Get every record."""
        builder.on_event(self._hear)

    # --- what a run reports ---------------------------------------------------------------------------

    def _is_new(self, seen: AgentContext | Record, run_id: str) -> bool:
        """Whether this is news: a recorder of a parent and of its child gets everything about the child twice."""
        known = self._latest.get(f"{type(seen).__name__} {run_id}") is seen
        self._latest[f"{type(seen).__name__} {run_id}"] = seen
        return not known

    def _see(self, ctx: AgentContext) -> None:
        state = ctx.state
        if not self._is_new(ctx, state.run_id):
            return
        self._states[state.run_id] = state
        call: ToolCall | None = getattr(ctx, "tool_call", None)
        tool = call.name if call is not None else ""
        verdict = ctx.decided or Verdict()
        here = (tool, verdict.label, verdict.decided_by, verdict.reason)
        ran = self._at_point.pop(state.run_id, [])
        around = [each for each in ran if each.point in _AROUND]
        at_point = tuple(each for each in ran if each.point == ctx.point)
        self._visits += [Visit(each.point, each.run_id, hooks=(each,)) for each in around]
        self._visits.append(Visit(ctx.point.value, state.run_id, *here, at_point))
        if verdict.kind >= Kind.BLOCK and not _is_old_news(ctx):
            by, reason = verdict.decided_by, verdict.reason
            self._blocked.append(BlockedAction(ctx.point.value, by, reason, tool, verdict.label))

    def _hear(self, record: Record) -> None:
        if not self._is_new(record, record.run_id):
            return
        self.records.append(record)
        if isinstance(record, HookRan | HooksPassed):
            at_point = self._at_point.setdefault(record.run_id, [])
            at_point += [ran for ran in hooks_in([record]) if ran.hook != self.name]
        elif isinstance(record, RunStarted) and record.parent_run_id is None:
            self._outer.append(record.run_id)
        elif isinstance(record, ApprovalAsked) and record.approval is not None:
            self._asked[record.approval.id] = record.approval.tool_call
        elif isinstance(record, ApprovalAnswered):
            self._add_answer(record)

    def _add_answer(self, record: ApprovalAnswered) -> None:
        decision = record.decision
        if decision is not None and decision.answer is Answer.DENY:
            tool = self._asked[record.approval_id].name
            self._blocked.append(
                BlockedAction("permission_request", record.by, decision.reason, tool, "deny")
            )


def _is_old_news(ctx: AgentContext) -> bool:
    """Whether what was prevented is reported elsewhere: observers see a blocked call again after it did not run."""
    if not isinstance(ctx, ToolHookContext) or ctx.decided is None:
        return False
    if ctx.point == HookPoint.PERMISSION_REQUEST:
        return ctx.decided.kind is Kind.BLOCK  # the answer, from any person, is a record
    return ctx.execution is not None and ctx.execution.status not in _RAN


def _decision(verdict: str, by: str, reason: str) -> str:
    if verdict == "proceed":
        return ""
    return verdict + (f" by '{by}'" if by else "") + (f": {reason}" if reason else "")


def _who_ran(hooks: tuple[HookRan, ...]) -> Iterator[str]:
    """A line for each hook that said something, and one for those without an objection."""
    quiet = [ran.hook for ran in hooks if _is_quiet(ran)]
    if quiet:
        yield f"proceed: {', '.join(quiet)}"
    for ran in hooks:
        if not _is_quiet(ran):
            verdict = f"would {ran.verdict}" if ran.shadow else ran.verdict
            changed = f", changed {' and '.join(sorted(ran.changes))}" if ran.changes else ""
            reason = f": {ran.reason}" if ran.reason else ""
            yield f"{ran.hook} ({ran.duration * 1000:.2f} ms): {verdict}{changed}{reason}"


def _is_quiet(ran: HookRan) -> bool:
    return ran.verdict == "proceed" and not ran.changes


# --- a conversation as plain tuples ------------------------------------------------------------

Line: TypeAlias = tuple[Any, ...]
"""`("user", text)`, `("assistant", text, (tool, args), ...)` or `("tool", name, text)`."""


def transcript(messages: Iterable[Message]) -> list[Line]:
    """Each message as one tuple, without ids: the same conversation always reads the same."""
    return [_line(message) for message in messages]


def _line(message: Message) -> Line:
    if isinstance(message, AssistantMessage):
        made = tuple((call.name, thaw(call.args)) for call in message.calls)
        return ("assistant", message.text, *made)
    if isinstance(message, ToolMessage):
        return ("tool", message.name, message.text)
    return ("user", message.text)
