"""The context of a call, as a test of a tool may make one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hookline.state import AgentState, Decision, ToolCall, Usage
from hookline.tools import ToolContext, tool


class FakeContext(ToolContext):
    """A context of no run, which remembers what it was told."""

    state = AgentState(run_id="r")
    is_cancelled = False
    depth = 0
    journal: Sequence[Any] = ()
    tools = ()

    def __init__(self) -> None:
        super().__init__(ToolCall("1", "f"), "r/1/1")
        self.heard: list[Any] = []

    def progress(self, message: Any) -> None:
        self.heard.append(message)

    def charge(self, usage: Usage) -> None:
        self.heard.append(usage)

    async def spawn(self, agent: Any, prompt: str, *, name: str = "") -> Any:
        return agent, prompt, name

    async def ask(self, question: ToolCall, reason: str, *, asked_by: str = "") -> Decision:
        return Decision.allow()


async def test_a_tool_can_be_tried_with_a_context_of_ones_own() -> None:
    """A sync tool uses it from its thread."""

    @tool
    def f(steps: int, context: ToolContext) -> str:
        for step in range(steps):
            context.progress(step)
        context.charge(Usage(input_tokens=steps))
        return context.idempotency_key

    context = FakeContext()
    assert await f.invoke(f.validate({"steps": 2}).values, context) == "r/1/1"
    assert context.heard == [0, 1, Usage(input_tokens=2)]
    assert repr(context) == "ToolContext(call='f', idempotency_key='r/1/1')"


def test_a_context_that_lacks_a_part_is_none() -> None:
    """A tool would find out in the middle of its work."""

    class Half(ToolContext):
        depth = 0

    with pytest.raises(TypeError, match="abstract"):
        Half(ToolCall("1", "f"), "key")  # type: ignore[abstract]
