"""The JSON schema of the configuration, for editors: published as docs/hookline.schema.json."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from hookline.config.schema import Configuration

EMPTY: Mapping[str, Any] = MappingProxyType({})
_NAMED = {"pattern": "^[^:]+:.+"}
"""`module:name`."""


def _where(key: str, holds: dict[str, Any]) -> dict[str, Any]:
    """A condition on a value, where there is one."""
    return {"properties": {key: holds}}


def _one_of(*keys: str) -> dict[str, Any]:
    """Exactly one of these is said."""
    return {"oneOf": [{"required": [key]} for key in keys]}


_HOOK = {
    **_one_of("run", "command", "url", "do"),
    "dependentRequired": {"env": ["command"], "headers": ["url"], "reason": ["do"]},
    "allOf": [
        _where("run", _NAMED),
        _where("url", {"pattern": "^https?://"}),
        {
            "if": {"anyOf": [{"required": ["command"]}, {"required": ["url"]}]},
            "then": {"properties": {"tier": False, "scope": False}},
        },
        {
            "if": {**_where("do", {"enum": ["block", "ask", "stop"]}), "required": ["do"]},
            "then": {**_where("reason", {"minLength": 1}), "required": ["reason"]},
        },
    ],
}
"""What a type cannot say of a hook, and `check` sees to."""
_SERVER = {
    "if": {**_where("enabled", {"const": False}), "required": ["enabled"]},
    "else": _one_of("command", "url"),
}


def json_schema(
    points: Mapping[str, Any] = EMPTY, capabilities: Mapping[str, Mapping[str, Any]] = EMPTY
) -> dict[str, Any]:
    """The schema, with the definitions of all tables.

    What points and capabilities there are is known further up: `points` is the schema of their names, and
    `capabilities` the one of each capability's options. Without them any name will do.
    """
    schema = msgspec.json.schema(Configuration)
    parts = schema["$defs"]
    parts["HookSettings"].update(_HOOK)
    parts["HookSettings"]["properties"]["on"].update(points)
    parts["McpSettings"].update(_SERVER)
    for name in ("AgentSettings", "Configuration"):
        parts[name]["allOf"] = [_where("target", _NAMED)]
        if capabilities:
            known = {"properties": dict(capabilities), "additionalProperties": False}
            parts[name]["properties"]["capabilities"].update(known)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hookline configuration",
        "description": "hookline.toml, .hookline/config.toml and [tool.hookline] in pyproject.toml",
        **schema,
    }
