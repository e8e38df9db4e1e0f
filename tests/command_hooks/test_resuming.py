"""A run that waited, and is taken up by another process: its hooks hear that the session goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from plain_store import PlainStore

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.capabilities import Bash
from hookline.playback import replay
from hookline.testing import ScriptedDriver, call, say

START = "cat >> starts; echo 'export GREETING=hello' >> \"$CLAUDE_ENV_FILE\"; echo 'be kind'"


def hooked(stage: Any, matcher: str = "") -> Any:
    """Hooks as another process reads them."""
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": START}]}
    stage.file(".claude/settings.json", {"hooks": {"SessionStart": [entry]}})
    return stage.discover()


def agent(stage: Any, hooks: Any, journal: Any, *turns: Any) -> Any:
    """An agent that asks before it runs a command."""
    builder = AgentBuilder().with_driver(ScriptedDriver(list(turns)))
    builder = builder if journal is None else builder.with_journal(journal)
    builder.with_capability(Bash(stage.root, sandbox="host")).with_capability(hooks)
    return builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="mine").build()


def sources(stage: Any) -> list[str]:
    """How the session began, each time that hooks were told so."""
    lines = (stage.root / "starts").read_text().splitlines()
    return [json.loads(line)["source"] for line in lines]


def test_they_are_told_and_what_they_set_is_there_again(stage: Any) -> None:
    """In another process nobody knows what the first one was told."""
    journal = PlainStore()
    turns = (call("bash", command='echo "[$GREETING]"'), say("done"))
    paused = agent(stage, hooked(stage), journal, *turns).run_sync("go", run_id="r")
    assert sources(stage) == ["startup"]
    other = agent(stage, hooked(stage), journal, *turns[1:])
    result = other.resume_sync("r", {paused.pending[0].id: True})
    assert result.status is RunStatus.COMPLETED
    assert sources(stage) == ["startup", "resume"]
    texts = [message.text for message in result.state.messages]
    assert any(text.startswith("[hello]") for text in texts)
    assert sum("be kind" in text for text in texts) == 2
    replayed = asyncio.run(replay(journal, "r", agent(stage, hooked(stage), None)))
    assert replayed.identical, replayed
    assert [message.text for message in replayed.result.state.messages] == texts


def test_the_same_process_has_not_begun_again(stage: Any) -> None:
    """It still knows everything."""
    turns = (call("bash", command="ls"), say("done"))
    made = agent(stage, hooked(stage), PlainStore(), *turns)
    paused = made.run_sync("go", run_id="r")
    made.resume_sync("r", {paused.pending[0].id: True})
    assert sources(stage) == ["startup"]


@pytest.mark.parametrize(("matcher", "times"), [("startup", 1), ("resume|startup", 2)])
def test_matchers_tell_the_two_apart(stage: Any, matcher: str, times: int) -> None:
    """As where a conversation is continued."""
    journal = PlainStore()
    turns = (call("bash", command="ls"), say("done"))
    paused = agent(stage, hooked(stage, matcher), journal, *turns).run_sync("go", run_id="r")
    other = agent(stage, hooked(stage, matcher), journal, *turns[1:])
    other.resume_sync("r", {paused.pending[0].id: True})
    assert len(sources(stage)) == times


@pytest.mark.parametrize("is_same", [True, False])
def test_what_a_person_has_answered_no_hook_is_asked_about(stage: Any, is_same: bool) -> None:
    """They were asked before the person was, and told that somebody waits: in this process, or in another."""
    no = {"behavior": "deny", "message": "no"}
    said = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": no}}
    )
    entries = {
        "PermissionRequest": f"[ -e asked ] && echo '{said}'; echo x >> asked",
        "Notification": "echo x >> told",
    }
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in entries.items()
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    journal, turns = PlainStore(), (call("bash", command="echo ran"), say("done"))
    first = agent(stage, stage.discover(), journal, *turns)
    paused = first.run_sync("go", run_id="r")
    other = first if is_same else agent(stage, stage.discover(), journal, *turns[1:])
    result = other.resume_sync("r", {paused.pending[0].id: True})
    assert any(message.text.startswith("ran") for message in result.state.messages)
    assert (stage.root / "asked").read_text() == (stage.root / "told").read_text() == "x\n"
