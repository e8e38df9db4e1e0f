"""Claude Code's hooks: what they are sent, and what exit codes and JSON on their output mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import (
    UNCHANGED,
    Answer,
    failed,
    is_broken_object,
    json_object,
    text_of,
)
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    Dialect,
    Place,
    agent_fields,
    agent_id,
    as_uuid,
    failure_words,
    has_failed,
    is_interrupted,
    last_words,
    prompt_id,
    server_of,
    session_source,
    session_title,
    unfinished,
)
from hookline.command_hooks.dialects.claude_answers import (
    DECISIONS,
    new_output,
    problem_in,
    words,
)
from hookline.command_hooks.dialects.endings import end_reason
from hookline.command_hooks.dialects.responses import ERROR_NAMES, error_of, response_of
from hookline.command_hooks.dialects.told import told
from hookline.command_hooks.granting import granted, interrupts, suggestions
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import CLAUDE, Bridge
from hookline.hooks import Kind
from hookline.state import UserMessage

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
DISPLAY = "MessageDisplay"
_TITLING = ("SessionStart", "UserPromptSubmit")
_ENV_EVENTS = ("SessionStart", "Setup", "CwdChanged", "FileChanged")


class Claude(Dialect):
    """Claude Code's protocol, as its settings files name hooks."""

    name = "claude"
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
    known = frozenset(
        "Setup InstructionsLoaded UserPromptExpansion PermissionDenied TaskCreated "  # noqa: SIM905 - a table of names
        "TaskCompleted TeammateIdle PreModelSwitch PostModelSwitch "
        "ConfigChange CwdChanged FileChanged DirectoryAdded WorktreeCreate WorktreeRemove Elicitation "
        "ElicitationResult".split()
    )
    also: ClassVar[dict[str, str]] = {"SessionStart": "before_inference"}
    after_compacting = frozenset({"SessionStart", "PostCompact"})
    observing = frozenset({"Notification", "MessageDisplay", "PostCompact"})
    own = ".claude"
    shell = "bash"
    bridge = Bridge(CLAUDE, milliseconds=True)
    told = staticmethod(told)
    numbers_prompts: ClassVar[bool] = True
    """Hooks are told which prompt all this is about."""

    # --- when ---------------------------------------------------------------------------------------

    def points_of(self, handler: Handler) -> Iterator[str]:
        """The points where a handler is asked; a session goes on after a summary, for those who want to know."""
        for point in super().points_of(handler):
            is_again = handler.event == "SessionStart" and point == "before_inference"
            if not is_again or self.test(handler)(("compact",)):
                yield point

    def fires(self, event: str, ctx: Any) -> bool:
        """Success and failure of a tool are two events; a batch has calls; people are told what nobody answered."""
        if event in _FEEDBACK:
            return has_failed(ctx.execution) is (event == "PostToolUseFailure")
        if event == "PostToolBatch":
            return ctx.step is not None and bool(ctx.step.calls)
        if event == "Notification":
            return ctx.verdict is None or ctx.verdict.kind is Kind.PROCEED
        if event == DISPLAY:
            return ctx.response is not None and bool(ctx.response.text)
        return True

    def test(self, handler: Handler) -> Test:
        """Exact names, or a regular expression."""
        return matchers.claude(
            handler.matcher, narrow=handler.event in ("StopFailure", "FileChanged")
        )

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:
        """The tool, or what began, ended or failed."""
        if event in TOOL_EVENTS:
            shown = self.show(ctx.tool_call, place)
            return (shown.name, *shown.aliases)
        if event in _UNMATCHED:
            return None
        payload = self._particulars(event, ctx, place)
        for key in ("source", "trigger", "reason", "notification_type", "agent_type", "error"):
            if key in payload:
                return (str(payload[key]),)
        return None

    # --- what a hook is sent ------------------------------------------------------------------------

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """The event, and what is common to all of them."""
        event = handler.event
        return {
            "session_id": place.session_uuid,
            "native_session_id": place.session_id,
            "transcript_path": place.transcript,
            "cwd": place.cwd,
            "permission_mode": place.permission_mode,
            "hook_event_name": event,
            **(prompt_id(event, ctx) if self.numbers_prompts else {}),
            **agent_fields(ctx, agent_id),
            **self._particulars(event, ctx, place),
        }

    def _particulars(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        if event in TOOL_EVENTS:
            return self._tool(event, ctx, place)
        made = getattr(self, f"_{event.lower()}", None)
        return {} if made is None else made(ctx, place)

    def _tool(self, event: str, ctx: Any, place: Place) -> dict[str, Any]:
        call = ctx.tool_call
        shown = self.show(call, place)
        sent: dict[str, Any] = {
            "tool_name": shown.name,
            "tool_input": shown.input,
            "native_tool_name": call.name,
        }
        server = server_of(call.name)
        if server:
            sent["mcp_server"] = {"name": server}
        if event == "PermissionRequest":
            sent["permission_suggestions"] = suggestions(call, shown.name, place.cwd)
        else:
            sent["tool_use_id"] = call.id
        if event == "PostToolUse":
            sent["tool_response"] = response_of(
                call, ctx.execution, self.bridge.path(call, place.cwd)
            )
        if event == "PostToolUseFailure":
            sent["error"] = error_of(ctx.execution)
            sent["is_interrupt"] = is_interrupted(ctx.execution)
        if event in _FEEDBACK:
            sent["duration_ms"] = round(ctx.execution.duration * 1000)
        return sent

    def _sessionstart(self, ctx: Any, place: Place) -> dict[str, Any]:
        sent = {"model": place.model, "session_title": session_title(ctx.state)}
        return {"source": session_source(ctx), **{key: said for key, said in sent.items() if said}}

    def _userpromptsubmit(self, ctx: Any, _place: Place) -> dict[str, Any]:
        return {"prompt": ctx.prompt, "user_prompt": ctx.prompt}

    def _notification(self, ctx: Any, place: Place) -> dict[str, Any]:
        name = self.show(ctx.tool_call, place).name
        return {
            "message": f"Claude needs your permission to use {name}",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        }

    def _messagedisplay(self, ctx: Any, _place: Place) -> dict[str, Any]:
        return {
            "turn_id": as_uuid(ctx.state.run_id),
            "message_id": as_uuid(f"{ctx.state.run_id}-{ctx.step_index}"),
            "index": 0,
            "final": True,
            "delta": ctx.response.text,
        }

    def _posttoolbatch(self, ctx: Any, place: Place) -> dict[str, Any]:
        calls = []
        for call, result in zip(ctx.step.calls, ctx.step.results, strict=True):
            shown = self.show(call, place)
            calls.append(
                {
                    "tool_name": shown.name,
                    "tool_input": shown.input,
                    "tool_use_id": call.id,
                    "tool_response": result.text(),
                }
            )
        return {"tool_calls": calls}

    def _stop(self, ctx: Any, place: Place) -> dict[str, Any]:
        return {
            "stop_hook_active": place.objections > 0,
            "last_assistant_message": last_words(ctx.state),
            "background_tasks": [],
            "session_crons": [],
        }

    def _subagentstart(self, ctx: Any, _place: Place) -> dict[str, Any]:
        return {"agent_id": agent_id(ctx.child_run_id), "agent_type": ctx.name}

    def _subagentstop(self, ctx: Any, place: Place) -> dict[str, Any]:
        return {
            "stop_hook_active": place.objections > 0,
            "agent_id": agent_id(ctx.child_run_id),
            "agent_type": ctx.name,
            "agent_transcript_path": place.child_transcript,
            "last_assistant_message": getattr(ctx.result, "text", "") or "",
            "background_tasks": [],
            "session_crons": [],
        }

    def _precompact(self, ctx: Any, _place: Place) -> dict[str, Any]:
        return {"trigger": "auto", "custom_instructions": ctx.instructions}

    def _postcompact(self, ctx: Any, _place: Place) -> dict[str, Any]:
        said = (m for m in ctx.state.messages if isinstance(m, UserMessage) and m.by)
        return {"trigger": "auto", "compact_summary": next((m.text for m in said), "")}

    def _stopfailure(self, ctx: Any, _place: Place) -> dict[str, Any]:
        return {
            "error": ERROR_NAMES.get(ctx.error_class, "unknown"),
            "error_details": ctx.error_message,
            "last_assistant_message": f"API Error: {ctx.error_message}",
        }

    def _sessionend(self, ctx: Any, _place: Place) -> dict[str, Any]:
        return {"reason": end_reason(ctx)}

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """Where the project is, who is running, and for plugins where they are."""
        source = handler.source
        named = {
            "CLAUDE_PROJECT_DIR": place.project,
            "CLAUDE_CODE_SESSION_ID": place.session_uuid,
            "CLAUDE_SESSION_ID": place.session_uuid,
            "CLAUDE_PID": str(os.getpid()),
            "CLAUDECODE": "1",
            "CLAUDE_CODE_CHILD_SESSION": "1",
            "CLAUDE_CODE_ENTRYPOINT": "hookline",
        }
        if source.root:
            named |= {"CLAUDE_PLUGIN_ROOT": source.root, "CLAUDE_PLUGIN_DATA": source.data}
        if handler.event in _ENV_EVENTS and place.env_file:
            named["CLAUDE_ENV_FILE"] = place.env_file
        return named

    # --- what it answers ----------------------------------------------------------------------------

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """The table of exit codes and output."""
        lost = unfinished(ran)
        if lost is not None:
            return lost
        event, found = handler.event, json_object(ran.stdout)
        problem = "" if found is None else problem_in(found)
        if problem and ran.code != 2:
            return failed(f"its output does not fit: {problem}")
        if ran.code == 2:
            return self._blocked(event, ran, {} if found is None or problem else found)
        if found is not None:
            return self.fields(event, found)
        if is_broken_object(ran.stdout):
            return failed("its output begins and ends like a JSON object, and is none")
        if ran.code != 0:
            return failed(failure_words(ran))
        if event in _TEXT_IS_CONTEXT and ran.stdout.strip():
            return Answer(contexts=(ran.stdout.strip(),))
        return Answer()

    def _blocked(self, event: str, ran: Ran, found: dict[str, Any]) -> Answer:
        """Exit code 2: no JSON can take that back, and the rest of it is read."""
        said = self.fields(event, found)
        reason = said.reason if said.decision == "deny" and said.reason else ran.stderr.strip()
        reason = reason or "no reason was given"
        kept = {
            name: getattr(said, name)
            for name in ("contexts", "messages", "stops", "stop_reason", "terminal", "title")
        }
        if event in _BLOCKING:
            return Answer(decision="deny", reason=reason, status="blocked", **kept)
        if event in _FEEDBACK:
            return Answer(
                decision="deny",
                reason=reason,
                status="blocked",
                updated_output=said.updated_output,
                **kept,
            )
        kept["messages"] = (*kept["messages"], reason)
        return Answer(**kept)

    def fields(self, event: str, found: dict[str, Any]) -> Answer:
        """What the fields of an answer say at an event."""
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
        return Answer(
            decision=decision,
            reason=reason,
            updated_input=updated if event in _REWRITING and isinstance(updated, dict) else None,
            updated_output=new_output(specific) if event in _FEEDBACK else UNCHANGED,
            contexts=(context,) if isinstance(context, str) and context.strip() else (),
            messages=words(found.get("systemMessage")),
            stops=found.get("continue") is False or interrupts(event, specific),
            stop_reason=text_of(found.get("stopReason")),
            prompt=text_of(specific.get("initialUserMessage")) if event == "SessionStart" else "",
            extra=granted(specific) if event == "PermissionRequest" else None,
            terminal=text_of(found.get("terminalSequence")),
            display=text_of(specific.get("displayContent")) if event == DISPLAY else "",
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
        word = DECISIONS.get(text_of(found.get("decision")), "")
        if word == "allow" and event != "PreToolUse":
            word = ""
        return word, text_of(found.get("reason"))
