"""Who has read a part of a file has not read it: what `write` would lose is what nobody has looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder, SQLiteJournal
from hookline.capabilities import Files
from hookline.capabilities.files.seen_files import _add_lines
from hookline.testing import ScriptedDriver, call, say

from .conftest import Use


@pytest.fixture
def long(root: Path) -> Path:
    """A file of 5,000 lines."""
    path = root / "long.txt"
    path.write_text("".join(f"line {number}\n" for number in range(1, 5001)))
    return path


def test_a_part_is_not_the_whole(use: Use, long: Path) -> None:
    """One line, the first page, or the end: what was not shown would be lost."""
    before = long.read_text()
    write = call("write", path="long.txt", content="x")
    for part in ({"limit": 1}, {}, {"offset": -3}, {"offset": 4000}):
        _, refused = use(call("read", path="long.txt", **part), write)
        assert not refused.is_success
        assert "was read only in part. Read the rest of it first" in refused.text
    assert long.read_text() == before


def test_parts_add_up(use: Use, long: Path) -> None:
    """In any order, in one step or in several, also where they overlap."""
    read = [call("read", path="long.txt", offset=offset) for offset in (4001, 1, 1900, 2001, 3500)]
    write = call("write", path="long.txt", content="all new\n")
    assert use(read[:3], *read[3:], write)[-1].is_success
    assert long.read_text() == "all new\n"


def test_an_edit_shows_nothing_of_the_rest(use: Use, long: Path) -> None:
    """What was read before it still counts as whole; a file that was only edited, or read in part, does not."""
    edit = call("edit", path="long.txt", old="line 77\n", new="77\n")
    write = call("write", path="long.txt", content="x")
    assert not use(edit, write)[-1].is_success
    again = call("edit", path="long.txt", old="line 78\n", new="78\n")
    assert not use(call("read", path="long.txt", limit=5), again, write)[-1].is_success
    short = [call("read", path="notes.txt"), call("edit", path="notes.txt", old="two", new="2")]
    assert use(*short, call("write", path="notes.txt", content="x"))[-1].is_success


def test_it_is_still_known_in_the_next_run(root: Path, long: Path, tmp_path: Path) -> None:
    """Which lines were seen goes with the state."""
    turns = [call("read", path="long.txt"), say("half"), call("write", path="long.txt", content="")]
    driver = ScriptedDriver([*turns, say("done")])
    builder = AgentBuilder().with_driver(driver).with_capability(Files(root))
    agent = builder.with_journal(SQLiteJournal(tmp_path / "journal.db")).build()
    first = agent.run_sync("Read.")
    second = agent.run_sync("Write.", state=first.state)
    assert "only in part" in second.steps[-2].results[0].text


@given(st.permutations(list(range(1, 8))), st.integers(1, 7))
def test_the_whole_is_known_once_every_line_was(order: list[int], length: int) -> None:
    """However the lines come, it is the last missing one that makes it whole."""
    known: str | None = None
    lines = [line for line in order if line <= length]
    for line in lines:
        assert known is None or " " in known
        known = _add_lines(known, "f", (length, line, line))
    assert known == "f"


def test_a_line_that_was_cut_was_not_read(use: Use, root: Path) -> None:
    """What is behind the cut would be lost; read alone, the line is shown whole, and counts."""
    path = root / "wide.txt"
    path.write_text("first\n" + "x" * 10_000 + "\nlast\n")
    read, write = call("read", path="wide.txt"), call("write", path="wide.txt", content="new\n")
    shown, refused = use(read, write)
    assert shown.text.endswith("[line 2 not shown whole; read it alone: offset=2, limit=1]")
    assert "was read only in part" in refused.text
    assert not use(call("read", path="wide.txt", offset=2), read, write)[-1].is_success
    alone = call("read", path="wide.txt", offset=2, limit=1)
    _, whole, written = use(read, alone, write)
    assert "x" * 10_000 + "\n" in whole.text
    assert "more characters" not in whole.text
    assert written.is_success
    assert path.read_text() == "new\n"


def test_a_line_that_is_too_long_to_show_is_never_read(use: Use, root: Path) -> None:
    """Alone it is cut, too, so only `edit` changes such a file."""
    (root / "wide.txt").write_text("x" * 100_000)
    alone = call("read", path="wide.txt", limit=1)
    shown, refused, edited = use(
        alone,
        call("write", path="wide.txt", content="new"),
        call("edit", path="wide.txt", old="x" * 100_000, new="y"),
    )
    assert "more characters in this line]" in shown.text
    assert "read it alone" not in shown.text
    assert "use `edit`" in refused.text
    assert edited.is_success
