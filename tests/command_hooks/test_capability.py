"""Whole runs under hooks of Claude's dialect: what each answer does at each point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hook_commands import as_json, holds, printing
from run_results import message_texts

from hookline import AgentBuilder, Decision, HookOutcome, HookPoint, RunStatus, StopReason, tool
from hookline.capabilities import Subagent, Subagents, Summarization
from hookline.errors import BuildError
from hookline.journal import HookRan
from hookline.testing import ScriptedDriver, call, calls, say

NAME = printing('event["hook_event_name"]')
FAILURE = printing('event["hook_event_name"], event.get("error") or event.get("reason")')


def answering(**fields: Any) -> str:
    """A command that answers with these fields, whatever happens."""
    return f"cat > /dev/null; printf '%s' '{json.dumps(fields)}'"


def before(**fields: Any) -> str:
    """A command that answers before a tool."""
    return answering(hookSpecificOutput={"hookEventName": "PreToolUse", **fields})


def verdicts(result: Any, point: str = "before_tool_use") -> list[tuple[str, str]]:
    """What hooks decided at a point, with their reasons."""
    return [
        (r.verdict, r.reason) for r in result.records if isinstance(r, HookRan) and r.point == point
    ]


def test_a_deny_blocks_and_the_model_reads_the_reason(stage: Any) -> None:
    """The journal has it under the name of file and command."""
    hooks = stage.claude("PreToolUse", "echo 'not on my watch' >&2; exit 2", matcher="Bash")
    result = stage.run(hooks)
    assert "Blocked: not on my watch" in message_texts(result)
    (record,) = [r for r in result.records if isinstance(r, HookRan) and r.verdict == "block"]
    assert record.hook == ".claude/settings.json: echo 'not on my watch' >&2; exit 2"
    assert result.status is RunStatus.COMPLETED


def test_hooks_for_other_tools_are_not_asked(stage: Any) -> None:
    """By the names that the scripts know."""
    result = stage.run(stage.claude("PreToolUse", "exit 2", matcher="Write|Edit"))
    assert "ran ls" in message_texts(result)


def test_a_rewrite_is_validated_and_judged_again(stage: Any) -> None:
    """Policies see what will run."""
    seen = []
    hooks = stage.claude(
        "PreToolUse", before(permissionDecision="allow", updatedInput={"command": "ls -l"})
    )
    driver = ScriptedDriver([call("bash", command="ls"), say("done")])
    agent = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(*stage.tools)
        .with_capability(hooks)
        .on_before_tool_use(lambda ctx: seen.append(ctx.tool_call.args["command"]), tier="policy")
        .build()
    )
    assert "ran ls -l" in message_texts(agent.run_sync("go"))
    assert seen == ["ls -l"]


def test_a_rewrite_that_does_not_fit_blocks(stage: Any) -> None:
    """It never runs as it was instead."""
    hooks = stage.claude("PreToolUse", before(permissionDecision="allow", updatedInput={"cmd": 1}))
    result = stage.run(hooks)
    assert "cannot run" in message_texts(result)[2]


def test_an_allow_lifts_the_ask_of_a_hook_and_not_of_a_policy(stage: Any) -> None:
    """It only says that nobody needs to be asked."""
    hooks = stage.claude("PreToolUse", before(permissionDecision="allow"))
    asks = lambda ctx: HookOutcome.ask("sure?")  # noqa: E731 - a hook on one line
    assert stage.run(hooks, on_before_tool_use=asks).status is RunStatus.COMPLETED
    driver = ScriptedDriver([call("bash", command="ls"), say("done")])
    agent = (
        AgentBuilder().with_driver(driver).with_tools(*stage.tools).with_capability(stage.discover())
        .on_before_tool_use(asks, tier="policy").build()
    )  # fmt: skip
    assert agent.run_sync("go").status is RunStatus.PAUSED


@pytest.mark.parametrize("decision", ["ask", "defer"])
def test_an_ask_waits_for_a_person(stage: Any, decision: str) -> None:
    """The name of the hook that asked is shown."""
    hooks = stage.claude(
        "PreToolUse", before(permissionDecision=decision, permissionDecisionReason="prod")
    )
    result = stage.run(hooks)
    assert result.status is RunStatus.PAUSED
    (pending,) = result.state.pending
    assert pending.reason == "prod"
    assert pending.asked_by.startswith(".claude/settings.json")
    assert stage.run(hooks, with_approver=lambda asked: True).status is RunStatus.COMPLETED


def test_context_is_added_after_the_result(stage: Any) -> None:
    """Labelled with the name of the hook."""
    result = stage.run(stage.claude("PreToolUse", before(additionalContext="mind the gap")))
    assert message_texts(result)[2] == "ran ls"
    assert message_texts(result)[3].startswith('<hook name=".claude/settings.json')
    assert "\nmind the gap\n</hook>" in message_texts(result)[3]
    assert result.state.messages[3].by.startswith(".claude/settings.json")


def test_continue_false_ends_the_run(stage: Any) -> None:
    """Whatever else is said."""
    hooks = stage.claude(
        "PreToolUse", "exit 2", answering(**{"continue": False, "stopReason": "enough"})
    )
    result = stage.run(hooks)
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.HOOK)
    assert "enough" in result.explain()


def test_all_hooks_run_when_one_denies(stage: Any) -> None:
    """A deny does not stop the other hooks, and their text for the model is not lost."""
    mark = stage.root / "mark"
    hooks = stage.claude(
        "PreToolUse", "echo no >&2; exit 2", f"touch {mark}; {before(additionalContext='also')}"
    )
    result = stage.run(hooks)
    assert mark.exists()
    assert any("also" in text for text in message_texts(result))
    assert result.state.metadata["hookline.command_hooks"]["also"][0]["said"] == "completed"


def test_a_failing_hook_is_reported_and_does_not_block(stage: Any) -> None:
    """In Claude's dialect; the journal has what was wrong."""
    result = stage.run(stage.claude("PreToolUse", "echo 'no such file' >&2; exit 1"))
    assert "ran ls" in message_texts(result)
    assert verdicts(result) == [("failed", "it ended with exit code 1: no such file")]


def test_a_source_can_be_made_to_fail_closed(stage: Any) -> None:
    """Then a guard that is broken keeps things from happening."""
    stage.claude("PreToolUse", "/no/such/guard.sh")
    result = stage.run(stage.discover(on_failure="closed"))
    assert "so this is not let through" in message_texts(result)[2]


def test_a_prompt_is_refused(stage: Any) -> None:
    """It never enters the conversation."""
    refuse = holds('"secret" in event["prompt"]') + " && { echo no >&2; exit 2; } || true"
    hooks = stage.claude("UserPromptSubmit", refuse)
    result = stage.run(hooks, say("hi"), prompt="my secret")
    assert (result.stop_reason, message_texts(result)) == (StopReason.PROMPT_REFUSED, [])
    assert stage.run(hooks, say("hi"), prompt="hello").text == "hi"


def test_a_prompt_gets_context(stage: Any) -> None:
    """From plain text too."""
    result = stage.run(stage.claude("UserPromptSubmit", "echo today is Monday"), say("hi"))
    assert "today is Monday" in message_texts(result)[0]
    assert message_texts(result)[1] == "go"


def test_a_session_can_be_refused(stage: Any) -> None:
    """With `continue: false`: nothing is begun."""
    result = stage.run(
        stage.claude("SessionStart", answering(**{"continue": False, "stopReason": "not now"}))
    )
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 0)
    assert "not now" in result.explain()


def test_a_session_starts_with_context(stage: Any) -> None:
    """Called before the first prompt; the matcher compares how the session began."""
    hooks = stage.claude("SessionStart", "echo the branch is main", matcher="startup")
    assert "the branch is main" in message_texts(stage.run(hooks, say("hi")))[0]
    hooks = stage.claude("SessionStart", "echo the branch is main", matcher="resume|clear")
    assert message_texts(stage.run(hooks, say("hi")))[0] == "go"


def test_feedback_after_a_tool_is_added_to_the_result(stage: Any) -> None:
    """The result is not taken away."""
    result = stage.run(
        stage.claude("PostToolUse", "echo 'lint: 2 errors' >&2; exit 2", matcher="Bash")
    )
    assert message_texts(result)[2] == "ran ls"
    assert "lint: 2 errors" in message_texts(result)[3]


def test_output_is_replaced(stage: Any) -> None:
    """By what the hook says the tool gave."""
    hooks = stage.claude(
        "PostToolUse", answering(hookSpecificOutput={"updatedToolOutput": "hidden"})
    )
    assert message_texts(stage.run(hooks))[2] == "hidden"


def test_a_tool_that_failed_is_another_event(stage: Any) -> None:
    """A blocked call is no failure."""
    log = stage.root / "log"
    stage.file(".claude/settings.json", {"hooks": {
        event: [{"hooks": [{"type": "command", "command": NAME + f" >> {log}"}]}]
        for event in ("PostToolUse", "PostToolUseFailure")
    }})  # fmt: skip

    def fails(path: str) -> str:
        """Fail."""
        raise ValueError("broken")

    stage.run(
        stage.discover(),
        calls(call("fails", path="x"), call("bash", command="ls")),
        say("x"),
        with_tools=fails,
    )
    assert log.read_text().split() == ["PostToolUseFailure", "PostToolUse"]


def test_a_batch_is_reported_once_for_a_step(stage: Any) -> None:
    """With all its calls, and only if there were any; it can end the run."""
    log = stage.root / "log"
    hooks = stage.claude(
        "PostToolBatch",
        as_json('[each["tool_name"] for each in event["tool_calls"]]') + f" >> {log}",
    )
    stage.run(hooks, calls(call("bash", command="a"), call("read", path="b")), say("done"))
    assert json.loads(log.read_text()) == ["Bash", "Read"]
    result = stage.run(stage.claude("PostToolBatch", answering(decision="block", reason="enough")))
    assert (result.status, result.state.step_count) == (RunStatus.STOPPED, 1)


def test_a_stop_is_objected_to_until_the_hook_is_content(stage: Any) -> None:
    """Its input says when it has objected before."""
    hooks = stage.claude(
        "Stop", holds('event["stop_hook_active"]') + " || { echo 'run the tests' >&2; exit 2; }"
    )
    result = stage.run(hooks, say("done"), say("tested"))
    assert result.text == "tested"
    assert message_texts(result)[2] == "run the tests"


def test_an_endless_objection_ends_with_the_cap(stage: Any) -> None:
    """A hook that ignores its earlier objections does not keep the run alive forever."""
    result = stage.run(stage.claude("Stop", "exit 2"), *[say(str(n)) for n in range(12)])
    assert result.state.step_count == 9
    assert result.status is not RunStatus.FAILED


def test_a_permission_request_is_answered_by_a_hook(stage: Any) -> None:
    """Nobody else is asked then."""
    asks = lambda ctx: HookOutcome.ask("sure?")  # noqa: E731 - a hook on one line
    allow = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    hooks = stage.claude("PermissionRequest", answering(hookSpecificOutput=allow), matcher="Bash")
    assert "ran ls" in message_texts(stage.run(hooks, on_before_tool_use=asks))
    deny = {
        "hookEventName": "PermissionRequest",
        "decision": {"behavior": "deny", "message": "never"},
    }
    hooks = stage.claude("PermissionRequest", answering(hookSpecificOutput=deny))
    assert "Denied: never" in message_texts(stage.run(hooks, on_before_tool_use=asks))
    edit = {"decision": {"behavior": "allow", "updatedInput": {"command": "ls -l"}}}
    hooks = stage.claude("PermissionRequest", answering(hookSpecificOutput=edit))
    assert "ran ls -l" in message_texts(stage.run(hooks, on_before_tool_use=asks))


def test_people_are_notified_of_what_nobody_answered(stage: Any) -> None:
    """Once, when a person is about to be asked."""
    log = stage.root / "log"
    hooks = stage.claude(
        "Notification", printing('event["message"]') + f" >> {log}", matcher="permission_prompt"
    )
    asks = lambda ctx: HookOutcome.ask("sure?")  # noqa: E731 - a hook on one line
    stage.run(hooks, on_before_tool_use=asks, with_approver=lambda asked: Decision.allow())
    assert "Bash" in log.read_text()


def test_a_session_ends_on_every_way_out(stage: Any) -> None:
    """Also when the run is lost, of which there is an event of its own."""
    log = stage.root / "log"
    stage.file(".claude/settings.json", {"hooks": {
        event: [{"hooks": [{"type": "command", "command": FAILURE + f" >> {log}"}]}]
        for event in ("SessionEnd", "StopFailure", "Stop")
    }})  # fmt: skip
    result = stage.run(stage.discover(), RuntimeError("lost"))
    assert result.status is RunStatus.FAILED
    assert log.read_text().split() == ["StopFailure", "unknown", "SessionEnd", "other"]


def test_messages_to_the_user_are_in_the_journal(stage: Any) -> None:
    """As the reason of a hook that let things be."""
    result = stage.run(stage.claude("PreToolUse", answering(systemMessage="checked")))
    assert verdicts(result) == [("proceed", "checked")]


def test_explain_shows_every_hook(stage: Any) -> None:
    """With its file, its command and its matcher, and for a call whether it would be asked."""
    hooks = stage.claude("PreToolUse", "./guard.sh", matcher="Bash", **{"if": "Bash(git *)"})
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([]))
        .with_tools(*stage.tools)
        .with_capability(hooks)
        .build()
    )
    shown = agent.explain()
    assert "PreToolUse Bash" in shown
    assert "command-hooks" in shown
    assert "no match: PreToolUse" in agent.explain("bash", command="ls")
    assert "no match: PreToolUse" not in agent.explain("bash", command="git push")


@pytest.mark.parametrize(
    ("rule", "command", "asked"),
    [
        ("Bash(git *)", "git push", True),
        ("Bash(git *)", "ls", False),
        ("Bash(git *)", "cd x && git push", True),
        ("Bash(git *)", "FOO=1 git push", True),
        ("Bash(git *)", "echo $(git status)", True),
        ("Bash(git *)", "echo `git status`", True),
        ("Bash(rm *)", "ls; rm x", True),
        ("Bash(git push *)", "git status", False),
        ("Read(**)", "git status", False),
        ("Bash(git *)", "echo 'a; git push'", False),
        ("Bash(git *)", "echo 'unclosed", True),
        ("Bash(git *)", "echo (((", True),
        ("Bash(git *)", "for f in *; do git add $f; done", True),
        ("Write(**)", "echo 'unclosed", False),
    ],
)
def test_if_rules(stage: Any, rule: str, command: str, asked: bool) -> None:
    """Each command of a line counts, and what is inside of others."""
    hooks = stage.claude("PreToolUse", "exit 2", **{"if": rule})
    result = stage.run(hooks, call("bash", command=command), say("done"))
    assert message_texts(result)[2].startswith("Blocked" if asked else "ran") is True


def test_hooks_in_our_own_form(stage: Any) -> None:
    """Our names, our points, and a failure that keeps things from happening."""
    guard = {
        "on": "before_tool_use",
        "matcher": "bash",
        "command": holds('event["tool_input"]["command"] != "rm"') + " || exit 2",
    }
    assert "ran ls" in message_texts(stage.run(stage.hooks(guard)))
    blocked = stage.run(stage.hooks(guard), call("bash", command="rm"), say("done"))
    assert message_texts(blocked)[2].startswith("Blocked")
    broken = stage.run(stage.hooks({"on": "before_tool_use", "argv": ["/no/such"]}))
    assert "so this is not let through" in message_texts(broken)[2]
    lenient = stage.hooks({"on": "before_tool_use", "argv": ["/no/such"], "on_failure": "open"})
    assert "ran ls" in message_texts(stage.run(lenient))


@pytest.mark.parametrize("point", [p.value for p in HookPoint if not p.around])
def test_our_own_hooks_are_asked_at_every_point(stage: Any, point: str) -> None:
    """Each input names its event."""
    log = stage.root / "log"
    hooks = stage.hooks({"on": point, "command": printing('event["point"]') + f" >> {log}"})
    asks = lambda ctx: HookOutcome.ask("sure?")  # noqa: E731 - a hook on one line
    turns = [RuntimeError("lost")] if point in ("error", "agent_failed") else []
    stage.run(hooks, *turns, on_before_tool_use=asks, with_approver=lambda asked: True)
    if point not in ("subagent_start", "subagent_stop", "before_compact"):
        assert set(log.read_text().split()) == {point}


def test_wrong_use_is_reported(tmp_path: Path) -> None:
    """When the capability is made."""
    from hookline.command_hooks import CommandHooks

    with pytest.raises(BuildError, match="not a list"):
        CommandHooks({"on": "stop", "command": "x"})  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="no directory"):
        CommandHooks([], project=tmp_path / "gone")


# --- with other capabilities ----------------------------------------------------------------------------


@tool(effect="pure")
def look(room: str) -> str:
    """Look into a room."""
    return f"in the {room}: " + "dust " * 100


def looking(hooks: Any) -> Any:
    """A run whose conversation outgrows its budget."""
    rooms = [call("look", room=room) for room in ("attic", "barn", "cellar", "den")]
    summaries = Summarization(500, keep_tokens=200, model=ScriptedDriver([say("only dust")] * 9))
    builder = AgentBuilder().with_driver(ScriptedDriver([*rooms, say("done")])).with_tools(look)
    return builder.with_capability(summaries).with_capability(hooks).build().run_sync("go")


def test_a_hook_before_a_summary(stage: Any) -> None:
    """It is called, and can keep the conversation as it is."""
    log = stage.root / "log"
    result = looking(stage.claude("PreCompact", f"cat >> {log}", matcher="auto"))
    sent = json.loads(log.read_text().splitlines()[0])
    assert (sent["hook_event_name"], sent["trigger"]) == ("PreCompact", "auto")
    assert result.state.metadata["summaries"]["count"] == 1
    result = looking(stage.claude("PreCompact", "echo keep it >&2; exit 2"))
    assert result.state.metadata.get("summaries", {}).get("count", 0) == 0


def test_hooks_after_a_summary(stage: Any) -> None:
    """They are called once for each, and may remind the model of what it needs."""
    log = stage.root / "log"
    entry = {"type": "command", "command": f"cat >> {log}; echo Mind the dust."}
    events = {"PostCompact": "auto", "SessionStart": "compact|resume"}
    hooks = {event: [{"matcher": m, "hooks": [entry]}] for event, m in events.items()}
    stage.file(".claude/settings.json", {"hooks": hooks})
    result = looking(stage.discover())
    assert result.state.metadata["summaries"]["count"] == 1
    start, after = [json.loads(line) for line in log.read_text().splitlines()]
    assert (start["hook_event_name"], start["source"]) == ("SessionStart", "compact")
    assert (after["hook_event_name"], after["trigger"]) == ("PostCompact", "auto")
    assert "only dust" in after["compact_summary"]
    assert sum("Mind the dust." in message.text for message in result.state.messages) == 1


def test_nothing_happens_after_a_summary_that_was_not_made(stage: Any) -> None:
    """Nor where a hook is for the beginning of sessions only."""
    again = [{"hooks": [{"type": "command", "command": "cat >> again"}]}]
    refuse = [{"hooks": [{"type": "command", "command": "exit 2"}]}]
    hooks = {
        "PreCompact": refuse,
        "PostCompact": again,
        "SessionStart": [{**again[0], "matcher": "compact"}],
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    looking(stage.discover())
    assert not (stage.root / "again").exists()
    stage.file(
        ".claude/settings.json", {"hooks": {"SessionStart": [{**again[0], "matcher": "startup"}]}}
    )
    assert stage.discover().at("before_inference") == ()


def test_hooks_for_subagents(stage: Any) -> None:
    """Their start has the name of the subagent; the tool has the name that scripts know."""
    log = stage.root / "log"
    events = {"PreToolUse": "Task", "SubagentStart": "researcher", "SubagentStop": "researcher"}
    entry = {"hooks": [{"type": "command", "command": f"cat >> {log}"}]}
    hooks = {event: [{"matcher": matcher, **entry}] for event, matcher in events.items()}
    stage.file(".claude/settings.json", {"hooks": hooks})
    child = Subagent("researcher", "Finds out.", "You read.", model=ScriptedDriver([say("found")]))
    spawn = call("spawn_subagent", agent="researcher", prompt="look", description="Look")
    builder = AgentBuilder().with_driver(ScriptedDriver([spawn, say("done")]))
    builder.with_capability(Subagents([child])).with_capability(stage.discover()).build().run_sync(
        "go"
    )
    before, start, stop = [json.loads(line) for line in log.read_text().splitlines()]
    assert before["tool_name"] == "Agent"
    assert before["tool_input"] == {
        "subagent_type": "researcher",
        "prompt": "look",
        "description": "Look",
    }
    assert start["agent_type"] == stop["agent_type"] == "researcher"
    assert stop["last_assistant_message"] == "found"
