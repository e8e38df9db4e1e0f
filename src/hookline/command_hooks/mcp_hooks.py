"""Hooks that are an MCP tool: its text is read like the output of a program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hookline.command_hooks.handler import Handler, ProgramResult
from hookline.errors import HooklineError
from hookline.hooks import run_hooks
from hookline.lifecycle import AgentContext, HookPoint, ToolHookContext
from hookline.state import ToolCall, ToolResult

_PLACE = re.compile(r"\$\{([\w.-]+)\}")


def tool_of(server: str, tool: str) -> str:
    """The name of an MCP tool here."""
    return f"mcp__{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"


async def call_tool(
    handler: Handler, ctx: AgentContext, payload: Mapping[str, Any]
) -> ProgramResult:
    """Call the tool. A missing or failing server is a hook that failed.

    The user agreed to the call with the hook, so no question is asked. What a policy forbids is not called.
    """
    tool = _found(handler.tool, ctx)
    if tool is None:
        return ProgramResult(
            None, problem="spawn_error", detail=f"the tool '{handler.tool}' is not connected"
        )
    call = ToolCall("hook", handler.tool, filled(handler.input, payload))
    try:
        values = tool.validate_call(call).values
        refused = await _refusal(call, ctx)
        if refused:
            return ProgramResult(None, problem="spawn_error", detail=f"it is not called: {refused}")
        result = await tool.invoke(values, None)
    except HooklineError as error:
        return ProgramResult(1, "", str(error))
    if isinstance(result, ToolResult):
        text = result.text()
        return ProgramResult(0, text) if result.is_success else ProgramResult(1, "", text)
    return ProgramResult(0, result if isinstance(result, str) else json.dumps(result, default=str))


def _found(name: str, ctx: AgentContext) -> Any:
    """The tool, of this run or of one above it: a guard holds in child runs without such a tool, too."""
    run = ctx.run
    while run is not None:
        tool = run.tool(name)
        if tool is not None:
            return tool
        run = run.parent
    return None


async def _refusal(call: ToolCall, ctx: AgentContext) -> str:
    """Why the policies of the run forbid a call; empty if they do not."""
    plan = ctx.live.plans.before_tool_use
    if plan is None or not plan.policies:
        return ""
    asked = ToolHookContext(
        point=HookPoint.BEFORE_TOOL_USE, state=ctx.state, live=ctx.live, tool_call=call
    )
    result = await run_hooks(plan, asked, policies_only=True)
    is_forbidden = result.is_blocked or result.is_stopped
    return f"{result.reason} ({result.decided_by})" if is_forbidden else ""


def filled(value: Any, payload: Mapping[str, Any]) -> Any:
    """The arguments of a tool, with `${tool_input.file_path}` and the like replaced by what is in the event."""
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
