"""How often hooks may object to the end: so many times in a row, and a call of a tool sets that back."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome, RunResult, RunStatus, ToolContext, tool
from hookline.state import ContinuationDecision, ContinuationEvaluation
from hookline.testing import ScriptedDriver, call, say

NEVER = "echo again >&2; exit 2"
_VARIABLE = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"


def ended(stage: Any, hooks: Any, *turns: Any) -> RunResult:
    """A run in which the builder's own cap does not count."""
    builder = AgentBuilder().with_driver(ScriptedDriver(list(turns))).with_tools(*stage.tools)
    builder.with_limits(objections=1000, steps=60)
    return builder.with_capability(hooks).build().run_sync("go")


def test_after_eight_objections_in_a_row_it_ends(stage: Any) -> None:
    """With a reason of its own: it was not what the hook wanted."""
    result = ended(stage, stage.claude("Stop", NEVER), *[say("no")] * 20)
    assert result.state.step_count == 9
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, "objection_limit")
    assert "8 times in a row" in result.explain()


def test_a_call_of_a_tool_sets_it_back(stage: Any) -> None:
    """Looking counts: whatever was called, the agent is not going round in circles."""
    turns = [*[say("no")] * 8, call("read", path="a"), *[say("no")] * 20]
    result = ended(stage, stage.claude("Stop", NEVER), *turns)
    assert result.state.step_count == 8 + 1 + 9
    assert result.stop_reason == "objection_limit"


@pytest.mark.parametrize(("said", "steps"), [("2", 3), ("0", 12), ("-1", 12), ("many", 9), ("", 9)])
def test_the_variable_says_how_often(
    stage: Any, monkeypatch: pytest.MonkeyPatch, said: str, steps: int
) -> None:
    """Zero is no cap; what is no number is not looked at."""
    monkeypatch.setenv(_VARIABLE, said)
    command = (
        'n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; [ "$n" -ge 11 ] && exit 0; exit 2'
    )
    result = ended(stage, stage.claude("Stop", command), *[say("no")] * 20)
    assert result.state.step_count == steps


def test_settings_go_before_the_shell(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env` in a settings file is for the hooks of that level."""
    monkeypatch.setenv(_VARIABLE, "5")
    entry = {"hooks": [{"type": "command", "command": NEVER}]}
    stage.file(".claude/settings.json", {"env": {_VARIABLE: "1"}, "hooks": {"Stop": [entry]}})
    result = ended(stage, stage.discover(), *[say("no")] * 20)
    assert result.state.step_count == 2


def test_additional_context_counts_as_an_objection(stage: Any) -> None:
    """It sends the agent on, so it is capped like a block."""
    said = (
        """echo '{"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "look"}}'"""
    )
    result = ended(stage, stage.claude("Stop", said), *[say("no")] * 20)
    assert result.state.step_count == 9


def test_copilot_has_eight_and_cursor_five(stage: Any) -> None:
    """Cursor's are counted in all, and its end is an ordinary one."""
    block = """echo '{"decision": "block", "reason": "more"}'"""
    copilot = {"version": 1, "hooks": {"agentStop": [{"type": "command", "bash": block}]}}
    stage.file(".github/hooks/h.json", copilot)
    result = ended(stage, stage.discover(), *[say("no")] * 20)
    assert (result.state.step_count, result.stop_reason) == (9, "objection_limit")
    other = stage.elsewhere("cursor")
    follow = """echo '{"followup_message": "more"}'"""
    other.file(".cursor/hooks.json", {"version": 1, "hooks": {"stop": [{"command": follow}]}})
    result = ended(other, other.discover(), *[say("no")] * 20)
    assert (result.state.step_count, result.status) == (6, RunStatus.COMPLETED)


def test_the_builders_cap_holds_besides(stage: Any) -> None:
    """A program that allows two objections in a run has two."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("no")] * 9)).with_limits(objections=2)
    result = builder.with_capability(stage.claude("Stop", NEVER)).build().run_sync("go")
    assert result.state.step_count == 3


def capped(stage: Any, hooks: Any, *turns: Any) -> AgentBuilder:
    """An agent whose cap is lifted for the hooks of other agents: all others have two objections."""
    hooks.cap_of_others = 2
    builder = AgentBuilder().with_driver(ScriptedDriver(list(turns))).with_tools(*stage.tools)
    return builder.with_limits(objections=1000, steps=60).with_capability(hooks)


@pytest.mark.parametrize("tier", ["hook", "policy"])
def test_where_the_cap_is_lifted_other_hooks_have_theirs(stage: Any, tier: str) -> None:
    """A hook of the program that objects forever ends the run, however often a script may object."""
    hooks = stage.claude("Stop", "exit 0")
    builder = capped(stage, hooks, *[say("no")] * 20)
    builder.on_stop(lambda ctx: HookOutcome.block("more"), name="mine", tier=tier)
    result = builder.build().run_sync("go")
    assert (result.state.step_count, result.stop_reason) == (3, "objection_limit")
    assert "stop hooks objected 2 times, which is the limit; the last: more" in result.explain()


def test_an_evaluation_counts_like_a_block(stage: Any) -> None:
    """It is another way to object."""
    builder = capped(stage, stage.claude("Stop", "exit 0"), *[say("no")] * 20)
    more = ContinuationEvaluation("mine", ContinuationDecision.REQUEST_CONTINUATION, "more")
    result = builder.on_stop(lambda ctx: more, name="mine").build().run_sync("go")
    assert (result.state.step_count, result.stop_reason) == (3, "objection_limit")


def test_scripts_of_our_own_dialect_are_among_the_others(stage: Any) -> None:
    """They have no cap of their own."""
    stage.file(
        ".claude/settings.json",
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "exit 0"}]}]}},
    )
    ours = {"on": "stop", "command": NEVER}
    result = capped(stage, stage.discover(hooks=[ours]), *[say("no")] * 20).build().run_sync("go")
    assert (result.state.step_count, result.stop_reason) == (3, "objection_limit")


def test_what_scripts_object_to_is_not_counted_against_the_others(stage: Any) -> None:
    """A script has objected five times, and a hook of the program still has its two."""
    command = (
        'n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; [ "$n" -ge 5 ] && exit 0; exit 2'
    )
    builder = capped(stage, stage.claude("Stop", command), *[say("no")] * 20)
    builder.on_stop(
        lambda ctx: HookOutcome.block("more") if ctx.state.step_count > 5 else None, name="mine"
    )
    result = builder.build().run_sync("go")
    assert (result.state.step_count, result.stop_reason) == (8, "objection_limit")


def test_a_child_is_sent_back_so_often_in_a_row(stage: Any) -> None:
    """Then what it came back with is taken."""
    turns = [
        *[say("no")] * 3,
        call("read", path="a"),
        *[say("no")] * 8,
        say("last"),
        say("too late"),
    ]
    child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*stage.tools)
    helper = child.with_limits(steps=60).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Have another agent do it."""
        return (await context.spawn(helper, "look", name="helper")).text

    driver = ScriptedDriver([call("delegate"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(delegate)
    hooks = stage.claude("SubagentStop", NEVER)
    result = builder.with_limits(objections=1000).with_capability(hooks).build().run_sync("go")
    assert [message.text for message in result.state.messages if message.role == "tool"] == ["last"]
