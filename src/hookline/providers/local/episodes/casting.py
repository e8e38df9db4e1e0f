"""An agent's own tools in the worked episodes: in the scenes that fit them, or in one made from their schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookline.providers.local.episodes.bank import PARTS, Episode, Part, Scene
from hookline.state import ToolSpec

_KINDS = {"string": str, "integer": int, "number": int}
_SAMPLES: dict[str, Any] = {"integer": 3, "number": 3, "boolean": True, "null": None}
_WORDS = (
    ("path|file", "notes.txt"),
    ("url|link", "http://example.org"),
    ("city|place|location", "Oslo"),
    ("query|question|topic|key", "tea"),
    ("command|cmd", "date"),
    ("name|user|person", "Anna"),
    ("id", "a7"),
)
_DEEPEST = 4
_ABOUT_ANOTHER = frozenset(["cancel", "kill", "poll", "status", "stop", "wait"])
"""A tool with such a word in its name looks after what another has begun: `bash_stop` runs no command."""


def episodes_for(tool: ToolSpec) -> list[Episode]:
    """Episodes in which this tool is called. There is at least one."""
    for part in PARTS:
        if _fits(part, tool.name):
            cast = [one for scene in part.scenes if (one := _cast(scene, tool)) is not None]
            if cast:
                return cast
    return [_improvised(tool)]


def _fits(part: Part, name: str) -> bool:
    words = _words_of(name)
    if not part.verbs.intersection(words) or _ABOUT_ANOTHER.intersection(words):
        return False
    return not part.nouns or len(words) == 1 or bool(part.nouns.intersection(words))


def _words_of(name: str) -> list[str]:
    """The words in a tool's name; of one from elsewhere, those behind the name of where it is from."""
    own = name.rpartition("__")[2]
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", own)]


def _cast(scene: Scene, tool: ToolSpec) -> Episode | None:
    """A scene with this tool in it; None where its parameters do not fit."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    # Stable: their own order else.
    names = sorted(properties, key=lambda name: name not in required)
    if len(required) > len(scene.values) or len(names) < len(scene.values):
        return None
    args: dict[str, Any] = {}
    for name, value in zip(names, scene.values, strict=False):
        if _KINDS.get(_resolved(properties[name], tool).get("type", "")) is not type(value):
            return None
        if not _is_free(properties[name]):
            return None
        args[name] = value
    return Episode(scene.ask, tool.name, args, scene.result, scene.answer)


def _is_free(schema: Mapping[str, Any]) -> bool:
    """Whether any value of its type will do."""
    return not {"enum", "const", "pattern", "minimum", "maximum", "format"}.intersection(schema)


# --- a scene from a schema ------------------------------------------------------------------------


def _improvised(tool: ToolSpec) -> Episode:
    """An episode for a tool that is like no other: it is asked for in the words of its description."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    args = {name: _sample(name, properties[name], tool) for name in required if name in properties}
    does = " ".join(tool.description.split()).split(". ")[0].rstrip(".") or tool.name
    told = ", ".join(f"{name} {value}" for name, value in args.items())
    result = f"{' '.join(_words_of(tool.name))} done"
    return Episode(f"{does}{f': {told}' if told else ''}.", tool.name, args, result, f"{result}.")


def _sample(name: str, schema: Mapping[str, Any], tool: ToolSpec, depth: int = 0) -> Any:
    """A value that fits a schema, as far as that is plain."""
    schema = _resolved(schema, tool)
    if "const" in schema:
        return schema["const"]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if "default" in schema:
        return schema["default"]
    kind = schema.get("type", "string")
    if depth >= _DEEPEST or kind in _SAMPLES:
        return _SAMPLES.get(kind)
    if kind == "array":
        return [_sample(name, schema["items"], tool, depth + 1)] if schema.get("items") else []
    if kind == "object":
        inner = schema.get("properties", {})
        needed = [one for one in schema.get("required", ()) if one in inner]
        return {one: _sample(one, inner[one], tool, depth + 1) for one in needed}
    return next((word for hint, word in _WORDS if re.search(hint, name.lower())), "tea")


def _resolved(schema: Any, tool: ToolSpec) -> Mapping[str, Any]:
    """A schema behind its reference, or the first of several that is not null."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            schema = tool.parameters.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
        elif "anyOf" in schema:
            options = [one for one in schema["anyOf"] if one.get("type") != "null"]
            schema = options[0] if options else {}
        else:
            break
    return schema if isinstance(schema, Mapping) else {}
