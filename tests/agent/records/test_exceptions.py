from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import errors
from hookline.agent.records.exceptions import recorded_exception
from hookline.errors import HookError, RateLimitError, ToolError
from hookline.flow import ErrorClass, classify
from hookline.state import ErrorInfo

OF_MODELS = [kind for kind in ErrorClass if kind not in ("tool", "hook", "unknown")]
names = st.sampled_from(
    [
        "ValueError",
        "KeyError",
        "UnicodeDecodeError",
        "SystemExit",
        "OSError",
        "hookline.errors.RateLimitError",
        "hookline.errors.ToolTimeoutError",
        "hookline.errors.HookError",
        "asyncio.exceptions.CancelledError",
        "some.library.module.Strange",
    ]
)


@given(name=names, words=st.text(), kind=st.sampled_from([*OF_MODELS, ErrorClass.TOOL]))
def test_an_error_has_the_name_the_words_and_the_class_it_had(
    name: str, words: str, kind: ErrorClass
) -> None:
    """So that what is recorded of it again is what was recorded of it then."""
    info = ErrorInfo(name, words, kind)
    error = recorded_exception(info)
    assert ErrorInfo.from_exception(error, kind) == info
    assert kind is ErrorClass.TOOL or classify(error) is kind


@pytest.mark.parametrize(
    ("info", "base"),
    [
        (ErrorInfo("ValueError", "no", "tool"), ValueError),
        (ErrorInfo("hookline.errors.RateLimitError", "slow", "rate_limit"), RateLimitError),
        (ErrorInfo("their.RateLimit", "slow", "rate_limit"), RateLimitError),
        (ErrorInfo("their.Error", "no", "tool"), ToolError),
        (ErrorInfo("KeyError", "'x'", "model"), errors.ModelError),
        (ErrorInfo("their.Error", "no", "unknown"), Exception),
    ],
)
def test_an_error_is_of_a_kind_that_hooks_know(info: ErrorInfo, base: type[Exception]) -> None:
    """Its own, where that is a builtin or ours; else one of its class."""
    assert isinstance(recorded_exception(info), base)


def test_the_failure_of_a_hook_names_the_hook_again() -> None:
    """A run that failed of it says who it was."""
    first = HookError("size", "after_step", "ValueError: no", remedy="Mend it.")
    again = recorded_exception(ErrorInfo.from_exception(first, ErrorClass.HOOK))
    assert isinstance(again, HookError)
    assert (again.hook, again.point, str(again)) == ("size", "after_step", str(first))
