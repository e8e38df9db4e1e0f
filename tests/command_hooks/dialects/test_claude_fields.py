"""Fields of Claude Code's protocol that are about prompts, sessions and the terminal."""

from __future__ import annotations

import json
import shlex
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_store import PlainStore

from hookline import AgentBuilder, RunStatus
from hookline.command_hooks.runner import is_harmless
from hookline.journal import HookRan
from hookline.sessions import Sessions
from hookline.testing import ScriptedDriver, say

BELL = "\x07"
TITLE = "\x1b]0;at work\x07"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


def telling(stage: Any, **answers: Any) -> Any:
    """Hooks at these events that keep what they are sent, and answer this."""
    hooks = {}
    for event in {*EVENTS, *answers}:
        said = shlex.quote(json.dumps(answers[event])) if event in answers else "''"
        line = f"cat >> sent; printf %s {said}"
        hooks[event] = [{"hooks": [{"type": "command", "command": line}]}]
    stage.file(".claude/settings.json", {"hooks": hooks})
    return stage.discover()


def sent(stage: Any, event: str) -> list[dict[str, Any]]:
    """What the hooks of an event were sent."""
    lines = map(json.loads, (stage.root / "sent").read_text().splitlines())
    return [each for each in lines if each["hook_event_name"] == event]


def test_all_events_of_a_prompt_name_it(stage: Any) -> None:
    """By one UUID; a session begins before there is a prompt."""
    stage.run(telling(stage))
    named = {sent(stage, event)[0].get("prompt_id") for event in EVENTS[1:]}
    assert len(named) == 1
    assert str(uuid.UUID(named.pop())) == sent(stage, "Stop")[0]["prompt_id"]
    assert "prompt_id" not in sent(stage, "SessionStart")[0]


def test_the_next_prompt_is_another(stage: Any) -> None:
    """Though it is the same session."""
    hooks = telling(stage)
    stage.run(hooks)
    stage.run(hooks)
    first, second = sent(stage, "UserPromptSubmit")
    assert first["prompt_id"] != second["prompt_id"]


# --- the terminal ---------------------------------------------------------------------------------------


def test_what_is_for_the_terminal_gets_there(stage: Any) -> None:
    """From any event, also of one that refuses something, and nothing else of the run changes."""
    hooks = telling(stage, PreToolUse={"terminalSequence": TITLE}, Stop={"terminalSequence": BELL})
    shown: list[str] = []
    hooks.runner.terminal = shown.append
    assert stage.run(hooks).text == "done"
    assert shown == [TITLE, BELL]
    refusing = stage.claude(
        "PreToolUse", f"printf '%s' '{json.dumps({'terminalSequence': BELL})}'; exit 2"
    )
    refusing.runner.terminal = shown.append
    stage.run(refusing)
    assert shown == [TITLE, BELL, BELL]


def test_what_would_do_more_is_left_out_and_told(stage: Any) -> None:
    """A sequence that clears the screen, say."""
    hooks = telling(stage, PreToolUse={"terminalSequence": "\x1b[2J"})
    shown: list[str] = []
    hooks.runner.terminal = shown.append
    result = stage.run(hooks)
    said = [each.reason for each in result.records if isinstance(each, HookRan)]
    assert "what it sends to the terminal is no title, notification or bell" in said
    assert (shown, result.text) == ([], "done")


@given(st.text(st.characters(exclude_categories=["C"])), st.sampled_from([0, 1, 2, 9, 99, 777]))
def test_titles_and_notifications_may_say_anything(text: str, number: int) -> None:
    """With either end."""
    assert is_harmless(f"\x1b]{number};{text[:1000]}{BELL}\x1b]{number};x\x1b\\{BELL}")


@given(
    st.text(max_size=20),
    st.sampled_from(["\x1b[2J", "\x1b]52;c;eA==\x07", "\x1b]8;;x\x07", "\x9b", "\n", "a", "\x1bc"]),
)
def test_nothing_else_gets_through(text: str, piece: str) -> None:
    """Neither alone nor within something that would."""
    for sequence in (piece, f"{TITLE}{piece}", f"{piece}{BELL}", ""):
        assert not is_harmless(sequence)
    if not piece.isprintable():
        assert not is_harmless(f"\x1b]0;{text}{piece}{text}\x1b\\")


# --- sessions -------------------------------------------------------------------------------------------


def talking(stage: Any, hooks: Any, turns: int = 1) -> tuple[Any, Any]:
    """A session that is kept, and the agent that runs in it."""
    store = PlainStore()
    driver = ScriptedDriver([say("done")] * turns)
    agent = AgentBuilder().with_driver(driver).with_capability(hooks).with_journal(store).build()
    return Sessions(store).create(), agent


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
async def test_a_hook_names_the_session(stage: Any, event: str) -> None:
    """It is its title from then on, and hooks are told it when the session goes on."""
    named = {"hookSpecificOutput": {"hookEventName": event, "sessionTitle": " the\nrent "}}
    session, agent = talking(stage, telling(stage, **{event: named}), 2)
    await session.run(agent, "Pay it.")
    assert session.title == "the rent"
    session.rename("mine")
    await session.close(agent)
    await session.run(agent, "Again.")
    first, second = sent(stage, "SessionStart")
    assert (first.get("session_title"), second["session_title"]) == (None, "the rent")
    assert session.title == "the rent"


async def test_without_a_hook_it_is_called_after_its_first_prompt(stage: Any) -> None:
    """And stays so."""
    session, agent = talking(stage, telling(stage), 2)
    await session.run(agent, "Pay it.")
    await session.run(agent, "Again.")
    assert session.title == "Pay it."


@pytest.mark.parametrize(
    ("given", "told"),
    [({}, "other"), ({"reason": "clear"}, "clear"), ({"reason": "gone home"}, "other")],
)
async def test_hooks_hear_why_a_session_ends(stage: Any, given: Any, told: str) -> None:
    """In the words that they know."""
    session, agent = talking(stage, telling(stage))
    await session.run(agent, "Pay it.")
    await session.close(agent, **given)
    (ended,) = sent(stage, "SessionEnd")
    assert ended["reason"] == told
    assert "prompt_id" not in ended


def test_a_single_run_ends_for_other_reasons(stage: Any) -> None:
    """Nobody was at a prompt."""
    stage.run(telling(stage))
    assert [each["reason"] for each in sent(stage, "SessionEnd")] == ["other"]


# --- what is shown --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_watched", [True, False])
def test_who_says_what_is_shown_decides_nothing_else(stage: Any, is_watched: bool) -> None:
    """A block there blocks nothing, and where nobody watches such a hook only looks on."""
    specific = {"hookEventName": "MessageDisplay", "displayContent": "***"}
    said = {"decision": "block", "reason": "no", "hookSpecificOutput": specific}
    shown: list[str] = []
    hooks = telling(stage, MessageDisplay=said)
    hooks.runner.display = shown.append if is_watched else None
    result = stage.run(hooks, say("done"))
    assert (result.text, result.status) == ("done", RunStatus.COMPLETED)
    assert shown == (["***"] if is_watched else [])
    assert [each["delta"] for each in sent(stage, "MessageDisplay")] == ["done"]
