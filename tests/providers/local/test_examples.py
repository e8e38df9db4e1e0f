from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hookline import tool
from hookline.providers.local.examples import (
    DIRECT,
    KINDS,
    Example,
    examples_for,
    first_examples,
    likely_tools,
    nearest_examples,
)
from hookline.state import ToolSpec


class Colour(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: float


def list_files() -> list[str]:
    """List the files in a folder."""
    return []


def ls(folder: str = ".") -> list[str]:
    """List."""
    return []


def read_file(path: str, lines: int = 10) -> str:
    """Read a file."""
    return ""


def cat(file: str) -> str:
    """Show a file."""
    return ""


def add(a: float, b: float) -> float:
    """Add."""
    return a + b


def add_user(name: str, age: int) -> str:
    """Add a user to the list. It is checked first."""
    return name


def sum_up(numbers: list[int]) -> int:
    """Sum up numbers."""
    return 0


def search(query: str) -> str:
    """Search the web."""
    return ""


def paint(
    colour: Colour, where: Point, mode: Literal["dry", "wet"], loud: bool, tags: list[str]
) -> str:
    """Paint something."""
    return ""


def book(seats: Annotated[int, Field(ge=5)]) -> str:
    """Book seats."""
    return ""


TOOLS: list[Callable[..., Any]] = [
    *(list_files, ls, read_file, cat, add, add_user, sum_up, search, paint),
]


def spec(function: Callable[..., Any], name: str = "") -> ToolSpec:
    """The description of a tool for a model, under another name if one is given."""
    spec = tool(function).spec
    return ToolSpec(name or spec.name, spec.description, spec.parameters)


@pytest.mark.parametrize("function", TOOLS, ids=lambda function: function.__name__)
def test_every_tool_has_an_example_it_could_really_run(function: Callable[..., Any]) -> None:
    """With arguments that the tool itself would take."""
    made = tool(function)
    examples = examples_for(spec(function))
    assert examples
    for example in examples:
        assert example.tool == made.name
        made.validate(example.args)
        assert example.ask
        assert example.answer


@pytest.mark.parametrize(
    ("function", "name", "ask"),
    [
        (list_files, "", "What files are there?"),
        (ls, "", "What files are there?"),
        (list_files, "mcp__disk__list_directory", "What files are there?"),
        (read_file, "", "What is in letter.txt?"),
        (cat, "", "What is in letter.txt?"),
        (cat, "readTextFile", "What is in letter.txt?"),
        (add, "", "What is 3 plus 4?"),
        (search, "web_search", "Search for blue whales."),
        (add_user, "", "Add a user to the list: name Anna, age 3."),
        (sum_up, "", "Sum up numbers: numbers [3]."),
        (add, "list_files", "Add: a 3, b 3."),
    ],
)
def test_a_tool_is_known_by_its_name_and_its_parameters(
    function: Callable[..., Any], name: str, ask: str
) -> None:
    """Where both fit, it has examples of its kind; otherwise one is made from its description."""
    assert examples_for(spec(function, name))[0].ask == ask


def test_a_bound_is_kept_or_the_sample_is_not_used() -> None:
    """A sample's numbers must not break a tool's own bounds."""

    def plus(a: Annotated[int, Field(ge=1000)], b: int) -> int:
        """Add."""
        return a + b

    (example,) = examples_for(spec(plus))
    assert example.ask.startswith("Add: ")


def test_what_is_first_examples_does_not_depend_on_the_question() -> None:
    """Some of each tool and some without a tool, in turn, and about ten in all."""
    tools = [spec(list_files), spec(read_file), spec(add)]
    shown = first_examples(tools)
    assert [one.tool for one in shown] == ["list_files", "read_file", "add", ""] * 2
    assert shown == first_examples(tools)
    assert len(first_examples([spec(search, f"tool_{n}") for n in range(50)])) == len(shown)
    assert [one.tool for one in first_examples([])] == ["", ""]


NEAREST = [
    ("Which files do I have?", "list_files"),
    ("What does the file list.txt say?", "read_file"),
    ("Please read x.md.", "read_file"),
    ("How much is 4 plus 9?", "add"),
    ("12 + 13", "add"),
    ("What is the capital of Norway?", ""),
    ("Good evening!", ""),
]


@pytest.mark.parametrize(("question", "expected"), NEAREST)
def test_the_nearest_example_comes_last(question: str, expected: str) -> None:
    """A small model does what it saw last."""
    tools = [spec(list_files), spec(read_file), spec(add)]
    first = first_examples(tools)
    found = nearest_examples(tools, question, without=first)
    assert found[-1].tool == expected
    assert not set(map(repr, found)) & set(map(repr, first))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is in notes.txt?", {"read_file"}),
        ("Which documents are in this directory?", {"list_files"}),
        ("12 + 13", {"add"}),
        ("What is the capital of Norway?", set()),
        ("", set()),
    ],
)
def test_a_question_is_likely_for_the_tools_of_what_is_like_it(
    question: str, expected: set[str]
) -> None:
    """And for none, where what is like it needs none."""
    assert likely_tools([spec(list_files), spec(read_file), spec(add)], question) == expected


def test_a_tool_that_looks_after_another_is_of_another_kind() -> None:
    """`bash_stop` is not shown running commands."""

    def bash_stop(id: str) -> str:
        """End a command that runs in the background."""
        return ""

    (example,) = examples_for(spec(bash_stop))
    assert example.args == {"id": "a7"}


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=80))
def test_any_question_finds_examples(question: str) -> None:
    """Whatever is in it, or nothing."""
    tools = [spec(list_files), spec(add)]
    assert len(nearest_examples(tools, question, without=first_examples(tools))) == 2
    assert likely_tools(tools, question) <= {"list_files", "add"}


def test_the_examples_are_plain() -> None:
    """No two ask the same, and each is short: every letter is read before the first answer."""
    asks = [sample.ask for kind in KINDS for sample in kind.samples] + [one.ask for one in DIRECT]
    assert len(asks) == len(set(asks))
    assert max(map(len, asks)) < 80
    assert all(isinstance(one, Example) for one in DIRECT)
