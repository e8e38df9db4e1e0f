"""May this call run? Look it up, validate it, ask the hooks, and, when one of them asks, ask a person.

The answer is an `Admission`. Of a call in progress only what will run is written here: tool, arguments and values.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from hookline.agent.approvals import (
    Ask,
    allow_edited,
    ask_person,
    close_question,
    find_changed_args,
    is_redacted_edit,
    is_same,
    reopen_question,
    reuse_answers,
)
from hookline.agent.error_handling import on_error, on_success
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import original
from hookline.agent.run import Run
from hookline.agent.run_index import RecordedCall
from hookline.definition import Doubt, InDoubt
from hookline.definition.guards import limits_on_calls
from hookline.errors import ToolArgumentsError, ToolError, in_words
from hookline.flow import ErrorAction, ErrorClass
from hookline.hooks import Kind, Plan, Point, Result
from hookline.journal.fold import remember_answers, with_changes
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.state import (
    Answer,
    CallStage,
    Decision,
    ErrorInfo,
    FrozenDict,
    PendingApproval,
    ResultStatus,
    ToolCall,
    ToolResult,
)
from hookline.state.pending_step import to_remember
from hookline.tools import AnyTool, Effect

# Looking a member up on its class costs more than a name, and these are looked up for every call.
_SETTLED = CallStage.SETTLED
_BEFORE_TOOL_USE, _AFTER_TOOL_USE = HookPoint.BEFORE_TOOL_USE, HookPoint.AFTER_TOOL_USE
_ASK, _BLOCK = Kind.ASK, Kind.BLOCK
MOST_EDITS = 8
"""How often a call may be edited and judged again before it is refused."""
GONE = (
    "this call was not run: a secret in its arguments was redacted, and the process that knew it has "
    "ended. Make the call again; it is better to read the secret from the environment or a file."
)
_REDACTION = "redaction"
_UNKNOWN = "the process died while this call was running; what it did is not known"
_LOST = "the end of the journal was lost; whether this call ran and what it did is not known"
_AGAIN = "it had started when the process died, and what it did is not known: run it again?"


class Admission(msgspec.Struct, frozen=True):
    """What was decided about a call: where it stands, and the result that it has without running."""

    stage: CallStage
    result: ToolResult | None = None
    """Of a call that waits for a person: what a hook supplied, should it be let through."""
    has_run: bool = False
    """The result counts as the tool's, and hooks judge it: a hook supplied it, or it is known what the tool did."""


MAY_RUN = Admission(CallStage.ADMITTED)


async def admit(
    run: Run, current: CallInProgress, call: ToolCall, approved: PendingApproval | None = None
) -> Admission:
    """Judge a call: it may run, waits for a person, or has its result.

    `approved` is a question that a person has said yes to by making this call.
    """
    error = prepare(run, current, call)
    if error is not None:
        return await _refuse_invalid(run, current, call, error)
    if approved is not None:
        approved = msgspec.structs.replace(approved, fingerprint=current.call.fingerprint())
    if current.call.redacted and has_lost_arguments(run, current):
        return refuse_without_arguments(run, current)
    reached = run.plans.limit_reached
    if reached is not None and reached(run):
        stopped = await _ask_limits(run, current)
        if stopped is not None:
            return stopped
    plan = run.plans.before_tool_use
    if plan is None:
        return (_refuse_withdrawn(run, current) if run.step.has_withdrawn else None) or MAY_RUN
    result = await _ask_hooks(run, current, plan)
    error = _take_changed(run, current, result.context.tool_call)
    if error is not None:
        return await _refuse_invalid(run, current, result.context.tool_call, error)
    supplied = _result_for_call(current.call, result.context.execution)
    if result.kind >= _BLOCK:
        return _refuse(run, current, result)
    if current.call.redacted and has_lost_arguments(run, current):
        return refuse_without_arguments(run, current)
    if supplied is None and (refused := _refuse_withdrawn(run, current)) is not None:
        return refused
    if result.kind is not _ASK:
        return _let_through(supplied)
    ask = Ask.of(result)
    if approved is not None and is_same(approved, current.call.fingerprint(), ask):
        allow_edited(run, current, ask)
        return _let_through(supplied)
    return await _ask_about(run, current, ask, supplied)


def _refuse_withdrawn(run: Run, current: CallInProgress) -> Admission | None:
    """Refuse a tool that a hook had removed from the request. A hook before the tool may still give its result."""
    name = current.made.name
    if not run.step.is_withdrawn(name):
        return None
    reason = f"a hook removed the tool '{name}' from this step"
    return Admission(_SETTLED, current.result_with(ResultStatus.BLOCKED, reason=reason))


async def admit_again(run: Run, current: CallInProgress) -> Admission:
    """Judge a call of a resumed step: what hooks made of it stands, and the policies of now judge it anew."""
    refused = await validate_again(run, current)
    if refused is None and current.call.redacted and has_lost_arguments(run, current):
        refused = refuse_without_arguments(run, current)
    reached = run.plans.limit_reached
    if refused is None and reached is not None and reached(run):
        refused = await _ask_limits(run, current)
    if refused is not None:
        return refused
    plan = run.plans.before_tool_use
    before, supplied = current.approval, current.result
    ask = None if before is None else Ask.anew(before)
    if plan is not None and plan.policies:
        result = await _ask_hooks(run, current, plan, supplied, policies_only=True)
        if result.kind >= _BLOCK:
            return _refuse(run, current, result)
        if result.is_asking:
            ask = Ask.of(result) if before is None else Ask.anew(before, result)
    if ask is None:
        return _let_through(supplied)
    return await _ask_about(run, current, ask, supplied)


async def validate_again(run: Run, current: CallInProgress) -> Admission | None:
    """Check a call of a resumed step; None if it still fits a tool."""
    error = prepare(run, current, current.call)
    return None if error is None else await _refuse_invalid(run, current, current.call, error)


async def rejudge(run: Run, current: CallInProgress, call: ToolCall) -> Admission:
    """A hook around a tool handed on another call: validate it and judge it as if the model had made it.

    Other calls are running by now, so hooks are asked under a lock, and nobody can be waited for: without an answer at
    once, the call is denied.
    """
    cleared = (current.call, current.original, current.tool, current.values)
    asked = (current.approval, current.decision)
    async with run.hook_lock:
        run.ledger.add_tool_calls(-1)  # it was counted when it was cleared, and is one call still
        try:
            decided = await _judge_changed(run, current, call)
        finally:
            run.ledger.add_tool_calls(1)
    if decided is not MAY_RUN:  # what may run is still what was cleared before, and nothing else
        current.call, current.original, current.tool, current.values = cleared
        reopen_question(current, *asked)
    return decided


async def _judge_changed(run: Run, current: CallInProgress, call: ToolCall) -> Admission:
    ask = None if current.approval is None else Ask.anew(current.approval)
    error = prepare(run, current, call)
    if error is not None:
        return await _refuse_invalid(run, current, call, error)
    supplied: ToolResult | None = None
    plan = run.plans.before_tool_use
    if plan is not None:
        result = await _ask_hooks(run, current, plan)
        error = _take_changed(run, current, result.context.tool_call)
        if error is not None:
            return await _refuse_invalid(run, current, result.context.tool_call, error)
        if result.kind >= _BLOCK:
            return _refuse(run, current, result)
        supplied = _result_for_call(current.call, result.context.execution)
        if result.is_asking:
            ask = Ask.of(result)
    if ask is not None:
        decision = await ask_person(run, current, ask)
        if decision is None or decision.answer is not Answer.ALLOW:
            decision = decision or Decision.deny("the changed call needs an approval")
            return _deny(run, current, decision, ask.asked_by)
    return _let_through(supplied)


# --- what is wrong with a call ---------------------------------------------------------------------------


def prepare(run: Run, current: CallInProgress, call: ToolCall) -> ToolError | None:
    """Find the tool and check the arguments; gives what is wrong, if something is."""
    toolbox = run.setup.definition.toolbox
    find = toolbox.get  # held in a slot: calling it there would look for a method first
    tool = find(call.name)
    if tool is None:
        return toolbox.unknown_error(call.name)
    if call.redacted:
        call = original(call)
        if call.redacted and not run.source.is_replay:
            current.tool, current.call, current.original = tool, call, None
            return None
    args = call.args
    if not call.malformed and type(args) is FrozenDict and tool.arguments.are_complete(args):
        current.tool, current.values = tool, args
        if call is not current.call:
            _take_call(run, current, call)
        return None
    try:
        validated = tool.validate_call(call)
    except ToolError as error:
        return _error_without_secrets(run, tool, call, error)
    current.tool = tool
    current.values = validated.values
    if validated.args is not call.args:
        call = ToolCall(call.id, call.name, validated.args, redacted=call.redacted)
    _take_call(run, current, call)
    return None


def _take_call(run: Run, current: CallInProgress, call: ToolCall) -> None:
    """This is the call that runs now; what is kept of it follows."""
    if run.setup.redact_content is None:
        current.call = call
    elif call is not current.exact:
        current.call = shown = run.call_without_secrets(call)
        current.original = None if shown is call else call


def _take_changed(run: Run, current: CallInProgress, call: ToolCall) -> ToolError | None:
    """Take over what hooks made of a call, which was checked; gives what is wrong with it after all."""
    if call is current.exact:
        return None
    if call.redacted:  # from the record, and nobody knows its arguments
        _take_call(run, current, call)
        return None
    return prepare(run, current, call)


def _error_without_secrets(run: Run, tool: AnyTool, call: ToolCall, error: ToolError) -> ToolError:
    """What is wrong with a call, without the secrets in it: an error may repeat any argument."""
    shown = run.call_without_secrets(call)
    if shown is call:
        return error
    try:
        tool.validate_call(shown)
    except ToolError as said:
        return said
    return ToolArgumentsError(
        f"the arguments of '{call.name}' do not fit. The details are hidden, because the arguments contain secrets."
    )


async def _refuse_invalid(
    run: Run, current: CallInProgress, call: ToolCall, error: ToolError
) -> Admission:
    """What is wrong with a call becomes a result the model can act on."""
    info = ErrorInfo.from_exception(error, ErrorClass.VALIDATION)
    if _is_after_valid_call(run, current):
        on_success(run, ErrorClass.VALIDATION)
    decision = await on_error(run, error, ErrorClass.VALIDATION, call=call, can_rescue=True)
    if decision.action is ErrorAction.STOP:
        run.step.fail(run.step.failing or error)
    if had_started(run, current):
        return leave_in_doubt(current, str(info))
    if decision.action is ErrorAction.RESCUE:
        return _let_through(decision.value)
    result = ToolResult(error=info, status=ResultStatus.INVALID, call_id=call.id, name=call.name)
    return Admission(_SETTLED, result)


def _is_after_valid_call(run: Run, current: CallInProgress) -> bool:
    """Whether the call before this one in its step was valid. What earlier steps end with is counted as they end."""
    place = next(place for place, other in enumerate(run.step.calls) if other is current)
    return place > 0 and not run.step.calls[place - 1].is_invalid


# --- who is asked about a call ----------------------------------------------------------------------------


async def _ask_limits(run: Run, current: CallInProgress) -> Admission | None:
    """A limit leaves no room for calls: the limits are asked, and they stop the run."""
    plan = limits_on_calls(run.plans.before_step)
    result = await _ask_hooks(run, current, plan, current.result)
    return _refuse(run, current, result) if result.kind >= _BLOCK else None


def _ask_hooks(
    run: Run,
    current: CallInProgress,
    plan: Plan,
    supplied: ToolResult | None = None,
    *,
    policies_only: bool = False,
) -> Awaitable[Result[ToolHookContext]]:
    ctx = tool_context(run, _BEFORE_TOOL_USE, current, supplied)
    return run.ask(plan, ctx, about=current.call.id, policies_only=policies_only)


T = TypeVar("T", bound=ToolHookContext)


def tool_context(
    run: Run,
    point: Point[T],
    current: CallInProgress,
    execution: ToolResult | None = None,
) -> T:
    """The context for a call at one of the tool points: before it ran, as it will run; afterwards, as it is kept."""
    return run.context(
        point,
        tool_call=current.call if point is _AFTER_TOOL_USE else current.exact,
        execution=execution,
        response=run.step.response,
        step_index=run.step_index or 0,
    )


async def _ask_about(
    run: Run, current: CallInProgress, ask: Ask, supplied: ToolResult | None
) -> Admission:
    decision = await ask_person(run, current, ask)
    if decision is None:
        if run.stopping:
            return leave_unrun(run, current, "the run was stopped")
        return Admission(CallStage.ASKED, supplied)
    if decision.answer is Answer.ALLOW:
        return _let_through(supplied)
    if decision.answer is Answer.EDIT:
        return await _judge_edited(run, current, decision)
    return _deny(run, current, decision, ask.asked_by)


async def _judge_edited(run: Run, current: CallInProgress, decision: Decision) -> Admission:
    """A person changed the arguments: that is a yes to exactly the changed call, if nothing forbids it."""
    if current.edits >= MOST_EDITS:
        edited_often = Decision.deny(f"it was edited more than {MOST_EDITS} times")
        return _deny(run, current, edited_often, "")
    asked = current.approval
    assert asked is not None  # an answer has its question
    changed = find_changed_args(asked, decision)
    if is_redacted_edit(run, changed):
        return refuse_without_arguments(run, current)
    close_question(current)
    return await admit(run, current, current.exact.with_args(**changed), asked)


# --- what is decided --------------------------------------------------------------------------------------


def _let_through(supplied: ToolResult | None) -> Admission:
    """Nothing stands against the call: it may run, unless a hook gave its result already."""
    return MAY_RUN if supplied is None else Admission(_SETTLED, supplied, has_run=True)


def _result_for_call(call: ToolCall, execution: ToolResult | None) -> ToolResult | None:
    if execution is None:
        return None
    return msgspec.structs.replace(execution, call_id=call.id, name=call.name)


def _refuse(run: Run, current: CallInProgress, result: Result[Any]) -> Admission:
    is_stop = result.kind is Kind.STOP
    status = ResultStatus.NOT_RUN if is_stop else ResultStatus.BLOCKED
    return _refuse_as(run, current, status, result.reason, result.decided_by)


def _deny(run: Run, current: CallInProgress, decision: Decision, asked_by: str) -> Admission:
    reason = decision.reason or "permission was not given"
    return _refuse_as(run, current, ResultStatus.DENIED, reason, asked_by)


def leave_unrun(run: Run, current: CallInProgress, reason: str) -> Admission:
    """The run ended before a call."""
    return _refuse_as(run, current, ResultStatus.NOT_RUN, reason)


def refuse_without_arguments(run: Run, current: CallInProgress) -> Admission:
    """A call whose arguments are lost does not run."""
    if current.started or current.stage is CallStage.SUSPENDED or had_started(run, current):
        return leave_in_doubt(current, f"{GONE} What it did before that is not known.", _REDACTION)
    return _refuse_as(run, current, ResultStatus.BLOCKED, GONE, _REDACTION)


def _refuse_as(
    run: Run, current: CallInProgress, status: ResultStatus, reason: str, decided_by: str = ""
) -> Admission:
    """The call does not run, and the model reads why. Of one that had started nobody can say that it did not run."""
    if had_started(run, current):
        return leave_in_doubt(current, reason, decided_by)
    return Admission(_SETTLED, current.result_with(status, reason=reason, decided_by=decided_by))


def leave_in_doubt(current: CallInProgress, reason: str, decided_by: str = "") -> Admission:
    """A call in doubt is not run again, for this reason: what it did is as unknown as before."""
    result = current.result_with(ResultStatus.IN_DOUBT, reason=reason, decided_by=decided_by)
    return Admission(_SETTLED, result)


def has_lost_arguments(run: Run, current: CallInProgress) -> bool:
    """Whether a call cannot run: what was taken out of its arguments was in the memory of a process that has ended."""
    return current.has_lost_arguments and not run.source.is_replay


def had_started(run: Run, current: CallInProgress) -> bool:
    """Whether a call had started in a process that died, and somebody was asked whether to run it again."""
    is_asked_again = current.approval is not None and current.approval.is_again
    return is_asked_again or run.source.was_in_doubt(run, current.call.id)


# --- a call that had started when its process died --------------------------------------------------------


def readmit(run: Run, current: CallInProgress) -> bool:
    """Stand by the record of a call that had started; says whether there is one.

    What hooks noted about it is noted again, and nobody is asked: there is nothing left to judge.
    """
    source, call_id = run.source, current.made.id
    known = source.known.call(run.step_index or 0, call_id)
    intent = known.intent
    if intent is None:
        return False
    for ran in source.answers_about(call_id):
        run.set_state(with_changes(run.state, (ran.changes or {}).get("state")))
        run.replace_evaluations((*run.evaluations, *ran.evaluations))
    asked = list(known.asked.values())
    # What the run had paused for was asked before, and answered since.
    waited_for = [] if current.approval is None else [current.approval]
    for approval in waited_for + asked:
        decision = source.known.answers.get(approval.id)
        if decision is not None and decision.remember:
            run.set_state(remember_answers(run.state, to_remember(approval, decision)))
    reuse_answers(current, asked, intent.call)
    if prepare(run, current, intent.call) is not None:  # another tool has the name now, or none
        current.call, current.tool = intent.call, None
    return True


def must_not_repeat(run: Run, current: CallInProgress, known: RecordedCall) -> bool:
    """Whether a call in doubt cannot just run again: it must not have its effect twice, or its arguments are lost."""
    tool, intent = current.tool, known.intent
    if has_lost_arguments(run, current):
        return True
    if known.open_children:
        return tool is None  # they have journals of their own, and are resumed
    was_once = (
        intent is not None and intent.effect == Effect.ONCE
    )  # as its tool was then, or is now
    return was_once or tool is None or tool.effect is Effect.ONCE


async def decide_doubt(run: Run, current: CallInProgress) -> Admission | None:
    """Decide about a call in doubt: it is settled, or waits for a person; None when it is to run."""
    how = run.setup.definition.on_in_doubt
    if current.tool is None:
        return leave_in_doubt(
            current, f"{_describe_doubt(run)}, and the agent has no tool for this call any more"
        )
    if how == "ask":
        if has_lost_arguments(run, current):
            return leave_in_doubt(current, f"{_describe_doubt(run)}; {GONE}")
        return await _ask_again(run, current)
    if how == "tell":
        return leave_in_doubt(current, _describe_doubt(run))
    return await _check_effect(run, current, how)


def _describe_doubt(run: Run) -> str:
    return _LOST if run.durable.is_after_loss else _UNKNOWN


async def _ask_again(run: Run, current: CallInProgress) -> Admission | None:
    # An answer to the call itself is used up: the call may have run with it.
    decision = await ask_person(run, current, Ask(_AGAIN, ("in-doubt",)), again=True)
    if decision is None:
        return Admission(CallStage.ASKED, current.result)
    if decision.answer is Answer.ALLOW:
        return None
    return leave_in_doubt(current, decision.reason or _describe_doubt(run))


async def _check_effect(
    run: Run, current: CallInProgress, check: Callable[[InDoubt], Any]
) -> Admission | None:
    call = current.call
    asked = InDoubt(call, f"{run.run_id}/{run.step_index}/{call.id}")
    try:
        found = check(asked)
        if inspect.isawaitable(found):
            found = await found
        if found is Doubt.NOT_DONE:
            return None
        if found is not Doubt.UNKNOWN:
            value = found.result if isinstance(found, ToolResult) else found
            result = ToolResult(value, call_id=call.id, name=call.name)
            return Admission(_SETTLED, result, has_run=True)
    except Exception as error:
        return leave_in_doubt(
            current, f"{_describe_doubt(run)} (and the check failed: {in_words(error)})"
        )
    return leave_in_doubt(current, _describe_doubt(run))
