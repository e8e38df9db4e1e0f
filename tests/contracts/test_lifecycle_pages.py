"""What the pages say about the lifecycle is what the code does."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest

from hookline import AgentBuilder, HookPoint
from hookline.agent.run import AnswerSource
from hookline.hooks import Point
from hookline.journal import Record
from hookline.lifecycle import points
from hookline.state import ResultStatus, RunStatus

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
EVENTS = (ROOT / "docs/events.md").read_text(encoding="utf-8")
HOOKS = (ROOT / "docs/hooks.md").read_text(encoding="utf-8")
TREE = inspect.cleandoc(points.__doc__ or "").split("\n", 2)[2]

# The fields of a context as the pages call them.
WORDS = {"tool_call": "call", "output": "the answer"}


def section(page: str, title: str) -> str:
    """The text of a page from a heading to the next."""
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def names(cell: str) -> list[str]:
    """The names in a cell: what stands between backquotes."""
    return cell.split("`")[1::2]


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_the_tree_is_the_one_in_the_code(page: str) -> None:
    """The pages show the lifecycle as the module of the points does."""
    assert TREE in (ROOT / page).read_text(encoding="utf-8")


def test_the_page_says_what_a_block_means() -> None:
    """Every point is there once, with what a block and a failing hook mean."""
    table = [
        (names(point)[0], block, failure)
        for point, block, failure in rows(section(HOOKS, "What a block means"))
    ]
    expected = [
        (point.value, point.blocks or "cannot", "a block" if point.failure_blocks else "an error")
        for point in HookPoint
    ]
    assert table == expected


@pytest.mark.parametrize("point", list(HookPoint), ids=str)
def test_the_page_says_what_a_hook_may_change(point: Point[object]) -> None:
    """The row of a point names its context, and every field a hook may change there."""
    table = rows(section(HOOKS, "Contexts"))
    found = [row for row in table if point.value in names(row[0])]
    assert len(found) == 1, f"docs/hooks.md, 'Contexts', has {len(found)} rows for {point.value}"
    (row,) = found
    assert names(row[1]) == [point.context.__name__]
    changeable = {WORDS.get(field, field) for field in point.changes - {"evaluations"}}
    assert [field for field in sorted(changeable) if field not in row[3]] == []


def test_every_record_is_on_the_page() -> None:
    """The table of records has every type and its class."""
    table = rows(section(EVENTS, "All records"))
    shown = {pair for row in table for pair in zip(names(row[0]), names(row[1]), strict=True)}
    assert shown == {
        (str(kind.__struct_config__.tag), kind.__name__) for kind in Record.__subclasses__()
    }


def test_every_file_the_page_names_exists() -> None:
    """A newcomer who follows the architecture page finds the files."""
    places = {name for name in names(ARCHITECTURE) if re.fullmatch(r"\w+/[\w/]*(\.py)?", name)}
    assert len(places) > 40
    assert [place for place in places if not (ROOT / "src/hookline" / place).exists()] == []


def test_every_name_on_the_page_is_in_the_source() -> None:
    """A function that was renamed is renamed on the page."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src/hookline").rglob("*.py")]
    words = set(re.findall(r"\w+", "\n".join(texts)))
    shown = {name.partition("(")[0] for name in names(ARCHITECTURE)}
    shown = {name for name in shown if re.fullmatch(r"\w*(_|[a-z][A-Z])\w*", name)}
    assert len(shown) > 60
    assert shown - words == set()


def test_the_source_of_answers_has_the_methods_that_the_page_names() -> None:
    """The interface on the page is the one in the code."""
    cells = [row[0] for row in rows(section(ARCHITECTURE, "Where answers come from"))]
    methods = [name.partition("(")[0] for cell in cells for name in names(cell) if "(" in name]
    assert len(methods) >= 9
    assert [name for name in methods if not callable(getattr(AnswerSource, name, None))] == []


def test_every_package_is_in_the_table_of_layers() -> None:
    """What the page says about layers is what import-linter checks, from top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in contracts["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    table = [row for row in section(ARCHITECTURE, "Layers").splitlines() if row.startswith("| ")]
    packages = {path.stem for path in (ROOT / "src/hookline").iterdir()}
    shown = [sorted(packages.intersection(names(row))) for row in table[1:]]
    checked = [sorted(each.strip() for each in layer.split("|")) for layer in layers]
    assert shown == checked


def test_the_page_can_be_read_in_half_an_hour() -> None:
    """About 130 words a minute, with tables and code."""
    assert len(ARCHITECTURE.split()) < 4000


def test_the_glossary_is_short_and_linked() -> None:
    """At most 25 terms, from the front page and the architecture page."""
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in glossary.splitlines() if line.startswith("| ")]
    assert sum(len(cell.split(",")) for cell in first_cells[1:]) <= 25
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(glossary.md)" in ARCHITECTURE


def test_every_status_is_explained() -> None:
    """The pages have a row for each status of a run and of a call."""
    flow = (ROOT / "docs/flow.md").read_text(encoding="utf-8")
    tools = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    of_runs = [names(row[0])[0] for row in rows(section(flow, "How a run ends"))]
    of_calls = [names(row[0])[0] for row in rows(section(tools, "Results"))]
    before_the_end = (RunStatus.QUEUED, RunStatus.RUNNING)
    assert of_runs == [status.value for status in RunStatus if status not in before_the_end]
    assert of_calls == [status.value for status in ResultStatus]


def test_every_builder_method_is_mentioned() -> None:
    """No method of the builder is missing from the pages."""
    text = "".join(
        page.read_text(encoding="utf-8")
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    )
    methods = [name for name in vars(AgentBuilder) if name.startswith(("with", "add_", "around"))]
    assert [name for name in methods if name not in text] == []
