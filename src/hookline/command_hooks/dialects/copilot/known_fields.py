"""The fields that a script for Copilot or VS Code knows: one file is for both, and each sends hooks other fields.

VS Code has other tools than Copilot, and reads files with Copilot's events as if they had its own. The text of a script
shows which of the two it was written for.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hookline.command_hooks.handler import Handler
from hookline.command_hooks.scripts import script_paths

_TERMINAL = (
    "run_in_terminal", "runInTerminal", "runTerminalCommand", "run_terminal_command", "runCommands",
)  # fmt: skip
_CREATES = ("create_file", "createFile", "copilot_createFile")
_EDITS = (
    "replace_string_in_file", "multi_replace_string_in_file", "insert_edit_into_file", "editFiles", "editFile",
    "edit_file", "copilot_replaceString", "copilot_insertEdit",
)  # fmt: skip
VSCODE_NAMES: dict[str, tuple[str, ...]] = {
    "bash": _TERMINAL,
    "exec": _TERMINAL,
    "write": (*_CREATES, "editFiles"),
    "edit": _EDITS,
    "read": ("read_file", "readFile", "copilot_readFile"),
    "list": ("list_dir", "listDirectory"),
    "glob": ("file_search", "fileSearch"),
    "search": ("grep_search", "textSearch"),
    "spawn_subagent": ("runSubagent",),
    "todo_write": ("manage_todo_list",),
    "web_fetch": ("fetch_webpage", "fetch"),
    "fetch": ("fetch_webpage", "fetch"),
}
"""VS Code's names for our tools: its own, those of its documentation, and former ones."""
_ITS_OWN = frozenset({*_TERMINAL, *_CREATES, *_EDITS}) - {"edit_file"}
"""Names that only a script for VS Code has."""
KEY = "filePath"
_CAMEL = frozenset({"toolName", "toolInput", "toolArgs"})
_SNAKE = frozenset({"tool_name", "tool_input"})
_CLAUDES, _COPILOTS = "Claude's names", "Copilot's names"
_AS_TEXT, _AS_OBJECT = "toolArgs as text", "toolArgs as an object"
_FAILURES = "results that are failures"
_NAMES = {name for names in VSCODE_NAMES.values() for name in names}
_WORD = re.compile("|".join(sorted({*_CAMEL, *_SNAKE, KEY, *_NAMES}, key=len, reverse=True)))
_MARKED = {
    _CLAUDES: re.compile(r"[\"'|(](?:Bash|Write|Edit|MultiEdit|NotebookEdit)[\"'|)]"),
    _COPILOTS: re.compile(r"[\"'|(](?:bash|create|edit|view|powershell)[\"'|)]"),
    _AS_TEXT: re.compile(
        r"(?:JSON\.parse|json\.loads)\([^)\n]{0,200}toolArgs|toolArgs\W{0,12}\|\s*fromjson"
    ),
    _AS_OBJECT: re.compile(
        r"toolArgs\??\.\w|toolArgs['\"]\](?:\[|\.get)|toolArgs['\"]\)?,?\s*(?:or\s*)?\{\}|toolArgs\s*(?:\|\||\?\?|//)\s*\{\}"
    ),
    _FAILURES: re.compile(r"[\"']failure[\"']"),
}
"""Names that are also plain words count between quotes or in a list. For arguments it counts what is done with them.

Scripts of a repository are searched before it is trusted, so each of these takes linear time."""


_LARGEST = 2 << 20
_PASCAL = {
    "sessionStart": "SessionStart", "userPromptSubmitted": "UserPromptSubmit", "preToolUse": "PreToolUse",
    "permissionRequest": "PermissionRequest", "postToolUse": "PostToolUse", "postToolUseFailure": "PostToolUseFailure",
    "agentStop": "Stop", "subagentStart": "SubagentStart", "subagentStop": "SubagentStop", "preCompact": "PreCompact",
    "errorOccurred": "ErrorOccurred", "sessionEnd": "SessionEnd",
}  # fmt: skip
"""Copilot's events, and VS Code's names for them."""


def with_known_fields(handler: Handler, project: Path, *, is_vscodes: bool) -> Handler:
    """A hook with the fields that it knows. One that knows VS Code's only is in the dialect of VS Code.

    Where no tool is named, or nothing can be read, the form of the file decides.
    """
    if handler.kind != "command":
        return handler
    texts = (handler.command, *(handler.argv or ()), *map(_text, script_paths(handler, project)))
    words = words_in("\n".join(texts))
    names_tools = not words.isdisjoint({*_ITS_OWN, _CLAUDES, _COPILOTS})
    if is_vscodes and not handler.matcher and not names_tools:
        words |= {KEY}
    handler = msgspec.structs.replace(handler, known_fields=words)
    if handler.event in _PASCAL and reads_snake_case(handler):
        there = msgspec.structs.replace(handler.source, dialect="vscode")
        return msgspec.structs.replace(handler, source=there, event=_PASCAL[handler.event])
    return handler


def _text(path: Path) -> str:
    """The text of a script; empty for what is none."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        content = path.read_bytes()
    except OSError:
        return ""
    return "" if b"\0" in content[:4096] else content.decode(errors="replace")


def words_in(text: str) -> frozenset[str]:
    """The words of both protocols in a script."""
    marked = {name for name, sign in _MARKED.items() if sign.search(text)}
    if "resultType" not in text:
        marked.discard(_FAILURES)
    return frozenset(_WORD.findall(text)) | marked


def is_for_vscode(handler: Handler) -> bool:
    """Whether a hook looks for VS Code's tools, and not for Claude's."""
    if handler.known_fields & _ITS_OWN:
        return True
    return KEY in handler.known_fields and _CLAUDES not in handler.known_fields


def reads_camel_case(handler: Handler) -> bool:
    """Whether a hook looks for a tool under `toolName` only."""
    return bool(handler.known_fields & _CAMEL) and not handler.known_fields & _SNAKE


def reads_snake_case(handler: Handler) -> bool:
    """Whether a hook looks for a tool under `tool_name` only."""
    return bool(handler.known_fields & _SNAKE) and not handler.known_fields & _CAMEL


def is_for_copilot(handler: Handler) -> bool:
    """Whether a hook looks for Copilot's tools only."""
    return _COPILOTS in handler.known_fields and _CLAUDES not in handler.known_fields


def takes_object(handler: Handler) -> bool:
    """Whether a hook reads `toolArgs` as an object. In Copilot they were text at first."""
    return _AS_OBJECT in handler.known_fields and _AS_TEXT not in handler.known_fields


def looks_for_failures(handler: Handler) -> bool:
    """Whether a hook sees by the result whether a tool failed: at first there was one event for both."""
    return _FAILURES in handler.known_fields
