from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from session_mcp_server import SessionServer

from hookline import AgentBuilder, Decision, RunStatus
from hookline.errors import ToolSourceError
from hookline.mcp import McpServer, McpServers
from hookline.testing import ScriptedDriver, call, calls

Start = Callable[..., tuple[Any, str]]


async def test_a_server_at_an_address_is_used_alike(start_http: Start, use: Any) -> None:
    """Tools, questions, roots and changes come over streamable HTTP as they do over pipes."""
    _, url = start_http()
    async with McpServers(McpServer.http(url, name="far")) as mcp:
        turn = calls(
            call("mcp__far__echo", text="hi"),
            call("mcp__far__question"),
            call("mcp__far__contents"),
        )
        used = await use(mcp, turn, approver=lambda _: Decision.edit(name="Ada"))
        echo, question, contents = used.results
        assert echo.result == "hi"
        assert '"content":{"name":"Ada"}' in question.text
        assert len(contents.attachments) == 3
        await use(mcp, call("mcp__far__change"))
        # The news comes over another connection than the answer, and may be later. In time it is there.
        while (
            await use(mcp, call("mcp__far__echo", text="hi"))
        ).run.status is not RunStatus.PAUSED:
            pass


async def test_a_call_reports_progress_and_can_be_cancelled(start_http: Start) -> None:
    """The server learns at once that nobody waits any more."""
    _, url = start_http()
    seen: list[Any] = []
    begun = asyncio.Event()

    def hear(record: Any) -> None:
        if record.type == "progress":
            seen.append(record.message)
            begun.set()

    async with McpServers(McpServer.http(url, name="far")) as mcp:
        driver = ScriptedDriver([call("mcp__far__slow")])
        agent = AgentBuilder().with_driver(driver).with_capability(mcp).on_event(hear).build()
        running = asyncio.create_task(agent.run("go"))
        await begun.wait()
        agent.cancel()
        assert (await running).status is RunStatus.CANCELLED
        [cancellations] = [tool for tool in mcp.tools() if tool.name == "mcp__far__cancellations"]
        while (await cancellations(arguments={})).result != "slow":
            pass
    assert seen[0] == {"progress": 1.0, "total": 60.0, "message": "part 1"}


async def test_a_server_that_dies_is_found_again(start_http: Start, use: Any) -> None:
    """The call it died in says so; once it is back at its address, calls work again."""
    process, url = start_http()
    async with McpServers(McpServer.http(url, name="far")) as mcp:
        died = (await use(mcp, call("mcp__far__die"))).results[0]
        assert "was lost during tool 'die'" in died.text
        process.wait()
        gone = (await use(mcp, call("mcp__far__echo", text="x"))).results[0]
        assert not gone.is_success
        start_http(port=int(url.split(":")[2].partition("/")[0]))
        back = (await use(mcp, call("mcp__far__echo", text="x"))).results[0]
    assert back.result == "x"


@pytest.mark.parametrize("status", [404, 400])
async def test_a_server_that_forgot_us_is_greeted_again(use: Any, status: int) -> None:
    """What it did not look at is asked again, once, and nobody notices."""
    with SessionServer() as server:
        server.unknown_status = status
        async with McpServers(McpServer.http(server.url, name="far")) as mcp:
            assert (await use(mcp, call("mcp__far__echo", text="a"))).results[0].result == "a"
            server.sessions.clear()
            assert (await use(mcp, call("mcp__far__echo", text="b"))).results[0].result == "b"
    assert server.calls == ["a", "b"]
    assert server.greeted == 2


async def test_an_address_that_never_lists_its_tools_is_given_up(
    skip_time: Callable[[float, Callable[[], bool]], asyncio.Task[None]],
) -> None:
    """The time to connect is for the list as well."""
    with SessionServer() as server:
        server.lists.clear()
        skipped = skip_time(60, server.is_asked_to_list.is_set)
        with pytest.raises(ToolSourceError, match=r"did not list its tools within 60 s"):
            await McpServers(McpServer.http(server.url, connect_timeout=60)).__aenter__()
        await skipped
        server.lists.set()


async def test_keys_go_into_headers(start_http: Start, use: Any) -> None:
    """A server that is locked opens to those who have its key, and the error for others says what to do."""
    _, url = start_http("--locked")
    key = {"Authorization": "Bearer open-sesame"}
    async with McpServers(McpServer.http(url, headers=key, name="far")) as mcp:
        assert (await use(mcp, call("mcp__far__echo", text="x"))).results[0].result == "x"
    wrong = McpServer.http(url, headers={"Authorization": "Bearer wrong-key"}, name="far")
    with pytest.raises(ToolSourceError, match="HTTP 401") as refused:
        await McpServers(wrong).__aenter__()
    assert "headers={'Authorization'" in refused.value.remedy
    assert "wrong-key" not in str(refused.value)


async def test_an_address_that_is_silent_or_wrong_is_reported(start_http: Start) -> None:
    """Without what may be a key in it."""
    process, url = start_http()
    with pytest.raises(ToolSourceError, match="HTTP 404") as refused:
        await McpServers(McpServer.http(f"{url}/wrong?key=abcdefgh", name="far")).__aenter__()
    assert "abcdefgh" not in str(refused.value)
    process.kill()
    process.wait()
    with pytest.raises(ToolSourceError, match=f"{url} cannot be reached") as refused:
        await McpServers(McpServer.http(url, name="far")).__aenter__()
    assert "See that it runs" in refused.value.remedy
