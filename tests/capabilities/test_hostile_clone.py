"""A hostile clone runs nothing on the host, in any mode, while every question is answered with no."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Approval, Bash
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
    """Whatever is asked of it, no marker appears."""
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
