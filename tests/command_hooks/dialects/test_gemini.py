"""What Gemini's hooks around the model are shown, and what they change."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, tool
from hookline.command_hooks.dialects.gemini import changed_request, response_text
from hookline.hooks import HookOutcome
from hookline.state import (
    AssistantMessage,
    Decision,
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


# --- scripts and files ----------------------------------------------------------------------------------


def settings(stage: Any, **commands: str) -> Any:
    """Settings with one command for each event."""
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in commands.items()
    }
    stage.file(".gemini/settings.json", {"hooks": hooks})
    return stage.discover()


def lines(path: Path) -> list[Any]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


KEEP = (
    "cat > sent.json; "
    'cp "$(python3 -c \'import json; print(json.load(open("sent.json"))["transcript_path"])\')" kept'
)


def test_the_record_of_the_conversation(stage: Any) -> None:
    """First the session; then each message with its author, with the calls and their results."""
    hooks = settings(stage, AfterAgent=KEEP)
    stage.run(hooks, call("bash", command="ls"), say("done"), prompt="Look around.")
    session, asked, called, said = lines(stage.root / "kept")
    sent = json.loads((stage.root / "sent.json").read_text())
    assert session["sessionId"] == sent["session_id"]
    assert (asked["type"], asked["content"]) == ("user", [{"text": "Look around."}])
    (one,) = called["toolCalls"]
    assert (one["name"], one["args"], one["status"]) == (
        "run_shell_command",
        {"command": "ls"},
        "success",
    )
    assert one["result"][0]["functionResponse"]["response"] == {"output": "ran ls"}
    assert (said["type"], said["content"]) == ("gemini", "done")


def test_a_call_that_is_not_done_is_in_it(stage: Any) -> None:
    """Before a tool is used, the message that wants it is the last one."""
    stage.run(settings(stage, BeforeTool=KEEP), call("bash", command="ls"), say("done"))
    assert lines(stage.root / "kept")[-1]["toolCalls"][0]["status"] == "executing"


def test_a_notice_says_what_is_asked(stage: Any) -> None:
    """By the kind of the tool: a command is there as it is."""
    stage.run(
        settings(stage, Notification="cat > sent.json"),
        call("bash", command="git push -f"),
        say("done"),
        on_before_tool_use=lambda _ctx: HookOutcome.ask("sure?"),
        with_approver=lambda _pending: Decision.allow(),
    )
    sent = json.loads((stage.root / "sent.json").read_text())
    assert sent["message"] == "Tool run_shell_command requires execution"
    details = sent["details"]
    assert (details["type"], details["rootCommand"]) == ("exec", "git")
    assert details["command"] == "git push -f"


@tool(name="mcp__data__query")
def query(sql: str) -> str:
    """Ask a server."""
    return f"rows of {sql}"


def test_the_server_of_a_tool_is_named(stage: Any) -> None:
    """Apart from the tool's own name."""
    stage.tools = (query,)
    stage.run(
        settings(stage, BeforeTool="cat > sent.json"),
        call("mcp__data__query", sql="x"),
        say("done"),
    )
    sent = json.loads((stage.root / "sent.json").read_text())
    assert sent["tool_name"] == "mcp_data_query"
    assert sent["mcp_context"] == {"server_name": "data", "tool_name": "query"}


def test_a_session_is_a_uuid(stage: Any) -> None:
    """Of which scripts take the first letters. The id that we know it by is beside it."""
    hooks = settings(stage, SessionStart='cat > sent.json; echo "$GEMINI_SESSION_ID" > seen')
    result = stage.run(hooks, say("done"))
    sent = json.loads((stage.root / "sent.json").read_text())
    assert str(uuid.UUID(sent["session_id"])) == sent["session_id"]
    assert (stage.root / "seen").read_text().strip() == sent["session_id"]
    assert sent["native_session_id"] == result.state.run_id


def test_a_word_before_each_request_does_not_pile_up(stage: Any) -> None:
    """It is in that request, wherever the script put the field, and not in the conversation."""
    hooks = settings(stage, BeforeModel="""echo '{"additionalContext": "phase 2"}'""")
    asked: list[list[str]] = []

    def keep(ctx: Any) -> None:
        asked.append([message.text for message in ctx.request.messages])

    result = stage.run(hooks, call("bash", command="ls"), say("done"), on_after_inference=keep)
    assert [sum("phase 2" in text for text in texts) for texts in asked] == [1, 1]
    assert not any("phase 2" in message.text for message in result.state.messages)


def test_the_last_words_of_the_user_are_the_users(stage: Any) -> None:
    """What hooks have said about tools since is not among the messages that a hook is shown."""
    hooks = settings(
        stage,
        AfterTool="""echo '{"hookSpecificOutput": {"additionalContext": "well done"}}'""",
        BeforeModel="cat > sent.json",
    )
    stage.run(hooks, call("bash", command="ls"), say("done"), prompt="Look around.")
    asked = json.loads((stage.root / "sent.json").read_text())["llm_request"]["messages"]
    assert [each["content"] for each in asked if each["role"] == "user"] == ["Look around."]


def test_tools_of_servers_have_one_name(stage: Any) -> None:
    """The name in a hook's input is the name that its matcher compares."""
    config = {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["mcp_data_query"]}}
    hooks = settings(
        stage,
        BeforeToolSelection=f"cat > sent.json; echo '{json.dumps({'hookSpecificOutput': config})}'",
    )
    offered: list[list[str]] = []

    def keep(ctx: Any) -> None:
        offered.append([each.name for each in ctx.request.tools])

    stage.tools = (*stage.tools, query)
    stage.run(hooks, say("done"), on_after_inference=keep)
    sent = json.loads((stage.root / "sent.json").read_text())["llm_request"]["toolConfig"]
    assert "mcp_data_query" in sent["allowedFunctionNames"]
    assert offered == [["mcp__data__query"]]


def test_guards_that_are_installed_in_other_forms_are_not_lost(stage: Any) -> None:
    """A list of hooks that name their events, and hooks without a group around them."""
    entry = {"matcher": "run_shell_.*", "command": "echo no >&2; exit 2"}
    for hooks in (
        [{"event": "BeforeTool", **entry}],
        {"BeforeTool": [{"type": "command", **entry}]},
    ):
        stage.file(".gemini/settings.json", {"hooks": hooks})
        result = stage.run(stage.discover(), call("bash", command="ls"), say("done"))
        assert result.state.messages[2].text == "Blocked: no"


def test_tools_are_chosen_in_the_form_of_googles_interface(stage: Any) -> None:
    """A level deeper, and outside of what is for the event: both are in published scripts."""
    config = {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["read_file"]}}
    hooks = settings(
        stage,
        BeforeToolSelection=f"echo '{json.dumps({'toolConfig': config})}'",
        AfterModel="cat > sent.json",
    )
    stage.run(hooks, say("done"))
    sent = json.loads((stage.root / "sent.json").read_text())["llm_request"]["toolConfig"]
    assert sent["allowedFunctionNames"] == ["read_file"]
    assert sent["functionCallingConfig"]["mode"] == "AUTO"


def test_input_may_be_changed_by_claudes_name_for_it(stage: Any) -> None:
    """Scripts for both agents say it so."""
    answer = {"decision": "approve", "updatedInput": {"command": "uv run x"}}
    hooks = settings(stage, BeforeTool=f"echo '{json.dumps(answer)}'")
    result = stage.run(hooks, call("bash", command="python x"), say("done"))
    assert any(message.text == "ran uv run x" for message in result.state.messages)


def test_tools_are_chosen_after_the_request_was_changed(stage: Any) -> None:
    """Whatever the order in the file: the second event sees what the hooks of the first have made of it."""
    changed = {"llm_request": {"messages": [{"role": "user", "content": "PATCHED"}]}}
    said = json.dumps({"hookSpecificOutput": {"hookEventName": "BeforeModel", **changed}})
    hooks = settings(stage, BeforeToolSelection="cat > sent.json", BeforeModel=f"echo '{said}'")
    stage.run(hooks, say("done"))
    request = json.loads((stage.root / "sent.json").read_text())["llm_request"]
    assert "PATCHED" in str(request["messages"])


def test_no_tools_are_chosen_where_no_model_is_asked(stage: Any) -> None:
    """A hook has answered in its place."""
    parts = {"content": {"role": "model", "parts": ["SYNTH"]}, "finishReason": "STOP"}
    answer = {"hookEventName": "BeforeModel", "llm_response": {"candidates": [parts]}}
    said = json.dumps({"hookSpecificOutput": answer})
    hooks = settings(stage, BeforeToolSelection="touch chosen", BeforeModel=f"echo '{said}'")
    assert stage.run(hooks, say("real")).text == "SYNTH"
    assert not (stage.root / "chosen").exists()


def test_the_model_is_named_once_it_has_answered(stage: Any) -> None:
    """Also where nothing that happens says it."""
    keep = "cat > sent.json"
    hooks = settings(stage, BeforeTool="exit 0", BeforeModel=keep)
    stage.run(hooks, call("bash", command="ls"), say("done"))
    request = json.loads((stage.root / "sent.json").read_text())["llm_request"]
    assert request["model"] == "scripted"


def test_output_may_be_replaced_in_either_word(stage: Any) -> None:
    """A guard reads what a tool gave where guards of other agents read it, and keeps a part of it back."""
    for name in ("tool_output", "updatedToolOutput"):
        answer = json.dumps({"hookSpecificOutput": {name: "[kept back]"}})
        hooks = settings(stage, AfterTool=f"cat > sent.json; echo '{answer}'")
        result = stage.run(hooks, call("bash", command="ls"), say("done"))
        assert result.state.messages[2].text == "[kept back]"
    response = json.loads((stage.root / "sent.json").read_text())["tool_response"]
    assert response["output"] == response["llmContent"] == "ran ls"


def extension(stage: Any, name: str, at: Path | None = None) -> Path:
    """An extension of the user whose guard refuses every command."""
    root = at or stage.home / ".gemini" / "extensions" / name
    (root / "hooks").mkdir(parents=True)
    guard = {"type": "command", "command": "echo no >&2; exit 2"}
    hooks = {"hooks": {"BeforeTool": [{"hooks": [guard]}]}}
    (root / "hooks" / "hooks.json").write_text(json.dumps(hooks))
    return root


def test_an_extension_that_is_off_for_the_project_is_not_read(stage: Any) -> None:
    """The last rule about the path counts; one about another place does not."""
    extension(stage, "guard")
    rules = stage.home / ".gemini" / "extensions" / "extension-enablement.json"
    above = stage.root.parent.as_posix()
    for overrides, is_on in (
        ([], True),
        ([f"!{above}/*"], False),
        ([f"!{above}/*", f"{stage.root}/"], True),
        ([f"!{stage.root}/"], False),
        (["!/elsewhere/*"], True),
    ):
        rules.write_text(json.dumps({"guard": {"overrides": overrides}}))
        assert bool(stage.discover().handlers) is is_on, overrides


def test_an_extension_that_is_linked_is_read_where_it_is(stage: Any) -> None:
    """Among the user's there is only a note of where that is."""
    root = extension(stage, "guard", stage.root.parent / "work")
    note = {"source": str(root), "type": "link"}
    stage.file(".gemini/extensions/guard/.gemini-extension-install.json", note, home=True)
    (handler,) = stage.discover().handlers
    assert handler.source.root == str(root)


def test_hooks_that_the_user_has_switched_off_stay_off(stage: Any) -> None:
    """By the setting among those of tools too."""
    extension(stage, "guard")
    stage.file(".gemini/settings.json", {"tools": {"enableHooks": False}}, home=True)
    assert stage.discover().handlers == ()


@pytest.mark.parametrize(
    ("wanted", "more", "shown"),
    [
        ({"name": "read_file", "args": {}}, {}, "A hook withheld this result and asks for"),
        ({"name": "read_file"}, {"decision": "deny", "reason": "no"}, "Result withheld: no"),
        (7, {}, "ran ls"),
        ({}, {}, "ran ls"),
    ],
)
def test_a_hook_that_wants_another_call_keeps_the_result_back(
    stage: Any, wanted: Any, more: Any, shown: str
) -> None:
    """The model reads which call is wanted, and not the result."""
    said = {"hookSpecificOutput": {"tailToolCallRequest": wanted}, **more}
    result = stage.run(settings(stage, AfterTool=f"echo '{json.dumps(said)}'"))
    (output,) = [message.text for message in result.state.messages if message.role == "tool"]
    assert output.startswith(shown)
