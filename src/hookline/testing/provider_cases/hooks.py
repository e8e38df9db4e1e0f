"""Hooks, limits and approvals mean the same over every provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookline.agent import AgentBuilder
from hookline.errors import ModelNotFoundError, UnsupportedError
from hookline.hooks import HookOutcome
from hookline.state import AgentState, Decision, ResultStatus, RunStatus, StopReason
from hookline.testing.provider_cases.samples import ANSWER, CALL, asks, expect_told
from hookline.testing.provider_stage import Stage


async def block(stage: Stage) -> None:
    """A blocked call does not run, and the model reads why."""
    configure = _says(HookOutcome.block("otters are asleep"))
    turns = (stage.turn("", CALL), stage.turn(ANSWER))
    async with stage.agent(*turns, configure=configure) as agent:
        result = (await stage.drive(agent)).result
        expect_told(stage, result, ResultStatus.BLOCKED, "otters are asleep")


async def stop(stage: Stage) -> None:
    """A hook that stops the run stops it, and the model is not asked again."""
    configure = _says(HookOutcome.stop("enough"))
    async with stage.agent(stage.turn("", CALL), configure=configure) as agent:
        result = (await stage.drive(agent)).result
        stage.expect("the run's status", RunStatus.STOPPED, result.status)
        stage.expect("requests", 1, len(stage.wire.requests))


async def ask(stage: Stage) -> None:
    """A call waits for a person, and goes on with the answer."""
    configure = _says(HookOutcome.ask("may I?"))
    turns = (stage.turn("", CALL), stage.turn(ANSWER))
    async with stage.agent(*turns, configure=configure) as agent:
        paused = (await stage.drive(agent)).result
        stage.expect("the run's status", RunStatus.PAUSED, paused.status)
        stored = AgentState.from_json(paused.state.to_json())
        answers = {pending.id: Decision.allow() for pending in stored.pending}
        result = await agent.resume(stored, answers)
        stage.expect("the answer after the resume", ANSWER, result.text)
        stage.expect_in("the result in the second request", "found otters", stage.sent(1))


async def limit(stage: Stage) -> None:
    """A limit ends the run between two turns."""
    turns = (stage.turn("", CALL), stage.turn("", CALL), stage.turn("", CALL))
    async with stage.agent(*turns, configure=lambda one: one.with_limits(steps=2)) as agent:
        result = (await stage.drive(agent)).result
        stage.expect("the run's status", RunStatus.STOPPED, result.status)
        stage.expect("why", StopReason.STEP_LIMIT, result.stop_reason)
        stage.expect("requests", 2, len(stage.wire.requests))


async def withheld(stage: Stage) -> None:
    """Of an answer that a hook discards nothing is shown, not even for a moment."""

    def configure(builder: AgentBuilder) -> None:
        def judge(ctx: Any) -> HookOutcome | None:
            secret = "swordfish" in ctx.response.text
            return HookOutcome.block("that is a secret") if secret else None

        builder.on_after_inference(judge)

    turns = (stage.turn("It is swordfish, I believe."), stage.turn(ANSWER))
    async with stage.agent(*turns, configure=configure) as agent:
        seen = await stage.drive(agent)
        stage.expect("the answer", ANSWER, seen.result.text)
        if stage.streamed:
            stage.expect("the text as it streamed", ANSWER, seen.text)


async def other_model(stage: Stage) -> None:
    """A hook names another model for one step."""
    configure = asks(model=f"{stage.wire.model}-b")
    async with stage.agent(stage.turn(ANSWER), configure=configure) as agent:
        result = (await stage.drive(agent)).result
        if result.status is RunStatus.FAILED and isinstance(result.error, ModelNotFoundError):
            return  # a provider that knows its own models may say so before it asks
        stage.expect("the answer", ANSWER, result.text)
        stage.expect_in("the model in the request", f"{stage.wire.model}-b", stage.sent(0))


async def options(stage: Stage) -> None:
    """An option of the request reaches the far end."""
    sent = []
    for given in ({}, {"temperature": 0.5}):
        async with stage.agent(stage.turn(ANSWER), configure=asks(options=given)) as agent:
            result = (await stage.drive(agent)).result
            if given and isinstance(result.error, UnsupportedError):
                return  # a provider may have no such option, and say so
            stage.expect("the answer", ANSWER, result.text)
            sent.append(stage.sent(0))
    stage.expect("whether an option changed the request", True, sent[0] != sent[1])


def _says(outcome: HookOutcome) -> Callable[[AgentBuilder], object]:
    """Configures an agent with a hook that says this of every call."""
    return lambda builder: builder.on_before_tool_use(lambda _: outcome)
