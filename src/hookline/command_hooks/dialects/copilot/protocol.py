"""Copilot CLI's hooks, with events in camel case: tool arguments are JSON text, and a hook that fails denies."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from hookline.command_hooks.dialect import Line, Transcripts, timestamp
from hookline.command_hooks.dialects import event_facts
from hookline.command_hooks.dialects.claude.tools import SEARCH_KEYS
from hookline.command_hooks.dialects.copilot import files
from hookline.command_hooks.dialects.copilot.known_fields import takes_object
from hookline.command_hooks.dialects.event_facts import TOOL, Event, EventDialect, EventFacts
from hookline.command_hooks.handler import (
    UNCHANGED,
    Handler,
    HookSearch,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    denied,
    failed,
    first_text,
    json_object,
    object_of,
    text_of,
    texts_of,
)
from hookline.command_hooks.tools import NameTest, ToolForm, ToolNames, whole_expression
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
_BROKEN = "its output begins like JSON, and is not valid"
BEGINS = re.compile(r"^\s*\{", re.MULTILINE)
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
        yield _event("session.start", {**about, **started})

    def lines_of(self, message: Message, facts: RunFacts) -> Iterator[Line]:
        if isinstance(message, ToolMessage):
            given = {"toolCallId": message.call_id, "success": not message.is_error}
            yield _event("tool.execution_complete", {**given, "result": {"content": message.text}})
        elif isinstance(message, UserMessage):
            yield _event("user.message", {"content": message.text, "attachments": []})
        elif isinstance(message, AssistantMessage):
            calls = [(call.id, Copilot().show(call, facts)) for call in message.calls]
            asked = [
                {"toolCallId": each, "name": shown.name, "arguments": shown.input}
                for each, shown in calls
            ]
            yield _event("assistant.message", {"content": message.text, "toolRequests": asked})
            for each, shown in calls:
                begun = {"toolCallId": each, "toolName": shown.name, "arguments": shown.input}
                yield _event("tool.execution_start", begun)


def _event(kind: str, data: Line) -> Line:
    return {"type": kind, "data": data, "id": str(uuid.uuid4()), "timestamp": timestamp()}


# --- the protocol --------------------------------------------------------------------------------------


def _tool(e: EventFacts) -> dict[str, Any]:
    return {
        "toolName": e.shown.name,
        "toolArgs": json.dumps(e.shown.input, ensure_ascii=False, separators=(",", ":")),
        "toolInput": e.shown.input,  # not documented, and yet some look for it
        "nativeToolName": e.call.name,
    }


def _succeeded(e: EventFacts) -> dict[str, Any]:
    return {**_tool(e), "toolResult": {"resultType": "success", "textResultForLlm": e.output}}


def _failed(e: EventFacts) -> dict[str, Any]:
    result = {"resultType": "failure", "textResultForLlm": e.failure}
    return {**_tool(e), "error": e.failure, "toolResult": result}


def _notified(e: EventFacts) -> dict[str, Any]:
    return {
        **_tool(e),
        "hook_event_name": "Notification",
        "notification_type": "permission_prompt",
        "title": "Permission needed",
        "message": f"{e.shown.name} needs permission",
    }


def _session_started(e: EventFacts) -> dict[str, Any]:
    is_again = event_facts.session_source(e.ctx) == "resume"
    return {"source": "resume" if is_again else "new", "initialPrompt": ""}


def _stopping(e: EventFacts) -> dict[str, Any]:
    return {
        "stopReason": "end_turn",
        "stop_hook_active": e.was_kept_going,
        "lastMessage": e.last_words,
    }


def _child(e: EventFacts) -> dict[str, Any]:
    names = dict.fromkeys(("agentType", "agentName", "agentDisplayName"), e.child.name)
    return {"agentId": e.child.child_run_id, **names}


def _child_ended(e: EventFacts) -> dict[str, Any]:
    ending = {"response": e.child_text, "stopReason": "end_turn"}
    return {**_child(e), **ending, "transcriptPath": e.run.child_transcript}


def needs_permission(e: EventFacts) -> bool:
    """Whether hooks for permissions are asked about a call: somebody asks, or it does more than read."""
    is_asked = e.ctx.point == HookPoint.PERMISSION_REQUEST
    return is_asked or e.call.name not in _READING_TOOLS


_EVENTS = {
    "sessionStart": Event("session_start", _session_started),
    "userPromptSubmitted": Event("prompt_submit", lambda e: {"prompt": e.prompt}),
    "userPromptTransformed": Event(
        "prompt_submit", lambda e: {"prompt": e.prompt, "transformedPrompt": e.prompt}
    ),
    "preToolUse": Event("before_tool_use", _tool, TOOL),
    "permissionRequest": Event("permission_request", _tool, TOOL, needs_permission),
    "notification": Event("permission_request", _notified, "notification_type"),
    "postToolUse": Event("after_tool_use", _succeeded, TOOL, lambda e: not e.has_failed),
    "postToolUseFailure": Event("after_tool_use", _failed, TOOL, lambda e: e.has_failed),
    "agentStop": Event("stop", _stopping),
    "subagentStart": Event("subagent_start", _child, "agentName"),
    "subagentStop": Event("subagent_stop", _child_ended, "agentName"),
    "preCompact": Event(
        "before_compact",
        lambda e: {"trigger": "auto", "customInstructions": e.compaction.instructions},
        "trigger",
    ),
    "errorOccurred": Event("agent_failed", lambda e: failure(e.error)),
    "sessionEnd": Event("session_end", lambda e: {"reason": session_end_reason(e.ctx)}),
}


class Copilot(EventDialect):
    """Copilot CLI's protocol."""

    name = "copilot"
    transcripts = CopilotTranscripts
    events = _EVENTS
    # There it is asked before any rule, so also about calls that need no permission here.
    more_points: ClassVar[dict[str, str]] = {"permissionRequest": "before_tool_use"}
    answered_once = frozenset({"permissionRequest"})
    observing = frozenset({"notification"})
    runs_in_order = True
    denying = _DENYING
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
        return files.find_hooks(search)

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:
        return files.read_file(path, level, search)

    def matcher(self, handler: Handler) -> NameTest:
        """A regular expression over the whole name."""
        return whole_expression(handler.matcher)

    def sent_always(self, event: str, found: EventFacts) -> dict[str, Any]:  # noqa: ARG002 - the same for all
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
            if takes_object(handler) and "toolArgs" in sent
            else sent
        )

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        return {**super().variables(handler, facts), "COPILOT_CLI": "1"}

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """A hook before a tool that fails denies; one that takes too long does not."""
        event = handler.event
        text = without_progress(result.stdout)
        found = answer_in(text)
        said = ProgramAnswer() if found is None else _fields(event, found)
        printed = text if found is None else ""
        if event in _DENYING:
            return read_denying(said, printed, result)
        if result.code == 0:
            return failed(_BROKEN) if BEGINS.search(printed) else said
        if result.code == 2 and event == "postToolUseFailure":  # how to continue
            words = "\n".join((*said.contexts, printed))
            return ProgramAnswer(contexts=(words.strip() or result.stderr.strip(),))
        if result.code == 2:
            return ProgramAnswer(
                messages=(result.stderr.strip() or event_facts.failure_words(result),)
            )
        return failed(event_facts.failure_words(result))


def read_denying(said: ProgramAnswer, printed: str, result: ProgramResult) -> ProgramAnswer:
    """The answer of a hook before a tool. One that fails denies; `printed` is its output if that is no answer."""
    if result.code != 0:
        reason = said.reason or result.stderr.strip() or printed
        return denied(reason or event_facts.failure_words(result), contexts=said.contexts)
    problem = said.problem or (_BROKEN if BEGINS.search(printed) else "")
    return denied(f"the hook failed: {problem}") if problem else said


def failure(ctx: FailureHookContext) -> dict[str, Any]:
    """The error that ended a run."""
    where = "system" if ctx.error_class in _OF_THE_SYSTEM else "model_call"
    return {
        "error": {"message": ctx.error_message, "name": ctx.error_type, "stack": ""},
        "errorContext": "tool_execution" if ctx.tool_call is not None else where,
        "recoverable": False,
    }


def session_end_reason(ctx: AgentContext) -> str:
    """Why a session is over."""
    is_left = event_facts.end_reason(ctx) == "prompt_input_exit"
    return "user_exit" if is_left else _REASONS[event_facts.ending_of(ctx.state)]


def without_progress(text: str) -> str:
    """The output without lines that report progress."""
    kept = [
        line
        for line in text.splitlines()
        if "progress" not in line or (json_object(line) or {}).get("type") != "progress"
    ]
    return "\n".join(kept).strip()


def answer_in(text: str) -> dict[str, Any] | None:
    """The object in a text that may have words before it."""
    found = json_object(text)
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if found is not None:
            break
        if line.lstrip().startswith("{"):
            found = json_object("\n".join(lines[index:])) or json_object(line)
    return found


def _fields(event: str, found: dict[str, Any]) -> ProgramAnswer:
    for key in ("hookSpecificOutput", "decision"):  # guards for Claude, too, answer as there
        found = {**object_of(found.get(key)), **found}
    word = found.get("permissionDecision") or found.get("behavior") or found.get("decision")
    decision = _DECISIONS.get(text_of(word), "")
    changed = found.get("modifiedArgs", found.get("updatedInput"))
    if isinstance(changed, str):
        changed = json_object(changed)
    if event not in _DENYING and decision != "deny":
        decision = ""
    context = text_of(found.get("additionalContext"))[:_LONGEST_CONTEXT]
    return ProgramAnswer(
        decision=decision,  # type: ignore[arg-type]
        reason=first_text(found, "permissionDecisionReason", "reason", "message"),
        updated_input=changed if event in _DENYING and isinstance(changed, dict) else None,
        updated_output=_new_output(event, found),
        contexts=texts_of(context),
        prompt=text_of(found.get("modifiedTransformedPrompt"))
        if event == "userPromptTransformed"
        else "",
        stops=event == "permissionRequest"
        and decision == "deny"
        and found.get("interrupt") is True,
    )


def _new_output(event: str, found: dict[str, Any]) -> Any:
    if event == "postToolUse":
        return result_text(found.get("modifiedResult", UNCHANGED))
    return new_response(found) if event == "subagentStop" else UNCHANGED


def new_response(found: dict[str, Any]) -> Any:
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
