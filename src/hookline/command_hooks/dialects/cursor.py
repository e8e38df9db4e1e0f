"""Cursor's hooks: several events for one tool call, by the kind of tool."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hookline.command_hooks.dialect import (
    TOOL,
    Dialect,
    Event,
    EventFacts,
    Line,
    ModelVerdict,
    Transcripts,
)
from hookline.command_hooks.dialects.claude.tools import (
    EDIT_KEYS,
    SEARCH_KEYS,
)
from hookline.command_hooks.dialects.config_files import (
    HookEntry,
    HookFile,
    Plugin,
    hook_file,
    usual_shell,
)
from hookline.command_hooks.handler import (
    UNCHANGED,
    DroppedHook,
    Handler,
    HookSearch,
    HookSource,
    JsonObject,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    as_uuid,
    denied,
    failed,
    is_labelled,
    object_of,
    text_of,
)
from hookline.command_hooks.objections import is_abandoned
from hookline.command_hooks.tools import (
    SHELL_TOOLS,
    NameTest,
    ToolForm,
    ToolNames,
    expression,
    is_interrupted,
    mcp_names,
    output_text,
    result_of,
    server_result,
)
from hookline.lifecycle import HookPoint
from hookline.shell_text import UNKNOWN
from hookline.shell_text.command_search import find_commands
from hookline.state import (
    AssistantMessage,
    Message,
    ResultStatus,
    RunStatus,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)

_PATH = ("file_path", "path")
"""Versions of Cursor differ in the name."""
_TOOLS: dict[str, ToolForm] = {
    "bash": ToolForm("Shell", {"cwd": "working_directory"}),
    "exec": ToolForm("Shell", {"cwd": "working_directory"}),
    "read": ToolForm("Read", {"path": _PATH}),
    "write": ToolForm("Write", {"path": _PATH, "content": ("content", "contents")}),
    "edit": ToolForm("Write", {**EDIT_KEYS, "path": _PATH}, ("Edit", "StrReplace")),
    "search": ToolForm("Grep", SEARCH_KEYS),
    "glob": ToolForm("Glob", {}),
    "list": ToolForm("LS", {}),
    "spawn_subagent": ToolForm("Task", {"agent": "subagent_type"}),
}

_MOST_CONTENT = 1 << 20
_LETTERS = 4
"""Letters of a token, about."""
_ENDINGS = {RunStatus.FAILED: "error", RunStatus.CANCELLED: "aborted"}
_MANIFEST = ".cursor-plugin/plugin.json"
_TIMEOUT = 60.0
_LOOP_LIMIT = 5
_SHELL = frozenset({"beforeShellExecution", "afterShellExecution"})
_DECIDING = frozenset(
    {"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeSubmitPrompt",
     "subagentStart"}
)  # fmt: skip
"""Events before something happens: there `continue: false` is a no to it, and not the end of the run."""
_SEES_OUTPUT = frozenset({"postToolUse", "afterShellExecution", "afterMCPExecution"})
_CLOSED = frozenset({"beforeMCPExecution", "beforeReadFile"})
"""Events whose hooks fail closed."""
_VERSION = "2.0.0"
_REFUSED = (ResultStatus.BLOCKED, ResultStatus.DENIED)


# --- transcript -----------------------------------------------------------------------------------------


class CursorTranscripts(Transcripts):
    """What people and the model say, and which tools it calls; results and words of hooks are not in it."""

    suffix = ".cursor.jsonl"

    def lines_of(self, message: Message, facts: RunFacts) -> Iterator[Line]:
        if isinstance(message, AssistantMessage):
            calls = [Cursor().show(call, facts) for call in message.calls]
            said = [{"type": "text", "text": message.text}] if message.text else []
            used = [{"type": "tool_use", "name": each.name, "input": each.input} for each in calls]
            yield {"role": "assistant", "message": {"content": [*said, *used]}}
        elif isinstance(message, UserMessage) and not is_labelled(message):
            asked = f"<user_query>\n{message.text}\n</user_query>"
            content = [{"type": "text", "text": message.text if message.by else asked}]
            yield {"role": "user", "message": {"content": content}}


# --- events ---------------------------------------------------------------------------------------------


def _duration_fields(e: EventFacts) -> dict[str, int]:
    return {} if e.tool.execution is None else {"duration": e.milliseconds}


def _shell_fields(e: EventFacts) -> dict[str, Any]:
    ended = {} if e.tool.execution is None else {"output": e.output, **_duration_fields(e)}
    return {"command": e.command, "cwd": e.run.cwd, "sandbox": False, **ended}


def _server_tool_fields(e: EventFacts) -> dict[str, Any]:
    server, tool = mcp_names(e.call.name) or ("", e.shown.name)
    sent = {"server": server, "tool_name": tool, "tool_input": json.dumps(e.shown.input)}
    if e.tool.execution is None:
        return {**sent, **e.server(lambda words: {"command": shlex.join(words)})}
    result = json.dumps(server_result(e.execution))
    return {**sent, "result_json": result, **_duration_fields(e)}


def _tool_fields(e: EventFacts) -> dict[str, Any]:
    return {
        "tool_name": e.shown.name,
        "tool_input": e.shown.input,
        "tool_use_id": e.call.id,
        "cwd": e.run.cwd,
        "native_tool_name": e.call.name,
    }


def _thoughts(e: EventFacts) -> str:
    return "\n".join(part.text for part in e.response.reasoning if part.text)


def _is_command(e: EventFacts) -> bool:
    return e.call.name in SHELL_TOOLS


def _is_servers(e: EventFacts) -> bool:
    return e.call.name.startswith("mcp__")


def _is_failure(e: EventFacts) -> bool:
    return e.has_failed or e.execution.status in _REFUSED


def _failure(execution: ToolResult) -> str:
    """Why a call failed, in a word."""
    if execution.status in _REFUSED:
        return "permission_denied"
    return "timeout" if execution.metadata.get("ended") == "timeout" else "error"


def _status(e: EventFacts) -> str:
    """How a run ended, or is about to."""
    if e.ctx.point == HookPoint.AGENT_FAILED:
        return "error"
    return "aborted" if is_abandoned(e.ctx) else "completed"


def _child_fields(e: EventFacts) -> dict[str, Any]:
    child = e.child
    return {
        "subagent_id": as_uuid(child.child_run_id),
        "subagent_type": child.name,
        "task": child.prompt,
    }


def _child_end_fields(e: EventFacts) -> dict[str, Any]:
    result = e.child.result
    messages = () if result is None else result.state.messages
    status = getattr(result, "status", None)
    seconds = 0.0 if result is None else result.state.counters.active_seconds
    return {
        **_child_fields(e),
        "status": "completed" if status is None else _ENDINGS.get(status, "completed"),
        "summary": e.child_text,
        "duration_ms": round(seconds * 1000),
        "message_count": len(messages),
        "tool_call_count": sum(len(getattr(each, "calls", ())) for each in messages),
        "loop_count": e.run.objections,
        "agent_transcript_path": e.run.child_transcript or None,
    }


def _call_id(child_run_id: str) -> str:
    """The call that started a child. A run is named after its parent, the step, the call, and a number."""
    parts = child_run_id.rsplit("/", 2)
    return parts[1] if len(parts) > 2 else ""


def _compaction_fields(e: EventFacts) -> dict[str, Any]:
    state = e.ctx.state
    letters = sum(len(message.text) for message in state.messages)
    return {
        "trigger": "auto",
        "context_tokens": letters // _LETTERS,
        "message_count": len(state.messages),
        "messages_to_compact": len(e.compaction.messages),
        "is_first_compaction": not object_of(state.metadata.get("summaries")).get("count"),
    }


def _session_end_fields(e: EventFacts) -> dict[str, Any]:
    state, ended = e.ctx.state, e.ending.replace("timeout", "aborted")
    return {
        "reason": "user_close" if e.session_end == "prompt_input_exit" else ended,
        "duration_ms": round(state.counters.active_seconds * 1000),
        "is_background_agent": False,
        "final_status": ended,
        **({"error_message": state.ending.reason} if ended == "error" and state.ending else {}),
    }


def _tokens(usage: Usage) -> dict[str, int]:
    """The tokens of a request and its response."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return {name: getattr(usage, name) for name in names}


# --- files as hooks see them ----------------------------------------------------------------------------


def _content_of(path: str, facts: RunFacts) -> str:
    """The beginning of a file of the project; empty for any other file."""
    full = Path(path)
    try:
        if not full.resolve().is_relative_to(facts.project) or not full.is_file():
            return ""
        with full.open("rb") as file:
            return file.read(_MOST_CONTENT).decode(errors="replace")
    except OSError:
        return ""


def _output_of(call: ToolCall, execution: ToolResult) -> str:
    """A result as JSON in a text; of a command with its exit code."""
    if call.name not in SHELL_TOOLS:
        return json.dumps(output_text(execution))
    code = execution.metadata.get("exit_code", 0)
    return json.dumps({"exitCode": code, "stdout": output_text(execution)})


def _result_in(call: ToolCall, said: Any) -> Any:
    """A changed result, out of the JSON in which it was shown."""
    try:
        value = json.loads(said) if isinstance(said, str) else said
    except ValueError:
        return said
    if call.name in SHELL_TOOLS and isinstance(value, dict):
        return value.get("stdout", said)
    return value if isinstance(value, str) else said


def _edits_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The edits of a call."""
    if "edits" in given:
        return [
            {key: edit.get(key, "") for key in ("old_string", "new_string")}
            for edit in given["edits"]
        ]
    if "content" in given:
        return [{"old_string": "", "new_string": given["content"]}]
    return [{key: given.get(key, "") for key in ("old_string", "new_string")}]


_EVENTS = {
    "sessionStart": Event(
        "session_start",
        lambda e: {"is_background_agent": False, "composer_mode": "agent", "cwd": e.run.cwd},
    ),
    "beforeSubmitPrompt": Event("prompt_submit", lambda e: {"prompt": e.prompt, "attachments": []}),
    "preToolUse": Event(
        "before_tool_use",
        lambda e: {
            **_tool_fields(e),
            "agent_message": "" if e.tool.response is None else e.tool.response.text,
        },
        TOOL,
    ),
    "beforeShellExecution": Event("before_tool_use", _shell_fields, "command", _is_command),
    "beforeMCPExecution": Event("before_tool_use", _server_tool_fields, TOOL, _is_servers),
    "beforeReadFile": Event(
        "before_tool_use",
        lambda e: {
            "file_path": e.path,
            "content": _content_of(e.path, e.run),
            "attachments": [],
        },
        TOOL,
        when=lambda e: e.call.name == "read",
    ),
    "postToolUse": Event(
        "after_tool_use",
        lambda e: {
            **_tool_fields(e),
            "tool_output": _output_of(e.call, e.execution),
            **_duration_fields(e),
        },
        TOOL,
        when=lambda e: not _is_failure(e),
    ),
    "postToolUseFailure": Event(
        "after_tool_use",
        lambda e: {
            **_tool_fields(e),
            "error_message": e.failure,
            "failure_type": _failure(e.execution),
            "is_interrupt": is_interrupted(e.execution),
            **_duration_fields(e),
        },
        TOOL,
        when=_is_failure,
        observes=True,
    ),
    "afterShellExecution": Event("after_tool_use", _shell_fields, "command", _is_command),
    "afterMCPExecution": Event("after_tool_use", _server_tool_fields, TOOL, _is_servers),
    "afterFileEdit": Event(
        "after_tool_use",
        lambda e: {"file_path": e.path, "edits": _edits_of(e.shown.input)},
        TOOL,
        when=lambda e: e.call.name in ("write", "edit") and not e.has_failed,
    ),
    "afterAgentResponse": Event(
        "after_inference",
        lambda e: {"text": e.response.text, **_tokens(e.response.usage)},
        when=lambda e: bool(e.response.text),
        observes=True,
    ),
    "afterAgentThought": Event(
        "after_inference",
        lambda e: {"text": _thoughts(e)},
        when=lambda e: bool(_thoughts(e)),
        observes=True,
    ),
    "stop": Event(
        "stop",
        lambda e: {
            "status": _status(e),
            "loop_count": e.run.objections,
            **_tokens(e.ctx.state.counters.usage),
        },
        also="agent_failed",
    ),
    "subagentStart": Event(
        "subagent_start",
        lambda e: {
            **_child_fields(e),
            "parent_conversation_id": e.run.session_uuid,
            "tool_call_id": _call_id(e.child.child_run_id),
            "subagent_model": e.run.model,
            "is_parallel_worker": False,
        },
        "subagent_type",
    ),
    "subagentStop": Event("subagent_stop", _child_end_fields, "subagent_type"),
    "preCompact": Event("before_compact", _compaction_fields),
    "sessionEnd": Event("session_end", _session_end_fields),
}


# --- the protocol --------------------------------------------------------------------------------------


class Cursor(Dialect):
    """Cursor's protocol."""

    name = "cursor"
    transcripts = CursorTranscripts
    objections_in_a_row = None  # each hook has a `loop_limit`
    events = _EVENTS
    unsupported = frozenset({"beforeTabFileRead", "afterTabFileEdit", "workspaceOpen"})
    is_asked_when_cancelled = True
    tools = ToolNames(_TOOLS, milliseconds=True, mcp="MCP:{tool}")
    has_files = True
    configuration_folders = (".cursor",)
    project_variables = frozenset({"CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"})
    root_variables = frozenset({"CURSOR_PLUGIN_ROOT"})

    # --- files --------------------------------------------------------------------------------------

    def find(self, search: HookSearch) -> Iterable[Handler]:
        """`hooks.json` of the machine, the user and the project, and the user's plugins."""
        user, project = (each / ".cursor/hooks.json" for each in (search.home, search.project))
        for level, path in search.places("cursor/hooks.json", user, project):
            yield from self.read(path, level, search)
        for root in _plugin_roots(search.home):
            plugin = Plugin(root, search, [_MANIFEST])
            for path, content in plugin.files():
                source = search.source("cursor", Level.PLUGIN, path, root=str(root))
                yield from _hooks(hook_file(source, search.warn, content))

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return _hooks(hook_file(search.source("cursor", level, path), search.warn))

    def mistakes(self, handler: Handler) -> Iterator[tuple[str, str]]:
        """The matcher of a shell event is looked for in the command."""
        if handler.event in _SHELL and handler.matcher in ("Shell", "Bash"):
            yield (
                f"hardly ever runs: its matcher '{handler.matcher}' is looked for in the command's text",
                "Leave the matcher out, to have it run for every command.",
            )

    # --- events -------------------------------------------------------------------------------------

    def matcher(self, handler: Handler) -> NameTest:
        return expression(handler.matcher)

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        session = found.run.session_uuid
        return {
            "conversation_id": session,
            "session_id": session,
            "native_session_id": found.run.session_id,
            "generation_id": as_uuid(found.ctx.state.run_id),
            "model": found.run.model,
            "model_id": found.run.model,
            "model_params": [],
            "hook_event_name": event,
            "cursor_version": _VERSION,
            "workspace_roots": [found.run.project],
            "user_email": None,
            "transcript_path": found.run.transcript or None,
        }

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        found = super().variables(handler, facts)
        return {**found, "CURSOR_VERSION": _VERSION, "CURSOR_TRANSCRIPT_PATH": facts.transcript}

    # --- answers ------------------------------------------------------------------------------------

    def take_result(self, call: ToolCall, answer: ProgramAnswer) -> Any:
        """A result out of the JSON in which hooks see it."""
        return result_of(call, _result_in(call, answer.updated_output))

    def verdict_answer(
        self, handler: Handler, verdict: ModelVerdict, reason: str
    ) -> dict[str, Any]:
        """A model's no, in the fields of the event."""
        if handler.event in ("stop", "subagentStop"):
            return {} if verdict.impossible else {"followup_message": reason}
        if handler.event == "beforeSubmitPrompt":
            return {"continue": False, "user_message": reason}
        return {"permission": "deny", "user_message": reason, "agent_message": reason}

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """Exit code 2 denies; with any other but 0 a no in JSON counts, and a yes does not."""
        event, found = handler.event, result.answer
        if result.code == 2:
            said = _fields(event, found or JsonObject())
            reason = said.reason or result.stderr.strip() or "no reason was given"
            return denied(reason, contexts=said.contexts, messages=said.messages)
        if result.code != 0:
            said = _fields(event, found or JsonObject())
            refuses = said.decision in ("deny", "ask") or said.stops
            return said if refuses else failed(result.failure)
        if found is None:
            if result.stdout.strip() and event in _DECIDING:
                return failed("its output is not JSON")
            return ProgramAnswer()
        return _fields(event, found)


def _fields(event: str, found: JsonObject) -> ProgramAnswer:
    found = JsonObject({**found.object("hookSpecificOutput"), **found})
    to_user = found.text("user_message", "userMessage")
    to_agent = found.text("agent_message", "agentMessage")
    # Also under the names of older versions and of Claude.
    words = (found.get(key) for key in ("permission", "decision", "permissionDecision"))
    known = ("allow", "deny", "ask", "block")
    decision: Any = next((word for word in words if word in known), "").replace("block", "deny")
    if not to_agent and not to_user:
        to_agent = found.text("reason", "permissionDecisionReason")
    # A question is read by the user, a refusal by the model.
    reason = to_user or to_agent if decision == "ask" else to_agent or to_user
    is_no = found.get("continue") is False
    followup = found.text("followup_message", "followupMessage")
    if is_no and event in _DECIDING:
        decision, reason = "deny", (to_user or reason if event == "beforeSubmitPrompt" else reason)
    if event in ("stop", "subagentStop") and followup:
        decision, reason = "deny", followup
    updated = found.get("updated_input", found.get("updatedInput"))
    output = found.get("updated_mcp_tool_output", found.get("modifiedToolOutput", UNCHANGED))
    contexts = [found.text("additional_context", "additionalContext")]
    contexts += [] if decision in ("deny", "ask") else [to_agent]
    env = found.get("env")
    return ProgramAnswer(
        decision=decision,
        reason=reason if decision else "",
        updated_input=updated if isinstance(updated, dict) and event == "preToolUse" else None,
        updated_output=output if event in _SEES_OUTPUT else UNCHANGED,
        contexts=tuple(filter(None, contexts)),
        messages=(to_user,) if to_user and (to_user != reason or not decision) else (),
        stops=is_no and event == "sessionStart",
        stop_reason=to_user,
        env=env if isinstance(env, dict) and event == "sessionStart" else None,
    )


# --- configuration files --------------------------------------------------------------------------------


def _plugin_roots(home: Path) -> Iterator[Path]:
    """The user's plugins: those put there by hand, then those of a marketplace with other names."""
    directory = home / ".cursor" / "plugins"
    by_hand = [path.parent for path in sorted((directory / "local").glob("*/.cursor-plugin"))]
    yield from by_hand
    names = {path.name for path in by_hand}
    for path in sorted((directory / "cache").glob("*/*/")):
        root = _latest(path)
        if root is not None and path.name not in names:
            names.add(path.name)
            yield root


def _latest(directory: Path) -> Path | None:
    """The last version of a plugin; of those that are complete, if any is."""
    try:
        found = [each for each in directory.iterdir() if (each / _MANIFEST).is_file()]
        whole = [each for each in found if (each / ".cache-complete").exists()]
        return max(whole or found, key=lambda each: (each.stat().st_mtime, each.name), default=None)
    except OSError:  # not readable: ignored, as in Cursor
        return None


def _hooks(file: HookFile) -> list[Handler]:
    version = file.content.get("version", 1)
    if version not in (1, "1"):
        file.warn(DroppedHook(f"version {version!r} is not known, so none of it is read"))
        return []
    return list(file.flat(file.content.get("hooks", {}), _make_hook))


def _make_hook(entry: HookEntry) -> Handler | None:
    fields, event, source = entry.fields, entry.event, entry.file.source
    kind = fields.get("type", "command")
    text = entry.text("prompt" if kind == "prompt" else "command")
    if kind not in ("command", "prompt") or not text.strip():
        entry.warn(DroppedHook("only hooks with a command or a prompt are run here"))
        return None
    what = (
        {"prompt": text, "model": entry.text("model").strip()}
        if kind == "prompt"
        else {"command": text}
    )
    limit = fields.get("loop_limit", _LOOP_LIMIT)
    return entry.handler(
        kind=kind,
        **what,
        matcher=_matcher(entry),
        timeout=entry.seconds(_TIMEOUT),
        on_failure="closed" if fields.get("failClosed", event in _CLOSED) is True else "open",
        shell=usual_shell(),
        cwd=source.root or _directory(source, text),
        loop_limit=limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        definition={"event": event, "hook": dict(fields)},
    )


def _matcher(entry: HookEntry) -> str:
    """The matcher; some files say for which field it is."""
    given = entry.fields.get("matcher")
    if not isinstance(given, dict):
        return text_of(given)
    found = JsonObject(given).text("tool_name", "command", "subagent_type")
    if not found:
        entry.warn("its matcher is not known here, so the hook runs for everything")
    return found


def _directory(source: HookSource, command: str) -> str:
    """The directory of a command: beside a user's file; in the project, unless the program is only beside the file."""
    beside = Path(source.path).parent
    if source.level in (Level.USER, Level.MANAGED):
        return str(beside)
    for word in (word for argv in find_commands(command) or () for word in argv):
        if "/" in word and not Path(word).is_absolute() and UNKNOWN not in word:
            is_only_beside = (beside / word).is_file() and not (beside.parent / word).is_file()
            return str(beside) if is_only_beside else ""
    return ""
