"""A tool that asks the person while it runs: `ToolContext.ask`."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, Decision, RunStatus, ToolCall, ToolContext, tool
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, calls, say


@tool
async def order(context: ToolContext) -> str:
    """Order something, if the person agrees to the price."""
    question = ToolCall("", "pay", {"price": 5})
    decision = await context.ask(question, "it costs something")
    return f"{decision.answer}: {decision.reason}"


def describe(*turns: Any) -> AgentBuilder:
    """An agent that makes these turns."""
    return AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(order)


def said(result: Any) -> list[str]:
    """What the calls of a run gave."""
    return [each.text() for step in result.steps for each in step.results]


async def test_the_approver_answers() -> None:
    """It sees the question as a call, and who asked; the journal has both the question and the answer."""
    asked: list[PendingApproval] = []

    def approver(approval: PendingApproval) -> Decision:
        asked.append(approval)
        return Decision.allow("it is cheap")

    result = await describe(call("order")).with_approver(approver).build().run("go")
    assert said(result) == ["allow: it is cheap"]
    [approval] = asked
    assert (approval.tool_call.name, approval.tool_call.args) == ("pay", {"price": 5})
    assert (approval.reason, approval.asked_by) == ("it costs something", "order")
    kinds = [record.type for record in result.records]
    order_of = [
        kinds.index(kind) for kind in ("call", "approval_asked", "approval_answered", "tool_result")
    ]
    assert order_of == sorted(order_of)


async def test_with_nobody_there_the_answer_is_no() -> None:
    """The run does not pause in the middle of a tool."""
    result = await describe(call("order")).build().run("go")
    assert result.status is RunStatus.COMPLETED
    assert said(result) == ["deny: nobody is there to answer it now"]


async def test_permission_hooks_are_asked_first() -> None:
    """As they are when a hook asks."""
    builder = describe(call("order")).with_approver(lambda _: True)
    builder.on_permission_request(lambda ctx: Decision.deny(f"no {ctx.tool_call.name}ing"))
    assert said(await builder.build().run("go")) == ["deny: no paying"]


async def test_every_question_has_an_id_of_its_own() -> None:
    """Also when two calls of a step ask at the same time."""
    asked: list[str] = []

    def approver(approval: PendingApproval) -> bool:
        asked.append(approval.id)
        return True

    turn = calls(call("order"), call("order"))
    await describe(turn).with_approver(approver).build().run("go")
    assert len(set(asked)) == 2
    assert all(each.endswith("/ask-1") for each in asked)


async def test_a_child_asks_the_approver_of_its_parent() -> None:
    """One person answers for the whole tree."""
    child = describe(call("order")).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Let another do it."""
        return said(await context.spawn(child, "go"))[0]

    parent = describe(call("delegate")).with_tools(delegate).with_approver(lambda _: True)
    assert said(await parent.build().run("go")) == ["allow: "]


@pytest.mark.parametrize("remember", [True, False])
async def test_an_answer_can_be_remembered(remember: bool) -> None:
    """The same question is not asked twice, then."""
    count = 0

    def approver(_: PendingApproval) -> Decision:
        nonlocal count
        count += 1
        return Decision.allow(remember=remember)

    await describe(call("order"), call("order")).with_approver(approver).build().run("go")
    assert count == (1 if remember else 2)


async def test_a_tool_in_a_thread_cannot_ask() -> None:
    """It is told how it could."""

    @tool
    def order_sync(context: ToolContext) -> str:
        """Order something."""
        import asyncio

        return str(asyncio.run(context.ask(ToolCall("", "pay"), "it costs something")))

    builder = describe(call("order_sync")).with_tools(order_sync).with_approver(lambda _: True)
    [text] = said(await builder.build().run("go"))
    assert "Make the tool async" in text
