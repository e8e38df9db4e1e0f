"""Trying hooks: what each would answer to a call."""

from __future__ import annotations

import json
from typing import Any

from hook_commands import holds

from hookline import ToolCall, ToolResult
from hookline.command_hooks import try_hooks


async def test_each_hook_says_what_it_would_answer(stage: Any) -> None:
    """Those that are not asked are in the list too."""
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]},
        {"matcher": "Write", "hooks": [{"type": "command", "command": "true"}]},
        {"hooks": [{"type": "command", "command": "exit 1"}]},
    ]}})  # fmt: skip
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"beforeShellExecution": [
        {"command": """echo '{"permission": "ask", "user_message": "sure?"}'"""}
    ]}})  # fmt: skip
    tried = await try_hooks(ToolCall("1", "bash", {"command": "ls"}), stage.discover())
    assert [(each.matched, each.verdict, each.reason) for each in tried] == [
        (True, "block", "no"),
        (False, "", ""),
        (True, "failed", "it ended with exit code 1"),
        (True, "ask", "sure?"),
    ]
    assert (tried[0].exit_code, tried[0].stderr, tried[0].event) == (2, "no\n", "PreToolUse")
    assert tried[0].source.endswith(".claude/settings.json")
    assert str(tried[1]).endswith(": not asked")
    assert "block (no)" in str(tried[0])


async def test_what_it_would_make_of_the_input(stage: Any) -> None:
    """As the hook wrote it."""
    answer = {
        "hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls -l"}}
    }
    hooks = stage.claude("PreToolUse", f"echo '{json.dumps(answer)}'")
    (tried,) = await try_hooks(ToolCall("1", "bash", {"command": "ls"}), hooks)
    assert (tried.verdict, tried.updated_input) == ("allow", {"command": "ls -l"})


async def test_a_hook_that_fails_closed_would_block(stage: Any) -> None:
    """As it would in a run."""
    (tried,) = await try_hooks(
        ToolCall("1", "bash"), stage.hooks({"on": "PreToolUse", "argv": ["/no/such"]})
    )
    assert (tried.verdict, tried.exit_code) == ("block", None)
    assert "cannot be started" in tried.reason


async def test_hooks_after_a_tool_are_shown_a_result(stage: Any) -> None:
    """The one that is given, or an empty one."""
    hooks = stage.claude(
        "PostToolUse", holds('event["tool_response"]["stdout"] == "out"') + " || exit 2"
    )
    call, result = ToolCall("1", "bash", {"command": "ls"}), ToolResult("out")
    (tried,) = await try_hooks(call, hooks, point="PostToolUse", result=result)
    assert tried.verdict == "proceed"
    (tried,) = await try_hooks(call, hooks, point="PostToolUse")
    assert tried.exit_code == 2
