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


def test_hooks_after_a_summary(stage: Any) -> None:
    """They are told once of each, and may tell the model what it has to know again."""
    log = stage.root / "log"
    entry = {"type": "command", "command": f"cat >> {log}; echo Mind the dust."}
    events = {"PostCompact": "auto", "SessionStart": "compact|resume"}
    hooks = {event: [{"matcher": m, "hooks": [entry]}] for event, m in events.items()}
    stage.file(".claude/settings.json", {"hooks": hooks})
    result = looking(stage.discover())
    assert result.state.metadata["summaries"]["count"] == 1
    start, after = [json.loads(line) for line in log.read_text().splitlines()]
    assert (start["hook_event_name"], start["source"]) == ("SessionStart", "compact")
    assert (after["hook_event_name"], after["trigger"]) == ("PostCompact", "auto")
    assert "only dust" in after["compact_summary"]
    assert sum("Mind the dust." in message.text for message in result.state.messages) == 1


def test_nothing_happens_after_a_summary_that_was_not_made(stage: Any) -> None:
    """Nor where a hook is for the beginning of sessions only."""
    again = [{"hooks": [{"type": "command", "command": "cat >> again"}]}]
    refuse = [{"hooks": [{"type": "command", "command": "exit 2"}]}]
    hooks = {
        "PreCompact": refuse,
        "PostCompact": again,
        "SessionStart": [{**again[0], "matcher": "compact"}],
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    looking(stage.discover())
    assert not (stage.root / "again").exists()
    stage.file(
        ".claude/settings.json", {"hooks": {"SessionStart": [{**again[0], "matcher": "startup"}]}}
    )
    assert stage.discover().at("before_inference") == ()


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
