from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from typing import Any

import pytest
from streaming import add, deltas, read

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunStatus,
    tool,
)
from hookline.errors import RateLimitError, UsageError
from hookline.journal import (
    Record,
    RunFinished,
    RunStarted,
    StepFinished,
    TextDelta,
    ToolProgress,
)
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say


@tool
async def hang() -> str:
    """Hang."""
    await asyncio.sleep(60)
    return "never"


def builder(*turns: Any) -> AgentBuilder:
    """An agent with two tools that plays these turns on a clock that stands still."""
    agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add, hang)
    return agent.with_clock(FakeClock()).with_id("agent")


# --- one loop -----------------------------------------------------------------------------------------


SCRIPTS: dict[str, tuple[Any, ...]] = {
    "answer": (say("hi"),),
    "tools": (calls(call("add", a=1), call("add", a=2)), call("add", a="x"), say("done")),
    "blocked": (call("add", a=13), say("ok")),
    "stopped": (call("add", a=99),),
    "paused": (call("add", a=50),),
    "failed": (call("add", a=1), ValueError("lost")),
    "retried": (RateLimitError("slow"), say("ok")),
}


def judged(agent: AgentBuilder) -> AgentBuilder:
    """The builder with a hook that blocks, stops or asks, depending on the number."""

    def judge(ctx: Any) -> Any:
        number = ctx.tool_call.args["a"]
        verdicts = {
            13: HookOutcome.block("no"),
            99: HookOutcome.stop("no"),
            50: HookOutcome.ask("?"),
        }
        return verdicts.get(number)

    return agent.on_before_tool_use(judge)


@pytest.mark.parametrize("script", SCRIPTS)
async def test_every_way_of_driving_gives_the_same_run(script: str) -> None:
    """Run, stream and step by step: the same state, the same records, the same hooks in the same order."""
    states, journals, orders = [], [], []
    for way in ("run", "stream", "iterate"):
        order: list[str] = []
        agent = judged(builder(*SCRIPTS[script]))
        for point in (
            "execution_start",
            "before_step",
            "after_tool_use",
            "after_step",
            "execution_end",
        ):
            agent.add_hook(point, lambda ctx, *, order=order: order.append(ctx.point.value))
        built = agent.build()
        if way == "run":
            result = await built.run("go", run_id="r")
        else:
            stream = getattr(built, way)("go", run_id="r")
            await read(stream)
            result = stream.result
        states.append(result.state)
        journals.append(list(result.records))
        orders.append(order)
    assert states[0] == states[1] == states[2]
    assert journals[0] == journals[1] == journals[2]
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_stream_yields_every_record_in_order(script: str) -> None:
    """From the first to the last; what it yields besides is deltas, which are not journalled."""
    stream = judged(builder(*SCRIPTS[script])).build().stream("go")
    yielded = await read(stream)
    kept = [record for record in yielded if not isinstance(record, TextDelta | ToolProgress)]
    assert kept == list(stream.result.records)
    assert isinstance(kept[0], RunStarted)
    assert isinstance(kept[-1], RunFinished)
    assert [record.seq for record in kept] == list(range(len(kept)))


async def test_the_records_of_a_run_are_complete_and_in_order() -> None:
    """The kinds of records, in the order things happen."""
    result = await builder(call("add", a=1), say("2")).build().run("go")
    assert [record.type for record in result.records] == [
        *("run_started", "prompt"),
        *("step_started", "request", "response", "call", "tool_result", "step"),
        *("step_started", "request", "response", "step"),
        *("status", "result"),
    ]


async def test_iterate_gives_the_state_after_each_step() -> None:
    """Each with one step more, each a state of its own."""
    stream = builder(call("add", a=1), call("add", a=2), say("done")).build().iterate("go")
    states = await read(stream)
    assert [state.step_count for state in states] == [1, 2, 3]
    assert [state.messages[-1].text for state in states] == ["2", "3", "done"]
    assert states[0].steps[0] == stream.result.state.steps[0]
    assert all(AgentState.from_json(state.to_json()) == state for state in states)


async def test_the_next_step_is_made_when_it_is_asked_for() -> None:
    """Who drives step by step decides when."""
    made: list[int] = []
    agent = builder(call("add", a=1), call("add", a=2), say("done"))
    built = agent.on_before_step(lambda ctx: made.append(ctx.step_index)).build()
    stream = built.iterate("go")
    await anext(stream)
    for _ in range(20):
        await asyncio.sleep(0)
    assert made == [0]
    await anext(stream)
    assert made == [0, 1]
    assert len(await read(stream)) == 1


async def test_a_stream_waits_for_its_reader_between_steps() -> None:
    """A slow reader is not left behind by the run."""
    made: list[int] = []
    agent = builder(*[call("add", a=1)] * 5, say("done"))
    stream = agent.on_before_step(lambda ctx: made.append(ctx.step_index)).build().stream("go")
    async for record in stream:
        if isinstance(record, StepFinished):
            for _ in range(10):
                await asyncio.sleep(0)
            assert made[-1] == record.step.index
    assert stream.result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("way", ["stream", "iterate"])
async def test_the_readers_time_is_not_the_runs(way: str) -> None:
    """Neither before the first step nor between steps: it counts against no limit and makes no step longer."""
    clock = FakeClock()

    def think(state: AgentState) -> Any:
        clock.advance(10)
        return say("done") if len(state.steps) == 4 else call("add", a=1)

    agent = builder(*[think] * 5).with_clock(clock).with_limits(seconds=100).build()
    stream: Any = getattr(agent, way)("go")
    clock.advance(1000)
    async for item in stream:
        if isinstance(item, AgentState | StepFinished):  # the step is made: the run waits
            clock.advance(1000)
    result = stream.result
    assert (result.status, result.state.step_count) == (RunStatus.COMPLETED, 5)
    assert result.state.counters.active_seconds == 50
    assert [step.duration for step in result.steps] == [10] * 5


async def test_the_result_is_there_when_the_stream_is_at_its_end() -> None:
    """Not before: asking early is an error that says what to do."""
    stream = builder(say("hi")).build().stream("go")
    with pytest.raises(UsageError, match=r"[Rr]ead the stream to its end"):
        _ = stream.result
    await read(stream)
    assert (stream.result.text, stream.result.status) == ("hi", RunStatus.COMPLETED)


async def test_a_run_never_raises_out_of_its_stream() -> None:
    """A lost run is a result like any other."""
    stream = builder(ValueError("lost")).build().stream("go")
    records = await read(stream)
    assert stream.result.status is RunStatus.FAILED
    assert records[-1].status is RunStatus.FAILED
    assert str(stream.result.error) == "lost"


# --- leaving early ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["stream", "iterate"])
async def test_leaving_early_cancels_the_run_and_takes_its_way_out(way: str) -> None:
    """execution_end and session_end run, and the result says cancelled."""
    log: list[str] = []
    agent = builder(call("add", a=1), call("hang"), say("never"))
    agent.on_after_step(lambda ctx: log.append("after_step"))
    agent.on_execution_end(lambda ctx: log.append(ctx.status.value))
    agent.on_session_end(lambda ctx: log.append("session_end"))
    stream = getattr(agent.build(), way)("go")
    async with contextlib.aclosing(stream):
        async for _ in stream:
            break
    assert log[-2:] == ["cancelled", "session_end"]
    assert stream.result.status is RunStatus.CANCELLED
    assert "the stream was left" in stream.result.explain()


async def test_leaving_in_the_middle_of_a_tool_interrupts_it() -> None:
    """Its clean-up runs before the hooks on the way out."""
    log: list[str] = []

    async def slow() -> str:
        """Be slow."""
        try:
            await asyncio.sleep(60)
        finally:
            log.append("cleanup")
        return "never"

    agent = AgentBuilder().with_driver(ScriptedDriver([call("slow")])).with_tools(slow)
    stream = agent.on_execution_end(lambda ctx: log.append("end")).build().stream("go")
    async for record in stream:
        if record.type == "call":
            break
    await asyncio.sleep(0)
    await stream.aclose()
    assert log[-1] == "end"
    assert stream.result.status is RunStatus.CANCELLED


async def test_a_stream_that_is_dropped_cancels_its_run() -> None:
    """Breaking out of the loop and forgetting about it is enough."""
    log: list[str] = []
    agent = builder(call("add", a=1), call("hang")).on_execution_end(lambda ctx: log.append("end"))

    async def look() -> None:
        async for _ in agent.build().stream("go"):
            break

    await look()
    gc.collect()
    for _ in range(50):
        await asyncio.sleep(0)
    assert log == ["end"]


async def test_a_reader_that_is_cancelled_takes_the_run_with_it() -> None:
    """A web request that goes away does not leave a run behind."""
    log: list[str] = []
    started = asyncio.Event()
    agent = builder(call("hang")).on_execution_end(lambda ctx: log.append(ctx.status.value))
    stream = agent.on_after_inference(lambda ctx: started.set()).build().stream("go")

    async def reader() -> None:
        async with contextlib.aclosing(stream):
            await read(stream)

    task = asyncio.create_task(reader())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["cancelled"]


@pytest.mark.parametrize("way", ["stream", "iterate"])
async def test_leaving_after_the_last_step_cancels_nothing(way: str) -> None:
    """The run has ended, and takes its way out to the end, output hooks included."""
    log: list[str] = []
    agent = builder(call("add", a=1), say("done"))
    agent.on_output(
        lambda ctx: log.append(ctx.output), tier="observer" if way == "stream" else "hook"
    )
    built = agent.on_execution_end(lambda ctx: log.append(ctx.status.value)).build()
    stream: Any = getattr(built, way)("go")
    steps = 0
    async for item in stream:
        steps += isinstance(item, AgentState | StepFinished)
        if steps == 2:
            break
    await stream.aclose()
    assert log == ["done", "completed"]


@pytest.mark.parametrize("way", ["stream", "iterate"])
async def test_a_run_can_be_cancelled_while_its_last_step_is_read(way: str) -> None:
    """Its output hooks have not let the answer out yet, and are not asked any more."""
    log: list[str] = []
    agent = builder(say("done")).on_output(lambda ctx: log.append(ctx.output)).build()
    stream: Any = getattr(agent, way)("go", run_id="r")
    async for _ in stream:
        if not log:
            log.append(f"cancelled {agent.cancel('r')}")
    assert (stream.result.status, log) == (RunStatus.CANCELLED, ["cancelled 1"])


async def test_leaving_while_output_hooks_wait_cancels_the_run() -> None:
    """Nobody waits for an answer that nobody reads."""
    asked = asyncio.Event()

    async def slow(ctx: Any) -> None:
        asked.set()
        await asyncio.sleep(60)

    ends: list[Any] = []
    agent = (
        builder(say("done")).on_output(slow).on_execution_end(lambda ctx: ends.append(ctx.status))
    )
    task = asyncio.create_task(read(agent.build().stream("go")))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == [RunStatus.CANCELLED]


async def test_a_stream_nobody_reads_starts_nothing() -> None:
    """Making one costs no model call."""
    driver = ScriptedDriver([say("hi")])
    agent = AgentBuilder().with_driver(driver).build()
    stream = agent.stream("go", run_id="r")
    await asyncio.sleep(0)
    await stream.aclose()
    assert driver.requests == []
    del stream
    gc.collect()
    assert (await agent.run("go", run_id="r")).text == "hi"


async def test_a_streamed_run_can_be_cancelled_by_name() -> None:
    """The stream then ends by itself."""
    agent = builder(call("hang")).build()
    stream = agent.stream("go", run_id="r")
    async for record in stream:
        if record.type == "call":
            agent.cancel("r", "enough")
    assert stream.result.status is RunStatus.CANCELLED


async def test_an_id_is_free_again_when_its_stream_has_ended() -> None:
    """Also while the stream object is still around."""
    agent = builder(say("a"), say("b")).build()
    stream = agent.stream("go", run_id="r")
    await read(stream)
    assert (await agent.run("again", run_id="r")).text == "b"


# --- listeners ----------------------------------------------------------------------------------------


async def test_listeners_get_what_the_journal_keeps() -> None:
    """In order, as it happens, and each of them."""
    one: list[Record] = []
    two: list[Record] = []
    agent = builder(call("add", a=1), say("2")).on_event(one.append).on_event(two.append)
    result = await agent.build().run("go")
    kept = [record for record in one if not isinstance(record, TextDelta)]
    assert kept == list(result.records)
    assert one == two


@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError, SystemExit])
async def test_a_listener_that_crashes_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    """The run, the other listeners and the stream continue."""
    heard: list[Record] = []

    def crash(record: Record) -> None:
        raise kind("listener down")

    plain = await builder(call("add", a=1), say("2")).build().run("go", run_id="r")
    agent = builder(call("add", a=1), say("2")).on_event(crash).on_event(heard.append).build()
    with caplog.at_level(logging.ERROR, logger="hookline"):
        stream = agent.stream("go", run_id="r")
        yielded = await read(stream)
    assert stream.result.state == plain.state
    assert heard == yielded
    assert "listener failed" in caplog.text


@pytest.mark.parametrize("output", ["none", "passes", "withholds"])
async def test_an_answer_stands_when_a_hook_stops_the_run_over_it(output: str) -> None:
    """A stop is no block: deltas, records and result agree, and the output hooks still judge the answer."""
    agent = builder(say("the answer")).on_after_inference(
        lambda ctx: HookOutcome.stop("enough"), name="stopper"
    )
    if output != "none":
        agent.on_output(lambda ctx: HookOutcome.block("no") if output == "withholds" else None)
    stream = agent.build().stream("go")
    events = await read(stream)
    text = "" if output == "withholds" else "the answer"
    assert "".join(deltas(events)) == text
    assert [event.text for event in events if event.type in ("response", "result")] == [text] * 2
    assert (stream.result.text, stream.result.status) == (text, RunStatus.STOPPED)


async def test_an_answer_that_is_discarded_and_ends_the_run_is_not_streamed() -> None:
    """Blocking discards it, and forbidding ends the run: together they do both."""
    agent = builder(say("SECRET")).on_after_inference(
        lambda ctx: HookOutcome.block("not that", ctx.forbid("not that")), name="dlp"
    )
    stream = agent.build().stream("go")
    events = await read(stream)
    assert not [event for event in events if "SECRET" in str(event)]
    assert (stream.result.text, stream.result.status) == ("", RunStatus.STOPPED)
    assert "SECRET" not in stream.result.state.to_json()


async def test_the_end_of_a_with_block_leaves_the_stream() -> None:
    """The run is cancelled, its hooks on the way out run, and the result is there."""
    ended: list[str] = []
    agent = builder(call("hang"), say("never"))
    agent.on_execution_end(lambda ctx: ended.append(ctx.status.value))
    async with agent.build().stream("go") as events:
        async for event in events:
            if event.type == "call":
                break
    assert (ended, events.result.status) == (["cancelled"], RunStatus.CANCELLED)
