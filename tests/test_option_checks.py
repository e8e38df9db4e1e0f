from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from hookline.errors import BuildError, ToolDefinitionError
from hookline.option_checks import check_choice, check_count, check_names, check_positive


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_count("It", "steps", 0), "It: steps=0 is not a whole number of at least 1."),
        (lambda: check_count("It", "steps", True), "steps=True is not a whole number"),
        (lambda: check_count("It", "steps", 1.5), "steps=1.5 is not a whole number"),
        (lambda: check_positive("It", "wait", 0), "It: wait=0 is not a number above 0."),
        (lambda: check_positive("It", "wait", math.inf), "wait=inf is not a number above 0"),
        (lambda: check_positive("It", "wait", 9, most=5), "above 0 and at most 5."),
        (lambda: check_choice("It", "mode", "c", ("a", "b")), "Use 'a' or 'b'."),
        (lambda: check_names("It", "show", "a", '"a"'), 'For example: show=["a"].'),
        (lambda: check_names("It", "show", ["a", 1], '"a"'), "is not a list of names"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_option(
    check: Callable[[], Any], message: str
) -> None:
    """Who, which option, what was given, and what to write."""
    with pytest.raises(BuildError) as caught:
        check()
    assert message in str(caught.value)


def test_a_right_value_is_given_back() -> None:
    """A number of seconds as a float, names as a tuple, the rest as it is."""
    assert check_count("It", "steps", 0, 0) == 0
    assert check_positive("It", "wait", 3) == 3.0
    assert check_choice("It", "mode", "a", ("a", "b")) == "a"
    assert check_names("It", "show", ["a", "b"], '"a"') == ("a", "b")


def test_the_error_is_of_the_kind_that_is_asked_for() -> None:
    """A tool's options are errors in the definition of the tool."""
    with pytest.raises(ToolDefinitionError):
        check_count("tool 'x'", "concurrency", 0, error=ToolDefinitionError)
