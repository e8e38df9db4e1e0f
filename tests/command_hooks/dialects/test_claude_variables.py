"""Hooks of one line, as people keep them in settings: for bash, with the event in variables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline.command_hooks.dialect import dialect_named
from hookline.testing import call, say

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

GUARD = (
    "KEPT=('*.lock' '*/vendor/*'); for each in \"${KEPT[@]}\"; do "
    'if [[ "$CLAUDE_TOOL_FILE_PATH" == $each ]]; then echo "kept: $CLAUDE_TOOL_FILE_PATH" >&2; exit 2; fi; done'
)


def told_by_tools(result: Any) -> list[str]:
    """What came of the calls."""
    return [message.text for message in result.state.messages if message.role == "tool"]


@needs_bash
def test_a_line_for_bash_is_read_by_bash(stage: Any) -> None:
    """Where `/bin/sh` knows no lists, its error would be taken for a refusal."""
    hooks = stage.claude("PreToolUse", GUARD, matcher="Write")
    written = stage.run(
        hooks,
        call("write", path="uv.lock", content=""),
        call("write", path="a.py", content=""),
        say("done"),
    )
    assert told_by_tools(written) == [f"Blocked: kept: {stage.root}/uv.lock", "wrote a.py"]


@needs_bash
def test_so_are_geminis(stage: Any) -> None:
    """It starts bash, too."""
    line = '[[ "$(cat)" == *secret* ]] && { echo "no secrets" >&2; exit 2; } || exit 0'
    entry = {"type": "command", "command": line}
    stage.file(".gemini/settings.json", {"hooks": {"BeforeTool": [{"hooks": [entry]}]}})
    run = stage.run(
        stage.discover(), call("bash", command="echo secret"), call("bash", command="ls"), say("ok")
    )
    assert told_by_tools(run) == ["Blocked: no secrets", "ran ls"]


def test_a_log_in_the_directory_of_the_agent(stage: Any) -> None:
    """Whoever wrote the line has that directory; here it is made."""
    line = 'echo "$CLAUDE_HOOK_EVENT $CLAUDE_TOOL_NAME $CLAUDE_TOOL_COMMAND" >> ~/.claude/log.txt'
    stage.run(stage.claude("PreToolUse", line), call("bash", command="ls -l"), say("done"))
    assert (Path.home() / ".claude/log.txt").read_text() == "PreToolUse Bash ls -l\n"


def test_a_command_with_quotes_stays_one_word(stage: Any) -> None:
    """A variable is no place from which anything could be run."""
    line = 'printf "%s\\n" "$CLAUDE_TOOL_INPUT_COMMAND" >> seen'
    command = "echo '$(touch evil)' \"; touch evil"
    stage.run(stage.claude("PreToolUse", line), call("bash", command=command), say("done"))
    assert (stage.root / "seen").read_text() == command + "\n"
    assert not (stage.root / "evil").exists()


def test_what_is_told() -> None:
    """The event, the tool, its input as JSON and key by key, and what came of it."""
    given = {"file_path": "/p/a", "replace_all": True, "-i": 1}
    variables = dialect_named("claude").event_variables(
        {"tool_name": "Edit", "tool_input": given, "tool_response": {"ok": 1}}
    )
    assert variables["CLAUDE_TOOL_INPUT"] == '{"file_path":"/p/a","replace_all":true,"-i":1}'
    assert variables["CLAUDE_TOOL_INPUT_REPLACE_ALL"] == "true"
    assert variables["CLAUDE_FILE_PATHS"] == variables["CLAUDE_TOOL_INPUT_FILE_PATH"] == "/p/a"
    assert (variables["TOOL_NAME"], variables["TOOL_INPUT_file_path"]) == ("Edit", "/p/a")
    assert variables["CLAUDE_TOOL_OUTPUT"] == '{"ok":1}'
    assert not any("-I" in name for name in variables)


def test_what_is_too_long_for_a_variable_is_left_out(stage: Any) -> None:
    """Or the hook could not be started. Its input has all of it."""
    content = "x" * 3_000_000
    hooks = stage.claude("PreToolUse", 'echo "${CLAUDE_TOOL_INPUT_CONTENT-none}" > a; wc -c > b')
    stage.run(hooks, call("write", path="big", content=content), say("done"))
    assert (stage.root / "a").read_text() == "none\n"
    assert int((stage.root / "b").read_text()) > len(content)


def test_what_no_variable_can_hold_does_not_keep_a_guard_from_running(stage: Any) -> None:
    """With a zero in a variable no program could be started: the guard is asked all the same."""
    hooks = stage.claude("PreToolUse", "echo no >&2; exit 2")
    run = stage.run(hooks, call("bash", command="a\0b"), say("done"))
    assert told_by_tools(run) == ["Blocked: no"]
    assert (
        dialect_named("claude").event_variables({"tool_name": "a\ud800b", "prompt": "a\0b"})[
            "TOOL_NAME"
        ]
        == "a?b"
    )
