"""How a run begins, and how one is taken up whose process has died."""

from __future__ import annotations

import msgspec

from hookline.agent.children.child import recount_hook_work
from hookline.agent.loop.end import ended, failed, stopped
from hookline.agent.records import RunIndex, recorded_exception
from hookline.agent.run import Run
from hookline.errors import PastError
from hookline.hooks import Plan, run_hooks
from hookline.journal import PromptSubmitted, RunStarted, RunTakenUp, StepFinished
from hookline.lifecycle import HookPoint
from hookline.state import (
    AgentState,
    ContinuationOutcome,
    Ending,
    RunStatus,
    Step,
    StopReason,
    UserMessage,
)


async def begin(run: Run, prompt: str | UserMessage | None) -> Ending | None:
    """Write that it begins, and ask the hooks whether it may. Gives how it ended, if it may not."""
    state = run.state
    run.append(
        RunStarted(
            *run.head(),
            agent_id=state.agent_id,
            session_id=state.session_id,
            parent_run_id=state.parent_run_id,
            resumed=run.is_resumed,
            initial=None
            if _is_bare(state) or run.durable.records
            else msgspec.json.decode(state.to_json()),
            parent_agent_id=state.parent_agent_id,
        )
    )
    run.become(msgspec.structs.replace(state, ending=None))
    refused = await _start_session(run) or await _start(run)
    if refused is None and prompt is not None and not run.stopping:
        refused = await _submit(run, prompt)
    if refused is None:
        refused = _forbidden_early(run)
    if run.commit is not None and refused is None:
        # From here on the run exists, and whoever takes it up continues from here. One that is refused is only
        # written with its end: nobody is to make the steps that were refused.
        await run.commit()
    return refused


async def take_up(run: Run) -> Ending | None:
    """Go on with a run whose process died: with its way out, its unfinished step, or the next one."""
    run.durable.append(RunTakenUp(run.run_id, len(run.durable.records), run.at))
    run.become(msgspec.structs.replace(run.state, ending=None))
    known = run.source.known
    recount_hook_work(run, known)
    ending = known.ending
    if ending is not None:
        if ending.status is RunStatus.FAILED:
            run.lose(_past_failure(run, known, ending.reason))
        return ending
    last = None if run.state.pending_step is not None else _last_step(run)
    if last is not None and last.outcome is not None and not last.outcome.should_continue:
        run.replace_evaluations(last.outcome.evaluations)
        return _ended_then(run, known, last.outcome)
    if run.parent is not None or run.plans.execution_start is None:
        return None
    return await ask_again(run, run.plans.execution_start.of_each_process())


async def ask_again(run: Run, plan: Plan) -> Ending | None:
    """Ask the hooks whose work was lost with a process. They come before the step that is gone through again."""
    if not plan:
        return None
    ctx = run.context(HookPoint.EXECUTION_START, resumed=True)
    # Not by way of what is remembered: what they said in another process is no answer here.
    run.take(await run_hooks(plan, ctx, run, run.settle))
    return _forbidden_early(run)


def _last_step(run: Run) -> Step | None:
    """The last step since the run began, or was sent back to work: what an earlier one led to is over."""
    for record in reversed(run.durable.records):
        if isinstance(record, StepFinished):
            return run.state.last_step
        if isinstance(record, RunStarted):
            break
    return None


def _ended_then(run: Run, known: RunIndex, outcome: ContinuationOutcome) -> Ending:
    """How the last step ended the run, in a process that did not live to say so."""
    if outcome == ContinuationOutcome.from_evaluations(outcome.evaluations):
        return ended(outcome)
    if outcome.stop_reason is StopReason.CANCELLED:
        return Ending(RunStatus.CANCELLED, StopReason.CANCELLED, outcome.reason)
    return failed(run, _past_failure(run, known, outcome.reason))


def _past_failure(run: Run, known: RunIndex, reason: str) -> Exception:
    """The exception that a run had failed of, from what is on record of it."""
    last = run.state.last_step if run.state.step_count else None
    for info in (*reversed(known.raised), *(last.errors[::-1] if last is not None else ())):
        if info.message == reason or (not info.message and info.type.endswith(reason)):
            return recorded_exception(info)
    return PastError("unknown", reason)


def _is_bare(state: AgentState) -> bool:
    """Whether a state says nothing but whose it is."""
    return not (state.messages or state.metadata or state.steps or state.remembered)


async def _start_session(run: Run) -> Ending | None:
    plan = run.plans.session_start
    if plan is None or not run.setup.session.starts:
        return None
    ctx = run.context(
        HookPoint.SESSION_START,
        session_id=run.state.session_id,
        source=run.setup.session.source,
    )
    await run.ask(plan, ctx)
    return None


async def _start(run: Run) -> Ending | None:
    plan = run.plans.execution_start
    if plan is None:
        return None
    ctx = run.context(HookPoint.EXECUTION_START, resumed=run.is_resumed)
    result = await run.ask(plan, ctx)
    if result.is_blocked:
        return stopped(result, StopReason.RUN_REFUSED)
    return None


async def _submit(run: Run, submitted: str | UserMessage) -> Ending | None:
    message = UserMessage(submitted) if isinstance(submitted, str) else submitted
    prompt, attachments = message.text, message.attachments
    plan = run.plans.prompt_submit
    if plan is not None:
        ctx = run.context(HookPoint.PROMPT_SUBMIT, prompt=prompt, attachments=attachments)
        result = await run.ask(plan, ctx)
        if result.is_blocked:
            return stopped(result, StopReason.PROMPT_REFUSED)
        if result.is_stopped:
            return None  # the evaluation it left ends the run, and the prompt is not taken
        prompt, attachments = result.context.prompt, result.context.attachments
    run.become(run.state.with_user_message(prompt, attachments=attachments))
    run.append(PromptSubmitted(*run.head(), text=prompt, attachments=attachments))
    return None


def _forbidden_early(run: Run) -> Ending | None:
    """What hooks said before the first step is resolved before it: there is no step to let finish."""
    outcome = ContinuationOutcome.from_evaluations(run.evaluations)
    if not outcome.is_forbidden:
        return None
    return Ending(
        status=RunStatus.STOPPED,
        stop_reason=outcome.stop_reason or StopReason.HOOK,
        reason=outcome.reason,
        decided_by=outcome.resolved_by or "",
    )
