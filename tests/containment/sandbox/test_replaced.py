"""A directory that is replaced by a link while the sandbox is made: nothing is run, and nothing outside is mounted."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import Sandbox
from hookline.containment.sandbox.bubblewrap import BubblewrapCommand
from hookline.errors import SandboxError

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def _to_outside(work: Path, outside: Path) -> None:
    """A directory that is mounted on itself becomes a link that leads out."""
    (work / "sub/.git").rename(work / "sub/moved")
    (work / "sub/.git").symlink_to(outside)


def _to_another_name(work: Path, outside: Path) -> None:
    """It becomes a link to a directory inside: what is protected has another path then."""
    (work / "sub/.git").rename(work / "sub/moved")
    (work / "sub/.git").symlink_to("moved")


@pytest.mark.parametrize("replace", [_to_outside, _to_another_name])
def test_nothing_runs_in_a_sandbox_with_something_else_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: Any
) -> None:
    """bubblewrap finds what it mounts by paths, so what is mounted is compared before the command starts."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    subprocess.run(["git", "init", "-q", str(work / "sub")], check=True)
    shutil.copytree(work / "sub/.git", outside)
    begin = BubblewrapCommand._begin

    def replace_first(self: BubblewrapCommand, *args: Any) -> int:
        replace(work, outside)
        return begin(self, *args)

    monkeypatch.setattr(BubblewrapCommand, "_begin", replace_first)
    with pytest.raises(SandboxError, match="was replaced while the sandbox was made"):
        asyncio.run(Sandbox(work, "required").run("touch sub/.git/planted"))
    assert not (outside / "planted").exists()
    assert not (work / "sub/moved/planted").exists()


def test_what_nobody_replaces_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """Names with blanks and other characters, mounts inside one another and covered files."""
    work = tmp_path / "a b\\c\td"
    work.mkdir()
    for name in ("x y", "é\n1", "plain"):
        subprocess.run(["git", "init", "-q", str(work / name)], check=True)
    (work / ".env").write_text("A=1")
    assert asyncio.run(Sandbox(work, "required").run("cat .env; touch made")).exit_code == 0
    assert (work / "made").exists()
