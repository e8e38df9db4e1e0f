"""From what a model gave to what a function gets, and the error that the model gets when it does not fit."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pathlib
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_serializer,
)
from typing_extensions import TypedDict

from hookline.errors import NotJSONError, ToolArgumentsError
from hookline.state import FrozenDict, FrozenList, ToolCall
from hookline.tools import AnyTool, tool


class Color(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Size(TypedDict):
    width: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


@tool
def add(a: int, b: int = 3) -> int:
    """Add."""
    return a + b


@tool
def rich(
    day: datetime.date,
    color: Color = Color.RED,
    path: pathlib.Path = pathlib.Path("here"),
    points: list[Point] | None = None,
    loose: Any = None,
) -> None:
    """Take all sorts of things."""


def problems(made: AnyTool, args: dict[str, Any]) -> str:
    """The error that the model gets about these arguments."""
    with pytest.raises(ToolArgumentsError) as caught:
        made.validate(args)
    return str(caught.value)


# --- what fits ----------------------------------------------------------------------------------


def test_arguments_are_coerced_and_defaults_filled_in() -> None:
    """Hooks see the same values as the function, in the order of the signature."""
    found = add.validate({"a": "5"})
    assert found.args == found.values == {"a": 5, "b": 3}
    assert list(add.validate({"b": 1, "a": 2}).args) == ["a", "b"]


def test_hooks_see_json_and_the_function_gets_python() -> None:
    """The JSON view is frozen at any depth; the values are the function's own."""
    found = rich.validate({"day": "2025-01-31", "points": [{"x": "1"}], "loose": {"deep": [1]}})
    assert found.args == {
        "day": "2025-01-31",
        "color": "r",
        "path": "here",
        "points": [{"x": 1, "y": 0}],
        "loose": {"deep": [1]},
    }
    assert isinstance(found.args["points"], FrozenList)
    assert isinstance(found.args["points"][0], FrozenDict)
    assert found.values == {
        "day": datetime.date(2025, 1, 31),
        "color": Color.RED,
        "path": pathlib.Path("here"),
        "points": [Point(1, 0)],
        "loose": {"deep": [1]},
    }
    found.values["loose"]["deep"].append(2)
    assert found.args["loose"] == {"deep": [1]}


@given(
    st.fixed_dictionaries(
        {
            "i": st.integers(-(2**63) + 1, 2**63 - 1),
            "s": st.text(),
            "f": st.floats(allow_nan=False, allow_infinity=False),
        },
        optional={
            "b": st.booleans(),
            "n": st.none() | st.text(),
            "u": st.integers(-9, 9) | st.text(),
        },
    )
)
def test_plain_arguments_come_back_as_they_are(args: dict[str, Any]) -> None:
    """What has the right types already is neither changed nor lost, whichever way it is checked."""

    @tool
    def f(
        i: int, s: str, f: float, b: bool = True, n: str | None = "n", u: int | str = 0
    ) -> None: ...

    frozen, plain = f.validate(FrozenDict(args)), f.validate(args)
    assert frozen == plain
    assert frozen.args == {"b": True, "n": "n", "u": 0, **args}
    assert {name: type(value) for name, value in frozen.args.items() if name in args} == {
        name: type(value) for name, value in args.items()
    }


dates = st.dates().map(str)
point = st.fixed_dictionaries(
    {"x": st.integers(-99, 99) | st.just("7")}, optional={"y": st.integers(-99, 99)}
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"day": dates},
        optional={
            "color": st.just("r"),
            "path": st.text("abc/", min_size=1),
            "points": st.none() | st.lists(point, max_size=3),
            "loose": anything,
        },
    )
)
def test_validating_the_json_view_changes_nothing(args: dict[str, Any]) -> None:
    """What a hook saw, an approval was given for and the journal kept is exactly what runs again."""
    once = rich.validate(args)
    again = rich.validate(once.args)
    assert again == once


@pytest.mark.parametrize(
    ("annotation", "given", "shown"),
    [
        (float, 5, 5.0),
        (bool, "yes", True),
        (int, 5.0, 5),
        (float, "1.5", 1.5),
        (int | None, None, None),
    ],
)
def test_coercion_is_lax(annotation: Any, given: Any, shown: Any) -> None:
    """A model that writes 5 for 5.0 or "yes" for true is understood."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    args = tool(f).validate(FrozenDict({"x": given})).args
    assert args == {"x": shown}
    assert type(args["x"]) is type(shown)


def test_a_default_has_the_type_of_its_parameter() -> None:
    """`seconds: float = 5` is shown as 5.0 before and after another validation, so approvals stay bound."""

    @tool
    def wait(seconds: float = 5) -> None: ...

    once = wait.validate({})
    again = wait.validate(once.args)
    calls = [ToolCall("1", "wait", found.args).fingerprint() for found in (once, again)]
    assert calls[0] == calls[1]
    assert type(once.args["seconds"]) is float


NOTHING = object()


def test_a_set_is_shown_in_one_order_whatever_the_process() -> None:
    """The order it was given or stored in; a default is sorted. Approvals are bound to it."""

    @tool
    def f(
        names: set[str], more: dict[str, set[str]], rest: frozenset[str] = frozenset("bca")
    ) -> None: ...

    for order in (["b", "a", "c"], ["c", "b", "a"], ["a", "b", "c"]):
        args = {"names": order, "more": {"x": order}}
        assert f.validate(args).args == {**args, "rest": ["a", "b", "c"]}
    assert f.validate({"names": ["a", "a"], "more": {}}).args["names"] == ["a"]


def test_a_default_that_is_not_json_is_used_and_shown() -> None:
    """A sentinel reaches the function, is shown as text, and survives a hook that changes something else."""

    @tool
    def f(a: int, b: Any = NOTHING, c: int = None, d: list[int] = ()) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    found = f.validate({"a": 1})
    assert found.args == {"a": 1, "b": "<object object>", "c": None, "d": []}
    assert found.values == {"a": 1, "b": NOTHING, "c": None, "d": ()}
    changed = f.validate({**found.args, "a": 2})
    assert changed.values == {"a": 2, "b": NOTHING, "c": None, "d": ()}
    assert f.validate({**found.args, "b": "mine", "c": 4, "d": [5]}).values == {
        "a": 1,
        "b": "mine",
        "c": 4,
        "d": [5],
    }


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise TypeError("no")


def test_a_default_that_cannot_be_compared_is_still_used() -> None:
    """Comparing is the author's code, and may fail."""
    default = Incomparable()

    def make(value: Any) -> Any:
        return value if isinstance(value, Incomparable) else Incomparable()

    @tool
    def f(x: Annotated[Any, BeforeValidator(make)] = default) -> None: ...

    found = f.validate({})
    assert found.values["x"] is default
    assert f.validate(found.args).values["x"] is default


class Login(BaseModel):
    user: str
    password: SecretStr


class Lossy(BaseModel):
    text: str

    @field_serializer("text")
    def shorten(self, text: str) -> int:
        return len(text)


def test_what_json_would_lose_is_shown_as_it_was_given() -> None:
    """A masked secret or a lossy serializer must not change what runs when the view is validated again."""

    @tool
    def f(login: Login, lossy: Lossy, count: int) -> None: ...

    found = f.validate(
        {"login": {"user": "u", "password": "p"}, "lossy": {"text": "abc"}, "count": 3}
    )
    assert found.args["login"] == {"user": "u", "password": "p"}
    assert found.args["lossy"] == {"text": "abc"}
    assert f.validate(found.args).values == found.values

    @tool
    def g(password: SecretStr, count: int) -> None: ...

    assert g.validate({"password": "p", "count": "3"}).args == {"password": "p", "count": 3}


class Opaque:
    pass


def test_values_that_have_no_json_are_shown_as_they_were_given() -> None:
    """A validator may make anything of an argument, or a number too large for JSON."""

    @tool
    def f(x: Annotated[str, AfterValidator(lambda _: Opaque())], n: int) -> None: ...

    assert f.validate({"x": "a", "n": "1"}).args == {"x": "a", "n": "1"}

    @tool
    def g(n: int) -> None: ...

    huge = "9" * 30
    assert g.validate({"n": huge}).values == {"n": int(huge)}
    assert g.validate({"n": huge}).args == {"n": huge}


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date


def test_strict_models_read_json() -> None:
    """A date can only be text in JSON, and a strict model takes it as such."""

    @tool
    def f(it: Strict) -> None: ...

    assert f.validate({"it": {"day": "2025-01-31"}}).values["it"].day == datetime.date(2025, 1, 31)


def test_arguments_that_are_not_json_are_the_callers_mistake() -> None:
    """A model cannot have given them."""
    with pytest.raises(NotJSONError, match="an argument of 'add'"):
        add.validate({"a": object()})


# --- what does not fit --------------------------------------------------------------------------


def test_all_problems_are_reported_together() -> None:
    """A wrong value, a missing argument and an unknown one, each with what was expected, and no jargon."""

    @tool
    def f(count: int, unit: Literal["C", "F"], name: str) -> None: ...

    text = problems(f, {"count": "five", "units": "C"})
    assert text == (
        "the call to 'f' was not run: "
        "'count': should be a valid integer, unable to parse string as an integer (given: \"five\"); "
        "'units': unknown (did you mean 'unit'?); "
        '\'unit\': missing (expected: one of "C", "F"); '
        "'name': missing (expected: string). "
        "Call it again with this corrected."
    )


def test_missing_arguments_alone_are_reported() -> None:
    """Nothing else needs to be wrong."""
    assert "'a': missing (expected: integer)" in problems(add, {})
    assert "'a': missing (expected: integer)" in problems(add, FrozenDict({"b": 1}))


def test_missing_arguments_say_what_they_would_be() -> None:
    """For constants, unions, objects and anything at all."""

    @tool
    def f(
        one: Literal["x"], two: int | str | None, three: Point, four: Point, five: Any
    ) -> None: ...

    text = problems(f, {})
    for expected in ('"x"', "integer or string or null", "object", "any value"):
        assert f"(expected: {expected})" in text


def test_an_unknown_argument_without_a_likely_name_lists_the_known_ones() -> None:
    """Or says that there are none."""

    @tool
    def none() -> None: ...

    assert "'zzz': unknown (the arguments are: a, b)" in problems(add, {"a": 1, "zzz": 1})
    assert "'zzz': unknown (it takes no arguments)" in problems(none, {"zzz": 1})


def test_problems_inside_values_are_named_by_their_path() -> None:
    """Indices and keys as the model wrote them, without the names of the types that were tried."""

    @tool
    def f(points: list[Point] | int, where: dict[str, list[int]], size: Size) -> None: ...

    text = problems(
        f,
        {
            "points": [{"x": 1}, {"y": "up", "z": 0}],
            "where": {"a": [1, "b"]},
            "size": {"width": 1, "height": 2},
        },
    )
    assert "'size.height': unknown" in text
    assert "'points[1].x': missing;" in text
    assert "'points[1].y': should be a valid integer" in text
    assert "'points[1].z': unknown;" in text
    assert "'points': should be a valid integer" in text
    assert "'where.a[1]': should be a valid integer" in text
    assert "list[" not in text


def test_what_the_members_of_a_union_expect_is_reported_once() -> None:
    """One line per argument, however many types were tried."""

    @tool
    def f(x: int | list[int] | set[int] | Point | float) -> None: ...

    text = problems(f, {"x": "up"})
    assert text.count("'x'") == 1
    assert "should be a valid array or should be an object or should be a valid number" in text
    assert text.count('(given: "up")') == 1


@pytest.mark.parametrize(
    ("annotation", "given", "message"),
    [
        (datetime.date, "20", "should be a date such as 2025-01-31"),
        (datetime.datetime, "x", "should be a date and time such as"),
        (bool, "x", "should be true or false"),
        (float, "NaN", "should be a finite number"),
        (Color, "blue", "should be 'r'"),
        (Annotated[int, Field(gt=0)], 0, "should be greater than 0"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "should have at most 1 item, not 2"),
        (Annotated[str, Field(pattern="^a")], "b", "should match pattern '^a'"),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {}, "needs 'kind'"),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "cow"},
            "'kind' is 'cow', but should be one of 'cat', 'dog'",
        ),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "cat", "lives": "x"},
            "'x.lives': should be",
        ),
        (str, 5, "should be a valid string (given: 5)"),
        (int, "9" * 100, "... (102 characters))"),
    ],
)
def test_the_error_says_what_was_expected(annotation: Any, given: Any, message: str) -> None:
    """In terms of JSON, without addresses to look things up at."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    if annotation is int:
        f.__annotations__["x"] = Annotated[int, Field(lt=9)]
    text = problems(tool(f), {"x": given})
    assert message in text
    for jargon in ("pydantic", "http", "Input", "type="):
        assert jargon not in text


def even(value: int) -> int:
    """Refuse odd numbers."""
    if value % 2:
        raise ValueError("must be even")
    return value


def broken(value: int) -> int:
    """Crash."""
    raise KeyError(value)


def test_the_words_of_an_authors_validator_reach_the_model() -> None:
    """As they were raised; one that crashes refuses the call and is kept as the cause."""

    @tool
    def f(x: Annotated[int, AfterValidator(even)]) -> None: ...

    @tool
    def g(x: Annotated[int, AfterValidator(broken)]) -> None: ...

    assert "'x': must be even (given: 3)" in problems(f, {"x": 3})
    with pytest.raises(ToolArgumentsError, match="could not be checked") as caught:
        g.validate({"x": 3})
    assert isinstance(caught.value.__cause__, KeyError)


def test_arguments_that_were_no_json_object_are_quoted() -> None:
    """The model reads a bit of what it wrote, and what to write instead."""
    call = ToolCall.from_json("1", "add", '{"a": 1, "b": ' + "x" * 200)
    with pytest.raises(ToolArgumentsError) as caught:
        add.validate_call(call)
    assert 'not a JSON object (given: "{\\"a\\": 1' in str(caught.value)
    assert str(caught.value).endswith('Send them as one JSON object, {"a": ..., "b": ...}.')
    assert len(str(caught.value)) < 300
    assert add.validate_call(ToolCall("2", "add", {"a": 1})).args == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (f'{{"a": 1, "b": {10**30}}}', "'b' is an integer beyond 64 bits"),
        ('{"a": [{"b": ' + "9" * 5000 + "}]}", "'a' is an integer beyond 64 bits"),
        (r'{"a": "\ud83d"}', "'a' is not valid Unicode (position 0)"),
        (r'{"\ud83d": 1}', "the name of an argument is not valid Unicode (position 0)"),
        ('{"a": NaN}', "'a' is nan, which is not JSON"),
        ('{"a": 1e999}', "'a' is inf, which is not JSON"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "'a' is nested deeper than 128 levels"),
        ('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", "the arguments are nested too deep"),
    ],
    ids=["large", "endless", "half a letter", "half a name", "NaN", "infinite", "deep", "deeper"],
)
def test_the_error_about_a_json_object_says_why(arguments: str, problem: str) -> None:
    """It is a JSON object, so the error must not say that it is none."""
    call = ToolCall.from_json("1", "add", arguments)
    with pytest.raises(ToolArgumentsError) as caught:
        add.validate_call(call)
    assert f"the call to 'add' was not run: {problem}" in str(caught.value)
    assert str(caught.value).endswith("Call it again with this corrected.")
    assert str(caught.value).isascii()


def test_an_argument_that_repeats_its_default_is_that_default() -> None:
    """Also when a coerced value only looks like it: then it is shown as given."""

    @tool
    def f(x: Annotated[list[int], AfterValidator(sorted)] = (2, 1)) -> None: ...  # type: ignore[assignment]

    assert f.validate({}).args == {"x": [2, 1]}
    assert f.validate({"x": [2, 1]}).values == {"x": (2, 1)}
    assert f.validate({"x": [1, 2]}).values == {"x": [1, 2]}
