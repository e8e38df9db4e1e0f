"""The shape of an output: its JSON schema, and the way from JSON to the value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from pydantic import BaseModel, TypeAdapter
from pydantic_core import ValidationError

from hookline.errors import BuildError, HooklineError
from hookline.state import FrozenDict, JSONValue, freeze_dict, thaw
from hookline.tools.explain import Problem, complaints
from hookline.tools.tidy import tidied

WRAPPED = "output"
"""The one argument of the tool when the output itself is no JSON object."""


class Unfit(Exception):
    """JSON that is not of the shape; `complaints` are words a model can act on."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("; ".join(complaints))
        self.complaints = complaints


class Shape(Protocol):
    """What an output looks like."""

    @property
    def parameters(self) -> FrozenDict:
        """The JSON schema of the tool's arguments."""
        ...

    @property
    def is_wrapped(self) -> bool:
        """Whether the output is one argument of the tool, because it is no JSON object itself."""
        ...

    def read(self, value: JSONValue) -> Any:
        """The typed value of JSON, or `Unfit`."""
        ...


def shape_of(schema: Any) -> Shape:
    """The shape that a type or a JSON schema describes."""
    if isinstance(schema, Mapping):
        return SchemaShape(schema)
    return TypeShape(schema)


class TypeShape:
    """A pydantic model, a dataclass, a TypedDict, or anything else that pydantic knows how to read from JSON."""

    def __init__(self, kind: Any) -> None:
        try:
            if inspect.isroutine(kind):
                raise TypeError("a function is no type")
            if kind in (None, type(None)):
                raise TypeError("nothing is no output")
            if kind is BaseModel:
                raise TypeError("it has no fields of its own")
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            generated = self._adapter.json_schema()
        except Exception as error:  # pydantic, and the author's own types, raise what they like
            raise BuildError(
                f"structured output: {kind!r} has no JSON schema ({str(error).splitlines()[0]}).",
                remedy="Give a pydantic model, a dataclass, a TypedDict, a type such as list[int], or a JSON schema.",
            ) from error
        self.parameters, self.is_wrapped = _as_parameters(tidied({"$defs": {}, **generated}))

    def read(self, value: JSONValue) -> Any:
        """The value."""
        try:
            return self._adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            problems = [Problem(each["loc"], each["type"], each["msg"]) for each in found]
            names = list(self.parameters["properties"])
            given: Any = thaw(value)
            if self.is_wrapped:  # the model wrote one level more
                given = {WRAPPED: given}
                problems = [
                    Problem((WRAPPED, *each.place), each.kind, each.message) for each in problems
                ]
            raise Unfit(complaints(problems, given, names)) from None
        except Exception as error:  # a validator the author wrote has crashed
            raise Unfit([f"it could not be checked ({type(error).__name__}: {error})"]) from error


class SchemaShape:
    """A JSON schema. The output is the JSON itself: dicts and lists."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._problems = _checker()
        try:
            self._schema = freeze_dict(dict(schema), "a JSON schema")
            self._problems(self._schema, {})
        except HooklineError as error:
            raise BuildError(
                f"structured output: {error.message}", remedy="Give a JSON schema."
            ) from None
        self.parameters, self.is_wrapped = _as_parameters(self._schema)

    def read(self, value: JSONValue) -> Any:
        """The value, as plain JSON."""
        found = self._problems(self._schema, value)
        if found:
            raise Unfit([f"'{WRAPPED}': {each}" for each in found] if self.is_wrapped else found)
        return thaw(value)


def _checker() -> Callable[[Mapping[str, Any], Any], list[str]]:
    try:
        from hookline.tools.json_schema import checked_problems
    except ImportError as error:
        raise BuildError(
            "structured output from a JSON schema needs the package jsonschema.",
            remedy='Install it: pip install "hookline[mcp]"; or give a pydantic model instead.',
        ) from error
    return checked_problems


def _as_parameters(schema: Mapping[str, Any]) -> tuple[FrozenDict, bool]:
    """The schema of a tool's arguments, which must be an object, and whether it took an object around it to be so."""
    body = dict(schema)
    definitions = body.pop("$defs", None)
    name = str(body.get("$ref", "")).removeprefix("#/$defs/")
    if definitions and name in definitions:  # a type that holds itself
        body = {**definitions[name], **{key: body[key] for key in body if key != "$ref"}}
    is_wrapped = body.get("type") != "object"
    if is_wrapped:
        body = {"type": "object", "properties": {WRAPPED: body}, "required": [WRAPPED]}
    body = {"properties": {}, **{key: body[key] for key in body if key != "title"}}
    if definitions:
        body["$defs"] = definitions
    return freeze_dict(body, "the schema of the output"), is_wrapped
