"""Gemini's tailToolCallRequest: a hook after a tool has another one called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline import AgentBuilder, RunStatus
from hookline.capabilities import Approval
from hookline.testing import ScriptedDriver, call, say


def chaining(stage: Any, request: Any, matcher: str = "run_shell_command", **more: Any) -> Any:
    """A hook that wants another tool called after a command."""
    said = {
        "hookSpecificOutput": {"hookEventName": "AfterTool", "tailToolCallRequest": request},
        **more,
    }
    hook = {"type": "command", "command": f"echo '{json.dumps(said)}'"}
    settings = {"hooks": {"AfterTool": [{"matcher": matcher, "hooks": [hook]}]}}
    stage.file(".gemini/settings.json", settings)
    return stage.discover()


def told(result: Any) -> list[str]:
    """What every call came to."""
    return [each.text() for step in result.steps for each in step.results]


def test_the_other_tool_is_called_and_its_result_is_what_the_model_reads(stage: Any) -> None:
    """Under Gemini's names; the result of the first is kept from the model."""
    hooks = chaining(stage, {"name": "read_file", "args": {"file_path": "notes.txt"}})
    result = stage.run(hooks, call("bash", command="cat secrets"), say("done"))
    first, second = told(result)
    assert first == "A hook goes on with read: what that gives is the result."
    assert second == "content of notes.txt"
    assert "ran cat secrets" not in str([message.text for message in result.state.messages])
    assert result.text == "done"


def test_it_is_judged_like_any_other_call(stage: Any) -> None:
    """Policies hold, and a person may be asked."""
    hooks = chaining(stage, {"name": "write_file", "args": {"file_path": "a", "content": "x"}})
    turns = (call("bash", command="ls"), say("done"))
    denied = stage.run(hooks, *turns, with_capability=Approval(deny=["write"]))
    assert "Blocked" in told(denied)[1]
    asked = stage.run(hooks, *turns, with_capability=Approval(ask=["write"]))
    assert asked.status is RunStatus.PAUSED
    assert asked.state.pending[0].tool_call.args["content"] == "x"


@pytest.mark.parametrize("request_", [7, {}, {"name": 7}, {"name": ""}, {"name": "x", "args": [1]}])
def test_what_is_no_call_changes_nothing(stage: Any, request_: Any) -> None:
    """The result stays as it is."""
    assert told(stage.run(chaining(stage, request_))) == ["ran ls"]


def test_a_tool_that_there_is_not_is_an_error_that_the_model_reads(stage: Any) -> None:
    """As if it had called it itself."""
    (_, second) = told(stage.run(chaining(stage, {"name": "fly", "args": {}})))
    assert "fly" in second


def test_a_refusal_goes_before_it(stage: Any) -> None:
    """Whoever denies the result does not want it gone on with."""
    hooks = chaining(
        stage, {"name": "read_file", "args": {"file_path": "a"}}, decision="deny", reason="no"
    )
    assert told(stage.run(hooks)) == ["Result withheld: no"]


def test_a_chain_without_end_ends_with_the_steps_of_the_run(stage: Any) -> None:
    """Each call is a step."""
    hooks = chaining(stage, {"name": "run_shell_command", "args": {"command": "ls"}}, matcher="")
    driver = ScriptedDriver([call("bash", command="ls")])
    builder = AgentBuilder().with_driver(driver).with_tools(*stage.tools).with_limits(steps=5)
    result = builder.with_capability(hooks).build().run_sync("go")
    assert (result.stop_reason, result.state.step_count) == ("step_limit", 5)
