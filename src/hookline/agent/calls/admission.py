"""May this call run? Look it up, validate it, ask the hooks, and, when one of them asks, ask a person."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec

from hookline.agent.approvals import (
    Ask,
    ask_person,
    changed_args,
    is_redacted_edit,
    is_same,
    question,
)
from hookline.agent.failure import on_error, on_success
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import original
from hookline.agent.run import Run
from hookline.definition.guards import limits_on_calls
from hookline.errors import ToolArgumentsError, ToolError
from hookline.flow import ErrorAction, ErrorClass
from hookline.hooks import Kind, Plan, Point, Result
from hookline.journal import CallAdmitted
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
from hookline.tools import AnyTool, Effect

# Looking a member up on its class costs more than a name, and these are looked up for every call.
_ADMITTED = CallStage.ADMITTED
_BEFORE_TOOL_USE, _AFTER_TOOL_USE = HookPoint.BEFORE_TOOL_USE, HookPoint.AFTER_TOOL_USE
_ASK, _BLOCK = Kind.ASK, Kind.BLOCK
MOST_EDITS = 8
"""How often a call may be edited and judged again before it is refused."""


async def admit(
    run: Run, current: CallInProgress, call: ToolCall, approved: PendingApproval | None = None
) -> None:
    """Judge a call. Afterwards it is admitted, waits for a person, or has its result.

    `approved` is a question that a person has said yes to by making this call.
    """
    error = prepare(run, current, call)
    if error is not None:
        await _answer_invalid(run, current, call, error)
        return
    if approved is not None:
        approved = msgspec.structs.replace(approved, fingerprint=current.call.fingerprint())
    if current.call.redacted and _is_settled_as_gone(run, current):
        return
    if is_spent(run) and await _refused_by_limits(run, current):
        return
    if run.plans.before_tool_use is None:
        clear(run, current)
        return
    result = await _ask_hooks(run, current)
    ctx = result.context
    _take_call(run, current, ctx.tool_call)
    current.result = _supplied(current.call, ctx.execution)
    if result.kind >= _BLOCK:
        _refuse(run, current, result)
    elif _is_settled_as_gone(run, current):
        return
    elif result.kind is not _ASK:
        _let_through(run, current)
    else:
        ask = Ask.of(result)
        if approved is None or not is_same(approved, current.call.fingerprint(), ask):
            await _settle_ask(run, current, ask)
        else:  # the yes is kept, should the run pause for another call
            current.approval, current.decision = question(run, current, ask), Decision.allow()
            _let_through(run, current)


def _is_settled_as_gone(run: Run, current: CallInProgress) -> bool:
    """Whether nobody needs to be asked about a call, because it cannot run."""
    if not current.call.redacted or not has_lost_arguments(run, current):
        return False
    settle_without_arguments(run, current)
    return True


async def admit_again(run: Run, current: CallInProgress) -> None:
    """Judge a call of a resumed step: what hooks made of it stands, and the policies of now judge it anew."""
    if not await _validate(run, current, current.call) or _is_settled_as_gone(run, current):
        return
    if is_spent(run) and await _refused_by_limits(run, current):
        return
    plan = run.plans.before_tool_use
    before = current.approval
    ask = None if before is None else Ask.anew(before)
    if plan is not None and plan.policies:
        result = await _ask_hooks(run, current, policies_only=True)
        if result.kind >= Kind.BLOCK:
            _refuse(run, current, result)
            return
        if result.is_asking:
            ask = Ask.of(result) if before is None else Ask.anew(before, result)
    if ask is None:
        _let_through(run, current)
    else:
        await _settle_ask(run, current, ask)


async def take_up(run: Run, current: CallInProgress) -> None:
    """A call that had started and waits for a child: it is not judged again, and continues."""
    current.started = await _validate(run, current, current.call)


def is_spent(run: Run) -> bool:
    """Whether what the run has used leaves no room for calls: then the limits are asked, and they stop it."""
    limit_reached = run.plans.limit_reached
    return limit_reached is not None and limit_reached(run) != ""


async def _refused_by_limits(run: Run, current: CallInProgress) -> bool:
    result = await _ask_hooks(run, current, limits_on_calls(run.plans.before_step))
    if result.kind >= _BLOCK:
        _refuse(run, current, result)
    return result.kind >= _BLOCK


async def _settle_ask(run: Run, current: CallInProgress, ask: Ask) -> None:
    decision = await ask_person(run, current, ask)
    if decision is None:
        if run.stopping:
            settle_unrun(run, current, "the run was stopped")
        else:
            current.stage = CallStage.ASKED
    elif decision.answer is Answer.ALLOW:
        _let_through(run, current)
    elif decision.answer is Answer.EDIT:
        await _judge_edited(run, current, decision)
    else:
        deny(run, current, decision, ask.asked_by)


async def _judge_edited(run: Run, current: CallInProgress, decision: Decision) -> None:
    """A person changed the arguments: that is a yes to exactly the changed call, if nothing forbids it."""
    current.edits += 1
    if current.edits > MOST_EDITS:
        deny(run, current, Decision.deny(f"it was edited more than {MOST_EDITS} times"), "")
        return
    asked = current.approval
    assert asked is not None  # an answer has its question
    changed = changed_args(asked, decision)
    if is_redacted_edit(run, changed):
        settle_without_arguments(run, current)
        return
    edited = current.exact.with_args(**changed)
    current.approval = current.decision = current.result = None
    current.is_changed = True
    await admit(run, current, edited, asked)


async def _validate(run: Run, current: CallInProgress, call: ToolCall) -> bool:
    """Check a call. What is wrong with it becomes a result the model can act on."""
    error = prepare(run, current, call)
    if error is not None:
        await _answer_invalid(run, current, call, error)
    return error is None


async def _answer_invalid(
    run: Run, current: CallInProgress, call: ToolCall, error: ToolError
) -> None:
    info = ErrorInfo.from_exception(error, ErrorClass.VALIDATION)
    current.result = ToolResult(
        error=info, status=ResultStatus.INVALID, call_id=call.id, name=call.name
    )
    current.stage = CallStage.SETTLED
    if had_started(run, current):
        stay_in_doubt(current, str(info))
    if _follows_a_valid_call(run, current):
        on_success(run, ErrorClass.VALIDATION)
    decision = await on_error(run, error, ErrorClass.VALIDATION, call=call, can_rescue=True)
    if decision.action is ErrorAction.RESCUE:
        current.result, current.started = decision.value, True  # as if a hook had supplied it
    elif decision.action is ErrorAction.STOP:
        run.step.fail(run.step.failing or error)


def _follows_a_valid_call(run: Run, current: CallInProgress) -> bool:
    """Whether the call before this one in its step was valid. What earlier steps end with is counted as they end."""
    place = next(place for place, other in enumerate(run.step.calls) if other is current)
    return place > 0 and not run.step.calls[place - 1].is_invalid


def prepare(run: Run, current: CallInProgress, call: ToolCall) -> ToolError | None:
    """Find the tool and check the arguments; gives what is wrong, if something is."""
    toolbox = run.setup.definition.toolbox
    tool = toolbox.get(call.name)
    if tool is None:
        return toolbox.unknown(call.name)
    if call.redacted:
        call = original(call)
        if call.redacted and not run.source.is_replay:
            current.tool, current.call, current.original = tool, call, None
            return None
    args = call.args
    if not call.malformed and type(args) is FrozenDict and tool.arguments.are_whole(args):
        current.tool, current.values = tool, args
        if run.setup.redact_content is None:
            current.call = call
        else:
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
    if run.setup.redact_content is None:
        current.call = call
    elif call is not current.exact:
        run.take_call(current, call)


def _error_without_secrets(run: Run, tool: AnyTool, call: ToolCall, error: ToolError) -> ToolError:
    """What is wrong with a call, without the secrets in it: an error may repeat any argument."""
    shown = run.shown(call)
    if shown is call:
        return error
    try:
        tool.validate_call(shown)
    except ToolError as said:
        return said
    return ToolArgumentsError(
        f"the arguments of '{call.name}' do not fit, and hold secrets, so more cannot be said."
    )


def _ask_hooks(
    run: Run, current: CallInProgress, plan: Plan | None = None, *, policies_only: bool = False
) -> Awaitable[Result[ToolHookContext]]:
    plan = plan or run.plans.before_tool_use
    assert plan is not None
    ctx = tool_context(run, _BEFORE_TOOL_USE, current, current.result)
    return run.ask(plan, ctx, about=current.call.id, current=current, policies_only=policies_only)


async def rejudge(
    run: Run, current: CallInProgress, call: ToolCall
) -> tuple[ToolResult | None, bool]:
    """A hook around a tool handed on another call: validate it and judge it as if the model had made it.

    Gives the result it has instead of running, and whether a hook supplied that; None when it may run. Other
    calls are running by now, so hooks are asked under a lock, and nobody can be waited for: without an
    answer at once, the call is denied.
    """
    cleared = (current.call, current.original, current.tool, current.values)
    asked = (current.approval, current.decision)
    async with run.hook_lock:
        run.ledger.add_tool_calls(-1)  # it was counted when it was cleared, and is one call still
        try:
            supplied = await _judge_changed(run, current, call)
        finally:
            run.ledger.add_tool_calls(1)
    instead, current.result = current.result, None
    if instead is not None:  # what may run is still what was cleared before, and nothing else
        current.call, current.original, current.tool, current.values = cleared
        current.approval, current.decision = asked
    return instead, supplied


async def _judge_changed(run: Run, current: CallInProgress, call: ToolCall) -> bool:
    """Judge it. Afterwards its result says why it may not run, or is None; says whether a hook supplied it."""
    ask = None if current.approval is None else Ask.anew(current.approval)
    current.result = None
    if not await _validate(run, current, call):
        return False
    if run.plans.before_tool_use is not None:
        result = await _ask_hooks(run, current)
        _take_call(run, current, result.context.tool_call)
        if result.kind >= Kind.BLOCK:
            _refuse(run, current, result)
            return False
        current.result = _supplied(current.call, result.context.execution)
        if result.is_asking:
            ask = Ask.of(result)
    if ask is None:
        return current.result is not None
    decision = await ask_person(run, current, ask)
    if decision is not None and decision.answer is Answer.ALLOW:
        return current.result is not None
    deny(
        run,
        current,
        decision or Decision.deny("the changed call needs an approval"),
        ask.asked_by,
    )
    return False


def tool_context(
    run: Run,
    point: Point[ToolHookContext],
    current: CallInProgress,
    execution: ToolResult | None = None,
) -> ToolHookContext:
    """The context for a call at one of the tool points: before it ran, as it will run; afterwards, as it is kept."""
    return run.context(
        point,
        tool_call=current.call if point is _AFTER_TOOL_USE else current.exact,
        execution=execution,
        response=run.step.response,
        step_index=run.step_index or 0,
    )


def clear(run: Run, current: CallInProgress) -> None:
    """The call may run, and counts."""
    current.stage = _ADMITTED
    run.ledger.add_tool_calls(1)


def _let_through(run: Run, current: CallInProgress) -> None:
    """Nothing stands against the call: it may run, unless a hook gave its result already."""
    if current.result is None:
        clear(run, current)
    else:
        current.stage = CallStage.SETTLED
        current.started = True  # its hooks see the result as if the tool had run


def _refuse(run: Run, current: CallInProgress, result: Result[Any]) -> None:
    if had_started(run, current):
        stay_in_doubt(current, result.reason, result.decided_by)
        return
    is_stop = result.kind is Kind.STOP
    status = ResultStatus.NOT_RUN if is_stop else ResultStatus.BLOCKED
    current.settle(status, result.reason, result.decided_by)


def settle_unrun(run: Run, current: CallInProgress, reason: str) -> None:
    """The run ended before a call; of one in doubt nobody can say that it did not run."""
    if had_started(run, current):
        stay_in_doubt(current, reason)
    else:
        current.settle(ResultStatus.NOT_RUN, reason)


def _supplied(call: ToolCall, execution: ToolResult | None) -> ToolResult | None:
    if execution is None:
        return None
    return msgspec.structs.replace(execution, call_id=call.id, name=call.name)


def intend(run: Run, current: CallInProgress) -> None:
    """Write down that a call is about to run, once, however often it is tried."""
    current.attempts += 1
    if current.started:
        return
    current.started = True
    run.uncounted.add_call()
    tool = current.tool
    effect = (
        Effect.ONCE if tool is None else tool.effect
    )  # without a tool it ran in a process that died
    append, next_seq = run.append, run.next_seq
    append(
        CallAdmitted(
            run_id=run.run_id,
            seq=next_seq(),
            at=run.at,
            step=run.step_index or 0,
            call=current.call,
            effect=effect,
        )
    )


# --- calls that do not run ------------------------------------------------------------------------------


GONE = (
    "this call was not run: a secret in its arguments was redacted, and only a process that has ended had it in "
    "memory. To run it, make the call again; it is better to read the secret from the environment or a file."
)
_REDACTION = "redaction"


def deny(run: Run, current: CallInProgress, decision: Decision, asked_by: str) -> None:
    """The call does not run; the model reads why. Of one that had started nobody can say that it did not run."""
    reason = decision.reason or "permission was not given"
    if had_started(run, current):
        stay_in_doubt(current, reason, asked_by)
    else:
        current.settle(ResultStatus.DENIED, reason, asked_by)


def has_lost_arguments(run: Run, current: CallInProgress) -> bool:
    """Whether a call cannot run: what was taken out of its arguments was in the memory of a process that has ended."""
    return current.has_lost_arguments and not run.source.is_replay


def settle_without_arguments(run: Run, current: CallInProgress) -> None:
    """Such a call is not run, and the model reads why."""
    if current.started or current.stage is CallStage.SUSPENDED or had_started(run, current):
        stay_in_doubt(current, f"{GONE} What it did before that is not known.", _REDACTION)
        return
    if current.stage is CallStage.ADMITTED:
        run.ledger.add_tool_calls(-1)  # it was counted when it was cleared
    current.settle(ResultStatus.BLOCKED, GONE, _REDACTION)


def had_started(run: Run, current: CallInProgress) -> bool:
    """Whether a call had started in a process that died, and somebody was asked whether to run it again."""
    is_asked_again = current.approval is not None and current.approval.is_again
    return is_asked_again or run.source.was_in_doubt(run, current.call.id)


def stay_in_doubt(current: CallInProgress, reason: str, decided_by: str = "") -> None:
    """A call in doubt is not run again, for this reason: what it did is as unknown as before."""
    current.settle(ResultStatus.IN_DOUBT, reason, decided_by)
    current.is_refused = True  # it is no result of the tool, so only observers are shown it
