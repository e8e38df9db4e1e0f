from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookline.playback.replays import Difference
from hookline.playback.text import visible


def test_what_would_steer_a_terminal_is_a_sign() -> None:
    """Text and layout stay as they are."""
    assert visible("a\tb\n\x1b[2J\x00\x7f\x9b é") == "a\tb\n␛[2J␀␡\ufffd é"
    assert visible("half \ud800") == "half ?"


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    """But for the ends of lines, and tabs."""
    shown = visible(text)
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in shown if sign not in "\n\t")


def test_a_difference_in_a_long_text_is_shown_with_the_lines_around_it() -> None:
    """Two hundred lines that are the same tell nothing."""
    then = [f"line {number}" for number in range(200)]
    now = [*then[:100], "another", *then[101:]]
    shown = Difference("run", 0, "the result", "\n".join(then), "\n".join(now)).diff.splitlines()
    assert shown == [
        "...",
        *(f"  line {number}" for number in (97, 98, 99)),
        "- line 100",
        "+ another",
        *(f"  line {number}" for number in (101, 102, 103)),
    ]
