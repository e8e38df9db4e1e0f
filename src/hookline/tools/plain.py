"""The schema of a plain signature, without pydantic: that is slow to import, and most tools take text and numbers.

What is plain is settled here: scalars, lists and choices of them, and dataclasses made of such. For these the schema is
the very one that pydantic would generate, which a test compares. Their arguments are checked by pydantic all the same,
once there is one to coerce or to refuse.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from typing import Any

from hookline.errors import NotJSONError
from hookline.state import freeze
from hookline.tools.arguments import Codec, Defaults
from hookline.tools.schema import Compiled, worded
from hookline.tools.signature import NO_DEFAULT, Parameter, Signature

_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_UNIONS = (typing.Union, types.UnionType)


class NotPlain(Exception):
    """A type that only pydantic knows."""


def compile_plain(signature: Signature, name: str) -> Compiled:
    """Compile a signature for the tool called `name`. Raises NotPlain where that takes pydantic."""
    seen: set[Any] = set()
    properties = {
        parameter.name: _schema(_bare(parameter.annotation), seen)
        for parameter in signature.parameters
    }
    defaults = _defaults(signature.parameters)
    return worded(signature, name, {"properties": properties}, _codec(signature), defaults)


def _defaults(parameters: tuple[Parameter, ...]) -> Defaults:
    values = {
        parameter.name: _default(parameter)
        for parameter in parameters
        if parameter.default is not NO_DEFAULT
    }
    return Defaults(values, dict(values), frozenset())


def _codec(signature: Signature) -> Codec:
    """How arguments are checked that are not of the very types: by pydantic, once there are some."""

    @functools.cache
    def made() -> Codec:
        from hookline.tools.pydantic_schema import codec_of

        return codec_of(signature)

    kinds = {one.name: _exact(_bare(one.annotation)) for one in signature.parameters}
    exact = kinds if all(kinds.values()) else None
    return Codec(lambda data: made().parse(data), lambda values: made().dump(values), exact)


def _bare(annotation: Any) -> Any:
    """The type without what is said about it, if that is only words."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation
    kind, *notes = typing.get_args(annotation)
    if not all(isinstance(note, str) for note in notes):
        raise NotPlain
    return _bare(kind)


def _schema(kind: Any, seen: set[Any]) -> dict[str, Any]:
    """A schema with its keys in the order in which pydantic writes them."""
    if isinstance(kind, type) and kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if kind is type(None):
        return {"type": "null"}
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and len(parts) == 1:
        return {"items": _schema(parts[0], seen), "type": "array"}
    if origin in _UNIONS and _is_option(parts):
        return {"anyOf": [_schema(part, seen) for part in parts]}
    if origin is typing.Literal and len(parts) > 1 and all(type(part) is str for part in parts):
        return {"enum": list(parts), "type": "string"}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, seen)
    raise NotPlain


def _is_option(parts: tuple[Any, ...]) -> bool:
    """Whether a union is one type or nothing. Several types would be tried in an order of pydantic's own."""
    return len(parts) == 2 and parts[1] is type(None)


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
        "description": _doc(kind),
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


def _doc(kind: Any) -> str:
    import inspect

    return inspect.cleandoc(kind.__doc__)


def _default(parameter: Parameter) -> Any:
    value, kind = parameter.default, _bare(parameter.annotation)
    if kind is float and type(value) is int:
        value = float(value)  # as it would be had the model given it
    if type(value) is float and not math.isfinite(value):
        raise NotPlain
    if type(value) not in _exact(kind) and value not in _choices(kind):
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


def _exact(kind: Any) -> frozenset[type]:
    """The JSON types whose values need neither check nor coercion; empty if there may be others."""
    if kind in (*_SCALARS, type(None)):
        return frozenset({kind})
    if typing.get_origin(kind) in _UNIONS:
        members = [_exact(part) for part in typing.get_args(kind)]
        return frozenset().union(*members) if all(members) else frozenset()
    return frozenset()
