"""Scripts in the manner of those that people publish, for Gemini, Codex, Cursor and Copilot: run as they are."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from run_results import message_texts

from hookline import RunStatus
from hookline.testing import call, say

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")


# --- Gemini -------------------------------------------------------------------------------------------

GEMINI_SH = """#!/usr/bin/env bash
input=$(cat)
content=$(echo "$input" | jq -r '.tool_input.content // .tool_input.new_string // ""')
if echo "$content" | grep -qE 'api[_-]?key|password'; then
  echo "Blocked potential secret" >&2
  echo '{"decision": "deny", "reason": "Security Policy: Potential secret detected.", "systemMessage": "Blocked"}'
  exit 0
fi
echo '{"decision": "allow"}'
"""


@needs_jq
def test_a_guard_for_gemini(stage: Any) -> None:
    """By its tool names, with a time in milliseconds."""
    stage.script(".gemini/hooks/block-secrets.sh", GEMINI_SH)
    hook = {
        "name": "security",
        "type": "command",
        "command": "$GEMINI_PROJECT_DIR/.gemini/hooks/block-secrets.sh",
        "timeout": 20000,
    }
    stage.file(
        ".gemini/settings.json",
        {"hooks": {"BeforeTool": [{"matcher": "write_file|replace", "hooks": [hook]}]}},
    )
    result = stage.run(
        stage.discover(),
        call("write", path="a", content="password = 1"),
        call("write", path="a", content="fine"),
        call("bash", command="echo password"),
        say("done"),
    )
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results == [
        "Blocked: Security Policy: Potential secret detected.",
        "wrote a",
        "ran echo password",
    ]


@needs_node
def test_gemini_filters_tools_and_checks_answers(stage: Any) -> None:
    """Fewer tools are offered, by all hooks together; an answer is sent back."""
    config = (
        '{"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["%s"]}}}'
    )
    select = f"cat >/dev/null; echo '{config}'"
    check = (
        'node -e \'const d = JSON.parse(require("fs").readFileSync(0)); '
        'console.log(JSON.stringify(d.stop_hook_active || d.prompt_response.includes("tests") ? {} : '
        '{decision: "deny", reason: "Mention the tests."}))\''
    )
    entries = [
        {"type": "command", "command": select % name} for name in ("read_file", "run_shell_command")
    ]
    hooks = {
        "BeforeToolSelection": [{"hooks": entries}],
        "AfterAgent": [{"hooks": [{"type": "command", "command": check}]}],
    }
    stage.file(".gemini/settings.json", {"hooks": hooks})
    offered = []
    result = stage.run(
        stage.discover(), say("done"), say("done, tests pass"),
        on_after_inference=lambda ctx: offered.append([t.name for t in ctx.request.tools]),
    )  # fmt: skip
    assert offered[0] == ["bash", "read"]
    assert result.text == "done, tests pass"
    assert "Mention the tests." in message_texts(result)


# --- Codex --------------------------------------------------------------------------------------------


@needs_jq
def test_a_guard_for_codex(stage: Any) -> None:
    """Files are changed by patches there, and the matcher may say Write."""
    deny = (
        "jq -r .tool_input.command | grep -q migrations && "
        'echo \'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", '
        '"permissionDecisionReason": "Do not touch migrations."}}\' || true'
    )
    groups = [
        {"matcher": "Write|Edit", "hooks": [{"type": "command", "command": deny, "timeout": 10}]}
    ]
    stage.file(".codex/hooks.json", {"hooks": {"PreToolUse": groups}})
    result = stage.run(
        stage.discover(),
        call("write", path="migrations/1.sql", content="x"),
        call("write", path="a", content="x"),
        say("done"),
    )
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results == ["Blocked: Do not touch migrations.", "wrote a"]


def test_codexs_program_that_is_notified(stage: Any) -> None:
    """The event is its last argument."""
    log = stage.root / "log"
    script = stage.script("notify.sh", f'#!/bin/sh\necho "$1" > {log}\n')
    stage.file(".codex/config.toml", f'notify = ["{script}"]\n', home=True)
    stage.run(stage.discover(), say("all done"), prompt="do it")
    event = json.loads(log.read_text())
    assert (event["type"], event["last-assistant-message"]) == (
        "agent-turn-complete",
        "all done",
    )
    assert event["input-messages"] == ["do it"]


# --- Cursor -------------------------------------------------------------------------------------------

CURSOR_SH = """#!/bin/bash
input=$(cat)
command=$(echo "$input" | jq -r '.command // empty')
if [[ "$command" =~ git[[:space:]] ]]; then
  cat << EOF
{
  "continue": true,
  "permission": "deny",
  "user_message": "Git command blocked.",
  "agent_message": "Use gh instead of git."
}
EOF
elif [[ "$command" =~ ^gh ]]; then
  echo '{"permission": "ask", "user_message": "GitHub CLI needs permission."}'
else
  echo '{"permission": "allow"}'
fi
"""


@needs_jq
def test_hooks_for_cursor(stage: Any) -> None:
    """Denied, asked about, allowed, and logged after an edit."""
    stage.script(".cursor/hooks/block-git.sh", CURSOR_SH)
    log = stage.root / "edits"
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {
        "beforeShellExecution": [{"command": ".cursor/hooks/block-git.sh"}],
        "afterFileEdit": [{"command": f"jq -c '[.file_path, .edits[0].new_string]' >> {log}"}],
    }})  # fmt: skip
    result = stage.run(
        stage.discover(),
        call("bash", command="git push"),
        call("bash", command="ls"),
        call("write", path="a", content="new"),
        call("bash", command="gh pr create"),
        say("done"),
    )
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results == ["Blocked: Use gh instead of git.", "ran ls", "wrote a"]
    assert result.status is RunStatus.PAUSED
    assert result.state.pending[0].reason == "GitHub CLI needs permission."
    assert json.loads(log.read_text()) == [str(stage.root / "a"), "new"]


@needs_jq
def test_cursors_loop_has_a_limit(stage: Any) -> None:
    """Of its own, below that of all hooks."""
    hook = {"command": "jq -c '{followup_message: \"again \\(.loop_count)\"}'", "loop_limit": 2}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"stop": [hook]}})
    result = stage.run(stage.discover(), say("a"), say("b"), say("c"))
    assert result.text == "c"
    assert [text for text in message_texts(result) if "again" in text] == ["again 0", "again 1"]


# --- Copilot ------------------------------------------------------------------------------------------

COPILOT_SH = """#!/bin/bash
set -e
INPUT=$(cat)
TOOL_NAME=$(echo "$INPUT" | jq -r '.toolName')
TOOL_ARGS=$(echo "$INPUT" | jq -r '.toolArgs')
echo "$(echo "$INPUT" | jq -r '.timestamp'): $TOOL_NAME" >> tool-log.txt
if [ "$TOOL_NAME" = "bash" ]; then
  COMMAND=$(echo "$TOOL_ARGS" | jq -r '.command')
  if echo "$COMMAND" | grep -qE "rm -rf /|sudo|mkfs"; then
    echo '{"permissionDecision":"deny","permissionDecisionReason":"Dangerous system command"}'
    exit 0
  fi
fi
if [ "$TOOL_NAME" = "create" ]; then
  PATH_ARG=$(echo "$TOOL_ARGS" | jq -r '.path')
  [[ "$PATH_ARG" =~ ^src/ ]] || echo '{"permissionDecision":"deny","permissionDecisionReason":"Only src"}'
fi
"""


@needs_jq
def test_hooks_for_copilot(stage: Any) -> None:
    """Arguments are text there, paths are as the model wrote them, and a script runs in the directory that is named."""
    stage.script(".github/hooks/scripts/guard.sh", COPILOT_SH)
    hook = {
        "type": "command",
        "bash": "./.github/hooks/scripts/guard.sh",
        "cwd": ".",
        "timeoutSec": 15,
    }
    stage.file(".github/hooks/security.json", {"version": 1, "hooks": {"preToolUse": [hook]}})
    result = stage.run(
        stage.discover(),
        call("bash", command="sudo ls"),
        call("write", path="docs/a", content="x"),
        call("write", path="src/a", content="x"),
        say("done"),
    )
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results == ["Blocked: Dangerous system command", "Blocked: Only src", "wrote src/a"]
    assert len((stage.root / "tool-log.txt").read_text().splitlines()) == 3


def test_hooks_of_all_dialects_together(stage: Any) -> None:
    """Each is asked in its own way about the same call, one dialect after the other."""
    log = stage.root / "log"

    def entry(name: str) -> dict[str, str]:
        return {"type": "command", "command": f"cat > /dev/null; echo {name} >> {log}"}

    nested = {
        ".claude/settings.json": ("PreToolUse", "claude"),
        ".gemini/settings.json": ("BeforeTool", "gemini"),
        ".codex/hooks.json": ("PreToolUse", "codex"),
    }
    for file, (event, name) in nested.items():
        stage.file(file, {"hooks": {event: [{"hooks": [entry(name)]}]}})
    for file, name in ((".cursor/hooks.json", "cursor"), (".github/hooks/h.json", "copilot")):
        stage.file(file, {"version": 1, "hooks": {"preToolUse": [entry(name)]}})
    own = {"on": "before_tool_use", "command": entry("own")["command"]}
    stage.run(stage.discover(hooks=[own]))
    assert log.read_text().split() == ["claude", "gemini", "codex", "cursor", "copilot", "own"]


LOOP_PY = """
import json, pathlib, sys
event = json.load(sys.stdin)
if event["prompt"] not in ("", "Build it."):
    answer = {"systemMessage": "another prompt: " + event["prompt"]}
elif "DONE" in event["prompt_response"]:
    answer = {"decision": "allow", "continue": False, "stopReason": "found the word"}
else:
    answer = {"decision": "deny", "reason": "Build it.", "clearContext": True}
print(json.dumps(answer))
"""


def test_a_loop_for_gemini_that_begins_again_each_time(stage: Any) -> None:
    """What was said is gone, the prompt is the person's, and the run ends as one that is done."""
    stage.script("loop.py", LOOP_PY)
    context = {"hookSpecificOutput": {"additionalContext": "by the way"}}
    after = [{"hooks": [{"type": "command", "command": f"echo '{json.dumps(context)}'"}]}]
    loop = [{"hooks": [{"type": "command", "command": "python3 loop.py"}]}]
    stage.file(".gemini/settings.json", {"hooks": {"AfterAgent": loop, "AfterTool": after}})
    turns = (call("bash", command="ls"), say("first"), say("second"), say("DONE"))
    result = stage.run(stage.discover(), *turns, prompt="Build it.")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "DONE")
    assert message_texts(result) == ["Build it.", "DONE"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_hook_that_wants_the_end_goes_before_one_that_objects(stage: Any, order: int) -> None:
    """Whichever comes first."""
    commands = ['echo \'{"continue": false, "stopReason": "enough"}\'', "echo more >&2; exit 2"]
    hooks = stage.claude("Stop", *commands[::order])
    result = stage.run(hooks, say("done"))
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


POLICY_PY = """
import json, sys
event = json.load(sys.stdin)
if event["tool_name"] == "Bash" and ".env" in event["tool_input"]["command"]:
    print("not the .env: " + event["tool_input"]["command"].split()[0], file=sys.stderr)
    sys.exit(2)
"""


def test_a_guard_of_codex_over_commands_guards_what_is_read(stage: Any) -> None:
    """There files are read by commands, so that is what a guard looks at."""
    stage.script("policy.py", POLICY_PY)
    hook = {"type": "command", "command": "python3 policy.py"}
    group = {"matcher": "^Bash$", "hooks": [hook]}
    stage.file(".codex/hooks.json", {"hooks": {"PreToolUse": [group]}})
    turns = (call("read", path=".env"), call("bash", command="cat .env"), call("read", path="a"))
    result = stage.run(stage.discover(), *turns, say("done"))
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results == ["Blocked: not the .env: cat", "Blocked: not the .env: cat", "content of a"]


GUARDIAN_SH = """#!/bin/bash
set -euo pipefail
INPUT=$(cat)
mkdir -p logs
WANTED=$(printf '%s' "$INPUT" | python3 -c 'import json, sys; print(json.load(sys.stdin).get("toolInput", ""))')
if printf '%s' "$WANTED" | grep -qE 'git push --force'; then
  echo "Guardian: do not force"
  echo blocked >> logs/guard.log
  exit 1
fi
"""


def test_a_guardian_for_copilot_that_reads_another_key_and_talks_on_stdout(stage: Any) -> None:
    """It looks for `toolInput`, and says why on its output; a command for this machine goes before one for all."""
    stage.script(".github/hooks/guardian/guard.sh", GUARDIAN_SH)
    ours = ".github/hooks/guardian/guard.sh"
    hook = {"type": "command", "command": "exit 3", "linux": ours, "osx": ours, "timeout": 10}
    stage.file(".github/hooks/guardian/hooks.json", {"version": 1, "hooks": {"preToolUse": [hook]}})
    result = stage.run(
        stage.discover(),
        call("bash", command="git push --force origin main"),
        call("bash", command="git push"),
        say("done"),
    )
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results == ["Blocked: Guardian: do not force", "ran git push"]
    assert (stage.root / "logs/guard.log").read_text() == "blocked\n"


def test_a_hook_of_cursor_at_the_end_learns_how_it_ended(stage: Any) -> None:
    """Also when the run failed; what it says then changes nothing."""
    stage.script(".cursor/end.sh", 'cat >> ends; echo \'{"followup_message": "again"}\'\n')
    hook = {"command": "sh .cursor/end.sh", "loop_limit": 1}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"stop": [hook]}})
    stage.run(stage.discover(), say("one"), say("two"))
    failed = stage.run(stage.discover(), ValueError("the model is gone"))
    assert failed.status is RunStatus.FAILED
    said = [json.loads(line) for line in (stage.root / "ends").read_text().splitlines()]
    assert [(each["status"], each["loop_count"]) for each in said] == [
        ("completed", 0),
        ("completed", 1),
        ("error", 0),
    ]
