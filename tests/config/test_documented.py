"""The settings that the documentation shows are settings, for the command and for editors."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.cli.assembly.capabilities import capability_names
from hookline.cli.config import full_schema
from hookline.config import Layer, json_schema
from hookline.config.layers import check_layer
from hookline.errors import RegistrationError
from hookline.lifecycle import HookPoint, point_named

_DOCS = Path(__file__).parents[2] / "docs"
_SCHEMA = full_schema()
_EDITOR = jsonschema.Draft202012Validator(_SCHEMA)
_POINT = jsonschema.Draft202012Validator(_SCHEMA["$defs"]["HookSettings"]["properties"]["on"])
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
    check_layer(Layer("example", data, text=text))
    _EDITOR.validate(data)


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
        {"hooks": [{"on": "before_tool_uze", "do": "log"}]},
        {"hooks": [{"on": "nobefore_tool_use", "do": "log"}]},
        {"capabilities": {"bsh": {}}},
        {"capabilities": {"bash": {"sandbx": "host"}}},
        {"capabilities": {"bash": {"sandbox": "hosts"}}},
        {"capabilities": {"files": {"read_only": "yes"}}},
        {"capabilities": {"skills": {"commands": True}}},
        {"agents": {"critic": {"capabilities": {"bsh": {}}}}},
    ],
)
def test_an_editor_marks_the_same_mistakes(data: dict[str, object]) -> None:
    """Unknown keys, invalid words, numbers that are too small."""
    with pytest.raises(jsonschema.ValidationError):
        _EDITOR.validate(data)


@pytest.mark.parametrize(
    "data",
    [
        {"hooks": [{"on": "stop", "do": "log"}, {"on": "stop", "run": "a:b"}]},
        {"hooks": [{"on": "stop", "do": "block", "reason": "no"}]},
        {"hooks": [{"on": "stop", "command": ["a"], "env": {"A": "b"}}]},
        {"hooks": [{"on": "stop", "url": "https://x", "headers": {"A": "b"}}]},
        {"mcp": {"x": {"enabled": False}, "y": {"command": "a", "enabled": True}}},
        {"agents": {"critic": {"target": "a.b:c"}}, "target": "a:b"},
        {"capabilities": {"bash": {"sandbox": "auto", "policy": {"allow": ["ls"]}, "timeout": 3}}},
        {"capabilities": {"skills": {"sources": "s"}, "files": {"enabled": False}}},
    ],
)
def test_an_editor_marks_nothing_that_is_right(data: dict[str, object]) -> None:
    """What the command takes, the schema takes."""
    check_layer(Layer("example", data))
    _EDITOR.validate(data)


@given(
    st.sampled_from([*(point.value for point in HookPoint), "PreToolUse", "step-end"]),
    st.sampled_from(["", "on", "on_", "On-"]),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(0, 20),
)
@settings(deadline=None, max_examples=60)
def test_every_spelling_of_a_point_is_known_to_editors(
    name: str, on: str, upper: list[bool], at: int
) -> None:
    """The usual one is offered, and the others pass, as the command takes them."""
    letters = [each.upper() if upper[place % 4] else each for place, each in enumerate(name)]
    spelling = f"{on}{''.join(letters[:at])}-{''.join(letters[at:])}"
    assert point_named(spelling) is point_named(name)
    assert _POINT.is_valid(spelling)


@given(st.sampled_from(list(HookPoint)), st.integers(0, 20))
@settings(deadline=None, max_examples=60)
def test_no_other_name_is(point: Any, at: int) -> None:
    """Neither to editors nor to the command."""
    wrong = point.value[:at] + "qq" + point.value[at:]
    with pytest.raises(RegistrationError):
        point_named(wrong)
    assert not _POINT.is_valid(wrong)


def test_editors_are_offered_the_names() -> None:
    """Of points and capabilities, each with what it is for."""
    on = _SCHEMA["$defs"]["HookSettings"]["properties"]["on"]
    assert on["anyOf"][0]["enum"] == [point.value for point in HookPoint]
    offered = _SCHEMA["$defs"]["AgentSettings"]["properties"]["capabilities"]["properties"]
    assert offered.keys() == capability_names().keys()
    assert all(each["description"] for each in offered.values())


def test_the_schema_is_published() -> None:
    """docs/hookline.schema.json is what scripts/config_schema.py writes, and what `hookline config schema` prints."""
    published = json.loads((_DOCS / "hookline.schema.json").read_text())
    assert published == json.loads(json.dumps(_SCHEMA))
    assert published["$defs"]["HookSettings"]["additionalProperties"] is False


def test_without_names_any_name_will_do() -> None:
    """The configuration itself knows neither points nor capabilities."""
    jsonschema.validate(
        {"hooks": [{"on": "x", "do": "log"}], "capabilities": {"x": {}}}, json_schema()
    )
