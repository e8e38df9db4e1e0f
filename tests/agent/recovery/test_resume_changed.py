"""A run taken up by an agent that has changed meanwhile: what is on record stands, and only what is new is judged."""

from __future__ import annotations

from typing import Any

import pytest
from lives import Tape, cut

from hookline import AgentBuilder, Decision, HookOutcome, RunStatus, StopReason, ToolContext, tool
from hookline.state import ResultStatus
from hookline.testing import FakeClock, ScriptedDriver, call, say


class Till:
    """Pays, and keeps count of it over all its lives."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.paid: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"receipt for {amount}"

        driver = ScriptedDriver([*turns] or [say("done")])
        return AgentBuilder().with_driver(driver).with_tools(pay).with_journal(self.tape)

    def die_after(self, kind: str) -> None:
        """The process died right after the first record of this kind."""
        at = next(i for i, record in enumerate(self.tape.written) if record.type == kind) + 1
        self.tape = cut(self.tape, at)


async def paid_and_died(after: str) -> Till:
    """A run whose process died in its one payment, or right after it."""
    till = Till()
    agent = till.builder(call("pay", amount=5), say("done")).build()
    await agent.run("go", run_id="run")
    till.die_after(after)
    return till


LATE = {
    "block": lambda _: HookOutcome.block("a new rule"),
    "ask": lambda _: HookOutcome.ask("a new rule"),
    "rewrite": lambda ctx: ctx.with_args(amount=7),
}


@pytest.mark.parametrize("tier", ["hook", "policy"])
@pytest.mark.parametrize("verdict", ["block", "ask"])
async def test_a_call_that_started_is_in_doubt_whatever_a_new_hook_thinks_of_it(
    tier: str, verdict: str
) -> None:
    """There is nothing left to judge, so nobody is asked and nothing is paid twice."""
    till = await paid_and_died("call")
    changed = till.builder().on_before_tool_use(LATE[verdict], name="late", tier=tier).build()
    result = await changed.resume("run")
    assert result.status is RunStatus.COMPLETED
    assert not result.pending
    assert result.steps[0].results[0].status is ResultStatus.IN_DOUBT
    assert till.paid == [5]


@pytest.mark.parametrize("verdict", LATE)
async def test_a_result_on_record_stands_whatever_a_new_hook_thinks_of_the_call(
    verdict: str,
) -> None:
    """Neither before the call nor after it."""
    till = await paid_and_died("tool_result")
    builder = till.builder().on_before_tool_use(LATE[verdict], name="late")
    builder.on_after_tool_use(lambda ctx: HookOutcome.block("withheld"), name="late too")
    result = await builder.build().resume("run")
    assert [told.text() for told in result.steps[0].results] == ["receipt for 5"]
    assert result.steps[0].calls[0].args == {"amount": 5}
    assert till.paid == [5]


async def test_a_call_whose_tool_is_gone_is_in_doubt() -> None:
    """It had started: to say that there is no such tool would be to say that it had not."""
    till = await paid_and_died("call")
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_journal(till.tape)
    result = await agent.build().resume("run")
    (told,) = result.steps[0].results
    assert told.status is ResultStatus.IN_DOUBT
    assert "no tool of today" in told.text()


async def test_a_tool_that_was_declared_harmless_since_is_not_run_again() -> None:
    """What it was when it started counts."""
    till = await paid_and_died("call")

    @tool(effect="pure")
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        return "again"

    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(pay)
    result = await agent.with_journal(till.tape).build().resume("run")
    assert result.steps[0].results[0].status is ResultStatus.IN_DOUBT
    assert till.paid == [5]


async def test_a_new_hook_is_not_asked_about_an_answer_that_was_given() -> None:
    """The model was asked, and what it said is on record."""
    till = await paid_and_died("call")
    asked: list[str] = []
    builder = till.builder()
    for point in ("before_step", "before_inference", "after_inference"):
        builder.add_hook(point, lambda ctx: asked.append(f"{ctx.point} {ctx.step_index}"))
    await builder.build().resume("run")
    assert asked == ["before_step 1", "before_inference 1", "after_inference 1"]


async def test_a_call_that_was_edited_is_taken_up_as_it_ran() -> None:
    """A person changed the amount, a hook changed it again, the person said yes: that is the call in doubt."""
    till = Till()
    answers = iter((Decision.edit(amount=50), Decision.allow()))

    def cap(ctx: Any) -> Any:
        amount = ctx.tool_call.args["amount"]
        return ctx.with_args(amount=40) if amount == 50 else None

    def ask(ctx: Any) -> HookOutcome:
        return HookOutcome.ask("money")

    def with_hooks(builder: AgentBuilder) -> AgentBuilder:
        builder.on_before_tool_use(cap, name="cap")
        return builder.on_before_tool_use(ask, name="ask", tier="policy")

    builder = with_hooks(till.builder(call("pay", amount=100), say("done")))
    await builder.with_approver(lambda _: next(answers)).build().run("go", run_id="run")
    till.die_after("call")
    result = await with_hooks(till.builder()).build().resume("run")
    assert result.status is RunStatus.COMPLETED
    assert not result.pending
    assert result.steps[0].calls[0].args == {"amount": 40}
    assert till.paid == [40]


async def test_a_child_that_was_running_is_taken_up() -> None:
    """That it started is safe before it begins, so that whoever takes up its parent finds it."""
    till = Till()

    def family(*child_turns: Any) -> AgentBuilder:
        inner = till.builder(*child_turns).with_id("child").build()

        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(inner, "task")).text

        driver = ScriptedDriver([call("delegate"), say("all done")])
        return AgentBuilder().with_driver(driver).with_tools(delegate).with_journal(till.tape)

    await family(call("pay", amount=1), say("child done")).build().run("go", run_id="run")
    kinds = [(record.run_id == "run", record.type) for record in till.tape.written]
    till.tape = cut(till.tape, kinds.index((False, "tool_result")) + 1)
    assert "child_started" in [record.type for record in till.tape.read("run")]
    again = family(say("child done")).with_driver(ScriptedDriver([say("all done")]))
    result = await again.build().resume("run")
    assert [told.text() for told in result.steps[0].results] == ["child done"]
    assert till.paid == [1]


async def test_the_time_of_a_step_that_was_not_settled_counts() -> None:
    """What is on record of it, without the time between the two processes."""
    clock = FakeClock()
    till = Till()

    async def slow(_: Any) -> None:
        await clock.sleep(7)

    def builder(seconds: float, *turns: Any) -> AgentBuilder:
        limited = till.builder(*turns).with_limits(seconds=seconds).with_clock(clock)
        return limited.on_before_inference(slow, name="slow")

    await builder(30, call("pay", amount=5), say("done")).build().run("go", run_id="run")
    till.die_after("call")
    await clock.sleep(1000)
    result = await builder(5).build().resume("run")
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.state.counters.active_seconds == 7
