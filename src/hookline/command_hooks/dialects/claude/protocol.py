"""Claude Code's hooks: what they are sent, and what exit codes and JSON on their output mean."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hookline.command_hooks.dialect import Dialect, ModelVerdict
from hookline.command_hooks.dialects import event_facts
from hookline.command_hooks.dialects.claude import settings
from hookline.command_hooks.dialects.claude.tools import TOOLS, error_of, response_of, result_of
from hookline.command_hooks.handler import (
    UNCHANGED,
    Handler,
    HookAnswer,
    HookSearch,
    Level,
    ProgramResult,
    RunFacts,
    as_uuid,
    denied,
    failed,
    json_object,
    text_of,
    texts_of,
    wrong_type,
)
from hookline.command_hooks.tools import (
    NameTest,
    ToolNames,
    file_path,
    mcp_names,
    names_or_expression,
)
from hookline.command_hooks.transcripts import Line, Transcripts, timestamp
from hookline.flow import ErrorClass
from hookline.hooks import Kind
from hookline.journal import stream_of
from hookline.state import (
    NO_USAGE,
    AgentState,
    AssistantMessage,
    Message,
    StepType,
    ToolCall,
    ToolMessage,
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
_ANSWERS = frozenset({*_FIELDS, "async", "asyncTimeout"})
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
    ErrorClass.MODEL: "server_error",
}
TOOL_EVENTS = frozenset(
    {"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PermissionDenied"}
)
_BLOCKING = frozenset(
    {"UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolBatch", "Stop", "SubagentStop", "PreCompact"}
)  # fmt: skip
_REWRITING = ("PreToolUse", "PermissionRequest")
_FEEDBACK = frozenset({"PostToolUse", "PostToolUseFailure"})
_TEXT_IS_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit", "UserPromptExpansion"})
_UNMATCHED = frozenset(
    {"UserPromptSubmit", "Stop", "PostToolBatch", "TeammateIdle", "TaskCreated", "TaskCompleted", "MessageDisplay"}
)  # fmt: skip
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
                path = file_path(call.args.get("path"), facts.cwd)
                found.setdefault(call.id, response_of(call, result, path))
    return found


def _entry(message: Message, facts: RunFacts, usage: Usage) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": facts.cwd,
        "sessionId": facts.session_uuid,
        "version": "hookline",
        "type": "assistant" if isinstance(message, AssistantMessage) else "user",
        "message": _message(message, facts, usage),
        **(
            {"requestId": f"req_{uuid.uuid4().hex[:24]}"}
            if isinstance(message, AssistantMessage)
            else {}
        ),
        "uuid": str(uuid.uuid4()),
        "timestamp": timestamp(),
        **({"isMeta": True} if isinstance(message, UserMessage) and message.by else {}),
    }


def _message(message: Message, facts: RunFacts, usage: Usage) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        text = [{"type": "text", "text": message.text}] if message.text else []
        calls = [_call(call, facts) for call in message.calls]
        return {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "role": "assistant",
            "type": "message",
            "model": facts.model,
            "content": [*text, *calls],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {
                # There, cached tokens are counted beside the input; here, they are part of it.
                "input_tokens": usage.input_tokens
                - usage.cache_read_tokens
                - usage.cache_write_tokens,
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


def _call(call: ToolCall, facts: RunFacts) -> dict[str, Any]:
    shown = Claude.tools.show(call, facts.cwd)
    return {"type": "tool_use", "id": call.id, "name": shown.name, "input": shown.input}


# --- the protocol --------------------------------------------------------------------------------------


class Claude(Dialect):
    """Claude Code's protocol."""

    name = "claude"
    transcripts: ClassVar[type[Transcripts] | None] = ClaudeTranscripts
    points: ClassVar[dict[str, str]] = {
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt_submit",
        "PreToolUse": "before_tool_use",
        "PermissionRequest": "permission_request",
        "Notification": "permission_request",
        "PostToolUse": "after_tool_use",
        "PostToolUseFailure": "after_tool_use",
        "PostToolBatch": "after_step",
        "MessageDisplay": "after_inference",
        "Stop": "stop",
        "SubagentStart": "subagent_start",
        "SubagentStop": "subagent_stop",
        "PreCompact": "before_compact",
        "PostCompact": "before_inference",
        "StopFailure": "agent_failed",
        "SessionEnd": "session_end",
    }
    unsupported = frozenset(
        "Setup InstructionsLoaded UserPromptExpansion PermissionDenied TaskCreated "  # noqa: SIM905 - a table of names
        "TaskCompleted TeammateIdle PreModelSwitch PostModelSwitch "
        "ConfigChange CwdChanged FileChanged DirectoryAdded WorktreeCreate WorktreeRemove Elicitation "
        "ElicitationResult".split()
    )
    more_points: ClassVar[dict[str, str]] = {"SessionStart": "before_inference"}
    after_compaction = frozenset({"SessionStart", "PostCompact"})
    observing = frozenset({"Notification", "MessageDisplay", "PostCompact"})
    displaying = frozenset({"MessageDisplay"})
    has_files = True
    home_folder = ".claude"
    configuration_folders = (".claude",)
    manifests = (".claude-plugin/plugin.json",)
    shell = "bash"
    tools = ToolNames(TOOLS, milliseconds=True)
    identity_variables = frozenset({"CLAUDE_ENV_FILE"})
    scrub_variables = frozenset({"CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"})
    project_variables = frozenset({"CLAUDE_PROJECT_DIR"})
    root_variables = frozenset({"CLAUDE_PLUGIN_ROOT"})
    skill_variables = frozenset({"CLAUDE_SKILL_DIR"})
    data_variables = frozenset({"CLAUDE_PLUGIN_DATA"})
    is_claude_code: ClassVar[bool] = True
    """Hooks are sent a `prompt_id`, may become async, and a variable sets their cap. Other dialects share the rest."""

    # --- files --------------------------------------------------------------------------------------

    def find(self, search: HookSearch) -> Iterable[Handler]:
        """The settings files of all levels, plugins and pages."""
        return settings.find_hooks(search)

    def find_named(self, search: HookSearch) -> Iterable[Handler]:
        """Settings files, plugins and pages that are named."""
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
                f'Write "matcher": "{name}", and the rule beside the command: "if": "{handler.matcher}".',
            )

    # --- events -------------------------------------------------------------------------------------

    def points_of(self, handler: Handler) -> Iterator[str]:
        """As usual; `SessionStart` happens after a summary only for hooks that match it."""
        for point in super().points_of(handler):
            is_again = handler.event == "SessionStart" and point == "before_inference"
            if not is_again or self.matcher(handler)(("compact",)):
                yield point

    def fires(self, event: str, ctx: Any) -> bool:
        """By how the tool went, whether there were calls, and whether a person is still needed."""
        if event in _FEEDBACK:
            return event_facts.has_failed(ctx.execution) is (event == "PostToolUseFailure")
        if event == "PostToolBatch":
            return ctx.step is not None and bool(ctx.step.calls)
        if event == "Notification":
            return ctx.verdict is None or ctx.verdict.kind is Kind.PROCEED
        if event in self.displaying:
            return ctx.response is not None and bool(ctx.response.text)
        return True

    def matcher(self, handler: Handler) -> NameTest:
        """Exact names, or a regular expression."""
        return names_or_expression(handler.matcher, narrow=handler.event in _NARROW)

    def subject(self, event: str, ctx: Any, facts: RunFacts) -> tuple[str, ...] | None:
        """The tool, or what began, ended or failed."""
        if event in TOOL_EVENTS:
            return self.show(ctx.tool_call, facts).names
        if event in _UNMATCHED:
            return None
        payload = self._particulars(event, ctx, facts)
        for key in ("source", "trigger", "reason", "notification_type", "agent_type", "error"):
            if key in payload:
                return (str(payload[key]),)
        return None

    # --- input -----------------------------------------------------------------------------------------

    def payload(self, handler: Handler, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        event = handler.event
        return {
            "session_id": facts.session_uuid,
            "native_session_id": facts.session_id,
            "transcript_path": facts.transcript,
            "cwd": facts.cwd,
            "permission_mode": facts.permission_mode,
            "hook_event_name": event,
            **(_prompt_id(event, ctx) if self.is_claude_code else {}),
            **event_facts.agent_fields(ctx, event_facts.agent_id),
            **self._particulars(event, ctx, facts),
        }

    def _particulars(self, event: str, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        if event in TOOL_EVENTS:
            return self._tool(event, ctx, facts)
        made = getattr(self, f"_{event.lower()}", None)
        return {} if made is None else made(ctx, facts)

    def _tool(self, event: str, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        call = ctx.tool_call
        shown = self.show(call, facts)
        sent: dict[str, Any] = {
            "tool_name": shown.name,
            "tool_input": shown.input,
            "native_tool_name": call.name,
        }
        names = mcp_names(call.name)
        if names is not None:
            sent["mcp_server"] = {"name": names[0]}
        if event == "PermissionRequest":
            sent["permission_suggestions"] = _suggestions(call, shown.name, facts.cwd)
        else:
            sent["tool_use_id"] = call.id
        if event == "PostToolUse":
            path = file_path(call.args.get("path"), facts.cwd)
            sent["tool_response"] = response_of(call, ctx.execution, path)
        if event == "PostToolUseFailure":
            sent["error"] = error_of(ctx.execution)
            sent["is_interrupt"] = event_facts.is_interrupted(ctx.execution)
        if event in _FEEDBACK:
            sent["duration_ms"] = round(ctx.execution.duration * 1000)
        return sent

    def _sessionstart(self, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        sent = {"model": facts.model, "session_title": event_facts.session_title(ctx.state)}
        return {
            "source": event_facts.session_source(ctx),
            **{key: said for key, said in sent.items() if said},
        }

    def _userpromptsubmit(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        return {"prompt": ctx.prompt, "user_prompt": ctx.prompt}

    def _notification(self, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        name = self.show(ctx.tool_call, facts).name
        return {
            "message": f"Claude needs your permission to use {name}",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        }

    def _messagedisplay(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        return {
            "turn_id": as_uuid(ctx.state.run_id),
            "message_id": as_uuid(f"{ctx.state.run_id}-{ctx.step_index}"),
            "index": 0,
            "final": True,
            "delta": ctx.response.text,
        }

    def _posttoolbatch(self, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        calls = []
        for call, result in zip(ctx.step.calls, ctx.step.results, strict=True):
            shown = self.show(call, facts)
            calls.append(
                {
                    "tool_name": shown.name,
                    "tool_input": shown.input,
                    "tool_use_id": call.id,
                    "tool_response": result.text(),
                }
            )
        return {"tool_calls": calls}

    def _stop(self, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        return {
            "stop_hook_active": facts.objections > 0,
            "last_assistant_message": event_facts.last_words(ctx.state),
            "background_tasks": [],
            "session_crons": [],
        }

    def _subagentstart(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        return {"agent_id": event_facts.agent_id(ctx.child_run_id), "agent_type": ctx.name}

    def _subagentstop(self, ctx: Any, facts: RunFacts) -> dict[str, Any]:
        return {
            "stop_hook_active": facts.objections > 0,
            "agent_id": event_facts.agent_id(ctx.child_run_id),
            "agent_type": ctx.name,
            "agent_transcript_path": facts.child_transcript,
            "last_assistant_message": getattr(ctx.result, "text", "") or "",
            "background_tasks": [],
            "session_crons": [],
        }

    def _precompact(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        return {"trigger": "auto", "custom_instructions": ctx.instructions}

    def _postcompact(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        said = (m for m in ctx.state.messages if isinstance(m, UserMessage) and m.by)
        return {"trigger": "auto", "compact_summary": next((m.text for m in said), "")}

    def _stopfailure(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        return {
            "error": _ERROR_NAMES.get(ctx.error_class, "unknown"),
            "error_details": ctx.error_message,
            "last_assistant_message": f"API Error: {ctx.error_message}",
        }

    def _sessionend(self, ctx: Any, _facts: RunFacts) -> dict[str, Any]:
        return {"reason": event_facts.end_reason(ctx)}

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
        texts = {name: _variable(value) for name, value in values.items() if value is not None}
        return {name: text for name, text in texts.items() if _fits(text)}

    # --- answers ------------------------------------------------------------------------------------

    def read_answer(self, handler: Handler, result: ProgramResult) -> HookAnswer:
        """Exit code 2 blocks, JSON decides, and any other exit code but 0 is a failure."""
        event, found = handler.event, json_object(result.stdout)
        problem = "" if found is None else wrong_field(found)
        if problem and result.code != 2:
            return failed(f"its output does not fit: {problem}")
        if result.code == 2:
            return self._blocked(event, result, {} if found is None or problem else found)
        if found is not None:
            return self.fields(event, found)
        if _is_broken_object(result.stdout):
            return failed("its output begins and ends like a JSON object, and is none")
        if result.code != 0:
            return failed(event_facts.failure_words(result))
        if event in _TEXT_IS_CONTEXT and result.stdout.strip():
            return HookAnswer(contexts=(result.stdout.strip(),))
        return HookAnswer()

    def _blocked(self, event: str, result: ProgramResult, found: dict[str, Any]) -> HookAnswer:
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
        return HookAnswer(**kept)

    def fields(self, event: str, found: dict[str, Any]) -> HookAnswer:
        """The fields of an answer at an event."""
        specific = found.get("hookSpecificOutput") or {}
        decision, reason = self._decision(event, found, specific)
        context = (
            specific.get("additionalContext")
            or found.get("additionalContext")
            or found.get("additional_context")
        )
        updated = specific.get("updatedInput")
        if event == "PermissionRequest":
            given = specific.get("decision")
            updated = given.get("updatedInput", updated) if isinstance(given, dict) else updated
        return HookAnswer(
            decision=decision,
            reason=reason,
            updated_input=updated if event in _REWRITING and isinstance(updated, dict) else None,
            updated_output=_new_output(specific) if event in _FEEDBACK else UNCHANGED,
            contexts=texts_of(context),
            messages=texts_of(found.get("systemMessage")),
            stops=found.get("continue") is False or _interrupts(event, specific),
            stop_reason=text_of(found.get("stopReason")),
            prompt=text_of(specific.get("initialUserMessage")) if event == "SessionStart" else "",
            rules=granted_rules(specific) if event == "PermissionRequest" else (),
            terminal=text_of(found.get("terminalSequence")),
            display=text_of(specific.get("displayContent")) if event in self.displaying else "",
            title=text_of(specific.get("sessionTitle")) if event in _TITLING else "",
        )  # fmt: skip

    def _decision(self, event: str, found: dict[str, Any], specific: dict[str, Any]) -> Any:
        if event == "PreToolUse" and specific.get("permissionDecision"):
            return specific["permissionDecision"], text_of(specific.get("permissionDecisionReason"))
        if event == "PermissionRequest":
            given = specific.get("decision")
            if isinstance(given, dict) and given.get("behavior") in ("allow", "deny"):
                return given["behavior"], text_of(given.get("message"))
            return "", ""
        word = _DECISIONS.get(text_of(found.get("decision")), "")
        if word == "allow" and event != "PreToolUse":
            word = ""
        return word, text_of(found.get("reason"))

    def take_result(self, call: ToolCall, answer: HookAnswer) -> Any:
        """The text of a command or a file, out of Claude's form of it."""
        return result_of(call, answer.updated_output)

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
        goes_on = handler.continues or handler.kind == "agent"
        ends = {} if goes_on else {"continue": False, "stopReason": reason}
        if event == "PreToolUse":
            denial = {"permissionDecision": "deny", "permissionDecisionReason": reason}
            return {**ends, "hookSpecificOutput": {"hookEventName": event, **denial}}
        return {**ends, **blocked} if event == "PostToolUse" else blocked


def _prompt_id(event: str, ctx: Any) -> dict[str, str]:
    """The id of the prompt: one for a run and its children, none at the start and the end of a session."""
    state: AgentState = ctx.state
    if event == "SessionStart" or state.run_id == stream_of(state.session_id):
        return {}
    return {"prompt_id": as_uuid(state.run_id.partition("/")[0])}


def _variable(value: Any) -> str:
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return str(value).encode(errors="replace").decode()  # without lone surrogates


def _fits(text: str) -> bool:
    """Whether a text can be the value of a variable."""
    return "\0" not in text and len(text.encode()) <= _LONGEST_VARIABLE


def wrong_field(found: dict[str, Any]) -> str:
    """What is wrong with an answer; unknown fields are not."""
    specific = found.get("hookSpecificOutput") or {}
    problem = wrong_type(found, _FIELDS) or wrong_type(specific, _SPECIFIC)
    if problem:
        return problem
    decision, word = specific.get("permissionDecision"), found.get("decision")
    if decision not in (None, "allow", "deny", "ask", "defer"):
        return f"'permissionDecision' is {decision!r}"
    return "" if word in (None, *_DECISIONS) else f"'decision' is {word!r}"


def _is_broken_object(text: str) -> bool:
    """Whether a text was meant to be an object and is none. Lines that are objects without an answer are a log."""
    stripped = text.strip().removeprefix("\ufeff")
    is_object = stripped.startswith("{") and stripped.endswith("}")
    if not is_object or json_object(stripped) is not None:
        return False
    lines = [json_object(line) for line in stripped.splitlines() if line.strip()]
    return None in lines or any(_ANSWERS & line.keys() for line in lines if line is not None)


def _new_output(specific: dict[str, Any]) -> Any:
    for key in ("updatedToolOutput", "updatedMCPToolOutput"):
        if key in specific:
            return specific[key]
    return UNCHANGED


def _interrupts(event: str, specific: dict[str, Any]) -> bool:
    """Whether a refusal also ends the run."""
    given = specific.get("decision")
    is_answer = event == "PermissionRequest" and isinstance(given, dict)
    return is_answer and given.get("interrupt") is True  # type: ignore[union-attr]


def granted_rules(specific: dict[str, Any]) -> tuple[str, ...]:
    """The rules that an answer adds. Hooks cannot change modes, directories and rules for files here."""
    decision = specific.get("decision")
    updates = decision.get("updatedPermissions") if isinstance(decision, dict) else None
    rules: list[str] = []
    for update in updates if isinstance(updates, list) else ():
        if isinstance(update, dict) and update.get("type") == "addRules":
            said = update.get("rules")
            is_allow = update.get("behavior", "allow") == "allow"
            rules += filter(None, map(_rule, said if is_allow and isinstance(said, list) else ()))
    return tuple(rules)


def _rule(said: Any) -> str:
    if isinstance(said, str):
        return said
    name, content = (
        (said.get("toolName"), said.get("ruleContent")) if isinstance(said, dict) else (0, 0)
    )
    if not isinstance(name, str):
        return ""
    return f"{name}({content})" if isinstance(content, str) and content else name


def _suggestions(call: ToolCall, name: str, cwd: str) -> list[dict[str, Any]]:
    """A rule for calls like this one, which a hook may answer with. There is none for files."""
    from hookline.errors import HooklineError
    from hookline.permissions import suggest_rule  # takes a while to load

    try:
        rule = None if "path" in call.args else suggest_rule(call, cwd)
    except HooklineError:  # what reads commands is not installed
        return []
    if rule is None:
        return []
    content = {} if rule.argument is None else {"ruleContent": rule.argument}
    rules = [{"toolName": name, **content}]
    return [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]
