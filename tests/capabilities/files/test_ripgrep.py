"""ripgrep only makes a search quicker: what is found is the same without it. HOOKLINE_FUZZ=3000 tries more of it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.capabilities.files import ripgrep
from hookline.capabilities.files.search_tool import Search, SearchQuery
from hookline.containment import FileJail
from hookline.errors import ToolError

WORDS = [
    "foo",
    "bar",
    "Foo",
    "a",
    "b",
    "-",
    ".",
    "(",
    " ",
    "\t",
    "1",
    "_",
    "é",
    "ß",
    "\r",
    "K",
    "\x1c",
    "\u0301",
]
LINES = st.lists(st.sampled_from(WORDS), max_size=5).map("".join)
CONTENTS = st.tuples(
    st.lists(LINES, max_size=4).map("\n".join),
    st.sampled_from(["utf-8", "latin-1", "utf-16", "utf-16-le"]),
)
ATOMS = st.sampled_from(
    r"foo bar a b . \. \d \w \s \W \S \b \B ^ $ [ab] [^a] [a-z] [\w.] (?:a|b) (b) é K \( -".split()
    + r"[A-Z0-9_] \Z (?=b) (?i) \1 []] [&&a]".split()
)
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "{,2}"])
PATTERNS = st.one_of(
    st.lists(st.builds("".join, st.tuples(ATOMS, REPEATS)), min_size=1, max_size=4).map("".join),
    st.lists(ATOMS, min_size=1, max_size=3).map("|".join),
    st.text("ab.*+?()[]{}|^$\\dwsb-,1 ", min_size=1, max_size=8),
)


def answer(root: Path, wanted: SearchQuery, rg: str | None) -> str:
    """What a search says, or why it cannot be made."""
    with FileJail(root) as jail:
        try:
            return Search(jail, wanted, 30, rg=rg).run()
        except ToolError as error:
            return str(error)


@settings(max_examples=int(os.environ.get("HOOKLINE_FUZZ", "60")))
@given(st.lists(CONTENTS, min_size=1, max_size=4), PATTERNS, st.booleans(), st.booleans())
def test_the_answers_are_the_same(
    rg: str,
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[tuple[str, str]],
    pattern: str,
    literal: bool,
    ignore_case: bool,
) -> None:
    """For any pattern, text or expression, and any files in any encoding."""
    root = tmp_path_factory.mktemp("files")
    for number, (text, encoding) in enumerate(contents):
        (root / f"f{number}").write_bytes(text.encode(encoding, "replace"))
    wanted = SearchQuery(pattern, literal=literal, ignore_case=ignore_case)
    assert answer(root, wanted, rg) == answer(root, wanted, None)


@settings(max_examples=int(os.environ.get("HOOKLINE_FUZZ", "60")))
@given(PATTERNS, st.booleans(), st.lists(LINES, min_size=20, max_size=40))
def test_nothing_that_fits_is_passed_over(
    rg: str,
    tmp_path_factory: pytest.TempPathFactory,
    pattern: str,
    ignore_case: bool,
    lines: list[str],
) -> None:
    """Each line a file of its own: one in which Python finds something is never called empty."""
    wider = ripgrep.wider_pattern(pattern, False, ignore_case)
    if wider is None:
        return
    try:
        expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, FutureWarning):
        return
    root = tmp_path_factory.mktemp("lines")
    paths = [root / str(number) for number in range(len(lines))]
    for path, line in zip(paths, lines, strict=True):
        path.write_text(line + "\n", newline="")
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    try:
        maybe = ripgrep.may_match(rg, wider, fds, 30)
    finally:
        for fd in fds:
            os.close(fd)
    missed = [
        line for line, may in zip(lines, maybe, strict=True) if expression.search(line) and not may
    ]
    assert missed == []


@pytest.mark.parametrize("pattern", ["^foo", "^(?:foo|bar)", "^f"])
def test_a_line_begins_behind_a_byte_order_mark(rg: str, tmp_path: Path, pattern: str) -> None:
    """Which is no part of it, whoever looks."""
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbffoo\n")
    for program in (rg, None):
        assert answer(tmp_path, SearchQuery(pattern), program) == "marked:1: foo"


@pytest.mark.parametrize(
    ("pattern", "is_handed_on"),
    [
        (r"def \w+\(", True),
        (r"\bfoo\b", True),
        (r"^import (os|sys)$", True),
        (r"[A-Za-z_][A-Za-z0-9_]*", True),
        (r"a{2,3}", True),
        (r"(?=x)y", False),
        (r"(a)\1", False),
        (r"x\Z", False),
        (r"[[:alpha:]]", False),
        (r"a{,3}", False),
        (r"\p{L}", False),
        ("é", False),
        ("a**", False),
        ("(", False),
    ],
)
def test_only_what_both_read_alike_is_handed_on(pattern: str, is_handed_on: bool) -> None:
    """Everything else is searched without ripgrep."""
    assert (ripgrep.wider_pattern(pattern, False, False) is not None) == is_handed_on


def test_most_of_the_files_are_passed_over(rg: str, tmp_path: Path) -> None:
    """Which is what it is for; those with other characters are looked at all the same."""
    contents = {"yes": b"def f()\n", "no": b"nothing\n", "other": "é\n".encode(), "crlf": b"a\r\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    fds = [os.open(tmp_path / name, os.O_RDONLY) for name in contents]
    wider = ripgrep.wider_pattern(r"def \w", False, False)
    assert wider is not None
    assert ripgrep.may_match(rg, wider, fds, 30) == [True, False, True, True]
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("program", [["/nonexistent/rg"], [sys.executable]])
def test_a_ripgrep_that_fails_passes_over_nothing(tmp_path: Path, program: list[str]) -> None:
    """Missing, broken or too slow: it is as if it were not there."""
    (tmp_path / "f").write_text("x")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    assert ripgrep.may_match(program[0], "nothing", [fd], 5) == [True]
    os.close(fd)


def test_ripgrep_gets_no_paths(rg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only files that the jail has opened, so there is nothing to be led astray by."""
    (tmp_path / "f").write_text("needle")
    seen: list[list[str]] = []
    run = ripgrep.run_briefly

    def recorded(command: list[str], **options: Any) -> object:
        seen.append(command)
        return run(command, **options)

    monkeypatch.setattr(ripgrep, "run_briefly", recorded)
    assert answer(tmp_path, SearchQuery("needle"), rg) == "f:1: needle"
    (command,) = seen
    after = command[command.index("--") + 1 :]
    assert all(name.startswith("/dev/fd/") for name in after)


def test_many_files_go_in_batches(rg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more descriptors than a process may have."""
    monkeypatch.setattr(ripgrep, "BATCH", 7)
    for number in range(30):
        (tmp_path / f"{number:02}").write_text("yes" if number % 5 == 0 else "no")
    found = answer(tmp_path, SearchQuery("yes", mode="files"), rg)
    assert found.split() == ["00", "05", "10", "15", "20", "25"]
