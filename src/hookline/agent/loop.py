"""The loop. It walks the lifecycle and asks the hooks; it has no behaviour of its own.

Run, stream, step by step, resumed, as a child: every way of driving an agent comes through `drive`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

import msgspec

from hookline.agent.aside import Aside
from hookline.agent.child import recount_asides
from hookline.agent.ending import finish, give_output
from hookline.agent.failure import on_error
from hookline.agent.past_errors import past_error
from hookline.agent.recall import Memory
from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.agent.step import (
    begin_step,
    finish_step,
    open_step,
    pend_step,
    reopen_step,
    settle_step,
)
from hookline.agent.tool_phase import (
    finish_calls,
    settle_unrun,
    use_tools,
    use_tools_again,
)
from hookline.agent.turn import Unrecovered, take_turn
from hookline.agent.unasked import is_unasked, judges_calls, take_turn_unasked
from hookline.errors import HookError, PastError, in_words
from hookline.flow import ErrorAction, classify
from hookline.hooks import Kind, Plan, Point, Result
from hookline.journal import PromptSubmitted, RunStarted, RunTakenUp, StepFinished
from hookline.lifecycle import (
    ExecutionHookContext,
    HookPoint,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
)
from hookline.state import (
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Ending,
    RunStatus,
    Step,
    StopReason,
    UserMessage,
)


def drive(run: Run, prompt: str | UserMessage | None) -> Awaitable[RunResult]:
    """Drive a run to its end, whatever that is."""
    return _watched(run, prompt) if run.definition.cancel_sources else _drive(run, prompt)


async def _watched(run: Run, prompt: str | UserMessage | None) -> RunResult:
    with contextlib.ExitStack() as watches:
        return await _drive(run, prompt, watches)


async def _drive(
    run: Run, prompt: str | UserMessage | None, watches: contextlib.ExitStack | None = None
) -> RunResult:
    run.token.attach()
    run.make_aside = Aside
    run.is_unasked, run.judges_calls = is_unasked(run), judges_calls(run)
    run.ledger.started = run.clock()  # until now it was waiting to be driven
    cancelled: asyncio.CancelledError | None = None
    output: Any = None
    try:
        try:
            if watches is not None:
                for source in run.definition.cancel_sources:
                    watches.callback(source.watch(run.token.cancel))
            ending = await (
                _begin(run, prompt) if run.memory is None else _take_up(run, run.memory)
            )
            while ending is None:
                ending = await _step(run)
                if run.on_step is not None and run.state.step_count > (run.step_index or 0):
                    run.lingers = ending is not None
                    await _wait_for_caller(run)
            output, ending = await give_output(run, _unless_it_waits(run, ending))
        except Exception as error:
            ending = await _lost(run, error)
    except asyncio.CancelledError as error:
        cancelled = None if run.token.absorb() else error
        ending = _cancelled(run)
    run.token.close()
    result = await finish(run, _unless_it_waits(run, ending), output)
    if cancelled is not None:
        raise cancelled  # whoever cancelled the task, and not the run, is owed this
    return result


def _cancelled(run: Run) -> Ending:
    """How it ended from outside; if that was a clock, it reached a limit, as if it had been between two steps."""
    if run.token.is_out_of_time:
        return Ending(RunStatus.STOPPED, StopReason.TIME_LIMIT, run.token.why)
    return Ending(RunStatus.CANCELLED, StopReason.CANCELLED, run.token.why)


def _unless_it_waits(run: Run, ending: Ending) -> Ending:
    """How it ended. What was kept from going on when it was resumed waits as before, and can be resumed again."""
    if run.state.pending_step is None:
        return ending
    return msgspec.structs.replace(ending, status=RunStatus.PAUSED)


async def _wait_for_caller(run: Run) -> None:
    """Show the state to whoever drives step by step. The time until they ask for more is theirs, not the run's."""
    since = run.clock()
    try:
        await run.on_step(run.state)
    finally:
        run.ledger.started += run.clock() - since
        run.lingers = False


# --- the beginning ------------------------------------------------------------------------------------


async def _begin(run: Run, prompt: str | UserMessage | None) -> Ending | None:
    state = run.state
    pending = state.pending_step
    run.append(
        RunStarted(
            *run.head(),
            state.agent_id,
            state.session_id,
            state.parent_run_id,
            run.resumed,
            None
            if _is_bare(state) or run.durable.records
            else msgspec.json.decode(state.to_json()),
            parent_agent_id=state.parent_agent_id,
        )
    )
    run.state = msgspec.structs.replace(state, ending=None)
    refused = await _start_session(run) or await _start(run)
    if refused is None and prompt is not None and not run.stopping:
        refused = await _submit(run, prompt)
    if refused is None:
        refused = _forbidden_early(run)
    if run.commit is not None and refused is None:
        # From here on the run exists, and whoever takes it up goes on from here. One that is refused is only
        # written with its end: nobody is to make the steps that were refused.
        await run.commit()
    if refused is None and pending is not None:
        return await _resume_step(run)
    return refused


async def _take_up(run: Run, memory: Memory) -> Ending | None:
    """Go on with a run whose process died: with its way out, its unfinished step, or the next one."""
    run.durable.append(RunTakenUp(run.run_id, len(run.durable.records), run.at))
    run.state = msgspec.structs.replace(run.state, ending=None)
    recount_asides(run, memory)
    known = memory.ending()
    if known is not None:
        if known.status is RunStatus.FAILED:
            run.error = _past_failure(run, memory, known.reason)
        return known
    if run.state.pending_step is not None:
        return await _resume_step(run)
    last = _last_step(run)
    if last is not None and last.outcome is not None and not last.outcome.should_continue:
        run.evaluations = last.outcome.evaluations
        return _ended_then(run, memory, last.outcome)
    return None


def _last_step(run: Run) -> Step | None:
    """The last step since the run began, or was sent back to work: what an earlier one led to is over."""
    for record in reversed(run.durable.records):
        if isinstance(record, StepFinished):
            return run.state.last_step
        if isinstance(record, RunStarted):
            break
    return None


def _ended_then(run: Run, memory: Memory, outcome: ContinuationOutcome) -> Ending:
    """How the last step ended the run, in a process that did not live to say so."""
    if outcome == ContinuationOutcome.from_evaluations(outcome.evaluations):
        return _ended(outcome)
    if outcome.stop_reason is StopReason.CANCELLED:
        return Ending(RunStatus.CANCELLED, StopReason.CANCELLED, outcome.reason)
    return _failed(run, _past_failure(run, memory, outcome.reason))


def _past_failure(run: Run, memory: Memory, reason: str) -> Exception:
    """The exception that a run had failed of, from what is on record of it."""
    last = run.state.last_step if run.state.step_count else None
    for info in (*memory.errors(), *(last.errors[::-1] if last is not None else ())):
        if info.message == reason or (not info.message and info.type.endswith(reason)):
            return past_error(info)
    return PastError("unknown", reason)


def _is_bare(state: AgentState) -> bool:
    """Whether a state says nothing but whose it is."""
    return not (state.messages or state.metadata or state.steps or state.remembered)


async def _start_session(run: Run) -> Ending | None:
    plan = run.plans.session_start
    if plan is None or not run.starts_session:
        return None
    ctx = SessionHookContext(
        point=HookPoint.SESSION_START,
        state=run.state,
        live=run,
        session_id=run.state.session_id,
        source=run.session_source,
    )
    await run.ask(plan, ctx)
    return None


async def _start(run: Run) -> Ending | None:
    plan = run.plans.execution_start
    if plan is None:
        return None
    ctx = ExecutionHookContext(
        point=HookPoint.EXECUTION_START,
        state=run.state,
        evaluations=run.evaluations,
        live=run,
        resumed=run.resumed,
    )
    result = await run.ask(plan, ctx)
    if result.is_blocked:
        return Ending(RunStatus.STOPPED, StopReason.RUN_REFUSED, result.reason, result.decided_by)
    return None


async def _submit(run: Run, submitted: str | UserMessage) -> Ending | None:
    message = UserMessage(submitted) if isinstance(submitted, str) else submitted
    prompt, attachments = message.text, message.attachments
    plan = run.plans.prompt_submit
    if plan is not None:
        ctx = PromptHookContext(
            point=HookPoint.PROMPT_SUBMIT,
            state=run.state,
            evaluations=run.evaluations,
            live=run,
            prompt=prompt,
            attachments=attachments,
        )
        result = await run.ask(plan, ctx)
        if result.is_blocked:
            return Ending(
                RunStatus.STOPPED, StopReason.PROMPT_REFUSED, result.reason, result.decided_by
            )
        if result.is_stopped:
            return None  # the evaluation it left ends the run, and the prompt is not taken
        prompt, attachments = result.context.prompt, result.context.attachments
    run.state = run.state.with_user_message(prompt, attachments=attachments)
    run.append(PromptSubmitted(*run.head(), prompt, attachments))
    return None


def _forbidden_early(run: Run) -> Ending | None:
    """What hooks said before the first step is resolved before it: there is no step to let finish."""
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    if not outcome.is_forbidden:
        return None
    return Ending(
        RunStatus.STOPPED,
        outcome.stop_reason or StopReason.HOOK,
        outcome.reason,
        outcome.resolved_by or "",
    )


# --- one step -----------------------------------------------------------------------------------------


def _step(run: Run) -> Awaitable[Ending | None]:
    """One step, from before_step to the decision whether there is another."""
    if run.token.is_cancelled:
        raise asyncio.CancelledError
    open_step(run)
    plan = run.plans.before_step
    guard = ""
    if plan is not None:
        if plan.brief is None or plan.brief(run) is not None:
            return _ask_first(run, plan)
        guard = plan.guard
    begin_step(run, guard)
    return _work(run, again=False)


async def _ask_first(run: Run, plan: Plan) -> Ending | None:
    ctx = StepHookContext(
        point=HookPoint.BEFORE_STEP, state=run.state, live=run, step_index=run.step_index or 0
    )
    try:
        result = await _ask_in_step(run, plan, ctx)
    except Unrecovered as error:
        return _failed(run, error.exception)
    if result is not None and result.kind is not Kind.PROCEED:
        return await _refused(run, result)
    begin_step(run)
    return await _work(run, again=False)


async def _ask_in_step(run: Run, plan: Plan, ctx: Any) -> Result[Any] | None:
    """Ask the hooks of a point inside a step. None: one of them failed, and the error policy lets that be."""
    try:
        return await run.ask(plan, ctx)
    except HookError as error:
        decision = await on_error(run, error, classify(error))
        if decision.action is ErrorAction.STOP:
            raise Unrecovered(error, decision.action) from error
        return None


async def _refused(run: Run, result: Result[StepHookContext]) -> Ending | None:
    """A hook did not let the step begin."""
    if result.is_blocked:
        return Ending(RunStatus.STOPPED, StopReason.STEP_REFUSED, result.reason, result.decided_by)
    return await _conclude(run, None)


async def _resume_step(run: Run) -> Ending | None:
    pending = run.state.pending_step
    assert pending is not None
    reopen_step(run, pending)
    return await _work(run, again=True)


async def _work(run: Run, *, again: bool) -> Ending | None:
    """The turn and its tool calls. Whatever happens in here, the step is settled and after_step runs."""
    failure: BaseException | None = None
    try:
        try:
            if again:
                await use_tools_again(run)
            elif run.is_unasked:
                await take_turn_unasked(run)
            else:
                await take_turn(run)
                if run.response is not None and run.response.calls:
                    await use_tools(run)
        except Unrecovered as error:
            failure = error.exception if error.action is ErrorAction.STOP else None
            if failure is None:
                _go_on_after(run, error.exception)
        except Exception as error:
            failure = await _decide(run, error)
            if failure is None:
                settle_unrun(run)
                await finish_calls(run)
        if run.waiting and run.stopping:  # a hook ended the run while a child began to wait
            settle_unrun(run)
            await finish_calls(run)
    except asyncio.CancelledError:
        await _cut_short(run)
        raise
    if run.token.is_cancelled:
        await _cut_short(run)
        raise asyncio.CancelledError
    failure = failure or run.failing
    if failure is not None:
        return await _fail_step(run, failure)
    if run.waiting and not run.stopping:
        pend_step(run)
        return Ending(RunStatus.PAUSED, StopReason.APPROVAL_PENDING, _questions(run))
    plan = run.plans.should_continue
    if plan is not None and plan.brief is not None and not run.evaluations:
        outcome: ContinuationOutcome = plan.brief(run)
        if run.plans.after_step is None and (outcome.should_continue or run.plans.stop is None):
            # Nobody is to look at the step before its outcome is known: it is settled in one go.
            run.evaluations = outcome.evaluations
            settle_step(run, outcome, plan.guard)
            return None if outcome.should_continue else _ended(outcome)
    step = settle_step(run)
    try:
        await _after_step(run, step)
        return await _conclude(run, step)
    except asyncio.CancelledError:
        finish_step(run, step, _no_outcome(run, StopReason.CANCELLED, run.token.why))
        raise
    except Unrecovered as error:
        finish_step(run, step, _no_outcome(run, StopReason.ERROR, in_words(error.exception)))
        return _failed(run, error.exception)


def _no_outcome(run: Run, reason: StopReason, why: str) -> ContinuationOutcome:
    """The outcome of a step that ended before its evaluations were resolved."""
    return ContinuationOutcome(False, reason, None, why, run.evaluations)


async def _cut_short(run: Run) -> None:
    """The run was cancelled in the middle of a step: give every call its result, and run what comes after."""
    run.token.close()
    await _end_step(run, StopReason.CANCELLED, run.token.why)


async def _fail_step(run: Run, failure: BaseException) -> Ending:
    run.failing = failure
    await _end_step(run, StopReason.ERROR, in_words(failure))
    return _failed(run, failure)


async def _end_step(run: Run, reason: StopReason, why: str) -> None:
    """Settle a step that ended early. Its hooks are all asked, also when one of them is interrupted."""
    interrupted: asyncio.CancelledError | None = None
    settle_unrun(run)
    while True:
        try:
            await finish_calls(run)
            break
        except asyncio.CancelledError as error:  # that call is settled; there may be others
            interrupted = error
    step = settle_step(run)
    try:
        await _after_step(run, step)
    except asyncio.CancelledError as error:
        interrupted = error
    except Unrecovered:
        pass  # it is on record; what ended the step stays the reason
    finish_step(run, step, _no_outcome(run, reason, why))
    if interrupted is not None:
        raise interrupted


async def _decide(run: Run, error: BaseException) -> BaseException | None:
    """An exception out of a step's hooks: the policy decides whether it is the end. Gives the failure if it is."""
    decision = await on_error(run, error, classify(error))
    if decision.action is ErrorAction.STOP:
        return error
    _go_on_after(run, error)
    return None


def _go_on_after(run: Run, error: BaseException) -> None:
    """The policy lets the run go on after an error that cost it its turn: the model gets another."""
    why = f"the last step failed: {in_words(error)}"
    said = ContinuationEvaluation("error-policy", ContinuationDecision.REQUEST_CONTINUATION, why)
    run.evaluate(said, HookPoint.ERROR.value)


def _questions(run: Run) -> str:
    names = ", ".join(sorted({approval.tool_call.name for approval in run.state.pending}))
    return f"waiting for an answer about {names}"


async def _after_step(run: Run, step: Step) -> None:
    if run.commit is not None and run.flights:
        run.durable.flush()  # however long the hooks of the step's end take, its calls are not in doubt
    plan = run.plans.after_step
    if plan is not None:
        ctx = StepHookContext(
            point=HookPoint.AFTER_STEP,
            state=run.state,
            evaluations=run.evaluations,
            live=run,
            step_index=step.index,
            step=step,
        )
        await _ask_in_step(run, plan, ctx)


# --- whether to go on ---------------------------------------------------------------------------------


async def _conclude(run: Run, step: Step | None) -> Ending | None:
    """Ask should_continue, resolve everything hooks have said, and ask the stop hooks if that means stopping."""
    plan = run.plans.should_continue
    if plan is not None and step is not None:
        await _ask_in_step(run, plan, _stop_context(run, HookPoint.SHOULD_CONTINUE, step))
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    if not outcome.should_continue and run.plans.stop is not None:
        outcome = await _ask_to_stop(run, run.plans.stop, step, outcome)
    if step is not None:
        if outcome.should_continue and step.is_final_response:
            _tell_model_why(run, outcome)
        finish_step(run, step, outcome)
    return None if outcome.should_continue else _ended(outcome)


def _stop_context(run: Run, point: Point[StopHookContext], step: Step | None) -> StopHookContext:
    return StopHookContext(
        point=point,
        state=run.state,
        evaluations=run.evaluations,
        live=run,
        continuation=ContinuationOutcome.from_evaluations(run.evaluations),
        step=step,
    )


async def _ask_to_stop(
    run: Run, plan: Plan, step: Step | None, outcome: ContinuationOutcome
) -> ContinuationOutcome:
    """The stop hooks: they may object to an ordinary end, so often and no more, and never to a guard's."""
    result = await _ask_in_step(run, plan, _stop_context(run, HookPoint.STOP, step))
    if result is not None and result.is_blocked:
        run.evaluate(
            ContinuationEvaluation(
                result.decided_by, ContinuationDecision.REQUEST_CONTINUATION, result.reason
            ),
            HookPoint.STOP.value,
        )
    revised = ContinuationOutcome.from_evaluations(run.evaluations)
    if outcome.is_forbidden or not revised.should_continue:
        return revised if revised.is_forbidden else outcome
    counters = run.state.counters
    if counters.objections >= run.definition.max_objections:
        cap = f"stop hooks objected {counters.objections} times, which is the limit; the last: {revised.reason}"
        forbid = ContinuationEvaluation(
            "objections", ContinuationDecision.FORBID_CONTINUATION, cap, StopReason.OBJECTION_LIMIT
        )
        run.evaluate(forbid, HookPoint.STOP.value)
        return ContinuationOutcome.from_evaluations(run.evaluations)
    counters = msgspec.structs.replace(counters, objections=counters.objections + 1)
    run.state = msgspec.structs.replace(run.state, counters=counters)
    return revised


def _tell_model_why(run: Run, outcome: ContinuationOutcome) -> None:
    """When the model was done and a hook wants more, the model reads why."""
    request = ContinuationDecision.REQUEST_CONTINUATION
    reasons = dict.fromkeys(
        (said.reason, said.source) for said in outcome.evaluations if said.decision is request
    )
    notes = tuple(UserMessage(reason, source) for reason, source in reasons if reason)
    run.state = run.state.with_messages(run.state.messages.extend(notes))


def _ended(outcome: ContinuationOutcome) -> Ending:
    status = RunStatus.STOPPED if outcome.is_forbidden else RunStatus.COMPLETED
    reason = outcome.stop_reason or StopReason.COMPLETED
    return Ending(status, reason, outcome.reason, outcome.resolved_by or "")


# --- when the run is lost -----------------------------------------------------------------------------


async def _lost(run: Run, error: BaseException) -> Ending:
    """An exception that no step could deal with: the error hooks hear of it, and the run fails."""
    await on_error(run, error, classify(error), is_lost=True)
    return _failed(run, error)


def _failed(run: Run, error: BaseException) -> Ending:
    run.error = error
    decided_by = error.hook if isinstance(error, HookError) else ""
    return Ending(
        RunStatus.FAILED, StopReason.ERROR, in_words(error) or type(error).__name__, decided_by
    )
