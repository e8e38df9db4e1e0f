"""Lint and the tools of child runs, of which an agent knows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome, ToolContext
from hookline.capabilities import Bash, Files, Subagent, Subagents


def delete(path: str) -> str:
    """Delete a file."""
    return path


def block(ctx: object) -> HookOutcome:
    """Let nothing be deleted."""
    return HookOutcome.block("no")


def guarded(scope: str) -> AgentBuilder:
    """An agent whose hook is about a tool that it has not itself."""
    return AgentBuilder().on_before_tool_use(block, matcher="delete", scope=scope)


def test_a_hook_for_the_tree_may_be_about_a_tool_of_a_child() -> None:
    """So it is not said that it never runs; of a hook that holds here only, it is."""
    members = Subagents(Subagent("cleaner", "Cleans.", tools=[delete]))
    assert guarded("tree").with_capability(members).build().lint() == []
    (finding,) = guarded("self").with_capability(members).build().lint()
    assert finding.code == "dead-matcher"


def test_any_tool_may_start_a_child_that_could() -> None:
    """An async one that takes the context; without one it is certain that nobody has the tool."""

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return ""

    assert guarded("tree").with_tools(delegate).build().lint() == []
    assert [each.code for each in guarded("tree").build().lint()] == ["dead-matcher"]


@pytest.mark.parametrize("matcher", ["Bash", "bsh"])
@pytest.mark.parametrize("scope", ["self", "tree"])
def test_tools_of_capabilities_start_no_children(tmp_path: Path, matcher: str, scope: Any) -> None:
    """They take the context for other things: beside them a slip in a name is seen, and so is another case."""
    builder = AgentBuilder().on_before_tool_use(block, matcher=matcher, scope=scope)
    builder.with_capability(Files(tmp_path)).with_capability(Bash(tmp_path, sandbox="host"))
    (finding,) = builder.build().lint()
    assert finding.code == "dead-matcher"
    assert "Did you mean 'bash'?" in finding.remedy


def test_a_tool_that_nobody_has_is_told_beside_files(tmp_path: Path) -> None:
    """For the tree too; those of servers may come later."""
    for matcher, codes in (("bash", ["dead-matcher"]), ("mcp__git__*", [])):
        builder = AgentBuilder().on_before_tool_use(block, matcher=matcher, tier="policy")
        found = builder.with_capability(Files(tmp_path)).build().lint()
        assert [each.code for each in found] == codes
