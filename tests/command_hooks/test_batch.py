"""Hooks of one point start together; their answers are merged in order."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import pytest
from hook_commands import as_json, holds
from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder, HookOutcome, HookPoint, RunStatus, ToolHookContext
from hookline.command_hooks import Handler, HookSource, RunFacts
from hookline.command_hooks.batch import AsyncHooks, HandlerBatch
from hookline.command_hooks.handler import ProgramAnswer, ProgramResult
from hookline.command_hooks.runner import HookReply, Runner
from hookline.hooks import HookOptions, register
from hookline.journal import hooks_in
from hookline.lifecycle import HookStack
from hookline.state import AgentState, ToolCall
from hookline.testing import ScriptedDriver, call, say


class Pretending(Runner):
    """Gives fixed answers, each after a delay, and notes which hooks were called."""

    def __init__(self, answers: list[ProgramAnswer], waits: list[float]) -> None:
        self.answers, self.waits = answers, waits
        self.asked: list[str] = []

    def matches(self, handler: Handler, ctx: Any) -> bool:
        return True

    def prepare_facts(self, ctx: Any, dialect: str) -> RunFacts:
        return RunFacts("/p", "/p", "s")

    async def ask(
        self, handler: Handler, ctx: Any, facts: RunFacts, watch: Any = None
    ) -> HookReply:
        number = int(handler.command)
        self.asked.append(handler.command)
        await asyncio.sleep(self.waits[number])
        return HookReply(self.answers[number], ProgramResult(0))


def decide(answers: list[ProgramAnswer], waits: list[float]) -> Any:
    """What a stack of such hooks decides about a call."""
    runner = Pretending(answers, waits)
    handlers = [
        Handler(HookSource("claude", label="f"), "PreToolUse", command=str(n))
        for n in range(len(answers))
    ]
    group = HandlerBatch(handlers, runner, AsyncHooks(runner))
    stack = HookStack(
        register(
            HookPoint.BEFORE_TOOL_USE,
            group.hook(number),
            HookOptions(name=handler.name, on_failure="open"),
            source="command-hooks",
        )
        for number, handler in enumerate(handlers)
    )
    ctx = ToolHookContext(
        point=HookPoint.BEFORE_TOOL_USE,
        state=AgentState(run_id="r"),
        tool_call=ToolCall("1", "bash", {"command": "ls"}),
    )
    result = asyncio.run(stack.process(ctx))
    assert sorted(runner.asked) == sorted(str(n) for n in range(len(answers)))
    return result


ANSWERS = st.builds(
    ProgramAnswer,
    decision=st.sampled_from(["", "allow", "ask", "defer", "deny"]),
    reason=st.sampled_from(["a", "b", "c"]),
    contexts=st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple),
    stops=st.booleans(),
)
WAITS = st.permutations([0.0, 0.001, 0.002, 0.003])


@given(st.lists(ANSWERS, min_size=1, max_size=4), WAITS, WAITS)
def test_the_order_of_answers_does_not_matter(
    answers: list[ProgramAnswer], first: list[float], second: list[float]
) -> None:
    """The same answers give the same decision, reason and words, in whatever order they arrive."""
    one, other = decide(answers, first), decide(answers, second)
    assert (one.kind, one.reason, one.decided_by) == (other.kind, other.reason, other.decided_by)
    assert list(one.context.state.messages) == list(other.context.state.messages)


@given(st.lists(ANSWERS, min_size=1, max_size=4))
def test_the_strictest_wins(answers: list[ProgramAnswer]) -> None:
    """Stop before deny, deny before ask, ask before allow: no guard's question is answered by another hook."""
    result = decide(answers, [0.0] * 4)
    words = {answer.decision for answer in answers}
    assert result.is_stopped is any(answer.stops for answer in answers)
    if not result.is_stopped:
        assert result.is_blocked is ("deny" in words)
        assert result.is_asking is (bool(words & {"ask", "defer"}) and "deny" not in words)


@given(st.lists(ANSWERS, min_size=1, max_size=4))
def test_text_for_the_model_is_never_lost(answers: list[ProgramAnswer]) -> None:
    """Whoever blocked first."""
    result = decide(answers, [0.0] * 4)
    texts = [message.text for message in result.context.state.messages]
    wanted = [text for answer in answers for text in answer.contexts]
    assert len(texts) == len(wanted)
    assert all(f"\n{text}\n" in shown for text, shown in zip(wanted, texts, strict=True))


@pytest.mark.parametrize("first", ["ask", "allow"])
def test_an_allow_of_one_file_answers_no_question_of_another(stage: Any, first: str) -> None:
    """In whatever order, and across dialects: the run waits for a person."""
    said = {"hookEventName": "PreToolUse", "permissionDecision": first}
    entry = {"hooks": [{"type": "command", "command": as_json({"hookSpecificOutput": said})}]}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [entry]}})
    other = as_json({"permission": "allow" if first == "ask" else "ask"})
    hooks = {"version": 1, "hooks": {"beforeShellExecution": [{"command": other}]}}
    stage.file(".cursor/hooks.json", hooks)
    result = stage.run(stage.discover())
    assert result.status is RunStatus.PAUSED


def test_a_programs_allow_answers_a_scripts_question(stage: Any) -> None:
    """Whoever wrote the agent may say that nobody needs to be asked."""
    said = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    hooks = stage.claude("PreToolUse", as_json({"hookSpecificOutput": said}))
    builder = AgentBuilder().with_driver(ScriptedDriver([call("bash", command="ls"), say("ok")]))
    builder.with_tools(*stage.tools).with_capability(hooks)
    result = (
        builder.on_before_tool_use(lambda ctx: HookOutcome.allow("known")).build().run_sync("go")
    )
    assert result.status is RunStatus.COMPLETED


def test_hooks_run_at_the_same_time(stage: Any) -> None:
    """Three that wait for each other all end."""
    meet = "touch {0}; for i in $(seq 400); do [ $(ls | grep -c '^m[0-9]') = 3 ] && exit 0; sleep 0.02; done; exit 1"
    hooks = stage.claude("PreToolUse", *(meet.format(f"m{n}") for n in range(3)))
    result = stage.run(hooks)
    assert "ran ls" in [message.text for message in result.state.messages]
    assert not [r for r in result.records if getattr(r, "verdict", "") == "failed"]


def test_the_last_rewrite_in_the_order_of_the_file_wins(stage: Any) -> None:
    """Not the one that took longest."""
    write = "{1}; printf '%s' '{0}'"
    made = [
        json.dumps(
            {
                "hookSpecificOutput": {
                    "permissionDecision": "allow",
                    "updatedInput": {"command": name},
                }
            }
        )
        for name in ("one", "two")
    ]
    hooks = stage.claude(
        "PreToolUse", write.format(made[0], "sleep 0.3"), write.format(made[1], "true")
    )
    assert "ran two" in [message.text for message in stage.run(hooks).state.messages]


def test_geminis_sequential_hooks_see_each_others_changes(stage: Any) -> None:
    """Each is asked about what the one before it made of the call."""
    add = as_json(
        '{"hookSpecificOutput": {"tool_input": {"command": event["tool_input"]["command"] + "+"}}}'
    )
    group = {
        "sequential": True,
        "hooks": [{"type": "command", "command": add}, {"type": "command", "command": add + " "}],
    }
    stage.file(".gemini/settings.json", {"hooks": {"BeforeTool": [group]}})
    assert "ran ls++" in [message.text for message in stage.run(stage.discover()).state.messages]


def test_copilots_hooks_run_one_after_the_other(stage: Any) -> None:
    """The second is not begun before the first is done."""
    log = stage.root / "log"
    hooks = [
        {"type": "command", "bash": f"echo a{n} >> {log}; sleep 0.1; echo b{n} >> {log}"}
        for n in (1, 2)
    ]
    stage.file(".github/hooks/h.json", {"version": 1, "hooks": {"preToolUse": hooks}})
    stage.run(stage.discover())
    assert log.read_text().split() == ["a1", "b1", "a2", "b2"]


def test_every_call_is_asked_about(stage: Any) -> None:
    """Answers to one are never taken for answers to another."""
    hooks = stage.claude(
        "PreToolUse",
        holds('event["tool_input"]["command"] == "bad"') + " && exit 2 || exit 0",
        "true",
    )
    result = stage.run(
        hooks, *(call("bash", command=c) for c in ("good", "bad", "good", "bad")), say("done")
    )
    texts = [m.text for m in result.state.messages if m.role == "tool"]
    assert [text.split()[0] for text in texts] == ["ran", "Blocked:", "ran", "Blocked:"]


def test_a_cancelled_run_ends_its_hooks(stage: Any) -> None:
    """Nothing of them is left."""
    note = stage.root / "pid"
    hooks = stage.claude("PreToolUse", f"echo $$ > {note}; exec sleep 60")
    driver = ScriptedDriver([call("bash", command="ls"), say("done")])
    agent = (
        AgentBuilder().with_driver(driver).with_tools(*stage.tools).with_capability(hooks).build()
    )

    async def scenario() -> Any:
        running = asyncio.ensure_future(agent.run("go", run_id="r"))
        while not (note.exists() and note.read_text().strip()):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        began = time.monotonic()
        agent.cancel("r")
        result = await running
        assert time.monotonic() - began < 20
        return result

    assert asyncio.run(scenario()).status is RunStatus.CANCELLED
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_an_own_hook_that_blocks_first_is_enough(stage: Any) -> None:
    """Programs are not started for what is blocked already."""
    mark = stage.root / "mark"
    hooks = stage.claude("PreToolUse", f"touch {mark}")
    stage.run(hooks, on_before_tool_use=lambda ctx: HookOutcome.block("no"))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("event", "dialect"),
    [("session_end", "hookline"), ("SessionEnd", "claude"), ("sessionEnd", "copilot")],
)
def test_a_hook_that_fails_when_the_session_is_over_takes_nothing_back(
    stage: Any, event: str, dialect: str
) -> None:
    """The run has its answer, and the journal has the failure."""
    hook = {"on": event, "dialect": dialect, "command": "exit 7", "on_failure": "closed"}
    result = stage.run(stage.hooks(hook), say("the answer"))
    assert (result.status, result.text) == (RunStatus.COMPLETED, "the answer")
    (ran,) = [each for each in hooks_in(result.records) if each.verdict == "failed"]
    assert (ran.point, ran.tier) == ("session_end", "hook")
