"""What hooks are told when a person ends a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline import AgentBuilder, HookPoint, ToolHookContext
from hookline.command_hooks import Handler, HookSource, RunFacts
from hookline.command_hooks.dialect import all_dialects
from hookline.state import AgentState, ResultStatus, StopReason, ToolCall, ToolResult
from hookline.testing import ScriptedDriver, say

PLACE = RunFacts("/p", "/p", "s")


def told(dialect: str, event: str) -> Any:
    """What a hook is told of a command that was ended with its run; None if it does not hear of it."""
    ended = ToolResult("Cancelled: ...", call_id="1", name="bash", status=ResultStatus.CANCELLED)
    ctx = ToolHookContext(
        point=HookPoint.AFTER_TOOL_USE,
        state=AgentState(run_id="r"),
        tool_call=ToolCall("1", "bash", {"command": "sleep 9"}),
        execution=ended,
    )
    if not all_dialects()[dialect].fires(event, ctx):
        return None
    return all_dialects()[dialect].payload(Handler(HookSource(dialect), event), ctx, PLACE)


def test_a_call_that_was_ended_with_the_run_is_no_success() -> None:
    """In any dialect; those with a word for it say that it was interrupted."""
    assert told("claude", "PostToolUse") is None
    assert told("claude", "PostToolUseFailure")["is_interrupt"] is True
    assert told("cursor", "postToolUse") is None
    assert told("cursor", "postToolUseFailure")["is_interrupt"] is True
    assert told("copilot", "postToolUse") is None
    assert told("copilot", "postToolUseFailure")["toolResult"]["resultType"] == "failure"
    assert "error" in told("gemini", "AfterTool")["tool_response"]


def interrupted(stage: Any) -> Any:
    """A run that a person ends after its first step."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    builder.with_capability(stage.discover())
    builder.on_should_continue(lambda ctx: ctx.forbid("interrupted", StopReason.CANCELLED))
    return builder.build().run_sync("go")


@pytest.mark.parametrize(
    ("path", "event"),
    [(".claude/settings.json", "Stop"), (".gemini/settings.json", "AfterAgent")],
)
def test_hooks_at_the_end_are_not_asked_after_an_interrupt(
    stage: Any, path: str, event: str
) -> None:
    """Nobody wants it to go on."""
    entry = {"hooks": [{"type": "command", "command": "touch asked"}]}
    stage.file(path, {"hooks": {event: [entry]}})
    interrupted(stage)
    assert not (stage.root / "asked").exists()


def test_cursors_are_told_that_it_was_ended(stage: Any) -> None:
    """Their `stop` has a status for it, and so has the end of the session."""
    hooks = {
        "stop": [{"command": "cat > stop.json"}],
        "sessionEnd": [{"command": "cat > end.json"}],
    }
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    interrupted(stage)
    assert json.loads((stage.root / "stop.json").read_text())["status"] == "aborted"
    assert json.loads((stage.root / "end.json").read_text())["final_status"] == "aborted"
