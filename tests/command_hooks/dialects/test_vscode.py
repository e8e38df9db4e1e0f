"""Hooks for VS Code: their input has VS Code's names and keys, and their answers mean what they mean there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_results import tool_texts

from hookline import HookPoint, ToolHookContext, tool
from hookline.command_hooks import CommandHooks, Handler, HookSource, RunFacts
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.dialects.copilot import words_in
from hookline.command_hooks.handler import ProgramAnswer, ProgramResult
from hookline.command_hooks.replies import read_reply
from hookline.errors import UsageError
from hookline.state import ToolCall
from hookline.testing import call, say

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
PLACE = RunFacts("/p", "/p", "s")
VSCODE = all_dialects()["vscode"]
TEXT = st.text("abc/.x", min_size=1, max_size=8)


@tool
def broken() -> str:
    """Fail."""
    raise RuntimeError("it is broken")


def entries(*commands: str) -> list[dict[str, str]]:
    """Hooks of one event, as VS Code's files have them."""
    return [{"type": "command", "command": command} for command in commands]


def inputs_sent(
    stage: Any, event: str, script: str, *turns: Any, **file: Any
) -> list[dict[str, Any]]:
    """What a script was sent, whose text has these words in it."""
    stage.script("look.sh", f"# {script}\ncat >> seen\necho >> seen\n")
    stage.file(".github/hooks/a.json", {"hooks": {event: entries("./look.sh")}, **file})
    stage.run(stage.discover(), *turns)
    lines = (stage.root / "seen").read_text().splitlines()
    return [json.loads(line) for line in lines if line.strip()]


# --- which tools a script knows -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("run_in_terminal create_file", "run_in_terminal"),
        ("runTerminalCommand", "runTerminalCommand"),
        ("create_file", "run_in_terminal"),
        ('"Bash"|"Write"', "Bash"),
        ("case $t in (bash|view)", "bash"),
        ("nothing of that kind", "run_in_terminal"),
    ],
)
def test_a_tool_has_the_name_that_the_script_knows(stage: Any, words: str, name: str) -> None:
    """VS Code's, in any of its spellings, Copilot's, or Claude's."""
    (sent,) = inputs_sent(stage, "PreToolUse", words)
    assert (sent["tool_name"], sent["native_tool_name"]) == (name, "bash")


@needs_jq
def test_the_names_may_be_in_what_the_script_runs(stage: Any) -> None:
    """A file beside it that it reads."""
    stage.script("tools/names.sh", "TERMINAL=run_in_terminal\n")
    stage.script("tools/guard.sh", '. "$(dirname "$0")/names.sh"\njq -r .tool_name > seen\n')
    stage.file(".github/hooks/a.json", {"hooks": {"PreToolUse": entries("bash tools/guard.sh")}})
    stage.run(stage.discover())
    assert (stage.root / "seen").read_text() == "run_in_terminal\n"


@pytest.mark.parametrize(("version", "name"), [({}, "run_in_terminal"), ({"version": 1}, "Bash")])
def test_a_hook_that_names_no_tool_is_for_whom_the_file_is(
    stage: Any, version: dict[str, int], name: str
) -> None:
    """A file without a version is VS Code's, with one it is Copilot's."""
    hooks = {"PreToolUse": entries("tee -a seen")}
    stage.file(".github/hooks/a.json", {"hooks": hooks, **version})
    stage.run(stage.discover())
    assert json.loads((stage.root / "seen").read_text())["tool_name"] == name


def test_a_guard_for_files_of_vscode(stage: Any) -> None:
    """It looks for the path under VS Code's key, and sees what is written."""
    stage.script(
        "guard.py",
        "import json, sys\n"
        "event = json.load(sys.stdin)\n"
        "if event['tool_name'] in ('create_file', 'replace_string_in_file'):\n"
        "    if event['tool_input']['filePath'].endswith('.lock'):\n"
        "        print(json.dumps({'hookSpecificOutput': {'permissionDecision': 'deny',\n"
        "                          'permissionDecisionReason': 'made by a tool'}}))\n",
    )
    stage.file(".github/hooks/a.json", {"hooks": {"PreToolUse": entries("python3 guard.py")}})
    result = stage.run(
        stage.discover(),
        call("write", path="a.lock", content="x"),
        call("write", path="a.txt", content="x"),
        say("done"),
    )
    assert tool_texts(result) == ["Blocked: made by a tool", "wrote a.txt"]


# --- its input ---------------------------------------------------------------------------------------


def test_the_keys_of_all_three(stage: Any) -> None:
    """A script may look for a path in VS Code's way, in Claude's, or in Copilot's."""
    write = call("write", path="a.txt", content="x")
    (sent,) = inputs_sent(stage, "PreToolUse", "create_file", write, say("done"))
    full = str(stage.root / "a.txt")
    assert sent["tool_input"] == {
        "filePath": full,
        "file_path": full,
        "files": [full],
        "path": "a.txt",
        "content": "x",
        "file_text": "x",
    }


def test_what_is_common_is_under_both_spellings(stage: Any) -> None:
    """VS Code's documentation has some of it in camel case."""
    (sent,) = inputs_sent(stage, "SessionStart", "")
    assert sent["sessionId"] == sent["session_id"]
    assert sent["hookEventName"] == sent["hook_event_name"] == "SessionStart"
    assert sent["source"] == "new"


def test_a_session_that_begins_is_matched_by_either_word(stage: Any) -> None:
    """Claude's `startup`, and VS Code's `new`."""
    for word in ("startup", "new", "resume"):
        entry = {"type": "command", "command": f"echo {word} >> seen", "matcher": word}
        stage.file(f".github/hooks/{word}.json", {"hooks": {"SessionStart": [entry]}})
    stage.run(stage.discover())
    assert sorted((stage.root / "seen").read_text().split()) == ["new", "startup"]


def test_the_response_is_text_for_scripts_of_vscode(stage: Any) -> None:
    """And for others what Claude has."""
    (sent,) = inputs_sent(stage, "PostToolUse", "run_in_terminal")
    assert sent["tool_response"] == "ran ls"


def test_the_file_is_in_a_variable(stage: Any) -> None:
    """The documentation's first hook formats what `TOOL_INPUT_FILE_PATH` names."""
    hooks = {"PostToolUse": entries('echo "$TOOL_INPUT_FILE_PATH" >> seen')}
    stage.file(".github/hooks/a.json", {"hooks": hooks})
    stage.run(stage.discover(), call("write", path="a.txt", content="x"), say("done"))
    assert (stage.root / "seen").read_text() == f"{stage.root / 'a.txt'}\n"


def test_a_script_that_reads_camel_case_only_is_given_it(stage: Any) -> None:
    """Also at events in Pascal case; one that reads both is not, since it may take that for Copilot."""
    (sent,) = inputs_sent(stage, "PreToolUse", ".toolName .toolInput run_in_terminal")
    assert (sent["toolName"], sent["toolInput"]["command"]) == ("run_in_terminal", "ls")
    (stage.root / "seen").unlink()
    (sent,) = inputs_sent(stage, "PreToolUse", ".toolName .tool_name")
    assert "toolName" not in sent


def test_copilots_events_as_vscode_reads_them(stage: Any) -> None:
    """A script that looks for VS Code's fields only gets the event as VS Code would send it."""
    (sent,) = inputs_sent(stage, "preToolUse", ".tool_name .tool_input", version=1)
    assert (sent["hook_event_name"], sent["tool_input"]["command"]) == ("PreToolUse", "ls")
    (stage.root / "seen").unlink()
    (sent,) = inputs_sent(stage, "preToolUse", ".toolName .toolArgs", version=1)
    assert (sent["toolName"], "hook_event_name" in sent) == ("bash", False)


def test_what_a_script_knows_outlives_trust(stage: Any) -> None:
    """It is of the hook, and trust is for what the file says."""
    stage.script("guard.sh", "# run_in_terminal\n")
    stage.file(".github/hooks/a.json", {"hooks": {"PreToolUse": entries("./guard.sh")}})
    handlers = CommandHooks.discover(
        stage.root, home=stage.home, managed=False, trust=True
    ).handlers
    assert "run_in_terminal" in handlers[0].known_fields
    assert "run_in_terminal" not in json.dumps(dict(handlers[0].definition))


def test_words_are_names_only_where_they_are_set_off() -> None:
    """`# Edit the file` is a sentence."""
    assert words_in("# Edit the file, then view it with bash") == frozenset()
    assert words_in("case x in Edit|Write) ;; esac") == {"Claude's names"}


# --- servers ------------------------------------------------------------------------------------------


def test_a_tool_of_a_server() -> None:
    """Copilot puts a dash between the two, and matchers may use any of the names."""
    seen = ToolCall("1", "mcp__github__list_issues", {})
    copilot = all_dialects()["copilot"].show(seen, PLACE)
    assert (copilot.name, copilot.aliases) == ("github-list_issues", ("mcp__github__list_issues",))

    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=seen)
    names = VSCODE.subject("PreToolUse", ctx, PLACE)
    assert names is not None
    wanted = {"mcp__github__list_issues", "github-list_issues", "mcp_github_list_issues"}
    assert wanted <= set(names)


# --- changed input ------------------------------------------------------------------------------------


@given(path=TEXT, old=TEXT, new=TEXT, changed=TEXT)
def test_a_change_under_any_key_is_taken(path: str, old: str, new: str, changed: str) -> None:
    """A missing field is no change."""
    edit = ToolCall("1", "edit", {"path": path, "old": old, "new": new})
    shown = VSCODE.show(edit, PLACE)
    assert (
        VSCODE.take_back(edit, shown, ProgramAnswer(updated_input=dict(shown.input))).args
        == edit.args
    )
    for key in ("newString", "new_string", "new_str"):
        answer = ProgramAnswer(updated_input={**shown.input, key: changed})
        taken = VSCODE.take_back(edit, shown, answer).args
        if changed != new:
            assert taken == {"path": path, "old": old, "new": changed}
    only = {"filePath": "/p/q", "oldString": old, "newString": new}
    taken = VSCODE.take_back(edit, shown, ProgramAnswer(updated_input=only)).args
    assert taken == {"path": "/p/q", "old": old, "new": new}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("bash", {"command": "ls", "timeout": 5.0, "background": True}),
        ("exec", {"argv": ["ls", "-l"]}),
        ("read", {"path": "a", "offset": 3, "limit": 4}),
        ("edit", {"path": "a", "edits": [{"old": "x", "new": "y"}]}),
        ("search", {"pattern": "x", "path": "src", "include": "*.py", "mode": "files"}),
        ("glob", {"pattern": "*.py"}),
        ("mcp__a__b", {"files": ["x"], "path": "q"}),
    ],
)
def test_a_call_comes_back_as_it_was(name: str, args: dict[str, Any]) -> None:
    """Whatever the tool, if nobody changed it."""
    seen = ToolCall("1", name, args)
    shown = VSCODE.show(seen, PLACE)
    assert (
        VSCODE.take_back(seen, shown, ProgramAnswer(updated_input=dict(shown.input))).args == args
    )


def test_a_change_that_is_made_of_several_arguments_is_refused() -> None:
    """Rather than passed over."""
    write = ToolCall("1", "write", {"path": "a", "content": "x"})
    shown = VSCODE.show(write, PLACE)
    with pytest.raises(UsageError, match="'files'"):
        VSCODE.take_back(
            write, shown, ProgramAnswer(updated_input={**shown.input, "files": ["/b"]})
        )


def test_the_lines_that_are_read() -> None:
    """By number of the first and the last."""
    seen = ToolCall("1", "read", {"path": "a", "offset": 11, "limit": 5})
    shown = VSCODE.show(seen, PLACE).input
    assert (shown["startLine"], shown["endLine"]) == (11, 15)


@pytest.mark.parametrize("word", ["continue", "ok", None])
def test_a_decision_without_an_objection_is_ignored(word: str | None) -> None:
    """The rest of the answer counts. Before a tool the answer is invalid, and denies the call."""
    ran = ProgramResult(0, json.dumps({"decision": word, "systemMessage": "two tests fail"}))
    answer = read_reply(VSCODE, Handler(HookSource("vscode"), "PostToolUse"), ran)
    assert (answer.decision, answer.messages) == ("", ("two tests fail",))
    before = read_reply(VSCODE, Handler(HookSource("vscode"), "PreToolUse"), ran)
    assert before.decision == ("deny" if word else "")


def test_a_failure_that_is_printed_on_stdout() -> None:
    """Some programs say there what was wrong."""
    ran = ProgramResult(1, "x\nno configuration was found\n", "")
    answer = read_reply(VSCODE, Handler(HookSource("vscode"), "PostToolUse"), ran)
    assert answer.problem == "it ended with exit code 1: no configuration was found"


@needs_jq
def test_the_users_own_scripts_are_read_too(stage: Any, tmp_path: Path) -> None:
    """Beside the file that names them."""
    own = tmp_path / "HOME" / "guards"
    own.mkdir(parents=True)
    (own / "look.sh").write_text("# create_file\njq -r .tool_name > seen\n")
    hooks = {"PreToolUse": entries('bash "$HOME/guards/look.sh"')}
    stage.file(".copilot/hooks/a.json", {"version": 1, "hooks": hooks}, home=True)
    stage.run(stage.discover())
    assert (stage.root / "seen").read_text() == "run_in_terminal\n"


@pytest.mark.parametrize(
    ("reads", "kind"),
    [
        ("jq -r '.toolArgs.command'", dict),
        ("event.get('toolArgs', {}).get('command')", dict),
        ("jq -r '.toolArgs | fromjson | .command'", str),
        ("json.loads(event['toolArgs'])['command']", str),
        ("jq -r '.toolArgs' | jq -r .command", str),
    ],
)
def test_arguments_are_what_the_script_takes_them_for(stage: Any, reads: str, kind: type) -> None:
    """Copilot had them as text, and has them as an object now."""
    (sent,) = inputs_sent(stage, "preToolUse", f".toolName {reads}", version=1)
    assert type(sent["toolArgs"]) is kind


# --- where its hooks are ------------------------------------------------------------------------------


def test_its_settings_say_where_hook_files_are(stage: Any) -> None:
    """And where none are to be read; comments and last commas are usual there."""
    entry = {"hooks": {"PreToolUse": entries("true")}}
    stage.file(".github/hooks/a.json", entry)
    stage.file("guards/b.json", entry)
    stage.file("one.json", entry)
    settings = """{ // ours
      "chat.hookFilesLocations": {".github/hooks": false, "guards": true, "one.json": true,
        "../elsewhere": true, "~/mine": true, ".claude/settings.json": true, /* all */ },
    }"""
    stage.file(".vscode/settings.json", settings)
    found = stage.discover()
    assert [handler.source.label for handler in found.handlers] == ["guards/b.json", "one.json"]
    assert ["elsewhere" in warning for warning in found.warnings] == [True]


def test_settings_that_say_nothing_about_hooks_are_nobodys_business(stage: Any) -> None:
    """Nor are their mistakes."""
    stage.file(".github/hooks/a.json", {"hooks": {"PreToolUse": entries("true")}})
    stage.file(".vscode/settings.json", "{ what is this")
    found = stage.discover()
    assert (len(found.handlers), found.warnings) == (1, ())


def test_hooks_of_a_custom_agent(stage: Any) -> None:
    """In the front matter of its page they are in no groups."""
    stage.file(
        ".github/agents/strict.agent.md",
        "---\nname: strict\ndescription: d\nhooks:\n  PreToolUse:\n    - type: command\n"
        "      command: ./no.sh run_in_terminal\n  Stop:\n    - type: command\n      command: exit 0\n"
        "---\nBe strict.\n",
    )
    found = stage.discover(agents=[stage.root / ".github/agents"])
    inputs_sent = [(h.event, h.source.dialect, h.agent) for h in found.handlers]
    assert inputs_sent == [
        ("PreToolUse", "vscode", "strict"),
        ("SubagentStop", "vscode", "strict"),
    ]
    assert "run_in_terminal" in found.handlers[0].known_fields


def test_variables_in_variables(stage: Any) -> None:
    """Of a hook's own `env`, as in Copilot's."""
    entry = {"type": "command", "command": 'echo "$LOG" > seen', "env": {"LOG": "$HOME/log"}}
    stage.file(".copilot/hooks/a.json", {"hooks": {"SessionStart": [entry]}}, home=True)
    stage.run(stage.discover())
    assert (stage.root / "seen").read_text().endswith("/HOME/log\n")


@needs_jq
def test_a_plugin_of_copilot_gets_its_directory_and_its_data_directory(stage: Any) -> None:
    """In variables, and in the words of a program that no shell reads; its scripts are read where it is."""
    root = ".copilot/installed-plugins/shop/guard"
    program = ["sh", "${COPILOT_PLUGIN_ROOT}/look.sh"]
    hooks = {"PreToolUse": [{"type": "command", "exec": program}]}
    stage.file(f"{root}/hooks.json", {"version": 1, "hooks": hooks}, home=True)
    look = '# create_file\njq -r .tool_name > "$COPILOT_PLUGIN_DATA/seen"\n'
    stage.file(f"{root}/look.sh", look, home=True)
    stage.run(stage.discover())
    data = stage.home / ".copilot" / "plugin-data" / "shop" / "guard"
    assert (data / "seen").read_text() == "run_in_terminal\n"


@pytest.mark.parametrize("name", ["CURSOR_PLUGIN_ROOT", "COPILOT_PLUGIN_ROOT", "extensionPath"])
def test_a_place_that_a_hook_has_not_is_left_as_it_is(stage: Any, name: str) -> None:
    """It is no plugin's, and runs like any other."""
    stage.file(".github/hooks/a.json", {"hooks": {"PreToolUse": entries(f'true "${{{name}}}"')}})
    assert tool_texts(stage.run(stage.discover())) == ["ran ls"]


@needs_jq
@pytest.mark.parametrize("is_own", [True, False])
def test_a_script_that_looks_for_failures_gets_them(stage: Any, is_own: bool) -> None:
    """Old files get them with all other results; a file with the newer event does not."""
    more = {"postToolUseFailure": [{"bash": "true"}]} if is_own else {}
    look = 'test "$(jq -r .toolResult.resultType)" = "failure" && echo heard >> seen; true'
    hooks = {"postToolUse": [{"bash": look}], **more}
    stage.file(".github/hooks/a.json", {"version": 1, "hooks": hooks})
    stage.run(stage.discover(), call("broken"), say("done"), with_tools=broken)
    events = [handler.event for handler in stage.discover().handlers]
    assert events == ["postToolUse", "postToolUseFailure"]
    assert (stage.root / "seen").exists() is not is_own


CLIENT = """#!/bin/bash
# In the manner of bundles for several agents: which one it is decides how to answer, and an unknown one gets no answer.
event=$(cat)
if [[ -n "${CURSOR_VERSION:-}" ]]; then client=cursor
elif [[ -n "${CLAUDE_PROJECT_DIR:-}" ]] || [[ "$event" == *'"permission_mode"'* ]]; then client=claude-code
elif [[ "$event" == *'"hook_event_name"'* ]]; then client=github-copilot
fi
[[ "$client" == github-copilot ]] || exit 0
echo '{"continue": false, "stopReason": "the environment file is missing"}'
"""


def test_scripts_do_not_take_us_for_claude_code(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if it has started us. VS Code documents neither the field nor the variable."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/elsewhere")
    stage.script("bin/run.sh", CLIENT)
    hook = {"command": "bin/run.sh validate", "timeout": 15}
    stage.file(".github/hooks/hooks.json", {"version": 1, "hooks": {"PreToolUse": [hook]}})
    result = stage.run(stage.discover())
    assert "the environment file is missing" in result.explain()
    assert tool_texts(result) != ["ran ls"]


@pytest.mark.parametrize(
    ("line", "is_set"),
    [
        ('cat "$CLAUDE_PROJECT_DIR/a"', True),
        ('cd "${CLAUDE_PROJECT_DIR}" && true', True),
        ("python3 -c 'import os; os.environ[\"CLAUDE_PROJECT_DIR\"]'", True),
        ('cd "${CLAUDE_PROJECT_DIR:-.}"', False),
        ('[ -n "$CLAUDE_PROJECT_DIR" ] && echo claude', False),
        ("[ -z $CLAUDE_PROJECT_DIR ] || echo claude", False),
        ("true", False),
    ],
)
@pytest.mark.parametrize("is_script", [True, False])
def test_the_projects_directory_is_set_for_scripts_that_need_it(
    stage: Any, line: str, is_set: bool, is_script: bool
) -> None:
    """A question whether it is set, and a default, need nothing."""
    seen = f"env > seen; {line}"
    stage.script("look.sh", f"#!/bin/sh\n{seen}\nexit 0\n")
    stage.file(
        ".github/hooks/a.json",
        {"hooks": {"PreToolUse": entries("./look.sh" if is_script else f"{seen}; exit 0")}},
    )
    stage.run(stage.discover())
    variables = (stage.root / "seen").read_text().splitlines()
    assert (f"CLAUDE_PROJECT_DIR={stage.root}" in variables) is is_set
    assert f"COPILOT_PROJECT_DIR={stage.root}" in variables
