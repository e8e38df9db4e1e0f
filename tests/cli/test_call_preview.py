"""What a person sees of a call before they say yes to it: all that it would do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.approval_prompt import preview
from hookline.cli.terminal import Paint
from hookline.state import ToolCall


def lines(folder: Path, **args: Any) -> list[str]:
    """A call as it is shown."""
    return preview(ToolCall("c", "tool", args), folder, Paint(io.StringIO(), {}))


def test_a_command_with_all_that_goes_with_it(tmp_path: Path) -> None:
    """Where it runs, and what it is given besides; what is not asked for is left out."""
    args = {"timeout": None, "background": False, "cwd": "sub", "place": "host", "network": False}
    assert lines(tmp_path, command="ls\npwd", **args) == [
        "$ ls",
        "pwd",
        "cwd: sub",
        "place: host",
    ]
    assert lines(tmp_path, argv=["rm", "a b"], **args) == [
        "$ rm 'a b'",
        "cwd: sub",
        "place: host",
    ]


def test_a_file_that_is_written_as_a_diff_to_what_is_there(tmp_path: Path) -> None:
    """New or changed, down to the line break at its end."""
    assert lines(tmp_path, path="a", content="x\n")[2:] == ["@@ -0,0 +1 @@", "+x"]
    (tmp_path / "a").write_text("x")
    assert lines(tmp_path, path="a", content="x") == ["a: no change"]
    preview = lines(tmp_path, path="a", content="x\n")
    assert preview[3:] == ["-x", "\\ no line break at the end", "+x"]
    assert lines(tmp_path, path="a", content="y", mode="append")[-1] == "mode: append"


def test_every_replacement_of_an_edit(tmp_path: Path) -> None:
    """One or several at once, with what says how often."""
    one = lines(tmp_path, path="a", old="x", new="y", replace_all=True, edits=None)
    assert one[3:] == ["-x", "+y", "replace_all: true"]
    several = lines(
        tmp_path,
        path="a",
        old="",
        new="",
        replace_all=False,
        edits=[{"old": "one", "new": "two"}, {"old": "three", "new": ""}],
    )
    assert [line for line in several if line in ("-one", "+two", "-three")] == [
        "-one",
        "+two",
        "-three",
    ]
    assert not any("no change" in line for line in several)


@pytest.mark.parametrize("value", ["\x1b[2J", "\u202e"])
def test_nothing_in_it_moves_the_terminal(value: str, tmp_path: Path) -> None:
    """In a command, a path, a diff or an argument."""
    for args in (
        {"command": value},
        {"argv": [value]},
        {"path": value, "content": value},
        {"path": "a", "old": value, "new": "x"},
        {"other": value},
        {"other": {"deep": value}},
    ):
        assert not any(value in line for line in lines(tmp_path, **args)), args


def test_what_is_long_says_how_long(tmp_path: Path) -> None:
    """Lines, and one line."""
    assert lines(tmp_path, text="\n".join("abc" * 100))[-1] == "... and 240 lines more"
    assert lines(tmp_path, text="x" * 5_000)[0].endswith("... and 3,006 characters more")
    content = "\n".join(map(str, range(10_000)))
    assert lines(tmp_path, path="a", content=content)[-1].endswith("lines more")
