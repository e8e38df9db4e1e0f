"""Completion, tested in the real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest
from terminal import Terminal

_LINES = [
    ("hookline ru", "run"),
    ("hookline run --mo", "--model"),
    ("hookline run --mode ", "accept_edits"),
    ("hookline run --sandbox r", "required"),
    ("hookline run --capability sk", "skills"),
    ("hookline hooks ", "explain"),
    ("hookline hooks test --an", "--answer"),
    ("hookline config s", "schema"),
    ("hookline completion ", "zsh"),
    ("hookline resume ", "last"),
]


def offered(place: Any, shell: str, line: str) -> list[str]:
    """What a shell offers at the end of a line."""
    script = place.home / f"completion.{shell}"
    if not script.exists():
        script.write_text(place.run("completion", shell).stdout, encoding="utf-8")
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    if shell == "fish":
        command = f"source {script}; complete -C '{line}' | string replace -r '\\t.*' ''"
    else:
        command = (
            f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _shtab_hookline; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
    done = subprocess.run(
        [shell, "-c", command],
        cwd=place.project,
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_what_is_offered(shell: str, place: Any) -> None:
    """Commands, flags, their values, actions with their own flags, and runs."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    place.env["PATH"] = f"{_installed(place)}:{os.environ['PATH']}"
    for line, word in _LINES:
        assert any(each.endswith(word) for each in offered(place, shell, line)), line
    assert "--mode" in offered(place, shell, "hookline run hooks --mod")
    assert "--answer" not in offered(place, shell, "hookline run hooks test --an")
    assert "last" not in offered(place, shell, "hookline config show ")
    assert "--points" not in offered(place, shell, "hookline hooks test --p")
    place.run("run", "--model", place.script({"say": "Hi."}), "x", "--without", "bash")
    (listed,) = place.run("runs").stdout.splitlines()
    assert listed.split()[0] in offered(place, shell, "hookline show ")


def _installed(place: Any) -> Any:
    """A directory with the command in it, for a script that calls it."""
    path = place.home / "bin" / "hookline"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {place.command} "$@"\n')
    path.chmod(0o755)
    return path.parent


def test_zsh_completes_what_is_typed(place: Any) -> None:
    """In a terminal, with keys, also where nobody has set up completion yet: words, values, and files."""
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh here")
    place.env["PATH"] = f"{_installed(place)}:{os.environ['PATH']}"
    place.write("task.md", "Do it.")
    script = place.home / "completion.zsh"
    script.write_text(place.run("completion", "zsh").stdout, encoding="utf-8")
    terminal = Terminal(
        "-f", "-i", program="zsh", cwd=place.project, env={**place.env, "PS1": "ready> "}
    )
    terminal.wait_for("ready> ")
    terminal.press(f'eval "$(cat {script})"\r')
    for typed, completed in (
        ("hookline doc", "hookline doctor"),
        ("hookline run --mode acc", "hookline run --mode accept_edits"),
        ("hookline run -f ta", "hookline run -f task.md"),
    ):
        terminal.wait_for("ready> ")
        terminal.press(f"{typed}\t\x01echo said: \r")  # the completed line is printed and not run
        terminal.wait_for(f"\nsaid: {completed}")
    terminal.press("exit\r")
    terminal.end()
