"""Limits and error handling as capabilities: the builder's own, in an object that can be handed around."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, ErrorPolicy, RunStatus, StopReason, ToolContext, tool
from hookline.capabilities import ErrorHandling, Limits
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, say


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def looking(turns: int) -> Any:
    """A builder whose model looks that often, and then answers."""
    driver = ScriptedDriver([*(call("look", tokens=10) for _ in range(turns)), say("done")])
    return AgentBuilder().with_driver(driver).with_tools(look)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=2), StopReason.STEP_LIMIT),
        (Limits(tokens=15), StopReason.TOKEN_LIMIT),
        (Limits(tool_calls=1), StopReason.TOOL_CALL_LIMIT),
    ],
)
def test_a_limit_ends_the_run(limits: Limits, reason: StopReason) -> None:
    """Each kind of limit stops the run, with its own reason."""
    result = looking(5).with_capability(limits).build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, reason)


def test_it_may_widen_what_the_builder_has() -> None:
    """It is the user's own word: more than the default steps are allowed when it says so."""
    agent = looking(25).with_capability(Limits(steps=30, tokens=None)).build()
    assert agent.run_sync("go").is_completed
    assert "30 steps" in agent.explain()


def test_inside_another_capability_it_only_narrows() -> None:
    """What a capability brings along cannot raise what the user allows."""

    class Greedy:
        name = "greedy"

        def configure(self, builder: AgentBuilder) -> None:
            """Ask for more."""
            builder.with_capability(Limits(steps=1000))

    with pytest.raises(BuildError, match="can only lower limits"):
        looking(1).with_capability(Greedy())


def test_limits_hold_for_children() -> None:
    """What a child run uses counts for its parent."""
    child = looking(5).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand on."""
        return (await context.spawn(child, "go")).explain()

    driver = ScriptedDriver([call("delegate"), say("done")])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(delegate)
        .with_capability(Limits(steps=3))
        .build()
    )
    result = agent.run_sync("go")
    assert "step_limit" in result.steps[0].results[0].text


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Limits(), "limits nothing"),
        (lambda: Limits(steps=-1), "steps=-1"),
        (lambda: Limits(cost="much"), "cost='much'"),  # type: ignore[arg-type]
        (lambda: Limits(objections=None), "objections=None"),  # type: ignore[arg-type]
        (lambda: ErrorHandling("retry"), "not an ErrorPolicy"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused_where_it_is_written(make: Any, words: str) -> None:
    """A wrong value is an error of the capability, before any builder is there."""
    with pytest.raises(BuildError, match=words):
        make()


def test_an_error_policy_is_set() -> None:
    """The policy it carries is the agent's."""

    @tool
    def fails() -> str:
        """Fail."""
        raise ValueError("no")

    driver = ScriptedDriver([call("fails"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(fails)
    agent = builder.with_capability(ErrorHandling(ErrorPolicy.stop_on_any_error())).build()
    assert agent.run_sync("go").status is RunStatus.FAILED
    assert "error-handling" in agent.explain()
