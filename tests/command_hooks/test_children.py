"""Child runs, paused runs, and runs that another process resumes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hook_commands import holds, printing

from hookline import Agent, AgentBuilder, RunStatus, ToolContext, replay, tool
from hookline.journal import SQLiteJournal
from hookline.testing import ScriptedDriver, call, say

LOGGED = 'event["last_assistant_message"], len(event["agent_transcript_path"]) > 9'
STOP = f"""#!/bin/sh
input=$(cat)
echo "$input" | {printing(LOGGED)} >> "$1"
echo "$input" | {holds('event["stop_hook_active"]')} && exit 0
echo more >&2
exit 2
"""


def parent(stage: Any, hooks: Any, *turns: Any) -> Agent:
    """An agent whose child plays these turns."""
    child = (
        AgentBuilder()
        .with_id("helper")
        .with_driver(ScriptedDriver(turns))
        .with_tools(*stage.tools)
        .build()
    )

    @tool
    async def delegate(task: str, context: ToolContext) -> str:
        """Have another agent do it."""
        return (await context.spawn(child, task, name="code-reviewer")).text

    driver = ScriptedDriver([call("delegate", task="look"), say("parent done")])
    return AgentBuilder().with_driver(driver).with_tools(delegate).with_capability(hooks).build()


def results(state: Any) -> list[str]:
    """What the model read about its calls."""
    return [message.text for message in state.messages if message.role == "tool"]


def test_hooks_watch_child_runs_too(stage: Any) -> None:
    """Their input names the agent."""
    log = stage.root / "log"
    hooks = stage.claude(
        "PreToolUse", printing('event["agent_type"]') + f" >> {log}; exit 2", matcher="Bash"
    )
    result = parent(stage, hooks, call("bash", command="ls"), say("child done")).run_sync("go")
    assert result.status is RunStatus.COMPLETED
    assert log.read_text() == "helper\n"


def test_a_child_has_one_name_that_can_be_a_files(stage: Any) -> None:
    """When it begins, while it works and when it stops: scripts use that name as a key."""
    note = 'touch "agent-$(' + printing('event["agent_id"]') + ')"'
    entry = [{"hooks": [{"type": "command", "command": note}]}]
    events = {"SubagentStart": entry, "SubagentStop": entry}
    events["PreToolUse"] = [{"matcher": "Bash", **entry[0]}]
    stage.file(".claude/settings.json", {"hooks": events})
    turns = (call("bash", command="ls"), say("child done"))
    parent(stage, stage.discover(), *turns).run_sync("go")
    (found,) = stage.root.glob("agent-*")
    assert found.name.removeprefix("agent-").isalnum()


def test_a_child_gets_context_and_is_sent_back(stage: Any) -> None:
    """Its start and its stop are events; the matcher is what it is called."""
    log = stage.root / "log"
    stage.script("stop.sh", STOP)
    kind = """echo '{"hookSpecificOutput": {"additionalContext": "be kind"}}'"""
    events = {
        "SubagentStart": kind,
        "SubagentStop": f"./stop.sh {log}",
        "Stop": f"echo stop >> {log}",
    }
    hooks = {
        event: [{"matcher": "code-reviewer", "hooks": [{"type": "command", "command": command}]}]
        for event, command in events.items()
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    child = ScriptedDriver([say("short"), say("longer")])
    helper = AgentBuilder().with_driver(child).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Have another agent do it."""
        return (await context.spawn(helper, "look", name="code-reviewer")).text

    driver = ScriptedDriver([call("delegate"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(delegate)
    result = builder.with_capability(stage.discover()).build().run_sync("go")
    assert results(result.state) == ["longer"]
    assert "be kind" in str(child.requests[0])
    assert log.read_text().split() == ["short", "True", "longer", "True", "stop"]


def test_a_resumed_run_does_not_ask_a_hook_twice(stage: Any) -> None:
    """Its verdict is on record."""
    log = stage.root / "log"
    ask = """echo '{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "sure?"}}'"""
    hooks = stage.claude("PreToolUse", f"echo asked >> {log}; {ask}", f"echo other >> {log}")
    journal = SQLiteJournal(stage.root.parent / "runs.db")

    def agent(*turns: Any) -> Agent:
        driver = ScriptedDriver(list(turns))
        return (
            AgentBuilder().with_driver(driver).with_tools(*stage.tools).with_journal(journal)
            .with_capability(hooks).build()
        )  # fmt: skip

    paused = agent(call("bash", command="ls"), say("x")).run_sync("go", run_id="r")
    assert paused.status is RunStatus.PAUSED
    done = asyncio.run(agent(say("done")).resume("r", {paused.state.pending[0].id: True}))
    assert done.status is RunStatus.COMPLETED
    assert results(done.state) == ["ran ls"]
    assert sorted(log.read_text().split()) == ["asked", "other"]


def test_a_recorded_run_can_be_driven_again(stage: Any) -> None:
    """The hooks of now are asked, and another answer of theirs is found."""
    hooks = stage.claude("PreToolUse", "echo no >&2; exit 2", "echo also; exit 0", matcher="Bash")

    def agent() -> AgentBuilder:
        driver = ScriptedDriver([call("bash", command="ls"), say("done")])
        return AgentBuilder().with_driver(driver).with_tools(*stage.tools)

    records = agent().with_capability(hooks).build().run_sync("go").records
    again = asyncio.run(replay(records, records[0].run_id, agent().with_capability(hooks).build()))
    assert again.identical, again
    hooks = stage.claude("PreToolUse", "exit 0", matcher="Bash")
    other = asyncio.run(replay(records, records[0].run_id, agent().with_capability(hooks).build()))
    assert not other.identical


@pytest.mark.parametrize(
    ("dialect", "event"), [("copilot", "subagentStop"), ("vscode", "SubagentStop")]
)
def test_a_childs_answer_is_replaced(stage: Any, dialect: str, event: str) -> None:
    """In Copilot's dialects a hook may give the parent another one."""
    command = 'echo \'{"modifiedResponse": "all of it is fine"}\''
    hooks = stage.hooks({"on": event, "dialect": dialect, "command": command})
    result = parent(stage, hooks, say("child done")).run_sync("go")
    assert results(result.state) == ["all of it is fine"]
