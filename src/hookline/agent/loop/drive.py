"""The loop: runs the lifecycle of a run (begin, steps, output, end) and asks the hooks at each point.

`drive` is the one way in: `run`, `stream`, `iterate`, `resume` and child runs all call it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.agent.calls.execution import (
    finish_calls,
    settle_all_unrun,
    use_tools,
)
from hookline.agent.children import recount_hook_work
from hookline.agent.error_handling import UnrecoveredError, ask_in_step, on_error
from hookline.agent.loop.step import (
    begin_step,
    finish_step,
    number_step,
    open_step,
    pend_step,
    record_wrapped_step,
    reopen_step,
    return_to_step,
    settle_step,
)
from hookline.agent.loop.stop import (
    cancel_ending,
    check_early_forbid,
    conclude,
    failure_ending,
    finish,
    give_output,
    outcome_ending,
    refusal_ending,
)
from hookline.agent.loop.turn import take_turn
from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.agent.run_index import (
    AT_THE_END,
    MADE_AGAIN,
    RunIndex,
    hook_error_of,
    restore_exception,
)
from hookline.agent.services import provide_services
from hookline.errors import HookError, PastError, RunHandedOverError, in_words
from hookline.flow import ErrorAction, ErrorClass, classify
from hookline.hooks import Entry, Plan, Result, run_hooks
from hookline.hooks.outcome import check_change
from hookline.hooks.run import RepeatError, run_around
from hookline.journal import (
    RECORD_VERSION,
    PromptSubmitted,
    Record,
    RunHandedOver,
    RunReopened,
    RunStarted,
    RunTakenUp,
    StatusChanged,
    StepFinished,
)
from hookline.journal.record import start_of
from hookline.lifecycle import HookPoint, StepHookContext
from hookline.state import (
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Ending,
    ErrorInfo,
    RunStatus,
    Step,
    StopReason,
    UserMessage,
)


async def drive(run: Run, prompt: str | UserMessage | None) -> RunResult:
    """Drive a run to its end, whatever that is, or leave it to another process."""
    try:
        return await _drive_to_end(run, prompt)
    except RunHandedOverError:
        # Nothing is written: to the journal this process is dead.
        run.durable.drop_held()
        run.durable.tell(RunHandedOver(run.run_id, len(run.durable.records), run.at))
        raise


async def _drive_to_end(run: Run, prompt: str | UserMessage | None) -> RunResult:
    run.token.attach()
    provide_services(run)
    run.ledger.start(run.clock())
    cancelled: asyncio.CancelledError | None = None
    output: Any = None
    with contextlib.ExitStack() as watches:
        try:
            try:
                for each in run.setup.definition.cancel_sources:
                    watches.callback(each.watch(run.token.cancel))
                if run.inbox is not None and run.parent is None:
                    watches.callback(run.inbox.watch(run.token.cancel))
                begun = await (
                    resume_after_crash(run) if run.source.is_after_crash else begin(run, prompt)
                )
                ending = await _steps(run, begun)
                if begun is None and run.commit is not None and _has_hooks_at_end(run):
                    # Whoever has lost the run learns it here, and asks none of them.
                    await run.commit()
                output, ending = await give_output(run, _paused_if_pending(run, ending))
            except RunHandedOverError:
                raise
            except Exception as error:
                ending = await _fail_run(run, error)
        except asyncio.CancelledError as error:
            cancelled = None if run.token.uncancel_task() else error
            ending = cancel_ending(run)
        run.token.close()
        run.check_claim()
        result = await finish(run, _paused_if_pending(run, ending), output)
    if cancelled is not None:
        raise cancelled  # the task was cancelled, not the run: its caller expects this error
    return result


async def _steps(run: Run, ending: Ending | None) -> Ending:
    """Make steps until the run ends, if it has not ended already."""
    check_step = run.source.check_step
    if ending is None and check_step is not None:
        ending = await check_step(run, None)
    is_wrapped = run.plans.around_step is not None
    if ending is None and run.state.pending_step is not None:
        ending = await (make_wrapped_step(run, _resume_step) if is_wrapped else _resume_step(run))
        if check_step is not None:
            ending = await check_step(run, ending)
    while ending is None:
        if run.token.is_handed_over:
            raise RunHandedOverError(f"run '{run.run_id}' is left to another process.")
        ending = await (make_wrapped_step(run, _step) if is_wrapped else _step(run))
        on_step = run.on_step
        if on_step is not None and run.state.step_count > (run.step_index or 0):
            run.is_showing_last_step = ending is not None
            await _wait_for_caller(run, on_step)
        if check_step is not None:
            ending = await check_step(run, ending)
    return ending


def _has_hooks_at_end(run: Run) -> bool:
    return any(getattr(run.plans, point) for point in AT_THE_END)


def _paused_if_pending(run: Run, ending: Ending) -> Ending:
    """The ending. It is a pause if the step of a resumed run still waits: the run can be resumed again."""
    if run.state.pending_step is None:
        return ending
    return msgspec.structs.replace(ending, status=RunStatus.PAUSED)


async def _wait_for_caller(run: Run, on_step: Callable[[AgentState], Awaitable[None]]) -> None:
    """Show the state to whoever drives step by step. The time until they ask for more is theirs, not the run's."""
    since = run.clock()
    try:
        await on_step(run.state)
    finally:
        run.ledger.leave_out(run.clock() - since)
        run.is_showing_last_step = False


# --- how it begins, and how one continues whose process has died -------------------------------------


async def begin(run: Run, prompt: str | UserMessage | None) -> Ending | None:
    """Write that it begins, and ask the hooks whether it may. Gives how it ended, if it may not."""
    state = run.state
    continues = run.setup.continues
    has_initial = not (continues or start_of(run.durable.records) or _is_bare(state))
    run.append(
        RunStarted(
            *run.record_head(),
            agent_id=state.agent_id,
            session_id=state.session_id,
            parent_run_id=state.parent_run_id,
            resumed=run.is_resumed,
            initial=msgspec.json.decode(state.to_json()) if has_initial else None,
            version=RECORD_VERSION,
            parent_agent_id=state.parent_agent_id,
            continues=continues.earlier if continues is not None else None,
            changes=tuple(map(dict, continues.changes)) if continues is not None else (),
            agent_version=run.setup.definition.version,
        )
    )
    run.set_state(msgspec.structs.replace(state, ending=None))
    await _start_session(run)
    refused = await _start(run)
    if refused is None and prompt is not None and not run.stopping:
        refused = await _submit(run, prompt)
    if refused is None:
        refused = check_early_forbid(run)
    if run.commit is not None and refused is None:
        # From here on the run exists, and whoever resumes it continues from here. One that is refused is only
        # written with its end: nobody is to make the steps that were refused.
        await run.commit()
    return refused


async def resume_after_crash(run: Run) -> Ending | None:
    """Continue a run whose process died: with its end, its unfinished step, or the next one."""
    durable, version = run.durable, run.setup.definition.version
    durable.append(
        RunTakenUp(
            run_id=run.run_id,
            seq=len(durable.records),
            at=run.at,
            agent_version=version,
            after_loss=durable.is_after_loss,
        )
    )
    if run.commit is not None:  # whoever counts how often it was taken up must see this one too
        await run.commit()
    run.set_state(msgspec.structs.replace(run.state, ending=None))
    known = run.source.known
    recount_hook_work(run, known)
    # The last step ended the run only if no other began after it: a hook around it may have made another.
    is_in_step = run.state.pending_step is not None or bool(known.begun)
    last = None if is_in_step else _last_step(run)
    outcome = None if last is None else last.outcome
    if last is not None and outcome is not None and not outcome.should_continue:
        return_to_step(run, last.index)
        run.replace_evaluations(outcome.evaluations)
    else:
        outcome = None
    ending = known.ending
    if ending is not None:
        return_to_step(run, _step_at_end(run.durable.records))
        if ending.status is RunStatus.FAILED:
            run.set_error(_past_failure(run, known, ending.reason))
        return ending
    if outcome is not None:
        return _past_ending(run, known, outcome)
    if run.parent is not None or run.plans.execution_start is None:
        return None
    return await ask_again(run, run.plans.execution_start.of_each_process())


async def ask_again(run: Run, plan: Plan) -> Ending | None:
    """Ask the hooks whose work was lost with a process, before the unfinished step is repeated."""
    if not plan:
        return None
    ctx = run.context(HookPoint.EXECUTION_START, resumed=True)
    # Not through the source: what they answered in another process does not count here.
    run.take(await run_hooks(plan, ctx, run, run.settle))
    return check_early_forbid(run)


def _last_step(run: Run) -> Step | None:
    """The last step since the run began, or was sent back to work: what an earlier one led to is over."""
    for record in reversed(run.durable.records):
        if isinstance(record, StepFinished):
            return run.state.last_step
        if isinstance(record, RunStarted):
            break
    return None


def _step_at_end(records: Iterable[Record]) -> int | None:
    """The step in which the process was that decided how the run ends; None if it had begun none."""
    found, is_over = None, False
    for record in records:
        if isinstance(record, RunStarted | RunReopened):
            found, is_over = None, False
        elif isinstance(record, StatusChanged):
            is_over = True
        elif isinstance(record, RunTakenUp) and not is_over:
            found = None
        elif not is_over:
            step = getattr(record, "step", None)
            index = step.index if isinstance(step, Step) else step
            found = found if index is None else index
    return found


def _past_ending(run: Run, known: RunIndex, outcome: ContinuationOutcome) -> Ending:
    """How the last step ended the run. The process died before it recorded that."""
    if outcome == ContinuationOutcome.from_evaluations(outcome.evaluations):
        return outcome_ending(outcome)
    if outcome.stop_reason is StopReason.CANCELLED:
        return Ending(RunStatus.CANCELLED, StopReason.CANCELLED, outcome.reason)
    return failure_ending(run, _past_failure(run, known, outcome.reason))


def _past_failure(run: Run, known: RunIndex, reason: str) -> Exception:
    """The exception that a run had failed of, from what is on record of it."""
    last = run.state.last_step if run.state.step_count else None
    for info in (*reversed(known.raised), *(last.errors[::-1] if last is not None else ())):
        if info.message == reason or (not info.message and info.type.endswith(reason)):
            return restore_exception(info)
    # The words of a call's error may be withheld there, and those of a hook are the reason itself.
    return hook_error_of(ErrorInfo("", reason)) or PastError("unknown", reason)


def _is_bare(state: AgentState) -> bool:
    """Whether a state says nothing but whose it is."""
    return not (state.messages or state.metadata or state.steps or state.remembered)


async def _start_session(run: Run) -> None:
    plan = run.plans.session_start
    if plan is None or not run.setup.session.starts:
        return
    ctx = run.context(
        HookPoint.SESSION_START,
        session_id=run.state.session_id,
        source=run.setup.session.source,
    )
    await run.ask(plan, ctx)


async def _start(run: Run) -> Ending | None:
    plan = run.plans.execution_start
    if plan is None:
        return None
    ctx = run.context(HookPoint.EXECUTION_START, resumed=run.is_resumed)
    result = await run.ask(plan, ctx)
    if result.is_blocked:
        return refusal_ending(run, result, StopReason.RUN_REFUSED)
    return None


async def _submit(run: Run, submitted: str | UserMessage) -> Ending | None:
    message = UserMessage(submitted) if isinstance(submitted, str) else submitted
    prompt, attachments = message.text, message.attachments
    plan = run.plans.prompt_submit
    if plan is not None:
        ctx = run.context(HookPoint.PROMPT_SUBMIT, prompt=prompt, attachments=attachments)
        result = await run.ask(plan, ctx)
        if result.is_blocked:
            return refusal_ending(run, result, StopReason.PROMPT_REFUSED)
        if result.is_stopped:
            return None  # the evaluation it left ends the run, and the prompt is not taken
        prompt, attachments = result.context.prompt, result.context.attachments
    run.set_state(run.state.with_user_message(prompt, attachments=attachments))
    run.append(PromptSubmitted(*run.record_head(), text=prompt, attachments=attachments))
    return None


# --- one step -----------------------------------------------------------------------------------------


def _step(run: Run, before: AgentState | None = None) -> Awaitable[Ending | None]:
    """One step, from before_step to the decision whether there is another."""
    if run.token.is_cancelled:
        raise asyncio.CancelledError
    open_step(run, before)
    plan = run.plans.before_step
    guard = ""
    if plan is not None:
        answer = plan.answer_without_context
        if answer is None or answer(run):
            return _ask_first(run, plan)
        guard = plan.guard
    begin_step(run, guard)
    return _work(run, again=False)


async def _ask_first(run: Run, plan: Plan) -> Ending | None:
    ctx = run.context(HookPoint.BEFORE_STEP, step_index=run.step_index or 0)
    try:
        result = await ask_in_step(run, plan, ctx)
    except UnrecoveredError as error:
        return failure_ending(run, error.exception)
    if result is not None and result.is_blocked:
        return refusal_ending(run, result, StopReason.STEP_REFUSED)
    if run.is_forbidden:
        return await conclude(run, None)
    begin_step(run)
    return await _work(run, again=False)


async def _resume_step(run: Run, before: AgentState | None = None) -> Ending | None:
    pending = run.state.pending_step
    if pending is None:  # a hook around the step that waited makes another
        return await _step(run, before)
    reopen_step(run, pending, before)
    return await _work(run, again=True)


async def _work(run: Run, *, again: bool) -> Ending | None:
    """The turn and its tool calls. Whatever happens in here, the step is settled and after_step runs."""
    step = run.step
    failure: BaseException | None = None
    try:
        try:
            if again:
                await use_tools(run, again=True)
            else:
                await take_turn(run)
                if step.response is not None and step.response.calls:
                    await use_tools(run)
        except UnrecoveredError as error:
            failure = error.exception if error.action is ErrorAction.STOP else None
            if failure is None:
                _continue_after(run, error.exception)
        except Exception as error:
            failure = await _decide(run, error)
            if failure is None:
                settle_all_unrun(run)
                await finish_calls(run)
        if step.is_waiting and run.stopping:  # a hook ended the run while a child began to wait
            settle_all_unrun(run)
            await finish_calls(run)
    except asyncio.CancelledError:
        await _end_cancelled_step(run)
        raise
    if run.token.is_cancelled:
        await _end_cancelled_step(run)
        raise asyncio.CancelledError
    failure = failure or step.failing
    if failure is not None:
        return await _fail_step(run, failure)
    if step.is_waiting and not run.stopping:
        pend_step(run)
        return Ending(RunStatus.PAUSED, StopReason.APPROVAL_PENDING, _questions(run))
    plan = run.plans.should_continue
    answer = None if plan is None or run.evaluations else plan.answer_without_context
    if plan is not None and answer is not None:
        outcome: ContinuationOutcome = answer(run)
        if run.plans.after_step is None and (outcome.should_continue or run.plans.stop is None):
            # Nobody is to look at the step before its outcome is known: it is settled in one go.
            settle_step(run, outcome, plan.guard)
            if outcome.should_continue:
                return None
            run.replace_evaluations(outcome.evaluations)
            return outcome_ending(outcome)
    made = settle_step(run)
    try:
        await _after_step(run, made)
        return await conclude(run, made)
    except asyncio.CancelledError:
        finish_step(run, made, _no_outcome(run, StopReason.CANCELLED, run.token.why))
        raise
    except UnrecoveredError as error:
        finish_step(run, made, _no_outcome(run, StopReason.ERROR, in_words(error.exception)))
        return failure_ending(run, error.exception)


def _no_outcome(run: Run, reason: StopReason, why: str) -> ContinuationOutcome:
    """The outcome of a step that ended before its evaluations were resolved."""
    return ContinuationOutcome(
        stop_reason=reason,
        reason=why,
        evaluations=run.evaluations,
    )


async def _end_cancelled_step(run: Run) -> None:
    """End the step in which the run was cancelled: every call gets a result, and the hooks after it are asked."""
    run.token.close()
    await _end_step(run, StopReason.CANCELLED, run.token.why)


async def _fail_step(run: Run, failure: BaseException) -> Ending:
    run.step.fail(failure)
    await _end_step(run, StopReason.ERROR, in_words(failure))
    return failure_ending(run, failure)


async def _end_step(run: Run, reason: StopReason, why: str) -> None:
    """Settle a step that ended early. Its hooks are all asked, also when one of them is interrupted."""
    run.check_claim()
    interrupted: asyncio.CancelledError | None = None
    settle_all_unrun(run)
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
    except UnrecoveredError:
        pass  # it is on record; what ended the step stays the reason
    finish_step(run, step, _no_outcome(run, reason, why))
    if interrupted is not None:
        raise interrupted


async def _decide(run: Run, error: BaseException) -> BaseException | None:
    """An exception out of a step's hooks: the policy decides whether it is the end. Gives the failure if it is."""
    decision = await on_error(run, error, classify(error))
    if decision.action is ErrorAction.STOP:
        return error
    _continue_after(run, error)
    return None


def _continue_after(run: Run, error: BaseException) -> None:
    """The error policy lets the run continue after an error that cost a turn: the model gets another."""
    why = f"the last step failed: {in_words(error)}"
    said = ContinuationEvaluation(
        source="error-policy", decision=ContinuationDecision.REQUEST_CONTINUATION, reason=why
    )
    run.evaluate(said, HookPoint.ERROR.value)


def _questions(run: Run) -> str:
    names = ", ".join(sorted({approval.tool_call.name for approval in run.state.pending}))
    return f"waiting for an answer about {names}"


async def _after_step(run: Run, step: Step) -> None:
    if run.commit is not None and run.step.calls:
        run.durable.flush()  # however long the hooks of the step's end take, its calls are not in doubt
    plan = run.plans.after_step
    if plan is not None:
        ctx = run.context(HookPoint.AFTER_STEP, step_index=step.index, step=step)
        await ask_in_step(run, plan, ctx)


# --- when the run fails -------------------------------------------------------------------------------


async def _fail_run(run: Run, error: BaseException) -> Ending:
    """Ask the error hooks about an exception outside of steps. The run fails, unless a hook stops it."""
    decision = await on_error(run, error, classify(error), is_lost=True)
    if decision.action is ErrorAction.IGNORE:
        return outcome_ending(ContinuationOutcome.from_evaluations(run.evaluations))
    return failure_ending(run, error)


# --- a step inside the hooks around it: each may change the state before and after, or not make the step ---


MakeStep = Callable[[Run, AgentState | None], Awaitable[Ending | None]]
"""Makes a step. The state is the one before the hooks around it, if there are any."""
NOT_MADE = "the hook around the step did not run the step"


class _StepPause(BaseException):
    """The step waits for a person, so the code of the hooks behind `next` does not run. They cannot catch this."""


async def make_wrapped_step(run: Run, make: MakeStep) -> Ending | None:
    """Make a step inside the hooks around it."""
    step = _WrappedStep(run, make)
    outcome: ContinuationOutcome | None = None
    try:
        await step.make()
    except _StepPause:
        pass
    except HookError as error:
        decision = await on_error(run, error, ErrorClass.HOOK)
        if decision.action is ErrorAction.STOP:
            why = in_words(error)
            outcome = ContinuationOutcome(False, StopReason.ERROR, None, why, run.evaluations)
            step.ending = failure_ending(run, error)
        elif run.is_forbidden and run.error is None:
            outcome = ContinuationOutcome.from_evaluations(run.evaluations)
            step.ending = outcome_ending(outcome)
        elif not step.is_made:
            return await make(run, None)
    finally:
        # Recorded before it is known what a failure leads to, the step would be the end of it after a crash.
        record_wrapped_step(run, outcome)
        run.durable.flush()  # hooks are next, and may take their time
    return step.ending


class _WrappedStep:
    def __init__(self, run: Run, make: MakeStep) -> None:
        self.run = run
        self.is_made = False
        self.ending: Ending | None = None
        self._make_step = make

    async def make(self) -> None:
        run = self.run
        plan = run.plans.around_step
        assert plan is not None
        ctx = run.context(HookPoint.AROUND_STEP, step_index=number_step(run))
        left = await run_around(plan.hooks, ctx, self._inside, run, run.settle, self._check)
        run.take(Result(left))

    async def _inside(self, ctx: StepHookContext) -> StepHookContext:
        run = self.run
        if self.is_made:
            self._check_again()
        before = run.state
        run.take(Result(ctx))
        if self.is_made:
            self._record_again()
            before = run.state
        self.is_made = True
        # What hooks changed before the step belongs to it: if the process dies in it, they change it again.
        self.ending = await self._make_step(run, before)
        if self.ending is not None and self.ending.status is RunStatus.PAUSED:
            raise _StepPause
        made = run.state.last_step if run.state.step_count > ctx.step_index else None
        return run.context(HookPoint.AROUND_STEP, step_index=run.step_index or 0, step=made)

    def _check_again(self) -> None:
        """Refuse a second step where the first one had effects, was refused, or ended the run for good."""
        run = self.run
        if run.step.unrecorded is None:
            raise RepeatError("it called next a second time, and the first step was not run.")
        if any(current.started for current in run.step.calls):
            raise RepeatError(
                "it called next a second time, and a call of the step has started.",
                remedy="Call next once, or again only for a step without calls.",
            )
        if run.stopping or run.is_forbidden:
            raise RepeatError("it called next a second time, and the run is stopped.")
        run.recover()

    def _record_again(self) -> None:
        """Record the step that was made, with what hooks changed since: it is not the end of the run any more."""
        run = self.run
        assert run.step.unrecorded is not None
        outcome = run.step.unrecorded[0].outcome or ContinuationOutcome()
        again = replace(
            outcome,
            should_continue=True,
            stop_reason=None,
            resolved_by=HookPoint.AROUND_STEP.value,
            reason=MADE_AGAIN,
        )
        record_wrapped_step(run, again)

    def _check(self, entry: Entry, given: object, base: StepHookContext) -> StepHookContext:
        """What a hook returns: the context that `next` gave it, perhaps changed; or, without `next`, its own."""
        if not isinstance(given, StepHookContext):
            raise HookError(
                entry.name, HookPoint.AROUND_STEP, f"it returned {given!r} ({type(given).__name__}).",
                remedy="Return what `await next(ctx)` gives, perhaps changed.",
            )  # fmt: skip
        if not self.is_made and self.ending is None:  # others around it may change what it returned
            self.ending = Ending(RunStatus.STOPPED, StopReason.STEP_REFUSED, NOT_MADE, entry.name)
        return check_change(entry, base, given, self.run.settle)
