"""The context of a call: a tool gets it in a parameter that is annotated with `ToolContext`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from hookline.state import AgentState, Decision, JSONValue, ToolCall, ToolSpec, Usage


class ToolContext(ABC):
    """The run, as one call of a tool may see it. Write `context: ToolContext` as a parameter to get it.

    The agent implements it, and so may a test. Everything but `spawn` and `ask` is safe to use from a thread.
    """

    __slots__ = ("call", "idempotency_key")

    def __init__(self, call: ToolCall, idempotency_key: str) -> None:
        self.call = call
        """The call that is running, as the hooks left it."""
        self.idempotency_key = idempotency_key
        """The same for every attempt at this call, also after a crash: pass it on to what the tool changes."""

    @property
    @abstractmethod
    def state(self) -> AgentState:
        """The state before this step: the calls of this step are not in it yet."""

    @property
    @abstractmethod
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled. A sync tool that works for long should look now and then."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """How many runs are above this one: zero when nobody started it but the caller."""

    @property
    @abstractmethod
    def journal(self) -> Sequence[Any]:
        """The records of the run so far."""

    @property
    @abstractmethod
    def tools(self) -> tuple[ToolSpec, ...]:
        """All tools of the agent, also those that hooks hide from the model."""

    @abstractmethod
    def progress(self, message: JSONValue) -> None:
        """Report what the tool is doing. Listeners get it at once; it is not journalled."""

    @abstractmethod
    def charge(self, usage: Usage) -> None:
        """Count a model call the tool made itself against the limits of the run."""

    @abstractmethod
    async def spawn(self, agent: Any, prompt: str, *, name: str = "") -> Any:
        """Run another agent as a child of this run, under its limits and policies, and give its result."""

    @abstractmethod
    async def ask(self, question: ToolCall, reason: str, *, asked_by: str = "") -> Decision:
        """Ask the person who approves for this run about something the tool was asked itself.

        A run cannot pause in the middle of a tool: with nobody there to answer now, the answer is no.
        """

    def __repr__(self) -> str:
        return f"ToolContext(call={self.call.name!r}, idempotency_key={self.idempotency_key!r})"
