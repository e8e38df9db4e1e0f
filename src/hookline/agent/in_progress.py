"""What a run knows of the step it is making, and of each tool call on its way.

Each step has its own. `loop/turn.py` writes what comes of the model, `calls/execution.py` the calls. The rest is
written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hookline.agent.result import RunResult
from hookline.errors import HookError
from hookline.state import (
    EMPTY,
    NO_USAGE,
    CallStage,
    Counters,
    Decision,
    ErrorInfo,
    InferenceResponse,
    Log,
    Message,
    PendingApproval,
    ResultStatus,
    Step,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from hookline.tools import AnyTool


class CallInProgress(msgspec.Struct):
    """One tool call on its way: what the model asked for, what hooks made of it, and what came of it.

    Each group of fields is written by one module, and only by it.
    """

    made: ToolCall
    # What will run: `calls/admission.py`.
    call: ToolCall
    original: ToolCall | None = None
    """The call with the arguments it runs with, where secrets were taken out of `call`. It is kept nowhere else."""
    tool: AnyTool | None = None
    values: dict[str, Any] = EMPTY
    # What was asked about it: `approvals.py`.
    approval: PendingApproval | None = None
    decision: Decision | None = None
    questions: int = 0
    """How many questions there were about it."""
    edits: int = 0
    is_changed: bool = False
    """The call is not the one the answer was given for."""
    # What became of it: `calls/execution.py`.
    stage: CallStage | None = None
    started: bool = False
    """The tool began, or a hook gave the result in its place."""
    attempts: int = 0
    is_used: bool = False
    """An attempt has had `values`, and may have changed what is in them."""
    result: ToolResult | None = None
    is_refused: bool = False
    """Nothing ran after all: the result says why, and comes neither from the tool nor from a hook in its place."""
    exception: BaseException | None = None
    errors: tuple[ErrorInfo, ...] = ()
    """What its failed attempts left in the errors of the step."""
    failure: BaseException | None = None
    """What the error policy ends the run for."""
    seen: bool = False
    """The after_tool_use hooks have looked at the result."""
    child_approvals: tuple[PendingApproval, ...] = ()
    """What its children wait for."""
    # Its child runs: `children.py`.
    children: dict[str, RunResult] = EMPTY
    objections: dict[str, int] = EMPTY
    """How often each of its children was sent back to work."""
    counted: dict[str, Counters] = EMPTY
    """What each of its children has used of what the run has counted: another attempt does not count it again."""
    # The tool's context: `services.py`.
    failed_hook: HookError | None = None
    """A hook around a child run failed, where that is an error, whatever is made of it inside the call."""

    def result_with(self, status: ResultStatus, **fields: Any) -> ToolResult:
        """A result of this call."""
        return ToolResult(status=status, call_id=self.call.id, name=self.call.name, **fields)

    @property
    def exact(self) -> ToolCall:
        """The call as it runs: what is judged."""
        return self.original or self.call

    @property
    def has_lost_arguments(self) -> bool:
        """Whether it cannot run any more: this process does not know what was taken out of its arguments."""
        return self.call.redacted != "" and self.original is None

    @property
    def is_invalid(self) -> bool:
        """The call named no tool, or its arguments did not fit. A result that a tool gives may say anything."""
        result = self.result
        return not self.started and result is not None and result.status is ResultStatus.INVALID


class StepInProgress(msgspec.Struct):
    """One step: the model's answer, its calls, and what failed."""

    messages_before: Log[Message]
    """The conversation as the step began."""
    messages_asked: Log[Message]
    """The conversation that the model was shown: its answer comes after it."""
    started: float
    """When it began, or continued after a pause, by the run's clock."""
    active: float = 0.0
    """The seconds that it had taken before a pause."""
    usage: Usage = NO_USAGE
    errors: tuple[ErrorInfo, ...] = ()
    response: InferenceResponse | None = None
    calls: tuple[CallInProgress, ...] = ()
    is_waiting: bool = False
    """For a person: the run pauses."""
    failing: BaseException | None = None
    """What the run fails of at the end of the step."""
    offered: frozenset[str] | None = None
    """The tools that hooks before the inference left in the request, where they changed them."""
    withdrawn: frozenset[str] = frozenset()
    """The tools that hooks around the inference took out of it. They are on record: those hooks are not asked again."""
    has_withdrawn: bool = False
    """Hooks changed the tools of the request: calls have to be compared with it."""
    added: tuple[Log[Message], tuple[Message, ...]] | None = None
    """The conversation once it was settled, and what that added."""
    is_wrapped: bool = False
    """Hooks are around it."""
    unrecorded: tuple[Step, str] | None = None
    """The step that is over, and the default guard that let it end, while hooks around it are not done with it."""

    def add_error(self, info: ErrorInfo) -> None:
        """Something failed."""
        self.errors = (*self.errors, info)

    def replace_errors(self, errors: tuple[ErrorInfo, ...]) -> None:
        """Set the errors of the step to what hooks left of them."""
        self.errors = errors

    def offer(self, tools: Iterable[ToolSpec]) -> None:
        """Hooks before the inference have changed the tools of the request to these."""
        self.offered = frozenset(spec.name for spec in tools)
        self.has_withdrawn = True

    def withdraw(self, names: Iterable[str]) -> None:
        """Hooks around the inference have taken these tools out of the request."""
        self.withdrawn = frozenset(names)
        self.has_withdrawn = True

    def is_withdrawn(self, name: str) -> bool:
        """Whether a hook removed a tool from the request."""
        return name in self.withdrawn or (self.offered is not None and name not in self.offered)

    def wait(self, *, is_waiting: bool = True) -> None:
        """Note that the step waits for the answer of a person, or no longer does."""
        self.is_waiting = is_waiting

    def fail(self, error: BaseException) -> None:
        """Note the exception that ends the run with this step."""
        self.failing = error

    def settle(self, messages: Log[Message], turn: tuple[Message, ...] | None) -> None:
        """Note the conversation with this step in it. `turn` is all that was added, where that is known."""
        self.added = None if turn is None else (messages, turn)

    def leave(self, step: Step, guard: str) -> None:
        """Note a step that is over, to be recorded when the hooks around it are done."""
        self.unrecorded = step, guard

    def take_unrecorded(self) -> tuple[Step, str] | None:
        """The step that has to be recorded now, if there is one."""
        unrecorded, self.unrecorded = self.unrecorded, None
        return unrecorded
