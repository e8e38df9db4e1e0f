"""An answer that cannot be read is asked for again, and another model is asked where there is one."""

from __future__ import annotations

from typing import Any

import pytest
from wires import anthropic, google, openai
from wires.scripted import FarEnd, HTTPWire
from wires.server import Exchange

from hookline import Agent, AgentBuilder, RunStatus
from hookline.agent import RunResult
from hookline.drivers import ToolCallingDriver
from hookline.flow import ErrorClass
from hookline.journal import ErrorRaised
from hookline.providers import Provider
from hookline.testing import Failure, FakeClock, ScriptedProvider, WireTurn

pytestmark = pytest.mark.usefixtures("no_settings")
WIRES: dict[str, type[HTTPWire[Any]]] = {
    "anthropic": anthropic.AnthropicWire,
    "google": google.GoogleWire,
    "openai": openai.OpenAIWire,
}
HOW = pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
GARBLED = WireTurn("Half of it", failure=Failure.MALFORMED)


async def finished(agent: Agent, streamed: bool) -> RunResult:
    """The result of a run, with or without a reader."""
    if not streamed:
        return await agent.run("Go.")
    stream = agent.stream("Go.")
    async for _ in stream:
        pass
    return stream.result


def actions(result: RunResult) -> list[tuple[str, str]]:
    """The class of each error, and what was decided about it."""
    errors = [record for record in result.records if isinstance(record, ErrorRaised)]
    return [(each.error.error_class, each.action) for each in errors if each.error is not None]


@HOW
@pytest.mark.parametrize("name", WIRES)
async def test_a_broken_chunk_is_asked_for_again(name: str, streamed: bool) -> None:
    """The default error policy retries a garbled answer, and nothing of it stays."""
    wire = WIRES[name]()
    async with wire.provider([GARBLED, WireTurn("All of it.")]) as provider:
        driver = ToolCallingDriver(wire.model, provider=provider)
        agent = AgentBuilder().with_driver(driver).with_clock(FakeClock()).build()
        result = await finished(agent, streamed)
    assert (result.status, result.text) == (RunStatus.COMPLETED, "All of it.")
    assert actions(result) == [("malformed", "retry")]
    assert len(wire.requests) == 2
    assert "Half" not in result.state.to_json()


@HOW
@pytest.mark.parametrize("name", WIRES)
async def test_a_broken_chunk_falls_back(name: str, streamed: bool) -> None:
    """Another model is asked at once in the place of one whose answer is garbled."""
    wire = WIRES[name]()
    other = ScriptedProvider([WireTurn("Here I am.")])
    async with wire.provider([GARBLED]) as provider:
        drivers = [ToolCallingDriver(wire.model, provider=provider), _asking(other)]
        result = await finished(AgentBuilder().with_model(drivers).build(), streamed)
    assert result.text == "Here I am."
    assert actions(result) == [("malformed", "fallback")]


async def test_garbled_answers_have_a_limit() -> None:
    """A server that only ever answers garbled fails the run after the retries of the policy."""
    wire = openai.OpenAIWire()
    async with wire.provider([GARBLED] * 4) as provider:
        driver = ToolCallingDriver(wire.model, provider=provider)
        result = await AgentBuilder().with_driver(driver).with_clock(FakeClock()).build().run("Go.")
    assert result.status is RunStatus.FAILED
    assert actions(result) == [("malformed", "retry")] * 3 + [("malformed", "stop")]


def _asking(provider: Provider) -> ToolCallingDriver:
    return ToolCallingDriver("other", provider=provider)


def _replying(body: dict[str, Any]) -> FarEnd:
    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, body)

    return far_end


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (openai, {"model": "m", "choices": []}),
        (openai, {"choices": [{"message": {"tool_calls": [{"id": "1", "function": {}}]}}]}),
        (google, {"candidates": []}),
        (google, {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
        (google, google.chunk_body([{"functionCall": {"args": {}}}], "STOP")),
        (anthropic, {"model": "m", "role": "assistant", "stop_reason": "end_turn"}),
        (anthropic, {"model": "m", "content": [{"type": "tool_use", "id": "1", "input": {}}]}),
    ],
    ids=lambda given: given.__name__ if not isinstance(given, dict) else "body",
)
async def test_an_answer_without_its_parts_is_garbled(wire: Any, body: dict[str, Any]) -> None:
    """Another model is asked for no choices, no content, or a function call without a name or past reading."""
    async with wire.talking_to(_replying(body)) as (provider, _):
        drivers = [_asking(provider), _asking(ScriptedProvider([WireTurn("Here I am.")]))]
        result = await AgentBuilder().with_model(drivers).build().run("Go.")
    assert result.text == "Here I am."
    assert actions(result) == [(ErrorClass.MALFORMED, "fallback")]
