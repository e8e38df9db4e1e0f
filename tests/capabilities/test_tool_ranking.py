"""Finding tools by words: what people write finds what they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.capabilities.tool_registry import ranked, words_of
from hookline.state import ToolSpec

SPECS = [
    ToolSpec(name, description, {"type": "object", "properties": {key: {} for key in parameters}})
    for name, description, *parameters in [
        ("mcp__github__create_issue", "Create a new issue in a GitHub repository", "title", "body"),
        ("mcp__github__list_issues", "List issues of a GitHub repository", "state"),
        ("mcp__github__create_pull_request", "Open a pull request", "title", "branch"),
        ("mcp__slack__post_message", "Post a message to a Slack channel", "channel", "text"),
        ("mcp__db__query", "Run a read-only SQL query against the database", "sql"),
        ("getWeatherForecast", "The weather for the next days", "city"),
        ("convert_currency", "Convert an amount of money between currencies", "amount"),
        ("resize_image", "Change the width and height of a picture", "width", "height"),
        ("send_email", "Send an e-mail", "recipient", "subject", "body"),
        ("read_file", "Read a file", "path"),
        ("write_file", "Write a file", "path", "content"),
        ("delete_file", "Delete a file for good", "path"),
    ]
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue", "mcp__github__create_issue"),
        ("creating github issues", "mcp__github__create_issue"),
        ("list_issues", "mcp__github__list_issues"),
        ("pull request", "mcp__github__create_pull_request"),
        ("send a message on slack", "mcp__slack__post_message"),
        ("sql database", "mcp__db__query"),
        ("weather forecast", "getWeatherForecast"),
        ("wether", "getWeatherForecast"),
        ("money", "convert_currency"),
        ("currencies", "convert_currency"),
        ("make a picture smaller, width 100", "resize_image"),
        ("recipient", "send_email"),
        ("READ_FILE", "read_file"),
        ("delete files", "delete_file"),
        ("remove a file for good", "delete_file"),
    ],
)
def test_the_best_comes_first(query: str, first: str) -> None:
    """Names count more than descriptions, rare words more than common ones, and endings and typos do not matter."""
    assert ranked(SPECS, query, 5)[0].name == first


def test_what_has_nothing_to_do_with_it_is_not_found() -> None:
    """No match is an empty answer, and there are never more than asked for."""
    assert ranked(SPECS, "xylophone", 5) == []
    assert ranked(SPECS, "?!", 5) == []
    assert len(ranked(SPECS, "file", 2)) == 2


def test_names_are_split_into_words() -> None:
    """However they are spelled."""
    assert words_of("getHTTPResponse2") == words_of("get_http_response-2")


@given(st.text(max_size=60))
def test_any_query_can_be_answered(query: str) -> None:
    """Whatever a model writes, what is found is a part of what there is, each once, and always the same."""
    found = [spec.name for spec in ranked(SPECS, query, 20)]
    assert len(set(found)) == len(found)
    assert set(found) <= {spec.name for spec in SPECS}
    assert found == [spec.name for spec in ranked(SPECS[::-1], query, 20)]
