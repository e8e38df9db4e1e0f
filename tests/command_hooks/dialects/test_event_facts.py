"""What hooks are told is the fact of it: why a command failed, which file, which model, what comes after what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Bash, Files
from hookline.command_hooks.dialects.claude.tools import error_of
from hookline.command_hooks.dialects.event_facts import failure_text, output_text, plain_lines
from hookline.state import ToolResult
from hookline.testing import ScriptedDriver, call, say


class NamedDriver(ScriptedDriver):
    """A driver that says which model it asks."""

    model = "test:big, then test:small"


def run(stage: Any, dialect: str, events: list[str], *turns: Any) -> list[dict[str, Any]]:
    """What hooks of these events are sent, while real tools work."""
    log = stage.root.parent / "log.jsonl"
    hooks = [{"on": event, "dialect": dialect, "command": f"cat >> {log}"} for event in events]
    (
        AgentBuilder()
        .with_driver(NamedDriver([*turns, say("done")]))
        .with_capability(Bash(stage.root, sandbox="host"))
        .with_capability(Files(stage.root))
        .with_capability(stage.hooks(*hooks))
        .with_approver(lambda asked: True)
        .build()
        .run_sync("go")
    )
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("dialect", "event", "keys"),
    [
        ("cursor", "postToolUseFailure", ["error_message"]),
        ("copilot", "postToolUseFailure", ["error"]),
        ("gemini", "AfterTool", ["tool_response", "error", "message"]),
    ],
)
def test_a_failure_has_its_exit_code(stage: Any, dialect: str, event: str, keys: list[str]) -> None:
    """Also where the command printed nothing; what it printed comes after."""
    turns = (call("bash", command="false"), call("bash", command="echo no; exit 3"))
    found: list[Any] = run(stage, dialect, [event], *turns)
    for key in keys:
        found = [each[key] for each in found]
    assert found == [
        "The command failed (exit code 1).",
        "The command failed (exit code 3).\nno",
    ]


def test_a_failure_begins_with_its_exit_code_for_claude(stage: Any) -> None:
    """Scripts look for these words on the first line, and for what was printed below."""
    turns = (call("bash", command="false"), call("bash", command="echo no; exit 3"))
    found = run(stage, "claude", ["PostToolUseFailure"], *turns)
    assert [each["error"] for each in found] == ["Exit code 1", "Exit code 3\nno"]


def test_a_command_that_was_ended_is_told_as_that() -> None:
    """It has an exit code too, which is not the reason."""
    text = "half\n[timed out after 1 s and was ended, with everything it had started]\n[the sandbox: no]"
    ended = ToolResult(text, metadata={"exit_code": 137, "ended": "timeout"})
    assert failure_text(ended) == "The command took too long and was ended (exit code 137).\nhalf"
    assert error_of(ended) == "Exit code 137\nThe command took too long and was ended\nhalf"
    assert output_text(ended) == "half"


def test_a_patched_file_has_a_path(stage: Any) -> None:
    """In Codex too, where it is in the patch: a guard for Claude's Write has what it looks for."""
    (sent,) = run(stage, "codex", ["PostToolUse"], call("write", path="a.txt", content="x\n"))
    given = sent["tool_input"]
    assert (given["file_path"], given["content"]) == (str(stage.root / "a.txt"), "x\n")
    assert "*** Add File: a.txt\n+x" in given["command"]


def test_codexs_response_is_the_text(stage: Any) -> None:
    """Of a command what it printed, of a file what was said or read; nothing is around it."""
    turns = (
        call("bash", command="echo one"),
        call("write", path="a.txt", content="x\n"),
        call("read", path="a.txt"),
    )
    sent = run(stage, "codex", ["PostToolUse"], *turns)
    assert [sent[0]["tool_response"], sent[2]["tool_response"]] == ["one", "x"]
    assert "a.txt" in sent[1]["tool_response"]


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        ("codex", ["SessionStart", "UserPromptSubmit", "Stop"]),
        ("cursor", ["sessionStart", "beforeSubmitPrompt", "stop"]),
    ],
)
def test_the_model_is_known_before_it_is_asked(stage: Any, dialect: str, events: list[str]) -> None:
    """The agent's first one, and after the turn too."""
    assert [each["model"] for each in run(stage, dialect, events)] == ["test:big"] * 3


def test_a_file_is_told_without_our_line_numbers(stage: Any) -> None:
    """As it is in the file, whole or in part."""
    (stage.root / "a.txt").write_text("one\n  two\n\nfour\n")
    turns = (call("read", path="a.txt"), call("read", path="a.txt", offset=2, limit=1))
    whole, part = run(stage, "claude", ["PostToolUse"], *turns)
    assert whole["tool_response"]["file"]["content"] == "one\n  two\n\nfour"
    assert part["tool_response"]["file"]["content"] == "  two"


@pytest.mark.parametrize("text", ["", "plain", "1\ta\nplain", "     1\ta\n     3\tc"])
def test_what_is_not_numbered_is_left_alone(text: str) -> None:
    """Numbers that do not count lines are a part of the text."""
    assert plain_lines(text) == text


def test_the_lines_of_a_transcript_are_a_chain(stage: Any) -> None:
    """Each names the one before it, however often the file was brought up to date."""
    turns = (call("bash", command="true"), call("bash", command="true"))
    *_, sent = run(stage, "claude", ["PreToolUse", "PostToolUse", "Stop"], *turns)
    with open(sent["transcript_path"]) as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == 6
    assert [each["parentUuid"] for each in lines] == [None, *(each["uuid"] for each in lines[:-1])]


def test_what_a_lost_run_said_last_is_its_error(stage: Any) -> None:
    """Notices show it, and would show the words of a turn that had gone well."""
    hooks = stage.claude("StopFailure", "cat > failure.json")
    stage.run(hooks, RuntimeError("lost"))
    told = json.loads((stage.root / "failure.json").read_text())
    assert told["last_assistant_message"] == f"API Error: {told['error_details']}"
    assert "lost" in told["error_details"]
