"""The JSON schema of configuration files, with the hook points, the capabilities and their options."""

from __future__ import annotations

import inspect
from typing import Any

from hookline.cli.assembly.capabilities import capability_names, options_of, schema_of
from hookline.config import json_schema
from hookline.lifecycle import HookPoint

_BETWEEN = "[-_]*"
"""What a spelling may have between any two letters of a name."""


def full_schema() -> dict[str, Any]:
    """The published schema."""
    from hookline import capabilities

    kinds = {name: getattr(capabilities, kind) for name, kind in sorted(capability_names().items())}
    return json_schema(_points(), {name: _options(kind) for name, kind in kinds.items()})


def _points() -> dict[str, Any]:
    """The names of the points, for editors to offer, and a pattern for every other spelling of them."""
    other = "|".join(_spelling(each) for point in HookPoint for each in sorted(point.spellings))
    return {
        "anyOf": [
            {"enum": [point.value for point in HookPoint]},
            {"pattern": f"^{_BETWEEN}({_spelling('on')})?{_BETWEEN}({other}){_BETWEEN}$"},
        ]
    }


def _spelling(name: str) -> str:
    return _BETWEEN.join(f"[{each}{each.upper()}]" for each in name)


def _options(kind: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "description": (inspect.getdoc(kind) or "").partition("\n")[0],
        "properties": {option: schema_of(kind, option) for option in options_of(kind)},
        "additionalProperties": False,
    }
