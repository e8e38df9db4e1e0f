"""Those who only look on at a call make no difference to what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, ErrorPolicy, RunResult, tool
from hookline.testing import ScriptedDriver, call, say


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
