"""Which fields of which classes occur in JSON data, found by walking the data along the types of its fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import inspect

Seen = set[tuple[str, str]]


def fields_in(kind: Any, values: Iterable[Any]) -> Seen:
    """Every field, as class and name, that has a value of its own somewhere in the data."""
    seen: Seen = set()
    info = inspect.type_info(kind)
    for value in values:
        _walk(info, value, seen)
    return seen


ADDED_TO_STATES: Seen = {
    ("ToolResult", "attachments"),
    ("tool", "attachments"),
    ("assistant", "provider_tool_uses"),
    ("PendingStep", "provider_tool_uses"),
    ("ProviderToolUse", "name"),
    ("ProviderToolUse", "data"),
    ("ProviderToolUse", "provider"),
}
"""Fields that states, and records with parts of states, have since the data was written."""


def fields_of(kind: Any) -> Seen:
    """Every field of a class and of all classes its fields are made of."""
    known: Seen = set()
    _collect(inspect.type_info(kind), known, set())
    return known


def _structs(info: Any) -> list[Any]:
    if isinstance(info, inspect.StructType):
        return [info]
    if isinstance(info, inspect.UnionType):
        return [each for part in info.types for each in _structs(part)]
    return []


def _name(info: Any) -> str:
    """What JSON calls a class: its tag where there is one, so that a renamed class is the same."""
    return str(info.cls.__struct_config__.tag or info.cls.__name__)


def _collect(info: Any, known: Seen, done: set[Any]) -> None:
    for struct in _structs(info):
        if struct.cls in done:
            continue
        done.add(struct.cls)
        for field in struct.fields:
            known.add((_name(struct), field.encode_name))
            _collect(field.type, known, done)
    for part in _parts(info):
        _collect(part, known, done)


def _parts(info: Any) -> list[Any]:
    if isinstance(info, inspect.UnionType):
        return [part for part in info.types if not isinstance(part, inspect.StructType)]
    if isinstance(info, inspect.DictType):
        return [info.value_type]
    return [info.item_type] if hasattr(info, "item_type") else []


def _walk(info: Any, value: Any, seen: Seen) -> None:
    if isinstance(value, list):
        for part in (info, *_parts(info)):
            if hasattr(part, "item_type"):
                for item in value:
                    _walk(part.item_type, item, seen)
    if not isinstance(value, dict):
        return
    struct = _chosen(_structs(info), value)
    if struct is None:
        for part in (info, *_parts(info)):
            if isinstance(part, inspect.DictType):
                for item in value.values():
                    _walk(part.value_type, item, seen)
        return
    for field in struct.fields:
        if field.encode_name not in value:
            continue
        item = value[field.encode_name]
        if field.required or item not in (_default(field), None):
            seen.add((_name(struct), field.encode_name))
        _walk(field.type, item, seen)


def _chosen(structs: list[Any], value: dict[str, Any]) -> Any:
    """The class of an object: by its tag, if the classes have one."""
    for struct in structs:
        config = struct.cls.__struct_config__
        if config.tag_field is None or value.get(config.tag_field) == config.tag:
            return struct
    return None


def _default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default)
    return None
