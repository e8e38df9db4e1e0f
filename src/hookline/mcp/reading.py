"""A server's resources and prompts, as tools that list and read them: for servers that were given leave to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from hookline.mcp.contents import rendered, resource_result
from hookline.mcp.names import distinct_name, tool_name
from hookline.state import ToolResult
from hookline.tools import AnyTool, ToolContext, tool

if TYPE_CHECKING:
    from hookline.mcp.connection import Connection

_MOST_PAGES = 20


def readers(connection: Connection, taken: Collection[str]) -> Iterator[AnyTool]:
    """The tools that read what the server was given leave to show, if it has it; `taken` are names in use."""
    server, offers = connection.server, connection.capabilities
    functions: list[Callable[..., Any]] = []
    if server.resources and offers.resources is not None:
        functions += _resource_readers(connection)
    if server.prompts and offers.prompts is not None:
        functions += _prompt_readers(connection)
    for function in functions:
        name = tool_name(server.name, function.__name__)
        yield tool(
            function,
            name=distinct_name(server.name, f"/{function.__name__}") if name in taken else name,
            effect="pure",
            timeout=server.timeout,
        )


def _resource_readers(connection: Connection) -> list[Callable[..., Any]]:
    async def list_resources(context: ToolContext) -> list[dict[str, str]]:
        """List the resources that this MCP server can show: their URIs, and templates of URIs."""
        resources: list[types.Resource] = await connection.request(
            lambda client: _all(client.list_resources, "resources"), "its resources", context
        )
        templates: list[types.ResourceTemplate] = await connection.request(
            lambda client: _all(client.list_resource_templates, "resource_templates"),
            "its resources",
            context,
        )
        return [
            *[_shown(each, uri=str(each.uri)) for each in resources],
            *[_shown(each, uri_template=each.uri_template) for each in templates],
        ]

    async def read_resource(uri: str, context: ToolContext) -> ToolResult:
        """Read a resource of this MCP server.

        Args:
            uri: Its URI as it was listed, or made of a URI template.
        """
        return resource_result(
            await connection.request(
                lambda client: client.read_resource(uri), f"resource '{uri}'", context
            )
        )

    return [list_resources, read_resource]


def _prompt_readers(connection: Connection) -> list[Callable[..., Any]]:
    async def list_prompts(context: ToolContext) -> list[dict[str, Any]]:
        """List the prompts that this MCP server has written, and the arguments they take."""
        prompts: list[types.Prompt] = await connection.request(
            lambda client: _all(client.list_prompts, "prompts"), "its prompts", context
        )
        return [
            {**_shown(each), "arguments": [_shown(argument) for argument in each.arguments or ()]}
            for each in prompts
        ]

    async def get_prompt(
        name: str, context: ToolContext, arguments: dict[str, str] | None = None
    ) -> str:
        """Read a prompt of this MCP server.

        Args:
            name: Its name as it was listed.
            arguments: What to fill it in with.
        """
        prompt = await connection.request(
            lambda client: client.get_prompt(name, arguments or {}), f"prompt '{name}'", context
        )
        return "\n\n".join(
            f"{message.role}: {rendered([message.content])[0]}" for message in prompt.messages
        )

    return [list_prompts, get_prompt]


async def _all(page: Callable[..., Awaitable[Any]], field: str) -> list[Any]:
    """All pages of a list; none, if the server does not know this kind of list."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            result = await page(cursor=cursor)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                break
            raise
        found += getattr(result, field)
        cursor = result.next_cursor
        if cursor is None:
            break
    return found


def _shown(thing: Any, **more: str) -> dict[str, str]:
    described = {"name": thing.name, **more, "description": thing.description}
    return {key: value for key, value in described.items() if value}
