"""What a pattern may become is looked up on the disk, where a file may be called like an option."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import ShellPolicy

BY_NAMES = [
    "file *",
    "file *.png",
    "file [a-z]*",
    "sort *",
    "sort *.txt",
    "x='*'; sort $x",
    'for f in *; do file "$f"; done',
    "find * -name x",
    "sed -n 1p *",
    "tar tf *",
    "cd sub; file *",
    "bash -c 'file *'",
]
NEVER = [
    "nm *",
    "kubectl get *",
    "ss *",
    "uniq *",
    "sysctl *",
    "tar *",
    "sed *",
    "git *",
    "for f in *; do file $f; done",
    "ls | xargs file",
    "cd */; file *",
    "sort {-o,x}",
    'for f in *; do sort -o "$f" x; done',
    "sort * -o x",
    "find * -delete",
]
ODD = ["-Cmx", "-o", "--output=x", "a:b", "@x", "+x", "x=y", "(", "!", "a\nb"]


def _decision(command: str, root: Path) -> str:
    return ShellPolicy.default().judge(command, root=str(root)).decision


@pytest.mark.parametrize("command", BY_NAMES)
def test_a_pattern_among_plain_names(command: str, tmp_path: Path) -> None:
    """Where every file has a plain name, a pattern can become none of a program's options."""
    for name in ("a.txt", "b c.png", "réf.md", ".hidden"):
        (tmp_path / name).touch()
    assert _decision(command, tmp_path) == "allow"


@pytest.mark.parametrize("name", ODD)
def test_a_pattern_among_odd_names(name: str, tmp_path: Path) -> None:
    """One file that is called like an option, an address or a word of some program is a reason to ask."""
    (tmp_path / name).touch()
    assert {_decision(command, tmp_path) for command in BY_NAMES} == {"ask"}


@pytest.mark.parametrize("command", NEVER)
def test_a_pattern_that_may_be_more_than_files(command: str, tmp_path: Path) -> None:
    """Names are no files to every program, and what is taken apart or found elsewhere is not looked up."""
    (tmp_path / "a.txt").touch()
    assert _decision(command, tmp_path) == "ask"


def test_where_it_is_looked_up(tmp_path: Path) -> None:
    """Every directory in which a line may stand counts, and none that cannot be named or read to its end."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "-Cmx").touch()
    assert _decision("file *", tmp_path) == "allow"
    assert _decision("cd sub && file *", tmp_path) == "ask"
    assert ShellPolicy.default().judge("file *", cwd="sub", root=str(tmp_path)).decision == "ask"
    policy = ShellPolicy.default().with_rules(allow=["touch *"])
    assert policy.judge("touch ./-o; sort *", root=str(tmp_path)).decision == "ask"
    for number in range(2_000):
        (tmp_path / f"f{number}").touch()
    assert _decision("file *", tmp_path) == "ask"


def test_the_directory_itself_without_quotes(tmp_path: Path) -> None:
    """`$PWD` is one word where the way there has no blank in it."""
    odd = tmp_path / "x -delete"
    odd.mkdir()
    assert _decision("find $PWD -name '*.h'", tmp_path) == "allow"
    assert _decision("find $PWD/src -type f", tmp_path) == "allow"
    assert _decision("find $PWD -name '*.h'", odd) == "ask"
    assert _decision("cd 'x -delete'; find $PWD", tmp_path) == "ask"
    assert _decision("cd $(cat x); find $PWD", tmp_path) == "ask"
    assert _decision("find $OLDPWD", tmp_path) == "ask"
    assert _decision("find $PWD -delete", tmp_path) == "ask"
