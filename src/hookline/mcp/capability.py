"""MCP servers as a capability: connected inside an `async with` block."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hookline.agent import hook
from hookline.command_hooks.trusted_files import find_bound, find_listed
from hookline.errors import BuildError, ToolSourceError, UsageError
from hookline.extras import install_command
from hookline.hooks import HookOutcome, Registration
from hookline.lifecycle import ToolHookContext
from hookline.mcp.pins import Pins, PinStore
from hookline.mcp.server import McpServer, ServerCommand, tool_names
from hookline.tools import AnyTool

if TYPE_CHECKING:
    from hookline.mcp.connection import Connection


def from_sdk_side(module: str, name: str) -> Any:
    """A name of a module that imports the MCP SDK, which is slow to import and an extra."""
    try:
        return getattr(import_module(f"hookline.mcp.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("hookline"):
            raise
        raise BuildError(
            f"MCP needs the package '{error.name}', which is not installed.",
            remedy=f"Run: {install_command('mcp')}",
        ) from None


class McpServers:
    """Connections to MCP servers, and a capability that gives an agent their tools.

        async with McpServers(McpServer.stdio("mcp-server-time")) as mcp:
            agent = AgentBuilder().with_model(...).with_capability(mcp).build()
            await agent.run("What time is it?")

    `pins` keeps the servers' descriptions of their tools: a dict, or a file. Before a tool runs that is described
    differently later, or is new, a person is asked.
    """

    def __init__(self, *servers: McpServer, name: str = "mcp", pins: PinStore = None) -> None:
        for server in servers:
            if not isinstance(server, McpServer):
                raise BuildError(
                    f"{server!r} is not an MCP server.",
                    remedy="Use McpServer.stdio(command, args) or McpServer.http(url).",
                )
        names = [server.name for server in servers]
        for twice in {each for each in names if names.count(each) > 1}:
            raise BuildError(
                f"two MCP servers are called '{twice}'.", remedy="Give one of them another name=."
            )
        self.name = name
        self.servers = servers
        self._pins = Pins(pins)
        self._connections: tuple[Connection, ...] | None = None
        self._given: dict[str, tuple[Connection, str]] = {}
        """The tools that agents were given: by the name here, whose it is and what it is called there."""

    async def __aenter__(self) -> McpServers:
        if self._connections is not None:
            raise UsageError(
                "these MCP servers are connected already.",
                remedy="Make another McpServers of them.",
            )
        connect = from_sdk_side("connection", "Connection")
        connections = tuple(connect(server) for server in self.servers)
        try:
            async with asyncio.TaskGroup() as together:
                for connection in connections:
                    together.create_task(connection.ready())
        except BaseException as error:
            await _close(connections)
            while isinstance(error, BaseExceptionGroup):  # the others follow from the first
                error = error.exceptions[0]
            raise error from None
        self._connections = connections
        for connection in connections:
            now = {tool: connection.fingerprint(tool) for tool in connection.tools}
            self._pins.trust_first(connection.server.name, now)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connections, self._connections = self._connections, None
        await _close(connections or ())

    # --- a capability -------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        """The tools of all servers, as they offer them now."""
        from hookline.mcp.tools import offered_tools, readers

        made: list[AnyTool] = []
        for connection in self._open():
            named = dict[str, AnyTool]()
            for theirs, tool in offered_tools(connection):
                named[tool.name] = tool
                self._given[tool.name] = (connection, theirs)
            made += [*named.values(), *readers(connection, named)]
        return made

    def protected_files(self) -> set[str]:
        """What servers are started from: one that is started again must be the same."""
        found: list[Path] = []
        here = Path(os.path.realpath(os.curdir))
        for each in (server.target for server in self.servers):
            if isinstance(each, ServerCommand):
                place = Path(each.directory)
                found += find_bound(each.as_hook(), here if place.is_relative_to(here) else place)
                found += find_listed(each.files, Path("/"))
        real = map(os.path.realpath, found)
        return {path for path in real if not here.is_relative_to(path)}

    def hooks(self) -> list[Registration]:
        """The hook that asks a person before a tool runs that is not what was trusted."""
        name = f"{self.name}-pins"
        return [hook("before_tool_use", self._judge, name=name, tier="policy", matcher="mcp__*")]

    async def _judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        if ctx.tool_call.name not in self._given:
            return None
        connection, tool = self._given[ctx.tool_call.name]
        # A server that was started again, or that says so, may offer something else. One that cannot be reached is
        # judged by what it said last: the call will say that it is gone, and runs nothing that it finds changed.
        with contextlib.suppress(ToolSourceError):
            await connection.ready()
        objection = self._pins.objection(connection.server.name, tool, connection.fingerprint(tool))
        return HookOutcome.ask(objection) if objection else None

    # --- pins ---------------------------------------------------------------------------------------

    def changed_tools(self) -> dict[str, str]:
        """The tools that are not what was trusted, by their names here, and what is the matter with each."""
        objections = {
            name: self._pins.objection(connection.server.name, tool, connection.fingerprint(tool))
            for name, (connection, tool) in self._offered_tools().items()
        }
        return {name: objection for name, objection in objections.items() if objection}

    def accept(self, *names: str) -> None:
        """Trust these tools as they are now, by their names here; without names, all of them."""
        changed, offered = self.changed_tools(), self._offered_tools()
        for name in names or changed:
            if name not in offered:
                raise UsageError(
                    f"there is no tool '{name}' here.",
                    remedy=f"Changed: {', '.join(changed) or 'nothing'}.",
                )
            connection, tool = offered[name]
            self._pins.trust(connection.server.name, {tool: connection.fingerprint(tool)})

    def _offered_tools(self) -> dict[str, tuple[Connection, str]]:
        """What the servers offer now: by the name here, whose it is and what it is called there."""
        return {
            ours: (connection, theirs)
            for connection in self._open()
            for theirs, ours in tool_names(connection.server.name, connection.tools).items()
        }

    def _open(self) -> tuple[Connection, ...]:
        if self._connections is None:
            raise UsageError(
                "the MCP servers are not connected.",
                remedy="Use them inside `async with McpServers(...) as mcp:`.",
            )
        return self._connections

    def __repr__(self) -> str:
        return f"<McpServers {', '.join(server.name for server in self.servers)}>"


async def _close(connections: Iterable[Connection]) -> None:
    closing = [asyncio.ensure_future(connection.close()) for connection in connections]
    if closing:
        await asyncio.wait(closing)
