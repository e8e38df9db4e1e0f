"""A correct agent, and the errors that its users get when they use it wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hookline import AgentBuilder, RunResult, tool
from hookline.errors import HooklineError
from hookline.testing import ScriptedDriver, call, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns, or one call and an answer."""
    script = turns or (call("add", a=1, b=2), say("3"))
    return AgentBuilder().with_driver(ScriptedDriver(script)).with_tools(add)


def fine(ctx: Any) -> None:
    """A hook nothing is wrong with."""


def refused(attempt: Callable[[], object]) -> str:
    """The message with which an attempt is refused; the error is one of ours and has words for it."""
    with pytest.raises(HooklineError) as caught:
        attempt()
    return str(caught.value)


def failure(result: RunResult, name: str) -> str:
    """The whole error of the hook of this name, as it stands in the run's record."""
    for record in result.records:
        if record.type == "hook" and record.hook == name and record.verdict == "failed":  # type: ignore[attr-defined]
            return str(record.error.message)  # type: ignore[attr-defined]
    raise AssertionError(f"hook '{name}' did not fail")


class Thing:
    """Something that does not say how it becomes JSON."""
