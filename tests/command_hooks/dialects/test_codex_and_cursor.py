"""What is Codex's and Cursor's own: answers after a tool, variables, switches, plugins, and words of older versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus
from hookline.capabilities import Bash
from hookline.command_hooks import Handler, HookSource, Level
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import HookSearch, ProgramAnswer, ProgramResult
from hookline.command_hooks.runner import read_reply
from hookline.testing import ScriptedDriver, call, say


def said(dialect: str, event: str, ran: ProgramResult) -> ProgramAnswer:
    """What the end of a program means at an event of a dialect."""
    return read_reply(all_dialects()[dialect], Handler(HookSource(dialect), event), ran)


def codex_file(event: str, command: str, **group: str) -> dict[str, Any]:
    """A hooks.json with one hook."""
    return {"hooks": {event: [{**group, "hooks": [{"type": "command", "command": command}]}]}}


def tool_texts(result: Any) -> list[str]:
    """What the model was told of its calls."""
    return [message.text for message in result.state.messages if message.role == "tool"]


# --- Codex --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "echo 'there is a key in it' >&2; exit 2",
        'echo \'{"decision": "block", "reason": "there is a key in it"}\'',
        'echo \'{"continue": false, "stopReason": "there is a key in it"}\'',
    ],
)
def test_after_a_tool_codex_puts_the_feedback_in_place_of_the_result(
    stage: Any, command: str
) -> None:
    """The model does not see what was kept back, and goes on."""
    stage.file(".codex/hooks.json", codex_file("PostToolUse", command, matcher="Bash"))
    result = stage.run(stage.discover(), call("bash", command="ls"), say("done"))
    (told,) = tool_texts(result)
    assert "there is a key in it" in told
    assert "ran ls" not in told
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


def test_a_guard_for_claudes_files_guards_codexs_patches(stage: Any) -> None:
    """It looks for a path and a content, and finds them beside the patch."""
    guard = """jq -e '.tool_input.content | contains("eval(")' >/dev/null && { echo 'no eval' >&2; exit 2; }; exit 0"""
    stage.file(".codex/hooks.json", codex_file("PreToolUse", guard, matcher="Write|Edit"))
    result = stage.run(
        stage.discover(),
        call("write", path="a.py", content="eval('1')"),
        call("write", path="b.py", content="1"),
        say("done"),
    )
    assert tool_texts(result) == ["Blocked: no eval", "wrote b.py"]


def test_a_patch_that_comes_back_as_it_was_is_none_that_changed(stage: Any) -> None:
    """Also if only the patch comes back, and not what is beside it."""
    made = '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "allow", updatedInput: %s}}'
    shown = "{command: .tool_input.command}"
    stage.file(".codex/hooks.json", codex_file("PreToolUse", f"jq -c '{made % shown}'"))
    result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
    assert tool_texts(result) == ["wrote a"]
    stage.file(".codex/hooks.json", codex_file("PreToolUse", f"jq -c '{made % '{command: 1}'}'"))
    result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
    assert "cannot be taken back" in tool_texts(result)[0]


def test_codex_is_told_that_a_turn_failed(stage: Any) -> None:
    """In Claude's words for what was wrong."""
    stage.file(".codex/hooks.json", codex_file("StopFailure", "cat > seen"))
    stage.run(stage.discover(), RuntimeError("the model is gone"))
    sent = json.loads((stage.root / "seen").read_text())
    assert (sent["hook_event_name"], sent["error"]) == ("StopFailure", "unknown")
    assert "the model is gone" in sent["error_details"]


def test_codexs_hooks_in_one_list(stage: Any) -> None:
    """As installers have written them, each with its event."""
    table = '[[hooks]]\nevent = "PreToolUse"\nmatcher = "Bash"\ncommand = "echo no >&2; exit 2"\n'
    stage.file(".codex/config.toml", table + '[[hooks]]\ncommand = "true"\n')
    found = stage.discover()
    assert tool_texts(stage.run(found)) == ["Blocked: no"]
    assert ["'' is no event" in warning for warning in found.warnings] == [True]


def test_words_to_a_child_need_no_json_in_codex() -> None:
    """As at the start of a session."""
    assert said("codex", "SubagentStart", ProgramResult(0, "keep to src\n")).contexts == (
        "keep to src",
    )
    assert said("codex", "PostToolUse", ProgramResult(0, "keep to src\n")).is_silent


@pytest.mark.parametrize("more", [{"updatedInput": {"command": "ls"}}, {"interrupt": True}])
def test_a_permission_of_codex_is_yes_or_no(more: dict[str, Any]) -> None:
    """What else it may say is kept for later, and such an answer is none: the user is asked."""
    answer = {"hookSpecificOutput": {"decision": {"behavior": "allow", **more}}}
    assert (
        next(iter(more))
        in said("codex", "PermissionRequest", ProgramResult(0, json.dumps(answer))).problem
    )
    plain = {"hookSpecificOutput": {"decision": {"behavior": "allow"}}}
    assert (
        said("codex", "PermissionRequest", ProgramResult(0, json.dumps(plain))).decision == "allow"
    )


def test_an_objection_in_codex_needs_a_reason() -> None:
    """It is what the agent goes on with."""
    assert (
        "reason"
        in said("codex", "Stop", ProgramResult(0, '{"decision": "block", "reason": " "}')).problem
    )
    assert (
        said("codex", "Stop", ProgramResult(0, '{"decision": "block", "reason": "test"}')).decision
        == "deny"
    )


def test_where_nothing_can_be_blocked_the_failure_is_told_in_its_own_words() -> None:
    """And not as if the hook had been silent."""
    assert (
        "no database" in said("codex", "SessionStart", ProgramResult(2, "", "no database")).problem
    )


def test_a_session_of_codex_begins_with_variables(stage: Any) -> None:
    """By either name of the file, as Claude's does."""
    write = 'echo "export COLOUR=blue" >> "$CODEX_ENV_FILE"; test "$CODEX_ENV_FILE" = "$CLAUDE_ENV_FILE"'
    stage.file(".codex/hooks.json", codex_file("SessionStart", write), home=True)
    driver = ScriptedDriver([call("bash", command='echo "it is $COLOUR"'), say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(Bash(stage.root, sandbox="host"))
    approved = builder.with_approver(lambda asked: True).with_capability(stage.discover())
    result = approved.build().run_sync("go")
    assert "it is blue" in tool_texts(result)[0]


@pytest.mark.parametrize("name", ["hooks", "codex_hooks"])
def test_the_user_switches_codexs_hooks_off(stage: Any, name: str) -> None:
    """Theirs and the repository's; a repository its own. A program that is notified is no hook."""
    stage.file(".codex/hooks.json", codex_file("Stop", "users"), home=True)
    stage.file(".codex/hooks.json", codex_file("Stop", "repositorys"))
    off = f"[features]\n{name} = false\n"
    stage.file(".codex/config.toml", off)
    assert [handler.command for handler in stage.discover().handlers] == ["users"]
    stage.file(".codex/config.toml", f'notify = ["told"]\n{off}', home=True)
    assert [handler.event for handler in stage.discover().handlers] == ["notify"]


def test_what_the_administrator_requires_of_codex(stage: Any, tmp_path: Path) -> None:
    """It may be all that there is."""
    stage.file(".codex/hooks.json", codex_file("Stop", "users"), home=True)
    required = tmp_path / "etc" / "codex" / "requirements.toml"
    required.parent.mkdir(parents=True)
    hook = (
        '[hooks]\nmanaged_dir = "/opt"\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "managed"\n'
    )
    told: list[str] = []
    for alone, commands in (
        ("", ["managed", "users"]),
        ("allow_managed_hooks_only = true\n", ["managed"]),
    ):
        required.write_text(alone + hook)
        found = list(
            all_dialects()["codex"].find(
                HookSearch(stage.root, stage.home, told.append, system=tmp_path / "etc")
            )
        )
        assert [handler.command for handler in found] == commands
    assert told == []


# --- Cursor -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        ({"decision": "deny", "reason": "no"}, "deny", "no"),
        ({"decision": "block", "reason": "no"}, "deny", "no"),
        ({"permission": "allow", "decision": "deny"}, "allow", ""),
        ({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}, "deny", "no"),
        ({"permission": "deny", "user_message": "you", "reason": "no"}, "deny", "you"),
        ({"decision": "later"}, "", ""),
    ],
)  # fmt: skip
def test_cursors_decision_in_other_words(
    answer: dict[str, Any], decision: str, reason: str
) -> None:
    """Those of its older versions, and of Claude; its own go first."""
    found = said("cursor", "preToolUse", ProgramResult(0, json.dumps(answer)))
    assert (found.decision, found.reason) == (decision, reason)


def test_cursors_plugins(stage: Any) -> None:
    """Their commands run where they are, and know it by a name of Cursor's."""
    root = ".cursor/plugins/local/words"
    stage.file(f"{root}/.cursor-plugin/plugin.json", {"name": "words"}, home=True)
    hooks = {"sessionStart": [{"command": "./hooks/say.sh"}]}
    stage.file(f"{root}/hooks/hooks.json", {"version": 1, "hooks": hooks}, home=True)
    script = stage.file(
        f"{root}/hooks/say.sh",
        '#!/bin/sh\nprintf \'{"additional_context": "from %s"}\' "${CURSOR_PLUGIN_ROOT##*/}"\n',
        home=True,
    )
    script.chmod(0o755)
    found = stage.discover()
    assert [handler.source.level for handler in found.handlers] == [Level.PLUGIN]
    result = stage.run(found, say("done"))
    assert any("from words" in message.text for message in result.state.messages)


def test_a_plugin_of_cursor_has_its_hooks_in_itself(stage: Any) -> None:
    """In its manifest, or in a file of it that the manifest names; never outside."""
    root = ".cursor/plugins/local"
    inline = {"hooks": {"stop": [{"command": "inline"}]}}
    stage.file(f"{root}/a/.cursor-plugin/plugin.json", inline, home=True)
    stage.file(f"{root}/b/.cursor-plugin/plugin.json", {"hooks": "./h.json"}, home=True)
    stage.file(f"{root}/b/h.json", {"hooks": {"stop": [{"command": "named"}]}}, home=True)
    stage.file(f"{root}/c/.cursor-plugin/plugin.json", {"hooks": "../b/h.json"}, home=True)
    found = stage.discover()
    assert [handler.command for handler in found.handlers] == ["inline", "named"]
    assert any("outside of it" in warning for warning in found.warnings)


def test_an_event_of_cursors_window_is_told(stage: Any) -> None:
    """It never happens here."""
    hooks = {"workspaceOpen": [{"command": "x"}]}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    assert any("workspaceOpen does not happen" in said for said in stage.discover().warnings)


def test_what_a_command_gave_cursors_hooks(stage: Any) -> None:
    """How it ended and what it printed, as an object in a text."""
    log = stage.root / "log"
    hooks = stage.hooks({"on": "postToolUse", "dialect": "cursor", "command": f"cat > {log}"})
    stage.run(hooks)
    output = json.loads(json.loads(log.read_text())["tool_output"])
    assert output == {"exitCode": 0, "stdout": "ran ls"}


@pytest.mark.parametrize(
    ("dialect", "event", "good", "bad"),
    [
        ("cursor", "sessionEnd", "completed", "error"),
        ("copilot", "sessionEnd", "complete", "error"),
        ("vscode", "SessionEnd", "complete", "error"),
    ],
)
def test_how_a_session_ended(stage: Any, dialect: str, event: str, good: str, bad: str) -> None:
    """In the words of each dialect."""
    log = stage.root / "log"
    hooks = stage.hooks({"on": event, "dialect": dialect, "command": f"cat >> {log}"})
    stage.run(hooks, say("done"))
    stage.run(hooks, RuntimeError("gone"))
    reasons = [json.loads(line)["reason"] for line in log.read_text().splitlines()]
    assert reasons == [good, bad]


def test_a_rewritten_command_changes_no_tool_that_reads(stage: Any) -> None:
    """To Codex's hooks it is `cat`, and people have hooks that put another program before it."""
    made = (
        '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "allow", '
        'updatedInput: {command: ("short " + .tool_input.command)}}}'
    )
    stage.file(".codex/hooks.json", codex_file("PreToolUse", f"jq -c '{made}'", matcher="Bash"))
    result = stage.run(
        stage.discover(), call("read", path="a"), call("bash", command="ls"), say("done")
    )
    assert tool_texts(result) == ["content of a", "ran short ls"]


@pytest.mark.parametrize("key", ["file_path", "path"])
def test_cursors_files_by_either_name(stage: Any, key: str) -> None:
    """A guard finds the path under both, and may change either."""
    change = f'{{permission: "allow", updated_input: (.tool_input + {{{key}: "/elsewhere"}})}}'
    hooks = {"preToolUse": [{"command": f"jq -c '{change}'", "matcher": "Write"}]}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
    assert tool_texts(result) == ["wrote /elsewhere"]


def test_cursors_files_come_back_as_they_were(stage: Any) -> None:
    """By both names, by one, and as the model wrote the path."""
    for given in (
        ".tool_input",
        ".tool_input | {path, contents}",
        ".tool_input | {file_path, content}",
    ):
        hooks = {"preToolUse": [{"command": f"jq -c '{{updated_input: ({given})}}'"}]}
        stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
        result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
        assert tool_texts(result) == ["wrote a"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_lines_are_written_for_bash(stage: Any) -> None:
    """Which knows more than a machine's plain shell may."""
    line = '[[ "$(cat)" == *secret* ]] && { echo no >&2; exit 2; } || true'
    stage.file(".codex/hooks.json", codex_file("PreToolUse", line))
    turns = (call("bash", command="cat secret"), call("bash", command="ls"), say("done"))
    assert tool_texts(stage.run(stage.discover(), *turns)) == ["Blocked: no", "ran ls"]
    (stage.root / ".codex/hooks.json").unlink()
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"preToolUse": [{"command": line}]}})
    assert tool_texts(stage.run(stage.discover(), *turns)) == ["Blocked: no", "ran ls"]
