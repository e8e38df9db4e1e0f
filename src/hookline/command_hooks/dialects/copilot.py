"""Copilot CLI's hooks, with events in camel case: tool arguments are JSON text, and a hook that fails denies.

One file may be for VS Code, too, and each sends hooks other fields: the text of a script shows for which it is.
"""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.dialect import (
    TOOL,
    Dialect,
    Event,
    EventFacts,
    Line,
    Transcripts,
    timestamp,
)
from hookline.command_hooks.dialects.claude.settings import make_hook as make_claude_hook
from hookline.command_hooks.dialects.claude.tools import SEARCH_KEYS
from hookline.command_hooks.dialects.config_files import (
    HookEntry,
    HookFile,
    Plugin,
    about,
    hook_file,
    load_file,
    load_text,
    quiet,
    usual_shell,
)
from hookline.command_hooks.handler import (
    UNCHANGED,
    DroppedHook,
    Handler,
    HookSearch,
    JsonObject,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    Warn,
    denied,
    failed,
    json_object,
    own_directory,
    text_of,
)
from hookline.command_hooks.tools import NameTest, ToolForm, ToolNames, whole_expression
from hookline.command_hooks.trusted_files import find_scripts
from hookline.flow import ErrorClass
from hookline.lifecycle import AgentContext, FailureHookContext, HookPoint
from hookline.state import AssistantMessage, Message, ToolMessage, UserMessage

TOOLS: dict[str, ToolForm] = {
    "bash": ToolForm("bash", {}),
    "exec": ToolForm("bash", {}),
    "read": ToolForm("view", {}, as_written=("path",)),
    "write": ToolForm("create", {"content": "file_text"}, as_written=("path",)),
    "edit": ToolForm("edit", {"old": "old_str", "new": "new_str"}, as_written=("path",)),
    "list": ToolForm("view", {}, as_written=("path",)),
    "search": ToolForm("grep", SEARCH_KEYS, as_written=("path",)),
    "glob": ToolForm("glob", {}, as_written=("path",)),
    "bash_poll": ToolForm("read_bash", {"id": "shellId"}),
    "bash_stop": ToolForm("stop_bash", {"id": "shellId"}),
    "spawn_subagent": ToolForm("task", {"agent": "agent_type"}),
    "todo_write": ToolForm("update_todo", {"items": "todos", "tasks": "todos"}),
    "load_skill": ToolForm("skill", {"name": "skill"}),
    "web_fetch": ToolForm("web_fetch", {}),
    "fetch": ToolForm("web_fetch", {}),
    "web_search": ToolForm("web_search", {}),
}

_READING_TOOLS = ("read", "list", "glob", "search")
_DENYING = frozenset({"preToolUse", "permissionRequest"})
_BEGINS = re.compile(r"^\s*\{", re.MULTILINE)
"""A line that is meant to be JSON."""
_LONGEST_CONTEXT = 10_240
_OF_THE_SYSTEM = frozenset({ErrorClass.HOOK, ErrorClass.UNKNOWN})
_REASONS = {"completed": "complete", "error": "error", "aborted": "abort", "timeout": "timeout"}
_DECISIONS = {"allow": "allow", "deny": "deny", "ask": "ask", "block": "deny", "approve": "allow"}


# --- transcript -----------------------------------------------------------------------------------------


class CopilotTranscripts(Transcripts):
    """The conversation as events, each with the id of the one before it."""

    suffix = ".copilot.jsonl"
    id_key, parent_key = "id", "parentId"

    def head(self, facts: RunFacts) -> Iterator[Line]:
        about = {"sessionId": facts.session_id, "version": 1, "producer": "hookline"}
        started = {"startTime": timestamp(), "context": {"cwd": facts.cwd}}
        yield _record("session.start", {**about, **started})

    def lines_of(self, message: Message, facts: RunFacts) -> Iterator[Line]:
        if isinstance(message, ToolMessage):
            given = {"toolCallId": message.call_id, "success": not message.is_error}
            yield _record("tool.execution_complete", {**given, "result": {"content": message.text}})
        elif isinstance(message, UserMessage):
            yield _record("user.message", {"content": message.text, "attachments": []})
        elif isinstance(message, AssistantMessage):
            calls = [(call.id, Copilot().show(call, facts)) for call in message.calls]
            asked = [
                {"toolCallId": each, "name": shown.name, "arguments": shown.input}
                for each, shown in calls
            ]
            yield _record("assistant.message", {"content": message.text, "toolRequests": asked})
            for each, shown in calls:
                begun = {"toolCallId": each, "toolName": shown.name, "arguments": shown.input}
                yield _record("tool.execution_start", begun)


def _record(kind: str, data: Line) -> Line:
    return {"type": kind, "data": data, "id": str(uuid.uuid4()), "timestamp": timestamp()}


# --- the protocol --------------------------------------------------------------------------------------


def _tool_fields(e: EventFacts) -> dict[str, Any]:
    return {
        "toolName": e.shown.name,
        "toolArgs": json.dumps(e.shown.input, ensure_ascii=False, separators=(",", ":")),
        "toolInput": e.shown.input,  # not documented, and yet some look for it
        "nativeToolName": e.call.name,
    }


def _child_fields(e: EventFacts) -> dict[str, Any]:
    names = dict.fromkeys(("agentType", "agentName", "agentDisplayName"), e.child.name)
    return {"agentId": e.child.child_run_id, **names}


def needs_permission(e: EventFacts) -> bool:
    """Whether hooks for permissions are asked about a call: somebody asks, or it does more than read."""
    is_asked = e.ctx.point == HookPoint.PERMISSION_REQUEST
    return is_asked or e.call.name not in _READING_TOOLS


_EVENTS = {
    "sessionStart": Event(
        "session_start",
        lambda e: {
            "source": "resume" if e.session_source == "resume" else "new",
            "initialPrompt": "",
        },
    ),
    "userPromptSubmitted": Event("prompt_submit", lambda e: {"prompt": e.prompt}),
    "userPromptTransformed": Event(
        "prompt_submit", lambda e: {"prompt": e.prompt, "transformedPrompt": e.prompt}
    ),
    "preToolUse": Event("before_tool_use", _tool_fields, TOOL, denies_failure=True),
    "permissionRequest": Event(
        "permission_request",
        _tool_fields,
        TOOL,
        when=needs_permission,
        # There it is asked before any rule, so also about calls that need no permission here.
        also="before_tool_use",
        denies_failure=True,
    ),
    "notification": Event(
        "permission_request",
        lambda e: {
            **_tool_fields(e),
            "hook_event_name": "Notification",
            "notification_type": "permission_prompt",
            "title": "Permission needed",
            "message": f"{e.shown.name} needs permission",
        },
        "notification_type",
        observes=True,
    ),
    "postToolUse": Event(
        "after_tool_use",
        lambda e: {
            **_tool_fields(e),
            "toolResult": {"resultType": "success", "textResultForLlm": e.output},
        },
        TOOL,
        when=lambda e: not e.has_failed,
    ),
    "postToolUseFailure": Event(
        "after_tool_use",
        lambda e: {
            **_tool_fields(e),
            "error": e.failure,
            "toolResult": {"resultType": "failure", "textResultForLlm": e.failure},
        },
        TOOL,
        when=lambda e: e.has_failed,
    ),
    "agentStop": Event(
        "stop",
        lambda e: {
            "stopReason": "end_turn",
            "stop_hook_active": e.was_kept_going,
            "lastMessage": e.last_words,
        },
    ),
    "subagentStart": Event("subagent_start", _child_fields, "agentName"),
    "subagentStop": Event(
        "subagent_stop",
        lambda e: {
            **_child_fields(e),
            "response": e.child_text,
            "stopReason": "end_turn",
            "transcriptPath": e.run.child_transcript,
        },
        "agentName",
    ),
    "preCompact": Event(
        "before_compact",
        lambda e: {"trigger": "auto", "customInstructions": e.compaction.instructions},
        "trigger",
    ),
    "errorOccurred": Event("agent_failed", lambda e: failure(e.error)),
    "sessionEnd": Event("session_end", lambda e: {"reason": session_end_reason(e)}),
}


class Copilot(Dialect):
    """Copilot CLI's protocol."""

    name = "copilot"
    transcripts = CopilotTranscripts
    events = _EVENTS
    runs_in_order = True
    has_files = True
    configuration_folders = (".github",)
    protected_folders = (".github/hooks", ".github/copilot")
    identity_variables = frozenset({"COPILOT_CLI"})
    project_variables = frozenset({"COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR"})
    root_variables = frozenset({"COPILOT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT"})
    data_variables = frozenset({"COPILOT_PLUGIN_DATA"})
    expands_env = True
    tools = ToolNames(TOOLS, mcp="{server}-{tool}")

    def find(self, search: HookSearch) -> Iterable[Handler]:
        """Directories of hook files, settings, and plugins."""
        return _find_hooks(search)

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return _read_file(path, level, search)

    def matcher(self, handler: Handler) -> NameTest:
        """A regular expression over the whole name."""
        return whole_expression(handler.matcher)

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        return {
            "sessionId": found.run.session_uuid,
            "nativeSessionId": found.run.session_id,
            "timestamp": int(time.time() * 1000),
            "cwd": found.run.cwd,
            "transcriptPath": found.run.transcript,
        }

    def payload(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> dict[str, Any]:
        sent = super().payload(handler, ctx, facts)
        return (
            {**sent, "toolArgs": sent["toolInput"]}
            if is_object_reader(handler) and "toolArgs" in sent
            else sent
        )

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        return {**super().variables(handler, facts), "COPILOT_CLI": "1"}

    def frame(self, handler: Handler, result: ProgramResult) -> str:  # noqa: ARG002 - the same for all
        """The output without lines that report progress; if a line begins with `{`, from that one on."""
        kept = [
            line
            for line in result.stdout.splitlines()
            if "progress" not in line
            or (json_object(line) or JsonObject()).get("type") != "progress"
        ]
        text = "\n".join(kept).strip()
        begins = _BEGINS.search(text)
        return text if begins is None else text[begins.start() :]

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """A hook before a tool that fails denies; one that takes too long does not."""
        event, found = handler.event, result.answer
        said = ProgramAnswer() if found is None else _fields(event, found)
        if event in _DENYING:
            return read_denying(said, result)
        if result.code == 0:
            return said
        if result.code == 2 and event == "postToolUseFailure":  # how to continue
            words = "\n".join((*said.contexts, _plain_output(result)))
            return ProgramAnswer(contexts=(words.strip() or result.stderr.strip(),))
        if result.code == 2:
            words = result.stderr.strip() or result.failure
            return ProgramAnswer(messages=(*said.messages, words))
        return failed(result.failure)


def read_denying(said: ProgramAnswer, result: ProgramResult) -> ProgramAnswer:
    """The answer of a hook before a tool. One that fails denies."""
    if result.code != 0:
        reason = said.reason or result.stderr.strip() or _plain_output(result)
        reason = reason or result.failure
        return denied(reason, contexts=said.contexts, messages=said.messages)
    return denied(f"the hook failed: {said.problem}") if said.problem else said


def _plain_output(result: ProgramResult) -> str:
    """The output, if it is no answer."""
    return "" if result.answer is not None else result.stdout


def failure(ctx: FailureHookContext) -> dict[str, Any]:
    """The error that ended a run."""
    where = "system" if ctx.error_class in _OF_THE_SYSTEM else "model_call"
    return {
        "error": {"message": ctx.error_message, "name": ctx.error_type, "stack": ""},
        "errorContext": "tool_execution" if ctx.tool_call is not None else where,
        "recoverable": False,
    }


def session_end_reason(e: EventFacts) -> str:
    """Why a session is over."""
    return "user_exit" if e.session_end == "prompt_input_exit" else _REASONS[e.ending]


def _fields(event: str, found: JsonObject) -> ProgramAnswer:
    for key in ("hookSpecificOutput", "decision"):  # guards for Claude, too, answer as there
        found = JsonObject({**found.object(key), **found})
    word = found.get("permissionDecision") or found.get("behavior") or found.get("decision")
    decision = _DECISIONS.get(text_of(word), "")
    changed = found.get("modifiedArgs", found.get("updatedInput"))
    if isinstance(changed, str):
        changed = json_object(changed)
    if event not in _DENYING and decision != "deny":
        decision = ""
    context = found.text("additionalContext")[:_LONGEST_CONTEXT]
    return ProgramAnswer(
        decision=decision,  # type: ignore[arg-type]
        reason=found.text("permissionDecisionReason", "reason", "message"),
        updated_input=changed if event in _DENYING and isinstance(changed, dict) else None,
        updated_output=_new_output(event, found),
        contexts=(context,) if context.strip() else (),
        messages=found.texts("systemMessage"),
        prompt=found.text("modifiedTransformedPrompt") if event == "userPromptTransformed" else "",
        stops=event == "permissionRequest"
        and decision == "deny"
        and found.get("interrupt") is True,
    )


def _new_output(event: str, found: JsonObject) -> Any:
    if event == "postToolUse":
        return result_text(found.get("modifiedResult", UNCHANGED))
    return new_response(found) if event == "subagentStop" else UNCHANGED


def new_response(found: JsonObject) -> Any:
    """The text in place of a child's answer."""
    response = found.get("modifiedResponse")
    return response if isinstance(response, str) else UNCHANGED


def result_text(value: Any) -> Any:
    """The text of a changed result."""
    return (
        value["textResultForLlm"]
        if isinstance(value, dict) and "textResultForLlm" in value
        else value
    )


# --- the fields that a script knows -------------------------------------------------------------------
# VS Code has other tools than Copilot, and reads files with Copilot's events as if they had its own.

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
_PROJECT = "CLAUDE_PROJECT_DIR as a path"
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
    _PROJECT: re.compile(
        r"""(?<!-[nz] )(?<!-[nz] ["'])\$(?:CLAUDE_PROJECT_DIR\b|\{CLAUDE_PROJECT_DIR\})"""
        r"""|environ\[["']CLAUDE_PROJECT_DIR|process\.env\.CLAUDE_PROJECT_DIR\s*[,}+]"""
    ),
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
    texts = (handler.command, *(handler.argv or ()), *map(_text, find_scripts(handler, project)))
    words = words_in("\n".join(texts))
    names_tools = not words.isdisjoint({*_ITS_OWN, _CLAUDES, _COPILOTS})
    if is_vscodes and not handler.matcher and not names_tools:
        words |= {KEY}
    handler = msgspec.structs.replace(handler, known_fields=words)
    if handler.event in _PASCAL and words & _SNAKE and not words & _CAMEL:
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


def is_for_copilot(handler: Handler) -> bool:
    """Whether a hook looks for Copilot's tools only."""
    return _COPILOTS in handler.known_fields and _CLAUDES not in handler.known_fields


def is_object_reader(handler: Handler) -> bool:
    """Whether a hook reads `toolArgs` as an object. In Copilot they were text at first."""
    return _AS_OBJECT in handler.known_fields and _AS_TEXT not in handler.known_fields


def needs_project(handler: Handler) -> bool:
    """Whether a hook uses CLAUDE_PROJECT_DIR as a path, without a default. A question whether it is set is no use."""
    is_in_command = _MARKED[_PROJECT].search("\n".join((handler.command, *(handler.argv or ()))))
    return _PROJECT in handler.known_fields or is_in_command is not None


# --- configuration files ------------------------------------------------------------------------------

_POLICIES = Path("github-copilot") / "policy.d"
_TIMEOUT = 30.0
_FAILED = "postToolUseFailure"
_LOCATIONS = "chat.hookFilesLocations"
_USUAL = ".github/hooks"
_COMMANDS = frozenset({"bash", "powershell", "command", "script"})
"""Keys of a hook: a file that has them at the top has no events."""
_MANIFESTS = ("plugin.json", ".github/plugin/plugin.json", ".claude-plugin/plugin.json")
_OF_CLAUDE = (".claude/settings.json", ".claude/settings.local.json")


def _find_hooks(search: HookSearch) -> list[Handler]:
    """The administrator's hooks, then the user's, the repository's and those of plugins."""
    own = own_directory(search.home, ".copilot", "COPILOT_HOME")
    found: list[Handler] = []
    if search.system is not None:
        policies = _in(search.system / _POLICIES)
        paths = [path for path in policies if _is_the_administrators(path, search.warn)]
        found += _read(paths, Level.MANAGED, search)
    users = [own / "settings.json", own / "config.json"]
    if _is_switched_off(*users):
        return found
    found += _read([*users, *_in(own / "hooks")], Level.USER, search)
    folder = search.project / ".github" / "copilot"
    settings, local = folder / "settings.json", folder / "settings.local.json"
    if not _is_switched_off(settings, local):
        found += _read([*_in_project(search), settings], Level.PROJECT, search)
        found += _read([local], Level.LOCAL, search)
    for root in sorted((own / "installed-plugins").glob("*/*/")):
        found += _plugin(root, own / "plugin-data" / root.parent.name / root.name, search)
    return found


def _in_project(search: HookSearch) -> list[Path]:
    """The hook files of a repository: in the usual directory, and where its settings for VS Code say."""
    project, path = search.project, search.project / ".vscode" / "settings.json"
    warn = about(".vscode/settings.json", search.warn)
    is_said = _LOCATIONS in (load_text(path, quiet) or "")
    given = load_file(path, warn).object(_LOCATIONS) if is_said else {}
    said = {_USUAL: True, **given}
    found: dict[Path, None] = {}
    for name, is_on in said.items():
        if is_on is not True or name.startswith("~") or name in _OF_CLAUDE:
            continue  # the user's files, and Claude's, are read anyway
        path = project / name
        if not path.resolve().is_relative_to(project.resolve()):
            warn(f"{_LOCATIONS}: '{name}' is outside of the project, so it is not read")
            continue
        found |= dict.fromkeys(_in(path) if path.is_dir() else [path])
    return list(found)


def _in(directory: Path) -> list[Path]:
    """The hook files of a directory, and those in directories of their own."""
    return sorted([*directory.glob("*.json"), *directory.glob("*/hooks.json")])


def _is_the_administrators(path: Path, warn: Warn) -> bool:
    try:
        facts = path.stat()
    except OSError as error:
        warn(DroppedHook(f"{path}: it cannot be read ({error})"))
        return False
    if facts.st_uid == 0 and not facts.st_mode & 0o022:
        return True
    warn(DroppedHook(f"{path}: not only the administrator can write it, so it is not read"))
    return False


def _is_switched_off(*paths: Path) -> bool:
    contents = (load_file(path, quiet) for path in paths)
    return any(content.get("disableAllHooks") is True for content in contents if content)


def _read(paths: list[Path], level: Level, search: HookSearch) -> Iterator[Handler]:
    for path in paths:
        yield from _read_file(path, level, search)


def _read_file(path: Path, level: Level, search: HookSearch) -> list[Handler]:
    """One file. Events in Pascal case are in the dialect of VS Code."""
    file = hook_file(search.source("copilot", level, path), search.warn)
    if "hooks" not in file.content and not _COMMANDS.isdisjoint(file.content):
        said = "it has no 'hooks' object with the names of events in it, so nothing of it runs"
        file.warn(DroppedHook(said))
    return _handlers(file, search.project)


def _plugin(root: Path, data: Path, search: HookSearch) -> Iterator[Handler]:
    """The hooks of an installed plugin."""
    plugin = Plugin(root, search, _MANIFESTS, ("hooks.json", "hooks/hooks.json"))
    for path, content in plugin.files():
        source = search.source("copilot", Level.PLUGIN, path, root=str(root), data=str(data))
        bare = content if "hooks" in content else {"hooks": content}
        yield from _handlers(hook_file(source, search.warn, bare), search.project)


def _handlers(file: HookFile, project: Path) -> list[Handler]:
    hooks, version = file.content.get("hooks", {}), file.content.get("version", 1)
    if file.content.get("disableAllHooks") is True:
        return []
    if hooks and version != 1:
        file.warn(DroppedHook(f"version {version!r} is not known, so none of it is read"))
        return []
    if not isinstance(hooks, dict):
        file.warn(DroppedHook("'hooks' is not an object, so it has none"))
        return []
    as_vscode = _as_vscode(file)
    is_vscodes = "version" not in file.content  # Copilot asks for one
    found = [
        with_known_fields(handler, project, is_vscodes=is_vscodes and not _is_grouped(entries))
        for event, entries in hooks.items()
        for handler in _event(event, entries, as_vscode if event[:1].isupper() else file)
    ]
    if _FAILED not in hooks:  # at first there was one event for both, and the result said which
        after = [each for each in found if each.event == "postToolUse"]
        before = [each for each in after if _FAILURES in each.known_fields]
        found += [msgspec.structs.replace(each, event=_FAILED) for each in before]
    return found


def _as_vscode(file: HookFile) -> HookFile:
    return file._replace(source=msgspec.structs.replace(file.source, dialect="vscode"))


def read_vscode_entries(hooks: dict[str, Any], file: HookFile, project: Path) -> Iterator[Handler]:
    """The hooks of a page in VS Code's form, without groups."""
    for handler in _as_vscode(file).flat(hooks, _make_hook):
        yield with_known_fields(handler, project, is_vscodes=True)


def _event(event: str, entries: Any, file: HookFile) -> Iterator[Handler]:
    """The hooks of an event, with or without groups."""
    if not _is_grouped(entries):
        return file.flat({event: entries}, _make_hook)
    make = make_claude_hook if file.source.dialect == "vscode" else _make_hook
    return file.read_nested({event: entries}, make)


def _is_grouped(entries: Any) -> bool:
    """Whether hooks are in groups, as in Claude's files."""
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and "hooks" in entry for entry in entries
    )


def _make_hook(entry: HookEntry) -> Handler | None:
    hook, kind = entry.fields, entry.fields.get("type", "command")
    if kind == "prompt":
        entry.warn("a prompt is for interactive sessions, so it is ignored")
        return None
    what: dict[str, Any]
    if kind == "http" and entry.text("url"):
        what = entry.address()
    elif kind == "command" and _words(hook):
        what = {"argv": _words(hook)}
    elif kind == "command" and _line(entry).strip():
        what = {"command": _line(entry), "shell": usual_shell()}
    else:
        entry.warn(DroppedHook("a hook has no command for this machine, so it is ignored"))
        return None
    return entry.handler(
        **what,
        matcher=entry.text("matcher") or entry.group.text("matcher"),
        timeout=entry.seconds(_TIMEOUT, "timeoutSec", "timeout"),
        env=hook.strings("env"),
        cwd=entry.text("cwd"),
        label=entry.text("comment")[:60],
    )


def _words(hook: Mapping[str, Any]) -> tuple[str, ...]:
    """A program and its arguments, without a shell; empty if there is none."""
    program, args = hook.get("exec"), hook.get("args")
    words = program if isinstance(program, list) else [program] if program else []
    return tuple(map(str, [*words, *(args if words and isinstance(args, list) else ())]))


def _line(entry: HookEntry) -> str:
    ours = "osx" if sys.platform == "darwin" else "linux"
    return entry.fields.text("bash", ours, "command")
