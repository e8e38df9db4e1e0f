from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.capabilities import Files
from hookline.capabilities.files import list_tool, tree
from hookline.state import ToolResult
from hookline.testing import call

Use = Callable[..., list[ToolResult]]


def text_of(use: Use, tool: str, **arguments: object) -> str:
    """What the model reads."""
    return use(call(tool, **arguments))[0].text


def test_a_list_shows_everything_in_a_directory(use: Use, root: Path) -> None:
    """Hidden or ignored: what each thing is, and how large."""
    (root / "link").symlink_to("../secret.txt")
    assert text_of(use, "list").split("\n") == [
        ".gitignore  13 bytes",
        ".hidden  5 bytes",
        "build/",
        "debug.log  16 bytes",
        "link (link)",
        "notes.txt  14 bytes",
        "src/",
    ]
    assert text_of(use, "list", path="src") == "main.py  37 bytes"
    (root / "empty").mkdir()
    assert text_of(use, "list", path="empty/") == "(the directory is empty)"


def test_a_deep_list_does_not_open_up_what_is_ignored(use: Use, root: Path) -> None:
    """Nobody wants to see the inside of `build`, unless asked for."""
    (root / "src" / "deep" / "er").mkdir(parents=True)
    (root / "src" / "deep" / "er" / "x").touch()
    shown = text_of(use, "list", depth=3)
    assert "build/\ndebug.log" in shown
    assert "src/\n  deep/\n    er/\n  main.py" in shown
    assert "x  0 bytes" not in shown
    assert text_of(use, "list", path="build", depth=2) == "out.txt  5 bytes"


def test_lists_are_capped(use: Use, root: Path) -> None:
    """With a note."""
    for number in range(list_tool.MOST + 5):
        (root / "src" / f"{number:04}").touch()
    lines = text_of(use, "list", path="src").split("\n")
    assert len(lines) == list_tool.MOST + 1
    assert (
        lines[-1]
        == f"[only the first {list_tool.MOST} are shown: list a directory below it, or use glob]"
    )
    assert text_of(use, "glob", pattern="**/0*").endswith(
        "[only the first 500 are shown: use a narrower pattern or path]"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"pattern": "**/*"}, "notes.txt\nsrc/main.py"),
        ({"pattern": "**"}, "notes.txt\nsrc/main.py"),
        ({"pattern": "**/*.{py,log}"}, "src/main.py"),
        ({"pattern": "**/*.log", "everything": True}, "debug.log"),
        ({"pattern": "**/*.txt", "path": "build"}, "build/out.txt"),
        ({"pattern": "*.py", "path": "src"}, "src/main.py"),
        ({"pattern": "src/*"}, "src/main.py"),
        ({"pattern": ".h*"}, ".hidden"),
        ({"pattern": ".*"}, ".gitignore\n.hidden"),
        ({"pattern": ".config/**"}, ".config/.deep/x\n.config/a"),
        ({"pattern": "*", "everything": True}, ".gitignore\n.hidden\ndebug.log\nnotes.txt"),
        ({"pattern": "*.py"}, "(no file fits; to look in the directories below too, use **/*.py)"),
        ({"pattern": "x/*.py"}, "(no file fits)"),
    ],
)
def test_globs(use: Use, root: Path, arguments: dict[str, object], expected: str) -> None:
    """Paths relative to the root, in order; hidden and ignored files only if they are asked for."""
    (root / ".config" / ".deep").mkdir(parents=True)
    (root / ".config" / "a").touch()
    (root / ".config" / ".deep" / "x").touch()
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").touch()
    if arguments["pattern"] == ".config/**":
        expected = ".config/a"  # ** does not stand for hidden names, not even below a hidden one
    assert text_of(use, "glob", **arguments) == expected


def test_ignore_files_can_be_ignored(use: Use, root: Path) -> None:
    """Where there is no git, they may mean nothing."""
    (found,) = use(call("glob", pattern="*.log"), files=Files(root, gitignore=False))
    assert found.text == "debug.log"


def test_links_to_directories_are_not_entered(use: Use, root: Path) -> None:
    """They may lead in circles, or out."""
    (root / "loop").symlink_to(".")
    (root / "out").symlink_to("..")
    assert text_of(use, "glob", pattern="**/*.txt") == "notes.txt"
    assert "secret" not in text_of(use, "list", depth=10)


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("list", {"path": "nope"}, "there is no 'nope'"),
        ("list", {"path": "nots.txt"}, "Did you mean 'notes.txt'?"),
        ("list", {"path": "notes.txt"}, "is not a directory"),
        ("list", {"depth": 0}, "depth is 0. Use 1 to 10"),
        ("glob", {"pattern": "*", "path": "scr"}, "Did you mean 'src'?"),
        ("glob", {"pattern": "{a,b}" * 20}, "more than 100 patterns"),
    ],
)
def test_what_cannot_be_listed(
    use: Use, tool: str, arguments: dict[str, object], problem: str
) -> None:
    """Says what is wrong, and what was probably meant."""
    assert problem in text_of(use, tool, **arguments)


def test_nobody_gets_lost_in_a_deep_tree(use: Use, root: Path) -> None:
    """However deep somebody made it."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(150):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    shown = text_of(use, "glob", pattern="**/*.txt")
    assert shown == "notes.txt\n[directories below level 100 were not searched]"
    assert "were not searched" in text_of(use, "search", pattern="one")


def test_a_walk_ends(use: Use, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many files, or so much time, with a note."""
    monkeypatch.setattr(tree, "MOST_ENTRIES", 2)
    assert "only the first" in text_of(use, "glob", pattern="**/*")
    monkeypatch.undo()
    (slow,) = use(call("glob", pattern="**/*"), files=Files(root, seconds=1e-9))
    assert "time limit was reached" in slow.text


def test_a_name_that_is_no_text_hides_no_other(use: Use, root: Path) -> None:
    """It is shown with its bytes spelled out, on one line, and everything else as ever."""
    odd = os.path.join(os.fsencode(root), b"src", b"\xffn.txt")
    with open(odd, "w") as file:
        file.write("needle\n")
    (root / "src" / "two\nlines.txt").write_text("needle\n")
    note = "\n[names with \\x.. in them are not UTF-8: the file tools cannot open such a file]"
    assert text_of(use, "list", path="src") == (
        f"main.py  37 bytes\ntwo\\nlines.txt  7 bytes\n\\xffn.txt  7 bytes{note}"
    )
    assert text_of(use, "glob", pattern="src/**") == (
        f"src/main.py\nsrc/two\\nlines.txt\nsrc/\\xffn.txt{note}"
    )
    found = f"src/two\\nlines.txt:1: needle\nsrc/\\xffn.txt:1: needle{note}"
    assert text_of(use, "search", pattern="needle") == found
    assert "Did you mean 'src/two" not in text_of(use, "read", path="src/xffn.txt")


def test_a_directory_whose_name_is_no_text_cannot_be_reached_by_a_link(
    use: Use, root: Path
) -> None:
    """A call has the path that is opened, and that is text."""
    os.mkdir(os.path.join(os.fsencode(root), b"d\xfe"))
    os.symlink(b"d\xfe", os.path.join(os.fsencode(root), b"link"))
    (root / "link" / "x.txt").write_text("one\n")
    for each in use(
        call("write", path="link/x.txt", content="two\n"), call("read", path="link/x.txt")
    ):
        assert "leads through a symbolic link" in each.text
    assert (root / "link" / "x.txt").read_text() == "one\n"


def test_a_link_to_nothing_is_called_that(use: Use, root: Path) -> None:
    """By the name of what is not there."""
    (root / "gone.txt").symlink_to("nowhere.txt")
    (read,) = use(call("read", path="gone.txt"))
    assert "there is no 'nowhere.txt'" in read.text
