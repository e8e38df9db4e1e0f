"""A turn in which no hook has a say, in one go: the model answers, and the one call it makes is run.

Most turns of most agents are like this, and what they cost is what the runtime costs. This does what `take_turn` and
`use_tools` do, in their order and with their records, without what those have to ask of every run at every turn.
Whatever is, or turns out to be, out of the ordinary goes on there: a model that fails, several calls, one that is not
valid, hooks that judge calls, limits that leave no room for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from hookline.agent.execution import as_result, settle_raised
from hookline.agent.flight import Flight
from hookline.agent.run import Run
from hookline.agent.tool_phase import finish_failed, use_tools
from hookline.agent.turn import received, take, try_again
from hookline.journal import CallAdmitted, CallSettled, RequestSent, ResponseReceived
from hookline.state import CallStage, FrozenDict, InferenceRequest, ToolCall
from hookline.tools import AnyTool, Toolbox

_ADMITTED, _SETTLED = CallStage.ADMITTED, CallStage.SETTLED


def is_unasked(run: Run) -> bool:
    """Whether no hook is ever asked about what the model says, and nothing is kept on disk or recalled from there."""
    plans = run.plans
    asked = (
        plans.before_inference,
        plans.around_inference,
        plans.after_inference,
        plans.output,
        run.source.known or None,
        run.commit,
        run.redact_content,
    )
    return asked.count(None) == len(asked) and run.definition.driver is not None


def judges_calls(run: Run) -> bool:
    """Whether hooks are asked about what the model calls."""
    plans = run.plans
    asked = (plans.before_tool_use, plans.around_tool_use, plans.after_tool_use)
    return asked.count(None) < len(asked)


def _direct(toolbox: Toolbox, call: ToolCall) -> AnyTool | None:
    """The tool of a call that is valid as it stands, if there is nothing more to it than awaiting its function."""
    tool, args = toolbox.get(call.name), call.args
    if tool is None or not tool.is_async or tool.context_name or tool.timeout is not None:
        return None
    is_whole = not call.malformed and type(args) is FrozenDict and tool.arguments.are_whole(args)
    return tool if is_whole else None


def _run(_run: Run, flight: Flight) -> Awaitable[Any]:
    assert flight.tool is not None
    return flight.tool.function(**flight.values)  # type: ignore[no-any-return]


async def take_turn_unasked(run: Run) -> None:
    """Ask the model, and run its call. `run.response` is its answer, and `run.flights` has what came of the call."""
    definition, messages = run.definition, run.state.messages
    append, next_seq, run_id, step = run.append, run.next_seq, run.run_id, run.step_index or 0
    toolbox = definition.toolbox
    if run.token.is_cancelled:
        raise asyncio.CancelledError
    request = InferenceRequest(messages, definition.system_prompt, toolbox.specs)
    run.messages_asked = messages
    append(RequestSent(run_id, next_seq(), run.at, step, len(messages)))
    try:
        response = received(run, await run.source.infer(run, request))
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        response = await try_again(run, request, error, altered=None)
        take(run, response, supplied=False)
        if response.calls:
            await use_tools(run)
        return
    run.response = response
    monotonic, calls = run.monotonic, response.calls
    run.now = started = monotonic()
    run.at = at = run.wall + started
    append(
        ResponseReceived(
            run_id, next_seq(), at, step, response.text, calls, response.usage, response.model,
            False, False, response.reasoning, response.finish,
        )
    )  # fmt: skip
    if not calls:
        return
    call, has_room = calls[0], run.plans.has_room
    tool = None if run.judges_calls else _direct(toolbox, call)
    is_spent = has_room is not None and not has_room(run)
    if tool is None or len(calls) > 1 or is_spent or run.token.is_cancelled:
        await use_tools(run)
        return
    args = call.args
    flight = Flight(call, call, tool, args, _ADMITTED, True, 1)
    run.flights = [flight]
    run.ledger.add_tool_calls(1)
    run.uncounted_calls += 1
    append(CallAdmitted(run_id, next_seq(), at, step, call, tool.effect))
    try:
        flight.result = result = as_result(
            run, call, await run.source.use(run, flight, _run), started
        )
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        settle_raised(run, flight, error, started)
    else:
        flight.stage = _SETTLED
        if not run.state.counters.consecutive_errors:
            flight.seen = True
            append(CallSettled(run_id, next_seq(), run.at, step, result))
            return
    await finish_failed(run, flight)
