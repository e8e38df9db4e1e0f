"""Which directory the paths in rules are relative to, and what `lint()` reports about wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline import AgentBuilder, Decision, RunResult, ToolContext, tool
from hookline.capabilities import Approval, Bash, Files
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, calls, say


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with secrets in it, which is not the current directory."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "secrets").mkdir()
    (root / "secrets" / "a").write_text("SECRET")
    (root / ".env").write_text("SECRET")
    (root / "src" / "notes.txt").symlink_to("../.env")
    (root / "src" / "plain.txt").write_text("plain")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return root


def came(project: Path, approval: Approval, *made: Any) -> list[str]:
    """The outcomes of calls of the file tools."""
    driver = ScriptedDriver([calls(*made), say("done")])
    agent = AgentBuilder().with_driver(driver).with_capability(Files(project))
    result = agent.with_capability(approval).build().run_sync("Go.")
    return [each.text for step in result.steps for each in step.results]


def test_paths_in_rules_begin_where_the_files_do(project: Path) -> None:
    """However a file is named, the rule about it finds it, wherever the process was started."""
    approval = Approval(deny=["read(.env)", "read(secrets/**)"])
    paths = [
        ".env",
        str(project / ".env"),
        "src/notes.txt",
        "secrets/a",
        str(project / "secrets/a"),
    ]
    made = [*(call("read", path=path) for path in paths), call("search", pattern="SECRET")]
    assert all(text.startswith("Blocked: the rule") for text in came(project, approval, *made))
    assert came(project, approval, call("read", path="src/plain.txt")) == ["     1\tplain"]


def test_allowed_paths_begin_there_too(project: Path) -> None:
    """Edits are accepted, and writing is allowed, below the root of the files."""
    write = call("write", path="src/new.txt", content="x")
    allowed = Approval(allow="write(src/**)", mode="deny_unlisted")
    assert came(project, allowed, write)[0].startswith("Made")
    absolute = call("write", path=str(project / "src/other.txt"), content="x")
    assert came(project, allowed, absolute)[0].startswith("Made")
    assert came(project, Approval(ask="Edit", mode="accept_edits"), write) != []


def test_rules_of_a_parent_mean_its_own_files_in_a_child(project: Path) -> None:
    """A child that works in a directory below is held to what the parent's rules say about it."""

    @tool
    async def delegate(context: ToolContext) -> list[str]:
        """Have a child read."""
        driver = ScriptedDriver([call("read", path="a"), say("done")])
        child = AgentBuilder().with_driver(driver).with_capability(Files(project / "secrets"))
        result = await context.spawn(child.build(), "Go.", name="child")
        return [each.text for step in result.steps for each in step.results]

    driver = ScriptedDriver([call("delegate"), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(delegate).with_capability(Files(project))
    agent.with_capability(Approval(deny="read(secrets/**)"))
    (step, _) = agent.build().run_sync("Go.").steps
    assert "Blocked: the rule" in step.results[0].text


def test_two_roots_are_a_finding_and_forbid_from_both(project: Path, tmp_path: Path) -> None:
    """Rules that begin elsewhere than the calls forbid what either means, allow nothing, and lint says so."""
    approval = Approval(deny="read(.env)", allow="write(src/**)", mode="deny_unlisted", root=".")
    made = [call("read", path=".env"), call("write", path="src/b", content="x")]
    assert all(text.startswith("Blocked") for text in came(project, approval, *made))
    agent = AgentBuilder().with_driver(ScriptedDriver([])).with_capability(Files(project))
    (found,) = agent.with_capability(approval).build().lint()
    assert "paths in rules are relative to" in str(found)
    assert str(project) in str(found)


def test_explain_says_where_paths_begin(project: Path) -> None:
    """Without a root of its own, the capability reports which one it found."""
    agent = AgentBuilder().with_driver(ScriptedDriver([])).with_capability(Files(project))
    built = agent.with_capability(Approval(deny="read(.env)")).build()
    assert built.lint() == []
    assert "paths in rules are relative to" in str(built.explain())


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Rules that begin nowhere would forbid nothing."""
    with pytest.raises(BuildError, match="there is no directory"):
        Approval(root=tmp_path / "nowhere")


def test_a_rule_about_no_tool_is_a_finding() -> None:
    """A name that no tool has is reported with the one that was probably meant; what may come later is not."""

    @tool
    def deploy(env: str) -> str:
        """Deploy."""
        return env

    rules = ["raed(.env)", "bsh(git push *)", "deplyo", "zzz(x)"]
    fine = [
        "bash(git push *)",
        "Read(.env)",
        "deploy(env=prod)",
        "mcp__gh__create",
        "my_*",
        "files.write(a)",
    ]
    approval = Approval(deny=[*rules, *fine])
    agent = AgentBuilder().with_driver(ScriptedDriver([])).with_tools(deploy)
    found = [str(each) for each in agent.with_capability(approval).build().lint()]
    assert len(found) == len(rules)
    for text, meant in zip(found, ["read", "bash", "deploy"], strict=False):
        assert f"Did you mean '{meant}'?" in text


# --- a rule for `./run.sh` is about the one in the work directory, wherever a call would run ---

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


@pytest.mark.parametrize(
    ("cwd", "said"),
    [("vendor/..", "Blocked"), ("./vendor/../", "Blocked"), ("sub/..", "Denied")],
)
def test_two_dots_do_not_lead_back_to_the_top(work: Path, cwd: str, said: str) -> None:
    """Behind a link they lead to another directory, with another program of that name."""
    (work / "sub/deep").mkdir()
    (work / "vendor").symlink_to("sub/deep")
    capabilities = [Bash(work, place="host"), Approval(allow=[RULE])]
    second = call("bash", command="./run.sh", cwd=cwd)
    assert result_texts(run(second, capabilities=capabilities))[0].startswith(said)
    first = call("bash", command="./run.sh", cwd="./")
    assert result_texts(run(first, capabilities=capabilities))[0].startswith("top")


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
