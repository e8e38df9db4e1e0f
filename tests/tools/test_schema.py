from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import inspect
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NotRequired, Optional

import docstring_parser
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from hookline.errors import ToolDefinitionError
from hookline.tools import AnyTool, ToolContext, as_tool, tool
from hookline.tools.schema import read_doc


class Unit(enum.Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


@dataclasses.dataclass
class Place:
    lat: float
    lon: float = 0.0


class Options(TypedDict):
    verbose: bool
    depth: NotRequired[int]


class Order(BaseModel):
    """What a customer wants."""

    item: str = Field(description="Its number.")
    count: int = 1


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


def properties(made: AnyTool) -> dict[str, Any]:
    """What the model reads about each argument."""
    return dict(made.spec.parameters["properties"])


def test_a_schema_is_what_the_signature_says_and_nothing_else() -> None:
    """Types, required names and defaults are there; titles are not; nothing else may be passed."""

    @tool
    def search(query: str, limit: int = 10, *, exact: bool = False) -> None:
        """Search."""

    assert search.spec.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "exact": {"type": "boolean", "default": False},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_schema() -> None:
    """Nothing is required, nothing is allowed."""

    @tool
    def now() -> str:
        return ""

    assert now.spec.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert now.description == ""


GOOGLE = """Weigh a thing.

Slowly, and twice.

Args:
    thing (str): What to weigh,
        as a name.
    unit: The unit.

Returns:
    Its weight.
"""
NUMPY = """Weigh a thing.

Slowly, and twice.

Parameters
----------
thing : str
    What to weigh,
    as a name.
unit : str
    The unit.

Returns
-------
float
    Its weight.
"""
SPHINX = """Weigh a thing.

Slowly, and twice.

:param str thing: What to weigh,
    as a name.
:param unit: The unit.
:returns: Its weight.
"""


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_descriptions_come_from_the_docstring_in_each_style(doc: str) -> None:
    """Google, NumPy and Sphinx docstrings give the same description and the same parameter texts."""

    def weigh(thing: str, unit: str) -> float:
        return 0.0

    weigh.__doc__ = doc
    made = as_tool(weigh)
    assert made.description == "Weigh a thing.\n\nSlowly, and twice."
    assert properties(made)["thing"]["description"] == "What to weigh,\nas a name."
    assert properties(made)["unit"]["description"] == "The unit."


def test_one_line_may_describe_two_parameters() -> None:
    """NumPy's `x, y : int` is about both."""

    @tool
    def move(x: int, y: int) -> None:
        """Move.

        Parameters
        ----------
        x, y : int
            Where to.
        """

    assert [each["description"] for each in properties(move).values()] == ["Where to.", "Where to."]


def test_what_is_said_at_the_annotation_wins_over_the_docstring() -> None:
    """`Field(description=...)` and plain text in `Annotated` are nearer than the docstring."""

    @tool
    def f(
        a: Annotated[int, Field(description="near a", ge=0)],
        b: Annotated[int, "near b"],
        c: int,
        d: Annotated[str, "near d"] | None,
    ) -> None:
        """F.

        Args:
            a: far a
            b: far b
            c: far c
            d: far d
        """

    assert properties(f) == {
        "a": {"type": "integer", "minimum": 0, "description": "near a"},
        "b": {"type": "integer", "description": "near b"},
        "c": {"type": "integer", "description": "far c"},
        "d": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "near d"},
    }


def test_a_parameter_text_wins_over_the_docstring_of_its_type() -> None:
    """What a type says of itself is shown only where nobody says more."""

    @tool
    def f(first: Order) -> None: ...

    @tool
    def g(first: Annotated[Order, "The first one."]) -> None: ...

    assert properties(f)["first"]["description"] == "What a customer wants."
    assert properties(g)["first"]["description"] == "The first one."


def test_types_that_have_a_json_form_are_described_where_they_stand() -> None:
    """Models, dataclasses, typed dicts, enums, literals, unions, dates, paths and lists, all in place."""

    @tool
    def f(
        order: Order,
        place: Place,
        options: Options,
        unit: Unit,
        mode: Literal["a", "b"],
        either: int | str,
        maybe: Optional[int],  # noqa: UP045 - the old spelling must work too
        day: datetime.date,
        path: pathlib.Path,
        grid: list[list[int]],
    ) -> None: ...

    found = properties(f)
    for name in (
        "place",
        "options",
    ):
        # Older pydantic refuses other keys as well, without saying so here.
        found[name] = {
            key: value for key, value in found[name].items() if key != "additionalProperties"
        }
    assert "$defs" not in f.spec.parameters
    assert found == {
        "order": {
            "type": "object",
            "description": "What a customer wants.",
            "properties": {
                "item": {"type": "string", "description": "Its number."},
                "count": {"type": "integer", "default": 1},
            },
            "required": ["item"],
        },
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "lon": {"type": "number", "default": 0.0}},
            "required": ["lat"],
        },
        "options": {
            "type": "object",
            "properties": {"verbose": {"type": "boolean"}, "depth": {"type": "integer"}},
            "required": ["verbose"],
        },
        "unit": {"type": "string", "enum": ["C", "F"]},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "day": {"type": "string", "format": "date"},
        "path": {"type": "string", "format": "path"},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    }


def test_a_type_used_twice_or_holding_itself_stays_in_defs() -> None:
    """Inlining it would repeat it, or never end; small enums are repeated."""

    @tool
    def f(tree: Tree, a: Place, b: Place, one: Unit, two: Unit) -> None: ...

    parameters = f.spec.parameters
    assert sorted(parameters["$defs"]) == ["Place", "Tree"]
    assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert parameters["$defs"]["Tree"]["properties"]["children"]["items"] == {
        "$ref": "#/$defs/Tree"
    }
    assert (
        parameters["properties"]["one"]
        == parameters["properties"]["two"]
        == {"type": "string", "enum": ["C", "F"]}
    )


def test_titles_that_are_data_stay() -> None:
    """Only the titles of types go: a property called title, or a title somebody wrote, is kept."""

    @tool
    def f(
        title: str,
        other: Annotated[int, Field(title="Chosen")],
        default: Any = {"title": "x"},  # noqa: B006 - the default is what is being tested
    ) -> None: ...

    assert properties(f) == {
        "title": {"type": "string"},
        "other": {"type": "integer", "title": "Chosen"},
        "default": {"default": {"title": "x"}},
    }


def test_a_union_distinguished_by_a_field_has_no_dangling_pointers() -> None:
    """The `discriminator` keyword would point at definitions that were moved."""

    @tool
    def f(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    pet = properties(f)["pet"]
    assert [each["properties"]["kind"]["const"] for each in pet["oneOf"]] == ["cat", "dog"]
    assert "discriminator" not in pet


def test_annotations_may_name_local_classes() -> None:
    """With postponed annotations, names of the enclosing function are found while it runs."""

    class Local(BaseModel):
        x: int

    @tool
    def f(it: Local, many: list[Local]) -> int:
        return it.x

    assert f.validate({"it": {"x": 1}, "many": []}).values["it"] == Local(x=1)


def test_annotations_may_name_what_a_closure_holds() -> None:
    """When the enclosing function has returned, what its inner function uses is still there."""

    def outer() -> Callable[..., Any]:
        class Held(BaseModel):
            x: int

        def f(it: Held, again: int = 0) -> Any:
            return Held, f, later

        bare = f
        later = 1
        return bare

    assert properties(as_tool(outer()))["it"]["type"] == "object"


def test_a_local_function_may_name_itself() -> None:
    """A name that is not assigned yet is no obstacle to finding the others."""

    class Local(BaseModel):
        x: int

    @tool
    def f(it: Local) -> Any:
        return f

    assert f.name == "f"


class Shop:
    class Kind(enum.Enum):
        A = "a"
        B = "b"

    def search(self, kind: Kind) -> str:
        """Search the shop."""
        return kind.value

    @classmethod
    def sell(cls, count: int) -> int:
        """Sell."""
        return count

    def __call__(self, count: int) -> int:
        """Visit."""
        return count


def test_methods_and_callable_objects_are_functions_too() -> None:
    """Bound methods, class methods and objects with `__call__` lose their first parameter."""
    search, sell, shop = as_tool(Shop().search), as_tool(Shop.sell), as_tool(Shop())
    assert [(each.name, each.description) for each in (search, sell, shop)] == [
        ("search", "Search the shop."),
        ("sell", "Sell."),
        ("Shop", "Visit."),
    ]
    assert properties(search) == {"kind": {"type": "string", "enum": ["a", "b"]}}
    assert list(properties(sell)) == list(properties(shop)) == ["count"]


def test_an_object_may_be_described_by_its_class() -> None:
    """When `__call__` says nothing, the class speaks."""

    class Visit:
        """Visit the shop."""

        def __call__(self, count: int) -> int:
            return count

    assert as_tool(Visit()).description == "Visit the shop."


def test_what_a_partial_binds_is_hidden_from_the_model() -> None:
    """Bound arguments are the author's: neither names, nor values, nor types reach the schema."""

    def fetch(
        key, session: object, /, url: str, *, token: str, retries: int = 1
    ) -> tuple[Any, ...]:  # type: ignore[no-untyped-def]
        """Fetch."""
        return key, session, url, token, retries

    bound = as_tool(functools.partial(functools.partial(fetch, "key", None), token="secret"))
    assert (bound.name, bound.description) == ("fetch", "Fetch.")
    assert list(properties(bound)) == ["url", "retries"]
    assert "secret" not in str(bound.spec)
    assert bound(**bound.validate({"url": "u"}).values) == ("key", None, "u", "secret", 1)


def test_decorated_functions_show_what_they_wrap() -> None:
    """`functools.wraps` is followed, to the names of the module it was written in as well."""

    def loud(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return str(function(*args, **kwargs)).upper()

        return wrapper

    @tool
    @loud
    def greet(name: str, place: Place | None = None) -> str:
        """Greet."""
        return name

    assert list(properties(greet)) == ["name", "place"]
    assert greet("ann") == "ANN"


def test_the_model_never_sees_the_context() -> None:
    """A parameter annotated with ToolContext is no part of the schema."""

    @tool
    def f(a: int, context: ToolContext, b: int = 1) -> None: ...

    @tool
    def g(context: Annotated[ToolContext, "run"] | None = None) -> None: ...

    assert (list(properties(f)), f.wants_context) == (["a", "b"], True)
    assert (list(properties(g)), g.wants_context) == ([], True)


def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    """No name of a parameter clashes with a library's."""

    @tool
    def f(schema: str, model_config: int, json: int, _private: int, function: int) -> None: ...

    given = {"schema": "s", "model_config": 1, "json": 2, "_private": 3, "function": 4}
    assert f.validate(given).args == given


class Custom:
    pass


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (Custom, "Custom"),
        (Callable[[], int], "Callable"),
        (type[int], "type[int]"),
        (list[Custom], "Custom"),
        (Iterable[int] | None, "take a list"),
    ],
    ids=["class", "function", "type", "nested", "lazy"],
)
def test_a_type_without_a_json_form_is_refused(annotation: Any, named: str) -> None:
    """The error names function, parameter, type and remedy."""

    def f(good: int, bad: Any) -> None: ...

    f.__annotations__["bad"] = annotation
    with pytest.raises(ToolDefinitionError) as caught:
        as_tool(f)
    text = str(caught.value)
    assert "f (line" in text
    assert "parameter 'bad'" in text
    assert "'good'" not in text
    assert named in text
    assert "functools.partial" in text


def test_defaults_hidden_in_fields_are_refused() -> None:
    """What a plain call of the function would not know, a tool call must not know either."""

    def in_place(x: int = Field(3)) -> None: ...

    def inside(x: Annotated[int, Field(default=3)]) -> None: ...

    def renamed(x: Annotated[int, Field(alias="y")]) -> None: ...

    for function, problem in (
        (in_place, "as its default"),
        (inside, "inside Field"),
        (renamed, "alias"),
    ):
        with pytest.raises(ToolDefinitionError, match=f"parameter 'x' has .*{problem}"):
            as_tool(function)


def test_a_default_that_no_schema_can_hold_is_left_out_of_it() -> None:
    """The parameter is optional, and nothing wrong is said about it."""

    @tool
    def f(
        a: int = None,  # type: ignore[assignment]  # noqa: RUF013 - what is being tested
        b: Any = object(),  # noqa: B008 - as above
        c: Annotated[int, AfterValidator(abs)] = -1,
    ) -> None: ...

    assert properties(f) == {"a": {"type": "integer"}, "b": {}, "c": {"type": "integer"}}
    assert "required" not in f.spec.parameters


def test_neither_pydantic_nor_docstring_parser_is_imported_with_the_room() -> None:
    """Importing the package is cheap."""
    code = (
        "import sys, hookline.tools; hookline.tools.Toolbox(); slow = {'pydantic', 'docstring_parser'};"
        "assert not slow & set(sys.modules), slow & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


PIECES = [
    *(
        "Give it back.",
        "Args",
        "Args:",
        "Parameters",
        "----------",
        "text",
        "text (str)",
        ": ",
        ":",
        "@",
    ),
    *(
        ":param text: what",
        "\n",
        "\n\n",
        "    ",
        "\t",
        "- one",
        ".. note::",
        "Returns",
        ">>> f()",
        "a: b",
        "Raises: E",
    ),
]


def parsed(doc: str) -> tuple[str, dict[str, str]]:
    """What the parser makes of it; where it fails, all of it is a description."""
    try:
        read = docstring_parser.parse(doc)
    except Exception:
        return doc.strip(), {}
    texts = {
        name.strip(): param.description
        for param in read.params
        for name in (param.arg_name or "").split(",")
        if param.description
    }
    return (read.description or "").strip(), texts


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
)
@example("Give the text back.")
@example(" a\tb ")
@example(":param text: what to give back")
@example(": :")
@example("0\n\r\n0")
@example("0\n\n\n0")
@example("0\n 0\n0")
@example("One.\n\nTwo\nthree.\n\n\nFour.")
def test_a_docstring_reads_the_same_without_the_parser(doc: str) -> None:
    """The parser is only left out where it would have found nothing but a description."""
    doc = inspect.cleandoc(doc)
    assert read_doc(doc) == parsed(doc)
