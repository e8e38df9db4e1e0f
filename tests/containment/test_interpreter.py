"""What runs us is not for contained commands to change, wherever it lies."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hookline import AgentBuilder
from hookline.capabilities import Bash
from hookline.capabilities.files import regex_worker
from hookline.containment import FileJail, Sandbox, SandboxPaths
from hookline.containment.interpreter import (
    PYTHON,
    compiled_code,
    environments_below,
    from_pipe,
    isolated_command,
)
from hookline.errors import ProtectedPathError
from hookline.testing import ScriptedDriver, say

SOURCES = Path(__file__).resolve().parents[2] / "src"
needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work directory with the environment we run in below it."""
    program = tmp_path / "env" / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("as it was")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env" / ".venv"))
    return tmp_path


def test_an_environment_is_found_below_a_directory_and_nowhere_else(project: Path) -> None:
    """Not the directory itself, nor one whose name only begins like it."""
    assert environments_below(project) == ["env/.venv"]
    assert environments_below(project / "env" / ".venv") == []
    (project / "en").mkdir()
    assert environments_below(project / "en") == []


@needs_bubblewrap
def test_a_contained_command_cannot_change_what_runs_us(project: Path) -> None:
    """Neither the environment nor the directory around it; an option leaves it out."""
    attempt = (
        "echo x > env/.venv/bin/python; rm -rf env/.venv; mv env gone; mkdir -p env/.venv/lib/x"
    )
    Sandbox(project, "required").run_sync(attempt)
    assert (project / "env" / ".venv" / "bin" / "python").read_text() == "as it was"
    assert not (project / "env" / ".venv" / "lib").exists()
    loose = Sandbox(project, "required", paths=SandboxPaths(unprotected=("env/.venv",)))
    loose.run_sync(attempt)
    assert not (project / "env" / ".venv" / "bin" / "python").exists()


def test_a_jail_does_not_change_what_runs_us(project: Path) -> None:
    """Not by writing, not by removing it or what it lies in; it can be read, and what is beside it be changed."""
    jail = FileJail(project)
    for path in ("env/.venv/bin/python", "env/.venv/new.pth", "ENV/.VENV/x"):
        with pytest.raises(ProtectedPathError, match=r"'env/\.venv' and what is in it"):
            jail.write_text(path, "planted")
    for path in ("env/.venv", "env"):
        with pytest.raises(ProtectedPathError):
            jail.remove(path, recursive=True)
    assert jail.read_text("env/.venv/bin/python") == "as it was"
    jail.write_text("env/notes.txt", "mine")
    FileJail(project, protected=()).write_text("env/.venv/new.pth", "mine")


def test_our_programs_are_taken_along_as_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The interpreter is the one there was, and no file of ours is read when it is started."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "planted"))
    command = isolated_command(regex_worker)
    assert command[:3] == (PYTHON, "-I", "-S")
    assert "planted" not in " ".join(command)
    asked = b'{"pattern": "a+", "ignore_case": false}\n' + (3).to_bytes(8) + b"b\na"
    assert subprocess.run(command, input=asked, capture_output=True).stdout == b"{}\n[1]\n"


@needs_bubblewrap
def test_a_program_that_imports_from_the_work_directory_is_warned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Modules that a command writes there would be run outside, once they are imported."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def findings(root: Path) -> list[str]:
        builder = AgentBuilder().with_driver(ScriptedDriver([say("x")]))
        builder.with_capability(Bash(root, sandbox="required"))
        return [str(each) for each in builder.build().lint()]

    (tmp_path / "work").mkdir()
    assert findings(tmp_path / "work") == []
    (finding,) = findings(tmp_path)
    assert f"Python imports modules from '{tmp_path}'" in finding
    assert "python -P" in finding


@needs_bubblewrap
def test_a_planted_interpreter_is_not_run_by_a_search(tmp_path: Path) -> None:
    """With a real environment in the project: the command fails to replace it, and the search runs what it should."""
    project, proof = tmp_path / "project", tmp_path / "escaped"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    code = f"""
import sys
sys.path += [{str(SOURCES)!r}, {sysconfig.get_paths()["purelib"]!r}]
from hookline import AgentBuilder
from hookline.capabilities import Bash, Files
from hookline.testing import ScriptedDriver, call, say
plant = "printf '#!/bin/sh\\\\ntouch {proof}\\\\n' > x; chmod +x x; cp x .venv/bin/python; mv -f x .venv/bin/python"
turns = [call("bash", command=plant), call("search", pattern="touch .*"), say("done")]
agent = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files({str(project)!r}))
result = agent.with_capability(Bash({str(project)!r}, sandbox="required")).build().run_sync("Go.")
print(result.steps[1].results[0].text)
"""
    ran = subprocess.run(
        [project / ".venv" / "bin" / "python", "-c", code], capture_output=True, text=True
    )
    assert "x:2: touch" in ran.stdout, ran.stderr
    assert not proof.exists()


def test_what_is_compiled_runs_as_it_comes() -> None:
    """By a pipe, alone; where there is no interpreter of our own, nothing is kept for another."""
    text = compiled_code(regex_worker)
    assert text is not None
    reads, writes = os.pipe()
    with open(writes, "wb") as file:
        file.write(marshal.dumps(compile("print(40 + 2)", "x", "exec")))
    ran = subprocess.run(from_pipe(reads), capture_output=True, pass_fds=(reads,), check=True)
    os.close(reads)
    assert ran.stdout.split() == [b"42"]


def test_without_an_interpreter_nothing_is_compiled_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one might not understand it."""
    monkeypatch.setattr(sys, "executable", "")
    assert compiled_code(regex_worker) is None
