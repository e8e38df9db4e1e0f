"""The way to a model and back: cancelled, left, failing, tried again, and asked for too much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from hookline.errors import UnsupportedError
from hookline.providers import Feature
from hookline.state import RunStatus, UserMessage
from hookline.testing.provider_cases.samples import (
    ANSWER,
    PAPER,
    PICTURE,
    SCHEMA,
    SPEC,
    asks,
    retries,
)
from hookline.testing.provider_stage import Inapplicable, Stage
from hookline.testing.secrets import Scrubber
from hookline.testing.wire import ERRORS, Failure


async def cancelled(stage: Stage) -> None:
    """A run that is cancelled while the model is silent ends at once, and hangs up."""
    _require_failure(stage, Failure.SILENCE)
    async with stage.agent(stage.turn(ANSWER, failure=Failure.SILENCE)) as agent:
        run = asyncio.create_task(stage.drive(agent))
        await stage.until(lambda: bool(stage.wire.requests))
        agent.cancel()
        seen = await run
        stage.expect("the run's status", RunStatus.CANCELLED, seen.result.status)
        await stage.until(lambda: stage.wire.hung_up)


async def left(stage: Stage) -> None:
    """A stream that its reader leaves hangs up."""
    if not stage.streamed:
        raise Inapplicable("only a stream can be left")
    _require_failure(stage, Failure.SILENCE)
    async with stage.agent(stage.turn(ANSWER, failure=Failure.SILENCE)) as agent:
        stream = agent.stream("Go.")
        reading = asyncio.create_task(_read(stream))
        await stage.until(lambda: bool(stage.wire.requests))
        reading.cancel()
        await asyncio.wait([reading])
        await stage.until(lambda: stage.wire.hung_up)


async def second_loop(stage: Stage) -> None:
    """An agent that was run in one event loop can be run in another: that is what `run_sync` twice does."""
    if stage.streamed:
        raise Inapplicable("`run_sync` does not stream")
    turns = (stage.turn("one"), stage.turn("two"), stage.turn("three"))
    async with stage.agent(*turns) as agent:
        answers = [(await agent.run("Go.")).text]
        for _ in range(2):
            answers.append((await asyncio.to_thread(agent.run_sync, "Go.")).text)
        stage.expect("the answers", ["one", "two", "three"], answers)


def failing(failure: Failure) -> Callable[[Stage], Awaitable[None]]:
    """The case of one failure of the far end."""

    async def case(stage: Stage) -> None:
        _require_failure(stage, failure)
        async with stage.agent(stage.turn(ANSWER, failure=failure)) as agent:
            result = (await stage.drive(agent)).result
            error, kind = result.error, ERRORS[failure]
            stage.expect("the run's status", RunStatus.FAILED, result.status)
            if not isinstance(error, kind):
                stage.expect("the error", kind.__name__, f"{type(error).__name__}: {error}")
            remedy = getattr(error, "remedy", "")
            stage.expect("whether the error says what to do", True, bool(remedy))
            words = f"{error} {remedy}"
            stage.expect("the error without secrets", Scrubber().text(words), words)
            stage.expect("lines of the error", 1, len(str(error).splitlines()))
            stage.expect("the text of a failed run", "", result.text)

    return case


async def retried(stage: Stage) -> None:
    """The error policy waits as long as the far end asks for, and then the model answers."""
    known = [Failure.RATE_LIMIT, Failure.OVERLOADED]
    failures = [one for one in known if one in stage.wire.failures]
    if not failures:
        raise Inapplicable("its far end is never too busy")
    turns = [stage.turn("no", failure=one, retry_after=7.0) for one in failures]
    async with stage.agent(*turns, stage.turn(ANSWER), configure=retries) as agent:
        seen = await stage.drive(agent)
        stage.expect("the answer", ANSWER, seen.result.text)
        stage.expect("how long was waited", [7.0] * len(failures), stage.clock.slept)


async def restarted(stage: Stage) -> None:
    """An answer that broke off is begun anew, and whoever reads along can tell where."""
    _require_failure(stage, Failure.CUT)
    turns = (stage.turn("This will not be all.", failure=Failure.CUT), stage.turn(ANSWER))
    async with stage.agent(*turns, configure=retries) as agent:
        seen = await stage.drive(agent)
        stage.expect("the answer", ANSWER, seen.result.text)
        if stage.streamed:
            stage.expect("the text after the error", ANSWER, seen.since_error().text)


async def undeclared(stage: Stage) -> None:
    """Asking for what it does not declare is an UnsupportedError that says so, and nothing is sent."""
    asking: dict[Feature, dict[str, Any]] = {
        Feature.STRUCTURED_OUTPUT: {"output_schema": SCHEMA},
        Feature.IMAGES: {"messages": [UserMessage("Look.", "", (PICTURE,))]},
        Feature.DOCUMENTS: {"messages": [UserMessage("Read.", "", (PAPER,))]},
    }
    if stage.is_native:  # the other driver asks for tools in words
        asking[Feature.TOOLS] = {"tools": (SPEC,)}
        asking[Feature.TOOL_CHOICE] = {"tools": (SPEC,), "tool_choice": SPEC.name}
    for feature, changes in asking.items():
        async with stage.agent(configure=asks(**changes), tools=()) as agent:
            if feature in stage.features:
                continue
            error = (await stage.drive(agent)).result.error
            stage.expect(f"the error for {feature.value}", UnsupportedError, type(error))
            stage.expect("requests", 0, len(stage.wire.requests))


async def _read(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


def _require_failure(stage: Stage, failure: Failure) -> None:
    if failure not in stage.wire.failures:
        raise Inapplicable(f"its far end does not fail like this ({failure.value})")
