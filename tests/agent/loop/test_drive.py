"""A stop takes nothing back, and so it keeps no policy from judging what stands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome, RunResult, RunStatus, tool
from hookline.journal import encode
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, say

SECRET = "the password is swordfish"


def stop(ctx: Any) -> Any:
    """Ends the run."""
    return HookOutcome.stop("enough")


def no_secrets(ctx: Any) -> Any:
    """A policy that lets no secret through."""
    shown = ctx.execution.result if ctx.point == "after_tool_use" else ctx.response.text
    return HookOutcome.block("that is a secret") if shown == SECRET else None


def crash(ctx: Any) -> Any:
    """A guard that breaks."""
    raise ValueError("out of order")


class Wrapping:
    """Middleware that stops the run after everyone else had their say."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        await next(ctx)
        return HookOutcome.stop("enough")


@tool(effect="pure")
async def open_safe() -> str:
    """Open the safe."""
    return SECRET


def agent_that(point: str) -> AgentBuilder:
    """An agent that comes across a secret at this point."""
    turns = [call("open_safe"), say("done")] if point == "after_tool_use" else [say(SECRET)]
    return AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(open_safe)


def keeps_it(result: RunResult) -> bool:
    """Whether the secret is nowhere."""
    lines = [encode(record) for record in result.records]
    return not any(b"swordfish" in record for record in lines) and "swordfish" not in result.text


AT_BOTH = pytest.mark.parametrize("point", ["after_inference", "after_tool_use"])


@AT_BOTH
@pytest.mark.parametrize("guard", [no_secrets, crash])
@pytest.mark.parametrize("tier", ["hook", "policy"])
@pytest.mark.parametrize("matched", [False, True])
async def test_a_policy_judges_what_a_stop_lets_stand(
    point: str, guard: Any, tier: str, *, matched: bool
) -> None:
    """Whoever stopped the run, of whichever tier: what the policy blocks is withheld, and the run is stopped."""
    builder = agent_that(point).add_hook(point, stop, name="stop", tier=tier)  # type: ignore[arg-type]
    builder.add_hook(point, guard, name="guard", tier="policy")
    if matched:  # a plan that is not flat is asked another way
        builder.add_hook(point, lambda ctx: None, name="shadow", tier="policy", shadow=True)
    result = await builder.build().run("go")
    assert (result.status, result.state.ending.decided_by) == (RunStatus.STOPPED, "stop")
    assert keeps_it(result)
    if point == "after_tool_use":
        withheld = result.steps[0].results[0]
        assert (withheld.status, withheld.decided_by) == (ResultStatus.WITHHELD, "guard")


@AT_BOTH
async def test_middleware_that_stops_does_not_undo_a_block_inside_it(point: str) -> None:
    """The run ends, and what the hook inside blocked is withheld."""
    builder = agent_that(point).add_hook(point, Wrapping(), name="outer")
    result = await builder.add_hook(point, no_secrets, name="inner").build().run("go")
    assert result.status is RunStatus.STOPPED
    assert keeps_it(result)


@AT_BOTH
async def test_hooks_after_a_stop_are_not_asked(point: str) -> None:
    """Only policies are; and without an objection of theirs what was judged stands."""
    asked: list[str] = []
    builder = agent_that(point).add_hook(point, stop, name="stop")
    builder.add_hook(point, lambda ctx: asked.append("hook"))
    for name in ("one", "two"):
        builder.add_hook(
            point, lambda ctx, *, name=name: asked.append(name), name=name, tier="policy"
        )
    result = await builder.build().run("go")
    assert (result.status, asked) == (RunStatus.STOPPED, ["one", "two"])
    assert not keeps_it(result)


@AT_BOTH
async def test_a_policy_that_is_cancelled_after_a_stop_lets_nothing_through(point: str) -> None:
    """It has not cleared what stands, so nobody gets to see it."""
    waiting = asyncio.Event()

    async def wait(ctx: Any) -> None:
        waiting.set()
        await asyncio.Event().wait()

    agent = agent_that(point).add_hook(point, stop).add_hook(point, wait, tier="policy").build()
    task = asyncio.ensure_future(agent.run("go", run_id="run"))
    await waiting.wait()
    agent.cancel("run", "enough")
    assert keeps_it(await task)
