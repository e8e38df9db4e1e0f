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
DESIGNS = ("first", "second", "third", "fourth", "fifth")
COLUMNS = {"concept": 3, "name": 2}
"""The first word of a table's head, and how many cells its rows have."""


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each table of the page, under the heading above it. The head of a table is its first row."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("|") and not line.startswith("|---"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            found.setdefault(heading, []).append([cell.strip() for cell in cells])
    return found


def problems(page: str) -> list[str]:
    """What is wrong with a page of this kind."""
    found = []
    for head, *rows in tables(page).values():
        for row in rows:
            if len(row) != COLUMNS[head[0]] or not all(row):
                found.append(f"a cell is empty, or missing: {row}")
            named = re.findall(r"`(tests/[^`]*)`", row[-1])
            found += [f"no such test: {test}" for test in named if not is_there(test)]
    names = {name for rows in tables(page).values() for row in rows for name in quoted(row)}
    wanted = [*(point.value for point in HookPoint), *hookline.__all__]
    return found + [f"not on the page: {name}" for name in wanted if name not in names]


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


@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_has_its_table(design: str) -> None:
    """The five tables are there, none of them almost empty, and most rows name a test."""
    (rows,) = (rows for title, rows in tables(PAGE).items() if title.startswith(f"The {design} "))
    assert rows[0] == ["concept", "in Hookline", "test or reason"]
    assert len(rows) > 25
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
    found = problems(PAGE.replace(old, new))
    assert len(found) == 1
    assert found[0].startswith(problem)
