"""The settings that the documentation shows are settings, for the command and for editors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from hookline.config import Layer, checked, json_schema

_DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXAMPLES = [
    pytest.param(text, id=f"{path.relative_to(_DOCS)}-{number}")
    for path in sorted(_DOCS.rglob("*.md"))
    for number, text in enumerate(_BLOCK.findall(path.read_text(encoding="utf-8")))
]


def test_there_are_examples() -> None:
    """They are found at all."""
    assert len(_EXAMPLES) >= 3


@pytest.mark.parametrize("text", _EXAMPLES)
def test_an_example_is_what_it_says(text: str) -> None:
    """The command takes it, and the published schema does not object."""
    data = tomllib.loads(text)
    data = data.get("tool", {}).get("hookline", data)
    checked(Layer("example", data, text=text))
    jsonschema.validate(data, json_schema())


@pytest.mark.parametrize(
    "data",
    [
        {"modle": "x"},
        {"limits": {"stesp": 1}},
        {"limits": {"steps": -1}},
        {"approvals": {"mode": "plna"}},
        {"hooks": [{"do": "log"}]},
        {"hooks": [{"on": "stop", "do": "explode"}]},
        {"agents": {"a": {"modle": "x"}}},
        {"dialects": ["claud"]},
        {"hooks": [{"on": "stop"}]},
        {"hooks": [{"on": "stop", "do": "log", "command": "x"}]},
        {"hooks": [{"on": "stop", "do": "block"}]},
        {"hooks": [{"on": "stop", "do": "block", "reason": ""}]},
        {"hooks": [{"on": "stop", "run": "nocolon"}]},
        {"hooks": [{"on": "stop", "url": "ftp://x"}]},
        {"hooks": [{"on": "stop", "url": "https://x", "tier": "policy"}]},
        {"hooks": [{"on": "stop", "run": "a:b", "reason": "x"}]},
        {"mcp": {"x": {}}},
        {"mcp": {"x": {"command": "a", "url": "http://x"}}},
        {"agents": {"critic": {"target": "x"}}},
    ],
)
def test_an_editor_marks_the_same_mistakes(data: dict[str, object]) -> None:
    """Keys that are not known, words that are none, numbers that are too small."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json_schema())


@pytest.mark.parametrize(
    "data",
    [
        {"hooks": [{"on": "stop", "do": "log"}, {"on": "stop", "run": "a:b"}]},
        {"hooks": [{"on": "stop", "do": "block", "reason": "no"}]},
        {"hooks": [{"on": "stop", "command": ["a"], "env": {"A": "b"}}]},
        {"hooks": [{"on": "stop", "url": "https://x", "headers": {"A": "b"}}]},
        {"mcp": {"x": {"enabled": False}, "y": {"command": "a", "enabled": True}}},
        {"agents": {"critic": {"target": "a.b:c"}}, "target": "a:b"},
    ],
)
def test_an_editor_marks_nothing_that_is_right(data: dict[str, object]) -> None:
    """What the command takes, the schema takes."""
    checked(Layer("example", data))
    jsonschema.validate(data, json_schema())
