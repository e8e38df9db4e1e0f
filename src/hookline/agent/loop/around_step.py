"""A step inside the hooks around it: each may change the state before and after, or not make the step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from hookline.agent.error_handling import on_error
from hookline.agent.loop.step import number_step, record_wrapped_step
from hookline.agent.loop.stop import failure_ending, outcome_ending
from hookline.agent.run import Run
from hookline.errors import HookError, in_words
from hookline.flow import ErrorAction, ErrorClass
from hookline.hooks import Entry, Result
from hookline.hooks.next import RepeatError
from hookline.hooks.outcome import check_change
from hookline.hooks.run import run_around
from hookline.lifecycle import HookPoint, StepHookContext
from hookline.state import AgentState, ContinuationOutcome, Ending, RunStatus, StopReason

MakeStep = Callable[[Run, AgentState | None], Awaitable[Ending | None]]
"""Makes a step. The state is the one before the hooks around it, if there are any."""
NOT_MADE = "the hook around the step did not run the step"
MADE_AGAIN = "a hook around the step runs another step"


class _Paused(BaseException):
    """The step waits for a person, so the code of the hooks behind `next` does not run. They cannot catch this."""


async def make_wrapped_step(run: Run, make: MakeStep) -> Ending | None:
    """Make a step inside the hooks around it."""
    step = _WrappedStep(run, make)
    outcome: ContinuationOutcome | None = None
    try:
        await step.make()
    except _Paused:
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
            raise _Paused
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
