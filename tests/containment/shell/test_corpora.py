from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shell_corpus import commands

from hookline.containment import ShellPolicy, read_command
from hookline.errors import UsageError


@pytest.fixture(autouse=True)
def programs_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """No version manager is on PATH: a `python3` of one asks."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit."""
    top = tmp_path_factory.mktemp("project")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(top)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    return top


def shares(name: str, project: Path) -> Counter[str]:
    """How many commands of a corpus get which verdict, in a repository that is trusted."""
    policy = ShellPolicy(trusted=[str(project)])
    return Counter(policy.judge(text, root=str(project)).decision for text in commands(name))


def test_ordinary_commands_are_read() -> None:
    """Of the ordinary commands, at least 95 in 100 are known word by word before they run."""
    ordinary = commands("ordinary")
    known = [text for text in ordinary if read_command(text).is_static]
    assert len(ordinary) >= 300
    assert len(known) >= 0.95 * len(ordinary)


def test_harmless_commands_run_without_asking(project: Path) -> None:
    """Of plainly harmless commands, of all kinds of programs, 65.5 in 100 were allowed when last measured."""
    verdicts = shares("harmless", project)
    assert verdicts.total() >= 600
    assert verdicts["allow"] >= 0.65 * verdicts.total()
    assert verdicts["deny"] == 0


def test_everyday_commands_run_without_asking(project: Path) -> None:
    """Of what agents and people type to look around, 50.9 in 100 were allowed when last measured: the rest asks."""
    verdicts = shares("everyday", project)
    assert verdicts.total() >= 600
    assert verdicts["allow"] >= 0.505 * verdicts.total()
    assert verdicts["deny"] == 0


@pytest.mark.parametrize("name", ["dangerous", "denied", "asked"])
def test_nothing_that_changes_anything_is_allowed(name: str, project: Path) -> None:
    """Whatever writes, runs code, talks to the network or shows secrets is at least asked about."""
    # The corpus is written for a directory that is three deep. What is above that is the root, from wherever we run.
    above = "../" * max(3, len(Path.cwd().parts) - 1)
    texts = [text.replace("../../../", above) for text in commands(name)]
    untrusting, trusting = ShellPolicy.default(), ShellPolicy(trusted=[str(project)])
    assert [text for text in texts if untrusting.judge(text).decision == "allow"] == []
    of_git = [text for text in texts if "git" in text]
    allowed = [t for t in of_git if trusting.judge(t, root=str(project)).decision == "allow"]
    assert allowed == []


JOINTS = st.sampled_from(
    ["{}; {}", "{} && {}", "{} || {}", "{} | {}", "{}\n{}", "{} & {}", "{} $({})"]
)
HARMLESS = st.sampled_from([text for text in commands("harmless") if "#" not in text])
DANGEROUS = st.sampled_from(commands("dangerous") + commands("denied") + commands("asked"))


@given(JOINTS, HARMLESS, DANGEROUS)
def test_harmless_company_makes_nothing_harmless(joint: str, one: str, other: str) -> None:
    """A line with anything in it that changes something is asked about, whatever else is in it."""
    assert ShellPolicy.default().judge(joint.format(one, other)).decision != "allow"


@given(HARMLESS, st.text(alphabet="'\"\\$`;|&<>(){}*~#!=\n rm-", max_size=8), st.integers(0, 60))
def test_what_is_put_into_a_harmless_command(text: str, put: str, at: int) -> None:
    """Whatever is put into a harmless command, it is allowed only if it can still be read."""
    changed = text[:at] + put + text[at:]
    allowed = ShellPolicy.default().judge(changed).decision == "allow"
    assert not allowed or read_command(changed).is_known


@pytest.mark.parametrize(
    ("words", "decision"),
    [
        (["ls", "a b", "$HOME", "*", "{a,b}"], "allow"),
        (["TZ=a/run"], "ask"),
        (["LC_ALL=C", "cat"], "ask"),
        (["time", "ls"], "ask"),
        (["cat", ".env"], "ask"),
        ([], "ask"),
        (["rm", "-rf", "/"], "deny"),
    ],
)
def test_a_list_of_words_is_judged_as_words(words: list[str], decision: str) -> None:
    """Nothing in it is for a shell: `TZ=a/run` is a program of the project, not a variable."""
    assert ShellPolicy.default().judge(words).decision == decision


@pytest.mark.parametrize("command", [None, 3, [3], {"ls"}])
def test_what_is_no_command_is_refused_with_words(command: Any) -> None:
    """The error says what a command is."""
    with pytest.raises(UsageError, match="a text or a list of words"):
        ShellPolicy.default().judge(command)


def test_there_are_enough_dangerous_commands() -> None:
    """The corpus of dangerous commands is as large as it is said to be."""
    assert len(commands("dangerous")) >= 600
