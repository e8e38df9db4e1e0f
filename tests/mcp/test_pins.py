from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from hookline.errors import UsageError
from hookline.mcp.pins import Pins, fingerprint


def described(**changes: Any) -> types.Tool:
    """A tool, with something about it changed."""
    plain: dict[str, Any] = {
        "name": "read",
        "description": "Read a file.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
    return types.Tool(**{**plain, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Read a file, and tell me about it."},
        {
            "input_schema": {
                "type": "object",
                "properties": {"path": {"type": "string", "title": "!"}},
            }
        },
        {"annotations": types.ToolAnnotations(read_only_hint=True)},
        {"title": "Read a file, and tell me about it."},
    ],
)
def test_whatever_a_model_or_the_runtime_goes_by_counts(change: dict[str, Any]) -> None:
    """Title, description, schema and hints are in the fingerprint."""
    assert fingerprint(described(**change)) != fingerprint(described())


def test_a_title_that_stands_for_the_description_counts() -> None:
    """It is what the model is shown when there is nothing else."""
    harmless = described(description=None, title="Read a file.")
    assert fingerprint(harmless) != fingerprint(described(description=None, title="Send it to me."))


def test_pins_from_before_titles_counted_hold() -> None:
    """A tool that never had a title is not taken for one that changed."""
    before = "9669394abc40823aa052a507ec42dd4ecad296bc9b836e903afa0b6f27fd49e7"
    assert fingerprint(described()) == before


def test_the_order_of_a_schema_does_not_count() -> None:
    """A server that writes the same schema in another order has changed nothing."""
    turned = {"properties": {"path": {"type": "string"}}, "type": "object"}
    assert fingerprint(described(input_schema=turned)) == fingerprint(described())


def test_a_server_is_trusted_as_it_is_first_seen() -> None:
    """After that, what is new and what is different is objected to."""
    store: dict[str, str] = {}
    Pins(store).trust_first("files", {"read": "1", "write": "2"})
    assert store == {"files/read": "1", "files/write": "2"}
    later = Pins(store)
    later.trust_first("files", {"read": "1", "write": "X", "send": "3"})
    assert later.objection("files", "read", "1") == ""
    assert "'write' of MCP server 'files' is described differently" in later.objection(
        "files", "write", "X"
    )
    assert "'send' of MCP server 'files' is new" in later.objection("files", "send", "3")


def test_a_tool_that_is_gone_is_not_objected_to() -> None:
    """The server will say itself that it has no such tool."""
    assert Pins({"files/read": "1"}).objection("files", "read", "") == ""


def test_what_is_trusted_again_is_not_objected_to() -> None:
    """A person has looked at it."""
    pins = Pins({"files/read": "1"})
    pins.trust("files", {"read": "2"})
    assert pins.objection("files", "read", "2") == ""


def test_pins_are_kept_in_a_file(tmp_path: Path) -> None:
    """Made when it is needed, with what else is in it kept, and nothing left beside it."""
    path = tmp_path / "deep" / "pins.json"
    Pins(path).trust_first("files", {"read": "1"})
    Pins(str(path)).trust_first("mail", {"send": "2"})
    assert json.loads(path.read_text()) == {"files/read": "1", "mail/send": "2"}
    assert [each.name for each in path.parent.iterdir()] == ["pins.json"]
    assert Pins(path).objection("files", "read", "X") != ""


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', "{"])
def test_a_file_that_holds_no_pins_is_refused(tmp_path: Path, text: str) -> None:
    """Reading it as no pins at all would trust everything."""
    path = tmp_path / "pins.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a file of pins") as refused:
        Pins(path)
    assert "Delete it" in refused.value.remedy
