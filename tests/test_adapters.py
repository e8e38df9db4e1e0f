"""Older code as hooks: state processors, continuation criteria and tool middleware."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    ContinuationDecision,
    ContinuationEvaluation,
    HookOutcome,
    RunStatus,
    tool,
)
from hookline.adapters import (
    ContinuationCriterionAdapter,
    StateProcessorAdapter,
    ToolMiddlewareAdapter,
)
from hookline.errors import RegistrationError
from hookline.journal import HookRan
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, say


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def builder(*turns: Any) -> AgentBuilder:
    """An agent with one tool that plays these turns."""
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(add)


@pytest.mark.parametrize("position", ["before", "after"])
def test_a_state_processor_is_a_hook(position: str) -> None:
    """`process(state)` is asked before or after each step."""

    class Counter:
        def process(self, state: Any) -> Any:
            return state.with_metadata("count", state.metadata.get("count", 0) + 1)

    adapter = StateProcessorAdapter(Counter(), position)
    agent = builder(call("add", a=1), say("ok")).add_hook(adapter.point, adapter)
    assert adapter.point == f"{position}_step"
    assert dict(agent.build().run_sync("go").state.metadata) == {"count": 2}


class Wraps:
    """A state processor that does something before the step and after it."""

    def process(self, state: Any, next: Any) -> Any:
        made = next(state.with_metadata("before", state.step_count))
        return made.with_metadata("after", made.step_count)


class WrapsAsync:
    """The same, async."""

    async def process(self, state: Any, next: Any = None) -> Any:
        made = await next(state.with_metadata("before", state.step_count))
        return made.with_metadata("after", made.step_count)


def wraps_later(state: Any, next: Any) -> Any:
    """The same, as a function that gives a coroutine."""
    return WrapsAsync().process(state, next)


@pytest.mark.parametrize("processor", [Wraps(), WrapsAsync(), wraps_later])
@pytest.mark.parametrize("position", ["before", "after"])
async def test_a_state_processor_with_next_wraps_the_step(processor: Any, position: str) -> None:
    """`next(state)` makes the step and gives the state after it, in sync and async processors."""
    agent = builder(call("add", a=1), say("ok"))
    result = await agent.with_hooks(StateProcessorAdapter(processor, position)).build().run("go")
    assert (result.status, len(result.steps)) == (RunStatus.COMPLETED, 2)
    assert dict(result.state.metadata) == {"before": 1, "after": 2}


def test_a_state_processor_of_two_arguments_names_the_second_next() -> None:
    """Another name is refused; what has a default and another name is an option of its own."""
    with pytest.raises(RegistrationError, match="its second parameter is named 'inner'"):
        StateProcessorAdapter(lambda state, inner: inner(state))
    assert StateProcessorAdapter(lambda state, limit=3: state).point == "after_step"


async def test_a_state_processor_can_hand_on_what_next_gives_or_nothing() -> None:
    """`return next(state)`, also in an async processor, and no `return` at all leave the state as the step made it."""

    async def hand_on(state: Any, next: Any) -> Any:
        return next(state.with_metadata("seen", True))

    def look_on(state: Any, next: Any) -> None:
        next(state)

    agent = builder(say("ok")).add_processor(hand_on).add_pre_processor(look_on)
    result = await agent.build().run("go")
    assert (result.text, dict(result.state.metadata)) == ("ok", {"seen": True})


async def test_a_state_processor_that_does_not_call_next_makes_no_step() -> None:
    """The run ends stopped, and names the processor."""

    class Closed:
        def process(self, state: Any, next: Any) -> Any:
            return state

    result = await builder(say("never")).add_processor(Closed()).build().run("go")
    assert (result.status, result.steps) == (RunStatus.STOPPED, ())
    assert "decided by 'Closed'" in result.explain()


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (lambda state, next: next(next(state)), "a call of the step has started"),
        (lambda state, next: (next(state), 42)[1], "it returned 42 (int)"),
        (lambda state, next: (next(state), state)[1], "state.steps is kept by the run"),
        (lambda state, next: next(state).no_such_field, "no_such_field"),
    ],
)
async def test_a_state_processor_that_misuses_next_fails_as_a_hook_does(
    process: Any, words: str
) -> None:
    """Twice around a call, another value, the state of before the step, an exception."""
    result = await builder(call("add", a=1), say("x")).add_processor(process).build().run("go")
    assert result.status is RunStatus.FAILED
    assert words in str(result.error)


async def test_a_sync_state_processor_ends_with_its_step() -> None:
    """Where the step pauses or is cancelled, what follows `next` does not run, and its thread ends."""
    ended = threading.Event()
    seen: list[str] = []

    def process(state: Any, next: Any) -> Any:
        try:
            made = next(state)
        except Exception:
            seen.append("it could catch it")
            raise
        finally:
            seen.append("left")
            ended.set()
        seen.append("after")
        return made

    def ask(ctx: Any) -> HookOutcome:
        return HookOutcome.ask("Really?")

    agent = builder(call("add", a=1), say("ok")).on_before_tool_use(ask).add_processor(process)
    built = agent.build()
    paused = await built.run("go")
    assert await asyncio.to_thread(ended.wait, 10)
    assert (paused.status, seen) == (RunStatus.PAUSED, ["left"])
    done = await built.resume(paused, {paused.pending[0].id: True})
    assert (done.text, seen) == ("ok", ["left", "left", "after", "left", "after"])
    ended.clear()
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    turns = ScriptedDriver([call("wait")])
    agent = AgentBuilder().with_driver(turns).with_tools(wait).add_processor(process)
    running = asyncio.create_task(agent.build().run("go"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(ended.wait, 10)
    assert seen[5:] == ["left"]


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        (True, 1),  # continuing is allowed, and the default guard allows stopping: that wins
        (ContinuationDecision.REQUEST_CONTINUATION, 3),
        (ContinuationDecision.FORBID_CONTINUATION, 1),
        (ContinuationEvaluation("me", ContinuationDecision.REQUEST_CONTINUATION, "more"), 3),
    ],
)
def test_a_continuation_criterion_is_a_hook(answer: Any, steps: int) -> None:
    """A bool, a decision or an evaluation, from `evaluate(state)` or a function."""

    class Criterion:
        def evaluate(self, state: Any) -> Any:
            return answer

    agent = builder(*[say("x")] * 5).with_limits(steps=3)
    adapter = ContinuationCriterionAdapter(Criterion())
    result = agent.add_hook(adapter.point, adapter).build().run_sync("go")
    assert result.state.step_count == steps


def test_onion_tool_middleware_is_a_hook_around_tools() -> None:
    """`process(call, state, next)`; returning nothing blocks, as it did there."""

    class Doubler:
        async def process(self, call: Any, state: Any, next: Any) -> Any:
            execution = await next(call.with_args(a=call.args["a"] * 2), state)
            return execution.with_metadata("doubled", True)

    class Blocker:
        def process(self, call: Any, state: Any, next: Any) -> Any:
            return None

    doubled = ToolMiddlewareAdapter(Doubler())
    result = (
        builder(call("add", a=5), say("ok")).add_hook(doubled.point, doubled).build().run_sync("x")
    )
    done = result.steps[0].results[0]
    assert (done.result, done.metadata) == (11, {"doubled": True})
    blocker = ToolMiddlewareAdapter(Blocker())
    blocked = (
        builder(call("add", a=5), say("ok")).add_hook(blocker.point, blocker).build().run_sync("x")
    )
    assert blocked.steps[0].results[0].status is ResultStatus.BLOCKED
    assert blocked.steps[0].results[0].decided_by == "Blocker"


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        (lambda: StateProcessorAdapter(object()), "process"),
        (lambda: StateProcessorAdapter(lambda state: state, "during"), "neither"),
        (lambda: ContinuationCriterionAdapter(object()), "criterion"),
        (lambda: ToolMiddlewareAdapter(object()), "process"),
    ],
)
def test_what_cannot_be_adapted_is_refused(adapt: Any, words: str) -> None:
    """When it is wrapped, not when it runs."""
    with pytest.raises(RegistrationError, match=words):
        adapt()


class Rewrites:
    """Tool middleware that hands on another state."""

    async def process(self, made: Any, state: Any, go_on: Any) -> Any:
        return await go_on(made, state.with_metadata("seen", True))


class HandsOn:
    """Tool middleware that hands on what it was given."""

    async def process(self, made: Any, state: Any, go_on: Any) -> Any:
        return await go_on(made, state)


async def test_tool_middleware_that_changes_the_state_gets_an_error() -> None:
    """The change would be lost, so it is an error that names the middleware and the way to do it."""
    agent = builder(call("add", a=1), say("done"))
    result = (
        await agent.add_hook("around_tool_use", ToolMiddlewareAdapter(Rewrites())).build().run("go")
    )
    [execution] = result.steps[0].results
    assert not execution.is_success
    [ran] = [
        each for each in result.records if isinstance(each, HookRan) and each.verdict == "failed"
    ]
    assert "'Rewrites' passed a changed state to next" in ran.reason
    agent = builder(call("add", a=1), say("done"))
    result = (
        await agent.add_hook("around_tool_use", ToolMiddlewareAdapter(HandsOn())).build().run("go")
    )
    assert result.steps[0].results[0].is_success
