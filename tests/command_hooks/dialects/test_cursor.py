"""Cursor's dialect, by what its documentation says today: what each event has, and what each answer does."""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

import msgspec
import pytest

from hookline import AgentBuilder, ToolContext, tool
from hookline.command_hooks import Handler, HookSource
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import ProgramResult
from hookline.testing import ScriptedDriver, call, calls, say

RECORD = "#!/bin/sh\ncat >> told.jsonl\n"
NO = {"continue": False, "user_message": "for you", "agent_message": "for it"}


def cursor(stage: Any, events: dict[str, str]) -> Any:
    """Hooks of the project, by event."""
    hooks = {event: [{"command": command}] for event, command in events.items()}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    return stage.discover()


def recording(stage: Any, *events: str) -> Any:
    """Hooks that write down what they are told."""
    stage.script("record.sh", RECORD)
    return cursor(stage, dict.fromkeys(events, "./record.sh"))


def told(stage: Any) -> list[dict[str, Any]]:
    """What they were told."""
    lines = (stage.root / "told.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def said(event: str, **fields: Any) -> Any:
    """What an answer means at an event."""
    handler = Handler(HookSource("cursor"), event)
    return all_dialects()["cursor"].read_answer(handler, ProgramResult(0, json.dumps(fields)))


@pytest.mark.parametrize(
    "event", ["preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"]
)
def test_not_to_continue_is_a_no_to_the_call_and_not_the_end_of_the_run(event: str) -> None:
    """Whether or not the permission is denied besides."""
    for answer in (said(event, **NO), said(event, permission="deny", **NO)):
        assert (answer.decision, answer.reason, answer.stops) == ("deny", "for it", False)


@pytest.mark.parametrize("event", ["postToolUse", "afterShellExecution", "stop", "preCompact"])
def test_not_to_continue_means_nothing_about_what_has_happened(event: str) -> None:
    """What was said is told all the same."""
    answer = said(event, **NO)
    assert (answer.decision, answer.stops) == ("", False)
    assert (answer.messages, answer.contexts) == (("for you",), ("for it",))


def test_a_run_goes_on_after_a_file_was_kept_back(stage: Any) -> None:
    """The model is told why, and does something else."""
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
    events = told(stage)
    assert len({each["conversation_id"] for each in events}) == 1
    for each in events:
        assert each["session_id"] == each["conversation_id"]
        assert uuid.UUID(each["conversation_id"])
        assert uuid.UUID(each["generation_id"])
        assert each["native_session_id"] != each["session_id"]
        assert {"model_id", "model_params"} <= each.keys()


def test_a_refused_call_is_a_failure_that_hooks_are_told(stage: Any) -> None:
    """With its own kind of failure, so that it is told from a tool that broke."""
    stage.script("record.sh", RECORD)
    no = "echo no >&2; exit 2"
    hooks = cursor(stage, {"beforeShellExecution": no, "postToolUseFailure": "./record.sh"})
    stage.run(hooks, call("bash", command="ls"), call("read", path="a"), say("done"))
    (failure,) = told(stage)
    assert (failure["tool_name"], failure["failure_type"]) == ("Shell", "permission_denied")
    assert "no" in failure["error_message"]


def test_what_the_model_said_is_told_with_its_call(stage: Any) -> None:
    """Hooks may judge by it."""
    hooks = recording(stage, "preToolUse")
    turn = msgspec.structs.replace(calls(call("bash", command="ls")), text="I look first.")
    stage.run(hooks, turn, say("done"))
    assert told(stage)[0]["agent_message"] == "I look first."


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
    began, ended = told(stage)
    assert uuid.UUID(began["subagent_id"]) == uuid.UUID(ended["subagent_id"])
    assert began["tool_call_id"] == "call_1_1"
    assert ended["status"] == "completed"
    assert ended["duration_ms"] >= 0


def test_how_a_session_ended_has_its_time(stage: Any) -> None:
    """In milliseconds."""
    stage.run(recording(stage, "sessionEnd"), say("done"))
    (ended,) = told(stage)
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
    """One that says nothing known is for everything, and that is told."""
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
def test_guards_are_told_which_server_a_tool_is_from(
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
    events = {each["hook_event_name"]: each for each in told(stage)}
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
