"""The conversation as a file, as scripts for other agents read it."""

from __future__ import annotations

import json
from typing import Any

from hook_commands import as_json, printing

from hookline import AgentState
from hookline.command_hooks import CommandHooks, RunFacts
from hookline.command_hooks.dialects.claude.protocol import ClaudeTranscripts
from hookline.state import AssistantMessage, Log, ToolCall, ToolMessage, UserMessage
from hookline.testing import call, say

PLACE = RunFacts("/p", "/p", "s")
PATH = printing('event["transcript_path"]')


def lines(path: Any) -> list[dict[str, Any]]:
    """The entries of a transcript."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_scripts_find_the_last_words_of_the_model(stage: Any) -> None:
    """With the very search that a published script makes: no blank after the colon."""
    log = stage.root / "log"
    last = printing(
        '"".join(part["text"] for part in event["message"]["content"] if part["type"] == "text")'
    )
    find = f"""grep '"role":"assistant"' "$({PATH})" | tail -1 | {last} > {log}"""
    stage.run(stage.claude("Stop", find), say("the last words"))
    assert log.read_text() == "the last words\n"


def test_the_call_in_question_is_in_it(stage: Any) -> None:
    """Under the names that the script knows, before it is settled."""
    first = as_json('event["message"]["content"][0]')
    log = stage.root / "log"
    stage.run(stage.claude("PreToolUse", f'tail -1 "$({PATH})" | {first} > {log}'))
    assert json.loads(log.read_text()) | {"id": ""} == {
        "type": "tool_use", "id": "", "name": "Bash", "input": {"command": "ls"},
    }  # fmt: skip


def test_the_file_grows_and_is_written_once(tmp_path: Any) -> None:
    """What is settled stays as it is; what is not comes after it, and goes again."""
    made = ClaudeTranscripts(tmp_path / "t")
    state = AgentState(session_id="s", run_id="r").with_user_message("one")
    path = made.write(state, PLACE, (AssistantMessage("thinking"),))
    first = path.read_text().splitlines()
    assert [line["type"] for line in lines(path)] == ["user", "assistant"]
    state = state.with_user_message("two")
    assert made.write(state, PLACE) == path
    assert path.read_text().splitlines()[0] == first[0]
    assert [line["message"]["content"] for line in lines(path)] == ["one", "two"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_conversation_that_was_rewritten_is_written_anew(tmp_path: Any) -> None:
    """After a summary, say."""
    made = ClaudeTranscripts(tmp_path)
    state = AgentState(session_id="s").with_user_message("one").with_user_message("two")
    made.write(state, PLACE)
    path = made.write(state.with_messages(Log([UserMessage("summary")])), PLACE)
    assert [line["message"]["content"] for line in lines(path)] == ["summary"]


def test_results_and_words_of_hooks(tmp_path: Any) -> None:
    """Each in the form that scripts know."""
    messages = [
        AssistantMessage("", (ToolCall("1", "write", {"path": "a", "content": "x"}),)),
        ToolMessage("1", "write", "wrote", False),
        UserMessage("note", by="hook"),
    ]
    path = ClaudeTranscripts(tmp_path).write(
        AgentState(session_id="s", messages=Log(messages)), PLACE
    )
    asked, result, note = lines(path)
    assert asked["message"]["content"][0]["input"] == {"file_path": "/p/a", "content": "x"}
    assert result["message"]["content"][0]["type"] == "tool_result"
    assert note["isMeta"] is True


def test_a_session_id_is_never_a_path(tmp_path: Any) -> None:
    """Whatever it is called."""
    made = ClaudeTranscripts(tmp_path / "t")
    for name in ("../../etc/passwd", "a/b", "x" * 300, "\N{SNOWMAN}"):
        path = made.write(AgentState(session_id=name), PLACE)
        assert path.parent == tmp_path / "t"
    assert made.path(AgentState(session_id="a/b")) != made.path(AgentState(session_id="a_b"))


def test_the_path_stays_the_same_for_a_session(stage: Any) -> None:
    """From one event to the next."""
    log = stage.root / "log"
    content = {"hooks": {event: [{"hooks": [{"type": "command", "command": f"{PATH} >> {log}"}]}]
               for event in ("SessionStart", "PreToolUse", "Stop")}}  # fmt: skip
    stage.file(".claude/settings.json", content)
    stage.run(stage.discover(), call("bash", command="ls"), say("done"))
    assert len(log.read_text().split()) == 3
    assert len(set(log.read_text().split())) == 1


def test_scripts_can_count_tokens(stage: Any) -> None:
    """Each message of the model has what its step used."""
    log = stage.root / "log"
    stage.run(
        stage.claude("Stop", f'cat "$({PATH})" > {log}'),
        call("bash", command="ls", tokens=7),
        say("done", tokens=5),
    )
    used = [line["message"]["usage"] for line in lines(log) if line["type"] == "assistant"]
    assert [sum(each.values()) for each in used] == [7, 5]


def test_it_is_named_after_the_session_in_a_directory_of_the_project(stage: Any) -> None:
    """Scripts take both off the path, and sort messages by their ids."""
    hooks = CommandHooks([], project=stage.root)
    path = ClaudeTranscripts(hooks.runner.directory).path(AgentState(session_id="s"))
    assert path.parent.name == str(stage.root).replace("/", "-").replace("_", "-")
    assert path.stem == PLACE.session_uuid
    messages = (AssistantMessage("one"), AssistantMessage("two"))
    state = AgentState(session_id="s", messages=Log(messages))
    ids = {
        line["message"]["id"] for line in lines(ClaudeTranscripts(stage.root).write(state, PLACE))
    }
    assert len(ids) == 2


def test_a_tools_words_are_told_from_the_users(stage: Any) -> None:
    """By a key that has the result in the form that hooks after a tool know."""
    log = stage.root / "log"
    stage.run(
        stage.claude("Stop", f'cat "$({PATH})" > {log}'),
        call("write", path="a.py", content="x"),
        say("done"),
    )
    asked, _, answered, _ = lines(log)
    assert "toolUseResult" not in asked
    assert answered["toolUseResult"]["filePath"] == str(stage.root / "a.py")
