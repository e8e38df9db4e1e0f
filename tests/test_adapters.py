"""Older code as hooks: state processors, continuation criteria and tool middleware."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, ContinuationDecision, ContinuationEvaluation, tool
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
    """`process(state)`, and `process(state, next)` in the middleware style."""

    class Counter:
        def process(self, state: Any) -> Any:
            return state.with_metadata("count", state.metadata.get("count", 0) + 1)

    class Wrapper:
        async def process(self, state: Any, next: Any) -> Any:
            return next(state.with_metadata("wrapped", True))

    agent = builder(call("add", a=1), say("ok"))
    for processor in (Counter(), Wrapper()):
        adapter = StateProcessorAdapter(processor, position)
        agent.add_hook(adapter.point, adapter)
    result = agent.build().run_sync("go")
    assert dict(result.state.metadata) == {"count": 2, "wrapped": True}


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
    assert "'Rewrites' handed next a changed state" in ran.reason
    agent = builder(call("add", a=1), say("done"))
    result = (
        await agent.add_hook("around_tool_use", ToolMiddlewareAdapter(HandsOn())).build().run("go")
    )
    assert result.steps[0].results[0].is_success
