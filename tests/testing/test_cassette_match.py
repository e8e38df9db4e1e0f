from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hookline.testing.cassette_file import RecordedRequest
from hookline.testing.cassette_match import differences, explained, is_same
from hookline.testing.secrets import SCRUBBED

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def asked(body: Any, path: str = "/v1/ask", method: str = "POST") -> RecordedRequest:
    """A request."""
    return RecordedRequest(method, path, body)


def told(recorded: Any, now: Any) -> list[str]:
    """What differs, in words."""
    return [str(each) for each in differences(asked(recorded), asked(now))]


@given(VALUES)
def test_a_request_is_the_same_as_itself(body: Any) -> None:
    """Whatever is in it."""
    assert is_same(asked(body), asked(body))


@given(VALUES, VALUES)
def test_requests_with_other_bodies_are_others(one: Any, other: Any) -> None:
    """Except for numbers that are equal, and truth is no number."""
    if repr(one) != repr(other) and one != other:
        assert not is_same(asked(one), asked(other))
    assert not is_same(asked([1, one]), asked([True, one]))


def test_the_order_of_fields_does_not_matter() -> None:
    """The order of items does."""
    assert is_same(asked({"a": 1, "b": [1.0]}), asked({"b": [1], "a": 1}))
    assert not is_same(asked([1, 2]), asked([2, 1]))


def test_method_and_path_count() -> None:
    """With the query that is in it."""
    assert not is_same(asked({}), asked({}, method="GET"))
    assert not is_same(asked({}, "/v1/ask?alt=sse"), asked({}))


def test_differences_name_their_place() -> None:
    """As one would write it in code, and from where two texts part."""
    long = "the same words over and over again, " * 3
    assert told(
        {"messages": [{"content": f"{long}and Hello!"}], "n": 1, "old": None},
        {"messages": [{"content": f"{long}and Hallo!"}, {"role": "user"}], "n": "1", "new": [2]},
    ) == [
        'messages[0].content: recorded "…er and over again, and Hello!", '
        'asked "…er and over again, and Hallo!"',
        'messages[1]: recorded nothing, asked {"role": "user"}',
        'n: recorded 1, asked "1"',
        "old: recorded null, asked nothing",
        "new: recorded nothing, asked [2]",
    ]
    assert told("text", {"a": 1}) == ['body: recorded "text", asked {"a": 1}']


@given(st.lists(st.text("ab"), min_size=1, max_size=4), st.lists(st.text("abc"), max_size=4))
def test_anything_may_stand_for_what_was_scrubbed(parts: list[str], fillings: list[str]) -> None:
    """The secret is another one by now, or none."""
    recorded = SCRUBBED.join(parts)
    filled = parts[0]
    for number, part in enumerate(parts[1:]):
        filled += (fillings[number] if number < len(fillings) else "") + part
    assert is_same(asked(recorded), asked(filled))


def test_what_stands_around_it_must_be_the_same() -> None:
    """In its order, and without one part serving for two."""
    key = f"my key {SCRUBBED}, your key {SCRUBBED}."
    assert is_same(asked(key), asked("my key a, your key b."))
    assert not is_same(asked(key), asked("my key a, your key b"))
    assert not is_same(asked(key), asked("your key b, my key a."))
    assert not is_same(asked(f"aa{SCRUBBED}aa"), asked("aaa"))


def test_ids_that_are_made_up_anew_do_not_matter() -> None:
    """A provider makes one for a call that came without."""
    one, other = f"hookline-{'0a' * 16}", f"hookline-{'f7' * 16}"
    assert is_same(asked({"id": one}), asked({"id": other}))
    assert not is_same(asked({"id": one}), asked({"id": "call_1"}))


def test_the_nearest_request_is_explained() -> None:
    """With its place in the recording; of many differences the first few."""
    recorded = [asked({"a": 1, "b": 2}), asked(dict.fromkeys("abcdefgh", 1))]
    assert explained(recorded, {0}, asked({"a": 1, "b": 3})) == (
        "the nearest, request 1 of 2 (played already), differs:\n  b: recorded 2, asked 3\n "
    )
    assert "\n  and 3 more\n" in explained(recorded, (), asked(dict.fromkeys("abcdefgh", 7)))
    assert explained([], (), asked({})) == "nothing is recorded."
