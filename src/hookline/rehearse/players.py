"""The model and the tools of a run that is played: they give what they gave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import msgspec

from hookline.agent.children import ChildWaits
from hookline.agent.past_errors import past_error
from hookline.agent.run import Run
from hookline.blueprint import Definition
from hookline.drivers import Turn
from hookline.errors import HookError, ToolError
from hookline.journal import ChildStarted, ResponseReceived
from hookline.rehearse.playing import PlayedClock, Playing
from hookline.rehearse.recording import Use
from hookline.state import (
    InferenceRequest,
    InferenceResponse,
    ResultStatus,
    ToolCall,
    ToolResult,
)
from hookline.tools import ToolContext

_UNKNOWN = "it did not run when this was recorded, so what it would have given is not known"


class Director(Protocol):
    """Who knows the runs that are played, and what to do when the record is at its end."""

    @property
    def clock(self) -> PlayedClock:
        """The time it was."""
        ...

    def playing(self, run_id: str) -> Playing:
        """A run."""
        ...

    def child(self, run_id: str, name: str) -> Definition | None:
        """What plays a child run; None when it is not in the journal."""
        ...

    async def stop_here(self, run: Run) -> Any:
        """Nothing more is on record."""
        ...

    def cancel_as_then(self, playing: Playing, step: int) -> None:
        """Cancel the run, if it was cancelled when this much of the step was done."""
        ...

    async def part_ways(self, playing: Playing, instead: str) -> Any:
        """Something is asked for that was not asked for then."""
        ...


async def leave(cancel: Callable[[], object]) -> NoReturn:
    """Cancel a run from inside one of its actions, as if from outside, and wait for that to arrive."""
    asyncio.get_running_loop().call_soon(cancel)
    while True:
        await asyncio.Event().wait()


# --- the model ------------------------------------------------------------------------------------------


class Player:
    """A model that answers what it answered then."""

    def __init__(self, director: Director) -> None:
        self._director = director

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:  # noqa: ARG002 - a driver's signature
        """The answer on record, after the failures on record."""
        playing = self._director.playing(turn.state.run_id)
        step = turn.state.step_count
        then = playing.recording.turns[step]
        is_over = playing.recording.is_finished and not playing.recording.is_cancelled
        if is_over and not then.is_asked:
            await self._director.part_ways(playing, "the model is asked")
        while (number := playing.tries["turn", step]) < len(then.errors):
            playing.tries["turn", step] += 1
            failed = then.errors[number]
            assert failed.error is not None
            error = past_error(failed.error)
            if failed.action != "fallback":
                raise error
            turn.record_fallback(error, failed.reason)
        if then.response is not None and not then.response.supplied:
            self._director.clock.move_to(then.response.at)
            self._director.cancel_as_then(playing, step)
            return _response(then.response)
        if then.is_lost:
            return InferenceResponse()
        if is_over:
            await self._director.part_ways(playing, "the model is asked again")
        assert playing.run is not None
        return await self._director.stop_here(playing.run)  # type: ignore[no-any-return]


def _response(record: ResponseReceived) -> InferenceResponse:
    return InferenceResponse(
        record.text,
        record.calls,
        record.usage,
        record.model,
        record.reasoning,
        record.finish,
    )


# --- tools ----------------------------------------------------------------------------------------------


async def use_as_then(director: Director, context: ToolContext) -> Any:
    """What came of a call. Its children are played, and its questions are asked again."""
    playing = director.playing(context.state.run_id)
    step, call = context.state.step_count, context.call
    use = playing.recording.uses[step, call.id]
    if use.intent is None:
        return ToolResult(None, None, ResultStatus.IN_DOUBT, reason=_UNKNOWN)
    for question in use.questions:
        asked = ToolCall(call.id, question.tool_call.name, question.tool_call.args)
        await context.ask(asked, question.reason, asked_by=question.asked_by)
    for together in use.children:
        await _start(director, context, together)
    number = playing.tries["use", step, call.id]
    playing.tries["use", step, call.id] += 1
    return await _result(director, playing, step, use, number)


async def _result(director: Director, playing: Playing, step: int, use: Use, number: int) -> Any:
    """The result of a call, or what it failed of the so-maniest time."""
    assert playing.run is not None
    result, intent = use.result, use.intent
    if result is None or result.status is ResultStatus.CANCELLED:
        await _others_settled(playing, step)
        return await director.stop_here(playing.run)
    director.clock.move_to(use.at)
    playing.tries["settled", step] += 1
    director.cancel_as_then(playing, step)
    errors = use.errors[-1:] if intent is not None and intent.effect == "once" else use.errors
    if number < len(errors) or (errors and errors[-1].action != "retry"):
        recorded = errors[min(number, len(errors) - 1)].error
        assert recorded is not None
        raise past_error(playing.recording.in_full(recorded, step, use))
    return result


async def _start(director: Director, context: ToolContext, children: list[ChildStarted]) -> None:
    """Start children that were there at the same time. Whether they waited is theirs to say."""
    known = [(child, director.child(child.child_run_id, child.name)) for child in children]
    if any(definition is None for _, definition in known):
        return  # they are numbered in the order they start in: without one, no other has its id
    started = [
        context.spawn(_Child(definition), _prompt_of(director, child), name=child.name)
        for child, definition in known
        if definition is not None
    ]
    for outcome in await asyncio.gather(*started, return_exceptions=True):
        if isinstance(outcome, ChildWaits | HookError | asyncio.CancelledError):
            raise outcome
        if isinstance(outcome, ToolError):  # no such child was kept from starting then
            await director.part_ways(director.playing(context.state.run_id), str(outcome))


class _Child(msgspec.Struct, frozen=True):
    """An agent, as far as starting it as a child is concerned."""

    definition: Definition


def _prompt_of(director: Director, child: ChildStarted) -> str:
    prompt = director.playing(child.child_run_id).recording.parts[0].prompt
    return prompt.text if prompt is not None else ""


async def _others_settled(playing: Playing, step: int) -> None:
    """Wait for the calls of a step that had their result before it was cancelled."""
    others = playing.recording.settled(step)
    while playing.tries["settled", step] < others:  # noqa: ASYNC110 - they are on their way already
        await asyncio.sleep(0)
