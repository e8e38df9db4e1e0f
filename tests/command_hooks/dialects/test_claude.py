"""Claude's dialect: the table of exit codes and output, and what is done with each field."""

from __future__ import annotations

import json
import shlex
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from hook_commands import as_json, printing
from hypothesis import given
from hypothesis import strategies as st
from plain_store import PlainStore
from run_results import tool_texts

from hookline import AgentBuilder, AgentState, RunStatus
from hookline.capabilities import Approval
from hookline.command_hooks import CommandHooks, Handler, HookSource, RunFacts
from hookline.command_hooks.dialect import all_dialects, dialect_named
from hookline.command_hooks.dialects.claude.protocol import ClaudeTranscripts
from hookline.command_hooks.dialects.claude.tools import response_of
from hookline.command_hooks.handler import UNCHANGED, ProgramAnswer, ProgramResult
from hookline.command_hooks.replies import is_harmless, read_reply
from hookline.command_hooks.tools import result_of
from hookline.journal import HookRan
from hookline.sessions import Sessions
from hookline.state import AssistantMessage, Log, ToolCall, ToolMessage, ToolResult, UserMessage
from hookline.testing import ScriptedDriver, call, say

CLAUDE = all_dialects()["claude"]


def said(event: str, ran: ProgramResult) -> ProgramAnswer:
    """What the end of a program means at an event."""
    return read_reply(CLAUDE, Handler(HookSource("claude"), event), ran)


def specific(event: str = "PreToolUse", **fields: Any) -> str:
    """An answer with fields for one event."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})


def test_silence_is_no_decision() -> None:
    """Exit 0 and nothing said: not an approval."""
    assert said("PreToolUse", ProgramResult(0)).is_silent


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_plain_text_is_context_where_the_model_may_read_it(event: str) -> None:
    """At two events the model reads what a hook prints."""
    assert said(event, ProgramResult(0, "the branch is main\n")).contexts == ("the branch is main",)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop", "SessionEnd"])
def test_plain_text_is_nothing_elsewhere(event: str) -> None:
    """At the others it goes to nobody."""
    assert said(event, ProgramResult(0, "checked 3 files")).is_silent


@pytest.mark.parametrize("text", ['"block"', "[guard] ok", 'Welcome!\n{"level":"info"}', "ok {"])
def test_only_an_object_that_begins_the_output_is_json(text: str) -> None:
    """A string, and what follows a banner, is plain text."""
    assert said("PreToolUse", ProgramResult(0, text)).is_silent
    assert said("SessionStart", ProgramResult(0, text)).contexts == (text,)


def test_exit_2_blocks_with_what_was_said_on_stderr() -> None:
    """The reason is for the model."""
    answer = said("PreToolUse", ProgramResult(2, "", "not here\n"))
    assert (answer.decision, answer.reason, answer.status) == ("deny", "not here", "blocked")


def test_no_json_takes_exit_2_back() -> None:
    """An allow on stdout does not count; what else is said does."""
    text = specific(permissionDecision="allow", additionalContext="look")
    answer = said("PreToolUse", ProgramResult(2, text, "no"))
    assert (answer.decision, answer.reason, answer.contexts) == ("deny", "no", ("look",))


def test_the_reason_in_the_json_goes_before_stderr() -> None:
    """When both deny."""
    text = specific(permissionDecision="deny", permissionDecisionReason="in json")
    assert said("PreToolUse", ProgramResult(2, text, "on stderr")).reason == "in json"


def test_exit_2_without_any_reason_still_blocks() -> None:
    """Saying nothing is not letting it through."""
    assert said("PreToolUse", ProgramResult(2)).decision == "deny"


def test_the_user_reads_exit_2_where_nothing_can_be_blocked() -> None:
    """At the start of a session, say."""
    answer = said("SessionStart", ProgramResult(2, "", "no network"))
    assert (answer.decision, answer.messages) == ("", ("no network",))


def test_exit_2_after_a_tool_is_feedback() -> None:
    """The model reads it next to the result."""
    assert said("PostToolUse", ProgramResult(2, "", "lint failed")).reason == "lint failed"


def test_exit_2_at_a_permission_request_denies() -> None:
    """As Codex and Copilot do, and Claude did."""
    assert said("PermissionRequest", ProgramResult(2, "", "no")).decision == "deny"


def test_another_exit_code_with_json_lets_the_json_decide() -> None:
    """The exit code is ignored then."""
    assert (
        said("PreToolUse", ProgramResult(1, specific(permissionDecision="deny"))).decision == "deny"
    )


@pytest.mark.parametrize(
    "ran",
    [ProgramResult(1, "", "boom\nmore"), ProgramResult(127, "", "not found"), ProgramResult(-9)],
)
def test_another_exit_code_without_json_is_a_failure(ran: ProgramResult) -> None:
    """The first line of its output is reported."""
    answer = said("PreToolUse", ran)
    assert answer.has_failed
    assert "exit code" in answer.problem
    assert "more" not in answer.problem


def test_json_on_stderr_is_never_read() -> None:
    """Only stdout is."""
    assert said("PreToolUse", ProgramResult(0, "", specific(permissionDecision="deny"))).is_silent


@pytest.mark.parametrize(
    "text",
    [
        '{"continue": "no"}',
        '{"decision": "maybe"}',
        '{"hookSpecificOutput": {"permissionDecision": "perhaps"}}',
        '{"hookSpecificOutput": {"updatedInput": "ls"}}',
        '{"hookSpecificOutput": []}',
    ],
)
def test_an_object_that_does_not_fit_is_a_failure(text: str) -> None:
    """It says what does not fit."""
    answer = said("PreToolUse", ProgramResult(0, text))
    assert answer.has_failed
    assert "does not fit" in answer.problem


def test_unknown_keys_are_passed_over() -> None:
    """Published hooks have them."""
    answer = said(
        "PreToolUse", ProgramResult(0, json.dumps({"metrics": {"n": 1}, "systemMessage": "hi"}))
    )
    assert answer.messages == ("hi",)


@pytest.mark.parametrize(("word", "decision"), [("approve", "allow"), ("block", "deny")])
def test_the_old_form_of_a_decision(word: str, decision: str) -> None:
    """At the top of the object, with a reason."""
    answer = said("PreToolUse", ProgramResult(0, json.dumps({"decision": word, "reason": "why"})))
    assert (answer.decision, answer.reason) == (decision, "why")


def test_a_decision_before_the_tool_means_nothing_after_it() -> None:
    """`permissionDecision` at PostToolUse is passed over."""
    text = specific("PostToolUse", permissionDecision="deny")
    assert said("PostToolUse", ProgramResult(0, text)).decision == ""


def test_continue_false_ends_the_run() -> None:
    """With a reason for the user."""
    answer = said("PostToolUse", ProgramResult(0, '{"continue": false, "stopReason": "enough"}'))
    assert (answer.stops, answer.stop_reason) == (True, "enough")


def test_output_can_be_replaced_by_nothing() -> None:
    """`null` is a replacement; a missing field is not."""
    assert (
        said(
            "PostToolUse", ProgramResult(0, specific("PostToolUse", updatedToolOutput=None))
        ).updated_output
        is None
    )
    assert (
        said("PostToolUse", ProgramResult(0, specific("PostToolUse"))).updated_output is UNCHANGED
    )


@pytest.mark.parametrize("key", ["additionalContext", "additional_context"])
def test_context_at_the_top_is_read_too(key: str) -> None:
    """Scripts for several agents put it there."""
    assert said("UserPromptSubmit", ProgramResult(0, json.dumps({key: "note"}))).contexts == (
        "note",
    )


def test_a_permission_request_is_answered() -> None:
    """Allowed with other arguments, or denied finally."""
    text = specific(
        "PermissionRequest", decision={"behavior": "allow", "updatedInput": {"command": "ls"}}
    )
    answer = said("PermissionRequest", ProgramResult(0, text))
    assert (answer.decision, answer.updated_input) == ("allow", {"command": "ls"})
    text = specific(
        "PermissionRequest", decision={"behavior": "deny", "message": "no", "interrupt": True}
    )
    answer = said("PermissionRequest", ProgramResult(0, text))
    assert (answer.decision, answer.reason, answer.stops) == ("deny", "no", True)


@pytest.mark.parametrize(
    ("problem", "status"), [("timeout", "timeout"), ("spawn_error", "spawn_error")]
)
@pytest.mark.parametrize("dialect", list(all_dialects()))
def test_a_program_without_an_end_decides_nothing(dialect: str, problem: str, status: str) -> None:
    """Whatever it had printed by then; only Copilot denies when a hook cannot be started."""
    speaks = all_dialects()[dialect]
    event = next(name for name, event in speaks.events.items() if event.point == "before_tool_use")
    ran = ProgramResult(None, '{"decision": "approve"}', problem=problem, detail="3 s")
    answer = read_reply(speaks, Handler(HookSource(dialect), event), ran)
    if dialect in ("copilot", "vscode") and problem == "spawn_error":
        assert answer.decision == "deny"
    else:
        assert (answer.status, answer.decision) == (status, "")


# --- fields ---------------------------------------------------------------------------------------------

BELL = "\x07"
TITLE = "\x1b]0;at work\x07"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


def recording_hooks(stage: Any, **answers: Any) -> Any:
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
    stage.run(recording_hooks(stage))
    named = {sent(stage, event)[0].get("prompt_id") for event in EVENTS[1:]}
    assert len(named) == 1
    assert str(uuid.UUID(named.pop())) == sent(stage, "Stop")[0]["prompt_id"]
    assert "prompt_id" not in sent(stage, "SessionStart")[0]


def test_the_next_prompt_is_another(stage: Any) -> None:
    """Though it is the same session."""
    hooks = recording_hooks(stage)
    stage.run(hooks)
    stage.run(hooks)
    first, second = sent(stage, "UserPromptSubmit")
    assert first["prompt_id"] != second["prompt_id"]


# --- the terminal ---------------------------------------------------------------------------------------


def test_what_is_for_the_terminal_gets_there(stage: Any) -> None:
    """From any event, also of one that refuses something, and nothing else of the run changes."""
    hooks = recording_hooks(
        stage, PreToolUse={"terminalSequence": TITLE}, Stop={"terminalSequence": BELL}
    )
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


def test_other_terminal_sequences_are_left_out_and_reported(stage: Any) -> None:
    """A sequence that clears the screen, say."""
    hooks = recording_hooks(stage, PreToolUse={"terminalSequence": "\x1b[2J"})
    shown: list[str] = []
    hooks.runner.terminal = shown.append
    result = stage.run(hooks)
    said = [each.reason for each in result.records if isinstance(each, HookRan)]
    assert "its terminal sequence is not a title, a notification or a bell" in said
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


async def talking(stage: Any, hooks: Any, turns: int = 1) -> tuple[Any, Any]:
    """A session that is kept, and the agent that runs in it."""
    store = PlainStore()
    driver = ScriptedDriver([say("done")] * turns)
    agent = AgentBuilder().with_driver(driver).with_capability(hooks).with_journal(store).build()
    return await Sessions(store).create(), agent


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
async def test_a_hook_names_the_session(stage: Any, event: str) -> None:
    """It is its title from then on, and hooks get it when the session continues."""
    named = {"hookSpecificOutput": {"hookEventName": event, "sessionTitle": " the\nrent "}}
    session, agent = await talking(stage, recording_hooks(stage, **{event: named}), 2)
    await session.run(agent, "Pay it.")
    assert session.title == "the rent"
    await session.rename("mine")
    await session.close(agent)
    await session.run(agent, "Again.")
    first, second = sent(stage, "SessionStart")
    assert (first.get("session_title"), second["session_title"]) == (None, "the rent")
    assert session.title == "the rent"


async def test_without_a_hook_it_is_called_after_its_first_prompt(stage: Any) -> None:
    """And stays so."""
    session, agent = await talking(stage, recording_hooks(stage), 2)
    await session.run(agent, "Pay it.")
    await session.run(agent, "Again.")
    assert session.title == "Pay it."


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "other"), ({"reason": "clear"}, "clear"), ({"reason": "gone home"}, "other")],
)
async def test_hooks_get_the_reason_why_a_session_ends(
    stage: Any, given: Any, expected: str
) -> None:
    """In the words that they know."""
    session, agent = await talking(stage, recording_hooks(stage))
    await session.run(agent, "Pay it.")
    await session.close(agent, **given)
    (ended,) = sent(stage, "SessionEnd")
    assert ended["reason"] == expected
    assert "prompt_id" not in ended


def test_a_single_run_ends_for_other_reasons(stage: Any) -> None:
    """Nobody was at a prompt."""
    stage.run(recording_hooks(stage))
    assert [each["reason"] for each in sent(stage, "SessionEnd")] == ["other"]


# --- what is shown --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_hook_that_changes_the_display_decides_nothing_else(stage: Any, is_watched: bool) -> None:
    """A block there blocks nothing, and without a person such a hook only observes."""
    specific = {"hookEventName": "MessageDisplay", "displayContent": "***"}
    said = {"decision": "block", "reason": "no", "hookSpecificOutput": specific}
    shown: list[str] = []
    hooks = recording_hooks(stage, MessageDisplay=said)
    hooks.runner.display = shown.append if is_watched else None
    result = stage.run(hooks, say("done"))
    assert (result.text, result.status) == ("done", RunStatus.COMPLETED)
    assert shown == (["***"] if is_watched else [])
    assert [each["delta"] for each in sent(stage, "MessageDisplay")] == ["done"]


# --- permissions ----------------------------------------------------------------------------------------


def answering(stage: Any, *updates: Any) -> Any:
    """A hook that says yes once, and grants this besides; after that it says nothing."""
    decision = {"behavior": "allow", "updatedPermissions": list(updates)}
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    once = f"[ -e asked ] || {{ touch asked; echo '{json.dumps(said)}'; }}"
    return stage.claude("PermissionRequest", once)


def ended(stage: Any, hooks: Any) -> RunStatus:
    """How a run ends that asks about two commands."""
    turns = [call("bash", command="git push"), call("bash", command="git push -f"), say("done")]
    result = stage.run(hooks, *turns, with_capability=Approval(ask=["bash"]))
    return result.status  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "update",
    [
        {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "git push:*"}]},
        {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "deny"},
        {"type": "setMode", "mode": "bypassPermissions"},
        {"type": "addRules", "rules": "Bash"},
        {"type": "addRules", "rules": [7, {}, {"toolName": 7}, "Bash(("]},
        "addRules",
    ],
)
def test_a_yes_is_for_this_call_only(stage: Any, update: Any) -> None:
    """Whatever rules, modes or nonsense the hook adds."""
    assert ended(stage, answering(stage, update)) is RunStatus.PAUSED


# --- variables ------------------------------------------------------------------------------------------

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

GUARD = (
    "KEPT=('*.lock' '*/vendor/*'); for each in \"${KEPT[@]}\"; do "
    'if [[ "$CLAUDE_TOOL_FILE_PATH" == $each ]]; then echo "kept: $CLAUDE_TOOL_FILE_PATH" >&2; exit 2; fi; done'
)


@needs_bash
def test_a_line_for_bash_is_read_by_bash(stage: Any) -> None:
    """Where `/bin/sh` knows no lists, its error would be taken for a refusal."""
    hooks = stage.claude("PreToolUse", GUARD, matcher="Write")
    written = stage.run(
        hooks,
        call("write", path="uv.lock", content=""),
        call("write", path="a.py", content=""),
        say("done"),
    )
    assert tool_texts(written) == [f"Blocked: kept: {stage.root}/uv.lock", "wrote a.py"]


@needs_bash
def test_so_are_geminis(stage: Any) -> None:
    """It starts bash, too."""
    line = '[[ "$(cat)" == *secret* ]] && { echo "no secrets" >&2; exit 2; } || exit 0'
    entry = {"type": "command", "command": line}
    stage.file(".gemini/settings.json", {"hooks": {"BeforeTool": [{"hooks": [entry]}]}})
    run = stage.run(
        stage.discover(), call("bash", command="echo secret"), call("bash", command="ls"), say("ok")
    )
    assert tool_texts(run) == ["Blocked: no secrets", "ran ls"]


def test_a_log_in_the_directory_of_the_agent(stage: Any) -> None:
    """Whoever wrote the line has that directory; here it is made."""
    line = 'echo "$CLAUDE_HOOK_EVENT $CLAUDE_TOOL_NAME $CLAUDE_TOOL_COMMAND" >> ~/.claude/log.txt'
    stage.run(stage.claude("PreToolUse", line), call("bash", command="ls -l"), say("done"))
    assert (Path.home() / ".claude/log.txt").read_text() == "PreToolUse Bash ls -l\n"


def test_a_command_with_quotes_stays_one_word(stage: Any) -> None:
    """A variable is no place from which anything could be run."""
    line = 'printf "%s\\n" "$CLAUDE_TOOL_INPUT_COMMAND" >> seen'
    command = "echo '$(touch evil)' \"; touch evil"
    stage.run(stage.claude("PreToolUse", line), call("bash", command=command), say("done"))
    assert (stage.root / "seen").read_text() == command + "\n"
    assert not (stage.root / "evil").exists()


def test_what_is_reported() -> None:
    """The event, the tool, its input as JSON and key by key, and the result."""
    given = {"file_path": "/p/a", "replace_all": True, "-i": 1}
    variables = dialect_named("claude").event_variables(
        {"tool_name": "Edit", "tool_input": given, "tool_response": {"ok": 1}}
    )
    assert variables["CLAUDE_TOOL_INPUT"] == '{"file_path":"/p/a","replace_all":true,"-i":1}'
    assert variables["CLAUDE_TOOL_INPUT_REPLACE_ALL"] == "true"
    assert variables["CLAUDE_FILE_PATHS"] == variables["CLAUDE_TOOL_INPUT_FILE_PATH"] == "/p/a"
    assert (variables["TOOL_NAME"], variables["TOOL_INPUT_file_path"]) == ("Edit", "/p/a")
    assert variables["CLAUDE_TOOL_OUTPUT"] == '{"ok":1}'
    assert not any("-I" in name for name in variables)


def test_what_is_too_long_for_a_variable_is_left_out(stage: Any) -> None:
    """Or the hook could not be started. Its input has all of it."""
    content = "x" * 3_000_000
    hooks = stage.claude("PreToolUse", 'echo "${CLAUDE_TOOL_INPUT_CONTENT-none}" > a; wc -c > b')
    stage.run(hooks, call("write", path="big", content=content), say("done"))
    assert (stage.root / "a").read_text() == "none\n"
    assert int((stage.root / "b").read_text()) > len(content)


def test_what_no_variable_can_hold_does_not_keep_a_guard_from_running(stage: Any) -> None:
    """With a zero in a variable no program could be started: the guard is asked all the same."""
    hooks = stage.claude("PreToolUse", "echo no >&2; exit 2")
    run = stage.run(hooks, call("bash", command="a\0b"), say("done"))
    assert tool_texts(run) == ["Blocked: no"]
    assert (
        dialect_named("claude").event_variables({"tool_name": "a\ud800b", "prompt": "a\0b"})[
            "TOOL_NAME"
        ]
        == "a?b"
    )


# --- the transcript -------------------------------------------------------------------------------------

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


def test_a_conversation_that_was_rewritten_is_written_again(tmp_path: Any) -> None:
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


def test_text_of_a_tool_is_distinguished_from_the_users(stage: Any) -> None:
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


# --- what tools gave, as scripts for Claude Code look for it ------------------------------------------


def response(tool: str, args: dict[str, Any], result: Any, **more: Any) -> Any:
    """What scripts get of a result."""
    execution = ToolResult(result, name=tool, **more)
    return response_of(ToolCall("1", tool, {"path": "a.py", **args}), execution, "/p")


def test_a_file_that_was_read_has_its_lines_counted() -> None:
    """Scripts add up how much of a file was read."""
    text = "     3\tx = 1\n     4\ty = 2\n[lines 3-4 of 9]"
    file = response("read", {"path": "a.py", "offset": 3, "limit": 2}, text)["file"]
    assert file == {
        "filePath": "/p/a.py",
        "content": "x = 1\ny = 2",
        "numLines": 2,
        "startLine": 3,
        "totalLines": 9,
    }


def test_an_edit_has_its_lines() -> None:
    """In the form of a patch, at the line where it was made."""
    given = {"path": "a.py", "old": "a\nb", "new": "c", "replace_all": False}
    answer = response("edit", given, "Edited 'a.py' at line 7.")
    assert (answer["filePath"], answer["oldString"], answer["newString"]) == (
        "/p/a.py",
        "a\nb",
        "c",
    )
    assert answer["structuredPatch"] == [
        {"oldStart": 7, "oldLines": 2, "newStart": 7, "newLines": 1, "lines": ["-a", "-b", "+c"]}
    ]
    assert answer["success"] is True


@pytest.mark.parametrize(("said", "kind"), [("Made 'a'.", "create"), ("Replaced 'a'.", "update")])
def test_a_file_that_was_written_is_new_or_not(said: str, kind: str) -> None:
    """And it has its content."""
    answer = response("write", {"path": "a.py", "content": "x"}, said)
    assert (answer["type"], answer["content"], answer["filePath"]) == (kind, "x", "/p/a.py")


@pytest.mark.parametrize(
    ("tool", "args"), [("mcp__db__query", {"sql": "x"}), ("spawn_subagent", {"prompt": "x"})]
)
def test_the_words_of_others_are_blocks_of_text(tool: str, args: dict[str, str]) -> None:
    """Those of a server and those of a child; and the way back."""
    answer = response(tool, args, "hello")
    blocks = answer if isinstance(answer, list) else answer["content"]
    assert blocks == [{"type": "text", "text": "hello"}]
    assert result_of(ToolCall("1", tool, args), answer) == "hello"


def test_an_example_in_text_for_the_model_stays_text() -> None:
    """Where text is context, and no call is decided about."""
    text = 'Hooks answer like this:\n{"decision": "block"}'
    for event in ("SessionStart", "UserPromptSubmit"):
        assert said(event, ProgramResult(0, text)).contexts == (text,)
    assert said("PreToolUse", ProgramResult(0, text)).status == "unreadable"
