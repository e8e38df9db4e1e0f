"""The event in variables, where scripts for Claude Code look for it that do not read their input."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_LONGEST = 1 << 15
"""Of a value, in bytes. A longer one would keep the hook from being started; it is on its input."""
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def told(payload: Mapping[str, Any]) -> dict[str, str]:
    """The variables of an event: what happens, the tool, what it is given, and the file it is about."""
    given = payload.get("tool_input")
    given = given if isinstance(given, Mapping) else {}
    values = {
        "CLAUDE_HOOK_EVENT_NAME": payload.get("hook_event_name"),
        "CLAUDE_HOOK_EVENT": payload.get("hook_event_name"),
        "CLAUDE_TRANSCRIPT_PATH": payload.get("transcript_path"),
        "CLAUDE_TOOL_NAME": payload.get("tool_name"),
        "TOOL_NAME": payload.get("tool_name"),
        "CLAUDE_TOOL_INPUT": payload.get("tool_input"),
        "CLAUDE_TOOL_OUTPUT": payload.get("tool_response"),
        "CLAUDE_TOOL_RESPONSE": payload.get("tool_response"),
        "CLAUDE_USER_PROMPT": payload.get("prompt"),
        "CLAUDE_TOOL_COMMAND": given.get("command"),
    }
    for key, value in given.items():
        if _KEY.fullmatch(key):
            values[f"CLAUDE_TOOL_INPUT_{key.upper()}"] = value
            values[f"TOOL_INPUT_{key}"] = value
            values[f"TOOL_INPUT_{key.upper()}"] = value
    for name in ("CLAUDE_TOOL_FILE_PATH", "CLAUDE_FILE_PATH", "CLAUDE_FILE_PATHS"):
        values[name] = given.get("file_path")
    texts = {name: _text(value) for name, value in values.items() if value is not None}
    return {name: text for name, text in texts.items() if _fits(text)}


def _fits(text: str) -> bool:
    """Whether a text can be a variable's value: with a zero in it no program could be started."""
    return "\0" not in text and len(text.encode()) <= _LONGEST


def _text(value: Any) -> str:
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return str(value).encode(errors="replace").decode()  # halves of letters have no place there
