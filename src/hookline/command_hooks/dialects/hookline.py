"""Hookline's own protocol for command hooks: our points, our tool names, JSON in, and an exit code or JSON out.

- In: one line of JSON. It has `point`, `run_id`, `session_id`, `transcript_path`, `project` and `cwd` at every point
  (`common_fields`), and what the context of the point has (`_point_fields`): `tool_name`, `tool_input` and
  `tool_use_id` of a call, `status`, `result` and `text` of its result, `prompt`, `output`, `error` and so on.
- Exit code: 0 continues, unless a JSON object on stdout decides otherwise. 2 blocks, with stderr as the reason. With
  any other code the hook has failed.
- Out, with exit code 0: `decision` (proceed, allow, ask, block or stop), `reason`, `context` for the model, `message`
  for the user, `updated_input`, `result` and `prompt` instead of those there are. `continue: false` stops the run, with
  `stopReason`. `hookSpecificOutput` may have Claude's fields. A wrong type or an unknown decision is a failure.

`read_hook` reads the definition of such a hook from a program or a TOML table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from hookline.command_hooks.dialect import (
    Dialect,
    Event,
    EventFacts,
    all_dialects,
    dialect_of,
)
from hookline.command_hooks.dialects.claude.protocol import ClaudeTranscripts
from hookline.command_hooks.dialects.claude.tools import TOOLS as CLAUDE_TOOLS
from hookline.command_hooks.handler import (
    UNCHANGED,
    Handler,
    HookSource,
    JsonObject,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    denied,
    failed,
    json_object,
)
from hookline.command_hooks.tools import NAMES, NameTest, ShownCall, names_or_expression
from hookline.errors import RegistrationError, UsageError
from hookline.lifecycle import (
    AgentContext,
    FailureHookContext,
    HookPoint,
    SessionHookContext,
    SubagentHookContext,
    ToolHookContext,
    point_named,
)
from hookline.lifecycle.contexts import expect_context
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
"""The fields that mean something by themselves."""
_WITH_NAMES = ("session_start", "subagent_start", "subagent_stop")
"""Points without a tool call at which there is a name to match: how the session began, or the child."""
_PLAIN_FIELDS = ("prompt", "output", "instructions", "source", "step_index", "name", "child_run_id")
_Word = Annotated[str, msgspec.Meta(min_length=1)]
_OTHER_NAMES = {"point": "on", "event": "on", "match": "matcher", "type": ""}


def _has_happened(e: EventFacts) -> bool:
    return not (e.ctx.point == HookPoint.AFTER_INFERENCE and e.inference.response is None)


def _point_fields(e: EventFacts) -> dict[str, Any]:
    """The fields of a point: what its context has."""
    ctx, point, sent = e.ctx, e.ctx.point.value, dict[str, Any]()
    call, execution = getattr(ctx, "tool_call", None), getattr(ctx, "execution", None)
    if call is not None:
        sent |= {"tool_name": call.name, "tool_input": thaw(call.args), "tool_use_id": call.id}
    if isinstance(ctx, ToolHookContext) and point == "permission_request":
        sent |= {"reason": ctx.reason, "asked_by": ctx.asked_by}
    if execution is not None:
        sent |= {
            "status": execution.status.value,
            "result": thaw(execution.result),
            "text": execution.text,
        }
    for key in _PLAIN_FIELDS:
        value = getattr(ctx, key, None)
        if isinstance(value, str | int):
            sent[key] = value
    if point == "after_inference":
        sent["response"] = e.response.text
    if point in ("stop", "should_continue"):
        sent |= {"objections": ctx.state.counters.objections, "last_message": e.last_words}
    if isinstance(ctx, SubagentHookContext) and point == "subagent_stop":
        sent["result"] = getattr(ctx.result, "text", None)
    if isinstance(ctx, FailureHookContext):
        sent |= {"error": ctx.error_message, "error_class": str(ctx.error_class)}
    status = getattr(ctx, "status", None)
    return {**sent, "status": status.value} if isinstance(status, RunStatus) else sent


class Hookline(Dialect):
    """Hookline's own protocol. A hook that fails blocks, unless it has `on_failure = "open"`."""

    name = "hookline"
    transcripts = ClaudeTranscripts
    objections_in_a_row = None  # the agent has a cap for its own hooks
    events: ClassVar[dict[str, Event]] = {
        # There is no event after a model that gave no response.
        point.value: Event(point.value, _point_fields, when=_has_happened)
        for point in HookPoint
        if not point.around
    }
    configuration_folders = (".hookline",)
    project_variables = frozenset({"HOOKLINE_PROJECT_DIR", "CLAUDE_PROJECT_DIR"})
    reserved_prefixes = ("HOOKLINE_",)
    starts_again = False  # there is `execution_start`
    is_asked_when_cancelled = True
    repeats_questions = True
    withholds_results = True
    is_strict = True
    caps_objections = False
    fails_closed = True

    def matcher(self, handler: Handler) -> NameTest:
        return names_or_expression(handler.matcher)

    def subject(self, event: str, ctx: AgentContext, facts: RunFacts) -> tuple[str, ...] | None:  # noqa: ARG002 - as above
        """The tool under our name and Claude's, the child, or how the session began."""
        call = getattr(ctx, "tool_call", None)
        if call is not None:
            return (call.name, *_names_elsewhere(call.name))
        if isinstance(ctx, SubagentHookContext):
            return (ctx.name,)
        is_start = event == "session_start"
        return (expect_context(ctx, SessionHookContext).source,) if is_start else None

    def show(self, call: ToolCall, facts: RunFacts) -> ShownCall:  # noqa: ARG002 - paths stay as the model wrote them
        return ShownCall(call.name, thaw(call.args))

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        """The point and the run."""
        return {
            "point": event,
            "hook_event_name": event,
            "run_id": found.ctx.state.run_id,
            "session_id": found.run.session_id,
            "transcript_path": found.run.transcript,
            "project": found.run.project,
            "cwd": found.run.cwd,
            **found.agent_fields(),
        }

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        found = super().variables(handler, facts)
        return {
            **found,
            "HOOKLINE_POINT": handler.event,
            "HOOKLINE_SESSION_ID": facts.session_id,
        }

    def tools_named(self, handler: Handler) -> Iterator[str]:
        """The tools in a rule and in a matcher of names, without those that are Claude's names."""
        if not issubclass(point_named(handler.event).context, ToolHookContext):
            return
        if handler.rule:
            yield handler.rule
        if NAMES.fullmatch(handler.matcher):
            names = (part.strip() for part in re.split(r"[|,]", handler.matcher))
            yield from (name for name in names if name and not tools_called(name))

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:  # noqa: ARG002 - the same at every point
        """0 proceeds, and JSON may decide; 2 blocks, with stderr as the reason; anything else is a failure."""
        if result.code == 2:
            found = result.answer or JsonObject()
            reason = found.text("reason") or result.stderr.strip() or result.stdout.strip()
            return denied(reason or "no reason was given")
        if result.code != 0:
            return failed(result.failure)
        if result.answer is not None:
            return _fields(result.answer)
        lines = (json_object(line) or JsonObject() for line in result.stdout.splitlines())
        if any(_SAYING & line.keys() for line in lines):
            return failed("its JSON is mixed with other text: only a JSON object alone is read")
        return ProgramAnswer()


def _names_elsewhere(tool: str) -> tuple[str, ...]:
    """More names of a tool in matchers: those of Claude Code."""
    form = CLAUDE_TOOLS.get(tool)
    return () if form is None else (form.name, *form.aliases)


def tools_called(name: str) -> list[str]:
    """Our tools that a matcher may also call so."""
    return [tool for tool in CLAUDE_TOOLS if name in _names_elsewhere(tool)]


def _fields(found: JsonObject) -> ProgramAnswer:
    wrong = _wrong(found)
    if wrong:
        return failed(wrong)
    specific = found.object("hookSpecificOutput")
    words = [found.text("decision"), specific.text("permissionDecision")]
    context = found.text("context") or specific.text("additionalContext")
    message = found.text("message", "systemMessage")
    reason = found.text("reason") or specific.text("permissionDecisionReason")
    return ProgramAnswer(
        decision=max((_DECISIONS.get(word, "") for word in words), key=_STRICTNESS.index),
        reason=reason,
        updated_input=found.get("updated_input", specific.get("updatedInput")),
        updated_output=found.get("result", specific.get("updatedToolOutput", UNCHANGED)),
        contexts=(context,) if context else (),
        messages=(message,) if message else (),
        stops="stop" in words or found.get("continue") is False,
        stop_reason=found.text("stopReason") or reason,
        prompt=found.text("prompt"),
    )


def _wrong(found: JsonObject) -> str:
    """What is wrong with an answer; empty if nothing is. One that might be a refusal is never ignored."""
    specific = found.object("hookSpecificOutput")
    wrong = found.wrong_type(_FIELDS) or specific.wrong_type(_SPECIFIC)
    if wrong:
        return wrong
    for word in (found.get("decision"), specific.get("permissionDecision")):
        if word is not None and word not in _DECISIONS and word != "stop":
            return (
                f"'decision' is {word!r}, which is not one of proceed, allow, ask, block and stop"
            )
    unknown = [name for name in found if name not in _FIELDS and name != "result"]
    if unknown and not _SAYING & found.keys():
        return f"its JSON has no known field: {unknown[0]!r} is not a field, 'decision' is"
    return ""


# --- the form in a program or a TOML table ---------------------------------------------------------------


class _HookTable(msgspec.Struct, frozen=True, rename={"rule": "if", "is_async": "async"}):
    """The keys of a hook, with their types."""

    on: str = ""
    command: str = ""
    argv: Annotated[tuple[_Word, ...], msgspec.Meta(min_length=1)] | None = None
    url: str = ""
    headers: dict[str, str] = {}
    allowed_env: tuple[str, ...] = ()
    matcher: str = ""
    rule: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 60.0
    on_failure: Literal["open", "closed"] | None = None
    dialect: str = "hookline"
    name: str = ""
    env: dict[str, str] = {}
    cwd: str = ""
    files: tuple[_Word, ...] = ()
    is_async: bool = False


_KEYS = _HookTable.__struct_encode_fields__
_SAME_IN_HANDLER = (
    "command", "argv", "url", "headers", "allowed_env", "matcher", "rule", "timeout", "is_async", "env", "cwd",
    "files",
)  # fmt: skip
_REMEDIES = {
    "argv": "Give the program and its arguments in a list.",
    "allowed_env": "Give names of variables in a list.",
    "headers": "Give texts by their names.",
    "env": "Give texts by their names.",
    "files": "Give names of files and directories in a list.",
    "timeout": "Give seconds above zero.",
    "on_failure": "Use 'closed' or 'open'.",
    "async": "Use true or false.",
}


def read_hook(
    given: Mapping[str, Any], *, level: Level = Level.CODE, path: str = "", label: str = "hookline"
) -> Handler:
    """The hook that a mapping describes: `{"on": "before_tool_use", "command": "./check.sh", "matcher": "bash"}`."""
    if not isinstance(given, Mapping):
        raise RegistrationError(
            f"{label}: {given!r} is not a hook.", remedy="Write `on = ...` and `command = ...`."
        )
    where = f"{label}: the hook {dict(given)!r}"
    table = _table(given, where)
    dialect = all_dialects().get(table.dialect)
    if dialect is None:
        raise RegistrationError(
            f"{where}: the dialect {table.dialect!r} is not known.",
            remedy=f"Dialects: {', '.join(all_dialects())}.",
        )
    handler = Handler(
        source=HookSource(table.dialect, level, path, label),
        event=_event(table.on, dialect, where),
        kind="http" if "url" in given else "command",
        on_failure=table.on_failure or ("closed" if dialect.fails_closed else "open"),
        on_unreadable=table.on_failure or "closed",
        label=table.name,
        definition=dict(given),
        **{name: getattr(table, name) for name in _SAME_IN_HANDLER},
    )
    _check(handler, where)
    return handler


def _table(given: Mapping[str, Any], where: str) -> _HookTable:
    names = ((_OTHER_NAMES.get(key, key), value) for key, value in given.items())
    spec = {key: value for key, value in names if key}
    for key in spec:
        if key not in _KEYS:
            close = difflib.get_close_matches(str(key), _KEYS, n=1, cutoff=0.5)
            raise RegistrationError(
                f"{where} has an unknown key '{key}'.",
                remedy=f"Did you mean '{close[0]}'?" if close else f"Keys: {', '.join(_KEYS)}.",
            )
    try:
        return msgspec.convert(spec, _HookTable)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        key = re.split(r"\W", place)[0]
        remedy = _REMEDIES.get(key, "Give a text.")
        raise RegistrationError(f"{where}: '{key}' is wrong: {problem}.", remedy=remedy) from None


def _check(handler: Handler, where: str) -> None:
    ways = [bool(handler.command.strip()), handler.argv is not None, bool(handler.url)]
    if sum(ways) != 1:
        raise RegistrationError(f"{where} needs one of command, argv and url, and has {sum(ways)}.")
    dialect = dialect_of(handler)
    if (handler.matcher not in ("", "*") or handler.rule) and isinstance(dialect, Hookline):
        # Without a tool call or a name at the point, the hook would always run, or never.
        has_tool = issubclass(point_named(handler.event).context, ToolHookContext)
        if not has_tool and (handler.event not in _WITH_NAMES or handler.rule):
            raise RegistrationError(
                f"{where}: at {handler.event} there is no tool call.",
                remedy="Leave that out, and check the input in the command.",
            )
    try:
        dialect.matcher(handler)
        if handler.rule:
            from hookline.permissions import Rule

            Rule.parse(handler.rule)
    except UsageError as error:
        raise RegistrationError(f"{where}: {error.message}", remedy=error.remedy) from None


def _event(on: str, dialect: Dialect, where: str) -> str:
    if not on:
        raise RegistrationError(
            f"{where} does not say when it runs.", remedy="For example: on = 'before_tool_use'."
        )
    if on in dialect.events:
        return on
    point = point_named(on, where)
    found = next((name for name, at in dialect.events.items() if at.point == point.value), None)
    if found is None:
        raise RegistrationError(
            f"{where}: hooks of the dialect {dialect.name} are not asked at {point.value}.",
            remedy=f"They are at: {', '.join(dialect.events)}.",
        )
    return found
