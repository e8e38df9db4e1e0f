"""What an output may be: models, dataclasses, typed dicts, plain types, JSON schemas."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from hookline import AgentBuilder
from hookline.capabilities import StructuredOutput
from hookline.capabilities.structured_output import json_in
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Entry(TypedDict):
    """A line of a book."""

    title: str
    on: str


class Kind(enum.Enum):
    """How it is."""

    GOOD = "good"
    BAD = "bad"


class Tree(BaseModel):
    """A tree."""

    name: str
    children: list[Tree] = []


class Event(BaseModel):
    """Something that happens."""

    day: datetime.date
    kind: Kind
    tags: set[str] = set()


def given_by(output: Any, args: dict[str, Any]) -> tuple[Any, str]:
    """The output of a run in which the model calls the tool once, and what came of the call."""
    driver = ScriptedDriver([call("structured_output", **args)])
    capability: Any = StructuredOutput(output, attempts=1)
    result = AgentBuilder().with_driver(driver).with_capability(capability).build().run_sync("go")
    return result.output, result.steps[0].results[0].text()


@pytest.mark.parametrize(
    ("output", "args", "value"),
    [
        (Point, {"x": 1}, Point(1, 0)),
        (Entry, {"title": "a", "on": "b"}, {"title": "a", "on": "b"}),
        (
            Tree,
            {"name": "a", "children": [{"name": "b"}]},
            Tree(name="a", children=[Tree(name="b")]),
        ),
        (
            Event,
            {"day": "2026-01-31", "kind": "bad", "tags": ["x", "x"]},
            Event(day=datetime.date(2026, 1, 31), kind=Kind.BAD, tags={"x"}),
        ),
        (list[int], {"output": [1, 2]}, [1, 2]),
        (Literal["yes", "no"], {"output": "yes"}, "yes"),
        (Point | Kind, {"output": "good"}, Kind.GOOD),
        (int, {"output": 5}, 5),
        (dict[str, int], {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            {"n": 3},
            {"n": 3},
        ),
        ({"type": "array", "items": {"type": "string"}}, {"output": ["a"]}, ["a"]),
    ],
)
def test_a_value_of_any_shape(output: Any, args: dict[str, Any], value: Any) -> None:
    """What the model gives as JSON becomes the value; what is no object has one around it."""
    made, _ = given_by(output, args)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("output", "args", "words"),
    [
        (list[int], {"output": [1, "x"]}, "'output[1]': should be a valid integer"),
        (list[int], {"value": [1]}, "it takes one argument, 'output'"),
        (Tree, {"name": "a", "children": [{}]}, "'children[0].name': missing"),
        (Event, {"day": "soon", "kind": "bad"}, "'day': should be a date such as"),
        (Point, {"x": 1, "z": 2, "y": None}, "'y': should be a valid integer"),
        ({"type": "object", "required": ["n"]}, {}, "'n': missing"),
        (
            {"type": "array", "items": {"type": "string"}},
            {"output": [1]},
            "'output': '[0]': 1 is not",
        ),
    ],
)
def test_what_does_not_fit_is_named(output: Any, args: dict[str, Any], words: str) -> None:
    """The place and the problem, in the words the model wrote."""
    made, text = given_by(output, args)
    assert made is None
    assert words in text


@pytest.mark.parametrize("output", [object(), lambda x: x, {"type": 5}, {"$ref": "#/nowhere"}])
def test_what_has_no_schema_is_refused(output: Any) -> None:
    """At once, with what could be given instead."""
    with pytest.raises(BuildError, match="structured output: "):
        StructuredOutput(output)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JSON, st.text(max_size=30))
def test_json_is_found_in_any_text(value: Any, around: str) -> None:
    """A fenced block is found whatever stands before it, and no text makes looking for it fail."""
    import json

    list(json_in(around))
    text = f"{around.replace('`', '')}\n```json\n{json.dumps(value)}\n```"
    assert value in list(json_in(text))


@pytest.mark.parametrize("nothing", [None, type(None)])
def test_nothing_is_no_shape(nothing: Any) -> None:
    """A model that was forgotten is not one whose only output is null."""
    with pytest.raises(BuildError, match="nothing is no output"):
        StructuredOutput(nothing)
