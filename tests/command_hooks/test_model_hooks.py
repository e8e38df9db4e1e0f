"""Hooks that a model answers: one question, or a child run that may look around."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline.command_hooks.dialect import ModelVerdict
from hookline.command_hooks.hook_kinds import question, read_verdict
from hookline.testing import call, say
from hookline.tools import tool

NO = say('{"ok": false, "reason": "not like this"}')
YES = say('{"ok": true}')


def asking(stage: Any, event: str, **more: Any) -> Any:
    """One hook of Claude's that a model answers."""
    hook = {"type": "prompt", "prompt": "Is this right? $ARGUMENTS", **more}
    stage.file(".claude/settings.json", {"hooks": {event: [{"hooks": [hook]}]}})
    return stage.discover()


def test_a_no_before_a_tool_denies_the_call_and_ends_the_run(stage: Any) -> None:
    """Unless the file says that the model reads it instead."""
    turns = (call("bash", command="ls"), NO, say("done"))
    result = stage.run(asking(stage, "PreToolUse"), *turns)
    assert (result.status.value, result.text) == ("stopped", "")
    assert result.state.messages[2].text == "Not run: not like this"
    result = stage.run(asking(stage, "PreToolUse", continueOnBlock=True), *turns)
    assert (result.state.messages[2].text, result.text) == ("Blocked: not like this", "done")


def test_the_model_reads_an_agents_no_and_the_run_continues(stage: Any) -> None:
    """Before a tool and after it; and nothing is impossible to an agent."""
    for event, words in (("PreToolUse", "Blocked: not like this"), ("PostToolUse", "ran ls")):
        hooks = asking(stage, event, type="agent")
        result = stage.run(hooks, call("bash", command="ls"), NO, say("done"))
        assert (result.state.messages[2].text, result.text) == (words, "done")
    never = say('{"ok": false, "reason": "there are no tests", "impossible": true}')
    hooks = asking(stage, "Stop", type="agent")
    assert stage.run(hooks, say("draft"), never, say("better"), YES).text == "better"


@tool
def fails() -> str:
    """Fail."""
    raise ValueError("no")


def test_the_model_reads_a_no_after_a_failure_and_one_after_a_batch_ends_the_run(
    stage: Any,
) -> None:
    """Whatever `continueOnBlock` says."""
    stage.tools = (*stage.tools, fails)
    result = stage.run(asking(stage, "PostToolUseFailure"), call("fails"), NO, say("done"))
    assert result.text == "done"
    assert any("not like this" in message.text for message in result.state.messages)
    hooks = asking(stage, "PostToolBatch", continueOnBlock=True)
    assert stage.run(hooks, call("bash", command="ls"), NO).status.value == "stopped"


def test_no_agent_answers_for_a_person(stage: Any) -> None:
    """A hook of that kind is left out where a person would be asked, and this is reported."""
    hooks = asking(stage, "PermissionRequest", type="agent")
    assert (hooks.handlers, "'agent' is not run there" in hooks.warnings[0]) == ((), True)


def test_a_yes_lets_it_happen(stage: Any) -> None:
    """Also with a fence around it."""
    fenced = say('```json\n{"ok": true, "reason": "fine"}\n```')
    result = stage.run(asking(stage, "PreToolUse"), call("bash", command="ls"), fenced, say("done"))
    assert result.state.messages[2].text == "ran ls"


def test_a_no_to_stopping_sends_the_agent_back(stage: Any) -> None:
    """Until the model is content."""
    result = stage.run(asking(stage, "Stop"), say("draft"), NO, say("better"), YES)
    assert (result.text, len(result.steps)) == ("better", 2)


def test_what_can_never_be_met_does_not_send_it_back(stage: Any) -> None:
    """The user gets a message."""
    never = say('{"ok": false, "reason": "there are no tests", "impossible": true}')
    result = stage.run(asking(stage, "Stop"), say("draft"), never)
    assert result.text == "draft"
    assert "there are no tests" in [getattr(record, "reason", "") for record in result.records]


def test_a_no_after_a_tool_ends_the_run_unless_it_says_otherwise(stage: Any) -> None:
    """With `continueOnBlock` the model reads it instead."""
    turns = (call("bash", command="ls"), NO)
    result = stage.run(asking(stage, "PostToolUse"), *turns)
    assert (result.status.value, result.explain()[:0]) == ("stopped", "")
    result = stage.run(asking(stage, "PostToolUse", continueOnBlock=True), *turns, say("done"))
    assert result.text == "done"
    assert any("not like this" in message.text for message in result.state.messages)


def test_a_prompt_can_be_refused(stage: Any) -> None:
    """The model never sees it."""
    result = stage.run(asking(stage, "UserPromptSubmit"), NO)
    assert "not like this" in result.explain()


@pytest.mark.parametrize("said", ["I think so", "`if (x) { ls }` is fine"])
def test_words_without_a_verdict_are_a_hook_that_failed(stage: Any, said: str) -> None:
    """In this dialect things continue then; with `on_failure` they do not."""
    hooks = asking(stage, "PreToolUse")
    turns = (call("bash", command="ls"), say(said), say("done"))
    assert stage.run(hooks, *turns).state.messages[2].text == "ran ls"
    closed = stage.discover(on_failure="closed")
    assert stage.run(closed, *turns).state.messages[2].text != "ran ls"


@pytest.mark.parametrize("said", ['{"fine": true}', '{"ok": "yes"}', "{", '{"ok": false, "rea'])
def test_a_verdict_that_cannot_be_read_blocks(stage: Any, said: str) -> None:
    """It may have been a no. The user can have it let things pass."""
    hooks = asking(stage, "PreToolUse")
    turns = (call("bash", command="ls"), say(said), say("done"))
    result = stage.run(hooks, *turns)
    assert "the model's verdict cannot be read" in result.state.messages[2].text
    opened = stage.discover(failures={".claude/settings.json": "open"})
    assert stage.run(opened, *turns).state.messages[2].text == "ran ls"


@pytest.mark.parametrize(
    ("said", "is_run"),
    [
        ('{"decision": "block", "reason": "not like this"}', False),
        ('Well:\n```json\n{"decision": "deny", "reason": "not like this"}\n```', False),
        ('{"ok": true, "decision": "block", "reason": "not like this"}', False),
        ('{"decision": "approve"}', True),
    ],
)
def test_a_model_may_answer_as_programs_do(stage: Any, said: str, is_run: bool) -> None:
    """A decision to block blocks, whatever else is there."""
    hooks = asking(stage, "PreToolUse", continueOnBlock=True)
    result = stage.run(hooks, call("bash", command="ls"), say(said), say("done"))
    assert result.state.messages[2].text == ("ran ls" if is_run else "Blocked: not like this")


@tool(effect="pure")
def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty"


def test_an_agent_may_look_around_and_change_nothing(stage: Any) -> None:
    """It has the tools that change nothing, and is not itself asked about."""
    stage.tools = (*stage.tools, look)
    hook = {"type": "agent", "prompt": "Is a.txt in order?"}
    hooks = {"Stop": [{"hooks": [hook]}], "PreToolUse": [{"hooks": [hook]}]}
    stage.file(".claude/settings.json", {"hooks": hooks})
    no = say('{"ok": false, "reason": "a.txt is empty"}')
    result = stage.run(
        stage.discover(), say("draft"), call("look", path="a.txt"), no, say("better"), YES
    )
    assert (result.text, result.state.messages[-2].text) == ("better", "a.txt is empty")


def test_nobody_is_asked_about_the_child_that_answers_for_a_hook(stage: Any) -> None:
    """Or there would be no end of it."""
    hook = {"type": "agent", "prompt": "Is all well?"}
    reporting = {"type": "command", "command": "cat >> events"}
    hooks = {
        "Stop": [{"hooks": [hook]}],
        "SubagentStop": [{"hooks": [hook, reporting]}],
        "SubagentStart": [{"hooks": [reporting]}],
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    assert stage.run(stage.discover(), say("draft"), YES).text == "draft"
    assert not (stage.root / "events").exists()


def test_cursor_has_such_hooks_too(stage: Any) -> None:
    """With its own answers."""
    hook = {"type": "prompt", "prompt": "Is this command safe?"}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"beforeShellExecution": [hook]}})
    result = stage.run(stage.discover(), call("bash", command="rm x"), NO, say("done"))
    assert result.state.messages[2].text == "Blocked: not like this"


def test_events_that_no_model_answers(stage: Any) -> None:
    """They are reported when the file is read."""
    hooks = asking(stage, "SessionStart")
    assert hooks.handlers == ()
    assert "'prompt' is not run there" in hooks.warnings[0]


def test_the_event_is_where_the_prompt_says_or_after_it() -> None:
    """Once for each place."""
    assert question("a $ARGUMENTS b", "{}") == "a {} b"
    assert question("a", "{}") == "a\n\n{}"
    assert question(r"\$ARGUMENTS cost \$1.00", "{}") == "$ARGUMENTS cost $1.00\n\n{}"


def test_reading_verdicts() -> None:
    """Text around it does not matter; an invalid verdict does not count."""
    assert read_verdict('Well: {"ok": false, "reason": "x"} so') == ModelVerdict(False, "x")
    assert read_verdict(json.dumps({"ok": True, "reason": 3})) == ModelVerdict(True)
    assert read_verdict("yes") is None


@pytest.mark.parametrize("kind", ["prompt", "agent"])
def test_a_hook_may_name_the_model_that_answers(stage: Any, kind: str) -> None:
    """By a name that means something here; the agent's own is not asked then."""
    no = [{"say": '{"ok": false, "reason": "says the other"}'}]
    script = stage.file("other.json", no)
    for name, models in ((f"script:{script}", {}), ("haiku", {"haiku": f"script:{script}"})):
        hook = {"type": kind, "prompt": "Is this right?", "model": name, "continueOnBlock": True}
        settings = {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}
        stage.file(".claude/settings.json", settings)
        hooks = stage.discover(models=models)
        assert hooks.warnings == ()
        result = stage.run(hooks, call("bash", command="ls"), say("done"))
        assert result.state.messages[2].text == "Blocked: says the other"


def test_an_unknown_model_is_reported_and_the_agents_own_answers(stage: Any) -> None:
    """Rather than nobody."""
    hooks = asking(stage, "PreToolUse", model="haiku", continueOnBlock=True)
    (warning,) = hooks.warnings
    assert (
        ".claude/settings.json: PreToolUse: the model 'haiku' of a hook cannot be used here"
        in warning
    )
    assert "so the agent's own answers" in warning
    result = stage.run(hooks, call("bash", command="ls"), NO, say("done"))
    assert result.state.messages[2].text == "Blocked: not like this"


def test_inherit_is_the_agents_own_model(stage: Any) -> None:
    """As for subagents; there is nothing to complain about."""
    assert asking(stage, "PreToolUse", model="inherit").warnings == ()
