"""Tools of each effect, for the tests of hooks around them."""

from __future__ import annotations

from typing import Any

from hookline import (
    AgentBuilder,
    ToolResult,
    tool,
)
from hookline.testing import ScriptedDriver


class Bench:
    """Tools of each effect that note when they run; `flaky` fails a given number of times."""

    def __init__(self, failures: int = 0) -> None:
        self.ran: list[Any] = []
        self.failures = failures

        @tool
        async def once(n: int) -> int:
            """Run once."""
            self.ran.append(n)
            return n

        @tool(effect="pure")
        async def pure(n: int) -> int:
            """Run as often as you like."""
            self.ran.append(n)
            return n

        @tool(effect="idempotent")
        async def flaky(n: int) -> int:
            """Fail at first."""
            self.ran.append(n)
            if self.failures:
                self.failures -= 1
                raise ConnectionError("again")
            return n

        self.tools = (once, pure, flaky)

    def builder(self, *turns: Any) -> AgentBuilder:
        return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*self.tools)


def first(result: Any) -> ToolResult:
    """The first result of the first step."""
    return result.steps[0].results[0]
