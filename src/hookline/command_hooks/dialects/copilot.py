"""Copilot CLI's hooks, in their camel-case form: tool arguments are JSON text, and a hook that fails denies."""

from __future__ import annotations

import json
import re
import time
from typing import Any, ClassVar

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import UNCHANGED, Answer, failed, json_object, text_of
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    Dialect,
    Place,
    failure_text,
    failure_words,
    has_failed,
    last_words,
    output_text,
    session_source,
    unfinished,
)
from hookline.command_hooks.dialects.endings import end_reason, ending_of
from hookline.command_hooks.dialects.vscode_tools import takes_object
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import COPILOT, Bridge, Shown
from hookline.flow import ErrorClass
from hookline.lifecycle import HookPoint
from hookline.state import ToolCall

_READING_TOOLS = ("read", "list", "glob", "search")
_TOOLS = frozenset({"preToolUse", "permissionRequest", "postToolUse", "postToolUseFailure"})
_DENYING = frozenset({"preToolUse", "permissionRequest"})
BEGINS = re.compile(r"^\s*\{", re.MULTILINE)
"""A line that is meant to be JSON."""
_LONGEST_CONTEXT = 10_240
_OF_THE_SYSTEM = frozenset({ErrorClass.HOOK, ErrorClass.UNKNOWN})
_REASONS = {"completed": "complete", "error": "error", "aborted": "abort", "timeout": "timeout"}
_DECISIONS = {"allow": "allow", "deny": "deny", "ask": "ask", "block": "deny", "approve": "allow"}


class Copilot(Dialect):
    """Copilot CLI's protocol, as the files in `.github/hooks` name hooks."""

    name = "copilot"
    points: ClassVar[dict[str, str]] = {
        "sessionStart": "session_start",
        "userPromptSubmitted": "prompt_submit",
        "userPromptTransformed": "prompt_submit",
        "preToolUse": "before_tool_use",
        "permissionRequest": "permission_request",
        "notification": "permission_request",
        "postToolUse": "after_tool_use",
        "postToolUseFailure": "after_tool_use",
        "agentStop": "stop",
        "subagentStart": "subagent_start",
        "subagentStop": "subagent_stop",
        "preCompact": "before_compact",
        "errorOccurred": "agent_failed",
        "sessionEnd": "session_end",
    }
    # There it is asked before any rule is looked at, so also about what nobody would be asked about here.
    also: ClassVar[dict[str, str]] = {"permissionRequest": "before_tool_use"}
    answered_once = frozenset({"permissionRequest"})
    observing = frozenset({"notification"})
    runs_in_order = True
    bridge = Bridge(COPILOT, as_written=True)

    def fires(self, event: str, ctx: Any) -> bool:
        """Success and failure of a tool are two events; nobody needs permission to read."""
        if event in ("postToolUse", "postToolUseFailure"):
            return has_failed(ctx.execution) is (event == "postToolUseFailure")
        return event != "permissionRequest" or needs_permission(ctx)

    def show(self, call: ToolCall, place: Place) -> Shown:
        """A call under Copilot's names; a tool of a server has the server's name before it."""
        shown = super().show(call, place)
        server, found, tool = call.name.removeprefix("mcp__").partition("__")
        if not found or not call.name.startswith("mcp__"):
            return shown
        return shown._replace(name=f"{server}-{tool}", aliases=(call.name,))

    def test(self, handler: Handler) -> Test:
        """A regular expression over the whole name."""
        return matchers.copilot(handler.matcher)

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:
        """The tool, or the child."""
        if event in _TOOLS:
            shown = self.show(ctx.tool_call, place)
            return (shown.name, *shown.aliases)
        if event == "notification":
            return ("permission_prompt",)
        if event == "preCompact":
            return ("auto",)
        return (ctx.name,) if event in ("subagentStart", "subagentStop") else None

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """The event, and what is common to all of them."""
        sent = {
            "sessionId": place.session_uuid,
            "nativeSessionId": place.session_id,
            "timestamp": int(time.time() * 1000),
            "cwd": place.cwd,
            "transcriptPath": place.transcript,
            **self._particulars(handler.event, ctx, place),
        }
        if "toolArgs" in sent and takes_object(handler):
            sent["toolArgs"] = sent["toolInput"]
        return sent

    def _particulars(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        if event in _TOOLS or event == "notification":
            return self._tool(event, ctx, place)
        if event == "sessionStart":
            is_again = session_source(ctx) == "resume"
            return {"source": "resume" if is_again else "new", "initialPrompt": ""}
        if event == "userPromptSubmitted":
            return {"prompt": ctx.prompt}
        if event == "userPromptTransformed":
            return {"prompt": ctx.prompt, "transformedPrompt": ctx.prompt}
        if event == "errorOccurred":
            return failure(ctx)
        if event in ("subagentStart", "subagentStop"):
            return _child(event, ctx, place)
        if event == "agentStop":
            return {
                "stopReason": "end_turn",
                "stop_hook_active": place.objections > 0,
                "lastMessage": last_words(ctx.state),
            }
        if event == "preCompact":
            return {"trigger": "auto", "customInstructions": ctx.instructions}
        return {"reason": session_end_reason(ctx)}

    def _tool(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        shown = self.show(ctx.tool_call, place)
        sent: dict[str, Any] = {
            "toolName": shown.name,
            "toolArgs": json.dumps(shown.input, ensure_ascii=False, separators=(",", ":")),
            "toolInput": shown.input,  # not documented, and yet some look for it
            "nativeToolName": ctx.tool_call.name,
        }
        if event == "postToolUse":
            text = output_text(ctx.execution)
            sent["toolResult"] = {"resultType": "success", "textResultForLlm": text}
        if event == "postToolUseFailure":
            sent["error"] = failure_text(ctx.execution)
            sent["toolResult"] = {"resultType": "failure", "textResultForLlm": sent["error"]}
        if event == "notification":
            sent |= {
                "hook_event_name": "Notification",
                "notification_type": "permission_prompt",
                "title": "Permission needed",
                "message": f"{shown.name} needs permission",
            }
        return sent

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """Scripts that know several agents tell by this which one it is; for plugins, where they are."""
        root, data = handler.source.root, handler.source.data
        named = {
            "COPILOT_CLI": "1",
            "COPILOT_PROJECT_DIR": place.project,
            "CLAUDE_PROJECT_DIR": place.project,
        }
        plugin = ("COPILOT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT") if root else ()
        kept = {"COPILOT_PLUGIN_DATA": data} if data else {}
        return {**named, **dict.fromkeys(plugin, root), **kept}

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """A hook before a tool that fails denies; one that takes too long does not."""
        lost, event = unfinished(ran), handler.event
        if lost is not None and (lost.status == "timeout" or event not in _DENYING):
            return lost
        if lost is not None:
            return Answer(decision="deny", reason=lost.problem, status="blocked")
        text = without_progress(ran.stdout)
        found = answer_in(text)
        said = Answer() if found is None else _fields(event, found)
        if ran.code == 0 and (found is not None or not BEGINS.search(text)):
            return said
        if ran.code == 0:
            wrong = "its output begins like JSON, and is not valid"
            if event not in _DENYING:
                return failed(wrong)
            return Answer(decision="deny", reason=f"the hook failed: {wrong}", status="blocked")
        if event in _DENYING:
            printed = text if found is None else ""
            reason = said.reason or ran.stderr.strip() or printed or failure_words(ran)
            return Answer(decision="deny", reason=reason, status="blocked", contexts=said.contexts)
        if ran.code == 2 and event == "postToolUseFailure":  # how to go on from there
            words = "\n".join((*said.contexts, text if found is None else ""))
            return Answer(contexts=(words.strip() or ran.stderr.strip(),))
        if ran.code == 2:
            return Answer(messages=(ran.stderr.strip() or failure_words(ran),))
        return failed(failure_words(ran))


def needs_permission(ctx: Any) -> bool:
    """Whether a call is one that hooks for permissions are asked about: by what it does, or because somebody asks."""
    return (
        bool(ctx.point == HookPoint.PERMISSION_REQUEST) or ctx.tool_call.name not in _READING_TOOLS
    )


def failure(ctx: Any) -> dict[str, Any]:
    """What a hook is told of an error that ended the run."""
    place = "system" if ctx.error_class in _OF_THE_SYSTEM else "model_call"
    return {
        "error": {"message": ctx.error_message, "name": ctx.error_type, "stack": ""},
        "errorContext": "tool_execution" if ctx.tool_call is not None else place,
        "recoverable": False,
    }


def session_end_reason(ctx: Any) -> str:
    """Why a session is over."""
    is_left = end_reason(ctx) == "prompt_input_exit"
    return "user_exit" if is_left else _REASONS[ending_of(ctx.state)]


def _child(event: str, ctx: Any, place: Place) -> dict[str, Any]:
    said = {
        "agentId": ctx.child_run_id,
        "agentType": ctx.name,
        "agentName": ctx.name,
        "agentDisplayName": ctx.name,
    }
    if event == "subagentStart":
        return said
    response = getattr(ctx.result, "text", "") or ""
    ending = {"response": response, "stopReason": "end_turn"}
    return {**said, **ending, "transcriptPath": place.child_transcript}


def without_progress(text: str) -> str:
    """What a hook printed besides the lines that say how far it is."""
    return "\n".join(line for line in text.splitlines() if not _is_progress(line)).strip()


def answer_in(text: str) -> dict[str, Any] | None:
    """The one object in a text that may have words before it."""
    found = json_object(text)
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if found is not None:
            break
        if line.lstrip().startswith("{"):
            found = json_object("\n".join(lines[place:])) or json_object(line)
    return found


def _is_progress(line: str) -> bool:
    return "progress" in line and (json_object(line) or {}).get("type") == "progress"


def _fields(event: str, found: dict[str, Any]) -> Answer:
    for key in ("hookSpecificOutput", "decision"):  # guards that are Claude's too answer as there
        inner = found.get(key)
        found = {**inner, **found} if isinstance(inner, dict) else found
    word = found.get("permissionDecision") or found.get("behavior") or found.get("decision")
    decision = _DECISIONS.get(text_of(word), "")
    changed = found.get("modifiedArgs", found.get("updatedInput"))
    if isinstance(changed, str):
        changed = json_object(changed)
    if event not in _DENYING and decision != "deny":
        decision = ""
    context = text_of(found.get("additionalContext"))[:_LONGEST_CONTEXT]
    return Answer(
        decision=decision,  # type: ignore[arg-type]
        reason=text_of(found.get("permissionDecisionReason"))
        or text_of(found.get("reason"))
        or text_of(found.get("message")),
        updated_input=changed if event in _DENYING and isinstance(changed, dict) else None,
        updated_output=_new_output(event, found),
        contexts=(context,) if context else (),
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
    """What the parent of a child is to be given instead of its answer."""
    response = found.get("modifiedResponse")
    return response if isinstance(response, str) else UNCHANGED


def result_text(value: Any) -> Any:
    """The text of a result that a hook gives instead of the tool's."""
    return (
        value["textResultForLlm"]
        if isinstance(value, dict) and "textResultForLlm" in value
        else value
    )
