"""Claude Code's forms of our tools: names, arguments and results. Other dialects share some of them."""

from __future__ import annotations

import re
from typing import Any

from hookline.command_hooks.tools import (
    SHELL_TOOLS,
    ToolForm,
    failure_text,
    file_path,
    output_text,
    was_ended,
)
from hookline.state import ToolCall, ToolResult, thaw

FILE_KEYS = {"path": "file_path"}
EDIT_KEYS = {"path": "file_path", "old": "old_string", "new": "new_string"}

SEARCH_KEYS = {
    "include": "glob",
    "ignore_case": "-i",
    "context": "-C",
    "mode": "output_mode",
    "limit": "head_limit",
}

TOOLS: dict[str, ToolForm] = {
    "bash": ToolForm("Bash", {"background": "run_in_background"}),
    "exec": ToolForm("Bash", {}),
    "bash_poll": ToolForm("BashOutput", {"id": "bash_id"}, ("TaskOutput",)),
    "bash_stop": ToolForm("KillShell", {"id": "shell_id"}, ("KillBash", "TaskStop")),
    "read": ToolForm("Read", FILE_KEYS),
    "write": ToolForm("Write", FILE_KEYS),
    "edit": ToolForm("Edit", EDIT_KEYS, several="MultiEdit"),
    "list": ToolForm("LS", {}),
    "glob": ToolForm("Glob", {}),
    "search": ToolForm("Grep", SEARCH_KEYS),
    "todo_write": ToolForm("TodoWrite", {"items": "todos", "tasks": "todos"}),
    "spawn_subagent": ToolForm("Agent", {"agent": "subagent_type"}, ("Task",)),
    "load_skill": ToolForm("Skill", {"name": "skill"}),
    "web_fetch": ToolForm("WebFetch", {}),
    "fetch": ToolForm("WebFetch", {}),
    "web_search": ToolForm("WebSearch", {}),
}

_AT_LINE = re.compile(r" at lines? (\d+)")
_OF_LINES = re.compile(r"^\[lines? .* of (\d+)\b.*\]$", re.M)


def response_of(call: ToolCall, execution: ToolResult, cwd: str) -> Any:
    """The result of a call, in the form of the tool there."""
    if not execution.is_success and call.name not in SHELL_TOOLS:
        return execution.text
    made = _FORMS.get(call.name)
    if made is not None:
        return made(call, execution, file_path(call.args.get("path"), cwd))
    given = thaw(execution.result)
    if call.name.startswith("mcp__") and isinstance(given, str):
        return _text_blocks(given)
    return given


def _command_result(_call: ToolCall, execution: ToolResult, _path: str) -> dict[str, Any]:
    return {
        "stdout": output_text(execution),
        "stderr": "",
        "interrupted": execution.metadata.get("ended", "") not in ("", "exited", "running"),
        "isImage": False,
    }


def _write_result(call: ToolCall, execution: ToolResult, path: str) -> dict[str, Any]:
    said = execution.text
    return {
        "type": "create" if said.startswith("Made ") else "update",
        "filePath": path,
        "content": call.args.get("content", ""),
        "structuredPatch": [],
        "originalFile": None,
        "success": True,
        "message": said,
    }


def _edit_result(call: ToolCall, execution: ToolResult, path: str) -> dict[str, Any]:
    said, args = execution.text, thaw(call.args)
    found = _AT_LINE.search(said)
    edits = args.get("edits") or [args]
    return {
        "filePath": path,
        "oldString": str(edits[0].get("old", "")),
        "newString": str(edits[0].get("new", "")),
        "originalFile": None,
        "structuredPatch": [_hunk(each, int(found[1]) if found else 1) for each in edits],
        "userModified": False,
        "replaceAll": bool(args.get("replace_all")),
        "success": True,
        "message": said,
    }


def _hunk(edit: dict[str, Any], start: int) -> dict[str, Any]:
    old = str(edit.get("old", "")).splitlines()
    new = str(edit.get("new", "")).splitlines()
    return {
        "oldStart": start,
        "oldLines": len(old),
        "newStart": start,
        "newLines": len(new),
        "lines": [*(f"-{line}" for line in old), *(f"+{line}" for line in new)],
    }


def _read_result(call: ToolCall, execution: ToolResult, path: str) -> dict[str, Any]:
    content = output_text(execution)
    lines = len(content.splitlines())
    offset = call.args.get("offset", 1)
    start = offset if isinstance(offset, int) and offset > 0 else 1
    total = _OF_LINES.search(execution.text)
    file = {"filePath": path, "content": content, "numLines": lines, "startLine": start}
    return {"type": "text", "file": {**file, "totalLines": int(total[1]) if total else lines}}


def _child_result(_call: ToolCall, execution: ToolResult, _path: str) -> dict[str, Any]:
    return {
        "status": "completed",
        "content": _text_blocks(execution.text),
        "totalDurationMs": round(execution.duration * 1000),
    }


def _text_blocks(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


_FORMS = {
    **dict.fromkeys(SHELL_TOOLS, _command_result),
    "write": _write_result,
    "edit": _edit_result,
    "read": _read_result,
    "spawn_subagent": _child_result,
}


def error_of(execution: ToolResult) -> str:
    """Why a tool failed; of a command its exit code on the first line, which scripts look for, and its output."""
    code = execution.metadata.get("exit_code")
    if code in (0, None):
        return failure_text(execution)
    return "\n".join(
        filter(None, (f"Exit code {code}", was_ended(execution), output_text(execution)))
    )
