"""Edits leave line ends as they are, also where a file has both kinds, and know when a place is not clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.capabilities.files.edit_tool import Replacement, edited
from hookline.capabilities.files.text import Text
from hookline.errors import ToolError
from hookline.testing import call

from .conftest import Use


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a\r\nb\nc\r\nd\r\n", "b\nc", "B\nC", "a\r\nB\nC\r\nd\r\n"),
        ("a\r\nb\nc\r\nd\r\n", "a\nb\nc", "a\nx\ny\nb\nc", "a\r\nx\r\ny\r\nb\nc\r\nd\r\n"),
        ("a\r\nb\nc\r\nd\r\n", "a\nb\nc\nd", "a\nb\nd", "a\r\nb\nd\r\n"),
        ("a\nb\nc\r\nd\n", "c", "c\nx", "a\nb\nc\r\nx\r\nd\n"),
        ("a\r\nb\r\n", "b\n", "b\nc\n", "a\r\nb\r\nc\r\n"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
    ],
)
def test_each_line_keeps_its_end(before: str, old: str, new: str, after: str) -> None:
    """Lines that were there keep theirs; new ones get that of the lines around them."""
    assert edited(Text(before), [Replacement(old, new)], "x").text == after


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["\n", "\r\n"])), min_size=1))
def test_replacing_a_whole_file_line_by_line_keeps_every_end(lines: list[tuple[str, str]]) -> None:
    """However the two kinds of line ends are mixed."""
    before = "".join(line + end for line, end in lines)
    old = before.replace("\r\n", "\n")
    made = edited(Text(before), [Replacement(old, old.upper())], "x").text
    assert made == before.upper()


@pytest.mark.parametrize(
    ("text", "old"), [("aaa", "aa"), ("x\nx\nx\n", "x\nx\n"), ("abab ab", "ab")]
)
def test_a_text_that_overlaps_itself_is_there_twice(text: str, old: str) -> None:
    """Which of the two is meant is not clear; replace_all takes them from the left."""
    with pytest.raises(ToolError, match=r"is in the file [23] times"):
        edited(Text(text), [Replacement(old, "-")], "x")
    assert "-" in edited(Text(text), [Replacement(old, "-", replace_all=True)], "x").text


def test_a_carriage_return_is_part_of_its_line_end(root: Path, use: Use) -> None:
    """`\\nb` is in `a\\r\\nb` once, not once with and once without the return."""
    (root / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (made,) = use(call("edit", path="dos.txt", old="\nb", new="\nc"))
    assert made.is_success, made.text()
    assert (root / "dos.txt").read_bytes() == b"a\r\nc\r\n"
