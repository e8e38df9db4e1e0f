"""Those who only look on at a call make no difference to what comes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline import AgentBuilder, ErrorPolicy, HookOutcome, RunResult, RunStatus, tool
from hookline.testing import ScriptedDriver, call, say

UNSEEN = "Result withheld: the run was cancelled before the hooks had seen it"


def look(ctx: object) -> None:
    """A hook that says nothing."""


def after_two_failures(**options: Any) -> RunResult:
    """A run whose tool works at the third try, with a hook after it that says nothing if there are options for one."""
    tries: list[int] = []

    @tool(effect="pure")
    async def flaky() -> str:
        """Fail twice."""
        tries.append(1)
        if len(tries) < 3:
            raise OSError(f"down {len(tries)}")
        return "up"

    builder = AgentBuilder().with_driver(ScriptedDriver([call("flaky"), say("done")]))
    builder.with_tools(flaky).with_error_policy(ErrorPolicy.retry_tool_errors())
    if options:
        builder.on_after_tool_use(look, name="look", **options)
    return builder.build().run_sync("go")


@pytest.mark.parametrize("options", [{"tier": "observer"}, {"shadow": True}])
def test_whoever_looks_on_leaves_the_errors_of_a_step_as_they_are(options: dict[str, Any]) -> None:
    """What a call failed of before it worked stays with the step and on record, words and all."""
    bare, watched = after_two_failures(), after_two_failures(**options)
    assert [error.message for error in bare.steps[0].errors] == ["down 1", "down 2"]
    assert watched.steps[0].errors == bare.steps[0].errors
    told = [[each.error for each in run.records if each.type == "error"] for run in (bare, watched)]
    assert told[0] == told[1] == list(bare.steps[0].errors)


@pytest.mark.parametrize("tier", ["hook", "policy"])
def test_words_that_hooks_never_saw_are_not_kept_where_hooks_judge(tier: str) -> None:
    """They let the result be; that tries before it failed is known, and what those said is not."""
    watched = after_two_failures(tier=tier)
    assert watched.steps[0].results[0].text() == "up"
    assert [(each.type, each.message) for each in watched.steps[0].errors] == [("OSError", "")] * 2


async def cancelled_meanwhile(*judges: Any, **options: Any) -> RunResult:
    """A run that is cancelled while a hook with these options takes its time over a call that is done."""
    reached = asyncio.Event()

    async def slow(ctx: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    @tool
    async def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    builder = AgentBuilder().with_driver(ScriptedDriver([call("pay", n=1), say("done")]))
    builder.with_tools(pay)
    for judge in judges:
        builder.on_after_tool_use(judge)
    agent = builder.on_after_tool_use(slow, name="slow", **options).build()
    run = asyncio.ensure_future(agent.run("go"))
    await reached.wait()
    agent.cancel(reason="enough")
    return await run


def hide(ctx: Any) -> Any:
    """A hook that shows something else."""
    return ctx.with_result("hidden")


def refuse(ctx: object) -> HookOutcome:
    """A hook that withholds the result."""
    return HookOutcome.block("not for you")


@pytest.mark.parametrize(
    ("judges", "options", "text"),
    [
        ((), {"tier": "observer"}, "paid 1"),
        ((), {"shadow": True}, "paid 1"),
        ((look,), {"tier": "observer"}, "paid 1"),
        ((hide,), {"tier": "observer"}, "hidden"),
        ((refuse,), {"tier": "observer"}, "Result withheld: not for you"),
        ((), {"tier": "hook"}, UNSEEN),
        ((look,), {"tier": "policy"}, UNSEEN),
        ((hide,), {"shadow": True}, UNSEEN),
    ],
)
async def test_a_cancelled_run_keeps_what_the_hooks_had_cleared(
    judges: tuple[Any, ...], options: dict[str, Any], text: str
) -> None:
    """Whoever only looks on costs a call nothing; a result that not everyone has judged is withheld."""
    ended = await cancelled_meanwhile(*judges, **options)
    assert ended.status is RunStatus.CANCELLED
    assert [each.text() for each in ended.steps[0].results] == [text]
    settled = [each.result.text() for each in ended.records if each.type == "tool_result"]
    assert settled == [text]
