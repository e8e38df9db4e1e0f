"""A command that exceeds a limit: the model reads which, in the foreground and in the background."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from hookline import AgentBuilder, RunResult
from hookline.capabilities import Bash
from hookline.command_hooks import tools as hook_tools
from hookline.containment import SandboxLimits
from hookline.containment.sandbox.command import Ended
from hookline.testing import ScriptedDriver, call, say

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

MIB = 1024**2
MEMORY = "x=$(head -c 300M /dev/zero | tr '\\0' x); sleep 20"
DISK = "while :; do head -c 5M /dev/zero > file; sync file; done"


def run(tmp_path: Path, limits: SandboxLimits, *turns: Any) -> RunResult:
    """Run these turns with an answer of yes to every question."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([*turns, say("done")]))
        .with_capability(Bash(tmp_path, sandbox="required", limits=limits))
        .with_approver(lambda _: True)
        .build()
    )
    return agent.run_sync("Go.")


@pytest.mark.parametrize(
    ("command", "limits", "ended", "words"),
    [
        (MEMORY, {"memory": 100 * MIB}, "memory", "used more memory than they may"),
        (DISK, {"disk": 60 * MIB}, "disk", "wrote more than it may"),
    ],
)
def test_the_model_reads_which_limit_ended_a_command(
    tmp_path: Path, command: str, limits: dict[str, int], ended: str, words: str
) -> None:
    """The text says it, and so does the metadata that hooks see."""
    result = run(tmp_path, SandboxLimits(**limits), call("bash", command=command))
    (made,) = result.steps[0].results
    assert f"[ended because it{'s processes' if ended == 'memory' else ''} {words}" in made.text
    assert made.metadata["ended"] == ended


def test_a_command_in_the_background_says_it_when_it_is_looked_at(tmp_path: Path) -> None:
    """In the line about how it is going."""
    result = run(
        tmp_path,
        SandboxLimits(memory=100 * MIB),
        call("bash", command=MEMORY, background=True),
        call("bash_poll", id="bg-1", wait=30),
    )
    shown = "\n".join(made.text for step in result.steps for made in step.results)
    assert "was ended because its processes used more memory than they may" in shown


def test_the_input_of_command_hooks_has_every_limit() -> None:
    """There is a text for each way in which a command can be ended."""
    assert set(hook_tools._ENDINGS) == {*get_args(Ended)} - {"exited"}
