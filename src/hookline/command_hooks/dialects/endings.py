"""How things ended, in the words of several dialects."""

from __future__ import annotations

from typing import Any

from hookline.state import AgentState, RunStatus, StopReason, ToolResult

_SESSION_ENDINGS = {RunStatus.FAILED: "error", RunStatus.CANCELLED: "aborted"}


def ending_of(state: AgentState) -> str:
    """How a session's last run ended: `completed`, `error`, `aborted` or `timeout`."""
    ending = state.ending
    if ending is None:
        return "completed"
    if ending.stop_reason is StopReason.TIME_LIMIT:
        return "timeout"
    return _SESSION_ENDINGS.get(ending.status, "completed")


def server_result(execution: ToolResult) -> dict[str, Any]:
    """What a tool of a server gave, in the form in which servers answer."""
    content = [{"type": "text", "text": execution.text()}]
    return {"content": content, "isError": not execution.is_success}
