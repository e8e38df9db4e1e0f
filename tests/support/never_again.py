"""Agents for the tests of what must not happen again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookline import AgentBuilder, HookOutcome, HookPoint, RunResult, ToolContext, tool
from hookline.errors import ToolError
from hookline.testing import ScriptedDriver, call, calls, say


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(words: str = "the disk is full") -> str:
    """Fail."""
    raise ToolError(words)


def builder(*turns: Any) -> AgentBuilder:
    """A builder whose model plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add, fail)


POINTS = [point.value for point in HookPoint if not point.around]


def once(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook that answers the first time and then has no opinion."""
    asked: list[Any] = []

    def hook(ctx: Any) -> Any:
        asked.append(ctx)
        return answer(ctx) if len(asked) == 1 else None

    return hook


class Boom(Exception):
    """What the hooks here raise."""


def everywhere(agent: AgentBuilder, child: AgentBuilder) -> AgentBuilder:
    """A builder whose run passes every point: an ask, an error, a child."""
    built = child.build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Start a child."""
        return str((await context.spawn(built, "help", name="helper")).text)

    return (
        agent.with_tools(delegate)
        .with_approver(lambda pending: True)
        .on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask", matcher="add")
    )


def full_run() -> AgentBuilder:
    """A builder whose run calls tools, fails at one, asks, and starts a child."""
    turns = [calls(call("add", a=1, b=2), call("fail"), call("delegate")), say("done"), say("done")]
    return everywhere(builder(*turns), builder(say("child"), say("child")))


def assert_whole(result: RunResult) -> None:
    """Every call has exactly one result, right after it."""
    open_calls: list[str] = []
    for message in result.state.messages:
        if message.role == "tool":
            open_calls.remove(message.call_id)  # type: ignore[union-attr]
            continue
        assert open_calls == []
        open_calls = [call.id for call in getattr(message, "calls", ())]
    assert open_calls == []
    for step in result.steps:
        assert [each.call_id for each in step.results] == [each.id for each in step.calls]
