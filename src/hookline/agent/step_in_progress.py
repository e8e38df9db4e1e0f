"""What a run knows of the step it is making. Each step has its own.

`loop/turn.py` writes what comes of the model, `calls/phase.py` the calls; everything else is written here.
"""

from __future__ import annotations

import msgspec

from hookline.agent.call_in_progress import CallInProgress
from hookline.state import NO_USAGE, ErrorInfo, InferenceResponse, Log, Message, Usage


class StepInProgress(msgspec.Struct):
    """One step: the model's answer, its calls, and what failed."""

    messages_before: Log[Message]
    """The conversation as the step began."""
    messages_asked: Log[Message]
    """The conversation that the model was shown: its answer comes after it."""
    started: float
    """When it began, or went on after a pause, by the run's clock."""
    active: float = 0.0
    """The seconds that it had taken before a pause."""
    usage: Usage = NO_USAGE
    errors: tuple[ErrorInfo, ...] = ()
    response: InferenceResponse | None = None
    calls: list[CallInProgress] = []
    is_waiting: bool = False
    """For a person: the run pauses."""
    failing: BaseException | None = None
    """What the run fails of at the end of the step."""
    added: tuple[Log[Message], tuple[Message, ...]] | None = None
    """The conversation once it was settled, and what that added."""

    def add_error(self, info: ErrorInfo) -> None:
        """Something failed."""
        self.errors = (*self.errors, info)

    def replace_errors(self, errors: tuple[ErrorInfo, ...]) -> None:
        """Hooks leave this of what failed."""
        self.errors = errors

    def wait(self, *, is_waiting: bool = True) -> None:
        """A call needs an answer that is not there."""
        self.is_waiting = is_waiting

    def fail(self, error: BaseException) -> None:
        """The run fails of this."""
        self.failing = error

    def settle(self, messages: Log[Message], turn: tuple[Message, ...] | None) -> None:
        """It is in the conversation; `turn` is all that was added, where that is known."""
        self.added = None if turn is None else (messages, turn)
