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
    ],
)
def test_an_editor_marks_the_same_mistakes(data: dict[str, object]) -> None:
    """Keys that are not known, words that are none, numbers that are too small."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json_schema())
