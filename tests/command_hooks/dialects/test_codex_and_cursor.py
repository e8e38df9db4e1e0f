"""What is Codex's and Cursor's own: answers after a tool, variables, switches, plugins, and words of older versions."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from run_results import tool_texts

from hookline import AgentBuilder, RunStatus, ToolContext, tool
from hookline.capabilities import Bash
from hookline.command_hooks import Handler, HookSource, Level
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import HookSearch, ProgramAnswer, ProgramResult
from hookline.command_hooks.replies import read_reply
from hookline.testing import ScriptedDriver, call, calls, say

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")


def said(dialect: str, event: str, ran: ProgramResult) -> ProgramAnswer:
    """What the end of a program means at an event of a dialect."""
    return read_reply(all_dialects()[dialect], Handler(HookSource(dialect), event), ran)


def codex_file(event: str, command: str, **group: str) -> dict[str, Any]:
    """A hooks.json with one hook."""
    return {"hooks": {event: [{**group, "hooks": [{"type": "command", "command": command}]}]}}


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
    """The model does not see what was kept back, and continues."""
    stage.file(".codex/hooks.json", codex_file("PostToolUse", command, matcher="Bash"))
    result = stage.run(stage.discover(), call("bash", command="ls"), say("done"))
    (events_sent,) = tool_texts(result)
    assert "there is a key in it" in events_sent
    assert "ran ls" not in events_sent
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


@needs_jq
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


@needs_jq
def test_a_patch_that_comes_back_unchanged_is_no_change(stage: Any) -> None:
    """Also if only the patch comes back. A changed argument beside it counts."""
    made = '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "allow", updatedInput: %s}}'
    shown = "{command: .tool_input.command}"
    stage.file(".codex/hooks.json", codex_file("PreToolUse", f"jq -c '{made % shown}'"))
    result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
    assert tool_texts(result) == ["wrote a"]
    stage.file(".codex/hooks.json", codex_file("PreToolUse", f"jq -c '{made % '{command: 1}'}'"))
    result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
    assert "cannot be applied to the call" in tool_texts(result)[0]
    shown = '{file_path: "/tmp/b", command: .tool_input.command}'
    stage.file(".codex/hooks.json", codex_file("PreToolUse", f"jq -c '{made % shown}'"))
    result = stage.run(stage.discover(), call("write", path="a", content="x"), say("done"))
    assert tool_texts(result) == ["wrote /tmp/b"]


def test_codex_hooks_learn_that_a_turn_failed(stage: Any) -> None:
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
    assert ["'' is not an event" in warning for warning in found.warnings] == [True]


def test_words_to_a_child_need_no_json_in_codex() -> None:
    """As at the start of a session."""
    assert said("codex", "SubagentStart", ProgramResult(0, "keep to src\n")).contexts == (
        "keep to src",
    )
    assert said("codex", "PostToolUse", ProgramResult(0, "keep to src\n")).is_silent


@pytest.mark.parametrize("more", [{"updatedInput": {"command": "ls"}}, {"interrupt": True}])
def test_a_permission_of_codex_is_yes_or_no(more: dict[str, Any]) -> None:
    """Other values are reserved, and do not count as an answer: the user is asked."""
    answer = {"hookSpecificOutput": {"decision": {"behavior": "allow", **more}}}
    assert (
        next(iter(more))
        in said("codex", "PermissionRequest", ProgramResult(0, json.dumps(answer))).problem
    )
    plain = {"hookSpecificOutput": {"decision": {"behavior": "allow"}}}
    assert (
        said("codex", "PermissionRequest", ProgramResult(0, json.dumps(plain))).decision == "allow"
    )


def test_an_objection_in_codex_without_a_reason_is_one_all_the_same() -> None:
    """There it would have failed."""
    answer = said("codex", "Stop", ProgramResult(0, '{"decision": "block", "reason": ""}'))
    assert (answer.decision, "needs a reason" in answer.reason) == ("deny", True)
    assert (
        said("codex", "Stop", ProgramResult(0, '{"decision": "block", "reason": "test"}')).decision
        == "deny"
    )


def test_where_nothing_can_be_blocked_the_failure_has_a_text_of_its_own() -> None:
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
    stage.file(".codex/config.toml", f'notify = ["notified"]\n{off}', home=True)
    assert [handler.event for handler in stage.discover().handlers] == ["notify"]


def test_what_the_administrator_requires_of_codex(stage: Any, tmp_path: Path) -> None:
    """It may be the only output."""
    stage.file(".codex/hooks.json", codex_file("Stop", "users"), home=True)
    required = tmp_path / "etc" / "codex" / "requirements.toml"
    required.parent.mkdir(parents=True)
    hook = (
        '[hooks]\nmanaged_dir = "/opt"\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "managed"\n'
    )
    events_sent: list[str] = []
    for alone, commands in (
        ("", ["managed", "users"]),
        ("allow_managed_hooks_only = true\n", ["managed"]),
    ):
        required.write_text(alone + hook)
        found = list(
            all_dialects()["codex"].find(
                HookSearch(stage.root, stage.home, events_sent.append, system=tmp_path / "etc")
            )
        )
        assert [handler.command for handler in found] == commands
    assert events_sent == []


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


def test_an_event_of_cursors_window_is_reported(stage: Any) -> None:
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


@needs_jq
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


@needs_jq
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


# --- Cursor alone ---------------------------------------------------------------------------------------

RECORD = "#!/bin/sh\ncat >> events.jsonl\n"
NO = {"continue": False, "user_message": "for you", "agent_message": "for it"}


def cursor(stage: Any, events: dict[str, str]) -> Any:
    """Hooks of the project, by event."""
    hooks = {event: [{"command": command}] for event, command in events.items()}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    return stage.discover()


def recording(stage: Any, *events: str) -> Any:
    """Hooks that write down their input."""
    stage.script("record.sh", RECORD)
    return cursor(stage, dict.fromkeys(events, "./record.sh"))


def events_sent(stage: Any) -> list[dict[str, Any]]:
    """The events that they wrote down."""
    lines = (stage.root / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def said_cursor(event: str, **fields: Any) -> Any:
    """What an answer means at an event."""
    return said("cursor", event, ProgramResult(0, json.dumps(fields)))


@pytest.mark.parametrize(
    "event", ["preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"]
)
def test_not_to_continue_is_a_no_to_the_call_and_not_the_end_of_the_run(event: str) -> None:
    """Whether or not the permission is denied besides."""
    for answer in (said_cursor(event, **NO), said_cursor(event, permission="deny", **NO)):
        assert (answer.decision, answer.reason, answer.stops) == ("deny", "for it", False)


@pytest.mark.parametrize("event", ["postToolUse", "afterShellExecution", "stop", "preCompact"])
def test_not_to_continue_means_nothing_about_what_has_happened(event: str) -> None:
    """Its texts for the user and the model count all the same."""
    answer = said_cursor(event, **NO)
    assert (answer.decision, answer.stops) == ("", False)
    assert (answer.messages, answer.contexts) == (("for you",), ("for it",))


def test_a_run_continues_after_a_file_was_kept_back(stage: Any) -> None:
    """The model reads the reason and does something else."""
    answer = json.dumps({"permission": "deny", **NO})
    hooks = cursor(stage, {"beforeReadFile": f"echo '{answer}'"})
    result = stage.run(hooks, call("read", path="key.pem"), say("done"))
    assert (result.state.messages[2].text, result.text) == ("Blocked: for it", "done")


def test_words_for_the_agent_reach_it_with_a_yes_too(stage: Any) -> None:
    """A warning is no refusal."""
    answer = '{"permission":"allow","agent_message":"mind the dog"}'
    hooks = cursor(stage, {"preToolUse": f"echo '{answer}'"})
    result = stage.run(hooks, call("bash", command="ls"), say("done"))
    assert any("mind the dog" in message.text for message in result.state.messages)
    assert any(message.text == "ran ls" for message in result.state.messages)


def test_sessions_and_runs_are_named_by_uuids(stage: Any) -> None:
    """Under both names the same one; ours is there too."""
    hooks = recording(stage, "sessionStart", "preToolUse", "stop", "sessionEnd")
    stage.run(hooks, call("bash", command="ls"), say("done"))
    events = events_sent(stage)
    assert len({each["conversation_id"] for each in events}) == 1
    for each in events:
        assert each["session_id"] == each["conversation_id"]
        assert uuid.UUID(each["conversation_id"])
        assert uuid.UUID(each["generation_id"])
        assert each["native_session_id"] != each["session_id"]
        assert {"model_id", "model_params"} <= each.keys()


def test_a_refused_call_is_a_failure_that_hooks_are_reported(stage: Any) -> None:
    """With its own kind of failure, so that it differs from a tool that broke."""
    stage.script("record.sh", RECORD)
    no = "echo no >&2; exit 2"
    hooks = cursor(stage, {"beforeShellExecution": no, "postToolUseFailure": "./record.sh"})
    stage.run(hooks, call("bash", command="ls"), call("read", path="a"), say("done"))
    (failure,) = events_sent(stage)
    assert (failure["tool_name"], failure["failure_type"]) == ("Shell", "permission_denied")
    assert "no" in failure["error_message"]


def test_the_models_text_is_sent_with_its_call(stage: Any) -> None:
    """Hooks may judge by it."""
    hooks = recording(stage, "preToolUse")
    turn = msgspec.structs.replace(calls(call("bash", command="ls")), text="I look first.")
    stage.run(hooks, turn, say("done"))
    assert events_sent(stage)[0]["agent_message"] == "I look first."


def test_a_child_has_a_uuid_and_the_call_that_began_it(stage: Any) -> None:
    """And by the call that began it."""
    hooks = recording(stage, "subagentStart", "subagentStop")
    turns = [call("write", path="b.txt", content="x"), say("child done")]
    child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*stage.tools).build()

    @tool
    async def delegate(task: str, description: str, context: ToolContext) -> str:
        """Have another agent do it."""
        return (await context.spawn(child, task, name="writer")).text

    stage.run(
        hooks, call("delegate", task="t", description="few words"), say("done"), with_tools=delegate
    )
    began, ended = events_sent(stage)
    assert uuid.UUID(began["subagent_id"]) == uuid.UUID(ended["subagent_id"])
    assert began["tool_call_id"] == "call_1_1"
    assert ended["status"] == "completed"
    assert ended["duration_ms"] >= 0


def test_how_a_session_ended_has_its_time(stage: Any) -> None:
    """In milliseconds."""
    stage.run(recording(stage, "sessionEnd"), say("done"))
    (ended,) = events_sent(stage)
    assert (ended["reason"], ended["final_status"]) == ("completed", "completed")
    assert ended["duration_ms"] >= 0


@pytest.mark.parametrize("key", ["updated_mcp_tool_output", "modifiedToolOutput"])
def test_output_that_was_shown_as_json_may_come_back_as_that(stage: Any, key: str) -> None:
    """Of a command what it printed is taken."""
    wrapped = json.dumps({"exitCode": 0, "stdout": "[kept back]"})
    hooks = cursor(stage, {"postToolUse": f"echo '{json.dumps({key: wrapped})}'"})
    result = stage.run(hooks, call("bash", command="ls"), say("done"))
    assert result.state.messages[2].text == "[kept back]"


def test_a_matcher_may_say_which_field_it_is_about(stage: Any) -> None:
    """An unknown matcher matches everything, and this is reported."""
    deny = {"command": "exit 2", "matcher": {"tool_name": "Grep|Read"}}
    for entry, words in ((deny, "ran ls"), ({**deny, "matcher": {"path": "x"}}, "Blocked: ")):
        stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"preToolUse": [entry]}})
        hooks = stage.discover()
        assert ("for everything" in " ".join(hooks.warnings)) is (words != "ran ls")
        result = stage.run(hooks, call("bash", command="ls"), say("done"))
        assert result.state.messages[2].text.startswith(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("npx", "a server", "--key"), {"command": "npx 'a server' --key"}),
        (("https://mcp.example.com/v1",), {"url": "https://mcp.example.com/v1"}),
    ],
)
def test_guards_get_the_server_of_a_tool(
    stage: Any, words: tuple[str, ...], expected: dict[str, str]
) -> None:
    """By its address, or by the command that it is; Gemini's have the words apart."""

    @tool(name="mcp__data__query")
    def query(sql: str) -> str:
        """Ask a server."""
        return "rows"

    stage.tools = (msgspec.structs.replace(query, served_by=words),)
    stage.script("record.sh", RECORD)
    group = {"hooks": [{"type": "command", "command": "./record.sh"}]}
    stage.file(".gemini/settings.json", {"hooks": {"BeforeTool": [group]}})
    hooks = cursor(stage, {"beforeMCPExecution": "./record.sh"})
    stage.run(hooks, call("mcp__data__query", sql="x"), say("done"))
    events = {each["hook_event_name"]: each for each in events_sent(stage)}
    assert expected.items() <= events["beforeMCPExecution"].items()
    context = events["BeforeTool"]["mcp_context"]
    apart = {"command": words[0], "args": list(words[1:])} if len(words) > 1 else expected
    assert apart.items() <= context.items()


def plugin(stage: Any, place: str, reason: str, *, is_whole: bool = False) -> None:
    """A plugin of the user whose guard gives this reason."""
    root = f".cursor/plugins/{place}"
    stage.file(f"{root}/.cursor-plugin/plugin.json", {"hooks": "./hooks/own.json"}, home=True)
    guard = {"command": f"echo {reason} >&2; exit 2"}
    content = {"version": 1, "hooks": {"preToolUse": [guard]}}
    stage.file(f"{root}/hooks/own.json", content, home=True)
    if is_whole:
        stage.file(f"{root}/.cache-complete", "", home=True)


def test_plugins_of_a_marketplace_are_read_in_their_last_version(stage: Any) -> None:
    """One that was not fetched as a whole is passed over, and so is one that is there by hand too."""
    for place, age in (
        ("cache/m/guard/a1", 30),
        ("cache/m/guard/b2", 20),
        ("cache/m/guard/c3", 10),
    ):
        plugin(stage, place, place[-2:], is_whole=not place.endswith("c3"))
        moment = 1_700_000_000 - age
        os.utime(stage.home / ".cursor/plugins" / place, (moment, moment))
    plugin(stage, "cache/m/other/d4", "fetched")
    plugin(stage, "local/other", "by-hand")
    runs = [handler.command for handler in stage.discover().handlers]
    assert runs == ["echo by-hand >&2; exit 2", "echo b2 >&2; exit 2"]


@pytest.mark.parametrize("name", ["guard", "a guard"])
def test_a_plugin_finds_its_own_scripts(stage: Any, name: str) -> None:
    """By the variable that names where it is, also where that has a blank."""
    plugin(stage, f"local/{name}", "unused")
    root = stage.home / ".cursor/plugins/local" / name
    entry = {"command": 'sh "${CURSOR_PLUGIN_ROOT}/guard.sh"'}
    content = {"version": 1, "hooks": {"preToolUse": [entry]}}
    (root / "hooks/own.json").write_text(json.dumps(content))
    (root / "guard.sh").write_text("echo found >&2; exit 2\n")
    result = stage.run(stage.discover(), call("bash", command="ls"), say("done"))
    assert result.state.messages[2].text == "Blocked: found"
