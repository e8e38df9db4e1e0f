"""Codex's hooks: Claude's schema and events, read more strictly."""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import Answer, failed, json_object, text_of
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    SHELL_TOOLS,
    Place,
    failure_words,
    last_words,
    output_text,
    unfinished,
)
from hookline.command_hooks.dialects.claude import Claude
from hookline.command_hooks.dialects.claude_answers import problem_in
from hookline.command_hooks.dialects.endings import server_result
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import Shown, patch_text
from hookline.errors import UsageError
from hookline.hooks import Kind
from hookline.state import ToolCall, UserMessage

_KEYS = frozenset(
    {"continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput"}
)  # fmt: skip
_SPECIFIC = frozenset(
    {"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext", "decision",
     "additionalContextLimit", "updatedToolOutput", "updatedMCPToolOutput"}
)  # fmt: skip
_CONTEXT = ("SessionStart", "SubagentStart", "UserPromptSubmit")
_BLOCKING = (
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "UserPromptSubmit",
    "Stop",
    "SubagentStop",
    "PreCompact",
)


_READING = {
    "read": ("cat",),
    "list": ("ls",),
    "glob": ("rg", "--files", "-g"),
    "search": ("rg",),
}
"""Our tools that read, and the commands by which it is done there: it has no tools for that."""
_PATCHING = ("write", "edit")
_TEXT = (*SHELL_TOOLS, *_READING, *_PATCHING)
"""Tools whose response is the text that they gave, and nothing around it."""


class Codex(Claude):
    """Codex's protocol."""

    name = "codex"
    own = ".codex"
    numbers_prompts = False
    points: ClassVar[dict[str, str]] = {
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt_submit",
        "PreToolUse": "before_tool_use",
        "PermissionRequest": "permission_request",
        "PostToolUse": "after_tool_use",
        "Stop": "stop",
        "SubagentStart": "subagent_start",
        "SubagentStop": "subagent_stop",
        "PreCompact": "before_compact",
        "PostCompact": "before_inference",
        "StopFailure": "agent_failed",
        "SessionEnd": "session_end",
        "notify": "stop",
    }
    known: ClassVar[frozenset[str]] = frozenset({"Interrupt"})
    observing = frozenset({"notify", "PostCompact"})

    def fires(self, event: str, ctx: Any) -> bool:
        """After a tool there is one event, however it went."""
        if event == "notify":  # the turn is over, and nobody objected
            return ctx.verdict is None or ctx.verdict.kind is Kind.PROCEED
        return True if event == "PostToolUse" else super().fires(event, ctx)

    def test(self, handler: Handler) -> Test:
        """Exact names of a narrower set, or a regular expression."""
        return matchers.codex(handler.matcher)

    def show(self, call: ToolCall, place: Place) -> Shown:
        """A call under Codex's names: files are changed by patches, and read by commands, which guards look at.

        Beside the patch is what Claude's tools would be given: people have one guard for both.
        """
        shown = super().show(call, place)
        if call.name in _PATCHING:
            given = {"command": patch_text(call), **shown.input}
            return Shown("apply_patch", given, ("Write", "Edit"))
        if call.name in _READING:
            words = [*_READING[call.name], *_named(shown.input)]
            return Shown("Bash", {"command": shlex.join(words)}, (shown.name,))
        return (
            shown._replace(name="spawn_agent", aliases=("Agent",))
            if shown.name == "Agent"
            else shown
        )

    def back(self, call: ToolCall, shown: Shown, answer: Answer) -> ToolCall:
        """The call with a hook's changes; a changed patch is none that we could take apart.

        A tool that reads runs no command: one that would have read in another way changes nothing.
        """
        if call.name in _READING:
            return call
        if shown.name != "apply_patch":
            return super().back(call, shown, answer)
        if {**shown.input, **(answer.updated_input or {})} == shown.input:
            return call
        raise UsageError(
            f"a changed call of '{call.name}' cannot be taken back.",
            remedy="Deny the call, and say why.",
        )

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """As Claude's, with the turn and the model; a program that is notified has a form of its own."""
        if handler.event == "notify":
            asked = [m.text for m in ctx.state.messages if isinstance(m, UserMessage) and not m.by]
            return {
                "type": "agent-turn-complete",
                "thread-id": place.session_uuid,
                "turn-id": ctx.state.run_id,
                "cwd": place.cwd,
                "input-messages": asked,
                "last-assistant-message": last_words(ctx.state),
            }
        sent = super().payload(handler, ctx, place)
        if "tool_response" in sent and ctx.tool_call.name in _TEXT:
            sent["tool_response"] = output_text(ctx.execution)
        elif "tool_response" in sent and ctx.tool_call.name.startswith("mcp__"):
            sent["tool_response"] = server_result(ctx.execution)
        return {**sent, "turn_id": f"{ctx.state.run_id}", "model": place.model}

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """For plugins, where they are. There is no variable for the project; ours does no harm."""
        names = ("CODEX_ENV_FILE", "CLAUDE_ENV_FILE") if handler.event == "SessionStart" else ()
        files = dict.fromkeys(names, place.env_file) if place.env_file else {}
        root, data = handler.source.root, handler.source.data
        named = {"CLAUDE_PROJECT_DIR": place.project, "CODEX_SESSION_ID": place.session_uuid}
        if not root:
            return {**named, **files}
        plugin = {"PLUGIN_ROOT": root, "PLUGIN_DATA": data}
        return {
            **named,
            **files,
            **plugin,
            **{f"CLAUDE_{name}": value for name, value in plugin.items()},
        }

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """Stricter than Claude: what is not exactly right counts as failed."""
        lost = unfinished(ran)
        if lost is not None:
            return lost
        text, event = ran.stdout.strip(), handler.event
        if event == "notify":
            return Answer() if ran.code == 0 else failed(failure_words(ran))
        if ran.code == 2:
            if event not in _BLOCKING:
                return failed(failure_words(ran))
            if ran.stderr.strip():
                return Answer(decision="deny", reason=ran.stderr.strip(), status="blocked")
            return failed("it ended with exit code 2 and said nothing on stderr")
        if ran.code != 0:
            return failed(failure_words(ran))
        if text[:1] not in ("{", "["):
            return Answer(contexts=(text,)) if text and event in _CONTEXT else Answer()
        found = json_object(text)
        if found is None:
            return failed("its output begins like JSON, and is not valid")
        problem = problem_in(found) or _unsupported(event, found)
        if problem:
            return failed(f"its output does not fit: {problem}")
        answer = self.fields(event, found)
        if event == "PostToolUse" and answer.stops:  # there it is the result that goes no further
            reason = answer.reason or answer.stop_reason or "a hook kept the result back"
            return msgspec.structs.replace(answer, stops=False, decision="deny", reason=reason)
        return answer


def _named(given: dict[str, Any]) -> list[str]:
    """What a tool that reads is given: what it looks for, and where."""
    return [str(given[key]) for key in ("pattern", "file_path", "path") if given.get(key)]


def _unsupported(event: str, found: dict[str, Any]) -> str:
    """What Codex does not take."""
    specific = found.get("hookSpecificOutput") or {}
    unknown = sorted((found.keys() - _KEYS) | (specific.keys() - _SPECIFIC))
    if unknown:
        return f"'{unknown[0]}' is not known"
    if event == "PermissionRequest":
        return _beyond_permission(specific.get("decision"))
    if event in ("Stop", "SubagentStop") and found.get("decision") == "block":
        return "" if text_of(found.get("reason")).strip() else "an objection needs a reason"
    if event != "PreToolUse":
        return ""
    decision, updated = specific.get("permissionDecision"), specific.get("updatedInput")
    if found.get("continue") is False:
        return "'continue' cannot be false here"
    if decision in ("ask", "defer") or found.get("decision") == "approve":
        return "only a denial is supported"
    if decision == "allow" and updated is None:
        return "'allow' needs 'updatedInput'"
    if updated is not None and decision != "allow":
        return "'updatedInput' needs 'allow'"
    reason = text_of(specific.get("permissionDecisionReason")) or text_of(found.get("reason"))
    if (decision == "deny" or found.get("decision") == "block") and not reason.strip():
        return "a denial needs a reason"
    return ""


def _beyond_permission(decision: Any) -> str:
    """What an answer about a permission says besides yes or no: Codex keeps these words for later, and takes none."""
    given = decision if isinstance(decision, dict) else {}
    reserved = ("updatedInput", "updatedPermissions")
    named = next((key for key in reserved if given.get(key) is not None), "")
    named = named or ("interrupt" if given.get("interrupt") is True else "")
    return f"'{named}' is not supported here" if named else ""
