"""Files of a repository that are made to be slow to read. They are read before anybody trusts them."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.command_hooks.dialects.config_files import load_file
from hookline.command_hooks.dialects.copilot import words_in

LARGE = 1 << 20
"""Letters. An expression that searches from each find to the end would need hours for these, and never end."""


@pytest.mark.parametrize(
    "words",
    ["resultType\n", "'failure' ", "JSON.parse(", "json.loads(toolArg", "toolArgs ", "toolArgs |"],
)
def test_a_script_that_repeats_a_word_is_read_once(stage: Any, words: str) -> None:
    """However often a word is in it of which the other half is missing."""
    entry = {"type": "command", "bash": "./x.sh"}
    stage.file("x.sh", words * (LARGE // len(words)))
    stage.file(".github/hooks/a.json", {"version": 1, "hooks": {"postToolUse": [entry]}})
    assert [handler.event for handler in stage.discover().handlers] == ["postToolUse"]


@pytest.mark.parametrize(
    ("begins", "words", "ends"),
    [("{", "/* ", ""), ('{"', '\\"', ""), ('{"', '\\"', "\\"), ("{", ", ", "")],
)
def test_settings_with_something_that_is_never_closed_are_read_once(
    stage: Any, begins: str, words: str, ends: str
) -> None:
    """A comment, a text, and commas after nothing."""
    path = stage.root / "settings.json"
    path.write_text(begins + words * (LARGE // len(words)) + ends)
    messages: list[str] = []
    assert load_file(path, messages.append) == {}
    assert "not valid JSON" in messages[0]


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ('"failure" then resultType', True),
        ("resultType == 'failure'", True),
        ("resultType", False),
        ("'failure'", False),
    ],
)
def test_a_script_looks_for_failures_by_both_words(text: str, looks: bool) -> None:
    """In whichever order they are."""
    assert ("results that are failures" in words_in(text)) is looks
