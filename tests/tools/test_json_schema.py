from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import ToolArgumentsError, ToolDefinitionError
from hookline.state import freeze_dict
from hookline.tools.json_schema import SchemaArguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"line": {"type": "integer"}, "text": {"$ref": "#/$defs/text"}},
                "required": ["line"],
            },
        },
        "mode": {"enum": ["fast", "safe"]},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"text": {"type": "string", "maxLength": 5}},
}


@pytest.fixture
def check() -> SchemaArguments:
    """The check for the schema above."""
    return SchemaArguments("edit", SCHEMA)


def test_what_fits_is_handed_on_as_it_is(check: SchemaArguments) -> None:
    """The function gets all of it as one changeable dict; hooks see it frozen."""
    validated = check.validate({"path": "a", "edits": [{"line": 1, "text": "x"}]})
    assert validated.values == {"arguments": {"path": "a", "edits": [{"line": 1, "text": "x"}]}}
    validated.values["arguments"]["edits"].append("changed")
    assert len(validated.args["edits"]) == 1


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({}, "'path': missing (expected: string)"),
        ({"path": 5}, "'path': 5 is not of type 'string'"),
        ({"path": "a", "edits": [{}]}, "'edits[0].line': missing (expected: integer)"),
        (
            {"path": "a", "edits": [{"line": 1, "text": "long text"}]},
            "'edits[0].text': 'long text'",
        ),
        ({"path": "a", "mode": "slow"}, "'mode': 'slow' is not one of ['fast', 'safe']"),
        ({"path": "a", "edit": []}, "'edit': unknown (did you mean 'edits'?)"),
        ({"path": "a", "zz": 1}, "'zz': unknown (the arguments are: path, edits, mode)"),
    ],
)
def test_what_does_not_fit_is_explained(
    check: SchemaArguments, args: dict[str, Any], complaint: str
) -> None:
    """With the place and the problem, for a model to act on."""
    with pytest.raises(ToolArgumentsError) as refused:
        check.validate(args)
    assert complaint in str(refused.value)
    assert refused.value.remedy == "Call it again with this corrected."


def test_a_complaint_does_not_repeat_a_whole_file(check: SchemaArguments) -> None:
    """What was given may be long."""
    with pytest.raises(ToolArgumentsError) as refused:
        check.validate({"path": "a", "mode": "x" * 10_000})
    assert len(str(refused.value)) < 500


def test_what_is_no_schema_is_refused() -> None:
    """A tool that comes with one cannot be offered to a model."""
    with pytest.raises(ToolDefinitionError, match="not a JSON schema"):
        SchemaArguments("x", {"type": "objekt"})


def test_nothing_is_fetched_for_a_schema() -> None:
    """A reference to elsewhere is an error of the call, and no request to anywhere."""
    far = SchemaArguments(
        "x", {"type": "object", "properties": {"a": {"$ref": "https://x.invalid/s"}}}
    )
    with pytest.raises(ToolArgumentsError, match="has a reference to something missing"):
        far.validate({"a": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["path", "edits", "mode", "other"]), JSON))
def test_arguments_fit_or_are_refused(args: dict[str, Any]) -> None:
    """Nothing else can happen, and what was let in once is let in again unchanged."""
    check = SchemaArguments("edit", SCHEMA)
    try:
        validated = check.validate(args)
    except ToolArgumentsError:
        return
    assert validated.args == args
    assert check.validate(freeze_dict(args)).args == validated.args
