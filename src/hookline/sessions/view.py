"""A session for people to read: its runs, its steps, its transcript."""

from __future__ import annotations

import msgspec

from hookline.errors import UnknownRunError
from hookline.journal import (
    JournalStore,
    PromptSubmitted,
    Record,
    RunFinished,
    Segment,
    SessionStatus,
    SessionStory,
    StepFinished,
)
from hookline.sessions.conversation import ConversationState
from hookline.state import (
    AgentState,
    Log,
    Message,
    PendingApproval,
    RunStatus,
    Step,
    ToolCall,
    Usage,
)

_WIDTH = 100
"""Characters of a text that are shown on its line."""


class ShownStep(msgspec.Struct, frozen=True):
    """A step of a run. `number` counts the steps of the conversation; None when it was rewound or cleared."""

    number: int | None
    step: Step


class ShownRun(msgspec.Struct, frozen=True):
    """A run of the session."""

    run_id: str
    status: RunStatus | None
    """None when it never began, or is no longer in the journal."""
    prompt: str = ""
    text: str = ""
    """Its answer."""
    steps: tuple[ShownStep, ...] = ()
    pending: tuple[PendingApproval, ...] = ()
    started_at: float = 0.0
    is_current: bool = True
    """False when it was rewound or cleared."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is. `str()` of it is for reading."""

    id: str
    title: str
    status: SessionStatus
    version: int
    forked_from: str | None
    at_step: int
    """How many steps of the other session it contains."""
    runs: tuple[ShownRun, ...]
    state: AgentState
    """The state of the conversation."""

    @property
    def messages(self) -> Log[Message]:
        """The transcript."""
        return self.state.messages

    @property
    def steps(self) -> tuple[ShownStep, ...]:
        """The steps of the conversation that were made in this session."""
        return tuple(step for run in self.runs for step in run.steps if step.number is not None)

    @property
    def usage(self) -> Usage:
        """What the conversation has used."""
        return self.state.usage

    def __str__(self) -> str:
        return "\n".join(_lines(self))


async def view_of(
    journal: JournalStore, story: SessionStory, conversation: ConversationState
) -> SessionView:
    """A session, with its runs read from the journal."""
    current = {segment.run_id: segment for segment in story.position.segments}
    runs: list[ShownRun] = []
    number = story.at_step if story.position.is_forked else 0
    for run_id in story.members:
        runs.append(await _run(journal, run_id, current.get(run_id), number))
        number += sum(step.number is not None for step in runs[-1].steps)
    return SessionView(
        id=story.session_id,
        title=story.title,
        status=story.status,
        version=story.version,
        forked_from=story.forked_from or None,
        at_step=story.at_step,
        runs=tuple(runs),
        state=conversation.state,
    )


async def _run(
    journal: JournalStore, run_id: str, segment: Segment | None, number: int
) -> ShownRun:
    """A run. `number` is how many steps of the conversation there are before it."""
    try:
        records = await journal.read(run_id)
    except UnknownRunError:
        return ShownRun(run_id, None, is_current=False)
    last = records[-1]
    ended = last if isinstance(last, RunFinished) else None
    prompts = (record.text for record in records if isinstance(record, PromptSubmitted))
    return ShownRun(
        run_id=run_id,
        status=ended.status if ended is not None else RunStatus.RUNNING,
        prompt=next(prompts, ""),
        text=ended.text if ended is not None else "",
        steps=_steps(records, segment, number),
        pending=ended.pending if ended is not None else (),
        started_at=records[0].at,
        is_current=segment is not None,
    )


def _steps(records: list[Record], segment: Segment | None, number: int) -> tuple[ShownStep, ...]:
    end = -1 if segment is None else len(records) if segment.end is None else segment.end
    shown: list[ShownStep] = []
    for at, record in enumerate(records):
        if isinstance(record, StepFinished):
            number += 1
            shown.append(ShownStep(number if at <= end else None, record.step))
    return tuple(shown)


# --- as text ------------------------------------------------------------------------------------------


def _lines(view: SessionView) -> list[str]:
    title = f' "{view.title}"' if view.title else ""
    lines = [f"session {view.id}{title}: {view.status.value}, version {view.version}"]
    if view.forked_from is not None:
        lines.append(f"forked from {view.forked_from} after step {view.at_step}")
    for run in view.runs:
        lines += _run_lines(run)
    return lines


def _run_lines(run: ShownRun) -> list[str]:
    status = run.status.value if run.status is not None else "not in the journal"
    behind = "" if run.is_current or run.status is None else ", left behind"
    lines = [f"run {run.run_id}: {status}{behind}"]
    if run.prompt:
        lines.append(f"     > {_short(run.prompt)}")
    for each in run.steps:
        number = "-" if each.number is None else str(each.number)
        lines += [f"{number:>4} {line}" for line in _step_lines(each.step)]
    for pending in run.pending:
        lines.append(f"   ? {_call(pending.tool_call)}: {_short(pending.reason)}")
    return lines


def _step_lines(step: Step) -> list[str]:
    lines = [_short(step.text)] if step.text or not step.calls else []
    for call, result in zip(step.calls, step.results, strict=True):
        lines.append(f"{_call(call)} -> {_short(result.text)}")
    return lines


def _call(call: ToolCall) -> str:
    args = ", ".join(f"{name}={value!r}" for name, value in call.args.items())
    return _short(f"{call.name}({args})")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
