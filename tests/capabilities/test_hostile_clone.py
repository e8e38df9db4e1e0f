"""A hostile clone runs nothing on the host, in any mode, while every question is answered with no."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Approval, Bash
from hookline.containment import ShellPolicy
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, calls, say

COMMANDS = (
    "git status", "git diff", "git log -p", "git -C inner status", "cd inner && git status", "git show", "git blame f",
    "git -C bare status", "cd bare && git log", "yarn --version", "make -n", "ls && git status", "bash -c 'git status'",
    "git ls-files | xargs -n1 git log --", "$(git status)", "git stash", "git checkout f", "npm ls", "./run", "cat f",
)  # fmt: skip


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository in which everything that can name a program names one, with others inside of it."""
    clone = tmp_path / "clone"
    (clone / "inner").mkdir(parents=True)
    run = clone / "run"
    run.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    run.chmod(0o755)
    (clone / "f").write_text("x\n")
    (clone / ".gitattributes").write_text("* diff=x filter=x\n")
    (clone / ".yarnrc").write_text(f'yarn-path "{run}"\n')
    (clone / ".npmrc").write_text(f"script-shell={run}\n")
    (clone / "Makefile").write_text(f"X := $(shell {run})\nall:\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C"]
    for place in (clone / "inner", clone):
        subprocess.run([*git, str(place), "init", "-q"], check=True)
        subprocess.run([*git, str(place), "add", "."], check=True, capture_output=True)
        subprocess.run([*git, str(place), "commit", "-qm", "x", "--allow-empty"], check=True)
    for place in (clone / "inner", clone):
        hook = place / ".git" / "hooks" / "post-index-change"
        hook.write_text(run.read_text())
        hook.chmod(0o755)
        with (place / ".git" / "config").open("ab") as file:
            file.write(f'[core]\n\tfsmonitor = "{run}"\n'.encode())
            file.write(f'[diff]\n\texternal = "{run}"\n[diff "x"]\n\ttextconv = "{run}"\n'.encode())
            file.write(f'[filter "x"]\n\tclean = "{run}"\n[core]\n\tpager = "{run}"\n'.encode())
    (clone / "bare" / "objects").mkdir(parents=True)
    (clone / "bare" / "refs").mkdir()
    (clone / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    (clone / "bare" / "config").write_text(f'[core]\n\tworktree = ..\n\tfsmonitor = "{run}"\n')
    (tmp_path / "pwned").unlink(missing_ok=True)
    (clone / "f").write_text("changed\n")
    return clone


@pytest.mark.parametrize(
    "mode", ["default", "accept_edits", "ask_unlisted", "deny_unlisted", "plan"]
)
def test_a_hostile_clone_runs_nothing(clone: Path, mode: Any) -> None:
    """Whatever is called, no marker appears."""
    turn = calls(*(call("bash", command=text) for text in COMMANDS))
    builder = AgentBuilder().with_driver(ScriptedDriver([turn, say("done")]))
    builder.with_capability(Bash(clone, sandbox="host")).with_capability(Approval(mode=mode))
    result = builder.with_approver("deny").build().run_sync("Look around.")
    assert len(result.steps[0].results) == len(COMMANDS)
    assert not (clone.parent / "pwned").exists()


@pytest.mark.parametrize("command", ["git status", "git -C inner status", "git diff", "make -n"])
def test_the_clone_is_hostile(clone: Path, command: str) -> None:
    """Without a policy the same commands run what it names."""
    subprocess.run(["bash", "-c", command], cwd=clone, capture_output=True, check=False, timeout=60)
    assert (clone.parent / "pwned").exists()


@pytest.mark.parametrize(
    "command",
    [
        "egrep h f.txt",
        "zcat f.txt.gz",
        "timeout 5 echo x",
        "nice true",
        "timeout 1 test a",
        ["echo", "x"],
    ],
)
def test_a_search_path_into_the_clone_runs_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | list[str]
) -> None:
    """Programs that start others by their names find those of the system, or a person is asked and says no."""
    planted = tmp_path / "clone" / "node_modules" / ".bin"
    planted.mkdir(parents=True)
    for name in ("grep", "gzip", "echo", "true", "test"):
        (planted / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
        (planted / name).chmod(0o755)
    (tmp_path / "clone" / "f.txt").write_text("hello\n")
    subprocess.run(["/bin/gzip", "-k", "f.txt"], cwd=tmp_path / "clone", check=True)
    monkeypatch.setenv("PATH", f"{planted}::/usr/local/bin:/usr/bin:/bin")
    turn = call("bash", command=command) if isinstance(command, str) else call("exec", argv=command)
    builder = AgentBuilder().with_driver(ScriptedDriver([turn, say("done")]))
    builder.with_capability(Bash(tmp_path / "clone", place="host")).with_approver("deny")
    (ran,) = builder.build().run_sync("Look around.").steps[0].results
    assert "[exit code 0" in ran.text or ran.status is ResultStatus.DENIED
    assert not (tmp_path / "pwned").exists()


def test_what_a_person_or_a_rule_allows_has_the_users_own_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool of the project is found by its name, alone; beside it, programs of the policy ask."""
    tool = tmp_path / "bin" / "mytest"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    policy = ShellPolicy.default().with_rules(allow=["mytest"])
    for capability, answer, command, expected in (
        (Bash(tmp_path, place="host"), True, "mytest", "ran"),
        (Bash(tmp_path, place="host", policy=policy), False, "mytest", "ran"),
        (Bash(tmp_path, place="host", policy=policy), False, "mytest | egrep r", "Denied"),
    ):
        builder = AgentBuilder().with_driver(
            ScriptedDriver([call("bash", command=command), say("done")])
        )
        builder.with_capability(capability).with_approver(lambda _, said=answer: said)
        result = builder.build().run_sync("Test.")
        assert result.steps[0].results[0].text.startswith(expected)
