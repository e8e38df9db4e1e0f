"""What a hook of our own is for must be something that there is at its point."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.command_hooks import read_hook
from hookline.errors import RegistrationError


@pytest.mark.parametrize(
    "about",
    [
        {"on": "prompt_submit", "matcher": "password"},
        {"on": "stop", "if": "bash(rm *)"},
        {"on": "session_start", "if": "bash(rm *)"},
        {"on": "after_step", "matcher": "bash"},
    ],
)
def test_a_hook_of_ours_is_for_what_there_is_at_its_point(about: dict[str, Any]) -> None:
    """A matcher that nothing is compared with would let it run always, and a rule never."""
    with pytest.raises(RegistrationError, match="there is no tool call that it could be for"):
        read_hook({"command": "true", **about})


@pytest.mark.parametrize(
    "about",
    [
        {"on": "prompt_submit", "matcher": "*"},
        {"on": "session_start", "matcher": "resume"},
        {"on": "subagent_stop", "matcher": "critic"},
        {"on": "permission_request", "matcher": "bash", "if": "bash(rm *)"},
    ],
)
def test_a_matcher_has_a_tool_a_child_or_the_beginning_of_a_session(about: dict[str, Any]) -> None:
    """And `*` is for all of them."""
    assert read_hook({"command": "true", **about}).event == about["on"]
