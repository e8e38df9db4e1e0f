"""A server as its tools see it: connected when needed, and started again when it went away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from hookline.errors import ToolError, ToolSourceError
from hookline.mcp.link import Link
from hookline.mcp.pins import fingerprint
from hookline.mcp.questions import ServerQuestions
from hookline.mcp.server import McpServer
from hookline.tools import ToolContext

T = TypeVar("T")
_MOST_PAGES = 100
"""Pages of a list, at most: a server may never end it."""


class Connection:
    """One server, connected as long as its tools may be called."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.tools: dict[str, types.Tool] = {}
        """What the server offers, as it said last, by the server's own names."""
        self.capabilities = types.ServerCapabilities()
        """What else it can do."""
        self._questions = ServerQuestions(server)
        self._link: Link | None = None
        self._is_stale = True
        self._is_doubted = False
        """A call was cancelled: the server may be hung, which is checked before the next one."""
        self._is_closed = False
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ready(self) -> None:
        """Connect the server, and read its list of tools, if either is needed."""
        await self._connected()

    async def close(self) -> None:
        self._is_closed = True
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    def fingerprint(self, tool: str) -> str:
        """What the server says about a tool now, as a hash; empty when it does not offer it."""
        offered = self.tools.get(tool)
        return "" if offered is None else fingerprint(offered)

    async def call(
        self, tool: str, arguments: dict[str, Any], context: ToolContext | None
    ) -> types.CallToolResult:
        """Call a tool of the server."""
        seen = self.fingerprint(tool)
        await self._connected()
        if self.fingerprint(tool) != seen:  # whoever judged this call judged another tool
            raise ToolError(
                f"MCP server '{self.server.name}' has changed its tool '{tool}' just now; it was not run.",
                remedy="Call it again if it still does what you need.",
            )

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if context is not None:
                context.progress({"progress": progress, "total": total, "message": message})

        return await self.request(
            lambda client: client.call_tool(tool, arguments, progress_callback=on_progress),
            f"tool '{tool}'",
            context,
        )

    async def request(
        self,
        send: Callable[[Client], Awaitable[T]],
        what: str,
        context: ToolContext | None = None,
    ) -> T:
        """Send a request. One that the server refused because it had forgotten our session is sent again."""
        for is_last in (False, True):
            link = await self._connected()
            with self._questions.about(context) as attempt:
                try:
                    return await send(link.client)
                except asyncio.CancelledError:
                    self._is_doubted = True
                    raise
                except MCPError as error:
                    if is_last or not attempt.is_refused:
                        # Without its cause, which has the keys that are hidden.
                        raise await self._explained(link, error, what) from None
                except (RuntimeError, ValidationError) as error:
                    raise self._nonsense(what, error) from None
            await link.end()
        raise AssertionError("the last attempt returns or raises")

    # --- being connected ------------------------------------------------------------------------------

    async def _connected(self) -> Link:
        """A live link, and a current list of tools."""
        self._check_place()
        async with self._turn:
            if self._is_doubted and not self._questions.are_possible:
                self._is_doubted, self._is_stale = (
                    False,
                    True,
                )  # an answer shows that it is not hung
            link = self._link
            if link is not None and not link.is_over and await self._is_current(link):
                return link
            return await self._connected_anew()

    async def _is_current(self, link: Link) -> bool:
        """Bring the list of tools up to date; False if the server is hung and no other call waits for it."""
        limit = self.server.connect_timeout
        if self.server.timeout is not None:
            # A call that finds it hung has time left to start it again.
            limit = min(limit, self.server.timeout / 2)
        try:
            await self._list(link, limit)
        except TimeoutError:
            if self._questions.are_possible:
                raise self._no_list(limit) from None
            return False
        return True

    async def _connected_anew(self) -> Link:
        link, self._link = self._link, None
        if link is not None:
            await link.end()
        self._is_stale = True
        link = Link(self.server, self._questions, self._tools_changed)
        await link.start()
        self._link = link
        self.capabilities = link.client.server_capabilities
        try:
            await self._list(link, self.server.connect_timeout)
        except TimeoutError:
            raise self._no_list(self.server.connect_timeout) from None
        return link

    async def _list(self, link: Link, limit: float) -> None:
        if not self._is_stale:
            return
        self._is_stale = False  # before we ask: it may change again while we do
        try:
            async with asyncio.timeout(limit):
                self.tools = await self._listed(link)
        except BaseException:
            self._is_stale = True
            raise

    def _no_list(self, limit: float) -> ToolSourceError:
        return ToolSourceError(
            f"{self._who()} did not list its tools within {limit:g} s.",
            remedy="Give it more time with connect_timeout=, or see why it does not answer.",
        )

    def _check_place(self) -> None:
        if self._is_closed:
            raise ToolSourceError(
                f"{self._who()} is not connected any more.",
                remedy="Run the agent inside the `async with` block of its McpServers.",
            )
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            raise ToolSourceError(
                f"{self._who()} is connected in another event loop than this run is in.",
                remedy="Use `await agent.run(...)` inside the `async with` block, not run_sync.",
            )

    def _tools_changed(self) -> None:
        self._is_stale = True

    async def _listed(self, link: Link) -> dict[str, types.Tool]:
        if link.client.server_capabilities.tools is None:
            return {}
        tools: dict[str, types.Tool] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            try:
                page = await link.client.list_tools(cursor=cursor)
            except MCPError as error:
                raise await self._explained(link, error, "the list of its tools") from None
            except ValidationError as error:
                raise self._nonsense("the list of its tools", error) from None
            tools.update({tool.name: tool for tool in page.tools})
            cursor = page.next_cursor
            if cursor is None:
                break
        return tools

    async def _explained(self, link: Link, error: MCPError, what: str) -> ToolError:
        if link.is_cut_by(error):
            return ToolSourceError(
                f"{self._who()} went away during {what} ({await link.how_it_ended()}); what it did is not known.",
                remedy="The next call starts it again, or finds it again.",
            )
        return ToolError(f"{self._who()}: {self.server.hide(error.message)}")

    def _nonsense(self, what: str, error: Exception) -> ToolSourceError:
        said = self.server.hide(str(error))
        return ToolSourceError(
            f"{self._who()} answered {what} with what is not in the protocol: {said}",
            remedy="The authors of the server have to fix that.",
        )

    def _who(self) -> str:
        return f"MCP server '{self.server.name}'"
