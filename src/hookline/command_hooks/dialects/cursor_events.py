"""What Cursor's hooks are told of children, summaries and ends, and how files and answers look to them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.command_hooks.dialects.base import SHELL_TOOLS, Place, as_uuid, output_text
from hookline.command_hooks.dialects.endings import end_reason, ending_of
from hookline.state import AgentState, RunStatus, ToolCall, ToolResult, Usage

_MOST_CONTENT = 1 << 20
_LETTERS = 4
"""Letters of a token, about."""
_ENDINGS = {RunStatus.FAILED: "error", RunStatus.CANCELLED: "aborted"}


def session_fields(place: Place) -> dict[str, Any]:
    """The session by the two names it has there, and by ours."""
    session = place.session_uuid
    return {
        "conversation_id": session,
        "session_id": session,
        "native_session_id": place.session_id,
    }


def child_started(ctx: Any, place: Place) -> dict[str, Any]:
    """A child run is about to begin."""
    return {
        "subagent_id": as_uuid(ctx.child_run_id),
        "subagent_type": ctx.name,
        "task": ctx.prompt,
        "parent_conversation_id": place.session_uuid,
        "tool_call_id": _call_id(ctx.child_run_id),
        "subagent_model": place.model,
        "is_parallel_worker": False,
    }


def child_ended(ctx: Any, place: Place) -> dict[str, Any]:
    """How a child run ended, and what it did."""
    result = ctx.result
    messages = () if result is None else result.state.messages
    status = getattr(result, "status", None)
    seconds = 0.0 if result is None else result.state.counters.active_seconds
    return {
        "subagent_id": as_uuid(ctx.child_run_id),
        "subagent_type": ctx.name,
        "status": "completed" if status is None else _ENDINGS.get(status, "completed"),
        "task": ctx.prompt,
        "description": _description(ctx),
        "summary": getattr(result, "text", "") or "",
        "duration_ms": round(seconds * 1000),
        "message_count": len(messages),
        "tool_call_count": sum(len(getattr(each, "calls", ())) for each in messages),
        "loop_count": place.objections,
        "modified_files": [] if result is None else list(_changed_files(result.state, place)),
        "agent_transcript_path": place.child_transcript or None,
    }


def _call_id(child_run_id: str) -> str:
    """The call that began a child: a run is named after its parent, the step, the call, and a number."""
    parts = child_run_id.rsplit("/", 2)
    return parts[1] if len(parts) > 2 else ""


def _description(ctx: Any) -> str:
    """What the model said that the child is for, in a few words."""
    response, call_id = getattr(ctx.live, "response", None), _call_id(ctx.child_run_id)
    calls = () if response is None else response.calls
    given: Mapping[str, Any] = next((call.args for call in calls if call.id == call_id), {})
    return str(given.get("description", ""))


def _changed_files(state: AgentState, place: Place) -> Iterator[str]:
    """The files that a run wrote, each once."""
    seen: set[str] = set()
    for step in state.steps:
        for call, result in zip(step.calls, step.results, strict=False):
            path = call.args.get("path")
            if call.name in ("write", "edit") and result.is_success and isinstance(path, str):
                full = os.path.normpath(Path(place.cwd) / path)
                if full not in seen:
                    seen.add(full)
                    yield full


def compacting(ctx: Any) -> dict[str, Any]:
    """History is about to be summarised. How large a model's window is nobody says here."""
    made = ctx.state.metadata.get("summaries")
    letters = sum(len(message.text) for message in ctx.state.messages)
    return {
        "trigger": "auto",
        "context_tokens": letters // _LETTERS,
        "message_count": len(ctx.state.messages),
        "messages_to_compact": len(ctx.messages),
        "is_first_compaction": not (isinstance(made, dict) and made.get("count")),
    }


def session_ended(ctx: Any) -> dict[str, Any]:
    """How a session ended, and how long it worked."""
    state: AgentState = ctx.state
    ended = ending_of(state).replace("timeout", "aborted")
    sent = {
        "reason": "user_close" if end_reason(ctx) == "prompt_input_exit" else ended,
        "duration_ms": round(state.counters.active_seconds * 1000),
        "is_background_agent": False,
        "final_status": ended,
    }
    if ended != "error" or state.ending is None:
        return sent
    return {**sent, "error_message": state.ending.reason}


def tokens(usage: Usage) -> dict[str, int]:
    """What a model was given and gave."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return {name: getattr(usage, name) for name in names}


# --- files ----------------------------------------------------------------------------------------------


def content_of(path: str, place: Place) -> str:
    """What a file of the project has in it, as far as it is shown to hooks."""
    full = Path(path)
    try:
        if not full.resolve().is_relative_to(place.project) or not full.is_file():
            return ""
        with full.open("rb") as file:
            return file.read(_MOST_CONTENT).decode(errors="replace")
    except OSError:
        return ""


def output_of(call: ToolCall, execution: ToolResult) -> str:
    """What a tool gave, as JSON in a text; of a command also how it ended."""
    if call.name not in SHELL_TOOLS:
        return json.dumps(output_text(execution))
    code = execution.metadata.get("exit_code", 0)
    return json.dumps({"exitCode": code, "stdout": output_text(execution)})


def result_in(call: ToolCall, said: Any) -> Any:
    """What a hook made of a tool's output, which it was shown as JSON in a text."""
    try:
        value = json.loads(said) if isinstance(said, str) else said
    except ValueError:
        return said
    if call.name in SHELL_TOOLS and isinstance(value, dict):
        return value.get("stdout", said)
    return value if isinstance(value, str) else said


def edits_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    """What a call changes in a file."""
    if "edits" in given:
        return [
            {key: edit.get(key, "") for key in ("old_string", "new_string")}
            for edit in given["edits"]
        ]
    if "content" in given:
        return [{"old_string": "", "new_string": given["content"]}]
    return [{key: given.get(key, "") for key in ("old_string", "new_string")}]
