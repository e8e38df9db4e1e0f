"""A rule or a remembered yes for `./run.sh` is about the one at the top, wherever else a call would run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import AgentBuilder, Decision, RunResult
from hookline.capabilities import Approval, Bash
from hookline.testing import ScriptedDriver, call, calls, say

RULE = "bash(./run.sh)"
HERE = call("bash", command="./run.sh")
BELOW = call("bash", command="./run.sh", cwd="sub")
MOVE = call("bash", command="cd sub")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two programs of the same name."""
    (tmp_path / "sub").mkdir()
    for place, says in ((tmp_path, "top"), (tmp_path / "sub", "other")):
        (place / "run.sh").write_text(f"#!/bin/sh\necho {says}\n")
        (place / "run.sh").chmod(0o755)
    return tmp_path


def run(*turns: Any, capabilities: list[Any], approver: Any = "deny") -> RunResult:
    """A run in which the model makes these turns."""
    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")]))
    for each in capabilities:
        builder.with_capability(each)
    return builder.with_approver(approver).build().run_sync("Go.")


@pytest.mark.parametrize(
    ("rule", "second"),
    [
        (RULE, BELOW),
        ("bash(./*)", BELOW),
        ("bash(env ./run.sh)", call("bash", command="env ./run.sh", cwd="sub")),
        (RULE, call("exec", argv=["./run.sh"], cwd="sub")),
        (RULE, call("bash", command="./run.sh; ./run.sh", cwd="sub")),
    ],
)
def test_a_rule_is_about_the_program_at_the_top(work: Path, rule: str, second: Any) -> None:
    """In another directory the same words are another program: it asks."""
    first = call("bash", command=second.args.get("command", "./run.sh"))
    capabilities = [Bash(work, place="host"), Approval(allow=[rule])]
    made = result_texts(run(first, second, capabilities=capabilities))
    assert made[0].startswith("top")
    assert made[1].startswith("Denied")


def test_a_line_that_moves_first_is_not_meant(work: Path) -> None:
    """Rules for each of its commands do not say where the second runs."""
    capabilities = [Bash(work, place="host"), Approval(allow=["bash(cd *)", RULE])]
    line = call("bash", command="cd sub && ./run.sh")
    assert result_texts(run(line, capabilities=capabilities))[0].startswith("Denied")


def test_a_rule_may_name_the_directory(work: Path) -> None:
    """Then it is about that one. A rule about every command is about every directory, too."""
    for rule in ("bash(command=./run.sh, cwd=sub)", "bash(*)", "bash"):
        capabilities = [Bash(work, place="host"), Approval(allow=[rule])]
        assert result_texts(run(BELOW, capabilities=capabilities))[0].startswith("other"), rule


def test_programs_of_the_system_are_the_same_everywhere(work: Path) -> None:
    """A rule about one is about it in every directory."""
    capabilities = [Bash(work, place="host"), Approval(allow=["bash(touch *)"])]
    made = result_texts(run(call("bash", command="touch x", cwd="sub"), capabilities=capabilities))
    assert made[0].startswith("[exit code 0")


def test_a_kept_directory_is_written_into_the_call(work: Path) -> None:
    """What is judged and recorded says where it runs, so the rule does not mean it."""
    bash = Bash(work, place="host", keep="session")
    result = run(MOVE, HERE, capabilities=[bash, Approval(allow=[RULE])])
    assert result_texts(result)[1].startswith("Denied")
    assert result.steps[1].calls[0].args["cwd"] == str(work / "sub")


def test_a_remembered_yes_is_about_the_directory_it_was_given_for(work: Path) -> None:
    """After `cd` it is asked again, and with the directory."""
    asked: list[Any] = []

    def answer(question: Any) -> Decision:
        asked.append(question.tool_call.args.get("cwd"))
        return Decision.allow(remember=True)

    bash = Bash(work, place="host", keep="session")
    run(HERE, HERE, MOVE, HERE, HERE, capabilities=[bash], approver=answer)
    assert asked == ["", str(work / "sub")]


def test_a_remembered_rule_is_about_the_top(work: Path) -> None:
    """An answer for a rule is like a rule."""
    asked: list[Any] = []

    def answer(question: Any) -> Decision:
        asked.append(question.tool_call.args.get("cwd"))
        return Decision.allow(rule=RULE)

    capabilities = [Bash(work, place="host"), Approval(ask=["bash"])]
    run(HERE, HERE, BELOW, capabilities=capabilities, approver=answer)
    assert asked == ["", "sub"]


def test_a_move_in_the_same_turn_does_not_change_the_program(work: Path) -> None:
    """The call was judged at the top: it does not run elsewhere, and the model reads why."""
    bash = Bash(work, place="host", keep="session")
    made = result_texts(run(calls(MOVE, HERE), capabilities=[bash, Approval(allow=[RULE])]))
    assert f"it would run in {work / 'sub'}" in made[1]
    assert "other" not in made[1]


def test_a_kept_directory_that_is_gone_is_not_written_into_the_call(work: Path) -> None:
    """The command starts at the top, and its result says so."""
    bash = Bash(work, place="host", keep="session")
    turns = (MOVE, call("bash", command="rm -r ../sub"), call("bash", command="pwd"))
    result = run(*turns, capabilities=[bash], approver=lambda _: True)
    assert result_texts(result)[2].startswith(f"{work}\n")
    assert "is gone, so this started in" in result_texts(result)[2]
    assert not result.steps[2].calls[0].args["cwd"]
