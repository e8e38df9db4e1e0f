from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ErrorPolicy
from hookline.errors import (
    BuildError,
    ConnectionLostError,
    HookError,
    HooklineError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
    ScriptExhaustedError,
    ToolArgumentsError,
    ToolError,
    ToolTimeoutError,
    UnknownToolError,
)
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision, classify

ERROR = RuntimeError("x")
STOP, RETRY, IGNORE = ErrorAction.STOP, ErrorAction.RETRY, ErrorAction.IGNORE


def action(policy: ErrorPolicy, error_class: ErrorClass, failures: int = 1) -> ErrorAction:
    """What a policy does about a failure."""
    return policy.decide(error_class, failures, failures, ERROR).action


# --- classes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exception", "error_class"),
    [
        (HookError("size", "before_step", "crashed"), ErrorClass.HOOK),
        (UnknownToolError("no"), ErrorClass.VALIDATION),
        (ToolArgumentsError("no"), ErrorClass.VALIDATION),
        (ToolError("no"), ErrorClass.TOOL),
        (ToolTimeoutError("no"), ErrorClass.TOOL),
        (RateLimitError("no"), ErrorClass.RATE_LIMIT),
        (ModelTimeoutError("no"), ErrorClass.TIMEOUT),
        (ConnectionLostError("no"), ErrorClass.CONNECTION),
        (ModelError("no"), ErrorClass.MODEL),
        (ScriptExhaustedError("no"), ErrorClass.MODEL),
        (TimeoutError("no"), ErrorClass.TIMEOUT),
        (ConnectionResetError("no"), ErrorClass.CONNECTION),
        (HooklineError("no"), ErrorClass.UNKNOWN),
        (ValueError("no"), ErrorClass.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_exception_has_a_class(exception: BaseException, error_class: ErrorClass) -> None:
    """The most specific one: a time-out of the model is a time-out, one of a tool is a tool error."""
    assert classify(exception) is error_class


# --- presets ------------------------------------------------------------------------------------------

PRESETS: dict[str, tuple[ErrorPolicy, dict[str, ErrorAction], ErrorAction]] = {
    "default": (
        ErrorPolicy(),
        {
            "tool": IGNORE,
            "validation": IGNORE,
            "rate_limit": RETRY,
            "timeout": RETRY,
            "connection": RETRY,
            "overloaded": RETRY,
            "malformed": RETRY,
        },
        STOP,
    ),
    "stop_on_any_error": (ErrorPolicy.stop_on_any_error(), {}, STOP),
    "retry_tool_errors": (
        ErrorPolicy.retry_tool_errors(),
        {
            "tool": RETRY,
            "validation": RETRY,
            "rate_limit": RETRY,
            "timeout": RETRY,
            "connection": RETRY,
            "overloaded": RETRY,
            "malformed": RETRY,
        },
        STOP,
    ),
    "retry_all": (ErrorPolicy.retry_all(), {}, RETRY),
}


@pytest.mark.parametrize("error_class", ErrorClass)
@pytest.mark.parametrize("preset", PRESETS)
def test_what_each_preset_does_about_each_class(preset: str, error_class: ErrorClass) -> None:
    """Tool and validation errors go to the model by default; what passes by itself is tried again."""
    policy, actions, otherwise = PRESETS[preset]
    assert action(policy, error_class) is actions.get(error_class, otherwise)


def test_ignoring_tool_errors_is_the_default() -> None:
    """The preset is there to say so."""
    assert ErrorPolicy.ignore_tool_errors() == ErrorPolicy()


@pytest.mark.parametrize("failures", [1, 2, 10, 1000])
def test_what_is_ignored_is_ignored_forever(failures: int) -> None:
    """Only retries and the total have a budget."""
    assert action(ErrorPolicy(), ErrorClass.TOOL, failures) is IGNORE


# --- budgets ------------------------------------------------------------------------------------------


@given(st.integers(0, 20), st.integers(1, 40))
def test_retries_in_a_row_have_a_budget(max_retries: int, failures: int) -> None:
    """So many retries, and one failure more is the end, with the reason."""
    decision = ErrorPolicy.retry_all(max_retries).decide(ErrorClass.MODEL, failures, 1, ERROR)
    if failures <= max_retries:
        assert decision.action is RETRY
    else:
        assert decision == ErrorDecision(STOP, 0.0, f"still failing after {max_retries} retries")


@given(st.sampled_from(ErrorClass), st.integers(0, 10), st.integers(1, 20))
def test_all_errors_of_a_run_have_a_budget(
    error_class: ErrorClass, max_errors: int, errors: int
) -> None:
    """Beyond it every class of error stops the run, also those that are ignored."""
    policy = ErrorPolicy(max_errors=max_errors)
    decision = policy.decide(error_class, 1, errors, ERROR)
    if errors > max_errors:
        assert (decision.action, decision.delay) == (STOP, 0.0)
        assert f"more than {max_errors} errors" in decision.reason
    else:
        assert decision == ErrorPolicy().decide(error_class, 1, errors, ERROR)


# --- back-off -----------------------------------------------------------------------------------------


@given(
    st.floats(0, 100), st.floats(1, 10), st.floats(0, 1000), st.integers(1, 5000), st.integers(1, 9)
)
def test_delays_grow_and_never_beyond_the_longest(
    first: float, factor: float, longest: float, failures: int, more: int
) -> None:
    """The next delay is never shorter, and however often it fails none is longer than allowed."""
    policy = ErrorPolicy(
        otherwise=RETRY,
        actions={},
        max_retries=10_000,
        first_delay=first,
        factor=factor,
        max_delay=longest,
    )
    now = policy.decide(ErrorClass.MODEL, failures, 1, ERROR).delay
    later = policy.decide(ErrorClass.MODEL, failures + more, 1, ERROR).delay
    assert 0 <= now <= later <= longest


def test_delays_are_first_times_factor_to_the_power() -> None:
    """Half a second, one, two, four, ..., sixty."""
    policy = ErrorPolicy.retry_all(10)
    delays = [policy.decide(ErrorClass.MODEL, n, n, ERROR).delay for n in range(1, 10)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_wait_that_the_server_asks_for_is_obeyed() -> None:
    """A rate limit knows better than the back-off, also when it wants longer, within what is allowed."""
    policy = ErrorPolicy()
    asked = policy.decide(ErrorClass.RATE_LIMIT, 1, 1, RateLimitError("slow", retry_after=42.0))
    assert asked == ErrorDecision(RETRY, 42.0)
    long = policy.decide(ErrorClass.RATE_LIMIT, 1, 1, RateLimitError("slow", retry_after=86_400))
    assert long == ErrorDecision(RETRY, 60.0)
    zero = policy.decide(ErrorClass.RATE_LIMIT, 3, 3, RateLimitError("slow", retry_after=0))
    assert zero.delay == 0.0
    silent = policy.decide(ErrorClass.RATE_LIMIT, 1, 1, RateLimitError("slow"))
    assert silent.delay == 0.5


@pytest.mark.parametrize(
    "retry_after", ["Wed, 21 Oct 2025 07:28:00 GMT", -5, math.nan, math.inf, object(), [1]]
)
def test_what_is_no_number_of_seconds_is_passed_over(retry_after: Any) -> None:
    """Exceptions of other libraries have such attributes too; a failure must not fail on them."""
    error = RuntimeError("slow down")
    error.retry_after = retry_after  # type: ignore[attr-defined]
    assert ErrorPolicy().decide(ErrorClass.RATE_LIMIT, 1, 1, error) == ErrorDecision(RETRY, 0.5)


# --- wrong use ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, "3", True, math.nan, None])
@pytest.mark.parametrize(
    "name", ["max_retries", "first_delay", "factor", "max_delay", "max_errors"]
)
def test_a_policy_of_impossible_numbers_is_refused(name: str, value: Any) -> None:
    """When it is made, by name; only the cap on all errors may be off."""
    if (name, value) == ("max_errors", None):
        assert ErrorPolicy(max_errors=None).max_errors is None
        return
    with pytest.raises(BuildError, match=f"error policy: {name}="):
        ErrorPolicy(**{name: value})


def test_classes_and_actions_may_be_named_in_text() -> None:
    """And a name that does not exist is refused with those that do."""
    policy = ErrorPolicy(actions={"model": "retry"}, otherwise="ignore")  # type: ignore[dict-item, arg-type]
    assert action(policy, ErrorClass.MODEL) is RETRY
    assert action(policy, ErrorClass.HOOK) is IGNORE
    for wrong in (
        {"actions": {"modell": "retry"}},
        {"actions": {"model": "again"}},
        {"otherwise": 7},
    ):
        with pytest.raises(BuildError) as caught:
            ErrorPolicy(**wrong)  # type: ignore[arg-type]
        assert "rate_limit" in caught.value.remedy
        assert "retry" in caught.value.remedy
