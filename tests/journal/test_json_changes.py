"""What has changed between two values of JSON makes the new one of the old one, to the byte."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.journal.json_changes import apply_changes, find_changes

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 0.0, -0.0, 1.0]),
    st.text(max_size=3),
    st.sampled_from(["{", '{"a":1}', '{"a" : 1}', '{"a":1,"a":2}', '{"\ud800', "[1]"]),
)
KEYS = st.sampled_from("abcd01") | st.text(max_size=2)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Arrays, objects, and objects as text."""
    objects = st.dictionaries(KEYS, inner, max_size=4)
    return st.one_of(st.lists(inner, max_size=4), objects, objects.map(text_of))


def text_of(value: Any) -> Any:
    """JSON as a saved state has it in a text; half of a surrogate pair cannot be in it."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return "half"


VALUES = st.lists(st.recursive(SCALARS, nested, max_leaves=20), max_size=4)


@given(old=VALUES, new=VALUES)
def test_changes_make_the_new_value_of_the_old_one(old: list[Any], new: list[Any]) -> None:
    """Also after they were stored, with the kinds of numbers and the order of keys."""
    changes = find_changes(old, new)
    with suppress(UnicodeEncodeError):
        changes = msgspec.json.decode(msgspec.json.encode(changes))
    assert repr(apply_changes(old, changes)) == repr(new)
    assert find_changes(new, new) == {}


@pytest.mark.parametrize("levels", [60, 70, 480, 700, 900, 5_000])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_a_text_may_be_nested_as_deep_as_it_likes(opens: str, closes: str, levels: int) -> None:
    """A model may have written it. What lies deep changes as a whole."""
    deep = f'{{"a":{opens * levels}1{closes * levels}}}'
    other = f'{{"a":{opens * levels}2{closes * levels}}}'
    changes = find_changes([deep, deep, "x"], [deep, other, "y"])
    assert apply_changes([deep, deep, "x"], changes) == [deep, other, "y"]


def test_only_what_is_new_is_in_the_changes() -> None:
    """At any depth, also where an object is in a text in a text."""
    grandchild = text_of({"messages": ["one"], "pending": None})
    child = text_of({"state": grandchild, "status": "paused"})
    later = text_of({"messages": ["one", "two"], "pending": None})
    grown = text_of({"state": later, "status": "paused"})
    changes = find_changes([None, {"k": child}], [None, {"k": grown}])
    assert changes == {"1": {"k": {"state": {"messages": {"1": ["two"]}}}}}


@pytest.mark.parametrize("changes", [{"9": {"a": [1]}}, {"0": {"a": {"b": []}}}, {"0": 5, "1": []}])
def test_changes_in_what_is_not_there_are_no_error(changes: dict[str, Any]) -> None:
    """One record may be read without those before it."""
    apply_changes([], changes)
    apply_changes(["{", None], changes)
