"""Settling a step: what was in progress becomes state, and what waits becomes a pending step."""

from __future__ import annotations

from msgspec.structs import replace

from hookline.agent.error_handling import on_step_end
from hookline.agent.in_progress import CallInProgress, StepInProgress
from hookline.agent.redaction import find_original
from hookline.agent.result import objections_in, restore_child, save_child
from hookline.agent.run import Run
from hookline.journal import StepFinished, StepPaused, StepStarted
from hookline.state import (
    NO_USAGE,
    AgentState,
    AssistantMessage,
    CallStage,
    ContinuationOutcome,
    Counters,
    FrozenDict,
    InferenceResponse,
    Log,
    Message,
    PendingCall,
    PendingStep,
    Step,
    StepType,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    tool_message,
)

_sum = Usage.__add__  # an operator that is a function of Python costs a detour through C
_INCOMPLETE, _TOOL_USE, _FINAL_RESPONSE = (
    StepType.INCOMPLETE,
    StepType.TOOL_USE,
    StepType.FINAL_RESPONSE,
)


def number_step(run: Run) -> int:
    """The index of the step that is made next, or of the one that waits: hooks around it are recorded under it."""
    pending = run.state.pending_step
    run.step_index = index = run.next_step if pending is None else pending.index
    return index


def return_to_step(run: Run, index: int | None) -> None:
    """Only the way out of the run is left, and its hooks see the step that they saw in another process."""
    run.step_index = index


def open_step(run: Run, before: AgentState | None = None) -> None:
    """A step begins: evaluations of the last one no longer count. `before` is the state before hooks around it."""
    run.step_index = index = run.next_step
    run.next_step = index + 1
    if run.evaluations:
        run.replace_evaluations(())
    messages = run.state.messages
    run.step = StepInProgress(
        messages if before is None else before.messages,
        messages,
        run.now,
        is_wrapped=before is not None,
    )


def begin_step(run: Run, guard: str = "") -> None:
    """Count and record a step that may begin. `guard` is a default guard that was asked without a context."""
    ledger = run.ledger
    ledger.steps += 1
    if ledger.parent is not None:
        ledger.parent.add_step()
    if run.holds_answer:
        run.drop_deltas()  # a hook wanted another step, so the last answer is not the final one
        run.durable.release("")
    append = run.append
    append(
        StepStarted(
            run_id=run.run_id,
            seq=next(run.numbers),
            at=run.at,
            step=run.step_index or 0,
            guard=guard,
        )
    )


def settle_step(run: Run, outcome: ContinuationOutcome | None = None, guard: str = "") -> Step:
    """Put the turn, its calls and their results into the state, together.

    With an outcome the step is over; otherwise hooks see it first, and `finish_step` ends it.
    """
    made, state = run.step, run.state
    response, in_progress, started = made.response, made.calls, made.started
    messages, asked = state.messages, made.messages_asked
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    turn: tuple[Message, ...] | None = None
    if response is None:
        kind, text = _INCOMPLETE, ""
    else:
        text, calls = response.text, response.calls
        kind = _TOOL_USE if calls else _FINAL_RESPONSE
        said = AssistantMessage(text, calls, response.reasoning, response.provider_tool_uses)
        if len(in_progress) == 1:
            current = in_progress[0]
            if current.call is not current.made:
                calls = (current.call,)
            results = (current.result,)  # type: ignore[assignment]
            turn = (said, _answer(current))
        else:
            calls = tuple([current.call for current in in_progress])
            results = tuple([current.result for current in in_progress])  # type: ignore[misc]
            turn = (said, *[_answer(current) for current in in_progress])
        if messages is asked is made.messages_before:
            messages = messages.extend(turn)
        else:
            messages, turn = _insert_turn(asked, turn, messages), None
    step = Step(
        index=run.step_index or 0,
        type=kind,
        text=text,
        calls=calls,
        results=results,
        usage=made.usage,
        started_at=run.wall + started,
        duration=made.active + run.now - started,
        errors=made.errors,
        outcome=outcome,
    )
    usage, counters = count_usage(run, steps=1)
    run.set_state(
        replace(
            state,
            messages=messages,
            steps=state.steps.extend((step,)),
            usage=usage,
            counters=counters,
        )
    )
    if outcome is None:
        made.settle(messages, turn)
    else:
        _close_step(run, step, turn, guard)
    return step


def _answer(current: CallInProgress) -> ToolMessage:
    """What the model reads about a call. Every call has its result by now."""
    tool, result = current.tool, current.result
    assert result is not None
    return tool_message(result, tool.max_chars if tool is not None else None)


def _insert_turn(
    before: Log[Message], turn: tuple[Message, ...], messages: Log[Message]
) -> Log[Message]:
    """The conversation with a turn put where it belongs, so that every state is a valid one.

    What hooks appended while the calls were running comes after the results, where it can be read.
    """
    notes = messages.since(before)
    return messages.extend(turn) if notes is None else before.extend((*turn, *notes))


def count_usage(run: Run, *, steps: int = 0) -> tuple[Usage, Counters]:
    """The state's usage and counters with what was used since the last count."""
    used, state = run.uncounted, run.state
    counters = state.counters
    total = _sum(counters.usage, used.usage)
    # In a first run the conversation has used what the run has used: one sum is enough.
    usage = total if state.usage is counters.usage else state.usage + used.usage
    counters = Counters(
        steps=counters.steps + steps + used.child_steps,
        tool_calls=counters.tool_calls + used.calls,
        usage=total,
        active_seconds=run.now - run.ledger.started,
        errors=counters.errors,
        consecutive_errors=counters.consecutive_errors,
        objections=counters.objections,
    )
    used.clear()
    return usage, counters


def finish_step(run: Run, step: Step, outcome: ContinuationOutcome) -> None:
    """The step is over: its outcome and its whole duration are known."""
    duration = run.step.active + run.clock() - run.step.started
    step = replace(step, outcome=outcome, duration=duration, errors=run.step.errors)
    if run.uncounted.usage is not NO_USAGE:  # a hook after the step asked a model
        usage, counters = count_usage(run)
        run.set_state(replace(run.state, usage=usage, counters=counters))
    state = replace(run.state, steps=run.state.steps.with_last(step))
    run.set_state(state)
    turn = run.step.added
    _close_step(run, step, turn[1] if turn is not None and turn[0] is state.messages else None)


def _close_step(run: Run, step: Step, added: tuple[Message, ...] | None, guard: str = "") -> None:
    """Record a finished step, unless hooks around it may still change the state."""
    if run.state.counters.consecutive_errors:
        on_step_end(run)
    if not run.step.is_wrapped:
        _record(run, step, added, guard)
        return
    run.step.leave(step, guard)
    if run.commit is not None:
        run.durable.flush()  # however long those hooks take, its calls are not in doubt


def record_wrapped_step(run: Run, outcome: ContinuationOutcome | None = None) -> None:
    """The hooks around a step are done with it: if it was made, it is recorded with what they changed behind it.

    Recorded before them, it would be settled without their changes if the process dies in one of them. `outcome` is
    what they made of its own: they failed, or make another step.
    """
    made = run.step.take_unrecorded()
    if made is None:
        return
    step, guard = made
    step = replace(step, outcome=outcome or step.outcome, errors=run.step.errors)
    usage, counters = count_usage(run)
    steps = run.state.steps.with_last(step)
    run.set_state(replace(run.state, steps=steps, usage=usage, counters=counters))
    _record(run, step, None, guard)


def _record(run: Run, step: Step, added: tuple[Message, ...] | None, guard: str) -> None:
    """Record a finished step, with what it made of the conversation; `added`, where that is known."""
    state = run.state
    replaced, metadata = None, None
    if added is None:
        added = state.messages.since(run.step.messages_before)
        if added is None:
            added, replaced = (), tuple(state.messages)
    if state.metadata is not run.metadata_before:
        run.metadata_before = metadata = state.metadata
    append = run.append
    append(
        StepFinished(
            run_id=run.run_id,
            seq=next(run.numbers),
            at=run.at,
            step=step,
            messages=added,
            replaced=replaced,
            metadata=metadata,
            usage=state.usage,
            counters=state.counters,
            guard=guard,
        )
    )
    if run.commit is not None:
        _keep(run)


def _keep(run: Run) -> None:
    """Write what is on record of a step to the store. Of a run that was resumed from there, the rest is new."""
    plan = run.plans.before_step
    if plan is None or plan.answer_without_context is not None:
        run.durable.flush_soon()
    else:
        run.durable.flush()  # hooks are next, and may take their time
    run.source.settle(run)


# --- a step that waits ------------------------------------------------------------------------------


def pend_step(run: Run) -> None:
    """Put a step that waits for a person into the state, with all it needs to continue."""
    assert run.step.response is not None
    run.clock()
    pending = PendingStep(
        index=run.step_index or 0,
        text=run.step.response.text,
        model_calls=run.step.response.calls,
        calls=tuple(_pending_call(run, current) for current in run.step.calls),
        evaluations=run.evaluations,
        usage=run.step.usage,
        started_at=run.wall + run.step.started,
        active=run.step.active + run.now - run.step.started,
        errors=run.step.errors,
        follows=len(run.step.messages_asked)
        if run.state.messages.since(run.step.messages_asked)
        else None,
        ends_session=run.setup.session.ends,
        reasoning=run.step.response.reasoning,
        provider_tool_uses=run.step.response.provider_tool_uses,
    )
    usage, counters = count_usage(run)
    run.set_state(replace(run.state, pending_step=pending, usage=usage, counters=counters))
    run.append(StepPaused(*run.record_head(), pending=pending, usage=usage, counters=counters))
    run.source.settle(run)


def _pending_call(run: Run, current: CallInProgress) -> PendingCall:
    assert current.stage is not None
    children = {
        key: save_child(result, current.objections.get(key, 0))
        for key, result in current.children.items()
    } or None
    keeps_children = current.stage is CallStage.SUSPENDED
    return PendingCall(
        call=current.call,
        stage=current.stage,
        result=current.result,
        approval=current.approval,
        decision=current.decision,
        children=FrozenDict(children) if children and keeps_children else None,
        child_approvals=current.child_approvals if keeps_children else (),
        errors=tuple(
            place
            for place, info in enumerate(run.step.errors)
            if any(info is own for own in current.errors)
        ),
        questions=current.questions,
    )


def reopen_step(run: Run, pending: PendingStep, before: AgentState | None = None) -> None:
    """Take up a step that waited. `before` is the state before hooks around the step changed it again."""
    run.step_index = pending.index
    run.next_step = pending.index + 1
    run.replace_evaluations(pending.evaluations)
    then = run.state if before is None else before
    messages = asked = then.messages
    if pending.follows is not None:
        items = tuple(messages)
        asked = Log(items[: pending.follows])
        messages = asked.extend(items[pending.follows :])
        notes = run.state.messages.since(then.messages) or ()
        run.set_state(run.state.with_messages(messages.extend(notes)))
    run.metadata_before = then.metadata
    run.step = StepInProgress(
        messages_before=messages,
        messages_asked=asked,
        started=run.clock(),
        active=pending.active,
        is_wrapped=before is not None,
        usage=pending.usage,
        errors=pending.errors,
        response=InferenceResponse(
            text=pending.text,
            calls=pending.model_calls,
            usage=pending.usage,
            reasoning=pending.reasoning,
            provider_tool_uses=pending.provider_tool_uses,
        ),
        calls=tuple(
            _call_again(pending, made, call)
            for made, call in zip(pending.model_calls, pending.calls, strict=True)
        ),
    )
    run.set_state(replace(run.state, pending_step=None))
    run.ledger.add_step()


def _call_again(step: PendingStep, made: ToolCall, pending: PendingCall) -> CallInProgress:
    """A call of a step that waited. It runs with the arguments it was made with, where this process knows them."""
    call, children = pending.call, pending.children or {}
    return CallInProgress(
        made,
        call,
        original=find_original(call),
        stage=pending.stage,
        result=pending.result,
        errors=tuple(step.errors[place] for place in pending.errors),
        seen=pending.stage is CallStage.SETTLED,
        approval=pending.approval,
        decision=pending.decision,
        questions=pending.questions,
        children={key: restore_child(data) for key, data in children.items()},
        objections={key: objections_in(data) for key, data in children.items()},
    )
