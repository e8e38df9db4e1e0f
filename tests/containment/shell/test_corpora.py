from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shell_corpus import commands

from hookline.containment import ShellPolicy, read_command
from hookline.errors import UsageError


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


def test_everyday_commands_run_without_asking() -> None:
    """Of what agents and people type to look around, at least 95 in 100 are allowed, and none is denied."""
    policy = ShellPolicy.default()
    everyday = commands("everyday")
    verdicts = [policy.judge(text).decision for text in everyday]
    assert len(everyday) >= 600
    assert verdicts.count("allow") >= 0.95 * len(everyday)
    assert "deny" not in verdicts


@pytest.mark.parametrize("command", commands("dangerous"))
def test_nothing_that_changes_anything_is_allowed(command: str) -> None:
    """Whatever writes, runs code, talks to the network or shows secrets is at least asked about."""
    assert ShellPolicy.default().judge(command).decision != "allow"


JOINTS = st.sampled_from(
    ["{}; {}", "{} && {}", "{} || {}", "{} | {}", "{}\n{}", "{} & {}", "{} $({})"]
)
HARMLESS = st.sampled_from([text for text in commands("harmless") if "#" not in text])
DANGEROUS = st.sampled_from(commands("dangerous") + commands("denied"))


@given(JOINTS, HARMLESS, DANGEROUS)
def test_harmless_company_makes_nothing_harmless(joint: str, one: str, other: str) -> None:
    """A line with anything in it that changes something is asked about, whatever else is in it."""
    assert ShellPolicy.default().judge(joint.format(one, other)).decision != "allow"


@given(HARMLESS, st.text(alphabet="'\"\\$`;|&<>(){}*~#!=\n rm-", max_size=8), st.integers(0, 60))
def test_what_is_put_into_a_harmless_command(text: str, put: str, at: int) -> None:
    """Whatever is put into a harmless command, it is allowed only if it can still be read."""
    changed = text[:at] + put + text[at:]
    allowed = ShellPolicy.default().judge(changed).decision == "allow"
    assert not allowed or read_command(changed).known


def test_a_list_of_words_is_refused_with_words() -> None:
    """Who has words instead of a text is told how to judge them."""
    with pytest.raises(UsageError, match=r"shlex\.join"):
        ShellPolicy.default().judge(["ls"])  # type: ignore[arg-type]


def test_there_are_enough_dangerous_commands() -> None:
    """The corpus of dangerous commands is as large as it is said to be."""
    assert len(commands("dangerous")) >= 600
