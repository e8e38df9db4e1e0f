from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.capabilities import Files
from hookline.capabilities.files import search_tool
from hookline.state import ToolResult
from hookline.testing import call

Use = Callable[..., list[ToolResult]]


@pytest.fixture
def search(use: Use) -> Callable[..., str]:
    """What the model reads of a search."""
    return lambda pattern, **arguments: use(call("search", pattern=pattern, **arguments))[0].text


Search = Callable[..., str]


def test_lines_are_shown_with_where_they_are(search: Search) -> None:
    """Without what is hidden, ignored or outside."""
    assert search("main") == "src/main.py:4: def main():"
    assert search(r"^t\w+$") == "notes.txt:2: two\nnotes.txt:3: three"
    assert search("nothing like this") == "Nothing was found."


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"pattern": "TWO"}, "Nothing was found."),
        ({"pattern": "TWO", "ignore_case": True}, "notes.txt:2: two"),
        ({"pattern": "(", "literal": True}, "src/main.py:4: def main():"),
        ({"pattern": "MAIN()", "literal": True, "ignore_case": True}, "src/main.py:4: def main():"),
        ({"pattern": "main", "include": "*.txt"}, "Nothing was found."),
        ({"pattern": "main", "include": "*.{py,md}"}, "src/main.py:4: def main():"),
        ({"pattern": "main", "include": "src/**/*.py"}, "src/main.py:4: def main():"),
        ({"pattern": "main", "include": ".h*"}, ".hidden:1: main"),
        ({"pattern": "main", "path": "src"}, "src/main.py:4: def main():"),
        ({"pattern": "main", "path": "src", "include": "*.py"}, "src/main.py:4: def main():"),
        ({"pattern": "main", "path": "build"}, "build/out.txt:1: main"),
        ({"pattern": "main", "path": "debug.log"}, "debug.log:1: main was called"),
        ({"pattern": "main", "mode": "files"}, "src/main.py"),
        ({"pattern": "t", "mode": "count"}, "notes.txt: 2\nsrc/main.py: 2"),
        (
            {"pattern": "main", "everything": True, "mode": "files"},
            ".hidden\nbuild/out.txt\ndebug.log\nsrc/main.py",
        ),
        (
            {"pattern": "main", "path": "src/mian.py"},
            "Error: there is no 'src/mian.py'. Did you mean 'src/main.py'?",
        ),
        ({"pattern": ""}, "Error: `pattern` is empty. Say what to search for."),
        (
            {"pattern": "a\nb"},
            "Error: `pattern` has a new line in it, and lines are searched one by one.",
        ),
        ({"pattern": "x", "context": -1}, "Error: context is -1. Use 0 to 50."),
        ({"pattern": "x", "limit": 0}, "Error: limit is 0. Use 1 to 5000."),
        (
            {"pattern": "("},
            "Error: '(' is not a regular expression: missing ), unterminated subpattern",
        ),
        ({"pattern": "*"}, "Error: '*' is not a regular expression: nothing to repeat"),
    ],
)
def test_options(search: Search, arguments: dict[str, object], expected: str) -> None:
    """Each does what it says, and wrong ones say what is wrong."""
    assert search(**arguments).startswith(expected)


def test_context_is_shown_once(search: Search, root: Path) -> None:
    """Lines around a find are marked, do not repeat, and gaps are shown."""
    (root / "f").write_text("".join(f"{n}\n" for n in range(1, 13)))
    assert search("^(2|4|11)$", path="f", context=1) == (
        "f-1- 1\nf:2: 2\nf-3- 3\nf:4: 4\nf-5- 5\n--\nf-10- 10\nf:11: 11\nf-12- 12"
    )


def test_results_are_capped(search: Search, root: Path) -> None:
    """By number and by length, with a note; long lines are cut."""
    (root / "f").write_text("".join(f"x {n}\n" for n in range(50)))
    capped = search("x", path="f", limit=3)
    assert capped.startswith("f:1: x 0\nf:2: x 1\nf:3: x 2\n[there is more: use a narrower pattern")
    (root / "f").write_text(f"x{'y' * 1000}\n" * 500)
    shown = search("x", path="f", limit=500)
    assert len(shown) < search_tool.MOST_CHARACTERS + 200
    assert "... [601 more characters in this line]" in shown
    assert "there is more" in shown
    for number in range(5):
        (root / f"g{number}").write_text("unique")
    assert search("unique", mode="files", limit=5) == "g0\ng1\ng2\ng3\ng4"
    assert "g3" not in search("unique", mode="files", limit=3)


def test_encodings_are_searched_as_text(search: Search, root: Path) -> None:
    """Whatever the bytes are; binary files are passed over."""
    for number, encoding in enumerate(("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1")):
        content = "über\r\nx\n".encode(encoding)
        (root / f"e{number}").write_bytes(b"\xfe\xff" * (encoding == "utf-16-be") + content)
    (root / "binary").write_bytes(b"\0 \xc3\xbcber")
    assert search("^.ber$", mode="files") == "e0\ne1\ne2\ne3\ne4"
    assert search("Ü", literal=True, ignore_case=True, mode="files") == "e0\ne1\ne2\ne3\ne4"


def test_a_search_stays_inside(search: Search, root: Path) -> None:
    """Links are not followed, to files or to directories."""
    (root / "link").symlink_to("../secret.txt")
    (root / "up").symlink_to("..")
    assert "secret" not in search("secret", everything=True)
    assert search("main", path="link").startswith("Blocked: 'link' is outside the root.")
    os.mkfifo(root / "pipe")
    assert search("main", path="pipe") in (
        "Nothing was found.",
        "Error: 'pipe' is a pipe, not a file.",
    )


def test_a_regular_expression_that_never_ends_is_ended(use: Use, root: Path) -> None:
    """And says so, in the time that a search may take."""
    (root / "f").write_text("a" * 60 + "!\n")
    slow = Files(root, seconds=0.5)
    for pattern in ("(a+)+$", "(a|aa)+$", r"(\w+\s?)*$x"):
        (answer,) = use(call("search", pattern=pattern, path="f"), files=slow)
        assert "stopped after 0.5 s: use a simpler pattern" in answer.text


def test_large_files_are_left_out(
    search: Search, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a note; one that is named is an error that says what to use instead."""
    monkeypatch.setattr(search_tool, "LARGEST", 20)
    assert search("t", mode="files") == "notes.txt\n[1 file of more than 0 MB left out]"
    assert "'src/main.py' is larger than" in search("main", path="src/main.py")


def test_no_process_and_no_file_is_left_open(search: Search, root: Path) -> None:
    """Also when the search ends early."""

    def open_files() -> set[str]:
        """The files and pipes; the directories of jails are closed when the garbage is collected."""
        found = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
        return {path for path in found if "/pipe:" in path or Path(path).parent == root}

    before = open_files()
    for pattern in ("t", "(", "nothing", "(a+)+$"):
        search(pattern, limit=1)
    assert open_files() <= before  # a pipe of another test may be closed meanwhile
