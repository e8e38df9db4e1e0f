"""Claude Code's hooks: what they are sent, and what exit codes and JSON on their output mean."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hookline.command_hooks.dialect import (
    TOOL,
    Dialect,
    Event,
    EventFacts,
    Line,
    ModelVerdict,
    Transcripts,
    timestamp,
)
from hookline.command_hooks.dialects.claude import settings
from hookline.command_hooks.dialects.claude.tools import TOOLS, error_of, response_of
from hookline.command_hooks.handler import (
    TITLE,
    UNCHANGED,
    Handler,
    HookSearch,
    JsonObject,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    as_uuid,
    denied,
    failed,
    json_line,
)
from hookline.command_hooks.tools import (
    NameTest,
    ToolNames,
    is_interrupted,
    mcp_names,
    names_or_expression,
)
from hookline.flow import ErrorClass
from hookline.journal.session import stream_of
from hookline.state import (
    NO_USAGE,
    AgentState,
    AssistantMessage,
    Message,
    StepType,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)

_DECISIONS = {"approve": "allow", "allow": "allow", "block": "deny", "deny": "deny"}
_TEXT: tuple[type, ...] = (str,)
_FIELDS: dict[str, tuple[type, ...]] = {
    "continue": (bool,), "stopReason": _TEXT, "suppressOutput": (bool,), "systemMessage": _TEXT,
    "terminalSequence": _TEXT, "decision": _TEXT, "reason": _TEXT, "hookSpecificOutput": (dict,),
}  # fmt: skip
_SPECIFIC: dict[str, tuple[type, ...]] = {
    "permissionDecision": _TEXT, "permissionDecisionReason": _TEXT, "updatedInput": (dict,),
    "additionalContext": _TEXT, "sessionTitle": _TEXT,
}  # fmt: skip
_EVENT_VARIABLES = {
    "CLAUDE_HOOK_EVENT_NAME": "hook_event_name",
    "CLAUDE_HOOK_EVENT": "hook_event_name",
    "CLAUDE_TRANSCRIPT_PATH": "transcript_path",
    "CLAUDE_TOOL_NAME": "tool_name",
    "TOOL_NAME": "tool_name",
    "CLAUDE_TOOL_INPUT": "tool_input",
    "CLAUDE_TOOL_OUTPUT": "tool_response",
    "CLAUDE_TOOL_RESPONSE": "tool_response",
    "CLAUDE_USER_PROMPT": "prompt",
}
_LONGEST_VARIABLE = 1 << 15
"""Bytes of a value. A longer one would keep the hook from starting; it is in the JSON."""
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RULE = re.compile(r"[A-Z]\w*\([^()|]*[ :*/][^()|]*\)")
"""A permission rule, as `Bash(git commit *)`; `Task(Create|List)` is an expression."""
_NARROW = ("StopFailure", "FileChanged")
"""Events whose matchers allow fewer characters in names."""
_CAP_VARIABLE = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
_ERROR_NAMES = {
    ErrorClass.RATE_LIMIT: "rate_limit",
    ErrorClass.OVERLOADED: "overloaded",
    ErrorClass.AUTHENTICATION: "authentication_failed",
    ErrorClass.UNSUPPORTED: "invalid_request",
    ErrorClass.CONTEXT_OVERFLOW: "invalid_request",
    ErrorClass.TIMEOUT: "server_error",
    ErrorClass.CONNECTION: "server_error",
    ErrorClass.MALFORMED: "server_error",
    ErrorClass.MODEL: "server_error",
}
TOOL_EVENTS = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
_BLOCKING = frozenset(
    {"UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolBatch", "Stop", "SubagentStop", "PreCompact"}
)  # fmt: skip
_REWRITING = ("PreToolUse", "PermissionRequest")
_FEEDBACK = frozenset({"PostToolUse", "PostToolUseFailure"})
_TEXT_IS_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit", "UserPromptExpansion"})
_TITLING = ("SessionStart", "UserPromptSubmit")
_ENV_EVENTS = ("SessionStart", "Setup", "CwdChanged", "FileChanged")


# --- transcript -----------------------------------------------------------------------------------------


class ClaudeTranscripts(Transcripts):
    """Each line names the one before it."""

    id_key, parent_key = "uuid", "parentUuid"

    def lines(
        self, messages: Sequence[Message], facts: RunFacts, state: AgentState | None
    ) -> Iterator[Line]:
        """A line for each message; a result with what hooks after the tool are sent."""
        usages: Mapping[int, Usage] = {} if state is None else _usages(messages, state)
        responses = {} if state is None else _responses(messages, state, facts)
        for index, message in enumerate(messages):
            entry = _entry(message, facts, usages.get(index, NO_USAGE))
            if isinstance(message, ToolMessage):
                # Scripts tell a tool's words from the user's by this key.
                entry["toolUseResult"] = responses.get(message.call_id, f"Error: {message.text}")
            yield entry


def _usages(messages: Sequence[Message], state: AgentState) -> dict[int, Usage]:
    """The usage of each message of the model, by index: the last belongs to the last step, and so on."""
    places = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    found: dict[int, Usage] = {}
    for step in reversed(state.steps):
        if not places:
            break
        if step.type is not StepType.INCOMPLETE:
            found[places.pop()] = step.usage
    return found


def _responses(messages: Sequence[Message], state: AgentState, facts: RunFacts) -> dict[str, Any]:
    """Results in the form that hooks after a tool are sent, by the ids of the calls."""
    wanted = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    found: dict[str, Any] = {}
    for step in reversed(state.steps):
        if wanted <= found.keys():
            break
        for call, result in zip(step.calls, step.results, strict=False):
            if call.id in wanted and result.is_success:
                found.setdefault(call.id, response_of(call, result, facts.cwd))
    return found


def _entry(message: Message, facts: RunFacts, usage: Usage) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": facts.cwd,
        "sessionId": facts.session_uuid,
        "version": "hookline",
        "type": "assistant" if isinstance(message, AssistantMessage) else "user",
        "message": _message(message, facts, usage),
        "uuid": str(uuid.uuid4()),
        "timestamp": timestamp(),
    }
    if isinstance(message, AssistantMessage):
        entry["requestId"] = f"req_{os.urandom(12).hex()}"
    if isinstance(message, UserMessage) and message.by:
        entry["isMeta"] = True
    return entry


def _message(message: Message, facts: RunFacts, usage: Usage) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        text = [{"type": "text", "text": message.text}] if message.text else []
        shown = [(call.id, Claude.tools.show(call, facts.cwd)) for call in message.calls]
        calls = [
            {"type": "tool_use", "id": each, "name": call.name, "input": call.input}
            for each, call in shown
        ]
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        return {
            "id": f"msg_{os.urandom(12).hex()}",
            "role": "assistant",
            "type": "message",
            "model": facts.model,
            "content": [*text, *calls],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {
                # There, cached tokens are counted beside the input; here, they are part of it.
                "input_tokens": usage.input_tokens - cached,
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
            },
        }
    if isinstance(message, ToolMessage):
        result = {
            "type": "tool_result",
            "tool_use_id": message.call_id,
            "content": message.text,
            "is_error": message.is_error,
        }
        return {"role": "user", "content": [result]}
    return {"role": "user", "content": message.text}


# --- the protocol --------------------------------------------------------------------------------------


def _tool_fields(e: EventFacts) -> dict[str, Any]:
    server = mcp_names(e.call.name)
    return {
        "tool_name": e.shown.name,
        "tool_input": e.shown.input,
        "native_tool_name": e.call.name,
        **({} if server is None else {"mcp_server": {"name": server[0]}}),
    }


def _batch_call(e: EventFacts, call: ToolCall, result: ToolResult) -> dict[str, Any]:
    shown = e.show(call)
    named = {"tool_name": shown.name, "tool_input": shown.input, "tool_use_id": call.id}
    return {**named, "tool_response": result.text}


def _session_start_fields(e: EventFacts) -> dict[str, Any]:
    title = e.ctx.state.metadata.get(TITLE)
    known = {"model": e.run.model, "session_title": title if isinstance(title, str) else ""}
    return {"source": e.session_source, **{key: text for key, text in known.items() if text}}


def _stop_fields(e: EventFacts, words: str) -> dict[str, Any]:
    return {
        "stop_hook_active": e.was_kept_going,
        "last_assistant_message": words,
        "background_tasks": [],
        "session_crons": [],
    }


def _agent_id(run_id: str) -> str:
    """A child's id without slashes: scripts use it in file names."""
    return f"a{as_uuid(run_id).replace('-', '')[:16]}"


def _child_fields(e: EventFacts) -> dict[str, Any]:
    return {"agent_id": _agent_id(e.child.child_run_id), "agent_type": e.child.name}


def _summary(e: EventFacts) -> str:
    made = (m.text for m in e.ctx.state.messages if isinstance(m, UserMessage) and m.by)
    return next(made, "")


_EVENTS = {
    "SessionStart": Event(
        "session_start",
        _session_start_fields,
        "source",
        also="before_inference",
        after_summary=True,
    ),
    "UserPromptSubmit": Event(
        "prompt_submit", lambda e: {"prompt": e.prompt, "user_prompt": e.prompt}
    ),
    "PreToolUse": Event(
        "before_tool_use", lambda e: {**_tool_fields(e), "tool_use_id": e.call.id}, TOOL
    ),
    "PermissionRequest": Event(
        "permission_request", lambda e: {**_tool_fields(e), "permission_suggestions": []}, TOOL
    ),
    "Notification": Event(
        "permission_request",
        lambda e: {
            "message": f"Claude needs your permission to use {e.shown.name}",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        },
        "notification_type",
        when=lambda e: e.is_undecided,
        observes=True,
    ),
    "PostToolUse": Event(
        "after_tool_use",
        lambda e: {
            **_tool_fields(e),
            "tool_use_id": e.call.id,
            "tool_response": response_of(e.call, e.execution, e.run.cwd),
            "duration_ms": e.milliseconds,
        },
        TOOL,
        when=lambda e: not e.has_failed,
    ),
    "PostToolUseFailure": Event(
        "after_tool_use",
        lambda e: {
            **_tool_fields(e),
            "tool_use_id": e.call.id,
            "error": error_of(e.execution),
            "is_interrupt": is_interrupted(e.execution),
            "duration_ms": e.milliseconds,
        },
        TOOL,
        when=lambda e: e.has_failed,
    ),
    "PostToolBatch": Event(
        "after_step",
        lambda e: {
            "tool_calls": [
                _batch_call(e, *each) for each in zip(e.step.calls, e.step.results, strict=True)
            ]
        },
        when=lambda e: bool(e.step.calls),
    ),
    "MessageDisplay": Event(
        "after_inference",
        lambda e: {
            "turn_id": as_uuid(e.ctx.state.run_id),
            "message_id": as_uuid(f"{e.ctx.state.run_id}-{e.inference.step_index}"),
            "index": 0,
            "final": True,
            "delta": e.response.text,
        },
        when=lambda e: bool(e.response.text),
        observes=True,
        displays=True,
    ),
    "Stop": Event("stop", lambda e: _stop_fields(e, e.last_words)),
    "SubagentStart": Event("subagent_start", _child_fields, "agent_type"),
    "SubagentStop": Event(
        "subagent_stop",
        lambda e: {
            **_child_fields(e),
            "agent_transcript_path": e.run.child_transcript,
            **_stop_fields(e, e.child_text),
        },
        "agent_type",
    ),
    "PreCompact": Event(
        "before_compact",
        lambda e: {"trigger": "auto", "custom_instructions": e.compaction.instructions},
        "trigger",
    ),
    "PostCompact": Event(
        "before_inference",
        lambda e: {"trigger": "auto", "compact_summary": _summary(e)},
        "trigger",
        observes=True,
        after_summary=True,
    ),
    "StopFailure": Event(
        "agent_failed",
        lambda e: {
            "error": _ERROR_NAMES.get(e.error.error_class, "unknown"),
            "error_details": e.error.error_message,
            "last_assistant_message": f"API Error: {e.error.error_message}",
        },
        "error",
    ),
    "SessionEnd": Event("session_end", lambda e: {"reason": e.session_end}, "reason"),
}


class Claude(Dialect):
    """Claude Code's protocol."""

    name = "claude"
    transcripts: ClassVar[type[Transcripts] | None] = ClaudeTranscripts
    events = _EVENTS
    unsupported = frozenset(
        "Setup InstructionsLoaded UserPromptExpansion PermissionDenied TaskCreated "  # noqa: SIM905 - a table of names
        "TaskCompleted TeammateIdle PreModelSwitch PostModelSwitch "
        "ConfigChange CwdChanged FileChanged DirectoryAdded WorktreeCreate WorktreeRemove Elicitation "
        "ElicitationResult".split()
    )
    has_files = True
    home_folder = ".claude"
    configuration_folders = (".claude",)
    manifests = (".claude-plugin/plugin.json",)
    agent_folders = (".claude/agents",)
    skill_folders = (".claude/skills",)
    shell = "bash"
    tools = ToolNames(TOOLS, milliseconds=True)
    identity_variables = frozenset({"CLAUDE_ENV_FILE"})
    reserved_prefixes = ("CLAUDE",)
    scrub_variables = frozenset({"CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"})
    project_variables = frozenset({"CLAUDE_PROJECT_DIR"})
    root_variables = frozenset({"CLAUDE_PLUGIN_ROOT"})
    skill_variables = frozenset({"CLAUDE_SKILL_DIR"})
    data_variables = frozenset({"CLAUDE_PLUGIN_DATA"})
    is_claude_code: ClassVar[bool] = True
    """Hooks are sent a `prompt_id`, may become async, and a variable sets their cap. Other dialects share the rest."""

    # --- files --------------------------------------------------------------------------------------

    def find(self, search: HookSearch) -> Iterable[Handler]:
        return settings.find_hooks(search)

    def find_named(self, search: HookSearch) -> Iterable[Handler]:
        return settings.find_named_hooks(search)

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return settings.read_hooks(path, level, search)

    def mistakes(self, handler: Handler) -> Iterator[tuple[str, str]]:
        """A permission rule in place of a matcher matches no tool."""
        if _RULE.fullmatch(handler.matcher):
            name = handler.matcher.partition("(")[0]
            yield (
                f"never runs: its matcher '{handler.matcher}' is a permission rule, and a matcher is the name of a "
                "tool",
                f'Write "matcher": "{name}", and the rule next to the command: "if": "{handler.matcher}".',
            )

    # --- events -------------------------------------------------------------------------------------

    def points_of(self, handler: Handler) -> Iterator[str]:
        """As usual; `SessionStart` happens after a summary only for hooks that match it."""
        for point in super().points_of(handler):
            is_again = handler.event == "SessionStart" and point == "before_inference"
            if not is_again or self.matcher(handler)(("compact",)):
                yield point

    def matcher(self, handler: Handler) -> NameTest:
        """Exact names, or a regular expression."""
        return names_or_expression(handler.matcher, narrow=handler.event in _NARROW)

    # --- input -----------------------------------------------------------------------------------------

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        """The prompt has one id for a run and its children, and none at the start and the end of a session."""
        state = found.ctx.state
        is_around = event == "SessionStart" or state.run_id == stream_of(state.session_id)
        prompt_id = {"prompt_id": as_uuid(state.run_id.partition("/")[0])}
        return {
            "session_id": found.run.session_uuid,
            "native_session_id": found.run.session_id,
            "transcript_path": found.run.transcript,
            "cwd": found.run.cwd,
            "permission_mode": found.run.permission_mode,
            "hook_event_name": event,
            **(prompt_id if self.is_claude_code and not is_around else {}),
            **found.agent_fields(_agent_id),
        }

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        found = {
            **super().variables(handler, facts),
            "CLAUDE_CODE_SESSION_ID": facts.session_uuid,
            "CLAUDE_SESSION_ID": facts.session_uuid,
            "CLAUDE_PID": str(os.getpid()),
            "CLAUDECODE": "1",
            "CLAUDE_CODE_CHILD_SESSION": "1",
            "CLAUDE_CODE_ENTRYPOINT": "hookline",
        }
        if handler.event in _ENV_EVENTS and facts.env_file:
            found["CLAUDE_ENV_FILE"] = facts.env_file
        return found

    def event_variables(self, payload: Mapping[str, Any]) -> dict[str, str]:
        """The event in variables: some scripts do not read their input."""
        given = payload.get("tool_input")
        given = given if isinstance(given, Mapping) else {}
        values = {name: payload.get(field) for name, field in _EVENT_VARIABLES.items()}
        values["CLAUDE_TOOL_COMMAND"] = given.get("command")
        for key, value in given.items():
            if _KEY.fullmatch(key):
                values[f"CLAUDE_TOOL_INPUT_{key.upper()}"] = value
                values[f"TOOL_INPUT_{key}"] = value
                values[f"TOOL_INPUT_{key.upper()}"] = value
        for name in ("CLAUDE_TOOL_FILE_PATH", "CLAUDE_FILE_PATH", "CLAUDE_FILE_PATHS"):
            values[name] = given.get("file_path")
        texts: dict[str, str] = {}
        for name, value in values.items():
            text = value if isinstance(value, str) else json_line(value).decode().strip()
            text = text.encode(errors="replace").decode()  # without lone surrogates
            is_too_long = len(text.encode()) > _LONGEST_VARIABLE
            if value is not None and not is_too_long and "\0" not in text:
                texts[name] = text
        return texts

    # --- answers ------------------------------------------------------------------------------------

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """Exit code 2 blocks, JSON decides, and any other exit code but 0 is a failure."""
        event, found = handler.event, result.answer
        problem = "" if found is None else wrong_field(found)
        if problem and result.code != 2:
            return failed(f"its output does not fit: {problem}")
        if result.code == 2:
            return self._read_block(
                event, result, JsonObject() if found is None or problem else found
            )
        if found is not None:
            return self.fields(event, found)
        if result.code != 0:
            return failed(result.failure)
        if event in _TEXT_IS_CONTEXT and result.stdout.strip():
            return ProgramAnswer(contexts=(result.stdout.strip(),))
        return ProgramAnswer()

    def _read_block(self, event: str, result: ProgramResult, found: JsonObject) -> ProgramAnswer:
        """Exit code 2 blocks whatever the JSON says; the other fields of the JSON count."""
        said = self.fields(event, found)
        reason = said.reason if said.decision == "deny" and said.reason else result.stderr.strip()
        reason = reason or "no reason was given"
        kept = {
            name: getattr(said, name)
            for name in ("contexts", "messages", "stops", "stop_reason", "terminal", "title")
        }
        if event in _FEEDBACK:
            kept["updated_output"] = said.updated_output
        if event in _BLOCKING or event in _FEEDBACK:
            return denied(reason, **kept)
        kept["messages"] = (*kept["messages"], reason)
        return ProgramAnswer(**kept)

    def fields(self, event: str, found: JsonObject) -> ProgramAnswer:
        """The fields of an answer at an event."""
        specific = found.object("hookSpecificOutput")
        decision, reason = self._decision(event, found, specific)
        context = specific.texts("additionalContext")
        outputs = ("updatedToolOutput", "updatedMCPToolOutput")
        output = next((specific[key] for key in outputs if key in specific), UNCHANGED)
        updated, interrupts = specific.get("updatedInput"), None
        if event == "PermissionRequest":  # a refusal may also end the run
            given = specific.object("decision")
            updated, interrupts = given.get("updatedInput", updated), given.get("interrupt")
        return ProgramAnswer(
            decision=decision,
            reason=reason,
            updated_input=updated if event in _REWRITING and isinstance(updated, dict) else None,
            updated_output=output if event in _FEEDBACK else UNCHANGED,
            contexts=context or found.texts("additionalContext", "additional_context"),
            messages=found.texts("systemMessage"),
            stops=found.get("continue") is False or interrupts is True,
            stop_reason=found.text("stopReason"),
            prompt=specific.text("initialUserMessage") if event == "SessionStart" else "",
            terminal=found.text("terminalSequence"),
            display=specific.text("displayContent") if self.events[event].displays else "",
            title=specific.text("sessionTitle") if event in _TITLING else "",
        )  # fmt: skip

    def _decision(self, event: str, found: JsonObject, specific: JsonObject) -> Any:
        if event == "PreToolUse" and specific.get("permissionDecision"):
            return specific["permissionDecision"], specific.text("permissionDecisionReason")
        if event == "PermissionRequest":
            given = specific.object("decision")
            if given.get("behavior") in ("allow", "deny"):
                return given["behavior"], given.text("message")
            return "", ""
        word = _DECISIONS.get(found.text("decision"), "")
        if word == "allow" and event != "PreToolUse":
            word = ""
        return word, found.text("reason")

    def can_detach(self, handler: Handler) -> bool:
        """A program may say `{"async": true}`, while there is a run beside which it can continue."""
        is_program = handler.kind == "command" and not handler.is_async
        return self.is_claude_code and is_program and handler.event != "SessionEnd"

    def objection_cap(self, handler: Handler) -> int | None:
        """Eight, or what settings or the shell say; 0 is no cap."""
        said = handler.env.get(_CAP_VARIABLE, os.environ.get(_CAP_VARIABLE, "")).strip()
        if not self.is_claude_code:
            return self.objections_in_a_row
        try:
            cap = int(said)
        except ValueError:
            return self.objections_in_a_row
        return cap if cap > 0 else None

    def verdict_answer(
        self, handler: Handler, verdict: ModelVerdict, reason: str
    ) -> dict[str, Any]:
        """A model's no, in the fields of the event."""
        event, blocked = handler.event, {"decision": "block", "reason": reason}
        if event in ("Stop", "SubagentStop"):
            gives_up = verdict.impossible and handler.kind == "prompt"
            return {"systemMessage": reason} if gives_up else blocked
        if event == "PermissionRequest":
            decision = {"behavior": "deny", "message": reason}
            return {"hookSpecificOutput": {"hookEventName": event, "decision": decision}}
        # With the tool the turn ends, unless the file says otherwise. An agent's no never ends it.
        continues = handler.continues or handler.kind == "agent"
        ends = {} if continues else {"continue": False, "stopReason": reason}
        if event == "PreToolUse":
            denial = {"permissionDecision": "deny", "permissionDecisionReason": reason}
            return {**ends, "hookSpecificOutput": {"hookEventName": event, **denial}}
        return {**ends, **blocked} if event == "PostToolUse" else blocked


def wrong_field(found: JsonObject) -> str:
    """What is wrong with an answer; unknown fields are not."""
    specific = found.object("hookSpecificOutput")
    problem = found.wrong_type(_FIELDS) or specific.wrong_type(_SPECIFIC)
    if problem:
        return problem
    decision, word = specific.get("permissionDecision"), found.get("decision")
    if decision not in (None, "allow", "deny", "ask", "defer"):
        return f"'permissionDecision' is {decision!r}"
    return "" if word in (None, *_DECISIONS) else f"'decision' is {word!r}"
