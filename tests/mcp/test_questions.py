from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, Decision, RunStatus
from hookline.mcp import McpServer, McpServers
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, calls, say

Plain = Callable[..., McpServer]


async def answer_of(mcp: McpServers, use: Any, tool: str, approver: Any) -> Any:
    """The answer that the server got."""
    used = await use(mcp, call(tool), approver=approver)
    return json.loads(used.results[0].text)


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (
            Decision.edit(name="Ada"),
            {"action": "accept", "content": {"name": "Ada", "size": "m"}},
        ),
        (Decision.deny("none of its business"), {"action": "decline"}),
        (False, {"action": "decline"}),
        (Decision.allow(), {"action": "cancel"}),
        (Decision.edit(name="Ada", size="xxl"), {"action": "cancel"}),
    ],
)
async def test_a_form_is_filled_in_by_the_approver(
    plain: Plain, use: Any, decision: Any, answer: dict[str, Any]
) -> None:
    """Edited arguments are its content; what does not fit the form is not sent."""
    async with McpServers(plain()) as mcp:
        assert await answer_of(mcp, use, "mcp__plain__ask", lambda _: decision) == answer


async def test_the_approver_is_shown_what_is_asked(plain: Plain, use: Any) -> None:
    """Who asks, what for, and which fields there are."""
    asked: list[PendingApproval] = []

    def approver(approval: PendingApproval) -> Decision:
        asked.append(approval)
        return Decision.edit(name="Ada")

    async with McpServers(plain()) as mcp:
        used = await use(mcp, call("mcp__plain__ask"), approver=approver)
    [approval] = asked
    assert approval.asked_by == "MCP server 'plain'"
    assert approval.tool_call.name == "mcp__plain__fill_in"
    assert approval.tool_call.args == {"name": None, "size": "m"}
    assert approval.reason == (
        "the server asks: Who are you? (name: string (Your name), size: one of s, m, optional)"
    )
    kinds = [record.type for record in used.run.records]
    assert kinds.index("approval_asked") < kinds.index("approval_answered")


async def test_with_nobody_to_ask_the_answer_is_no(plain: Plain, use: Any) -> None:
    """The run does not pause in the middle of a call, and the journal says that nobody was there."""
    async with McpServers(plain()) as mcp:
        used = await use(mcp, call("mcp__plain__ask"))
    assert json.loads(used.results[0].text) == {"action": "decline"}
    [answered] = [record for record in used.run.records if record.type == "approval_answered"]
    assert answered.decision.reason == "nobody can answer it now"


@pytest.mark.parametrize(("answer", "action"), [(True, "accept"), (False, "decline")])
async def test_a_page_is_visited_by_the_person(
    plain: Plain, use: Any, answer: bool, action: str
) -> None:
    """The approver sees the address, and says whether the person goes there."""
    asked: list[str] = []

    def approver(approval: PendingApproval) -> bool:
        asked.append(approval.reason)
        return answer

    async with McpServers(plain()) as mcp:
        assert await answer_of(mcp, use, "mcp__plain__visit", approver) == {"action": action}
    assert asked == ["the server asks you to open https://example.com/in: Log in."]


async def test_sampling_is_declined(plain: Plain, use: Any) -> None:
    """A server cannot use the agent's model."""
    async with McpServers(plain()) as mcp:
        used = await use(mcp, call("mcp__plain__sample"), approver=lambda _: True)
    assert json.loads(used.results[0].text)["message"] == "Sampling not supported"


async def test_the_newer_protocol_asks_alike(
    sdk: Callable[..., McpServer], use: Any, tmp_path: Path
) -> None:
    """There the call comes back with what it needs; person, roots and refusal are the same."""
    async with McpServers(sdk(roots=[tmp_path])) as mcp:
        turn = calls(call("mcp__sdk__question"), call("mcp__sdk__roots"), call("mcp__sdk__sample"))
        used = await use(mcp, turn, approver=lambda _: Decision.edit(name="Ada"))
    question, roots, sample = used.results
    assert json.loads(question.text) == {"action": "accept", "content": {"name": "Ada"}}
    assert json.loads(roots.text)["roots"] == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]
    assert sample.text == "Error: MCP server 'sdk': Sampling not supported"


async def test_when_it_is_not_known_whom_to_ask_the_answer_is_no(
    plain: Plain,
    notes: Path,
    caplog: pytest.LogCaptureFixture,
    skip_time: Callable[[float, Callable[[], bool]], asyncio.Task[None]],
) -> None:
    """Over pipes a question does not say which call it is about, and two runs may have two approvers."""
    asked: list[PendingApproval] = []

    async def run(mcp: McpServers, tool: str) -> Any:
        driver = ScriptedDriver([call(tool), say("done")])
        builder = AgentBuilder().with_driver(driver).with_capability(mcp)
        agent = builder.with_approver(lambda approval: bool(asked.append(approval))).build()
        return await agent.run("go")

    async with McpServers(plain(timeout=60, env={"KEY": "Who are you"})) as mcp:
        other = asyncio.create_task(run(mcp, "mcp__plain__hang"))
        while not (notes / "called").exists():  # noqa: ASYNC110 - the server writes a file
            await asyncio.sleep(0.01)
        result = await run(mcp, "mcp__plain__ask")
        await skip_time(60, lambda: True)
        await other
    assert json.loads(result.steps[0].results[0].text) == {"action": "decline"}
    assert asked == []
    assert "asked '[hidden]?', but there is nobody to ask" in caplog.text


async def test_a_question_ends_with_its_call(plain: Plain) -> None:
    """A run that is cancelled does not leave a person with a question that nobody has any more."""
    asked, left = asyncio.Event(), asyncio.Event()

    async def approver(_: PendingApproval) -> bool:
        asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            left.set()
        return True

    async with McpServers(plain()) as mcp:
        driver = ScriptedDriver([call("mcp__plain__ask")])
        builder = AgentBuilder().with_driver(driver).with_capability(mcp)
        agent = builder.with_approver(approver).build()
        running = asyncio.create_task(agent.run("go"))
        await asked.wait()
        agent.cancel()
        result = await running
        await left.wait()
    assert result.status is RunStatus.CANCELLED
    assert result.records[-1].type == "result"
