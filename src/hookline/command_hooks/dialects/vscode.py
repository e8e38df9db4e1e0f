"""Copilot's hooks in their Pascal-case form, which is that of VS Code: Claude's events and Copilot's rules.

Tools have Claude's names; for a script that was written for VS Code's own tools, the names by which it knows them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import Answer, json_object
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    Place,
    failure_words,
    output_text,
    session_source,
    unfinished,
)
from hookline.command_hooks.dialects.claude import TOOL_EVENTS, Claude
from hookline.command_hooks.dialects.copilot import (
    BEGINS,
    Copilot,
    answer_in,
    failure,
    needs_permission,
    new_response,
    result_text,
    session_end_reason,
    without_progress,
)
from hookline.command_hooks.dialects.vscode_tools import (
    is_for_copilot,
    is_for_vscode,
    name_for,
    names_of,
    plain,
    reads_camel_case,
    takes_object,
    with_keys,
    without_keys,
)
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import Shown
from hookline.state import ToolCall

_DENYING = frozenset({"PreToolUse", "PermissionRequest"})
_THEIRS = {
    "permissionDecision": "permissionDecision",
    "permissionDecisionReason": "permissionDecisionReason",
    "modifiedArgs": "updatedInput",
}
"""Copilot's fields at the top of an answer, and where Claude has them inside."""


_OBJECTIONS = ("block", "deny")
_ENDS_INSIDE = ("decision", "reason")
"""What an objection to the end of a turn says; VS Code has it inside."""


class VsCode(Claude):
    """The protocol of events that a file of Copilot names as Claude does."""

    name = "vscode"
    points: ClassVar[dict[str, str]] = {**Claude.points, "ErrorOccurred": "agent_failed"}
    also: ClassVar[dict[str, str]] = {**Claude.also, "PermissionRequest": "before_tool_use"}
    answered_once = frozenset({"PermissionRequest"})
    own = ""
    numbers_prompts = False
    runs_in_order = True
    _copilot = Copilot()

    def fires(self, event: str, ctx: Any) -> bool:
        """As Claude's; permissions are asked for as in Copilot."""
        if event == "PermissionRequest":
            return needs_permission(ctx)
        return super().fires(event, ctx)

    def test(self, handler: Handler) -> Test:
        """Exact names, or a regular expression over the whole of the name."""
        return matchers.vscode(handler.matcher)

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:
        """As Claude's; of a tool also the names that Copilot and VS Code have for it."""
        found = super().subject(event, ctx, place)
        if event == "SessionStart" and found == ("startup",):
            return ("startup", "new")
        if found is None or event not in TOOL_EVENTS:
            return found
        return (*found, self._copilot.show(ctx.tool_call, place).name, *names_of(ctx.tool_call))

    def show(self, call: ToolCall, place: Place) -> Shown:
        """A call as Claude has it, with VS Code's keys beside Claude's."""
        return with_keys(call, super().show(call, place), place.cwd)

    def back(self, call: ToolCall, shown: Shown, answer: Answer) -> ToolCall:
        """The call with a hook's changes, under whichever keys it made them."""
        updated = without_keys(call, shown, answer.updated_input or {})
        changed = msgspec.structs.replace(answer, updated_input=updated)
        return super().back(call, plain(call, shown), changed)

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """As Claude's, with the time, with what Copilot adds, and with what VS Code has under other names."""
        event = handler.event
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        sent = {**super().payload(handler, ctx, place), "timestamp": now}
        sent |= {"sessionId": sent["session_id"], "hookEventName": event}
        if event == "SessionStart" and session_source(ctx) == "startup":
            sent["source"] = "new"
        if event == "PostToolUse":
            text = output_text(ctx.execution)
            sent["tool_result"] = {"result_type": "success", "text_result_for_llm": text}
        if event in TOOL_EVENTS:
            sent |= self._tool_there(handler, ctx, place, sent)
        if event in ("Stop", "SubagentStop"):
            sent["stop_reason"] = "end_turn"
        if event == "SubagentStop":
            sent["agent_name"] = ctx.name
        if event == "SessionEnd":
            sent["reason"] = session_end_reason(ctx)
        if event == "ErrorOccurred":
            told = failure(ctx)
            sent |= {"error_context": told.pop("errorContext"), **told}
        return sent

    def _tool_there(
        self, handler: Handler, ctx: Any, place: Place, sent: dict[str, Any]
    ) -> dict[str, Any]:
        """What a script for VS Code is told of a tool: its name there, and what it gave as text."""
        shown = self._copilot.show(ctx.tool_call, place)
        is_theirs, name = is_for_vscode(handler), sent["tool_name"]
        if is_theirs or is_for_copilot(handler):
            name = name_for(handler, ctx.tool_call) if is_theirs else shown.name
        told: dict[str, Any] = {"tool_name": name}
        if is_theirs and "tool_response" in sent:
            told["tool_response"] = output_text(ctx.execution)
        if reads_camel_case(handler):
            given = sent["tool_input"] if is_theirs else shown.input
            told["toolName"] = name if is_theirs else shown.name
            text = json.dumps(given, ensure_ascii=False)
            told |= {"toolInput": given, "toolArgs": given if takes_object(handler) else text}
        return told

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """Copilot's: scripts that know several agents tell by them which one it is."""
        return self._copilot.variables(handler, place)

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """A hook before a tool that fails denies, and one that takes too long does not; the rest is as in Claude."""
        lost = unfinished(ran)
        denies = handler.event in _DENYING
        if lost is not None:
            if lost.status == "timeout" or not denies:
                return lost
            return Answer(decision="deny", reason=lost.problem, status="blocked")
        text = without_progress(ran.stdout)
        found = answer_in(text)
        if found is not None:
            text = json.dumps(_as_claude(handler.event, found))
        answer = super().understand(handler, Ran(ran.code, text, ran.stderr))
        if handler.event == "SubagentStop" and found is not None:
            return msgspec.structs.replace(answer, updated_output=new_response(found))
        if not denies or ran.code == 2:
            return answer
        if ran.code != 0:
            printed = text if found is None else ""
            reason = answer.reason or ran.stderr.strip() or printed or failure_words(ran)
            return Answer(decision="deny", reason=reason, status="blocked")
        broken = (
            found is None
            and BEGINS.search(text)
            and "its output begins like JSON, and is not valid"
        )
        problem = answer.problem or broken
        return _refused(problem) if problem else answer


def _as_claude(event: str, found: dict[str, Any]) -> dict[str, Any]:
    """An answer as Claude has it, where some of it is in Copilot's words, which are all at the top."""
    given = found.get("hookSpecificOutput")
    if given is not None and not isinstance(given, dict):
        return found
    specific = dict(given or {})
    for theirs, ours in _THEIRS.items():
        if theirs in found and ours not in specific:
            specific[ours] = found[theirs]
    if isinstance(specific.get("updatedInput"), str):
        specific["updatedInput"] = json_object(specific["updatedInput"])
    if event == "PermissionRequest" and "behavior" in found:
        named = ("behavior", "message", "interrupt")
        specific.setdefault("decision", {key: found[key] for key in named if key in found})
    if "modifiedResult" in found:
        specific.setdefault("updatedToolOutput", result_text(found["modifiedResult"]))
    inside = _ENDS_INSIDE if event in ("Stop", "SubagentStop") else ()
    lifted = {key: specific[key] for key in inside if key in specific}
    made = {**lifted, **found, "hookSpecificOutput": specific}
    if event not in _DENYING and made.get("decision") not in _OBJECTIONS:
        made.pop("decision", None)  # where only an objection counts, any other word is none
    return made


def _refused(problem: str) -> Answer:
    """The answer of a guard that could not be understood."""
    return Answer(decision="deny", reason=f"the hook failed: {problem}", status="blocked")
