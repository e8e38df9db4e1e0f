from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome, RunStatus, ToolContext, tool
from hookline.drivers import ReActDriver, ToolCallingDriver
from hookline.journal import (
    CallDelta,
    HookRan,
    ReasoningDelta,
    ResponseReceived,
    TextDelta,
    ToolProgress,
)
from hookline.testing import ScriptedProvider, WireCall, WireTurn

DELTAS = (TextDelta, ReasoningDelta, CallDelta)


@tool
async def add(a: int, b: int, context: ToolContext) -> int:
    """Add two numbers."""
    context.progress("adding")
    return a + b


SUM = WireTurn("Let me see.", (WireCall("add", {"a": 2, "b": 3}),), "I must add.")


def builder(*turns: WireTurn) -> tuple[AgentBuilder, ScriptedProvider]:
    """An agent, and the provider its driver asks."""
    provider = ScriptedProvider(turns)
    driver = ToolCallingDriver("m", provider=provider)
    return AgentBuilder().with_driver(driver).with_tools(add), provider


async def test_a_stream_has_an_event_foreverything() -> None:
    """Text, thinking, arguments, progress, verdicts, usage: each typed, each in its place."""
    made, _ = builder(SUM, WireTurn("It is 5."))
    made.on_before_tool_use(lambda ctx: HookOutcome.allow("sums are fine"), name="fine")
    stream = made.build().stream("2+3?")
    records = [record async for record in stream]

    def joined(kind: Any, field: str) -> str:
        return "".join(getattr(record, field) for record in records if isinstance(record, kind))

    assert joined(TextDelta, "text") == "Let me see.It is 5."
    assert joined(ReasoningDelta, "text") == "I must add."
    assert joined(CallDelta, "arguments") == '{"a": 2, "b": 3}'
    assert joined(ToolProgress, "message") == "adding"
    verdicts = [one.verdict for one in records if isinstance(one, HookRan) and one.hook == "fine"]
    assert verdicts == ["allow"]
    used = [one.usage.output_tokens for one in records if isinstance(one, ResponseReceived)]
    assert used == [5, 5]
    kinds = [type(record) for record in records]
    last = max(n for n, kind in enumerate(kinds) if kind is CallDelta)
    assert last < kinds.index(ResponseReceived) < kinds.index(ToolProgress)


async def test_a_run_that_nobody_reads_asks_for_the_whole_answer() -> None:
    """There is no need to stream over the wire."""
    asked: list[bool] = []

    class Listens(ScriptedProvider):
        def ask(self, request: Any, *, streamed: bool) -> Any:
            asked.append(streamed)
            return super().ask(request, streamed=streamed)

    provider = Listens([WireTurn("a"), WireTurn("b"), WireTurn("c")])
    made = AgentBuilder().with_driver(ToolCallingDriver("m", provider=provider))
    await made.build().run("go")
    async for _ in made.build().stream("go"):
        pass
    await made.on_event(lambda _: None).build().run("go")
    assert asked == [False, True, True]


@pytest.mark.parametrize("point", ["after_inference", "output", "around_inference"])
@pytest.mark.parametrize("text_protocol", [False, True])
async def test_nothing_is_shown_before_a_hook_that_may_withhold_it(
    point: str, text_protocol: bool
) -> None:
    """Neither text nor thinking nor arguments, whichever driver it is."""
    seen: list[int] = []
    records: list[Any] = []

    def look() -> None:
        seen.append(sum(isinstance(record, DELTAS) for record in records))

    async def around(ctx: Any, call_next: Any) -> Any:
        response = await call_next(ctx)
        look()
        return response

    turn = WireTurn('{"thought": "Hm.", "answer": "It is 5."}' if text_protocol else "It is 5.")
    kind = ReActDriver if text_protocol else ToolCallingDriver
    made = AgentBuilder().with_driver(kind("m", provider=ScriptedProvider([turn])))
    made.with_tools(add)
    made.add_hook(point, around if point == "around_inference" else lambda ctx: look())
    stream = made.build().stream("2+3?")
    async for record in stream:
        records.append(record)
    assert seen == [0]
    assert "".join(record.text for record in records if isinstance(record, TextDelta)) == "It is 5."


async def test_a_slow_reader_slows_the_model_down() -> None:
    """At most one piece is read ahead of the reader."""
    ahead: list[int] = []
    sent = 0

    class Counts(ScriptedProvider):
        async def ask(self, request: Any, *, streamed: bool) -> Any:
            nonlocal sent
            async for piece in super().ask(request, streamed=streamed):
                sent += 1
                yield piece

    provider = Counts([WireTurn("a text of many small pieces, one after the other")])
    agent = AgentBuilder().with_driver(ToolCallingDriver("m", provider=provider)).build()
    read = 0
    async for record in agent.stream("go"):
        if isinstance(record, TextDelta):
            read += 1
            for _ in range(5):
                await asyncio.sleep(0)
            ahead.append(sent - read)
    assert read > 5
    assert max(ahead) <= 1


async def test_a_child_run_keeps_the_pace_too() -> None:
    """Whoever reads the parent's stream reads the child's text as well."""
    ahead: list[int] = []
    sent = 0

    class Counts(ScriptedProvider):
        async def ask(self, request: Any, *, streamed: bool) -> Any:
            nonlocal sent
            async for piece in super().ask(request, streamed=streamed):
                sent += 1
                yield piece

    text = "a text of many small pieces, one after the other"
    child = AgentBuilder().with_driver(ToolCallingDriver("m", provider=Counts([WireTurn(text)])))

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(child.build(), "go")).text

    parent, _ = builder(WireTurn(calls=(WireCall("delegate"),)), WireTurn("done"))
    read = 0
    async for record in parent.with_tools(delegate).build().stream("go"):
        if isinstance(record, TextDelta) and record.text != "done":
            read += 1
            for _ in range(5):
                await asyncio.sleep(0)
            ahead.append(sent - read)
    assert read > 5
    assert max(ahead) <= 1


async def test_leaving_a_stream_closes_the_connection() -> None:
    """At once, in the middle of the answer, and before the next piece is read."""
    made, provider = builder(WireTurn("a text of many small pieces, one after the other"))
    stream = made.build().stream("go")
    async for record in stream:
        if isinstance(record, TextDelta):
            break
    await stream.aclose()
    assert provider.hung_up
    assert stream.result.status is RunStatus.CANCELLED
