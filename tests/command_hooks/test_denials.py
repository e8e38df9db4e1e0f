"""No denial is lost: what cannot be read blocks, in every dialect, unless the user has said that it may pass."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from run_results import tool_texts

from hookline import AgentBuilder, RunStatus
from hookline.capabilities import Files
from hookline.journal import HookRan
from hookline.testing import ScriptedDriver, call, say

GUARD = """#!/usr/bin/env python3
import json, re, sys
case = re.search(r"case-([a-z0-9]+)", sys.stdin.read())[1]
decision = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
deny = json.dumps({"decision": "block", "permission": "deny", "reason": "no", **decision,
    "hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}})
allow = json.dumps({"decision": "approve", "permission": "allow"})
progress = '{"type": "progress", "message": "checking"}\\n'
said = {
    "broken": '{"decision": "block", "reason": "he said "no""}',
    "half": deny[:-9],
    "two": allow + "\\n" + deny,
    "after": deny + "\\nchecked 3 files",
    "array": "[" + deny + "]",
    "halfarray": "[" + deny,
    "long": deny + " " * (1 << 20),
    "longallow": '{"a": "' + "x" * (1 << 20) + '"}',
    "wide": (deny + "\\n").encode("utf-16"),
    "wideplain": deny.encode("utf-16-le"),
    "wideback": deny.encode("utf-16-be"),
    "banner": "Now using node v22\\n" + deny,
    "prefix": "checking {a} ... \\x1b[0m\\n\\x1b[0m" + json.dumps(json.loads(deny), indent=1) + " done",
    "twice": json.dumps(deny),
    "both": deny[:-1] + ', "decision": "approve"}',
    "tag": "[guard] ok",
    "text": "all {is} well",
    "nothing": "",
    "progress": progress * 3 + deny,
    "longprogress": progress * 30000 + deny,
}[case]
sys.stdout.buffer.write(said if isinstance(said, bytes) else said.encode())
"""
UNREADABLE = (
    "broken half two after array halfarray long longallow wide wideplain wideback banner prefix "
    "both twice"
).split()
TEXTS = ["tag", "text", "nothing"]
ENTRY = {"type": "command", "command": "./guard.py"}
GROUPS = [{"hooks": [ENTRY]}]
FILES = {
    "claude": (".claude/settings.json", {"hooks": {"PreToolUse": GROUPS}}),
    "gemini": (".gemini/settings.json", {"hooks": {"BeforeTool": GROUPS}}),
    "codex": (".codex/hooks.json", {"hooks": {"PreToolUse": GROUPS}}),
    "cursor": (".cursor/hooks.json", {"version": 1, "hooks": {"preToolUse": [ENTRY]}}),
    "copilot": (".github/hooks/a.json", {"version": 1, "hooks": {"preToolUse": [ENTRY]}}),
    "vscode": (".github/hooks/a.json", {"hooks": {"PreToolUse": [ENTRY]}}),
}


def guarded(stage: Any, dialect: str, mode: str = "", script: str = GUARD) -> Any:
    """The hooks of a project with one guard in this dialect."""
    stage.script("guard.py", script)
    if dialect == "hookline":
        given = {"on": "before_tool_use", "command": "./guard.py"}
        return stage.hooks({**given, "on_failure": mode} if mode else given)
    name, content = FILES[dialect]
    stage.file(name, content)
    found = stage.discover(failures={name: mode} if mode else {})
    assert {each.source.dialect for each in found.handlers} == {dialect}
    return found


def results(stage: Any, hooks: Any, cases: list[str]) -> dict[str, str]:
    """What became of a call for each case."""
    turns = [call("bash", command=f"case-{case}") for case in cases]
    return dict(zip(cases, tool_texts(stage.run(hooks, *turns, say("done"))), strict=True))


def verdicts(result: Any, verdict: str) -> list[HookRan]:
    """What hooks said, as the journal has it."""
    return [r for r in result.records if isinstance(r, HookRan) and r.verdict == verdict]


@pytest.mark.parametrize("dialect", [*FILES, "hookline"])
def test_what_cannot_be_read_blocks(stage: Any, dialect: str) -> None:
    """The model reads that the hook failed, and how. Text is no verdict."""
    found = results(stage, guarded(stage, dialect), [*UNREADABLE, *TEXTS])
    finds = dialect in ("copilot", "vscode")  # they look for an answer after other text
    for case in UNREADABLE:
        is_found = (case == "banner" and finds) or (case, dialect) == ("twice", "gemini")
        begins = "Blocked: no" if is_found else "Blocked: the hook failed: its output "
        assert found[case].startswith(begins), (case, found[case])
    assert {case: found[case] for case in TEXTS} == {case: f"ran case-{case}" for case in TEXTS}


@pytest.mark.parametrize("dialect", [*FILES, "hookline"])
def test_a_source_can_be_opened(stage: Any, dialect: str) -> None:
    """By its file. The failure is shown all the same."""
    cases = ["broken", "array", "wide", "long"]
    hooks = guarded(stage, dialect, "open")
    result = stage.run(hooks, *[call("bash", command=f"case-{c}") for c in cases], say("done"))
    assert tool_texts(result) == [f"ran case-{case}" for case in cases]
    assert len(verdicts(result, "failed")) == len(cases)


@pytest.mark.parametrize("dialect", ["copilot", "vscode"])
def test_progress_is_no_answer(stage: Any, dialect: str) -> None:
    """Its lines are left out first. If there are more than can be kept, the answer is not known."""
    found = results(stage, guarded(stage, dialect), ["progress", "longprogress"])
    assert found["progress"] == "Blocked: no"
    assert "longer than 1 MiB" in found["longprogress"] or "not exactly" in found["longprogress"]


def test_gemini_reads_stderr(stage: Any) -> None:
    """If there is no output: one object decides, and what cannot be read blocks."""
    script = GUARD.replace("sys.stdout", "sys.stderr").replace("sys.stdin", "open(0)")
    hooks = guarded(stage, "gemini", script=script)
    found = results(stage, hooks, ["banner", "two", "array", "wide", "tag"])
    assert all(text.startswith("Blocked: the hook failed") for text in list(found.values())[:-1])
    assert found["tag"] == "ran case-tag"


def test_an_exit_code_denies_whatever_is_printed(stage: Any) -> None:
    """With the words of the hook, and not with ours."""
    script = "#!/bin/sh\necho '{oops'; echo 'not here' >&2; exit 2\n"
    for dialect in FILES:
        place = stage.elsewhere(dialect)
        assert tool_texts(place.run(guarded(place, dialect, script=script))) == [
            "Blocked: not here"
        ]


FOREIGN = {
    "cursor's": '{"permission": "deny", "agent_message": "no"}',
    "claude's, at the top": '{"permissionDecision": "deny", "permissionDecisionReason": "no"}',
    "claude's": '{"hookSpecificOutput": {"permissionDecision": "Deny", "permissionDecisionReason": "no"}}',
    "gemini's": '{"decision": "deny", "reason": "no"}',
    "older": '{"decision": "BLOCK", "reason": "no"}',
    "vscode's": '{"continue": false, "stopReason": "no"}',
}


@pytest.mark.parametrize("dialect", [*FILES, "hookline"])
def test_a_no_counts_in_the_fields_of_any_protocol(stage: Any, dialect: str) -> None:
    """People copy scripts from one agent to another."""
    for name, answer in FOREIGN.items():
        place = stage.elsewhere(name)
        hooks = guarded(place, dialect, script=f"#!/bin/sh\necho '{answer}'\n")
        (text,) = tool_texts(place.run(hooks))
        assert text.startswith(("Blocked: ", "Not run: no")), (name, text)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        ("UserPromptSubmit", "stopped"),
        ("PostToolBatch", "stopped"),
        ("Stop", "objection_limit"),
        ("SessionStart", "completed"),
        ("Notification", "completed"),
    ],
)
def test_it_blocks_where_the_hook_can(stage: Any, event: str, outcome: str) -> None:
    """A prompt is refused, a run ends or continues up to the cap. Elsewhere the failure is only shown."""
    hooks = stage.claude(event, "echo '{\"decision\": block}'")
    turns = [call("bash", command="ls"), *[say("done")] * 12]
    result = stage.run(hooks, *turns)
    ended = result.stop_reason.value if result.stop_reason is not None else ""
    assert outcome in (result.status.value, ended)
    if event in ("Stop", "UserPromptSubmit"):
        assert all("the hook failed" in each.reason for each in verdicts(result, "block"))
    elif event == "SessionStart":
        assert len(verdicts(result, "failed")) == 1


def test_an_async_hook_blocks_nothing(stage: Any) -> None:
    """Nobody waits for it. That it failed is in the journal."""
    result = stage.run(
        stage.claude("PreToolUse", "echo '{oops'", **{"async": True}),
        call("bash", command="ls"),
        call("bash", command="sleep"),
        say("done"),
    )
    assert result.status is RunStatus.COMPLETED
    assert tool_texts(result)[0] == "ran ls"


def test_who_may_open_what(stage: Any) -> None:
    """A name counts before a pattern. A project opens only its own hooks, and nobody the administrator's."""
    stage.script("guard.py", GUARD)
    for home, command in ((False, "./guard.py"), (True, "./guard.py mine")):
        groups = [{"hooks": [{"type": "command", "command": command}]}]
        stage.file(".claude/settings.json", {"hooks": {"PreToolUse": groups}}, home=home)

    def modes(**given: Any) -> dict[str, str]:
        found = stage.discover(**given)
        return {each.source.level.value: each.on_unreadable for each in found.handlers}

    assert modes() == {"user": "closed", "project": "closed"}
    assert modes(failures={"*": "open"}) == {"user": "open", "project": "open"}
    assert modes(project_failures={"*": "open"}) == {"user": "closed", "project": "open"}
    named = {"*": "open", "~/.claude/settings.json": "closed"}
    assert modes(failures=named)["user"] == "closed"
    warned = stage.discover(failures={".claude/setings.json": "closed"}).warnings
    assert "hook_failures: no hook comes from '.claude/setings.json'" in warned


# --- words to the user ----------------------------------------------------------------------------------

SAYING = {
    "claude": '{"hookSpecificOutput": {"permissionDecision": "%s", "permissionDecisionReason": "why"}, '
    '"systemMessage": "for you"}',
    "gemini": '{"decision": "%s", "reason": "why", "systemMessage": "for you"}',
    "codex": '{"decision": "block", "reason": "why", "systemMessage": "for you"}',
    "cursor": '{"permission": "%s", "agent_message": "why", "user_message": "for you"}',
    "copilot": '{"permissionDecision": "%s", "permissionDecisionReason": "why", "systemMessage": "for you"}',
    "vscode": '{"hookSpecificOutput": {"permissionDecision": "%s", "permissionDecisionReason": "why"}, '
    '"systemMessage": "for you"}',
    "hookline": '{"decision": "%s", "reason": "why", "message": "for you"}',
}


@pytest.mark.parametrize("dialect", SAYING)
def test_words_to_the_user_are_shown_beside_a_decision(stage: Any, dialect: str) -> None:
    """The model reads the reason, the journal has both."""
    decisions = ["deny", "ask", "allow"] if dialect not in ("codex", "gemini") else ["deny"]
    for decision in decisions:
        answer = SAYING[dialect] % decision if "%s" in SAYING[dialect] else SAYING[dialect]
        place = stage.elsewhere(f"{dialect}-{decision}")
        hooks = guarded(place, dialect, script=f"#!/bin/sh\necho '{answer}'\n")
        result = place.run(hooks, with_approver=lambda _asked: True)
        kind = {"deny": "block"}.get(decision, decision)
        (ran,) = verdicts(result, kind)
        is_question = (dialect, decision) == ("cursor", "ask")  # there it is for the user anyway
        assert (ran.reason if is_question else ran.message) == "for you", decision
        assert "for you" not in "".join(tool_texts(result))


# --- a long output ---------------------------------------------------------------------------------------


def test_what_is_too_long_can_be_read_until_the_session_ends(stage: Any) -> None:
    """By the exact path, in this session, and nothing beside it."""
    seen: list[tuple[str, int, Path]] = []

    def path_of(state: Any) -> str:
        found = re.search(
            r"can be read in (\S+)\]", state.messages[0].text + state.messages[1].text
        )
        assert found is not None
        return found[1]

    def reads_it(state: Any) -> Any:
        path = Path(path_of(state))
        seen.append((path.read_text(), stat.S_IMODE(path.stat().st_mode), path))
        (path.parent / "other.txt").write_text("secret")
        return call("read", path=str(path), offset=2)

    script = "import sys; print('word ' * 20000 + chr(10) + 'the last line')"
    hooks = stage.claude("UserPromptSubmit", f'python3 -c "{script}"')
    turns = [
        reads_it,
        lambda state: call("read", path=str(seen[0][2].parent / "other.txt")),
        lambda state: call("write", path=str(seen[0][2]), content="x"),
        lambda state: say(str(seen[0][2].read_text() == seen[0][0])),
    ]
    agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(stage.root))
    result = agent.with_capability(hooks).build().run_sync("go")
    read, other, written = tool_texts(result)
    assert "the last line" in read
    assert "secret" not in other
    assert result.text == "True", written
    ((text, mode, path),) = seen
    assert (len(text) > 100_000, mode) == (True, 0o600)
    assert not os.path.exists(path)
