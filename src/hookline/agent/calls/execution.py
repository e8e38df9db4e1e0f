"""Running admitted calls: all at once, and every one of them ends with a result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import msgspec

from hookline._aio import is_being_cancelled
from hookline.agent.calls.admission import rejudge, tool_context
from hookline.agent.calls.around import around_tool
from hookline.agent.calls.not_run import GONE, is_gone, settle_doubt
from hookline.agent.checks import check_result
from hookline.agent.children.child import abandon_children, recount_children
from hookline.agent.children.host import ChildWaits, use_in_context
from hookline.agent.failure import fail_again, on_success
from hookline.agent.in_progress import CallInProgress
from hookline.agent.records.index import RecordedCall, RunIndex
from hookline.agent.recovery.past_errors import past_error
from hookline.agent.run import Run
from hookline.errors import ToolError, ToolTimeoutError, UsageError
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import CallAdmitted, CallSettled, ErrorRaised
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.state import CallStage, ErrorInfo, ResultStatus, ToolCall, ToolResult
from hookline.tools import AnyTool, Effect

# Looking a member up on its enum costs more than a name, and these are looked up for every call.
_OK, _SETTLED, _ONCE = ResultStatus.OK, CallStage.SETTLED, Effect.ONCE


async def execute(run: Run, in_progress: list[CallInProgress]) -> None:
    """Run these calls concurrently. Their intent is on record, and safe, before any of them starts."""
    for current in in_progress:
        intend(run, current)
    if run.commit is not None:
        await run.commit()
    if len(in_progress) == 1:
        await execute_one(run, in_progress[0])
    else:
        for batch in _batches(in_progress):
            await _together(run, batch)


async def recall_calls(run: Run, index: RunIndex) -> None:
    """Settle the calls that had run, or had started, before the process died."""
    recalled: list[tuple[CallInProgress, RecordedCall]] = []
    for current in run.step.calls:
        if current.stage not in (CallStage.ADMITTED, CallStage.SUSPENDED):
            continue
        known = index.call(run.step_index or 0, current.call.id)
        result = known.result
        if current.stage is CallStage.SUSPENDED and result is None:
            continue  # it had started before the run paused, and continues
        if result is not None and not (current.started or known.intent is not None):
            run.ledger.add_tool_calls(-1)
            current.result, current.stage, current.is_refused = result, CallStage.SETTLED, True
        elif result is not None:
            intend(run, current)
            current.result, current.stage = result, CallStage.SETTLED
            current.is_refused = result.status is ResultStatus.IN_DOUBT
            recalled.append((current, known))
            recount_children(run, current, known)
        elif known.is_in_doubt and (_must_not_repeat(current, known) or is_gone(run, current)):
            intend(run, current)
            settled = await settle_doubt(run, current, run.definition.on_in_doubt)
            if not settled:
                recalled.append((current, known))
            elif current.stage is _SETTLED:
                recount_children(run, current, known)
    await _recall_failures(run, recalled)


def _must_not_repeat(current: CallInProgress, known: RecordedCall) -> bool:
    """Whether a call may have had its effect and must not have it twice: as its tool is now, or as it was then."""
    tool, intent = current.tool, known.intent
    if known.open_children:
        return tool is None  # they have journals of their own, and are taken up
    was_once = intent is not None and intent.effect == Effect.ONCE
    return was_once or tool is None or tool.effect is Effect.ONCE


async def _recall_failures(run: Run, calls: list[tuple[CallInProgress, RecordedCall]]) -> None:
    """What had failed of these calls fails again, round by round, as the error policy was told of it then."""
    tries = [(current, known.failures) for current, known in calls]
    for number in range(max((len(failed) for _, failed in tries), default=0) + 1):
        for current, failed in tries:
            if number < len(failed):
                await _fail_again(run, current, failed[number])
            elif number == len(failed) and current.result is not None and current.result.is_success:
                on_success(run, ErrorClass.TOOL)


async def _fail_again(run: Run, current: CallInProgress, known: ErrorRaised) -> None:
    info, result = known.error, current.result
    assert info is not None
    told = result.error if result is not None else None
    if not info.message and told is not None and told.type == info.type:
        info = told  # its words were not on record as long as hooks might have withheld them
    await fail_again(run, known, info, current.call)
    current.errors = (*current.errors, info)
    if known.action == ErrorAction.STOP:
        current.failure = past_error(info)


def intend(run: Run, current: CallInProgress) -> None:
    """Write down that a call is about to run, once, however often it is tried."""
    current.attempts += 1
    if current.started:
        return
    current.started = True
    run.uncounted.add_call()
    tool = current.tool
    effect = _ONCE if tool is None else tool.effect  # without a tool it ran in a process that died
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


def record_result(run: Run, current: CallInProgress) -> None:
    """Record what came of a call, once it is settled and the hooks have seen it."""
    if current.stage is _SETTLED and not current.seen:
        current.seen = True
        if current.children:
            abandon_children(run, current)
        assert current.result is not None
        append, next_seq = run.append, run.next_seq
        append(
            CallSettled(
                run_id=run.run_id,
                seq=next_seq(),
                at=run.at,
                step=run.step_index or 0,
                result=current.result,
            )
        )


def _batches(in_progress: list[CallInProgress]) -> Iterator[list[CallInProgress]]:
    """Calls that may run beside each other, in call order; a tool that wants to be alone is a batch of one."""
    batch: list[CallInProgress] = []
    for current in in_progress:
        if current.tool is not None and current.tool.alone:
            if batch:
                yield batch
            yield [current]
            batch = []
        else:
            batch.append(current)
    if batch:
        yield batch


async def _together(run: Run, in_progress: list[CallInProgress]) -> None:
    places = {
        current.tool.name: asyncio.Semaphore(current.tool.concurrency)
        for current in in_progress
        if current.tool is not None and current.tool.concurrency is not None
    }

    # A process that dies while one call is running must not put the others in doubt, which are done.
    at_once = run.commit is not None and run.plans.after_tool_use is None

    async def in_turn(current: CallInProgress) -> None:
        place = places.get(current.call.name)
        if place is None:
            await execute_one(run, current)
        else:
            async with place:
                await execute_one(run, current)
        if at_once and current.exception is None:
            record_result(run, current)
            run.durable.flush_soon()

    tasks = [asyncio.create_task(in_turn(current)) for current in in_progress]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


async def execute_one(run: Run, current: CallInProgress) -> None:
    """Run one call. Whatever happens, the current has a result afterwards, or waits for a child."""
    started = run.now
    try:
        if run.plans.around_tool_use is None:
            value = await run.source.use(run, current, _use_tool)
            result = as_result(run, current.call, value, started)
        else:
            result = await _through_hooks(run, current)
    except ChildWaits as waits:
        current.stage = CallStage.SUSPENDED
        current.child_approvals = waits.approvals
        run.step.wait()
        return
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        settle_raised(run, current, error, started)
    else:
        current.result = result
        current.stage = _SETTLED


def settle_raised(run: Run, current: CallInProgress, error: BaseException, started: float) -> None:
    """Settle a call that raised. A cancellation of the run is raised again."""
    current.result = result = _failed(run, current, error, started)
    current.stage = _SETTLED
    if result.status is ResultStatus.CANCELLED:
        raise error


async def _through_hooks(run: Run, current: CallInProgress) -> ToolResult:
    """Run a call inside its around hooks. A changed call is judged again; a tool that must run once runs once."""
    plan = run.plans.around_tool_use
    assert plan is not None
    runs = 0
    refusal: ToolResult | None = None

    async def use(ctx: ToolHookContext) -> ToolResult:
        nonlocal runs, refusal
        tool = current.tool
        assert tool is not None
        if runs and tool.effect is Effect.ONCE:
            raise UsageError(
                f"a hook around '{current.call.name}' called it a second time, and its effect is 'once'.",
                remedy="Declare the tool pure or idempotent, or call call_next once.",
            )
        if ctx.tool_call is not current.exact:
            instead, is_supplied = await rejudge(run, current, ctx.tool_call)
            if instead is not None:
                refusal = refusal if is_supplied else instead
                return instead
        runs += 1
        return await _caught(run, current)

    result = await around_tool(
        run, plan, tool_context(run, HookPoint.AROUND_TOOL_USE, current), use
    )
    current.is_refused = runs == 0 and result is refusal
    if result.is_success:
        current.exception = current.failed_hook  # a hook dealt with what the tool failed of
    call = current.call
    return msgspec.structs.replace(result, call_id=call.id, name=call.name)


def as_result(run: Run, call: ToolCall, value: Any, started: float) -> ToolResult:
    """What a tool gave, as the result of its call."""
    now = run.clock()
    if type(value) is not ToolResult:
        return ToolResult(
            result=value,
            status=_OK,
            call_id=call.id,
            name=call.name,
            duration=now - started,
        )
    value = msgspec.structs.replace(value, call_id=call.id, name=call.name, duration=now - started)
    return check_result(value, f"tool '{call.name}'")


async def _caught(run: Run, current: CallInProgress) -> ToolResult:
    """The tool as hooks around it see it: what it raises is a result with an error."""
    started = run.now
    try:
        return as_result(run, current.call, await run.source.use(run, current, _use_tool), started)
    except ChildWaits:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        result = _failed(run, current, error, started)
        if result.status is ResultStatus.CANCELLED:
            raise
        return result


def _use_tool(run: Run, current: CallInProgress) -> Awaitable[Any]:
    """The tool itself."""
    tool, values = current.tool, current.values
    assert tool is not None  # an admitted call has its tool
    current.exception = None
    exact = current.exact
    if is_gone(run, current):
        raise ToolError(GONE)
    if values is not exact.args:
        if current.is_used:  # a tool may change what it gets: each attempt gets its own
            values = tool.validate_call(exact).values
        current.is_used = True
    if tool.context_name:
        return use_in_context(
            run, current, lambda context: _in_time(tool, tool.invoke(values, context))
        )
    if tool.timeout is not None:
        return _in_time(tool, tool.invoke(values))
    if tool.is_async:
        function: Any = tool.function
        return function(**values)  # type: ignore[no-any-return]
    return tool.invoke(values)


async def _in_time(tool: AnyTool, work: Awaitable[Any]) -> Any:
    if tool.timeout is None:
        return await work
    timer = asyncio.timeout(tool.timeout)
    try:
        async with timer:
            return await work
    except TimeoutError as error:
        if timer.expired():
            raise ToolTimeoutError(
                f"tool '{tool.name}' did not finish within {tool.timeout:g} s; what it did is not known."
            ) from error
        raise


def _failed(run: Run, current: CallInProgress, error: BaseException, started: float) -> ToolResult:
    """What to make of an exception: a cancelled call, or a failed one, whose exception the error hooks get to see."""
    call, duration = current.call, run.clock() - started
    if isinstance(error, asyncio.CancelledError) and (is_being_cancelled() or run.is_cancelled):
        reason = "the run was cancelled while this call was running; what it did is not known"
        return ToolResult(
            status=ResultStatus.CANCELLED,
            call_id=call.id,
            name=call.name,
            reason=reason,
            duration=duration,
        )
    current.exception = error
    info = ErrorInfo.from_exception(error, ErrorClass.TOOL)
    return ToolResult(
        error=info,
        status=ResultStatus.ERROR,
        call_id=call.id,
        name=call.name,
        duration=duration,
    )
