"""The tools of VS Code and of Copilot, as hooks that are for both know them: their names, and the keys of arguments.

VS Code has had several names for most of them, and its documentation has others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.tool_names import CLAUDE, COPILOT, Bridge, Shown, ToolForm
from hookline.errors import UsageError
from hookline.state import ToolCall

_FILE = {"path": "filePath"}
_EDIT = {"path": "filePath", "old": "oldString", "new": "newString"}
_SEARCH = {"pattern": "query", "include": "includePattern", "limit": "maxResults"}
_FORMS: dict[str, ToolForm] = {
    "bash": ToolForm("run_in_terminal", {"background": "isBackground"}),
    "exec": ToolForm("run_in_terminal", {}),
    "read": ToolForm("read_file", _FILE),
    "write": ToolForm("create_file", _FILE),
    "edit": ToolForm("replace_string_in_file", _EDIT),
    "list": ToolForm("list_dir", {}),
    "glob": ToolForm("file_search", {"pattern": "query"}),
    "search": ToolForm("grep_search", _SEARCH),
    "spawn_subagent": ToolForm("runSubagent", {"agent": "agentName"}),
    "todo_write": ToolForm("manage_todo_list", {"items": "todoList", "tasks": "todoList"}),
    "web_fetch": ToolForm("fetch_webpage", {}),
    "fetch": ToolForm("fetch_webpage", {}),
}
_BRIDGE = Bridge(_FORMS)
_COPILOTS_FORMS = {name: COPILOT[name] for name in ("read", "write", "edit")}
_COPILOTS_BRIDGE = Bridge(_COPILOTS_FORMS, as_written=True)
_TERMINAL = (
    "run_in_terminal",
    "runInTerminal",
    "runTerminalCommand",
    "run_terminal_command",
    "runCommands",
)
_CREATES = ("create_file", "createFile", "copilot_createFile")
_EDITS = (
    "replace_string_in_file",
    "multi_replace_string_in_file",
    "insert_edit_into_file",
    "editFiles",
    "editFile",
    "edit_file",
    "copilot_replaceString",
    "copilot_insertEdit",
)
_NAMES: dict[str, tuple[str, ...]] = {
    "bash": _TERMINAL,
    "exec": _TERMINAL,
    "write": (*_CREATES, "editFiles"),
    "edit": _EDITS,
    "read": ("read_file", "readFile", "copilot_readFile"),
    "list": ("list_dir", "listDirectory"),
    "glob": ("file_search", "fileSearch"),
    "search": ("grep_search", "textSearch"),
    "spawn_subagent": ("runSubagent",),
    "web_fetch": ("fetch_webpage", "fetch"),
    "fetch": ("fetch_webpage", "fetch"),
}
"""What our tools are called there: as it calls them, as its documentation does, and as it did."""
_ITS_OWN = frozenset({*_TERMINAL, *_CREATES, *_EDITS}) - {"edit_file"}
"""Names by which a script shows that it was written for VS Code."""
KEY = "filePath"
_MADE = ("files", "replacements", "startLine", "endLine")
"""Keys that none of our arguments has: what they say is made of several."""
_CAMEL = frozenset({"toolName", "toolInput", "toolArgs"})
_SNAKE = frozenset({"tool_name", "tool_input"})
_CLAUDES, _COPILOTS = "Claude's names", "Copilot's names"
_AS_TEXT, _AS_OBJECT = "toolArgs as text", "toolArgs as an object"
_FAILURES = "results that are failures"
_WORD = re.compile(
    "|".join(
        sorted(
            {*_CAMEL, *_SNAKE, KEY, *(name for names in _NAMES.values() for name in names)},
            key=len,
            reverse=True,
        )
    )
)
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
"""Names that are words too count where they are set off as names are. Of arguments it counts what is done with them.

Scripts of a repository are looked at before it is trusted, so none of these may search from each find to the end."""


def words_in(text: str) -> frozenset[str]:
    """The words of VS Code's and Copilot's protocols that a script has in it."""
    marked = {name for name, sign in _MARKED.items() if sign.search(text)}
    if "resultType" not in text:
        marked.discard(_FAILURES)
    return frozenset(_WORD.findall(text)) | marked


def names_tools(words: frozenset[str]) -> bool:
    """Whether there are names of tools among words that a script has in it."""
    return not words.isdisjoint({*_ITS_OWN, _CLAUDES, _COPILOTS})


def is_for_vscode(handler: Handler) -> bool:
    """Whether what a hook runs looks for VS Code's own tools, and not for those of Claude."""
    if handler.knows & _ITS_OWN:
        return True
    return KEY in handler.knows and _CLAUDES not in handler.knows


def reads_camel_case(handler: Handler) -> bool:
    """Whether what a hook runs looks for a tool under `toolName`, and nowhere else."""
    return bool(handler.knows & _CAMEL) and not handler.knows & _SNAKE


def reads_snake_case(handler: Handler) -> bool:
    """Whether what a hook runs looks for a tool under `tool_name`, and nowhere else."""
    return bool(handler.knows & _SNAKE) and not handler.knows & _CAMEL


def is_for_copilot(handler: Handler) -> bool:
    """Whether what a hook runs looks for Copilot's tools, and for no others."""
    return _COPILOTS in handler.knows and _CLAUDES not in handler.knows


def takes_object(handler: Handler) -> bool:
    """Whether what a hook runs looks into `toolArgs` as an object. Copilot had them as text, and has them so now."""
    return _AS_OBJECT in handler.knows and _AS_TEXT not in handler.knows


def looks_for_failures(handler: Handler) -> bool:
    """Whether what a hook runs tells by the result whether a tool failed: for that there was one event at first."""
    return _FAILURES in handler.knows


def names_of(call: ToolCall) -> tuple[str, ...]:
    """All the names that a tool has in VS Code."""
    if call.name.startswith("mcp__"):
        return (f"mcp_{call.name.removeprefix('mcp__').replace('__', '_', 1)}",)
    return _NAMES.get(call.name) or (_BRIDGE.show(call, "/").name,)


def name_for(handler: Handler, call: ToolCall) -> str:
    """The name by which a hook knows a tool of VS Code, or the one that VS Code has for it."""
    names = names_of(call)
    if call.args.get("edits") and call.name == "edit":
        names = ("multi_replace_string_in_file", *names)
    return next((name for name in names if name in handler.knows), names[0])


def with_keys(call: ToolCall, shown: Shown, cwd: str) -> Shown:
    """A call as Claude has it, with the arguments under VS Code's and Copilot's keys too."""
    theirs = dict(_BRIDGE.show(call, cwd).input)
    if edits := theirs.pop("edits", None):
        place = {KEY: theirs.get(KEY, "")}
        theirs["replacements"] = [{**place, **edit} for edit in edits]
    if KEY in theirs and call.name in ("write", "edit"):
        theirs["files"] = [theirs[KEY]]
    if call.name == "read":
        theirs |= _lines(shown.input.get("offset"), shown.input.get("limit"))
    if call.name in _COPILOTS_FORMS:
        theirs |= _COPILOTS_BRIDGE.show(call, cwd).input
    return shown._replace(input={**theirs, **shown.input})


def _lines(offset: Any, limit: Any) -> dict[str, int]:
    """Which lines of a file are read, as VS Code says it; nothing for all of them."""
    if not isinstance(offset, int) and not isinstance(limit, int):
        return {}
    start = offset if isinstance(offset, int) else 1
    return {"startLine": start} | ({"endLine": start + limit - 1} if isinstance(limit, int) else {})


def without_keys(call: ToolCall, both: Shown, updated: Mapping[str, Any]) -> dict[str, Any]:
    """A changed input under Claude's keys alone. What a script changed under other keys is what counts."""
    kept = dict(updated)
    for theirs in _MADE:
        if theirs in both.input and kept.get(theirs, both.input[theirs]) != both.input[theirs]:
            raise UsageError(
                f"changed '{theirs}' of a call of '{call.name}' cannot be taken back.",
                remedy="Change the other arguments, or deny the call.",
            )
    for theirs, ours in _others(call):
        key, was = CLAUDE[call.name].keys.get(ours, ours), both.input.get(theirs)
        if theirs in kept and (kept[theirs] != was or key not in kept):
            kept[key] = kept[theirs]
    added = _added(call)
    return {key: value for key, value in kept.items() if key not in added}


def plain(call: ToolCall, both: Shown) -> Shown:
    """A call under Claude's keys alone."""
    added = _added(call)
    return both._replace(input={k: value for k, value in both.input.items() if k not in added})


def _others(call: ToolCall) -> list[tuple[str, str]]:
    """The keys that VS Code and Copilot have for our arguments, where Claude has another."""
    forms = (_FORMS.get(call.name), _COPILOTS_FORMS.get(call.name))
    keys = CLAUDE[call.name].keys if call.name in CLAUDE else {}
    # The texts of several edits are shown joined, too, where a script looks that knows one edit only.
    args = {*call.args, "old", "new"} if call.args.get("edits") else set(call.args)
    pairs = [(form.keys.get(ours, ours), ours) for form in forms if form for ours in sorted(args)]
    return [(theirs, ours) for theirs, ours in pairs if theirs != keys.get(ours, ours)]


def _added(call: ToolCall) -> set[str]:
    is_known = call.name in _FORMS
    return {*(theirs for theirs, _ in _others(call)), *(_MADE if is_known else ())}
