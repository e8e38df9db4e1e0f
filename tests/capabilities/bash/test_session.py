"""State that lasts from one command to the next, also when a command hides it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_results import result_texts

from hookline.capabilities import Bash
from hookline.testing import call

from .test_capability import MODES, run


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "hidden",
    [
        "export PATH=/opt/mytool/bin",
        "env() { :; }; command() { :; }; pwd() { :; }; printf() { :; }",
        "alias env=true; shopt -s expand_aliases",
        "unset PATH",
    ],
)
def test_variables_last_when_a_command_changes_the_search_path(
    tmp_path: Path, mode: Any, hidden: str
) -> None:
    """The programs that read it are not looked up in the command's own PATH, nor among its functions."""
    result = run(
        Bash(tmp_path, sandbox=mode, keep="session"),
        call("bash", command="export EARLIER=1"),
        call("bash", command=f"{hidden}\nexport LATER=2"),
        call("bash", command="echo [$EARLIER] [$LATER]"),
    )
    assert result_texts(result)[-1].startswith("[1] [2]\n")


@pytest.mark.parametrize("mode", MODES)
def test_variables_that_cannot_be_kept_are_reported(tmp_path: Path, mode: Any) -> None:
    """Those from before stay, and so does the directory."""
    (tmp_path / "sub").mkdir()
    result = run(
        Bash(tmp_path, sandbox=mode, keep="session"),
        call("bash", command="export EARLIER=1"),
        call("bash", command="cd sub; for n in 1 2 3; do export BIG$n=$(printf %0100000d 7); done"),
        call("bash", command="pwd; echo [$EARLIER] [${#BIG1}]"),
    )
    _, large, last = result_texts(result)
    assert "variables that this command left are not kept: more than 256 KB in all" in large
    assert last.startswith(f"{tmp_path / 'sub'}\n[1] [0]\n")


def test_there_is_an_end_to_the_variables_that_are_kept(tmp_path: Path) -> None:
    """It is said which are missing."""
    result = run(
        Bash(tmp_path, sandbox="host", keep="session"),
        call("bash", command="for n in {1..250}; do export V$n=x; done"),
    )
    assert "[only 200 variables are kept; among those that are not: V" in result_texts(result)[0]
    assert len(result.state.metadata["bash.session"]["env"]) == 200


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("left", ["export NOTHING=", "export FIRST=1 NOTHING=", "export NOTHING"])
def test_an_empty_variable_lasts_like_any_other(tmp_path: Path, mode: Any, left: str) -> None:
    """Also as the last of them, where the sandbox's program could take it for none at all."""
    result = run(
        Bash(tmp_path, sandbox=mode, keep="session"),
        call("bash", command=f"NOTHING=; {left}"),
        call("bash", command="echo [${NOTHING-unset}]"),
    )
    assert result_texts(result)[-1].startswith("[]\n")
