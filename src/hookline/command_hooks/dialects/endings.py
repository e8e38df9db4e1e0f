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
    if ending.stop_reason is StopReason.CANCELLED:  # between two steps it is stopped by a hook
        return "aborted"
    return _SESSION_ENDINGS.get(ending.status, "completed")


def end_reason(ctx: Any) -> str:
    """Why a session is over, as far as whoever ended it has said so."""
    said = getattr(ctx, "source", "")
    return said if said in ("clear", "prompt_input_exit") else "other"


def is_abandoned(ctx: Any) -> bool:
    """Whether a run is about to stop because somebody does not want it to go on."""
    outcome = getattr(ctx, "continuation", None)
    return outcome is not None and outcome.stop_reason is StopReason.CANCELLED


def server_result(execution: ToolResult) -> dict[str, Any]:
    """What a tool of a server gave, in the form in which servers answer."""
    content = [{"type": "text", "text": execution.text()}]
    return {"content": content, "isError": not execution.is_success}
