"""VS Code's hooks: Copilot's hooks with events in Pascal case, that is Claude's events with Copilot's rules.

Tools have Claude's names, or, for a script that was written for VS Code's own tools, theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks.dialect import Event, EventFacts, timestamp
from hookline.command_hooks.dialects.claude.protocol import TOOL_EVENTS, Claude
from hookline.command_hooks.dialects.claude.tools import TOOLS as CLAUDE_TOOLS
from hookline.command_hooks.dialects.copilot import (
    KEY,
    VSCODE_NAMES,
    Copilot,
    failure,
    is_for_copilot,
    is_for_vscode,
    is_object_reader,
    needs_permission,
    needs_project,
    new_response,
    read_denying,
    reads_camel_case,
    result_text,
    session_end_reason,
)
from hookline.command_hooks.handler import (
    Handler,
    HookSearch,
    JsonObject,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    json_object,
)
from hookline.command_hooks.tools import (
    NAMES,
    NameTest,
    ToolNames,
    names_or_expression,
    output_text,
    whole_expression,
)
from hookline.lifecycle import AgentContext, ToolHookContext
from hookline.lifecycle.contexts import expect_context
from hookline.state import ToolCall

_FILE = ("file_path", "filePath", "path")
_MORE_KEYS: dict[str, dict[str, str | tuple[str, ...]]] = {
    "bash": {"background": ("run_in_background", "isBackground")},
    "read": {"path": _FILE},
    "write": {"path": _FILE, "content": ("content", "file_text")},
    "edit": {
        "path": _FILE,
        "old": ("old_string", "oldString", "old_str"),
        "new": ("new_string", "newString", "new_str"),
    },
    "glob": {"pattern": ("pattern", "query")},
    "search": {
        "pattern": ("pattern", "query"),
        "include": ("glob", "includePattern"),
        "limit": ("head_limit", "maxResults"),
    },
    "spawn_subagent": {"agent": ("subagent_type", "agentName")},
    "todo_write": dict.fromkeys(("items", "tasks"), ("todos", "todoList")),
}
"""Claude's keys, then those of VS Code and of Copilot's tools for files."""


def _lines(call: ToolCall, _given: Mapping[str, Any]) -> dict[str, Any]:
    """The first and the last line that is read, if not all are."""
    offset, limit = call.args.get("offset") or 1, call.args.get("limit") or _ALL_LINES
    if (
        not isinstance(offset, int)
        or not isinstance(limit, int)
        or (offset, limit) == (1, _ALL_LINES)
    ):
        return {}
    return {"startLine": offset} | ({} if limit == _ALL_LINES else {"endLine": offset + limit - 1})


def _files(_call: ToolCall, given: Mapping[str, Any]) -> dict[str, Any]:
    """The changed files, and the edits, each with its file."""
    if KEY not in given:
        return {}
    replaced = [{KEY: given[KEY], **edit} for edit in given.get("edits") or ()]
    return {"files": [given[KEY]]} | ({"replacements": replaced} if replaced else {})


_ALL_LINES = 2000
_MADE = {"read": _lines, "write": _files, "edit": _files}
_TOOLS = {
    name: form._replace(
        keys={**form.keys, **_MORE_KEYS.get(name, {})},
        as_written=("path",) if name in _MADE else (),
        made=_MADE.get(name),
    )
    for name, form in CLAUDE_TOOLS.items()
}
_PROJECT = "CLAUDE_PROJECT_DIR"
_DENYING = frozenset({"PreToolUse", "PermissionRequest"})
_THEIRS = {
    "permissionDecision": "permissionDecision",
    "permissionDecisionReason": "permissionDecisionReason",
    "modifiedArgs": "updatedInput",
}
"""Copilot's fields at the top of an answer, and Claude's inside of `hookSpecificOutput`."""


_OBJECTIONS = ("block", "deny")
_ENDS_INSIDE = ("decision", "reason")
"""Fields of an objection; VS Code has them inside of `hookSpecificOutput`."""


def _error_fields(e: EventFacts) -> dict[str, Any]:
    error = failure(e.error)
    return {"error_context": error.pop("errorContext"), **error}


class VsCode(Claude):
    """VS Code's protocol."""

    name = "vscode"
    events: ClassVar[dict[str, Event]] = {
        **Claude.events,
        "PreToolUse": Claude.events["PreToolUse"]._replace(denies_failure=True),
        "PermissionRequest": Claude.events["PermissionRequest"]._replace(
            when=needs_permission, also="before_tool_use", denies_failure=True
        ),
        "SessionStart": Claude.events["SessionStart"].with_fields(
            lambda e: {"source": e.session_source.replace("startup", "new")}
        ),
        "PostToolUse": Claude.events["PostToolUse"].with_fields(
            lambda e: {"tool_result": {"result_type": "success", "text_result_for_llm": e.output}}
        ),
        "Stop": Claude.events["Stop"].with_fields(lambda _e: {"stop_reason": "end_turn"}),
        "SubagentStop": Claude.events["SubagentStop"].with_fields(
            lambda e: {"stop_reason": "end_turn", "agent_name": e.child.name}
        ),
        "SessionEnd": Claude.events["SessionEnd"].with_fields(
            lambda e: {"reason": session_end_reason(e)}
        ),
        "ErrorOccurred": Event("agent_failed", _error_fields),
    }
    has_files = False  # Copilot reads them
    home_folder = ""
    expands_env = True
    # Scripts take whoever sets it for Claude Code, and VS Code does not: only those that need it get it.
    identity_variables = frozenset({_PROJECT})
    is_claude_code = False
    runs_in_order = True
    tools = ToolNames(_TOOLS, milliseconds=True)
    _copilot = Copilot()

    def find_named(self, search: HookSearch) -> Iterable[Handler]:  # noqa: ARG002 - Claude reads them
        """None for VS Code alone."""
        return ()

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return self._copilot.read(path, level, search)

    def matcher(self, handler: Handler) -> NameTest:
        """Exact names, or a regular expression over the whole of the name."""
        text = handler.matcher
        return names_or_expression(text) if NAMES.fullmatch(text) else whole_expression(text)

    def subject(self, event: str, ctx: AgentContext, facts: RunFacts) -> tuple[str, ...] | None:
        """As Claude's; for a tool also its names in Copilot and VS Code."""
        found = super().subject(event, ctx, facts)
        if event == "SessionStart" and found == ("new",):
            return ("startup", "new")
        if found is None or event not in TOOL_EVENTS:
            return found
        call = expect_context(ctx, ToolHookContext).tool_call
        return (*found, self._copilot.show(call, facts).name, *_names_of(call))

    def names_of_tool(self, event: str, tool: str) -> tuple[str, ...]:
        """As Claude's; also the names in Copilot and VS Code."""
        names = super().names_of_tool(event, tool)
        theirs = (*self._copilot.tools.names(tool), *_names_of(ToolCall("", tool)))
        return (*names, *theirs) if names else ()

    def payload(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> dict[str, Any]:
        """As Claude's, with the fields of Copilot and VS Code."""
        sent = super().payload(handler, ctx, facts)
        named = {"sessionId": sent["session_id"], "hookEventName": handler.event}
        sent |= {**named, "timestamp": timestamp()}
        del sent["permission_mode"]  # by this field scripts recognise Claude Code
        if "tool_name" not in sent:
            return sent
        tool = expect_context(ctx, ToolHookContext)
        return sent | self._tool_there(handler, tool, facts, sent)

    def _tool_there(
        self, handler: Handler, ctx: ToolHookContext, facts: RunFacts, sent: dict[str, Any]
    ) -> dict[str, Any]:
        """A tool under the names that the script knows, and its result as text."""
        shown = self._copilot.show(ctx.tool_call, facts)
        is_theirs, name = is_for_vscode(handler), sent["tool_name"]
        if is_theirs or is_for_copilot(handler):
            name = _name_for(handler, ctx.tool_call) if is_theirs else shown.name
        shown_there: dict[str, Any] = {"tool_name": name}
        if is_theirs and "tool_response" in sent and ctx.execution is not None:
            shown_there["tool_response"] = output_text(ctx.execution)
        if reads_camel_case(handler):
            given = sent["tool_input"] if is_theirs else shown.input
            shown_there["toolName"] = name if is_theirs else shown.name
            text = json.dumps(given, ensure_ascii=False)
            shown_there |= {
                "toolInput": given,
                "toolArgs": given if is_object_reader(handler) else text,
            }
        return shown_there

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        found = self._copilot.variables(handler, facts)
        if not needs_project(handler):
            del found[_PROJECT]
        return found

    def frame(self, handler: Handler, result: ProgramResult) -> str:
        return self._copilot.frame(handler, result)

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """A hook before a tool denies if it fails, not if it takes too long; the rest is as in Claude."""
        found = None if result.answer is None else _as_claude(handler.event, result.answer)
        answer = super().read_answer(handler, msgspec.structs.replace(result, answer=found))
        if handler.event == "SubagentStop" and found is not None:
            return msgspec.structs.replace(answer, updated_output=new_response(found))
        if handler.event not in _DENYING or result.code == 2:
            return answer
        return read_denying(answer, result)


def _as_claude(event: str, found: JsonObject) -> JsonObject:
    """An answer in Claude's form; Copilot's fields are all at the top."""
    given = found.get("hookSpecificOutput")
    if given is not None and not isinstance(given, dict):
        return found
    specific = dict(given or {})
    for theirs, ours in _THEIRS.items():
        if theirs in found and ours not in specific:
            specific[ours] = found[theirs]
    if isinstance(specific.get("updatedInput"), str):
        specific["updatedInput"] = json_object(specific["updatedInput"])
    if event == "PermissionRequest" and "behavior" in found:
        named = ("behavior", "message", "interrupt")
        specific.setdefault("decision", {key: found[key] for key in named if key in found})
    if "modifiedResult" in found:
        specific.setdefault("updatedToolOutput", result_text(found["modifiedResult"]))
    inside = _ENDS_INSIDE if event in ("Stop", "SubagentStop") else ()
    lifted = {key: specific[key] for key in inside if key in specific}
    made = JsonObject({**lifted, **found, "hookSpecificOutput": specific})
    if event not in _DENYING and made.get("decision") not in _OBJECTIONS:
        made.pop("decision", None)  # there, only an objection counts
    return made


def _names_of(call: ToolCall) -> tuple[str, ...]:
    """All names of a tool in VS Code."""
    if call.name.startswith("mcp__"):
        return (f"mcp_{call.name.removeprefix('mcp__').replace('__', '_', 1)}",)
    return VSCODE_NAMES.get(call.name, (call.name,))


def _name_for(handler: Handler, call: ToolCall) -> str:
    """The name of a tool in VS Code that a hook knows, or the usual one."""
    names = _names_of(call)
    if call.args.get("edits") and call.name == "edit":
        names = ("multi_replace_string_in_file", *names)
    return next((name for name in names if name in handler.known_fields), names[0])
