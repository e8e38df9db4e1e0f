from __future__ import annotations

import pytest
from shell_corpus import commands

from hookline.containment import ShellPolicy, read_command


def test_ordinary_commands_are_read() -> None:
    """Of the ordinary commands, at least 95 in 100 are known word by word before they run."""
    ordinary = commands("ordinary")
    known = [text for text in ordinary if read_command(text).static]
    assert len(ordinary) >= 300
    assert len(known) >= 0.95 * len(ordinary)


def test_harmless_commands_run_without_asking() -> None:
    """Of the plainly harmless commands, at least 95 in 100 are allowed, and none is denied."""
    policy = ShellPolicy.default()
    harmless = commands("harmless")
    verdicts = [policy.judge(text).decision for text in harmless]
    assert len(harmless) >= 600
    assert verdicts.count("allow") >= 0.95 * len(harmless)
    assert "deny" not in verdicts


@pytest.mark.parametrize("command", commands("dangerous"))
def test_nothing_that_changes_anything_is_allowed(command: str) -> None:
    """Whatever writes, runs code, talks to the network or shows secrets is at least asked about."""
    assert ShellPolicy.default().judge(command).decision != "allow"


def test_there_are_enough_dangerous_commands() -> None:
    """The corpus of dangerous commands is as large as it is said to be."""
    assert len(commands("dangerous")) >= 600
