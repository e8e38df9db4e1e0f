from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.capabilities import Files
from hookline.capabilities.files import search_tool, text
from hookline.state import ToolResult
from hookline.testing import call

Use = Callable[..., list[ToolResult]]


@pytest.fixture(params=["ripgrep", "python"])
def files(request: pytest.FixtureRequest, root: Path) -> Files:
    """With ripgrep and without: every test here holds for both."""
    if request.param == "ripgrep":
        program = request.getfixturevalue("rg")
        path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
        request.getfixturevalue("monkeypatch").setenv("PATH", path)
    return Files(root, ripgrep=request.param == "ripgrep")


@pytest.fixture
def search(use: Use, files: Files) -> Callable[..., str]:
    """What the model reads of a search."""
    return lambda pattern, **arguments: use(
        call("search", pattern=pattern, **arguments), files=files
    )[0].text()


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
    slow = Files(root, seconds=0.5, ripgrep=False)
    for pattern in ("(a+)+$", "(a|aa)+$", r"(\w+\s?)*$x"):
        (answer,) = use(call("search", pattern=pattern, path="f"), files=slow)
        assert "stopped after 0.5 s: use a simpler pattern" in answer.text()


def test_large_files_are_left_out(
    search: Search, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a note that says how to search one all the same, and so it is searched."""
    monkeypatch.setattr(search_tool, "LARGEST", 20)
    note = "[1 file of more than 0 MB left out: to search one, name it as path]"
    assert search("t", mode="files") == f"notes.txt\n{note}"
    assert search("main", path="src/main.py") == "src/main.py:4: def main():"


@pytest.mark.parametrize(
    ("encoding", "line_end"), [("utf-8", "\n"), ("utf-16", "\r\n"), ("latin-1", "\n")]
)
def test_a_large_file_is_searched_like_any_other(
    search: Search, root: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, line_end: str
) -> None:
    """A part at a time, and nothing shows where one part ends and the next begins."""
    lines = [f"{n} {'café' if n % 7 in (0, 1) else 'thé'}" for n in range(60)]
    (root / "log").write_bytes(line_end.join(lines).encode(encoding))
    ways = [{"context": 0, "limit": 5}, {"context": 1}, {"context": 3}, {"mode": "count"}]

    def answers() -> list[str]:
        return [search("caf.$", path="log", **way) for way in ways]

    whole = answers()
    monkeypatch.setattr(search_tool, "LARGEST", 20)
    monkeypatch.setattr(text, "_AT_ONCE", 40)
    assert answers() == whole
    monkeypatch.setattr(text, "_AT_ONCE", 1)
    assert search("caf.$", path="log", mode="count") == whole[-1] == "log: 18"
    assert search("caf.$", path="log", mode="files") == "log"


def test_a_line_without_end_is_searched_as_far_as_it_is_looked_at(
    search: Search, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not held in memory, and the lines after it keep their numbers."""
    monkeypatch.setattr(search_tool, "LARGEST", 20)
    monkeypatch.setattr(text, "_LONGEST_LINE", 10)
    (root / "log").write_text(f"begin{'x' * 100}end\nlast\n")
    assert search("begin|end|last", path="log") == "log:1: beginxxxxx\nlog:2: last"


def test_no_process_and_no_file_is_left_open(search: Search) -> None:
    """Also when the search ends early."""

    def open_files() -> int:
        gc.collect()  # agents that were run before
        return len(os.listdir("/proc/self/fd"))

    search("t", limit=1)
    before = open_files()
    for pattern in ("t", "(", "nothing", "(a+)+$"):
        search(pattern, limit=1)
    assert open_files() == before
