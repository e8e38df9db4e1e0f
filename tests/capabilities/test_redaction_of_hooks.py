"""Secrets in what hooks say and note: they are taken out before they enter the state."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, Decision, HookOutcome, RunResult, ToolContext, tool
from hookline.capabilities import Redaction, SelfCritique
from hookline.testing import ScriptedDriver, call, say

TOKEN = "ghp_abcdefghij0123456789abcdefghij012345"
KNOWN = "correct-horse-battery"


@tool
def look(at: str) -> str:
    """Look."""
    return at


def builder(*turns: Any) -> AgentBuilder:
    """An agent that redacts."""
    driver = ScriptedDriver([*turns, say("done")])
    return (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(look)
        .with_capability(Redaction(values=[KNOWN]))
    )


def kept(result: RunResult) -> str:
    """Everything that a run leaves behind."""
    return f"{result.state.to_json()!r} {result!r} {result.explain()} {result.output!r}"


def block(_ctx: Any) -> HookOutcome:
    """Say why, with a secret."""
    return HookOutcome.block(f"no: {KNOWN} {TOKEN}")


def stop(_ctx: Any) -> HookOutcome:
    """Say why, with a secret."""
    return HookOutcome.stop(f"enough: {KNOWN} {TOKEN}")


def ask(_ctx: Any) -> HookOutcome:
    """Say why, with a secret."""
    return HookOutcome.ask(f"really: {KNOWN} {TOKEN}?")


@pytest.mark.parametrize("hook", [block, stop, ask])
@pytest.mark.parametrize("tier", ["policy", "hook"])
def test_reasons_hold_no_secrets(hook: Any, tier: str) -> None:
    """The reason of a block, a stop or a question has no secrets."""
    agent = builder(call("look", at="x")).on_before_tool_use(hook, tier=tier, name="judge")
    result = agent.build().run_sync("Go.")
    assert "[redacted:known-value]" in kept(result)
    assert KNOWN not in kept(result)
    assert TOKEN not in kept(result)


def test_the_reason_of_a_person_holds_no_secrets() -> None:
    """What somebody writes to a no is looked through too, from an approver and at a resume."""
    no = Decision.deny(f"not with {KNOWN}")

    def asking() -> AgentBuilder:
        made = builder(call("look", at="x"))
        return made.on_before_tool_use(ask, tier="policy", name="judge")

    agent = asking().build()
    paused = agent.run_sync("Go.")
    answers = {question.id: no for question in paused.pending}
    for result in (
        agent.resume_sync(paused, answers),
        asking().with_approver(lambda _question: no).build().run_sync("Go."),
    ):
        assert "not with [redacted:known-value]" in kept(result)
        assert KNOWN not in kept(result)


def test_evaluations_and_notes_hold_no_secrets() -> None:
    """What a hook says about continuing, and what it notes in the state."""
    agent = builder().on_before_step(lambda ctx: ctx.forbid(f"because of {KNOWN}"))
    assert KNOWN not in kept(agent.build().run_sync("Go."))
    agent = builder().on_before_step(lambda ctx: ctx.with_metadata("note", {"of": [KNOWN]}))
    result = agent.build().run_sync("Go.")
    assert result.state.metadata["note"] == {"of": ["[redacted:known-value]"]}


@pytest.mark.parametrize("output", [f"say {KNOWN}", {"say": [KNOWN]}])
def test_the_answer_of_a_hook_holds_no_secrets(output: Any) -> None:
    """What an output hook makes of the answer is looked through like the answer itself."""
    agent = builder().on_output(lambda ctx: ctx.with_output(output))
    result = agent.build().run_sync("Go.")
    assert "[redacted:known-value]" in str(result.output)
    assert KNOWN not in kept(result)


def test_a_critic_keeps_no_secrets() -> None:
    """What a critic finds fault with is in the metadata, without them."""
    critic = ScriptedDriver(
        [say(f'{{"approved": false, "feedback": "say {KNOWN}"}}'), say('{"approved": true}')]
    )
    agent = builder(say("first")).with_capability(SelfCritique("Be kind.", model=critic))
    result = agent.build().run_sync("Go.")
    assert "self_critic" in result.state.metadata
    assert KNOWN not in kept(result)


def test_a_secret_is_no_name_of_a_tool() -> None:
    """A model that uses a secret as a tool's name gets "no such tool" with a redacted name."""
    driver = ScriptedDriver([call(TOKEN, x=1), say("done")])
    agent = builder().with_driver(driver).build()
    result = agent.run_sync("Go.")
    assert "there is no tool 'redacted_github-token'" in result.steps[0].results[0].text
    assert TOKEN not in kept(result)
    assert all(TOKEN not in repr(request) for request in driver.requests)


def test_a_tool_keeps_its_name() -> None:
    """An existing tool can be called, whatever its name looks like."""

    @tool(name=TOKEN)
    def odd() -> str:
        """Be odd."""
        return "odd"

    result = builder(call(TOKEN)).with_tools(odd).build().run_sync("Go.")
    assert result.steps[0].results[0].text == "odd"


def test_hooks_of_children_keep_no_secrets() -> None:
    """A child that does not redact itself is held to what its parent does."""
    children: list[RunResult] = []

    @tool
    async def delegate(context: ToolContext) -> str:
        """Have a child look."""
        child = AgentBuilder().with_driver(ScriptedDriver([call("look", at="x"), say("done")]))
        child.with_tools(look).on_before_tool_use(block, name="judge")
        children.append(await context.spawn(child.build(), "Go.", name="child"))
        return "done"

    builder(call("delegate")).with_tools(delegate).build().run_sync("Go.")
    assert "[redacted:known-value]" in kept(children[0])
    assert KNOWN not in kept(children[0])
