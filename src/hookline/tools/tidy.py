"""Making a generated JSON schema short to read, without changing what it admits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

# The keywords under which schemas hold schemas. Nothing else is walked: a default may look like a schema.
_NAMED = frozenset({"properties", "patternProperties", "$defs"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})

# `discriminator` is OpenAPI's, not JSON schema's, and points into `$defs`.
_DROPPED = frozenset({"$ref", "discriminator"})


def tidied(schema: Schema) -> Schema:
    """Each type of `$defs` where it is used; those used twice, or holding themselves, stay. Titles of types go."""
    definitions = {name: _without_title(body) for name, body in schema["$defs"].items()}
    uses = Counter(_references(schema))
    inlined = {
        name: body for name, body in definitions.items() if uses[name] == 1 or "enum" in body
    }
    kept = {
        name: _inline(body, inlined) for name, body in definitions.items() if name not in inlined
    }
    body = _inline({key: value for key, value in schema.items() if key != "$defs"}, inlined)
    return {**body, "$defs": kept} if kept else body


def _without_title(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


def _inline(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    name = _referred(schema)
    dropped = _DROPPED if name in definitions else _DROPPED - {"$ref"}
    beside = {key: value for key, value in schema.items() if key not in dropped}
    # What stands beside a reference (a description, a default) is about this use, and wins.
    merged = (
        {**_inline(definitions[name], definitions), **beside} if name in definitions else beside
    )
    return _over_subschemas(merged, lambda inner: _inline(inner, definitions))


def _references(schema: Schema) -> Iterator[str]:
    inner: list[str] = [_referred(schema)] if "$ref" in schema else []

    def collect(subschema: Schema) -> Schema:
        inner.extend(_references(subschema))
        return subschema

    _over_subschemas(schema, collect)
    return iter(inner)


def _referred(schema: Schema) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _over_subschemas(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    return {key: _changed(key, value, change) for key, value in schema.items()}


def _changed(key: str, value: Any, change: Callable[[Schema], Schema]) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: change(inner) for name, inner in value.items()}
    if key in _LISTED and isinstance(value, list):
        return [change(inner) for inner in value]
    if key in _SINGLE and isinstance(value, dict):
        return change(value)
    return value
