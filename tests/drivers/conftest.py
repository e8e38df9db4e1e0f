"""What the tests of drivers share."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentState
from hookline.state import Usage


class FakeTurn:
    """A turn that keeps what a driver hands on."""

    def __init__(self, *, is_streamed: bool = True) -> None:
        self.state = AgentState()
        self.is_streamed = is_streamed
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[tuple[str, str, str]] = []
        self.fallbacks: list[tuple[Exception, str]] = []
        self.charged: list[Usage] = []
        self.waited = 0

    def emit_text(self, text: str) -> None:
        self.text.append(text)

    def emit_reasoning(self, text: str) -> None:
        self.reasoning.append(text)

    def emit_call(self, call_id: str, name: str, arguments: str) -> None:
        self.calls.append((call_id, name, arguments))

    async def keep_pace(self) -> None:
        self.waited += 1

    def charge(self, usage: Usage) -> None:
        self.charged.append(usage)

    def record_fallback(self, error: Exception, reason: str) -> None:
        self.fallbacks.append((error, reason))


@pytest.fixture
def turn() -> Any:
    """A turn that keeps what a driver hands on."""
    return FakeTurn()
