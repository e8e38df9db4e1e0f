"""Approval and Redaction in a run whose process dies: what was decided holds, and no secret was written before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hookline import AgentBuilder, Decision, SQLiteJournal, ToolContext, tool
from hookline.capabilities import Approval, Redaction
from hookline.testing import ScriptedDriver, call, say

TOKEN = "ghp_abcdefghij0123456789abcdefghij012345"
TURNS = [
    call("exec", argv=["git", "push"]),
    call("exec", argv=["die"]),
    call("exec", argv=["git", "push", "origin"]),
    call("exec", argv=["rm", "x"]),
    call("delegate"),
    say("done"),
]


@tool(effect="idempotent")
def exec(argv: list[str]) -> str:
    """Run a command."""
    if argv == ["die"] and os.environ.get("DIES"):
        os._exit(9)
    return f"ran {' '.join(argv)} with {TOKEN}"


def result_texts(result: Any) -> list[str]:
    """The texts of all results; this file is also run as a program, without the path of the tests."""
    return [each.text for step in result.steps for each in step.results]


@tool
async def delegate(context: ToolContext) -> list[str]:
    """Have a child do what is not allowed."""
    turns = [call("exec", argv=["rm", "y"]), say(f"child, {TOKEN}")]
    child = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(exec)
    return result_texts(await context.spawn(child.build(), f"Use {TOKEN}.", name="child"))


def agent(journal: SQLiteJournal, approval: Approval, turns: list[Any]) -> AgentBuilder:
    """The agent of both lives."""
    return (
        AgentBuilder()
        .with_driver(ScriptedDriver(turns))
        .with_tools(exec, delegate)
        .with_journal(journal)
        .with_capability(approval)
        .with_capability(Redaction())
    )


def first_life(path: str) -> None:
    """Push, with a yes for a rule; set a mode; die."""
    approval = Approval(ask="bash(git push *)", allow=["bash(die)", "delegate"])
    approval.set_mode("deny_unlisted", run_id="r1")
    with SQLiteJournal(path) as journal:
        made = agent(journal, approval, TURNS)
        made.with_approver(lambda _question: Decision.allow(rule="bash(git push *)"))
        made.build().run_sync(f"Push with {TOKEN}.", run_id="r1")


def test_what_held_before_a_death_holds_after_it(tmp_path: Path) -> None:
    """The mode and the answer are restored with the run, and apply to children."""
    path = tmp_path / "runs.db"
    died = subprocess.run(
        [sys.executable, __file__, str(path)], env={**os.environ, "DIES": "1"}, check=False
    )
    assert died.returncode == 9
    assert TOKEN not in written(tmp_path)
    with SQLiteJournal(path) as journal:
        approval = Approval(ask="bash(git push *)", allow=["bash(die)", "delegate"])
        result = agent(journal, approval, TURNS[2:]).build().resume_sync("r1")
    assert result.status == "completed"
    ran = [text.replace("[redacted:github-token]", "it") for text in result_texts(result)]
    assert ran[:3] == ["ran git push with it", "ran die with it", "ran git push origin with it"]
    assert ran[3] == "Blocked: no rule allows this call of exec."
    assert "no rule allows this call of exec" in ran[4]
    assert TOKEN not in written(tmp_path)


def written(folder: Path) -> str:
    """Every byte of what is on the disk."""
    return "".join(each.read_bytes().decode("latin-1") for each in folder.iterdir())


if __name__ == "__main__":
    first_life(sys.argv[1])
