"""JSON schemas of tools and answers, rearranged for what a model is held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def move_definitions(
    schema: Mapping[str, Any], prefix: str, definitions: dict[str, Any]
) -> dict[str, Any]:
    """A schema as a part of another: its `$defs` move into `definitions`, under names with a prefix."""
    moved: dict[str, Any] = _rename_references(schema, prefix)
    for name, definition in moved.pop("$defs", {}).items():
        definitions[f"{prefix}{name}"] = definition
    return moved


def _rename_references(value: Any, prefix: str) -> Any:
    if isinstance(value, Mapping):
        return {
            key: f"#/$defs/{prefix}{item.removeprefix('#/$defs/')}"
            if key == "$ref" and isinstance(item, str) and item.startswith("#/$defs/")
            else _rename_references(item, prefix)
            for key, item in value.items()
        }
    return (
        [_rename_references(item, prefix) for item in value] if isinstance(value, list) else value
    )
