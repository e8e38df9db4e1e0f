"""What Gemini's hooks around the model are shown, and what they change."""

from __future__ import annotations

import sys
from typing import Any

from hookline import AgentBuilder
from hookline.command_hooks.dialects.gemini import changed_request, response_text
from hookline.state import (
    AssistantMessage,
    InferenceRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, say

CALL = ToolCall("1", "bash", {"command": "ls"})
REQUEST = InferenceRequest(
    (
        UserMessage("my key is 1234"),
        AssistantMessage("", (CALL,)),
        ToolMessage("1", "bash", "files"),
        AssistantMessage("seen"),
    ),
    "Be brief.",
    (ToolSpec("bash", "", {}), ToolSpec("read", "", {})),
)


def words(role: str, content: Any) -> dict[str, Any]:
    """A message as hooks write it."""
    return {"role": role, "content": content}


def test_words_are_changed_where_they_are_and_calls_stay() -> None:
    """What hooks are not shown is not lost."""
    wanted = [
        words("system", "Be kind."),
        words("user", "my key is ****"),
        words("model", [{"text": "se"}, "en"]),
        words("user", "And be quick."),
    ]
    made = changed_request(REQUEST, {"llm_request": {"messages": wanted}})
    assert made.system == "Be kind."
    assert [message.text for message in made.messages] == [
        "my key is ****",
        "",
        "files",
        "seen",
        "And be quick.",
    ]
    assert made.messages[1] == REQUEST.messages[1]


def test_what_is_as_it_was_is_no_change() -> None:
    """Nor is a request that says nothing of messages."""
    same = [words("system", "Be brief."), words("user", "my key is 1234"), words("model", "seen")]
    assert changed_request(REQUEST, {"llm_request": {"messages": same}}) is REQUEST
    assert changed_request(REQUEST, {"llm_request": {}}) is REQUEST


def test_tools_are_named_as_gemini_names_them() -> None:
    """`NONE` takes all of them away."""
    config = {"mode": "ANY", "allowedFunctionNames": ["read_file"]}
    made = changed_request(REQUEST, {"toolConfig": config})
    assert ([tool.name for tool in made.tools], made.tool_choice) == (["read"], "required")
    assert changed_request(REQUEST, {"toolConfig": {"mode": "NONE"}}).tools == ()


def before_model(stage: Any, body: str) -> Any:
    """A hook before the model that is a program."""
    head = "import json, re, sys\nmessages = json.load(sys.stdin)['llm_request']['messages']\n"
    stage.script("hook.py", head + body)
    hook = {"type": "command", "command": f"{sys.executable} hook.py"}
    stage.file(".gemini/settings.json", {"hooks": {"BeforeModel": [{"hooks": [hook]}]}})
    return stage.discover()


def test_hooks_see_what_was_said_and_no_results_of_tools(stage: Any) -> None:
    """A hook that looks for the last words of the user finds them, also after a tool."""
    hooks = before_model(stage, "print([m['content'] for m in messages], file=open('seen', 'a'))\n")
    stage.run(hooks, call("bash", command="ls"), say("done"), prompt="list")
    assert (stage.root / "seen").read_text().splitlines() == ["['list']", "['list']"]


def test_words_that_a_hook_changed_are_what_the_model_reads(stage: Any) -> None:
    """And the conversation keeps its own."""
    hooks = before_model(
        stage,
        "made = [{**m, 'content': re.sub('[0-9]+', '****', m['content'])} for m in messages]\n"
        "print(json.dumps({'hookSpecificOutput': {'llm_request': {'messages': made}}}))\n",
    )
    driver = ScriptedDriver([say("done")])
    result = AgentBuilder().with_driver(driver).with_capability(hooks).build().run_sync("key 1234")
    assert driver.requests[0].messages[0].text == "key ****"
    assert result.state.messages[0].text == "key 1234"


def test_the_text_of_a_response() -> None:
    """In both of its forms."""
    parts = {"candidates": [{"content": {"parts": ["a", {"text": "b"}]}}]}
    assert (response_text(parts), response_text({"text": "c"})) == ("ab", "c")
    assert response_text({"candidates": [3]}) is None


def test_commands_are_read_by_bash_as_they_are_there(stage: Any) -> None:
    """Which knows more than a plain shell."""
    hook = {"type": "command", "command": '[[ a == a ]] && echo \'{"systemMessage": "yes"}\''}
    stage.file(".gemini/settings.json", {"hooks": {"BeforeAgent": [{"hooks": [hook]}]}})
    result = stage.run(stage.discover(), say("hi"))
    assert "yes" in [getattr(record, "reason", "") for record in result.records]
