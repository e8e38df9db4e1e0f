"""Answers that the provider cuts off, that are empty, or that the caller cancels, over the wire of every provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from wires import anthropic, google, openai
from wires.server import Exchange

from hookline import Agent, AgentBuilder, RunStatus, StopReason
from hookline.agent import RunResult
from hookline.drivers import ToolCallingDriver
from hookline.journal import MemoryJournal, TextDelta
from hookline.playback import replay
from hookline.state import InferenceResponse, ResultStatus

pytestmark = pytest.mark.usefixtures("no_settings")
WIRES: dict[str, Any] = {"anthropic": anthropic, "google": google, "openai": openai}
EACH = pytest.mark.parametrize("name", WIRES)
FarEnd = Callable[[Exchange], Awaitable[None]]


def look(place: str) -> str:
    """Look at a place."""
    raise AssertionError("a call of half an answer must not run")


def _agent(provider: Any) -> Agent:
    driver = ToolCallingDriver("m", provider=provider)
    return AgentBuilder().with_driver(driver).with_tools(look).build()


def answer(name: str, text: str, *, cut: bool = False, call: bool = False) -> dict[str, Any]:
    """A whole answer on the wire of a provider."""
    if name == "anthropic":
        use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"place": "cellar"}}
        content = [*([{"type": "text", "text": text}] if text else []), *([use] if call else [])]
        reason = "max_tokens" if cut else "end_turn"
        return {"model": "m", "content": content, "stop_reason": reason, "usage": {}}
    if name == "google":
        made = {"functionCall": {"name": "look", "args": {"place": "cellar"}}}
        parts = [*([{"text": text}] if text else []), *([made] if call else [])]
        return google.chunk_body(parts, "MAX_TOKENS" if cut else "STOP")
    function = {"name": "look", "arguments": '{"place": "cellar"}'}
    calls = [{"id": "c1", "type": "function", "function": function}] if call else None
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    finish = "length" if cut else "stop"
    return {"model": "m", "choices": [{"message": message, "finish_reason": finish}]}


async def answered(name: str, body: dict[str, Any]) -> RunResult:
    """The result of a run whose model answers this."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.reply(200, body)

    async with WIRES[name].talking_to(far_end) as (provider, _):
        return await _agent(provider).run("Go.")


@EACH
async def test_an_answer_that_is_cut_off_is_no_completed_run(name: str) -> None:
    """The run ends stopped with the reason truncated, and what there is of the answer is kept."""
    result = await answered(name, answer(name, "Once upon", cut=True))
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.TRUNCATED)
    assert result.text == "Once upon"
    assert "max_tokens" in result.explain()


@EACH
async def test_a_call_in_an_answer_that_is_cut_off_does_not_run(name: str) -> None:
    """Half of it may be missing: its result says that it was not run."""
    result = await answered(name, answer(name, "", cut=True, call=True))
    assert result.stop_reason is StopReason.TRUNCATED
    assert [each.status for each in result.steps[0].results] == [ResultStatus.NOT_RUN]


@EACH
async def test_an_empty_answer_says_so(name: str) -> None:
    """The run is completed, and its reason is not that of an answer."""
    result = await answered(name, answer(name, ""))
    assert (result.status, result.stop_reason) == (RunStatus.COMPLETED, StopReason.EMPTY_ANSWER)


def begins(name: str) -> list[str]:
    """The beginning of a stream, in which the server has counted 40 tokens of input as far as its protocol can."""
    if name == "anthropic":
        block = {"type": "text", "text": "Once"}
        opened = {"type": "content_block_start", "index": 0, "content_block": block}
        begun = (anthropic.start(input_tokens=40, output_tokens=1), opened)
        return [anthropic.event(each) for each in begun]
    if name == "google":
        counts = {"promptTokenCount": 40, "candidatesTokenCount": 1}
        return [google.event(google.chunk_body([{"text": "Once"}], usageMetadata=counts))]
    return [openai.event(openai.chunk({"content": "Once"}, "m"))]


@EACH
async def test_a_cancelled_answer_is_paid_for(name: str) -> None:
    """What the server had counted is in the usage; where it had not, the request is counted without a price."""

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, {"content-type": "text/event-stream"})
        for each in begins(name):
            await exchange.send(each, size=0)
        await exchange.until_hung_up()

    async with WIRES[name].talking_to(far_end) as (provider, _):
        agent = _agent(provider)
        stream = agent.stream("Go.")
        async for record in stream:
            if isinstance(record, TextDelta):
                agent.cancel(reason="enough")
    used = stream.result.usage
    assert stream.result.status is RunStatus.CANCELLED
    assert (used.requests, used.input_tokens) == (1, 0 if name == "openai" else 40)
    assert (used.cost is None) is (used.unpriced_requests == 1)


@EACH
async def test_an_answer_that_is_cancelled_while_its_reader_is_slow_is_paid_for(name: str) -> None:
    """The driver waits for the reader, not for the server, when the run is cancelled."""
    slow = asyncio.Event()

    async def far_end(exchange: Exchange) -> None:
        await exchange.begin(200, {"content-type": "text/event-stream"})
        for each in begins(name):
            await exchange.send(each, size=0)
        await exchange.until_hung_up()

    class Slow(ToolCallingDriver):
        async def infer(self, request: Any, turn: Any) -> Any:
            class Waiting:
                def __getattr__(self, attribute: str) -> Any:
                    return True if attribute == "is_streamed" else getattr(turn, attribute)

                async def keep_pace(self) -> None:
                    slow.set()
                    await asyncio.Event().wait()

            return await super().infer(request, Waiting())  # type: ignore[arg-type]

    async with WIRES[name].talking_to(far_end) as (provider, _):
        agent = AgentBuilder().with_driver(Slow("m", provider=provider)).build()
        stream = agent.stream("Go.")
        reading = asyncio.create_task(_read(stream))
        await slow.wait()
        agent.cancel(reason="enough")
        await reading
    assert stream.result.usage.requests == 1
    assert stream.result.usage.input_tokens == (0 if name == "openai" else 40)


async def _read(stream: Any) -> None:
    async for _ in stream:
        pass


async def test_a_run_that_was_cut_off_replays() -> None:
    """What ended it is on record, so that older runs, which it did not end, replay too."""
    journal = MemoryJournal()

    class Endless:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            return InferenceResponse("Once upon", finish="length")

    agent = AgentBuilder().with_driver(Endless()).with_journal(journal).build()
    assert (await agent.run("Go.", run_id="r")).stop_reason is StopReason.TRUNCATED
    assert "is identical" in str(await replay(journal, "r", agent))
