"""The conversation in the forms of Codex, Cursor and Copilot."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentState
from hookline.command_hooks import RunFacts
from hookline.command_hooks.dialect import Transcripts, dialect_named
from hookline.state import AssistantMessage, ToolCall, ToolMessage
from hookline.testing import call, say

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
PLACE = RunFacts("/p", "/p", "s")
SHELL = AssistantMessage("looking", (ToolCall("c1", "bash", {"command": "ls"}),))
PATCH = AssistantMessage("", (ToolCall("c2", "write", {"path": "a", "content": "x"}),))


def transcripts(directory: Path, dialect: str) -> Transcripts:
    """The transcripts of a dialect."""
    form = dialect_named(dialect).transcripts
    assert form is not None
    return form(directory)


def written(directory: Path, dialect: str) -> list[dict[str, Any]]:
    """The lines of a conversation with a command, a file and an answer."""
    state = AgentState(session_id="s", run_id="r").with_user_message("do it")
    for message in (SHELL, ToolMessage("c1", "bash", "a b"), PATCH, AssistantMessage("done")):
        state = state.with_messages(state.messages.append(message))
    path = transcripts(directory / "t", dialect).write(state, PLACE)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_codexs_record(tmp_path: Path) -> None:
    """What was said, which commands and patches there were, and what they gave."""
    lines = written(tmp_path, "codex")
    assert lines[0]["type"] == "session_meta"
    assert lines[0]["payload"]["id"] == PLACE.session_uuid  # as in the input of its hooks
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    assert [item["type"] for item in items] == [
        "message", "message", "function_call", "function_call_output", "custom_tool_call", "message",
    ]  # fmt: skip
    assert json.loads(items[2]["arguments"]) == {"cmd": "ls"}
    assert items[3]["output"] == "a b"
    assert "*** Add File: a" in items[4]["input"]
    assert items[5]["content"] == [{"type": "output_text", "text": "done"}]
    events = [line["payload"] for line in lines if line["type"] == "event_msg"]
    assert events[0] == {"type": "user_message", "message": "do it"}
    assert events[-1] == {"type": "agent_message", "message": "done"}


def test_cursors_record(tmp_path: Path) -> None:
    """What people and the model said, by role."""
    lines = written(tmp_path, "cursor")
    assert [line["role"] for line in lines] == ["user", "assistant", "assistant", "assistant"]
    assert "do it" in lines[0]["message"]["content"][0]["text"]
    assert lines[1]["message"]["content"][1]["name"] == "Shell"
    assert lines[-1]["message"]["content"] == [{"type": "text", "text": "done"}]


def test_copilots_record(tmp_path: Path) -> None:
    """Events, each of which names the one before it."""
    lines = written(tmp_path, "copilot")
    assert [line["type"] for line in lines] == [
        "session.start", "user.message", "assistant.message", "tool.execution_start", "tool.execution_complete",
        "assistant.message", "tool.execution_start", "assistant.message",
    ]  # fmt: skip
    assert [line["parentId"] for line in lines[1:]] == [line["id"] for line in lines[:-1]]
    assert lines[2]["data"]["toolRequests"][0]["arguments"] == {"command": "ls"}
    assert lines[4]["data"]["result"] == {"content": "a b"}


@pytest.mark.parametrize("dialect", ["codex", "cursor", "copilot"])
def test_what_is_settled_is_written_once(tmp_path: Path, dialect: str) -> None:
    """What is not comes after it, and goes again."""
    made = transcripts(tmp_path / "t", dialect)
    state = AgentState(session_id="s", run_id="r").with_user_message("one")
    path = made.write(state, PLACE, (AssistantMessage("thinking"),))
    first = path.read_text().splitlines()[0]
    assert made.write(state.with_user_message("two"), PLACE) == path
    text = path.read_text()
    assert text.splitlines()[0] == first
    assert "two" in text
    assert "thinking" not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_could_not_be_written_is_written_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be full for a while, and may take only a part."""
    made = transcripts(tmp_path / "t", "cursor")
    state = AgentState(session_id="s", run_id="r").with_user_message("one")
    path = made.write(state, PLACE)
    before, state = path.read_bytes(), state.with_user_message("two")
    write = os.pwrite

    def write_part(descriptor: int, text: bytes, at: int) -> int:
        if at > len(before):
            raise OSError(28, "No space left on device")
        return write(descriptor, text[:5], at)

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", write_part)
        with pytest.raises(OSError, match="No space"):
            made.write(state, PLACE)
    assert made.write(state, PLACE) == path
    assert path.read_bytes().startswith(before)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2


def test_old_ones_are_looked_for_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at every event: a project may have thousands of them."""
    made, old = transcripts(tmp_path, "claude"), tmp_path / "old.jsonl"
    state = AgentState(session_id="s", run_id="r").with_user_message("one")

    def is_removed_at(moment: float) -> bool:
        old.touch()
        os.utime(old, (0, 0))
        monkeypatch.setattr("time.time", lambda: moment)
        made.write(state, PLACE)
        made.forget(state)
        return not old.exists()

    day, month = 24 * 3600.0, 31 * 24 * 3600.0
    assert is_removed_at(month)
    assert not is_removed_at(month + day / 2)
    assert is_removed_at(month + day)


@needs_jq
@pytest.mark.parametrize(
    ("dialect", "event", "key", "words"),
    [
        ("codex", "Stop", "transcript_path", '"output_text","text":"the last words"'),
        ("cursor", "stop", "transcript_path", '"role":"assistant"'),
        ("copilot", "agentStop", "transcriptPath", '"type":"assistant.message"'),
    ],
)
def test_scripts_find_the_last_words(
    stage: Any, dialect: str, event: str, key: str, words: str
) -> None:
    """In the file that their input names; Claude's hooks find theirs in another."""
    log = stage.root / "log"
    found = f"""grep -v event_msg "$(jq -r .{key})" | tail -1 > {log}"""
    hook = {"on": event, "dialect": dialect, "command": found}
    stage.run(stage.hooks(hook), call("bash", command="ls"), say("the last words"))
    assert words in log.read_text()
    assert "the last words" in log.read_text()
