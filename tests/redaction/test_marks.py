"""Marks, and what may be behind one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.redaction import Redactor, has_mark, hides_only_words

MARK = "[redacted:secret]"


@pytest.mark.parametrize(
    ("args", "shown", "is_readable"),
    [
        ({"command": "A=x ls"}, {"command": f"A={MARK} ls"}, True),
        ({"command": "A=x B=y ls"}, {"command": f"A={MARK} B={MARK} ls"}, True),
        ({"command": "A=p@ss$word-1 ls"}, {"command": f"A={MARK} ls"}, True),
        ({"command": "A=x;id ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=x id ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=$(id) ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=`id` ls"}, {"command": f"A={MARK} ls"}, False),
        ({"command": "A=x\nid"}, {"command": f"A={MARK}"}, False),
        ({"command": "id"}, {"command": MARK}, True),
        ({"command": "id; ls"}, {"command": MARK}, False),
        ({"password": "two words; and more"}, {"password": MARK}, True),
        ({"env": {"TOKEN": "x1"}}, {"env": {"TOKEN": MARK}}, True),
        ({"env": {"TOKEN": "x 1"}}, {"env": {"TOKEN": MARK}}, False),
        ({"argv": ["a", "b"]}, {"argv": ["a", MARK]}, True),
        ({"argv": ["a", "b"]}, {"argv": [MARK]}, False),
        ({"pin": 1234}, {"pin": MARK}, True),
        ({"a": "x"}, {}, False),
        ({"a": "xy"}, {"a": "zy"}, False),
    ],
)
def test_a_mark_stands_for_one_word(
    args: dict[str, Any], shown: dict[str, Any], is_readable: bool
) -> None:
    """Who reads the marks has read all that can run."""
    assert hides_only_words(args, shown) is is_readable


@given(st.lists(st.text("ab=;$(' ", max_size=6), min_size=1, max_size=6))
def test_what_is_hidden_can_be_put_back(parts: list[str]) -> None:
    """If a text counts as readable, words in the places of the marks make it what it is."""
    text = "x".join(parts)
    shown = text.replace("a", MARK)
    if hides_only_words({"command": text}, {"command": shown}) and text != shown:
        hidden = text.split("a")
        assert shown.split(MARK) == hidden


def test_marks_are_found_at_any_depth() -> None:
    """In values, lists and objects."""
    assert has_mark({"a": [{"b": f"x {MARK}"}]})
    assert not has_mark({"a": ["[redacted]", 1, None], MARK: 2})


@given(st.text("ab \n", max_size=20), st.integers(0, 40))
def test_a_secret_is_found_though_it_comes_in_two_pieces(around: str, cut: int) -> None:
    """Nothing of it is in the second piece, wherever it is cut."""
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    text = f"{around} {token} {around}"
    place = len(around) + 1 + cut
    shown = Redactor().text(text[place:], before=text[:place])
    assert shown == ("[redacted:github-token]" if cut < len(token) else "") + f" {around}"
