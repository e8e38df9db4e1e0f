"""Hooks and an agent that the configuration names."""

from __future__ import annotations

from typing import Any

from hookline import AgentBuilder, HookOutcome
from hookline.testing import ScriptedDriver, say


def no_deleting(ctx: Any) -> HookOutcome | None:
    """Refuse to delete."""
    if "rm " in str(ctx.tool_call.args):
        return HookOutcome.block("nothing is deleted here")
    return None


def build() -> AgentBuilder:
    """An agent of the project's own."""
    return AgentBuilder().with_driver(ScriptedDriver([say("mine")]))
