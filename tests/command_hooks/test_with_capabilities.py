"""Hooks together with capabilities that bring events of their own: summaries and subagents."""

from __future__ import annotations

import json
from typing import Any

from hookline import AgentBuilder, tool
from hookline.capabilities import Subagent, Subagents, Summarization
from hookline.testing import ScriptedDriver, call, say


@tool(effect="pure")
def look(room: str) -> str:
    """Look into a room."""
    return f"in the {room}: " + "dust " * 100


def looking(hooks: Any) -> Any:
    """A run whose conversation outgrows its budget."""
    rooms = [call("look", room=room) for room in ("attic", "barn", "cellar", "den")]
    summaries = Summarization(500, keep_tokens=200, model=ScriptedDriver([say("only dust")] * 9))
    builder = AgentBuilder().with_driver(ScriptedDriver([*rooms, say("done")])).with_tools(look)
    return builder.with_capability(summaries).with_capability(hooks).build().run_sync("go")


def test_a_hook_before_a_summary(stage: Any) -> None:
    """It is told, and can keep the conversation as it is."""
    log = stage.root / "log"
    result = looking(stage.claude("PreCompact", f"cat >> {log}", matcher="auto"))
    sent = json.loads(log.read_text().splitlines()[0])
    assert (sent["hook_event_name"], sent["trigger"]) == ("PreCompact", "auto")
    assert result.state.metadata["summaries"]["count"] == 1
    result = looking(stage.claude("PreCompact", "echo keep it >&2; exit 2"))
    assert result.state.metadata.get("summaries", {}).get("count", 0) == 0


def test_hooks_for_subagents(stage: Any) -> None:
    """Their start has the name of the subagent; the tool has the name that scripts know."""
    log = stage.root / "log"
    events = {"PreToolUse": "Task", "SubagentStart": "researcher", "SubagentStop": "researcher"}
    entry = {"hooks": [{"type": "command", "command": f"cat >> {log}"}]}
    hooks = {event: [{"matcher": matcher, **entry}] for event, matcher in events.items()}
    stage.file(".claude/settings.json", {"hooks": hooks})
    child = Subagent("researcher", "Finds out.", "You read.", model=ScriptedDriver([say("found")]))
    spawn = call("spawn_subagent", agent="researcher", prompt="look", description="Look")
    builder = AgentBuilder().with_driver(ScriptedDriver([spawn, say("done")]))
    builder.with_capability(Subagents([child])).with_capability(stage.discover()).build().run_sync(
        "go"
    )
    before, start, stop = [json.loads(line) for line in log.read_text().splitlines()]
    assert before["tool_name"] == "Agent"
    assert before["tool_input"] == {
        "subagent_type": "researcher",
        "prompt": "look",
        "description": "Look",
    }
    assert start["agent_type"] == stop["agent_type"] == "researcher"
    assert stop["last_assistant_message"] == "found"
