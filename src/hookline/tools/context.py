"""The context of a call: a tool gets it in a parameter that is annotated with `ToolContext`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hookline.state import AgentState, Decision, JSONValue, ToolCall, ToolSpec, Usage, freeze


class ToolHost(Protocol):
    """The run behind a `ToolContext`, which explains the members. All must be safe to use from a thread."""

    @property
    def state(self) -> AgentState: ...

    @property
    def is_cancelled(self) -> bool: ...

    @property
    def depth(self) -> int: ...

    @property
    def records(self) -> Sequence[Any]: ...

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...

    def progress(self, call: ToolCall, message: JSONValue) -> None: ...

    def charge(self, usage: Usage) -> None: ...

    async def spawn(self, call: ToolCall, agent: Any, prompt: str, name: str) -> Any: ...

    async def ask(
        self, call: ToolCall, question: ToolCall, reason: str, asked_by: str
    ) -> Decision: ...


class ToolContext:
    """The run, as one call of a tool may see it. Write `context: ToolContext` as a parameter to get it."""

    __slots__ = ("_host", "call", "idempotency_key")

    def __init__(self, host: ToolHost, call: ToolCall, idempotency_key: str) -> None:
        self._host = host
        self.call = call
        """The call that is running, as the hooks left it."""
        self.idempotency_key = idempotency_key
        """The same for every attempt at this call, also after a crash: pass it on to what the tool changes."""

    @property
    def state(self) -> AgentState:
        """The state before this step: the calls of this step are not in it yet."""
        return self._host.state

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled. A sync tool that works for long should look now and then."""
        return self._host.is_cancelled

    @property
    def depth(self) -> int:
        """How many runs are above this one: zero when nobody started it but the caller."""
        return self._host.depth

    @property
    def journal(self) -> Sequence[Any]:
        """The records of the run so far."""
        return self._host.records

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """All tools of the agent, also those that hooks hide from the model."""
        return self._host.tools

    def progress(self, message: JSONValue) -> None:
        """Report what the tool is doing. Listeners get it at once; it is not journalled."""
        self._host.progress(
            self.call, freeze(message, f"a progress message of tool '{self.call.name}'")
        )

    def charge(self, usage: Usage) -> None:
        """Count a model call the tool made itself against the limits of the run."""
        self._host.charge(usage)

    async def spawn(self, agent: Any, prompt: str, *, name: str = "") -> Any:
        """Run another agent as a child of this run, under its limits and policies, and give its result."""
        return await self._host.spawn(self.call, agent, prompt, name)

    async def ask(self, question: ToolCall, reason: str, *, asked_by: str = "") -> Decision:
        """Ask the person who approves for this run about something the tool was asked itself.

        A run cannot pause in the middle of a tool: with nobody there to answer now, the answer is no.
        """
        return await self._host.ask(self.call, question, reason, asked_by or self.call.name)

    def __repr__(self) -> str:
        return f"ToolContext(call={self.call.name!r}, idempotency_key={self.idempotency_key!r})"
