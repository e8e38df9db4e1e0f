"""Agents that start each other: for the tests of child runs."""

from __future__ import annotations

from typing import Any

from hookline import (
    Agent,
    AgentBuilder,
    HookOutcome,
    RunResult,
    ToolContext,
    tool,
)
from hookline.testing import ScriptedDriver, call, say


class World:
    """Agents that start each other, and what happened."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.results: list[RunResult] = []
        self.agents: dict[str, Agent] = {}

        @tool
        async def work(n: int) -> int:
            """Work."""
            self.ran.append(n)
            return n

        @tool
        async def delegate(to: str, task: str = "do it", context: ToolContext = None) -> str:  # type: ignore[assignment]
            """Have another agent do it."""
            result = await context.spawn(self.agents[to], task, name=to)
            self.results.append(result)
            return result.text or result.status.value

        self.tools = (work, delegate)

    def builder(self, *turns: Any) -> AgentBuilder:
        return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*self.tools)

    def add(self, name: str, agent: AgentBuilder) -> Agent:
        """Build an agent under a name."""
        self.agents[name] = agent.with_id(name).build()
        return self.agents[name]

    def chain(self, *turns: Any) -> AgentBuilder:
        """A parent over a child over a grandchild that plays these turns; the parent is not built yet."""
        self.add("grandchild", self.builder(*turns))
        self.add("child", self.builder(call("delegate", to="grandchild"), say("child done")))
        return self.builder(call("delegate", to="child"), say("parent done"))


def blocks(n: int) -> Any:
    """A hook that blocks work on one number."""
    return lambda ctx: HookOutcome.block("forbidden") if ctx.tool_call.args["n"] == n else None
