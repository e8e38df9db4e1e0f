"""Copilot's hooks: its files, the input of its hooks, and both forms of its answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_results import tool_texts

from hookline import HookOutcome, RunStatus
from hookline.command_hooks import Handler, HookSource, Level
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import HookSearch, ProgramAnswer, ProgramResult
from hookline.command_hooks.replies import read_reply
from hookline.testing import call, say

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
PROGRESS = json.dumps({"type": "progress", "message": "checking", "temporary": True})
DENY = json.dumps({"permissionDecision": "deny", "permissionDecisionReason": "not here"})


def said(event: str, ran: ProgramResult, dialect: str = "copilot") -> ProgramAnswer:
    """What the end of a program means at an event."""
    return read_reply(all_dialects()[dialect], Handler(HookSource(dialect), event), ran)


def hook_file(**hooks: Any) -> dict[str, Any]:
    """A file in Copilot's form."""
    return {"version": 1, "hooks": hooks}


# --- files --------------------------------------------------------------------------------------------


def test_hooks_in_settings_of_the_user_and_of_the_repository(stage: Any) -> None:
    """Beside the directories of hook files; those of a repository that are not committed are local."""
    entry = hook_file(preToolUse=[{"bash": "true"}])
    stage.file(".copilot/settings.json", entry, home=True)
    stage.file(".github/copilot/settings.json", entry)
    stage.file(".github/copilot/settings.local.json", entry)
    found = stage.discover()
    levels = [handler.source.level for handler in found.handlers]
    assert levels == [Level.USER, Level.PROJECT, Level.LOCAL]


def test_the_users_directory_may_be_elsewhere(
    stage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a variable of Copilot says, for the user's own home."""
    monkeypatch.setenv("HOME", str(stage.home))
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path / "moved"))
    (tmp_path / "moved" / "hooks").mkdir(parents=True)
    file = tmp_path / "moved" / "hooks" / "one.json"
    file.write_text(json.dumps(hook_file(sessionStart=[{"bash": "true"}])))
    assert [h.source.path for h in stage.discover().handlers] == [str(file)]


def test_a_repository_switches_off_only_its_own(stage: Any) -> None:
    """And a user theirs and the repository's."""
    entry = hook_file(preToolUse=[{"bash": "true"}])
    stage.file(".copilot/hooks/a.json", entry, home=True)
    stage.file(".github/hooks/a.json", entry)
    stage.file(".github/copilot/settings.json", {"disableAllHooks": True})
    assert [h.source.level for h in stage.discover().handlers] == [Level.USER]
    stage.file(".copilot/settings.json", {"disableAllHooks": True}, home=True)
    assert stage.discover().handlers == ()


def test_policies_are_the_administrators(stage: Any, tmp_path: Path) -> None:
    """A file that others can write is ignored, and this is reported."""
    directory = tmp_path / "etc" / "github-copilot" / "policy.d"
    directory.mkdir(parents=True)
    path = directory / "p.json"
    path.write_text(json.dumps(hook_file(preToolUse=[{"bash": "true"}])))
    path.chmod(0o666)
    texts: list[str] = []
    search = HookSearch(stage.root, stage.home, texts.append, system=tmp_path / "etc")
    assert list(all_dialects()["copilot"].find(search)) == []
    assert "can write it" in texts[0]


def test_plugins_bring_hooks(stage: Any) -> None:
    """They know where they are, and run in the project."""
    root = ".copilot/installed-plugins/market/guard"
    command = 'cat "$PLUGIN_ROOT/no" >&2; exit 2'
    stage.file(f"{root}/hooks/hooks.json", hook_file(preToolUse=[{"command": command}]), home=True)
    stage.file(f"{root}/no", "the plugin says no", home=True)
    result = stage.run(stage.discover())
    assert tool_texts(result) == ["Blocked: the plugin says no"]


def test_of_several_manifests_the_one_with_hooks_counts(stage: Any) -> None:
    """A plugin for several agents may have its hooks in any of them."""
    root = ".copilot/installed-plugins/market/guard"
    stage.file(f"{root}/plugin.json", {"name": "guard"}, home=True)
    hooks = {"preToolUse": [{"command": "echo no >&2; exit 2"}]}
    stage.file(f"{root}/.claude-plugin/plugin.json", {"name": "guard", "hooks": hooks}, home=True)
    assert tool_texts(stage.run(stage.discover())) == ["Blocked: no"]


def test_a_program_with_arguments_needs_no_shell(stage: Any) -> None:
    """What would mean something to a shell does not."""
    stage.file(
        ".github/hooks/a.json",
        hook_file(preToolUse=[{"exec": "printf", "args": ["%s", DENY + " $(no)"]}]),
    )
    (handler,) = stage.discover().handlers
    assert handler.argv == ("printf", "%s", DENY + " $(no)")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"version": 2, "hooks": {"preToolUse": [{"bash": "true"}]}}, "version 2 is not known"),
        (
            hook_file(sessionStart=[{"type": "prompt", "prompt": "hi"}]),
            "a prompt is for interactive sessions",
        ),
        (hook_file(preToolUse=[{"powershell": "x"}]), "no command for this machine"),
    ],
)
def test_what_is_not_read_is_reported(stage: Any, content: dict[str, Any], words: str) -> None:
    """Each with the reason."""
    stage.file(".github/hooks/a.json", content)
    found = stage.discover()
    assert found.handlers == ()
    assert any(words in warning for warning in found.warnings)


def test_hooks_in_groups(stage: Any) -> None:
    """As in Claude's files, with the group's matcher, also for events in camel case."""
    group = {"matcher": "bash", "hooks": [{"type": "command", "bash": "true", "timeoutSec": 3}]}
    stage.file(".github/hooks/a.json", hook_file(preToolUse=[group]))
    (handler,) = stage.discover().handlers
    assert (handler.matcher, handler.timeout, handler.shell) == ("bash", 3.0, "bash")


# --- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["copilot", "vscode"])
def test_lines_of_progress_are_no_answer(dialect: str) -> None:
    """Neither before a call nor without one."""
    event = "preToolUse" if dialect == "copilot" else "PreToolUse"
    answer = said(event, ProgramResult(0, f"{PROGRESS}\n{PROGRESS}\n{DENY}\n"), dialect)
    assert (answer.decision, answer.reason) == ("deny", "not here")
    assert said(event, ProgramResult(0, f"{PROGRESS}\n"), dialect).is_silent


def test_what_to_do_after_a_failure() -> None:
    """With exit code 2 the model reads what the hook printed; otherwise it is a warning to the user."""
    assert said("postToolUseFailure", ProgramResult(2, "run it again with -v\n")).contexts == (
        "run it again with -v",
    )
    assert said("postToolUse", ProgramResult(2, "", "careful")).messages == ("careful",)


def test_a_refused_permission_may_end_the_run(stage: Any) -> None:
    """If the hook says so."""
    answer = {"behavior": "deny", "message": "enough", "interrupt": True}
    stage.file(
        ".github/hooks/a.json",
        hook_file(permissionRequest=[{"bash": f"echo '{json.dumps(answer)}'"}]),
    )
    result = stage.run(
        stage.discover(), on_before_tool_use=lambda ctx: HookOutcome.ask("sure?")
    )  # fmt: skip
    assert (result.status, result.text) == (RunStatus.STOPPED, "")


@needs_jq
def test_a_prompt_is_rewritten_for_the_model(stage: Any) -> None:
    """By the event that is about what the model gets."""
    command = "jq -c '{modifiedTransformedPrompt: (.transformedPrompt + \", briefly\")}'"
    stage.file(".github/hooks/a.json", hook_file(userPromptTransformed=[{"bash": command}]))
    result = stage.run(stage.discover(), say("done"), prompt="explain it")
    assert result.state.messages[0].text == "explain it, briefly"


@needs_jq
def test_paths_are_as_the_model_wrote_them(stage: Any) -> None:
    """Guards there look at how a path begins."""
    only = "jq -e '.toolArgs | fromjson | .path | startswith(\"src/\")' >/dev/null || exit 3"
    stage.file(".github/hooks/a.json", hook_file(preToolUse=[{"bash": only, "matcher": "create"}]))
    result = stage.run(
        stage.discover(),
        call("write", path="src/a", content="x"),
        call("write", path="lib/a", content="x"),
        say("done"),
    )
    assert [text.split(":")[0] for text in tool_texts(result)] == ["wrote src/a", "Blocked"]


# --- events in Pascal case ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        {"permissionDecision": "deny", "permissionDecisionReason": "not here"},
        {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}},
        {"decision": "block", "reason": "not here"},
    ],
)  # fmt: skip
def test_a_refusal_in_the_words_of_either(stage: Any, answer: dict[str, Any]) -> None:
    """Copilot has them at the top, Claude inside."""
    entry = {"type": "command", "command": f"cat > /dev/null; echo '{json.dumps(answer)}'"}
    stage.file(".github/hooks/a.json", hook_file(PreToolUse=[{**entry, "matcher": "Bash"}]))
    assert tool_texts(stage.run(stage.discover())) == ["Blocked: not here"]


@pytest.mark.parametrize(
    ("dialect", "event"), [("copilot", "preToolUse"), ("vscode", "PreToolUse")]
)
def test_a_failing_guards_words_are_the_reason(dialect: str, event: str) -> None:
    """On whichever output it says them."""
    assert said(event, ProgramResult(1, "plans only\n"), dialect).reason == "plans only"
    assert said(event, ProgramResult(1, "looking\n", "plans only"), dialect).reason == "plans only"


@needs_jq
@pytest.mark.parametrize("is_inside", [True, False])
def test_an_objection_to_the_end_in_the_words_of_either(stage: Any, is_inside: bool) -> None:
    """VS Code has it inside, Claude and Copilot at the top."""
    no = {"decision": "block", "reason": "sum it up"}
    answer = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "Stop", **no}} if is_inside else no
    )
    command = f"jq -e .stop_hook_active >/dev/null || echo '{answer}'"
    stage.file(".github/hooks/a.json", hook_file(Stop=[{"command": command}]))
    result = stage.run(stage.discover(), say("done"), say("in short: done"))
    assert result.text == "in short: done"


def test_input_that_is_changed_in_copilots_words(stage: Any) -> None:
    """Under the names that the hook was shown."""
    answer = {"permissionDecision": "allow", "modifiedArgs": {"command": "ls -l"}}
    entry = {"command": f"echo '{json.dumps(answer)}'"}
    stage.file(".github/hooks/a.json", hook_file(PreToolUse=[entry]))
    assert tool_texts(stage.run(stage.discover())) == ["ran ls -l"]


@pytest.mark.parametrize(
    ("ran", "decision"),
    [
        (ProgramResult(1, "", "broken"), "deny"),
        (ProgramResult(2, json.dumps({"permissionDecision": "allow"}), "no"), "deny"),
        (ProgramResult(0, json.dumps({"permissionDecision": 3})), "deny"),
        (ProgramResult(None, problem="spawn_error", detail="no such program"), "deny"),
        (ProgramResult(None, problem="timeout", detail="3 s"), ""),
    ],
)
def test_a_guard_that_fails_denies_and_one_that_is_late_does_not(
    ran: ProgramResult, decision: str
) -> None:
    """As in the other form."""
    assert said("PreToolUse", ran, "vscode").decision == decision


@pytest.mark.parametrize(
    ("matcher", "fires"),
    [("**", True), ("Bash", True), ("bash", True), ("Bas.", True), ("Bas", False), ("B.s", False), ("Edit|Bash", True)],
)  # fmt: skip
def test_matchers_of_events_in_pascal_case(matcher: str, fires: bool) -> None:
    """Exact names, of either; a regular expression is for the whole of one."""
    handler = Handler(HookSource("vscode"), "PreToolUse", matcher=matcher)
    assert all_dialects()["vscode"].matcher(handler)(("Bash", "bash")) is fires


def test_what_copilot_adds_to_claudes_events(stage: Any) -> None:
    """The time, and the result under its own name."""
    log = stage.root / "log"
    entries = {"PostToolUse": [{"command": f"cat >> {log}"}], "Stop": [{"command": f"cat >> {log}"}]}  # fmt: skip
    stage.file(".github/hooks/a.json", hook_file(**entries))
    stage.run(stage.discover())
    after, stop = map(json.loads, log.read_text().splitlines())
    assert after["timestamp"].endswith("Z")
    assert after["tool_name"] == "Bash"
    assert after["tool_result"] == {"result_type": "success", "text_result_for_llm": "ran ls"}
    assert (stop["stop_reason"], stop["stop_hook_active"]) == ("end_turn", False)


@pytest.mark.parametrize("event", ["errorOccurred", "ErrorOccurred"])
def test_an_error_is_sent_in_either_form(stage: Any, event: str) -> None:
    """What it was, and where it happened."""
    log = stage.root / "log"
    stage.file(".github/hooks/a.json", hook_file(**{event: [{"bash": f"cat > {log}"}]}))
    result = stage.run(stage.discover(), RuntimeError("the model is gone"))
    assert result.status is RunStatus.FAILED
    sent = json.loads(log.read_text())
    where = sent["errorContext" if event == "errorOccurred" else "error_context"]
    assert "the model is gone" in sent["error"]["message"]
    assert where in ("model_call", "system")


@pytest.mark.parametrize("event", ["permissionRequest", "PermissionRequest"])
def test_permissions_are_refused_also_where_nobody_would_be_asked(stage: Any, event: str) -> None:
    """It comes before all rules there; what only reads needs none."""
    answer = json.dumps({"behavior": "deny", "message": "not by me"})
    stage.file(".github/hooks/a.json", hook_file(**{event: [{"bash": f"echo '{answer}'"}]}))
    result = stage.run(
        stage.discover(), call("write", path="a", content="x"), call("read", path="a"), say("done")
    )
    assert tool_texts(result) == ["Blocked: not by me", "content of a"]


@pytest.mark.parametrize("event", ["permissionRequest", "PermissionRequest"])
def test_a_permission_is_given_once(stage: Any, event: str) -> None:
    """The hook is not run a second time when somebody else asks, and its yes answers the question."""
    log = stage.root / "log"
    allow = f'echo asked >> {log}; echo \'{{"behavior": "allow"}}\''
    stage.file(".github/hooks/a.json", hook_file(**{event: [{"bash": allow}]}))
    result = stage.run(
        stage.discover(), on_permission_request=lambda ctx: None, on_before_tool_use=_asks
    )
    assert tool_texts(result) == ["ran ls"]
    assert log.read_text().splitlines() == ["asked"]


def _asks(ctx: Any) -> HookOutcome:
    return HookOutcome.ask("sure?")
