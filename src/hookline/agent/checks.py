"""Checks what hooks, models and tools return, before others see it. A wrong value is a failure of who returned it."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

from hookline.agent.redaction import original
from hookline.agent.result import RunResult
from hookline.errors import HookError
from hookline.flow import ErrorAction, ErrorDecision
from hookline.hooks import Entry
from hookline.lifecycle import (
    AgentContext,
    FailureHookContext,
    HookPoint,
    ToolHookContext,
)
from hookline.state import (
    AgentState,
    ContinuationEvaluation,
    FrozenDict,
    InferenceRequest,
    InferenceResponse,
    Log,
    ToolCall,
    ToolResult,
    check_transcript,
    checked_text,
)
from hookline.state.frozen import plain_scalar
from hookline.tools import Toolbox

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
_ZERO = 0
"""Compared by identity: what is not this very zero (False, 0.0) is looked at more closely."""
_LEFT_TO_HOOKS = frozenset({"messages", "metadata"})
"""What hooks may change of the state."""


def check_request(entry: Entry, before: Any, request: object) -> None:
    """Refuse a request that is none, or whose conversation no model can be shown."""
    if not isinstance(request, InferenceRequest):
        raise HookError(entry.name, before.point, f"{request!r} is not an InferenceRequest.")
    if request.messages is not before.request.messages:
        check_transcript(request.messages)
    added = set(request.provider_tools) - set(before.request.provider_tools)
    if added:
        raise HookError(
            entry.name, before.point, f"it allowed the provider's tool '{min(added)}', and the agent does not.",
            remedy="Only the builder of the agent can allow it: with_provider_tools(...).",
        )  # fmt: skip
    tools = () if request.tools is before.request.tools else request.tools
    try:
        fields = msgspec.structs.replace(request, messages=(), tools=tools)
        msgspec.convert(msgspec.to_builtins(fields, enc_hook=repr), InferenceRequest)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise HookError(
            entry.name, before.point, f"it made a request with a wrong part: {error}.",
            remedy="Derive it with request.with_system(...), .with_options(...) and so on.",
        ) from error  # fmt: skip


def is_plain(response: Any) -> bool:
    """Whether nothing can be wrong with a response; says so at once for what models usually answer."""
    if type(response) is not InferenceResponse:
        return False
    try:
        usage, calls = response.usage, response.calls
        given, made, asked = usage.input_tokens, usage.output_tokens, usage.requests
        if not (type(given) is type(made) is type(asked) is int):
            return False
        if given | made | asked < 0 or usage.cost is not None:
            return False  # one comparison for three: a negative one makes it negative
        if not (
            usage.unpriced_requests is usage.cache_read_tokens is usage.cache_write_tokens is _ZERO
        ):
            return False
        if response.reasoning or response.provider_tool_uses:
            return False
        model, text, finish = response.model, response.text, response.finish
        if not (type(model) is type(text) is type(finish) is str):
            return False
        words = model + text + finish  # one look at all of them
        if calls:
            (call,) = calls
            id_, name, malformed = call.id, call.name, call.malformed
            if type(call) is not ToolCall or not id_:
                return False
            if not (type(id_) is type(name) is type(malformed) is str):
                return False
            words += id_ + name + malformed
        return words.isascii() and type(calls) is tuple
    except (AttributeError, TypeError, ValueError):
        return False


def check_response(response: object, who: str) -> InferenceResponse:
    """Refuse a response no conversation can hold, and say which part of it. Gives it in plain text."""
    if not isinstance(response, InferenceResponse):
        raise TypeError(f"{who} gave {response!r} instead of an InferenceResponse.")
    response = _read_back(response, InferenceResponse, "response", who)
    if problem := response.usage.problem():
        raise ValueError(f"{who} gave response.usage.{problem}.")
    ids = set()
    for position, call in enumerate(response.calls):
        where = f"response.calls[{position}]"
        if not call.id:
            raise ValueError(f"{who} gave a call without an id ({where}).")
        if call.id in ids:
            raise ValueError(f"{who} gave two calls with the same id ({where}.id).")
        ids.add(call.id)
    return response


def check_result(result: ToolResult, who: str) -> ToolResult:
    """Refuse a result that could not be read back from a journal. Gives it in plain text."""
    files = result.attachments  # they were checked when they were made, and may be large
    result = _read_back(msgspec.structs.replace(result, attachments=()), ToolResult, "result", who)
    if not math.isfinite(result.duration):
        raise TypeError(f"{who} gave result.duration={result.duration!r}, which is not a number.")
    return msgspec.structs.replace(result, attachments=files) if files else result


def _read_back(value: S, kind: type[S], where: str, who: str) -> S:
    """A value as a journal would give it back: every part is of its type, and in plain text. Refuses what is not so."""
    try:
        read = msgspec.convert(msgspec.to_builtins(value, enc_hook=plain_scalar), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{who} gave a wrong {where}: {str(error).replace('$', where)}.") from None
    _check_text(read, where, who)
    return read


def _check_text(value: object, where: str, who: str) -> None:
    """Refuse text that cannot be saved, and say where it is."""
    if isinstance(value, str) and not value.isascii():
        checked_text(value, f"{where} that {who} gave")
    elif isinstance(value, tuple):
        for position, part in enumerate(value):
            _check_text(part, f"{where}[{position}]", who)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _check_text(getattr(value, name), f"{where}.{name}", who)


# --- what a hook changed ------------------------------------------------------------------------------


def check_changes(entry: Entry, before: Any, after: Any) -> Any:
    """A hook's context with all that it changed in it checked, but for the call."""
    if after.evaluations is not before.evaluations:
        after = _with_source(entry, before, after)
    if after.state is not before.state:
        after = _with_state(entry, before, after)
    if getattr(after, "request", None) is not getattr(before, "request", None):
        check_request(entry, before, after.request)
    if getattr(after, "response", None) is not getattr(before, "response", None):
        response = check_response(after.response, f"hook '{entry.name}'")
        if response is not after.response:
            after = msgspec.structs.replace(after, response=response)
    after = _with_results(entry, before, after)
    if getattr(after, "decision", None) is not getattr(before, "decision", None):
        _check_decision(entry, after)
    if getattr(after, "prompt", None) is not getattr(before, "prompt", None):
        prompt = checked_text(after.prompt, "the prompt it made")
        if prompt is not after.prompt:
            after = msgspec.structs.replace(after, prompt=prompt)
    return after


def _check_decision(entry: Entry, ctx: FailureHookContext) -> None:
    """Refuse what is no decision about an error, or rescues what cannot be rescued."""
    decision: object = ctx.decision
    if type(decision) is not ErrorDecision or type(decision.action) is not ErrorAction:
        raise HookError(
            entry.name, ctx.point, f"{decision!r} is not a decision about an error.",
            remedy="Answer with ctx.retry(...), ctx.ignore() or ctx.rescue(...).",
        )  # fmt: skip
    has_value = (ctx.response if ctx.tool_call is None else ctx.execution) is not None
    if decision.action is ErrorAction.RESCUE and not (ctx.can_rescue and has_value):
        raise HookError(
            entry.name, ctx.point, "it rescues an error that cannot be rescued, or gives no value.",
            remedy="Answer with ctx.rescue(value) where ctx.can_rescue is true.",
        )  # fmt: skip


def check_changed_call(entry: Entry, before: Any, after: Any, toolbox: Toolbox) -> Any:
    """A hook's context with the call it made of a call: the same one, with arguments that fit its tool."""
    can_change = before.point is HookPoint.BEFORE_TOOL_USE
    call = refuse_other_call(entry, before, after.tool_call if can_change else None)
    call = original(call)  # from the record of a hook that gave its verdict before
    if call.redacted:
        return after  # nobody knows its arguments any more: it does not run
    tool = toolbox.get(call.name)
    if tool is None:
        raise toolbox.unknown_error(call.name)
    validated = tool.validate_call(call)
    settled = ToolCall(call.id, call.name, validated.args)
    return msgspec.structs.replace(after, tool_call=settled)


def refuse_other_call(entry: Entry, before: ToolHookContext, call: object) -> ToolCall:
    """The call a hook made of a call; refuses what is not the same call, changed."""
    if type(call) is not ToolCall or call.id != before.tool_call.id:
        raise HookError(
            entry.name, before.point, "it replaced the call with something that is not a changed copy of it.",
            remedy="Derive it: ctx.with_args(...) or call.with_args(...), and keep the id.",
        )  # fmt: skip
    return call


def _with_results(entry: Entry, before: Any, after: Any) -> Any:
    """The result of a tool or of the run, if the hook gave one."""
    for name, kind in (("execution", ToolResult), ("result", RunResult)):
        value = getattr(after, name, None)
        if value is getattr(before, name, None):
            continue
        if type(value) is not kind:
            raise HookError(
                entry.name, before.point, f"its {name} is {value!r}, which is not a {kind.__name__}.",
                remedy=f"Derive it from ctx.{name}, or use ctx.with_result(value) for a tool.",
            )  # fmt: skip
        if isinstance(value, ToolResult):
            checked = check_result(value, f"hook '{entry.name}'")
            after = msgspec.structs.replace(after, execution=checked)
        elif problem := value.problem():
            raise HookError(entry.name, before.point, f"it gave a result whose {problem}.")
    return after


def _with_state(entry: Entry, before: Any, after: Any) -> Any:
    """The state it made: a conversation that holds together, and the rest as the run keeps it."""
    if type(after.state) is not AgentState:
        raise HookError(entry.name, before.point, f"{after.state!r} is not an AgentState.")
    if type(after.state.metadata) is not FrozenDict:
        after = msgspec.structs.replace(after, state=after.state.freeze())
    kept = _check_kept(entry, before, after.state)
    if kept is not after.state:
        after = msgspec.structs.replace(after, state=kept)
    old, new = before.state.messages, after.state.messages
    if new is old:
        return after
    if type(new) is not Log:
        raise HookError(
            entry.name, before.point, "it replaced the messages by something that is not a Log.",
            remedy="Use state.with_messages(messages).",
        )  # fmt: skip
    added = new.since(old)
    check_transcript(new if added is None else added)
    if getattr(after, "request", None) is not None and after.request.messages is old:
        # A hook before the inference that changes the conversation means the model to see it.
        return msgspec.structs.replace(after, request=after.request.with_messages(new))
    return after


def _check_kept(entry: Entry, ctx: AgentContext, new: AgentState) -> AgentState:
    """A hook's state with all that the run itself keeps as it was; refuses one in which that is something else."""
    old: AgentState = ctx.state
    if (
        new.steps is old.steps
        and new.usage is old.usage
        and new.counters is old.counters
        and new.remembered is old.remembered
        and new.ending is old.ending
        and new.pending_step is old.pending_step
        and new.run_id is old.run_id
        and new.first_step == old.first_step
        and new.agent_id is old.agent_id
        and new.session_id is old.session_id
        and new.parent_agent_id is old.parent_agent_id
        and new.parent_run_id is old.parent_run_id
    ):
        return new  # the usual case, and this is asked whenever a hook notes something
    for name in AgentState.__struct_fields__:
        if name == "remembered" and new.remembered.items() <= old.remembered.items():
            continue  # it forgets answers: it can only be asked again
        if name not in _LEFT_TO_HOOKS and getattr(new, name) != getattr(old, name):
            raise HookError(
                entry.name, ctx.point, f"it changed state.{name}: state.{name} is kept by the run.",
                remedy="Change the messages or the metadata; count a model call with ctx.run.charge(usage).",
            )  # fmt: skip
    return msgspec.structs.replace(
        old, messages=new.messages, metadata=new.metadata, remembered=new.remembered
    )


def _with_source(entry: Entry, before: AgentContext, after: AgentContext) -> AgentContext:
    count = len(before.evaluations)
    if after.evaluations[:count] != before.evaluations:
        raise HookError(
            entry.name,
            before.point,
            "it removed evaluations of other hooks.",
            remedy="Append with ctx.forbid(...).",
        )
    signed = tuple(
        _check_evaluation(entry, before, evaluation) for evaluation in after.evaluations[count:]
    )
    return msgspec.structs.replace(after, evaluations=(*before.evaluations, *signed))


def _check_evaluation(entry: Entry, before: AgentContext, said: Any) -> ContinuationEvaluation:
    """An evaluation of a hook, in plain text and with its source; refuses one that says nothing."""
    if problem := said.problem():
        raise HookError(
            entry.name, before.point, f"something is wrong with its evaluation: {problem}.",
            remedy="Use ctx.forbid(...), ctx.request_continue(...) and so on.",
        )  # fmt: skip
    source = checked_text(said.source, "the source of an evaluation") or entry.name
    reason = checked_text(said.reason, "the reason of an evaluation")
    if source is said.source and reason is said.reason:
        return said  # type: ignore[no-any-return]
    return ContinuationEvaluation(
        source=source, decision=said.decision, reason=reason, stop_reason=said.stop_reason
    )


def check_kind(entry: Entry, point: str, given: object, kind: type[T]) -> T:
    """What a hook around an action gives, if it is of this kind."""
    if not isinstance(given, kind):
        raise HookError(
            entry.name,
            point,
            f"it returned {given!r} ({type(given).__name__}).",
            remedy=f"Return what `await call_next(ctx)` gives, or a {kind.__name__}.",
        )
    return given
