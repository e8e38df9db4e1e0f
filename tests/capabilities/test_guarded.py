"""Approval and Redaction together: driven any way, resumed after any record, replayed, and judged again."""

from __future__ import annotations

from typing import Any

import pytest
from driven import WAYS, Tape, drive, lives

from hookline import AgentBuilder, Decision, ToolContext, backtest, replay, tool
from hookline.capabilities import Approval, Metadata, Redaction, Summarization, TaskPlanning
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

TOKEN = "ghp_abcdefghij0123456789abcdefghij012345"
SCRIPT = [
    calls(call("exec", argv=["git", "push"]), call("write_metadata", key="t", value=TOKEN)),
    call("todo_write", todos=[{"content": f"use {TOKEN}", "status": "completed"}]),
    calls(call("exec", argv=["rm", "x"]), call("exec", argv=["git", "push", "origin"])),
    call("delegate"),
    calls(call("exec", argv=["fail"]), call("exec", argv=["ls"])),
    say(f"The token is {TOKEN}."),
]


@tool(effect="idempotent")
def exec(argv: list[str]) -> dict[str, Any]:
    """Run a command."""
    if argv == ["fail"]:
        raise RuntimeError(f"it failed with {TOKEN}")
    return {"ran": argv, "token": TOKEN, "password": "hunter2 " * 100}


@tool(effect="idempotent")
async def delegate(context: ToolContext) -> str:
    """Have a child do it."""
    turns = [
        calls(call("exec", argv=["rm", "y"]), call("exec", argv=["git", "push", "y"])),
        say(TOKEN),
    ]
    child = AgentBuilder().with_driver(ScriptedDriver([lambda state: turns[state.step_count]] * 3))
    result = await context.spawn(child.with_tools(exec).build(), f"Use {TOKEN}.", name="child")
    return f"{result.text}: {[each.status.value for each in result.steps[0].results]}"


def guarded(journal: Any = None) -> Any:
    """An agent under rules, with secrets all over."""
    turns = [lambda state: SCRIPT[state.step_count]] * 20
    writer = ScriptedDriver([lambda state: say(f"a summary with {TOKEN}", tokens=7)] * 40)
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(exec, delegate)
    builder.with_clock(FakeClock()).with_approver(
        lambda _question: Decision.allow("as ever", rule="bash(git push *)")
    )
    for capability in (
        Metadata(),
        TaskPlanning(),
        Summarization(700, keep_tokens=100, model=writer),
        Redaction(),
        Approval(ask="bash(git push *)", deny="bash(rm *)"),
    ):
        builder.with_capability(capability)
    return builder.build() if journal is None else builder.with_journal(journal).build()


@pytest.mark.parametrize("way", WAYS)
async def test_guards_together(way: str) -> None:
    """Each does its part beside the others, however the run is driven."""
    result = await drive(guarded(), way, f"I am {TOKEN}.")
    assert result.status == "completed"
    statuses = [each.status.value for step in result.steps for each in step.results]
    assert statuses == ["ok", "ok", "ok", "blocked", "ok", "ok", "error", "ok"]
    assert result.steps[3].results[0].text == "[redacted:github-token]: ['blocked', 'ok']"
    assert list(result.state.remembered) == ["approval: bash(git push *)"]
    assert result.text == "The token is [redacted:github-token]."
    for secret in (TOKEN, "hunter2"):
        assert secret not in result.state.to_json()
        assert secret not in str(result.records)


async def test_it_is_the_same_run_after_any_death() -> None:
    """Resumed after any record: the same conversation, the same answers, and no secret in any of them."""
    whole, resumed = await lives(guarded, f"I am {TOKEN}.")
    for result in resumed:
        assert tuple(result.state.messages) == tuple(whole.state.messages)
        assert result.state.remembered == whole.state.remembered
        assert result.state.metadata == whole.state.metadata
        assert TOKEN not in result.state.to_json()


async def test_it_is_replayed_and_judged_again() -> None:
    """The recorded run is identical, and its hooks would say the same again."""
    tape = Tape()
    await guarded(tape).run(f"I am {TOKEN}.", run_id="run")
    assert TOKEN not in str(tape.written)
    replayed = await replay(tape, "run", guarded())
    assert replayed.identical, replayed
    tested = await backtest(tape.written, guarded())
    assert not tested.changes, tested
