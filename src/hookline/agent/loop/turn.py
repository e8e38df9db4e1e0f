"""One turn with the model: before_inference, the driver, after_inference."""

from __future__ import annotations

import asyncio
from typing import Any

from hookline._aio import is_being_cancelled
from hookline.agent.checks import check_changes, check_kind, check_response, is_plain
from hookline.agent.error_handling import (
    UnrecoveredError,
    on_error,
    on_success,
    repeat_recorded_failure,
)
from hookline.agent.run import Run
from hookline.flow import ErrorAction, ErrorClass, classify
from hookline.hooks import Entry, Kind, Point, Result
from hookline.hooks.run import run_around
from hookline.journal import RequestSent, ResponseReceived
from hookline.lifecycle import HookPoint, InferenceHookContext
from hookline.lifecycle.recorded_changes import describe_request
from hookline.state import (
    NO_USAGE,
    ContinuationDecision,
    ContinuationEvaluation,
    InferenceRequest,
    InferenceResponse,
    Log,
    StopReason,
    UserMessage,
)

_CUT_OFF = {
    "length": "the answer was cut off: it is longer than the model may answer, see max_tokens in the options",
    "pause": "the answer was cut off: the provider paused it again and again",
}
"""What a model's `finish` means for the run. Half an answer is no answer, and a call in it may be half a call."""


async def take_turn(run: Run) -> None:
    """Ask the model. `run.step.response` is its settled answer; None when there is none."""
    definition, plans = run.setup.definition, run.plans
    messages = run.state.messages
    request = InferenceRequest(
        messages,
        definition.system_prompt,
        definition.toolbox.specs,
        provider_tools=definition.provider_tools,
    )
    supplied, altered = None, None
    if plans.before_inference is not None:
        ctx = _context(run, HookPoint.BEFORE_INFERENCE, request, None)
        result = await run.ask(plans.before_inference, ctx)
        if result.kind >= Kind.BLOCK or run.is_forbidden:
            if result.kind is Kind.BLOCK:
                _explain_block(run, HookPoint.BEFORE_INFERENCE, result.reason, result.decided_by)
            await _show_observers(run, request)
            return
        asked, supplied = result.context.request, result.context.response
        messages = run.state.messages
        altered = describe_request(request.with_messages(messages), asked) or None
        if asked.tools is not request.tools:
            run.step.offer(asked.tools)
        request = asked
    run.step.messages_asked = messages
    response = supplied
    if response is None and run.source.known.turns:
        response = await _repeat_response(run)
    if response is None:
        if run.token.is_cancelled:  # by a hook since the step began
            raise asyncio.CancelledError
        _record_request(run, request, 1, altered)
        if run.commit is not None:
            run.durable.flush_soon()
        try:
            if plans.around_inference is None:
                response = accept_response(run, await run.source.infer(run, request))
            else:
                response = await _ask_through_hooks(run, request)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            response, is_rescued = await try_again(run, request, error, altered=altered)
            supplied = response if is_rescued else None
    if run.setup.redact_content is not None:
        response = run.response_without_secrets(response)
    if plans.after_inference is not None:
        run.clock()  # the model took its time, and these hooks see the time now
        ctx = _context(run, HookPoint.AFTER_INFERENCE, request, response)
        result = await run.ask(plans.after_inference, ctx)
        refusal, left = result.refusal, result.context.response
        assert left is not None  # it was there, and what takes its place is checked
        if refusal is not None:
            _discard(run, left, *refusal)
            return
        response = run.response_without_secrets(left)
    settle_response(run, response, supplied=supplied is not None)


async def _repeat_response(run: Run) -> InferenceResponse | None:
    """The answer the model gave before the process died, if it is on record. It was paid for then, and counts now."""
    turn = run.source.known.turn(run.step_index or 0)
    response = None if turn is None else turn.response
    if turn is not None and response is not None:
        for known in (
            *turn.errors,
            *([turn.failed] if turn.failed else []),
        ):  # the last one was rescued
            assert known.error is not None
            await repeat_recorded_failure(run, known, known.error)
        assert turn.answer is not None
        run.step.withdraw(turn.answer.withdrawn)
        accept_response(run, response)
    return response


async def try_again(
    run: Run, request: InferenceRequest, error: BaseException, *, altered: dict[str, Any] | None
) -> tuple[InferenceResponse, bool]:
    """Ask the model again and again, as long as it fails and that is the decision; gives its answer.

    Or the answer of a hook that rescues the turn; the second value says which.
    """
    attempt = 1
    failed: list[ErrorClass] = []
    while True:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            await _show_observers(run, request)
            raise error
        run.drop_deltas()
        decision = await on_error(run, error, classify(error), can_rescue=True)
        if decision.action is ErrorAction.RESCUE:
            return decision.value, True
        if decision.action is not ErrorAction.RETRY:
            await _show_observers(run, request)
            raise UnrecoveredError(error, decision.action) from error
        await run.sleep(decision.delay)
        if run.token.is_cancelled:
            raise asyncio.CancelledError
        attempt += 1
        run.clock()
        _record_request(run, request, attempt, altered)
        failed.append(classify(error))
        try:
            response = await _ask_through_hooks(run, request)
        except (Exception, SystemExit, asyncio.CancelledError) as raised:
            error = raised
        else:
            on_success(run, *failed)
            return response, False


async def _ask_through_hooks(run: Run, request: InferenceRequest) -> InferenceResponse:
    """One question to the model, through the hooks around it."""

    async def ask(ctx: InferenceHookContext) -> InferenceResponse:
        asked = ctx.request
        if asked.tools is not request.tools or run.step.withdrawn:
            left = {spec.name for spec in asked.tools}
            run.step.withdraw(spec.name for spec in request.tools if spec.name not in left)
        return accept_response(run, await run.source.infer(run, asked))

    around = run.plans.around_inference
    ctx = _context(run, HookPoint.AROUND_INFERENCE, request, None)
    if around is None:
        return await ask(ctx)
    response = await run_around(around.hooks, ctx, ask, run, check_changes, _check_given)
    return check_response(response, "a hook around the inference")


def _check_given(entry: Entry, given: object, _: object) -> InferenceResponse:
    return check_kind(entry, HookPoint.AROUND_INFERENCE, given, InferenceResponse)


def accept_response(run: Run, response: InferenceResponse) -> InferenceResponse:
    """Check an answer of the model and count its usage, also if hooks drop the answer later."""
    if not is_plain(response):
        driver = type(run.setup.definition.driver).__qualname__
        response = check_response(response, f"the driver ({driver})")
    usage, ledger = response.usage, run.ledger
    if usage.cost is None and ledger.parent is None:
        ledger.tokens += usage.input_tokens + usage.output_tokens - usage.cache_read_tokens
    else:
        ledger.add_usage(usage)
    step = run.step
    step.usage = usage if step.usage is NO_USAGE else step.usage + usage
    run.uncounted.add_usage(usage)
    return response


def settle_response(run: Run, response: InferenceResponse, *, supplied: bool) -> None:
    """The settled answer: it is recorded, and the step continues with it."""
    run.step.response = response
    run.clock()
    if run.holds_answer and not response.calls:
        run.durable.hold()  # this may be the answer, and its hooks have not seen it yet
    append, withdrawn = run.append, run.step.withdrawn
    cut_off = _CUT_OFF.get(response.finish)
    append(
        ResponseReceived(
            run_id=run.run_id,
            seq=next(run.numbers),
            at=run.at,
            step=run.step_index or 0,
            text=response.text,
            calls=response.calls,
            usage=response.usage,
            model=response.model,
            supplied=supplied,
            reasoning=response.reasoning,
            finish=response.finish,
            provider_tool_uses=response.provider_tool_uses,
            truncated=cut_off is not None,
            withdrawn=tuple(sorted(withdrawn)) if withdrawn else (),
        )
    )
    if run.holds_deltas and (response.calls or not run.holds_answer):
        run.release_deltas(response)
    if cut_off is not None:
        point = HookPoint.AFTER_INFERENCE.value
        run.end_because("model", cut_off, StopReason.TRUNCATED, point=point)


def _discard(run: Run, response: InferenceResponse, why: str, decided_by: str) -> None:
    """An answer that a hook discarded: of what it said nothing is kept."""
    run.clock()
    run.append(
        ResponseReceived(
            *run.record_head(),
            step=run.step_index or 0,
            usage=response.usage,
            model=response.model,
            discarded=True,
        )
    )
    run.drop_deltas()
    _explain_block(run, HookPoint.AFTER_INFERENCE, why, decided_by)


def _context(
    run: Run,
    point: Point[InferenceHookContext],
    request: InferenceRequest,
    response: InferenceResponse | None,
) -> InferenceHookContext:
    return run.context(point, request=request, response=response, step_index=run.step_index or 0)


def _explain_block(run: Run, point: str, why: str, decided_by: str) -> None:
    """An inference that was blocked, or discarded: the model reads why in the next step."""
    run.evaluate(
        ContinuationEvaluation(
            source=decided_by, decision=ContinuationDecision.REQUEST_CONTINUATION, reason=why
        ),
        str(point),
    )
    run.set_state(run.state.with_messages(run.state.messages.append(UserMessage(why, decided_by))))


def _record_request(
    run: Run, request: InferenceRequest, attempt: int, altered: dict[str, Any] | None
) -> None:
    """That the model is asked is on record; what it is asked only where the state does not say so."""
    append, asked = run.append, request.messages
    append(
        RequestSent(
            run_id=run.run_id,
            seq=next(run.numbers),
            at=run.at,
            step=run.step_index or 0,
            messages=asked.length if type(asked) is Log else len(asked),
            attempt=attempt,
            model=request.model,
            altered=altered,
        )
    )


async def _show_observers(run: Run, request: InferenceRequest) -> None:
    """An inference that failed or was cancelled has an end too, for those who only watch."""
    plan = run.plans.after_inference
    if plan is not None and plan.observers:
        ctx = _context(run, HookPoint.AFTER_INFERENCE, request, None)
        await run.show(plan, ctx, Result(ctx).verdict)
