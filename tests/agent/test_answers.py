"""What an answer answers: exactly the question that was asked, whoever else asks, whatever became of the call."""

from __future__ import annotations

from typing import Any

import pytest
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    HookOutcome,
    RunStatus,
    tool,
)
from hookline.testing import ScriptedDriver, call, say


class Desk:
    """Payments that a policy asks about, over all processes."""

    def __init__(self) -> None:
        self.journal = PlainStore()
        self.paid: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent as a new process builds it."""

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns or [say("done")]))
            .with_tools(pay)
            .with_journal(self.journal)
            .on_before_tool_use(lambda ctx: HookOutcome.ask("money"), name="cashier", tier="policy")
        )

    def agent(self, *turns: Any) -> Agent:
        return self.builder(*turns).build()


@pytest.fixture
def desk() -> Desk:
    """Nothing is paid yet."""
    return Desk()


PAY = call("pay", amount=5)


@pytest.mark.parametrize("way", ["resume", "approver", "permission hook"])
def test_a_no_in_plain_words_is_a_no(desk: Desk, way: str) -> None:
    """As a web page sends it: `Decision(**json)`."""
    no = Decision(answer="deny", reason="not today")  # type: ignore[arg-type]
    if way == "approver":
        result = desk.builder(PAY, say("done")).with_approver(lambda _: no).build().run_sync("go")
    elif way == "permission hook":
        builder = desk.builder(PAY, say("done")).on_permission_request(lambda _: no)
        result = builder.build().run_sync("go")
    else:
        paused = desk.agent(PAY).run_sync("go", run_id="r")
        result = desk.agent().resume_sync("r", {paused.pending[0].id: no})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [])
    assert result.steps[0].results[0].text() == "Denied: not today"
