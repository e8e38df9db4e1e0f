"""Hooks that are a tool of an MCP server."""

from __future__ import annotations

import json
from typing import Any

from hookline import AgentBuilder, ToolContext
from hookline.capabilities import Approval
from hookline.command_hooks.hook_kinds import fill_arguments, tool_of
from hookline.errors import ToolError
from hookline.testing import ScriptedDriver, call, say
from hookline.tools import tool


@tool(name="mcp__guard__check")
def check(text: str) -> str:
    """Check a command, as a server would."""
    if "crash" in text:
        raise ToolError("the server is gone.")
    decision = {"permissionDecision": "deny", "permissionDecisionReason": f"no {text}"}
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}})


def guarded(stage: Any, **more: Any) -> Any:
    """A project with one such hook."""
    stage.tools = (*stage.tools, check)
    hook = {
        "type": "mcp_tool",
        "server": "guard",
        "tool": "check",
        "input": {"text": "${tool_input.command}"},
        **more,
    }
    group = {"matcher": "Bash", "hooks": [hook]}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [group]}})
    return stage.discover()


def test_its_text_is_read_like_the_output_of_a_program(stage: Any) -> None:
    """It may deny, with what it was given of the event."""
    result = stage.run(guarded(stage), call("bash", command="ls -l"), say("done"))
    assert result.state.messages[2].text == "Blocked: no ls -l"


def test_a_tool_that_fails_or_is_not_there_is_a_hook_that_failed(stage: Any) -> None:
    """Which in this dialect lets things continue."""
    result = stage.run(guarded(stage), call("bash", command="crash"), say("done"))
    assert result.state.messages[2].text == "ran crash"
    missing = stage.run(guarded(stage, tool="other"), call("bash", command="ls"), say("done"))
    assert missing.state.messages[2].text == "ran ls"
    reasons = [getattr(record, "reason", "") for record in missing.records]
    assert any("'mcp__guard__other' is not connected" in str(reason) for reason in reasons)


def test_a_rule_that_denies_the_tool_denies_it_to_hooks_too(stage: Any) -> None:
    """It is never called then, and the hook has failed, with the rule in its words."""
    called = stage.root / "called"

    @tool(name="mcp__guard__note")
    def note(text: str) -> str:
        """Write something down, as a server would."""
        called.write_text(text)
        return ""

    stage.tools = (*stage.tools, note)
    rules = Approval(deny=["mcp__guard__note"])
    turns = (call("bash", command="ls"), say("done"))
    denied = stage.run(guarded(stage, tool="note"), *turns, with_capability=rules)
    assert not called.exists()
    reasons = [str(getattr(record, "reason", "")) for record in denied.records]
    assert any("it is not called" in reason and "mcp__guard__note" in reason for reason in reasons)


def test_nobody_is_asked_about_a_call_that_was_configured(stage: Any) -> None:
    """Whoever wrote the hook, or trusted it, has said yes."""
    rules = Approval(ask=["mcp__guard__check"])
    turns = (call("bash", command="ls"), say("done"))
    result = stage.run(guarded(stage), *turns, with_capability=rules)
    assert result.state.messages[2].text == "Blocked: no ls"


def test_it_holds_in_child_runs_that_have_no_such_tool(stage: Any) -> None:
    """The server is the agent's, in child runs too."""
    hooks = guarded(stage)
    ran = stage.root / "ran"

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.write_text(command)
        return "ran"

    turns = [call("bash", command="ls"), say("so")]
    child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(bash).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Have another agent do it."""
        return (await context.spawn(child, "look", name="helper")).text

    driver = ScriptedDriver([call("delegate"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(delegate, check)
    builder.with_capability(hooks).build().run_sync("go")
    assert not ran.exists()


def test_one_that_names_no_tool_is_left_out(stage: Any) -> None:
    """This is reported."""
    assert "needs 'server'" in guarded(stage, server="").warnings[0]


def test_places_are_filled_from_the_event() -> None:
    """At any depth; what is not there is empty, and what is no text is JSON."""
    payload = {"tool_input": {"file_path": "/a", "n": [1, 2]}, "cwd": "/p"}
    given = {"a": "${tool_input.file_path} in ${cwd}", "b": ["${tool_input.n}", 3], "c": "${x.y}"}
    assert fill_arguments(given, payload) == {"a": "/a in /p", "b": ["[1, 2]", 3], "c": ""}


def test_what_a_tool_is_called() -> None:
    """As the tools of servers are called here."""
    assert tool_of("memory", "find it") == "mcp__memory__find_it"
