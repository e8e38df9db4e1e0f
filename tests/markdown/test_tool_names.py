"""Tools as files for other agents name them."""

from __future__ import annotations

import pytest

from hookline.markdown.tool_names import grants_tool, is_known_elsewhere, means_tool
from hookline.permissions import Rule


@pytest.mark.parametrize(
    ("written", "tool", "is_meant"),
    [
        ("Read", "read", True),
        ("Bash", "bash", True),
        ("Bash(git:*)", "exec", True),
        ("Bash", "bash_poll", True),
        ("BashOutput", "bash_poll", True),
        ("KillShell", "bash_stop", True),
        ("BashOutput", "bash", False),
        ("Read", "bash_poll", False),
        ("Grep", "search", True),
        ("Task", "spawn_subagent", True),
        ("Agent(reviewer)", "spawn_subagent", True),
        ("Skill", "load_skill", True),
        ("TodoWrite", "todo_write", True),
        ("mcp__github", "mcp__github__search", True),
        ("mcp__github__*", "mcp__gitlab__search", False),
        ("my_tool", "my_tool", True),
        ("my_*", "my_tool", True),
        ("Read", "write", False),
    ],
)
def test_which_tool_is_meant(written: str, tool: str, is_meant: bool) -> None:
    """Whatever a rule says about arguments."""
    assert means_tool(Rule.parse(written), tool) is is_meant


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read", ["read"]),
        ("Edit", ["edit"]),
        ("Write", ["write"]),
        ("Glob", ["glob"]),
        ("Bash(git:*)", ["bash", "exec", "bash_poll", "bash_stop"]),
        ("r*", ["read"]),
    ],
)
def test_a_list_of_tools_gives_what_it_names(written: str, tools: list[str]) -> None:
    """And not all that do the like, as a rule about them would mean."""
    ours = "read list glob search write edit bash exec bash_poll bash_stop".split()
    assert [name for name in ours if grants_tool(Rule.parse(written), name)] == tools


def test_what_others_have_and_we_may_not() -> None:
    """So that a name nobody has is known for a mistake."""
    assert is_known_elsewhere("WebSearch")
    assert is_known_elsewhere("mcp__linear__create")
    assert not is_known_elsewhere("Raed")
