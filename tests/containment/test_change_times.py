"""What was found in files is remembered only once their next change shows in its time."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from hookline.containment import links
from hookline.containment.links import link_out_of
from hookline.containment.shell import git_trust
from hookline.containment.shell.git_trust import repository_objection

CHANGED_AT = 5_000_000_001
LATER = {"young": (CHANGED_AT + 1_000_000, True), "old": (CHANGED_AT + 10**9, False)}


@pytest.fixture(params=LATER)
def is_noticed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a change has to be noticed that leaves the time as it was."""
    now, is_noticed = LATER[request.param]
    monkeypatch.setattr(time, "time_ns", lambda: now)
    return is_noticed


def test_a_link_that_leaves_the_time_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    """In a directory that changed a moment before it was read."""
    monkeypatch.setattr(links, "_change_time", lambda _: CHANGED_AT)
    assert link_out_of(str(tmp_path)) is None
    (tmp_path / "link").symlink_to("/etc")
    assert link_out_of(str(tmp_path)) == ("link" if is_noticed else None)


def test_a_setting_that_leaves_the_time_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    """In a configuration of the same size."""

    def mark(path: str) -> tuple[int, ...]:
        facts = os.lstat(path) if os.path.lexists(path) else None
        return (0,) if facts is None else (facts.st_mode, facts.st_ino, 0, CHANGED_AT, CHANGED_AT)

    monkeypatch.setattr(git_trust, "_mark", mark)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert repository_objection(str(tmp_path)) is None
    with (tmp_path / ".git" / "config").open("a") as file:
        file.write("[core]\n\tfsmonitor = x\n")
    said = repository_objection(str(tmp_path))
    assert said == ("its configuration sets core.fsmonitor" if is_noticed else None)
