"""Gemini CLI's hooks: its events, its tool names, its reading of exit codes, and hooks around requests to the model."""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

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
from hookline.command_hooks.dialects.claude.tools import EDIT_KEYS, FILE_KEYS
from hookline.command_hooks.dialects.config_files import (
    HookEntry,
    hook_file,
    load_file,
    unique,
    without_keys,
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
    is_labelled,
    object_of,
)
from hookline.command_hooks.tools import (
    SHELL_TOOLS,
    NameTest,
    ShownCall,
    ToolForm,
    ToolNames,
    expression,
    mcp_names,
    one_of,
)
from hookline.errors import UsageError
from hookline.shell_text.command_search import find_commands
from hookline.state import (
    AgentState,
    AssistantMessage,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

TOOLS: dict[str, ToolForm] = {
    "bash": ToolForm(
        "run_shell_command", {"background": "is_background", "cwd": "dir_path"}, ("Bash",)
    ),
    "exec": ToolForm("run_shell_command", {"cwd": "dir_path"}),
    "read": ToolForm("read_file", FILE_KEYS),
    "write": ToolForm("write_file", FILE_KEYS),
    "edit": ToolForm("replace", {**EDIT_KEYS, "replace_all": "allow_multiple"}),
    "list": ToolForm("list_directory", {"path": "dir_path"}),
    "glob": ToolForm("glob", {"path": "dir_path"}),
    "search": ToolForm(
        "grep_search", {"path": "dir_path", "include": "include_pattern"}, ("search_file_content",)
    ),
    "todo_write": ToolForm("write_todos", {"items": "todos", "tasks": "todos"}),
    "web_fetch": ToolForm("web_fetch", {}),
    "fetch": ToolForm("web_fetch", {}),
    "web_search": ToolForm("google_web_search", {}),
    "load_skill": ToolForm("activate_skill", {}),
}

_EXTENSION_RULES = "extension-enablement.json"
_EXTENSION_SOURCE = ".gemini-extension-install.json"
_STARS = re.compile(r"(/?)\\\*")
_SHORTEST = 0.1
"""Seconds. No program can answer in less: such a number was meant in seconds, as in Claude's settings."""
_TOOL_EVENTS = frozenset({"BeforeTool", "AfterTool"})
_MODEL_EVENTS = frozenset({"BeforeModel", "BeforeToolSelection", "AfterModel"})
_BLOCKS = ("block", "deny")
_NO_EVENTS = ("enabled", "disabled", "notifications")
_ADVISORY = frozenset(
    {"SessionStart", "SessionEnd", "PreCompress", "Notification", "BeforeToolSelection"}
)
"""Events at which nothing can be refused."""


# --- transcript -----------------------------------------------------------------------------------------


class GeminiTranscripts(Transcripts):
    """The session in the first line, then a line for each message, with its calls and their results."""

    is_written_anew = True  # results are on the lines of their calls

    def path(self, state: AgentState) -> Path:
        return self.directory / "chats" / f"session-{super().path(state).name}"

    def head(self, facts: RunFacts) -> Iterator[Line]:
        project = hashlib.sha256(facts.project.encode()).hexdigest()
        times = dict.fromkeys(("startTime", "lastUpdated"), timestamp())
        yield {"sessionId": facts.session_uuid, "projectHash": project, **times, "kind": "main"}

    def lines(
        self,
        messages: Sequence[Message],
        facts: RunFacts,
        state: AgentState | None,  # noqa: ARG002 - as in the others
    ) -> Iterator[Line]:
        results = {each.call_id: each for each in messages if isinstance(each, ToolMessage)}
        for message in messages:
            record: Line = {"id": str(uuid.uuid4()), "timestamp": timestamp()}
            if isinstance(message, AssistantMessage):
                record |= {"type": "gemini", "content": message.text, "thoughts": []}
                record |= {"tokens": None, "model": facts.model}
                calls = [_call_line(each, results.get(each.id), facts) for each in message.calls]
                yield {**record, "toolCalls": calls} if calls else record
            elif isinstance(message, UserMessage):
                yield {**record, "type": "user", "content": [{"text": message.text}]}


def _call_line(call: ToolCall, result: ToolMessage | None, facts: RunFacts) -> Line:
    shown = Gemini().show(call, facts)
    made = {"id": call.id, "name": shown.name, "args": shown.input, "timestamp": timestamp()}
    if result is None:
        return {**made, "status": "executing"}
    response = {"id": call.id, "name": shown.name, "response": {"output": result.text}}
    return {
        **made,
        "result": [{"functionResponse": response}],
        "status": "error" if result.is_error else "success",
        "resultDisplay": result.text,
    }


# --- events ---------------------------------------------------------------------------------------------


def _tool_fields(e: EventFacts) -> dict[str, Any]:
    shown, found = e.shown, mcp_names(e.call.name)
    sent = {"tool_name": shown.name, "tool_input": shown.input, "native_tool_name": e.call.name}
    if found is None:
        return sent
    named = {"server_name": found[0], "tool_name": found[1]}
    server = e.server(lambda words: {"command": words[0], "args": [*words[1:]]})
    return {**sent, "mcp_context": {**named, **server}}


def _tool_result_fields(e: EventFacts) -> dict[str, Any]:
    # Guards for several agents look for the third of these.
    result: dict[str, Any] = dict.fromkeys(("llmContent", "returnDisplay", "output"), e.output)
    if e.has_failed:
        result["error"] = {"message": e.failure, "type": "execution_failed"}
    return {**_tool_fields(e), "tool_response": result}


def _notification_fields(e: EventFacts) -> dict[str, Any]:
    """The question whether a call may run, by its kind."""
    call, shown = e.call, e.shown
    found = mcp_names(call.name)
    about: dict[str, Any] = {"tool_name": shown.name, "tool_input": shown.input}
    if found is not None:
        kind, what = "mcp", "MCP"
        about |= {"serverName": found[0], "toolName": found[1]}
    elif call.name in SHELL_TOOLS:
        kind, what = "exec", "execution"
        root = next(iter(find_commands(e.command) or ()), ("",))[0]
        about |= {"command": e.command, "rootCommand": root}
    elif call.name in ("write", "edit"):
        kind, what = "edit", "editing"
        about |= {"fileName": e.path.rpartition("/")[2], "filePath": e.path}
    else:
        kind, what = "info", "information"
    return {
        "notification_type": "ToolPermission",
        "message": f"Tool {shown.name} requires {what}",
        "details": {"type": kind, "title": shown.name, **about},
    }


def _is_shown(message: Message) -> bool:
    """Whether hooks see a message of a request: calls, results and the words of hooks are not shown."""
    is_a_hooks = isinstance(message, UserMessage) and is_labelled(message)
    return bool(message.text) and not isinstance(message, ToolMessage) and not is_a_hooks


def _request_fields(e: EventFacts) -> dict[str, Any]:
    request = e.inference.request
    messages = [{"role": "system", "content": request.system}] if request.system else []
    for message in filter(_is_shown, request.messages):
        role = "model" if isinstance(message, AssistantMessage) else "user"
        messages.append({"role": role, "content": message.text})
    offered = {
        "mode": {"none": "NONE", "required": "ANY"}.get(request.tool_choice, "AUTO"),
        "allowedFunctionNames": list(
            dict.fromkeys(Gemini.tools.name(each.name) for each in request.tools)
        ),
    }
    asked = {
        "model": request.model or e.run.model,
        "messages": messages,
        "config": dict(request.options),
        "toolConfig": {**offered, "functionCallingConfig": offered},
    }
    return {"llm_request": asked}


def _response_fields(e: EventFacts) -> dict[str, Any]:
    response = e.response
    content = {"role": "model", "parts": [response.text]}
    said = {
        "text": response.text,
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"totalTokenCount": response.usage.total_tokens},
    }
    return {**_request_fields(e), "llm_response": said}


def _last_prompt(e: EventFacts) -> str:
    said = (m for m in reversed(e.ctx.state.messages) if isinstance(m, UserMessage))
    return next((m.text for m in said if not m.by), "")


def _has_response(e: EventFacts) -> bool:
    return e.inference.response is not None


_EVENTS = {
    "SessionStart": Event("session_start", lambda e: {"source": e.session_source}, "source"),
    "BeforeAgent": Event("prompt_submit", lambda e: {"prompt": e.prompt}),
    "BeforeModel": Event("before_inference", _request_fields),
    "BeforeToolSelection": Event(
        "before_inference", _request_fields, when=lambda e: not _has_response(e), is_later=True
    ),
    "AfterModel": Event("after_inference", _response_fields, when=_has_response),
    "BeforeTool": Event("before_tool_use", _tool_fields, TOOL),
    "Notification": Event(
        "permission_request",
        _notification_fields,
        "notification_type",
        when=lambda e: e.is_undecided,
        observes=True,
    ),
    "AfterTool": Event("after_tool_use", _tool_result_fields, TOOL),
    "AfterAgent": Event(
        "stop",
        lambda e: {
            "prompt": _last_prompt(e),
            "prompt_response": e.last_words,
            "stop_hook_active": e.was_kept_going,
        },
    ),
    "PreCompress": Event("before_compact", lambda _e: {"trigger": "auto"}, "trigger"),
    "SessionEnd": Event(
        "session_end",
        lambda e: {"reason": "clear" if e.session_end == "clear" else "exit"},
        "reason",
    ),
}


# --- the protocol --------------------------------------------------------------------------------------


class Gemini(Dialect):
    """Gemini CLI's protocol."""

    name = "gemini"
    transcripts = GeminiTranscripts
    events = _EVENTS
    has_files = True
    home_folder = ".gemini"
    configuration_folders = (".gemini",)
    project_variables = frozenset({"GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "workspacePath"})
    root_variables = frozenset({"extensionPath"})
    placeholders: ClassVar[dict[str, str]] = {"/": os.sep}
    shell = "bash"
    tools = ToolNames(TOOLS, mcp="mcp_{server}_{tool}")
    withholds_results = True
    context_is_lasting = False

    # --- files --------------------------------------------------------------------------------------

    def find(self, search: HookSearch) -> Iterable[Handler]:
        """Settings of the machine, the user and the project, and the user's extensions."""
        user, project = (each / ".gemini/settings.json" for each in (search.home, search.project))
        found: list[Handler] = []
        off: set[str] = set()
        for level, path in search.places("gemini-cli/settings.json", user, project):
            handlers, names = _settings_file(path, level, search)
            off |= set() if level.is_repository else names
            found += [h for h in handlers if not (level.is_repository and _is_off(h, names))]
        for root in _extensions(search):
            path = root / "hooks/hooks.json"
            source = search.source("gemini", Level.PLUGIN, path, root=str(root))
            file = hook_file(source, search.warn)
            found += file.read_nested(
                _group_hooks(file.content.get("hooks", {}), file.warn), _make_hook
            )
        on = (each for each in found if not _is_off(each, off))
        return unique(on, lambda each: (each.event, each.matcher, each.label, each.command))

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return _settings_file(path, level, search)[0]

    # --- events -------------------------------------------------------------------------------------

    def matcher(self, handler: Handler) -> NameTest:
        """For tools an expression, or else the text itself; for the rest exact texts."""
        text = handler.matcher
        if handler.event not in _TOOL_EVENTS and text not in (
            "",
            "*",
        ):  # exact texts, between `|`: `exit|logout`
            return one_of(text.split("|"))
        try:
            return expression(text)
        except UsageError:
            return one_of((text,))

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        return {
            "session_id": found.run.session_uuid,
            "native_session_id": found.run.session_id,
            "transcript_path": found.run.transcript,
            "cwd": found.run.cwd,
            "hook_event_name": event,
            "timestamp": timestamp(),
        }

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        return {
            **super().variables(handler, facts),
            "GEMINI_CWD": facts.cwd,
            "GEMINI_SESSION_ID": facts.session_uuid,
            "GEMINI_PLANS_DIR": f"{facts.project}/.gemini/plans",
        }

    # --- answers ------------------------------------------------------------------------------------

    def frame(self, handler: Handler, result: ProgramResult) -> str:  # noqa: ARG002 - the same for all
        """The output, or what is on stderr if there is none; of JSON that was encoded twice, what is inside."""
        text = result.stdout.strip() or result.stderr.strip()
        if not text.startswith('"'):
            return text
        try:
            inner = json.loads(text)
        except ValueError:
            return text
        return str(inner) if str(inner).lstrip().startswith(("{", "[")) else text

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """JSON decides, whatever the exit code; text is a refusal from exit code 2 on."""
        text = result.stdout
        if result.answer is not None:
            return _fields(handler.event, result.answer)
        if result.code == 0:
            return ProgramAnswer(messages=(text,) if text else ())
        if result.code == 1:
            return ProgramAnswer(messages=(f"Warning: {text}" if text else result.failure,))
        reason = result.stderr.strip() or text or result.failure
        if handler.event in _ADVISORY:
            return ProgramAnswer(messages=(reason,))
        # A turn whose request or response is refused is over.
        stops = handler.event in _MODEL_EVENTS
        return denied(reason, stops=stops, stop_reason=reason)

    def combine(self, answers: Sequence[ProgramAnswer]) -> Sequence[ProgramAnswer]:
        """Each answer allows the tools that any of them allows."""
        configs = [object_of(answer.extra).object("toolConfig") for answer in answers]
        if sum(map(bool, configs)) < 2:
            return answers
        lists = [config.array("allowedFunctionNames") for config in configs]
        names = sorted({str(name) for each in lists for name in each})
        merged = []
        for answer, config in zip(answers, configs, strict=True):
            if config.get("allowedFunctionNames"):
                combined = {**config, "allowedFunctionNames": names}
                extra = {**(answer.extra or {}), "toolConfig": combined}
                answer = msgspec.structs.replace(answer, extra=extra)
            merged.append(answer)
        return merged

    def take_back(self, call: ToolCall, shown: ShownCall, answer: ProgramAnswer) -> ToolCall:
        """The call with a hook's changes; arguments that it does not name stay."""
        updated = {**shown.input, **(answer.updated_input or {})}
        return self.tools.take_back(call, shown, updated)

    def change_request(self, request: InferenceRequest, answer: ProgramAnswer) -> InferenceRequest:
        """Another model, other settings, words or tools."""
        return changed_request(request, answer.extra or {})

    def new_response(self, answer: ProgramAnswer) -> str | None:
        return response_text((answer.extra or {}).get("llm_response"))


def _fields(event: str, found: JsonObject) -> ProgramAnswer:
    # Versions differ in where a field belongs: both places count.
    specific = JsonObject({**found, **found.object("hookSpecificOutput")})
    word = "" if event in _ADVISORY else found.text("decision")
    context = specific.text("additionalContext", "additional_context")
    changed = specific.get("tool_input", specific.get("updatedInput"))
    named = ("llm_request", "llm_response", "toolConfig")
    extra = {key: specific[key] for key in named if key in specific}
    tools = specific.object("toolConfig")
    if tools:
        extra["toolConfig"] = {**tools.object("functionCallingConfig"), **tools}
    return ProgramAnswer(
        decision="deny" if word in _BLOCKS else "ask" if word == "ask" else "",
        reason=found.text("reason"),
        updated_input=changed if event == "BeforeTool" and isinstance(changed, dict) else None,
        updated_output=_new_output(specific) if event == "AfterTool" else UNCHANGED,
        contexts=(context.replace("<", "&lt;").replace(">", "&gt;"),) if context.strip() else (),
        messages=found.texts("systemMessage"),
        stops=(found.get("continue") is False and event not in _ADVISORY)
        or (word in _BLOCKS and event in _MODEL_EVENTS),
        stop_reason=found.text("stopReason", "reason"),
        clears_context=event == "AfterAgent" and specific.get("clearContext") is True,
        extra=extra or None,
    )


def _new_output(specific: JsonObject) -> Any:
    """The new result, under its name or Claude's."""
    names = ("tool_output", "updatedToolOutput")
    wanted = specific.object("tailToolCallRequest")
    if wanted.get("name"):  # not made here, but the model can
        return f"A hook withheld this result and asks for another call: {json.dumps(wanted)}"
    return next((specific[name] for name in names if name in specific), UNCHANGED)


# --- requests to the model ------------------------------------------------------------------------------


def changed_request(request: InferenceRequest, extra: Mapping[str, Any]) -> InferenceRequest:
    """A request with a hook's changes: model, settings, words, and tools."""
    wanted = object_of(extra.get("llm_request"))
    if isinstance(wanted.get("model"), str) and wanted["model"] != request.model:
        request = request.with_model(wanted["model"])
    config, messages = wanted.get("config"), wanted.get("messages")
    if isinstance(config, dict) and config != dict(request.options):
        request = request.with_options(**{str(key): value for key, value in config.items()})
    if isinstance(messages, list):
        request = _with_words(request, messages)
    return _with_tools(request, object_of(extra.get("toolConfig")))


def _with_words(request: InferenceRequest, wanted: list[Any]) -> InferenceRequest:
    """The request with a hook's words in place of those that it was shown. The other messages stay."""
    words = [each for each in wanted if isinstance(each, dict)]
    if request.system and words and words[0].get("role") == "system":
        text = _text_in(words.pop(0).get("content"))
        request = request if text == request.system else request.with_system(text)
    made: list[Message] = []
    for message in request.messages:
        if _is_shown(message) and words:
            text = _text_in(words.pop(0).get("content"))
            message = (
                message if text == message.text else msgspec.structs.replace(message, text=text)
            )
        made.append(message)
    for each in words:
        kind = AssistantMessage if each.get("role") == "model" else UserMessage
        made.append(kind(_text_in(each.get("content"))))
    return request if made == list(request.messages) else request.with_messages(tuple(made))


def _with_tools(request: InferenceRequest, tools: JsonObject) -> InferenceRequest:
    mode = str(tools.get("mode", "")).upper()
    allowed = {str(name) for name in tools.array("allowedFunctionNames")}
    if allowed:
        kept = (
            tool for tool in request.tools if {tool.name, Gemini.tools.name(tool.name)} & allowed
        )
        request = request.with_tools(tuple(kept))
    if mode == "NONE":
        return request.with_tools(()).with_tool_choice("none")
    if mode == "ANY" and request.tools:
        return request.with_tool_choice("required")
    return request


def response_text(value: Any) -> str | None:
    """The text of a response in Gemini's form; None if there is none."""
    said = object_of(value)
    if isinstance(said.get("text"), str):
        return str(said["text"])
    for candidate in said.array("candidates"):
        parts = object_of(candidate).object("content").get("parts")
        if isinstance(parts, list):
            return _text_in(parts)
    return None


def _text_in(content: Any) -> str:
    """The text of a message: it is text itself, or has parts."""
    parts: Sequence[Any] = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


# --- configuration files --------------------------------------------------------------------------------


def _settings_file(path: Path, level: Level, search: HookSearch) -> tuple[list[Handler], set[str]]:
    """One settings file: its hooks, and the names and commands that it switches off (`*` for all)."""
    file = hook_file(search.source("gemini", level, path), search.warn)
    content, off = file.content, set[str]()
    hooks = content.get("hooks", {})
    for config in (content.object("hooksConfig"), object_of(hooks)):
        off |= {each for each in config.array("disabled") if isinstance(each, str)}
        off |= {"*"} if config.get("enabled") is False else set()
    if content.object("tools").get("enableHooks") is False:
        off.add("*")
    hooks = without_keys(hooks, _NO_EVENTS)
    return list(file.read_nested(_group_hooks(hooks, file.warn), _make_hook)), off


def _group_hooks(hooks: Any, warn: Warn) -> Any:
    """Hooks as `{event: [{matcher, hooks}]}`. Some installers use other forms."""
    if isinstance(hooks, list):
        warn("'hooks' is a list; each hook runs at the event that it names")
        by_event: dict[str, list[Any]] = {}
        for each in hooks:
            event = object_of(each).text("event")
            by_event.setdefault(event or "?", []).append(each)
        hooks = by_event
    if not isinstance(hooks, dict):
        return hooks
    return {
        event: [_group(each) for each in groups] if isinstance(groups, list) else groups
        for event, groups in hooks.items()
    }


def _group(entry: Any) -> Any:
    """An entry that is a hook itself, as a group."""
    is_hook = isinstance(entry, dict) and "command" in entry and "hooks" not in entry
    return {**entry, "hooks": [entry]} if is_hook else entry


def _make_hook(entry: HookEntry) -> Handler | None:
    command = entry.text("command")
    if entry.fields.get("type", "command") != "command" or not command.strip():
        entry.warn(DroppedHook("only hooks with a command are run here"))
        return None
    timeout = entry.seconds(60.0, unit=0.001)
    if "timeout" in entry.fields and timeout < _SHORTEST:
        timeout *= 1000
        entry.warn(f"timeout={timeout:g} would be milliseconds; it is read as seconds")
    return entry.handler(
        command=command,
        timeout=timeout,
        is_sequential=entry.group.get("sequential") is True,
        shell="bash",
        env=entry.fields.strings("env"),
        label=entry.text("name"),
    )


def _is_off(handler: Handler, off: set[str]) -> bool:
    return "*" in off or handler.label in off or handler.command in off


def _extensions(search: HookSearch) -> Iterator[Path]:
    """The directories of the extensions that are on for the project, by name. A linked one has its files elsewhere."""
    directory = search.home / ".gemini" / "extensions"
    rules = load_file(directory / _EXTENSION_RULES, search.warn)
    for each in sorted(directory.glob("*/")):
        overrides = rules.object(each.name).array("overrides")
        if _is_on(overrides, search.project):
            installed = load_file(each / _EXTENSION_SOURCE, search.warn)
            source = installed.text("source")
            yield Path(source) if installed.get("type") == "link" and source else each


def _is_on(overrides: list[object], project: Path) -> bool:
    """Whether an extension is on for a project: the last rule about its path counts.

    A rule is a path, with `*` for whatever is below it; with `!` before it, it means off.
    """
    path, on = f"{project.as_posix().rstrip('/')}/", True
    for rule in overrides:
        if not isinstance(rule, str):
            continue
        whole = rule.removeprefix("!")
        whole = re.escape(whole if whole.endswith(("/", "*")) else f"{whole}/")
        if re.fullmatch(_STARS.sub(lambda found: f"({found[1]}.*)?", whole), path):
            on = not rule.startswith("!")
    return on
