"""Requests, responses, and what they have used."""

from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.state import (
    NO_USAGE,
    AssistantMessage,
    InferenceRequest,
    InferenceResponse,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

USAGES = st.builds(
    Usage,
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 9),
    st.none() | st.integers(0, 100).map(float),
    st.integers(0, 9),
)


@given(USAGES, USAGES, USAGES)
def test_usage_adds_up_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    """Adding is associative and commutative, and nothing is neutral."""
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert one + NO_USAGE == one


@given(st.lists(USAGES, min_size=1))
def test_a_sum_is_the_sum_of_its_parts(usages: list[Usage]) -> None:
    """Tokens and requests are added field by field."""
    total = reduce(add, usages)
    assert total.total_tokens == sum(usage.total_tokens for usage in usages)
    assert total.requests == sum(usage.requests for usage in usages)


@given(st.lists(USAGES, min_size=1))
def test_an_unknown_cost_is_none_and_not_zero(usages: list[Usage]) -> None:
    """A sum has a cost when some part has one; parts without one do not make it zero."""
    known = [usage.cost for usage in usages if usage.cost is not None]
    assert reduce(add, usages).cost == (sum(known) if known else None)


MESSAGES = (
    UserMessage("2+3?"),
    AssistantMessage("let me see", (ToolCall("1", "add", {"a": 2}),)),
    ToolMessage("1", "add", "5"),
)


def test_a_request_shows_its_text() -> None:
    """System prompt, messages and calls, one line each."""
    request = InferenceRequest(MESSAGES, "Be brief.")
    assert str(request).splitlines() == [
        "system: Be brief.",
        "user: 2+3?",
        'assistant: let me see add({"a":2})',
        "tool add: 5",
    ]
    assert str(InferenceRequest()) == ""


def test_a_changed_request_leaves_the_first_as_it_is() -> None:
    """Each `with_` changes one thing."""
    spec = ToolSpec("add", "Add.", {"type": "object"})
    first = InferenceRequest(MESSAGES)
    changed = (
        first.with_messages(MESSAGES[:1])
        .with_system("Be kind.")
        .with_tools((spec,))
        .with_model("small")
        .with_options(temperature=0)
        .with_options(top_p=1)
        .with_tool_choice("add")
        .with_output_schema({"type": "object"})
    )
    assert first == InferenceRequest(MESSAGES)
    assert (changed.messages, changed.system) == (MESSAGES[:1], "Be kind.")
    assert (changed.tools, changed.model) == ((spec,), "small")
    assert changed.options == {"temperature": 0, "top_p": 1}
    assert (changed.tool_choice, changed.output_schema) == ("add", {"type": "object"})


def test_a_changed_response_leaves_the_first_as_it_is() -> None:
    """Text and calls can be replaced."""
    first = InferenceResponse("5", (ToolCall("1", "add"),))
    assert first.with_text("6") == InferenceResponse("6", (ToolCall("1", "add"),))
    assert first.with_calls() == InferenceResponse("5")
    assert first.text == "5"
