"""VS Code's hooks: Copilot's hooks with events in Pascal case, that is Claude's events with Copilot's rules.

Tools have Claude's names, or, for a script that was written for VS Code's own tools, theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks.dialects import event_facts
from hookline.command_hooks.dialects.claude.protocol import TOOL_EVENTS, Claude
from hookline.command_hooks.dialects.claude.tools import TOOLS as CLAUDE_TOOLS
from hookline.command_hooks.dialects.copilot.known_fields import (
    KEY,
    VSCODE_NAMES,
    is_for_copilot,
    is_for_vscode,
    reads_camel_case,
    takes_object,
)
from hookline.command_hooks.dialects.copilot.protocol import (
    BEGINS,
    Copilot,
    answer_in,
    failure,
    needs_permission,
    new_response,
    result_text,
    session_end_reason,
    without_progress,
)
from hookline.command_hooks.dialects.copilot.protocol import TOOLS as COPILOT_TOOLS
from hookline.command_hooks.handler import (
    Handler,
    HookAnswer,
    HookSearch,
    Level,
    ProgramResult,
    RunFacts,
    denied,
    json_object,
)
from hookline.command_hooks.tools import (
    NAMES,
    NameTest,
    ShownCall,
    ToolForm,
    ToolNames,
    everything,
    names_or_expression,
    whole_expression,
)
from hookline.command_hooks.transcripts import timestamp
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
_VSCODE = ToolNames(_FORMS)
_COPILOTS_FORMS = {name: COPILOT_TOOLS[name] for name in ("read", "write", "edit")}
_COPILOT = ToolNames(_COPILOTS_FORMS, as_written=True)
_MADE = ("files", "replacements", "startLine", "endLine")
"""Keys that are made of several of our arguments."""
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


class VsCode(Claude):
    """VS Code's protocol."""

    name = "vscode"
    points: ClassVar[dict[str, str]] = {**Claude.points, "ErrorOccurred": "agent_failed"}
    more_points: ClassVar[dict[str, str]] = {
        **Claude.more_points,
        "PermissionRequest": "before_tool_use",
    }
    answered_once = frozenset({"PermissionRequest"})
    has_files = False  # Copilot reads them
    home_folder = ""
    expands_env = True
    identity_variables = frozenset()
    is_claude_code = False
    runs_in_order = True
    _copilot = Copilot()

    def find_named(self, search: HookSearch) -> Iterable[Handler]:  # noqa: ARG002 - Claude reads them
        """None for VS Code alone."""
        return ()

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return self._copilot.read(path, level, search)

    def fires(self, event: str, ctx: Any) -> bool:
        """As Claude's; permissions are asked for as in Copilot."""
        if event == "PermissionRequest":
            return needs_permission(ctx)
        return super().fires(event, ctx)

    def matcher(self, handler: Handler) -> NameTest:
        """Exact names, or a regular expression over the whole of the name."""
        text = handler.matcher
        if text in ("", "*", "**"):
            return everything
        return names_or_expression(text) if NAMES.fullmatch(text) else whole_expression(text)

    def subject(self, event: str, ctx: Any, facts: RunFacts) -> tuple[str, ...] | None:
        """As Claude's; for a tool also its names in Copilot and VS Code."""
        found = super().subject(event, ctx, facts)
        if event == "SessionStart" and found == ("startup",):
            return ("startup", "new")
        if found is None or event not in TOOL_EVENTS:
            return found
        return (*found, self._copilot.show(ctx.tool_call, facts).name, *_names_of(ctx.tool_call))

    def show(self, call: ToolCall, facts: RunFacts) -> ShownCall:
        """A call under Claude's names, with VS Code's keys beside Claude's."""
        return _with_keys(call, super().show(call, facts), facts.cwd)

    def take_back(self, call: ToolCall, shown: ShownCall, answer: HookAnswer) -> ToolCall:
        updated = _without_keys(call, shown, answer.updated_input or {})
        changed = msgspec.structs.replace(answer, updated_input=updated)
        return super().take_back(call, _plain(call, shown), changed)

    def payload(self, handler: Handler, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        """As Claude's, with the fields of Copilot and VS Code."""
        event = handler.event
        sent = {**super().payload(handler, ctx, facts), "timestamp": timestamp()}
        sent |= {"sessionId": sent["session_id"], "hookEventName": event}
        if event == "SessionStart" and event_facts.session_source(ctx) == "startup":
            sent["source"] = "new"
        if event == "PostToolUse":
            text = event_facts.output_text(ctx.execution)
            sent["tool_result"] = {"result_type": "success", "text_result_for_llm": text}
        if event in TOOL_EVENTS:
            sent |= self._tool_there(handler, ctx, facts, sent)
        if event in ("Stop", "SubagentStop"):
            sent["stop_reason"] = "end_turn"
        if event == "SubagentStop":
            sent["agent_name"] = ctx.name
        if event == "SessionEnd":
            sent["reason"] = session_end_reason(ctx)
        if event == "ErrorOccurred":
            error = failure(ctx)
            sent |= {"error_context": error.pop("errorContext"), **error}
        return sent

    def _tool_there(
        self, handler: Handler, ctx: Any, facts: RunFacts, sent: dict[str, Any]
    ) -> dict[str, Any]:
        """A tool under the names that the script knows, and its result as text."""
        shown = self._copilot.show(ctx.tool_call, facts)
        is_theirs, name = is_for_vscode(handler), sent["tool_name"]
        if is_theirs or is_for_copilot(handler):
            name = _name_for(handler, ctx.tool_call) if is_theirs else shown.name
        shown_there: dict[str, Any] = {"tool_name": name}
        if is_theirs and "tool_response" in sent:
            shown_there["tool_response"] = event_facts.output_text(ctx.execution)
        if reads_camel_case(handler):
            given = sent["tool_input"] if is_theirs else shown.input
            shown_there["toolName"] = name if is_theirs else shown.name
            text = json.dumps(given, ensure_ascii=False)
            shown_there |= {
                "toolInput": given,
                "toolArgs": given if takes_object(handler) else text,
            }
        return shown_there

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        return self._copilot.variables(handler, facts)

    def read_failure(self, handler: Handler, answer: HookAnswer) -> HookAnswer:
        """As in Copilot."""
        is_refusal = answer.status != "timeout" and handler.event in _DENYING
        return denied(answer.problem) if is_refusal else answer

    def read_answer(self, handler: Handler, result: ProgramResult) -> HookAnswer:
        """A hook before a tool denies if it fails, not if it takes too long; the rest is as in Claude."""
        denies = handler.event in _DENYING
        text = without_progress(result.stdout)
        found = answer_in(text)
        if found is not None:
            text = json.dumps(_as_claude(handler.event, found))
        answer = super().read_answer(handler, ProgramResult(result.code, text, result.stderr))
        if handler.event == "SubagentStop" and found is not None:
            return msgspec.structs.replace(answer, updated_output=new_response(found))
        if not denies or result.code == 2:
            return answer
        if result.code != 0:
            printed = text if found is None else ""
            reason = (
                answer.reason
                or result.stderr.strip()
                or printed
                or event_facts.failure_words(result)
            )
            return denied(reason)
        broken = (
            found is None
            and BEGINS.search(text)
            and "its output begins like JSON, and is not valid"
        )
        problem = answer.problem or broken
        return denied(f"the hook failed: {problem}") if problem else answer


def _as_claude(event: str, found: dict[str, Any]) -> dict[str, Any]:
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
    made = {**lifted, **found, "hookSpecificOutput": specific}
    if event not in _DENYING and made.get("decision") not in _OBJECTIONS:
        made.pop("decision", None)  # there, only an objection counts
    return made


def _names_of(call: ToolCall) -> tuple[str, ...]:
    """All names of a tool in VS Code."""
    if call.name.startswith("mcp__"):
        return (f"mcp_{call.name.removeprefix('mcp__').replace('__', '_', 1)}",)
    return VSCODE_NAMES.get(call.name) or (_VSCODE.show(call, "/").name,)


def _name_for(handler: Handler, call: ToolCall) -> str:
    """The name of a tool in VS Code that a hook knows, or the usual one."""
    names = _names_of(call)
    if call.args.get("edits") and call.name == "edit":
        names = ("multi_replace_string_in_file", *names)
    return next((name for name in names if name in handler.known_fields), names[0])


def _with_keys(call: ToolCall, shown: ShownCall, cwd: str) -> ShownCall:
    """A call under Claude's keys, and under those of VS Code and Copilot."""
    theirs = dict(_VSCODE.show(call, cwd).input)
    if edits := theirs.pop("edits", None):
        place = {KEY: theirs.get(KEY, "")}
        theirs["replacements"] = [{**place, **edit} for edit in edits]
    if KEY in theirs and call.name in ("write", "edit"):
        theirs["files"] = [theirs[KEY]]
    if call.name == "read":
        theirs |= _lines(shown.input.get("offset"), shown.input.get("limit"))
    if call.name in _COPILOTS_FORMS:
        theirs |= _COPILOT.show(call, cwd).input
    return shown._replace(input={**theirs, **shown.input})


def _lines(offset: Any, limit: Any) -> dict[str, int]:
    """The lines of a file that are read; empty for all."""
    if not isinstance(offset, int) and not isinstance(limit, int):
        return {}
    start = offset if isinstance(offset, int) else 1
    return {"startLine": start} | ({"endLine": start + limit - 1} if isinstance(limit, int) else {})


def _without_keys(call: ToolCall, both: ShownCall, updated: Mapping[str, Any]) -> dict[str, Any]:
    """A changed input under Claude's keys alone. A change under another key counts."""
    kept = dict(updated)
    for theirs in _MADE:
        if theirs in both.input and kept.get(theirs, both.input[theirs]) != both.input[theirs]:
            raise UsageError(
                f"changed '{theirs}' of a call of '{call.name}' cannot be taken back.",
                remedy="Change the other arguments, or deny the call.",
            )
    for theirs, ours in _others(call):
        key, was = CLAUDE_TOOLS[call.name].keys.get(ours, ours), both.input.get(theirs)
        if theirs in kept and (kept[theirs] != was or key not in kept):
            kept[key] = kept[theirs]
    added = _added(call)
    return {key: value for key, value in kept.items() if key not in added}


def _plain(call: ToolCall, both: ShownCall) -> ShownCall:
    """A call under Claude's keys alone."""
    added = _added(call)
    return both._replace(input={k: value for k, value in both.input.items() if k not in added})


def _others(call: ToolCall) -> list[tuple[str, str]]:
    """The keys of VS Code and Copilot for our arguments, where Claude has another."""
    forms = (_FORMS.get(call.name), _COPILOTS_FORMS.get(call.name))
    keys = CLAUDE_TOOLS[call.name].keys if call.name in CLAUDE_TOOLS else {}
    # The joined texts of several edits are shown, too.
    args = {*call.args, "old", "new"} if call.args.get("edits") else set(call.args)
    pairs = [(form.keys.get(ours, ours), ours) for form in forms if form for ours in sorted(args)]
    return [(theirs, ours) for theirs, ours in pairs if theirs != keys.get(ours, ours)]


def _added(call: ToolCall) -> set[str]:
    is_known = call.name in _FORMS
    return {*(theirs for theirs, _ in _others(call)), *(_MADE if is_known else ())}
