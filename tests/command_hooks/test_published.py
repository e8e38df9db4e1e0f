"""Scripts in the manner of those that people publish, in several languages, for all five dialects: run as they are."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from hookline import RunStatus
from hookline.testing import call, say

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")


def texts(result: Any) -> list[str]:
    """The texts of the conversation."""
    return [message.text for message in result.state.messages]


def claude_hooks(stage: Any, **events: tuple[str, str]) -> Any:
    """Settings with a matcher and a command for each event."""
    hooks = {
        event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]
        for event, (matcher, command) in events.items()
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    return stage.discover()


# --- Claude -------------------------------------------------------------------------------------------

GUARD_PY = '''#!/usr/bin/env python3
"""Refuses dangerous commands and files with secrets, and logs every call."""
import json
import re
import sys
from pathlib import Path

try:
    data = json.load(sys.stdin)
except json.JSONDecodeError as error:
    print(f"Error: Invalid JSON input: {error}", file=sys.stderr)
    sys.exit(1)

name, given = data.get("tool_name", ""), data.get("tool_input", {})
log = Path("logs") / "pre_tool_use.json"
log.parent.mkdir(exist_ok=True)
entries = json.loads(log.read_text()) if log.exists() else []
log.write_text(json.dumps([*entries, data], indent=2))

if name in ("Read", "Edit", "MultiEdit", "Write"):
    if Path(given.get("file_path", "")).name == ".env":
        print("BLOCKED: Access to .env files is prohibited", file=sys.stderr)
        sys.exit(2)
if name == "Bash" and re.search(r"\\brm\\s+.*-[a-z]*r[a-z]*f", given.get("command", "")):
    print("BLOCKED: Dangerous rm command detected", file=sys.stderr)
    sys.exit(2)
sys.exit(0)
'''


def test_a_guard_in_python_with_a_log_of_its_own(stage: Any) -> None:
    """It finds names and keys as it expects them, and writes beside the project's files."""
    stage.script(".claude/hooks/pre_tool_use.py", GUARD_PY)
    hooks = claude_hooks(stage, PreToolUse=("", "python3 .claude/hooks/pre_tool_use.py"))
    result = stage.run(
        hooks,
        call("bash", command="rm -rf /"),
        call("read", path=".env"),
        call("write", path="src/a.py", content="x"),
        say("done"),
    )
    told = [m.text for m in result.state.messages if m.role == "tool"]
    assert told[0] == "Blocked: BLOCKED: Dangerous rm command detected"
    assert told[1] == "Blocked: BLOCKED: Access to .env files is prohibited"
    assert told[2] == "wrote src/a.py"
    logged = json.loads((stage.root / "logs/pre_tool_use.json").read_text())
    assert [entry["tool_name"] for entry in logged] == ["Bash", "Read", "Write"]
    assert logged[2]["tool_input"]["file_path"] == str(stage.root / "src/a.py")


@needs_jq
def test_a_formatter_after_edits(stage: Any) -> None:
    """One line of shell, as in many settings."""
    log = stage.root / "formatted"
    line = (
        "jq -r '.tool_input.file_path // empty' | { read -r file; "
        f'echo "$file" | grep -q \'\\.py$\' && echo "$file" >> {log}; true; }}'
    )
    hooks = claude_hooks(stage, PostToolUse=("Edit|MultiEdit|Write", line))
    stage.run(
        hooks,
        call("write", path="a.py", content=""),
        call("write", path="b.txt", content=""),
        say("done"),
    )
    assert log.read_text().split() == [str(stage.root / "a.py")]


LOOP_SH = """#!/bin/bash
# Feeds the same prompt back until the model says the word, or the iterations are used up.
set -euo pipefail
INPUT=$(cat)
STATE=".claude/loop.local.md"
[[ -f "$STATE" ]] || exit 0
ITERATION=$(grep '^iteration:' "$STATE" | sed 's/iteration: *//')
MAX=$(grep '^max_iterations:' "$STATE" | sed 's/max_iterations: *//')
if [[ $ITERATION -ge $MAX ]]; then rm "$STATE"; exit 0; fi
TRANSCRIPT=$(echo "$INPUT" | jq -r '.transcript_path')
if ! grep -q '"role":"assistant"' "$TRANSCRIPT"; then rm "$STATE"; exit 0; fi
LAST=$(grep '"role":"assistant"' "$TRANSCRIPT" | tail -1 \\
  | jq -r '.message.content | map(select(.type == "text")) | map(.text) | join("\\n")')
if echo "$LAST" | grep -q '<promise>DONE</promise>'; then rm "$STATE"; exit 0; fi
NEXT=$((ITERATION + 1))
sed -i "s/^iteration: .*/iteration: $NEXT/" "$STATE"
PROMPT=$(awk '/^---$/{i++; next} i>=2' "$STATE")
jq -n --arg prompt "$PROMPT" --arg msg "Iteration $NEXT" \\
  '{"decision": "block", "reason": $prompt, "systemMessage": $msg}'
"""


@needs_jq
def test_a_loop_over_stops_that_reads_the_transcript(stage: Any) -> None:
    """A plugin's: it sends the agent back until it keeps its promise."""
    root = stage.home / "loop-plugin"
    stage.file("loop-plugin/hooks/hooks.json", {"description": "d", "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/hooks/stop-hook.sh"}]}]
    }}, home=True)  # fmt: skip
    script = stage.file("loop-plugin/hooks/stop-hook.sh", LOOP_SH, home=True)
    script.chmod(0o755)
    stage.file(
        ".claude/loop.local.md", "---\niteration: 1\nmax_iterations: 5\n---\nMake it work.\n"
    )
    hooks = stage.discover(plugins=[root])
    result = stage.run(hooks, say("not yet"), say("still not"), say("ok <promise>DONE</promise>"))
    assert result.text == "ok <promise>DONE</promise>"
    assert texts(result).count("Make it work.") == 2
    assert not (stage.root / ".claude/loop.local.md").exists()


CONTEXT_JS = """#!/usr/bin/env node
let input = '';
process.stdin.on('data', chunk => input += chunk);
process.stdin.on('end', () => {
  const data = JSON.parse(input);
  const hookSpecificOutput = { hookEventName: data.hook_event_name, additionalContext: `Project: ${data.cwd}` };
  console.log(JSON.stringify({ hookSpecificOutput, suppressOutput: true, metrics: { ms: 1 } }));
});
"""


@needs_node
def test_a_hook_in_javascript(stage: Any) -> None:
    """With keys that nobody knows."""
    stage.script("hook.js", CONTEXT_JS)
    result = stage.run(claude_hooks(stage, UserPromptSubmit=("", "node hook.js")), say("hi"))
    assert f"Project: {stage.root}" in texts(result)[0]


def test_a_hook_that_speaks_to_several_agents(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells by a variable which it is, and is not misled by one that we inherited."""
    monkeypatch.setenv("CURSOR_PLUGIN_ROOT", "/elsewhere")
    script = (
        "#!/bin/sh\ncat > /dev/null\n"
        'if [ -n "${CURSOR_PLUGIN_ROOT:-}" ]; then echo \'{"additional_context": "cursor"}\'\n'
        'elif [ -n "${CLAUDE_PROJECT_DIR:-}" ]; then echo \'{"hookSpecificOutput": {"hookEventName": "SessionStart", '
        '"additionalContext": "claude"}}\'\nelse exit 1; fi\n'
    )
    stage.script("start.sh", script)
    result = stage.run(claude_hooks(stage, SessionStart=("startup", "./start.sh")), say("hi"))
    assert "claude" in texts(result)[0]


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
    told = [m.text for m in result.state.messages if m.role == "tool"]
    assert told == [
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
    assert "Mention the tests." in texts(result)


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
    told = [m.text for m in result.state.messages if m.role == "tool"]
    assert told == ["Blocked: Do not touch migrations.", "wrote a"]


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
    told = [m.text for m in result.state.messages if m.role == "tool"]
    assert told == ["Blocked: Use gh instead of git.", "ran ls", "wrote a"]
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
    assert [text for text in texts(result) if "again" in text] == ["again 0", "again 1"]


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
  [[ "$PATH_ARG" =~ /src/ ]] || echo '{"permissionDecision":"deny","permissionDecisionReason":"Only src"}'
fi
"""


@needs_jq
def test_hooks_for_copilot(stage: Any) -> None:
    """Arguments are text there, and a script runs in the directory that is named."""
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
    told = [m.text for m in result.state.messages if m.role == "tool"]
    assert told == ["Blocked: Dangerous system command", "Blocked: Only src", "wrote src/a"]
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
