"""Cassettes and pins that an earlier version wrote are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from file_cases import play_cassette, with_pins
from recorded import DATA

from hookline import RunStatus


def test_a_cassette_answers_as_it_did(tmp_path: Path) -> None:
    """A failure, a stream with a call, and a stream with text; every request is recognised."""
    path = Path(shutil.copy(DATA / "cassette.json", tmp_path))
    result = play_cassette(path)
    assert (result.status, result.text, result.state.step_count) == (
        RunStatus.COMPLETED,
        "The sky.",
        2,
    )
    assert path.read_bytes() == (DATA / "cassette.json").read_bytes()


def test_pinned_tools_are_not_asked_about(tmp_path: Path) -> None:
    """What a server says about its tools has the hash that it had."""
    path = Path(shutil.copy(DATA / "pins.json", tmp_path))
    result = with_pins(path)
    assert [made.text for made in result.steps[0].results] == ["again: a", "again: b"]
    assert path.read_bytes() == (DATA / "pins.json").read_bytes()


def test_a_tool_with_another_pin_is_asked_about(tmp_path: Path) -> None:
    """The pins are not just read, they count."""
    pins = json.loads((DATA / "pins.json").read_text(encoding="utf-8"))
    path = tmp_path / "pins.json"
    path.write_text(json.dumps({**pins, "plain/keep": "0" * 64}))
    result = with_pins(path)
    assert [each.tool_call.name for each in result.pending] == ["mcp__plain__keep"]
