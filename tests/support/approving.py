"""A till whose payments have to be approved, for the tests of approvals."""

from __future__ import annotations

from typing import Any

from hookline import (
    AgentBuilder,
    HookOutcome,
    tool,
)
from hookline.testing import ScriptedDriver


class Bench:
    """Tools that note when they run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @tool
        async def pay(amount: int, to: str = "kim") -> str:
            """Pay."""
            self.ran.append(("pay", amount, to))
            return f"paid {amount}"

        @tool
        async def look(n: int = 0) -> str:
            """Look."""
            self.ran.append(("look", n))
            return "seen"

        self.tools = (pay, look)

    def builder(self, *turns: Any) -> AgentBuilder:
        return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*self.tools)

    def asking(self, *turns: Any, tier: str = "policy") -> AgentBuilder:
        """A builder whose agent asks before every payment."""
        return self.builder(*turns).on_before_tool_use(
            lambda ctx: HookOutcome.ask(f"pay {ctx.tool_call.args['amount']}?"),
            matcher="pay",
            name="cashier",
            tier=tier,
        )


def statuses(result: Any, step: int = 0) -> list[str]:
    """The results of the calls of a step."""
    return [each.status.value for each in result.steps[step].results]
