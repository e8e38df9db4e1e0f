"""Gemini CLI's hooks: its event names, its tool names, and its reading of exit codes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, ClassVar

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import UNCHANGED, Answer, json_object, text_of
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    SHELL_TOOLS,
    Dialect,
    Place,
    failure_text,
    failure_words,
    has_failed,
    is_address,
    last_words,
    output_text,
    served_by,
    session_source,
    unfinished,
)
from hookline.command_hooks.dialects.endings import end_reason
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.texts import is_labelled
from hookline.command_hooks.tool_names import GEMINI, Bridge, Shown
from hookline.hooks import Kind
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_TOOL_EVENTS = frozenset({"BeforeTool", "AfterTool"})
_MODEL_EVENTS = frozenset({"BeforeModel", "BeforeToolSelection", "AfterModel"})
_MCP = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")
_BLOCKS = ("block", "deny")
_ADVISORY = frozenset(
    {"SessionStart", "SessionEnd", "PreCompress", "Notification", "BeforeToolSelection"}
)
"""Events at which nothing can be refused."""


class Gemini(Dialect):
    """Gemini CLI's protocol, as its settings files name hooks."""

    name = "gemini"
    points: ClassVar[dict[str, str]] = {
        "SessionStart": "session_start",
        "BeforeAgent": "prompt_submit",
        "BeforeModel": "before_inference",
        "BeforeToolSelection": "before_inference",
        "AfterModel": "after_inference",
        "BeforeTool": "before_tool_use",
        "Notification": "permission_request",
        "AfterTool": "after_tool_use",
        "AfterAgent": "stop",
        "PreCompress": "before_compact",
        "SessionEnd": "session_end",
    }
    later = frozenset({"BeforeToolSelection"})
    observing = frozenset({"Notification"})
    own = ".gemini"
    shell = "bash"
    bridge = Bridge(GEMINI)

    def fires(self, event: str, ctx: Any) -> bool:
        """People are told of what nobody has answered yet; tools are chosen for a model that is really asked."""
        if event == "BeforeToolSelection":
            return ctx.response is None
        if event == "Notification":
            return ctx.verdict is None or ctx.verdict.kind is Kind.PROCEED
        return event != "AfterModel" or ctx.response is not None

    def test(self, handler: Handler) -> Test:
        """A regular expression for tools, the exact text for the rest."""
        return matchers.gemini(handler.matcher, is_tool=handler.event in _TOOL_EVENTS)

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:
        """The tool, or how the session began or ended."""
        if event in _TOOL_EVENTS:
            shown = self.show(ctx.tool_call, place)
            return (shown.name, *shown.aliases)
        sent = self._particulars(event, ctx, place)
        for key in ("source", "reason", "trigger", "notification_type"):
            if key in sent:
                return (str(sent[key]),)
        return None

    def show(self, call: ToolCall, place: Place) -> Shown:
        """A call under Gemini's names."""
        found = _MCP.fullmatch(call.name)
        shown = super().show(call, place)
        if found is None:
            return shown
        return shown._replace(name=tool_name(call.name), aliases=(call.name,))

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """The event, and what is common to all of them."""
        return {
            "session_id": place.session_uuid,
            "native_session_id": place.session_id,
            "transcript_path": place.transcript,
            "cwd": place.cwd,
            "hook_event_name": handler.event,
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            **self._particulars(handler.event, ctx, place),
        }

    def _particulars(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        if event in _TOOL_EVENTS:
            return self._tool(event, ctx, place)
        if event in _MODEL_EVENTS:
            return _model(event, ctx, place)
        if event == "SessionStart":
            return {"source": session_source(ctx)}
        if event == "BeforeAgent":
            return {"prompt": ctx.prompt}
        if event == "AfterAgent":
            said = (m for m in reversed(ctx.state.messages) if isinstance(m, UserMessage))
            asked = next((m.text for m in said if not m.by), "")
            return {
                "prompt": asked,
                "prompt_response": last_words(ctx.state),
                "stop_hook_active": place.objections > 0,
            }
        if event == "Notification":
            return _notification(ctx.tool_call, self.show(ctx.tool_call, place))
        if event == "PreCompress":
            return {"trigger": "auto"}
        return {"reason": "clear" if end_reason(ctx) == "clear" else "exit"}

    def _tool(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        shown = self.show(ctx.tool_call, place)
        sent: dict[str, Any] = {
            "tool_name": shown.name,
            "tool_input": shown.input,
            "native_tool_name": ctx.tool_call.name,
        }
        found = _MCP.fullmatch(ctx.tool_call.name)
        if found is not None:
            named = {"server_name": found["server"], "tool_name": found["tool"]}
            sent["mcp_context"] = {**named, **_server(ctx)}
        if event == "AfterTool":
            text = output_text(ctx.execution)
            # Guards that are for several agents look for the third of these.
            sent["tool_response"] = dict.fromkeys(("llmContent", "returnDisplay", "output"), text)
            if has_failed(ctx.execution):
                why = failure_text(ctx.execution)
                sent["tool_response"]["error"] = {"message": why, "type": "execution_failed"}
        return sent

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """Where the project is, under Gemini's name and the one that scripts for Claude look for."""
        named = {
            "GEMINI_PROJECT_DIR": place.project,
            "GEMINI_CWD": place.cwd,
            "GEMINI_SESSION_ID": place.session_uuid,
            "GEMINI_PLANS_DIR": f"{place.project}/.gemini/plans",
            "CLAUDE_PROJECT_DIR": place.project,
        }
        return {**named, "extensionPath": handler.source.root} if handler.source.root else named

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """JSON decides, whatever the exit code; text is a refusal from exit code 2 on."""
        lost = unfinished(ran)
        if lost is not None:
            return lost
        text = ran.stdout.strip() or ran.stderr.strip()
        found = _object(text)
        if found is not None:
            return _fields(handler.event, found)
        if ran.code == 0:
            return Answer(messages=(text,) if text else ())
        if ran.code == 1:
            return Answer(messages=(f"Warning: {text}" if text else failure_words(ran),))
        reason = ran.stderr.strip() or text or failure_words(ran)
        if handler.event in _ADVISORY:
            return Answer(messages=(reason,))
        # A turn whose request or response is refused is over.
        stops = handler.event in _MODEL_EVENTS
        return Answer(
            decision="deny", reason=reason, status="blocked", stops=stops, stop_reason=reason
        )


def _server(ctx: Any) -> dict[str, Any]:
    """Where a tool's server is: its address, or the program that it is."""
    words = served_by(ctx)
    if not words:
        return {}
    return {"url": words[0]} if is_address(words) else {"command": words[0], "args": [*words[1:]]}


def _notification(call: ToolCall, shown: Shown) -> dict[str, Any]:
    """The question whether a call may run, by its kind."""
    found = _MCP.fullmatch(call.name)
    command = str(shown.input.get("command", ""))
    about: dict[str, Any] = {"tool_name": shown.name, "tool_input": shown.input}
    if found is not None:
        kind, what = "mcp", "MCP"
        about |= {"serverName": found["server"], "toolName": found["tool"]}
    elif call.name in SHELL_TOOLS:
        kind, what = "exec", "execution"
        about |= {"command": command, "rootCommand": (command.split() or [""])[0]}
    elif call.name in ("write", "edit"):
        kind, what = "edit", "editing"
        path = str(shown.input.get("file_path", ""))
        about |= {"fileName": path.rpartition("/")[2], "filePath": path}
    else:
        kind, what = "info", "information"
    return {
        "notification_type": "ToolPermission",
        "message": f"Tool {shown.name} requires {what}",
        "details": {"type": kind, "title": shown.name, **about},
    }


def tool_name(name: str) -> str:
    """One of our tools, as Gemini calls it."""
    found = _MCP.fullmatch(name)
    if found is not None:
        return f"mcp_{found['server']}_{found['tool']}"
    return GEMINI[name].name if name in GEMINI else name


def _object(text: str) -> dict[str, Any] | None:
    """The object that a text is, also when it was made a string of once more."""
    found = json_object(text)
    if found is None and text.startswith('"'):
        try:
            inner = json.loads(text)
        except ValueError:
            return None
        return json_object(inner) if isinstance(inner, str) else None
    return found


def _fields(event: str, found: dict[str, Any]) -> Answer:
    specific = found.get("hookSpecificOutput")
    # Where a field belongs was written down differently over time: what is found outside counts, too.
    specific = {**found, **specific} if isinstance(specific, dict) else found
    word = "" if event in _ADVISORY else text_of(found.get("decision"))
    context = text_of(specific.get("additionalContext") or specific.get("additional_context"))
    changed = specific.get("tool_input", specific.get("updatedInput"))
    message = text_of(found.get("systemMessage"))
    extra = {
        key: specific[key]
        for key in ("llm_request", "llm_response", "toolConfig", "tailToolCallRequest")
        if key in specific
    }
    tools = extra.get("toolConfig")
    if isinstance(tools, dict) and isinstance(tools.get("functionCallingConfig"), dict):
        extra["toolConfig"] = {**tools["functionCallingConfig"], **tools}
    if event == "AfterAgent" and specific.get("clearContext") is True:
        extra["clearContext"] = True
    return Answer(
        decision="deny" if word in _BLOCKS else "ask" if word == "ask" else "",
        reason=text_of(found.get("reason")),
        updated_input=changed if event == "BeforeTool" and isinstance(changed, dict) else None,
        merges_input=True,
        updated_output=_new_output(specific) if event == "AfterTool" else UNCHANGED,
        contexts=(context.replace("<", "&lt;").replace(">", "&gt;"),) if context.strip() else (),
        messages=(message,) if message else (),
        stops=(found.get("continue") is False and event not in _ADVISORY)
        or (word in _BLOCKS and event in _MODEL_EVENTS),
        stop_reason=text_of(found.get("stopReason")) or text_of(found.get("reason")),
        extra=extra or None,
    )


def _new_output(specific: dict[str, Any]) -> Any:
    """What a tool gave instead; scripts that are Claude's too say it in its words."""
    names = ("tool_output", "updatedToolOutput")
    return next((specific[name] for name in names if name in specific), UNCHANGED)


def is_shown(message: Message) -> bool:
    """Whether hooks see a message of a request: those with text. Calls and their results are none of theirs, nor is
    what hooks said about them: who asks for the last words of the user means the user's."""
    is_a_hooks = isinstance(message, UserMessage) and is_labelled(message)
    return bool(message.text) and not isinstance(message, ToolMessage) and not is_a_hooks


def _model(event: str, ctx: Any, place: Place) -> dict[str, Any]:
    request: InferenceRequest = ctx.request
    messages = [{"role": "system", "content": request.system}] if request.system else []
    for message in filter(is_shown, request.messages):
        role = "model" if isinstance(message, AssistantMessage) else "user"
        messages.append({"role": role, "content": message.text})
    offered = {
        "mode": {"none": "NONE", "required": "ANY"}.get(request.tool_choice, "AUTO"),
        "allowedFunctionNames": list(dict.fromkeys(tool_name(each.name) for each in request.tools)),
    }
    sent: dict[str, Any] = {
        "llm_request": {
            "model": request.model or place.model,
            "messages": messages,
            "config": dict(request.options),
            "toolConfig": {**offered, "functionCallingConfig": offered},
        }
    }
    if event == "AfterModel":
        text = ctx.response.text
        sent["llm_response"] = {
            "text": text,
            "candidates": [
                {"content": {"role": "model", "parts": [text]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"totalTokenCount": ctx.response.usage.total_tokens},
        }
    return sent
