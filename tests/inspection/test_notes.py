"""What a hook says of itself is shown in the plan, where its name does not say it."""

from __future__ import annotations

from hookline import AgentBuilder, ToolHookContext, tool
from hookline.testing import ScriptedDriver, call, say


class Careful:
    """A hook that has something to say of itself."""

    note = "lets nothing through on Fridays"

    def handle(self, ctx: ToolHookContext) -> None:
        """Let it through."""


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def test_a_note_is_shown_for_the_agent_and_for_a_call() -> None:
    """It stands with the other notes; a hook without one, or with something else there, has none."""

    def other(ctx: ToolHookContext) -> None:
        pass

    other.note = 3  # type: ignore[attr-defined]
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([say("done")]))
        .with_tools(look)
        .on_before_tool_use(Careful(), name="careful")
        .on_before_tool_use(other)
        .build()
    )
    for text in (agent.explain(), agent.explain("look")):
        assert "lets nothing through on Fridays" in " ".join(text.split())
        assert text.count("Fridays") == 1


def test_a_hook_can_ask_which_tool_a_call_would_run() -> None:
    """By the name of the tool; one that there is not is None, and so is everything outside a run."""
    found: list[object] = []

    def ask(ctx: ToolHookContext) -> None:
        assert ctx.run is not None
        found.extend([ctx.run.tool("look"), ctx.run.tool("nothing")])

    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("look"), say("done")]))
        .with_tools(look)
        .on_before_tool_use(ask)
        .build()
    )
    agent.run_sync("Go.")
    assert found == [look, None]
