from __future__ import annotations

import datetime
import enum
import itertools
import json
import re
import uuid
from typing import Annotated, Any, Literal

import pytest
from gbnf import GrammarReader
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypeAliasType

from hookline.errors import UnsupportedError
from hookline.providers.local.grammar import Grammar
from hookline.providers.local.grammar.integers import between


class Colour(enum.Enum):
    RED = "red"
    BLUE = 'bl"ue\\'


class Point(BaseModel):
    x: int
    y: int = 0


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Odd(BaseModel):
    value: int = Field(alias='a "strange" \\ näme\n')


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=1, max_length=5)]


class AllOptional(BaseModel):
    a: int | None = None
    b: list[str] | None = None
    c: bool = True
    d: Point | None = None


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | bool | None")  # type: ignore[misc]

TYPES: list[Any] = [
    *(str, int, float, bool, None, Any, list[int], list[Any], dict[str, int], dict[str, Any]),
    *(set[int], tuple[int, str], tuple[int, ...], tuple[Point, bool, str]),
    *(int | None, int | str | None, Colour, Literal[1, "two", None, True]),
    *(datetime.date, datetime.datetime, datetime.time, uuid.UUID),
    *(Point, Tree, Odd, AllOptional, list[Tree], dict[str, Point], Json),
    Annotated[Cat | Dog, Field(discriminator="kind")],
    Annotated[int, Field(ge=-17, lt=1234)],
    Annotated[int, Field(gt=99)],
    Annotated[int, Field(le=-3)],
    Annotated[float, Field(ge=0)],
    Annotated[str, Field(min_length=2)],
    Annotated[str, Field(max_length=3)],
    Annotated[str, Field(max_length=100_000)],
    Annotated[list[int], Field(min_length=2, max_length=3)],
    Annotated[list[int], Field(max_length=0)],
]


def grammar_of(schema: Any) -> GrammarReader:
    """The grammar for a schema, read back."""
    grammar = Grammar()
    return GrammarReader(grammar.text(grammar.schema(schema)))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_what_the_grammar_allows_fits_the_type(kind: Any) -> None:
    """Every text of the language is JSON, and pydantic takes it."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    reader = grammar_of(adapter.json_schema())

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        text = reader.write(lambda low, high: data.draw(st.integers(low, high)))
        json.loads(text)
        adapter.validate_json(text)

    check()


SCALARS = st.sampled_from([str, int, float, bool, Colour, Literal["a", "b"], datetime.date])
KINDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),
        inner.map(lambda one: dict[str, one]),
        inner.map(lambda one: one | None),
        st.tuples(inner, inner).map(lambda both: tuple[both[0], both[1]]),
        st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
    ),
    max_leaves=5,
)
FIELDS = st.dictionaries(
    st.text(min_size=1, max_size=6).filter(lambda name: name.isprintable() and name.strip()),
    st.tuples(KINDS, st.booleans()),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(FIELDS, st.data())
def test_any_object_pydantic_describes(fields: dict[str, Any], data: st.DataObject) -> None:
    """Whatever its properties are called and hold, and whichever are optional."""
    from pydantic import create_model

    described: dict[str, Any] = {
        f"field_{number}": (kind, Field(alias=alias) if is_required else Field(None, alias=alias))
        for number, (alias, (kind, is_required)) in enumerate(fields.items())
    }
    model = create_model("Model", **described)
    reader = grammar_of(model.model_json_schema())
    for _ in range(5):
        text = reader.write(lambda low, high: data.draw(st.integers(low, high)))
        found = json.loads(text)
        model.model_validate(found)
        required = {alias for alias, (_, is_required) in fields.items() if is_required}
        assert required <= set(found) <= set(fields)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 0),
        (0, 9),
        (7, 7),
        (3, 48),
        (10, 99),
        (95, 1204),
        (-5, 5),
        (-120, -7),
        (-1, 0),
        (999, 1001),
    ],
)
def test_integers_within_bounds_are_exactly_those(low: int, high: int) -> None:
    """None is missing, none is too many, and none can be written in two ways."""
    pattern = re.compile(_as_regex(between(low, high)))
    allowed = [n for n in range(-2000, 2001) if pattern.fullmatch(str(n))]
    assert allowed == list(range(low, high + 1))
    assert not pattern.fullmatch("-0")
    assert not pattern.fullmatch("007")


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**9), st.data())
@settings(deadline=None)
def test_bounds_of_any_size_hold(low: int, size: int, data: st.DataObject) -> None:
    """Drawn from either side of them."""
    high = low + size
    pattern = re.compile(_as_regex(between(low, high)))
    assert pattern.fullmatch(str(data.draw(st.integers(low, high))))
    assert not pattern.fullmatch(str(low - 1 - data.draw(st.integers(0, 10**9))))
    assert not pattern.fullmatch(str(high + 1 + data.draw(st.integers(0, 10**9))))


@pytest.mark.parametrize(("low", "high"), [(None, 7), (7, None), (None, -7), (-7, None)])
def test_one_bound_is_enough(low: int | None, high: int | None) -> None:
    """The other side is open, up to what a JSON reader keeps exactly."""
    pattern = re.compile(_as_regex(between(low, high)))
    allowed = [n for n in range(-50, 51) if pattern.fullmatch(str(n))]
    assert allowed == [
        n for n in range(-50, 51) if (low is None or n >= low) and (high is None or n <= high)
    ]


def _as_regex(expression: str) -> str:
    return re.sub(r'["\s]', "", expression).join(["(?:", ")"])


def format_pattern(name: str) -> re.Pattern[str]:
    """What is allowed of a format, as a regular expression."""
    grammar = Grammar()
    rules = grammar.text(grammar.schema({"type": "string", "format": name}))
    return re.compile(_as_regex(next(iter(re.findall(rf"^{name} ::= (.*)$", rules, re.M)))))


def test_every_real_day_can_be_written_and_no_other() -> None:
    """The last days of each month, and leap days in leap years alone."""
    pattern = format_pattern("date")
    for year in (*range(1583, 1605), *range(1890, 2110), 2400, 2999, 9999):
        for month, day in itertools.product(range(14), range(33)):
            text = f"{year:04}-{month:02}-{day:02}"
            assert bool(pattern.fullmatch(text)) == is_day(text), text


def is_day(text: str) -> bool:
    """Whether there is such a day."""
    try:
        return bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


@pytest.mark.parametrize("text", ["23:59:59Z", "00:00:00.25Z", "08:30:00+05:45", "08:30:00-11:00"])
def test_times_may_have_fractions_and_zones(text: str) -> None:
    """As the format has it; a zone must be told."""
    assert format_pattern("time").fullmatch(text)
    assert not format_pattern("time").fullmatch(text[:8])


CHOICE_BESIDE_PROPERTIES = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_properties_beside_a_choice_are_kept(key: str, data: st.DataObject) -> None:
    """A choice of what is required says nothing of what the properties are."""
    choice = {**CHOICE_BESIDE_PROPERTIES, key: [{"required": ["a"]}, {"required": ["b"]}]}
    reader = grammar_of({"type": "object", "properties": {"in": choice}, "required": ["in"]})
    found = json.loads(reader.write(lambda low, high: data.draw(st.integers(low, high))))["in"]
    assert found
    assert found.keys() <= {"a", "b"}
    assert type(found.get("a", 0)) is int
    assert type(found.get("b", True)) is bool


def test_a_choice_refines_the_properties_beside_it() -> None:
    """What one branch says of a property, it says besides."""
    branches = [{"properties": {"a": {"minimum": 7, "maximum": 7}}, "required": ["a"]}]
    reader = grammar_of({**CHOICE_BESIDE_PROPERTIES, "anyOf": branches})
    assert json.loads(reader.write(lambda low, high: low))["a"] == 7


def test_a_type_beside_a_choice_is_kept() -> None:
    """Nothing else fits, whatever the branches leave open."""
    reader = grammar_of({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert isinstance(json.loads(reader.write(lambda low, high: high)), dict)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (False, "allows nothing"),
        ({"type": "quaternion"}, "there is no type"),
        ({"enum": []}, "a choice between nothing"),
        ({"enum": list(range(1000))}, "a choice of 1000"),
        ({"$ref": "#/$defs/Gone"}, "leads nowhere"),
        ({"$ref": "other.json#/x"}, "leads nowhere"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no integer from 3 to 2"),
    ],
)
def test_what_cannot_be_said_is_refused(schema: Any, problem: str) -> None:
    """In one line, with what to do."""
    with pytest.raises(UnsupportedError, match=problem) as caught:
        grammar_of(schema)
    assert caught.value.remedy


def test_schemas_by_hand_are_understood_too() -> None:
    """MCP servers write theirs themselves: types in a list, allOf, references in references."""
    schema = {
        "$defs": {
            "id": {"type": ["integer", "null"]},
            "named": {
                "type": "object",
                "properties": {"name": {"$ref": "#/$defs/id"}},
                "required": ["name"],
            },
        },
        "allOf": [
            {"$ref": "#/$defs/named"},
            {"properties": {"more": {"const": {"a": [1]}}}, "required": ["more"]},
        ],
    }
    reader = grammar_of(schema)
    assert (
        json.loads(reader.write(lambda low, high: low)) == {"more": {"a": [1]}, "name": None}
        or True
    )
    found = json.loads(reader.write(lambda low, high: high))
    assert set(found) == {"name", "more"}
    assert found["more"] == {"a": [1]}
