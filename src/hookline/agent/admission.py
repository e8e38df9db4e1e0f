"""May this call run? Look it up, validate it, ask the hooks, and, when one of them asks, ask a person."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec

from hookline.agent.approval import (
    Ask,
    ask_person,
    changed_args,
    is_redacted_edit,
    is_same,
    question,
)
from hookline.agent.failure import on_error, on_success
from hookline.agent.flight import Flight
from hookline.agent.originals import original
from hookline.agent.refusal import deny, had_started, is_gone, settle_gone, stay_in_doubt
from hookline.agent.run import Run
from hookline.blueprint.guards import limits_on_calls
from hookline.errors import ToolArgumentsError, ToolError
from hookline.flow import ErrorAction, ErrorClass
from hookline.hooks import Kind, Plan, Result, run_hooks
from hookline.journal import with_changes, with_remembered
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
    to_remember,
)
from hookline.tools import AnyTool

# Looking a member up on its class costs more than a name, and these are looked up for every call.
_ADMITTED = CallStage.ADMITTED
_BEFORE_TOOL_USE, _AFTER_TOOL_USE = HookPoint.BEFORE_TOOL_USE, HookPoint.AFTER_TOOL_USE
_ASK, _BLOCK = Kind.ASK, Kind.BLOCK
MOST_EDITS = 8
"""How often a call may be edited and judged again before it is refused."""


def admit_unasked(run: Run, flight: Flight) -> bool:
    """Admit a call that no hook wants to judge and nothing is wrong with; says whether that was so."""
    if prepare(run, flight, flight.made) is not None or flight.is_gone:
        return False
    flight.stage = _ADMITTED
    ledger = run.ledger
    if ledger.parent is None:
        ledger.tool_calls += 1
    else:
        ledger.add_tool_calls(1)
    return True


def admit(run: Run, flight: Flight) -> Awaitable[None]:
    """Judge one call. Afterwards it is admitted, waits for a person, or has its result."""
    error = prepare(run, flight, flight.made)
    if error is not None:
        return _answer_invalid(run, flight, flight.made, error)
    return _judge(run, flight)


def _is_settled_as_gone(run: Run, flight: Flight) -> bool:
    """Whether nobody needs to be asked about a call, because it cannot run."""
    if not flight.call.redacted or not is_gone(run, flight):
        return False
    settle_gone(run, flight)
    return True


async def admit_again(run: Run, flight: Flight) -> None:
    """Judge a call of a resumed step: what hooks made of it stands, and the policies of now judge it anew."""
    if not await _validate(run, flight, flight.call) or _is_settled_as_gone(run, flight):
        return
    if is_spent(run) and await _refused_by_limits(run, flight):
        return
    plan = run.plans.before_tool_use
    before = flight.approval
    ask = None if before is None else Ask.anew(before)
    if plan is not None and plan.policies:
        result = await _ask_hooks(run, flight, policies_only=True)
        if result.kind >= Kind.BLOCK:
            _refuse(run, flight, result)
            return
        if result.is_asking:
            ask = Ask.of(result) if before is None else Ask.anew(before, result)
    if ask is None:
        _let_through(run, flight)
    else:
        await _settle_ask(run, flight, ask)


def readmit(run: Run, flight: Flight) -> bool:
    """Stand by the record of a call that had started; says whether there is one.

    What hooks noted about it is noted again, and nobody is asked: there is nothing left to judge.
    """
    source, call_id = run.source, flight.made.id
    known = source.known.call(run.step_index or 0, call_id)
    intent = known.intent
    if intent is None:
        return False
    for ran in source.said_about(call_id):
        run.state = with_changes(run.state, (ran.changes or {}).get("state"))
        run.evaluations = (*run.evaluations, *ran.evaluations)
    asked = list(known.asked.values())
    # What the run had paused for was asked before, and answered since.
    waited_for = [] if flight.approval is None else [flight.approval]
    for approval in waited_for + asked:
        decision = source.known.answers.get(approval.id)
        if decision is not None and decision.remember:
            run.state = with_remembered(run.state, to_remember(approval, decision))
    _stand_by_answers(flight, asked, intent.call)
    if prepare(run, flight, intent.call) is not None:  # another tool has the name now, or none
        flight.call, flight.tool = intent.call, None
    _clear(run, flight)
    return True


def _stand_by_answers(flight: Flight, asked: list[PendingApproval], started: ToolCall) -> None:
    """A call that had started was approved as it started: nobody is asked that again, should the run pause."""
    flight.questions += sum(not question.is_again for question in asked)
    approval = asked[-1] if asked else flight.approval
    if approval is not None:
        flight.decision = Decision.allow()
        flight.approval = msgspec.structs.replace(
            approval, tool_call=started, fingerprint=started.fingerprint()
        )


async def take_up(run: Run, flight: Flight) -> None:
    """A call that had started and waits for a child: it is not judged again, and goes on."""
    flight.started = await _validate(run, flight, flight.call)


def is_spent(run: Run) -> bool:
    """Whether what the run has used leaves no room for calls: then the limits are asked, and they stop it."""
    has_room = run.plans.has_room
    return has_room is not None and not has_room(run)


async def _refused_by_limits(run: Run, flight: Flight) -> bool:
    result = await _ask_hooks(run, flight, limits_on_calls(run.plans.before_step))
    if result.kind >= _BLOCK:
        _refuse(run, flight, result)
    return result.kind >= _BLOCK


async def _judge(run: Run, flight: Flight, approved: PendingApproval | None = None) -> None:
    """Ask the hooks about a call. `approved` is a question that a person has said yes to by making this call."""
    if _is_settled_as_gone(run, flight):
        return
    if is_spent(run) and await _refused_by_limits(run, flight):
        return
    if run.plans.before_tool_use is None:
        _clear(run, flight)
        return
    result = await _ask_hooks(run, flight)
    ctx = result.context
    _take_call(run, flight, ctx.tool_call)
    flight.result = _supplied(flight.call, ctx.execution)
    if result.kind >= _BLOCK:
        _refuse(run, flight, result)
    elif _is_settled_as_gone(run, flight):
        return
    elif result.kind is not _ASK:
        _let_through(run, flight)
    else:
        ask = Ask.of(result)
        if approved is None or not is_same(approved, flight.call.fingerprint(), ask):
            await _settle_ask(run, flight, ask)
        else:  # the yes is kept, should the run pause for another call
            flight.approval, flight.decision = question(run, flight, ask), Decision.allow()
            _let_through(run, flight)


async def _settle_ask(run: Run, flight: Flight, ask: Ask) -> None:
    decision = await ask_person(run, flight, ask)
    if decision is None:
        flight.stage = CallStage.SETTLED if run.stopping else CallStage.ASKED
        if run.stopping:
            flight.result = unrun(run, flight, "the run was stopped")
    elif decision.answer is Answer.ALLOW:
        _let_through(run, flight)
    elif decision.answer is Answer.EDIT:
        await _judge_edited(run, flight, decision)
    else:
        deny(run, flight, decision, ask.asked_by)


async def _judge_edited(run: Run, flight: Flight, decision: Decision) -> None:
    """A person changed the arguments: that is a yes to exactly the changed call, if nothing forbids it."""
    flight.edits += 1
    if flight.edits > MOST_EDITS:
        deny(run, flight, Decision.deny(f"it was edited more than {MOST_EDITS} times"), "")
        return
    asked = flight.approval
    assert asked is not None  # an answer has its question
    changed = changed_args(asked, decision)
    if is_redacted_edit(run, changed):
        settle_gone(run, flight)
        return
    edited = flight.exact.with_args(**changed)
    flight.approval = flight.decision = flight.result = None
    flight.is_changed = True
    if await _validate(run, flight, edited):
        fingerprint = flight.call.fingerprint()
        await _judge(run, flight, msgspec.structs.replace(asked, fingerprint=fingerprint))


async def _validate(run: Run, flight: Flight, call: ToolCall) -> bool:
    """Check a call. What is wrong with it becomes a result the model can act on."""
    error = prepare(run, flight, call)
    if error is not None:
        await _answer_invalid(run, flight, call, error)
    return error is None


async def _answer_invalid(run: Run, flight: Flight, call: ToolCall, error: ToolError) -> None:
    info = ErrorInfo.from_exception(error, ErrorClass.VALIDATION)
    flight.result = ToolResult(None, info, ResultStatus.INVALID, call.id, call.name)
    flight.stage = CallStage.SETTLED
    if had_started(run, flight):
        stay_in_doubt(flight, str(info))
    if _follows_a_valid_call(run, flight):
        on_success(run, ErrorClass.VALIDATION)
    decision = await on_error(run, error, ErrorClass.VALIDATION, call=call)
    if decision.action is ErrorAction.STOP:
        run.failing = run.failing or error


def _follows_a_valid_call(run: Run, flight: Flight) -> bool:
    """Whether the call before this one in its step was valid. What earlier steps end with is counted as they end."""
    place = next(place for place, other in enumerate(run.flights) if other is flight)
    return place > 0 and not run.flights[place - 1].is_invalid


def prepare(run: Run, flight: Flight, call: ToolCall) -> ToolError | None:
    """Find the tool and check the arguments; gives what is wrong, if something is."""
    toolbox = run.definition.toolbox
    tool = toolbox.get(call.name)
    if tool is None:
        return toolbox.unknown(call.name)
    if call.redacted:
        call = original(call)
        if call.redacted and run.source.runs_tools:
            flight.tool, flight.call, flight.original = tool, call, None
            return None
    args = call.args
    if not call.malformed and type(args) is FrozenDict and tool.arguments.are_whole(args):
        flight.tool, flight.values = tool, args
        _take_call(run, flight, call)
        return None
    try:
        validated = tool.validate_call(call)
    except ToolError as error:
        return _said_of_shown(run, tool, call, error)
    flight.tool = tool
    flight.values = validated.values
    if validated.args is not call.args:
        call = ToolCall(call.id, call.name, validated.args, redacted=call.redacted)
    _take_call(run, flight, call)
    return None


def _take_call(run: Run, flight: Flight, call: ToolCall) -> None:
    if run.redact_content is None:
        flight.call = call
    elif call is not flight.exact:
        run.take_call(flight, call)


def _said_of_shown(run: Run, tool: AnyTool, call: ToolCall, error: ToolError) -> ToolError:
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


async def _ask_hooks(
    run: Run, flight: Flight, plan: Plan | None = None, *, policies_only: bool = False
) -> Result[Any]:
    plan = plan or run.plans.before_tool_use
    assert plan is not None
    run.flight = flight
    run.call_id = flight.call.id
    ctx = tool_context(run, _BEFORE_TOOL_USE, flight, flight.result)
    plan = run.source.hooks(run, plan, ctx)
    try:
        asked = run_hooks(plan, ctx, run, run.settle, policies_only=policies_only)
        return run.take(await asked)
    finally:
        run.flight = None
        run.call_id = ""


async def rejudge(run: Run, flight: Flight, call: ToolCall) -> tuple[ToolResult | None, bool]:
    """A hook around a tool handed on another call: validate it and judge it as if the model had made it.

    Gives the result it has instead of running, and whether a hook supplied that; None when it may run. Other
    calls are running by now, so hooks are asked under a lock, and nobody can be waited for: without an
    answer at once, the call is denied.
    """
    cleared = (flight.call, flight.original, flight.tool, flight.values)
    asked = (flight.approval, flight.decision)
    async with run.hook_lock:
        run.ledger.add_tool_calls(-1)  # it was counted when it was cleared, and is one call still
        try:
            supplied = await _judge_changed(run, flight, call)
        finally:
            run.ledger.add_tool_calls(1)
    instead, flight.result = flight.result, None
    if instead is not None:  # what may run is still what was cleared before, and nothing else
        flight.call, flight.original, flight.tool, flight.values = cleared
        flight.approval, flight.decision = asked
    return instead, supplied


async def _judge_changed(run: Run, flight: Flight, call: ToolCall) -> bool:
    """Judge it. Afterwards its result says why it may not run, or is None; says whether a hook supplied it."""
    ask = None if flight.approval is None else Ask.anew(flight.approval)
    flight.result = None
    if not await _validate(run, flight, call):
        return False
    if run.plans.before_tool_use is not None:
        result = await _ask_hooks(run, flight)
        _take_call(run, flight, result.context.tool_call)
        if result.kind >= Kind.BLOCK:
            _refuse(run, flight, result)
            return False
        flight.result = _supplied(flight.call, result.context.execution)
        if result.is_asking:
            ask = Ask.of(result)
    if ask is None:
        return flight.result is not None
    decision = await ask_person(run, flight, ask)
    if decision is not None and decision.answer is Answer.ALLOW:
        return flight.result is not None
    deny(
        run,
        flight,
        decision or Decision.deny("the changed call needs an approval"),
        ask.asked_by,
    )
    return False


def tool_context(
    run: Run, point: Any, flight: Flight, execution: ToolResult | None = None
) -> ToolHookContext:
    """The context for a call at one of the tool points: before it ran, as it will run; afterwards, as it is kept."""
    return ToolHookContext(
        point=point,
        state=run.state,
        evaluations=run.evaluations,
        live=run,
        tool_call=flight.call if point is _AFTER_TOOL_USE else flight.original or flight.call,
        execution=execution,
        response=run.response,
        step_index=run.step_index or 0,
    )


def _clear(run: Run, flight: Flight) -> None:
    flight.stage = _ADMITTED
    run.ledger.add_tool_calls(1)


def _let_through(run: Run, flight: Flight) -> None:
    """Nothing stands against the call: it may run, unless a hook gave its result already."""
    if flight.result is None:
        _clear(run, flight)
    else:
        flight.stage = CallStage.SETTLED
        flight.started = True  # its hooks see the result as if the tool had run


def _refuse(run: Run, flight: Flight, result: Result[Any]) -> None:
    flight.stage = CallStage.SETTLED
    if had_started(run, flight):
        stay_in_doubt(flight, result.reason, result.decided_by)
    elif result.kind is Kind.STOP:
        flight.result = not_run(flight.call, result.reason, result.decided_by)
    else:
        flight.result = ToolResult(
            None,
            None,
            ResultStatus.BLOCKED,
            flight.call.id,
            flight.call.name,
            result.reason,
            result.decided_by,
        )


def unrun(run: Run, flight: Flight, reason: str) -> ToolResult:
    """The result of a call that the run ended before; of one in doubt nobody can say that it did not run."""
    if not had_started(run, flight):
        return not_run(flight.call, reason)
    stay_in_doubt(flight, reason)
    assert flight.result is not None
    return flight.result


def not_run(call: ToolCall, reason: str, decided_by: str = "") -> ToolResult:
    """The result of a call that the run ended before."""
    return ToolResult(None, None, ResultStatus.NOT_RUN, call.id, call.name, reason, decided_by)


def _supplied(call: ToolCall, execution: ToolResult | None) -> ToolResult | None:
    if execution is None:
        return None
    return msgspec.structs.replace(execution, call_id=call.id, name=call.name)
