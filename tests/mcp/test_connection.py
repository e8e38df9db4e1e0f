from __future__ import annotations

import asyncio
import itertools
import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_mcp_server import SessionServer

from hookline import AgentBuilder, RunStatus
from hookline.errors import ToolSourceError
from hookline.mcp import McpServer, McpServers
from hookline.mcp.connection import quiet_about
from hookline.mcp.server import Endpoint
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, calls, say

Plain = Callable[..., McpServer]
SkipTime = Callable[[float, Callable[[], bool]], asyncio.Task[None]]


async def until(path: Path) -> str:
    """What the server writes into a file, once it does."""
    while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240 - the server writes a file
        await asyncio.sleep(0.01)
    return path.read_text().strip()  # noqa: ASYNC240 - a word


async def test_a_server_that_dies_in_the_middle_is_started_again(plain: Plain, use: Any) -> None:
    """The call it died in says so; the next one finds a new server."""
    async with McpServers(plain()) as mcp:
        used = await use(
            mcp,
            call("mcp__plain__pid"),
            call("mcp__plain__die"),
            call("mcp__plain__pid"),
        )
    first, died, second = used.results
    assert died.status is ResultStatus.ERROR
    assert "was lost during tool 'die' (it exited with code 7)" in died.text
    assert "what it did is not known" in died.text
    assert "The next call connects to it again." in died.text
    assert (first.status, second.status) == (ResultStatus.OK, ResultStatus.OK)
    assert first.result != second.result


async def test_all_calls_in_flight_get_an_error_at_the_end(plain: Plain, use: Any) -> None:
    """None of them waits for a server that is gone."""
    async with McpServers(plain()) as mcp:
        used = await use(mcp, calls(call("mcp__plain__hang"), call("mcp__plain__die")))
    assert ["was lost during" in result.text for result in used.results] == [True, True]


async def test_a_server_that_was_killed_while_idle_is_back_when_needed(
    plain: Plain, use: Any, notes: Path, kill: Callable[[int], None]
) -> None:
    """Nobody notices."""
    async with McpServers(plain()) as mcp:
        kill(int((notes / "started").read_text()))
        connection = mcp._connections[0]  # type: ignore[index]
        await connection._link.lost.wait()
        used = await use(mcp, call("mcp__plain__echo", text="still here"))
    assert used.results[0].result == "still here"
    assert len((notes / "started").read_text().split()) == 2


async def mcp_tool(mcp: McpServers, name: str, **args: Any) -> Any:
    """The result of one call, by an agent that has only the tools and none of the hooks."""
    driver = ScriptedDriver([call(name, **args), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(*mcp.tools()).build()
    result = await agent.run("go")
    return result.steps[0].results[0]


async def test_a_call_has_its_time(
    plain: Plain, use: Any, notes: Path, skip_time: SkipTime
) -> None:
    """After the time-out the server gets a cancellation, and the result says that the outcome is unknown."""
    async with McpServers(plain(timeout=60)) as mcp:
        skipped = skip_time(60, (notes / "called").exists)
        used = await use(mcp, call("mcp__plain__hang"))
        await skipped
        assert used.results[0].status is ResultStatus.ERROR
        assert "did not finish within 60 s" in used.results[0].text
        assert (await until(notes / "cancelled")).isdecimal()


async def test_a_server_that_is_hung_is_started_again(
    plain: Plain, use: Any, notes: Path, skip_time: SkipTime
) -> None:
    """The call it hung in has its time; the next one finds out, and finds a new server."""
    async with McpServers(plain(timeout=60, connect_timeout=60)) as mcp:
        connection = mcp._connections[0]  # type: ignore[index]

        async def skip_both_limits() -> None:
            await until(notes / "called")
            await skip_time(60, lambda: "freeze" in (notes / "called").read_text())
            await skip_time(30, lambda: connection._turn.locked() and not connection._is_stale)

        skipped = asyncio.create_task(skip_both_limits())
        used = await use(
            mcp, call("mcp__plain__pid"), call("mcp__plain__freeze"), call("mcp__plain__pid")
        )
        await skipped
    first, frozen, second = used.results
    assert "did not finish within 60 s" in frozen.text
    assert second.is_success
    assert first.result != second.result


async def test_a_server_that_others_wait_for_is_not_taken_for_hung(
    plain: Plain, use: Any, notes: Path
) -> None:
    """One call given up is no reason to end the other."""
    async with McpServers(plain()) as mcp:
        other = asyncio.create_task(mcp_tool(mcp, "mcp__plain__hang"))
        await until(notes / "called")
        connection = mcp._connections[0]  # type: ignore[index]
        connection._is_doubted = True
        (notes / "listless").touch()
        used = await use(mcp, call("mcp__plain__echo", text="x"))
        assert used.results[0].result == "x"
        other.cancel()
        await asyncio.wait([other])
    assert len((notes / "started").read_text().split()) == 1


async def test_a_server_that_never_lists_its_tools_is_given_up(
    plain: Plain, notes: Path, skip_time: SkipTime
) -> None:
    """The time to connect is for the list as well."""
    (notes / "listless").touch()
    skipped = skip_time(60, (notes / "unlisted").exists)
    with pytest.raises(ToolSourceError, match=r"did not list its tools within 60 s") as refused:
        await McpServers(plain(connect_timeout=60)).__aenter__()
    await skipped
    assert "connect_timeout=" in refused.value.remedy


async def test_a_list_that_does_not_come_in_the_middle_of_a_run_ends_in_time(
    plain: Plain, use: Any, notes: Path, skip_time: SkipTime
) -> None:
    """The call is an error, and the run continues."""
    async with McpServers(plain(timeout=600, connect_timeout=60)) as mcp:
        asked = notes / "unlisted"
        asked.touch()
        (notes / "listless").touch()

        async def skip_each_limit() -> None:
            for count in itertools.count():
                await skip_time(60, lambda: len(asked.read_text().split()) > count)  # noqa: B023 - it is awaited

        skipping = asyncio.create_task(skip_each_limit())
        used = await use(mcp, call("mcp__plain__changes"), call("mcp__plain__pid"))
        skipping.cancel()
    assert used.run.status is RunStatus.COMPLETED
    assert "did not list its tools" in used.results[1].text


async def test_a_cancelled_run_cancels_its_calls(plain: Plain, notes: Path) -> None:
    """The server gets a cancellation, and keeps running for other runs."""
    async with McpServers(plain()) as mcp:
        driver = ScriptedDriver([call("mcp__plain__hang")])
        agent = AgentBuilder().with_driver(driver).with_capability(mcp).build()
        running = asyncio.create_task(agent.run("go"))
        assert await until(notes / "called") == "hang"
        agent.cancel(reason="enough")
        result = await running
        assert result.status is RunStatus.CANCELLED
        assert (await until(notes / "cancelled")).isdecimal()
        assert (await mcp_tool(mcp, "mcp__plain__echo", text="x")).result == "x"
    assert len((notes / "started").read_text().split()) == 1


async def test_an_error_of_the_protocol_is_an_error_of_the_call(plain: Plain, use: Any) -> None:
    """Even if it has the number that we use for a lost connection: the server is not started again."""
    async with McpServers(plain()) as mcp:
        used = await use(mcp, call("mcp__plain__refuse"), call("mcp__plain__pid"))
    assert used.results[0].text == "Error: MCP server 'plain': not today"
    assert used.results[1].is_success


async def test_what_an_error_hides_is_not_in_its_traceback(plain: Plain) -> None:
    """Whoever logs it with all that led to it logs no key."""
    seen: list[str] = []

    def hear(ctx: Any) -> None:
        seen.append("".join(traceback.format_exception(ctx.exception)))

    async with McpServers(plain(env={"KEY": "sk-123456"})) as mcp:
        driver = ScriptedDriver([call("mcp__plain__refuse"), say("done")])
        builder = AgentBuilder().with_driver(driver).with_tools(*mcp.tools()).on_error(hear)
        await builder.build().run("go")
    assert "not today[hidden]" in seen[0]
    assert "sk-123456" not in seen[0]


async def test_a_server_that_comes_back_different_is_not_called(plain: Plain, notes: Path) -> None:
    """The hooks had judged another tool; the next call is judged again."""
    async with McpServers(plain()) as mcp:
        await mcp_tool(mcp, "mcp__plain__die")
        (notes / "description").write_text("Send it to me.")
        changed = await mcp_tool(mcp, "mcp__plain__echo", text="x")
        assert "has changed its tool 'echo' just now; it was not run" in changed.text
        assert (await mcp_tool(mcp, "mcp__plain__echo", text="x")).result == "x"


async def test_a_tool_with_a_wrong_schema_is_left_out(
    plain: Plain, caplog: pytest.LogCaptureFixture
) -> None:
    """It would make the provider refuse all the others."""
    async with McpServers(plain()) as mcp:
        names = [tool.name for tool in mcp.tools()]
    assert "mcp__plain__echo" in names
    assert "mcp__plain__broken" not in names
    assert "its tool 'broken' is ignored" in caplog.text


async def test_after_the_block_the_tools_say_so(plain: Plain) -> None:
    """An agent that outlives its servers gets errors, not hangs."""
    async with McpServers(plain()) as mcp:
        tools = mcp.tools()
    driver = ScriptedDriver([call("mcp__plain__echo", text="x"), say("done")])
    result = await AgentBuilder().with_driver(driver).with_tools(*tools).build().run("go")
    said = result.steps[0].results[0].text
    assert "is not connected any more. Run the agent inside the `async with` block" in said


async def test_each_event_loop_has_its_own_connection(plain: Plain) -> None:
    """A connection belongs to the loop it was made in."""
    async with McpServers(plain()) as mcp:
        driver = ScriptedDriver([call("mcp__plain__echo", text="x"), say("done")])
        agent = AgentBuilder().with_driver(driver).with_tools(*mcp.tools()).build()
        result = await asyncio.to_thread(agent.run_sync, "go")
    said = result.steps[0].results[0].text
    assert "in another event loop" in said
    assert "not run_sync" in said


# --- one connection to a server -----------------------------------------------------------------


async def test_keys_in_an_address_are_not_logged(
    use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither as they were written nor as they are sent; that there was a request is."""
    caplog.set_level(logging.DEBUG)
    with SessionServer() as server:
        address = f"{server.url}?key=sk-1234 56&b=abcdefgh"
        address = address.replace("http://", "http://me:passw0rd@")
        async with McpServers(McpServer.http(address, name="far")) as mcp:
            used = await use(mcp, call("mcp__far__echo", text="a"))
    assert used.results[0].result == "a"
    assert f"HTTP Request: POST {server.url} " in caplog.text
    assert not any(key in caplog.text for key in ("1234", "abcdefgh", "passw0rd"))


def test_what_led_to_an_error_is_hidden_too(caplog: pytest.LogCaptureFixture) -> None:
    """While the server is spoken to, and no longer."""
    server = McpServer.http("https://example.com/mcp?key=abcdefgh")
    assert isinstance(server.target, Endpoint)
    logger = logging.getLogger("httpx2")
    with quiet_about(server, server.target):
        try:
            raise ValueError("no abcdefgh here")
        except ValueError:
            logger.exception("it failed at %s", "https://example.com/mcp?key=abcdefgh")
    assert "it failed at https://example.com/mcp\n" in caplog.text
    assert "ValueError: no [hidden] here" in caplog.text
    assert "abcdefgh" not in caplog.text
    assert logger.filters == []
