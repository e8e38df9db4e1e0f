"""docs/design-coverage.md has a test or a reason for every concept, and every point and public name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import hookline
from hookline import HookPoint

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/design-coverage.md").read_text(encoding="utf-8")
CONCEPTS = {"first": 30, "second": 34, "third": 48, "fourth": 44, "fifth": 35}
"""How many concepts each design has. A row that disappears is missing; a new one is counted here."""
COLUMNS = {"concept": 3, "name": 2}
"""The first word of a table's head, and how many cells its rows have."""


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each table of the page, under the heading above it. The head of a table is its first row."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith(("## ", "### ")):
            heading = line.partition(" ")[2]
        elif line.startswith("|") and not line.startswith("|---"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            found.setdefault(heading, []).append([cell.strip() for cell in cells])
    return found


def problems(page: str) -> list[str]:
    """What is wrong with a page of this kind. The names of the packages have a test of their own."""
    found = []
    by_hand = {title: rows for title, rows in tables(page).items() if "hookline." not in title}
    for heading, (head, *rows) in by_hand.items():
        for row in rows:
            if len(row) != COLUMNS[head[0]] or not all(row):
                found.append(f"a cell is empty, or missing: {row}")
            else:
                found += unfounded(row[-1])
        design = heading.split()[1]
        if len(rows) != CONCEPTS.get(design, len(rows)):
            found.append(f"the {design} design has {CONCEPTS[design]} concepts, not {len(rows)}")
    names = {name for rows in by_hand.values() for row in rows for name in quoted(row)}
    wanted = [*(point.value for point in HookPoint), *hookline.__all__]
    return found + [f"not on the page: {name}" for name in wanted if name not in names]


def unfounded(cell: str) -> list[str]:
    """What is wrong with the last cell of a row, which is nothing but tests, or a reason."""
    if re.fullmatch(r"Reason: \w.*\.", cell):
        return []
    parts = {part: re.fullmatch(r"`(tests/[^`]*)`", part) for part in cell.split("<br>")}
    return [
        f"no such test: {found[1]}" if found else f"neither a test nor a reason: {part}"
        for part, found in parts.items()
        if found is None or not is_there(found[1])
    ]


def quoted(row: list[str]) -> list[str]:
    """What stands between backquotes in a row."""
    return [name for cell in row for name in cell.split("`")[1::2]]


def is_there(test: str) -> bool:
    """Whether a test, as `path::name`, is defined in its file."""
    path, _, name = test.partition("::")
    return name.startswith("test_") and name in functions(path)


@cache
def functions(path: str) -> frozenset[str]:
    """The functions that a file defines; none if there is no such file."""
    if not (ROOT / path).is_file():
        return frozenset()
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in nodes if isinstance(node, kinds))


def test_every_row_names_a_test_or_a_reason() -> None:
    """All tests on the page exist, no cell is empty, and no point and no public name is missing."""
    assert problems(PAGE) == []


@pytest.mark.parametrize("design", CONCEPTS)
def test_every_design_has_its_table(design: str) -> None:
    """The five tables are there, and most rows name a test."""
    (rows,) = (rows for title, rows in tables(PAGE).items() if title.startswith(f"The {design} "))
    assert rows[0] == ["concept", "in Hookline", "test or reason"]
    assert sum("::" in row[-1] for row in rows[1:]) >= 0.9 * (len(rows) - 1)


BROKEN = {
    "no such file": (
        "tests/hooks/test_hook.py::test_whatever_takes_a_context_is_a_plain_hook",
        "tests/hooks/test_hok.py::test_whatever_takes_a_context_is_a_plain_hook",
        "no such test: tests/hooks/test_hok.py::",
    ),
    "no such function": (
        "::test_whatever_takes_a_context_is_a_plain_hook",
        "::test_whatever",
        "no such test: tests/hooks/test_hook.py::test_whatever",
    ),
    "a file alone": (
        "::test_whatever_takes_a_context_is_a_plain_hook",
        "",
        "no such test: tests/hooks/test_hook.py",
    ),
    "a word instead of a test": (
        "`tests/hooks/test_hook.py::test_whatever_takes_a_context_is_a_plain_hook`",
        "todo",
        "neither a test nor a reason: todo",
    ),
    "no backquotes": (
        "`tests/hooks/test_hook.py::test_whatever_takes_a_context_is_a_plain_hook`",
        "tests/nope.py::test_x",
        "neither a test nor a reason: tests/nope.py::test_x",
    ),
    "a word after a test": (
        "`tests/agent/calls/test_around.py::test_hooks_around_a_tool_nest_like_an_onion`",
        "and others",
        "neither a test nor a reason: and others",
    ),
    "an empty reason": (
        "Reason: a step is named by its run and its number, in the journal too.",
        "Reason: ",
        "neither a test nor a reason: Reason:",
    ),
    "a row is missing": (
        "| Several hooks at one point | a plan per point | "
        "`tests/stories/test_seed1_middleware.py::test_higher_priority_runs_earlier` |\n",
        "",
        "the first design has 30 concepts, not 29",
    ),
    "no reason": (
        "`tests/hooks/test_hook.py::test_whatever_takes_a_context_is_a_plain_hook` |",
        " |",
        "a cell is empty, or missing: ['Hooks compose",
    ),
    "no third cell": (
        "`tests/hooks/test_hook.py::test_whatever_takes_a_context_is_a_plain_hook` |",
        "",
        "a cell is empty, or missing: ['Hooks compose",
    ),
    "no such point": ("`before_compact`", "`compact`", "not on the page: before_compact"),
    "no such name": ("`SQLiteJournal`", "`Journal`", "not on the page: SQLiteJournal"),
}


@pytest.mark.parametrize(("old", "new", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_page_is_found(old: str, new: str, problem: str) -> None:
    """What is wrong is named: the test, the row, the point or the name."""
    assert old in PAGE
    known = problems(PAGE)  # another test reports these
    found = [each for each in problems(PAGE.replace(old, new)) if each not in known]
    assert len(found) == 1
    assert found[0].startswith(problem)
