"""A driver: one turn with a model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from types import CoroutineType
from typing import Protocol, TypeVar, runtime_checkable

from hookline.state import AgentState, InferenceRequest, InferenceResponse, Usage

T = TypeVar("T")


class Turn(Protocol):
    """What a driver may know of the run while it makes one turn."""

    @property
    def state(self) -> AgentState:
        """The state as it is settled now."""
        ...

    @property
    def is_streamed(self) -> bool:
        """Whether somebody reads the stream: if nobody does, there is no need to stream over the wire."""
        ...

    def emit_text(self, text: str) -> None:
        """Pass on a piece of text as it comes. It is held back while a hook may still withhold the response."""
        ...

    def emit_reasoning(self, text: str) -> None:
        """Pass on a piece of the model's thinking; held back like text."""
        ...

    def emit_call(self, call_id: str, name: str, arguments: str) -> None:
        """Pass on a piece of a call's arguments; held back like text."""
        ...

    async def keep_pace(self) -> None:
        """Wait until the reader of the stream has caught up. Call it between the chunks of a stream."""
        ...

    def charge(self, usage: Usage) -> None:
        """Count what a failed attempt used. What a response used is counted anyway."""
        ...

    def record_fallback(self, error: Exception, reason: str) -> None:
        """A model failed and another is asked in its place: what was passed on of this turn is void."""
        ...


@runtime_checkable
class Driver(Protocol):
    """One turn with a model. Errors are raised as ModelError; the error policy decides about them."""

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Ask the model."""
        ...


async def close_driver(driver: object) -> None:
    """Close a driver, if it is one that can be closed."""
    close = getattr(driver, "aclose", None)
    if close is not None:
        await close()


def awaitable(driver: Driver, given: Awaitable[T]) -> Awaitable[T]:
    """What `infer` returned, if it can be awaited; else an error."""
    if type(given) is CoroutineType or inspect.isawaitable(given):
        return given
    raise TypeError(
        f"the driver ({type(driver).__qualname__}) gave {given!r}, which cannot be awaited. "
        "Make `infer` async: `async def infer(self, request, turn)`, and return the response."
    )
