"""Hooks that are a tool of an MCP server: the tool is called, and its text is read like the output of a program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.process import Ran
from hookline.errors import HooklineError
from hookline.state import ToolCall, ToolResult

_PLACE = re.compile(r"\$\{([\w.-]+)\}")


def tool_of(server: str, tool: str) -> str:
    """What a tool of a server is called here."""
    return f"mcp__{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"


async def call_tool(handler: Handler, ctx: Any, payload: Mapping[str, Any]) -> Ran:
    """Call the tool. A server that is not connected, or says that it failed, is a hook that has failed."""
    tool = None if ctx.run is None else ctx.run.tool(handler.tool)
    if tool is None:
        return Ran(
            None, problem="spawn_error", detail=f"the tool '{handler.tool}' is not connected"
        )
    given = filled(handler.input, payload)
    try:
        values = tool.validate_call(ToolCall("hook", handler.tool, given)).values
        result = await tool.invoke(values, None)
    except HooklineError as error:
        return Ran(1, "", str(error))
    if isinstance(result, ToolResult):
        text = result.text()
        return Ran(0, text) if result.is_success else Ran(1, "", text)
    return Ran(0, result if isinstance(result, str) else json.dumps(result, default=str))


def filled(value: Any, payload: Mapping[str, Any]) -> Any:
    """What a tool is given, with `${tool_input.file_path}` and the like as they are in the event."""
    if isinstance(value, Mapping):
        return {str(name): filled(each, payload) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [filled(each, payload) for each in value]
    if not isinstance(value, str):
        return value
    return _PLACE.sub(lambda found: _text(found[1], payload), value)


def _text(path: str, payload: Mapping[str, Any]) -> str:
    found: Any = payload
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
