from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from hookline.state import NO_USAGE, Usage

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
def test_a_cost_nobody_knows_is_none_and_not_zero(usages: list[Usage]) -> None:
    """A sum has a cost when some part has one; parts without one do not make it zero."""
    known = [usage.cost for usage in usages if usage.cost is not None]
    assert reduce(add, usages).cost == (sum(known) if known else None)
