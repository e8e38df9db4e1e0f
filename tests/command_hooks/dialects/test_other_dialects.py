"""Gemini, Codex, Cursor, Copilot and our own: where they read an answer differently."""

from __future__ import annotations

import json

import pytest

from hookline.command_hooks import Handler, HookSource, RunFacts
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import ProgramAnswer, ProgramResult
from hookline.command_hooks.replies import read_reply
from hookline.state import ToolCall


def said(dialect: str, event: str, ran: ProgramResult) -> ProgramAnswer:
    """What the end of a program means at an event of a dialect."""
    return read_reply(all_dialects()[dialect], Handler(HookSource(dialect), event), ran)


# --- Gemini -------------------------------------------------------------------------------------------


def test_gemini_reads_stderr_when_stdout_is_empty() -> None:
    """And a string that has the object in it once more."""
    denied = json.dumps({"decision": "deny", "reason": "no"})
    assert said("gemini", "BeforeTool", ProgramResult(0, "", denied)).decision == "deny"
    assert said("gemini", "BeforeTool", ProgramResult(0, json.dumps(denied))).reason == "no"


@pytest.mark.parametrize(("code", "decision"), [(0, ""), (1, ""), (2, "deny"), (3, "deny")])
def test_geminis_exit_codes_with_text(code: int, decision: str) -> None:
    """1 warns; from 2 on it is refused."""
    assert said("gemini", "BeforeTool", ProgramResult(code, "", "words")).decision == decision


def test_in_gemini_json_decides_whatever_the_exit_code() -> None:
    """Also with exit code 2."""
    assert (
        said("gemini", "BeforeTool", ProgramResult(2, '{"decision": "allow"}', "no")).decision == ""
    )


def test_geminis_allow_does_not_answer_for_a_person() -> None:
    """It only lets the call continue."""
    assert said("gemini", "BeforeTool", ProgramResult(0, '{"decision": "allow"}')).decision == ""


def test_gemini_merges_input_and_escapes_context() -> None:
    """Some keys change, and marks that could end a block of text are written out."""
    text = json.dumps(
        {"hookSpecificOutput": {"tool_input": {"command": "ls"}, "additionalContext": "<b>"}}
    )
    answer = said("gemini", "BeforeTool", ProgramResult(0, text))
    assert answer.updated_input == {"command": "ls"}
    call = ToolCall("1", "bash", {"command": "rm", "cwd": "src"})
    dialect = all_dialects()["gemini"]
    shown = dialect.show(call, RunFacts("/p", "/p", "s"))
    assert dialect.take_back(call, shown, answer).args == {"command": "ls", "cwd": "src"}
    assert answer.contexts == ("&lt;b&gt;",)


def test_geminis_refused_request_ends_the_turn() -> None:
    """There is nothing left of the turn without it."""
    assert said("gemini", "BeforeModel", ProgramResult(2, "", "secret in prompt")).stops


@pytest.mark.parametrize("event", ["SessionStart", "PreCompress", "BeforeToolSelection"])
def test_geminis_advisory_events_refuse_nothing(event: str) -> None:
    """What they say about it is not read."""
    answer = said("gemini", event, ProgramResult(0, '{"decision": "deny", "continue": false}'))
    assert (answer.decision, answer.stops) == ("", False)


# --- Codex --------------------------------------------------------------------------------------------


def test_exit_2_denies_in_codex_with_and_without_a_reason() -> None:
    """JSON is not read."""
    allowed = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
    for ran in (ProgramResult(2, allowed), ProgramResult(2, "", "no")):
        assert said("codex", "PreToolUse", ran).decision == "deny"


@pytest.mark.parametrize(
    "given",
    [
        {"metrics": 1},
        {"decision": "approve"},
        {"hookSpecificOutput": {"permissionDecision": "ask"}},
        {"hookSpecificOutput": {"permissionDecision": "allow"}},
        {"hookSpecificOutput": {"updatedInput": {"command": "ls"}}},
    ],
)
def test_codex_refuses_what_it_does_not_know(given: object) -> None:
    """Such a hook has failed."""
    assert said("codex", "PreToolUse", ProgramResult(0, json.dumps(given))).has_failed


def test_codex_takes_a_denial_and_a_rewrite() -> None:
    """In Claude's form."""
    deny = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}
    assert said("codex", "PreToolUse", ProgramResult(0, json.dumps(deny))).reason == "no"
    write = {
        "hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}
    }
    assert said("codex", "PreToolUse", ProgramResult(0, json.dumps(write))).updated_input == {
        "command": "ls"
    }


@pytest.mark.parametrize("text", ["[tool] ready", "ready"])
def test_text_is_context_in_codex(text: str) -> None:
    """Also a banner in brackets, which fails there."""
    assert said("codex", "SessionStart", ProgramResult(0, text)).contexts == (text,)


@pytest.mark.parametrize(
    "given",
    [
        {"continue": False},
        {"hookSpecificOutput": {"permissionDecision": "deny"}},
        {"decision": "block", "reason": 7},
        {"decision": "block", "reason": "no", "metrics": 1},
    ],
)
def test_a_denial_that_codex_does_not_take_is_a_denial(given: object) -> None:
    """There the hook fails, and the call passes."""
    assert said("codex", "PreToolUse", ProgramResult(0, json.dumps(given))).decision == "deny"


# --- Cursor -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", [("user_message", "agent_message"), ("userMessage", "agentMessage")]
)
def test_cursors_permission(keys: tuple[str, str]) -> None:
    """In both spellings of its messages: one for the model, one for the user."""
    text = json.dumps({"permission": "deny", keys[0]: "for you", keys[1]: "for the model"})
    answer = said("cursor", "beforeShellExecution", ProgramResult(0, text))
    assert (answer.decision, answer.reason, answer.messages) == (
        "deny",
        "for the model",
        ("for you",),
    )


def test_cursors_question_is_for_the_user() -> None:
    """Who is to answer it."""
    text = '{"permission": "ask", "user_message": "Push?", "agent_message": "this needs a yes"}'
    answer = said("cursor", "beforeShellExecution", ProgramResult(0, text))
    assert (answer.decision, answer.reason) == ("ask", "Push?")


def test_a_failure_is_reported_with_the_line_that_matters() -> None:
    """After a traceback, and in the middle of what Node prints."""
    node = "node:internal/modules/cjs/loader:1210\n  throw err;\n\nError: Cannot find module 'x'\n  at y"
    assert "Cannot find module" in said("cursor", "stop", ProgramResult(1, "", node)).problem
    python = "Traceback (most recent call last):\n  File 'x'\nKeyError: 'tool_name'\n"
    assert "KeyError: 'tool_name'" in said("claude", "Stop", ProgramResult(1, "", python)).problem
    assert "first" in said("claude", "Stop", ProgramResult(1, "", "first\nsecond")).problem


def test_cursors_prompt_is_refused_and_the_run_is_not_stopped_elsewhere() -> None:
    """`continue: false` at a prompt is about the prompt."""
    answer = said(
        "cursor",
        "beforeSubmitPrompt",
        ProgramResult(0, '{"continue": false, "user_message": "no keys"}'),
    )
    assert (answer.decision, answer.reason, answer.stops) == ("deny", "no keys", False)


def test_cursors_follow_up_sends_the_agent_back() -> None:
    """At a stop."""
    answer = said("cursor", "stop", ProgramResult(0, '{"followup_message": "run the tests"}'))
    assert (answer.decision, answer.reason) == ("deny", "run the tests")


def test_cursors_exit_codes() -> None:
    """2 denies, anything else has failed unless it says no, and so has an answer that is no JSON."""
    assert said("cursor", "preToolUse", ProgramResult(2, "", "no")).decision == "deny"
    assert said("cursor", "preToolUse", ProgramResult(1)).has_failed
    assert said("cursor", "preToolUse", ProgramResult(3, '{"permission": "allow"}')).has_failed
    refusal = said(
        "cursor", "preToolUse", ProgramResult(3, '{"permission": "deny", "user_message": "no"}')
    )
    assert (refusal.decision, refusal.reason) == ("deny", "no")
    assert said("cursor", "preToolUse", ProgramResult(0, "ok")).has_failed
    assert said("cursor", "afterFileEdit", ProgramResult(0, "formatted")).is_silent


# --- Copilot ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1, 2, 3, 127])
def test_a_failing_hook_of_copilot_denies_before_a_tool(code: int) -> None:
    """And only warns elsewhere."""
    assert said("copilot", "preToolUse", ProgramResult(code, "", "broken")).decision == "deny"
    assert said("copilot", "postToolUse", ProgramResult(code, "", "broken")).decision == ""


def test_copilots_answer_may_follow_lines_of_progress() -> None:
    """One object is found among them."""
    text = 'checking...\n{"permissionDecision": "deny", "permissionDecisionReason": "no"}\n'
    assert said("copilot", "preToolUse", ProgramResult(0, text)).reason == "no"


def test_copilots_answer_that_is_no_json_is_no_text() -> None:
    """It has failed, and says so; what is plain text is no answer."""
    for event in ("preToolUse", "postToolUse"):
        answer = said("copilot", event, ProgramResult(0, "checking\n{oops"))
        assert (answer.status, "not exactly one" in answer.problem) == ("unreadable", True)
    assert said("copilot", "preToolUse", ProgramResult(0, "all {fine}")).is_silent


def test_copilots_arguments_may_be_text() -> None:
    """As they were sent."""
    text = json.dumps({"permissionDecision": "allow", "modifiedArgs": '{"command": "ls"}'})
    assert said("copilot", "preToolUse", ProgramResult(0, text)).updated_input == {"command": "ls"}


def test_copilots_denial_says_what_the_hook_printed() -> None:
    """Some print their reason on the wrong stream."""
    assert (
        said("copilot", "preToolUse", ProgramResult(1, "rm is too much\n")).reason
        == "rm is too much"
    )


# --- our own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "decision", "stops"),
    [
        ('{"decision": "block", "reason": "r"}', "deny", False),
        ('{"decision": "allow"}', "allow", False),
        ('{"decision": "ask"}', "ask", False),
        ('{"decision": "proceed"}', "", False),
        ('{"decision": "stop"}', "", True),
        ("plain words", "", False),
        ("", "", False),
    ],
)
def test_our_own_answers(text: str, decision: str, stops: bool) -> None:
    """The words of our outcomes."""
    answer = said("hookline", "before_tool_use", ProgramResult(0, text))
    assert (answer.decision, answer.stops, answer.has_failed) == (decision, stops, False)


@pytest.mark.parametrize(
    "ran",
    [
        ProgramResult(1),
        ProgramResult(3, '{"decision": "allow"}'),
        ProgramResult(0, "{broken"),
        ProgramResult(0, '{"decision": "maybe"}'),
    ],
)
def test_our_own_failures(ran: ProgramResult) -> None:
    """Any exit code but 0 and 2, and JSON that says nothing we know."""
    assert said("hookline", "before_tool_use", ran).has_failed


@pytest.mark.parametrize(
    "text",
    [
        '{"decision": 5}',
        '{"decision": true}',
        '{"decision": ["block"], "reason": "no"}',
        '{"hookSpecificOutput": "deny"}',
        '{"hookSpecificOutput": {"permissionDecision": 2}}',
        '{"hookSpecificOutput": {"permissionDecision": "dney"}}',
        '{"continue": "false"}',
        '{"updated_input": "ls"}',
        '{"verdict": "block", "reason": "no"}',
        'checking ...\n{"decision": "block", "reason": "no"}\n',
    ],
)
def test_an_answer_of_ours_that_might_be_a_refusal_is_never_passed_over(text: str) -> None:
    """What cannot be understood is a failure, which keeps things from happening."""
    assert said("hookline", "before_tool_use", ProgramResult(0, text)).has_failed


@pytest.mark.parametrize(
    "text",
    ["", "all is well", "{}", '{"decision": null}', '{"message": "hm", "metrics": {"a": 1}}'],
)
def test_an_answer_of_ours_may_say_nothing(text: str) -> None:
    """Text, an object without a field, and fields that are not known beside one that is."""
    answer = said("hookline", "before_tool_use", ProgramResult(0, text))
    assert (answer.has_failed, answer.decision) == (False, "")


def test_of_two_decisions_in_one_answer_of_ours_the_stricter_counts() -> None:
    """Wherever in the object it stands."""
    specific = {"permissionDecision": "allow"}
    text = json.dumps({"decision": "block", "reason": "no", "hookSpecificOutput": specific})
    assert said("hookline", "before_tool_use", ProgramResult(0, text)).decision == "deny"
