"""Calls that a hook of Gemini's wants made after a tool: `tailToolCallRequest`.

Such a call takes the place of the model's next turn. So it is a call like any other: it is validated, hooks and
policies judge it, a person may be asked about it, and it is on record.
"""

from __future__ import annotations

from typing import Any

from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.lifecycle import InferenceHookContext, ToolHookContext
from hookline.state import InferenceResponse, ToolCall

REQUEST = "tailToolCallRequest"
_WAITING = "hookline.command_hooks.tail_calls"


def wanted_after(ctx: ToolHookContext, wanted: Any, place: Place) -> ToolHookContext:
    """The context in which such a call waits to be made. What it gives is what the model reads, and not the result."""
    name, args = (wanted.get("name"), wanted.get("args")) if isinstance(wanted, dict) else ("", {})
    if not isinstance(name, str) or not name or not isinstance(args, dict | None):
        return ctx
    call = _ours(ctx, name, args or {}, place)
    waiting = [*_waiting(ctx), {"id": call.id, "name": call.name, "args": call.args}]
    told = ctx.with_result(f"A hook goes on with {call.name}: what that gives is the result.")
    return told.with_metadata(_WAITING, waiting)


def make_calls(ctx: InferenceHookContext) -> InferenceHookContext | None:
    """The turn in which the calls that wait are made, in the place of one of the model's."""
    waiting = _waiting(ctx)
    if not waiting:
        return None
    calls = (ToolCall(each["id"], each["name"], each["args"]) for each in waiting)
    made = ctx.with_response(InferenceResponse(calls=tuple(calls)))
    return made.with_state(made.state.without_metadata(_WAITING))


def _waiting(ctx: Any) -> list[Any]:
    found = ctx.state.get(_WAITING)
    return list(found) if isinstance(found, list) else []


def _ours(ctx: ToolHookContext, name: str, args: dict[str, Any], place: Place) -> ToolCall:
    """The call under our names: the tool that is shown to hooks by that name, with its own keys."""
    dialect = DIALECTS["gemini"]
    call_id = f"{ctx.tool_call.id}-tail"
    for spec in () if ctx.run is None else ctx.run.tools:
        keys = dict.fromkeys(spec.parameters.get("properties", {}))
        blank = ToolCall(call_id, spec.name, keys)
        shown = dialect.show(blank, place)
        if name in (spec.name, shown.name, *shown.aliases):
            return dialect.bridge.back(blank, shown, args)
    return ToolCall(call_id, name, args)
