"""Cursor's hooks: several events for one tool call, by what kind of tool it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import UNCHANGED, Answer, failed, json_object, text_of
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    SHELL_TOOLS,
    Dialect,
    Place,
    failure_text,
    failure_words,
    has_failed,
    is_interrupted,
    output_text,
    unfinished,
)
from hookline.command_hooks.dialects.endings import (
    end_reason,
    ending_of,
    is_abandoned,
    server_result,
)
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import CURSOR, Bridge, Shown
from hookline.lifecycle import HookPoint
from hookline.state import ToolCall, ToolResult

_MCP = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")
_ANY_TOOL = frozenset({"preToolUse", "postToolUse", "postToolUseFailure"})
_SHELL = frozenset({"beforeShellExecution", "afterShellExecution"})
_MCPS = frozenset({"beforeMCPExecution", "afterMCPExecution"})
_DECIDING = frozenset(
    {"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeSubmitPrompt",
     "subagentStart"}
)  # fmt: skip
CLOSED = frozenset({"beforeMCPExecution", "beforeReadFile"})
"""Events whose hooks keep things from happening when they fail."""
VERSION = "2.0.0"
_OF_FILES = ("read", "write", "edit")
_TWICE = {"file_path": "path", "content": "contents"}
_MOST_CONTENT = 1 << 20


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
    observing = frozenset({"afterAgentResponse", "afterAgentThought"})
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
            return has_failed(ctx.execution) is (event == "postToolUseFailure")
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
            "conversation_id": place.session_id,
            "generation_id": ctx.state.run_id,
            "session_id": place.session_id,
            "model": place.model,
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
            return {"text": ctx.response.text}
        if event == "afterAgentThought":
            return {"text": "\n".join(part.text for part in ctx.response.reasoning if part.text)}
        if event == "stop":
            return {"status": _status(ctx), "loop_count": place.objections}
        if event == "subagentStart":
            return {
                "subagent_id": ctx.child_run_id,
                "subagent_type": ctx.name,
                "task": ctx.prompt,
                "parent_conversation_id": place.session_id,
                "subagent_model": place.model,
                "is_parallel_worker": False,
            }
        if event == "subagentStop":
            return _child(ctx, place)
        if event == "preCompact":
            return {
                "trigger": "auto",
                "message_count": len(ctx.state.messages),
                "messages_to_compact": len(ctx.messages),
                "is_first_compaction": True,
            }
        ended = ending_of(ctx.state).replace("timeout", "aborted")
        why = "user_close" if end_reason(ctx) == "prompt_input_exit" else ended
        return {"reason": why, "is_background_agent": False, "final_status": ended}

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
                sent
                if execution is None
                else {
                    **sent,
                    "result_json": json.dumps(server_result(execution)),
                    "duration": milliseconds,
                }
            )
        if event == "beforeReadFile":
            path = str(given.get("file_path", ""))
            return {"file_path": path, "content": _content(path, place), "attachments": []}
        if event == "afterFileEdit":
            return {"file_path": given.get("file_path", ""), "edits": _edits(given)}
        sent = {
            "tool_name": shown.name,
            "tool_input": given,
            "tool_use_id": call.id,
            "cwd": place.cwd,
            "native_tool_name": call.name,
        }
        if event == "postToolUse":
            sent |= {"tool_output": _output(call, execution), "duration": milliseconds}
        if event == "postToolUseFailure":
            sent |= {
                "error_message": failure_text(execution),
                "failure_type": "timeout"
                if execution.metadata.get("ended") == "timeout"
                else "error",
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


def _content(path: str, place: Place) -> str:
    """What a file of the project has in it, as far as it is shown to hooks."""
    full = Path(path)
    try:
        if not full.resolve().is_relative_to(place.project) or not full.is_file():
            return ""
        with full.open("rb") as file:
            return file.read(_MOST_CONTENT).decode(errors="replace")
    except OSError:
        return ""


def _output(call: ToolCall, execution: ToolResult) -> str:
    """What a tool gave, as JSON in a text; of a command also how it ended."""
    if call.name not in SHELL_TOOLS:
        return json.dumps(execution.text())
    code = execution.metadata.get("exit_code", 0)
    return json.dumps({"exitCode": code, "stdout": output_text(execution)})


def _status(ctx: Any) -> str:
    """How a run ended, or is about to."""
    if ctx.point == HookPoint.AGENT_FAILED:
        return "error"
    return "aborted" if is_abandoned(ctx) else "completed"


def _child(ctx: Any, place: Place) -> dict[str, Any]:
    """How a child run ended."""
    result = ctx.result
    messages = () if result is None else result.state.messages
    return {
        "subagent_id": ctx.child_run_id,
        "subagent_type": ctx.name,
        "status": "error" if getattr(result, "error", None) else "completed",
        "task": ctx.prompt,
        "summary": getattr(result, "text", "") or "",
        "message_count": len(messages),
        "tool_call_count": sum(len(getattr(each, "calls", ())) for each in messages),
        "loop_count": place.objections,
        "agent_transcript_path": place.child_transcript or None,
    }


def _edits(given: dict[str, Any]) -> list[dict[str, Any]]:
    if "edits" in given:
        return [
            {key: edit.get(key, "") for key in ("old_string", "new_string")}
            for edit in given["edits"]
        ]
    if "content" in given:
        return [{"old_string": "", "new_string": given["content"]}]
    return [{key: given.get(key, "") for key in ("old_string", "new_string")}]


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
    stops = found.get("continue") is False
    followup = either("followup_message", "followupMessage")
    if event == "beforeSubmitPrompt" and stops:
        decision, reason, stops = "deny", to_user or reason, False
    if event in ("stop", "subagentStop") and followup:
        decision, reason = "deny", followup
    updated = found.get("updated_input", found.get("updatedInput"))
    output = found.get("updated_mcp_tool_output", UNCHANGED)
    context = either("additional_context", "additionalContext")
    env = found.get("env")
    return Answer(
        decision=decision,
        reason=reason,
        updated_input=updated if isinstance(updated, dict) and event == "preToolUse" else None,
        updated_output=output if event == "postToolUse" else UNCHANGED,
        contexts=(context,) if context else (),
        messages=(to_user,) if to_user and to_user != reason else (),
        stops=stops,
        stop_reason=to_user,
        env=env if isinstance(env, dict) and event == "sessionStart" else None,
    )
