"""The JSON schema of a tool's arguments as the model reads it, with descriptions and defaults."""

from __future__ import annotations

import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from hookline.state import FrozenDict, freeze_dict
from hookline.tools.arguments import Arguments, Codec, Defaults
from hookline.tools.signature import Parameter, Signature

SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
UNIONS = (typing.Union, types.UnionType)
_ODD_BLANK = re.compile(r"^[^\S\n]+$|\n\n\n|\A[^\n]*\n+[^\S\n]", re.MULTILINE)
"""What the parser writes differently: blank lines with blanks in them, several of them, an indent after the summary."""
_HAS_SECTIONS = re.compile(r":\s*$|^\s*[:@.-]", re.MULTILINE)
"""Whether something in a docstring may begin a section, in any style. What has none is one description."""


class CompiledSchema(msgspec.Struct, frozen=True):
    """What a signature becomes."""

    description: str
    parameters: FrozenDict
    """JSON schema of the arguments."""
    arguments: Arguments


def add_descriptions(
    signature: Signature, name: str, generated: dict[str, Any], codec: Codec, defaults: Defaults
) -> CompiledSchema:
    """The schemas of the parameters as one schema, with all that is said about them."""
    description, texts = read_doc(signature.doc)
    for parameter in signature.parameters:
        _describe(generated["properties"][parameter.name], parameter, texts, defaults)
    parts: dict[str, Any] = {"type": "object", "properties": generated["properties"]}
    required = [one.name for one in signature.parameters if one.name not in defaults.values]
    if required:
        parts["required"] = required
    definitions = generated.get("$defs", {})
    schema = freeze_dict(
        inline_definitions({**parts, "additionalProperties": False, "$defs": definitions})
    )
    return CompiledSchema(
        description, schema, Arguments(name, schema["properties"], codec, defaults)
    )


def read_doc(doc: str) -> tuple[str, dict[str, str]]:
    """The description and what is said about each parameter, in Google, NumPy, Sphinx or Epydoc style."""
    if not (_HAS_SECTIONS.search(doc) or _ODD_BLANK.search(doc)):
        return doc.strip(), {}
    import docstring_parser  # slow to import

    try:
        parsed = docstring_parser.parse(doc)
    except Exception:
        return doc.strip(), {}
    texts = {
        name.strip(): param.description
        for param in parsed.params
        for name in (param.arg_name or "").split(",")
        if param.description
    }
    # The parser keeps the line break in front of a section that follows a one-line summary.
    return (parsed.description or "").strip(), texts


def _describe(
    schema: dict[str, Any], parameter: Parameter, texts: dict[str, str], defaults: Defaults
) -> None:
    """Add what the signature and the docstring say. What is said at the annotation wins over the docstring."""
    for text in (*_descriptions(parameter.annotation), texts.get(parameter.name)):
        if text:
            schema["description"] = text
            break
    if parameter.name in defaults.values and parameter.name not in defaults.opaque:
        schema["default"] = defaults.shown[parameter.name]


def _descriptions(annotation: Any) -> Iterable[str | None]:
    """What is said at an annotation: by a Field first, then in plain words."""
    notes = list(notes_of(annotation))
    texts = [note for note in notes if isinstance(note, str)]
    return [*(getattr(note, "description", None) for note in notes if _is_field(note)), *texts]


def _is_field(note: Any) -> bool:
    """Whether it is pydantic's Field, without importing what has it."""
    return any(kind.__name__ == "FieldInfo" for kind in type(note).__mro__)


def notes_of(annotation: Any) -> list[Any]:
    """What `Annotated` says about a parameter: at the annotation itself first, then at the members of a union."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return [*parts[1:], *notes_of(parts[0])]
    return [note for part in parts for note in notes_of(part)] if origin in UNIONS else []


def exact_types(parameters: Iterable[Parameter]) -> dict[str, frozenset[type]] | None:
    """For each parameter the JSON types whose values need neither check nor coercion; None if one may have others."""
    exact = {parameter.name: exact_types_of(parameter.annotation) for parameter in parameters}
    return exact if all(exact.values()) else None


def exact_types_of(annotation: Any) -> frozenset[type]:
    """The same for one annotation; empty if there may be others."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        only_describes = all(
            isinstance(note, str) or (_is_field(note) and not note.metadata) for note in parts[1:]
        )
        return exact_types_of(parts[0]) if only_describes else frozenset()
    if origin in UNIONS:
        members = [exact_types_of(part) for part in parts]
        return frozenset().union(*members) if all(members) else frozenset()
    is_exact = isinstance(annotation, type) and annotation in (*SCALARS, type(None))
    return frozenset({annotation}) if is_exact else frozenset()


# --- shorter schemas that admit the same -------------------------------------------------------


Schema: TypeAlias = dict[str, Any]

# The keywords under which schemas hold schemas. Nothing else is walked: a default may look like a schema.
_NAMED = frozenset({"properties", "patternProperties", "$defs"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})

# `discriminator` is OpenAPI's, not JSON schema's, and points into `$defs`.
_DROPPED = frozenset({"$ref", "discriminator"})


def inline_definitions(schema: Schema) -> Schema:
    """Each type of `$defs` where it is used; those used twice, or holding themselves, stay. Titles of types go."""
    definitions = {
        name: {key: value for key, value in body.items() if key != "title"}
        for name, body in schema["$defs"].items()
    }
    uses = Counter(_references(schema))
    inlined = {
        name: body for name, body in definitions.items() if uses[name] == 1 or "enum" in body
    }
    kept = {
        name: _inline(body, inlined) for name, body in definitions.items() if name not in inlined
    }
    body = _inline({key: value for key, value in schema.items() if key != "$defs"}, inlined)
    return {**body, "$defs": kept} if kept else body


def _inline(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    name = _reference_name(schema)
    dropped = _DROPPED if name in definitions else _DROPPED - {"$ref"}
    beside = {key: value for key, value in schema.items() if key not in dropped}
    # What stands beside a reference (a description, a default) is about this use, and wins.
    merged = (
        {**_inline(definitions[name], definitions), **beside} if name in definitions else beside
    )
    return _over_subschemas(merged, lambda inner: _inline(inner, definitions))


def _references(schema: Schema) -> Iterator[str]:
    inner: list[str] = [_reference_name(schema)] if "$ref" in schema else []

    def collect(subschema: Schema) -> Schema:
        inner.extend(_references(subschema))
        return subschema

    _over_subschemas(schema, collect)
    return iter(inner)


def _reference_name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _over_subschemas(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    return {key: _change_schema(key, value, change) for key, value in schema.items()}


def _change_schema(key: str, value: Any, change: Callable[[Schema], Schema]) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: change(inner) for name, inner in value.items()}
    if key in _LISTED and isinstance(value, list):
        return [change(inner) for inner in value]
    if key in _SINGLE and isinstance(value, dict):
        return change(value)
    return value
