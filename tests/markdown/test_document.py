"""Front matter as people really write it, and clear words about what cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import BuildError, DocumentError
from hookline.markdown import Document
from hookline.markdown.document import names_in


def parsed(*lines: str) -> Document:
    """The document whose front matter has these lines."""
    return Document.parse("\n".join(["---", *lines, "---", "", "# Body"]), "a/SKILL.md")


# --- the text -----------------------------------------------------------------------------------


def test_fields_and_body_are_distinguished() -> None:
    """With the line of every field, as an editor counts."""
    page = parsed("name: pdf", "metadata:", "  author: anna", "license: MIT")
    assert page.fields == {"name": "pdf", "metadata": {"author": "anna"}, "license": "MIT"}
    assert page.lines == {"name": 2, "metadata": 3, "license": 5}
    assert page.body == "# Body"


@pytest.mark.parametrize("text", ["# Only text\n", "", "\n\ntext --- more\n---\n"])
def test_without_front_matter_there_are_no_fields(text: str) -> None:
    """A rule further down is a rule."""
    page = Document.parse(text, "a.md")
    assert (page.fields, page.body) == ({}, text.strip())


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_any_line_ends_and_a_byte_order_mark_are_taken(end: str) -> None:
    """As editors on other systems write them."""
    text = "﻿---\nname: x\n---\nBody\n".replace("\n", end)
    page = Document.from_bytes(text.encode(), "a.md")
    assert (page.fields, page.body) == ({"name": "x"}, "Body")


def test_rules_in_the_body_stay_there() -> None:
    """Only the first block is front matter."""
    page = Document.parse("---\nname: x\n---\none\n---\ntwo: 2\n---\n", "a.md")
    assert page.body == "one\n---\ntwo: 2\n---"


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plain words", "plain words"),
        ("'it''s quoted'", "it's quoted"),
        ('"a \\"b\\" c"', 'a "b" c'),
        ("Use when: the user says so", "Use when: the user says so"),
        (
            "Examples: <example>Context: 'x'</example> #1",
            "Examples: <example>Context: 'x'</example> #1",
        ),
        ("@mention: first", "@mention: first"),
        ("`code`: x", "`code`: x"),
        ("|\n  one\n  two", "one\ntwo"),
        (">\n  one\n  two", "one two"),
        (">-\n  one: a\n  two", "one: a two"),
        ("[file] [--all]", "[file] [--all]"),
        ("[issue-number] and more", "[issue-number] and more"),
        ("\t'behind a tab'", "behind a tab"),
        ("1.10", "1.10"),
        ("007", "007"),
        ("2025-01-31", "2025-01-31"),
        ("12:30", "12:30"),
        ("3", "3"),
    ],
)
def test_text_is_what_its_author_meant(written: str, meant: str) -> None:
    """Not what YAML makes of it in its wilder moments, nor an error where other agents take it."""
    assert parsed("first: 1", f"description: {written}", "last: x").text("description") == meant


def test_a_description_of_many_lines_needs_no_indent() -> None:
    """As the agents of others write them; what follows keeps its line."""
    page = parsed(
        "name: x",
        "description: Use this agent when: needed.",
        "",
        "Examples:",
        "<example>",
        'user: "I need: it"',
        "</example>",
        "tools: Read",
    )
    assert page.text("description").endswith('user: "I need: it"\n</example>')
    assert (page.names("tools"), page.lines["tools"]) == (("Read",), 9)


def test_a_field_is_found_in_any_spelling() -> None:
    """Hyphens, underscores and capitals differ between agents."""
    for spelling in ("allowed-tools", "allowed_tools", "allowedTools", "Allowed-Tools"):
        assert parsed(f"{spelling}: Read").names("allowed-tools") == ("Read",)


@pytest.mark.parametrize(
    "written",
    [
        "Read, Bash(git add:*), Grep",
        "Read Bash(git add:*) Grep",
        "[Read, 'Bash(git add:*)', Grep]",
        "\n  - Read\n  - Bash(git add:*)\n  - Grep",
        "'Read, Bash(git add:*)  Grep, Read'",
        "\n  - Read, Bash(git add:*)\n  - Grep",
    ],
)
def test_names_are_a_list_or_text(written: str) -> None:
    """With commas or blanks; what is in brackets stays together, and twice is once."""
    assert parsed(f"tools: {written}").names("tools") == ("Read", "Bash(git add:*)", "Grep")


def test_no_names_are_not_the_same_as_nothing() -> None:
    """An empty list is a list; a missing field is None."""
    assert parsed("tools: []").names("tools") == ()
    assert parsed("tools:").names("tools") is None
    assert parsed("name: x").names("tools") is None


@given(st.lists(st.from_regex(r"[A-Za-z_]{1,8}(\([a-z *:,]{0,8}\))?", fullmatch=True), unique=True))
def test_names_survive_being_written(names: list[str]) -> None:
    """Joined by commas or blanks, and taken apart again."""
    assert names_in(", ".join(names)) == names
    assert names_in("\n".join(names)) == names


@pytest.mark.parametrize(
    ("written", "meant"),
    [("true", True), ("yes", True), ("'True'", True), ("off", False), ("", False)],
)
def test_flags(written: str, meant: bool) -> None:
    """In any of the usual words."""
    assert parsed(f"disabled: {written}").flag("disabled") is meant


def test_what_nobody_knows_is_kept() -> None:
    """For whoever does."""
    assert parsed("x-odd: [1, {a: b}]").fields["x-odd"] == [1, {"a": "b"}]


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["name: x", "tools: [Read"], "a/SKILL.md:3: the front matter is not YAML"),
        (
            ["name: x", "name: y"],
            "a/SKILL.md:3: the front matter is not YAML: 'name' occurs twice",
        ),
        (["name: x", "\ttools: y"], "a/SKILL.md:3: the front matter is not YAML"),
        (["a: [&x 1, *x]"], "a/SKILL.md:2: .*aliases"),
        (["- name"], "a/SKILL.md:2: .*should be `name: value` lines, and is a list"),
        (["just words"], "and is a text"),
        (["a: [!!python/object:os.system x]"], "a/SKILL.md:2: the front matter is not YAML"),
        (["a: [!!binary aGk=]"], "the front matter"),
        (["? [a, b]", ": c"], "a name is a word"),
        (["a: " + "[" * 3000], "a/SKILL.md:2: the front matter is not YAML: it cannot be read"),
        (["a: " + "x" * 70_000], "its front matter is longer than 64,000 characters"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(lines: list[str], words: str) -> None:
    """And nothing in it is ever run."""
    with pytest.raises(DocumentError, match=words):
        parsed(*lines)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda page: page.text("map"), "a/SKILL.md:3: 'map' should be text, and is a mapping"),
        (lambda page: page.flag("name"), "a/SKILL.md:2: 'name' should be true or false"),
        (lambda page: page.count("name"), "'name' should be a whole number above zero"),
        (lambda page: page.count("zero"), "a/SKILL.md:4: 'zero' should be a whole number"),
        (lambda page: page.names("map"), "a/SKILL.md:3: 'map' should be a list of names"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named_with_its_line(read: Any, words: str) -> None:
    """When it is asked for."""
    with pytest.raises(DocumentError, match=words):
        read(parsed("name: pdf", "map: {a: b}", "zero: 0"))


def test_front_matter_that_does_not_end() -> None:
    """The line it begins in is named."""
    with pytest.raises(DocumentError, match=r"a\.md:1: the front matter that begins here"):
        Document.parse("---\nname: x\n", "a.md")


def test_files_that_are_no_text_or_not_there(tmp_path: Path) -> None:
    """What is wrong is said of the file."""
    path = tmp_path / "a.md"
    with pytest.raises(DocumentError, match=r"a\.md: it cannot be read: No such file"):
        Document.read(path)
    path.write_bytes(b"---\nname: \xff\n---\n")
    with pytest.raises(DocumentError, match=r"a\.md:2: it is not UTF-8"):
        Document.read(path)
    path.write_bytes(b"x" * 1_000_001)
    with pytest.raises(DocumentError, match="longer than 1,000,000 bytes"):
        Document.read(path)


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it; a page without front matter needs it not."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "hookline.markdown.yaml_text", raising=False)
    with pytest.raises(BuildError, match="pip install 'pyyaml"):
        parsed("name: x")
    assert Document.parse("# Text", "a.md").body == "# Text"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """There is no third way."""
    try:
        page = Document.parse(f"---\n{text}\n---\nbody", "a.md")
    except DocumentError:
        return
    assert isinstance(dict(page.fields), dict)
