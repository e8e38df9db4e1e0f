"""Files are written and edited exactly as asked, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import HookOutcome
from hookline.capabilities import Files
from hookline.capabilities.files import text
from hookline.capabilities.files.edit_tool import Replacement, apply_edits
from hookline.capabilities.files.text import Text
from hookline.errors import ToolError
from hookline.testing import call

from .conftest import Use


def texts(use: Use, *steps: object, files: Files | None = None) -> list[str]:
    """What the model reads of each call."""
    return [each.text for each in use(*steps, files=files)]


# --- write -------------------------------------------------------------------------------------------


def test_a_new_file_is_made_with_its_directories(use: Use, root: Path) -> None:
    """And what was just made may be replaced without being read."""
    answers = texts(
        use,
        call("write", path="a/b/c.txt", content="één\ntwee"),
        call("write", path="a/b/c.txt", content="drie\n"),
    )
    assert answers == [
        "Made 'a/b/c.txt': 2 lines, 10 bytes.",
        "Replaced 'a/b/c.txt': 1 line, 5 bytes.",
    ]
    assert (root / "a/b/c.txt").read_text() == "drie\n"


def test_what_was_not_read_is_not_replaced(use: Use, root: Path) -> None:
    """Unless that is allowed; an empty file has nothing to lose."""
    write = call("write", path="notes.txt", content="new")
    assert texts(use, write) == [
        "Error: 'notes.txt' exists and was not read. "
        "Read it first, so that nothing in it is lost, or use `edit`."
    ]
    assert (root / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert "Replaced" in texts(use, call("read", path="./src/../notes.txt"), write)[1]
    (root / "empty").touch()
    assert "Replaced" in texts(use, call("write", path="empty", content="x"))[0]
    assert (
        "Replaced"
        in texts(use, call("write", path="empty", content="y"), files=Files(root, must_read=False))[
            0
        ]
    )


def test_what_has_changed_since_it_was_read_is_not_replaced(root: Path) -> None:
    """Nor edited: the change of somebody else would be lost."""
    from hookline import AgentBuilder
    from hookline.testing import ScriptedDriver, say

    def change(ctx: object) -> None:
        (root / "notes.txt").write_text("somebody else\n")

    turns = [
        call("read", path="notes.txt"),
        call("write", path="notes.txt", content="mine"),
        call("edit", path="notes.txt", old="somebody", new="x"),
        call("read", path="notes.txt"),
        call("edit", path="notes.txt", old="somebody", new="everybody"),
        say("done"),
    ]
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(root))
    builder.on_after_tool_use(change, matcher="read", name="somebody", priority=-200)
    result = builder.build().run_sync("Go.")
    answers = [each.text for step in result.steps for each in step.results]
    changed = "Error: 'notes.txt' has changed since it was read. Read it again"
    assert answers[1].startswith(changed)
    assert answers[2].startswith(changed)
    assert answers[4] == "Edited 'notes.txt' at line 1."


def test_writing_the_same_again_changes_nothing(use: Use, root: Path) -> None:
    """So that a call which may have run before a crash can be run again."""
    before = os.stat(root / "notes.txt")
    (answer,) = texts(use, call("write", path="notes.txt", content="one\ntwo\nthree\n"))
    assert answer == "'notes.txt' has this content already."
    assert os.stat(root / "notes.txt").st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("src", "'src' is a directory, not a file."),
        ("src/", "'src' is a directory, not a file."),
        ("notes.txt/x", "'notes.txt/x' is not a directory, or leads through a file."),
        ("link", "'link' has a second name (a hard link)"),
    ],
)
def test_what_cannot_be_written(use: Use, root: Path, path: str, problem: str) -> None:
    """Says what is in the way."""
    os.link(root / "notes.txt", root / "link")
    assert problem in texts(use, call("read", path=path), call("write", path=path, content="x"))[1]


# --- edit --------------------------------------------------------------------------------------------


def test_one_place_is_changed(use: Use, root: Path) -> None:
    """The rest stays as it is, and so does the mode."""
    os.chmod(root / "src/main.py", 0o755)
    edit = call(
        "edit", path="src/main.py", old="def main():\n    return 1", new="def main():\n    return 2"
    )
    assert texts(use, edit) == ["Edited 'src/main.py' at line 4."]
    assert (root / "src/main.py").read_text() == "import os\n\n\ndef main():\n    return 2\n"
    assert os.stat(root / "src/main.py").st_mode & 0o777 == 0o755


def test_two_edits_of_one_step_are_made_in_order(use: Use, root: Path) -> None:
    """The second knows what the first has made of the file."""
    answers = texts(
        use,
        [
            call("read", path="notes.txt"),
            call("edit", path="notes.txt", old="two", new="2"),
            call("edit", path="notes.txt", old="2\nthree", new="2\n3"),
            call("write", path="notes.txt", content="all new\n"),
        ],
    )
    assert answers[1:3] == ["Edited 'notes.txt' at line 2."] * 2
    assert answers[3] == "Replaced 'notes.txt': 1 line, 8 bytes."


def test_several_edits_are_all_made_or_none(use: Use, root: Path) -> None:
    """One after the other; the result has their line numbers in the end."""
    good = [
        {"old": "one", "new": "zero\none"},
        {"old": "three", "new": "3"},
        {"old": "3", "new": "drei"},
    ]
    bad = [*good, {"old": "nope", "new": "x"}]
    answers = texts(
        use, call("edit", path="notes.txt", edits=bad), call("edit", path="notes.txt", edits=good)
    )
    assert answers[0].startswith("Error: edit 4 of 4 of 'notes.txt': `old` is not in the file.")
    assert answers[1] == "Edited 'notes.txt' at lines 1, 4."
    assert (root / "notes.txt").read_text() == "zero\none\ntwo\ndrei\n"


def test_a_place_has_to_be_clear(use: Use, root: Path) -> None:
    """Either there is one, or all are meant."""
    (root / "f").write_text("a\nb\na\n")
    answers = texts(
        use,
        call("edit", path="f", old="a", new="c"),
        call("edit", path="f", old="a", new="c", replace_all=True),
    )
    assert answers[0] == (
        "Error: edit of 'f': `old` is in the file 2 times, at lines 1, 3. "
        "Add more of the lines around it to `old`, or set replace_all."
    )
    assert answers[1] == "Edited 'f' at lines 1, 3."


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        (
            "def main():\n  return 1",
            "with other spaces:\n     4\tdef main():\n     5\t    return 1\n",
        ),
        ("     4\tdef main():\n     5\t    return 1", "without the line numbers"),
        ("DEF MAIN():", "with other capital letters:\n     4\tdef main():\n"),
        ("def mein():", "The closest is:\n     4\tdef main():\n"),
        ("something else entirely", "Nothing in it looks similar"),
    ],
)
def test_a_near_miss_is_shown(use: Use, old: str, hint: str) -> None:
    """The model reads what is really there, with its line."""
    assert hint in texts(use, call("edit", path="src/main.py", old=old, new="x"))[0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"old": "one", "new": "one"}, "are the same"),
        ({}, "Give either `old` and `new`, or `edits`."),
        ({"old": "one", "edits": [{"old": "a", "new": "b"}]}, "Give either"),
        ({"edits": [{"old": "", "new": "b"}]}, "`old` is empty"),
    ],
)
def test_edits_that_mean_nothing(use: Use, arguments: dict[str, object], problem: str) -> None:
    """Say so."""
    assert problem in texts(use, call("edit", path="notes.txt", **arguments))[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encoding_and_line_ends_are_kept(use: Use, root: Path, encoding: str) -> None:
    """Whatever the model writes them with."""
    (root / "f").write_bytes("é\r\nb\r\nc".encode(encoding))
    texts(use, call("edit", path="f", old="é\nb", new="ü\nx\ny"))
    assert (root / "f").read_bytes() == "ü\r\nx\r\ny\r\nc".encode(encoding)


def test_what_an_encoding_does_not_have_is_not_written(use: Use, root: Path) -> None:
    """And what is no text, or too much of it, is not edited."""
    (root / "f").write_bytes("é".encode("latin-1"))
    (root / "b").write_bytes(b"a\0b")
    first, second = texts(
        use, call("edit", path="f", old="é", new="→"), call("edit", path="b", old="a", new="b")
    )
    assert "has no character '→'" in first
    assert "is not a text file" in second


def test_large_files_are_written_and_known_again(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has changed them, the same content is no change, and another one is allowed."""
    monkeypatch.setattr(text, "LARGEST", 5)
    made, again, other = texts(
        use,
        call("write", path="large.txt", content="a large file\n"),
        call("write", path="large.txt", content="a large file\n"),
        call("write", path="large.txt", content="a larger file\n"),
    )
    assert made == "Made 'large.txt': 1 line, 13 bytes."
    assert again == "'large.txt' has this content already."
    assert other == "Replaced 'large.txt': 1 line, 14 bytes."
    fresh = texts(use, call("write", path="large.txt", content="a larger file\n"))
    assert fresh == ["'large.txt' has this content already."]  # as after a crash
    refused = texts(use, call("write", path="large.txt", content="a larger fill\n"))
    assert "exists and was not read" in refused[0]


def test_large_files_are_not_edited(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not held in memory."""
    monkeypatch.setattr(text, "LARGEST", 5)
    assert "too large" in texts(use, call("edit", path="notes.txt", old="one", new="1"))[0]


def test_many_places_take_no_longer_than_they_must(use: Use, root: Path) -> None:
    """Lines are counted once, not once for each place."""
    (root / "f").write_text("ab\n" * 200_000)
    edits = [
        {"old": "a", "new": "c", "replace_all": True},
        {"old": "b", "new": "", "replace_all": True},
    ]
    (answer,) = texts(use, call("edit", path="f", edits=edits))
    assert answer == "Edited 'f' at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more."
    assert (root / "f").read_text() == "c\n" * 200_000


LETTERS = st.text("ab\n", max_size=12)


@given(
    st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=20).map("".join), LETTERS, LETTERS
)
def test_an_edit_is_a_replacement_between_lines_as_they_are_shown(
    text: str, old: str, new: str
) -> None:
    """What the model sees has no CRs; seen like this, an edit of all places is `str.replace`."""
    shown = text.replace("\r\n", "\n")
    if not old or old == new or old not in shown:
        return
    made = apply_edits(Text(text), [Replacement(old, new, True)], "f")
    assert made.text.replace("\r\n", "\n") == shown.replace(old, new)
    assert made.text.count("\r") <= text.count("\r") + made.text.count("\n")
    lines = made.text.split("\n")
    assert all(1 <= line <= len(lines) for line in made.lines)


def test_a_blocked_write_is_not_made(root: Path) -> None:
    """The agent's own hooks judge the tools too."""
    from hookline import AgentBuilder
    from hookline.testing import ScriptedDriver, say

    turns = [call("write", path="x", content="x"), say("done")]
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(root))
    builder.on_before_tool_use(lambda ctx: HookOutcome.block("no"), matcher="write")
    builder.build().run_sync("Go.")
    assert not (root / "x").exists()


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
    assert apply_edits(Text(before), [Replacement(old, new)], "x").text == after


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["\n", "\r\n"])), min_size=1))
def test_replacing_a_whole_file_line_by_line_keeps_every_end(lines: list[tuple[str, str]]) -> None:
    """However the two kinds of line ends are mixed."""
    before = "".join(line + end for line, end in lines)
    old = before.replace("\r\n", "\n")
    made = apply_edits(Text(before), [Replacement(old, old.upper())], "x").text
    assert made == before.upper()


@pytest.mark.parametrize(
    ("text", "old"), [("aaa", "aa"), ("x\nx\nx\n", "x\nx\n"), ("abab ab", "ab")]
)
def test_a_text_that_overlaps_itself_is_there_twice(text: str, old: str) -> None:
    """Which of the two is meant is not clear; replace_all takes them from the left."""
    with pytest.raises(ToolError, match=r"is in the file [23] times"):
        apply_edits(Text(text), [Replacement(old, "-")], "x")
    assert "-" in apply_edits(Text(text), [Replacement(old, "-", replace_all=True)], "x").text


def test_a_carriage_return_is_part_of_its_line_end(root: Path, use: Use) -> None:
    """`\\nb` is in `a\\r\\nb` once, not once with and once without the return."""
    (root / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (made,) = use(call("edit", path="dos.txt", old="\nb", new="\nc"))
    assert made.is_success, made.text
    assert (root / "dos.txt").read_bytes() == b"a\r\nc\r\n"
