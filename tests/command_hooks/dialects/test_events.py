"""The input of hooks has the facts: why a command failed, which file, which model, the order of events."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from hookline import AgentBuilder, FailureHookContext, HookOutcome, HookPoint, ToolHookContext
from hookline.capabilities import Bash, Files
from hookline.command_hooks import (
    Dialect,
    Event,
    EventFacts,
    Handler,
    HookSource,
    RunFacts,
    ToolForm,
    ToolNames,
)
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.dialects.claude.tools import error_of
from hookline.command_hooks.tools import failure_text, output_text, plain_lines
from hookline.state import (
    AgentState,
    InferenceResponse,
    ResultStatus,
    StopReason,
    ToolCall,
    ToolResult,
)
from hookline.testing import ScriptedDriver, call, say


class NamedDriver(ScriptedDriver):
    """A driver that says which model it asks."""

    model = "test:big, then test:small"


def run(stage: Any, dialect: str, events: list[str], *turns: Any) -> list[dict[str, Any]]:
    """What hooks of these events are sent, while real tools work."""
    log = stage.root.parent / "log.jsonl"
    hooks = [{"on": event, "dialect": dialect, "command": f"cat >> {log}"} for event in events]
    (
        AgentBuilder()
        .with_driver(NamedDriver([*turns, say("done")]))
        .with_capability(Bash(stage.root, sandbox="host"))
        .with_capability(Files(stage.root))
        .with_capability(stage.hooks(*hooks))
        .with_approver(lambda asked: True)
        .build()
        .run_sync("go")
    )
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("dialect", "event", "keys"),
    [
        ("cursor", "postToolUseFailure", ["error_message"]),
        ("copilot", "postToolUseFailure", ["error"]),
        ("gemini", "AfterTool", ["tool_response", "error", "message"]),
    ],
)
def test_a_failure_has_its_exit_code(stage: Any, dialect: str, event: str, keys: list[str]) -> None:
    """Also where the command printed nothing; what it printed comes after."""
    turns = (call("bash", command="false"), call("bash", command="echo no; exit 3"))
    found: list[Any] = run(stage, dialect, [event], *turns)
    for key in keys:
        found = [each[key] for each in found]
    assert found == [
        "The command failed (exit code 1).",
        "The command failed (exit code 3).\nno",
    ]


def test_a_failure_begins_with_its_exit_code_for_claude(stage: Any) -> None:
    """Scripts look for these words on the first line, and for what was printed below."""
    turns = (call("bash", command="false"), call("bash", command="echo no; exit 3"))
    found = run(stage, "claude", ["PostToolUseFailure"], *turns)
    assert [each["error"] for each in found] == ["Exit code 1", "Exit code 3\nno"]


def test_a_command_that_was_ended_is_reported_as_ended() -> None:
    """It has an exit code too, which is not the reason."""
    text = "half\n[timed out after 1 s and was ended, with everything it had started]\n[the sandbox: no]"
    ended = ToolResult(text, metadata={"exit_code": 137, "ended": "timeout"})
    assert failure_text(ended) == "The command took too long and was ended (exit code 137).\nhalf"
    assert error_of(ended) == "Exit code 137\nThe command took too long and was ended\nhalf"
    assert output_text(ended) == "half"


def test_a_patched_file_has_a_path(stage: Any) -> None:
    """In Codex too, where it is in the patch: a guard for Claude's Write has what it looks for."""
    (sent,) = run(stage, "codex", ["PostToolUse"], call("write", path="a.txt", content="x\n"))
    given = sent["tool_input"]
    assert (given["file_path"], given["content"]) == (str(stage.root / "a.txt"), "x\n")
    assert "*** Add File: a.txt\n+x" in given["command"]


def test_codexs_response_is_the_text(stage: Any) -> None:
    """Of a command what it printed, of a file what was said or read; nothing is around it."""
    turns = (
        call("bash", command="echo one"),
        call("write", path="a.txt", content="x\n"),
        call("read", path="a.txt"),
    )
    sent = run(stage, "codex", ["PostToolUse"], *turns)
    assert [sent[0]["tool_response"], sent[2]["tool_response"]] == ["one", "x"]
    assert "a.txt" in sent[1]["tool_response"]


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        ("codex", ["SessionStart", "UserPromptSubmit", "Stop"]),
        ("cursor", ["sessionStart", "beforeSubmitPrompt", "stop"]),
    ],
)
def test_the_model_is_known_before_it_is_asked(stage: Any, dialect: str, events: list[str]) -> None:
    """The agent's first one, and after the turn too."""
    assert [each["model"] for each in run(stage, dialect, events)] == ["test:big"] * 3


def test_the_content_of_a_file_is_sent_without_our_line_numbers(stage: Any) -> None:
    """As it is in the file, whole or in part."""
    (stage.root / "a.txt").write_text("one\n  two\n\nfour\n")
    turns = (call("read", path="a.txt"), call("read", path="a.txt", offset=2, limit=1))
    whole, part = run(stage, "claude", ["PostToolUse"], *turns)
    assert whole["tool_response"]["file"]["content"] == "one\n  two\n\nfour"
    assert part["tool_response"]["file"]["content"] == "  two"


@pytest.mark.parametrize("text", ["", "plain", "1\ta\nplain", "     1\ta\n     3\tc"])
def test_what_is_not_numbered_is_left_alone(text: str) -> None:
    """Numbers that do not count lines are a part of the text."""
    assert plain_lines(text) == text


def test_the_lines_of_a_transcript_are_a_chain(stage: Any) -> None:
    """Each names the one before it, however often the file was brought up to date."""
    turns = (call("bash", command="true"), call("bash", command="true"))
    *_, sent = run(stage, "claude", ["PreToolUse", "PostToolUse", "Stop"], *turns)
    with open(sent["transcript_path"]) as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == 6
    assert [each["parentUuid"] for each in lines] == [None, *(each["uuid"] for each in lines[:-1])]


def test_what_a_lost_run_said_last_is_its_error(stage: Any) -> None:
    """Notices show it, and would show the words of a turn that had gone well."""
    hooks = stage.claude("StopFailure", "cat > failure.json")
    stage.run(hooks, RuntimeError("lost"))
    event_payload = json.loads((stage.root / "failure.json").read_text())
    assert event_payload["last_assistant_message"] == f"API Error: {event_payload['error_details']}"
    assert "lost" in event_payload["error_details"]


# --- interrupted tools ----------------------------------------------------------------------------------

PLACE = RunFacts("/p", "/p", "s")


def event_payload(dialect: str, event: str) -> Any:
    """A hook's input about a command that was ended with its run; None if the hook is not called."""
    ended = ToolResult("Cancelled: ...", call_id="1", name="bash", status=ResultStatus.CANCELLED)
    ctx = ToolHookContext(
        point=HookPoint.AFTER_TOOL_USE,
        state=AgentState(run_id="r"),
        tool_call=ToolCall("1", "bash", {"command": "sleep 9"}),
        execution=ended,
    )
    if not all_dialects()[dialect].fires(event, ctx):
        return None
    return all_dialects()[dialect].payload(Handler(HookSource(dialect), event), ctx, PLACE)


def test_a_call_that_was_ended_with_the_run_is_no_success() -> None:
    """In any dialect; those with a word for it say that it was interrupted."""
    assert event_payload("claude", "PostToolUse") is None
    assert event_payload("claude", "PostToolUseFailure")["is_interrupt"] is True
    assert event_payload("cursor", "postToolUse") is None
    assert event_payload("cursor", "postToolUseFailure")["is_interrupt"] is True
    assert event_payload("copilot", "postToolUse") is None
    assert event_payload("copilot", "postToolUseFailure")["toolResult"]["resultType"] == "failure"
    assert "error" in event_payload("gemini", "AfterTool")["tool_response"]


def interrupted(stage: Any) -> Any:
    """A run that a person ends after its first step."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    builder.with_capability(stage.discover())
    builder.on_should_continue(lambda ctx: ctx.forbid("interrupted", StopReason.CANCELLED))
    return builder.build().run_sync("go")


@pytest.mark.parametrize(
    ("path", "event"),
    [(".claude/settings.json", "Stop"), (".gemini/settings.json", "AfterAgent")],
)
def test_hooks_at_the_end_are_not_asked_after_an_interrupt(
    stage: Any, path: str, event: str
) -> None:
    """Nobody wants it to continue."""
    entry = {"hooks": [{"type": "command", "command": "touch asked"}]}
    stage.file(path, {"hooks": {event: [entry]}})
    interrupted(stage)
    assert not (stage.root / "asked").exists()


def test_cursors_hooks_learn_that_it_was_ended(stage: Any) -> None:
    """Their `stop` has a status for it, and so has the end of the session."""
    hooks = {
        "stop": [{"command": "cat > stop.json"}],
        "sessionEnd": [{"command": "cat > end.json"}],
    }
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    interrupted(stage)
    assert json.loads((stage.root / "stop.json").read_text())["status"] == "aborted"
    assert json.loads((stage.root / "end.json").read_text())["final_status"] == "aborted"


# --- what each event sends ------------------------------------------------------------------------------

COMMON = {
    "gemini": {"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"},
    "codex": {"session_id", "transcript_path", "cwd", "hook_event_name", "turn_id", "model"},
    "cursor": {
        "conversation_id",
        "generation_id",
        "model",
        "hook_event_name",
        "workspace_roots",
        "cursor_version",
    },
    "copilot": {"sessionId", "timestamp", "cwd"},
    "claude": {"session_id", "transcript_path", "cwd", "hook_event_name", "permission_mode"},
    "vscode": {"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"},
}
OWN = {
    ("gemini", "BeforeTool"): {"tool_name", "tool_input"},
    ("gemini", "AfterTool"): {"tool_name", "tool_input", "tool_response"},
    ("gemini", "BeforeAgent"): {"prompt"},
    ("gemini", "AfterAgent"): {"prompt", "prompt_response", "stop_hook_active"},
    ("gemini", "BeforeModel"): {"llm_request"},
    ("gemini", "AfterModel"): {"llm_request", "llm_response"},
    ("gemini", "Notification"): {"notification_type", "message", "details"},
    ("codex", "PreToolUse"): {"tool_name", "tool_input", "tool_use_id"},
    ("codex", "Stop"): {"stop_hook_active", "last_assistant_message"},
    ("cursor", "beforeShellExecution"): {"command", "cwd"},
    ("cursor", "afterShellExecution"): {"command", "output", "duration"},
    ("cursor", "beforeSubmitPrompt"): {"prompt", "attachments"},
    ("cursor", "stop"): {"status", "loop_count"},
    ("cursor", "afterAgentResponse"): {"text"},
    ("copilot", "preToolUse"): {"toolName", "toolArgs"},
    ("copilot", "postToolUse"): {"toolName", "toolArgs", "toolResult"},
    ("copilot", "userPromptSubmitted"): {"prompt"},
    ("copilot", "userPromptTransformed"): {"prompt", "transformedPrompt"},
    ("copilot", "notification"): {"notification_type", "title", "message"},
    ("copilot", "agentStop"): {"transcriptPath", "stopReason", "stop_hook_active"},
    ("vscode", "PreToolUse"): {"tool_name", "tool_input"},
    ("vscode", "PostToolUse"): {"tool_name", "tool_input", "tool_result"},
    ("vscode", "Stop"): {"transcript_path", "stop_reason", "stop_hook_active"},
    ("claude", "PreToolUse"): {"tool_name", "tool_input", "tool_use_id", "prompt_id"},
    ("claude", "PostToolUse"): {"tool_name", "tool_input", "tool_response", "duration_ms"},
    ("claude", "PermissionRequest"): {"tool_name", "tool_input"},
    ("claude", "Stop"): {"stop_hook_active", "last_assistant_message"},
}
NEEDS_MORE = ("agent_failed", "subagent_start", "subagent_stop", "before_compact")


def events() -> list[tuple[str, str]]:
    """Every event that happens in a plain run, in every dialect but our own."""
    return [
        (name, event)
        for name, dialect in all_dialects().items()
        for event, about in dialect.events.items()
        if name != "hookline"
        and about.point not in NEEDS_MORE
        and event not in ("notify", "PostCompact")
    ]


@pytest.mark.parametrize(("dialect", "event"), events())
def test_what_is_sent(stage: Any, dialect: str, event: str) -> None:
    """Its common fields, and its own."""
    log = stage.root / "log"
    hooks = stage.hooks({"on": event, "dialect": dialect, "command": f"cat >> {log}"})
    stage.run(
        hooks,
        call("bash", command="ls"),
        say("done"),
        on_before_tool_use=lambda ctx: HookOutcome.ask("sure?"),
        with_approver=lambda asked: True,
    )
    if not log.exists():  # it is about another kind of tool, or about one that failed
        assert event.endswith(("Failure", "MCPExecution", "ReadFile", "FileEdit", "Thought"))
        return
    sent = json.loads(log.read_text().splitlines()[0])
    assert dialect in COMMON, f"add what every event of '{dialect}' is sent to COMMON"
    assert COMMON[dialect] | OWN.get((dialect, event), set()) <= sent.keys()
    named = sent.get("hook_event_name", event)
    assert named == event or (named, event) == ("Notification", "notification")


def test_a_secret_in_a_file_is_seen_before_it_is_read(stage: Any) -> None:
    """Cursor shows hooks what is in the file; one that has failed keeps it from being read."""
    (stage.root / "notes.txt").write_text("password: hunter2")
    deny = (
        'grep -q hunter2 && echo \'{"permission": "deny", "user_message": "secret"}\' || echo "{}"'
    )
    hook = {"on": "beforeReadFile", "dialect": "cursor", "command": deny}
    result = stage.run(stage.hooks(hook), call("read", path="notes.txt"), say("done"))
    assert result.state.messages[2].text == "Blocked: secret"
    stage.file(
        ".cursor/hooks.json", {"version": 1, "hooks": {"beforeReadFile": [{"command": "exit 9"}]}}
    )
    result = stage.run(stage.discover(), call("read", path="notes.txt"), say("done"))
    assert "not let through" in result.state.messages[2].text


def test_tools_of_servers_have_the_names_of_each_dialect(stage: Any) -> None:
    """One form in each, and the matcher may use either."""

    def query(sql: str) -> str:
        """Ask."""
        return "rows"

    query.__name__ = "mcp__db__query"
    log = stage.root / "log"
    hooks = stage.hooks(
        {
            "on": "BeforeTool",
            "dialect": "gemini",
            "matcher": "mcp_db_.*",
            "command": f"cat >> {log}",
        },
        {"on": "beforeMCPExecution", "dialect": "cursor", "command": f"cat >> {log}"},
        {
            "on": "PreToolUse",
            "dialect": "claude",
            "matcher": "mcp__db__.*",
            "command": f"cat >> {log}",
        },
    )
    stage.run(hooks, call("mcp__db__query", sql="select 1"), say("done"), with_tools=query)
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["tool_name"] for each in sent] == ["mcp_db_query", "query", "mcp__db__query"]
    assert sent[2]["mcp_server"] == {"name": "db"}


@pytest.mark.parametrize(
    ("dialect", "event", "key"),
    [("cursor", "afterMCPExecution", "result_json"), ("codex", "PostToolUse", "tool_response")],
)
def test_what_a_server_gave_is_in_the_form_of_servers(
    stage: Any, dialect: str, event: str, key: str
) -> None:
    """A list of contents; in Cursor as a text."""

    def query(sql: str) -> str:
        """Ask."""
        return "rows"

    query.__name__ = "mcp__db__query"
    log = stage.root / "log"
    hooks = stage.hooks({"on": event, "dialect": dialect, "command": f"cat > {log}"})
    stage.run(hooks, call("mcp__db__query", sql="select 1"), say("done"), with_tools=query)
    given = json.loads(log.read_text())[key]
    given = json.loads(given) if dialect == "cursor" else given
    assert given["content"] == [{"type": "text", "text": "rows"}]


# --- contexts of all points -----------------------------------------------------------------------------

EVENTS = [(name, event) for name, dialect in all_dialects().items() for event in dialect.events]


@pytest.mark.parametrize(("name", "event"), EVENTS)
def test_an_event_is_described_at_each_of_its_points(name: str, event: str) -> None:
    """Every field comes from the kind of context that the point has."""
    dialect, handler = all_dialects()[name], Handler(HookSource(name), event)
    fields = {
        "execution": ToolResult("out", call_id="1", name="bash"),
        "response": InferenceResponse("hello"),
        "exception": OSError("no disk"),
    }
    for point in map(HookPoint, dialect.points_of(handler)):
        given = {key: value for key, value in fields.items() if key in dir(point.context)}
        ctx = point.context(point=point, state=AgentState(run_id="r"), **given)
        dialect.fires(event, ctx)
        dialect.subject(event, ctx, PLACE)
        assert dialect.payload(handler, ctx, PLACE)


def test_cursors_stop_after_a_failed_run_is_an_error() -> None:
    """The call that failed is in the context, and the event is still the end of the run."""
    ctx = FailureHookContext(
        point=HookPoint.AGENT_FAILED,
        state=AgentState(run_id="r"),
        tool_call=ToolCall("1", "bash", {"command": "ls"}),
        exception=OSError("no disk"),
    )
    cursor = all_dialects()["cursor"]
    assert cursor.fires("stop", ctx)
    assert cursor.payload(Handler(HookSource("cursor"), "stop"), ctx, PLACE)["status"] == "error"


@pytest.mark.parametrize(
    ("tool", "args", "command", "path"),
    [
        ("bash", {"command": "ls"}, "ls", ""),
        ("exec", {"argv": ["ls", "a b"]}, "ls 'a b'", ""),
        ("read", {"path": "a.py"}, "", "/p/a.py"),
        ("list", {}, "", ""),
    ],
)
def test_the_command_and_the_file_do_not_depend_on_names(
    tool: str, args: dict[str, Any], command: str, path: str
) -> None:
    """A dialect may call them as it likes."""

    class Renaming(Dialect):
        name = "renaming"
        events: ClassVar[dict[str, Event]] = {"tool": Event("before_tool_use")}
        tools = ToolNames(
            {
                **dict.fromkeys(("bash", "exec"), ToolForm("shell", {"command": "line"})),
                "read": ToolForm("open", {"path": "file"}),
            }
        )

    asked = ToolCall("1", tool, args)
    ctx = ToolHookContext(point=HookPoint.BEFORE_TOOL_USE, tool_call=asked)
    facts = EventFacts(Renaming(), ctx, RunFacts("/p", "/p", ""))
    assert (facts.command, facts.path) == (command, path)
