"""What is explained fits the page that it is for."""

from __future__ import annotations

import pytest

from hookline import AgentBuilder, ToolHookContext
from hookline.inspection import explain


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


def only_words(_ctx: ToolHookContext) -> None:
    """Let it be."""


@pytest.mark.parametrize("width", [24, 30, 50, 70, 100, 160])
def test_it_fits_the_width_that_is_given(width: int) -> None:
    """On a narrow page the columns stand below each other, and nothing of them is left out."""
    builder = AgentBuilder().with_tools(shout)
    agent = builder.on_before_tool_use(only_words, matcher="shout", tier="policy").build()
    for name, args in ((None, {}), ("shout", {"text": "a"}), ("shuot", {})):
        told = explain(agent.definition, name, args, width=width)
        assert max(map(len, told.splitlines())) <= width
        if name != "shuot":
            assert "only_words" in told
            assert "policy" in told
