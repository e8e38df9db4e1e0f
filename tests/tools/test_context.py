"""What a tool may ask of the run it is part of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hookline.errors import NotJSONError
from hookline.state import AgentState, FrozenDict, ToolCall, Usage
from hookline.tools import ToolContext, ToolHost, tool


class Run:
    """A host that keeps what was reported to it."""

    def __init__(self) -> None:
        self.state = AgentState(run_id="r")
        self.is_cancelled = False
        self.depth = 2
        self.records: Sequence[Any] = ("record",)
        self.heard: list[Any] = []

    def progress(self, call: ToolCall, message: Any) -> None:
        self.heard.append((call.id, message))

    def charge(self, usage: Usage) -> None:
        self.heard.append(usage)

    async def spawn(self, call: ToolCall, agent: Any, prompt: str, name: str) -> Any:
        return call.id, agent, prompt, name


def made() -> tuple[Run, ToolContext]:
    """A run, and what a tool sees of it."""
    run = Run()
    host: ToolHost = run
    return run, ToolContext(host, ToolCall("1", "f"), "r/1/1")


def test_a_tool_reads_the_run_as_it_is_now() -> None:
    """Not as it was when the call began."""
    run, context = made()
    assert (context.call.name, context.idempotency_key) == ("f", "r/1/1")
    assert (context.state.run_id, context.journal, context.is_cancelled) == (
        "r",
        ("record",),
        False,
    )
    run.is_cancelled, run.state, run.records = True, AgentState(run_id="s"), ()
    assert (context.state.run_id, context.journal, context.is_cancelled) == ("s", (), True)
    assert context.depth == 2
    assert repr(context) == "ToolContext(call='f', idempotency_key='r/1/1')"


def test_progress_is_json_and_names_its_call() -> None:
    """It is frozen before a listener gets it; a value that is not JSON is an error that names the tool."""
    run, context = made()
    context.progress({"done": 3})
    context.progress("half")
    assert run.heard == [("1", {"done": 3}), ("1", "half")]
    assert isinstance(run.heard[0][1], FrozenDict)
    with pytest.raises(NotJSONError, match="a progress message of tool 'f'"):
        context.progress(object())


def test_a_model_call_of_the_tools_own_is_counted() -> None:
    """Its usage is reported to the host."""
    run, context = made()
    context.charge(Usage(input_tokens=5))
    assert run.heard == [Usage(input_tokens=5)]


async def test_a_child_run_belongs_to_the_call() -> None:
    """The host gets the call that asked, the agent, the prompt and a name."""
    _, context = made()
    assert await context.spawn("agent", "go") == ("1", "agent", "go", "")
    assert await context.spawn("agent", "go", name="scout") == ("1", "agent", "go", "scout")


async def test_a_sync_tool_reports_from_its_thread() -> None:
    """What the host gets comes from the running call."""

    @tool
    def f(steps: int, context: ToolContext) -> str:
        for step in range(steps):
            context.progress(step)
        return context.idempotency_key

    run, context = made()
    assert await f.invoke(f.validate({"steps": 2}).values, context) == "r/1/1"
    assert run.heard == [("1", 0), ("1", 1)]
