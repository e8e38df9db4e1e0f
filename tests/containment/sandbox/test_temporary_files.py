"""Files of our own that are mounted for commands lie where no command can write, wherever TMPDIR is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.containment import Sandbox
from hookline.containment.sandbox import mounts
from hookline.errors import SandboxError

from .conftest import needs_bubblewrap

pytestmark = needs_bubblewrap

RUN = """
import sys
from hookline.containment import Sandbox
sandbox = Sandbox(sys.argv[1], "required")
for line in sys.argv[2:]:
    result = sandbox.run_sync(line)
    print(result.exit_code, result.text, end="")
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work directory in which TMPDIR is, in a process that has no files of its own but those of the test."""
    assert Sandbox(tmp_path).status.contained
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))
    monkeypatch.setattr(mounts, "_empty", None)
    monkeypatch.setattr(mounts, "_devices", None)
    return work


def test_nothing_of_ours_is_where_commands_can_write(tmp_path: Path) -> None:
    """A link in the place of the null device had the next command write to any file of the user's."""
    work, victim = tmp_path / "work", tmp_path / "victim"
    work.mkdir()
    victim.write_text("")
    replace = f"for each in $(find . -name null -o -name empty); do ln -sf {victim} $each; done"
    lines = ["echo A=1 > .env", f"find .; {replace}", "echo x >> /dev/null; cat .env"]
    env = {**os.environ, "TMPDIR": str(work)}
    argv = [sys.executable, "-c", RUN, str(work), *lines]
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert "hookline-own-" not in ran.stdout
    assert victim.read_text() == ""


def test_where_there_is_no_other_place_nothing_runs(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory of our state cannot be written, and commands can write where TMPDIR is."""
    sandbox = Sandbox(work, "required")
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    with pytest.raises(SandboxError, match="TMPDIR"):
        sandbox.run_sync("true")
    other = work.parent / "other"
    other.mkdir()
    assert Sandbox(other, "required").run_sync("echo works").text == "works\n"


def test_what_was_put_in_the_place_of_ours_is_not_used(work: Path) -> None:
    """A link, a file with something in it, another device: they are made again, or it is an error."""
    (work / "link").symlink_to("/etc/passwd")
    (work / "file").write_text("x")
    for each in ("link", "file"):
        mounts._empty = str(work / each)
        assert os.path.getsize(mounts.empty_file()) == 0
        mounts._devices = {os.devnull: str(work / each)}
        assert mounts.null_device() != str(work / each)
    mounts._devices = {}
    os.close(mounts.open_null_device())


@pytest.mark.parametrize("name", ["link", "file"])
def test_what_is_opened_is_a_null_device(
    work: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command gets it as its input."""
    (work / "link").symlink_to("/etc/passwd")
    (work / "file").write_text("x")
    monkeypatch.setattr(mounts, "null_device", lambda: str(work / name))
    with pytest.raises(OSError, match=name):
        mounts.open_null_device()
