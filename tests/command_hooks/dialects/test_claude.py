"""Claude's dialect: the table of exit codes and output, and what is done with each field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline.command_hooks import Handler, HookSource
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import UNCHANGED, ProgramAnswer, ProgramResult
from hookline.command_hooks.runner import read_reply

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
    """At two events what a hook prints is told to the model."""
    assert said(event, ProgramResult(0, "the branch is main\n")).contexts == ("the branch is main",)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop", "SessionEnd"])
def test_plain_text_is_nothing_elsewhere(event: str) -> None:
    """At the others it goes to nobody."""
    assert said(event, ProgramResult(0, "checked 3 files")).is_silent


@pytest.mark.parametrize(
    "text", ['[{"decision":"block"}]', '"block"', 'Welcome!\n{"decision":"block"}', "{broken"]
)
def test_only_an_object_that_begins_the_output_is_json(text: str) -> None:
    """A list, a string, or anything after a banner is plain text."""
    assert said("PreToolUse", ProgramResult(0, text)).decision == ""


@pytest.mark.parametrize("text", ['{"decision": block}', '{"a":1}\n{"decision":"block"}', "{{x}}"])
def test_what_begins_and_ends_like_an_object_and_is_none_is_a_failure(text: str) -> None:
    """It is told, and never read to the model as text; exit 2 blocks all the same."""
    assert (
        said("SessionStart", ProgramResult(0, text)).status,
        said("Stop", ProgramResult(1, text)).status,
    ) == (
        "failed",
        "failed",
    )
    assert said("PreToolUse", ProgramResult(2, text, "no")).reason == "no"


@pytest.mark.parametrize("text", ['{"level":"info"}\n{"level":"warn"}', "{curly} and more"])
def test_a_log_of_objects_and_an_opening_brace_alone_are_text(text: str) -> None:
    """None of the lines answers anything."""
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


def test_exit_2_where_nothing_can_be_blocked_is_told_to_the_user() -> None:
    """At the start of a session, say."""
    answer = said("SessionStart", ProgramResult(2, "", "no network"))
    assert (answer.decision, answer.messages) == ("", ("no network",))


def test_exit_2_after_a_tool_is_feedback() -> None:
    """It is told to the model, which has the result too."""
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
    """The first line of what it said is told."""
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
    """None is a replacement, and no replacement is none."""
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
    """Allowed with other arguments, or denied for good."""
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
    event = next(event for event, point in speaks.points.items() if point == "before_tool_use")
    ran = ProgramResult(None, '{"decision": "approve"}', problem=problem, detail="3 s")
    answer = read_reply(speaks, Handler(HookSource(dialect), event), ran)
    if dialect in ("copilot", "vscode") and problem == "spawn_error":
        assert answer.decision == "deny"
    else:
        assert (answer.status, answer.decision) == (status, "")
