"""Codex's hooks: Claude's schema and events, read more strictly."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks.dialect import (
    Dialect,
    Event,
    EventFacts,
    Line,
    Transcripts,
    timestamp,
)
from hookline.command_hooks.dialects.claude.protocol import Claude, wrong_field
from hookline.command_hooks.dialects.claude.settings import make_hook as make_claude_hook
from hookline.command_hooks.dialects.claude.tools import EDIT_KEYS, FILE_KEYS
from hookline.command_hooks.dialects.claude.tools import TOOLS as CLAUDE_TOOLS
from hookline.command_hooks.dialects.config_files import (
    HookEntry,
    Plugin,
    hook_file,
    load_file,
    quiet,
    usual_shell,
    without_keys,
)
from hookline.command_hooks.handler import (
    DroppedHook,
    Handler,
    HookSearch,
    HookSource,
    JsonObject,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    Warn,
    denied,
    failed,
    own_directory,
)
from hookline.command_hooks.tools import (
    SHELL_TOOLS,
    NameTest,
    ShownCall,
    ToolForm,
    ToolNames,
    names_or_expression,
    server_result,
)
from hookline.state import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_TOP_KEYS = frozenset({"hooks", "description", "$schema"})
_MANAGED_FILES = ("requirements.toml", "managed_config.toml")
"""Files that only the administrator has."""
_NO_EVENTS = ("state", "managed_dir", "windows_managed_dir")
_MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json")
_KEYS = frozenset(
    {"continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput"}
)  # fmt: skip
_SPECIFIC = frozenset(
    {"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext", "decision",
     "additionalContextLimit", "updatedToolOutput", "updatedMCPToolOutput"}
)  # fmt: skip
_CONTEXT = ("SessionStart", "SubagentStart", "UserPromptSubmit")
_BLOCKING = (
    "PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact",
)  # fmt: skip


_READING = {
    "read": ("cat",),
    "list": ("ls",),
    "glob": ("rg", "--files", "-g"),
    "search": ("rg",),
}
"""Our tools that read, and the commands that Codex reads with: it has no tools for that."""
_PATCHING = ("write", "edit")
_TEXT = (*SHELL_TOOLS, *_READING, *_PATCHING)
"""Tools whose response is plain text."""


def _patch(call: ToolCall, _given: Mapping[str, Any]) -> dict[str, Any]:
    """A change to a file in the form of Codex's patches."""
    path = str(call.args.get("path", ""))
    if call.name == "write":
        body = [f"*** Add File: {path}", *_mark_lines("+", str(call.args.get("content", "")))]
    else:
        edits = call.args.get("edits") or [call.args]
        body = [f"*** Update File: {path}"]
        for edit in edits:
            body += [
                "@@",
                *_mark_lines("-", str(edit.get("old", ""))),
                *_mark_lines("+", str(edit.get("new", ""))),
            ]
    return {"command": "\n".join(["*** Begin Patch", *body, "*** End Patch", ""])}


def _mark_lines(mark: str, text: str) -> list[str]:
    return [mark + line for line in text.splitlines()]


_TOOLS = {
    **CLAUDE_TOOLS,
    # Beside the patch are the arguments of Claude's tools: people have one guard for both.
    "write": ToolForm("apply_patch", FILE_KEYS, ("Write", "Edit"), made=_patch),
    "edit": ToolForm("apply_patch", EDIT_KEYS, ("Write", "Edit"), made=_patch),
    "spawn_subagent": ToolForm("spawn_agent", {"agent": "subagent_type"}, ("Agent",)),
}


# --- transcript -----------------------------------------------------------------------------------------


class CodexTranscripts(Transcripts):
    """The conversation as Codex keeps it."""

    suffix = ".codex.jsonl"

    def head(self, facts: RunFacts) -> Iterator[Line]:
        about_session = {"id": facts.session_uuid, "timestamp": timestamp(), "cwd": facts.cwd}
        named = {"originator": "hookline", "cli_version": "hookline"}
        yield _line("session_meta", {**about_session, **named})

    def lines_of(self, message: Message, facts: RunFacts) -> Iterator[Line]:
        if isinstance(message, ToolMessage):
            said = {"call_id": message.call_id, "output": message.text}
            yield _line("response_item", {"type": "function_call_output", **said})
            return
        is_model = isinstance(message, AssistantMessage)
        if message.text:
            content = [{"type": "output_text" if is_model else "input_text", "text": message.text}]
            role = "assistant" if is_model else "user"
            yield _line("response_item", {"type": "message", "role": role, "content": content})
        if is_model and message.text:
            yield _line("event_msg", {"type": "agent_message", "message": message.text})
        if isinstance(message, UserMessage) and not message.by:
            yield _line("event_msg", {"type": "user_message", "message": message.text})
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            yield _line("response_item", _call(call, facts))


def _line(kind: str, payload: Line) -> Line:
    return {"timestamp": timestamp(), "type": kind, "payload": payload}


def _call(call: ToolCall, facts: RunFacts) -> Line:
    shown = Codex().show(call, facts)
    about = {"call_id": call.id, "name": shown.name}
    if shown.name == "apply_patch":
        return {"type": "custom_tool_call", **about, "input": shown.input["command"]}
    given = shown.input
    if shown.name == "Bash":
        about["name"], given = "exec_command", {"cmd": given.get("command", "")}
    return {"type": "function_call", **about, "arguments": json.dumps(given, default=str)}


# --- the protocol --------------------------------------------------------------------------------------


_OF_CLAUDE = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "Stop", "SubagentStart", "SubagentStop",
    "PreCompact", "PostCompact", "StopFailure", "SessionEnd",
)  # fmt: skip


def _tool_result_fields(e: EventFacts) -> dict[str, Any]:
    """After a tool there is one event, however it went."""
    sent, name = Claude.events["PostToolUse"].sent(e), e.call.name
    if name in _TEXT:
        sent["tool_response"] = e.output
    elif name.startswith("mcp__"):
        sent["tool_response"] = server_result(e.execution)
    return sent


def _notification_fields(e: EventFacts) -> dict[str, Any]:
    said = (m for m in e.ctx.state.messages if isinstance(m, UserMessage))
    return {
        "type": "agent-turn-complete",
        "thread-id": e.run.session_uuid,
        "turn-id": e.ctx.state.run_id,
        "cwd": e.run.cwd,
        "input-messages": [m.text for m in said if not m.by],
        "last-assistant-message": e.last_words,
    }


class Codex(Claude):
    """Codex's protocol."""

    name = "codex"
    transcripts = CodexTranscripts
    home_folder = ".codex"
    configuration_folders = (".codex",)
    manifests = (".codex-plugin/plugin.json",)
    identity_variables = frozenset({"CODEX_ENV_FILE"})
    root_variables = frozenset({"PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"})
    data_variables = frozenset({"PLUGIN_DATA", "CLAUDE_PLUGIN_DATA"})
    withholds_results = True
    is_claude_code = False
    tools = ToolNames(_TOOLS, milliseconds=True)
    events: ClassVar[dict[str, Event]] = {
        **{name: Claude.events[name] for name in _OF_CLAUDE},
        "PostToolUse": Claude.events["PostToolUse"]._replace(
            sent=_tool_result_fields, when=lambda _e: True
        ),
        "notify": Event("stop", _notification_fields, when=lambda e: e.is_undecided, observes=True),
    }
    unsupported = frozenset({"Interrupt"})

    # --- files --------------------------------------------------------------------------------------

    def find(self, search: HookSearch) -> Iterable[Handler]:
        """Plugins, and `hooks.json` and `config.toml` of each level."""
        own = own_directory(search.home, ".codex", "CODEX_HOME")
        roots = {
            **dict.fromkeys(_installed_plugins(own, search.warn), Level.PLUGIN),
            **_own_plugins(search),
        }
        for root, level in roots.items():
            yield from _plugin(root, level, own, search)
        places = search.places("codex", own, search.project / ".codex")
        for level, directory in places:
            yield from _in_directory(directory, level, search)
            if _is_switched_off(directory, level) and not level.is_repository:
                return
            if level is Level.MANAGED:
                required = load_file(directory / "requirements.toml", quiet)
                if required.get("allow_managed_hooks_only") is True:
                    return

    def find_named(self, search: HookSearch) -> Iterable[Handler]:
        own = own_directory(search.home, ".codex", "CODEX_HOME")
        for root, level in _own_plugins(search).items():
            yield from _plugin(root, level, own, search)

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        """One `hooks.json` or `config.toml`."""
        return _file(path, level, search)

    # --- events -------------------------------------------------------------------------------------

    def matcher(self, handler: Handler) -> NameTest:
        """Exact names of a narrower set, or a regular expression."""
        return names_or_expression(handler.matcher, narrow=True)

    def show(self, call: ToolCall, facts: RunFacts) -> ShownCall:
        """A call under Codex's names: files are read by commands."""
        shown = super().show(call, facts)
        if call.name in _READING:
            given = (shown.input.get(key) for key in ("pattern", "file_path", "path"))
            words = [*_READING[call.name], *(str(each) for each in given if each)]
            return ShownCall("Bash", {"command": shlex.join(words)}, (shown.name,))
        return shown

    def names_of_tool(self, event: str, tool: str) -> tuple[str, ...]:
        """As usual; what reads files is a command, too."""
        names = super().names_of_tool(event, tool)
        return (*names, "Bash") if names and tool in _READING else names

    def take_back(self, call: ToolCall, shown: ShownCall, answer: ProgramAnswer) -> ToolCall:
        """The call with a hook's changes. A changed command for reading is ignored."""
        if call.name in _READING:
            return call
        if call.name in _PATCHING:
            updated = {**shown.input, **(answer.updated_input or {})}
            answer = msgspec.structs.replace(answer, updated_input=updated)
        return super().take_back(call, shown, answer)

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        """As Claude's, with the turn and the model; `notify` has a form of its own."""
        if event == "notify":
            return {}
        turn = {"turn_id": f"{found.ctx.state.run_id}", "model": found.run.model}
        return {**super().common_fields(event, found), **turn}

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        names = ("CODEX_ENV_FILE", "CLAUDE_ENV_FILE") if handler.event == "SessionStart" else ()
        files = dict.fromkeys(names, facts.env_file) if facts.env_file else {}
        found = Dialect.variables(self, handler, facts)
        return {**found, **files, "CODEX_SESSION_ID": facts.session_uuid}

    # --- answers ------------------------------------------------------------------------------------

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """Stricter than Claude: what is not exactly right is a failure."""
        found, event = result.answer, handler.event
        if event == "notify":
            return ProgramAnswer() if result.code == 0 else failed(result.failure)
        if result.code == 2:
            if event not in _BLOCKING:
                return failed(result.failure)
            # In Codex it is a failure without words on stderr, and the call passes: no denial is lost here.
            return denied(result.stderr.strip() or "no reason was given")
        if result.code != 0:
            return failed(result.failure)
        if found is None:
            words = (result.stdout.strip(),) if event in _CONTEXT and result.stdout.strip() else ()
            return ProgramAnswer(contexts=words)
        problem = wrong_field(found) or _unsupported_field(event, found)
        if problem:
            return failed(f"its output does not fit: {problem}")
        answer = self.fields(event, found)
        if event == "PostToolUse" and answer.stops:  # there it withholds the result
            reason = answer.reason or answer.stop_reason or "a hook withheld the result"
            return msgspec.structs.replace(answer, stops=False, decision="deny", reason=reason)
        return answer


def _unsupported_field(event: str, found: JsonObject) -> str:
    """The first field that Codex does not accept; empty if there is none."""
    specific = found.object("hookSpecificOutput")
    unknown = sorted((found.keys() - _KEYS) | (specific.keys() - _SPECIFIC))
    if unknown:
        return f"'{unknown[0]}' is not known"
    if event == "PermissionRequest":  # yes and no only
        given = specific.object("decision")
        reserved = [
            key for key in ("updatedInput", "updatedPermissions") if given.get(key) is not None
        ]
        reserved += ["interrupt"] if given.get("interrupt") is True else []
        return f"'{reserved[0]}' is not supported here" if reserved else ""
    if event in ("Stop", "SubagentStop") and found.get("decision") == "block":
        return "" if found.text("reason").strip() else "an objection needs a reason"
    if event != "PreToolUse":
        return ""
    decision, updated = specific.get("permissionDecision"), specific.get("updatedInput")
    if found.get("continue") is False:
        return "'continue' cannot be false here"
    if decision in ("ask", "defer") or found.get("decision") == "approve":
        return "only a denial is supported"
    if decision == "allow" and updated is None:
        return "'allow' needs 'updatedInput'"
    if updated is not None and decision != "allow":
        return "'updatedInput' needs 'allow'"
    reason = specific.text("permissionDecisionReason") or found.text("reason")
    if (decision == "deny" or found.get("decision") == "block") and not reason.strip():
        return "a denial needs a reason"
    return ""


# --- files ----------------------------------------------------------------------------------------------


def _in_directory(directory: Path, level: Level, search: HookSearch) -> Iterator[Handler]:
    names = ("hooks.json", "config.toml", *(_MANAGED_FILES if level is Level.MANAGED else ()))
    is_off = _is_switched_off(directory, level)
    for name in names:
        for handler in _file(directory / name, level, search):
            if not is_off or handler.event == "notify":
                yield handler


def _is_switched_off(directory: Path, level: Level) -> bool:
    """Whether a configuration switches hooks off, by the name of the feature or its former name."""
    for name in ("config.toml", *(_MANAGED_FILES if level is Level.MANAGED else ())):
        features = load_file(directory / name, quiet).object("features")
        if features.get("hooks", features.get("codex_hooks")) is False:
            return True
    return False


def _file(path: Path, level: Level, search: HookSearch) -> list[Handler]:
    """One file. An unknown key at the top of a `hooks.json` refuses all of it, as in Codex."""
    file = hook_file(search.source("codex", level, path), search.warn)
    hooks = file.content.get("hooks", {})
    if path.suffix == ".toml":
        hooks = _by_event(hooks)
        hooks = without_keys(hooks, _NO_EVENTS)
        return [
            *file.read_nested(hooks, _make_hook),
            *_notify(file.content.get("notify"), file.source),
        ]
    unknown = sorted(file.content.keys() - _TOP_KEYS)
    if unknown:
        file.warn(DroppedHook(f"'{unknown[0]}' is not known, so none of it is read"))
        return []
    return list(file.read_nested(hooks, _make_hook))


def _notify(argv: Any, source: HookSource) -> Iterator[Handler]:
    """The program that is started at the end of a turn."""
    if isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv):
        yield Handler(
            source,
            "notify",
            argv=tuple(argv),
            in_argument=True,
            timeout=30.0,
            definition={"event": "notify", "argv": argv},
        )


def _by_event(hooks: Any) -> Any:
    """Hooks by event, where they are in one list: some installers write `[[hooks]]`, with an `event` in each."""
    if not isinstance(hooks, list) or not all(isinstance(each, dict) for each in hooks):
        return hooks
    found: dict[str, list[dict[str, Any]]] = {}
    for each in hooks:
        hook = {key: value for key, value in each.items() if key not in ("event", "matcher")}
        group = {"hooks": [{"type": "command", **hook}], "matcher": each.get("matcher", "")}
        found.setdefault(str(each.get("event", "")), []).append(group)
    return found


def _make_hook(entry: HookEntry) -> Handler | None:
    handler = make_claude_hook(entry)
    if handler is None:
        return None
    if handler.kind not in ("command", "mcp_tool"):
        entry.warn(f"hooks of type {handler.kind!r} are not run by Codex, so it is ignored")
        return None
    timeout = entry.seconds(600.0, "timeout", "timeoutSec")
    if entry.event == "SessionEnd":
        timeout = min(entry.seconds(1.0), 3.0)
    return msgspec.structs.replace(handler, shell=handler.shell or usual_shell(), timeout=timeout)


def _installed_plugins(own: Path, warn: Warn) -> Iterator[Path]:
    """The newest version of each plugin that the user's configuration switches on."""
    content = load_file(own / "config.toml", quiet)
    features = content.object("features")
    if False in (features.get("hooks"), features.get("plugin_hooks")):
        return
    for name, said in content.object("plugins").items():
        if not isinstance(said, dict) or said.get("enabled", True) is not True:
            continue
        plugin, _, market = name.partition("@")
        versions = sorted((own / "plugins" / "cache" / market / plugin).glob("*/"), key=_version)
        if versions:
            yield versions[-1]
        else:
            warn(f"~/.codex/config.toml: the plugin '{name}' is switched on, and not installed")


def _version(root: Path) -> list[tuple[int, int, str]]:
    """By what versions are compared: numbers as numbers, and a word before any number."""
    parts = re.findall(r"\d+|[a-z]+", root.name.lower())
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _plugin(root: Path, level: Level, own: Path, search: HookSearch) -> Iterator[Handler]:
    """A plugin's hooks."""
    plugin = Plugin(root, search, _MANIFESTS)
    is_cached = root.parent.parent.parent == own / "plugins" / "cache"
    usual = root.parent.name if is_cached else root.name
    name = plugin.manifest.text("name") or usual
    data = own / "plugins" / "data" / name
    for path, content in plugin.files():
        source = HookSource("codex", level, str(path), f"{name}/{path.name}", str(root), str(data))
        file = hook_file(source, search.warn, content)
        yield from file.read_nested(content.get("hooks", {}), _make_hook)


def _own_plugins(search: HookSearch) -> dict[Path, Level]:
    """The named plugins that are for Codex alone. One that is for Claude, too, is read there."""
    found = {}
    for root, level in search.plugins.items():
        is_codex, is_claude = ((root / each).is_file() for each in _MANIFESTS)
        if is_codex and not is_claude:
            found[root] = level
    return found
