"""Runs the tool calls of one step.

The hooks judge the calls one by one, the admitted calls run together, and the hooks see the results one by one. This
module writes the stage, the attempts and the result of a `CallInProgress`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import msgspec

from hookline._aio import is_being_cancelled
from hookline.agent.calls.admission import (
    GONE,
    MAY_RUN,
    Admission,
    admit,
    admit_again,
    decide_doubt,
    has_lost_arguments,
    leave_unrun,
    must_not_repeat,
    prepare,
    readmit,
    refuse_without_arguments,
    rejudge,
    tool_context,
    validate_again,
)
from hookline.agent.checks import check_kind, check_result, refuse_other_call
from hookline.agent.children import ChildPaused, abandon_children, recount_children
from hookline.agent.error_handling import (
    on_error,
    on_success,
    repeat_recorded_failure,
    without_message,
)
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import find_original
from hookline.agent.run import Run
from hookline.agent.run_index import RecordedCall, RunIndex, restore_exception
from hookline.agent.services import use_in_context
from hookline.errors import (
    BlockedCallError,
    HookError,
    ToolError,
    ToolTimeoutError,
    in_words,
)
from hookline.flow import ErrorAction, ErrorClass
from hookline.hooks import Entry, Kind, Plan, Result, Verdict
from hookline.hooks.run import RepeatError, run_around
from hookline.journal import CallAdmitted, CallSettled, ErrorRaised
from hookline.lifecycle import HookPoint, ToolHookContext
from hookline.state import (
    Attachment,
    CallStage,
    ErrorInfo,
    ResultStatus,
    ToolCall,
    ToolResult,
)
from hookline.tools import AnyTool, Effect

# Looking a member up on its enum costs more than a name, and these are looked up for every call.
_ADMITTED, _ASKED, _SETTLED = CallStage.ADMITTED, CallStage.ASKED, CallStage.SETTLED
_OK, _BLOCKED = ResultStatus.OK, ErrorClass.BLOCKED
_AROUND, _AFTER = HookPoint.AROUND_TOOL_USE, HookPoint.AFTER_TOOL_USE
_BLOCK = Kind.BLOCK
_MAY_HOLD_FILES = (Attachment, list, tuple)
_REFUSED = (ResultStatus.BLOCKED, ResultStatus.DENIED)
_REPLACED = "the call failed, and a hook replaced its result"
_VERDICTS = {
    ResultStatus.BLOCKED: Kind.BLOCK,
    ResultStatus.DENIED: Kind.BLOCK,
    ResultStatus.INVALID: Kind.BLOCK,
    ResultStatus.NOT_RUN: Kind.STOP,
}


async def use_tools(run: Run, *, again: bool = False) -> None:
    """Judge the calls of a step one by one, run the admitted ones together, and show the results to the hooks.

    `again`: they are the calls of a paused step, and continue where they stand.
    """
    step, known = run.step, run.source.known
    is_recorded = bool(known.records)
    if not again:
        _open_calls(run)
    for current in step.calls:
        if again:
            await _resume_call(run, current)
        elif is_recorded and readmit(run, current):
            _apply_admission(run, current, MAY_RUN)
        elif _is_ending(run):
            prepare(run, current, current.made)  # it is shown as it would have run
        else:
            _apply_admission(run, current, await admit(run, current, current.made))
    if is_recorded or run.durable.is_after_loss:
        await _recall_calls(run, known)
    ready = _ready(run)
    if _BLOCKED in run.setup.definition.error_policy.actions:
        await _count_blocked(run)
    if _is_ending(run):
        settle_all_unrun(run)
        step.wait(is_waiting=False)
        ready = []
    elif step.is_waiting:
        ready = []
    while ready:
        if len(ready) == 1:
            _intend(run, ready[0])
            if run.commit is not None:
                await run.commit()
            await execute_call(run, ready[0])
        else:
            for batch in _batches(ready):
                await _Batch(run, batch).execute()
        ready = await _deal_with_failures(run, ready) if _has_failed(run, ready) else []
    if is_recorded:
        _fail_as_before(run)
    if run.plans.after_tool_use is not None:
        await finish_calls(run)
        return
    for current in step.calls:
        if current.children:
            await _end_children(run, current)
        record_result(run, current)


def _open_calls(run: Run) -> None:
    """The calls of the model's answer are on their way."""
    step = run.step
    assert step.response is not None
    calls = step.response.calls
    if run.setup.redact_content is None:
        step.calls = tuple(map(CallInProgress, calls, calls))
    else:
        step.calls = tuple(map(CallInProgress, calls, calls, map(find_original, calls)))


async def _resume_call(run: Run, current: CallInProgress) -> None:
    """Continue a call of a paused step where it stands."""
    waits = current.stage in (_ASKED, _ADMITTED)
    if waits and readmit(run, current):
        _apply_admission(run, current, MAY_RUN)
    elif _is_ending(run):
        return
    elif waits:
        _apply_admission(run, current, await admit_again(run, current))
    elif current.stage is CallStage.SUSPENDED and not has_lost_arguments(run, current):
        # It had started and waits for a child: it is not judged again, and continues.
        refused = await validate_again(run, current)
        if refused is None:
            current.started = True
        else:
            _apply_admission(run, current, refused)


def _ready(run: Run) -> list[CallInProgress]:
    """The calls that have no result yet. The step waits if one of them waits for a person."""
    ready: list[CallInProgress] = []
    for current in run.step.calls:
        if current.stage is _SETTLED:
            continue
        if current.call.redacted and has_lost_arguments(run, current):
            _replace_admission(run, current, refuse_without_arguments(run, current))
            continue
        ready.append(current)
        if current.stage is _ASKED:
            run.step.wait()
    return ready


def _apply_admission(run: Run, current: CallInProgress, decided: Admission) -> None:
    """Store the decision about a call. A call that may run is counted."""
    current.stage = decided.stage
    if decided is MAY_RUN:
        run.ledger.add_tool_calls(1)
        return
    current.result = decided.result
    if decided.has_run:
        current.started = True
    elif decided.stage is _SETTLED:
        current.is_refused = True


def _replace_admission(run: Run, current: CallInProgress, decided: Admission) -> None:
    """Store another decision about a call. A call that was admitted and has not started is no longer counted."""
    if current.stage is _ADMITTED and not current.started:
        run.ledger.add_tool_calls(-1)
    _apply_admission(run, current, decided)


async def _count_blocked(run: Run) -> None:
    """For a policy that names this class: calls that were blocked or denied are errors."""
    for current in run.step.calls:
        result = current.result
        if current.seen or current.started:
            continue
        if result is None or result.is_success:
            on_success(run, ErrorClass.BLOCKED)
            continue
        if result.status not in _REFUSED:  # nobody has judged it: an unknown tool, say
            continue
        error = BlockedCallError(f"'{current.call.name}' was {result.status}: {result.reason}")
        known = run.source.known.call(run.step_index or 0, current.call.id).failures
        if known and known[0].error is not None:
            await repeat_recorded_failure(run, known[0], known[0].error, current.call)
            action = ErrorAction(known[0].action)
        else:
            action = (await on_error(run, error, ErrorClass.BLOCKED, call=current.call)).action
        if action is ErrorAction.STOP:
            run.step.fail(run.step.failing or error)


def _is_ending(run: Run) -> bool:
    return run.stopping or run.step.failing is not None or run.token.is_cancelled


def _has_failed(run: Run, ran: list[CallInProgress]) -> bool:
    """Whether the error policy has to hear of these calls: one failed, or they succeeded after a failure."""
    for current in ran:  # not any(): a generator costs more than the rest of this
        if current.exception is not None:
            return True
    return bool(run.state.counters.consecutive_errors)


async def _deal_with_failures(run: Run, ran: list[CallInProgress]) -> list[CallInProgress]:
    """Ask the error policy about failed calls; gives those that are safe to repeat and that it wants to run again."""
    again: list[CallInProgress] = []
    delay = 0.0
    for current in ran:
        if current.exception is None:
            on_success(run, ErrorClass.TOOL)
            continue
        wait = await _after_failure(run, current)
        if wait is not None:
            again.append(current)
            delay = max(delay, wait)
    if not again or _is_ending(run):
        return []
    if delay:
        await run.sleep(delay)
        run.clock()
    return again


async def _after_failure(run: Run, current: CallInProgress) -> float | None:
    """What the policy says about a failed call: seconds to wait before the next try, or None for no other try."""
    assert current.exception is not None
    assert current.tool is not None
    safe = current.tool.effect is not Effect.ONCE
    # A hook around a tool is part of the call: when it fails, the call has failed.
    of_hook = isinstance(current.exception, HookError) and current.exception.point != _AROUND
    error_class = ErrorClass.HOOK if of_hook else ErrorClass.TOOL
    decision = await on_error(
        run,
        current.exception,
        error_class,
        attempt=current.attempts if safe else None,
        call=current.call,
        can_rescue=not of_hook,
    )
    current.errors = (*current.errors, run.step.errors[-1])
    if decision.action is ErrorAction.RESCUE:
        assert current.result is not None
        current.result = msgspec.structs.replace(decision.value, duration=current.result.duration)
    if decision.action is ErrorAction.STOP:
        current.failure = current.exception
        run.step.fail(run.step.failing or current.exception)
    current.exception = None
    return decision.delay if decision.action is ErrorAction.RETRY and safe else None


def settle_all_unrun(run: Run) -> None:
    """The run ends here: every call that has no result yet gets one that says so."""
    for current in run.step.calls:
        if current.stage is not _SETTLED:
            _replace_admission(run, current, leave_unrun(run, current, _why_unrun(run)))


def _why_unrun(run: Run) -> str:
    if run.step.failing is not None:
        return f"the run failed first ({in_words(run.step.failing)})"
    if run.token.is_cancelled or not run.evaluations:
        return "the run was cancelled" + (f" ({run.token.why})" if run.token.why else "")
    return f"the run was stopped first ({run.evaluations[-1].reason})"


async def finish_calls(run: Run) -> None:
    """Show each settled call to the after_tool_use hooks, in call order, and record what came of it."""
    plan = run.plans.after_tool_use
    for current in run.step.calls:
        if current.stage is not _SETTLED or current.seen:
            continue
        if plan is not None:
            await _ask_after_tool_use(run, plan, current)
        if current.children:
            await _end_children(run, current)
        record_result(run, current)
        if plan is not None and current is not run.step.calls[-1]:
            run.durable.flush()  # hooks may take their time over the next one: this one is not in doubt


async def _ask_after_tool_use(run: Run, plan: Plan, current: CallInProgress) -> None:
    """The after_tool_use hooks. A call that did not run is shown to observers only."""
    ctx = tool_context(run, _AFTER, current, current.result)
    # Not what the result's status says: a tool may give a result with any status.
    ran = current.started and not current.is_refused
    decided: list[Result[Any]] = []
    try:
        if ran:
            result = await run.ask(plan, ctx, about=current.call.id, decided=decided.append)
            _settle_as(run, plan, current, result)
        elif plan.observers:
            await run.show(plan, ctx, _verdict(current), current.call.id)
    except asyncio.CancelledError:
        if decided:  # those who were still looking on have no say in it
            _settle_as(run, plan, current, decided[0])
        elif ran and plan.can_decide:
            _withhold(run, current)
        if current.children:
            await _end_children(run, current)
        record_result(run, current)
        raise


def _withhold(run: Run, current: CallInProgress) -> None:
    """The run is cancelled while hooks judge a result: not all of them have cleared it, so nobody gets to see it."""
    reason = "the run was cancelled before the hooks had seen it"
    current.result = current.result_with(ResultStatus.WITHHELD, reason=reason)
    _forget_errors(run, current)


def _settle_as(run: Run, plan: Plan, current: CallInProgress, result: Result[Any]) -> None:
    """The hooks are done with a call: what they leave of it is its result."""
    shown = current.result
    current.result = _settle_result(current, run.take(result))
    if not current.errors:
        return
    if current.result is not shown:
        _forget_errors(run, current)
    elif plan.can_decide:
        _drop_error_texts(run, current)


def _settle_result(current: CallInProgress, result: Any) -> ToolResult:
    """The result as the hooks leave it; one they withhold is not kept anywhere."""
    execution: ToolResult = result.context.execution
    refusal = result.refusal if result.kind >= _BLOCK else None
    if refusal is not None:
        reason, decided_by = refusal
        return current.result_with(
            ResultStatus.WITHHELD,
            reason=reason,
            decided_by=decided_by,
            duration=execution.duration,
        )
    if execution is not current.result:
        return msgspec.structs.replace(execution, call_id=current.call.id, name=current.call.name)
    return execution


def _drop_error_texts(run: Run, current: CallInProgress) -> None:
    """Drop the texts of failed tries: hooks accepted a later one and never saw these."""
    result = current.result
    assert result is not None
    if result.error == current.errors[-1]:
        return
    own = set(map(id, current.errors))
    errors = tuple(without_message(info) if id(info) in own else info for info in run.step.errors)
    run.step.replace_errors(errors)


def _forget_errors(run: Run, current: CallInProgress) -> None:
    """What hooks withheld or rewrote of a failed call is not kept in the errors of the step either."""
    result = current.result
    assert result is not None
    if not current.errors or result.error == current.errors[-1]:
        return
    kept: list[ErrorInfo] = []
    for info in run.step.errors:
        if not any(info is own for own in current.errors):
            kept.append(info)
    instead = result.error
    if instead is None and result.status is ResultStatus.WITHHELD:
        instead = ErrorInfo(type="withheld", message=result.reason, error_class=ErrorClass.TOOL)
    if current.failure is not None and current.failure is run.step.failing:
        # The run fails all the same, and says of what as far as the hooks let it.
        instead = instead or ErrorInfo(
            type="replaced", message=_REPLACED, error_class=ErrorClass.TOOL
        )
        run.step.fail(restore_exception(instead))
    run.step.replace_errors(tuple(kept) if instead is None else (*kept, instead))


def _verdict(current: CallInProgress) -> Verdict:
    """What was decided about a call that did not run: what observers see."""
    result = current.result
    assert result is not None
    reason = result.reason or str(result.error or "")
    return Verdict(_VERDICTS.get(result.status, Kind.PROCEED), reason, result.decided_by)


# --- calls of a step whose process died ------------------------------------------------------------------


async def _recall_calls(run: Run, index: RunIndex) -> None:
    """Settle the calls that had run, or had started, before the process died."""
    recalled: list[tuple[CallInProgress, RecordedCall]] = []
    for current in run.step.calls:
        if current.stage not in (_ADMITTED, CallStage.SUSPENDED):
            continue
        known = index.call(run.step_index or 0, current.call.id)
        result = known.result
        if result is not None:
            is_refusal = not current.started and known.intent is None
            has_run = not is_refusal and result.status is not ResultStatus.IN_DOUBT
            if not is_refusal:
                _intend(run, current)
                recalled.append((current, known))
                recount_children(run, current, known)
            _replace_admission(run, current, Admission(_SETTLED, result, has_run=has_run))
        elif (
            current.stage is _ADMITTED
            and (known.is_in_doubt or run.durable.is_after_loss)
            and must_not_repeat(run, current, known)
        ):
            _intend(run, current)
            decided = await decide_doubt(run, current)
            if decided is None:
                recalled.append((current, known))
                continue
            _apply_admission(run, current, decided)
            if decided.stage is _SETTLED:
                recount_children(run, current, known)
    await _recall_failures(run, recalled)


async def _recall_failures(run: Run, calls: list[tuple[CallInProgress, RecordedCall]]) -> None:
    """Fail these calls again as often as they had failed, with the error policy's recorded answers."""
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
    reported = result.error if result is not None else None
    if not info.message and reported is not None and reported.type == info.type:
        info = reported  # its words were not on record as long as hooks might have withheld them
    await repeat_recorded_failure(run, known, info, current.call)
    current.errors = (*current.errors, info)
    if known.action == ErrorAction.STOP:
        current.failure = restore_exception(info)


def _fail_as_before(run: Run) -> None:
    """A call on record had ended the run: only now, because those beside it had started too."""
    failures = [current.failure for current in run.step.calls if current.failure is not None]
    if failures and (
        run.step.failing is None or any(run.step.failing is each for each in failures)
    ):
        run.step.fail(failures[0])


# --- running admitted calls -----------------------------------------------------------------------------


def _intend(run: Run, current: CallInProgress) -> None:
    """Write down that a call is about to run, once, however often it is tried."""
    current.attempts += 1
    if current.started:
        return
    current.started = True
    run.uncounted.add_call()
    tool = current.tool
    append = run.append
    append(
        CallAdmitted(
            run_id=run.run_id,
            seq=next(run.numbers),
            at=run.at,
            step=run.step_index or 0,
            call=current.call,
            # Without a tool it ran in a process that died.
            effect=Effect.ONCE if tool is None else tool.effect,
        )
    )


async def _end_children(run: Run, current: CallInProgress) -> None:
    """End the children of a call that is settled without them, before that is recorded."""
    if current.stage is _SETTLED and not current.seen:
        await abandon_children(run, current)


def record_result(run: Run, current: CallInProgress) -> None:
    """Record what came of a call, once it is settled and the hooks have seen it."""
    if current.stage is _SETTLED and not current.seen:
        current.seen = True
        assert current.result is not None
        append = run.append
        append(
            CallSettled(
                run_id=run.run_id,
                seq=next(run.numbers),
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


class _Batch:
    """Calls that run beside each other. One that waits for a place has no intent yet, so it cannot be in doubt."""

    def __init__(self, run: Run, calls: list[CallInProgress]) -> None:
        self._run = run
        self._calls = calls
        self._places = {
            current.tool.name: asyncio.Semaphore(current.tool.concurrency)
            for current in calls
            if current.tool is not None and current.tool.concurrency is not None
        }
        # A process that dies while one call is running must not put the others in doubt, which are done. If none is
        # running any more, the run continues at once, and its next write has them all.
        self._at_once = run.commit is not None and run.plans.after_tool_use is None
        self._running = len(calls)

    async def execute(self) -> None:
        """Run all of them. Those that have a place share one commit, before any of them starts."""
        run = self._run
        starting: list[CallInProgress] = []
        waiting: list[tuple[CallInProgress, asyncio.Semaphore]] = []
        for current in self._calls:
            place = self._places.get(current.call.name)
            if place is not None and place.locked():
                waiting.append((current, place))
                continue
            if place is not None:
                await place.acquire()  # it is free, so this does not wait
            starting.append(current)
            _intend(run, current)
        if run.commit is not None:
            await run.commit()
        tasks = [asyncio.create_task(self._execute_and_release(current)) for current in starting]
        tasks += [asyncio.create_task(self._execute_in_turn(*each)) for each in waiting]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error  # an intent could not be written
        run.durable.flush_soon()

    async def _execute_in_turn(self, current: CallInProgress, place: asyncio.Semaphore) -> None:
        run = self._run
        await place.acquire()
        try:
            _intend(run, current)
            if run.commit is not None:
                await asyncio.sleep(0)  # others that start now share the commit
                await run.commit()
        except BaseException:
            place.release()
            raise
        await self._execute_and_release(current)

    async def _execute_and_release(self, current: CallInProgress) -> None:
        """Run a call that has a place, and release the place."""
        run, place = self._run, self._places.get(current.call.name)
        try:
            try:
                await execute_call(run, current)
            finally:
                if place is not None:
                    place.release()
            if self._at_once and current.exception is None:
                if current.children:
                    await _end_children(run, current)
                record_result(run, current)
                asyncio.get_running_loop().call_soon(self._keep)
        finally:
            self._running -= 1

    def _keep(self) -> None:
        if self._running:
            self._run.durable.flush()


async def execute_call(run: Run, current: CallInProgress) -> None:
    """Run one call. Whatever happens, it has a result afterwards, or waits for a child."""
    started = run.now
    try:
        if run.plans.around_tool_use is None:
            value = await run.source.use(run, current, _use_tool)
            result = as_result(run, current.call, value, started)
        else:
            result = await _through_hooks(run, current)
    except ChildPaused as paused:
        current.stage = CallStage.SUSPENDED
        current.child_approvals = paused.approvals
        run.step.wait()
        return
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        current.result = result = _failure_result(run, current, error, started)
        current.stage = _SETTLED
        if result.status is ResultStatus.CANCELLED:
            raise
    else:
        current.result = result
        current.stage = _SETTLED


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
            raise RepeatError(
                f"it called '{current.call.name}' a second time, and its effect is 'once'.",
                remedy="Declare the tool pure or idempotent, or call call_next once.",
            )
        if ctx.tool_call is not current.exact:
            decided = await rejudge(run, current, ctx.tool_call)
            if decided.result is not None:
                refusal = refusal if decided.has_run else decided.result
                return decided.result
        runs += 1
        return await _use_and_catch(run, current)

    run.clock()  # the duration of the call begins here
    ctx = tool_context(run, HookPoint.AROUND_TOOL_USE, current)
    before = run.begin_asking(current.call.id)
    try:
        result = await run_around(plan.hooks, ctx, use, run, _check_same_call, _check_tool_result)
    finally:
        run.end_asking(before)
    current.is_refused = runs == 0 and result is refusal
    if result.is_success:
        current.exception = current.failed_hook  # a hook dealt with what the tool failed of
    call = current.call
    return msgspec.structs.replace(result, call_id=call.id, name=call.name)


def _check_same_call(
    entry: Entry, before: ToolHookContext, after: ToolHookContext
) -> ToolHookContext:
    refuse_other_call(entry, before, after.tool_call)
    return after


def _check_tool_result(entry: Entry, given: object, _: object) -> ToolResult:
    result = check_kind(entry, HookPoint.AROUND_TOOL_USE, given, ToolResult)
    return check_result(result, f"hook '{entry.name}'")


def as_result(run: Run, call: ToolCall, value: Any, started: float) -> ToolResult:
    """What a tool gave, as the result of its call."""
    now = run.clock()
    if type(value) is not str and type(value) in _MAY_HOLD_FILES:
        value = _with_files(value, call.name)
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


def _with_files(value: Any, name: str) -> Any:
    """What a tool gave, as a result with attachments if some are in it: alone, or in a list beside text."""
    parts = [value] if type(value) is Attachment else value
    files = tuple(part for part in parts if type(part) is Attachment)
    if not files:
        return value
    rest: list[Any] = [part for part in parts if type(part) is not Attachment]
    is_text = all(type(part) is str for part in rest)
    return ToolResult("\n".join(rest) if is_text else rest, name=name, attachments=files)


async def _use_and_catch(run: Run, current: CallInProgress) -> ToolResult:
    """The tool as hooks around it see it: what it raises is a result with an error."""
    started = run.now
    current.exception = None
    try:
        return as_result(run, current.call, await run.source.use(run, current, _use_tool), started)
    except ChildPaused:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        result = _failure_result(run, current, error, started)
        if result.status is ResultStatus.CANCELLED:
            raise
        return result


def _use_tool(run: Run, current: CallInProgress) -> Awaitable[Any]:
    """The tool itself."""
    tool, values = current.tool, current.values
    assert tool is not None  # an admitted call has its tool
    exact = current.original or current.call
    if exact.redacted and has_lost_arguments(run, current):
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


def _failure_result(
    run: Run, current: CallInProgress, error: BaseException, started: float
) -> ToolResult:
    """What to make of an exception: a cancelled call, or a failed one, whose exception the error hooks get to see."""
    duration = run.clock() - started
    if isinstance(error, asyncio.CancelledError) and (is_being_cancelled() or run.is_cancelled):
        reason = "the run was cancelled while this call was running; what it did is not known"
        return current.result_with(ResultStatus.CANCELLED, reason=reason, duration=duration)
    current.exception = error
    info = ErrorInfo.from_exception(error, ErrorClass.TOOL)
    return current.result_with(ResultStatus.ERROR, error=info, duration=duration)
