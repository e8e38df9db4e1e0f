"""What a git directory is: the file jail, the sandbox and git agree."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from hookline.containment import FileJail
from hookline.containment.protected import is_git_directory
from hookline.containment.sandbox.tree_index import TreeIndex
from hookline.errors import ProtectedPathError

ENTRIES = ("HEAD", "objects", "refs", "commondir", "config", "hooks")
SETS = [each for size in range(5) for each in itertools.combinations(ENTRIES, size)]


def make(directory: Path, names: tuple[str, ...]) -> None:
    """A directory with these entries."""
    directory.mkdir()
    for name in names:
        if name in ("objects", "refs", "hooks"):
            (directory / name).mkdir()
        else:
            (directory / name).write_text("../elsewhere" if name == "commondir" else "x")


@pytest.mark.parametrize("names", SETS, ids=",".join)
def test_the_jail_and_the_sandbox_agree(tmp_path: Path, names: tuple[str, ...]) -> None:
    """The sandbox protects the parts of what it takes for a git directory; the jail changes nothing in it."""
    make(tmp_path / "store", names)
    index = TreeIndex(str(tmp_path))
    index.refresh()
    in_sandbox = "store" in index.git_directories()
    with FileJail(tmp_path) as jail:
        try:
            jail.write_text("store/MERGE_RR", "x")
        except ProtectedPathError:
            in_jail = True
        else:
            in_jail = False
    assert in_sandbox == in_jail == is_git_directory(names)


@pytest.mark.parametrize("name", ["commondir", "objects", "refs", "config", "hooks"])
@pytest.mark.parametrize("names", SETS, ids=",".join)
def test_no_write_makes_a_git_directory(tmp_path: Path, names: tuple[str, ...], name: str) -> None:
    """Whatever was there: neither the jail nor a part that it let through makes one."""
    make(tmp_path / "store", names)
    with FileJail(tmp_path) as jail:
        try:
            jail.write_text(f"store/{name}/file" if name != "commondir" else "store/commondir", "x")
        except (ProtectedPathError, OSError):
            return
    assert not is_git_directory(os.listdir(tmp_path / "store"))


@pytest.mark.parametrize("moved", ["HEAD", "refs", "config"])
def test_a_repository_counts_without_one_of_its_parts(tmp_path: Path, moved: str) -> None:
    """A command can put it back."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "store"], check=True)
    (tmp_path / "store" / moved).rename(tmp_path / "elsewhere")
    assert is_git_directory(os.listdir(tmp_path / "store"))


def test_the_logs_of_git_are_no_git_directory(tmp_path: Path) -> None:
    """They have a `HEAD`, which is no ref and grows, and `refs`."""
    user = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(
        ["git", *user, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True
    )
    assert {"HEAD", "refs"} <= {*os.listdir(tmp_path / ".git/logs")}
    assert not is_git_directory(os.listdir(tmp_path / ".git/logs"))
