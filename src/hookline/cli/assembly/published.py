"""The JSON schema of the configuration, with the names that there are: points, capabilities and their options."""

from __future__ import annotations

import inspect
import os
import types
import typing
from collections import abc
from pathlib import Path
from typing import Any

from hookline.cli.assembly.capabilities import LISTS, SOURCES, capability_names, hint_of, options_of
from hookline.config import json_schema
from hookline.lifecycle import HookPoint

_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}
_TEXT = {"type": "string"}
_BETWEEN = "[-_]*"
"""What a spelling may have between any two letters of a name."""


def full_schema() -> dict[str, Any]:
    """The schema that is published: what it lets pass, the command takes, as far as a schema can say."""
    return json_schema(_points(), {name: _options(kind) for name, kind in _kinds().items()})


def _points() -> dict[str, Any]:
    """The names of points, for editors to offer; and every other spelling of them, for those who have their own."""
    other = "|".join(_spelling(each) for point in HookPoint for each in sorted(point.spellings))
    names = [point.value for point in HookPoint]
    return {
        "anyOf": [
            {"enum": names},
            {"pattern": f"^{_BETWEEN}({_spelling('on')})?{_BETWEEN}({other}){_BETWEEN}$"},
        ]
    }


def _spelling(name: str) -> str:
    return _BETWEEN.join(f"[{each}{each.upper()}]" for each in name)


def _kinds() -> dict[str, Any]:
    from hookline import capabilities

    return {name: getattr(capabilities, kind) for name, kind in sorted(capability_names().items())}


def _options(kind: Any) -> dict[str, Any]:
    """What may be said about a capability."""
    said: dict[str, Any] = {}
    for option in options_of(inspect.signature(kind).parameters):
        if option == "enabled":
            said[option] = {"type": "boolean", "default": True}
        elif option in SOURCES:
            said[option] = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
        else:
            said[option] = value_schema(hint_of(kind, option))
    words = (inspect.getdoc(kind) or "").partition("\n")[0]
    return {
        "type": "object",
        "description": words,
        "properties": said,
        "additionalProperties": False,
    }


def value_schema(hint: Any) -> dict[str, Any]:
    """What fits a type; anything, where that is for the class itself to say."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(parts)}
    if origin in (typing.Union, types.UnionType):
        told: list[dict[str, Any]] = []
        for each in (value_schema(part) for part in parts if part is not type(None)):
            told += [] if each in told else [each]
        return told[0] if len(told) == 1 else {} if {} in told else {"anyOf": told}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if (origin or hint) in (Path, os.PathLike):
        return _TEXT
    if (origin or hint) in LISTS:
        return {"type": "array"}
    is_ours = isinstance(hint, type) and hint.__module__.startswith("hookline.")
    is_table = is_ours or (origin or hint) in (dict, abc.Mapping)
    return {"type": "object"} if is_table else {}
