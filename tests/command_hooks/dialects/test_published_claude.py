"""Scripts in the manner of those that people publish, in several languages, for Claude Code: run as they are."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from run_results import message_texts

from hookline.testing import call, say

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")


def claude_hooks(stage: Any, **events: tuple[str, str]) -> Any:
    """Settings with a matcher and a command for each event."""
    hooks = {
        event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]
        for event, (matcher, command) in events.items()
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    return stage.discover()


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
    results = [m.text for m in result.state.messages if m.role == "tool"]
    assert results[0] == "Blocked: BLOCKED: Dangerous rm command detected"
    assert results[1] == "Blocked: BLOCKED: Access to .env files is prohibited"
    assert results[2] == "wrote src/a.py"
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
    assert message_texts(result).count("Make it work.") == 2
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
    assert f"Project: {stage.root}" in message_texts(result)[0]


def test_a_hook_that_speaks_to_several_agents(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads a variable to know which one it is; an inherited variable does not mislead it."""
    monkeypatch.setenv("CURSOR_PLUGIN_ROOT", "/elsewhere")
    script = (
        "#!/bin/sh\ncat > /dev/null\n"
        'if [ -n "${CURSOR_PLUGIN_ROOT:-}" ]; then echo \'{"additional_context": "cursor"}\'\n'
        'elif [ -n "${CLAUDE_PROJECT_DIR:-}" ]; then echo \'{"hookSpecificOutput": {"hookEventName": "SessionStart", '
        '"additionalContext": "claude"}}\'\nelse exit 1; fi\n'
    )
    stage.script("start.sh", script)
    result = stage.run(claude_hooks(stage, SessionStart=("startup", "./start.sh")), say("hi"))
    assert "claude" in message_texts(result)[0]


RULES_PY = """#!/usr/bin/env python3
import json, sys
event = json.load(sys.stdin)
if "rm -rf" in event["tool_input"].get("command", ""):
    print(json.dumps({
        "hookSpecificOutput": {"hookEventName": event["hook_event_name"], "permissionDecision": "deny"},
        "systemMessage": "**[no-rm]** Removing is not allowed here.",
    }))
else:
    print(json.dumps({}))
"""


def test_a_denial_whose_only_words_are_for_the_user(stage: Any) -> None:
    """The model reads those, rather than nothing at all."""
    stage.script("rules.py", RULES_PY)
    hooks = stage.claude("PreToolUse", "python3 rules.py")
    result = stage.run(hooks, call("bash", command="rm -rf build"), say("done"))
    assert result.state.messages[2].text == "Blocked: **[no-rm]** Removing is not allowed here."


def test_words_for_the_user_beside_a_reason_are_kept(stage: Any) -> None:
    """The model has the reason, the journal has the rest."""
    answer = '{"decision": "block", "reason": "for the model", "systemMessage": "for you"}'
    result = stage.run(stage.claude("PreToolUse", f"echo '{answer}'"))
    assert result.state.messages[2].text == "Blocked: for the model"
    assert [r.message for r in result.records if getattr(r, "verdict", "") == "block"] == [
        "for you"
    ]


def test_nobody_is_notified_of_a_question_that_a_hook_has_answered(stage: Any) -> None:
    """No dialog is shown then."""
    answer = {"hookSpecificOutput": {"decision": {"behavior": "allow"}}}
    ask = {"hookSpecificOutput": {"permissionDecision": "ask"}}
    hooks = {
        "PreToolUse": [{"hooks": [{"type": "command", "command": f"echo '{json.dumps(ask)}'"}]}],
        "PermissionRequest": [
            {
                "matcher": "Bash",
                "hooks": [{"type": "command", "command": f"echo '{json.dumps(answer)}'"}],
            }
        ],
        "Notification": [{"hooks": [{"type": "command", "command": "echo x >> notified"}]}],
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    turns = (call("bash", command="ls"), call("read", path="a"), say("done"))
    stage.run(stage.discover(), *turns)
    assert (stage.root / "notified").read_text() == "x\n"
