"""Plain signatures: the schema and the check are those of pydantic, which is not imported for them."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.capabilities import Bash, Files
from hookline.errors import ToolArgumentsError
from hookline.tools import tool
from hookline.tools.plain_schema import NotPlain, compile_plain
from hookline.tools.pydantic_schema import compile_signature
from hookline.tools.schema import CompiledSchema
from hookline.tools.signature import NO_DEFAULT, Parameter, Signature, read_signature


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of many."""

    name: str
    count: int = 1
    note: str | None = None


@dataclasses.dataclass
class Unsaid:
    name: str


_KINDS: list[tuple[Any, list[Any]]] = [
    (str, ["", "x", "é\n"]),
    (int, [0, -7, 2**60]),
    (float, [0.0, 5, -1.5]),
    (bool, [True, False]),
    (str | None, [None, "x"]),
    (float | None, [None, 1.5]),
    (list[str], []),
    (list[int], []),
    (list[Part], []),
    (list[Part] | None, [None]),
    (list[str] | None, [None]),
    (Literal["a", "b"], ["a"]),
    (Literal["a", "b"] | None, [None]),
    (Part, []),
]
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.one_of(st.text(max_size=2), st.integers(-3, 3)), max_size=2),
    st.fixed_dictionaries({"name": st.text(max_size=2)}, optional={"count": st.integers(-9, 9)}),
)


@st.composite
def _signatures(draw: st.DrawFn) -> Signature:
    parameters = []
    used = draw(st.lists(st.integers(0, len(_KINDS) - 1), max_size=4, unique=True))
    if sum("Part" in str(_KINDS[each][0]) for each in used) > 1:
        used = [each for each in used if "Part" not in str(_KINDS[each][0])]
    for place, each in enumerate(used):
        kind, defaults = _KINDS[each]
        said = draw(st.sampled_from(["", "Said."]))
        default = draw(st.sampled_from([NO_DEFAULT, *defaults]))
        noted = Annotated[kind, said] if said else kind
        parameters.append(Parameter(f"p{place}", noted, default))
    doc = draw(
        st.sampled_from(
            ["", "One line.", "One line.\n\nMore, with `code`.", "Does.\n\nArgs:\n    p0: First.\n"]
        )
    )
    return Signature("f", "here", doc, tuple(parameters), "", False)


def _outcome(compiled: CompiledSchema, args: dict[str, Any]) -> Any:
    try:
        made = compiled.arguments.validate(args)
    except ToolArgumentsError as error:
        return str(error)
    return dict(made.args), {name: (type(each), each) for name, each in made.values.items()}


@given(_signatures(), st.data())
def test_it_is_what_pydantic_makes(signature: Signature, data: st.DataObject) -> None:
    """The same words, the same schema to the byte, and the same verdict on arguments of any kind."""
    plain, full = compile_plain(signature, "f"), compile_signature(signature, "f")
    assert plain.description == full.description
    assert msgspec.json.encode(plain.parameters) == msgspec.json.encode(full.parameters)
    names = [parameter.name for parameter in signature.parameters]
    args = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), _VALUES, max_size=5))
    assert _outcome(plain, args) == _outcome(full, args)


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter("p", int | str),
        Parameter("p", Literal["a"]),
        Parameter("p", Literal[1, 2]),
        Parameter("p", dict[str, int]),
        Parameter("p", Any),
        Parameter("p", Unsaid),
        Parameter("p", Annotated[int, object()]),
        Parameter("p", int, None),
        Parameter("p", int, True),
        Parameter("p", str, "\udc80"),
        Parameter("p", float, float("nan")),
        Parameter("p", list[str], ["a"]),
    ],
)
def test_what_is_not_plain_is_left_to_pydantic(parameter: Parameter) -> None:
    """Unions, other types, defaults that their type does not admit."""
    with pytest.raises(NotPlain):
        compile_plain(Signature("f", "here", "", (parameter,), "", False), "f")


def test_a_type_that_is_met_twice_is_left_to_pydantic() -> None:
    """It is described apart, and referred to."""
    twice = (Parameter("one", Part), Parameter("two", list[Part]))
    with pytest.raises(NotPlain):
        compile_plain(Signature("f", "here", "", twice, "", False), "f")


def test_the_tools_that_every_agent_has_are_plain() -> None:
    """So the command starts without pydantic."""
    for capability in (Files("."), Bash(".", sandbox="host")):
        for made in capability.tools():
            assert compile_plain(read_signature(made.function), made.name).parameters == dict(
                made.spec.parameters
            )


def test_pydantic_is_there_when_it_is_needed() -> None:
    """Arguments of the very types need none; one that is to be coerced does."""
    code = inspect.cleandoc("""
        import sys
        from hookline.state import freeze_dict
        from hookline.tools import tool

        @tool
        def add(a: int, b: int = 2) -> int:
            '''Add.'''
            return a + b

        assert add.validate(freeze_dict({"a": 1})).values == {"a": 1, "b": 2}
        assert not {"pydantic", "docstring_parser"} & set(sys.modules)
        assert add.validate({"a": "1"}).values == {"a": 1, "b": 2}
        assert "pydantic" in sys.modules
    """)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_field_still_counts() -> None:
    """What pydantic's Field says goes with the parameter."""
    from pydantic import Field

    @tool
    def f(a: Annotated[int, Field(description="A number.", ge=1)]) -> None:
        """F."""

    assert f.spec.parameters["properties"]["a"] == {
        "minimum": 1,
        "type": "integer",
        "description": "A number.",
    }
