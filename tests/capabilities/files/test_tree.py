"""Our reading of `.gitignore` beside git's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.capabilities.files.tree import Walk
from hookline.containment import FileJail

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/local/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "HOME": "/nonexistent",
}


def by_git(root: Path) -> list[str]:
    """The files that git would add."""
    git = shutil.which("git") or "git"
    if not (root / ".git").exists():
        subprocess.run([git, "init", "-q"], cwd=root, check=True, env=ENVIRONMENT)
    command = [git, "ls-files", "-z", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=root, check=True, env=ENVIRONMENT, capture_output=True)
    return sorted(found.stdout.decode().split("\0")[:-1])


def by_us(root: Path) -> list[str]:
    """The files that a walk shows, hidden ones too."""
    with FileJail(root) as jail:
        walk = Walk(jail, asks_for=lambda _: True)
        return sorted(entry.path for entry in walk.files("."))


def plant(root: Path, files: dict[str, str]) -> None:
    """These files, as far as they can be."""
    for path, text in files.items():
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        except OSError:
            continue


NAMES = ["a", "b", "a.log", "b.txt", "build", ".env"]
TREE = {f"{d}{n}/f": "" for d in ("", "a/", "build/", "x/y/") for n in NAMES} | {
    f"{d}{n}.log": "" for d in ("", "x/", "x/y/", "docs/") for n in NAMES
}


@pytest.mark.parametrize(
    "rules",
    [
        {".gitignore": "*.log\n!b.log\nbuild/\n"},
        {".gitignore": "/a\n/x/y\n"},
        {".gitignore": "x/*\n!x/y\n"},
        {".gitignore": "**/a/f\nx/**/b\n"},
        {".gitignore": "x/**\n!x/y/\n"},
        {".gitignore": "*\n!*/\n!*.log\n"},
        {".gitignore": "# a comment\n\\#x\n   \na.log   \n[ab].txt\n"},
        {".gitignore": "*.log\n", "x/.gitignore": "!*.log\n/a\n", "x/y/.gitignore": "*\n"},
        {".gitignore": "docs/*.log\ny/\n.env\n"},
        {".gitignore": "?.log\n[!a].log\nbuild\n"},
        {".gitignore": "[[:alpha:]].log\n[![:upper:]].txt\n[[:nothing:]]*\n[]a]\n"},
        {".gitignore": "/**/y\na/**\n"},
        {".gitignore": "\ufeffa\n"},
        {".gitignore": "a/\n!a/f\n"},
        {".gitignore": "x/y/a.log.log\r\n*.txt.log\r\n"},
    ],
)
def test_we_see_what_git_sees(tmp_path: Path, rules: dict[str, str]) -> None:
    """Rules of every kind, on one tree."""
    plant(tmp_path, {**TREE, **rules})
    assert by_us(tmp_path) == by_git(tmp_path)


PARTS = st.sampled_from(["a", "b", "*", "**", "?", "*.log", "a*", "[ab]", "[!a]", "x", "y", ".env"])
LINES = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "", "!", "/", "!/"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " "]),
)


@settings(max_examples=60)
@given(st.lists(LINES, max_size=5), st.lists(LINES, max_size=3))
def test_we_see_what_git_sees_whatever_the_rules(
    tmp_path_factory: pytest.TempPathFactory, above: list[str], below: list[str]
) -> None:
    """Two files of random rules."""
    root = tmp_path_factory.mktemp("tree")
    plant(root, TREE)
    plant(root, {".gitignore": "\n".join(above), "x/.gitignore": "\n".join(below)})
    assert by_us(root) == by_git(root)
