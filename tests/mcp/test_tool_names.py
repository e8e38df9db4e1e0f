from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.mcp.server import tool_name, tool_names


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("echo", "mcp__files__echo"),
        ("get-sum", "mcp__files__get-sum"),
        ("a.b/c", "mcp__files__a_b_c"),
    ],
)
def test_a_tool_is_called_after_its_server(tool: str, name: str) -> None:
    """With the letters that models can write."""
    assert tool_name("files", tool) == name


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    """Two tools that differ only in what is cut off have two names."""
    one, other = (tool_name("files", "x" * 70 + end) for end in "ab")
    assert one != other
    assert len(one) == len(other) == 64


def test_the_tool_that_has_the_name_keeps_it() -> None:
    """Of two whose names are written the same here, the other one is called something else."""
    names = tool_names("s", ["a.b", "a_b"])
    assert names["a_b"] == "mcp__s__a_b"
    assert re.fullmatch(r"mcp__s__a_b_[0-9a-f]{8}", names["a.b"])


@given(st.sets(st.text(max_size=80), max_size=6))
def test_every_tool_has_a_name_of_its_own(tools: set[str]) -> None:
    """Whatever servers call their tools, and in whatever order they list them."""
    names = tool_names("server", sorted(tools))
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
    assert names == tool_names("server", sorted(tools, reverse=True))
