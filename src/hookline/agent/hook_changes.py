"""What a hook changed, checked before anyone else sees it. What does not hold up is the hook's failure."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.agent.checks import check_request, check_response, check_result
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import original
from hookline.agent.result import RunResult
from hookline.errors import HookError
from hookline.hooks import Entry
from hookline.lifecycle import AgentContext, ToolHookContext
from hookline.state import (
    AgentState,
    ContinuationEvaluation,
    FrozenDict,
    Log,
    ToolCall,
    ToolResult,
    check_transcript,
    checked_text,
)
from hookline.tools import Toolbox

_LEFT_TO_HOOKS = frozenset({"messages", "metadata"})
"""What hooks may change of the state."""


def settled(entry: Entry, before: Any, after: Any) -> Any:
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
    if getattr(after, "prompt", None) is not getattr(before, "prompt", None):
        prompt = checked_text(after.prompt, "the prompt it made")
        if prompt is not after.prompt:
            after = msgspec.structs.replace(after, prompt=prompt)
    return after


def settled_call(
    entry: Entry, before: Any, after: Any, current: CallInProgress | None, toolbox: Toolbox
) -> Any:
    """A hook's context with the call it made of a call: the same one, with arguments that fit its tool."""
    call = refuse_other_call(entry, before, None if current is None else after.tool_call)
    assert current is not None
    call = original(call)  # from the record of a hook that gave its verdict before
    if call.redacted:
        return after  # nobody knows its arguments any more: it does not run
    tool = toolbox.get(call.name)
    if tool is None:
        raise toolbox.unknown(call.name)
    validated = tool.validate_call(call)
    if not entry.shadow:  # what a hook in shadow makes of a call is recorded, never run
        current.tool = tool
        current.values = validated.values
    settled = ToolCall(call.id, call.name, validated.args)
    return msgspec.structs.replace(after, tool_call=settled)


def refuse_other_call(entry: Entry, before: ToolHookContext, call: object) -> ToolCall:
    """The call a hook made of a call; refuses what is not the same call, changed."""
    if type(call) is not ToolCall or call.id != before.tool_call.id:
        raise HookError(
            entry.name, before.point, "it replaced the call by something that is not the same call, changed.",
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
        after = msgspec.structs.replace(after, state=after.state.checked())
    kept = _kept(entry, before, after.state)
    if kept is not after.state:
        after = msgspec.structs.replace(after, state=kept)
    old, new = before.state.messages, after.state.messages
    if new is old:
        return after
    if type(new) is not Log:
        raise HookError(
            entry.name, before.point, "it replaced the messages by something that is not a Log.",
            remedy="Use state.with_messages(Log(messages)).",
        )  # fmt: skip
    added = new.since(old)
    check_transcript(new if added is None else added)
    if getattr(after, "request", None) is not None and after.request.messages is old:
        # A hook before the inference that changes the conversation means the model to see it.
        return msgspec.structs.replace(after, request=after.request.with_messages(new))
    return after


def _kept(entry: Entry, ctx: AgentContext, new: AgentState) -> AgentState:
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
        _checked_evaluation(entry, before, evaluation) for evaluation in after.evaluations[count:]
    )
    return msgspec.structs.replace(after, evaluations=(*before.evaluations, *signed))


def _checked_evaluation(entry: Entry, before: AgentContext, said: Any) -> ContinuationEvaluation:
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
