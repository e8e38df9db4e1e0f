"""Cursor's hooks: several events for one tool call, by what kind of tool it is."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import UNCHANGED, Answer, failed, json_object, text_of
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    SHELL_TOOLS,
    Dialect,
    Place,
    as_uuid,
    failure_text,
    failure_words,
    has_failed,
    is_address,
    is_interrupted,
    output_text,
    served_by,
    unfinished,
)
from hookline.command_hooks.dialects.cursor_events import (
    child_ended,
    child_started,
    compacting,
    content_of,
    edits_of,
    output_of,
    session_ended,
    session_fields,
    tokens,
)
from hookline.command_hooks.dialects.endings import is_abandoned, server_result
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import CURSOR, Bridge, Shown
from hookline.lifecycle import HookPoint
from hookline.state import ResultStatus, ToolCall, ToolResult

_MCP = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")
_ANY_TOOL = frozenset({"preToolUse", "postToolUse", "postToolUseFailure"})
_SHELL = frozenset({"beforeShellExecution", "afterShellExecution"})
_MCPS = frozenset({"beforeMCPExecution", "afterMCPExecution"})
_DECIDING = frozenset(
    {"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeSubmitPrompt",
     "subagentStart"}
)  # fmt: skip
"""Events about what has not happened yet: there `continue: false` is a no to that, and not the end of the run."""
_SEES_OUTPUT = frozenset({"postToolUse", "afterShellExecution", "afterMCPExecution"})
CLOSED = frozenset({"beforeMCPExecution", "beforeReadFile"})
"""Events whose hooks keep things from happening when they fail."""
VERSION = "2.0.0"
_OF_FILES = ("read", "write", "edit")
_REFUSED = (ResultStatus.BLOCKED, ResultStatus.DENIED)
_TWICE = {"file_path": "path", "content": "contents"}


class Cursor(Dialect):
    """Cursor's protocol, as its hooks.json names hooks."""

    name = "cursor"
    points: ClassVar[dict[str, str]] = {
        "sessionStart": "session_start",
        "beforeSubmitPrompt": "prompt_submit",
        "preToolUse": "before_tool_use",
        "beforeShellExecution": "before_tool_use",
        "beforeMCPExecution": "before_tool_use",
        "beforeReadFile": "before_tool_use",
        "postToolUse": "after_tool_use",
        "postToolUseFailure": "after_tool_use",
        "afterShellExecution": "after_tool_use",
        "afterMCPExecution": "after_tool_use",
        "afterFileEdit": "after_tool_use",
        "afterAgentResponse": "after_inference",
        "afterAgentThought": "after_inference",
        "stop": "stop",
        "subagentStart": "subagent_start",
        "subagentStop": "subagent_stop",
        "preCompact": "before_compact",
        "sessionEnd": "session_end",
    }
    also: ClassVar[dict[str, str]] = {"stop": "agent_failed"}
    known = frozenset({"beforeTabFileRead", "afterTabFileEdit", "workspaceOpen"})
    observing = frozenset({"afterAgentResponse", "afterAgentThought", "postToolUseFailure"})
    is_told_of_interrupts = True
    bridge = Bridge(CURSOR, milliseconds=True)

    def fires(self, event: str, ctx: Any) -> bool:
        """By the kind of tool, and by how it went."""
        call = getattr(ctx, "tool_call", None)
        if call is None:
            if event == "afterAgentResponse":
                return ctx.response is not None and bool(ctx.response.text)
            if event == "afterAgentThought":
                return ctx.response is not None and any(
                    part.text for part in ctx.response.reasoning
                )
            return True
        if event in _SHELL:
            return call.name in SHELL_TOOLS
        if event in _MCPS:
            return bool(call.name.startswith("mcp__"))
        if event == "beforeReadFile":
            return bool(call.name == "read")
        if event == "afterFileEdit":
            return call.name in ("write", "edit") and not has_failed(ctx.execution)
        if event in ("postToolUse", "postToolUseFailure"):
            is_failure = has_failed(ctx.execution) or ctx.execution.status in _REFUSED
            return is_failure is (event == "postToolUseFailure")
        return True

    def test(self, handler: Handler) -> Test:
        """A regular expression."""
        return matchers.cursor(handler.matcher)

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:
        """The tool; for commands, the text of the command."""
        if event in _SHELL:
            return (str(self.show(ctx.tool_call, place).input.get("command", "")),)
        if event in _ANY_TOOL or event in _MCPS or event in ("beforeReadFile", "afterFileEdit"):
            shown = self.show(ctx.tool_call, place)
            return (shown.name, *shown.aliases)
        if event in ("subagentStart", "subagentStop"):
            return (ctx.name,)
        return None

    def show(self, call: ToolCall, place: Place) -> Shown:
        """A call under Cursor's names; files have two for what they are given, by its version."""
        found = _MCP.fullmatch(call.name)
        shown = super().show(call, place)
        if found is not None:
            return shown._replace(name=f"MCP:{found['tool']}", aliases=(call.name,))
        if call.name not in _OF_FILES:
            return shown
        twice = {also: shown.input[key] for key, also in _TWICE.items() if key in shown.input}
        return shown._replace(input={**shown.input, **twice})

    def back(self, call: ToolCall, shown: Shown, answer: Answer) -> ToolCall:
        """The call with a hook's changes, by whichever of two names."""
        if call.name not in _OF_FILES:
            return super().back(call, shown, answer)
        updated = dict(answer.updated_input or {})
        for key, also in _TWICE.items():
            second = updated.pop(also, None)
            is_changed = second is not None and second != shown.input.get(also)
            if is_changed or (second is not None and key not in updated):
                updated[key] = second
        return super().back(call, shown, msgspec.structs.replace(answer, updated_input=updated))

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """The event, and what is common to all of them."""
        return {
            **session_fields(place),
            "generation_id": as_uuid(ctx.state.run_id),
            "model": place.model,
            "model_id": place.model,
            "model_params": [],
            "hook_event_name": handler.event,
            "cursor_version": VERSION,
            "workspace_roots": [place.project],
            "user_email": None,
            "transcript_path": place.transcript or None,
            **self._particulars(handler.event, ctx, place),
        }

    def _particulars(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        if getattr(ctx, "tool_call", None) is not None:
            return self._tool(event, ctx, place)
        if event == "sessionStart":
            return {"is_background_agent": False, "composer_mode": "agent", "cwd": place.cwd}
        if event == "beforeSubmitPrompt":
            return {"prompt": ctx.prompt, "attachments": []}
        if event == "afterAgentResponse":
            return {"text": ctx.response.text, **tokens(ctx.response.usage)}
        if event == "afterAgentThought":
            return {"text": "\n".join(part.text for part in ctx.response.reasoning if part.text)}
        if event == "stop":
            ended = {"status": _status(ctx), "loop_count": place.objections}
            return {**ended, **tokens(ctx.state.counters.usage)}
        if event == "subagentStart":
            return child_started(ctx, place)
        if event == "subagentStop":
            return child_ended(ctx, place)
        return compacting(ctx) if event == "preCompact" else session_ended(ctx)

    def _tool(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        call, execution = ctx.tool_call, ctx.execution
        shown = self.show(call, place)
        given = shown.input
        milliseconds = 0 if execution is None else round(execution.duration * 1000)
        if event in _SHELL:
            sent = {"command": given.get("command", ""), "cwd": place.cwd, "sandbox": False}
            return (
                sent
                if execution is None
                else {**sent, "output": output_text(execution), "duration": milliseconds}
            )
        if event in _MCPS:
            found = _MCP.fullmatch(call.name)
            sent = {
                "server": "" if found is None else found["server"],
                "tool_name": shown.name.removeprefix("MCP:"),
                "tool_input": json.dumps(given),
            }
            return (
                {**sent, **_server(ctx)}
                if execution is None
                else {
                    **sent,
                    "result_json": json.dumps(server_result(execution)),
                    "duration": milliseconds,
                }
            )
        if event == "beforeReadFile":
            path = str(given.get("file_path", ""))
            return {"file_path": path, "content": content_of(path, place), "attachments": []}
        if event == "afterFileEdit":
            return {"file_path": given.get("file_path", ""), "edits": edits_of(given)}
        sent = {
            "tool_name": shown.name,
            "tool_input": given,
            "tool_use_id": call.id,
            "cwd": place.cwd,
            "native_tool_name": call.name,
        }
        if event == "preToolUse":
            sent["agent_message"] = "" if ctx.response is None else ctx.response.text
        if event == "postToolUse":
            sent |= {"tool_output": output_of(call, execution), "duration": milliseconds}
        if event == "postToolUseFailure":
            sent |= {
                "error_message": failure_text(execution),
                "failure_type": _failure(execution),
                "is_interrupt": is_interrupted(execution),
                "duration": milliseconds,
            }
        return sent

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """Where the project is, under Cursor's name and the one that scripts for Claude look for; for plugins, where
        they are."""
        root = handler.source.root
        named = {
            "CURSOR_PROJECT_DIR": place.project,
            "CURSOR_VERSION": VERSION,
            "CURSOR_TRANSCRIPT_PATH": place.transcript,
            "CLAUDE_PROJECT_DIR": place.project,
        }
        return named if not root else {**named, "CURSOR_PLUGIN_ROOT": root}

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """Exit code 2 denies; any other failure is one, and the file says what that means."""
        lost = unfinished(ran)
        if lost is not None:
            return lost
        event, found = handler.event, json_object(ran.stdout)
        if ran.code == 2:
            said = _fields(event, found or {})
            reason = said.reason or ran.stderr.strip() or "no reason was given"
            return Answer(decision="deny", reason=reason, status="blocked", contexts=said.contexts)
        if ran.code != 0:
            # Some say no in words and leave with a code of their own. It is a no; a yes would not count.
            said = _fields(event, found or {})
            refuses = said.decision in ("deny", "ask") or said.stops
            return said if refuses else failed(failure_words(ran))
        if found is None:
            if ran.stdout.strip() and event in _DECIDING:
                return failed("its output is not JSON")
            return Answer()
        return _fields(event, found)


def _server(ctx: Any) -> dict[str, str]:
    """Where a tool's server is: its address, or the command that it is."""
    words = served_by(ctx)
    if not words:
        return {}
    return {"url": words[0]} if is_address(words) else {"command": shlex.join(words)}


def _failure(execution: ToolResult) -> str:
    """Why a call came to nothing, in a word."""
    if execution.status in _REFUSED:
        return "permission_denied"
    return "timeout" if execution.metadata.get("ended") == "timeout" else "error"


def _status(ctx: Any) -> str:
    """How a run ended, or is about to."""
    if ctx.point == HookPoint.AGENT_FAILED:
        return "error"
    return "aborted" if is_abandoned(ctx) else "completed"


def _permission(found: dict[str, Any]) -> str:
    """Allow, deny or ask. Older hooks name it a decision, and guards that are Claude's too say it in its words."""
    for key in ("permission", "decision", "permissionDecision"):
        said = found.get(key)
        if said in ("allow", "deny", "ask", "block"):
            return "deny" if said == "block" else str(said)
    return ""


def _fields(event: str, found: dict[str, Any]) -> Answer:
    specific = found.get("hookSpecificOutput")
    found = {**specific, **found} if isinstance(specific, dict) else found

    def either(*keys: str) -> str:
        return next((text for key in keys if (text := text_of(found.get(key)))), "")

    to_user, to_agent = (
        either("user_message", "userMessage"),
        either("agent_message", "agentMessage"),
    )
    decision: Any = _permission(found)
    to_agent = to_agent or (either("reason", "permissionDecisionReason") if not to_user else "")
    # A question is read by the user, a refusal by the model.
    reason = to_user or to_agent if decision == "ask" else to_agent or to_user
    is_no = found.get("continue") is False
    followup = either("followup_message", "followupMessage")
    if is_no and event in _DECIDING:
        decision, reason = "deny", (to_user or reason if event == "beforeSubmitPrompt" else reason)
    if event in ("stop", "subagentStop") and followup:
        decision, reason = "deny", followup
    updated = found.get("updated_input", found.get("updatedInput"))
    output = found.get("updated_mcp_tool_output", found.get("modifiedToolOutput", UNCHANGED))
    told = [either("additional_context", "additionalContext")]
    told += [] if decision in ("deny", "ask") else [to_agent]
    env = found.get("env")
    return Answer(
        decision=decision,
        reason=reason if decision else "",
        updated_input=updated if isinstance(updated, dict) and event == "preToolUse" else None,
        updated_output=output if event in _SEES_OUTPUT else UNCHANGED,
        contexts=tuple(filter(None, told)),
        messages=(to_user,) if to_user and (to_user != reason or not decision) else (),
        stops=is_no and event == "sessionStart",
        stop_reason=to_user,
        env=env if isinstance(env, dict) and event == "sessionStart" else None,
    )
