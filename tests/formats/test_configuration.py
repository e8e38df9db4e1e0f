"""Configuration files that are valid today stay valid: no key and no value disappears."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command_line import HERE
from recorded import DATA

CODE_ONLY = {
    "capabilities.bash.policy",
    "capabilities.bash.limits",
    "capabilities.subagents.hooks",
    "capabilities.summarization.count_tokens",
}
"""Options that take objects of Python, for which a file has no words."""


def schema_of(path: Path) -> dict[str, Any]:
    """A JSON schema."""
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def paths(
    node: Any, schema: dict[str, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Every key that a schema knows, by path, with its part of the schema. Agents are like the whole, and left out."""
    node = _resolved(node, schema)
    if depth > 6 or prefix.startswith("agents.*."):
        return
    for name, part in node.get("properties", {}).items():
        yield f"{prefix}{name}", part
        for each in (part, *part.get("anyOf", ())):
            each = _resolved(each, schema)
            yield from paths(each, schema, f"{prefix}{name}.", depth + 1)
            if isinstance(each.get("additionalProperties"), dict):
                yield from paths(
                    each["additionalProperties"], schema, f"{prefix}{name}.*.", depth + 1
                )
            if isinstance(each.get("items"), dict):
                yield from paths(each["items"], schema, f"{prefix}{name}[].", depth + 1)


def _resolved(node: Any, schema: dict[str, Any]) -> Any:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def values(part: Any) -> set[str]:
    """The words that a key may have as its value."""
    words = set(map(str, part.get("enum", ())))
    for each in part.get("anyOf", ()):
        words |= values(each)
    return words


def test_every_key_and_value_of_the_schema_is_still_there() -> None:
    """The published schema may grow. What it had, it has."""
    old, new = (
        schema_of(DATA / "schema.json"),
        schema_of(HERE.parents[1] / "docs/hookline.schema.json"),
    )
    now = dict(paths(new, new))
    for path, part in paths(old, old):
        assert path in now
        assert values(part) <= values(now[path]), path


def test_the_files_have_every_key_of_the_schema() -> None:
    """Of the project's file and the user's own: `config show` of them is compared in test_command.py."""
    schema = schema_of(DATA / "schema.json")
    given: set[str] = set()
    for path in ("all_keys/hookline.toml", "all_keys_home/config.toml"):
        given |= set(_given(tomllib.loads((HERE / path).read_text(encoding="utf-8"))))
    known = {path for path, _ in paths(schema, schema) if not path.startswith("agents.*")}
    assert {path for path in known if path not in given} == CODE_ONLY | {"target"}


def _given(data: Any, prefix: str = "") -> Iterator[str]:
    for name, value in data.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _given(value, f"{prefix}{name}.")
            for inner in value.values():
                if isinstance(inner, dict):
                    yield from _given(inner, f"{prefix}{name}.*.")
        elif isinstance(value, list):
            for inner in value:
                if isinstance(inner, dict):
                    yield from _given(inner, f"{prefix}{name}[].")
