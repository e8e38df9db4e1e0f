"""What to do about a call that had started when its process died."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from hookline.state import ToolCall


class Doubt(enum.Enum):
    """What a check may say about a call in doubt, apart from giving its result."""

    NOT_DONE = "it did nothing: run it"
    UNKNOWN = "it cannot be told: the model reads that"


class InDoubt(msgspec.Struct, frozen=True):
    """A call in doubt, as a check gets it."""

    call: ToolCall
    idempotency_key: str
    """The key the tool was given: what it may have sent to whoever can be asked now."""


OnInDoubt: TypeAlias = Literal["tell", "ask"] | Callable[[InDoubt], Any | Awaitable[Any]]
"""For tools that must run once: tell the model, ask a person, or a function that finds out."""
