"""A turn in which no hook has a say is taken in one go; nobody can tell that from what it does."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hookline import (
    AgentBuilder,
    ErrorPolicy,
    HookOutcome,
    RunResult,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from hookline.agent import loop
from hookline.agent.run import Run
from hookline.drivers import InferenceResponse
from hookline.errors import ModelError, RateLimitError
from hookline.state import NO_USAGE, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, say

CLOCKS: list[FakeClock] = []
"""The clock of the run that is being driven."""


@tool
async def fine(n: int) -> int:
    """Take a while, and give a number."""
    CLOCKS[-1].advance(0.5)
    await asyncio.sleep(0)
    return n


@tool(effect="pure", max_chars=3)
async def words(text: str = "hello") -> str:
    """Give some text."""
    return text


@tool(effect="pure")
async def fails(n: int) -> int:
    """Fail, and be safe to run again."""
    raise ValueError(f"failed at {n}")


@tool
async def odd(n: int) -> Any:
    """Give what is not JSON."""
    return object()


@tool
async def result(n: int) -> ToolResult:
    """Give a result of its own making."""
    return ToolResult(n, reason="made", metadata={"n": n})


@tool
async def cancelled(n: int) -> int:
    """Look at a future that was cancelled."""
    raise asyncio.CancelledError


@tool
async def leaves(n: int) -> int:
    """Try to end the process."""
    raise SystemExit(n)


@tool
def in_a_thread(n: int) -> int:
    """Work in a thread."""
    return n


@tool
async def placed(n: int, context: ToolContext) -> str:
    """Know where it runs."""
    return context.idempotency_key


@tool(timeout=60)
async def limited(n: int) -> int:
    """Have a time limit."""
    return n


TOOLS = (fine, words, fails, odd, result, cancelled, leaves, in_a_thread, placed, limited)
CALLS: dict[str, tuple[str, str]] = {
    **{made.name: (made.name, '{"n": 1}') for made in TOOLS if made is not words},
    "words": ("words", '{"text": "ok"}'),
    "cut": ("words", '{"text": "too long"}'),
    "default": ("words", ""),
    "unknown": ("unknown", '{"n": 1}'),
    "wrong": ("fine", '{"n": "many"}'),
    "coerced": ("fine", '{"n": "7"}'),
    "excess": ("fine", '{"n": 1, "m": 2}'),
    "malformed": ("fine", "{"),
}
TURNS: dict[str, Any] = {
    "costly": InferenceResponse("paid", (), Usage(5, 7, 1, 0.25, 0, 2, 1)),
    "foreign": InferenceResponse("größer", (), Usage(5, 7, 1), "m", finish="length"),
    "nobody": InferenceResponse("", (ToolCall("", "fine", {"n": 1}),)),
    "backwards": InferenceResponse("hm", (), Usage(-1, 2, 1)),
    "down": ModelError("down"),
    "slow": RateLimitError("slow"),
    "cancelled": asyncio.CancelledError(),
}
POLICIES = {
    "default": ErrorPolicy(),
    "stop": ErrorPolicy.stop_on_any_error(),
    "retry": ErrorPolicy.retry_all(1),
    "ignore": ErrorPolicy.ignore_tool_errors(),
}
batches = st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=2).map(tuple)
turns = st.one_of(batches, batches, st.sampled_from(list(TURNS)))
scripts = st.lists(turns, min_size=1, max_size=5).map(tuple)
BETWEEN = ("before_step", "after_step", "should_continue", "stop", "error", "execution_end")
WATCHED = (
    *BETWEEN,
    "before_tool_use",
    "after_tool_use",
    "stop at error",
    "stop at before_step",
    "note at before_step",
)


class Told:
    """A model that is told what to answer, and notes what it is asked."""

    def __init__(self, script: tuple[Any, ...]) -> None:
        self.script = script
        self.asked: list[Any] = []

    async def infer(self, request: Any, turn: Any) -> Any:
        """The next answer of the script, and after its end an answer without calls."""
        number = len(self.asked)
        self.asked.append((request, tuple(request.messages)))
        CLOCKS[-1].advance(0.25)
        turn = self.script[number] if number < len(self.script) else "foreign"
        if isinstance(turn, tuple):
            made = (CALLS[name] for name in turn)
            ids = (f"call_{number}_{place}" for place in range(len(turn)))
            made_calls = tuple(
                ToolCall.from_json(id, *each) for id, each in zip(ids, made, strict=True)
            )
            return InferenceResponse("", made_calls, Usage(1, 2, 1))
        if isinstance(TURNS[turn], BaseException):
            raise TURNS[turn]
        return TURNS[turn]


def watch(ctx: object) -> None:
    """A hook that lets things be."""


def stop(ctx: object) -> HookOutcome:
    """A hook that ends the run."""
    return HookOutcome.stop("enough")


def note(ctx: Any) -> Any:
    """A hook that says something to the model."""
    return ctx.state.with_user_message("a note")


ACTIONS: dict[str, Any] = {"": watch, "stop": stop, "note": note}


async def driven(
    script: tuple[Any, ...],
    policy: str,
    cancel_at: int | None,
    watched: tuple[str, ...],
    tokens: int = 60,
) -> tuple[RunResult, list[Any]]:
    """Drive an agent through a script; gives its result and the requests its model got."""
    clock = FakeClock()
    CLOCKS[:] = [clock]
    driver = Told(script)
    builder = (
        AgentBuilder().with_driver(driver).with_tools(*TOOLS).with_clock(clock).with_id("agent")
    )
    builder.with_limits(steps=7, tokens=tokens, seconds=3).with_error_policy(POLICIES[policy])
    heard = 0

    def listen(_record: object) -> None:
        nonlocal heard
        heard += 1
        if heard == cancel_at:
            agent.cancel("run", "from a listener")

    builder.on_event(listen)
    for each in watched:
        action, _, point = each.rpartition(" at ")
        builder.add_hook(point, ACTIONS[action], name=each.replace(" ", "-"))
    agent = builder.build()
    outcome = await agent.run("go", run_id="run", session="session")
    return outcome, driver.asked


@settings(max_examples=150, deadline=None)
@given(
    scripts,
    st.sampled_from(list(POLICIES)),
    st.one_of(st.none(), st.none(), st.integers(0, 30)),
    st.lists(st.sampled_from(WATCHED), unique=True, max_size=2).map(tuple),
    st.sampled_from((60, 60, 6, 3)),
)
@example((("fine",), ("words",)), "default", None, (), 60)
@example((("fails",), ("fine",)), "retry", None, (), 60)
@example((("fails",), ("fine",)), "default", None, ("stop at error",), 60)
@example((("fine",),), "default", None, ("note at before_step",), 60)
@example((("fine",),), "default", 4, (), 60)
@example((("fine",),), "default", 7, (), 60)
@example((("fine",),), "default", 5, ("after_step",), 60)
@example((("fine",), ("fine",)), "default", None, (), 6)
@example((("fine",),) * 5, "default", None, (), 60)
def test_it_does_what_the_long_way_does(
    script: tuple[Any, ...],
    policy: str,
    cancel_at: int | None,
    watched: tuple[str, ...],
    tokens: int,
) -> None:
    """The same records at the same times, the same requests and the same result, whatever happens."""
    case = (script, policy, cancel_at, watched, tokens)
    short, asked = asyncio.run(driven(*case))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "is_unasked", lambda run: False)
        long, asked_long = asyncio.run(driven(*case))
    assert short.records == long.records
    assert asked == asked_long
    assert short.state == long.state
    assert (short.status, short.stop_reason, short.output) == (
        long.status,
        long.stop_reason,
        long.output,
    )
    assert (type(short.error), str(short.error)) == (type(long.error), str(long.error))


async def test_it_is_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent without hooks goes it, also with hooks that only come between its turns."""
    taken: list[int] = []

    async def note(run: Any) -> None:
        taken.append(run.step_index)
        await unasked(run)

    unasked = loop.take_turn_unasked
    monkeypatch.setattr(loop, "take_turn_unasked", note)
    await driven((("fine",), ("words",)), "default", None, BETWEEN)
    assert taken == [0, 1, 2]


@pytest.mark.parametrize(
    "point", ["before_inference", "after_inference", "before_tool_use", "after_tool_use", "output"]
)
async def test_whoever_has_a_say_is_asked(point: str) -> None:
    """One hook at any point of a turn is enough for it to be asked."""
    seen: list[str] = []
    agent = AgentBuilder().with_driver(ScriptedDriver([call("words"), say("done")]))
    agent.with_tools(words).add_hook(point, lambda ctx: seen.append(ctx.point.value))
    assert (await agent.build().run("go")).text == "done"
    assert seen == [point] * (2 if "inference" in point else 1)


async def test_what_it_costs_is_counted_up_the_tree() -> None:
    """The calls, steps and tokens of a child that nobody watches are its parent's too."""
    inner = AgentBuilder().with_tools(words).with_limits(steps=4)
    inner.with_driver(ScriptedDriver([call("words", text="a"), say("inner", tokens=5)]))
    child = inner.build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(child, "task")).text

    outer = AgentBuilder().with_tools(delegate)
    outer.with_driver(ScriptedDriver([call("delegate"), say("outer")]))
    ended = await outer.build().run("go")
    counters = ended.state.counters
    assert (counters.steps, counters.tool_calls) == (4, 2)
    assert counters.usage != NO_USAGE


async def test_a_run_leaves_nothing_for_the_garbage_collector() -> None:
    """A run that is over is gone with its result: a server that makes many does not pile them up."""
    agent = AgentBuilder().with_driver(Told((("words",), ("default",)))).with_tools(words).build()
    CLOCKS[:] = [FakeClock()]
    gc.collect()
    gc.disable()
    try:
        await agent.run("go")
        left = [each for each in gc.get_objects() if isinstance(each, Run)]
        assert [run for run in left if run.definition is agent.definition] == []
    finally:
        gc.enable()
