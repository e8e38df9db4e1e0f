"""What hooks of the other dialects are told: every event has its own form, and all of it is JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline import HookOutcome
from hookline.command_hooks.dialect import all_dialects
from hookline.testing import call, say

COMMON = {
    "gemini": {"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"},
    "codex": {"session_id", "transcript_path", "cwd", "hook_event_name", "turn_id", "model"},
    "cursor": {
        "conversation_id",
        "generation_id",
        "model",
        "hook_event_name",
        "workspace_roots",
        "cursor_version",
    },
    "copilot": {"sessionId", "timestamp", "cwd"},
    "claude": {"session_id", "transcript_path", "cwd", "hook_event_name", "permission_mode"},
    "vscode": {"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"},
}
OWN = {
    ("gemini", "BeforeTool"): {"tool_name", "tool_input"},
    ("gemini", "AfterTool"): {"tool_name", "tool_input", "tool_response"},
    ("gemini", "BeforeAgent"): {"prompt"},
    ("gemini", "AfterAgent"): {"prompt", "prompt_response", "stop_hook_active"},
    ("gemini", "BeforeModel"): {"llm_request"},
    ("gemini", "AfterModel"): {"llm_request", "llm_response"},
    ("gemini", "Notification"): {"notification_type", "message", "details"},
    ("codex", "PreToolUse"): {"tool_name", "tool_input", "tool_use_id"},
    ("codex", "Stop"): {"stop_hook_active", "last_assistant_message"},
    ("cursor", "beforeShellExecution"): {"command", "cwd"},
    ("cursor", "afterShellExecution"): {"command", "output", "duration"},
    ("cursor", "beforeSubmitPrompt"): {"prompt", "attachments"},
    ("cursor", "stop"): {"status", "loop_count"},
    ("cursor", "afterAgentResponse"): {"text"},
    ("copilot", "preToolUse"): {"toolName", "toolArgs"},
    ("copilot", "postToolUse"): {"toolName", "toolArgs", "toolResult"},
    ("copilot", "userPromptSubmitted"): {"prompt"},
    ("copilot", "userPromptTransformed"): {"prompt", "transformedPrompt"},
    ("copilot", "notification"): {"notification_type", "title", "message"},
    ("copilot", "agentStop"): {"transcriptPath", "stopReason", "stop_hook_active"},
    ("vscode", "PreToolUse"): {"tool_name", "tool_input"},
    ("vscode", "PostToolUse"): {"tool_name", "tool_input", "tool_result"},
    ("vscode", "Stop"): {"transcript_path", "stop_reason", "stop_hook_active"},
    ("claude", "PreToolUse"): {"tool_name", "tool_input", "tool_use_id", "prompt_id"},
    ("claude", "PostToolUse"): {"tool_name", "tool_input", "tool_response", "duration_ms"},
    ("claude", "PermissionRequest"): {"tool_name", "tool_input"},
    ("claude", "Stop"): {"stop_hook_active", "last_assistant_message"},
}
NEEDS_MORE = ("agent_failed", "subagent_start", "subagent_stop", "before_compact")


def events() -> list[tuple[str, str]]:
    """Every event that happens in a plain run, in every dialect but our own."""
    return [
        (name, event)
        for name, dialect in all_dialects().items()
        for event, point in dialect.points.items()
        if name != "hookline" and point not in NEEDS_MORE and event not in ("notify", "PostCompact")
    ]


@pytest.mark.parametrize(("dialect", "event"), events())
def test_what_is_sent(stage: Any, dialect: str, event: str) -> None:
    """Its common fields, and its own."""
    log = stage.root / "log"
    hooks = stage.hooks({"on": event, "dialect": dialect, "command": f"cat >> {log}"})
    stage.run(
        hooks,
        call("bash", command="ls"),
        say("done"),
        on_before_tool_use=lambda ctx: HookOutcome.ask("sure?"),
        with_approver=lambda asked: True,
    )
    if not log.exists():  # it is about another kind of tool, or about one that failed
        assert event.endswith(("Failure", "MCPExecution", "ReadFile", "FileEdit", "Thought"))
        return
    sent = json.loads(log.read_text().splitlines()[0])
    assert COMMON[dialect] | OWN.get((dialect, event), set()) <= sent.keys()
    named = sent.get("hook_event_name", event)
    assert named == event or (named, event) == ("Notification", "notification")


def test_a_secret_in_a_file_is_seen_before_it_is_read(stage: Any) -> None:
    """Cursor shows hooks what is in the file; one that has failed keeps it from being read."""
    (stage.root / "notes.txt").write_text("password: hunter2")
    deny = (
        'grep -q hunter2 && echo \'{"permission": "deny", "user_message": "secret"}\' || echo "{}"'
    )
    hook = {"on": "beforeReadFile", "dialect": "cursor", "command": deny}
    result = stage.run(stage.hooks(hook), call("read", path="notes.txt"), say("done"))
    assert result.state.messages[2].text == "Blocked: secret"
    stage.file(
        ".cursor/hooks.json", {"version": 1, "hooks": {"beforeReadFile": [{"command": "exit 9"}]}}
    )
    result = stage.run(stage.discover(), call("read", path="notes.txt"), say("done"))
    assert "not let through" in result.state.messages[2].text


def test_tools_of_servers_have_the_names_of_each_dialect(stage: Any) -> None:
    """One form in each, and the matcher may use either."""

    def query(sql: str) -> str:
        """Ask."""
        return "rows"

    query.__name__ = "mcp__db__query"
    log = stage.root / "log"
    hooks = stage.hooks(
        {
            "on": "BeforeTool",
            "dialect": "gemini",
            "matcher": "mcp_db_.*",
            "command": f"cat >> {log}",
        },
        {"on": "beforeMCPExecution", "dialect": "cursor", "command": f"cat >> {log}"},
        {
            "on": "PreToolUse",
            "dialect": "claude",
            "matcher": "mcp__db__.*",
            "command": f"cat >> {log}",
        },
    )
    stage.run(hooks, call("mcp__db__query", sql="select 1"), say("done"), with_tools=query)
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["tool_name"] for each in sent] == ["mcp_db_query", "query", "mcp__db__query"]
    assert sent[2]["mcp_server"] == {"name": "db"}


@pytest.mark.parametrize(
    ("dialect", "event", "key"),
    [("cursor", "afterMCPExecution", "result_json"), ("codex", "PostToolUse", "tool_response")],
)
def test_what_a_server_gave_is_in_the_form_of_servers(
    stage: Any, dialect: str, event: str, key: str
) -> None:
    """A list of contents; in Cursor as a text."""

    def query(sql: str) -> str:
        """Ask."""
        return "rows"

    query.__name__ = "mcp__db__query"
    log = stage.root / "log"
    hooks = stage.hooks({"on": event, "dialect": dialect, "command": f"cat > {log}"})
    stage.run(hooks, call("mcp__db__query", sql="select 1"), say("done"), with_tools=query)
    given = json.loads(log.read_text())[key]
    given = json.loads(given) if dialect == "cursor" else given
    assert given["content"] == [{"type": "text", "text": "rows"}]
