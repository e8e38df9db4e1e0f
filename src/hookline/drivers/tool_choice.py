"""Which tool a model must call, and whether that can be."""

from __future__ import annotations

import msgspec

from hookline.errors import ModelError
from hookline.state import InferenceRequest, ToolMessage, UserMessage


def choosing(request: InferenceRequest, tool_choice: str) -> InferenceRequest:
    """The request with a driver's tool choice, unless the request has its own, or a tool was used already."""
    if tool_choice == "auto" or request.tool_choice != "auto" or _used_a_tool(request):
        return request
    return msgspec.structs.replace(request, tool_choice=tool_choice)


def _used_a_tool(request: InferenceRequest) -> bool:
    """Whether a tool was used since the last prompt."""
    for message in reversed(request.messages):
        if isinstance(message, ToolMessage):
            return True
        if isinstance(message, UserMessage) and not message.by:
            return False
    return False


def check_choice(request: InferenceRequest) -> None:
    """Refuse a request for a tool that is not offered."""
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice in ("auto", "none") or choice in names or (choice == "required" and names):
        return
    raise ModelError(
        f"tool_choice={choice!r} asks for a tool that is not offered.",
        remedy=f"Offered: {', '.join(names) or 'none'}; or use 'auto', 'none' or 'required'.",
    )
