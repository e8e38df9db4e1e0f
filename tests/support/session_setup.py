"""A journal with sessions and agents, for the tests of sessions."""

from __future__ import annotations

from typing import Any

from plain_store import PlainStore

from hookline import Agent, AgentBuilder, HookOutcome, ToolContext, tool
from hookline.sessions import Sessions
from hookline.testing import FakeClock, ScriptedDriver


class SessionSetup:
    """A journal with sessions in it, and agents that write to it."""

    def __init__(self, journal: PlainStore | None = None) -> None:
        self.journal = journal or PlainStore()
        self.clock = FakeClock()
        self.seen: list[str] = []
        self.paid: list[int] = []

    @property
    def sessions(self) -> Sessions:
        """The sessions of the journal, as another process would open them."""
        return Sessions(self.journal, clock=self.clock)

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent that looks, pays when somebody says yes, and notes how sessions begin and end."""

        @tool(effect="pure")
        async def look(at: str = "") -> str:
            """Look."""
            return f"seen {at}"

        @tool
        async def pay(context: ToolContext, amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return (
            AgentBuilder()
            .with_id("clerk")
            .with_driver(ScriptedDriver(turns))
            .with_tools(look, pay)
            .with_journal(self.journal)
            .with_clock(self.clock)
            .on_session_start(lambda ctx: self.seen.append(f"start {ctx.session_id} {ctx.source}"))
            .on_session_end(lambda ctx: self.seen.append(f"end {ctx.session_id}"))
            .on_before_tool_use(
                lambda ctx: HookOutcome.ask("sure?"), matcher="pay", name="cashier", tier="policy"
            )
        )

    def agent(self, *turns: Any) -> Agent:
        """The same, built."""
        return self.builder(*turns).build()
