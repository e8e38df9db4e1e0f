"""The JSON schema of a plain signature, without pydantic.

Plain are scalars, lists and choices of them, and dataclasses made of such: most tools take text and numbers, and
pydantic is slow to import. Their schema is to the byte the one that pydantic would generate; a test compares. Pydantic
checks an argument of theirs only when it is of another type than asked for.

msgspec's own schemas were examined and rejected. They sort the choices of a Literal and leave out its type, give every
type a title and a reference, and put keys in another order: making them equal takes more code than the schemas here.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import typing
from typing import Any

from hookline.errors import NotJSONError
from hookline.state import freeze
from hookline.tools.arguments import Codec, Defaults
from hookline.tools.schema import (
    SCALARS,
    UNIONS,
    CompiledSchema,
    add_descriptions,
    exact_types,
    exact_types_of,
)
from hookline.tools.signature import NO_DEFAULT, Parameter, Signature


class NotPlain(Exception):
    """A type whose schema only pydantic knows."""


def compile_plain(signature: Signature, name: str) -> CompiledSchema:
    """Compile a signature for the tool called `name`. Raises NotPlain where that takes pydantic."""
    seen: set[Any] = set()
    properties = {
        parameter.name: _schema(_strip_annotation(parameter.annotation), seen)
        for parameter in signature.parameters
    }
    defaults = _defaults(signature.parameters)
    return add_descriptions(
        signature, name, {"properties": properties}, _codec(signature), defaults
    )


def _defaults(parameters: tuple[Parameter, ...]) -> Defaults:
    values = {
        parameter.name: _default(parameter)
        for parameter in parameters
        if parameter.default is not NO_DEFAULT
    }
    return Defaults(values, dict(values), frozenset())


def _codec(signature: Signature) -> Codec:
    """Pydantic's codec, made when the first argument is not of the very type asked for."""

    @functools.cache
    def codec() -> Codec:
        from hookline.tools.pydantic_schema import codec_of

        return codec_of(signature)

    exact = exact_types(signature.parameters)
    return Codec(lambda data: codec().parse(data), lambda values: codec().dump(values), exact)


def _strip_annotation(annotation: Any) -> Any:
    """The type without what is said about it, if that is only words."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation
    kind, *notes = typing.get_args(annotation)
    if not all(isinstance(note, str) for note in notes):
        raise NotPlain
    return _strip_annotation(kind)


def _schema(kind: Any, seen: set[Any]) -> dict[str, Any]:
    """A schema with its keys in the order in which pydantic writes them."""
    if isinstance(kind, type) and kind in SCALARS:
        return {"type": SCALARS[kind]}
    if kind is type(None):
        return {"type": "null"}
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and len(parts) == 1:
        return {"items": _schema(parts[0], seen), "type": "array"}
    # Of several types, pydantic would try one after the other in an order of its own.
    if origin in UNIONS and len(parts) == 2 and parts[1] is type(None):
        return {"anyOf": [_schema(part, seen) for part in parts]}
    if origin is typing.Literal and len(parts) > 1 and all(type(part) is str for part in parts):
        return {"enum": list(parts), "type": "string"}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, seen)
    raise NotPlain


def _dataclass(kind: Any, seen: set[Any]) -> dict[str, Any]:
    if (
        kind in seen
        or len(kind.__mro__) != 2
        or hasattr(kind, "__post_init__")
        or _is_made_up(kind)
    ):
        raise NotPlain
    seen.add(kind)  # one that is met twice, or in itself, is described apart
    hints = typing.get_type_hints(kind, include_extras=True)
    properties, required = {}, []
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING or not field.init or field.metadata:
            raise NotPlain
        about = _schema(hints[field.name], seen)
        if field.default is dataclasses.MISSING:
            required.append(field.name)
        else:
            default = _default(Parameter(field.name, hints[field.name], field.default))
            about = dict(sorted({**about, "default": default}.items()))
        properties[field.name] = about
    whole = {
        "additionalProperties": False,
        "description": inspect.cleandoc(kind.__doc__),
        "properties": properties,
        "type": "object",
    }
    return dict(sorted({**whole, **({"required": required} if required else {})}.items()))


def _is_made_up(kind: Any) -> bool:
    """Whether it has no text of its own (dataclasses write one), or more to it than a dataclass."""
    return (
        not kind.__doc__
        or kind.__doc__.startswith(f"{kind.__name__}(")
        or any(name.startswith("__pydantic") for name in vars(kind))
    )


def _default(parameter: Parameter) -> Any:
    value, kind = parameter.default, _strip_annotation(parameter.annotation)
    if kind is float and type(value) is int:
        value = float(value)  # as it would be had the model given it
    if type(value) is float and not math.isfinite(value):
        raise NotPlain
    if type(value) not in exact_types_of(kind) and value not in _choices(kind):
        raise NotPlain
    try:
        freeze(value)
    except NotJSONError:
        raise NotPlain from None
    return value


def _choices(kind: Any) -> tuple[Any, ...]:
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)
    return (None,) if type(None) in typing.get_args(kind) else ()
