"""A server's tools as tools of an agent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import mcp_types as types

from hookline.errors import NotJSONError, ToolDefinitionError
from hookline.mcp.names import tool_names
from hookline.state import FrozenDict, ToolResult, ToolSpec, freeze_dict
from hookline.tools import AnyTool, Effect, Tool, ToolContext
from hookline.tools.json_schema import SchemaArguments
from hookline.tools.tool import DEFAULT_MAX_CHARS

if TYPE_CHECKING:
    from hookline.mcp.connection import Connection

_log = logging.getLogger("hookline.mcp")


def offered_tools(connection: Connection) -> Iterator[tuple[str, AnyTool]]:
    """What a server offers as tools, each with the server's own name for it."""
    names = tool_names(connection.server.name, connection.tools)
    for offered in connection.tools.values():
        tool = _made(connection, offered, names[offered.name])
        if tool is not None:
            yield offered.name, tool


def _made(connection: Connection, offered: types.Tool, name: str) -> AnyTool | None:
    server = connection.server

    async def use(arguments: dict[str, Any], context: ToolContext | None = None) -> ToolResult:
        return await connection.call(offered.name, arguments, context)

    try:
        schema = _schema(offered)
        arguments = SchemaArguments(name, schema)
    except (ToolDefinitionError, NotJSONError) as error:
        _log.warning("%s: its tool '%s' is left out: %s", server.name, offered.name, error)
        return None
    return Tool(
        use,
        ToolSpec(name, offered.description or offered.title or "", schema),
        arguments,
        f"tool '{offered.name}' of MCP server '{server.name}'",
        True,
        "context",
        _effect(offered.annotations),
        server.timeout,
        None,
        False,
        DEFAULT_MAX_CHARS,
        served_by=server.target.words,
    )


def _schema(offered: types.Tool) -> FrozenDict:
    """The schema as it came; providers insist on properties, be they none."""
    return freeze_dict({"properties": {}, **offered.input_schema}, "the schema of a tool")


def _effect(hints: types.ToolAnnotations | None) -> Effect:
    """What the server says that running the tool twice would do; what it does not say is assumed to matter."""
    if hints is not None and hints.read_only_hint:
        return Effect.PURE
    if hints is not None and hints.idempotent_hint:
        return Effect.IDEMPOTENT
    return Effect.ONCE
