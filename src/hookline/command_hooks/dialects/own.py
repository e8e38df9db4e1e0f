"""Hookline's own protocol: our points, our tool names, JSON in, and an exit code or JSON out."""

from __future__ import annotations

from typing import Any, ClassVar

from hookline.command_hooks import matchers
from hookline.command_hooks.answers import (
    UNCHANGED,
    Answer,
    failed,
    json_object,
    refuse_wrong_types,
    text_of,
)
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects.base import (
    Dialect,
    Place,
    agent_fields,
    failure_words,
    last_words,
    unfinished,
)
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import CLAUDE, Bridge, Shown
from hookline.lifecycle import HookPoint
from hookline.state import RunStatus, ToolCall, thaw

_DECISIONS: dict[str, Any] = {
    "": "", "proceed": "", "allow": "allow", "approve": "allow", "ask": "ask", "block": "deny", "deny": "deny",
}  # fmt: skip
_STRICTNESS = ("", "allow", "ask", "deny")
_TEXT: tuple[type, ...] = (str,)
_FIELDS: dict[str, tuple[type, ...]] = {
    "decision": _TEXT, "reason": _TEXT, "context": _TEXT, "message": _TEXT, "systemMessage": _TEXT, "prompt": _TEXT,
    "stopReason": _TEXT, "updated_input": (dict,), "continue": (bool,), "hookSpecificOutput": (dict,),
}  # fmt: skip
_SPECIFIC: dict[str, tuple[type, ...]] = {
    "permissionDecision": _TEXT, "permissionDecisionReason": _TEXT, "additionalContext": _TEXT, "updatedInput": (dict,),
}  # fmt: skip
_SAYING = {*_FIELDS, "result"} - {"reason", "stopReason"}
"""The fields that say something by themselves."""


class Own(Dialect):
    """Hookline's own rules. A hook that fails keeps things from happening, unless it says `on_failure = "open"`."""

    name = "hookline"
    points: ClassVar[dict[str, str]] = {
        point.value: point.value for point in HookPoint if not point.around
    }
    observing = frozenset()
    is_told_of_interrupts = True
    bridge = Bridge({})

    def begins_again(self, event: str) -> bool:  # noqa: ARG002 - as in the others
        """There is `execution_start` for that."""
        return False

    def fires(self, event: str, ctx: Any) -> bool:
        """A point with nothing to look at yet is passed over."""
        return event != "after_inference" or ctx.response is not None

    def test(self, handler: Handler) -> Test:
        """As Claude's; our names match, and the names that its scripts use."""
        return matchers.claude(handler.matcher)

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:  # noqa: ARG002 - as above
        """The tool, the child, or how the session began."""
        call = getattr(ctx, "tool_call", None)
        if call is not None:
            form = CLAUDE.get(call.name)
            return (call.name,) if form is None else (call.name, form.name, *form.aliases)
        if event in ("subagent_start", "subagent_stop"):
            return (ctx.name,)
        return (ctx.source,) if event == "session_start" else None

    def show(self, call: ToolCall, place: Place) -> Shown:  # noqa: ARG002 - paths stay as the model wrote them
        """A call as it is."""
        return Shown(call.name, thaw(call.args))

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """The point, the run, and what the point is about."""
        return {
            "point": handler.event,
            "hook_event_name": handler.event,
            "run_id": ctx.state.run_id,
            "session_id": place.session_id,
            "transcript_path": place.transcript,
            "project": place.project,
            "cwd": place.cwd,
            **agent_fields(ctx),
            **self._particulars(handler.event, ctx),
        }

    def _particulars(self, event: str, ctx: Any) -> dict[str, Any]:
        sent: dict[str, Any] = {}
        call = getattr(ctx, "tool_call", None)
        if call is not None:
            sent |= {"tool_name": call.name, "tool_input": thaw(call.args), "tool_use_id": call.id}
        if event == "permission_request":
            sent |= {"reason": ctx.reason, "asked_by": ctx.asked_by}
        execution = getattr(ctx, "execution", None)
        if execution is not None:
            sent |= {
                "status": execution.status.value,
                "result": thaw(execution.result),
                "text": execution.text(),
            }
        for key in (
            "prompt",
            "output",
            "instructions",
            "source",
            "step_index",
            "name",
            "child_run_id",
        ):
            value = getattr(ctx, key, None)
            if isinstance(value, str | int):
                sent[key] = value
        response = getattr(ctx, "response", None)
        if event == "after_inference" and response is not None:
            sent["response"] = response.text
        if event in ("stop", "should_continue"):
            sent |= {
                "objections": ctx.state.counters.objections,
                "last_message": last_words(ctx.state),
            }
        if event == "subagent_stop":
            sent["result"] = getattr(ctx.result, "text", None)
        if event in ("error", "agent_failed"):
            sent |= {"error": ctx.error_message, "error_class": str(ctx.error_class)}
        status = getattr(ctx, "status", None)
        return {**sent, "status": status.value} if isinstance(status, RunStatus) else sent

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """Where the project is, and at which point the hook is asked."""
        return {
            "HOOKLINE_PROJECT_DIR": place.project,
            "HOOKLINE_POINT": handler.event,
            "HOOKLINE_SESSION_ID": place.session_id,
            "CLAUDE_PROJECT_DIR": place.project,
        }

    def understand(self, handler: Handler, ran: Ran) -> Answer:  # noqa: ARG002 - the same at every point
        """0 proceeds, and JSON may decide; 2 blocks, with what it says as the reason; anything else has failed."""
        lost = unfinished(ran)
        if lost is not None:
            return lost
        if ran.code == 2:
            found = json_object(ran.stdout) or {}
            reason = text_of(found.get("reason")) or ran.stderr.strip() or ran.stdout.strip()
            return Answer(decision="deny", reason=reason or "no reason was given", status="blocked")
        if ran.code != 0:
            return failed(failure_words(ran))
        found_or_none = json_object(ran.stdout)
        if found_or_none is None:
            if ran.stdout.lstrip()[:1] == "{":
                return failed("its output begins like JSON, and is not valid")
            if any(_SAYING & (json_object(line) or {}).keys() for line in ran.stdout.splitlines()):
                return failed("its JSON stands among other text: only an object alone is read")
            return Answer()
        return _fields(found_or_none)


def _fields(found: dict[str, Any]) -> Answer:
    wrong = _wrong(found)
    if wrong:
        return failed(wrong)
    specific = found.get("hookSpecificOutput") or {}
    words = [text_of(found.get("decision")), text_of(specific.get("permissionDecision"))]
    context = text_of(found.get("context")) or text_of(specific.get("additionalContext"))
    message = text_of(found.get("message")) or text_of(found.get("systemMessage"))
    reason = text_of(found.get("reason")) or text_of(specific.get("permissionDecisionReason"))
    return Answer(
        decision=max((_DECISIONS.get(word, "") for word in words), key=_STRICTNESS.index),
        reason=reason,
        updated_input=found.get("updated_input", specific.get("updatedInput")),
        updated_output=found.get("result", specific.get("updatedToolOutput", UNCHANGED)),
        contexts=(context,) if context else (),
        messages=(message,) if message else (),
        stops="stop" in words or found.get("continue") is False,
        stop_reason=text_of(found.get("stopReason")) or reason,
        prompt=text_of(found.get("prompt")),
    )


def _wrong(found: dict[str, Any]) -> str:
    """Why an answer cannot be understood; empty if it can. One that might be a refusal is never passed over."""
    specific = found.get("hookSpecificOutput")
    wrong = refuse_wrong_types(found, _FIELDS)
    if not wrong and isinstance(specific, dict):
        wrong = refuse_wrong_types(specific, _SPECIFIC)
    if wrong:
        return wrong
    for word in (found.get("decision"), (specific or {}).get("permissionDecision")):
        if word is not None and word not in _DECISIONS and word != "stop":
            return f"'decision' is {word!r}, which is none of proceed, allow, ask, block and stop"
    unknown = [name for name in found if name not in _FIELDS and name != "result"]
    if unknown and not _SAYING & found.keys():
        return f"its JSON says nothing that is known: {unknown[0]!r} is not a field, 'decision' is"
    return ""
