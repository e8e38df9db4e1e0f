"""The tool calls of one step: judged one by one, run together, and looked at one by one again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec

from hookline.agent.admission import (
    admit,
    admit_again,
    admit_unasked,
    is_spent,
    prepare,
    readmit,
    take_up,
    tool_context,
    unrun,
)
from hookline.agent.execution import execute, execute_one, intend, recall_calls, record_result
from hookline.agent.failure import on_error, on_success, speechless
from hookline.agent.flight import Flight
from hookline.agent.past_errors import past_error
from hookline.agent.refusal import is_gone, settle_gone
from hookline.agent.run import Run
from hookline.errors import HookError, in_words
from hookline.flow import ErrorAction, ErrorClass
from hookline.hooks import Kind, Plan, Result, Verdict, observe, run_hooks
from hookline.lifecycle import HookPoint
from hookline.state import CallStage, ErrorInfo, ResultStatus, ToolResult
from hookline.tools import Effect

_ADMITTED, _ASKED, _SETTLED = CallStage.ADMITTED, CallStage.ASKED, CallStage.SETTLED
_AROUND, _AFTER = HookPoint.AROUND_TOOL_USE, HookPoint.AFTER_TOOL_USE
_BLOCK = Kind.BLOCK
_REPLACED = "the call failed, and a hook replaced its result"
_VERDICTS = {
    ResultStatus.BLOCKED: Kind.BLOCK,
    ResultStatus.DENIED: Kind.BLOCK,
    ResultStatus.INVALID: Kind.BLOCK,
    ResultStatus.NOT_RUN: Kind.STOP,
}


def use_tools(run: Run) -> Awaitable[None]:
    """Judge and run the calls of the model's answer."""
    assert run.response is not None
    calls = run.response.calls
    flight_of = Flight if run.redact_content is None else run.flight_of
    run.flights = flights = list(map(flight_of, calls, calls))
    if run.plans.before_tool_use is not None or is_spent(run):
        return _admit_and_run(run)
    known = run.source.known.records
    for flight in flights:
        if known and readmit(run, flight):
            continue
        if not admit_unasked(run, flight):
            return _admit_and_run(run)
    if len(flights) == 1 and not known:
        return _use_one(run, flights[0])
    return _run_admitted(run)


async def _use_one(run: Run, flight: Flight) -> None:
    """The usual step: one call, and nothing against it."""
    if run.stopping or run.failing is not None or run.token.is_cancelled:
        settle_unrun(run)
    else:
        intend(run, flight)
        if run.commit is not None:
            await run.commit()
        await execute_one(run, flight)
        if flight.exception is not None or run.state.counters.consecutive_errors:
            await _deal_with_failures(run, [flight])
    if run.plans.after_tool_use is not None or flight.stage is not _SETTLED:
        await finish_calls(run)
    else:
        record_result(run, flight)


async def _admit_and_run(run: Run) -> None:
    flights = run.flights
    for flight in flights:
        if flight.stage is not None or readmit(run, flight):
            continue
        if _ends(run):
            prepare(run, flight, flight.made)  # it is told of as it would have run
        else:
            await admit(run, flight)
    if len(flights) == 1 and flights[0].stage is _ADMITTED and not run.source.known.records:
        await _use_one(run, flights[0])
    else:
        await _run_admitted(run)


async def use_tools_again(run: Run) -> None:
    """Take up the calls of a paused step where they stand."""
    for flight in run.flights:
        waits = flight.stage in (CallStage.ASKED, CallStage.ADMITTED)
        if (waits and readmit(run, flight)) or _ends(run):
            continue
        if waits:
            await admit_again(run, flight)
        elif flight.stage is CallStage.SUSPENDED and not is_gone(run, flight):
            await take_up(run, flight)
    await _run_admitted(run)


async def _run_admitted(run: Run) -> None:
    known = run.source.known
    if known:
        await recall_calls(run, known)
    for flight in run.flights:
        if flight.stage is not _SETTLED and is_gone(run, flight):
            settle_gone(run, flight)
    ready = [flight for flight in run.flights if flight.stage is not _SETTLED]
    run.waiting = run.waiting or any(flight.stage is _ASKED for flight in ready)
    if _ends(run):
        settle_unrun(run)
        run.waiting = False
    elif ready and not run.waiting:
        await execute(run, ready)
        for flight in ready:
            if flight.exception is not None or run.state.counters.consecutive_errors:
                await _deal_with_failures(run, ready)
                break
    if known:
        _fail_as_before(run)
    await finish_calls(run)


def _fail_as_before(run: Run) -> None:
    """A call on record had ended the run: only now, because those beside it had started too."""
    failures = [flight.failure for flight in run.flights if flight.failure is not None]
    if failures and (run.failing is None or any(run.failing is each for each in failures)):
        run.failing = failures[0]


def _ends(run: Run) -> bool:
    return run.stopping or run.failing is not None or run.token.is_cancelled


async def _deal_with_failures(run: Run, ran: list[Flight]) -> None:
    """Ask the error policy about failed calls, and run those again that are safe to repeat and that it wants."""
    while True:
        again: list[Flight] = []
        delay = 0.0
        for flight in ran:
            if flight.exception is None:
                on_success(run, ErrorClass.TOOL)
                continue
            wait = await _after_failure(run, flight)
            if wait is not None:
                again.append(flight)
                delay = max(delay, wait)
        if not again or _ends(run):
            return
        if delay:
            await run.sleep(delay)
            run.clock()
        await execute(run, again)
        ran = again


async def _after_failure(run: Run, flight: Flight) -> float | None:
    """What the policy says about a failed call: seconds to wait before the next try, or None for no other try."""
    assert flight.exception is not None
    assert flight.tool is not None
    safe = flight.tool.effect is not Effect.ONCE
    # A hook around a tool is part of the call: when it fails, the call has failed.
    of_hook = isinstance(flight.exception, HookError) and flight.exception.point != _AROUND
    error_class = ErrorClass.HOOK if of_hook else ErrorClass.TOOL
    decision = await on_error(
        run,
        flight.exception,
        error_class,
        attempt=flight.attempts if safe else None,
        call=flight.call,
    )
    flight.errors = (*flight.errors, run.step_errors[-1])
    if decision.action is ErrorAction.STOP:
        flight.failure = flight.exception
        run.failing = run.failing or flight.exception
    if decision.action is ErrorAction.RETRY and safe:
        return decision.delay
    flight.exception = None
    return None


def settle_unrun(run: Run) -> None:
    """The run ends here: every call that has no result yet gets one that says so."""
    for flight in run.flights:
        if flight.stage is not _SETTLED or flight.result is None:
            if flight.stage is CallStage.ADMITTED and not flight.started:
                run.ledger.add_tool_calls(-1)
            flight.result = unrun(run, flight, _why_unrun(run))
            flight.stage = CallStage.SETTLED
            flight.is_refused = True


def _why_unrun(run: Run) -> str:
    if run.failing is not None:
        return f"the run failed first ({in_words(run.failing)})"
    if run.token.is_cancelled or not run.evaluations:
        return "the run was cancelled" + (f" ({run.token.why})" if run.token.why else "")
    return f"the run was stopped first ({run.evaluations[-1].reason})"


async def finish_calls(run: Run) -> None:
    """Show each settled call to the after_tool_use hooks, in call order, and record what came of it."""
    plan = run.plans.after_tool_use
    for flight in run.flights:
        is_new = plan is not None and flight.stage is _SETTLED and not flight.seen
        if plan is not None and is_new:
            await _look_at(run, plan, flight)
        record_result(run, flight)
        if is_new and run.commit is not None and flight is not run.flights[-1]:
            run.durable.flush()  # hooks may take their time over the next one: this one is not in doubt


async def _look_at(run: Run, plan: Plan, flight: Flight) -> None:
    """The after_tool_use hooks. A call that did not run is shown to observers only."""
    ctx = tool_context(run, _AFTER, flight, flight.result)
    run.call_id = flight.call.id
    # Not what the result's status says: a tool may give a result with any status.
    ran = flight.started and not flight.is_refused
    decided: list[Result[Any]] = []
    try:
        if ran:
            asked = run.source.hooks(run, plan, ctx)
            result = await run_hooks(asked, ctx, run, run.settle, decided=decided.append)
            _settle_as(run, plan, flight, result)
        elif plan.observers:
            await observe(run.source.hooks(run, plan, ctx), ctx, _verdict(flight), run)
    except asyncio.CancelledError:
        if decided:  # those who were still looking on have no say in it
            _settle_as(run, plan, flight, decided[0])
        elif ran and plan.decides:
            _withhold(run, flight)
        record_result(run, flight)
        raise
    finally:
        run.call_id = ""


def _withhold(run: Run, flight: Flight) -> None:
    """The run is cancelled while hooks judge a result: not all of them have cleared it, so nobody gets to see it."""
    call, why = flight.call, "the run was cancelled before the hooks had seen it"
    flight.result = ToolResult(None, None, ResultStatus.WITHHELD, call.id, call.name, why)
    _forget_errors(run, flight)


def _settle_as(run: Run, plan: Plan, flight: Flight, result: Result[Any]) -> None:
    """The hooks are done with a call: what they leave of it is its result."""
    shown = flight.result
    flight.result = _looked_at(flight, run.take(result))
    if not flight.errors:
        return
    if flight.result is not shown:
        _forget_errors(run, flight)
    elif plan.decides:
        _hush_errors(run, flight)


def _looked_at(flight: Flight, result: Any) -> ToolResult:
    """The result as the hooks leave it; one they withhold is not kept anywhere."""
    execution: ToolResult = result.context.execution
    refusal = result.refusal if result.kind >= _BLOCK else None
    if refusal is not None:
        return ToolResult(
            None,
            None,
            ResultStatus.WITHHELD,
            flight.call.id,
            flight.call.name,
            refusal[0],
            refusal[1],
            execution.duration,
        )
    if execution is not flight.result:
        return msgspec.structs.replace(execution, call_id=flight.call.id, name=flight.call.name)
    return execution


def _hush_errors(run: Run, flight: Flight) -> None:
    """Hooks let the result of a later try be. The words of those before it they never saw, so nobody else does."""
    result = flight.result
    assert result is not None
    if result.error == flight.errors[-1]:
        return
    own = set(map(id, flight.errors))
    hushed = tuple(speechless(info) if id(info) in own else info for info in run.step_errors)
    run.step_errors, flight.errors = hushed, ()


def _forget_errors(run: Run, flight: Flight) -> None:
    """What hooks withheld or rewrote of a failed call is not kept in the errors of the step either."""
    result = flight.result
    assert result is not None
    if not flight.errors or result.error == flight.errors[-1]:
        return
    kept: list[ErrorInfo] = []
    for info in run.step_errors:
        if not any(info is own for own in flight.errors):
            kept.append(info)
    instead = result.error
    if instead is None and result.status is ResultStatus.WITHHELD:
        instead = ErrorInfo("withheld", result.reason, ErrorClass.TOOL)
    if flight.failure is not None and flight.failure is run.failing:
        # The run fails all the same, and says of what as far as the hooks let it.
        instead = instead or ErrorInfo("replaced", _REPLACED, ErrorClass.TOOL)
        run.failing = past_error(instead)
    run.step_errors = tuple(kept) if instead is None else (*kept, instead)
    flight.errors = ()


def _verdict(flight: Flight) -> Verdict:
    """What was decided about a call that did not run: what observers are told."""
    result = flight.result
    assert result is not None
    reason = result.reason or str(result.error or "")
    return Verdict(_VERDICTS.get(result.status, Kind.PROCEED), reason, result.decided_by)
