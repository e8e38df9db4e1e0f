"""A command that only looks is judged where it will run, also by other policies than Bash's."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, tool
from hookline.capabilities import Approval, Bash, TaintPolicy
from hookline.containment import ShellPolicy
from hookline.testing import ScriptedDriver, call, say


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose configuration names a program, with a plain one in it; we are in neither."""
    root = tmp_path / "project"
    for place in (root, root / "plain"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    subprocess.run(["git", "-C", str(root), "config", "core.fsmonitor", "touch evil"], check=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return root


@tool(effect="pure")
def read() -> str:
    """Read a page that others wrote."""
    return "look at 1234567890 of the others"


def came(capability: Any, bash: Bash, *turns: Any) -> list[str]:
    """The outcomes of calls, if every question is answered with no."""
    builder = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_tools(read)
    builder.with_capability(bash).with_capability(capability).with_approver("deny")
    result = builder.build().run_sync("Go.")
    return [each.text for step in result.steps for each in step.results]


def trusting(repository: Path) -> ShellPolicy:
    """The policy of somebody who trusts one repository."""
    return ShellPolicy(trusted=[str(repository)])


@pytest.mark.usefixtures("without_a_sandbox")
@pytest.mark.parametrize("sandbox", ["auto", "host"])
def test_plan_mode_looks_at_the_repository_where_git_will_run(project: Path, sandbox: Any) -> None:
    """Not at the one in which this process happens to be: a read-only mode starts no program of a repository."""
    (text,) = came(
        Approval(mode="plan"),
        Bash(project, sandbox=sandbox, policy=trusting(project)),
        call("bash", command="git status"),
    )
    assert text.startswith("Blocked: plan mode")
    plain, by_list, inner = came(
        Approval(mode="plan"),
        Bash(project / "plain", sandbox=sandbox, policy=trusting(project / "plain")),
        call("bash", command="git status --short"),
        call("exec", argv=["git", "status", "--short"]),
        call("bash", command="git status", cwd=".."),
    )
    assert "[exit code 0" in plain
    assert "[exit code 0" in by_list
    assert inner.startswith("Blocked: ")
    assert not list(project.rglob("evil"))


@pytest.mark.usefixtures("without_a_sandbox")
def test_plan_mode_does_not_trust_variables_of_earlier_commands(project: Path) -> None:
    """`ls` may be any program, once the search path has been changed."""

    def agent(mode: Any, command: str) -> Any:
        driver = ScriptedDriver([call("bash", command=command), say("done")])
        builder = AgentBuilder().with_driver(driver).with_approver(lambda _: True)
        builder.with_capability(Bash(project / "plain", keep="session"))
        return builder.with_capability(Approval(mode=mode)).build()

    first = agent("default", "export PATH=$PWD/bin:$PATH").run_sync("Go.")
    second = agent("plan", "ls").run_sync("Look.", state=first.state)
    assert second.steps[-2].results[0].text.startswith("Blocked: plan mode")
    fresh = agent("plan", "ls").run_sync("Look.")
    assert "[exit code 0" in fresh.steps[-2].results[0].text


def test_taint_looks_at_the_repository_where_git_will_run(project: Path) -> None:
    """A command with words of others in it is looked at as one that acts, unless it certainly does not."""
    turns = (call("read"), call("bash", command="git log --grep 1234567890"))
    policy = TaintPolicy(on_taint="block")
    untrusted = Bash(project, sandbox="auto", policy=trusting(project / "plain"))
    assert came(policy, untrusted, *turns)[1].startswith("Blocked: ")
    trusted = Bash(project / "plain", sandbox="auto", policy=trusting(project / "plain"))
    plain = came(TaintPolicy(on_taint="block"), trusted, *turns)
    assert "[exit code" in plain[1]
